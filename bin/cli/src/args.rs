//! Arguments shared by every command that reads a trace, and the parsers of sizes and shares.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use seekless_block::{Bytes, Duration};
use seekless_compare::{AssumedFree, Cutting, Host, RollingOptions};
use seekless_disk::{DeviceSpec, Scheduler, SpinDown};
use seekless_report::Report;
use seekless_sim::Replay;
use seekless_trace::{Columns, Event, OpenOptions, Source};

pub use seekless_compare::words::{duration, percent, ram, share, size};

use crate::{disk, output};

/// A file that a command writes when its work is done, or `-`. A place where it cannot be written
/// is refused before the work begins.
pub fn out_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| output::ensure_writable(&path).map(|()| path))
}

/// A number within `range`. Other words are answered with what was expected: what the number
/// counts, its limits, and an example.
pub fn number<T: FromStr + PartialOrd + Display>(
    what: &'static str,
    range: impl RangeBounds<T> + Clone + Send + Sync + 'static,
    example: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    let kind = if "0.5".parse::<T>().is_ok() { "a number" } else { "a whole number" };
    let limit = |word: &str, bound: Bound<&T>| match bound {
        Bound::Included(n) => format!(" {word} {n}"),
        Bound::Excluded(_) | Bound::Unbounded => String::new(),
    };
    let (from, to) = (limit("from", range.start_bound()), limit("to", range.end_bound()));
    let expected = format!("expected {what}: {kind}{from}{to}, for example {example}");
    move |text| {
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| expected.clone())
    }
}

/// A folder that a command makes and fills when its work is done; refused like [`out_file`].
pub fn out_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let known = path.ancestors().find(|p| !p.as_os_str().is_empty() && p.exists());
        let known = known.unwrap_or(Path::new("."));
        if !known.is_dir() {
            return Err(format!("cannot make the folder: {} is not a folder", known.display()));
        }
        output::ensure_writable_folder(known).map(|()| path)
    })
}

/// The event of a block trace that counts as a request.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EventArg {
    /// Queued
    #[value(name = "Q", alias = "q")]
    Queue,
    /// Issued to the driver
    #[value(name = "D", alias = "d")]
    Issue,
    /// Completed
    #[value(name = "C", alias = "c")]
    Complete,
}

/// Options for reading a trace.
#[derive(Clone, Debug, Args)]
pub struct ReadArgs {
    /// Only this device of the trace
    #[arg(long, value_name = "NAME", help_heading = "Reading the trace")]
    pub device: Option<String>,
    /// The event of a blktrace that counts as a request
    #[arg(long, value_enum, default_value = "Q", help_heading = "Reading the trace")]
    pub event: EventArg,
    /// Skip and count malformed records, instead of stopping at the first
    #[arg(long, help_heading = "Reading the trace")]
    pub lenient: bool,
    /// Read the trace as a table with these columns: FIELD=COLUMN[:UNIT], separated by commas.
    /// Fields: time (s, ms, us, ns), op (words, read0, read1), offset and size (bytes, sectors, KiB,
    /// pages), process, device, service. Example: time=1:ms,op=2,offset=3,size=4
    #[arg(long, value_name = "FIELD=COLUMN,...", help_heading = "Reading the trace")]
    pub columns: Option<Columns>,
    /// With --columns: the first line holds titles, not a request
    #[arg(long, requires = "columns", help_heading = "Reading the trace")]
    pub header: bool,
}

impl ReadArgs {
    /// The options of the reader.
    pub const fn options(&self) -> OpenOptions {
        let event = match self.event {
            EventArg::Queue => Event::Queue,
            EventArg::Issue => Event::Issue,
            EventArg::Complete => Event::Complete,
        };
        let columns = match self.columns {
            Some(columns) => Some(columns.with_header(self.header)),
            None => None,
        };
        OpenOptions { event, lenient: self.lenient, columns }
    }
}

/// The system that serves a replayed trace, and its way of replay.
#[derive(Clone, Copy, Debug, Args)]
pub struct SystemArgs {
    /// RAM for cached pages, the same for all compared systems
    #[arg(long, value_parser = ram, default_value = "16MiB")]
    pub cache: Bytes,
    /// Minimum length of a read from home that misses RAM
    #[arg(long, value_parser = size, default_value = "64KiB")]
    pub read_ahead: Bytes,
    /// Cluster size: a read from copies reads whole clusters; 0 = only the requested sectors
    #[arg(long, value_parser = size, default_value = "64KiB")]
    pub cluster: Bytes,
    /// The drive's scheduler: fcfs, sstf, look, clook, sptf, asptf, anticipatory or elevator
    #[arg(long, default_value = "fcfs")]
    pub scheduler: Scheduler,
    /// When the drive stops its platters: none, after SECONDS without work, or adaptive
    #[arg(long, value_name = "none|SECONDS|adaptive", default_value = "none")]
    pub spin_down: SpinDown,
    /// With a write buffer: an acknowledged write without FUA may stay in RAM for this time, so that
    /// several are written together; a flush writes them at once [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    gather: Option<std::time::Duration>,
    /// Closed loop: this number of requests in flight; arrival times are not used
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "open_loop",
          value_parser = number::<u32>("requests in flight", 1..=65_536, 32))]
    queue_depth: u32,
    /// Client with think time: one request at a time, each sent this time after the last answer
    #[arg(long, value_name = "DURATION", value_parser = duration,
          conflicts_with_all = ["open_loop", "queue_depth"])]
    think: Option<std::time::Duration>,
    /// Open loop: requests arrive at their recorded times
    #[arg(long)]
    open_loop: bool,
}

impl SystemArgs {
    fn host(&self, disk: DeviceSpec) -> Host {
        let Self { cache, read_ahead, cluster, scheduler, spin_down, gather, .. } = *self;
        let gather = gather.map_or(Duration::ZERO, |g| Duration::from_millis(g.as_millis() as u64));
        Host { disk, scheduler, spin_down, cache, read_ahead, cluster, gather }
    }

    /// Closed or open loop.
    pub const fn replay(&self) -> Replay {
        match self.think {
            Some(think) => Replay::Think { time: Duration::from_millis(think.as_millis() as u64) },
            None if self.open_loop => Replay::Open,
            None => Replay::Closed { depth: self.queue_depth },
        }
    }
}

/// Arguments of every study of a trace on a modelled disk.
#[derive(Clone, Debug, Args)]
pub struct StudyArgs {
    #[command(flatten)]
    system: SystemArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Outputs.
    #[command(flatten)]
    pub out: Out,
}

impl StudyArgs {
    /// The system on this disk.
    pub fn host(&self, disk: DeviceSpec) -> Host {
        self.system.host(disk)
    }

    /// The settings for this trace and these cuts.
    pub fn rolling(&self, cutting: Cutting) -> RollingOptions {
        RollingOptions {
            open: self.read.options(),
            device: self.read.device.clone(),
            replay: self.system.replay(),
            cutting,
            ram: self.system.cache,
            free: AssumedFree::default(),
            threads: None,
        }
    }
}

/// Outputs. The JSON names its `schema`.
#[derive(Clone, Debug, Args)]
pub struct Out {
    /// Write the numbers as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = out_file())]
    json: Option<PathBuf>,
    /// Write a report as one HTML file
    #[arg(long, value_name = "FILE.html", value_parser = out_file())]
    report: Option<PathBuf>,
    /// Write every figure of the report into this folder, as SVG, PNG and CSV
    #[arg(long, value_name = "DIR", value_parser = out_folder())]
    figures: Option<PathBuf>,
}

impl Out {
    /// Writes the requested outputs. `report` gets the command line. False if one of them goes to
    /// standard output.
    pub fn write(
        &self,
        document: &impl serde::Serialize,
        report: impl FnOnce(&str) -> Report,
    ) -> anyhow::Result<bool> {
        // The numbers come first: a picture that cannot be written does not cost them.
        let goes_on = output::json_beside(self.json.as_deref(), document)?;
        if self.report.is_some() || self.figures.is_some() {
            let (report, html) = (report(&command_line()), self.report.as_deref());
            output::report(&report, html, self.figures.as_deref())?;
        }
        Ok(goes_on && !output::is_stdout(self.report.as_deref()))
    }

    /// Refuses an output that is also the other one, or one of these inputs.
    pub fn ensure_apart_from<'a>(
        &'a self,
        inputs: impl IntoIterator<Item = &'a Path>,
    ) -> anyhow::Result<()> {
        output::ensure_apart([self.json.as_deref(), self.report.as_deref()], inputs)
    }

    /// Refuses an output that is also another one, of these or of `more`, or the trace, or the file
    /// of one of these disks.
    pub fn ensure_apart(
        &self,
        trace: &str,
        disks: &[&str],
        more: &[Option<&Path>],
    ) -> anyhow::Result<()> {
        let outputs = [self.json.as_deref(), self.report.as_deref()];
        let trace = Source::new(trace);
        let disks = disks.iter().filter_map(|name| disk::file(name));
        output::ensure_apart(outputs.iter().chain(more).copied(), disks.chain([trace.path()]))
    }
}

/// The command line of this process, for people.
pub fn command_line() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}
