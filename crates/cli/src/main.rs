//! The command line: arguments in, the rooms' functions called, tables and JSON out. It decides nothing
//! else.

mod convert;
mod demo;
mod disks;
mod emulate;
mod learner;
mod output;
mod record;
mod reproduce;
mod serve;
mod simulate;
mod simulate_report;
mod stat;
mod stat_report;
mod stat_tables;
mod trace_args;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Less seeking, less waiting, fewer joules: learns what a disk is asked for together, and serves it from
/// copies laid side by side.
#[derive(Debug, Parser)]
#[command(name = "seekless", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Simulate(simulate::Args),
    Stat(stat::Args),
    Convert(convert::Args),
    Record(record::Args),
    Serve(serve::Args),
    Emulate(emulate::Args),
    /// The papers' tables and figures, from our models, beside the printed ones
    #[command(subcommand)]
    Reproduce(reproduce::Args),
    /// The catalogue of disks
    #[command(subcommand)]
    Disk(disks::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Disk(args) => disks::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that went away (`| head`) is no fault.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("seekless: {error:#}"));
            // Bad input and a failed run alike: 2, as for a bad command line.
            ExitCode::from(2)
        }
    }
}
