//! Man pages and shell completions, made from the same description as `--help`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap_complete::Shell;

use crate::output;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless completions bash > /usr/share/bash-completion/completions/seekless
  seekless completions zsh > \"${fpath[1]}/_seekless\"
  seekless completions fish > ~/.config/fish/completions/seekless.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write man pages, one a command, into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless man /usr/local/share/man/man1
  man seekless-serve")]
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
