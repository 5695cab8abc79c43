//! The device of a store whose power a test cuts: a volatile cache in front of a file. It counts
//! flushes.

use std::hash::{BuildHasher as _, BuildHasherDefault};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use rustc_hash::FxHasher;
use seekless_block::{Device, DeviceError, Extent, Lba, MemDevice, SECTOR_BYTES, Sectors};
use seekless_host::FileDevice;

use super::held;
use crate::underlying::UnderlyingDir;

/// Sectors of one copy between a file and memory.
const PIECE: u64 = 128;

#[derive(Debug, Default)]
pub(crate) struct DeviceLog {
    pub(super) flushes: u64,
    flushed: MemDevice,
    since: Vec<(Extent, Vec<u8>)>,
}

impl DeviceLog {
    pub(super) fn cut(&self, kept: u64) -> MemDevice {
        let mut image = self.flushed.clone();
        for (n, (extent, data)) in self.since.iter().enumerate() {
            for (i, sector) in data.chunks(SECTOR_BYTES as usize).enumerate() {
                let hash = BuildHasherDefault::<FxHasher>::default().hash_one((kept, n, i));
                if kept == 1 || (kept > 1 && hash >> 63 == 1) {
                    let at = Extent { start: Lba(extent.start.0 + i as u64), len: Sectors(1) };
                    image.write(at, sector).unwrap();
                }
            }
        }
        image
    }
}

fn pieces(of: Sectors) -> impl Iterator<Item = Extent> {
    (0..of.0)
        .step_by(PIECE as usize)
        .map(move |at| Extent { start: Lba(at), len: Sectors(PIECE.min(of.0 - at)) })
}

fn copy(from: &mut impl Device, to: &mut impl Device) {
    for piece in pieces(from.capacity()) {
        let mut data = vec![0; piece.bytes().0 as usize];
        from.read(piece, &mut data).unwrap();
        if data.iter().any(|b| *b != 0) {
            to.write(piece, &data).unwrap();
        }
    }
}

/// Makes a file from an image.
pub(super) fn restore(path: &Path, mut image: MemDevice) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(image.capacity().bytes().0).unwrap();
    drop(file);
    let opened = seekless_host::Opened::path(path, false).unwrap();
    copy(&mut image, &mut FileDevice::new(opened));
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CutDevice {
    file: FileDevice,
    /// Has the log of the steps.
    underlying: Arc<UnderlyingDir>,
}

impl CutDevice {
    pub(crate) fn new(mut file: FileDevice, underlying: Arc<UnderlyingDir>) -> Self {
        if underlying.steps.cuts_store.load(SeqCst) {
            let mut log = held(underlying.steps.store.lock());
            log.flushed = MemDevice::new(file.capacity());
            copy(&mut file, &mut log.flushed);
        }
        Self { file, underlying }
    }

    /// Whether the power is still there.
    fn step(&self) -> Result<(), DeviceError> {
        if self.underlying.steps.cuts_store.load(SeqCst) && self.underlying.steps.may().is_err() {
            let (op, extent) = ("a step after the power cut", Extent::default());
            return Err(DeviceError::Io { op, extent, source: std::io::ErrorKind::Other.into() });
        }
        Ok(())
    }
}

impl Device for CutDevice {
    fn capacity(&self) -> Sectors {
        self.file.capacity()
    }

    fn read(&mut self, extent: Extent, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.file.read(extent, buf)
    }

    fn write(&mut self, extent: Extent, buf: &[u8]) -> Result<(), DeviceError> {
        let on = self.step();
        // A part of the write during which the power is cut may be there.
        if self.underlying.steps.left.load(SeqCst) >= -1 {
            held(self.underlying.steps.store.lock()).since.push((extent, buf.to_vec()));
        }
        on?;
        self.file.write(extent, buf)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.step()?;
        let mut log = held(self.underlying.steps.store.lock());
        log.flushes += 1;
        let writes = std::mem::take(&mut log.since);
        if self.underlying.steps.cuts_store.load(SeqCst) {
            for (extent, data) in writes {
                log.flushed.write(extent, &data)?;
            }
        }
        drop(log);
        self.file.flush()
    }

    fn forget_cached(&mut self) {
        self.file.forget_cached();
    }
}
