//! The content of a disk that is checked. Every sector of a trace holds bytes that name the sector
//! and its version, so that every wrong byte is noticed.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use seekless_block::{Dice, Extent, SECTOR_BYTES};

const SECTOR: usize = SECTOR_BYTES as usize;

/// Sectors of a page.
const SECTORS: u64 = 8;

/// The expected content of a disk. Version 0 of a sector of the trace is a pattern; other sectors
/// are zero.
#[derive(Debug, Default)]
pub struct Content {
    /// By page, for each sector: one more than the number of writes; 0 outside the trace.
    versions: BTreeMap<u64, [u32; SECTORS as usize]>,
}

impl Content {
    fn change(&mut self, extent: Extent, change: impl Fn(&mut u32)) {
        for lba in extent.start.0..extent.end().0 {
            let page = self.versions.entry(lba / SECTORS).or_default();
            if let Some(version) = page.get_mut((lba % SECTORS) as usize) {
                change(version);
            }
        }
    }

    /// The trace uses this extent: the extent gets its first content.
    pub fn touch(&mut self, extent: Extent) {
        self.change(extent, |v| *v = (*v).max(1));
    }

    /// The extent is written: it gets its next version.
    pub fn write(&mut self, extent: Extent) {
        self.change(extent, |v| *v += 1);
    }

    /// The bytes the extent must hold now.
    pub fn bytes(&self, extent: Extent, buffer: &mut Vec<u8>) {
        buffer.clear();
        for lba in extent.start.0..extent.end().0 {
            let page = self.versions.get(&(lba / SECTORS));
            let version =
                page.and_then(|page| page.get((lba % SECTORS) as usize)).map_or(0, |v| *v);
            let start = buffer.len();
            buffer.resize(start + SECTOR, 0);
            if version > 0 {
                fill(lba, version, buffer.get_mut(start..).unwrap_or_default());
            }
        }
    }

    /// Writes the first content to the disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, file: &File) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        for &page in self.versions.keys() {
            self.bytes(Extent::new(page * SECTORS, SECTORS), &mut buffer);
            file.write_all_at(&buffer, page * SECTORS * SECTOR_BYTES)?;
        }
        Ok(())
    }
}

/// Numbers from a seed made of sector and version.
fn fill(lba: u64, version: u32, sector: &mut [u8]) {
    let mut dice = Dice::new((lba << 20) ^ u64::from(version));
    for word in sector.chunks_exact_mut(8) {
        word.copy_from_slice(&dice.draw().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_names_its_sector_and_its_version() {
        let mut content = Content::default();
        let mut a = Vec::new();
        let mut b = Vec::new();
        content.touch(Extent::new(10, 4));
        content.bytes(Extent::new(9, 2), &mut a);
        assert!(a[..512].iter().all(|&x| x == 0) && a[512..].iter().any(|&x| x != 0));
        content.bytes(Extent::new(11, 1), &mut b);
        assert_ne!(a[512..], b[..], "another sector");
        content.write(Extent::new(10, 1));
        content.bytes(Extent::new(10, 1), &mut b);
        assert_ne!(a[512..], b[..], "another version");
    }
}
