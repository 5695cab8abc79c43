//! Puts the records of a trace that stands out of order in order of arrival, as far as a window of fixed size
//! reaches. Knows no format.

use crate::context::{Context, Process};
use crate::reader::Parse;
use crate::{Record, TraceError};

/// A record that stands no more than this many places too late is put right.
pub(crate) const WINDOW: usize = 1 << 15;

/// A reader around another. It numbers streams and devices anew, in the order it passes them on.
pub(crate) struct Reorder {
    inner: Box<dyn Parse>,
    /// The inner reader's; times in it count from the format's origin.
    cx: Context,
    /// Up to two windows of records, sorted; those before `ready` can be passed on.
    pending: Vec<Record>,
    next: usize,
    ready: usize,
    /// Why the inner reader ended, once it has.
    ended: Option<Result<(), TraceError>>,
    streams: Vec<Option<u32>>,
    devices: Vec<Option<u32>>,
    first: Option<u64>,
    last: u64,
}

impl Reorder {
    pub(crate) fn new(inner: Box<dyn Parse>, cx: &Context) -> Self {
        let mut own = Context::new(cx.path.clone(), cx.format, cx.options);
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
            first: None,
            last: 0,
        }
    }

    /// Reads until two windows are full. What is sorted already costs little to sort again.
    fn refill(&mut self, cx: &mut Context) {
        self.pending.drain(..self.next);
        self.next = 0;
        while self.pending.len() < 2 * WINDOW && self.ended.is_none() {
            match self.inner.next(&mut self.cx) {
                Ok(Some(record)) => self.pending.push(record),
                Ok(None) => self.ended = Some(Ok(())),
                Err(e) => self.ended = Some(Err(e)),
            }
        }
        // Stable: what arrived at the same time keeps its order.
        self.pending.sort_by_key(|r| r.request.arrival);
        let held = if self.ended.is_some() { 0 } else { WINDOW };
        self.ready = self.pending.len() - held;
        let late = cx.skipped.late;
        cx.skipped.clone_from(&self.cx.skipped);
        cx.skipped.late = late;
    }

    /// The record with times from the first passed on, and numbers in order of passing on.
    fn renumber(&mut self, mut record: Record, cx: &mut Context) -> Record {
        let arrival = record.request.arrival.0;
        if arrival < self.last {
            cx.skipped.late += 1;
        }
        self.last = self.last.max(arrival);
        record.request.arrival.0 = arrival.saturating_sub(*self.first.get_or_insert(arrival));

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
        // The inner context lets no more devices through than this one takes.
        record.device =
            *self.devices[from].get_or_insert_with(|| cx.add_device(name.clone()).unwrap_or(0));
        cx.records += 1;
        record
    }
}

impl Parse for Reorder {
    fn next(&mut self, cx: &mut Context) -> Result<Option<Record>, TraceError> {
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
