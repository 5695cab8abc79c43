//! A trace in memory: read once, then opened any number of times, by several threads at once. A
//! request takes 32 bytes; days and service times take more, where the trace has them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_block::{Duration, Extent, Flags, Op, Request, SimTime, StreamId};

use crate::reader::{Info, Parse};
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::{
    Format, OpenOptions, Progress, Reader, Record, Source, TraceError, TracePosition, Traced,
};

/// Records between two reports of progress.
const REPORT: u64 = 65_536;

/// A request without padding.
#[derive(Clone, Copy, Debug)]
struct Packed {
    arrival: SimTime,
    extent: Extent,
    stream: u32,
    device: u16,
    op: Op,
    flags: Flags,
}

/// The records of a trace, and its tables.
#[derive(Debug)]
struct HeldTrace {
    requests: Vec<Packed>,
    /// By record; empty if the trace has none.
    days: Vec<Option<u32>>,
    /// By record; empty if the trace has none.
    service: Vec<Option<Duration>>,
    info: Info,
    cx: ReaderContext,
}

impl HeldTrace {
    const fn new(info: Info, cx: ReaderContext) -> Self {
        Self { requests: Vec::new(), days: Vec::new(), service: Vec::new(), info, cx }
    }

    fn push(&mut self, record: &Record) {
        let Record { request, device, day, service } = *record;
        let Request { arrival, op, extent, flags, stream: StreamId(stream) } = request;
        // A reader has at most 65,536 devices.
        let device = device as u16;
        self.requests.push(Packed { arrival, extent, stream, device, op, flags });
        if self.info.has_days {
            self.days.push(day);
        }
        if self.info.has_service {
            self.service.push(service);
        }
    }

    fn record(&self, index: usize) -> Option<Record> {
        let Packed { arrival, extent, stream, device, op, flags } = *self.requests.get(index)?;
        Some(Record {
            request: Request { arrival, op, extent, flags, stream: StreamId(stream) },
            device: device.into(),
            day: self.days.get(index).copied().flatten(),
            service: self.service.get(index).copied().flatten(),
        })
    }

    fn reader(self: &Arc<Self>) -> Reader {
        let mut cx = ReaderContext::new(self.cx.path.clone(), self.cx.format, self.cx.options);
        cx.streams.clone_from(&self.cx.streams);
        cx.devices.clone_from(&self.cx.devices);
        cx.skipped = self.cx.skipped.clone();
        cx.days = self.cx.days;
        let read = Arc::new(AtomicU64::new(0));
        let total = self.requests.len() as u64;
        let rest = UnreadRecords { held: Arc::clone(self), next: 0, read: Arc::clone(&read) };
        Reader { parse: Box::new(rest), cx, info: self.info, read, total, ended: false }
    }

    fn source(self, name: &Path) -> Source {
        let held = Arc::new(self);
        Source::made(name, move |_| Ok(held.reader()))
    }
}

/// The records that a reader has not returned yet.
struct UnreadRecords {
    held: Arc<HeldTrace>,
    next: usize,
    read: Arc<AtomicU64>,
}

impl Parse for UnreadRecords {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        let record = self.held.record(self.next);
        if record.is_some() {
            self.next += 1;
            cx.records += 1;
            self.read.store(self.next as u64, Ordering::Relaxed);
        }
        Ok(record)
    }
}

/// A row of a table of requests.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Arrival in nanoseconds since any moment; none if the table has no times.
    pub time: Option<u64>,
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub flags: Flags,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u64,
    /// Process number; 0 if unknown.
    pub pid: u32,
    /// Its command; empty if unknown.
    pub process: &'a str,
    /// The device; empty if there is only one.
    pub device: &'a str,
    /// Day number, if the table has days and no times.
    pub day: Option<u32>,
    /// Service time of the traced disk in nanoseconds.
    pub service: Option<u64>,
}

/// Takes the rows of a table, one by one, in order of time.
#[derive(Debug)]
pub struct TableTrace {
    held: HeldTrace,
    last: u64,
}

impl TableTrace {
    /// An empty table; messages call it `name`.
    pub fn new(name: &Path, has_times: bool, has_days: bool, has_service: bool) -> Self {
        let format = Format::Columns;
        let info = Info { format, has_times, has_days, has_processes: true, has_service };
        let mut cx = ReaderContext::new(name.to_owned(), format, OpenOptions::default());
        cx.days = has_days;
        Self { held: HeldTrace::new(info, cx), last: 0 }
    }

    /// Adds a row. Refuses a row that is older than the row before it.
    pub fn push(&mut self, row: &Row<'_>) -> Result<(), TraceError> {
        let HeldTrace { cx, requests, .. } = &mut self.held;
        let place = TracePosition::Row(requests.len() as u64 + cx.skipped.zero_length);
        let time = row.time.unwrap_or(0);
        if time < self.last {
            return Err(TraceError::Unsorted {
                path: cx.path.clone(),
                place: Some(place),
                behind_ns: self.last - time,
            });
        }
        self.last = time;
        let raw = RawRequest {
            time: row.time,
            flags: row.flags,
            process: Process { pid: row.pid, name: row.process.as_bytes() },
            device: Dev::Name(row.device.as_bytes()),
            day: row.day,
            service: row.service,
            ..RawRequest::new(row.op, row.sector, row.sectors)
        };
        match cx.finish(&raw, place) {
            Ok(Some(record)) => self.held.push(&record),
            Ok(None) => {}
            Err(bad) => {
                let found = format!("sector {}, {} sectors", row.sector, row.sectors);
                cx.bad(place, bad, found.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The trace.
    pub fn source(mut self) -> Source {
        self.held.info.has_processes = self.held.cx.streams.len() > 1;
        let name = self.held.cx.path.clone();
        self.held.source(&name)
    }
}

impl Source {
    /// The same trace in memory: it is read once, now, with these options.
    pub fn hold(
        &self,
        options: &OpenOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, TraceError> {
        let mut reader = self.open(options)?;
        let info = reader.info();
        let cx = ReaderContext::new(self.path().to_owned(), info.format, *options);
        let mut held = HeldTrace::new(info, cx);
        while let Some(record) = reader.next_record()? {
            held.push(&record);
            if (held.requests.len() as u64).is_multiple_of(REPORT) {
                progress(reader.progress());
            }
        }
        held.cx.streams = reader.streams().to_vec();
        held.cx.devices = reader.devices().to_vec();
        held.cx.skipped = reader.skipped().clone();
        held.cx.days = reader.info().has_days;
        Ok(held.source(self.path()).stopped_like(self))
    }
}
