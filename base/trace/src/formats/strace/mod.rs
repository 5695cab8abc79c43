//! strace's output for calls on files, best recorded with `-f -ttt -T -y -o FILE` and `-e
//! trace=file,desc,process`. The parser follows descriptors through open, dup, fork and close, so
//! that it knows the bytes of a `read` without offset. A call becomes an event when it ends, with
//! the time of its start. Failed calls, signals, and calls on pipes, sockets, terminals, /proc and
//! /sys are skipped. Such a trace does not contain reads and writes through mmap and io_uring. A
//! file that was opened before the trace is only known with `-y`; its position is assumed to be 0.
//! The rename of a directory is not applied to the files in it.
//!
//! Layout: strace(1), and output of strace 6.1.

mod descriptor_tables;
mod effects;
mod grammar;

use rustc_hash::FxHashMap;

use self::descriptor_tables::Tables;
use self::effects::{CallEffect, CallOnFiles, effect_of, is_fork, shares_files};
use self::grammar::{Call, Stamp, name, prefix};
use crate::error::{BadRecord, Parsed};
use crate::files::{FileFormat, FileTable};
use crate::reader_context::ReaderContext;
use crate::text_lines::trim;

pub(super) use grammar::time_of_day;

const EXPECTED: &str = "pid, time, call(arguments) = answer <duration>; a signal or an exit";
/// Maximum total length of stored calls that have not ended; a trace with more is hostile.
const PENDING_MAX: usize = 16 << 20;
/// Most processes that fork at the same time; a trace with more is hostile.
const FORKING_MAX: usize = 4_096;
pub(super) const DAY: u64 = 86_400_000_000_000;

pub(super) fn has_times(head: &[u8]) -> bool {
    head.split(|&b| b == b'\n').any(|line| prefix(line).0.stamp.is_some())
}

pub(super) fn has_processes(head: &[u8]) -> bool {
    head.split(|&b| b == b'\n').any(|line| prefix(line).0.pid != 0)
}

#[derive(Debug)]
struct UnfinishedCall {
    time: Option<u64>,
    text: Vec<u8>,
}

/// Converts all forms of time to one clock.
#[derive(Debug, Default)]
struct Clock {
    day: DayClock,
    /// Sum of the differences of `-r`.
    sum: u64,
}

/// Counts the midnights between times of day.
#[derive(Debug, Default)]
pub(super) struct DayClock {
    last: u64,
    days: u64,
}

impl DayClock {
    pub(super) fn time(&mut self, time_of_day: u64) -> u64 {
        if time_of_day + DAY / 2 < self.last {
            self.days += 1;
        }
        self.last = time_of_day;
        self.days.saturating_mul(DAY).saturating_add(time_of_day)
    }
}

impl Clock {
    fn read(&mut self, stamp: Option<Stamp>) -> Option<u64> {
        Some(match stamp? {
            Stamp::Epoch(ns) => ns,
            Stamp::TimeOfDay(ns) => self.day.time(ns),
            Stamp::Since(ns) => {
                self.sum = self.sum.saturating_add(ns);
                self.sum
            }
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Strace {
    tables: Tables,
    clock: Clock,
    begun: FxHashMap<u32, UnfinishedCall>,
    begun_bytes: usize,
    /// Processes that are forking, newest last. Their child can appear before the fork ends.
    forking: Vec<(u32, bool)>,
    /// The process without a number while it was the only one; 0 if there is none.
    alone: u32,
    /// Text that stood before a message of strace in the same line.
    broken: Vec<u8>,
}

impl FileFormat for Strace {
    fn line(&mut self, line: &[u8], files: &mut FileTable, cx: &mut ReaderContext) -> Parsed<bool> {
        if line.starts_with(b"strace: ") {
            return Ok(false);
        }
        if line.ends_with(b" attached")
            && let Some(at) = memchr::memmem::rfind(line, b"strace: Process ")
        {
            self.broken = line[..at].to_vec();
            return Ok(false);
        }
        if self.broken.is_empty() {
            return self.whole(line, files, cx);
        }
        let mut joined = std::mem::take(&mut self.broken);
        joined.extend_from_slice(line);
        self.whole(&joined, files, cx)
    }
}

impl Strace {
    fn whole(
        &mut self,
        line: &[u8],
        files: &mut FileTable,
        cx: &mut ReaderContext,
    ) -> Parsed<bool> {
        let (prefix, text) = prefix(line);
        // On a terminal strace prints no process number while there is only one process.
        let pid = if prefix.pid == 0 { self.alone } else { prefix.pid };
        let time = self.clock.read(prefix.stamp);
        if text.starts_with(b"+++ ") && text.ends_with(b" +++") {
            self.tables.end(pid);
            self.forget(pid);
            return Ok(true);
        }
        if text.starts_with(b"--- ") && text.ends_with(b" ---") {
            return Ok(true);
        }
        if let Some(rest) = text.strip_prefix(b"<... ") {
            let at = memchr::memmem::find(rest, b" resumed>").ok_or(BadRecord::new(EXPECTED))?;
            self.meet(pid, true)?;
            // Without a stored call, the call began before the trace.
            let Some(mut begun) = self.forget(pid) else { return Ok(true) };
            begun.text.extend_from_slice(trim(&rest[at + b" resumed>".len()..]));
            return self.call(&begun.text, pid, begun.time, files, cx);
        }
        if let Some(text) = text.strip_suffix(b"<unfinished ...>") {
            let (call, _) = name(text).ok_or(BadRecord::new(EXPECTED))?;
            self.meet(pid, false)?;
            self.forget(pid);
            if self.begun_bytes + text.len() > PENDING_MAX {
                return Err(BadRecord::new("at most 16 MiB of calls that have not ended"));
            }
            if is_fork(call) {
                if self.forking.len() >= FORKING_MAX {
                    return Err(BadRecord::new("at most 4,096 forks that have not ended"));
                }
                self.forking.push((pid, shares_files(text)));
            }
            self.begun_bytes += text.len();
            self.begun.insert(pid, UnfinishedCall { time, text: text.to_vec() });
            return Ok(true);
        }
        self.meet(pid, false)?;
        self.call(text, pid, time, files, cx)
    }

    /// Removes the stored call of a process.
    fn forget(&mut self, pid: u32) -> Option<UnfinishedCall> {
        self.forking.retain(|f| f.0 != pid);
        let begun = self.begun.remove(&pid)?;
        self.begun_bytes -= begun.text.len();
        Some(begun)
    }

    /// Handles the first appearance of a process. Its parent is a process that is forking, or it is
    /// the process that had no number while it was alone. If it resumes a call, it is the latter.
    fn meet(&mut self, pid: u32, resumes: bool) -> Parsed<()> {
        if self.tables.knows(pid) {
            return Ok(());
        }
        match self.forking.last() {
            Some(&(parent, share)) if !resumes => self.tables.fork(parent, pid, share),
            _ if self.tables.knows(0) => {
                self.tables.rename(0, pid);
                self.alone = pid;
                if let Some(begun) = self.begun.remove(&0) {
                    self.begun.insert(pid, begun);
                }
                self.forking.iter_mut().filter(|f| f.0 == 0).for_each(|f| f.0 = pid);
                Ok(())
            }
            _ => self.tables.begin(pid),
        }
    }

    /// Handles a complete call. Returns whether the text is one.
    fn call(
        &mut self,
        text: &[u8],
        pid: u32,
        time: Option<u64>,
        files: &mut FileTable,
        cx: &mut ReaderContext,
    ) -> Parsed<bool> {
        let (name, rest) = name(text).ok_or(BadRecord::new(EXPECTED))?;
        let Some(kind) = effect_of(name) else {
            let ends = memchr::memmem::find(rest, b" = ").is_some();
            return if ends { Ok(true) } else { Err(BadRecord::new(EXPECTED)) };
        };
        let call = Call::parse(rest).ok_or(BadRecord::new(EXPECTED))?;
        // A failed call has no effect. Neither has a call that does not return, for example an
        // exit.
        let Some(value) = call.value else { return Ok(true) };
        let mut on = CallOnFiles { tables: &mut self.tables, files, cx, call, pid, time };
        on.apply(kind, value)?;
        if kind == CallEffect::Fork && value > 0 {
            let child = u32::try_from(value).map_err(|_| BadRecord::new(EXPECTED))?;
            if !self.tables.knows(child) {
                self.tables.fork(pid, child, shares_files(rest))?;
            }
        }
        Ok(true)
    }
}
