//! The RAM cache: a table of the 4 KiB pages of the client's device in the slots of the driver's
//! memory, by sector, in least-recently-used order. This module holds no bytes of data.

use seekless_block::{Extent, PAGE_SECTORS, Sectors};

use super::page_map::HomePage;
use super::ram_index::{Keyed, Neighbours, RamIndex, UseOrder};

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    page: u64,
    /// One bit a sector: set where the slot's bytes equal the device's.
    valid: u8,
    neighbours: Neighbours,
}

impl Keyed for Slot {
    fn key(&self) -> u64 {
        self.page
    }

    fn neighbours(&mut self) -> &mut Neighbours {
        &mut self.neighbours
    }
}

/// A page-granular LRU with sector-granular validity. All memory is taken at construction.
#[derive(Debug)]
pub(crate) struct RamCache {
    slots: Vec<Slot>,
    index: RamIndex,
    order: UseOrder,
    free: Vec<u32>,
    pub(crate) grid: PageGrid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inserted {
    pub(crate) slot: u32,
    /// The slot did not hold this page before.
    pub(crate) is_new: bool,
    pub(crate) evicted: Option<u64>,
}

/// Part of an extent within one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) page: u64,
    /// First sector on the device.
    pub(crate) start: u64,
    /// First sector within the page.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Piece {
    const fn mask(self) -> u8 {
        (((1u16 << self.len) - 1) << self.offset) as u8
    }
}

impl From<Piece> for Extent {
    fn from(piece: Piece) -> Self {
        Self::new(piece.start, piece.len)
    }
}

/// The division of sectors into pages. The pages of RAM are those of home. If the grid does not
/// begin with a page, one shorter page lies before home's first page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageGrid {
    /// Sectors that the first page lacks at its front.
    shift: u64,
}

impl PageGrid {
    pub(crate) const fn new(grid: Sectors) -> Self {
        Self { shift: (PAGE_SECTORS - grid.0 % PAGE_SECTORS) % PAGE_SECTORS }
    }

    /// The page of home that a page is; none for sectors before the grid.
    pub(crate) fn home_page(self, page: u64) -> Option<HomePage> {
        page.checked_sub(u64::from(self.shift > 0)).map(HomePage)
    }

    pub(crate) fn ram_page(self, HomePage(home): HomePage) -> u64 {
        home + u64::from(self.shift > 0)
    }

    /// The page-wise pieces of an extent, in order.
    pub(crate) fn pieces(self, extent: Extent) -> impl Iterator<Item = Piece> {
        let (mut at, end) = (extent.start.0, extent.end().0);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let shifted = at + self.shift;
                let (page, offset) = (shifted / PAGE_SECTORS, shifted % PAGE_SECTORS);
                let len = (PAGE_SECTORS - offset).min(end - at);
                let piece = Piece { page, start: at, offset, len };
                at += len;
                piece
            })
        })
    }

    /// The pages that an extent touches.
    pub(crate) const fn pages(self, extent: Extent) -> std::ops::Range<u64> {
        let (start, end) = (extent.start.0 + self.shift, extent.end().0 + self.shift);
        start / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS)
    }

    pub(crate) fn extent(self, pages: std::ops::Range<u64>) -> Extent {
        let sector = |page: u64| (page * PAGE_SECTORS).saturating_sub(self.shift);
        Extent::span(sector(pages.start), sector(pages.end))
    }
}

impl RamCache {
    pub(crate) fn new(pages: u32, grid: PageGrid) -> Self {
        let slot = Slot { page: 0, valid: 0, neighbours: Neighbours::NONE };
        Self {
            slots: vec![slot; pages as usize],
            index: RamIndex::new(pages),
            order: UseOrder::EMPTY,
            free: (0..pages).rev().collect(),
            grid,
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slot that holds every sector of the piece.
    pub(crate) fn find(&self, piece: Piece) -> Option<u32> {
        let slot = self.slot_of(piece.page)?;
        (self.slots[slot as usize].valid & piece.mask() == piece.mask()).then_some(slot)
    }

    /// Makes a slot the last to be evicted.
    pub(crate) fn touch(&mut self, slot: u32) {
        if self.order.newest != slot {
            self.order.remove(slot, &mut self.slots);
            self.order.push(slot, &mut self.slots);
        }
    }

    /// Returns the slot that holds the piece from now on. Evicts the least recently used page if no
    /// slot is free.
    pub(crate) fn insert(&mut self, piece: Piece) -> Inserted {
        let inserted = match self.slot_of(piece.page) {
            Some(slot) => {
                self.touch(slot);
                Inserted { slot, is_new: false, evicted: None }
            }
            None => {
                let (slot, evicted) = match self.free.pop() {
                    Some(slot) => (slot, None),
                    None => (self.oldest(), Some(self.slots[self.oldest() as usize].page)),
                };
                if evicted.is_some() {
                    self.index.remove(slot, &self.slots);
                    self.order.remove(slot, &mut self.slots);
                }
                self.slots[slot as usize].page = piece.page;
                self.slots[slot as usize].valid = 0;
                self.index.insert(piece.page, slot);
                self.order.push(slot, &mut self.slots);
                Inserted { slot, is_new: true, evicted }
            }
        };
        self.slots[inserted.slot as usize].valid |= piece.mask();
        inserted
    }

    /// The slot that holds any part of a page.
    pub(crate) fn slot_of(&self, page: u64) -> Option<u32> {
        self.index.find(page, &self.slots)
    }

    /// The slots that hold any part of each of eight pages, from a page that eight divides.
    pub(crate) fn slots_of_eight(&self, first: u64) -> [Option<u32>; 8] {
        self.index.find_eight(first, &self.slots)
    }

    /// The slot that holds a page whole.
    pub(crate) fn holds(&self, page: u64) -> Option<u32> {
        self.slot_of(page).filter(|&slot| self.slots[slot as usize].valid == u8::MAX)
    }

    /// The slot that is evicted next.
    pub(crate) const fn oldest(&self) -> u32 {
        self.order.oldest
    }

    /// Pages that it can hold.
    pub(crate) const fn pages(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Forgets the sectors of an extent. `held` gets the slots that held some of them.
    pub(crate) fn invalidate(&mut self, extent: Extent, mut held: impl FnMut(u32)) {
        if self.free.len() == self.slots.len() {
            return;
        }
        // A discard may span the whole device: walk whichever is shorter.
        let pages = extent.len.0 / PAGE_SECTORS + 2;
        if pages as usize > self.slots.len() {
            for slot in 0..self.slots.len() as u32 {
                let page = self.slots[slot as usize].page;
                if self.slot_of(page) != Some(slot) {
                    continue;
                }
                let whole = self.grid.extent(page..page + 1);
                if let Some(part) = whole.intersection(extent) {
                    self.grid.pieces(part).for_each(|p| self.forget(p, &mut held));
                }
            }
        } else {
            self.grid.pieces(extent).for_each(|p| self.forget(p, &mut held));
        }
    }

    fn forget(&mut self, piece: Piece, held: &mut impl FnMut(u32)) {
        let Some(slot) = self.slot_of(piece.page) else { return };
        held(slot);
        let s = &mut self.slots[slot as usize];
        s.valid &= !piece.mask();
        if s.valid == 0 {
            self.index.remove(slot, &self.slots);
            self.order.remove(slot, &mut self.slots);
            self.free.push(slot);
        }
    }

    /// How much of the front of `extent` is in RAM.
    pub(crate) fn prefix(&self, extent: Extent) -> Sectors {
        let held =
            self.grid.pieces(extent).take_while(|&p| self.find(p).is_some()).map(|p| p.len).sum();
        Sectors(held)
    }

    /// How much of the back of `extent` is in RAM.
    pub(crate) fn suffix(&self, extent: Extent) -> Sectors {
        let mut held = 0;
        let mut end = extent.end();
        while end > extent.start {
            let last = self.grid.pages(Extent::span(end.0 - 1, end.0)).start;
            let page = self.grid.extent(last..last + 1);
            let start = page.start.max(extent.start);
            let part = Extent::span(start.0, end.0);
            if self.grid.pieces(part).any(|piece| self.find(piece).is_none()) {
                break;
            }
            held += part.len.0;
            end = start;
        }
        Sectors(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The naive twin: a list of (page, valid sectors), most recent first.
    type Twin = Vec<(u64, [bool; 8])>;

    fn finds_what_it_holds(
        cache: &RamCache,
        extent: Extent,
        shift: u64,
        twin: &Twin,
    ) -> Result<(), TestCaseError> {
        let has = |s: u64| {
            let s = s + shift;
            twin.iter().any(|t| t.0 == s / 8 && t.1[(s % 8) as usize])
        };
        // Whole pieces only: a page cut short counts as absent.
        let held = |p: &&Piece| (0..p.len).all(|i| has(p.start + i));
        let pieces: Vec<Piece> = cache.grid.pieces(extent).collect();
        let front: u64 = pieces.iter().take_while(held).map(|p| p.len).sum();
        prop_assert_eq!(cache.prefix(extent).0, front);
        let back: u64 = pieces.iter().rev().take_while(held).map(|p| p.len).sum();
        prop_assert_eq!(cache.suffix(extent).0, back);
        for p in cache.grid.pages(extent) {
            let whole = twin.iter().any(|t| t.0 == p && t.1 == [true; 8]);
            prop_assert_eq!(cache.holds(p).is_some(), whole);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn every_sector_has_its_page(first in 0u64..16, start in 0u64..80, len in 1u64..40) {
            let grid = PageGrid::new(Sectors(first));
            let shift = (8 - first % 8) % 8;
            let extent = Extent::new(start, len);
            let mut at = start;
            for piece in grid.pieces(extent) {
                prop_assert_eq!(Extent::from(piece).start.0, at);
                for sector in at..at + piece.len {
                    prop_assert_eq!((sector + shift) / 8, piece.page);
                    prop_assert_eq!((sector + shift) % 8, piece.offset + sector - at);
                    let page = grid.extent(piece.page..piece.page + 1);
                    prop_assert!(page.contains(Extent::new(sector, 1)));
                }
                if let Some(home) = grid.home_page(piece.page) {
                    prop_assert_eq!(grid.ram_page(home), piece.page);
                    prop_assert_eq!(grid.extent(piece.page..piece.page + 1).start.0, first % 8 + home.0 * 8);
                }
                at += piece.len;
            }
            prop_assert_eq!(at, start + len);
            prop_assert!(grid.pieces(extent).map(|p| p.page).eq(grid.pages(extent)));
        }

        #[test]
        fn the_lru_is_a_list(
            first in 0u64..8,
            ops in prop::collection::vec((0u8..4, 0u64..60, 1u64..20), 1..200),
        ) {
            let grid = PageGrid::new(Sectors(first));
            let shift = (8 - first) % 8;
            let mut cache = RamCache::new(4, grid);
            let mut twin = Twin::new();
            for (kind, start, len) in ops {
                let extent = Extent::new(start, len);
                match kind {
                    0 => {
                        cache.invalidate(extent, |_| {});
                        for p in grid.pieces(extent) {
                            if let Some(t) = twin.iter_mut().find(|t| t.0 == p.page) {
                                t.1[p.offset as usize..(p.offset + p.len) as usize].fill(false);
                            }
                        }
                        twin.retain(|t| t.1.iter().any(|&v| v));
                    }
                    1 => for p in grid.pieces(extent) {
                        let slot = cache.find(p);
                        let at = twin.iter().position(|t| t.0 == p.page
                            && t.1[p.offset as usize..(p.offset + p.len) as usize].iter().all(|&v| v));
                        prop_assert_eq!(slot.is_some(), at.is_some());
                        if let (Some(slot), Some(at)) = (slot, at) {
                            cache.touch(slot);
                            let t = twin.remove(at);
                            twin.insert(0, t);
                        }
                    },
                    2 => for p in grid.pieces(extent) {
                        cache.insert(p);
                        let mut t = match twin.iter().position(|t| t.0 == p.page) {
                            Some(at) => twin.remove(at),
                            None => (p.page, [false; 8]),
                        };
                        t.1[p.offset as usize..(p.offset + p.len) as usize].fill(true);
                        twin.insert(0, t);
                        twin.truncate(4);
                    },
                    _ => finds_what_it_holds(&cache, extent, shift, &twin)?,
                }
            }
        }
    }
}
