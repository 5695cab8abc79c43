//! A device in memory behind a rule of a test.

use super::*;

/// An area behind a rule. The rule sees each I/O before the area does, and may refuse it.
pub(super) struct Ruled<'a, F> {
    pub(super) area: &'a mut MemDevice,
    pub(super) rule: F,
}

impl<F: FnMut(Op, Extent) -> Result<(), DeviceError>> Device for Ruled<'_, F> {
    fn capacity(&self) -> Sectors {
        self.area.capacity()
    }

    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        (self.rule)(Op::Read, extent)?;
        self.area.read(extent, buf)
    }

    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        (self.rule)(Op::Write, extent)?;
        self.area.write(extent, buf)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        (self.rule)(Op::Flush, Extent::default())?;
        self.area.flush()
    }

    fn write_zeroes(&mut self, extent: Extent) -> Result<(), DeviceError> {
        (self.rule)(Op::WriteZeroes, extent)?;
        self.area.write_zeroes(extent)
    }
}

/// The area takes a number of changes and flushes, and fails all later ones.
pub(super) fn fails_after(mut left: u32) -> impl FnMut(Op, Extent) -> Result<(), DeviceError> {
    move |op, extent| {
        if op != Op::Read {
            left = left.checked_sub(1).ok_or_else(|| {
                let source = std::io::Error::other("the device failed");
                DeviceError::Io { op: "a change", extent, source }
            })?;
        }
        Ok(())
    }
}

/// These pages cannot be read until they are written.
pub(super) fn unreadable(mut pages: Vec<u64>) -> impl FnMut(Op, Extent) -> Result<(), DeviceError> {
    move |op, extent| {
        if op != Op::Read {
            pages.retain(|&page| !extent.contains(page_extent(page, 1)));
        } else if pages.iter().any(|&page| page_extent(page, 1).overlaps(extent)) {
            let source = std::io::Error::other("a medium error");
            return Err(DeviceError::Io { op: "read", extent, source });
        }
        Ok(())
    }
}
