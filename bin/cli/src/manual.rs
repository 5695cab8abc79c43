//! Man pages and shell completions, made from the same description as `--help`.

use std::any::TypeId;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::Context as _;
use clap_complete::Shell;

use crate::output;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write a man page for each command into a folder
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The folder, made if absent; pages of the same names are replaced
    dir: PathBuf,
}

/// Prints completions of `command` for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    output::print(&String::from_utf8(text)?)
}

/// Writes the man pages of `command`.
///
/// # Errors
/// A page cannot be written.
pub fn man(args: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    let dir = args.dir.display();
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {dir}"))?;
    clap_mangen::generate_to(command, &args.dir)
        .with_context(|| format!("cannot write man pages into {dir}"))
}

/// The arguments of each call of this program in the examples of its helps, and the commands without
/// such an example: for tests.
pub fn examples(program: &clap::Command) -> (Vec<Vec<String>>, Vec<String>) {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    let name = program.get_name().to_owned();
    let mut commands = vec![(name.clone(), program)];
    while let Some((path, command)) = commands.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, text) = help.split_once("Examples:\n").unwrap_or_default();
        let before = found.len();
        let parts = text.split("\n\n").take_while(|part| part.starts_with("  "));
        for line in parts.flat_map(str::lines).filter(|l| !l.trim_start().starts_with('#')) {
            for part in line.split(['|', ';', '&', '>']) {
                let part = part.split("   then").next().unwrap_or_default();
                let mut words = part.split_whitespace().skip_while(|w| w.contains('='));
                if words.next() == Some(&name) {
                    let own = words.map(|w| w.trim_matches('\'').to_owned());
                    found.push([name.clone()].into_iter().chain(own).collect());
                }
            }
        }
        if found.len() == before {
            without.push(path.clone());
        }
        let below = command.get_subcommands().filter(|c| c.get_name() != "help");
        commands.extend(below.map(|c| (format!("{path} {}", c.get_name()), c)));
    }
    (found, without)
}

/// The options of this program that take a number and answer another word without an example, as
/// `COMMAND --OPTION`: for tests. The second value counts the options that take a number.
pub fn unexplained_numbers(program: &clap::Command) -> (Vec<String>, usize) {
    let types = [TypeId::of::<u8>(), TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>()]
        .into_iter()
        .chain([TypeId::of::<usize>(), TypeId::of::<f64>(), TypeId::of::<NonZero<usize>>()]);
    let types: Vec<TypeId> = types.collect();
    let (mut unexplained, mut numbers) = (Vec::new(), 0);
    let mut commands = vec![vec![program]];
    while let Some(path) = commands.pop() {
        let [.., command] = path[..] else { continue };
        let names: Vec<&str> = path.iter().map(|c| c.get_name()).collect();
        for option in command.get_opts().filter_map(|o| {
            let is_number = types.iter().any(|t| o.get_value_parser().type_id() == *t);
            o.get_long().filter(|_| is_number)
        }) {
            numbers += 1;
            let wrong = names.iter().map(ToString::to_string).chain([format!("--{option}=1x")]);
            let answer = program.clone().try_get_matches_from(wrong).err().map(|e| e.to_string());
            if !answer.is_some_and(|a| a.contains(": expected ") && a.contains(", for example ")) {
                unexplained.push(format!("{} --{option}", names.join(" ")));
            }
        }
        commands.extend(command.get_subcommands().map(|below| [&path[..], &[below]].concat()));
    }
    (unexplained, numbers)
}
