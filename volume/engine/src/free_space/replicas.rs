//! Where replicas stand (FS2, SOSP'05, 2.3): each read segment is bound to a run of free pages of
//! home, so a slot is a page there. This module also finds a slot by its home page, and knows how
//! hot each segment is. A client never waits for replicas, and never sees less space: its writes
//! take their place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;

use seekless_block::{Extent, Lba, PAGE_SECTORS, Sectors};
use seekless_learn::{AnsweredReads, Replica};

use crate::core::page_map::{CopyState, HomePage, Slot, slots};
use crate::format::Geometry;
use crate::free_space::extents::Extents;
use crate::{Engine, Pending, Target};

/// The worth of one use, in uses of other segments that come later. The victim is the least
/// recently and least frequently used segment.
const USE: u64 = 32;
/// Most segments examined at once for a free one. A request waits for no more than that.
pub(super) const LOOKS: usize = 64;
/// Slots, and free ranges, in one [`RoomPart`].
const SLOTS: u32 = 1 << 16;
const RANGES: usize = 1 << 12;

/// A segment's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) first: u64,
    pub(crate) pages: u32,
    /// The count of uses at its binding: a unique number.
    since: u64,
    uses: u64,
    used_at: u64,
}

impl Bound {
    /// Never falls while the segment is bound.
    const fn heat(&self) -> u64 {
        self.used_at + self.uses * USE
    }
}

/// Where replicas may stand, and which pages have one. This is a part of the whole, as there may be
/// millions of both.
#[derive(Clone, Debug, Default)]
pub struct RoomPart {
    /// Free pages of home without a bound or requested replica, in order.
    pub free: Vec<Extent>,
    /// First sectors of home pages that have a replica, each with the replica's present or future
    /// place; in no order.
    pub placed: Vec<(Lba, Lba)>,
    /// Where the next part begins; `None` after the last.
    pub next: Option<RoomFrom>,
}

/// Where a [`RoomPart`] begins; the default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomFrom {
    page: u64,
    slot: u32,
}

/// Pages to be written side by side: at most a segment.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) first: u64,
    pub(crate) homes: Vec<u64>,
    /// A client waits for them.
    pub(crate) soon: bool,
}

/// Progress of replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicated {
    /// Usable replicas.
    pub standing: Sectors,
    /// Free pages of home that replicas are bound to.
    pub bound: Sectors,
    /// Requested, not begun.
    pub waiting: Sectors,
    /// Too little of home is free: replication pauses.
    pub suspended: bool,
    /// Free pages of home that may hold bytes of replicas.
    pub stained: Sectors,
    /// Pages of home that the client has discarded and not written since.
    pub free: Sectors,
    /// All pages of home, of which the watermarks are shares.
    pub home: Sectors,
    /// Most replicas.
    pub room: Sectors,
    /// Replicas are requested or being written.
    pub under_way: bool,
    /// The answers to clients' reads.
    pub answered: AnsweredReads,
}

#[derive(Debug, Default)]
pub(crate) struct Replicas {
    per: u32,
    /// By segment; empty if copies stand in the area.
    pub(super) bound: Vec<Option<Bound>>,
    /// Every unbound segment, and some bound ones.
    spare: VecDeque<u32>,
    /// Every bound segment, at most as hot as its entry says: heat, segment, `since`. Some entries
    /// are out of date.
    by_heat: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// The next segment to examine for having lost all its replicas.
    pub(super) look: u32,
    /// First home page to segment.
    pub(super) by_place: BTreeMap<u64, u32>,
    pub(super) bound_pages: u64,
    pub(crate) asked: VecDeque<Batch>,
    /// Where the last I/O that was sent home ends: a guess of the head's position. The paper's
    /// driver has the last I/O that the drive served (2.3).
    pub(crate) head: Lba,
    uses: u64,
    /// Reads that replicas answered.
    reads: u64,
    pub(crate) suspended: bool,
    pub(crate) withdrawing: bool,
}

impl Replicas {
    pub(crate) fn new(geo: &Geometry) -> Self {
        let segments = if geo.free_map_pages() > 0 { geo.read_segments } else { 0 };
        Self {
            per: geo.segment_pages,
            bound: vec![None; segments as usize],
            spare: (0..segments).collect(),
            ..Self::default()
        }
    }

    /// The home page of a replica's slot; `None` for other slots.
    pub(crate) fn place(&self, slot: Slot) -> Option<u64> {
        let bound = (*self.bound.get((slot.0 / self.per.max(1)) as usize)?)?;
        let at = (slot.0 % self.per).checked_sub(1)?;
        (at < bound.pages).then(|| bound.first + u64::from(at))
    }

    pub(crate) fn is_bound(&self, segment: u32) -> bool {
        self.bound.get(segment as usize).is_some_and(Option::is_some)
    }

    /// The segments bound to any of these pages, and the slots of these pages.
    pub(super) fn slots_at(&self, pages: Range<u64>) -> Vec<(u32, Range<u32>)> {
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
        let bound = Bound { first, pages, since: self.uses, uses: 0, used_at: self.uses };
        if let Some(at) = self.bound.get_mut(segment as usize) {
            *at = Some(bound);
            if self.by_heat.len() > 2 * self.bound.len() {
                let entry = |(b, segment): (&Option<Bound>, u32)| {
                    b.map(|b| Reverse((b.heat(), segment, b.since)))
                };
                self.by_heat = self.bound.iter().zip(0..).filter_map(entry).collect();
            } else {
                self.by_heat.push(Reverse((bound.heat(), segment, bound.since)));
            }
            self.by_place.insert(first, segment);
            self.bound_pages += u64::from(pages);
        }
    }

    pub(crate) fn unbind(&mut self, segment: u32) {
        if let Some(bound) = self.bound.get_mut(segment as usize).and_then(Option::take) {
            self.by_place.remove(&bound.first);
            self.spare.push_back(segment);
            self.bound_pages -= u64::from(bound.pages);
        }
    }

    /// A replica in this slot was read.
    pub(crate) fn touch(&mut self, slot: Slot) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(Some(bound)) = self.bound.get_mut((slot.0 / self.per.max(1)) as usize) {
            (bound.uses, bound.used_at) = (bound.uses + 1, uses);
            self.reads += 1;
        }
    }

    /// The least recently and least frequently used segment.
    pub(super) fn coldest(&mut self) -> Option<u32> {
        // An entry for a segment that was used since is out of date, and is replaced: at most once
        // per use.
        while let Some(&Reverse((heat, segment, since))) = self.by_heat.peek() {
            match self.bound[segment as usize].filter(|b| b.since == since).map(|b| b.heat()) {
                Some(now) if now == heat => return Some(segment),
                Some(now) => {
                    self.by_heat.pop();
                    self.by_heat.push(Reverse((now, segment, since)));
                }
                None => {
                    self.by_heat.pop();
                }
            }
        }
        None
    }

    /// An unbound segment that nobody reads any more.
    pub(super) fn take_spare(&mut self, read: impl Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..LOOKS {
            let segment = self.spare.pop_front()?;
            if self.is_bound(segment) {
                continue;
            }
            if !read(segment) {
                return Some(segment);
            }
            self.spare.push_back(segment);
        }
        None
    }

    /// The bound runs that touch these pages, whole.
    pub(super) fn runs_at(&self, pages: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let at = self.slots_at(pages.clone()).into_iter();
        at.filter_map(|(segment, _)| {
            let bound = self.bound[segment as usize]?;
            Some(bound.first..bound.first + u64::from(bound.pages))
        })
    }
}

impl Engine {
    /// Progress of replication; `None` if copies stand in the area.
    pub fn replicated(&self) -> Option<Replicated> {
        let pages = |n: u64| Sectors(n * PAGE_SECTORS);
        self.free.used.then(|| Replicated {
            standing: self.copied(),
            bound: pages(self.free.replicas.bound_pages),
            waiting: pages(self.free.replicas.asked.iter().map(|b| b.homes.len() as u64).sum()),
            suspended: self.free.replicas.suspended,
            stained: pages(self.free.map.stained.pages()),
            free: pages(self.free.map.free.pages()),
            home: pages(self.free.map.home_pages),
            room: self.geo.capacity(),
            under_way: self.is_replicating(),
            answered: AnsweredReads {
                home: self.stats.home_reads,
                replicas: self.free.replicas.reads,
            },
        })
    }

    /// Whether the home page that begins at this sector has a usable copy.
    pub fn has_copy(&self, home: Lba) -> bool {
        let page = self.pages_of(Extent::new(home.0, PAGE_SECTORS)).start;
        matches!(self.copies.state_of(HomePage(page)), Some(CopyState::Clean | CopyState::Dirty))
    }

    /// Places of all replicas of the home page that begins at this sector, in any state.
    pub fn replicas_of(&self, home: Lba) -> impl Iterator<Item = Lba> + '_ {
        let page = self.pages_of(Extent::new(home.0, PAGE_SECTORS)).start;
        let places =
            self.copies.find_all(HomePage(page)).filter_map(|slot| self.free.replicas.place(slot));
        places.map(|place| self.home_of(place, 1).start)
    }

    /// Whether a home page may get one more replica: it has fewer than its limit, and no copy of it
    /// is in doubt or in the write buffer.
    pub(crate) fn may_have_another(&self, page: HomePage) -> bool {
        let mut replicas = 0;
        let fine = self.copies.find_all(page).all(|slot| {
            replicas += 1;
            !self.copies.is_log(slot) && self.copies.state(slot) == CopyState::Clean
        });
        fine && replicas < self.config.degree.max(1)
    }

    /// Whether replicas are requested or being written.
    pub fn is_replicating(&self) -> bool {
        !self.free.replicas.asked.is_empty() || self.background.replicating().is_some()
    }

    /// A part of the space for replicas, and of the pages that have one. Changes meanwhile may be
    /// missing: the engine refuses replicas that do not fit any more.
    pub fn room_part(&self, from: RoomFrom) -> RoomPart {
        let all = if self.free.used { self.geo.read_slots() } else { 0 };
        let end = from.slot.saturating_add(SLOTS).min(all);
        let standing = slots(from.slot..end)
            .filter_map(|slot| Some((self.copies.home(slot)?.0, self.free.replicas.place(slot)?)));
        let asked = self.free.replicas.asked.iter().filter(|_| from == RoomFrom::default());
        let asked = asked.flat_map(|batch| batch.homes.iter().copied().zip(batch.first..));
        let first = |page| self.home_of(page, 1).start;
        let placed = standing.chain(asked).map(|(home, at)| (first(home), first(at))).collect();
        let (free, page) = self.room_from(from.page, RANGES);
        let page = page.unwrap_or(self.free.map.home_pages);
        let over = end >= all && page >= self.free.map.home_pages;
        let next = (!over).then_some(RoomFrom { page, slot: end });
        RoomPart { free, placed, next }
    }

    /// The room in this many free ranges from a page on, and the page behind them if there are
    /// more.
    fn room_from(&self, page: u64, ranges: usize) -> (Vec<Extent>, Option<u64>) {
        let mut room = Extents::default();
        room.extend(self.free.map.free.within(page..self.free.map.home_pages).take(ranges));
        let Some(first) = room.iter().next().map(|part| part.start) else {
            return (Vec::new(), None);
        };
        let mut last = room.iter().last().map_or(first, |part| part.end);
        let mut more = room.len() >= ranges;
        // Many runs of replicas may stand in a single range.
        if let Some((&run, _)) =
            self.free.replicas.by_place.range(first + 1..last.max(first + 1)).nth(ranges)
        {
            room.remove(run..last);
            (last, more) = (run, true);
        }
        for (segment, _) in self.free.replicas.slots_at(first..last) {
            if let Some(bound) = self.free.replicas.bound[segment as usize] {
                room.remove(bound.first..bound.first + u64::from(bound.pages));
            }
        }
        for batch in &self.free.replicas.asked {
            room.remove(batch.first..batch.first + batch.homes.len() as u64);
        }
        let free = room.iter().map(|part| self.home_of(part.start, part.end - part.start));
        (free.collect(), more.then_some(last))
    }

    /// Free pages of home without a bound or requested replica, in order.
    pub fn room_for_replicas(&self) -> Vec<Extent> {
        self.room_from(0, usize::MAX).0
    }

    /// Whether [`crate::Input::Withdraw`] is in progress.
    pub const fn is_withdrawing(&self) -> bool {
        self.free.replicas.withdrawing
    }

    pub(crate) fn ask_for_replicas(&mut self, list: &[Replica], soon: bool) {
        if !self.free.used || self.free.replicas.withdrawing {
            self.stats.replicas_refused += list.len() as u64;
            return;
        }
        let room = u64::from(self.geo.segment_pages - 1);
        let asked = &self.free.replicas.asked;
        let mut at = if soon { asked.iter().take_while(|b| b.soon).count() } else { asked.len() };
        for replica in list {
            let mut first = self.pages_of(Extent::new(replica.place.0, PAGE_SECTORS)).start;
            let homes: Vec<u64> =
                replica.homes.iter().flat_map(|&e| self.whole_pages_of(e)).collect();
            for some in homes.chunks(room as usize) {
                self.free.replicas.asked.insert(at, Batch { first, homes: some.to_vec(), soon });
                at += 1;
                first += some.len() as u64;
            }
        }
    }

    /// The client takes these pages of home: replicas there are no longer used or written.
    pub(crate) fn drop_places(&mut self, pages: Range<u64>) {
        self.background.overtake_places(pages.clone());
        if self.free.replicas.by_place.is_empty() {
            return;
        }
        for (_, taken) in self.free.replicas.slots_at(pages) {
            for slot in slots(taken) {
                if self.copies.state(slot) != CopyState::Free {
                    self.stats.yielded += 1;
                    self.copies.clear(slot);
                }
            }
        }
    }

    /// Whether a replica stands in any of these pages of home, in any state.
    pub(crate) fn has_replica_at(&self, pages: Range<u64>) -> bool {
        let taken = self.free.replicas.slots_at(pages).into_iter();
        taken
            .flat_map(|(_, taken)| slots(taken))
            .any(|slot| self.copies.state(slot) != CopyState::Free)
    }

    /// Forgets a segment's replicas. Their bytes stay where they are, stained.
    pub(crate) fn drop_segment(&mut self, segment: u32) {
        let first = segment * self.geo.segment_pages;
        for slot in slots(first..first + self.geo.segment_pages) {
            if self.copies.state(slot) != CopyState::Free {
                self.stats.yielded += 1;
                self.copies.clear(slot);
            }
        }
        self.free.replicas.unbind(segment);
    }

    /// Whether a replica in these sectors of home is being read.
    pub(crate) fn replica_is_read(&self, home: Extent) -> bool {
        self.pending.iter().flatten().any(|pending| match pending {
            Pending::Read(read) | Pending::Summing(read) => read.reads_replica(home),
            _ => false,
        })
    }

    /// Whether anything in these sectors of home is being read.
    pub(crate) fn home_is_read(&self, home: Extent) -> bool {
        self.pending.iter().flatten().any(|pending| match pending {
            Pending::Read(read) | Pending::Summing(read) => read.reads(Target::Home, home),
            _ => false,
        })
    }

    /// The distance of a slot at home from the head (2.3).
    pub(crate) fn way_to(&self, slot: Slot) -> Option<u64> {
        let page = self.free.replicas.place(slot)?;
        Some(self.free.replicas.head.0.abs_diff(self.home_of(page, 1).start.0))
    }

    /// Whether a replica is nearer to the head than its home.
    pub(crate) fn is_nearer(&self, slot: Slot, home: Lba) -> bool {
        self.way_to(slot).is_none_or(|way| way < self.free.replicas.head.0.abs_diff(home.0))
    }

    /// Forgets all replicas and begins to write zeroes where they stood.
    pub(crate) fn withdraw(&mut self) {
        if !self.free.used {
            return;
        }
        self.free.replicas.asked.clear();
        self.free.replicas.withdrawing = true;
        let busy = self.background.replicating();
        for segment in 0..self.free.replicas.bound.len() as u32 {
            if Some(segment) != busy {
                self.drop_segment(segment);
            }
        }
        self.background.clean_not_before = self.background.now;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Config;
    use proptest::prelude::*;
    use seekless_block::Bytes;

    /// Home of 64 MiB, of which `free` is free, and replicas of 16 MiB at most.
    pub(in crate::free_space) fn engine(free: &[(u64, u64)]) -> Engine {
        let config = Config {
            area: Bytes(64 << 20).sectors_ceil(),
            replicas: Bytes(16 << 20).sectors_ceil(),
            ..Config::new(Bytes(64 << 20).sectors_ceil())
        };
        let mut engine = Engine::new(config);
        engine.seed_free(free.iter().map(|&(at, len)| Extent::new(at * 8, len * 8)));
        engine
    }

    proptest! {
        #[test]
        fn the_coldest_and_a_spare_one_are_what_a_look_at_all_finds(
            steps in prop::collection::vec((0u32..4, 0u32..12), 1..200),
        ) {
            let mut all = engine(&[(0, 16_000)]).free.replicas;
            let count = all.bound.len() as u32;
            prop_assert!(count >= 12);
            for (what, segment) in steps {
                match what {
                    0 => all.bind(segment, u64::from(segment) * 300, 200),
                    1 => all.unbind(segment),
                    2 => all.touch(Slot(segment * all.per + 3)),
                    _ => {
                        if let Some(spare) = all.take_spare(|s| s == segment) {
                            prop_assert!(!all.is_bound(spare) && spare != segment);
                            all.bind(spare, u64::from(spare) * 300, 200);
                        } else {
                            prop_assert!((0..count).all(|s| all.is_bound(s) || s == segment));
                        }
                    }
                }
                let heats = all.bound.iter().filter_map(|b| b.map(|b| b.heat()));
                let least = heats.min();
                let found = all.coldest();
                prop_assert_eq!(found.and_then(|s| all.bound[s as usize]).map(|b| b.heat()), least);
                prop_assert!(all.by_heat.len() <= 2 * count as usize + 1);
                let spare = (0..count).filter(|&s| !all.is_bound(s));
                let known = spare.clone().filter(|s| all.spare.contains(s)).count();
                prop_assert_eq!(known, spare.count(), "a segment is lost");
            }
        }

        #[test]
        fn parts_of_the_room_are_the_whole(
            free in prop::collection::vec((0u64..16_000, 1u64..900), 1..12),
            bound in prop::collection::vec(0usize..2000, 0..10),
            ranges in 1usize..4,
        ) {
            let mut engine = engine(&free);
            let mut left = engine.free.map.free.clone();
            for (segment, at) in (0u32..).zip(bound) {
                let Some(first) = left.iter().flatten().nth(at) else { continue };
                let Some(part) = left.within(first..first + 40).next() else { continue };
                left.remove(part.clone());
                engine.free.replicas.bind(segment, part.start, (part.end - part.start) as u32);
            }
            let sectors = |parts: Vec<Extent>| -> Vec<u64> {
                parts.iter().flat_map(|e| e.start.0..e.end().0).collect()
            };
            let expected: Vec<u64> = left.iter().flatten().flat_map(|p| p * 8..p * 8 + 8).collect();
            prop_assert_eq!(&sectors(engine.room_for_replicas()), &expected);
            let (mut parts, mut page) = (Vec::new(), Some(0));
            while let Some(from) = page {
                let (some, next) = engine.room_from(from, ranges);
                prop_assert!(next.is_none_or(|n| n > from));
                parts.extend(some);
                page = next;
            }
            prop_assert_eq!(sectors(parts), expected);
        }
    }

    #[test]
    fn every_part_is_asked_for() {
        let engine = engine(&[(0, 16_000)]);
        let part = engine.room_part(RoomFrom::default());
        assert_eq!((part.next, part.free.len()), (None, 1));
        let from = RoomFrom { page: 15_000, slot: u32::MAX };
        assert_eq!(engine.room_part(from).free, [Extent::new(15_000 * 8, 8000)]);
    }
}
