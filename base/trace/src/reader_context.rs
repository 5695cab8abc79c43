//! The state of a reader, for all formats: the tables that map names to dense numbers, the counts
//! of skipped records, and the checks of every record. The layout of files is not known here.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use seekless_block::{Duration, Extent, Flags, Op, Request, SimTime, StreamId};

use crate::error::{BadRecord, Parsed, quote};
use crate::{Event, Format, Malformed, OpenOptions, Record, TraceError, TracePosition, Traced};

/// Maximum sector number: 2^55 sectors are 2^64 bytes.
pub(crate) const SECTOR_MAX: u64 = 1 << 55;
/// A trace with more streams than Linux has pids is damaged or hostile. Later streams become stream
/// 0.
const STREAMS_MAX: usize = 1 << 22;
/// Maximum number of stored commands for processes without requests. Usually there are few; a trace
/// with many is hostile.
const NAMES_MAX: usize = 1 << 16;
const DEVICES_MAX: usize = 1 << 16;
const NAME_MAX: usize = 256;
/// Maximum stored length of a command; Linux has 15 letters.
const COMMAND_MAX: usize = 64;

/// A stream of requests: a process, if the trace names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Process number; 0 if unknown.
    pub pid: u32,
    /// The last command seen; empty if unknown.
    pub name: String,
}

/// A device of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its name in the trace (`8,0`, `hm,0`, a file name); empty if the trace has no devices.
    pub name: String,
}

/// The first skipped record of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Example {
    pub path: PathBuf,
    pub place: TracePosition,
    pub what: String,
}

/// The counts of skipped records, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Malformed records (lenient reading only).
    pub malformed: u64,
    /// The first malformed record.
    pub malformed_first: Option<Example>,
    /// Reads, writes and discards without sectors.
    pub zero_length: u64,
    /// The first request without sectors.
    pub zero_length_first: Option<Example>,
    /// Requests seen as an event other than the requested one (blktrace formats): Q, D and C.
    pub other_events: [u64; 3],
    /// Events that the recorder reported as lost (tracefs).
    pub lost_events: u64,
    /// Requests whose stream was dropped because the table of streams was full.
    pub streams_lost: u64,
    /// Requests without an operation in the trace (SYSTOR'17).
    pub without_op: u64,
    /// Reads and writes of files without an open in the trace (strace without `-y`).
    pub unknown_files: u64,
    /// Records that are too far out of order for the sorting window. They keep their position in
    /// the file.
    pub late: u64,
}

impl Skipped {
    /// Counts those of another trace too.
    pub(crate) fn add(&mut self, other: &Self) {
        self.malformed += other.malformed;
        self.zero_length += other.zero_length;
        for (all, more) in self.other_events.iter_mut().zip(other.other_events) {
            *all += more;
        }
        self.lost_events += other.lost_events;
        self.streams_lost += other.streams_lost;
        self.without_op += other.without_op;
        self.unknown_files += other.unknown_files;
        self.late += other.late;
        for (first, found) in [
            (&mut self.malformed_first, &other.malformed_first),
            (&mut self.zero_length_first, &other.zero_length_first),
        ] {
            if first.is_none() {
                first.clone_from(found);
            }
        }
    }
}

impl Skipped {
    /// The data that the reader skipped, lost or could not sort, a sentence each. Other events than
    /// the requested one are not among them.
    pub fn notes(&self) -> Vec<String> {
        let first = |example: &Option<Example>| {
            let first = example.as_ref().map(|e| format!("; the first at {}: {}", e.place, e.what));
            first.unwrap_or_default()
        };
        let malformed = format!("malformed records were skipped{}", first(&self.malformed_first));
        let empty =
            format!("requests of no sectors were skipped{}", first(&self.zero_length_first));
        let notes = [
            (self.malformed, &*malformed),
            (self.zero_length, &*empty),
            (self.late, "records stay out of order: they come too late to be sorted"),
            (self.lost_events, "events were lost while the trace was recorded"),
            (self.streams_lost, "requests have no process: the trace has too many processes"),
            (self.without_op, "requests were left out: the trace does not name their kind"),
            (
                self.unknown_files,
                "calls were left out: the trace does not show which files they use, for example pipes \
                 and sockets; strace -y names them",
            ),
        ];
        let notes = notes.into_iter().filter(|(count, _)| *count > 0);
        notes.map(|(count, what)| format!("{count} {what}")).collect()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process<'a> {
    /// 0 = unknown.
    pub(crate) pid: u32,
    /// Empty = unknown.
    pub(crate) name: &'a [u8],
}

/// The device of a request, as in the trace. A format uses the same variant everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dev<'a> {
    One,
    Number(u64),
    MajorMinor(u32, u32),
    Name(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRequest<'a> {
    /// Nanoseconds since the format's origin.
    pub(crate) time: Option<u64>,
    pub(crate) op: Op,
    /// In sectors of 512 bytes.
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) flags: Flags,
    pub(crate) process: Process<'a>,
    pub(crate) device: Dev<'a>,
    pub(crate) day: Option<u32>,
    pub(crate) service: Option<u64>,
}

impl RawRequest<'_> {
    /// A request of an unknown process, on the only device, at an unknown time.
    pub(crate) const fn new(op: Op, start: u64, len: u64) -> Self {
        Self {
            time: None,
            op,
            start,
            len,
            flags: Flags::NONE,
            process: Process { pid: 0, name: &[] },
            device: Dev::One,
            day: None,
            service: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ReaderContext {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) options: OpenOptions,
    pub(crate) skipped: Skipped,
    pub(crate) streams: Vec<Stream>,
    pub(crate) devices: Vec<Device>,
    /// Whether the day numbers of this trace are valid.
    pub(crate) days: bool,
    pub(crate) records: u64,
    /// The position of the last request that was checked.
    pub(crate) place: Option<TracePosition>,
    base: Option<u64>,
    /// Commands of processes that have not sent a request yet.
    names: FxHashMap<u32, Box<[u8]>>,
    stream_of_pid: FxHashMap<u32, u32>,
    stream_of_name: FxHashMap<Box<[u8]>, u32>,
    device_of_number: FxHashMap<u64, u32>,
    device_of_name: FxHashMap<Box<[u8]>, u32>,
    last_pid: (u32, u32),
    last_device: (u64, u32),
    last_name: u32,
}

impl ReaderContext {
    pub(crate) fn new(path: PathBuf, format: Format, options: OpenOptions) -> Self {
        Self {
            path,
            format,
            options,
            skipped: Skipped::default(),
            streams: vec![Stream::default()],
            devices: Vec::new(),
            days: false,
            records: 0,
            place: None,
            base: None,
            names: FxHashMap::default(),
            stream_of_pid: FxHashMap::default(),
            stream_of_name: FxHashMap::default(),
            device_of_number: FxHashMap::default(),
            device_of_name: FxHashMap::default(),
            last_pid: (0, 0),
            last_device: (0, u32::MAX),
            last_name: u32::MAX,
        }
    }

    /// Checks a request and replaces names by numbers. `None` if the request is skipped.
    pub(crate) fn finish(
        &mut self,
        raw: &RawRequest<'_>,
        place: TracePosition,
    ) -> Parsed<Option<Record>> {
        let Some(admitted) = self.admit(raw, place)? else { return Ok(None) };
        let device = self.device(raw.device)?;
        let stream = self.stream(raw.process);
        Ok(Some(self.record(raw, admitted, device, stream)))
    }

    /// Checks a request's address and time. `None` if the request is skipped.
    pub(crate) fn admit(
        &mut self,
        raw: &RawRequest<'_>,
        place: TracePosition,
    ) -> Parsed<Option<(Extent, SimTime)>> {
        self.place = Some(place);
        let extent = if raw.op == Op::Flush {
            Extent::new(0, 0)
        } else {
            // Such a request can name any sector: the end of an empty flush names the last one.
            if raw.len == 0 {
                self.zero_length(place);
                return Ok(None);
            }
            if raw.start > SECTOR_MAX || raw.len > SECTOR_MAX - raw.start {
                return Err(BadRecord::new("sector numbers below 2^55"));
            }
            Extent::new(raw.start, raw.len)
        };
        Ok(Some((extent, self.arrival(raw.time))))
    }

    /// The time since the first record.
    pub(crate) fn arrival(&mut self, time: Option<u64>) -> SimTime {
        match time {
            Some(t) => SimTime(t.saturating_sub(*self.base.get_or_insert(t))),
            None => SimTime(0),
        }
    }

    /// Arrival times count from the format's own origin, for every first record.
    pub(crate) fn count_from_origin(&mut self) {
        self.base = Some(0);
    }

    pub(crate) fn record(
        &mut self,
        raw: &RawRequest<'_>,
        (extent, arrival): (Extent, SimTime),
        device: u32,
        stream: u32,
    ) -> Record {
        self.records += 1;
        let stream = StreamId(stream);
        Record {
            request: Request { arrival, op: raw.op, extent, flags: raw.flags, stream },
            device,
            day: raw.day.filter(|_| self.days),
            service: raw.service.map(Duration),
        }
    }

    /// Counts a malformed record if reading is lenient; otherwise returns an error.
    #[cold]
    pub(crate) fn bad(&mut self, place: TracePosition, bad: BadRecord, bytes: &[u8]) -> Traced<()> {
        let found = bad.found.unwrap_or_else(|| quote(bytes));
        if self.options.lenient {
            self.skipped.malformed += 1;
            if self.skipped.malformed_first.is_none() {
                let what = format!("expected {}, found {found}", bad.expected);
                self.skipped.malformed_first =
                    Some(Example { path: self.path.clone(), place, what });
            }
            return Ok(());
        }
        Err(TraceError::Malformed(Box::new(Malformed {
            path: self.path.clone(),
            format: self.format,
            place,
            expected: bad.expected,
            found,
        })))
    }

    #[cold]
    fn zero_length(&mut self, place: TracePosition) {
        self.skipped.zero_length += 1;
        if self.skipped.zero_length_first.is_none() {
            let what = "a request without sectors".to_owned();
            self.skipped.zero_length_first = Some(Example { path: self.path.clone(), place, what });
        }
    }

    /// Whether this is the requested event; counts it if not.
    pub(crate) fn wants(&mut self, event: Event) -> bool {
        if event == self.options.event {
            return true;
        }
        self.skipped.other_events[event as usize] += 1;
        false
    }

    /// Stores the command of a process. It comes separately from the requests, often before them.
    pub(crate) fn name_process(&mut self, pid: u32, name: &[u8]) {
        if pid == 0 {
            return;
        }
        if let Some(&id) = self.stream_of_pid.get(&pid) {
            self.name_stream(id, name);
        } else if self.names.len() < NAMES_MAX || self.names.contains_key(&pid) {
            self.names.insert(pid, name[..name.len().min(COMMAND_MAX)].into());
        }
    }

    /// Stores the command of a stream. A process that runs another program gets its name: the last
    /// one stays.
    pub(crate) fn name_stream(&mut self, stream: u32, name: &[u8]) {
        let name = &name[..name.len().min(COMMAND_MAX)];
        if let Some(s) = self.streams.get_mut(stream as usize)
            && !name.is_empty()
            && s.name.as_bytes() != name
        {
            s.name = text(name);
        }
    }

    /// Starts the table of streams again. Earlier stream numbers become invalid.
    pub(crate) fn forget_streams(&mut self) {
        self.streams.truncate(1);
        self.names.clear();
        self.stream_of_pid.clear();
        self.stream_of_name.clear();
        (self.last_pid, self.last_name) = ((0, 0), u32::MAX);
    }

    pub(crate) fn stream(&mut self, process: Process<'_>) -> u32 {
        if process.pid == 0 {
            return if process.name.is_empty() { 0 } else { self.stream_by_name(process.name) };
        }
        let id = if process.pid == self.last_pid.0 {
            self.last_pid.1
        } else if let Some(&id) = self.stream_of_pid.get(&process.pid) {
            id
        } else {
            let Some(id) = self.add_stream(process) else { return 0 };
            self.stream_of_pid.insert(process.pid, id);
            id
        };
        self.last_pid = (process.pid, id);
        self.name_stream(id, process.name);
        id
    }

    fn stream_by_name(&mut self, name: &[u8]) -> u32 {
        let name = &name[..name.len().min(COMMAND_MAX)];
        if let Some(&id) = self.stream_of_name.get(name) {
            return id;
        }
        let Some(id) = self.add_stream(Process { pid: 0, name }) else { return 0 };
        self.stream_of_name.insert(name.into(), id);
        id
    }

    #[cold]
    pub(crate) fn add_stream(&mut self, process: Process<'_>) -> Option<u32> {
        if self.streams.len() > STREAMS_MAX {
            self.skipped.streams_lost += 1;
            return None;
        }
        let name = match self.names.remove(&process.pid) {
            Some(name) => text(&name),
            None => text(&process.name[..process.name.len().min(COMMAND_MAX)]),
        };
        self.streams.push(Stream { pid: process.pid, name });
        Some((self.streams.len() - 1) as u32)
    }

    fn device(&mut self, device: Dev<'_>) -> Parsed<u32> {
        let number = match device {
            Dev::One => 0,
            Dev::Number(n) => n,
            Dev::MajorMinor(major, minor) => u64::from(major) << 32 | u64::from(minor),
            Dev::Name(name) => return self.device_by_name(&name[..name.len().min(NAME_MAX)]),
        };
        if self.last_device.1 != u32::MAX && self.last_device.0 == number {
            return Ok(self.last_device.1);
        }
        let id = match self.device_of_number.get(&number) {
            Some(&id) => id,
            None => {
                let name = match device {
                    Dev::Number(n) => n.to_string(),
                    Dev::MajorMinor(major, minor) => format!("{major},{minor}"),
                    Dev::One | Dev::Name(_) => String::new(),
                };
                let id = self.add_device(name)?;
                self.device_of_number.insert(number, id);
                id
            }
        };
        self.last_device = (number, id);
        Ok(id)
    }

    fn device_by_name(&mut self, name: &[u8]) -> Parsed<u32> {
        if let Some(last) = self.devices.get(self.last_name as usize)
            && last.name.as_bytes() == name
        {
            return Ok(self.last_name);
        }
        let id = match self.device_of_name.get(name) {
            Some(&id) => id,
            None => {
                let id = self.add_device(text(name))?;
                self.device_of_name.insert(name.into(), id);
                id
            }
        };
        self.last_name = id;
        Ok(id)
    }

    #[cold]
    pub(crate) fn add_device(&mut self, name: String) -> Parsed<u32> {
        if self.devices.len() >= DEVICES_MAX {
            return Err(BadRecord::new("at most 65,536 devices"));
        }
        self.devices.push(Device { name });
        Ok((self.devices.len() - 1) as u32)
    }
}

/// Converts a name to text and limits its length.
pub(crate) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(NAME_MAX)]).into_owned()
}
