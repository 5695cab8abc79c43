//! The reader, with the same interface for every format.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::reader_context::{Device, ReaderContext, Skipped, Stream};
use crate::{Format, Record, TraceError, TracePosition, Traced};

/// A format's reader: returns requests and reports skipped records through the context.
pub(crate) trait Parse: Send {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>>;
}

/// The information that a trace contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The format it is read with. For a store of a trace with a [`Format::caveat`]: the format of
    /// that trace.
    pub format: Format,
    /// Whether arrival times are valid; if not, all are zero.
    pub has_times: bool,
    /// Whether records have day numbers. If the third column of a `.lis` file decreases, or a record
    /// of a CSV file has no day, the trace has none: this field becomes false while reading, and
    /// later records have no day.
    pub has_days: bool,
    /// Whether streams stand for processes.
    pub has_processes: bool,
    /// Whether the format can contain service times.
    pub has_service: bool,
}

/// The progress of a reader, in bytes of the files on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub read: u64,
    /// Total bytes; 0 if not known.
    pub total: u64,
}

/// Reads one trace from its start, record by record.
pub struct Reader {
    pub(crate) parse: Box<dyn Parse>,
    pub(crate) cx: ReaderContext,
    pub(crate) info: Info,
    pub(crate) read: Arc<AtomicU64>,
    pub(crate) total: u64,
    pub(crate) ended: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("info", &self.info).field("cx", &self.cx).finish()
    }
}

/// A reader that ends with an error once a flag is set.
struct Stoppable {
    inner: Box<dyn Parse>,
    stop: Arc<AtomicBool>,
}

impl Parse for Stoppable {
    #[inline]
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(TraceError::Stopped { path: cx.path.clone() });
        }
        self.inner.next(cx)
    }
}

impl Reader {
    pub(crate) fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { parse: Box::new(Stoppable { inner: self.parse, stop }), ..self }
    }

    /// The next request; `None` at the end, and after an error.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        match self.parse.next(&mut self.cx) {
            Ok(Some(record)) => Ok(Some(record)),
            Ok(None) => self.end().map(|()| None),
            Err(e) => {
                self.ended = true;
                Err(e)
            }
        }
    }

    #[cold]
    fn end(&mut self) -> Traced<()> {
        self.ended = true;
        let [queue, issue, complete] = self.cx.skipped.other_events;
        if self.cx.records == 0 && queue + issue + complete > 0 {
            let (path, event) = (self.cx.path.clone(), self.cx.options.event);
            return Err(TraceError::NoSuchEvent { path, event, queue, issue, complete });
        }
        Ok(())
    }

    /// The information that this trace contains.
    pub const fn info(&self) -> Info {
        Info { has_days: self.cx.days, ..self.info }
    }

    /// The position of the last record in its file, if the format's reader knows it.
    pub(crate) const fn place(&self) -> Option<TracePosition> {
        self.cx.place
    }

    /// The progress of reading.
    pub fn progress(&self) -> Progress {
        let read = self.read.load(Ordering::Relaxed);
        Progress {
            read: if self.total > 0 { read.min(self.total) } else { read },
            total: self.total,
        }
    }

    /// The counts of skipped records.
    pub const fn skipped(&self) -> &Skipped {
        &self.cx.skipped
    }

    /// The streams seen so far, indexed by stream number. The first means "unknown".
    pub fn streams(&self) -> &[Stream] {
        &self.cx.streams
    }

    /// The devices seen so far, indexed by `Record::device`.
    pub fn devices(&self) -> &[Device] {
        &self.cx.devices
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

pub(crate) fn read_error(cx: &ReaderContext, place: TracePosition, error: io::Error) -> TraceError {
    TraceError::Read { path: cx.path.clone(), place, source: error }
}
