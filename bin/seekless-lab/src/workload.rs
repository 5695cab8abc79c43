//! `seekless-lab workload`: a server's workload on a directory.

mod outcome;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use seekless_cli::args::{duration, number};
use seekless_cli::{output, signals};
use seekless_report::{Table, Unit};
use seekless_workload::power::{Energy, Meters};
use seekless_workload::{
    FileSet, Filled, Load, Outcome, Personality, RunOptions, describe, host, list, named, presets,
};
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    List(ListArgs),
    Show(ShowArgs),
    Run(RunArgs),
}

/// List the built-in workloads
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Write the list as JSON (schema seekless.workloads/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

/// Print a workload's file, to read or to change
///
/// For a file of Filebench, prints the workload in words.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab workload show varmail
  seekless-lab workload show varmail > mine.toml
  seekless-lab workload show mongo.f")]
pub(crate) struct ShowArgs {
    /// A name from `seekless-lab workload list`, with :VARIANT for a variant, or the path of a
    /// .toml or .f file
    personality: String,
}

/// Run a server's workload on a directory
///
/// Writes the workload's files into DIR, warms up, runs, counts, and removes the files. Only
/// --drop-caches needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The paper's mail server, a fiftieth of its files, ten seconds
  seekless-lab workload run varmail --dir /mnt/test --scale 0.02 --seconds 10

  # Filebench's own file, and sizes as it ships
  seekless-lab workload run fileserver.f --dir /mnt/test
  seekless-lab workload run webserver:filebench --dir /mnt/test --json result.json

  # Response times at 3,000 operations a second, even if the disk cannot keep up
  seekless-lab workload run webserver --dir /mnt/test --scale 0.05 --rate 3000

docs/lab/workloads.md describes each workload and its numbers.")]
pub(crate) struct RunArgs {
    /// A name from `seekless-lab workload list`, with :VARIANT for a variant, or the path of a
    /// .toml or .f file
    personality: String,
    /// Directory of its files; created if missing
    #[arg(long)]
    dir: PathBuf,
    /// Multiplier of the number of files of each set, or of their size in a set with fewer than 200
    #[arg(long, value_name = "X", default_value = "1", value_parser = number::<f64>("a multiple", 1e-6..=1e6, 0.5))]
    scale: f64,
    /// Multiplier of the threads of each flow
    #[arg(long, value_name = "X", default_value = "1", value_parser = number::<f64>("a multiple", 1e-6..=1e6, 0.5))]
    threads: f64,
    /// Seconds of measurement
    #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = number::<f64>("seconds", 0.001..=31_536_000.0, 60.0))]
    seconds: f64,
    /// Seconds of warm-up before
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = number::<f64>("seconds", 0.0..=31_536_000.0, 5.0))]
    warm_up: f64,
    /// Open loop: this many operations a second arrive, even if earlier operations have not ended
    #[arg(long, value_name = "OPS", value_parser = number::<f64>("operations a second", 1e-6..=1e9, 100.0))]
    rate: Option<f64>,
    /// Seed of all draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// Empty the kernel's caches after the files are written (root)
    #[arg(long)]
    drop_caches: bool,
    /// Keep the files
    #[arg(long)]
    keep: bool,
    /// Power meters: auto, none, rapl, hwmon, battery, cpu-model[=IDLE-PEAK] in W, or
    /// command=COMMAND, which prints watts once a second; several with commas
    #[arg(long, value_name = "METERS", default_value = "auto")]
    power: String,
    /// Measure the power of the idle machine for this time first
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle: Option<Duration>,
    /// Write the result as JSON (schema seekless.workload/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::List(args) => print_list(args),
        Args::Show(args) => show(&args.personality),
        Args::Run(args) => run_one(args),
    }
}

fn print_list(args: &ListArgs) -> anyhow::Result<()> {
    let all = list()?;
    if let Some(path) = &args.json {
        return output::json(
            path,
            &serde_json::json!({"schema": "seekless.workloads/1", "workloads": all}),
        );
    }
    let table = Table::of("Workloads", &all)
        .text("name", |w| w.name.as_str())
        .text("title", |w| w.title.as_str())
        .number("threads", Unit::Count, |w| u64::from(w.threads))
        .number("files", Unit::Count, |w| w.files)
        .right("mean size", |w| Unit::bytes(w.mean_file_bytes))
        .right("size at start", |w| Unit::Bytes.format(w.bytes, 3))
        .done();
    output::tables([&table])
}

fn show(name: &str) -> anyhow::Result<()> {
    let base = name.split(':').next().unwrap_or(name);
    if let Some(preset) = presets().iter().find(|p| p.name == base) {
        named(name)?;
        return output::print(preset.text);
    }
    output::print(&describe(&named(name)?))
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    personality: &'a str,
    threads: u32,
    scale: f64,
    seed: u64,
    warm_up_s: f64,
    rate_ops_per_s: Option<f64>,
    filled: Filled,
    outcome: &'a Outcome,
    energy: &'a [Energy],
}

fn run_one(args: &RunArgs) -> anyhow::Result<()> {
    let file = Some(Path::new(&args.personality)).filter(|path| path.is_file());
    output::ensure_apart([args.json.as_deref()], file)?;
    let personality = named(&args.personality)?.scaled(args.scale).with_threads(args.threads);
    let [measured, warm_up] = [args.seconds, args.warm_up].map(Duration::from_secs_f64);
    let load = args.rate.map_or(Load::Closed, |ops_per_s| Load::Open { ops_per_s });
    let options = RunOptions { warm_up, measured, load, seed: args.seed };
    let (filled, outcome, energy) = measure(args, &personality, &options)?;
    let document = Document {
        schema: "seekless.workload/1",
        version: env!("CARGO_PKG_VERSION"),
        personality: &personality.name,
        threads: personality.threads(),
        scale: args.scale,
        seed: args.seed,
        warm_up_s: args.warm_up,
        rate_ops_per_s: args.rate,
        filled,
        outcome: &outcome,
        energy: &energy,
    };
    if !output::json_beside(args.json.as_deref(), &document)? {
        return Ok(());
    }
    outcome::print(&personality, filled, &outcome, &energy)
}

/// Writes the files, runs the workload, and removes the files, also if the run fails.
fn measure(
    args: &RunArgs,
    personality: &Personality,
    options: &RunOptions,
) -> anyhow::Result<(Filled, Outcome, Vec<Energy>)> {
    let mut meters = Meters::parse(&args.power).map_err(anyhow::Error::msg)?;
    let stop = signals::stop_flag()?;
    let bar = output::bar();
    bar.set_message(format!("writing {}", personality.name));
    let files = FileSet::fill(&args.dir, personality, args.seed, &stop, &mut |done, all| {
        bar.set_length(all.max(1));
        bar.set_position(done);
    })?;
    let result = (|| -> anyhow::Result<(Outcome, Vec<Energy>)> {
        if args.drop_caches {
            host::drop_caches().context("cannot drop caches")?;
        }
        if let Some(idle) = args.idle {
            bar.set_message("power of the idle machine");
            meters.measure_idle(idle, &stop);
        }
        bar.set_message(personality.name.clone());
        bar.set_length(options.measured.as_millis() as u64);
        let outcome = seekless_workload::run(personality, &files, options, &stop, &mut |at, _| {
            bar.set_position(at.unwrap_or_default().as_millis() as u64);
            if let Some(at) = at {
                meters.sample(at);
            }
        })?;
        let energy = meters.finish(outcome.seconds, outcome.cpu.busy());
        Ok((outcome, energy))
    })();
    bar.finish_and_clear();
    let filled = files.filled();
    if !args.keep {
        files.remove();
    }
    let (outcome, energy) = result?;
    Ok((filled, outcome, energy))
}
