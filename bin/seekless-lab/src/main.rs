//! The command line for papers and studies: it parses arguments, calls one function of a room, and
//! prints.

mod cluster;
mod model;
mod reproduce;
mod study;
mod synth;
mod tune;
mod workload;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use seekless_cli::{manual, output};

/// Papers and studies around seekless: results reproduced, synthetic traces, server workloads on
/// file systems
#[derive(Debug, Parser)]
#[command(name = "seekless-lab", version, max_term_width = 100, after_help = output::STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Reproduce a paper's tables and figures from our models, beside the printed numbers
    #[command(subcommand)]
    Reproduce(reproduce::Args),
    Synth(synth::Args),
    /// Run server workloads on a directory: operations a second, latencies, joules
    #[command(subcommand)]
    Workload(workload::Args),
    /// Compare file systems and their options under server workloads: a matrix of runs, tables,
    /// advice
    #[command(subcommand)]
    Study(study::Args),
    Model(model::Args),
    Cluster(cluster::Args),
    Tune(tune::Args),
    #[command(after_help = "\
Examples:
  seekless-lab completions bash > /usr/share/bash-completion/completions/seekless-lab")]
    Completions(manual::CompletionsArgs),
    #[command(after_help = "\
Examples:
  seekless-lab man /usr/local/share/man/man1
  man seekless-lab-study")]
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    output::exit(match Cli::parse().command {
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Workload(args) => workload::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_of_the_helps_is_understood() {
        let (found, _) = manual::examples(&Cli::command());
        assert!(found.len() > 30, "{}", found.len());
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
        assert!(numbers > 15, "{numbers}");
    }
}
