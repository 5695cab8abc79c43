//! Positional I/O on an open file or block device: calls that never wait for the disk, and calls
//! that may wait. [`FileDevice`] is a whole file as a [`Device`].

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use seekless_block::{Device, DeviceError, Extent, SECTOR_BYTES, Sectors};

use crate::Opened;
use crate::direct::Direct;

/// `f_type` of files in memory, as in statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
const RAMFS_MAGIC: rustix::fs::FsWord = 0x8584_58f6_u32 as rustix::fs::FsWord;
/// Zeroes written by one call.
const ZEROES_BYTES: usize = 64 << 10;
/// Longest range of one fallocate(2). Where the kernel writes the zeroes, reads of the same device
/// wait for the call.
const RANGE_MOST: u64 = 32 << 20;

/// Whether a file or folder is in memory, and gone at the next start of the machine.
pub fn is_in_memory(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|s| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&s.f_type))
}

/// An open file or block device.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    /// The flags to read without waiting; `None` if the host has none.
    at_once: Option<ReadWriteFlags>,
    /// The same file past the page cache.
    direct: Option<Direct>,
}

impl OpenFile {
    /// Takes over an open file.
    pub fn new(fd: OwnedFd) -> Self {
        let mut probe = [0; 1];
        let nowait = ReadWriteFlags::NOWAIT;
        let known = !matches!(
            rustix::io::preadv2(&fd, &mut [IoSliceMut::new(&mut probe)], 0, nowait),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS)
        );
        // A file in memory has nothing to wait for.
        let in_memory = || rustix::fs::fstatfs(&fd).is_ok_and(|s| s.f_type == TMPFS_MAGIC);
        let at_once = if known { Some(nowait) } else { in_memory().then(ReadWriteFlags::empty) };
        Self { file: fd.into(), at_once, direct: None }
    }

    /// The same file with an open file description of its own, for a part whose flushes must report
    /// their own errors: Linux reports an error of write-back once to each description, and
    /// duplicates share the report. A lock stays with the first description.
    ///
    /// # Errors
    /// The file cannot be opened again; this needs /proc.
    pub fn reopened(fd: &OwnedFd) -> std::io::Result<OwnedFd> {
        Ok(crate::direct::reopened(fd, OFlags::empty())?)
    }

    /// Moves bytes past the host's page cache from now on, where the file and an I/O's alignment
    /// allow it.
    pub fn go_direct(&mut self) {
        self.direct = Direct::open(&self.file);
    }

    /// True if bytes go past the page cache.
    pub const fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// True for a block device.
    pub fn is_device(&self) -> bool {
        let kind = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode);
        rustix::fs::fstat(&self.file).is_ok_and(|stat| kind(stat) == FileType::BlockDevice)
    }

    /// Fills the buffer with the bytes from `at` on; waits for the disk if necessary.
    /// Error `IO`: the file ends before.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        if let Some(direct) = self.direct.as_ref().filter(|d| d.takes(at, buf.len())) {
            return direct.read(at, buf);
        }
        let read = self.file.read_exact_at(buf, at);
        // The end of a file has no number.
        read.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }

    /// Fills the buffer without waiting; `None` if the disk is needed.
    #[inline]
    pub fn read_now(&self, at: u64, buf: &mut [u8]) -> Option<()> {
        let len = buf.len();
        match rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buf)], at, self.at_once?) {
            Ok(n) if n == len => Some(()),
            _ => None,
        }
    }

    /// Writes all bytes from `at` on; `how` can request durable writes.
    pub fn write(&self, mut at: u64, mut rest: &[u8], how: ReadWriteFlags) -> Result<(), Errno> {
        if let Some(direct) = self.direct.as_ref().filter(|d| d.takes(at, rest.len())) {
            return direct.write(at, rest, how);
        }
        while !rest.is_empty() {
            match rustix::io::pwritev2(&self.file, &[IoSlice::new(rest)], at, how) {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => {
                    at += n as u64;
                    rest = rest.get(n..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes bytes of the file in the host's memory to the device, whose cache may keep them; with a
    /// `len` of 0 all bytes from `at` on. An
    /// error is that of a page of this file, perhaps of an earlier write: then call it again.
    pub fn write_back(&self, at: u64, len: u64) -> Result<(), Errno> {
        retry(|| crate::sys::write_back(self.as_fd(), at, len))
    }

    /// Takes the report of pages of the whole file that could not be written so far. Writes nothing,
    /// and waits for the page at `at` alone.
    pub fn take_report(&self, at: u64) -> Result<(), Errno> {
        retry(|| crate::sys::wait_for_write_back(self.as_fd(), at))
    }

    /// Makes all written bytes durable.
    pub fn sync(&self) -> Result<(), Errno> {
        retry(|| rustix::fs::fdatasync(&self.file))
    }

    /// Gives space back to the file system; the bytes read as zeroes.
    /// Error `OPNOTSUPP`: the file system cannot do this.
    pub fn punch(&self, at: u64, len: u64) -> Result<(), Errno> {
        self.allocate(FallocateFlags::PUNCH_HOLE, at, len)
    }

    /// Zeroes bytes in the cheapest way of the file system; makes a hole only if `hole`. `false` if
    /// the caller must write the zeroes.
    pub fn zero_fast(&self, at: u64, len: u64, hole: bool) -> Result<bool, Errno> {
        if hole && self.punch(at, len).is_ok() {
            return Ok(true);
        }
        match self.allocate(FallocateFlags::ZERO_RANGE, at, len) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Calls `write` with zeroes for `len` bytes from `at` on, in pieces.
    pub fn write_zeroes(
        at: u64,
        len: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let zeroes = [0; ZEROES_BYTES];
        let mut done = 0;
        while done < len {
            let n = (len - done).min(ZEROES_BYTES as u64);
            write(at + done, zeroes.get(..n as usize).unwrap_or_default())?;
            done += n;
        }
        Ok(())
    }

    fn allocate(&self, how: FallocateFlags, at: u64, len: u64) -> Result<(), Errno> {
        let how = how | FallocateFlags::KEEP_SIZE;
        parts(at, len, |at, len| retry(|| rustix::fs::fallocate(&self.file, how, at, len)))
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Divides a range. The parts end at even places: so each of them frees whole blocks.
fn parts(
    at: u64,
    len: u64,
    mut call: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut done = 0;
    loop {
        let part = (len - done).min(RANGE_MOST - (at + done) % RANGE_MOST);
        call(at + done, part)?;
        done += part;
        if done >= len {
            return Ok(());
        }
    }
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Converts an error of the host; `op` names the operation, for example "reading".
pub fn device_error(op: &'static str, extent: Extent) -> impl FnOnce(Errno) -> DeviceError {
    move |source| DeviceError::Io { op, extent, source: source.into() }
}

/// A whole file or block device as a [`Device`].
#[derive(Debug)]
pub struct FileDevice {
    file: OpenFile,
    capacity: Sectors,
}

impl FileDevice {
    /// The whole of an opened file.
    pub fn new(opened: Opened) -> Self {
        let capacity = Sectors(opened.bytes / SECTOR_BYTES);
        Self { file: OpenFile::new(opened.fd), capacity }
    }
}

impl Device for FileDevice {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        self.file.read(extent.start.0 * SECTOR_BYTES, buf).map_err(device_error("reading", extent))
    }

    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        self.file
            .write(extent.start.0 * SECTOR_BYTES, buf, ReadWriteFlags::empty())
            .map_err(device_error("writing", extent))
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.file.sync().map_err(device_error("flushing", Extent::default()))
    }

    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        let (at, len) = (extent.start.0 * SECTOR_BYTES, extent.bytes().0);
        self.check(extent, len as usize)?;
        let zero = || {
            // The file keeps its space.
            if self.file.zero_fast(at, len, false)? {
                return Ok(());
            }
            let write = |at, part: &[u8]| self.file.write(at, part, ReadWriteFlags::empty());
            OpenFile::write_zeroes(at, len, write)
        };
        zero().map_err(device_error("zeroing", extent))
    }

    fn forget_cached(&mut self) {
        // Linux calls a page clean after a failed write of it. A file in memory has dirty pages only.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole range once, in parts that are no longer than they may be.
    #[test]
    fn a_long_range_is_zeroed_in_parts() {
        let mib = 1 << 20;
        for (at, len) in [(512, 4096 * mib - 512), (31 * mib, 2 * mib), (0, 32 * mib), (5, 0)] {
            let (mut next, mut calls) = (at, 0);
            let whole = parts(at, len, |at, len| {
                assert_eq!(at, next);
                assert!(len <= 32 * mib, "{len} bytes in one call");
                next += len;
                calls += 1;
                Ok(())
            });
            assert_eq!((whole, next), (Ok(()), at + len));
            assert_eq!(calls, ((at + len).div_ceil(32 * mib) - at / (32 * mib)).max(1));
        }
        let (mut calls, busy) = (0, Errno::BUSY);
        let failed = parts(0, 96 * mib, |at, _| {
            calls += 1;
            if at == 0 { Ok(()) } else { Err(busy) }
        });
        assert_eq!((failed, calls), (Err(busy), 2), "an error of a part is one of the whole");
    }
}
