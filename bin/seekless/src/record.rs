//! `seekless record`: records a device's requests, as the kernel sees them, in the native store.
//! This module decides when to stop, and prints the counts.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use seekless_block::{Bytes, Op};
use seekless_report::Unit;
use seekless_serve::capture::{Config, Recorder, disks_below};
use seekless_trace::{Record, StoreWriter};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::NamedTempFile;

use seekless_cli::args::{duration, number, size};
use seekless_cli::output;
use seekless_cli::signals::on_signal;

/// How often the kernel's buffer is emptied.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of looks between two renewals of the status line.
const TELL_EVERY: u32 = 5;
/// The smallest buffer: the kernel takes at least two pages a CPU.
const BUFFER_MIN: Bytes = Bytes(4 << 10);
/// The largest buffer: memory of the kernel cannot be swapped out.
const BUFFER_MAX: Bytes = Bytes(4 << 30);
/// Most bytes of a request in the store, and bytes of the store's tables and footer.
const ROW_MAX: u64 = 48;
const FOOTER: u64 = 16 << 10;

/// Record the requests of a block device, with the programs that issue them
///
/// Reads the kernel's block events through a separate tracefs instance, and removes the instance
/// at the end. Writes nothing to the device, and does not change the tracing of other programs.
/// TRACE is a Parquet file with one row for each request: time, operation, sectors, flags, thread
/// and command. Needs root. Ends on SIGINT, SIGTERM or SIGHUP, or at a limit. TRACE is then
/// complete, or absent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Record a disk for an hour, show the statistics, and ask whether seekless would help
  seekless record /dev/sda -o sda.parquet --duration 1h
  seekless stat sda.parquet
  seekless advise sda.parquet --disk exos-x20

  # Until Ctrl-C, at most 1 GiB; the summary as JSON
  seekless record /dev/nvme0n1p2 -o home.parquet --max-size 1GiB --json -

  # With the time that the disk took for each request, for `seekless disk fit`
  seekless record /dev/sdb --event D -o sdb.parquet --max-requests 100000

docs/using/record.md says which requests are seen, and what recording costs.")]
pub(crate) struct Args {
    /// The block device: a whole disk or a partition
    device: PathBuf,
    /// The Parquet file to write
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,
    /// Replace TRACE if it exists
    #[arg(long)]
    force: bool,
    /// Event that counts as a request. Q: the request is queued, before merging. D: the request is
    /// issued to the driver; only D records the service time
    #[arg(long, value_enum, default_value = "Q")]
    event: RequestEvent,
    /// Stop after this time: 90s, 10m, 1h, 1d
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    duration: Option<Duration>,
    /// Stop before TRACE passes this size
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Limits")]
    max_size: Option<Bytes>,
    /// Stop after this many requests
    #[arg(long, value_name = "N", value_parser = number::<u64>("requests", 1.., 1_000_000), help_heading = "Limits")]
    max_requests: Option<u64>,
    /// The kernel's memory for events that are not read yet, all CPUs together
    #[arg(long, value_parser = buffer, default_value = "32MiB")]
    buffer: Bytes,
    /// Write the final counts as JSON (schema seekless.record/1) to FILE, or to standard output
    /// with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

impl Args {
    /// The recording for `advise`: the device's requests as they are queued, for this time.
    pub(crate) fn of(device: &str, output: &Path, duration: Duration) -> Self {
        Self {
            device: device.into(),
            output: output.to_owned(),
            force: false,
            event: RequestEvent::Queued,
            duration: Some(duration),
            max_size: None,
            max_requests: None,
            buffer: Bytes(32 << 20),
            json: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
enum RequestEvent {
    #[default]
    #[value(name = "Q", alias = "q")]
    #[serde(rename = "Q")]
    Queued,
    #[value(name = "D", alias = "d")]
    #[serde(rename = "D")]
    Issued,
}

fn buffer(text: &str) -> Result<Bytes, String> {
    match size(text)? {
        bytes if bytes < BUFFER_MIN || bytes > BUFFER_MAX => {
            Err(format!("{text} is not between {BUFFER_MIN} and {BUFFER_MAX}"))
        }
        bytes => Ok(bytes),
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Stopped {
    Signal,
    Duration,
    MaxSize,
    MaxRequests,
    /// By another program.
    SwitchedOff,
}

/// The counts, as JSON has them.
#[derive(Clone, Debug, Default, Serialize)]
struct RecordCounts {
    schema: &'static str,
    device: PathBuf,
    /// Kernel's name of the whole disk.
    disk: String,
    trace: PathBuf,
    event: RequestEvent,
    stopped_by: Option<Stopped>,
    requests: u64,
    reads: u64,
    writes: u64,
    discards: u64,
    flushes: u64,
    read_bytes: u64,
    written_bytes: u64,
    lost_events: u64,
    malformed_events: u64,
    duration_ns: u64,
    trace_bytes: u64,
}

impl RecordCounts {
    fn add(&mut self, record: &Record) {
        let bytes = record.request.extent.len.bytes().0;
        self.requests += 1;
        match record.request.op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Op::Write | Op::WriteZeroes => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
            Op::Discard => self.discards += 1,
            Op::Flush => self.flushes += 1,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let to = &args.output;
    ensure!(to.as_os_str() != "-", "TRACE must be a file: a store cannot be written to '-'");
    output::ensure_new(to, args.force)?;
    output::ensure_apart([Some(to.as_path()), args.json.as_deref()], [args.device.as_path()])?;
    // From here on a signal ends the recording in order: the kernel's instance is removed.
    let (send, stop) = channel();
    on_signal(&[SIGINT, SIGTERM, SIGHUP], move |_| send.send(()).is_ok())?;
    let config = Config {
        device: args.device.clone(),
        issued: args.event == RequestEvent::Issued,
        buffer: args.buffer,
    };
    let out = TraceOutput::create(to)?;
    let mut recorder = Recorder::start(&config)?;
    output::say(&format!("recording {}", args.device.display()));
    let shared = out.lies_on(recorder.device().disk);
    if shared {
        output::say(&format!(
            "{} is on the recorded disk: the trace omits the writes of this program, but contains those of its file system; to avoid them, name a file on another disk",
            to.display()
        ));
    }
    let session = Session::new(args, out, shared, &recorder)?;
    let counts = session.run(args, &mut recorder, &stop)?;
    tell(args, &counts, &recorder)?;
    ensure!(
        !matches!(counts.stopped_by, Some(Stopped::SwitchedOff)),
        "{}: the trace is incomplete: another program switched the recording off (`trace-cmd reset` does so)",
        to.display()
    );
    Ok(())
}

/// A recording under way.
struct Session {
    writer: StoreWriter<BufWriter<Meter>>,
    written: Arc<AtomicU64>,
    /// Requests since the store last wrote any out.
    unwritten: u64,
    counts: RecordCounts,
    start: Instant,
}

impl Session {
    fn new(
        args: &Args,
        out: TraceOutput,
        durably: bool,
        recorder: &Recorder,
    ) -> anyhow::Result<Self> {
        let written = Arc::new(AtomicU64::new(0));
        let meter = Meter { out, written: Arc::clone(&written), durably };
        let to = BufWriter::with_capacity(1 << 20, meter);
        let writer = StoreWriter::new(to, &args.output, &args.device, recorder.info())?;
        let counts = RecordCounts {
            schema: "seekless.record/1",
            device: args.device.clone(),
            disk: recorder.device().disk_name.clone(),
            trace: args.output.clone(),
            event: args.event,
            ..RecordCounts::default()
        };
        Ok(Self { writer, written, unwritten: 0, counts, start: Instant::now() })
    }

    /// Records until a limit or a signal. The complete store then has its name.
    fn run(
        mut self,
        args: &Args,
        recorder: &mut Recorder,
        stop: &Receiver<()>,
    ) -> anyhow::Result<RecordCounts> {
        let line = output::status_line();
        let mut looks = 0u32;
        let why = loop {
            match stop.recv_timeout(LOOK_EVERY) {
                Ok(()) => break Stopped::Signal,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals has ended"),
            }
            if let Err(error) = recorder.poll() {
                if recorder.ensure_on().is_ok() {
                    return Err(error.into());
                }
                break Stopped::SwitchedOff;
            }
            if let Some(why) = self.take(args, recorder)? {
                break why;
            }
            if args.duration.is_some_and(|d| self.start.elapsed() >= d) {
                break Stopped::Duration;
            }
            looks += 1;
            if looks.is_multiple_of(TELL_EVERY) {
                line.set_message(self.status(recorder));
            }
        };
        let off = recorder.ensure_on().is_err().then_some(Stopped::SwitchedOff);
        recorder.stop()?;
        self.counts.duration_ns = self.start.elapsed().as_nanos() as u64;
        // The last requests are part of the trace, if no limit was met.
        let met = self.take(args, recorder)?;
        line.finish_and_clear();
        self.counts.stopped_by = off.or(met).or(Some(why));
        self.finish(args, recorder)
    }

    /// Stores the requests that are ready, up to the limits.
    fn take(&mut self, args: &Args, recorder: &mut Recorder) -> anyhow::Result<Option<Stopped>> {
        loop {
            if args.max_requests.is_some_and(|n| self.counts.requests >= n) {
                return Ok(Some(Stopped::MaxRequests));
            }
            let size = self.written.load(Ordering::Relaxed) + self.unwritten * ROW_MAX + FOOTER;
            if args.max_size.is_some_and(|most| size >= most.0) {
                return Ok(Some(Stopped::MaxSize));
            }
            let Some(record) = recorder.next_record() else { return Ok(None) };
            self.counts.add(&record);
            self.unwritten += 1;
            if self.writer.write(&record, recorder.streams(), recorder.devices())? {
                self.unwritten = 0;
            }
        }
    }

    fn finish(mut self, args: &Args, recorder: &Recorder) -> anyhow::Result<RecordCounts> {
        self.counts.lost_events = recorder.lost_events();
        self.counts.malformed_events = recorder.malformed().0;
        self.writer.lost_events(self.counts.lost_events);
        let cannot = || format!("{}: cannot be written", args.output.display());
        let to = self.writer.finish(false)?;
        let meter = to.into_inner().map_err(io::IntoInnerError::into_error).with_context(cannot)?;
        self.counts.trace_bytes = self.written.load(Ordering::Relaxed);
        meter.out.keep(&args.output).with_context(cannot)?;
        Ok(self.counts)
    }

    fn status(&self, recorder: &Recorder) -> String {
        let elapsed = self.start.elapsed().as_secs();
        format!(
            "{:02}:{:02}:{:02}  {} requests  {} read  {} written  {} in the trace  {} lost",
            elapsed / 3600,
            elapsed / 60 % 60,
            elapsed % 60,
            Unit::count(self.counts.requests),
            Unit::bytes(self.counts.read_bytes),
            Unit::bytes(self.counts.written_bytes),
            Unit::bytes(self.written.load(Ordering::Relaxed)),
            Unit::count(recorder.lost_events()),
        )
    }
}

/// The output: a file that gets its name when it is complete, or a pipe or a device.
enum TraceOutput {
    Whole(NamedTempFile),
    Special(File),
}

impl TraceOutput {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("{}: cannot be written", path.display());
        if path.metadata().is_ok_and(|m| !m.is_file()) {
            return Ok(Self::Special(File::options().write(true).open(path).with_context(cannot)?));
        }
        // As for any new file: the user's umask applies.
        let mode = Permissions::from_mode(0o666);
        Ok(Self::Whole(output::part(path, mode).with_context(cannot)?))
    }

    fn file(&mut self) -> &mut File {
        match self {
            Self::Whole(file) => file.as_file_mut(),
            Self::Special(file) => file,
        }
    }

    fn lies_on(&self, disk: (u32, u32)) -> bool {
        matches!(self, Self::Whole(file) if disks_below(file.path()).contains(&disk))
    }

    /// Gives it its name.
    fn keep(self, path: &Path) -> io::Result<()> {
        if let Self::Whole(file) = self { output::keep(file, path) } else { Ok(()) }
    }
}

/// Counts written bytes. `durably`: this thread waits until the bytes are on the disk. The recorder
/// leaves out writes of this thread, but not later writes of the kernel.
struct Meter {
    out: TraceOutput,
    written: Arc<AtomicU64>,
    durably: bool,
}

impl Write for Meter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.file().write(bytes)?;
        self.written.fetch_add(n as u64, Ordering::Relaxed);
        if self.durably {
            self.out.file().sync_data()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.file().flush()
    }
}

/// Prints the final counts, and writes them as JSON if that was asked for.
fn tell(args: &Args, counts: &RecordCounts, recorder: &Recorder) -> anyhow::Result<()> {
    let seconds = Duration::from_nanos(counts.duration_ns).as_secs_f64();
    let per_second = counts.requests as f64 / seconds.max(1e-9);
    output::say(&format!(
        "{}: {} requests of {} in {} ({} a second): {} reads, {} writes, {} discards, {} flushes; {} read, {} written; {}; lost {} events",
        args.output.display(),
        Unit::count(counts.requests),
        args.device.display(),
        Unit::Seconds.format(seconds, 3),
        Unit::Count.format(per_second, 3),
        Unit::count(counts.reads),
        Unit::count(counts.writes),
        Unit::count(counts.discards),
        Unit::count(counts.flushes),
        Unit::bytes(counts.read_bytes),
        Unit::bytes(counts.written_bytes),
        Unit::bytes(counts.trace_bytes),
        Unit::count(counts.lost_events),
    ));
    if counts.lost_events > 0 {
        output::say(&format!(
            "the trace has gaps: the kernel's buffer of {} was full; give a larger --buffer, or write TRACE to a faster disk",
            args.buffer
        ));
    }
    if let (n @ 1.., example) = recorder.malformed() {
        output::say(&format!(
            "left out {n} malformed events{}",
            example.map_or(String::new(), |e| format!("; the first: {e}"))
        ));
    }
    let Some(path) = &args.json else { return Ok(()) };
    output::write(path, &(serde_json::to_string_pretty(counts)? + "\n"))
}
