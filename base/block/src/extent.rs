//! An extent: a run of sectors, half-open.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Lba, Sectors};

/// Sectors `start .. start + len`, half-open.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Extent {
    /// First sector.
    pub start: Lba,
    /// Length; zero is an empty extent.
    pub len: Sectors,
}

impl Extent {
    /// An extent from sector numbers. `len` is reduced so that the end never exceeds 2^64 - 1.
    pub const fn new(start: u64, len: u64) -> Self {
        let room = u64::MAX - start;
        Self { start: Lba(start), len: Sectors(if len > room { room } else { len }) }
    }

    /// An extent from its start sector and end sector. Empty if `end <= start`.
    pub const fn span(start: u64, end: u64) -> Self {
        Self { start: Lba(start), len: Sectors(end.saturating_sub(start)) }
    }

    /// First sector after the extent.
    pub const fn end(self) -> Lba {
        Lba(self.start.0.saturating_add(self.len.0))
    }

    /// Length in bytes.
    pub const fn bytes(self) -> Bytes {
        self.len.bytes()
    }

    /// Whether the extent contains no sector.
    pub const fn is_empty(self) -> bool {
        self.len.0 == 0
    }

    /// Whether both extents contain a common sector.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end().0
            && other.start.0 < self.end().0
            && !self.is_empty()
            && !other.is_empty()
    }

    /// Whether `self` contains every sector of `inner`.
    pub const fn contains(self, inner: Self) -> bool {
        self.start.0 <= inner.start.0 && inner.end().0 <= self.end().0
    }

    /// The common sectors of both extents, if any.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        (start < end).then(|| Self::span(start.0, end.0))
    }

    /// The same sectors in order; adjacent and overlapping extents become one.
    pub fn merged(mut extents: Vec<Self>) -> Vec<Self> {
        extents.sort_unstable();
        let mut all: Vec<Self> = Vec::new();
        for extent in extents {
            match all.last_mut() {
                Some(last) if extent.start <= last.end() => {
                    *last = Self::span(last.start.0, last.end().0.max(extent.end().0));
                }
                _ => all.push(extent),
            }
        }
        all
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sectors {}..{}", self.start.0, self.end().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn intersection_agrees_with_counting_sectors(a in 0u64..40, al in 0u64..20, b in 0u64..40, bl in 0u64..20) {
            let (x, y) = (Extent::new(a, al), Extent::new(b, bl));
            let shared: Vec<u64> = (a..a + al).filter(|s| (b..b + bl).contains(s)).collect();
            prop_assert_eq!(x.overlaps(y), !shared.is_empty());
            match x.intersection(y) {
                None => prop_assert!(shared.is_empty()),
                Some(i) => {
                    prop_assert_eq!(i.start.0, shared[0]);
                    prop_assert_eq!(i.len.0 as usize, shared.len());
                }
            }
        }
    }

    #[test]
    fn the_end_never_overflows() {
        let e = Extent::new(u64::MAX - 3, 100);
        assert_eq!(e.end(), Lba(u64::MAX));
        assert_eq!(e.len, Sectors(3));
    }
}
