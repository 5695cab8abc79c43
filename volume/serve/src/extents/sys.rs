//! A Linux call without a safe wrapper: exchange of blocks between two files (EXT4_IOC_MOVE_EXT).
//!
//! Layout and number are those of the kernel's `fs/ext4/ext4.h`. The structure has only integers of
//! fixed size, so any bytes from the kernel are valid values.

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Updater, ioctl, opcode};
pub(super) use seekless_host::sys::{FIEMAP_BATCH as BATCH, RawMap, fiemap};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawMove {
    reserved: u32,
    pub(super) donor: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) len: u64,
    pub(super) moved: u64,
}

impl RawMove {
    pub(super) fn new(donor: u32, from: u64, to: u64, len: u64) -> Self {
        Self { reserved: 0, donor, from, to, len, moved: 0 }
    }
}

const _: () = assert!(size_of::<RawMove>() == 40);

/// EXT4_IOC_MOVE_EXT: `_IOWR('f', 15, struct move_extent)`.
pub(super) fn move_extent(file: impl AsFd, exchange: &mut RawMove) -> io::Result<()> {
    const CALL: rustix::ioctl::Opcode = opcode::read_write::<RawMove>(b'f', 15);
    // SAFETY: the call reads and writes only `struct move_extent`, which `RawMove` is. The kernel
    // checks the donor's descriptor number.
    unsafe { ioctl(file, Updater::<CALL, RawMove>::new(exchange)) }?;
    Ok(())
}
