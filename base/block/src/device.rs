//! The device trait: the few operations that every storage backend has. Also a device in memory.

use std::collections::BTreeMap;

use crate::{Extent, Lba, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors};

/// The reason for a failed device operation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum DeviceError {
    #[error("extent {extent} ends after the end of the device, which has {capacity}")]
    OutOfRange { extent: Extent, capacity: Sectors },
    #[error("the buffer for extent {extent} has {found} bytes; expected {expected} bytes")]
    BufferLength { extent: Extent, expected: u64, found: u64 },
    #[error("{op} of {extent} failed")]
    Io { op: &'static str, extent: Extent, source: std::io::Error },
}

/// A block device: bytes at sector addresses, with synchronous calls. A completed write gives the
/// same guarantee as a disk with a volatile write cache: it is durable only after `flush`.
pub trait Device {
    /// Size in sectors.
    fn capacity(&self) -> Sectors;
    /// Reads `extent` into `buf`.
    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError>;
    /// Writes `buf` to `extent`.
    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError>;
    /// Makes all completed writes durable.
    fn flush(&mut self) -> Result<(), DeviceError>;
    /// Sets `extent` to zeroes: later reads return zeroes.
    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        self.write(extent, &vec![0; extent.bytes().0 as usize])
    }
    /// Drops the bytes that a cache in front of the medium has, except those that wait to be
    /// written: after a failed flush the medium may never get them. Later reads ask the medium.
    fn forget_cached(&mut self) {}

    /// Checks an extent and the length of its buffer.
    fn check(&self, extent: Extent, buf_len: usize) -> Result<(), DeviceError> {
        if extent.end().0 > self.capacity().0 {
            return Err(DeviceError::OutOfRange { extent, capacity: self.capacity() });
        }
        let expected = extent.bytes().0;
        if expected != buf_len as u64 {
            return Err(DeviceError::BufferLength { extent, expected, found: buf_len as u64 });
        }
        Ok(())
    }
}

/// A sparse device in memory. Pages that were never written read as zeroes.
#[derive(Clone, Debug, Default)]
pub struct MemDevice {
    capacity: Sectors,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES as usize]>>,
}

impl MemDevice {
    /// A device of `capacity` sectors, all zeroes.
    pub fn new(capacity: Sectors) -> Self {
        Self { capacity, pages: BTreeMap::new() }
    }

    /// Calls `f(page, offset in page, offset in buffer, bytes)` for each piece of the extent inside
    /// one page.
    fn pieces(extent: Extent, mut f: impl FnMut(u64, usize, usize, usize)) {
        let (mut at, end) = (extent.start.0, extent.end().0);
        let mut done = 0;
        while at < end {
            let page = at / PAGE_SECTORS;
            let stop = end.min((page + 1) * PAGE_SECTORS);
            let bytes = ((stop - at) * SECTOR_BYTES) as usize;
            f(page, (at % PAGE_SECTORS * SECTOR_BYTES) as usize, done, bytes);
            done += bytes;
            at = stop;
        }
    }
}

impl Device for MemDevice {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        Self::pieces(extent, |page, from, to, n| match self.pages.get(&page) {
            Some(p) => buf[to..to + n].copy_from_slice(&p[from..from + n]),
            None => buf[to..to + n].fill(0),
        });
        Ok(())
    }

    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(extent, buf.len())?;
        Self::pieces(extent, |page, to, from, n| {
            let p = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
            p[to..to + n].copy_from_slice(&buf[from..from + n]);
        });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        self.check(extent, extent.bytes().0 as usize)?;
        Self::pieces(extent, |page, from, _, n| {
            if n == PAGE_BYTES as usize {
                self.pages.remove(&page);
            } else if let Some(p) = self.pages.get_mut(&page) {
                p[from..from + n].fill(0);
            }
        });
        Ok(())
    }
}

impl MemDevice {
    /// The contents of one sector, for tests.
    pub fn sector(&self, lba: Lba) -> [u8; SECTOR_BYTES as usize] {
        let mut out = [0; SECTOR_BYTES as usize];
        if let Some(p) = self.pages.get(&(lba.0 / PAGE_SECTORS)) {
            let from = (lba.0 % PAGE_SECTORS * SECTOR_BYTES) as usize;
            out.copy_from_slice(&p[from..from + SECTOR_BYTES as usize]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sparse_device_agrees_with_a_flat_array(ops in prop::collection::vec((0u64..90, 0u64..30, 0u8..3, any::<u8>()), 1..60)) {
            let mut dev = MemDevice::new(Sectors(100));
            let mut flat = vec![0u8; 100 * 512];
            for (start, len, kind, byte) in ops {
                let e = Extent::new(start, len);
                let range = (start * 512) as usize..((start + len) * 512) as usize;
                if start + len > 100 {
                    let refused = matches!(dev.write_zeroes(e), Err(DeviceError::OutOfRange { .. }));
                    prop_assert!(refused);
                    continue;
                }
                match kind {
                    0 => {
                        dev.write(e, &vec![byte; range.len()]).unwrap();
                        flat[range].fill(byte);
                    }
                    1 => {
                        dev.write_zeroes(e).unwrap();
                        flat[range].fill(0);
                    }
                    _ => {
                        let mut got = vec![0xAA; range.len()];
                        dev.read(e, &mut got).unwrap();
                        prop_assert_eq!(&got[..], &flat[range]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_buffer_of_the_wrong_length_is_refused() {
        let mut dev = MemDevice::new(Sectors(8));
        assert!(matches!(
            dev.read(Extent::new(0, 2), &mut [0; 512]),
            Err(DeviceError::BufferLength { expected: 1024, found: 512, .. })
        ));
    }
}
