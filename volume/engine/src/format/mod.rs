//! What stands on the area: every page that is not data, as a plain struct with `encode` and `decode`. Fields
//! are written down once, in [`page!`]; from that come the codec and docs/changing/on-disk-format.md. It refuses to
//! know when a page is written, and by whom.
//!
//! No bytes make it panic: what is wrong with a page is a [`FormatError`].

mod document;
mod field;
pub mod fuzzing;
mod geometry;
mod guard;
mod header;
mod pages;
mod read;
#[cfg(test)]
mod tests;
mod value;

use crc_fast::{CrcAlgorithm, Digest};
use seekless_block::PAGE_BYTES;

pub use crate::core::page_map::{HOME_PAGES_MAX, PageSum, State};
pub use document::document;
pub use geometry::{
    Contents, Geometry, GeometryError, LOG_SEGMENTS_MIN, SEGMENT_PAGES_DEFAULT, page_extent,
};
pub use guard::{GUARD_PAGES, GUARD_REGION_PAGES, GUARD_WORDS, GuardHeader, GuardPage, GuardState};
pub use header::{Content, Header, Tombstone};
pub use pages::{
    CheckpointHeader, CheckpointPage, ENTRIES_PER_PAGE, FreeMapPage, PLAN_PER_PAGE, PlanHeader,
    PlanPage, RUNS_PER_PAGE, Superblock,
};
pub use read::{Problem, SuperblockError, Superblocks, Which, read_superblock};
pub use value::{AreaFlags, AreaId, Entry, Label, Position, Run, RunKind};

/// The bytes of one page.
pub type Page = [u8; PAGE_BYTES as usize];

/// How every page that is not data begins.
const MAGIC: [u8; 8] = *b"SEEKLESS";
/// The version that this code writes, and the only one that it reads.
pub const VERSION: u16 = 2;
/// Where the magic ends and the version begins; then the kind, the checksum, the fields.
const VERSION_AT: usize = 8;
const KIND_AT: usize = 10;
const CHECKSUM_AT: usize = 12;
const FIELDS_AT: usize = 16;

/// Why bytes are not the page that belongs here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Not as many bytes as a page has.
    #[error("{found} bytes are no page, which has {PAGE_BYTES}")]
    Length {
        /// Bytes given.
        found: usize,
    },
    /// It does not begin as a page of seekless does.
    #[error("not a page of seekless: it begins with \"{}\", not \"SEEKLESS\"", .found.escape_ascii())]
    NotSeekless {
        /// How it begins.
        found: [u8; 8],
    },
    /// Its bytes are not those that were written.
    #[error(
        "a damaged page: it carries the checksum {found:#010x}, its bytes have {computed:#010x}"
    )]
    Checksum {
        /// The checksum in the page.
        found: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// Whole, but of a version that this code does not know.
    #[error(
        "a page of version {found} of the format; this seekless reads version {VERSION} alone: use the one that wrote it"
    )]
    Version {
        /// The version in the page.
        found: u16,
    },
    /// Whole, but another page than the one that belongs here.
    #[error("a page of kind {found} where one of kind {expected} ({page}) belongs")]
    Kind {
        /// What belongs here.
        page: &'static str,
        /// Its kind.
        expected: u16,
        /// The kind in the page.
        found: u16,
    },
    /// A field's value is none of its possible ones, or contradicts another's.
    #[error("the {page} says {field} = {found}; expected {expected}")]
    Field {
        /// Which page.
        page: &'static str,
        /// Which field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        expected: String,
    },
    /// Bytes that no field covers hold something.
    #[error("the {page} holds something at byte {at}, where version {VERSION} writes zero")]
    Reserved {
        /// Which page.
        page: &'static str,
        /// The first such byte.
        at: usize,
    },
}

/// Writes what every page begins with, once its fields are written. Returns the checksum.
fn seal(page: &mut Page, kind: u16) -> u32 {
    page[..VERSION_AT].copy_from_slice(&MAGIC);
    page[VERSION_AT..KIND_AT].copy_from_slice(&VERSION.to_le_bytes());
    page[KIND_AT..CHECKSUM_AT].copy_from_slice(&kind.to_le_bytes());
    let sum = computed(page);
    page[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Checks what every page begins with. Checksum first, version second: whatever comes after version 1 keeps
/// these bytes where they are, so that damage never passes for a newer version.
fn open<'a>(bytes: &'a [u8], name: &'static str, kind: u16) -> Result<&'a Page, FormatError> {
    let page: &Page = bytes.try_into().map_err(|_| FormatError::Length { found: bytes.len() })?;
    let magic = take(page, 0);
    if magic != MAGIC {
        return Err(FormatError::NotSeekless { found: magic });
    }
    let (found, computed) = (checksum(page), computed(page));
    if found != computed {
        return Err(FormatError::Checksum { found, computed });
    }
    let version = u16::from_le_bytes(take(page, VERSION_AT));
    if version != VERSION {
        return Err(FormatError::Version { found: version });
    }
    let found = u16::from_le_bytes(take(page, KIND_AT));
    if found != kind {
        return Err(FormatError::Kind { page: name, expected: kind, found });
    }
    Ok(page)
}

/// The checksum that a page carries: of a [`Header`] the next one repeats it as `previous`.
#[must_use]
pub fn checksum(page: &Page) -> u32 {
    u32::from_le_bytes(take(page, CHECKSUM_AT))
}

/// Of a page's bytes: the upper 48 bits of its XXH3-64 without seed or secret (xxHash specification, version 0.2.0).
///
/// No CRC: two pages that differ in a structure which ends with its own CRC have the same CRC of that polynomial, always, as
/// their difference is a multiple of it. File systems are full of such structures (CRC-32C ends ext4's superblock, and its
/// blocks of directories and extents), and an older version of one would be taken for the newest.
#[must_use]
pub fn page_sum(bytes: &[u8]) -> PageSum {
    twox_hash::XxHash3_64::oneshot(bytes) >> 16
}

/// CRC-32C of a page with its checksum taken as zero.
fn computed(page: &Page) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    [&page[..CHECKSUM_AT], &[0; 4][..], &page[FIELDS_AT..]]
        .iter()
        .for_each(|part| sum.update(part));
    sum.finalize() as u32
}

/// `N` bytes at a place known to lie within the page.
fn take<const N: usize>(page: &Page, at: usize) -> [u8; N] {
    std::array::from_fn(|i| page[at + i])
}
