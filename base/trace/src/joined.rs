//! Several traces as one, in order of time: a merge that holds one record of each.
//!
//! Traces of one format share a clock: their times count from the earliest of their first requests.
//! Formats differ in their clocks, so in a mixture the times of each trace count from its own first
//! request. Each device of each trace stays a device of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_block::SimTime;

use crate::reader::{Info, Parse};
use crate::reader_context::{Process, ReaderContext, Skipped};
use crate::{OpenOptions, Reader, Record, Source, TraceError, Traced};

/// Records between two updates of the progress.
const REPORT: u64 = 4096;

impl Source {
    /// The requests of all sources, in order of time.
    pub fn joined(sources: Vec<Self>) -> Self {
        let names: Vec<String> = sources.iter().map(|s| s.path().display().to_string()).collect();
        Self::made(names.join(", "), move |options| open(&sources, options))
    }
}

/// One of the traces.
struct JoinedPart {
    reader: Reader,
    path: PathBuf,
    /// Its next record.
    head: Option<Record>,
    last: SimTime,
    /// Its numbers of streams and devices, and ours.
    streams: Vec<Option<u32>>,
    devices: Vec<Option<u32>>,
}

impl JoinedPart {
    /// Reads the next record into `head`. Refuses one that is older than the record before.
    fn advance(&mut self) -> Traced<()> {
        self.head = self.reader.next_record()?;
        let Some(record) = &self.head else { return Ok(()) };
        let arrival = record.request.arrival;
        if arrival < self.last {
            return Err(TraceError::Unsorted {
                path: self.path.clone(),
                place: self.reader.place(),
                behind_ns: self.last.0 - arrival.0,
            });
        }
        self.last = arrival;
        Ok(())
    }
}

struct Joined {
    parts: Vec<JoinedPart>,
    /// The times of the heads, and whose they are.
    heap: BinaryHeap<Reverse<(SimTime, usize)>>,
    start: SimTime,
    read: Arc<AtomicU64>,
}

fn open(sources: &[Source], options: &OpenOptions) -> Traced<Reader> {
    let mut parts = Vec::with_capacity(sources.len());
    for source in sources {
        let path = source.path().to_owned();
        let reader = source.open(options)?;
        if !reader.info().has_times {
            return Err(TraceError::NoTimes { path });
        }
        let (streams, devices) = (vec![Some(0)], Vec::new());
        parts.push(JoinedPart { reader, path, head: None, last: SimTime::ZERO, streams, devices });
    }
    let format = parts.first().map(|p| p.reader.info().format);
    // A store counts from its own start, whatever trace it was made from.
    let one_clock = parts.iter().all(|p| p.reader.cx.format == parts[0].reader.cx.format);
    let mut heap = BinaryHeap::new();
    for (i, part) in parts.iter_mut().enumerate() {
        if one_clock {
            part.reader.cx.count_from_origin();
        }
        part.advance()?;
        heap.extend(part.head.map(|record| Reverse((record.request.arrival, i))));
    }
    let start = heap.peek().map_or(SimTime::ZERO, |Reverse((time, _))| *time);
    let of = |what: fn(Info) -> bool| parts.iter().any(|p| what(p.reader.info()));
    let Some(format) = format else {
        return Err(TraceError::Empty { path: PathBuf::new() });
    };
    let info = Info {
        format,
        has_times: true,
        has_days: false,
        has_processes: of(|i| i.has_processes),
        has_service: of(|i| i.has_service),
    };
    let total = parts.iter().map(|p| p.reader.progress().total).sum();
    let cx = ReaderContext::new(parts[0].path.clone(), format, *options);
    let read = Arc::new(AtomicU64::new(0));
    let parse = Box::new(Joined { parts, heap, start, read: Arc::clone(&read) });
    Ok(Reader { parse, cx, info, read, total, ended: false })
}

impl Parse for Joined {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        let Some(Reverse((time, i))) = self.heap.pop() else {
            self.report(cx);
            return Ok(None);
        };
        let Some(mut record) = self.parts[i].head else { return Ok(None) };
        self.renumber(i, &mut record, cx)?;
        record.request.arrival = SimTime(time.0 - self.start.0);
        record.day = None;
        self.parts[i].advance()?;
        let head = self.parts[i].head;
        self.heap.extend(head.map(|record| Reverse((record.request.arrival, i))));
        cx.records += 1;
        if cx.records.is_multiple_of(REPORT) {
            self.report(cx);
        }
        Ok(Some(record))
    }
}

impl Joined {
    fn report(&self, cx: &mut ReaderContext) {
        let read = self.parts.iter().map(|p| p.reader.progress().read).sum();
        self.read.store(read, Ordering::Relaxed);
        cx.skipped = Skipped::default();
        self.parts.iter().for_each(|p| cx.skipped.add(p.reader.skipped()));
    }

    /// Gives the record our numbers of its stream and its device.
    fn renumber(&mut self, i: usize, record: &mut Record, cx: &mut ReaderContext) -> Traced<()> {
        let JoinedPart { reader, streams, devices, path, .. } = &mut self.parts[i];
        let from = record.request.stream.0 as usize;
        if streams.len() <= from {
            streams.resize(from + 1, None);
        }
        record.request.stream.0 = match reader.streams().get(from) {
            None => 0,
            Some(known) => {
                let process = Process { pid: known.pid, name: known.name.as_bytes() };
                let add = || cx.add_stream(process).unwrap_or(0);
                let to = *streams[from].get_or_insert_with(add);
                if to != 0 {
                    cx.name_stream(to, known.name.as_bytes());
                }
                to
            }
        };

        let from = record.device as usize;
        if devices.len() <= from {
            devices.resize(from + 1, None);
        }
        record.device = match devices[from] {
            Some(to) => to,
            None => {
                let file = path.file_stem().unwrap_or_default().to_string_lossy();
                let known = reader.devices().get(from).map_or("", |d| d.name.as_str());
                let to = cx.add_device(free_name(cx, known, &file, i + 1));
                let to = to.map_err(|bad| TraceError::Join {
                    path: path.clone(),
                    expected: bad.expected,
                })?;
                devices[from] = Some(to);
                to
            }
        };
        Ok(())
    }
}

/// A name that no other device has: that of the device, else with that of its file before it, else
/// with the file's number before it.
fn free_name(cx: &ReaderContext, device: &str, file: &str, number: usize) -> String {
    let of_file = if device.is_empty() { file.to_owned() } else { format!("{file}:{device}") };
    let names = [device.to_owned(), of_file.clone(), format!("{number}:{of_file}")];
    let is_free = |name: &&String| !name.is_empty() && cx.devices.iter().all(|d| d.name != **name);
    names.iter().find(is_free).unwrap_or(&names[2]).clone()
}
