//! Places of files on their device, and moves of file blocks: calls for `seekless-lab cluster`.

#[allow(unsafe_code)]
mod sys;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// A run of a file's bytes, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First byte within the file.
    pub logical: u64,
    /// First byte on the device of the file system.
    pub physical: u64,
    /// Bytes.
    pub len: u64,
    /// Allocated but not written: reads as zeroes.
    pub unwritten: bool,
    /// Without a known place of its own: inline data, a packed tail, not allocated yet, encoded or
    /// shared.
    pub odd: bool,
}

/// FIEMAP_FLAG_SYNC: write pending data first.
const SYNC: u32 = 1;
const LAST: u32 = 0x1;
const UNWRITTEN: u32 = 0x800;
/// UNKNOWN, DELALLOC, ENCODED, DATA_ENCRYPTED, NOT_ALIGNED, DATA_INLINE, DATA_TAIL, SHARED.
const ODD: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x2000;

/// The runs of a file in order; holes are left out. `sync` writes pending data first.
///
/// # Errors
/// The kernel's error; some file systems do not tell.
pub fn map(file: &File, sync: bool) -> io::Result<Vec<Run>> {
    let mut runs = Vec::new();
    let mut at = 0;
    loop {
        let mut raw = sys::RawMap::new(at, if sync { SYNC } else { 0 });
        sys::fiemap(file, &mut raw)?;
        let got = &raw.extents[..(raw.mapped as usize).min(sys::BATCH)];
        let mut ended = got.is_empty();
        for e in got {
            runs.push(Run {
                logical: e.logical,
                physical: e.physical,
                len: e.length,
                unwritten: e.flags & UNWRITTEN != 0,
                odd: e.flags & ODD != 0,
            });
            ended |= e.flags & LAST != 0;
            let next = e.logical.saturating_add(e.length);
            // Guards against a file system that goes backwards.
            ended |= next <= at && e.length == 0;
            at = at.max(next);
        }
        if ended {
            return Ok(runs);
        }
    }
}

/// Exchanges `len` blocks of `file` from block `from` on with those of `donor` from block `to` on.
/// The contents of the file stay. ext4 exchanges page by page, each in its own transaction: after
/// an interruption every byte of the file is unchanged. Returns the number of exchanged blocks,
/// which may be smaller.
///
/// # Errors
/// The kernel's error; it refuses unsafe files.
pub fn exchange(file: &File, donor: &File, from: u64, to: u64, len: u64) -> io::Result<u64> {
    let mut raw = sys::RawMove::new(donor.as_raw_fd() as u32, from, to, len);
    match sys::move_extent(file, &mut raw) {
        Ok(()) => Ok(raw.moved),
        // Some were exchanged: the caller asks for the rest, and gets the error then.
        Err(_) if raw.moved > 0 => Ok(raw.moved),
        Err(error) => Err(error),
    }
}

/// True if nobody has the file open for writing; `file` must be open only for reading.
///
/// # Errors
/// The file system has no leases, or the file belongs to another user.
pub fn nobody_writes(file: &File) -> io::Result<bool> {
    match seekless_host::sys::lease(file, seekless_host::sys::Others::Writing) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
