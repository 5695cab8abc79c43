//! The on-disk format: every page of the area that is not data, as a plain struct with `encode` and
//! `decode`. The macro [`page!`] defines the fields once; codec and docs/changing/on-disk-format.md
//! come from this definition. Other modules decide when a page is written.
//!
//! No bytes make this module panic: every fault of a page is a [`FormatError`].

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

pub use crate::core::page_map::{CopyState, PageSum, UNSUMMED};
pub use document::document;
pub(crate) use geometry::LOG_SEGMENTS_MIN;
pub use geometry::{Contents, Geometry, GeometryError, SEGMENT_PAGES_DEFAULT, page_extent};
pub use guard::{GUARD_PAGES, GUARD_REGION_PAGES, GUARD_WORDS, GuardHeader, GuardPage, GuardState};
pub use header::{Content, Header, Tombstone};
pub(crate) use pages::LEARNED_PER_PAGE;
pub use pages::{
    CheckpointHeader, CheckpointPage, FreeMapPage, LearnedPage, PlanHeader, PlanPage, Superblock,
};
pub(crate) use pages::{ENTRIES_PER_PAGE, PLAN_PER_PAGE, RECORDED_MAX, RUNS_PER_PAGE};
pub use read::{Problem, SuperblockError, Superblocks, find_superblock, read_superblock};
pub use value::{AreaFlags, AreaId, Entry, Label, Position, Run, RunKind};

/// The bytes of one page.
pub type Page = [u8; PAGE_BYTES as usize];

/// The first bytes of every page that is not data.
const MAGIC: [u8; 8] = *b"SEEKLESS";
/// The version that this code writes.
pub const VERSION: u16 = 4;
/// The oldest version that it reads. An attach writes what it found as [`VERSION`].
pub const OLDEST: u16 = 2;
/// The magic ends and the version begins here; then the kind, the checksum, the fields.
const VERSION_AT: usize = 8;
const KIND_AT: usize = 10;
const CHECKSUM_AT: usize = 12;
const FIELDS_AT: usize = 16;

/// Why bytes are not the expected page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FormatError {
    #[error("{found} bytes are no page: a page has {PAGE_BYTES}")]
    Length { found: usize },
    #[error("not a page of seekless: it begins with \"{}\", not \"SEEKLESS\"", .found.escape_ascii())]
    NotSeekless { found: [u8; 8] },
    #[error(
        "a damaged page: it carries the checksum {found:#010x}, its bytes have {computed:#010x}"
    )]
    Checksum { found: u32, computed: u32 },
    #[error(
        "a page of version {found} of the format; this seekless reads versions {OLDEST} to {VERSION}: use the seekless that wrote it"
    )]
    Version { found: u16 },
    #[error("a page of kind {found} where one of kind {expected} ({page}) belongs")]
    Kind { page: &'static str, expected: u16, found: u16 },
    #[error("the {page} says {field} = {found}; expected {expected}")]
    Field { page: &'static str, field: &'static str, found: String, expected: String },
    #[error("the {page} has a non-zero byte {at}, where version {VERSION} writes zero")]
    Reserved { page: &'static str, at: usize },
}

/// Writes the frame of a page once its fields are written. Returns the checksum.
fn seal(page: &mut Page, kind: u16) -> u32 {
    seal_as(VERSION, page, kind)
}

/// The same in a version that this code does not write any more, but compares with.
fn seal_as(version: u16, page: &mut Page, kind: u16) -> u32 {
    page[..VERSION_AT].copy_from_slice(&MAGIC);
    page[VERSION_AT..KIND_AT].copy_from_slice(&version.to_le_bytes());
    page[KIND_AT..CHECKSUM_AT].copy_from_slice(&kind.to_le_bytes());
    let sum = computed(page);
    page[CHECKSUM_AT..FIELDS_AT].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Checks the frame of a page: checksum first, version second. Later versions keep these bytes in
/// place, so damage never passes for a newer version.
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
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(FormatError::Version { found: version });
    }
    let found = u16::from_le_bytes(take(page, KIND_AT));
    if found != kind {
        return Err(FormatError::Kind { page: name, expected: kind, found });
    }
    Ok(page)
}

/// The checksum in a page. The next [`Header`] repeats it as `previous`.
pub fn checksum(page: &Page) -> u32 {
    u32::from_le_bytes(take(page, CHECKSUM_AT))
}

/// The sum of a page's bytes: the upper 48 bits of its XXH3-64 without seed or secret (xxHash
/// specification, version 0.2.0).
///
/// A CRC would not do. Many structures of file systems end with their own CRC (ext4's superblock,
/// directories and extents with CRC-32C). Two versions of such a structure differ by a multiple of
/// the polynomial, so a CRC of that polynomial is always the same for both. An older version would
/// pass for the newest.
pub fn page_sum(bytes: &[u8]) -> PageSum {
    twox_hash::XxHash3_64::oneshot(bytes) >> 16
}

/// The CRC-32C of a page, with zero in the place of its checksum.
fn computed(page: &Page) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    [&page[..CHECKSUM_AT], &[0; 4][..], &page[FIELDS_AT..]]
        .iter()
        .for_each(|part| sum.update(part));
    sum.finalize() as u32
}

/// `N` bytes at a position within the page.
fn take<const N: usize>(page: &Page, at: usize) -> [u8; N] {
    std::array::from_fn(|i| page[at + i])
}
