//! Linux calls without a safe wrapper: places of a file (FIEMAP), and exchange of blocks between
//! two files (EXT4_IOC_MOVE_EXT).
//!
//! Layouts and numbers are those of the kernel's `linux/fiemap.h` and `fs/ext4/ext4.h`. Each
//! structure has only integers of fixed size, so any bytes from the kernel are valid values.

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Updater, ioctl, opcode};

/// Extents per call.
pub(super) const BATCH: usize = 256;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawExtent {
    pub(super) logical: u64,
    pub(super) physical: u64,
    pub(super) length: u64,
    reserved64: [u64; 2],
    pub(super) flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawMap {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) flags: u32,
    pub(super) mapped: u32,
    pub(super) count: u32,
    reserved: u32,
    pub(super) extents: [RawExtent; BATCH],
}

impl RawMap {
    pub(super) fn new(start: u64, flags: u32) -> Box<Self> {
        Box::new(Self {
            start,
            length: u64::MAX - start,
            flags,
            mapped: 0,
            count: BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        })
    }
}

/// `struct move_extent`.
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

/// Length of `struct fiemap` without extents, for the number of the call.
const HEAD: usize = size_of::<RawMap>() - size_of::<[RawExtent; BATCH]>();
const _: () = assert!(HEAD == 32 && size_of::<RawExtent>() == 56 && size_of::<RawMove>() == 40);

/// FS_IOC_FIEMAP: `_IOWR('f', 11, struct fiemap)`.
pub(super) fn fiemap(file: impl AsFd, map: &mut RawMap) -> io::Result<()> {
    const CALL: rustix::ioctl::Opcode = opcode::read_write::<[u8; HEAD]>(b'f', 11);
    // SAFETY: the call reads and writes `struct fiemap` and at most `count` extents behind it.
    // `RawMap` has this layout and BATCH extents; `count` is limited to BATCH here.
    map.count = map.count.min(BATCH as u32);
    unsafe { ioctl(file, Updater::<CALL, RawMap>::new(map)) }?;
    Ok(())
}

/// EXT4_IOC_MOVE_EXT: `_IOWR('f', 15, struct move_extent)`.
pub(super) fn move_extent(file: impl AsFd, exchange: &mut RawMove) -> io::Result<()> {
    const CALL: rustix::ioctl::Opcode = opcode::read_write::<RawMove>(b'f', 15);
    // SAFETY: the call reads and writes only `struct move_extent`, which `RawMove` is. The kernel
    // checks the donor's descriptor number.
    unsafe { ioctl(file, Updater::<CALL, RawMove>::new(exchange)) }?;
    Ok(())
}
