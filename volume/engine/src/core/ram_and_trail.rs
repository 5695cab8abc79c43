//! RAM and trail, as the adaptive policy sees them.

use std::ops::Range;

use seekless_learn::{TRAIL_WINDOW, View};

use super::copies::Copies;
use super::page_map::{CopyState, HomePage, Slot};
use super::ram_cache::RamCache;

/// RAM and trail, as the policy sees them.
pub(super) struct RamAndTrail<'a> {
    pub(super) cache: &'a RamCache,
    pub(super) copies: &'a Copies,
    pub(super) head: u32,
    pub(super) slots: u32,
}

impl RamAndTrail<'_> {
    /// Whether a clean copy of the trail stands in this slot.
    pub(super) fn is_copy(&self, slot: Slot) -> bool {
        slot.0 < self.slots && self.copies.state(slot) == CopyState::Clean
    }

    /// The number of slots, from `slot` on, that hold all pages of `homes` that RAM lacks. The bool
    /// is true if the pages are not in order in these slots.
    pub(super) fn reach(&self, slot: u32, homes: Range<u64>, end: u32) -> Option<(u32, bool)> {
        let window = slot..end.min(slot + TRAIL_WINDOW);
        let (mut reach, mut scattered) = (0, false);
        for (page, at) in homes.zip(slot..) {
            let page = HomePage(page);
            let in_place = window.contains(&at) && self.is_copy(Slot(at));
            if in_place && self.copies.home(Slot(at)) == Some(page) {
                reach = reach.max(at + 1 - slot);
                continue;
            }
            scattered = true;
            if self.cache.holds(self.cache.grid.ram_page(page)).is_some() {
                continue;
            }
            let copies = self.copies.find_all(page).filter(|&copy| self.is_copy(copy));
            let copy = copies.filter(|copy| window.contains(&copy.0)).min()?;
            reach = reach.max(copy.0 + 1 - slot);
        }
        Some((reach, scattered))
    }
}

impl View for RamAndTrail<'_> {
    fn in_ram(&self, page: u64) -> Option<u32> {
        self.cache.slot_of(page)
    }

    fn eight_in_ram(&self, first: u64) -> [Option<u32>; 8] {
        self.cache.slots_of_eight(first)
    }

    fn copy_in(&self, slot: u32) -> Option<u64> {
        let slot = Slot(slot);
        let home = self.is_copy(slot).then(|| self.copies.home(slot)).flatten()?;
        Some(self.cache.grid.ram_page(home))
    }

    fn newest_copy(&self, page: u64) -> Option<u32> {
        let copies = self.copies.find_all(self.cache.grid.home_page(page)?);
        let slots = copies.filter(|&slot| self.is_copy(slot)).map(|slot| slot.0);
        slots.min_by_key(|&slot| self.behind_head(slot))
    }

    fn behind_head(&self, slot: u32) -> u32 {
        // The sum of two slots may be more than 32 bits hold.
        if slot < self.head { self.head - slot } else { self.slots - slot + self.head }
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::Sectors;

    use super::*;
    use crate::core::page_map::PageMap;
    use crate::core::ram_cache::PageGrid;
    use crate::format::Geometry;

    #[test]
    fn the_way_from_the_head_is_counted_in_the_largest_trail_too() {
        let cache = RamCache::new(0, PageGrid::new(Sectors(0)));
        let copies = Copies::new(&Geometry::default(), PageMap::new(0));
        let (slots, head) = (u32::MAX - 7, 1 << 31);
        let seen = RamAndTrail { cache: &cache, copies: &copies, head, slots };
        let ways = [head - 1, 0, slots - 1, head].map(|slot| seen.behind_head(slot));
        assert_eq!(ways, [1, head, head + 1, slots]);
    }
}
