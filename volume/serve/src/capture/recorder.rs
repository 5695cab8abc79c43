//! The recorder: reads pages of all CPUs, and returns records in order of time. The owner decides
//! when to poll.

use std::collections::VecDeque;
use std::path::PathBuf;

use rustix::thread::gettid;
use seekless_block::{Bytes, Duration};
use seekless_host::tracing::{
    Entries, Field, Instance, PageLayout, Pipe, TraceError, check_entries, common_type, now,
};
use seekless_trace::{Collector, Device, Info, Record, Sighting, Stream};

use super::device::BlockDevice;
use super::error::CaptureError;
use super::format::EventLayout;
use super::issued::Issued;

/// Longest delay of an event in a buffer: an entry that is being written, or a virtual CPU that
/// sleeps while it writes.
const SLACK_NS: u64 = 10_000_000;
/// Interval between reads of the kernel's lost-event counts, one file per CPU.
const COUNT_EVERY_NS: u64 = 1_000_000_000;
const LETTERS: usize = 16;
const COMMAND: usize = 16;

/// Settings of a recording.
#[derive(Clone, Debug)]
#[must_use]
pub struct Config {
    /// The block device.
    pub device: PathBuf,
    /// Requests as issued to the driver, after merging and scheduling, each with its time to
    /// completion. The kernel then records three events per request instead of one.
    pub issued: bool,
    /// Kernel memory for unread events of all CPUs, rounded up to two pages per CPU.
    pub buffer: Bytes,
}

impl Config {
    /// Requests as queued on this block device, with 32 MiB of buffer.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into(), issued: false, buffer: Bytes(32 << 20) }
    }
}

/// The needed fields of a block event. Times are of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) sector: u64,
    pub(super) sectors: u32,
    pub(super) pid: u32,
    pub(super) what: BlockEventKind,
    pub(super) kind: [u8; LETTERS],
    pub(super) command: [u8; COMMAND],
}

/// The kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BlockEventKind {
    #[default]
    Queue,
    Issue,
    Requeue,
    Complete,
}

impl BlockEventKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Queue => "block_bio_queue",
            Self::Issue => "block_rq_issue",
            Self::Requeue => "block_rq_requeue",
            Self::Complete => "block_rq_complete",
        }
    }

    /// A file of the event in an instance.
    fn path(self, file: &str) -> String {
        format!("events/block/{}/{file}", self.name())
    }
}

/// Decodes the events of a recording.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) page: PageLayout,
    pub(super) common_type: Field,
    pub(super) events: Vec<(BlockEventKind, EventLayout)>,
    /// Keeps only events of this device; the kernel filters too.
    pub(super) dev: u64,
}

impl Decoder {
    /// Appends the events of a page to `to`. Returns the number of events lost before it, or the
    /// fault.
    pub(super) fn page(&self, bytes: &[u8], to: &mut Vec<Event>) -> Result<u64, &'static str> {
        let mut entries = Entries::new(bytes, &self.page).ok_or("a page without a whole head")?;
        for (time, entry) in entries.by_ref() {
            self.event(time, entry, to).ok_or("an event shorter than its fields")?;
        }
        if entries.broken() {
            return Err("a page with something that is no entry");
        }
        Ok(entries.missed)
    }

    fn event(&self, time: u64, bytes: &[u8], to: &mut Vec<Event>) -> Option<()> {
        let id = self.common_type.number(bytes)?;
        let Some((what, layout)) = self.events.iter().find(|(_, l)| u64::from(l.id) == id) else {
            return Some(());
        };
        if layout.dev.number(bytes)? != self.dev {
            return Some(());
        }
        let mut event = Event {
            time,
            sector: layout.sector.number(bytes)?,
            sectors: layout.sectors.number(bytes)? as u32,
            pid: layout.pid.number(bytes)? as u32,
            what: *what,
            ..Event::default()
        };
        copy(&mut event.kind, layout.kind.text(bytes)?);
        if let Some(command) = layout.command {
            copy(&mut event.command, command.text(bytes)?);
        }
        to.push(event);
        Some(())
    }
}

/// Copies as much as fits; the rest of `to` stays zero.
fn copy(to: &mut [u8], from: &[u8]) {
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
}

fn letters(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}

/// Records one device's requests until it is stopped or dropped; both remove everything from the
/// kernel.
#[derive(Debug)]
pub struct Recorder {
    instance: Instance,
    decoder: Decoder,
    device: BlockDevice,
    issued: Option<Issued>,
    collector: Collector,
    page: Vec<u8>,
    /// Most pages of one CPU per poll.
    pages_max: u64,
    /// Not yet in order: later events of other CPUs may precede them.
    pending: Vec<Event>,
    ready: VecDeque<Record>,
    /// Lost events by the kernel's counts, and the least number by the pages.
    lost: u64,
    missed: u64,
    /// Time of the last read of the kernel's counts.
    counted: u64,
}

impl Recorder {
    /// Starts to record. Requests of the calling thread are left out.
    pub fn start(config: &Config) -> Result<Self, CaptureError> {
        let device = BlockDevice::find(&config.device)?;
        if config.issued && !device.has_queue {
            return Err(CaptureError::NoIssue(device.path));
        }
        let mut instance = Instance::new()?;
        let page = instance.describe("events/header_page", PageLayout::parse)?;
        instance.describe("events/header_event", check_entries)?;
        let wanted: &[BlockEventKind] = if config.issued {
            &[BlockEventKind::Issue, BlockEventKind::Requeue, BlockEventKind::Complete]
        } else {
            &[BlockEventKind::Queue]
        };
        let common_type = instance.describe(&wanted[0].path("format"), common_type)?;
        let mut events = Vec::new();
        for &what in wanted {
            events.push((what, instance.describe(&what.path("format"), EventLayout::parse)?));
        }
        instance.open_pipes(config.buffer.0)?;
        for &what in wanted {
            instance.set(&what.path("filter"), &filter(&device, what))?;
            instance.set(&what.path("enable"), "1")?;
        }
        instance.set("tracing_on", "1")?;
        let decoder = Decoder { page, common_type, events, dev: device.kernel_number() };
        let page = vec![0; decoder.page.data.end];
        Ok(Self {
            pages_max: (config.buffer.0 / page.len() as u64).max(2),
            collector: Collector::new(&device.path),
            issued: config.issued.then(Issued::default),
            pending: Vec::new(),
            ready: VecDeque::new(),
            lost: 0,
            missed: 0,
            counted: now(),
            instance,
            decoder,
            device,
            page,
        })
    }

    /// Takes the kernel's events. Twenty calls per second are enough to keep the buffer from
    /// filling. Fails once a second if [`Self::ensure_on`] does.
    pub fn poll(&mut self) -> Result<(), CaptureError> {
        let now = now();
        let horizon = self.look(now.saturating_sub(SLACK_NS))?;
        self.release(horizon);
        if now - self.counted > COUNT_EVERY_NS {
            self.counted = now;
            self.ensure_on()?;
            self.count_lost()?;
        }
        Ok(())
    }

    /// Fails if another program has switched the recording off: a quiet device looks the same.
    pub fn ensure_on(&self) -> Result<(), CaptureError> {
        self.instance.must_be_on("tracing_on")?;
        for (what, _) in &self.decoder.events {
            self.instance.must_be_on(&what.path("enable"))?;
        }
        Ok(())
    }

    /// Ends the recording, and takes the remaining events. The last records may be ready
    /// afterwards.
    pub fn stop(&mut self) -> Result<(), CaptureError> {
        if self.instance.pipes.is_empty() {
            return Ok(());
        }
        self.instance.set("tracing_on", "0")?;
        // Until every CPU's buffer is empty.
        while self.look(u64::MAX)? != u64::MAX {}
        self.release(u64::MAX);
        self.count_lost()?;
        self.instance.pipes.clear();
        Ok(())
    }

    /// The next request, in order of time.
    pub fn next_record(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// Number of events lost in a full buffer; 0 for a complete recording.
    pub fn lost_events(&self) -> u64 {
        self.lost.max(self.missed)
    }

    /// Processes by stream number; number 0 is "unknown". Grows with the records.
    pub fn streams(&self) -> &[Stream] {
        self.collector.streams()
    }

    /// Empties the table of [`Self::streams`], to limit its size. Numbers in earlier records become
    /// invalid.
    pub fn forget_streams(&mut self) {
        self.collector.forget_streams();
    }

    /// The device for [`seekless_trace::StoreWriter`].
    pub fn devices(&self) -> &[Device] {
        self.collector.devices()
    }

    /// The recorded device.
    pub const fn device(&self) -> &BlockDevice {
        &self.device
    }

    /// Properties of the records.
    pub const fn info(&self) -> Info {
        Collector::info(self.issued.is_some())
    }

    /// Number of malformed events of the device, and the first of them in words.
    pub fn malformed(&self) -> (u64, Option<&str>) {
        let skipped = self.collector.skipped();
        (skipped.malformed, skipped.malformed_first.as_ref().map(|e| e.what.as_str()))
    }

    /// Reads all CPUs' pages. Returns the time, at most `horizon`, up to which all events are here.
    fn look(&mut self, mut horizon: u64) -> Result<u64, TraceError> {
        for pipe in &mut self.instance.pipes {
            let (mut pages, before) = (0, self.pending.len());
            loop {
                let length = pipe.read(&mut self.page)?;
                if length == 0 {
                    break;
                }
                let bytes = &self.page[..length];
                let missed = self.decoder.page(bytes, &mut self.pending).map_err(|what| {
                    TraceError::Data { path: pipe.path.clone(), what: what.to_owned() }
                })?;
                self.missed += missed;
                pages += 1;
                if pages >= self.pages_max {
                    // This CPU writes its buffer as fast as the recorder reads. Later events of
                    // other CPUs wait for the next pages of this CPU.
                    let last = self.pending[before..].last();
                    horizon = horizon.min(last.map_or(0, |e| e.time));
                    break;
                }
            }
        }
        Ok(horizon)
    }

    /// Makes records of the events before `horizon`.
    fn release(&mut self, horizon: u64) {
        // Each CPU's events are in order: this sort is fast for sorted runs.
        self.pending.sort_by_key(|e| e.time);
        let n = self.pending.partition_point(|e| e.time < horizon);
        for event in self.pending.drain(..n) {
            match (&mut self.issued, event.what) {
                (Some(issued), BlockEventKind::Issue) => issued.issue(event),
                (Some(issued), BlockEventKind::Requeue) => issued.requeue(&event),
                (Some(issued), BlockEventKind::Complete) => issued.complete(&event),
                _ => self.ready.extend(record(&mut self.collector, &self.device, &event, None)),
            }
        }
        if let Some(issued) = &mut self.issued {
            while let Some((event, took)) = issued.next(horizon == u64::MAX) {
                self.ready.extend(record(&mut self.collector, &self.device, &event, took));
            }
        }
    }

    fn count_lost(&mut self) -> Result<(), CaptureError> {
        self.lost = self.instance.pipes.iter().map(Pipe::lost).sum::<Result<_, _>>()?;
        Ok(())
    }
}

/// The record of an event; sectors of a partition count from its start.
fn record(
    collector: &mut Collector,
    device: &BlockDevice,
    event: &Event,
    took: Option<u64>,
) -> Option<Record> {
    let start = device.partition.map_or(0, |p| p.start.0);
    collector.record(&Sighting {
        time: event.time,
        kind: letters(&event.kind),
        sector: event.sector.saturating_sub(start),
        sectors: event.sectors.into(),
        pid: event.pid,
        command: letters(&event.command),
        service: took.map(Duration),
    })
}

/// The kernel's filter: leaves out other devices, other partitions, and requests of this thread.
/// Events have the disk's number and sectors of the whole disk. A flush has no sectors and belongs
/// to the disk.
fn filter(device: &BlockDevice, what: BlockEventKind) -> String {
    let mut filter = format!("dev == {}", device.kernel_number());
    if let Some(part) = device.partition {
        let (start, end) = (part.start.0, part.end().0);
        filter += &format!(" && ((sector >= {start} && sector < {end}) || nr_sector == 0)");
    }
    if what != BlockEventKind::Complete {
        filter += &format!(" && common_pid != {}", gettid().as_raw_nonzero());
    }
    filter
}

#[cfg(all(test, target_endian = "little"))]
#[allow(clippy::unwrap_used, reason = "tests fail by panic")]
mod tests {
    use proptest::prelude::*;

    use super::super::fuzzing;
    use super::*;

    /// Two pages from Linux 6.18 while dd read 90 pages of /dev/loop0, then wrote 9.
    const PAGES: [&[u8]; 2] = [
        include_bytes!("../../corpus/ring_page/page0"),
        include_bytes!("../../corpus/ring_page/page1"),
    ];

    fn decoder() -> Decoder {
        fuzzing::decoder(PageLayout::EXAMPLE, fuzzing::EVENT).unwrap()
    }

    #[test]
    fn pages_of_a_real_kernel() {
        let mut events = Vec::new();
        for page in PAGES {
            assert_eq!(decoder().page(page, &mut events), Ok(0));
        }
        let told = |e: &Event| {
            let text = |b| String::from_utf8_lossy(letters(b)).into_owned();
            (text(&e.kind), e.sector, e.sectors, text(&e.command))
        };
        let row = |kind: &str, page: u64| (kind.to_owned(), page * 8, 8, "dd".to_owned());
        let reads = (0..90).map(|page| row("RS", page));
        let asked: Vec<_> = reads.chain((0..9).map(|page| row("WS", page))).collect();
        assert_eq!(events.iter().map(told).collect::<Vec<_>>(), asked);
        assert!(events.is_sorted_by_key(|e| e.time));
        // Two runs of dd, at least 0.3 s apart.
        let pids: Vec<_> = events.chunk_by(|a, b| a.pid == b.pid).map(<[_]>::len).collect();
        assert_eq!(pids, [90, 9]);
        assert!((300_000_000..2_000_000_000).contains(&(events[90].time - events[89].time)));
        // Events of another device are skipped.
        let mut none = Vec::new();
        let other = Decoder { dev: 8 << 20, ..decoder() };
        assert_eq!((other.page(PAGES[0], &mut none), none.len()), (Ok(0), 0));
    }

    #[test]
    fn a_page_cut_anywhere_is_refused() {
        let mut all = Vec::new();
        decoder().page(PAGES[0], &mut all).unwrap();
        for cut in 0..PAGES[0].len() {
            let mut events = Vec::new();
            assert!(decoder().page(&PAGES[0][..cut], &mut events).is_err(), "{cut}");
            fuzzing::page(&PAGES[0][..cut]);
        }
        for page in PAGES {
            fuzzing::page(page);
        }
        fuzzing::page(PageLayout::EXAMPLE.as_bytes());
        fuzzing::page(fuzzing::EVENT.as_bytes());
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(
            edits in prop::collection::vec((0usize..4096, any::<u8>()), 0..40),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut page = PAGES[1].to_vec();
            for (at, byte) in edits {
                page[at] = byte;
            }
            fuzzing::page(&page);
            fuzzing::page(&noise);
            page[16..16 + noise.len()].copy_from_slice(&noise);
            fuzzing::page(&page);
        }
    }

    #[test]
    fn what_the_kernel_is_asked_to_leave_out() {
        let mut device = BlockDevice {
            path: "/dev/sda1".into(),
            disk: (8, 16),
            disk_name: "sda".to_owned(),
            partition: None,
            sectors: 100,
            disk_sectors: 100,
            sequence: 1,
            has_queue: true,
        };
        assert_eq!(filter(&device, BlockEventKind::Complete), "dev == 8388624");
        device.partition = Some(seekless_block::Extent::new(2048, 100));
        let part = "dev == 8388624 && ((sector >= 2048 && sector < 2148) || nr_sector == 0)";
        assert_eq!(filter(&device, BlockEventKind::Complete), part);
        let own = format!("{part} && common_pid != {}", gettid().as_raw_nonzero());
        assert_eq!(filter(&device, BlockEventKind::Queue), own);
    }
}
