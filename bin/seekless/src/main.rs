//! The command line for people who have disks: parses arguments, calls one function, prints.

mod adopt;
mod advise;
mod advise_report;
mod convert;
mod demo;
mod disk;
mod files;
mod policies;
mod record;
mod serve;
mod simulate;
mod simulate_report;
mod stat;
mod stat_heat;
mod stat_report;
mod stat_tables;
mod top;
mod volume;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use seekless_cli::{manual, output};

/// Make a hard disk seek less: learn how far to read ahead, and answer reads from copies that lie
/// in the order of use
#[derive(Debug, Parser)]
#[command(name = "seekless", version, max_term_width = 100, after_help = help_end())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn help_end() -> String {
    format!(
        "Examples:\n  seekless demo\n  seekless advise /dev/sdb --for 1h\n  seekless adopt /dev/sdb1 --area /var/lib/seekless/sdb1.area\n\n{}",
        output::STATUS
    )
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Record(record::Args),
    Stat(stat::Args),
    Advise(advise::Args),
    Simulate(simulate::Args),
    Convert(convert::Args),
    Adopt(adopt::AdoptArgs),
    Release(adopt::ReleaseArgs),
    Serve(Box<serve::Args>),
    Top(top::Args),
    Watch(watch::Args),
    /// A volume and its area: make, inspect, control, check, repair, remove
    #[command(
        subcommand,
        after_help = "\
Examples:
  seekless volume format disk.img --at disk.area
  seekless volume status /dev/sdb"
    )]
    Volume(volume::Args),
    /// A directory whose small files are kept in groups: mount, inspect, unmount
    #[command(
        subcommand,
        after_help = "\
Examples:
  seekless files mount /srv/www /srv/www --store /var/lib/seekless/www.groups --create 1GiB
  seekless files unmount /srv/www"
    )]
    Files(files::Args),
    /// Models of disks and other devices: list, fit to measurements, compare, emulate in real time
    #[command(
        subcommand,
        after_help = "\
Examples:
  seekless disk list
  seekless disk probe /dev/sdb --budget 60s -o sdb.toml"
    )]
    Disk(disk::Args),
    Policies(policies::Args),
    #[command(after_help = "\
Examples:
  seekless completions bash > /usr/share/bash-completion/completions/seekless
  seekless completions zsh > \"${fpath[1]}/_seekless\"
  seekless completions fish > ~/.config/fish/completions/seekless.fish")]
    Completions(manual::CompletionsArgs),
    #[command(after_help = "\
Examples:
  seekless man /usr/local/share/man/man1
  man seekless-serve")]
    Man(manual::ManArgs),
}

/// The present name of a verb of an earlier version.
fn present_name(verb: &str) -> Option<String> {
    Some(match verb {
        "format" | "status" | "replan" | "replicate" | "drain" | "mode" | "detach" | "check"
        | "repair" | "dump" | "resize" | "rescue" => format!("seekless volume {verb}"),
        "fs" => "seekless files".to_owned(),
        "emulate" => "seekless disk emulate".to_owned(),
        "reproduce" | "synth" | "workload" | "study" | "model" | "cluster" | "tune" => {
            format!("seekless-lab {verb}")
        }
        _ => return None,
    })
}

fn main() -> ExitCode {
    if let Some(old) = std::env::args_os().nth(1)
        && let Some(new) = old.to_str().and_then(present_name)
    {
        let old = old.display();
        output::say(&format!(
            "seekless: the command '{old}' is now '{new}'; `{new} --help` explains its arguments"
        ));
        return ExitCode::from(2);
    }
    output::exit(match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Adopt(args) => adopt::adopt(&args),
        Command::Release(args) => adopt::release(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Volume(args) => volume::run(&args),
        Command::Files(args) => files::run(&args),
        Command::Disk(args) => disk::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_has_examples_and_each_of_them_is_understood() {
        let (found, without) = manual::examples(&Cli::command());
        assert_eq!(without, [""; 0], "commands without an example");
        assert!(found.len() > 60, "{}", found.len());
        for words in found {
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{words:?}: {error}");
            }
        }
    }

    #[test]
    fn a_wrong_number_is_answered_with_what_was_expected() {
        let (unexplained, numbers) = manual::unexplained_numbers(&Cli::command());
        assert_eq!(unexplained, [""; 0]);
        assert!(numbers > 12, "{numbers}");
    }
}
