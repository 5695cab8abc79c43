//! Sorts the records of a trace that is out of order by arrival, inside a window of fixed size.

use crate::reader::Parse;
use crate::reader_context::{Process, ReaderContext};
use crate::{Record, Traced};

/// A record that is at most this many positions too late is sorted correctly.
pub(crate) const WINDOW: usize = 1 << 15;

/// A reader around another reader. It numbers streams and devices again, in the order in which it
/// returns them.
pub(crate) struct Reorder {
    inner: Box<dyn Parse>,
    /// The inner reader's context; its times count from the format's origin.
    cx: ReaderContext,
    /// Up to two windows of records, sorted. The records before `ready` can be returned.
    pending: Vec<Record>,
    next: usize,
    ready: usize,
    /// The result of the inner reader's end.
    ended: Option<Traced<()>>,
    streams: Vec<Option<u32>>,
    devices: Vec<Option<u32>>,
    last: u64,
}

impl Reorder {
    pub(crate) fn new(inner: Box<dyn Parse>, cx: &ReaderContext) -> Self {
        let mut own = ReaderContext::new(cx.path.clone(), cx.format, cx.options);
        own.count_from_origin();
        Self {
            inner,
            cx: own,
            pending: Vec::new(),
            next: 0,
            ready: 0,
            ended: None,
            streams: vec![Some(0)],
            devices: Vec::new(),
            last: 0,
        }
    }

    /// Reads until two windows are full. Sorting records that are already sorted is cheap.
    fn refill(&mut self, cx: &mut ReaderContext) {
        self.pending.drain(..self.next);
        self.next = 0;
        while self.pending.len() < 2 * WINDOW && self.ended.is_none() {
            match self.inner.next(&mut self.cx) {
                Ok(Some(record)) => self.pending.push(record),
                Ok(None) => self.ended = Some(Ok(())),
                Err(e) => self.ended = Some(Err(e)),
            }
        }
        // The sort is stable: records with the same arrival keep their order.
        self.pending.sort_by_key(|r| r.request.arrival);
        let held = if self.ended.is_some() { 0 } else { WINDOW };
        self.ready = self.pending.len() - held;
        let late = cx.skipped.late;
        cx.skipped.clone_from(&self.cx.skipped);
        cx.skipped.late = late;
    }

    /// Sets the record's time relative to the first record returned, and its numbers in the order
    /// of return.
    fn renumber(&mut self, mut record: Record, cx: &mut ReaderContext) -> Record {
        let arrival = record.request.arrival.0;
        if arrival < self.last {
            cx.skipped.late += 1;
        }
        self.last = self.last.max(arrival);
        record.request.arrival = cx.arrival(Some(arrival));

        let from = record.request.stream.0 as usize;
        if self.streams.len() < self.cx.streams.len() {
            self.streams.resize(self.cx.streams.len(), None);
        }
        let known = &self.cx.streams[from];
        let to = *self.streams[from].get_or_insert_with(|| {
            let process = Process { pid: known.pid, name: known.name.as_bytes() };
            cx.add_stream(process).unwrap_or(0)
        });
        if to != 0 {
            cx.name_stream(to, known.name.as_bytes());
        }
        record.request.stream.0 = to;

        let from = record.device as usize;
        if self.devices.len() < self.cx.devices.len() {
            self.devices.resize(self.cx.devices.len(), None);
        }
        let name = &self.cx.devices[from].name;
        // The inner context accepts no more devices than this one.
        record.device =
            *self.devices[from].get_or_insert_with(|| cx.add_device(name.clone()).unwrap_or(0));
        cx.records += 1;
        record
    }
}

impl Parse for Reorder {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        if self.next == self.ready {
            self.refill(cx);
        }
        if let Some(&record) = self.pending.get(self.next) {
            self.next += 1;
            return Ok(Some(self.renumber(record, cx)));
        }
        match self.ended.take() {
            Some(Err(e)) => Err(e),
            _ => Ok(None),
        }
    }
}
