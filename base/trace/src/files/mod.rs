//! Traces of files, not of a disk: who opened, read, wrote or removed which file, when and where in it. Knows
//! neither strace nor Procmon; a format hands in events, and names of files become dense numbers here.

mod laid;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use seekless_block::{Duration, SimTime, StreamId};

pub(crate) use laid::Laid;

use crate::context::{Context, Skipped, Stream, text};
use crate::error::Bad;
use crate::input::{Input, Line};
use crate::reader::{Info, Progress, read_error};
use crate::{Place, TraceError};

/// A trace with more files than this is refused.
const FILES_MAX: usize = 1 << 24;

/// What was done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileOp {
    /// Opened; it was there before, as far as is known.
    Open,
    /// Opened so that it would be made if it was not there, and not seen before.
    Create,
    /// Bytes `offset..offset + len` read.
    Read,
    /// Bytes `offset..offset + len` written.
    Write,
    /// Cut or grown to `len` bytes.
    Truncate,
    /// Made durable.
    Sync,
    /// One of its descriptors closed.
    Close,
    /// Its name taken away. A file made later under that name is another file.
    Unlink,
    /// Renamed: the table of files has the new name from here on.
    Rename,
}

/// One event of a trace of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEvent {
    /// When the call began, counted from the first event; zero where the trace has no times. Events come in
    /// the order of the trace, which is that in which calls end, so this may run backwards.
    pub time: SimTime,
    /// Which process; 0 where the trace names none.
    pub stream: StreamId,
    /// Which file, as an index into [`FileReader::files`].
    pub file: u32,
    /// What was done.
    pub op: FileOp,
    /// First byte, of a read or a write; else 0.
    pub offset: u64,
    /// Bytes read or written, as the system answered; of [`FileOp::Truncate`] the new length; else 0.
    pub len: u64,
    /// How long the call took, where the trace tells.
    pub latency: Option<Duration>,
}

/// A file of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its name, the last it had; relative where the trace does not say from where.
    pub path: String,
    /// Where the furthest read or write so far ended, in bytes.
    pub end: u64,
    /// Its size, as far as is known; for writes that append.
    pub(crate) size: u64,
}

/// An event as a format's parser sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent {
    /// Nanoseconds since whenever the format counts from.
    pub(crate) time: Option<u64>,
    pub(crate) stream: u32,
    pub(crate) file: u32,
    pub(crate) op: FileOp,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) latency: Option<u64>,
}

/// A format of lines that tells of files.
pub(crate) trait FileFormat: Send {
    /// Puts what `line` says into `files`. Whether it is an entry of this format and no other; a line the
    /// format merely allows is none.
    fn line(&mut self, line: &[u8], files: &mut FileTable, cx: &mut Context) -> Result<bool, Bad>;
}

/// The files seen so far, and the events not yet handed out.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    pub(crate) files: Vec<File>,
    pub(crate) events: VecDeque<RawEvent>,
    by_path: FxHashMap<Box<[u8]>, u32>,
}

impl FileTable {
    /// The file called `path` now.
    pub(crate) fn find(&self, path: &[u8]) -> Option<u32> {
        self.by_path.get(path).copied()
    }

    /// The file called `path`, which may be new.
    pub(crate) fn named(&mut self, path: &[u8]) -> Result<u32, Bad> {
        if let Some(id) = self.find(path) {
            return Ok(id);
        }
        if self.files.len() >= FILES_MAX {
            return Err(Bad::new("at most 16,777,216 files"));
        }
        let id = self.files.len() as u32;
        self.files.push(File { path: text(path), ..File::default() });
        self.by_path.insert(path.into(), id);
        Ok(id)
    }

    /// Takes the name away.
    pub(crate) fn unlink(&mut self, path: &[u8]) -> Result<u32, Bad> {
        let id = self.named(path)?;
        self.by_path.remove(path);
        Ok(id)
    }

    /// Gives the file called `from` the name `to`, taking it from whichever file has it.
    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<u32, Bad> {
        let id = self.unlink(from)?;
        self.by_path.insert(to.into(), id);
        self.files[id as usize].path = text(to);
        Ok(id)
    }

    pub(crate) fn push(&mut self, event: RawEvent) {
        if let Some(file) = self.files.get_mut(event.file as usize) {
            match event.op {
                FileOp::Read | FileOp::Write => {
                    file.end = file.end.max(event.offset.saturating_add(event.len));
                    file.size = file.size.max(file.end);
                }
                FileOp::Truncate => file.size = event.len,
                _ => {}
            }
            self.events.push_back(event);
        }
    }
}

/// A trace of files, event by event.
pub(crate) struct FileLines {
    input: Input,
    format: Box<dyn FileFormat>,
    pub(crate) table: FileTable,
}

impl FileLines {
    pub(crate) fn new(input: Input, format: Box<dyn FileFormat>) -> Self {
        Self { input, format, table: FileTable::default() }
    }

    /// The next event, and the line that told it; `None` at the end.
    pub(crate) fn next(
        &mut self,
        cx: &mut Context,
    ) -> Result<Option<(RawEvent, Place)>, TraceError> {
        loop {
            if let Some(event) = self.table.events.pop_front() {
                return Ok(Some((event, Place::Line(self.input.line_number()))));
            }
            let place = Place::Line(self.input.line_number() + 1);
            match self.input.line().map_err(|e| read_error(cx, place, e))? {
                None => return Ok(None),
                Some(Line::TooLong) => {
                    let found = "a longer one".to_owned();
                    cx.bad(place, Bad::found("a line shorter than 256 KiB", found), &[])?;
                }
                Some(Line::Whole(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
                Some(Line::Whole(line)) => {
                    if let Err(bad) = self.format.line(line, &mut self.table, cx) {
                        cx.bad(place, bad, line)?;
                    }
                }
            }
        }
    }
}

/// Reads one trace of files from its start.
pub struct FileReader {
    pub(crate) lines: FileLines,
    pub(crate) cx: Context,
    pub(crate) info: Info,
    pub(crate) read: Arc<AtomicU64>,
    pub(crate) total: u64,
    pub(crate) ended: bool,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("info", &self.info).field("cx", &self.cx).finish()
    }
}

impl FileReader {
    /// The next event; `None` at the end, and after an error.
    ///
    /// # Errors
    /// Where the file cannot be read, or a line is malformed and reading is not lenient.
    pub fn next_event(&mut self) -> Result<Option<FileEvent>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let next = self.lines.next(&mut self.cx);
        self.ended = !matches!(next, Ok(Some(_)));
        let Some((e, _)) = next? else { return Ok(None) };
        Ok(Some(FileEvent {
            time: self.cx.arrival(e.time),
            stream: StreamId(e.stream),
            file: e.file,
            op: e.op,
            offset: e.offset,
            len: e.len,
            latency: e.latency.map(Duration),
        }))
    }

    /// The files seen so far, indexed by `FileEvent::file`.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.lines.table.files
    }

    /// The streams seen so far, indexed by stream number; the first stands for "unknown".
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.cx.streams
    }

    /// What was passed over so far.
    #[must_use]
    pub const fn skipped(&self) -> &Skipped {
        &self.cx.skipped
    }

    /// What this trace can tell.
    #[must_use]
    pub const fn info(&self) -> Info {
        self.info
    }

    /// How far reading has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { read: self.read.load(Ordering::Relaxed).min(self.total), total: self.total }
    }
}

impl Iterator for FileReader {
    type Item = Result<FileEvent, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}
