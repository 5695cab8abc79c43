//! `seekless convert`: a trace of any known format to the native store. Knows neither end's layout, only
//! what a person should hear of it.

use std::path::PathBuf;

use anyhow::bail;
use seekless_report::Unit;
use seekless_trace::{Converted, Source};

use crate::output;
use crate::trace_args::ReadArgs;

/// Convert a trace of any known format to the native store, one Parquet file
///
/// The store reads faster than text, keeps what the trace could tell (times or days, processes, devices,
/// service times), and is read as it is by DuckDB, Polars, Spark and pyarrow; docs/trace-store.md lists its
/// columns. OUT stands there whole or not at all.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless convert week.blkparse.gz week.parquet
  seekless convert msr:prxy_0.csv prxy_0.parquet
  seekless convert --event D sda.blktrace.0 sda.parquet
  ssh server cat /var/log/sda.blkparse.zst | seekless convert - sda.parquet
Formats, found by content or named before a colon:
  blktrace, blkparse, tracefs, fio, msr, spc, disksim, disksim-rw0, mqsim, mqsim-rw0, lis, vscsi, srt, parquet")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    #[arg(value_name = "IN")]
    from: String,
    /// The Parquet file to write
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    read: ReadArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let to = &args.to;
    if to.as_os_str() == "-" {
        bail!("OUT must be a file: a store cannot be written to '-'; name a path");
    }
    // A link to nowhere exists too: it would be replaced.
    if !args.force && to.symlink_metadata().is_ok_and(|m| m.is_file() || m.is_symlink()) {
        bail!("{} exists; give --force to replace it, or another name", to.display());
    }
    let source = Source::new(&args.from);
    let bar = output::bar();
    bar.set_message("converting");
    let done = seekless_trace::convert(&source, &args.read.options(), to, &mut |at| {
        bar.set_length(at.total.max(1));
        bar.set_position(at.read);
    });
    bar.finish_and_clear();
    for line in told(args, &done?) {
        output::say(&line);
    }
    Ok(())
}

/// What was converted, and what was not, a line each.
fn told(args: &Args, done: &Converted) -> Vec<String> {
    let count = |n: u64| Unit::Count.format(n as f64, 3);
    let size = args.to.metadata().map_or(String::new(), |m| {
        if m.is_file() {
            format!(", {}", Unit::Bytes.format(m.len() as f64, 3))
        } else {
            String::new()
        }
    });
    let format = done.info.format;
    let mut lines = vec![format!(
        "{}: {} requests from {} ({format}){size}",
        args.to.display(),
        count(done.records),
        args.from
    )];
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
    lines
}
