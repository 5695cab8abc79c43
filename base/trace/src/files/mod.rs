//! Traces of files instead of disks: the process that opened, read, wrote or removed a file, with
//! time and position. The formats (strace, Procmon) produce events; this module replaces the names
//! of files by dense numbers.

mod end_to_end;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use seekless_block::{Duration, SimTime, StreamId};

pub(crate) use end_to_end::FilesEndToEnd;

use crate::error::{BadRecord, Parsed};
use crate::input::{Input, Line};
use crate::reader::{Info, Progress, read_error};
use crate::reader_context::{ReaderContext, Skipped, Stream, text};
use crate::{TraceError, TracePosition, Traced};

/// Maximum number of files; a trace with more is refused.
const FILES_MAX: usize = 1 << 24;

/// The operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileOp {
    /// Opened; the file existed before, as far as known.
    Open,
    /// Opened with creation if absent, and not seen before.
    Create,
    /// Bytes `offset..offset + len` read.
    Read,
    /// Bytes `offset..offset + len` written.
    Write,
    /// Shortened or extended to `len` bytes.
    Truncate,
    /// Made durable.
    Sync,
    /// One of its descriptors closed.
    Close,
    /// Its name was removed. A later file with that name is another file.
    Unlink,
    /// Renamed: the table of files has the new name from this event on.
    Rename,
}

/// One event of a trace of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEvent {
    /// Start of the call, counted from the first event; zero if the trace has no times. Events are
    /// in the order of the trace, in which calls end, so this time can decrease.
    pub time: SimTime,
    /// The process; 0 if the trace names none.
    pub stream: StreamId,
    /// The file, as an index into [`FileReader::files`].
    pub file: u32,
    /// The operation.
    pub op: FileOp,
    /// First byte of a read or a write; otherwise 0.
    pub offset: u64,
    /// Bytes read or written, as the system reported; for [`FileOp::Truncate`] the new length;
    /// otherwise 0.
    pub len: u64,
    /// Duration of the call, if the trace has it.
    pub latency: Option<Duration>,
}

/// A file of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its last name. The name is relative if the trace does not give its directory.
    pub path: String,
    /// End of the furthest read or write so far, in bytes.
    pub end: u64,
    /// Its size, as far as known; used for writes that append.
    pub(crate) size: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent {
    /// Nanoseconds since the format's origin.
    pub(crate) time: Option<u64>,
    pub(crate) stream: u32,
    pub(crate) file: u32,
    pub(crate) op: FileOp,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) latency: Option<u64>,
}

pub(crate) trait FileFormat: Send {
    /// Adds the content of `line` to `files`. Returns whether the line is an entry of this format
    /// and of no other. A line that the format only allows is not an entry.
    fn line(&mut self, line: &[u8], files: &mut FileTable, cx: &mut ReaderContext) -> Parsed<bool>;
}

/// The files seen so far, and the events not yet returned.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    pub(crate) files: Vec<File>,
    pub(crate) events: VecDeque<RawEvent>,
    by_path: FxHashMap<Box<[u8]>, u32>,
}

impl FileTable {
    /// The file that has the name `path` now.
    pub(crate) fn find(&self, path: &[u8]) -> Option<u32> {
        self.by_path.get(path).copied()
    }

    /// The file with the name `path`; added if it is new.
    pub(crate) fn named(&mut self, path: &[u8]) -> Parsed<u32> {
        if let Some(id) = self.find(path) {
            return Ok(id);
        }
        if self.files.len() >= FILES_MAX {
            return Err(BadRecord::new("at most 16,777,216 files"));
        }
        let id = self.files.len() as u32;
        self.files.push(File { path: text(path), ..File::default() });
        self.by_path.insert(path.into(), id);
        Ok(id)
    }

    pub(crate) fn unlink(&mut self, path: &[u8]) -> Parsed<u32> {
        let id = self.named(path)?;
        self.by_path.remove(path);
        Ok(id)
    }

    /// Renames the file `from` to `to`. A file that had the name `to` loses it.
    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) -> Parsed<u32> {
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

pub(crate) struct FileLines {
    input: Input,
    format: Box<dyn FileFormat>,
    pub(crate) table: FileTable,
}

impl FileLines {
    pub(crate) fn new(input: Input, format: Box<dyn FileFormat>) -> Self {
        Self { input, format, table: FileTable::default() }
    }

    /// The next event, and its line; `None` at the end.
    pub(crate) fn next(
        &mut self,
        cx: &mut ReaderContext,
    ) -> Traced<Option<(RawEvent, TracePosition)>> {
        loop {
            if let Some(event) = self.table.events.pop_front() {
                return Ok(Some((event, TracePosition::Line(self.input.line_number()))));
            }
            let place = TracePosition::Line(self.input.line_number() + 1);
            match self.input.line().map_err(|e| read_error(cx, place, e))? {
                None => return Ok(None),
                Some(Line::TooLong) => {
                    let found = "a longer one".to_owned();
                    cx.bad(place, BadRecord::found("a line shorter than 256 KiB", found), &[])?;
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
    pub(crate) cx: ReaderContext,
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
    pub fn files(&self) -> &[File] {
        &self.lines.table.files
    }

    /// The streams seen so far, indexed by stream number. The first means "unknown".
    pub fn streams(&self) -> &[Stream] {
        &self.cx.streams
    }

    /// The counts of skipped records.
    pub const fn skipped(&self) -> &Skipped {
        &self.cx.skipped
    }

    /// The information that this trace contains.
    pub const fn info(&self) -> Info {
        self.info
    }

    /// The progress of reading.
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
