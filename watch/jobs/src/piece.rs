//! Pieces: 32 pages of a file or of the device, the unit that is learned and fetched.

/// Pages in a piece: 128 KiB.
pub const PIECE_PAGES: u64 = 32;
/// The device itself in place of a file: the metadata of the file system.
pub const DEVICE: u64 = 0;
/// Longest hole that is read along, in pages: a disk passes over it as fast as it would skip it.
pub(crate) const HOLE: u32 = 8;

/// Which piece of which file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId {
    /// Inode number, or [`DEVICE`].
    pub file: u64,
    /// Number of the piece in the file.
    pub chunk: u32,
}

impl PieceId {
    /// True for a piece of the device.
    pub(crate) const fn is_metadata(self) -> bool {
        self.file == DEVICE
    }

    /// Its first page.
    pub const fn first_page(self) -> u64 {
        self.chunk as u64 * PIECE_PAGES
    }
}

/// A piece, and which of its pages are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which piece.
    pub place: PieceId,
    /// One bit a page.
    pub pages: u32,
    /// The inode's generation; 0: not known yet.
    pub generation: u32,
    /// Where the first page is on the device, in blocks of the file system; 0: not known yet.
    pub block: u64,
    /// Successive runs that passed over it.
    pub unseen: u8,
}

impl Piece {
    /// A piece of which nothing else is known.
    pub const fn new(place: PieceId, pages: u32) -> Self {
        Self { place, pages, generation: 0, block: 0, unseen: 0 }
    }

    /// The order on the disk: metadata by address; files by address, or by inode if that is
    /// unknown, which the file system keeps near.
    pub(crate) const fn order(&self) -> (bool, u64) {
        if self.place.is_metadata() {
            (false, self.place.chunk as u64)
        } else {
            (self.block == 0, if self.block == 0 { self.place.file } else { self.block })
        }
    }
}

/// Splits pages of a file into pieces. Pages beyond 512 TiB are left out.
pub(crate) fn pieces(file: u64, first: u64, count: u64) -> impl Iterator<Item = (PieceId, u32)> {
    let end = first.saturating_add(count);
    let chunks = if count == 0 { 0..0 } else { first / PIECE_PAGES..end.div_ceil(PIECE_PAGES) };
    chunks.map_while(move |c| {
        let chunk = u32::try_from(c).ok()?;
        let start = c * PIECE_PAGES;
        let (from, to) = (first.max(start) - start, (end - start).min(PIECE_PAGES));
        let mask = ((1u64 << to) - (1u64 << from)) as u32;
        Some((PieceId { file, chunk }, mask))
    })
}

/// The spans of a mask: first page and length, with holes up to this length filled.
pub(crate) fn spans(mask: u32, hole: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let first = rest.trailing_zeros();
        let mut end = first;
        loop {
            end += (!(u64::from(rest) >> end)).trailing_zeros();
            let empty = (u64::from(rest) >> end).trailing_zeros();
            if empty > hole {
                break;
            }
            end += empty;
        }
        rest = (u64::from(rest) >> end << end) as u32;
        Some((first, end - first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_fall_into_pieces() {
        let place = |chunk| PieceId { file: 7, chunk };
        let of = |first, count| pieces(7, first, count).collect::<Vec<_>>();
        assert_eq!(of(0, 0), []);
        assert_eq!(of(3, 2), [(place(0), 0b11000)]);
        assert_eq!(of(31, 2), [(place(0), 1 << 31), (place(1), 1)]);
        assert_eq!(of(32, 32), [(place(1), u32::MAX)]);
        assert_eq!(of(u64::MAX - 3, 2), [], "beyond what a place can name");
    }

    #[test]
    fn short_holes_are_read_along_and_long_ones_are_not() {
        let of = |mask| spans(mask, HOLE).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(u32::MAX), [(0, 32)]);
        assert_eq!(of(1 | 1 << 9), [(0, 10)]);
        assert_eq!(of(1 | 1 << 10), [(0, 1), (10, 1)]);
        assert_eq!(of(1 << 31), [(31, 1)]);
    }

    proptest! {
        #[test]
        fn spans_hold_every_page_and_begin_and_end_with_one(mask: u32) {
            let mut held = 0u64;
            let mut last = None;
            for (first, count) in spans(mask, HOLE) {
                prop_assert!(count > 0 && first + count <= 32);
                prop_assert!(mask >> first & 1 == 1 && mask >> (first + count - 1) & 1 == 1);
                if let Some(end) = last {
                    prop_assert!(first > end + HOLE);
                }
                last = Some(first + count);
                held |= (1u64 << (first + count)) - (1u64 << first);
            }
            prop_assert_eq!(u64::from(mask) & !held, 0);
        }

        #[test]
        fn pieces_hold_exactly_the_pages(first in 0u64..1000, count in 0u64..200) {
            let pages: Vec<u64> = pieces(9, first, count)
                .flat_map(|(p, m)| (0..32).filter(move |b| m >> b & 1 == 1).map(move |b| p.first_page() + b))
                .collect();
            prop_assert_eq!(pages, (first..first + count).collect::<Vec<_>>());
        }
    }
}
