//! File events of Windows' Process Monitor, saved as CSV with column titles. The columns "Time of
//! Day", "Process Name", "PID", "Operation", "Path", "Result" and "Detail" are needed in any order;
//! "Duration" is optional. Offsets and lengths are in "Detail", with the separators of the
//! machine's language. Failed events, and events of the registry, of processes and of the network,
//! are skipped. Paging reads and writes are events like others, so reads through the cache appear
//! twice. Layout: the English output of Process Monitor 3.

use std::borrow::Cow;

use super::strace::{DAY, DayClock, time_of_day};
use crate::error::{BadRecord, Parsed};
use crate::files::{FileFormat, FileOp, FileTable, RawEvent};
use crate::reader_context::{Process, ReaderContext};
use crate::text_lines::{Fields, decimal, number32};

const EXPECTED: &str =
    "the columns of the title line; offset and length in Detail of a read or write";
const TITLE: &str =
    "a title line with Time of Day, Process Name, PID, Operation, Path, Result and Detail";
const COLUMNS: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Titles {
    time: usize,
    process: usize,
    pid: usize,
    operation: usize,
    path: usize,
    result: usize,
    detail: usize,
    duration: Option<usize>,
    count: usize,
}

#[derive(Debug, Default)]
pub(super) struct Procmon {
    titles: Option<Titles>,
    day: DayClock,
}

/// The fields of a row, at most [`COLUMNS`]. `None` if a quote does not end.
fn fields(line: &[u8]) -> Option<([&[u8]; COLUMNS], usize)> {
    let mut row: [&[u8]; COLUMNS] = [&[]; COLUMNS];
    let (mut f, mut count) = (Fields(line), 0);
    while !f.0.is_empty() && count < COLUMNS {
        row[count] = f.quoted()?;
        count += 1;
    }
    Some((row, count))
}

fn titles(line: &[u8]) -> Option<Titles> {
    let (row, count) = fields(line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line))?;
    let at = |title: &[u8]| row[..count].iter().position(|t| *t == title);
    Some(Titles {
        time: at(b"Time of Day")?,
        process: at(b"Process Name")?,
        pid: at(b"PID")?,
        operation: at(b"Operation")?,
        path: at(b"Path")?,
        result: at(b"Result")?,
        detail: at(b"Detail")?,
        duration: at(b"Duration"),
        count,
    })
}

impl FileFormat for Procmon {
    fn line(&mut self, line: &[u8], files: &mut FileTable, cx: &mut ReaderContext) -> Parsed<bool> {
        let may_be_title =
            self.titles.is_none() || memchr::memmem::find(line, b"Time of Day").is_some();
        if may_be_title && let Some(titles) = titles(line) {
            self.titles = Some(titles);
            return Ok(true);
        }
        let Some(titles) = self.titles else { return Err(BadRecord::new(TITLE)) };
        self.row(titles, line, files, cx)?.ok_or(BadRecord::new(EXPECTED))
    }
}

impl Procmon {
    /// Parses a row. `Ok(None)` if the row does not have the expected form.
    fn row(
        &mut self,
        t: Titles,
        line: &[u8],
        files: &mut FileTable,
        cx: &mut ReaderContext,
    ) -> Parsed<Option<bool>> {
        let Some((row, count)) = fields(line) else { return Ok(None) };
        let (Some(time), Some(pid)) = (self.time(row[t.time]), number32(row[t.pid])) else {
            return Ok(None);
        };
        if count < t.count {
            return Ok(None);
        }
        let (detail, path) = (row[t.detail], row[t.path]);
        if row[t.result] != b"SUCCESS" || path.is_empty() {
            return Ok(Some(true));
        }
        let (op, file, (offset, len)) = match operation(row[t.operation], detail, path, files)? {
            RowOperation::Event(op, file, extent) => (op, file, extent),
            RowOperation::Skipped => return Ok(Some(true)),
            RowOperation::Malformed => return Ok(None),
        };
        if matches!(op, FileOp::Read | FileOp::Write) && len == 0 {
            return Ok(Some(true));
        }
        let latency = t.duration.and_then(|at| decimal(row[at], 9));
        let stream = cx.stream(Process { pid, name: row[t.process] });
        let time = Some(time);
        files.push(RawEvent { time, stream, file, op, offset, len, latency });
        Ok(Some(true))
    }

    /// Parses `h:mm:ss.fffffff`, with or without AM or PM.
    fn time(&mut self, text: &[u8]) -> Option<u64> {
        let digits = text.iter().take_while(|b| b"0123456789:.,".contains(b)).count();
        let clock: Vec<u8> =
            text[..digits].iter().map(|&b| if b == b',' { b'.' } else { b }).collect();
        let mut ns = time_of_day(&clock)?;
        let half = DAY / 2;
        match text {
            _ if text.ends_with(b"AM") && ns >= half => ns -= half,
            _ if text.ends_with(b"PM") && ns < half => ns += half,
            _ => {}
        }
        Some(self.day.time(ns))
    }
}

enum RowOperation {
    Event(FileOp, u32, (u64, u64)),
    /// An operation that is not recorded.
    Skipped,
    /// `Detail` does not have the expected form.
    Malformed,
}

fn operation(
    operation: &[u8],
    detail: &[u8],
    path: &[u8],
    files: &mut FileTable,
) -> Parsed<RowOperation> {
    use RowOperation::Malformed;
    let key = folded(path);
    let has = |word: &[u8]| memchr::memmem::find(detail, word).is_some();
    let mut extent = (0, 0);
    let (op, file) = match operation {
        name @ (b"ReadFile" | b"WriteFile") => {
            let Some(len) = value(detail, b"Length: ") else { return Ok(Malformed) };
            let file = files.named(&key)?;
            let appends = has(b"Offset: -1,").then(|| files.files[file as usize].size);
            let Some(offset) = appends.or_else(|| value(detail, b"Offset: ")) else {
                return Ok(Malformed);
            };
            extent = (offset, len);
            (if name == b"ReadFile" { FileOp::Read } else { FileOp::Write }, file)
        }
        b"CreateFile" if !has(b"Options: Directory") => {
            let op = match () {
                () if has(b"OpenResult: Created") || has(b"OpenResult: Superseded") => {
                    FileOp::Create
                }
                () if has(b"OpenResult: Overwritten") => FileOp::Truncate,
                () => FileOp::Open,
            };
            (op, files.named(&key)?)
        }
        b"CloseFile" => match files.find(&key) {
            Some(file) => (FileOp::Close, file),
            // A directory, or a file that was opened before the trace.
            None => return Ok(RowOperation::Skipped),
        },
        b"FlushBuffersFile" => (FileOp::Sync, files.named(&key)?),
        b"SetEndOfFileInformationFile" => {
            let Some(len) = value(detail, b"EndOfFile: ") else {
                return Ok(Malformed);
            };
            extent.1 = len;
            (FileOp::Truncate, files.named(&key)?)
        }
        b"SetRenameInformationFile" => {
            let to = memchr::memmem::find(detail, b"FileName: ")
                .map(|at| &detail[at + b"FileName: ".len()..]);
            let Some(to) = to else { return Ok(Malformed) };
            (FileOp::Rename, files.rename(&key, &folded(to))?)
        }
        b"SetDispositionInformationFile" if has(b"Delete: True") => {
            (FileOp::Unlink, files.unlink(&key)?)
        }
        b"SetDispositionInformationEx" if has(b"DELETE") => (FileOp::Unlink, files.unlink(&key)?),
        _ => return Ok(RowOperation::Skipped),
    };
    Ok(RowOperation::Event(op, file, extent))
}

/// The number after `key`, up to the next `, `, with any separators between its digits.
fn value(detail: &[u8], key: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(detail, key)? + key.len();
    let rest = &detail[at..];
    let end = memchr::memmem::find(rest, b", ").unwrap_or(rest.len());
    let digits = rest[..end].iter().filter(|b| b.is_ascii_digit());
    let mut n = None::<u64>;
    for &d in digits {
        n = Some(n.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(d - b'0'))?);
    }
    n.filter(|_| rest[..end].first().is_some_and(u8::is_ascii_digit))
}

/// Windows ignores upper and lower case in names.
fn folded(path: &[u8]) -> Cow<'_, [u8]> {
    if path.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(path.to_ascii_lowercase())
    } else {
        Cow::Borrowed(path)
    }
}
