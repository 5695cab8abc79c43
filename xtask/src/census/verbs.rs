//! Verbs and flags of a program, as its `--help` lists them.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};

/// What a program offers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verbs {
    program: String,
    /// Commands that do something: no command of theirs follows. `help` is none.
    verbs: usize,
    /// Of these, those of the first level.
    first: usize,
    /// Options that begin with `--`, each counted once for each command that has it; `--help` and
    /// `--version` are none.
    flags: usize,
    /// The three commands with most flags.
    most: Vec<(usize, String)>,
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most: Vec<_> = self.most.iter().map(|(n, name)| format!("{name} {n}")).collect();
        write!(
            f,
            "{}: {} commands, {} at the first level, {} flags; most: {}",
            self.program,
            self.verbs,
            self.first,
            self.flags,
            most.join(", ")
        )
    }
}

/// Asks a program and all of its commands for help.
pub(super) fn count(program: &str) -> Result<Verbs> {
    let mut found = Verbs { program: program.to_owned(), ..Verbs::default() };
    let mut left = vec![Vec::<String>::new()];
    while let Some(path) = left.pop() {
        let help = help(program, &path)?;
        let commands = commands(&help);
        let flags = flags(&help);
        found.flags += flags;
        found.most.push((flags, path.join(" ")));
        if path.is_empty() {
            found.first = commands.len();
        } else if commands.is_empty() {
            found.verbs += 1;
        }
        left.extend(commands.into_iter().map(|c| [path.clone(), vec![c]].concat()));
    }
    found.most.sort_by(|a, b| b.cmp(a));
    found.most.truncate(3);
    Ok(found)
}

fn help(program: &str, path: &[String]) -> Result<String> {
    let output = Command::new(program)
        .args(path)
        .arg("--help")
        .output()
        .with_context(|| format!("could not run `{program}`"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The names below a heading `Commands:`; indented by two, their texts by more.
fn commands(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    below
        .take_while(|l| l.is_empty() || l.starts_with(' '))
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn flags(help: &str) -> usize {
    let begins = |l: &&str| {
        let option = l.trim_start();
        l.starts_with("  ")
            && !l.starts_with("          ")
            && (option.starts_with("--") || option.starts_with('-') && option.contains(", --"))
            && !option.contains("--help")
            && !option.contains("--version")
    };
    help.lines().filter(begins).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Does.\n\nUsage: x <COMMAND>\n\nCommands:\n  run   Runs,\n        and more\n  stop  Stops\n  help  Helps\n\n\
                        Options:\n      --size <SIZE>\n          How large; --force is another\n  -q, --quiet  Quiet\n  -h, --help  Print help\n";

    #[test]
    fn help_is_read() {
        assert_eq!(commands(HELP), ["run", "stop"]);
        assert_eq!(flags(HELP), 2);
        assert!(commands("Usage: x\n").is_empty());
    }
}
