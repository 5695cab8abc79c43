//! Finding the superblock that counts.

use seekless_block::{Device, DeviceError, Lba, PAGE_BYTES};

use super::geometry::page_extent;
use super::value::AreaId;
use super::{FormatError, Superblock};

/// One of the two copies of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// In the area's first page.
    A,
    /// In its second.
    B,
}

/// What is wrong with one copy.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It could not be read.
    #[error("cannot be read ({0})")]
    Device(#[from] DeviceError),
    /// It was read and is no superblock.
    #[error("is no good: {0}")]
    Format(#[from] FormatError),
    /// It is good, and what the other one says came later.
    #[error("is of generation {found}, the other one of {newer}")]
    Older {
        /// Its generation.
        found: u64,
        /// The other one's.
        newer: u64,
    },
}

/// Why an area has no superblock.
#[derive(Debug, thiserror::Error)]
pub enum SuperblockError {
    /// Neither copy is good.
    #[error("no area of seekless at {at}: superblock A {a}; superblock B {b}")]
    Neither {
        /// Where the area should begin.
        at: Lba,
        /// What is wrong with copy A.
        a: Box<Problem>,
        /// What is wrong with copy B.
        b: Box<Problem>,
    },
    /// One copy is whole and of another version: the other one may be older than what it knows.
    #[error("the area at {at} is of another version: superblock {which:?} is {error}")]
    Version {
        /// Where the area begins.
        at: Lba,
        /// Which copy.
        which: Which,
        /// The version that was found.
        error: FormatError,
    },
    /// Both are good, and of two areas.
    #[error(
        "two areas claim the place at {at}: superblock A is of {a}, B of {b}; one of them was only half made"
    )]
    Strangers {
        /// Where the area should begin.
        at: Lba,
        /// Of which area copy A is.
        a: AreaId,
        /// Of which area copy B is.
        b: AreaId,
    },
}

/// The superblock that counts.
#[derive(Debug)]
pub struct Superblocks {
    /// The good copy, or the newer one.
    pub superblock: Superblock,
    /// Which copy it is.
    pub which: Which,
    /// What is wrong with the other copy. It must be made equal to this one, and flushed, before this one is
    /// written over: a crash in between would leave none, or one that is out of date.
    pub other: Option<Problem>,
}

/// Reads both copies of the superblock of an area that begins at sector `at`, and chooses: the one with the
/// higher generation, or the only good one.
///
/// # Errors
/// Where neither is good (with both reasons), where one is of a version that this code does not know, or
/// where they belong to two areas.
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
