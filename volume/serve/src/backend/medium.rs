//! Where the bytes of a disk stand: in a file or device of this host, or on another server.

use std::ops::Range;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::{Errno, ReadWriteFlags};
use seekless_block::{Flags, Op};
use seekless_host::OpenFile;
use seekless_nbd::{STATE_HOLE, STATE_ZERO};

use super::remote::Remote;
use super::{FAST_ZERO, PAGE};

/// Most runs of one block status reply.
const RUNS_MAX: usize = 512;

/// Where the bytes of a disk stand.
#[derive(Debug)]
pub(super) enum Medium {
    File(OpenFile),
    /// On another server.
    Remote(Arc<Remote>),
}

impl Medium {
    pub(super) fn go_direct(&mut self) {
        if let Self::File(file) = self {
            file.go_direct();
        }
    }

    /// True if nothing goes through the host's page cache.
    pub(super) const fn is_direct(&self) -> bool {
        match self {
            Self::File(file) => file.is_direct(),
            Self::Remote(_) => true,
        }
    }

    pub(super) fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        match self {
            Self::File(file) => file.read(at, buf),
            Self::Remote(remote) => remote.read(at, buf),
        }
    }

    pub(super) fn read_now(&self, at: u64, buf: &mut [u8]) -> Option<()> {
        match self {
            Self::File(file) => file.read_now(at, buf),
            Self::Remote(_) => None,
        }
    }

    pub(super) fn write(&self, at: u64, buf: &[u8], how: ReadWriteFlags) -> Result<(), Errno> {
        match self {
            Self::File(file) => file.write(at, buf, how),
            Self::Remote(remote) => {
                let durable = how.contains(ReadWriteFlags::DSYNC);
                let flags = if durable { Flags::FUA } else { Flags::NONE };
                remote.change(Op::Write, flags, at, buf.len() as u64, buf)
            }
        }
    }

    /// See [`OpenFile::write_back`]; another server has its own memory.
    pub(super) fn write_back(&self) -> Result<(), Errno> {
        match self {
            Self::File(file) => file.write_back(0, 0),
            Self::Remote(_) => Ok(()),
        }
    }

    pub(super) fn sync(&self) -> Result<(), Errno> {
        match self {
            Self::File(file) => file.sync(),
            Self::Remote(remote) => remote.change(Op::Flush, Flags::NONE, 0, 0, &[]),
        }
    }

    pub(super) fn punch(&self, at: u64, len: u64) -> Result<(), Errno> {
        match self {
            Self::File(file) => match file.punch(at, len) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
                other => other,
            },
            Self::Remote(remote) => remote.change(Op::Discard, Flags::NONE, at, len, &[]),
        }
    }

    /// The part of a range for [`Self::zero_fast`]; the caller writes zeroes to the rest.
    pub(super) fn fast_part(&self, at: u64, len: u64) -> Range<u64> {
        match self {
            // Linux zeroes a device below the page cache. Before 6.15, a write of the rest of a page
            // may have read this page before, and bring its old bytes back later.
            Self::File(file) if !file.is_direct() && file.is_device() => whole_pages(at, len),
            _ => at..at + len,
        }
    }

    /// Zeroes in the cheapest way; `false` if the caller must write the zeroes.
    pub(super) fn zero_fast(&self, at: u64, len: u64, flags: Flags) -> Result<bool, Errno> {
        match self {
            Self::File(file) => file.zero_fast(at, len, !flags.contains(Flags::NO_HOLE)),
            Self::Remote(remote) => {
                let flags = Flags(flags.0 & (Flags::NO_HOLE.0 | FAST_ZERO.0));
                remote.change(Op::WriteZeroes, flags, at, len, &[]).map(|()| true)
            }
        }
    }
}

/// The whole pages of a range.
pub(super) fn whole_pages(at: u64, len: u64) -> Range<u64> {
    let end = at + len;
    let start = at.next_multiple_of(PAGE).min(end);
    start..(end / PAGE * PAGE).max(start)
}

/// Holes of one piece of a file, as (bytes, state); stops behind [`RUNS_MAX`] runs.
pub(super) fn status_of_piece(file: &OpenFile, at: u64, len: u64, runs: &mut Vec<(u32, u32)>) {
    let end = at + len;
    let mut from = at;
    while from < end && runs.len() < RUNS_MAX {
        let data = match rustix::fs::seek(file, SeekFrom::Data(from)) {
            Ok(data) => data.min(end),
            // No data up to the end of the file.
            Err(Errno::NXIO) => end,
            // Not known: counts as data.
            Err(_) => from,
        };
        let hole = if data > from {
            data
        } else {
            match rustix::fs::seek(file, SeekFrom::Hole(from)) {
                Ok(hole) if hole > from => hole.min(end),
                _ => end,
            }
        };
        let state = if data > from { STATE_HOLE | STATE_ZERO } else { 0 };
        runs.push(((hole - from) as u32, state));
        from = hole;
    }
}
