//! The command line: arguments in, the rooms' functions called, tables and JSON out. It decides nothing
//! else.

mod admin;
mod advise;
mod advise_report;
mod convert;
mod demo;
mod disks;
mod emulate;
mod fs;
mod learner;
mod record;
mod rescue;
mod serve;
mod simulate;
mod simulate_report;
mod stat;
mod stat_heat;
mod stat_report;
mod stat_tables;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use seekless_cli::{manual, output};

/// Less seeking, less waiting, fewer joules: learns what a disk is asked for together, and serves it from
/// copies laid side by side.
#[derive(Debug, Parser)]
#[command(name = "seekless", version, max_term_width = 100, after_help = output::STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Advise(advise::Args),
    Simulate(simulate::Args),
    Stat(stat::Args),
    Convert(convert::Args),
    Record(record::Args),
    Serve(serve::Args),
    Emulate(emulate::Args),
    Top(top::Args),
    Format(admin::FormatArgs),
    Status(admin::StatusArgs),
    Replan(admin::ReplanArgs),
    Replicate(admin::ReplicateArgs),
    Drain(admin::DrainArgs),
    Mode(admin::ModeArgs),
    Detach(admin::DetachArgs),
    Check(admin::CheckArgs),
    Repair(admin::RepairArgs),
    Dump(admin::DumpArgs),
    Resize(admin::ResizeArgs),
    Rescue(rescue::Args),
    /// Disks and other devices: the catalogue, and getting one from measurements
    #[command(subcommand)]
    Disk(disks::Args),
    /// A directory whose small files are kept in groups, after EEFS: mounted, looked after, and as it was
    #[command(subcommand)]
    Fs(fs::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    output::exit(match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Disk(args) => disks::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Format(args) => admin::format(&args),
        Command::Status(args) => admin::status(&args),
        Command::Replan(args) => admin::replan(&args),
        Command::Replicate(args) => admin::replicate(&args),
        Command::Drain(args) => admin::drain(&args),
        Command::Mode(args) => admin::mode(&args),
        Command::Detach(args) => admin::detach(&args),
        Command::Check(args) => admin::check(&args),
        Command::Repair(args) => admin::repair(&args),
        Command::Dump(args) => admin::dump(&args),
        Command::Resize(args) => admin::resize(&args),
        Command::Rescue(args) => rescue::run(&args),
        Command::Fs(args) => fs::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
    })
}
