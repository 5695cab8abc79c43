//! `seekless-lab workload`: a server's workload on a directory. Knows how to ask and how to tell, not how it is done.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use seekless_report::{Column, Table, Unit};
use seekless_workload::power::{Energy, Meters};
use seekless_workload::{
    FileSet, Filled, Load, OpCount, Outcome, Personality, RunOptions, SizeSpec, host, named,
    presets,
};
use serde::Serialize;

use seekless_cli::args::duration;
use seekless_cli::output;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    List(ListArgs),
    Show(ShowArgs),
    Run(RunArgs),
}

/// The workloads that are built in
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Write the list as JSON (schema seekless.workloads/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

/// A workload's file, to read or to change
///
/// For one of Filebench's, what was read of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab workload show varmail
  seekless-lab workload show varmail > mine.toml
  seekless-lab workload show mongo.f")]
pub(crate) struct ShowArgs {
    /// A name from `seekless-lab workload list`, with :VARIANT where it has such, or the path of a .toml or .f file
    personality: String,
}

/// Run a server's workload on a directory
///
/// Lays its files in DIR, warms up, runs, counts, and takes the files away. Needs no root, but for --drop-caches.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The paper's mail server, a fiftieth of its files, ten seconds
  seekless-lab workload run varmail --dir /mnt/test --scale 0.02 --seconds 10

  # Filebench's own file, and sizes as it ships
  seekless-lab workload run fileserver.f --dir /mnt/test
  seekless-lab workload run webserver:filebench --dir /mnt/test --json result.json

  # How long do pages take when 3,000 operations a second come, whether or not the disk keeps up?
  seekless-lab workload run webserver --dir /mnt/test --scale 0.05 --rate 3000

docs/lab/workloads.md says what each does, and how its numbers are made.")]
pub(crate) struct RunArgs {
    /// A name from `seekless-lab workload list`, with :VARIANT where it has such, or the path of a .toml or .f file
    personality: String,
    /// Where its files go; made if it is not there
    #[arg(long)]
    dir: PathBuf,
    /// Files of each set, or their size where a set has fewer than 200, as a multiple of what they are
    #[arg(long, value_name = "X", default_value = "1", value_parser = factor)]
    scale: f64,
    /// Threads of each flow, as a multiple of what they are
    #[arg(long, value_name = "X", default_value = "1", value_parser = factor)]
    threads: f64,
    /// How long to measure
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    seconds: f64,
    /// How long to run before
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    warm_up: f64,
    /// Open loop: so many operations a second come, whether or not those before have ended
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Empty the kernel's caches after the files are laid (root)
    #[arg(long)]
    drop_caches: bool,
    /// Leave the files there
    #[arg(long)]
    keep: bool,
    /// What tells the power: auto, none, rapl, hwmon, battery, cpu-model[=IDLE-PEAK] in W, or command=COMMAND, which
    /// prints watts once a second; several, with a comma between
    #[arg(long, value_name = "METERS", default_value = "auto")]
    power: String,
    /// Measure the power at rest for so long before
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle: Option<Duration>,
    /// Write the result as JSON (schema seekless.workload/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

fn factor(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|v| (1e-6..=1e6).contains(v));
    value.ok_or_else(|| format!("'{text}' is no factor: a number from 0.000001 to 1000000"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::List(args) => list(args),
        Args::Show(args) => show(&args.personality),
        Args::Run(args) => run_one(args),
    }
}

/// One of the list.
#[derive(Serialize)]
struct Listed {
    name: String,
    title: String,
    threads: u32,
    files: u64,
    mean_file_bytes: u64,
    bytes: f64,
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for p in presets() {
        let mut names = vec![p.name.to_owned()];
        names.extend(
            Personality::variants(p.name, p.text)?
                .into_iter()
                .map(|v| format!("{}:{}", p.name, v.0)),
        );
        for name in names {
            let p = named(&name)?;
            let largest = p.sets.iter().max_by_key(|s| s.files);
            all.push(Listed {
                title: p.title.clone(),
                threads: p.threads(),
                files: p.sets.iter().map(|s| s.files).sum(),
                mean_file_bytes: largest.map_or(0, |s| s.size.mean()),
                bytes: p.mean_bytes(),
                name,
            });
        }
    }
    if let Some(path) = &args.json {
        return output::json(
            path,
            &serde_json::json!({"schema": "seekless.workloads/1", "workloads": all}),
        );
    }
    let columns = vec![
        Column::text("name"),
        Column::text("what"),
        Column::number("threads", Unit::Count),
        Column::number("files", Unit::Count),
        Column::text("mean size").right(),
        Column::text("laid at first").right(),
    ];
    let mut table = Table::new("Workloads", columns);
    for w in all {
        let (mean, bytes) =
            (Unit::Bytes.format(w.mean_file_bytes as f64, 3), Unit::Bytes.format(w.bytes, 3));
        table = table.row([
            w.name.into(),
            w.title.into(),
            u64::from(w.threads).into(),
            w.files.into(),
            mean.into(),
            bytes.into(),
        ]);
    }
    output::print(&table.terminal(output::width(), output::colour()))
}

fn show(name: &str) -> anyhow::Result<()> {
    let base = name.split(':').next().unwrap_or(name);
    if let Some(preset) = presets().iter().find(|p| p.name == base) {
        named(name)?;
        return output::print(preset.text);
    }
    output::print(&describe(&named(name)?))
}

/// A personality in words.
fn describe(p: &Personality) -> String {
    let mut lines = vec![format!("{}: {}", p.name, p.title)];
    for s in &p.sets {
        let size = match s.size {
            SizeSpec::Fixed(b) => Unit::Bytes.format(b as f64, 3),
            SizeSpec::Gamma { mean, shape } => {
                format!("{} in the mean, gamma {shape}", Unit::Bytes.format(mean as f64, 3))
            }
        };
        let depth = s.mean_depth();
        lines.push(format!(
            "set {}: {} files of {size}; directories {depth:.1} deep; {:.0} % there at first",
            s.name,
            s.files,
            s.prealloc * 100.0
        ));
    }
    for f in &p.flows {
        lines.push(format!("flow {}: {} threads", f.name, f.threads));
        lines.extend(f.steps.iter().map(|s| format!("  {}: {:?} x {}", s.name, s.act, s.times)));
    }
    lines.join("\n")
}

/// What a run told, as JSON has it.
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

fn seconds(name: &str, value: f64) -> anyhow::Result<Duration> {
    let fits = value.is_finite() && (0.0..=31_536_000.0).contains(&value);
    anyhow::ensure!(fits, "--{name} {value}: a number of seconds, from 0 to a year");
    Ok(Duration::from_secs_f64(value))
}

fn run_one(args: &RunArgs) -> anyhow::Result<()> {
    let personality = named(&args.personality)?.scaled(args.scale).with_threads(args.threads);
    let (measured, warm_up) =
        (seconds("seconds", args.seconds)?, seconds("warm-up", args.warm_up)?);
    anyhow::ensure!(!measured.is_zero(), "--seconds 0 measures nothing");
    let load = match args.rate {
        None => Load::Closed,
        Some(rate) if rate > 0.0 && rate.is_finite() => Load::Open { ops_per_s: rate },
        Some(rate) => bail!("--rate {rate}: a number of operations a second, above 0"),
    };
    let mut meters = Meters::parse(&args.power).map_err(anyhow::Error::msg)?;
    let stop = seekless_cli::signals::stop_flag()?;
    let bar = output::bar();
    bar.set_message(format!("laying {}", personality.name));
    let files = FileSet::fill(&args.dir, &personality, args.seed, &stop, &mut |done, all| {
        bar.set_length(all.max(1));
        bar.set_position(done);
    })?;
    let result = (|| -> anyhow::Result<(Outcome, Vec<Energy>)> {
        if args.drop_caches {
            host::drop_caches().context("cannot drop caches")?;
        }
        if let Some(idle) = args.idle {
            bar.set_message("power at rest");
            meters.measure_idle(idle, &stop);
        }
        bar.set_message(personality.name.clone());
        bar.set_length(measured.as_millis() as u64);
        let options = RunOptions { warm_up, measured, load, seed: args.seed };
        let outcome =
            seekless_workload::run(&personality, &files, &options, &stop, &mut |at, _| {
                bar.set_position(at.unwrap_or_default().as_millis() as u64);
                if let Some(at) = at {
                    meters.sample(at);
                }
            })?;
        let energy = meters.finish(outcome.seconds, outcome.cpu.busy());
        Ok((outcome, energy))
    })();
    bar.finish_and_clear();
    if !args.keep {
        files.remove();
    }
    let (outcome, energy) = result?;
    if let Some(path) = &args.json {
        let document = Document {
            schema: "seekless.workload/1",
            version: env!("CARGO_PKG_VERSION"),
            personality: &personality.name,
            threads: personality.threads(),
            scale: args.scale,
            seed: args.seed,
            warm_up_s: args.warm_up,
            rate_ops_per_s: args.rate,
            filled: files.filled(),
            outcome: &outcome,
            energy: &energy,
        };
        output::json(path, &document)?;
        if output::is_stdout(Some(path)) {
            return Ok(());
        }
    }
    let _ = stop.load(Ordering::Relaxed);
    tell(&personality, files.filled(), &outcome, &energy)
}

fn tell(p: &Personality, filled: Filled, o: &Outcome, energy: &[Energy]) -> anyhow::Result<()> {
    let title = format!(
        "{}: {} operations/s over {:.1} s, {} threads",
        p.name,
        Unit::Count.format(o.ops_per_s, 4),
        o.seconds,
        p.threads()
    );
    let columns = vec![
        Column::text("step"),
        Column::number("count", Unit::Count),
        Column::number("per second", Unit::Count),
        Column::number("moved", Unit::Bytes),
        Column::text("mean").right(),
        Column::text("p50").right(),
        Column::text("p95").right(),
        Column::text("p99").right(),
        Column::text("max").right(),
    ];
    let mut table = Table::new(title, columns);
    let turns =
        o.turns.iter().map(|t| OpCount { name: format!("turn of {}", t.name), ..t.clone() });
    for s in o.steps.iter().cloned().chain(turns) {
        let t = |s: f64| Unit::Seconds.format(s, 3).into();
        let l = s.latency;
        let rate = s.count as f64 / o.seconds;
        table = table.row([
            s.name.into(),
            s.count.into(),
            rate.into(),
            s.bytes.into(),
            t(l.mean_s),
            t(l.p50_s),
            t(l.p95_s),
            t(l.p99_s),
            t(l.max_s),
        ]);
    }
    let share = |x: f64| Unit::Share.format(x, 3);
    table = table.note(format!(
        "{} files, {} laid in {}; processors: {} user, {} system, {} waiting for I/O, {} idle",
        filled.files,
        Unit::Bytes.format(filled.bytes as f64, 3),
        Unit::Seconds.format(filled.seconds, 3),
        share(o.cpu.user),
        share(o.cpu.system),
        share(o.cpu.iowait),
        share(o.cpu.idle)
    ));
    output::print(&table.terminal(output::width(), output::colour()))?;
    for e in energy {
        output::print(&format!("energy: {}", e.told(o.operations)))?;
    }
    Ok(())
}
