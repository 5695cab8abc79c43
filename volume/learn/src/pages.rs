//! The client's device in whole pages of 4 KiB. Copies have whole pages. File systems often start
//! at a sector that is no multiple of eight (63 on old partitions), so the pages do too.

use seekless_block::{Extent, Op, PAGE_SECTORS, Request, Sectors};

/// The pages of a device: page `p` is sectors `grid + 8p .. grid + 8p + 8`. Sectors before the
/// first whole page and behind the last belong to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub(crate) grid: u64,
    /// First sector behind the last whole page.
    pub(crate) end: u64,
}

impl Pages {
    /// The pages of a device of `capacity` whose first page starts at sector `grid`, taken modulo
    /// 8.
    pub const fn new(grid: Sectors, capacity: Sectors) -> Self {
        let grid = grid.0 % PAGE_SECTORS;
        let whole = capacity.0.saturating_sub(grid) / PAGE_SECTORS;
        Self { grid, end: grid + whole * PAGE_SECTORS }
    }

    /// The run of whole pages that the extent touches; empty if it touches none.
    pub fn touched(self, extent: Extent) -> Extent {
        if extent.is_empty() {
            return Extent::new(self.grid, 0);
        }
        let down = |at: u64| at.saturating_sub(self.grid) / PAGE_SECTORS * PAGE_SECTORS + self.grid;
        let end = extent.end().0;
        let end =
            if end <= self.grid { self.grid } else { down(end - 1).saturating_add(PAGE_SECTORS) };
        Extent::span(down(extent.start.0), end.min(self.end))
    }

    /// Whether the extent is a run of whole pages, at least one.
    pub const fn is_whole(self, extent: Extent) -> bool {
        !extent.is_empty()
            && extent.start.0 >= self.grid
            && (extent.start.0 - self.grid).is_multiple_of(PAGE_SECTORS)
            && extent.len.0.is_multiple_of(PAGE_SECTORS)
            && extent.end().0 <= self.end
    }
}

/// Finds the grid of a device from the reads of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridCount([u64; PAGE_SECTORS as usize]);

impl GridCount {
    /// Takes in one request. Only reads count, as only reads use copies.
    pub const fn observe(&mut self, request: &Request) {
        if matches!(request.op, Op::Read) && !request.extent.is_empty() {
            self.0[(request.extent.start.0 % PAGE_SECTORS) as usize] += 1;
        }
    }

    /// The sector modulo 8 at which most reads start; the lowest of equals, 0 without reads.
    pub fn grid(&self) -> Sectors {
        let most = (0..PAGE_SECTORS).max_by_key(|&at| (self.0[at as usize], std::cmp::Reverse(at)));
        Sectors(most.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_block::SimTime;

    use super::*;

    proptest! {
        #[test]
        fn touched_pages_are_those_found_sector_by_sector(
            grid in 0u64..8, capacity in 0u64..100, start in 0u64..110, len in 0u64..40
        ) {
            let pages = Pages::new(Sectors(grid), Sectors(capacity));
            let whole = (0..20).map(|p| grid + 8 * p).filter(|&s| s + 8 <= capacity);
            let touched: Vec<u64> =
                whole.filter(|&s| Extent::new(s, 8).overlaps(Extent::new(start, len))).collect();
            let extent = pages.touched(Extent::new(start, len));
            prop_assert_eq!(extent.len.0, touched.len() as u64 * 8);
            prop_assert!(touched.is_empty() || (extent.start.0 == touched[0] && pages.is_whole(extent)));
        }
    }

    #[test]
    fn an_extent_from_outside_may_be_longer_than_any_device() {
        let pages = Pages::new(Sectors(0), Sectors(100));
        assert_eq!(pages.touched(Extent::new(0, u64::MAX)), Extent::new(0, 96));
        assert!(pages.touched(Extent::new(u64::MAX - 1, 1)).is_empty());
    }

    #[test]
    fn only_whole_pages_of_the_grid_are_whole() {
        let pages = Pages::new(Sectors(7), Sectors(40));
        assert!(pages.is_whole(Extent::new(7, 32)));
        for bad in [(7, 0), (7, 4), (8, 8), (0, 8), (7, 40), (31, 16)] {
            assert!(!pages.is_whole(Extent::new(bad.0, bad.1)), "{bad:?}");
        }
    }

    #[test]
    fn the_grid_is_where_most_reads_start() {
        let mut count = GridCount::default();
        assert_eq!(count.grid(), Sectors(0));
        for (op, start) in
            [(Op::Read, 63), (Op::Read, 8), (Op::Read, 71), (Op::Write, 8), (Op::Write, 16)]
        {
            count.observe(&Request::new(SimTime(0), op, Extent::new(start, 8)));
        }
        assert_eq!(count.grid(), Sectors(7));
    }
}
