//! `seekless stat`: statistics of a trace. This module parses arguments, calls
//! `seekless_trace::stats`, and writes tables and files.

use anyhow::bail;
use seekless_block::{Bytes, Duration};
use seekless_trace::Source;
use seekless_trace::stats::{StatOptions, Summary, characterize};
use serde::Serialize;

use crate::{output, stat_heat, stat_report, stat_tables};
use seekless_cli::args::{Out, ReadArgs, duration, number, size};

/// With less memory, estimates are too coarse.
const MEMORY_MIN: Bytes = Bytes(16 << 20);

/// Show the statistics of a trace: addresses, frequency, order and times of its requests
///
/// Prints the numbers of BORG's Table 1 and Figure 1: top-20% share, partial determinism, rank and
/// frequency, heat map, working sets by day. Then temperature, reuse distance and miss ratio, sizes,
/// distances, bursts, alignment and processes. The trace is read once. Numbers are exact if their
/// data fit into --memory. Otherwise a sample of the pages gives estimates, each with its error.
/// docs/using/stat.md defines every number.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless stat week.blkparse.gz
  seekless stat msr:prxy_0.csv --json - | jq .table1
  seekless stat week.parquet --report week.html --size 250GiB
  seekless stat day.parquet --day 1h
  blkparse -i sda | seekless stat blkparse:- --memory 256MiB")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    trace: String,
    /// Memory for data that grow with the trace; if the data need more, numbers are estimates, each
    /// with its error
    #[arg(long, value_parser = memory, default_value = "1GiB")]
    memory: Bytes,
    /// Length of a day for working sets, if the trace has times and no day numbers: 24h, 90m, 30s
    #[arg(long, value_name = "TIME", value_parser = day, default_value = "24h")]
    day: Duration,
    /// Size of the file system or device, to compute the share that was accessed
    #[arg(long, value_parser = whole)]
    size: Option<Bytes>,
    /// Maximum rows of the tables of processes, devices and days; the JSON has all rows
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<usize>("rows", 0.., 10))]
    top: usize,
    /// Order of the processes
    #[arg(long, value_enum, default_value = "requests")]
    by: By,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    out: Out,
}

/// The order of processes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum By {
    Requests,
    Bytes,
    Pages,
}

/// The JSON: the summary and its settings.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    memory_bytes: u64,
    device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mixture: Option<stat_heat::Fit>,
    #[serde(flatten)]
    summary: &'a Summary,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.out.ensure_apart(&args.trace, &[], &[])?;
    let source = Source::new(&args.trace);
    let options = StatOptions {
        memory: args.memory,
        day: args.day,
        size: args.size,
        ..StatOptions::default()
    };
    let mut reader = source.open(&args.read.options())?;
    let mut summary = output::with_bar(|bar| {
        characterize(&mut reader, &options, args.read.device.as_deref(), &mut |at| {
            bar("reading", at.read, at.total);
        })
    })?;
    summary.trace.path.clone_from(&args.trace);
    if summary.trace.requests == 0 {
        let names: Vec<String> = reader.devices().iter().map(|d| d.name.clone()).collect();
        match &args.read.device {
            Some(device) if !names.is_empty() => bail!(
                "{} has no requests of device '{device}'; its devices: {}",
                args.trace,
                some_of(&names)
            ),
            _ => bail!("{} holds no requests", args.trace),
        }
    }
    let caveat = reader.info().format.caveat().map(ToOwned::to_owned);
    summary.notes.splice(0..0, caveat.into_iter().chain(reader.skipped().notes()));
    output::notes(&summary.notes);
    let mixture = stat_heat::fit(&summary);
    let heat = mixture.as_ref().map(stat_heat::table);
    let document = Document {
        schema: "seekless.stat/1",
        memory_bytes: args.memory.0,
        device: args.read.device.as_deref(),
        mixture,
        summary: &summary,
    };
    let report =
        |command: &str| stat_report::report(&summary, args.memory, args.top, args.by, command);
    if !args.out.write(&document, report)? {
        return Ok(());
    }
    for table in stat_tables::all(&summary, args.top, args.by).into_iter().chain(heat) {
        output::tables([&table])?;
        output::print("")?;
    }
    output::print(&stat_tables::finding(&summary))
}

/// The names of the first devices.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

fn memory(text: &str) -> Result<Bytes, String> {
    match size(text)? {
        bytes if bytes < MEMORY_MIN => {
            Err(format!("{text} is less than {MEMORY_MIN}, the minimum for useful estimates"))
        }
        bytes => Ok(bytes),
    }
}

fn whole(text: &str) -> Result<Bytes, String> {
    match size(text)? {
        Bytes(0) => Err("a size of 0".to_owned()),
        bytes => Ok(bytes),
    }
}

fn day(text: &str) -> Result<Duration, String> {
    let ns = duration(text).ok().and_then(|d| u64::try_from(d.as_nanos()).ok());
    let bad = || format!("'{text}' is not a length of time: write 30s, 90m, 24h or 7d");
    ns.map(Duration).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_as_people_write_them() {
        assert_eq!(day("24h"), Ok(Duration(86_400_000_000_000)));
        assert_eq!(day("7d"), Ok(Duration(604_800_000_000_000)));
        for bad in ["", "h", "0s", "5", "-1h", "1.5h", "99999999999999d", "5é"] {
            assert!(day(bad).is_err(), "{bad}");
        }
    }
}
