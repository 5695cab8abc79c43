//! Which pages RAM would hold if the vanilla system had served the same requests. A policy that stands
//! aside reads ahead only such pages. Any other page would take the place of a page that the vanilla
//! system holds, and the next read of that page would be a miss that the vanilla system does not
//! have. With a set that just fits into RAM, such misses would never end.
//!
//! Least-recently-used order, as in RAM. A page of which the vanilla system has a part counts as held.
//! Sixteen pages beside each other that were used together are one entry: a long request is cheap.

use std::ops::Range;

use seekless_block::{Bytes, Extent, Sectors};

use super::ram_cache::PageGrid;
use super::ram_index::{Keyed, NONE, Neighbours, RamIndex, UseOrder};

/// Pages of a group: the bits of a mask.
const PAGES: u64 = 16;

/// Pages of one group that were used together. A group may have several entries, of different pages.
#[derive(Clone, Copy, Debug)]
struct Entry {
    group: u64,
    neighbours: Neighbours,
    /// Another entry of the group.
    next: u32,
    pages: u16,
}

impl Keyed for Entry {
    fn key(&self) -> u64 {
        self.group
    }

    fn neighbours(&mut self) -> &mut Neighbours {
        &mut self.neighbours
    }
}

/// The directory of the vanilla system's RAM. It holds no bytes, and takes all its memory at
/// construction.
#[derive(Debug)]
pub(super) struct VanillaRam {
    entries: Vec<Entry>,
    /// The first entry of each group.
    index: RamIndex,
    order: UseOrder,
    free: Vec<u32>,
    held: u32,
    grid: PageGrid,
    /// A longer request goes past RAM.
    longest: Bytes,
}

/// The groups of a range of pages, with their pages in this range.
fn groups(pages: Range<u64>) -> impl DoubleEndedIterator<Item = (u64, u16)> {
    (pages.start / PAGES..pages.end.div_ceil(PAGES)).map(move |group| {
        let first = group * PAGES;
        let below = pages.start.saturating_sub(first);
        let above = (first + PAGES).saturating_sub(pages.end);
        (group, (u16::MAX << below) & (u16::MAX >> above))
    })
}

impl VanillaRam {
    pub(super) fn new(pages: u32, grid: PageGrid, longest: Bytes) -> Self {
        let entry = Entry { group: 0, neighbours: Neighbours::NONE, next: NONE, pages: 0 };
        Self {
            entries: vec![entry; pages as usize],
            index: RamIndex::new(pages),
            order: UseOrder::EMPTY,
            free: (0..pages).rev().collect(),
            held: 0,
            grid,
            longest,
        }
    }

    /// The part of a read that RAM lacks: none, or one range.
    pub(super) fn miss(&self, extent: Extent) -> Extent {
        let lacks = |(group, pages): (u64, u16)| {
            let pages = pages & !self.pages_of(group);
            (pages > 0).then_some((group * PAGES, pages))
        };
        let pages = self.grid.pages(extent);
        let Some((at, lacked)) = groups(pages.clone()).find_map(lacks) else {
            return Extent::new(extent.start.0, 0);
        };
        let first = at + u64::from(lacked.trailing_zeros());
        let last = groups(pages).rev().find_map(lacks);
        let end = last.map_or(first, |(at, lacked)| at + PAGES - u64::from(lacked.leading_zeros()));
        self.grid.extent(first..end).intersection(extent).unwrap_or(extent)
    }

    /// A client reads an extent. The vanilla system reads `window` for the part that RAM lacks.
    pub(super) fn reads(&mut self, extent: Extent, miss: Extent, window: Extent) {
        let asked = self.grid.pages(extent);
        if miss.is_empty() {
            self.uses(asked);
            return;
        }
        let missed = self.grid.pages(miss);
        self.uses(asked.start..missed.start);
        self.uses(missed.end..asked.end);
        if window.bytes() <= self.longest {
            self.uses(missed.start..self.grid.pages(window).end.max(missed.end));
        }
    }

    /// How much of the front of `extent` it holds.
    pub(super) fn prefix(&self, extent: Extent) -> Sectors {
        if extent.is_empty() {
            return Sectors(0);
        }
        let miss = self.miss(extent);
        if miss.is_empty() { extent.len } else { miss.start - extent.start }
    }

    pub(super) fn keeps(&mut self, extent: Extent) {
        self.uses(self.grid.pages(extent));
    }

    pub(super) fn forgets(&mut self, extent: Extent) {
        let mut pages = self.grid.pages(extent);
        if self.grid.extent(pages.start..pages.start + 1).start < extent.start {
            pages.start += 1;
        }
        if self.grid.extent(pages.start..pages.end).end() > extent.end() {
            pages.end -= 1;
        }
        if pages.start >= pages.end || self.held == 0 {
            return;
        }
        // A discard may span the whole device: walk whichever is shorter.
        if pages.end - pages.start <= PAGES * self.entries.len() as u64 {
            groups(pages).for_each(|(group, pages)| self.take(group, pages));
            return;
        }
        let mut at = self.order.newest;
        while at != NONE {
            let Entry { group, neighbours: Neighbours { older, .. }, .. } =
                self.entries[at as usize];
            let first = pages.start.max(group * PAGES)..pages.end.min((group + 1) * PAGES);
            groups(first).for_each(|(group, pages)| self.take(group, pages));
            at = older;
        }
    }

    fn pages_of(&self, group: u64) -> u16 {
        let mut at = self.index.find(group, &self.entries);
        let mut pages = 0;
        while let Some(entry) = at.map(|at| self.entries[at as usize]) {
            pages |= entry.pages;
            at = (entry.next != NONE).then_some(entry.next);
        }
        pages
    }

    /// These pages are used: they are evicted last.
    fn uses(&mut self, pages: Range<u64>) {
        if pages.start < pages.end {
            groups(pages).for_each(|(group, pages)| self.put(group, pages));
        }
    }

    fn put(&mut self, group: u64, mut pages: u16) {
        let first = self.index.find(group, &self.entries);
        if let Some(at) = first.filter(|&at| self.entries[at as usize].pages == pages) {
            self.order.remove(at, &mut self.entries);
            self.order.push(at, &mut self.entries);
            return;
        }
        if first.is_some() {
            self.take(group, pages);
        }
        let most = self.entries.len() as u32;
        while let Some(excess) = (self.held + pages.count_ones()).checked_sub(most + 1) {
            if self.order.oldest == NONE {
                pages &= pages - 1;
                continue;
            }
            // Of an entry, the first pages are the oldest ones.
            let Entry { group, pages: old, .. } = self.entries[self.order.oldest as usize];
            let mut stay = old;
            (0..=excess).for_each(|_| stay &= stay.saturating_sub(1));
            self.take(group, old & !stay);
        }
        let Some(at) = self.free.pop().filter(|_| pages > 0) else { return };
        let next = self.index.find(group, &self.entries).unwrap_or(NONE);
        if next != NONE {
            self.index.remove(next, &self.entries);
        }
        self.entries[at as usize] = Entry { group, neighbours: Neighbours::NONE, next, pages };
        self.index.insert(group, at);
        self.order.push(at, &mut self.entries);
        self.held += pages.count_ones();
    }

    /// Takes these pages of a group out of all its entries.
    fn take(&mut self, group: u64, pages: u16) {
        let mut before = NONE;
        let mut at = self.index.find(group, &self.entries).unwrap_or(NONE);
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            self.held -= (entry.pages & pages).count_ones();
            entry.pages &= !pages;
            let next = entry.next;
            if entry.pages == 0 {
                self.remove(at, before);
            } else {
                before = at;
            }
            at = next;
        }
    }

    /// Removes an entry, which stands behind `before` in its group.
    fn remove(&mut self, at: u32, before: u32) {
        let Entry { group, next, .. } = self.entries[at as usize];
        if before != NONE {
            self.entries[before as usize].next = next;
        } else {
            self.index.remove(at, &self.entries);
            if next != NONE {
                self.index.insert(group, next);
            }
        }
        self.order.remove(at, &mut self.entries);
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_the_pages_that_were_used_last(
            most in 1u32..40,
            first in 0u64..8,
            ops in prop::collection::vec((0u8..3, 0u64..900, 1u64..200), 1..200),
        ) {
            let grid = PageGrid::new(Sectors(first));
            let mut ram = VanillaRam::new(most, grid, Bytes(1 << 20));
            // The naive twin: pages, the least recently used one first.
            let mut twin: Vec<u64> = Vec::new();
            for (kind, start, len) in ops {
                let extent = Extent::new(start, len);
                let pages = grid.pages(extent);
                match kind {
                    0 => {
                        ram.forgets(extent);
                        twin.retain(|&p| !extent.contains(grid.extent(p..p + 1)));
                    }
                    _ => {
                        ram.keeps(extent);
                        twin.retain(|p| !pages.contains(p));
                        twin.extend(pages);
                        twin.drain(..twin.len().saturating_sub(most as usize));
                    }
                }
                prop_assert_eq!(ram.held as usize, twin.len());
                for page in 0..140 {
                    let bit = ram.pages_of(page / PAGES) >> (page % PAGES) & 1;
                    prop_assert_eq!(bit == 1, twin.contains(&page), "page {}", page);
                }
            }
        }

        #[test]
        fn a_miss_ends_where_pages_are_held(
            held in prop::collection::vec(0u64..60, 0..40), start in 0u64..400, len in 1u64..80,
        ) {
            let grid = PageGrid::default();
            let mut ram = VanillaRam::new(64, grid, Bytes(1 << 20));
            held.iter().for_each(|page| ram.keeps(Extent::new(page * 8, 8)));
            let extent = Extent::new(start, len);
            let lacked = |s: &u64| !held.contains(&(s / 8));
            let sectors: Vec<u64> = (start..start + len).filter(lacked).collect();
            let miss = ram.miss(extent);
            match (sectors.first(), sectors.last()) {
                (Some(&a), Some(&z)) => prop_assert_eq!(miss, Extent::span(a, z + 1)),
                _ => prop_assert!(miss.is_empty()),
            }
            let front = sectors.first().map_or(len, |a| a - start);
            prop_assert_eq!(ram.prefix(extent), Sectors(front));
        }
    }
}
