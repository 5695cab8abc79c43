//! The command line: arguments in, the rooms' functions called, tables and JSON out. It decides nothing
//! else.

mod admin;
mod advise;
mod advise_report;
mod cluster;
mod convert;
mod demo;
mod disks;
mod emulate;
mod fs;
mod learner;
mod manual;
mod model;
mod output;
mod record;
mod reproduce;
mod rescue;
mod serve;
mod simulate;
mod simulate_report;
mod stat;
mod stat_heat;
mod stat_report;
mod stat_tables;
mod study;
mod synth;
mod top;
mod trace_args;
mod tune;
mod workload;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// What a run's exit status says, at the end of `--help` and of the man page.
const STATUS: &str = "\
Exit status:
  0  done, or ended as asked
  2  not done: a bad command line, bad input, or a run that failed; standard error says which, where and
     what to do

Results go to standard output, everything else to standard error. NO_COLOR turns colours off.";

/// Less seeking, less waiting, fewer joules: learns what a disk is asked for together, and serves it from
/// copies laid side by side.
#[derive(Debug, Parser)]
#[command(name = "seekless", version, max_term_width = 100, after_help = STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Advise(advise::Args),
    Simulate(simulate::Args),
    Tune(tune::Args),
    Model(model::Args),
    Stat(stat::Args),
    Convert(convert::Args),
    Cluster(cluster::Args),
    Synth(synth::Args),
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
    /// The papers' tables and figures, from our models, beside the printed ones
    #[command(subcommand)]
    Reproduce(reproduce::Args),
    /// Disks and other devices: the catalogue, and getting one from measurements
    #[command(subcommand)]
    Disk(disks::Args),
    /// A directory whose small files are kept in groups, after EEFS: mounted, looked after, and as it was
    #[command(subcommand)]
    Fs(fs::Args),
    /// Server workloads on a directory: operations a second, latencies, joules
    #[command(subcommand)]
    Workload(workload::Args),
    /// File systems and their options under server workloads: a matrix of runs, tables, advice
    #[command(subcommand)]
    Study(study::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
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
        Command::Workload(args) => workload::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
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
