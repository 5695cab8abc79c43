//! `seekless convert`: a trace of any known format to one of those that can be written. Knows
//! neither end's layout, only what a person should hear of it.

use std::path::PathBuf;

use anyhow::bail;
use seekless_report::Unit;
use seekless_trace::{Converted, Source, Target};
use serde_json::json;

use seekless_cli::args::ReadArgs;
use seekless_cli::output;

/// Convert a trace of any known format: to the native store (one Parquet file), fio, CSV or
/// libCacheSim
///
/// The store reads faster than text, keeps what the trace could tell (times or days, processes,
/// devices, service times), and is read as it is by DuckDB, Polars, Spark and pyarrow.
/// docs/changing/trace-store.md lists its columns, docs/using/trace-formats.md says what each other
/// format keeps and loses. A file stands there whole or not at all.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless convert week.blkparse.gz week.parquet
  seekless convert msr:prxy_0.csv prxy_0.parquet
  seekless convert --event D sda.blktrace.0 sda.parquet
  seekless convert alibaba.csv.gz one-volume.parquet --device 81
  seekless convert sda.parquet sda.fio             then: fio --name=replay --read_iolog=sda.fio
  seekless convert web.strace oraclegeneral:web.bin.zst
  seekless convert sda.parquet csv:- | less
  ssh server cat /var/log/sda.blkparse.zst | seekless convert - sda.parquet
Formats read, found by content or named before a colon:
  blktrace, blkparse, tracefs, biosnoop, etw, fio, msr, spc, alibaba, tencent, systor17, fiu, biotracer,
  oraclegeneral, vscsi, srt, lis, disksim, mqsim, strace, procmon, csv, parquet;
  only by name: disksim-rw0, mqsim-rw0, heimdall; synth:NAME is made up (`seekless-lab synth`)
Formats written, by OUT's ending or named before a colon:
  parquet (anything else), fio (.fio, .iolog), csv (.csv), oraclegeneral (.oracleGeneral); packed by a
  further .gz or .zst")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    #[arg(value_name = "IN")]
    from: String,
    /// Where to: PATH or FORMAT:PATH; FORMAT:- for standard output
    #[arg(value_name = "OUT", value_parser = Target::new)]
    to: Target,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Only this device of the trace
    #[arg(long, value_name = "NAME", help_heading = "Reading the trace")]
    device: Option<String>,
    #[command(flatten)]
    read: ReadArgs,
    /// Write what was converted and what was not as JSON (schema seekless.convert/1) to FILE, or to
    /// standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let to = args.to.path.as_path();
    // A link to nowhere exists too: it would be replaced.
    if !args.force && to.symlink_metadata().is_ok_and(|m| m.is_file() || m.is_symlink()) {
        bail!("{} exists; give --force to replace it, or another name", to.display());
    }
    let json = args.json.as_deref();
    if output::is_stdout(json) && to.as_os_str() == "-" {
        bail!(
            "the trace and --json cannot both go to standard output: name a file for one of them"
        );
    }
    let target = Target { device: args.device.clone(), ..args.to.clone() };
    let source = Source::new(&args.from);
    let bar = output::bar();
    bar.set_message("converting");
    let done = seekless_trace::convert(&source, &args.read.options(), target, &mut |at| {
        bar.set_length(at.total.max(1));
        bar.set_position(at.read);
    });
    bar.finish_and_clear();
    let done = done?;
    for line in told(args, &done) {
        output::say(&line);
    }
    json.map_or(Ok(()), |path| output::json(path, &document(args, &done)))
}

/// The same, for programs.
fn document(args: &Args, done: &Converted) -> serde_json::Value {
    let to = args.to.path.as_path();
    let size = to.metadata().ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    let s = &done.skipped;
    let [queued, issued, completed] = s.other_events;
    json!({
        "schema": "seekless.convert/1",
        "from": { "path": args.from, "format": done.info.format.name() },
        "to": { "path": to.to_string_lossy(), "format": args.to.format.name(), "bytes": size },
        "device": args.device,
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

/// What was converted, and what was not, a line each.
fn told(args: &Args, done: &Converted) -> Vec<String> {
    let count = |n: u64| Unit::Count.format(n as f64, 3);
    let to = args.to.path.as_path();
    let size = to.metadata().map_or(String::new(), |m| {
        if m.is_file() {
            format!(", {}", Unit::Bytes.format(m.len() as f64, 3))
        } else {
            String::new()
        }
    });
    let format = done.info.format;
    let mut lines = vec![format!(
        "{}: {} requests from {} ({format}){size}",
        if to.as_os_str() == "-" { "standard output".into() } else { to.to_string_lossy() },
        count(done.records),
        args.from
    )];
    if let Some(caveat) = format.caveat() {
        lines.push(format!("note: {caveat}"));
    }
    if done.left_out > 0 {
        lines.push(format!(
            "left out: {} requests that {} has no word for (discards and flushes)",
            count(done.left_out),
            args.to.format
        ));
    }
    let s = &done.skipped;
    let first = |example: &Option<seekless_trace::Example>| {
        example
            .as_ref()
            .map_or(String::new(), |e| format!("; the first at {}: {}", e.place, e.what))
    };
    if s.malformed > 0 {
        lines.push(format!(
            "skipped: {} malformed records{}",
            count(s.malformed),
            first(&s.malformed_first)
        ));
    }
    if s.zero_length > 0 {
        lines.push(format!(
            "skipped: {} requests of no sectors{}",
            count(s.zero_length),
            first(&s.zero_length_first)
        ));
    }
    for (letter, &n) in ["Q", "D", "C"].iter().zip(&s.other_events) {
        if n > 0 {
            lines.push(format!(
                "left out: {} {letter} events; --event {letter} takes these",
                count(n)
            ));
        }
    }
    if s.lost_events > 0 {
        lines.push(format!("the recorder had lost {} events", count(s.lost_events)));
    }
    if s.streams_lost > 0 {
        lines.push(format!("{} requests came of processes past those kept", count(s.streams_lost)));
    }
    if s.without_op > 0 {
        lines.push(format!(
            "left out: {} requests whose kind the trace does not tell",
            count(s.without_op)
        ));
    }
    if s.unknown_files > 0 {
        lines.push(format!(
            "left out: {} calls on descriptors that were never seen opened, pipes and sockets among them; strace -y names them",
            count(s.unknown_files)
        ));
    }
    if s.late > 0 {
        lines.push(format!("{} requests stand too far out of order to be sorted", count(s.late)));
    }
    lines
}
