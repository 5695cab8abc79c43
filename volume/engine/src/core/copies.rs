//! The copies: for each home page with a copy, the copy's slot, state and readers. All other
//! modules find and drop copies here.

use std::ops::{Deref, DerefMut};

use seekless_block::{Extent, PAGE_SECTORS};

use super::page_map::{CopyState, HomePage, PageMap, Slot, pages, slots};
use super::write_order::Since;
use crate::format::{Entry, Geometry, PageSum, UNSUMMED};
use crate::{Engine, Target};

/// The map of copies, and the reads in flight in the area.
#[derive(Debug)]
pub(crate) struct Copies {
    map: PageMap,
    /// Reads of the area in flight, by segment. A segment with readers is not overwritten.
    readers: Vec<u32>,
    /// Copies that recovery may take for newer than home: see [`super::in_place`].
    open: Slots,
    /// Of these, copies that may be written in place.
    writable: Slots,
    geo: Geometry,
}

/// A set of slots of read segments.
#[derive(Debug, Default)]
struct Slots {
    words: Vec<u64>,
    len: u64,
}

impl Slots {
    fn contains(&self, slot: Slot) -> bool {
        self.len > 0
            && self.words.get(slot.0 as usize / 64).is_some_and(|w| w >> (slot.0 % 64) & 1 == 1)
    }

    fn insert(&mut self, slot: Slot) {
        if !self.contains(slot) {
            let at = slot.0 as usize / 64;
            self.words.resize(self.words.len().max(at + 1), 0);
            self.words[at] |= 1 << (slot.0 % 64);
            self.len += 1;
        }
    }

    fn remove(&mut self, slot: Slot) {
        if self.contains(slot) {
            self.words[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
            self.len -= 1;
        }
    }
}

impl Deref for Copies {
    type Target = PageMap;
    fn deref(&self) -> &PageMap {
        &self.map
    }
}

impl DerefMut for Copies {
    fn deref_mut(&mut self) -> &mut PageMap {
        &mut self.map
    }
}

impl Copies {
    pub(crate) fn new(geo: &Geometry, map: PageMap) -> Self {
        let readers = vec![0; (geo.read_segments + geo.log_segments) as usize];
        Self { map, readers, open: Slots::default(), writable: Slots::default(), geo: *geo }
    }

    /// Whether recovery may take this copy of a read segment for newer than home.
    pub(crate) fn is_open(&self, slot: Slot) -> bool {
        self.open.contains(slot)
    }

    /// Whether there is such a copy.
    pub(crate) const fn any_open(&self) -> bool {
        self.open.len > 0
    }

    /// Whether there ever was one.
    pub(crate) const fn were_opened(&self) -> bool {
        !self.open.words.is_empty()
    }

    /// There is none any more, and the area durably knows.
    pub(crate) fn forget_opened(&mut self) {
        self.open = Slots::default();
    }

    /// Whether this copy may be written in place.
    pub(crate) fn is_writable(&self, slot: Slot) -> bool {
        self.writable.contains(slot)
    }

    /// A record on its way to the area says that this copy may be newer than home.
    pub(crate) fn open(&mut self, slot: Slot) {
        self.open.insert(slot);
    }

    /// That is durably known.
    pub(crate) fn make_writable(&mut self, slot: Slot) {
        if self.is_open(slot) {
            self.writable.insert(slot);
        }
    }

    /// Home is to get what the copy holds: no more writes in place.
    pub(crate) fn stop_writes(&mut self, slot: Slot) {
        self.writable.remove(slot);
    }

    /// Closes an open copy: home has all its bytes, and the log records this. From now on this is
    /// an ordinary copy.
    pub(super) fn close(&mut self, slot: Slot) {
        self.writable.remove(slot);
        self.open.remove(slot);
    }

    /// Frees a slot: see [`PageMap::clear`].
    pub(crate) fn clear(&mut self, slot: Slot) {
        self.close(slot);
        self.map.clear(slot);
    }

    /// Puts a copy into a slot, and frees all other slots of its page: see [`PageMap::set`]. A
    /// record of the log that holds a page supersedes an open copy, in recovery too.
    pub(crate) fn set(&mut self, slot: Slot, home: HomePage, state: CopyState, sum: PageSum) {
        let another = |map: &PageMap| map.find_all(home).find(|&other| other != slot);
        while let Some(other) = another(&self.map) {
            self.clear(other);
        }
        self.close(slot);
        self.map.set(slot, home, state, sum);
    }

    /// Home may lack what this copy holds.
    pub(crate) fn make_dirty(&mut self, slot: Slot) {
        let Some(home) = self.map.home(slot) else { return };
        // An open copy is the only one of its page.
        if self.is_log(slot) {
            self.set(slot, home, CopyState::Dirty, self.map.sum(slot));
        } else {
            self.map.set_state(slot, CopyState::Dirty);
        }
    }

    pub(crate) const fn segment_of(&self, slot: Slot) -> u32 {
        slot.0 / self.geo.segment_pages
    }

    /// Whether a slot belongs to the write buffer.
    pub(crate) const fn is_log(&self, slot: Slot) -> bool {
        slot.0 >= self.geo.read_slots()
    }

    pub(crate) fn begin_read(&mut self, slot: Slot, pages: u32) {
        for segment in self.segments_of(slot, pages) {
            self.readers[segment as usize] += 1;
        }
    }

    pub(crate) fn end_read(&mut self, slot: Slot, pages: u32) {
        for segment in self.segments_of(slot, pages) {
            self.readers[segment as usize] -= 1;
        }
    }

    const fn segments_of(&self, slot: Slot, pages: u32) -> std::ops::RangeInclusive<u32> {
        slot.0 / self.geo.segment_pages
            ..=(slot.0 + pages.saturating_sub(1)) / self.geo.segment_pages
    }

    pub(crate) fn is_read(&self, segment: u32) -> bool {
        self.readers[segment as usize] > 0
    }

    /// The state of a copy of this home page; `None` without a copy.
    pub(crate) fn state_of(&self, page: HomePage) -> Option<CopyState> {
        self.map.find(page).map(|slot| self.map.state(slot))
    }

    /// Whether a copy of this home page is newer than home.
    pub(crate) fn is_dirty(&self, page: HomePage) -> bool {
        self.map.count(CopyState::Dirty) > 0 && self.state_of(page) == Some(CopyState::Dirty)
    }

    /// The map's entry for a slot, in its on-disk form. An open copy counts as newer than home at the
    /// next attach. No write in place makes its sum void if the volume is `at_rest`.
    pub(crate) fn entry(&self, slot: Slot, at_rest: bool) -> Entry {
        let (mut state, mut sum) = (self.map.state(slot), self.map.sum(slot));
        if self.is_open(slot) {
            state = CopyState::Dirty;
            sum = if at_rest { sum } else { UNSUMMED };
        }
        let whole = |HomePage(home)| Entry { home, state, sum };
        self.map.home(slot).map_or(Entry::FREE, whole)
    }
}

impl Engine {
    /// The sectors of slots within the area; none of them is a replica's.
    pub(crate) fn place_of(&self, slot: Slot, pages: u64) -> Extent {
        let page = self.geo.page_of(slot.0);
        debug_assert!(page.is_some(), "{slot:?} does not stand in the area");
        Extent::new(page.unwrap_or_default() * PAGE_SECTORS, pages * PAGE_SECTORS)
    }

    /// Device and sectors of consecutive slots of one segment.
    pub(crate) fn stand(&self, slot: Slot, pages: u64) -> (Target, Extent) {
        match self.free.replicas.place(slot) {
            Some(page) => (Target::Home, self.home_of(page, pages)),
            None => (Target::Area, self.place_of(slot, pages)),
        }
    }

    /// The slots of all copies of the pages that an extent touches. The vector is `scratch`.
    pub(crate) fn copies_of(&mut self, extent: Extent) -> Vec<Slot> {
        let mut found = std::mem::take(&mut self.scratch);
        found.clear();
        let touched = self.pages_of(extent);
        // A discard may span the whole device: walk the shorter one.
        if touched.end - touched.start > u64::from(self.geo.slots()) {
            let holds = |home: HomePage| touched.contains(&home.0);
            found.extend(
                slots(0..self.geo.slots()).filter(|&s| self.copies.home(s).is_some_and(holds)),
            );
        } else {
            found.extend(pages(touched).flat_map(|page| self.copies.find_all(page)));
        }
        found
    }

    /// Drops the copies of the pages that an extent touches, if their state matches.
    pub(crate) fn drop_copies(&mut self, extent: Extent, these: impl Fn(CopyState) -> bool) {
        let slots = self.copies_of(extent);
        for &slot in &slots {
            if these(self.copies.state(slot)) {
                self.drop_copy(slot);
            }
        }
        self.scratch = slots;
    }

    /// Drops a copy, so that recovery does not use the copy again. If newer bytes of its page are
    /// on their way to the log, their record is enough. A tombstone behind this record would also
    /// void the newer bytes.
    pub(crate) fn drop_copy(&mut self, slot: Slot) {
        if let Some(page) = self.copies.home(slot)
            && self.is_live(slot)
            && !self.log.takes(page.0)
        {
            self.void(page, slot);
        }
        self.copies.clear(slot);
    }

    /// A slot's bytes do not match their checksum. True if the slot was the only copy.
    pub(crate) fn damaged(&mut self, slot: Slot) -> bool {
        self.stats.damaged += 1;
        match self.copies.state(slot) {
            CopyState::Dirty => true,
            _ => {
                self.drop_bad(slot);
                false
            }
        }
    }

    /// Drops a copy whose bytes are damaged, or cannot be read: they never come back.
    pub(crate) fn drop_bad(&mut self, slot: Slot) {
        if self.copies.home(slot).is_some() {
            self.copies.set_state(slot, CopyState::Suspect);
        }
        self.drop_copy(slot);
    }

    /// A home page was read whole after `since`. A copy in doubt is now proven or dropped.
    pub(crate) fn judge(&mut self, page: HomePage, sum: PageSum, since: Since) {
        let suspect = |engine: &Self| {
            engine
                .copies
                .find_all(page)
                .find(|&slot| engine.copies.state(slot) == CopyState::Suspect)
        };
        if suspect(self).is_none() || self.writes.touched(since, self.home_of(page, 1), None) {
            return;
        }
        while let Some(slot) = suspect(self) {
            if self.copies.sum(slot) == sum {
                self.copies.set_state(slot, CopyState::Clean);
                self.stats.proven += 1;
            } else {
                self.drop_copy(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_across_segments_is_a_reader_of_each() {
        let geo = Geometry::new(8, 4, 2).unwrap_or_default();
        let mut copies = Copies::new(&geo, PageMap::new(geo.slots()));
        copies.begin_read(Slot(7), 4);
        copies.begin_read(Slot(15), 1);
        let read = |copies: &Copies| [0, 1, 2].map(|segment| copies.is_read(segment));
        assert_eq!(read(&copies), [true, true, false]);
        copies.end_read(Slot(7), 4);
        assert_eq!(read(&copies), [false, true, false]);
    }
}
