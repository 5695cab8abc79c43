//! Reads of the trail: the choice of the copy to read, the length of the read, and the pages to
//! append.

use std::ops::Range;

use super::features::Features;
use super::trail::Trail;
use super::trail_features::{TrailPlace, TrailTrigger};
use super::{Adaptive, View, Window, WindowId};

/// Slots of the trail that one read may take.
pub const TRAIL_WINDOW: u32 = 256;
/// Pages that a read may take on any disk.
const LEAST: u32 = 32;
/// Longest transfer of a read, in accesses: another request waits for the end of this read.
const LONGEST: f32 = 1.5;
/// Share of the expected saving that counts.
const CAUTION: f32 = 0.9;
/// Slots before a copy that tell whether its run is the one that clients repeat now.
const CONTEXT: u32 = 16;
/// A page was used recently if it is among this number of last first uses.
const RECENTLY: u32 = 32;

/// The information from earlier copies, while the policy computes the value of a read of the trail
/// slot by slot.
struct TrailWalk {
    trigger: TrailTrigger,
    /// Copies beside the demanded pages so far.
    gap: u64,
    /// The last copy's probability, and the last use of its page.
    previous: (f32, u32),
    /// The number of copies before the next one whose pages are in RAM, without a break.
    in_ram: u32,
}

impl TrailWalk {
    const fn new(trigger: TrailTrigger) -> Self {
        Self { previous: (1.0, trigger.history.last), trigger, gap: 0, in_ram: 0 }
    }
}

impl Adaptive {
    /// Chooses among copies of the first demanded page, given as slots: the copy whose run clients
    /// repeat now. Returns its slot, its score, and the number of reads that a read there
    /// continues.
    pub fn choose_copy(
        &self,
        copies: impl Iterator<Item = u32>,
        view: &impl View,
    ) -> Option<(u32, u32, Option<u32>)> {
        let trail = self.trail.as_ref()?;
        let score = |slot: u32| -> u32 {
            (1..=CONTEXT.min(slot))
                .filter(|&k| {
                    let page = view.copy_in(slot - k);
                    let last = page.map_or(0, |page| self.history.page(page).last);
                    last > 0 && self.now - last <= RECENTLY
                })
                .map(|k| CONTEXT + 1 - k)
                .sum()
        };
        copies.map(|slot| (slot, score(slot), trail.continues(slot))).max_by_key(
            |&(slot, score, continues)| {
                (continues.is_some(), score, u32::MAX - view.behind_head(slot))
            },
        )
    }

    /// Pages that one read may take on this disk, of `most`.
    pub(super) fn longest(&self, most: u32) -> u32 {
        ((LONGEST * self.costs.access / self.costs.transfer) as u32).clamp(LEAST, most)
    }

    /// What all candidates of a read of the trail share.
    fn trail_trigger(
        &self,
        demanded: &Range<u64>,
        score: u32,
        continues: Option<u32>,
    ) -> TrailTrigger {
        TrailTrigger {
            kind: TrailTrigger::kind(continues, score),
            history: self.history.page(demanded.end - 1),
            now: self.now,
            pages: demanded.end - demanded.start,
            recent: self.recent,
        }
    }

    /// Returns the disk time, ms, that a read of the trail from this slot on would save beside the
    /// demanded pages, and the number of slots to read: from `must` to `most`.
    pub fn weigh_trail(
        &mut self,
        demanded: &Range<u64>,
        (slot, score, continues): (u32, u32, Option<u32>),
        (must, most): (u32, u32),
        view: &impl View,
    ) -> (f32, u32) {
        if self.trail.is_none() {
            return (0.0, 0);
        }
        let mut found = std::mem::take(&mut self.along.features);
        found.clear();
        let mut walk = TrailWalk::new(self.trail_trigger(demanded, score, continues));
        let pollution = self.costs.pollution();
        let give_up = self.give_up();
        let (mut sum, mut best, mut reach) = (0.0f32, f32::MIN, must);
        for at in 0..most.min(self.longest(TRAIL_WINDOW)).max(must) {
            let (saves, features) = match view.copy_in(slot + at) {
                Some(page) if demanded.contains(&page) => (0.0, Features::default()),
                // Nothing stands there: the slot is read, and left.
                None => (-self.costs.transfer, Features::default()),
                Some(page) => self.weigh_copy(page, slot + at, pollution, &mut walk, view),
            };
            sum += saves;
            found.push(features);
            if at + 1 >= must && sum > best {
                (best, reach) = (sum, at + 1);
            }
            if sum < best - give_up {
                break;
            }
        }
        self.counts.weighed += found.len() as u64;
        found.truncate(reach as usize);
        self.along = Window { features: found, slot: Some(slot), reads: 0 };
        (best, reach)
    }

    /// Returns the disk time, ms, that read-ahead of the copy in this slot would save, and the
    /// features of the copy.
    fn weigh_copy(
        &self,
        page: u64,
        slot: u32,
        pollution: f32,
        walk: &mut TrailWalk,
        view: &impl View,
    ) -> (f32, Features) {
        let Some(trail) = &self.trail else { return Default::default() };
        let place = TrailPlace {
            page,
            history: self.history.page(page),
            gap: walk.gap,
            newest: view.newest_copy(page) == Some(slot),
            behind_head: view.behind_head(slot),
            outcome: trail.outcome(slot),
            rate: self.rate(page),
            previous: walk.previous,
            in_ram: walk.in_ram,
        };
        let odds = |cells| trail.predictor.counts.odds(cells);
        let features = Features::of_trail(&walk.trigger, &place, odds);
        let p = match &self.foreseen {
            Some(foreseen) => foreseen.probability(page),
            None => trail.predictor.probability(&features),
        };
        let held = view.in_ram(page).is_some();
        (walk.gap, walk.previous) = (walk.gap + 1, (p, place.history.last));
        walk.in_ram = if held { walk.in_ram + 1 } else { 0 };
        let saves = if held { 0.0 } else { CAUTION * p * self.costs.access - pollution };
        (saves - self.costs.transfer, features)
    }

    /// The time of an access to the trail minus the time of an access to home, ms. It counts more
    /// while reads of the trail lose.
    pub fn way_to_trail(&self) -> f32 {
        self.costs.way_to_trail(self.trail.as_ref().map_or(1.0, Trail::price))
    }

    /// The miss that was weighed last is read from the trail, up to the slot `end`.
    pub fn go_along(
        &mut self,
        demanded: &Range<u64>,
        end: u32,
        continues: Option<u32>,
    ) -> WindowId {
        if let Some(trail) = &mut self.trail {
            if continues.is_none() {
                trail.end_run();
            }
            trail.reads_to(end, continues);
        }
        self.home_for = 0..0;
        self.missed(demanded);
        self.begin(true)
    }

    /// Pages that wait to be appended to the trail.
    pub fn pending(&self) -> usize {
        self.trail.as_ref().map_or(0, Trail::pending)
    }

    /// Insertions and touches of RAM since the first of these pages was used.
    pub fn pending_waits(&self) -> u32 {
        self.trail.as_ref().map_or(0, Trail::waits)
    }

    /// The next page to append to the trail.
    pub fn next_to_append(&mut self) -> Option<u64> {
        let trail = self.trail.as_mut()?;
        loop {
            let page = trail.next()?;
            if self.foreseen.as_ref().is_none_or(|foreseen| foreseen.is_read_again(page)) {
                return Some(page);
            }
        }
    }

    /// Whether a batch may be appended to the trail. A batch that may not is discarded.
    pub fn may_append(&mut self) -> bool {
        let access = self.costs.access;
        self.trail.as_mut().is_some_and(|trail| trail.may_write(access))
    }

    /// A slot of the trail holds another copy now.
    pub fn appended(&mut self, slot: u32) {
        if let Some(trail) = &mut self.trail {
            trail.appended(slot);
        }
    }
}
