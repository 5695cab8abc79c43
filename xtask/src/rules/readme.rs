//! The two commands that the README opens with are the ones that `.ci/run` runs, to the letter.

use crate::repo::{Finding, Repo};

const README: &str = "README.md";
const CI: &str = ".ci/run";

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let Some(readme) = repo.text(README) else {
        return vec![Finding::new(README, "is missing")];
    };
    let Some(ci) = repo.text(CI) else {
        return vec![Finding::new(CI, "is missing")];
    };
    let commands = commands(readme);
    if commands.len() < 2 {
        let text = "must show two commands that begin with `cargo`, in a code block";
        return vec![Finding::new(README, text)];
    }
    commands[..2]
        .iter()
        .filter(|command| !ci.lines().any(|l| runs(l, command)))
        .map(|command| Finding::new(CI, format!("must run `{command}`, as {README} shows it")))
        .collect()
}

/// Whether a line of the script is a step that runs the command.
fn runs(line: &str, command: &str) -> bool {
    !line.trim_start().starts_with('#')
        && line.trim_end().strip_suffix(command).is_some_and(|l| l.ends_with(' ') || l.is_empty())
}

/// The lines of fenced code blocks that run cargo, a trailing comment aside, each once, in order.
fn commands(markdown: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            let line = line.trim().trim_start_matches("$ ");
            let line = line.split(" #").next().unwrap_or("").trim_end();
            if line.starts_with("cargo ") && !found.contains(&line) {
                found.push(line);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# x\n`cargo no`\ncargo neither\n```sh\n$ cargo run --release -- demo   # a minute\n\
                        ```\nand\n```\ncargo test --workspace\ncargo later\n```\n";

    #[test]
    fn the_first_two_commands_are_read() {
        assert_eq!(commands(TEXT)[..2], ["cargo run --release -- demo", "cargo test --workspace"]);
    }

    #[test]
    fn a_script_out_of_step_is_found() {
        let of = |readme: &str, ci: &str| check(&Repo::of(&[(README, readme), (CI, ci)])).len();
        let ci =
            "step test cargo test --workspace\nstep demo timeout 300 cargo run --release -- demo\n";
        assert_eq!(of(TEXT, ci), 0);
        assert_eq!(of(TEXT, &ci.replace("--workspace", "--workspace --locked")), 1);
        assert_eq!(of(TEXT, &ci.replace("step demo", "# step demo")), 1);
        assert_eq!(of(TEXT, ""), 2);
        assert_eq!(of("# x\n", ci), 1);
        assert_eq!(check(&Repo::of(&[(CI, ci)])).len(), 1);
        assert_eq!(check(&Repo::of(&[(README, TEXT)])).len(), 1);
    }
}
