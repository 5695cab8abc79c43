//! What a reader carries from record to record, whatever the format: the tables that turn names into
//! dense numbers, the counts of what was passed over, and the checks every record goes through. It knows
//! no file layout.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use seekless_block::{Duration, Extent, Flags, Op, Request, SimTime, StreamId};

use crate::error::{Bad, quote};
use crate::{Event, Format, Malformed, OpenOptions, Place, Record, TraceError};

/// Highest sector number believed: 2^55 sectors are 2^64 bytes.
pub(crate) const SECTOR_MAX: u64 = 1 << 55;
/// A trace with more streams than Linux has pids is damaged or hostile: later ones become stream 0.
const STREAMS_MAX: usize = 1 << 22;
/// Commands kept of processes that have asked for nothing yet; few have, as a rule, so many are hostile.
const NAMES_MAX: usize = 1 << 16;
/// Devices beyond this are refused.
const DEVICES_MAX: usize = 1 << 16;
/// Longest name of a device kept.
const NAME_MAX: usize = 256;
/// Longest command kept; Linux has 15 letters.
const COMMAND_MAX: usize = 64;

/// A stream of requests: a process, where the trace names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Process number, where known; 0 otherwise.
    pub pid: u32,
    /// Command, where known, the last one seen; empty otherwise.
    pub name: String,
}

/// A device of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// As the trace names it (`8,0`, `hm,0`, a file's name); empty where it has no devices.
    pub name: String,
}

/// The first record of its kind that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What was wrong, in words.
    pub what: String,
}

/// What was passed over, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Malformed records (lenient reading only).
    pub malformed: u64,
    /// The first malformed record.
    pub malformed_first: Option<Example>,
    /// Reads, writes and discards of no sectors.
    pub zero_length: u64,
    /// The first request of no sectors.
    pub zero_length_first: Option<Example>,
    /// Requests seen as another event than the one asked for (blktrace family): Q, D and C.
    pub other_events: [u64; 3],
    /// Events the recorder itself says it lost (tracefs).
    pub lost_events: u64,
    /// Requests whose stream was dropped because the table of streams was full.
    pub streams_lost: u64,
    /// Requests whose operation the trace does not tell (SYSTOR'17).
    pub without_op: u64,
    /// Reads and writes of files that the trace never saw opened (strace without `-y`).
    pub unknown_files: u64,
    /// Records so far out of order that no window reaches: they kept their place in the file.
    pub late: u64,
}

/// Who asked, as the trace has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process<'a> {
    /// 0 = unknown.
    pub(crate) pid: u32,
    /// Empty = unknown.
    pub(crate) name: &'a [u8],
}

/// Which device, as the trace has it. A format uses one of these throughout.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dev<'a> {
    One,
    Number(u64),
    MajorMinor(u32, u32),
    Name(&'a [u8]),
}

/// A request as a format's parser sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    /// Nanoseconds since whenever the format counts from.
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

impl Raw<'_> {
    /// A request of no known process, on the only device, at no known time.
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

/// The state shared by all formats' readers.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) options: OpenOptions,
    pub(crate) skipped: Skipped,
    pub(crate) streams: Vec<Stream>,
    pub(crate) devices: Vec<Device>,
    /// Whether day numbers of this trace can be believed.
    pub(crate) days: bool,
    pub(crate) records: u64,
    base: Option<u64>,
    /// Commands of processes that asked for nothing yet.
    names: FxHashMap<u32, Box<[u8]>>,
    stream_of_pid: FxHashMap<u32, u32>,
    stream_of_name: FxHashMap<Box<[u8]>, u32>,
    device_of_number: FxHashMap<u64, u32>,
    device_of_name: FxHashMap<Box<[u8]>, u32>,
    last_pid: (u32, u32),
    last_device: (u64, u32),
    last_name: u32,
}

impl Context {
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

    /// Checks a request and puts numbers for names. `None` where it is passed over.
    pub(crate) fn finish(&mut self, raw: &Raw<'_>, place: Place) -> Result<Option<Record>, Bad> {
        let Some(admitted) = self.admit(raw, place)? else { return Ok(None) };
        let device = self.device(raw.device)?;
        let stream = self.stream(raw.process);
        Ok(Some(self.record(raw, admitted, device, stream)))
    }

    /// Checks a request's address and time. `None` where it is passed over.
    pub(crate) fn admit(
        &mut self,
        raw: &Raw<'_>,
        place: Place,
    ) -> Result<Option<(Extent, SimTime)>, Bad> {
        let extent = if raw.op == Op::Flush {
            Extent::new(0, 0)
        } else {
            if raw.start > SECTOR_MAX || raw.len > SECTOR_MAX - raw.start {
                return Err(Bad::new("sector numbers below 2^55"));
            }
            if raw.len == 0 {
                self.zero_length(place);
                return Ok(None);
            }
            Extent::new(raw.start, raw.len)
        };
        Ok(Some((extent, self.arrival(raw.time))))
    }

    /// A time counted from the first one.
    pub(crate) fn arrival(&mut self, time: Option<u64>) -> SimTime {
        match time {
            Some(t) => SimTime(t.saturating_sub(*self.base.get_or_insert(t))),
            None => SimTime(0),
        }
    }

    /// Makes arrivals count from the format's own origin, whatever comes first.
    pub(crate) fn count_from_origin(&mut self) {
        self.base = Some(0);
    }

    /// The record of an admitted request.
    pub(crate) fn record(
        &mut self,
        raw: &Raw<'_>,
        (extent, arrival): (Extent, SimTime),
        device: u32,
        stream: u32,
    ) -> Record {
        self.records += 1;
        let stream = StreamId(stream);
        Record {
            request: Request { arrival, op: raw.op, extent, flags: raw.flags, stream },
            device,
            day: raw.day,
            service: raw.service.map(Duration),
        }
    }

    /// Counts a malformed record where reading is lenient, and is an error where it is not.
    #[cold]
    pub(crate) fn bad(&mut self, place: Place, bad: Bad, bytes: &[u8]) -> Result<(), TraceError> {
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
    fn zero_length(&mut self, place: Place) {
        self.skipped.zero_length += 1;
        if self.skipped.zero_length_first.is_none() {
            let what = "a request of no sectors".to_owned();
            self.skipped.zero_length_first = Some(Example { path: self.path.clone(), place, what });
        }
    }

    /// Whether this is the event asked for; counts it where it is not.
    pub(crate) fn wants(&mut self, event: Event) -> bool {
        if event == self.options.event {
            return true;
        }
        self.skipped.other_events[event as usize] += 1;
        false
    }

    /// Gives a process its command, learned apart from its requests and often before them.
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

    /// Gives a stream its command. A process that runs another program takes its name: the last one stays.
    pub(crate) fn name_stream(&mut self, stream: u32, name: &[u8]) {
        let name = &name[..name.len().min(COMMAND_MAX)];
        if let Some(s) = self.streams.get_mut(stream as usize)
            && !name.is_empty()
            && s.name.as_bytes() != name
        {
            s.name = text(name);
        }
    }

    /// Begins the table of streams anew; numbers given before mean nothing any more.
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

    fn device(&mut self, device: Dev<'_>) -> Result<u32, Bad> {
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

    fn device_by_name(&mut self, name: &[u8]) -> Result<u32, Bad> {
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
    pub(crate) fn add_device(&mut self, name: String) -> Result<u32, Bad> {
        if self.devices.len() >= DEVICES_MAX {
            return Err(Bad::new("at most 65,536 devices"));
        }
        self.devices.push(Device { name });
        Ok((self.devices.len() - 1) as u32)
    }
}

/// A name from outside as text, cut to a bounded length.
pub(crate) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(NAME_MAX)]).into_owned()
}
