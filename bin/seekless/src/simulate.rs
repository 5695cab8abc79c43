//! `seekless simulate`: policies compared on a trace and a modelled disk.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use seekless_block::Bytes;
use seekless_compare::{
    AssumedFree, Axis, Cutting, Options, Outcome, RollingOptions, RollingStage, csv, grid,
    sweep_rows,
};
use seekless_disk::DeviceSpec;
use seekless_learn::Policy;
use seekless_trace::{Progress, Source};

use crate::simulate_report;
use seekless_cli::args::{StudyArgs, number, percent, share, size};
use seekless_cli::output;

/// Compare policies on a trace and a modelled disk: learn from its first part, measure the rest
///
/// Every policy gets the same RAM and scheduler. The baseline is `vanilla`: all data stay at home.
/// `adaptive` decides at each miss how far to read ahead, and keeps a trail of copies.
/// `clairvoyant` does the same, but knows the next 1,000 requests, and for its trail all of them:
/// use this policy to compare only.
/// `seekless policies` lists all policies and their settings. `--train 0%` measures the whole
/// trace, from cold.
///
/// Moving data is counted as background time and energy. All times and joules are modelled.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless simulate week.blkparse.gz --disk wd800jb --train 0%
  seekless simulate week.blkparse.gz --disk wd800jb --policy vanilla,fs2:degree=2 --free 40%
  seekless simulate msr:prxy_0.csv --disk exos-x20 --policy vanilla,borg --open-loop --json out.json
  seekless simulate week.parquet --disk exos-x20 --sweep cache=16MiB,64MiB --csv sweep.csv
  blkparse -i sda | seekless simulate blkparse:- --disk wd800jb --report report.html")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    trace: String,
    /// The disk: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long)]
    disk: String,
    /// Policies to compare, in order, as NAME[:key=value...], separated by commas; `seekless
    /// policies` lists them
    #[arg(long, value_name = "POLICIES", value_parser = crate::policies::policy,
          value_delimiter = ',', default_value = "vanilla,adaptive,clairvoyant")]
    policy: Vec<Policy>,
    /// Share of the trace to learn from: of its days, if it counts days, otherwise of its requests
    #[arg(long, value_parser = share, default_value = "50%")]
    train: f64,
    /// Size of the optimized area; with fs2, the limit of all replicas [default: 256MiB for plans;
    /// for a trail 2GiB, or the space behind the trace]
    #[arg(long, value_parser = size)]
    optimized: Option<Bytes>,
    /// With fs2, the free share of the device, if the trace has no discards; the free space is at
    /// addresses that the trace never uses
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "40%")]
    free: f64,
    /// Seed that chooses the free addresses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>("a seed", 0.., 7))]
    free_seed: u64,
    /// Share of the optimized area for writes (write-back, as in BORG); 0 = write-through
    #[arg(long, value_name = "SHARE", value_parser = percent, default_value = "0")]
    write_buffer: u8,
    #[command(flatten)]
    study: StudyArgs,
    /// Simulate every combination of these values of an option, in parallel. Several --sweep make a
    /// grid. The output is CSV: one row for each combination and policy
    #[arg(long, value_name = "OPTION=VALUE,...", help_heading = "Sweeping options",
          conflicts_with_all = ["json", "report", "figures", "picture"])]
    sweep: Vec<Axis>,
    /// Write the rows of a sweep to FILE [default: standard output]
    #[arg(long, value_name = "FILE", requires = "sweep", help_heading = "Sweeping options", value_parser = seekless_cli::args::out_file())]
    csv: Option<PathBuf>,
    /// Combinations that run at the same time [default: one per processor]
    #[arg(long, value_name = "N", requires = "sweep", help_heading = "Sweeping options",
          value_parser = number::<NonZero<usize>>("combinations", NonZero::<usize>::MIN.., NonZero::<usize>::MIN))]
    workers: Option<NonZero<usize>>,
    /// Write the head's path under each policy as an SVG picture
    #[arg(long, value_name = "FILE.svg", value_parser = seekless_cli::args::out_file())]
    picture: Option<PathBuf>,
}

/// The options that the arguments ask for.
fn options(args: &Args, spec: DeviceSpec) -> Options {
    Options {
        rolling: RollingOptions {
            free: AssumedFree { share: args.free, seed: args.free_seed },
            ..args.study.rolling(Cutting::Train(args.train))
        },
        host: args.study.host(spec),
        policies: args.policy.clone(),
        train: args.train,
        optimized: args.optimized,
        write_buffer: args.write_buffer,
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let more = [args.csv.as_deref(), args.picture.as_deref()];
    args.study.out.ensure_apart(&args.trace, &[args.disk.as_str()], &more)?;
    let source = Source::new(&args.trace);
    let spec = seekless_cli::disk::named(&args.disk)?;
    let options = options(args, spec.clone());
    if !args.sweep.is_empty() {
        return sweep(args, &source, &options);
    }
    let mut outcome = output::with_bar(|bar| {
        seekless_compare::simulate(&source, &options, &mut |stage, at| show(bar, stage, at))
    })?;
    outcome.trace.path.clone_from(&args.trace);
    output::notes(&outcome.notes);
    let report = |command: &str| simulate_report::report(&outcome, &spec, command);
    let goes_on = args.study.out.write(&outcome, report)?;
    if let Some(path) = &args.picture {
        output::write(path, &simulate_report::head_figure(&outcome, &spec).svg())?;
    }
    if goes_on { print(&outcome) } else { Ok(()) }
}

fn sweep(args: &Args, source: &Source, options: &Options) -> anyhow::Result<()> {
    let cells = grid(options, &args.sweep).map_err(anyhow::Error::msg)?;
    let outcomes = output::with_bar(|bar| {
        let progress = &mut |stage, at| show(bar, stage, at);
        seekless_compare::sweep(source, &cells, args.workers, progress)
    })?;
    let rows = sweep_rows(&cells, &outcomes);
    output::write(args.csv.as_deref().unwrap_or(Path::new("-")), &csv(&rows))
}

fn print(outcome: &Outcome) -> anyhow::Result<()> {
    let first = [simulate_report::table(outcome, true)].into_iter();
    output::tables(first.chain(simulate_report::more_tables(outcome)))?;
    output::print(&simulate_report::finding(outcome))
}

pub(crate) fn show(bar: &dyn Fn(&str, u64, u64), stage: RollingStage, at: Progress) {
    bar(stage.text(), at.read, at.total);
}
