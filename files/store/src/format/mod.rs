//! What stands on a group store, but for the files' own bytes. Structures are written down once, by [`layout!`]; from
//! that come the codec and docs/changing/group-store-format.md. It refuses to know when a page is written, and by whom.
//!
//! No bytes make it panic: what is wrong is a [`FormatError`].

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
pub use pages::{BODY_BYTES, CheckpointHeader, RecordPage, Role, Superblock};
pub use record::{Change, FileRecord, GroupRecord, RECORD_BYTES_MAX, SlotRecord, records};

pub(crate) use pages::pack;
pub(crate) use record::{file_bytes, group_bytes};

/// The bytes of one page.
pub type Page = [u8; PAGE_BYTES as usize];

/// How every page begins.
const MAGIC: [u8; 8] = *b"SEEKGRPS";
/// The version that this code writes, and the only one that it reads.
pub const VERSION: u16 = 1;
/// Magic, version, kind, checksum.
const FRAME_BYTES: usize = 16;
const CHECKSUM_AT: usize = 12;

/// Why bytes are not what belongs here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It does not begin as a page of a group store does.
    #[error("not a page of a group store: it begins with \"{}\", not \"SEEKGRPS\"", .found.escape_ascii())]
    Magic {
        /// How it begins.
        found: [u8; 8],
    },
    /// Its bytes are not those that were written.
    #[error(
        "a damaged page: it carries the checksum {found:#010x}, its bytes have {computed:#010x}"
    )]
    Checksum {
        /// In the page.
        found: u32,
        /// Of its bytes.
        computed: u32,
    },
    /// Whole, but of a version that this code does not know.
    #[error(
        "a page of version {found}; this seekless reads version {VERSION} alone: use the one that wrote it"
    )]
    Version {
        /// In the page.
        found: u16,
    },
    /// Whole, but another page than the one that belongs here.
    #[error("a page of kind {found} where one of kind {expected} belongs")]
    Kind {
        /// What belongs here.
        expected: u16,
        /// In the page.
        found: u16,
    },
    /// A value is none of its possible ones, or contradicts another's.
    #[error("{what}: found {found}, expected {expected}")]
    Value {
        /// Of which structure and field.
        what: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// A structure ends in its middle.
    #[error("{what} is cut off")]
    Short {
        /// Which.
        what: &'static str,
    },
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

/// What the frame holds, where it is whole and of this kind. Checksum first, version second: damage never passes for
/// a newer version.
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

/// CRC-32C of these, one behind the other.
pub(crate) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.into_iter().for_each(|part| sum.update(part));
    sum.finalize() as u32
}

/// A value that is not what it may be.
fn value(what: &'static str, found: impl Into<u64>, expected: &'static str) -> FormatError {
    FormatError::Value { what, found: found.into(), expected }
}
