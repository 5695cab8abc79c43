//! The effects of calls on files and descriptors.

use std::borrow::Cow;

use super::descriptor_tables::Tables;
use super::grammar::{Call, Descriptor, string, unescape};
use crate::error::Parsed;
use crate::files::{FileOp, FileTable, RawEvent};
use crate::reader_context::{Process, ReaderContext};
use crate::text_lines::number;

/// The effect of a call on files and descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEffect {
    /// The operation, and the index of the offset argument, if the call has one.
    Transfer(FileOp, Option<usize>),
    /// From and to: descriptor and offset of each.
    Copy([usize; 2], [usize; 2]),
    /// The index of the path argument; if it is not the first, a directory's descriptor comes
    /// before it.
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

pub(super) fn effect_of(name: &[u8]) -> Option<CallEffect> {
    use CallEffect as K;
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

pub(super) fn is_fork(name: &[u8]) -> bool {
    matches!(name, b"fork" | b"vfork" | b"clone" | b"clone2" | b"clone3")
}

pub(super) fn shares_files(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"CLONE_FILES").is_some()
}

/// Whether a name can belong to a file on a disk.
fn is_file(path: &[u8]) -> bool {
    const OTHERS: [&[u8]; 4] = [b"/proc/", b"/sys/", b"/dev/pts/", b"/dev/tty"];
    const DEVICES: [&[u8]; 6] =
        [b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom", b"/dev/ptmx"];
    !path.is_empty() && !DEVICES.contains(&path) && !OTHERS.iter().any(|o| path.starts_with(o))
}

/// A call that is being applied.
pub(super) struct CallOnFiles<'a, 'b> {
    pub(super) tables: &'b mut Tables,
    pub(super) files: &'b mut FileTable,
    pub(super) cx: &'b mut ReaderContext,
    pub(super) call: Call<'a>,
    pub(super) pid: u32,
    pub(super) time: Option<u64>,
}

impl CallOnFiles<'_, '_> {
    pub(super) fn apply(&mut self, kind: CallEffect, value: u64) -> Parsed<()> {
        let pid = self.pid;
        let new_fd = u32::try_from(value).unwrap_or(u32::MAX);
        match kind {
            CallEffect::Transfer(op, at) => {
                let at = at.and_then(|n| number(self.call.arg(n)));
                self.transfer(op, 0, at, value)?;
            }
            CallEffect::Copy(from, to) => {
                for (op, [fd, at]) in [(FileOp::Read, from), (FileOp::Write, to)] {
                    let at = if at == usize::MAX { None } else { pointed_at(self.call.arg(at)) };
                    self.transfer(op, fd, at, value)?;
                }
            }
            CallEffect::Open(path) => self.open(path, self.call.arg(path + 1), new_fd)?,
            CallEffect::Creat => self.open(0, b"O_WRONLY|O_CREAT|O_TRUNC", new_fd)?,
            CallEffect::Close => {
                if let Some(fd) = self.fd(0)
                    && let Some(file) = self.tables.close(pid, fd)
                {
                    self.event(FileOp::Close, file, 0, 0);
                }
            }
            CallEffect::CloseRange => self.close_range(),
            CallEffect::Seek => self.seek(Some(value))?,
            CallEffect::SeekLong => self.seek(pointed_at(self.call.arg(2)))?,
            CallEffect::Duplicate(from) => self.duplicate(from, new_fd)?,
            CallEffect::Control if self.call.arg(1).starts_with(b"F_DUPFD") => {
                self.duplicate(0, new_fd)?;
            }
            CallEffect::Control | CallEffect::Fork => {}
            CallEffect::Rename([from, to]) => self.rename(from, to)?,
            CallEffect::Unlink(path) => self.unlink(path)?,
            CallEffect::Truncate => self.truncate()?,
            CallEffect::TruncateOpen => {
                if let (Some(file), Some(len)) = (self.file(0)?, number(self.call.arg(1))) {
                    self.event(FileOp::Truncate, file, 0, len);
                }
            }
            CallEffect::Sync => {
                if let Some(file) = self.file(0)? {
                    self.event(FileOp::Sync, file, 0, 0);
                }
            }
            CallEffect::Execute => self.execute(),
            CallEffect::ChangeDirectory => {
                if let Some(path) = self.path(0) {
                    self.tables.set_directory(pid, &path);
                }
            }
            CallEffect::ChangeToOpen => {
                if let Some(path) = Descriptor::parse(self.call.arg(0)).and_then(|d| d.path) {
                    self.tables.set_directory(pid, &unescape(path));
                }
            }
            CallEffect::Status => self.status()?,
        }
        Ok(())
    }

    fn close_range(&mut self) {
        let (first, last) = (number(self.call.arg(0)), number(self.call.arg(1)));
        if let (Some(first), Some(last)) = (first, last) {
            for fd in self.tables.fds_between(self.pid, first, last) {
                if let Some(file) = self.tables.close(self.pid, fd) {
                    self.event(FileOp::Close, file, 0, 0);
                }
            }
        }
    }

    fn rename(&mut self, from: usize, to: usize) -> Parsed<()> {
        if let (Some(from), Some(to)) = (self.path(from), self.path(to))
            && is_file(&from)
        {
            let file = self.files.rename(&from, &to)?;
            self.event(FileOp::Rename, file, 0, 0);
        }
        Ok(())
    }

    fn unlink(&mut self, path: usize) -> Parsed<()> {
        if let Some(path) = self.path(path)
            && memchr::memmem::find(self.call.arg(2), b"AT_REMOVEDIR").is_none()
            && is_file(&path)
        {
            let file = self.files.unlink(&path)?;
            self.event(FileOp::Unlink, file, 0, 0);
        }
        Ok(())
    }

    fn truncate(&mut self) -> Parsed<()> {
        if let (Some(path), Some(len)) = (self.path(0), number(self.call.arg(1)))
            && is_file(&path)
        {
            let file = self.files.named(&path)?;
            self.event(FileOp::Truncate, file, 0, len);
        }
        Ok(())
    }

    /// Names the process after the program that it runs.
    fn execute(&mut self) {
        if let Some(path) = string(self.call.arg(0)) {
            let base = path.rsplit(|&b| b == b'/').next().unwrap_or(&[]);
            let stream = self.stream();
            self.cx.name_process(self.pid, base);
            self.cx.name_stream(stream, base);
        }
    }

    /// Stores the size of the file of the first argument.
    fn status(&mut self) -> Parsed<()> {
        // `newfstatat` of a descriptor has an empty path.
        let at = if self.call.arg(1) == b"\"\"" { 2 } else { 1 };
        if let Some(size) = size_in(self.call.arg(at))
            && let Some(file) = self.file(0)?
        {
            let known = &mut self.files.files[file as usize].size;
            *known = (*known).max(size);
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

    /// The file of a descriptor argument. A path from `-y` has priority.
    fn file(&mut self, arg: usize) -> Parsed<Option<u32>> {
        let Some(d) = Descriptor::parse(self.call.arg(arg)) else { return Ok(None) };
        let Some(fd) = d.number else { return Ok(None) };
        let known = self.tables.get(self.pid, fd).map(|open| open.file);
        let Some(path) = d.path else { return Ok(known) };
        let path = unescape(path);
        if path.first() != Some(&b'/') || !is_file(&path) {
            self.tables.close(self.pid, fd);
            return Ok(None);
        }
        // A file without a name keeps its entry.
        if known.is_some() && (d.deleted || self.files.find(&path) == known) {
            return Ok(known);
        }
        let file = self.files.named(&path)?;
        self.tables.open(self.pid, fd, file, false)?;
        Ok(Some(file))
    }

    fn transfer(&mut self, op: FileOp, arg: usize, at: Option<u64>, len: u64) -> Parsed<()> {
        let Some(file) = self.file(arg)? else {
            let descriptor = Descriptor::parse(self.call.arg(arg));
            // Without `-y`, a pipe cannot be distinguished from a file opened before the trace.
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

    fn open(&mut self, arg: usize, flags: &[u8], fd: u32) -> Parsed<()> {
        let has = |flag: &[u8]| memchr::memmem::find(flags, flag).is_some();
        let path = match self.call.path {
            Some(path) => Some(unescape(path)),
            None => self.path(arg),
        };
        let Some(path) = path.filter(|p| is_file(p)) else {
            self.tables.close(self.pid, fd);
            return Ok(());
        };
        // With `-y`, a path without a leading slash is a pipe, a socket or similar.
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

    fn seek(&mut self, to: Option<u64>) -> Parsed<()> {
        self.file(0)?;
        if let (Some(fd), Some(to)) = (self.fd(0), to)
            && let Some(open) = self.tables.get(self.pid, fd)
        {
            open.at = to;
        }
        Ok(())
    }

    fn duplicate(&mut self, arg: usize, to: u32) -> Parsed<()> {
        self.file(arg)?;
        match self.fd(arg) {
            Some(from) => self.tables.duplicate(self.pid, from, to),
            None => Ok(()),
        }
    }

    /// The path in an argument, as an absolute path if possible. The descriptor of its base
    /// directory can come before it.
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

/// A path without `.`, `..` and double slashes. Links are not followed.
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
