//! Finding the valid superblock.

use seekless_block::{Device, DeviceError, Lba, PAGE_BYTES};

use super::geometry::page_extent;
use super::value::AreaId;
use super::{FormatError, Superblock};

/// One of the two copies of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// In the area's first page.
    A,
    /// In the area's second page.
    B,
}

/// The fault of one copy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error("cannot be read ({0})")]
    Device(#[from] DeviceError),
    #[error("is no good: {0}")]
    Format(#[from] FormatError),
    #[error("is of generation {found}, the other one of {newer}")]
    Older { found: u64, newer: u64 },
}

/// Why an area has no superblock.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SuperblockError {
    #[error("no area of seekless at {at}: superblock A {a}; superblock B {b}")]
    Neither { at: Lba, a: Box<Problem>, b: Box<Problem> },
    #[error("the area at {at} is of another version: superblock {which:?} is {error}")]
    Version { at: Lba, which: Which, error: FormatError },
    #[error(
        "two areas are at {at}: superblock A belongs to {a}, B to {b}; one of the areas was only half made"
    )]
    Strangers { at: Lba, a: AreaId, b: AreaId },
}

/// The valid superblock.
#[derive(Debug)]
pub struct Superblocks {
    /// The only valid copy, or the newer one.
    pub superblock: Superblock,
    /// Which copy.
    pub which: Which,
    /// The fault of the other copy. The driver must repair and flush the other copy before it
    /// overwrites this one: else a crash could leave no superblock, or only an old one.
    pub other: Option<Problem>,
}

/// Reads both copies of the superblock of an area that begins at sector `at`, and chooses the one
/// with the higher generation, or the only valid one.
///
/// # Errors
/// If neither is valid (with both reasons), if one has a version that this code does not know, or
/// if they belong to two areas.
pub fn read_superblock(device: &mut dyn Device, at: Lba) -> Result<Superblocks, SuperblockError> {
    let mut copy = |which: Which| -> Result<Superblock, Problem> {
        let mut page = [0; PAGE_BYTES as usize];
        let mut extent = page_extent(which as u64, 1);
        extent.start.0 = extent.start.0.saturating_add(at.0);
        device.read(extent, &mut page)?;
        Ok(Superblock::decode(&page)?)
    };
    let (a, b) = (copy(Which::A), copy(Which::B));
    for (which, read) in [(Which::A, &a), (Which::B, &b)] {
        if let Err(Problem::Format(error @ FormatError::Version { .. })) = read {
            return Err(SuperblockError::Version { at, which, error: error.clone() });
        }
    }
    match (a, b) {
        (Ok(a), Ok(b)) if a.uuid != b.uuid => {
            Err(SuperblockError::Strangers { at, a: a.uuid, b: b.uuid })
        }
        (Ok(a), Ok(b)) => {
            let older =
                |found: u64, newer: u64| (found < newer).then_some(Problem::Older { found, newer });
            Ok(if a.generation >= b.generation {
                let other = older(b.generation, a.generation);
                Superblocks { superblock: a, which: Which::A, other }
            } else {
                let other = older(a.generation, b.generation);
                Superblocks { superblock: b, which: Which::B, other }
            })
        }
        (Ok(a), Err(b)) => Ok(Superblocks { superblock: a, which: Which::A, other: Some(b) }),
        (Err(a), Ok(b)) => Ok(Superblocks { superblock: b, which: Which::B, other: Some(a) }),
        (Err(a), Err(b)) => Err(SuperblockError::Neither { at, a: a.into(), b: b.into() }),
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Extent, MemDevice, Sectors};

    use super::*;
    use crate::format::tests::superblock;
    use crate::format::{CHECKSUM_AT, FIELDS_AT, VERSION_AT, computed};

    fn device(at: u64, a: Option<&Superblock>, b: Option<&Superblock>) -> MemDevice {
        let mut device = MemDevice::new(Sectors(4096));
        for (i, copy) in [a, b].into_iter().enumerate() {
            if let Some(superblock) = copy {
                let mut page = [0; 4096];
                superblock.encode(&mut page);
                device.write(Extent::new(at + 8 * i as u64, 8), &page).unwrap();
            }
        }
        device
    }

    #[test]
    fn the_newer_good_superblock_counts() {
        let old = superblock();
        let new = Superblock { generation: 78, tail: 6, ..superblock() };
        for at in [0, 1003] {
            let read = |a, b| read_superblock(&mut device(at, a, b), Lba(at)).unwrap();
            let found = read(Some(&new), Some(&new));
            assert!(found.other.is_none() && found.which == Which::A && found.superblock == new);
            let found = read(Some(&new), Some(&old));
            assert!(found.which == Which::A && found.superblock == new);
            assert_eq!(
                found.other.unwrap().to_string(),
                "is of generation 77, the other one of 78"
            );
            let found = read(Some(&old), Some(&new));
            assert!(found.which == Which::B && found.superblock == new);
            assert!(matches!(found.other, Some(Problem::Older { found: 77, newer: 78 })));
            let found = read(Some(&old), None);
            assert!(found.which == Which::A && found.superblock == old);
            assert!(matches!(found.other, Some(Problem::Format(FormatError::NotSeekless { .. }))));
            let found = read(None, Some(&old));
            assert!(found.which == Which::B && found.superblock == old && found.other.is_some());
        }
    }

    #[test]
    fn an_area_without_a_good_superblock_is_refused_with_both_reasons() {
        let mut torn = device(0, Some(&superblock()), None);
        torn.write(Extent::new(1, 1), &[1; 512]).unwrap();
        let said = read_superblock(&mut torn, Lba(0)).unwrap_err().to_string();
        assert!(
            said.starts_with(
                "no area of seekless at sector 0: superblock A is no good: a damaged page"
            ),
            "{said}"
        );
        assert!(said.contains("; superblock B is no good: not a page of seekless"), "{said}");

        // Both places past the end, then only that of B.
        for at in [u64::MAX - 3, 4096] {
            let said =
                read_superblock(&mut device(0, None, None), Lba(at)).unwrap_err().to_string();
            assert!(said.contains("superblock B cannot be read"), "{said}");
        }
        let mut short = device(4088, Some(&superblock()), None);
        let found = read_superblock(&mut short, Lba(4088)).unwrap();
        assert!(matches!(found.other, Some(Problem::Device(DeviceError::OutOfRange { .. }))));
    }

    #[test]
    fn a_newer_version_or_a_stranger_in_one_copy_is_refused() {
        let mut page = [0; 4096];
        superblock().encode(&mut page);
        page[VERSION_AT] = 3;
        let sum = computed(&page);
        page[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
        for (copy, name) in [(0, "superblock A"), (1, "superblock B")] {
            let mut device = device(0, Some(&superblock()), Some(&superblock()));
            device.write(Extent::new(copy * 8, 8), &page).unwrap();
            let said = read_superblock(&mut device, Lba(0)).unwrap_err().to_string();
            assert!(said.contains("another version") && said.contains(name), "{said}");
            // A damaged page with a newer version is only damaged.
            device.write(Extent::new(copy * 8 + 7, 1), &[1; 512]).unwrap();
            assert_eq!(read_superblock(&mut device, Lba(0)).unwrap().superblock, superblock());
        }
        let stranger = Superblock { uuid: AreaId([9; 16]), generation: 500, ..superblock() };
        let mut two = device(0, Some(&superblock()), Some(&stranger));
        assert!(matches!(
            read_superblock(&mut two, Lba(0)),
            Err(SuperblockError::Strangers { b, .. }) if b == stranger.uuid
        ));
    }
}
