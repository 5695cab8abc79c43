//! What strace prints of calls on files, best recorded with `-f -ttt -T -y -o FILE` and `-e
//! trace=file,desc,process`: descriptors are followed through open, dup, fork and close to tell which bytes of
//! which file a `read` without offset means. Calls are told when they end, with the time they began; failed
//! calls, signals and calls on pipes, sockets, terminals, /proc and /sys are passed over. Reads and writes
//! through mmap and io_uring are not in such a trace. A file opened before the trace began is known only with
//! `-y`, and its position taken for 0. Renaming a directory is not followed to the files in it.
//!
//! Layout: strace(1), and output of strace 6.1.

mod grammar;
mod tables;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use self::grammar::{Call, Descriptor, Stamp, name, prefix, string, unescape};
use self::tables::Tables;
use crate::context::{Context, Process};
use crate::error::Bad;
use crate::files::{FileFormat, FileOp, FileTable, RawEvent};
use crate::text::{number, trim};

pub(super) use grammar::time_of_day;

const EXPECTED: &str = "pid, time, call(arguments) = answer <duration>; a signal or an exit";
/// Bytes kept of calls that have not ended; more are hostile.
const PENDING_MAX: usize = 16 << 20;
const DAY: u64 = 86_400_000_000_000;

/// Whether a line of `head` says when.
pub(super) fn has_times(head: &[u8]) -> bool {
    head.split(|&b| b == b'\n').any(|line| prefix(line).0.stamp.is_some())
}

/// Whether a line of `head` says who.
pub(super) fn has_processes(head: &[u8]) -> bool {
    head.split(|&b| b == b'\n').any(|line| prefix(line).0.pid != 0)
}

/// A call that has begun.
#[derive(Debug)]
struct Begun {
    time: Option<u64>,
    text: Vec<u8>,
}

/// Makes one clock of all ways to print time.
#[derive(Debug, Default)]
struct Clock {
    /// Time of day of the line before, and midnights passed.
    last: u64,
    days: u64,
    /// Sum of `-r`'s differences.
    sum: u64,
}

impl Clock {
    fn read(&mut self, stamp: Option<Stamp>) -> Option<u64> {
        Some(match stamp? {
            Stamp::Epoch(ns) => ns,
            Stamp::TimeOfDay(ns) => self.time_of_day(ns),
            Stamp::Since(ns) => {
                self.sum = self.sum.saturating_add(ns);
                self.sum
            }
        })
    }

    fn time_of_day(&mut self, ns: u64) -> u64 {
        if ns + DAY / 2 < self.last {
            self.days += 1;
        }
        self.last = ns;
        self.days.saturating_mul(DAY).saturating_add(ns)
    }
}

#[derive(Debug, Default)]
pub(super) struct Strace {
    tables: Tables,
    clock: Clock,
    begun: FxHashMap<u32, Begun>,
    begun_bytes: usize,
    /// Processes that are forking, newest last: their child may be heard of first.
    forking: Vec<(u32, bool)>,
    /// The process that was not named while it was the only one; 0 as long as none was.
    alone: u32,
    /// What stood before a message of strace's own in one line with it.
    broken: Vec<u8>,
}

impl FileFormat for Strace {
    fn line(&mut self, line: &[u8], files: &mut FileTable, cx: &mut Context) -> Result<bool, Bad> {
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
    fn whole(&mut self, line: &[u8], files: &mut FileTable, cx: &mut Context) -> Result<bool, Bad> {
        let (prefix, text) = prefix(line);
        // On a terminal strace names no process while there is only one.
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
            let at = memchr::memmem::find(rest, b" resumed>").ok_or(Bad::new(EXPECTED))?;
            self.meet(pid, true)?;
            // Without one, the call began before the trace.
            let Some(mut begun) = self.forget(pid) else { return Ok(true) };
            begun.text.extend_from_slice(trim(&rest[at + b" resumed>".len()..]));
            return self.call(&begun.text, pid, begun.time, files, cx);
        }
        if let Some(text) = text.strip_suffix(b"<unfinished ...>") {
            let (call, _) = name(text).ok_or(Bad::new(EXPECTED))?;
            self.meet(pid, false)?;
            self.forget(pid);
            if self.begun_bytes + text.len() > PENDING_MAX {
                return Err(Bad::new("at most 16 MiB of calls that have not ended"));
            }
            if is_fork(call) {
                self.forking.push((pid, shares_files(text)));
            }
            self.begun_bytes += text.len();
            self.begun.insert(pid, Begun { time, text: text.to_vec() });
            return Ok(true);
        }
        self.meet(pid, false)?;
        self.call(text, pid, time, files, cx)
    }

    /// Takes out the call a process has begun.
    fn forget(&mut self, pid: u32) -> Option<Begun> {
        self.forking.retain(|f| f.0 != pid);
        let begun = self.begun.remove(&pid)?;
        self.begun_bytes -= begun.text.len();
        Some(begun)
    }

    /// A process heard of for the first time was forked by whoever is forking, or it is the one that was not
    /// named while it was alone; the latter if it resumes a call.
    fn meet(&mut self, pid: u32, resumes: bool) -> Result<(), Bad> {
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

    /// A whole call. Whether it is one.
    fn call(
        &mut self,
        text: &[u8],
        pid: u32,
        time: Option<u64>,
        files: &mut FileTable,
        cx: &mut Context,
    ) -> Result<bool, Bad> {
        let (name, rest) = name(text).ok_or(Bad::new(EXPECTED))?;
        let Some(kind) = kind_of(name) else {
            let ends = memchr::memmem::find(rest, b" = ").is_some();
            return if ends { Ok(true) } else { Err(Bad::new(EXPECTED)) };
        };
        let call = Call::parse(rest).ok_or(Bad::new(EXPECTED))?;
        // A failed call did nothing; so did one that did not come back, such as an exit.
        let Some(value) = call.value else { return Ok(true) };
        let mut on = On { tables: &mut self.tables, files, cx, call, pid, time };
        on.apply(kind, value)?;
        if kind == Kind::Fork && value > 0 {
            let child = u32::try_from(value).map_err(|_| Bad::new(EXPECTED))?;
            if !self.tables.knows(child) {
                self.tables.fork(pid, child, shares_files(rest))?;
            }
        }
        Ok(true)
    }
}

/// What a call does to files and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The operation, and which argument is the offset, where one is.
    Transfer(FileOp, Option<usize>),
    /// From and to: descriptor and offset of each.
    Copy([usize; 2], [usize; 2]),
    /// Which argument is the path, after a directory's descriptor where it is not the first.
    Open(usize),
    Creat,
    Close,
    CloseRange,
    Seek,
    SeekLong,
    Duplicate(usize),
    Control,
    Rename([usize; 2]),
    Unlink(usize),
    Truncate,
    TruncateOpen,
    Sync,
    Fork,
    Execute,
    ChangeDirectory,
    ChangeToOpen,
    Status,
}

fn kind_of(name: &[u8]) -> Option<Kind> {
    use Kind as K;
    Some(match name {
        b"read" | b"readv" => K::Transfer(FileOp::Read, None),
        b"write" | b"writev" => K::Transfer(FileOp::Write, None),
        b"pread64" | b"pread" | b"preadv" | b"preadv2" => K::Transfer(FileOp::Read, Some(3)),
        b"pwrite64" | b"pwrite" | b"pwritev" | b"pwritev2" => K::Transfer(FileOp::Write, Some(3)),
        b"sendfile" | b"sendfile64" => K::Copy([1, 2], [0, usize::MAX]),
        b"copy_file_range" => K::Copy([0, 1], [2, 3]),
        b"open" => K::Open(0),
        b"openat" | b"openat2" => K::Open(1),
        b"creat" => K::Creat,
        b"close" => K::Close,
        b"close_range" => K::CloseRange,
        b"lseek" => K::Seek,
        b"_llseek" => K::SeekLong,
        b"dup" | b"dup2" | b"dup3" => K::Duplicate(0),
        b"fcntl" | b"fcntl64" => K::Control,
        b"rename" => K::Rename([0, 1]),
        b"renameat" | b"renameat2" => K::Rename([1, 3]),
        b"unlink" => K::Unlink(0),
        b"unlinkat" => K::Unlink(1),
        b"truncate" | b"truncate64" => K::Truncate,
        b"ftruncate" | b"ftruncate64" => K::TruncateOpen,
        b"fsync" | b"fdatasync" => K::Sync,
        _ if is_fork(name) => K::Fork,
        b"execve" | b"execveat" => K::Execute,
        b"chdir" => K::ChangeDirectory,
        b"fchdir" => K::ChangeToOpen,
        b"fstat" | b"fstat64" | b"newfstatat" => K::Status,
        _ => return None,
    })
}

fn is_fork(name: &[u8]) -> bool {
    matches!(name, b"fork" | b"vfork" | b"clone" | b"clone2" | b"clone3")
}

fn shares_files(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"CLONE_FILES").is_some()
}

/// Whether a name is that of a file on a disk, as far as a name can tell.
fn is_file(path: &[u8]) -> bool {
    const OTHERS: [&[u8]; 4] = [b"/proc/", b"/sys/", b"/dev/pts/", b"/dev/tty"];
    const DEVICES: [&[u8]; 6] =
        [b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom", b"/dev/ptmx"];
    !path.is_empty() && !DEVICES.contains(&path) && !OTHERS.iter().any(|o| path.starts_with(o))
}

/// A call at work.
struct On<'a, 'b> {
    tables: &'b mut Tables,
    files: &'b mut FileTable,
    cx: &'b mut Context,
    call: Call<'a>,
    pid: u32,
    time: Option<u64>,
}

impl On<'_, '_> {
    fn apply(&mut self, kind: Kind, value: u64) -> Result<(), Bad> {
        let pid = self.pid;
        let new_fd = u32::try_from(value).unwrap_or(u32::MAX);
        match kind {
            Kind::Transfer(op, at) => {
                let at = at.and_then(|n| number(self.call.arg(n)));
                self.transfer(op, 0, at, value)?;
            }
            Kind::Copy(from, to) => {
                for (op, [fd, at]) in [(FileOp::Read, from), (FileOp::Write, to)] {
                    let at = if at == usize::MAX { None } else { pointed_at(self.call.arg(at)) };
                    self.transfer(op, fd, at, value)?;
                }
            }
            Kind::Open(path) => self.open(path, self.call.arg(path + 1), new_fd)?,
            Kind::Creat => self.open(0, b"O_WRONLY|O_CREAT|O_TRUNC", new_fd)?,
            Kind::Close => {
                if let Some(fd) = self.fd(0)
                    && let Some(file) = self.tables.close(pid, fd)
                {
                    self.event(FileOp::Close, file, 0, 0);
                }
            }
            Kind::CloseRange => {
                let (first, last) = (number(self.call.arg(0)), number(self.call.arg(1)));
                if let (Some(first), Some(last)) = (first, last) {
                    for fd in self.tables.fds_between(pid, first, last) {
                        if let Some(file) = self.tables.close(pid, fd) {
                            self.event(FileOp::Close, file, 0, 0);
                        }
                    }
                }
            }
            Kind::Seek => self.seek(Some(value))?,
            Kind::SeekLong => self.seek(pointed_at(self.call.arg(2)))?,
            Kind::Duplicate(from) => self.duplicate(from, new_fd)?,
            Kind::Control if self.call.arg(1).starts_with(b"F_DUPFD") => {
                self.duplicate(0, new_fd)?;
            }
            Kind::Control | Kind::Fork => {}
            Kind::Rename([from, to]) => {
                if let (Some(from), Some(to)) = (self.path(from), self.path(to))
                    && is_file(&from)
                {
                    let file = self.files.rename(&from, &to)?;
                    self.event(FileOp::Rename, file, 0, 0);
                }
            }
            Kind::Unlink(path) => {
                if let Some(path) = self.path(path)
                    && memchr::memmem::find(self.call.arg(2), b"AT_REMOVEDIR").is_none()
                    && is_file(&path)
                {
                    let file = self.files.unlink(&path)?;
                    self.event(FileOp::Unlink, file, 0, 0);
                }
            }
            Kind::Truncate => {
                if let (Some(path), Some(len)) = (self.path(0), number(self.call.arg(1)))
                    && is_file(&path)
                {
                    let file = self.files.named(&path)?;
                    self.event(FileOp::Truncate, file, 0, len);
                }
            }
            Kind::TruncateOpen => {
                if let (Some(file), Some(len)) = (self.file(0)?, number(self.call.arg(1))) {
                    self.event(FileOp::Truncate, file, 0, len);
                }
            }
            Kind::Sync => {
                if let Some(file) = self.file(0)? {
                    self.event(FileOp::Sync, file, 0, 0);
                }
            }
            Kind::Execute => {
                if let Some(path) = string(self.call.arg(0)) {
                    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(&[]);
                    let stream = self.stream();
                    self.cx.name_process(pid, base);
                    self.cx.name_stream(stream, base);
                }
            }
            Kind::ChangeDirectory => {
                if let Some(path) = self.path(0) {
                    self.tables.set_directory(pid, &path);
                }
            }
            Kind::ChangeToOpen => {
                if let Some(path) = Descriptor::parse(self.call.arg(0)).and_then(|d| d.path) {
                    self.tables.set_directory(pid, &unescape(path));
                }
            }
            Kind::Status => {
                // `newfstatat` of a descriptor has an empty path.
                let at = if self.call.arg(1) == b"\"\"" { 2 } else { 1 };
                if let Some(size) = size_in(self.call.arg(at))
                    && let Some(file) = self.file(0)?
                {
                    let known = &mut self.files.files[file as usize].size;
                    *known = (*known).max(size);
                }
            }
        }
        Ok(())
    }

    fn fd(&self, arg: usize) -> Option<u32> {
        Descriptor::parse(self.call.arg(arg))?.number
    }

    fn stream(&mut self) -> u32 {
        self.cx.stream(Process { pid: self.pid, name: &[] })
    }

    fn event(&mut self, op: FileOp, file: u32, offset: u64, len: u64) {
        let stream = self.stream();
        let (time, latency) = (self.time, self.call.latency);
        self.files.push(RawEvent { time, stream, file, op, offset, len, latency });
    }

    /// The file an argument's descriptor stands for. What `-y` says of it is believed.
    fn file(&mut self, arg: usize) -> Result<Option<u32>, Bad> {
        let Some(d) = Descriptor::parse(self.call.arg(arg)) else { return Ok(None) };
        let Some(fd) = d.number else { return Ok(None) };
        let known = self.tables.get(self.pid, fd).map(|open| open.file);
        let Some(path) = d.path else { return Ok(known) };
        let path = unescape(path);
        if path.first() != Some(&b'/') || !is_file(&path) {
            self.tables.close(self.pid, fd);
            return Ok(None);
        }
        // A file without a name keeps what stood for it.
        if known.is_some() && (d.deleted || self.files.find(&path) == known) {
            return Ok(known);
        }
        let file = self.files.named(&path)?;
        self.tables.open(self.pid, fd, file, false)?;
        Ok(Some(file))
    }

    fn transfer(&mut self, op: FileOp, arg: usize, at: Option<u64>, len: u64) -> Result<(), Bad> {
        let Some(file) = self.file(arg)? else {
            let descriptor = Descriptor::parse(self.call.arg(arg));
            // Without `-y`, no telling a pipe from a file opened before the trace.
            if descriptor.is_some_and(|d| d.path.is_none() && d.number.is_some_and(|n| n > 2)) {
                self.cx.skipped.unknown_files += 1;
            }
            return Ok(());
        };
        let size = self.files.files[file as usize].size;
        let offset = match (at, self.fd(arg)) {
            (Some(at), _) => at,
            (None, Some(fd)) => match self.tables.get(self.pid, fd) {
                Some(open) => {
                    if open.append && op == FileOp::Write {
                        open.at = size;
                    }
                    let at = open.at;
                    open.at = at.saturating_add(len);
                    at
                }
                None => 0,
            },
            (None, None) => 0,
        };
        if len > 0 {
            self.event(op, file, offset, len);
        }
        Ok(())
    }

    fn open(&mut self, arg: usize, flags: &[u8], fd: u32) -> Result<(), Bad> {
        let has = |flag: &[u8]| memchr::memmem::find(flags, flag).is_some();
        let path = match self.call.path {
            Some(path) => Some(unescape(path)),
            None => self.path(arg),
        };
        let Some(path) = path.filter(|p| is_file(p)) else {
            self.tables.close(self.pid, fd);
            return Ok(());
        };
        // With `-y` whatever has no slash in front is a pipe, a socket or the like.
        if self.call.path.is_some() && path.first() != Some(&b'/') {
            self.tables.close(self.pid, fd);
            return Ok(());
        }
        if arg == 1
            && let Some(Descriptor { number: None, path: Some(directory), .. }) =
                Descriptor::parse(self.call.arg(0))
        {
            self.tables.set_directory(self.pid, &unescape(directory));
        }
        let is_new = self.files.find(&path).is_none();
        let file = self.files.named(&path)?;
        self.tables.open(self.pid, fd, file, has(b"O_APPEND"))?;
        if has(b"O_DIRECTORY") {
            return Ok(());
        }
        let creates = is_new && has(b"O_CREAT");
        self.event(if creates { FileOp::Create } else { FileOp::Open }, file, 0, 0);
        if has(b"O_TRUNC") && !creates {
            self.event(FileOp::Truncate, file, 0, 0);
        }
        Ok(())
    }

    fn seek(&mut self, to: Option<u64>) -> Result<(), Bad> {
        self.file(0)?;
        if let (Some(fd), Some(to)) = (self.fd(0), to)
            && let Some(open) = self.tables.get(self.pid, fd)
        {
            open.at = to;
        }
        Ok(())
    }

    fn duplicate(&mut self, arg: usize, to: u32) -> Result<(), Bad> {
        self.file(arg)?;
        match self.fd(arg) {
            Some(from) => self.tables.duplicate(self.pid, from, to),
            None => Ok(()),
        }
    }

    /// The path in an argument, from the root where it can be told. Before it may stand the descriptor of
    /// the directory it begins from.
    fn path(&self, arg: usize) -> Option<Cow<'static, [u8]>> {
        let path = string(self.call.arg(arg))?;
        if path.first() == Some(&b'/') {
            return Some(Cow::Owned(plain(&path)));
        }
        let told = arg
            .checked_sub(1)
            .and_then(|before| Descriptor::parse(self.call.arg(before))?.path)
            .map(unescape);
        let base = match &told {
            Some(told) => Some(told.as_ref()),
            None => self.tables.directory(self.pid),
        };
        let Some(base) = base else { return Some(Cow::Owned(path.into_owned())) };
        Some(Cow::Owned(plain(&[base, b"/", &path].concat())))
    }
}

/// A path without `.`, `..` and doubled slashes. Links are not followed.
fn plain(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => out.truncate(memchr::memrchr(b'/', &out).unwrap_or(0)),
            _ => {
                out.push(b'/');
                out.extend_from_slice(part);
            }
        }
    }
    out
}

/// The number in `[123]`, or the first of `[123] => [456]`.
fn pointed_at(arg: &[u8]) -> Option<u64> {
    let inside = arg.strip_prefix(b"[")?;
    number(&inside[..memchr::memchr(b']', inside)?])
}

/// `st_size=` of a regular file.
fn size_in(arg: &[u8]) -> Option<u64> {
    memchr::memmem::find(arg, b"S_IFREG")?;
    let at = memchr::memmem::find(arg, b"st_size=")? + b"st_size=".len();
    let digits = arg[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    number(&arg[at..at + digits])
}
