//! `seekless advise`: the gain of a learned policy on a disk, its certainty, and alternatives.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use seekless_block::{Bytes, Sectors};
use seekless_compare::{Advice, AdviseOptions, Cutting, Verdict, advise, advise_fleet, csv};
use seekless_disk::{DeviceSpec, catalogue};
use seekless_learn::Policy;
use seekless_serve::capture::BlockDevice;
use seekless_trace::Source;
use tempfile::TempDir;

use crate::simulate::show;
use seekless_cli::args::{StudyArgs, number, size};
use seekless_cli::output::with_bar;
use seekless_cli::{output, tables};

/// Estimate how much disk time seekless saves, with a range, and how much other devices save
///
/// Simulates candidate systems side by side over the trace. Each has the RAM, the read-ahead and
/// the scheduler of the present system, except for the change that it tries. The command divides
/// the trace into folds: whole days, if there are at least four. A policy with plans makes a new
/// plan before each fold, or each fourth, from earlier folds. The earlier folds decide which policy
/// is best. The last folds check the decision.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  seekless advise trace.parquet --disk exos-x20
  seekless advise P3.lis.zst --disk wd800jb --cache 64MiB --json -
  seekless advise trace.blktrace.0 --event D --disk wd800jb --open-loop --report advice.html

  # A folder with one trace for each disk
  seekless advise --fleet traces --disk exos-x20 --csv fleet.csv

  # Record a disk for an hour, then estimate the savings; nothing is written to the disk
  seekless advise /dev/sda --for 1h

Exit code: 0 for every advice; 2 for bad input.")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; or a block device, which the command
    /// records first
    #[arg(
        value_name = "TRACE|DEVICE",
        default_value = "",
        hide_default_value = true,
        required_unless_present = "fleet"
    )]
    trace: String,
    /// Advise for each trace file in this folder, one file for each disk, on all processors
    #[arg(long, value_name = "DIR", conflicts_with_all = ["trace", "report", "figures"])]
    fleet: Option<PathBuf>,
    /// Write one row for each disk to this file
    #[arg(long, value_name = "FILE|-", requires = "fleet", value_parser = seekless_cli::args::out_file())]
    csv: Option<PathBuf>,
    /// The present disk: a name from `seekless disk list`, or the path of a TOML file [default: the
    /// smallest disk of the catalogue that holds the device]
    #[arg(long)]
    disk: Option<String>,
    /// Size of the traced device, if --disk is not given [default: that of DEVICE, else 20TB]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "disk")]
    device_size: Option<Bytes>,
    /// Time to record a block device: 90s, 10m, 1h, 1d; Ctrl-C ends the recording earlier
    #[arg(long = "for", value_name = "DURATION", value_parser = seekless_cli::args::duration, default_value = "10m")]
    record_for: Duration,
    /// Maximum number of folds of the trace
    #[arg(long, value_name = "N", default_value_t = 12,
          value_parser = number::<u32>("folds", 2..=64, 12))]
    folds: u32,
    /// Policies to try, as NAME[:key=value...], separated by commas; `seekless policies` lists them
    #[arg(long, value_name = "POLICIES", value_parser = crate::policies::policy,
          value_delimiter = ',', default_value = "adaptive,adaptive:trail=off,borg,clairvoyant")]
    policy: Vec<Policy>,
    /// Other devices that could replace the disk: names, or TOML files with your own prices; a
    /// device that is too small for the trace is left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "sata-ssd")]
    or: Vec<String>,
    #[command(flatten)]
    study: StudyArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let disks: Vec<&str> = args.disk.iter().chain(&args.or).map(String::as_str).collect();
    args.study.out.ensure_apart(&args.trace, &disks, &[args.csv.as_deref()])?;
    let others: Vec<DeviceSpec> =
        args.or.iter().map(|name| seekless_cli::disk::named(name)).collect::<Result<_, _>>()?;
    if let Some(folder) = &args.fleet {
        return fleet(args, folder, others);
    }
    let device = Path::new(&args.trace).metadata().is_ok_and(|m| m.file_type().is_block_device());
    let disk = disk(args, device)?;
    let recorded = device.then(|| record(args)).transpose()?;
    let source = match &recorded {
        Some((_, trace)) => Source::new(trace),
        None => Source::new(&args.trace),
    };
    let mut options = options(args, disk, others);
    if device {
        options.named.clone_from(&args.trace);
    }
    let mut advice =
        with_bar(|bar| advise(&source, &options, &mut |stage, at| show(bar, stage, at)))?;
    output::notes(&advice.notes);
    advice.trace.path.clone_from(&args.trace);
    let report = |command: &str| crate::advise_report::report(&advice, command);
    if args.study.out.write(&advice, report)? { print(&advice) } else { Ok(()) }
}

fn options(args: &Args, disk: DeviceSpec, others: Vec<DeviceSpec>) -> AdviseOptions {
    AdviseOptions {
        rolling: args.study.rolling(Cutting::Folds(args.folds)),
        host: args.study.host(disk),
        policies: args.policy.clone(),
        others,
        named: "DISK".to_owned(),
    }
}

/// One row for each trace file in a folder.
fn fleet(args: &Args, folder: &Path, others: Vec<DeviceSpec>) -> anyhow::Result<()> {
    let entries =
        folder.read_dir().with_context(|| format!("{}: cannot list it", folder.display()))?;
    let mut traces: Vec<PathBuf> =
        entries.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>()?;
    traces.retain(|path| path.is_file());
    traces.sort();
    ensure!(
        !traces.is_empty(),
        "{}: the folder has no file; expected one trace file for each disk",
        folder.display()
    );
    let options = options(args, disk(args, false)?, others);
    let fleet = with_bar(|bar| {
        let progress = |read: usize| bar("simulating", read as u64, traces.len() as u64);
        advise_fleet(&traces, &options, None, &progress)
    });
    if let Some(path) = &args.csv {
        output::write(path, &csv(&fleet.rows()))?;
    }
    let report = |_: &str| unreachable!("clap refuses a report of a fleet");
    let listed = args.csv.as_deref().is_some_and(|path| path == Path::new("-"));
    if args.study.out.write(&fleet, report)? && !listed {
        output::tables([&tables::fleet(&fleet)])?;
    }
    let error = fleet.disks.first().and_then(|disk| disk.error.as_deref());
    ensure!(
        fleet.failed < fleet.disks.len(),
        "no trace gave a result; the first error: {}",
        error.unwrap_or_default()
    );
    Ok(())
}

/// Records the block device into a file in this folder.
fn record(args: &Args) -> anyhow::Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder for the recording")?;
    let trace = folder.path().join("recorded.parquet");
    crate::record::run(&crate::record::Args::of(&args.trace, &trace, args.record_for))?;
    Ok((folder, trace))
}

/// The named disk, or the disk of the catalogue that represents the device.
fn disk(args: &Args, device: bool) -> anyhow::Result<DeviceSpec> {
    if let Some(name) = &args.disk {
        return seekless_cli::disk::named(name);
    }
    let size = match args.device_size {
        Some(size) => size,
        None if device => Sectors(BlockDevice::find(Path::new(&args.trace))?.sectors).bytes(),
        None => Bytes(20_000_000_000_000),
    };
    let disk = catalogue::stand_in(size)?;
    output::say(&format!(
        "note: computed for {} ({}); --disk chooses another",
        disk.name(),
        disk.title()
    ));
    Ok(disk)
}

fn print(advice: &Advice) -> anyhow::Result<()> {
    output::tables([&tables::advice(advice)])?;
    output::print(&advice.sentences.join("\n"))?;
    if advice.commands.is_empty() {
        return Ok(());
    }
    let what = if advice.verdict == Verdict::Worth { "Type" } else { "To try it, type" };
    output::print(&format!(
        "\n{what} (`seekless release` undoes an adoption):\n  {}",
        advice.commands.join("\n  ")
    ))
}
