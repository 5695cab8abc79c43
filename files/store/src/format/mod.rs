//! The format of a group store, without the contents of files. [`layout!`] defines each structure
//! once: the codec and docs/changing/group-store-format.md come from that definition. No bytes
//! cause a panic: an error is a [`FormatError`].

mod document;
pub(crate) mod field;
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
mod pages;
mod record;
#[cfg(test)]
mod tests;

use crc_fast::{CrcAlgorithm, Digest};
use seekless_block::PAGE_BYTES;

pub use document::document;
pub use geometry::{Geometry, GeometryError};
pub use pages::{CheckpointHeader, RecordPage, Role, Superblock};
pub use record::{Change, FileRecord, GroupRecord, SlotRecord, records};

pub(crate) use pages::{BODY_BYTES, pack};
pub(crate) use record::{RECORD_BYTES_MAX, file_bytes, group_bytes};

/// The bytes of one page.
pub type Page = [u8; PAGE_BYTES as usize];

/// The first bytes of every page.
const MAGIC: [u8; 8] = *b"SEEKGRPS";
/// The only version that this code writes and reads.
pub const VERSION: u16 = 1;
/// Magic, version, kind, checksum.
const FRAME_BYTES: usize = 16;
const CHECKSUM_AT: usize = 12;

/// Why bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FormatError {
    #[error("not a page of a group store: it begins with \"{}\", not \"SEEKGRPS\"", .found.escape_ascii())]
    Magic { found: [u8; 8] },
    #[error(
        "a damaged page: it carries the checksum {found:#010x}, its bytes have {computed:#010x}"
    )]
    Checksum { found: u32, computed: u32 },
    #[error(
        "a page of version {found}; this seekless reads only version {VERSION}: use the seekless that wrote it"
    )]
    Version { found: u16 },
    #[error("a page of kind {found} where one of kind {expected} belongs")]
    Kind { expected: u16, found: u16 },
    #[error("{what}: found {found}, expected {expected}")]
    Value { what: &'static str, found: u64, expected: &'static str },
    #[error("{what} is cut off")]
    Short { what: &'static str },
}

/// Puts a frame around fields; the rest of the page is zero.
fn seal(kind: u16, fields: &[u8]) -> Page {
    let mut page = [0; PAGE_BYTES as usize];
    page[..8].copy_from_slice(&MAGIC);
    page[8..10].copy_from_slice(&VERSION.to_le_bytes());
    page[10..CHECKSUM_AT].copy_from_slice(&kind.to_le_bytes());
    page[FRAME_BYTES..FRAME_BYTES + fields.len()].copy_from_slice(fields);
    let sum = computed(&page);
    page[CHECKSUM_AT..FRAME_BYTES].copy_from_slice(&sum.to_le_bytes());
    page
}

/// The fields in the frame of a page of this kind. The checksum is checked before the version, so
/// that damage does not look like a newer version.
fn open(page: &Page, kind: u16) -> Result<&[u8], FormatError> {
    let word = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    let magic = std::array::from_fn(|i| page[i]);
    if magic != MAGIC {
        return Err(FormatError::Magic { found: magic });
    }
    let found = u32::from_le_bytes(std::array::from_fn(|i| page[CHECKSUM_AT + i]));
    let computed = computed(page);
    if found != computed {
        return Err(FormatError::Checksum { found, computed });
    }
    if word(8) != VERSION {
        return Err(FormatError::Version { found: word(8) });
    }
    if word(10) != kind {
        return Err(FormatError::Kind { expected: kind, found: word(10) });
    }
    Ok(&page[FRAME_BYTES..])
}

/// CRC-32C of a page with its checksum taken as zero.
fn computed(page: &Page) -> u32 {
    crc32c([&page[..CHECKSUM_AT], &[0; 4][..], &page[FRAME_BYTES..]])
}

/// CRC-32C of these parts in order.
pub(crate) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.into_iter().for_each(|part| sum.update(part));
    sum.finalize() as u32
}

/// The error of an impossible value, unless the value is `possible`.
fn check(
    possible: bool,
    what: &'static str,
    found: impl Into<u64>,
    expected: &'static str,
) -> Result<(), FormatError> {
    if possible { Ok(()) } else { Err(value(what, found, expected)) }
}

fn value(what: &'static str, found: impl Into<u64>, expected: &'static str) -> FormatError {
    FormatError::Value { what, found: found.into(), expected }
}
