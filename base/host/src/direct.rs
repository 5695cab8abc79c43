//! I/O past the host's page cache. A server of a mounted disk must not wait for memory that only its
//! own writes free, and each page of the page cache is such memory.

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

/// Bytes of one call.
const BOUNCE_BYTES: usize = 512 << 10;
/// Alignment of memory: enough for every device.
const ALIGN: usize = 4096;

thread_local! {
    /// Aligned memory of this thread, which goes on living between calls.
    static BOUNCE: RefCell<BounceBuffer> = RefCell::new(BounceBuffer::new());
}

/// Makes this thread's memory for direct I/O now, while there is memory.
pub fn reserve_bounce() {
    BOUNCE.with_borrow_mut(|bounce| bounce.take(BOUNCE_BYTES).fill(1));
}

struct BounceBuffer {
    bytes: Vec<u8>,
    from: usize,
}

impl BounceBuffer {
    fn new() -> Self {
        let bytes = vec![0; BOUNCE_BYTES + ALIGN];
        let from = bytes.as_ptr().align_offset(ALIGN);
        Self { bytes, from }
    }

    fn take(&mut self, len: usize) -> &mut [u8] {
        self.bytes.get_mut(self.from..self.from + len).unwrap_or_default()
    }
}

/// The same file with an open file description of its own. Linux reports an error of write-back once
/// to each description: duplicates share the report.
pub(crate) fn reopened(file: &(impl AsFd + AsRawFd), more: OFlags) -> Result<OwnedFd, Errno> {
    let rights = rustix::fs::fcntl_getfl(file)? & OFlags::ACCMODE;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, rights | more | OFlags::CLOEXEC, Mode::empty())
}

/// A file, opened a second time for direct I/O.
#[derive(Debug)]
pub(crate) struct Direct {
    fd: OwnedFd,
    /// Alignment of positions and lengths.
    align: u64,
}

impl Direct {
    /// `None` if the file has no direct I/O.
    pub(crate) fn open(file: &(impl AsFd + AsRawFd)) -> Option<Self> {
        let fd = reopened(file, OFlags::DIRECT).ok()?;
        let reads = |align: &u64| {
            BOUNCE.with_borrow_mut(|bounce| {
                let part = bounce.take(*align as usize);
                rustix::io::pread(&fd, part, 0).is_ok()
            })
        };
        let align = [512, 4096].into_iter().find(reads)?;
        Some(Self { fd, align })
    }

    /// True for an I/O that the device takes.
    pub(crate) const fn takes(&self, at: u64, len: usize) -> bool {
        at.is_multiple_of(self.align) && (len as u64).is_multiple_of(self.align)
    }

    pub(crate) fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < buf.len() {
            let want = (buf.len() - done).min(BOUNCE_BYTES);
            let got = BOUNCE.with_borrow_mut(|bounce| {
                let part = bounce.take(want);
                let flags = ReadWriteFlags::empty();
                let from = at + done as u64;
                let got = rustix::io::preadv2(&self.fd, &mut [IoSliceMut::new(part)], from, flags)?;
                let to = buf.get_mut(done..done + got).unwrap_or_default();
                to.copy_from_slice(part.get(..got).unwrap_or_default());
                Ok(got)
            });
            done += whole(got, self.align, want)?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, at: u64, buf: &[u8], how: ReadWriteFlags) -> Result<(), Errno> {
        let mut done = 0;
        while done < buf.len() {
            let want = (buf.len() - done).min(BOUNCE_BYTES);
            let put = BOUNCE.with_borrow_mut(|bounce| {
                let part = bounce.take(want);
                part.copy_from_slice(buf.get(done..done + want).unwrap_or_default());
                rustix::io::pwritev2(&self.fd, &[IoSlice::new(part)], at + done as u64, how)
            });
            done += whole(put, self.align, want)?;
        }
        Ok(())
    }
}

/// The bytes that a call moved, in whole units: the next call must be aligned too. An error if there
/// are none.
fn whole(moved: Result<usize, Errno>, align: u64, want: usize) -> Result<usize, Errno> {
    match moved {
        Ok(n) if n == want => Ok(n),
        Ok(n) if n as u64 >= align => Ok(n - n % align as usize),
        Ok(_) => Err(Errno::IO),
        Err(Errno::INTR) => Ok(0),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::OpenFile;

    /// Direct and buffered I/O see each other's bytes, at every alignment and length.
    #[test]
    fn bytes_are_the_same_past_the_page_cache_and_through_it() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let (file, path) = (named.as_file(), named.path());
        let size = 4 << 20;
        file.set_len(size).unwrap();
        let mut open = OpenFile::new(file.try_clone().unwrap().into());
        open.go_direct();
        if !open.is_direct() {
            println!("SKIPPED direct I/O: not on the file system of {}", path.display());
            return;
        }
        let mut model = vec![0; size as usize];
        let mut dice = seekless_block::Dice::new(1);
        let mut next = |below: u64| dice.below(below);
        for round in 0..300u64 {
            let unit = [512, 4096, 1][(round % 3) as usize];
            let len = (next(if round % 10 == 0 { 2 << 20 } else { 70_000 }) / unit + 1) * unit;
            let at = next(size - len + 1) / unit * unit;
            let part = at as usize..(at + len) as usize;
            match next(4) {
                0 => {
                    let mut found = vec![0; len as usize];
                    open.read(at, &mut found).unwrap();
                    assert!(found == model[part], "round {round}: {len} at {at}");
                }
                kind => {
                    model[part.clone()].fill(round as u8);
                    if kind == 1 {
                        file.write_all_at(&model[part], at).unwrap();
                    } else {
                        open.write(at, &model[part], ReadWriteFlags::empty()).unwrap();
                    }
                }
            }
        }
        let mut found = vec![0; size as usize];
        open.read(0, &mut found).unwrap();
        assert!(found == model && std::fs::read(path).unwrap() == model);
        // Past the end there is nothing.
        assert_eq!(open.read(size, &mut [0; 512]), Err(Errno::IO));
    }
}
