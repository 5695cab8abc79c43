//! Recovering the map of an area from its checkpoint and its log. Nothing here guesses, and nothing
//! is written.

use std::collections::BTreeSet;
use std::ops::Range;

use seekless_block::{Device, Extent, Lba, PAGE_BYTES, PAGE_SECTORS};

use crate::area::attach::AttachError;
use crate::area::proof::Proof;
use crate::area::recover_log::Incomplete;
use crate::core::page_map::{CopyState, HomePage, PageMap, Slot, slots};
use crate::format::{
    AreaFlags, CheckpointHeader, CheckpointPage, Content, ENTRIES_PER_PAGE, Entry, FreeMapPage,
    Geometry, Header, LEARNED_PER_PAGE, LearnedPage, PLAN_PER_PAGE, Page, PlanHeader, PlanPage,
    Position, Problem, RUNS_PER_PAGE, Run, RunKind, Superblock, page_extent, read_superblock,
};
use crate::free_space::extents::Extents;
use crate::write_buffer::ring::{Ring, Segment};

/// More copies of a page than any policy makes. The map takes no more: each search for one of them
/// walks past the others, so a crafted area could hold up its attach and clients for hours.
const COPIES_MOST: usize = 64;

#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) superblock: Superblock,
    /// The page of the newest valid superblock.
    pub(crate) valid: u64,
    /// Pages and faults of the other copies.
    pub(crate) others: Vec<(u64, Problem)>,
    pub(crate) geo: Geometry,
    pub(crate) map: PageMap,
    pub(crate) ring: Ring,
    /// The page of the ring's head where the log goes on.
    pub(crate) page: u32,
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    pub(crate) records: u64,
    /// Runs of the plan in force: `(slot, home page, pages)`; `None` without a readable plan.
    pub(crate) plan: Option<Vec<(Slot, HomePage, u32)>>,
    /// The learned data of the adaptive policy at a clean stop.
    pub(crate) learned: Option<Vec<u8>>,
    /// Pages that the client has discarded and not written since; of these, pages that may hold
    /// bytes of replicas; and open regions.
    pub(crate) free: Extents,
    pub(crate) stained: Extents,
    open: Extents,
    /// By segment: the first home page of its replicas, and their number.
    pub(crate) places: Vec<(u32, u64, u32)>,
    /// Records that a crash cut short, or that were damaged before any later record confirmed them.
    pub(crate) incomplete: Vec<Incomplete>,
    /// Pages of the log that the device could not read.
    pub(super) unreadable: BTreeSet<u64>,
}

pub(crate) fn recover(area: &mut dyn Device) -> Result<Recovered, AttachError> {
    let mut r = begin(area)?;
    if r.superblock.checkpoint_generation > 0 {
        r.load_checkpoint(area)?;
        r.load_free_map(area)?;
    }
    let log = r.read_log(area);
    if let Some(broken) = r.broken(&log).or_else(|| log.unreadable()) {
        return Err(broken);
    }
    r.apply(area, log.records)?;
    r.find_places(area)?;
    if r.superblock.plan_generation > 0 {
        r.plan = r.load_plan(area);
    }
    if r.is_clean() && r.superblock.learned_generation > 0 {
        r.learned = r.load_learned(area);
    }
    Ok(r)
}

pub(super) fn begin(area: &mut dyn Device) -> Result<Recovered, AttachError> {
    let found = read_superblock(area, Lba(0))?;
    let superblock = found.superblock;
    if superblock.area_size > area.capacity() {
        return Err(AttachError::Shrunken {
            expected: superblock.area_size,
            found: area.capacity(),
        });
    }
    let page = found.page;
    let damaged = |error| AttachError::Damaged { what: "the superblock", page, error };
    superblock.check_counts().map_err(damaged)?;
    let geo = superblock.geometry().map_err(damaged)?;
    let mut r = Recovered {
        map: PageMap::new(geo.slots()),
        ring: Ring::default(),
        page: superblock.position.page,
        sequence: superblock.next_sequence,
        previous: superblock.previous,
        records: 0,
        plan: None,
        learned: None,
        free: Extents::default(),
        stained: Extents::default(),
        open: Extents::default(),
        places: Vec::new(),
        incomplete: Vec::new(),
        unreadable: BTreeSet::new(),
        valid: found.page,
        others: found.others,
        geo,
        superblock,
    };
    r.ring.segments = r.geo.log_segments;
    r.ring.head = r.geo.segment(r.superblock.position.segment);
    r.ring.tail = r.geo.segment(r.superblock.tail);
    Ok(r)
}

impl Recovered {
    pub(super) fn home_of(&self, page: u64) -> Extent {
        let grid = u64::from(self.superblock.grid);
        Extent::new(grid + page * PAGE_SECTORS, PAGE_SECTORS)
    }

    pub(super) fn home_pages(&self) -> u64 {
        self.superblock.home_capacity.0.saturating_sub(self.superblock.grid.into()) / PAGE_SECTORS
    }

    /// The area was detached in order, and nothing was written since.
    pub(crate) fn is_clean(&self) -> bool {
        self.superblock.flags.contains(AreaFlags::CLEAN) && self.records == 0
    }

    /// And home is unchanged since.
    pub(crate) fn is_trusted(&self, proof: &Proof) -> bool {
        self.is_clean() && proof.stamp != [0; 32] && proof.stamp == self.superblock.stamp
    }

    /// Somebody else may have written home: only pages that may hold bytes of replicas count as
    /// free.
    pub(crate) fn doubt_free(&mut self, proof: &Proof) {
        if !proof.keeps_home() && !self.is_trusted(proof) {
            self.free = self.stained.clone();
        }
    }

    pub(super) fn load_checkpoint(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let start = self.geo.checkpoint_at(self.superblock.checkpoint_slot);
        let mut page: Page = [0; PAGE_BYTES as usize];
        let damaged = |what, page| move |error| AttachError::Damaged { what, page, error };
        let what = "the checkpoint's header";
        readable(area, start, &mut page, what)?;
        let header = CheckpointHeader::decode(&page).map_err(damaged(what, start))?;
        let s = &self.superblock;
        if header.uuid != s.uuid
            || header.generation != s.checkpoint_generation
            || header.next_sequence != s.next_sequence
            || header.position != s.position
            || header.previous != s.previous
        {
            return Err(AttachError::Stranger { what, page: start });
        }
        let what = "a page of the checkpoint";
        let slots = self.geo.slots();
        let pages = u64::from(slots.div_ceil(ENTRIES_PER_PAGE));
        let mut buffer = vec![0; (pages.min(256) * PAGE_BYTES) as usize];
        let mut at = 0;
        while at < pages {
            let count = (pages - at).min(256);
            let bytes = (count * PAGE_BYTES) as usize;
            readable(area, start + 1 + at, &mut buffer[..bytes], "the checkpoint from there on")?;
            for (i, bytes) in buffer[..bytes].chunks_exact(PAGE_BYTES as usize).enumerate() {
                let number = start + 1 + at + i as u64;
                let page = CheckpointPage::decode(bytes).map_err(damaged(what, number))?;
                let first = (at as u32 + i as u32) * ENTRIES_PER_PAGE;
                if (page.uuid, page.generation, page.first)
                    != (header.uuid, header.generation, first)
                {
                    return Err(AttachError::Stranger { what, page: number });
                }
                for (slot, entry) in (first..slots).zip(&page.entries) {
                    if !self.take(Slot(slot), *entry) {
                        return Err(AttachError::Stranger { what, page: number });
                    }
                }
            }
            at += count;
        }
        Ok(())
    }

    /// The free pages at the moment of the checkpoint, in place of all that records said before.
    pub(super) fn load_free_map(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        self.free.clear();
        self.stained.clear();
        self.open.clear();
        let start = self.geo.free_map_at(self.superblock.checkpoint_slot);
        let what = "a page of the free map";
        let (uuid, generation) = (self.superblock.uuid, self.superblock.checkpoint_generation);
        let mut page: Page = [0; PAGE_BYTES as usize];
        for number in 0..self.geo.free_map_pages() {
            let at = start + u64::from(number);
            readable(area, at, &mut page, what)?;
            let read = FreeMapPage::decode(&page).map_err(|error| AttachError::Damaged {
                what,
                page: at,
                error,
            })?;
            let first = number * RUNS_PER_PAGE;
            if (read.uuid, read.generation, read.first) != (uuid, generation, first) {
                return Err(AttachError::Stranger { what, page: at });
            }
            for run in read.runs {
                if run == Run::NONE {
                    return Ok(());
                }
                if !self.take_run(run) {
                    return Err(AttachError::Stranger { what, page: at });
                }
            }
        }
        Ok(())
    }

    /// A page in the log was written after its discard: a discard voids the log's entries.
    pub(super) fn use_logged(&mut self) {
        if self.geo.free_map_pages() > 0 {
            for slot in slots(self.geo.log_slots()) {
                if let Some(HomePage(first)) = self.map.home(slot) {
                    self.take_run(Run { first, pages: 1, kind: RunKind::Used });
                }
            }
        }
    }

    /// Takes the state of home pages. False if there are no such pages.
    pub(super) fn take_run(&mut self, run: Run) -> bool {
        let pages = run.first..run.first + u64::from(run.pages);
        if pages.end > self.home_pages() {
            return false;
        }
        match run.kind {
            RunKind::Used => {
                self.free.remove(pages.clone());
                self.stained.remove(pages);
            }
            RunKind::Free => {
                self.free.insert(pages.clone());
                self.stained.remove(pages);
            }
            RunKind::Stained => {
                self.free.insert(pages.clone());
                self.stained.insert(pages);
            }
            RunKind::Open => self.open.insert(pages),
        }
        true
    }

    /// Finds the places of the map's replicas, and which pages are free after all.
    pub(super) fn find_places(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let open: Vec<_> = self.open.iter().collect();
        open.into_iter().for_each(|part| self.free.remove(part));
        self.free.extend(self.stained.iter());
        if self.geo.free_map_pages() == 0 {
            return Ok(());
        }
        for segment in 0..self.geo.read_segments {
            let of_segment = self.read_slots_of(segment);
            let first = Slot(of_segment.start);
            if slots(of_segment.clone()).all(|slot| self.map.state(slot) == CopyState::Free) {
                continue;
            }
            // An unreadable or damaged map costs its copies, no more.
            let Some((place, entries)) = self.read_map(area, segment) else {
                self.clear(of_segment);
                continue;
            };
            for slot in slots(of_segment) {
                let at = u64::from(slot - first).wrapping_sub(1);
                let stands = place.wrapping_add(at);
                let named = entries.get(at as usize).map(|e| e.home);
                let good = self.map.home(slot).is_some_and(|HomePage(home)| {
                    named == Some(home)
                        && self.stained.contains(stands)
                        && !self.free.contains(home)
                });
                if !good {
                    self.map.clear(slot);
                }
            }
            self.places.push((segment, place, entries.len() as u32));
        }
        Ok(())
    }

    /// The runs of the plan in force. A damaged plan costs its copies, no more.
    pub(super) fn load_plan(&self, area: &mut dyn Device) -> Option<Vec<(Slot, HomePage, u32)>> {
        let (start, read_slots) = (self.geo.plan_at(), self.geo.read_slots());
        let (uuid, generation) = (self.superblock.uuid, self.superblock.plan_generation);
        let mut page: Page = [0; PAGE_BYTES as usize];
        area.read(page_extent(start, 1), &mut page).ok()?;
        let header = PlanHeader::decode(&page).ok()?;
        if (header.uuid, header.generation, header.slots) != (uuid, generation, read_slots.into()) {
            return None;
        }
        let mut wants: Vec<(Slot, HomePage, u32)> = Vec::new();
        let mut first = 0;
        while first < read_slots {
            area.read(page_extent(start + 1 + u64::from(first / PLAN_PER_PAGE), 1), &mut page)
                .ok()?;
            let read = PlanPage::decode(&page).ok()?;
            if (read.uuid, read.generation, read.first) != (uuid, generation, first) {
                return None;
            }
            for (slot, home) in (first..read_slots).zip(read.wanted) {
                let Some(home) = home else { continue };
                if home >= self.home_pages() || slot.is_multiple_of(self.geo.segment_pages) {
                    return None;
                }
                match wants.last_mut() {
                    Some((s, p, n)) if s.0 + *n == slot && p.0 + u64::from(*n) == home => *n += 1,
                    _ => wants.push((Slot(slot), HomePage(home), 1)),
                }
            }
            first = first.saturating_add(PLAN_PER_PAGE);
        }
        Some(wants)
    }

    /// The learned state. If any of it is damaged, the policy begins anew.
    fn load_learned(&self, area: &mut dyn Device) -> Option<Vec<u8>> {
        let (uuid, generation) = (self.superblock.uuid, self.superblock.learned_generation);
        let length = self.superblock.learned_bytes;
        let mut learned = Vec::with_capacity(length as usize);
        let mut page: Page = [0; PAGE_BYTES as usize];
        for (first, at) in (0..length).step_by(LEARNED_PER_PAGE as usize).zip(self.geo.plan_at()..)
        {
            area.read(page_extent(at, 1), &mut page).ok()?;
            let read = LearnedPage::decode(&page).ok()?;
            if (read.uuid, read.generation, read.first) != (uuid, generation, first) {
                return None;
            }
            learned.extend(read.bytes);
        }
        learned.truncate(length as usize);
        Some(learned)
    }

    /// Takes an entry into the map. False if no such home page exists, or if more copies of it may be
    /// newer than home than in any area of seekless.
    pub(super) fn take(&mut self, slot: Slot, entry: Entry) -> bool {
        if entry.state == CopyState::Free {
            return true;
        }
        if entry.home >= self.home_pages() {
            return false;
        }
        let home = HomePage(entry.home);
        let is_dirty = entry.state == CopyState::Dirty;
        // A page may have several copies; a page in the log has one.
        if slot.0 >= self.geo.read_slots() {
            self.map.set(slot, home, entry.state, entry.sum);
        } else if is_dirty && self.has_most(home, |state| state == CopyState::Dirty) {
            return false;
        } else if !is_dirty && self.has_most(home, |_| true) {
            self.map.clear(slot);
        } else {
            self.map.add(slot, home, entry.state, entry.sum);
        }
        true
    }

    /// Whether the map has [`COPIES_MOST`] copies of a page in such a state.
    fn has_most(&self, home: HomePage, these: impl Fn(CopyState) -> bool) -> bool {
        let mut copies = self.map.find_all(home).filter(|&slot| these(self.map.state(slot)));
        copies.nth(COPIES_MOST - 1).is_some()
    }

    /// The page of the area of a slot that is in the log or a map.
    pub(super) fn page_of(&self, slot: Slot) -> u64 {
        self.geo.page_of(slot.0).unwrap_or_default()
    }

    pub(super) fn clear(&mut self, numbers: Range<u32>) {
        slots(numbers).for_each(|slot| self.map.clear(slot));
    }

    pub(super) const fn read_slots_of(&self, segment: u32) -> Range<u32> {
        let first = segment * self.geo.segment_pages;
        first..first + self.geo.segment_pages
    }

    /// A segment of the log. Unreadable pages are noted, and read as zeroes: they hold no header. A
    /// page of data stays unreadable.
    pub(super) fn read_segment(
        &mut self,
        area: &mut dyn Device,
        segment: Segment,
        buffer: &mut [u8],
    ) {
        let at = self.page_of(self.geo.first_of(segment));
        if area.read(page_extent(at, self.geo.segment_pages.into()), buffer).is_ok() {
            return;
        }
        for (page, bytes) in (at..).zip(buffer.chunks_exact_mut(PAGE_BYTES as usize)) {
            if area.read(page_extent(page, 1), bytes).is_err() {
                bytes.fill(0);
                self.unreadable.insert(page);
            }
        }
    }

    /// The map of a read segment that was written after the checkpoint. A damaged map costs its
    /// copies, no more.
    pub(super) fn load_read_segment(&mut self, area: &mut dyn Device, segment: u32) {
        let Some((_, entries)) = self.read_map(area, segment) else { return };
        for (slot, entry) in self.read_slots_of(segment).skip(1).zip(entries) {
            let most = if self.geo.free_map_pages() > 0 { u32::MAX } else { 0 };
            let log = self.geo.read_slots();
            let free = entry.state != CopyState::Free
                && self
                    .map
                    .find_all(HomePage(entry.home))
                    .zip(0..)
                    .all(|(s, n)| s.0 < log && n < most);
            if free {
                self.take(Slot(slot), entry);
            }
        }
    }

    /// The map of a read segment: the first home page of its replicas, and its entries. `None` if
    /// the map is unreadable, damaged or of another area.
    fn read_map(&self, area: &mut dyn Device, segment: u32) -> Option<(u64, Vec<Entry>)> {
        let mut page: Page = [0; PAGE_BYTES as usize];
        let first = Slot(self.read_slots_of(segment).start);
        area.read(page_extent(self.page_of(first), 1), &mut page).ok()?;
        let Header { uuid, position, durable, content, .. } = Header::decode(&page).ok()?;
        let ours = uuid == self.superblock.uuid && position == Position { segment, page: 0 };
        match content {
            Content::ReadMap(entries) if ours => Some((durable, entries)),
            _ => None,
        }
    }

    /// From now on no page counts as free, and no replica is used. Returns the pages that may hold
    /// bytes of replicas, as far as the area tells: those called stained, and the places in the
    /// maps of all read segments.
    pub(super) fn forget_free(&mut self, area: &mut dyn Device) -> Extents {
        let mut stained = std::mem::take(&mut self.stained);
        self.free.clear();
        self.open.clear();
        self.places.clear();
        self.clear(0..self.geo.read_slots());
        for segment in 0..self.geo.read_segments {
            if let Some((place, entries)) = self.read_map(area, segment) {
                let end = place.saturating_add(entries.len() as u64).min(self.home_pages());
                stained.insert(place..end);
            }
        }
        stained
    }
}

/// Reads essential pages.
fn readable(
    area: &mut dyn Device,
    page: u64,
    bytes: &mut [u8],
    what: &'static str,
) -> Result<(), AttachError> {
    let pages = bytes.len() as u64 / PAGE_BYTES;
    area.read(page_extent(page, pages), bytes).map_err(|_| AttachError::Unreadable { what, page })
}
