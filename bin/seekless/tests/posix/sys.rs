//! What neither the standard library nor `rustix` does without unsafe code: a shared mapping of a
//! file, and truncate(2) by name.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, MsyncFlags, ProtFlags, mmap, mprotect, msync, munmap};

/// A mapping of the first bytes of a file. Bytes are copied in and out: another process may change
/// them at any time.
#[derive(Debug)]
pub(crate) struct Map {
    at: NonNull<u8>,
    len: usize,
}

impl Map {
    /// Maps `len` bytes; a page beyond the file's end must not be touched.
    pub(crate) fn new(
        file: &File,
        len: usize,
        writable: bool,
        shared: bool,
    ) -> Result<Self, Errno> {
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: the kernel chooses a range of addresses that is not in use.
        let at = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, file, 0) }?;
        NonNull::new(at.cast()).map(|at| Self { at, len }).ok_or(Errno::FAULT)
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.len);
        for (i, byte) in into.iter_mut().enumerate() {
            // SAFETY: the byte is within the mapping, which lives as long as `self`. The read is
            // volatile, because others write there.
            *byte = unsafe { self.at.add(offset + i).read_volatile() };
        }
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: the byte is within the mapping, which lives as long as `self`. Callers map
            // for writing before they write.
            unsafe { self.at.add(offset + i).write_volatile(*byte) };
        }
    }

    /// Asks for the right to write afterwards.
    pub(crate) fn make_writable(&self) -> Result<(), Errno> {
        // SAFETY: the call gets the whole mapping, and no more.
        unsafe {
            mprotect(self.at.as_ptr().cast(), self.len, MprotectFlags::READ | MprotectFlags::WRITE)
        }
    }

    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the call gets the whole mapping, and no more.
        unsafe { msync(self.at.as_ptr().cast(), self.len, MsyncFlags::SYNC) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, and no other code has a pointer to it.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// truncate(2).
pub(crate) fn truncate(path: &Path, size: i64) -> Result<(), Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the path ends with a zero byte.
    if unsafe { libc::truncate(path.as_ptr(), size) } == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

/// A lock on a range that belongs to the open file, not the process.
pub(crate) fn range_lock(file: &File, kind: i32, start: i64, len: i64) -> Result<(), Errno> {
    // SAFETY: the structure has only integers, and zero is a valid value of each.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (kind as _, libc::SEEK_SET as _);
    (lock.l_start, lock.l_len) = (start, len);
    // SAFETY: the descriptor is open, and the lock lives as long as the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}
