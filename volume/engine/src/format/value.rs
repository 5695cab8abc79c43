//! The values of fields: numbers, names, entries. This module knows no page.

use std::fmt;

use bitflags::bitflags;
use seekless_block::{Lba, Sectors};

use super::PageSum;
use super::field::Field;
use crate::api::Mode;
use crate::core::page_map::{CopyState, HOME_PAGES_MAX};

macro_rules! number {
    ($($type:ty),+) => {
        $(impl Field for $type {
            const BYTES: usize = size_of::<Self>();
            const FORMAT: &'static str = stringify!($type);
            fn put(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Result<Self, &'static str> {
                bytes.try_into().map(Self::from_le_bytes).map_err(|_| "another length")
            }
            fn number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }
        })+
    };
}

number!(u8, u16, u32, u64);

macro_rules! wrapped {
    ($($type:ident $format:literal),+) => {
        $(impl Field for $type {
            const BYTES: usize = 8;
            const FORMAT: &'static str = $format;
            fn put(&self, out: &mut [u8]) {
                self.0.put(out);
            }
            fn get(bytes: &[u8]) -> Result<Self, &'static str> {
                u64::get(bytes).map(Self)
            }
            fn number(&self) -> Option<u64> {
                Some(self.0)
            }
        })+
    };
}

wrapped!(Sectors "u64, sectors", Lba "u64, sector");

impl Field for bool {
    const BYTES: usize = 1;
    const FORMAT: &'static str = "u8, 0 or 1";
    fn put(&self, out: &mut [u8]) {
        u8::from(*self).put(out);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err("0 or 1"),
        }
    }
}

/// `N` values in a row; bytes are one value.
impl<T: Field, const N: usize> Field for [T; N] {
    const BYTES: usize = N * T::BYTES;
    const FORMAT: &'static str = T::FORMAT;
    const COUNT: usize = N;
    fn put(&self, out: &mut [u8]) {
        for (value, out) in self.iter().zip(out.chunks_exact_mut(T::BYTES)) {
            value.put(out);
        }
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut values = Vec::with_capacity(N);
        for value in bytes.chunks_exact(T::BYTES) {
            values.push(T::get(value)?);
        }
        values.try_into().map_err(|_| "another length")
    }
}

/// The wanted home page of a slot, or none.
impl Field for Option<u64> {
    const BYTES: usize = 6;
    const FORMAT: &'static str = "u48, home page + 1, or 0";
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.map_or(0, |home| home + 1).to_le_bytes()[..6]);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut word = [0; 8];
        word[..6].copy_from_slice(bytes);
        let home = u64::from_le_bytes(word).checked_sub(1);
        if home.is_some_and(|h| h >= HOME_PAGES_MAX) {
            return Err("a home page below 2^38, plus 1, or 0");
        }
        Ok(home)
    }
}

/// The id of an area: 16 random bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaId(pub [u8; 16]);

impl fmt::Display for AreaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl Field for AreaId {
    const BYTES: usize = 16;
    const FORMAT: &'static str = "16 bytes";
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        bytes.try_into().map(Self).map_err(|_| "another length")
    }
}

/// A name of up to 64 bytes of UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label([u8; 64]);

impl Label {
    /// Cuts a name to the whole characters that fit, and at the first NUL.
    pub fn new(name: &str) -> Self {
        let name = name.split('\0').next().unwrap_or_default();
        let mut label = [0; 64];
        let end = (0..=name.len().min(label.len())).rev().find(|&i| name.is_char_boundary(i));
        let end = end.unwrap_or(0);
        label[..end].copy_from_slice(&name.as_bytes()[..end]);
        Self(label)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        // Checked at construction.
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Field for Label {
    const BYTES: usize = 64;
    const FORMAT: &'static str = "UTF-8, filled up with zeroes";
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        let expected = "UTF-8 filled up with zeroes";
        let label = std::str::from_utf8(bytes).map_err(|_| expected)?.trim_end_matches('\0');
        if label.contains('\0') { Err(expected) } else { Ok(Self::new(label)) }
    }
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Segment, counted from the first read segment.
    pub segment: u32,
    /// Page within it; the number of pages in a segment if the segment is full.
    pub page: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of segment {}", self.page, self.segment)
    }
}

impl Field for Position {
    const BYTES: usize = 8;
    const FORMAT: &'static str = "u32 segment, u32 page in it";
    fn put(&self, out: &mut [u8]) {
        [self.segment, self.page].put(out);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        <[u32; 2]>::get(bytes).map(|[segment, page]| Self { segment, page })
    }
}

impl Field for Mode {
    const BYTES: usize = 1;
    const FORMAT: &'static str = "u8, 0 write-through or 1 write-back";
    fn put(&self, out: &mut [u8]) {
        u8::from(*self == Self::WriteBack).put(out);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        match bytes {
            [0] => Ok(Self::WriteThrough),
            [1] => Ok(Self::WriteBack),
            _ => Err("0 (write-through) or 1 (write-back)"),
        }
    }
}

bitflags! {
    /// Properties of an area that a reader must know first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AreaFlags: u8 {
        /// None.
        const NONE = 0;
        /// BORG_REQUIRE: the log may hold the only copy of some data.
        const DIRTY = 1;
        /// Detached in order: the checkpoint's account of copies is valid.
        const CLEAN = 2;
        /// Read segments may hold the only copy of some data.
        const IN_PLACE = 4;
    }
}

impl AreaFlags {
    /// Every flag, with its name and meaning for the document.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::DIRTY, "DIRTY", "the log may hold the only copy of some data (BORG_REQUIRE)"),
        (Self::CLEAN, "CLEAN", "detached in order: the checkpoint's account of copies is valid"),
        (Self::IN_PLACE, "IN_PLACE", "read segments may hold the only copy of some data"),
    ];
}

impl Field for AreaFlags {
    const BYTES: usize = 1;
    const FORMAT: &'static str = "u8, sum of flags";
    fn put(&self, out: &mut [u8]) {
        self.bits().put(out);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::from_bits(u8::get(bytes)?).ok_or("known flags alone")
    }
}

/// The state of a slot, as in the map in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Home page; 0 if the slot is free.
    pub home: u64,
    /// The state of the copy.
    pub state: CopyState,
    /// The sum of the page's bytes; 0 if the slot is free.
    pub sum: PageSum,
}

impl Entry {
    /// The entry of a free slot.
    pub const FREE: Self = Self { home: 0, state: CopyState::Free, sum: 0 };
}

/// The state of a range of home pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RunKind {
    /// The client's: home holds its bytes.
    #[default]
    Used = 0,
    /// Discarded and not written since: zeroes, whatever home holds. No replica was ever written
    /// there.
    Free = 1,
    /// Free, and may hold bytes of replicas: counts as free until a `Used` overrides it.
    Stained = 2,
    /// The client is writing here: pages in state `Free` count as used.
    Open = 3,
}

impl RunKind {
    /// Every kind, in the order of its two bits.
    pub const ALL: [Self; 4] = [Self::Used, Self::Free, Self::Stained, Self::Open];
}

/// A range of home pages and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Run {
    /// First home page.
    pub first: u64,
    /// The number of pages.
    pub pages: u32,
    /// Their state.
    pub kind: RunKind,
}

impl Run {
    /// No page at all.
    pub const NONE: Self = Self { first: 0, pages: 0, kind: RunKind::Used };
}

impl Field for Run {
    const BYTES: usize = 12;
    const FORMAT: &'static str = "run: u64 first home page * 4 + kind, u32 number of pages";
    fn put(&self, out: &mut [u8]) {
        (self.first << 2 | self.kind as u64).put(&mut out[..8]);
        self.pages.put(&mut out[8..]);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        let word = u64::get(&bytes[..8])?;
        let kind = RunKind::ALL[(word & 3) as usize];
        let read = Self { first: word >> 2, pages: u32::get(&bytes[8..])?, kind };
        if read.first + u64::from(read.pages) > HOME_PAGES_MAX {
            return Err("home pages below 2^38");
        }
        if read.pages == 0 && read != Self::NONE {
            return Err("zeroes where there is no page");
        }
        Ok(read)
    }
}

impl Field for Entry {
    const BYTES: usize = 12;
    const FORMAT: &'static str = "entry: u64 home page * 4 + state + upper 16 bits of its bytes' sum * 2^48, u32 the lower 32 bits";
    fn put(&self, out: &mut [u8]) {
        (self.sum >> 32 << 48 | self.home << 2 | self.state as u64).put(&mut out[..8]);
        (self.sum as u32).put(&mut out[8..]);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        let word = u64::get(&bytes[..8])?;
        let sum = word >> 48 << 32 | u64::from(u32::get(&bytes[8..])?);
        let read =
            Self { home: (word & ((1 << 48) - 1)) >> 2, state: CopyState::from_bits(word), sum };
        if read.home >= HOME_PAGES_MAX {
            return Err("home pages below 2^38");
        }
        if read.state == CopyState::Free && read != Self::FREE {
            return Err("zeroes in the entry of a free slot");
        }
        Ok(read)
    }
}
