//! The map of a read segment, and the header of a record of the log: one page describes the pages
//! behind it.

use super::FormatError;
use super::field::{Field, page};
use super::pages::COUNT_MAX;
use super::value::{AreaId, Entry, Position, Run};
use crate::core::page_map::{CopyState, HOME_PAGES_MAX};

page! {
    /// The first page of a read segment, its map; or the first page of a record in the log.
    ///
    /// A record's header ends in the first half of its page. The second half repeats the first, so
    /// that one damaged sector loses no record; for the checksum, the second half counts as zeroes.
    /// Version 2 wrote a header once.
    ///
    /// A record is the next of the log if it stands at its own position, carries the next sequence
    /// number, and repeats the checksum of the header before it.
    Header "header of a segment or record" = 6, readable;
    /// The area's id.
    16 uuid: AreaId,
    /// Number of the record: one more than that of the record before. 0 in the map of a read
    /// segment.
    32 sequence: u64 where 0..=COUNT_MAX,
    /// The highest sequence number known to be on stable storage when this page was written. In the
    /// map of a segment of replicas: the home page in which the first of them stands.
    40 durable: u64 where 0..=COUNT_MAX,
    /// The plan in force; 0 for none.
    48 plan_generation: u64 where 0..=COUNT_MAX,
    /// The position of this page.
    56 position: Position,
    /// Checksum of the header before; 0 in the map of a read segment.
    64 previous: u32,
    /// The segment with the oldest record that still matters.
    68 tail: u32,
    /// The kind of record, the number of its items, and the items.
    72 content: Content,
}

/// A range of home pages whose earlier entries in the log are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tombstone {
    /// First home page.
    pub first: u64,
    /// The number of pages.
    pub pages: u32,
}

impl Field for Tombstone {
    const BYTES: usize = 12;
    const FORMAT: &'static str = "u64 first home page, u32 number of pages";
    fn put(&self, out: &mut [u8]) {
        self.first.put(&mut out[..8]);
        self.pages.put(&mut out[8..]);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        let read = Self { first: u64::get(&bytes[..8])?, pages: u32::get(&bytes[8..])? };
        match read.first.checked_add(u64::from(read.pages)) {
            Some(end) if end <= HOME_PAGES_MAX => Ok(read),
            _ => Err("home pages below 2^38"),
        }
    }
}

/// A kind of record as the document shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) code: u16,
    pub(super) name: &'static str,
    pub(super) item: &'static str,
    pub(super) most: usize,
    pub(super) about: &'static [&'static str],
}

/// Bytes from the kind of the content to the end of the page. Kind and count take the first of
/// them.
const CONTENT_BYTES: usize = seekless_block::PAGE_BYTES as usize - 72;
const ITEM_BYTES: usize = CONTENT_BYTES - 4;
/// Half a page, in which the header of a record ends.
const HALF: usize = seekless_block::PAGE_BYTES as usize / 2;
const HALF_ITEM_BYTES: usize = HALF - 76;

macro_rules! contents {
    ($($(#[doc = $about:literal])+ $code:literal $name:ident($item:ty),)+) => {
        /// The content of a header.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Content {
            $($(#[doc = $about])+ $name(Vec<$item>),)+
        }

        impl Content {
            pub(super) const KINDS: &'static [Kind] = &[$(
                Kind {
                    code: $code,
                    name: stringify!($name),
                    item: <$item as Field>::FORMAT,
                    most: Self::most($code, <$item as Field>::BYTES),
                    about: &[$($about),+],
                },
            )+];

            /// How many items of this kind a header may have.
            pub(crate) const fn items_max(&self) -> usize {
                match self {
                    $(Self::$name(_) => Self::most($code, <$item as Field>::BYTES),)+
                }
            }

            /// How many of them a page has space for. Version 2 used all of it.
            const fn room(&self) -> usize {
                match self {
                    $(Self::$name(_) => ITEM_BYTES / <$item as Field>::BYTES,)+
                }
            }

            /// The number of items.
            pub const fn len(&self) -> usize {
                match self {
                    $(Self::$name(items) => items.len(),)+
                }
            }
        }

        impl Field for Content {
            const BYTES: usize = CONTENT_BYTES;
            const FORMAT: &'static str = "u16 kind of record, u16 count, items";
            fn put(&self, out: &mut [u8]) {
                match self {
                    $(Self::$name(items) => {
                        let code: u16 = $code;
                        code.put(&mut out[..2]);
                        (items.len() as u16).put(&mut out[2..4]);
                        let places = out[4..].chunks_exact_mut(<$item as Field>::BYTES);
                        items.iter().zip(places).for_each(|(item, out)| item.put(out));
                    })+
                }
            }
            fn get(bytes: &[u8]) -> Result<Self, &'static str> {
                let (code, count) = (u16::get(&bytes[..2])?, u16::get(&bytes[2..4])?);
                let content = match code {
                    $($code => Self::$name(items(&bytes[4..], count)?),)+
                    _ => return Err("a known kind of record"),
                };
                content.check()?;
                Ok(content)
            }
        }
    };
}

contents! {
    /// The map of a read segment: item `i` describes the `i`-th data page behind it. None is dirty.
    1 ReadMap(Entry),
    /// As many pages of data follow, each with its item. None is free. A record without items is a
    /// mark that only tells how far the log is `durable`.
    2 Data(Entry),
    /// Earlier entries of these pages in the log are void: home is newer.
    3 Tombstones(Tombstone),
    /// These read segments are about to be overwritten: their copies are void.
    4 Invalid(u32),
    /// These read segments were written again: their maps are valid again.
    5 Committed(u32),
    /// The new state of these home pages, in order.
    6 FreeMap(Run),
    /// These copies in read segments may be written in place from now on: after a crash they are
    /// newer than home, or equal. None of them has a sum: its slot stands in the place of the sum.
    7 Opened(Entry),
}

impl Header {
    /// Writes the header of a record: twice, once in each half of the page. Returns the checksum.
    ///
    /// # Panics
    /// As [`Self::encode`].
    pub fn put(&self, page: &mut super::Page) -> u32 {
        let sum = self.encode(page);
        let (first, second) = page.split_at_mut(HALF);
        let is_map = matches!(self.content, Content::ReadMap(_));
        if !is_map && second.iter().all(|&byte| byte == 0) {
            second.copy_from_slice(first);
        }
        sum
    }

    /// The headers that a page holds, each with its checksum: one if the page is whole. Of a damaged
    /// page, those in its halves.
    pub fn all_in(bytes: &[u8]) -> Vec<(Self, u32)> {
        let one = |bytes: &[u8]| {
            let header = Self::decode(bytes).ok()?;
            Some((header, super::checksum(bytes.try_into().ok()?)))
        };
        if let Some(whole) = one(bytes) {
            return vec![whole];
        }
        let in_half = |half: &[u8]| {
            if !half.starts_with(&super::MAGIC) {
                return None;
            }
            let mut page = [0; seekless_block::PAGE_BYTES as usize];
            page.get_mut(..half.len())?.copy_from_slice(half);
            one(&page).filter(|(header, _)| !matches!(header.content, Content::ReadMap(_)))
        };
        let mut found: Vec<_> = bytes.chunks_exact(HALF).filter_map(in_half).collect();
        found.dedup();
        found
    }
}

impl Content {
    /// The items in records of as many as one header may have.
    pub(crate) fn pieces<T: Clone>(
        items: &[T],
        of: fn(Vec<T>) -> Self,
    ) -> impl Iterator<Item = Self> {
        items.chunks(of(Vec::new()).items_max()).map(move |some| of(some.to_vec()))
    }

    /// Of a map, as many as a page has space for; of a record, as half a page has space for.
    const fn most(code: u16, bytes: usize) -> usize {
        (if code == 1 { ITEM_BYTES } else { HALF_ITEM_BYTES }) / bytes
    }

    /// Whether there is no item.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::ReadMap(entries) if entries.iter().any(|e| e.state == CopyState::Dirty) => {
                Err("no dirty copy in a read segment")
            }
            Self::Data(entries) if entries.iter().any(|e| e.state == CopyState::Free) => {
                Err("no free slot in a record of data")
            }
            Self::Opened(entries) if entries.iter().any(|e| e.state != CopyState::Dirty) => {
                Err("dirty copies alone in a record of opened copies")
            }
            _ => Ok(()),
        }
    }
}

fn items<T: Field>(bytes: &[u8], count: u16) -> Result<Vec<T>, &'static str> {
    let count = usize::from(count);
    if count > bytes.len() / T::BYTES {
        return Err("no more items than the page has space for");
    }
    let mut items = Vec::with_capacity(count);
    for item in bytes.chunks_exact(T::BYTES).take(count) {
        items.push(T::get(item)?);
    }
    Ok(items)
}

/// Refuses a header that could not be read.
fn readable(header: &Header) -> Result<(), FormatError> {
    let content = &header.content;
    let wrong = |expected: String| FormatError::Field {
        page: Header::LAYOUT.name,
        field: "content",
        found: format!("{} items", content.len()),
        expected,
    };
    if content.len() > content.room() {
        return Err(wrong(format!("{} at most", content.room())));
    }
    content.check().map_err(|expected| wrong(expected.to_owned()))
}
