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
use seekless_cli::{manual, moved, output};

/// Less seeking, less waiting, fewer joules: learns which data a disk is asked for together, and
/// serves them from copies laid side by side
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
    /// Disks and other devices: the catalogue, a disk from measurements, a disk emulated in real
    /// time
    #[command(
        subcommand,
        after_help = "\
Examples:
  seekless disk list
  seekless disk probe /dev/sdb --budget 60s -o sdb.toml"
    )]
    Disk(disk::Args),
    Policies(policies::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

/// Verbs of earlier versions, and their present names.
const MOVED: &[(&str, &str)] = &[
    ("format", "seekless volume format"),
    ("status", "seekless volume status"),
    ("replan", "seekless volume replan"),
    ("replicate", "seekless volume replicate"),
    ("drain", "seekless volume drain"),
    ("mode", "seekless volume mode"),
    ("detach", "seekless volume detach"),
    ("check", "seekless volume check"),
    ("repair", "seekless volume repair"),
    ("dump", "seekless volume dump"),
    ("resize", "seekless volume resize"),
    ("rescue", "seekless volume rescue"),
    ("fs", "seekless files"),
    ("emulate", "seekless disk emulate"),
    ("reproduce", "seekless-lab reproduce"),
    ("synth", "seekless-lab synth"),
    ("workload", "seekless-lab workload"),
    ("study", "seekless-lab study"),
    ("model", "seekless-lab model"),
    ("cluster", "seekless-lab cluster"),
    ("tune", "seekless-lab tune"),
];

fn main() -> ExitCode {
    if let Some(code) = moved::refuse(MOVED) {
        return code;
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

    /// The arguments of each `seekless` in the examples of a command and of those below it.
    fn examples(command: &clap::Command, path: &str, found: &mut Vec<Vec<String>>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, text) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{path}: none"));
        let before = found.len();
        let parts = text.split("\n\n").take_while(|part| part.starts_with("  "));
        for line in parts.flat_map(str::lines).filter(|l| !l.trim_start().starts_with('#')) {
            for part in line.split(['|', ';', '&', '>']) {
                let part = part.split("   then").next().unwrap_or_default();
                let mut words = part.split_whitespace().skip_while(|w| w.contains('='));
                if words.next() == Some("seekless") {
                    let own = words.map(|w| w.trim_matches('\'').to_owned());
                    found.push(["seekless".to_owned()].into_iter().chain(own).collect());
                }
            }
        }
        assert!(found.len() > before, "{path}: no example");
        for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
            examples(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn every_help_has_examples_and_each_of_them_is_understood() {
        let mut found = Vec::new();
        examples(&Cli::command(), "seekless", &mut found);
        assert!(found.len() > 60, "{}", found.len());
        for words in found {
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{words:?}: {error}");
            }
        }
    }
}
