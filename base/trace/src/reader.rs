//! The reader every format looks the same through. Knows no format's layout.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::{Context, Device, Skipped, Stream};
use crate::{Format, Place, Record, TraceError};

/// A format's reader: yields requests, reports through the context.
pub(crate) trait Parse: Send {
    /// The next request; `None` at the end.
    fn next(&mut self, cx: &mut Context) -> Result<Option<Record>, TraceError>;
}

/// What a trace can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// How it is read.
    pub format: Format,
    /// Whether arrival times mean something; where not, all are zero.
    pub has_times: bool,
    /// Whether records carry day numbers. A `.lis` file whose third column turns out to run backwards has
    /// none: then this turns false on the way, and later records carry no day.
    pub has_days: bool,
    /// Whether streams stand for processes.
    pub has_processes: bool,
    /// Whether the format can tell service times.
    pub has_service: bool,
}

/// How far a reader has come, in bytes of the file or files as they lie on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub read: u64,
    /// Bytes there are; 0 where that is not known.
    pub total: u64,
}

/// Reads one trace from its start, record by record.
pub struct Reader {
    pub(crate) parse: Box<dyn Parse>,
    pub(crate) cx: Context,
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

impl Reader {
    /// The next request; `None` at the end, and after an error.
    ///
    /// # Errors
    /// Where the file cannot be read, or a record is malformed and reading is not lenient, or the trace
    /// ends without one event of the kind asked for while it has others.
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
    fn end(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        let [queue, issue, complete] = self.cx.skipped.other_events;
        if self.cx.records == 0 && queue + issue + complete > 0 {
            let (path, event) = (self.cx.path.clone(), self.cx.options.event);
            return Err(TraceError::NoSuchEvent { path, event, queue, issue, complete });
        }
        Ok(())
    }

    /// What this trace can tell.
    #[must_use]
    pub const fn info(&self) -> Info {
        Info { has_days: self.cx.days, ..self.info }
    }

    /// How far reading has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let read = self.read.load(Ordering::Relaxed);
        Progress {
            read: if self.total > 0 { read.min(self.total) } else { read },
            total: self.total,
        }
    }

    /// What was passed over so far.
    #[must_use]
    pub const fn skipped(&self) -> &Skipped {
        &self.cx.skipped
    }

    /// The streams seen so far, indexed by stream number; the first stands for "unknown".
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.cx.streams
    }

    /// The devices seen so far, indexed by `Record::device`.
    #[must_use]
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

pub(crate) fn read_error(cx: &Context, place: Place, source: io::Error) -> TraceError {
    TraceError::Read { path: cx.path.clone(), place, source }
}
