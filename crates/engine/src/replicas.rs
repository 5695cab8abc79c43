//! Where replicas stand (FS2, SOSP'05, 2.3): each segment for reading is bound to a run of free pages of home, so that a
//! slot is a page there; back from a page of home to the slot; how hot each segment is; and the watermarks at which
//! replicas give way. The client never waits for any of it, and never sees less space: what it writes takes the place.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use seekless_block::{Extent, Lba, PAGE_SECTORS, Sectors};
use seekless_layout::Replica;

use crate::pagemap::State;
use crate::shape::Shape;
use crate::{Engine, Pending, Target};

/// Replication stops where less than this share of home, in percent, is free of data and replicas, and the coldest
/// replicas go (3.2: the low watermark).
const LOW: u64 = 10;
/// It goes on once this much is (the high watermark).
const HIGH: u64 = 15;
/// Below this, whole regions go at once (the critical watermark).
const CRITICAL: u64 = 5;
/// What one use is worth in uses of others that came later: least recently and least frequently used go first.
const USE: u64 = 32;

/// A segment's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) first: u64,
    pub(crate) pages: u32,
    uses: u64,
    used_at: u64,
}

/// Pages to be written side by side: at most a segment.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) first: u64,
    pub(crate) homes: Vec<u64>,
}

/// How far replication has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicated {
    /// Replicas that may be used.
    pub standing: Sectors,
    /// Free pages of home that replicas are bound to.
    pub bound: Sectors,
    /// Asked for and not begun.
    pub waiting: Sectors,
    /// Too little of home is free: nothing is replicated.
    pub suspended: bool,
    /// Free pages of home that may hold bytes of replicas.
    pub stained: Sectors,
    /// Pages of home that the client has discarded and not written since.
    pub free: Sectors,
    /// All pages of home, of which the watermarks are shares.
    pub home: Sectors,
    /// Replicas at most.
    pub room: Sectors,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    per: u32,
    /// By segment; empty where copies stand in the area.
    bound: Vec<Option<Bound>>,
    /// First home page to segment.
    by_place: BTreeMap<u64, u32>,
    bound_pages: u64,
    pub(crate) asked: VecDeque<Batch>,
    /// Where the last I/O at home ended: as near as a driver gets to where the head is (2.3).
    pub(crate) head: Lba,
    uses: u64,
    pub(crate) suspended: bool,
    pub(crate) withdrawing: bool,
}

impl Replicas {
    pub(crate) fn new(geo: &Shape) -> Self {
        let segments = if geo.free_map_pages() > 0 { geo.read_segments } else { 0 };
        Self { per: geo.segment_pages, bound: vec![None; segments as usize], ..Self::default() }
    }

    /// The home page that a slot is.
    pub(crate) fn place(&self, slot: u32) -> Option<u64> {
        let bound = (*self.bound.get((slot / self.per.max(1)) as usize)?)?;
        let at = (slot % self.per).checked_sub(1)?;
        (at < bound.pages).then(|| bound.first + u64::from(at))
    }

    pub(crate) fn is_bound(&self, segment: u32) -> bool {
        self.bound.get(segment as usize).is_some_and(Option::is_some)
    }

    /// The segments bound to any of these pages, and the slots that these are.
    fn slots_at(&self, pages: Range<u64>) -> Vec<(u32, Range<u32>)> {
        let before = self.by_place.range(..=pages.start).next_back();
        let rest =
            self.by_place.range(pages.start.saturating_add(1)..pages.end.max(pages.start + 1));
        let mut found = Vec::new();
        for (&first, &segment) in before.into_iter().chain(rest) {
            let Some(bound) = self.bound[segment as usize] else { continue };
            let from = pages.start.max(first);
            let to = pages.end.min(first + u64::from(bound.pages));
            if from < to {
                let slot = segment * self.per + 1;
                found.push((segment, slot + (from - first) as u32..slot + (to - first) as u32));
            }
        }
        found
    }

    pub(crate) fn bind(&mut self, segment: u32, first: u64, pages: u32) {
        self.unbind(segment);
        self.uses += 1;
        let bound = Bound { first, pages, uses: 0, used_at: self.uses };
        if let Some(at) = self.bound.get_mut(segment as usize) {
            *at = Some(bound);
            self.by_place.insert(first, segment);
            self.bound_pages += u64::from(pages);
        }
    }

    pub(crate) fn unbind(&mut self, segment: u32) {
        if let Some(bound) = self.bound.get_mut(segment as usize).and_then(Option::take) {
            self.by_place.remove(&bound.first);
            self.bound_pages -= u64::from(bound.pages);
        }
    }

    /// A replica in this slot was read.
    pub(crate) fn touch(&mut self, slot: u32) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(Some(bound)) = self.bound.get_mut((slot / self.per.max(1)) as usize) {
            (bound.uses, bound.used_at) = (bound.uses + 1, uses);
        }
    }

    /// The least recently and least frequently used segment.
    fn coldest(&self) -> Option<u32> {
        let bound = self.bound.iter().zip(0..).filter_map(|(b, segment)| Some((segment, (*b)?)));
        bound.min_by_key(|(_, b)| b.used_at + b.uses * USE).map(|(segment, _)| segment)
    }

    /// Pages bound.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.bound.iter().flatten().map(|b| b.first..b.first + u64::from(b.pages))
    }
}

impl Engine {
    /// How far replication has come; `None` where copies stand in the area.
    #[must_use]
    pub fn replicated(&self) -> Option<Replicated> {
        let pages = |n: u64| Sectors(n * PAGE_SECTORS);
        self.free.on.then(|| Replicated {
            standing: self.copied(),
            bound: pages(self.replicas.bound_pages),
            waiting: pages(self.replicas.asked.iter().map(|b| b.homes.len() as u64).sum()),
            suspended: self.replicas.suspended,
            stained: pages(self.free.stained.pages()),
            free: pages(self.free.free.pages()),
            home: pages(self.free.home_pages),
            room: self.geo.room(),
        })
    }

    /// Whether the home page that begins at this sector has a copy that may be used.
    #[must_use]
    pub fn has_copy(&self, home: Lba) -> bool {
        let page = self.pages_of(Extent::new(home.0, PAGE_SECTORS)).start;
        matches!(self.state_of(page), Some(State::Clean | State::Dirty))
    }

    /// Where replicas of the home page that begins at this sector stand, whatever is known of them.
    pub fn replicas_of(&self, home: Lba) -> impl Iterator<Item = Lba> + '_ {
        let page = self.pages_of(Extent::new(home.0, PAGE_SECTORS)).start;
        let places = self.map.find_all(page).filter_map(|slot| self.replicas.place(slot));
        places.map(|place| self.home_of(place, 1).start)
    }

    /// Whether one more replica of a home page may be made: it has fewer than it may, and nothing of it is in doubt or in
    /// the write buffer.
    pub(crate) fn may_have_another(&self, page: u64) -> bool {
        let mut replicas = 0;
        let fine = self.map.find_all(page).all(|slot| {
            replicas += 1;
            !self.is_log(slot) && self.map.state(slot) == State::Clean
        });
        fine && replicas < self.config.degree.max(1)
    }

    /// Whether replicas are asked for, or on their way.
    #[must_use]
    pub fn is_replicating(&self) -> bool {
        !self.replicas.asked.is_empty() || self.background.replicating().is_some()
    }

    /// First sectors of the home pages that have a replica, or are about to, in no order: there may be millions.
    #[must_use]
    pub fn replicated_homes(&self) -> Vec<Lba> {
        let slots = if self.free.on { self.geo.read_slots() } else { 0 };
        let standing = (0..slots).filter_map(|slot| self.map.home(slot));
        let asked = self.replicas.asked.iter().flat_map(|batch| batch.homes.iter().copied());
        standing.chain(asked).map(|page| self.home_of(page, 1).start).collect()
    }

    /// Where free pages of home are that no replica is bound to or asked for, in order.
    #[must_use]
    pub fn room_for_replicas(&self) -> Vec<Extent> {
        let mut room = self.free.free.clone();
        self.replicas.runs().for_each(|run| room.remove(run));
        for batch in &self.replicas.asked {
            room.remove(batch.first..batch.first + batch.homes.len() as u64);
        }
        room.iter().map(|part| self.home_of(part.start, part.end - part.start)).collect()
    }

    /// Whether [`crate::Input::Withdraw`] is under way.
    #[must_use]
    pub const fn is_withdrawing(&self) -> bool {
        self.replicas.withdrawing
    }

    /// Takes up a list of replicas.
    pub(crate) fn ask_for_replicas(&mut self, list: &[Replica]) {
        if !self.free.on || self.replicas.withdrawing {
            self.stats.replicas_refused += list.len() as u64;
            return;
        }
        let room = u64::from(self.geo.segment_pages - 1);
        for replica in list {
            let mut first = self.pages_of(Extent::new(replica.place.0, PAGE_SECTORS)).start;
            let homes: Vec<u64> =
                replica.homes.iter().flat_map(|&e| self.whole_pages_of(e)).collect();
            for some in homes.chunks(room as usize) {
                self.replicas.asked.push_back(Batch { first, homes: some.to_vec() });
                first += some.len() as u64;
            }
        }
    }

    /// The client takes these pages of home: what stands there of replicas is no longer used, nor written.
    pub(crate) fn drop_places(&mut self, pages: Range<u64>) {
        self.background.overtake_places(pages.clone());
        if self.replicas.by_place.is_empty() {
            return;
        }
        for (_, slots) in self.replicas.slots_at(pages) {
            for slot in slots {
                if self.map.state(slot) != State::Free {
                    self.stats.yielded += 1;
                    self.map.clear(slot);
                }
            }
        }
    }

    /// Whether a replica stands in any of these pages of home, whatever is known of it.
    pub(crate) fn has_replica_at(&self, pages: Range<u64>) -> bool {
        let mut slots = self.replicas.slots_at(pages).into_iter().flat_map(|(_, slots)| slots);
        slots.any(|slot| self.map.state(slot) != State::Free)
    }

    /// Forgets a segment's replicas. Their bytes stay where they are, stained.
    pub(crate) fn drop_segment(&mut self, segment: u32) {
        let first = segment * self.geo.segment_pages;
        for slot in first..first + self.geo.segment_pages {
            if self.map.state(slot) != State::Free {
                self.stats.yielded += 1;
                self.map.clear(slot);
            }
        }
        self.replicas.unbind(segment);
    }

    /// Pages of home that are free of data and of replicas.
    fn spare(&self) -> u64 {
        self.free.free.pages().saturating_sub(self.replicas.bound_pages)
    }

    /// Whether so many pages may be replicated now.
    pub(crate) fn may_replicate(&self, pages: u64) -> bool {
        !self.replicas.suspended
            && self.spare().saturating_sub(pages) * 100 >= self.free.home_pages * LOW
    }

    /// Gives way where little is free (3.2).
    pub(crate) fn yield_space(&mut self) {
        let home = self.free.home_pages;
        let is_below = |engine: &Self, percent: u64| engine.spare() * 100 < home * percent;
        if !is_below(self, HIGH) {
            self.replicas.suspended = false;
            return;
        }
        if !is_below(self, LOW) {
            return;
        }
        self.replicas.suspended = true;
        let busy = self.background.replicating();
        if is_below(self, CRITICAL) {
            let region = self.free.region_pages();
            let mut from = 0;
            while is_below(self, LOW)
                && let Some((&first, _)) = self.replicas.by_place.range(from..).next()
            {
                from = (first / region + 1) * region;
                let there: Vec<u32> =
                    self.replicas.by_place.range(first..from).map(|(_, &s)| s).collect();
                for segment in there.into_iter().filter(|&s| Some(s) != busy) {
                    self.drop_segment(segment);
                }
            }
        } else {
            while is_below(self, LOW)
                && let Some(segment) = self.replicas.coldest().filter(|&s| Some(s) != busy)
            {
                self.drop_segment(segment);
            }
        }
    }

    /// A segment to be written anew: one that is not bound, one whose replicas are all gone, or the coldest.
    pub(crate) fn take_segment(&mut self) -> Option<u32> {
        let count = self.replicas.bound.len() as u32;
        let read = |engine: &Self, segment: u32| engine.readers[segment as usize] > 0;
        if let Some(free) = (0..count).find(|&s| !self.replicas.is_bound(s) && !read(self, s)) {
            return Some(free);
        }
        let per = self.geo.segment_pages;
        let empty =
            |s: u32| (s * per..(s + 1) * per).all(|slot| self.map.state(slot) == State::Free);
        let taken =
            (0..count).find(|&s| !read(self, s) && empty(s)).or_else(|| self.replicas.coldest())?;
        if read(self, taken) {
            return None;
        }
        self.drop_segment(taken);
        Some(taken)
    }

    /// Whether replicas that could be used stand in any of these pages; those that cannot make room.
    pub(crate) fn is_taken(&mut self, pages: Range<u64>) -> bool {
        for (segment, _) in self.replicas.slots_at(pages) {
            let first = segment * self.geo.segment_pages;
            let mut slots = first..first + self.geo.segment_pages;
            if slots.any(|slot| self.map.state(slot) != State::Free) {
                return true;
            }
            self.replicas.unbind(segment);
        }
        false
    }

    /// Whether a replica is just being read in these sectors of home.
    pub(crate) fn replica_is_read(&self, home: Extent) -> bool {
        self.pending.iter().flatten().any(|pending| match pending {
            Pending::Read(read) | Pending::Summing(read) => read.reads_replica(home),
            _ => false,
        })
    }

    /// Whether anything is just being read in these sectors of home.
    pub(crate) fn home_is_read(&self, home: Extent) -> bool {
        self.pending.iter().flatten().any(|pending| match pending {
            Pending::Read(read) | Pending::Summing(read) => read.reads(Target::Home, home),
            _ => false,
        })
    }

    /// How far from the head a slot is that is a page of home (2.3).
    pub(crate) fn way_to(&self, slot: u32) -> Option<u64> {
        let page = self.replicas.place(slot)?;
        Some(self.replicas.head.0.abs_diff(self.home_of(page, 1).start.0))
    }

    /// Whether a replica is nearer to the head than its home.
    pub(crate) fn is_nearer(&self, slot: u32, home: Lba) -> bool {
        self.way_to(slot).is_none_or(|way| way < self.replicas.head.0.abs_diff(home.0))
    }

    /// Forgets all replicas and begins to write zeroes where they stood.
    pub(crate) fn withdraw(&mut self) {
        if !self.free.on {
            return;
        }
        self.replicas.asked.clear();
        self.replicas.withdrawing = true;
        let busy = self.background.replicating();
        for segment in 0..self.replicas.bound.len() as u32 {
            if Some(segment) != busy {
                self.drop_segment(segment);
            }
        }
        self.background.clean_not_before = self.background.now;
    }
}
