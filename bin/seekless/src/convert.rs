//! `seekless convert`: converts a trace of any known format to a format that can be written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{anyhow, bail};
use seekless_report::Unit;
use seekless_trace::{Converted, Source, Target};
use serde_json::json;

use seekless_cli::args::ReadArgs;
use seekless_cli::similar_names::did_you_mean;
use seekless_cli::{output, signals};

/// Convert a trace of any known format: to the native store (one Parquet file), fio, CSV or
/// libCacheSim; join several traces by time
///
/// The store is faster to read than text. It keeps times or days, processes, devices and service
/// times, if the trace has them. DuckDB, Polars, Spark and pyarrow can read the store.
/// docs/changing/trace-store.md lists its columns. docs/using/trace-formats.md says which data each
/// other format loses. The output file is complete, or absent.
///
/// With -o, several traces become one, in order of time. Each trace must be in order of time. The
/// output keeps the devices of different traces apart. Traces of one format use one clock. If
/// formats differ, the times of each trace count from its first request.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "seekless convert [OPTIONS] <IN> <OUT>\n       seekless convert [OPTIONS] <IN>... -o <OUT>",
    after_help = "\
Examples:
  seekless convert week.blkparse.gz week.parquet
  seekless convert msr:prxy_0.csv prxy_0.parquet
  seekless convert --event D sda.blktrace.0 sda.parquet
  seekless convert alibaba.csv.gz one-volume.parquet --device 81
  seekless convert web.strace oraclegeneral:web.bin.zst
  seekless convert sda.parquet csv:- | less
  seekless convert msr:prxy_0.csv msr:prxy_1.csv -o prxy.parquet
  ssh server cat /var/log/sda.blkparse.zst | seekless convert - sda.parquet

  # A replay with fio: it writes, so /dev/sdX loses its content
  seekless convert sda.parquet sda.fio
  fio --name=replay --read_iolog=sda.fio --replay_redirect=/dev/sdX

Formats read, found by content or named before a colon:
  blktrace, blkparse, tracefs, biosnoop, etw, fio, msr, spc, alibaba, tencent, systor17, fiu,
  biotracer, mobile, oraclegeneral, vscsi, srt, lis, disksim, mqsim, strace, procmon, csv, parquet;
  only by name: disksim-rw0, mqsim-rw0, heimdall; synth:NAME is made up (`seekless-lab synth`);
  any other table with --columns

Formats written, by OUT's ending or named before a colon:
  parquet (anything else), fio (.fio, .iolog), csv (.csv), oraclegeneral (.oracleGeneral);
  a further .gz or .zst compresses"
)]
pub(crate) struct Args {
    /// The traces: PATH, FORMAT:PATH, or - for standard input; compressed or not. Without -o, the
    /// last is the output
    #[arg(value_name = "IN", required = true)]
    paths: Vec<String>,
    /// The output: PATH or FORMAT:PATH; FORMAT:- for standard output
    #[arg(short, value_name = "OUT", value_parser = target)]
    out: Option<Target>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
    /// Write the counts of converted and omitted records as JSON (schema seekless.convert/1) to
    /// FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

/// The output. A wrong format is answered with the one that is most like it.
fn target(text: &str) -> Result<Target, String> {
    Target::new(text).map_err(|e| {
        let name = text.split_once(':').map_or("", |(name, _)| name);
        let unknown = !Target::formats().contains(&name);
        let near = unknown.then(|| did_you_mean(name, Target::formats()));
        format!("{e}{}", near.unwrap_or_default())
    })
}

/// The traces and the output.
fn ends(args: &Args) -> anyhow::Result<(&[String], Target)> {
    match (&args.out, args.paths.as_slice()) {
        (Some(out), from) => Ok((from, out.clone())),
        (None, [from @ .., to]) if from.len() == 1 => {
            Ok((from, target(to).map_err(|e| anyhow!("OUT '{to}': {e}"))?))
        }
        (None, [only]) => bail!("{only} has no output: name the output after the trace"),
        (None, _) => bail!("to join several traces, name the output with -o OUT"),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (from, target) = ends(args)?;
    let target = Target { device: args.read.device.clone(), ..target };
    let to = target.path.as_path();
    output::ensure_new(to, args.force)?;
    let json = args.json.as_deref();
    if output::is_stdout(json) && to.as_os_str() == "-" {
        bail!(
            "the trace and --json cannot both go to standard output: name a file for one of them"
        );
    }
    let source = match from {
        [one] => Source::new(one),
        several => Source::joined(several.iter().map(Source::new).collect()),
    };
    let inputs: Vec<Source> = from.iter().map(Source::new).collect();
    output::ensure_apart([json], inputs.iter().map(Source::path).chain([to]))?;
    // Opening may wait for input, and a pipe for its reader. A stop removes an unfinished file.
    let is_file = to.metadata().map_or(to.as_os_str() != "-", |m| m.is_file());
    let waits = Arc::new(AtomicBool::new(true));
    let source = source.stopped_by(signals::stop_flag_unless(&waits)?);
    let done = output::with_bar(|bar| {
        seekless_trace::convert(&source, &args.read.options(), target.clone(), &mut |at| {
            waits.store(!is_file, Ordering::Relaxed);
            bar("converting", at.read, at.total);
        })
    })?;
    let from = from.join(", ");
    for line in told(&from, &target, &done) {
        output::say(&line);
    }
    json.map_or(Ok(()), |path| output::json(path, &document(&from, &target, &done)))
}

/// The counts, for programs.
fn document(from: &str, target: &Target, done: &Converted) -> serde_json::Value {
    let to = target.path.as_path();
    let size = to.metadata().ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    let s = &done.skipped;
    let [queued, issued, completed] = s.other_events;
    json!({
        "schema": "seekless.convert/1",
        "from": { "path": from, "format": done.info.format.name() },
        "to": { "path": to.to_string_lossy(), "format": target.format.name(), "bytes": size },
        "device": target.device,
        "requests": done.records,
        "left_out": {
            "without_word": done.left_out,
            "queued_events": queued,
            "issued_events": issued,
            "completed_events": completed,
            "without_operation": s.without_op,
            "unknown_files": s.unknown_files,
            "malformed": s.malformed,
            "of_no_sectors": s.zero_length,
        },
        "late": s.late,
        "lost_events": s.lost_events,
        "processes_lost": s.streams_lost,
        "caveat": done.info.format.caveat(),
    })
}

/// The converted and the omitted parts of the trace, a line each.
fn told(from: &str, target: &Target, done: &Converted) -> Vec<String> {
    let to = target.path.as_path();
    let size = to.metadata().ok().filter(std::fs::Metadata::is_file);
    let format = done.info.format;
    let mut lines = vec![format!(
        "{}: {} requests from {from} ({format}){}",
        if to.as_os_str() == "-" { "standard output".into() } else { to.to_string_lossy() },
        Unit::count(done.records),
        size.map_or(String::new(), |m| format!(", {}", Unit::bytes(m.len())))
    )];
    lines.extend(format.caveat().map(|caveat| format!("note: {caveat}")));
    if done.left_out > 0 {
        let (n, format) = (Unit::count(done.left_out), target.format);
        lines.push(format!(
            "left out: {n} requests that {format} cannot represent (discards and flushes)"
        ));
    }
    for (letter, &n) in ["Q", "D", "C"].iter().zip(&done.skipped.other_events) {
        if n > 0 {
            let n = Unit::count(n);
            lines.push(format!("left out: {n} {letter} events; --event {letter} selects these"));
        }
    }
    lines.extend(done.skipped.notes());
    lines
}
