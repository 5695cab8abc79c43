//! The pages of a checkpoint, one after the other: the map, the free pages, the plan. The
//! background job and an attach both write these pages.

use crate::Engine;
use crate::area::attach::Moment;
use crate::core::page_map::Slot;
use crate::format::{
    CheckpointPage, ENTRIES_PER_PAGE, Entry, FreeMapPage, LEARNED_PER_PAGE, LearnedPage,
    PLAN_PER_PAGE, Page, PlanHeader, PlanPage, RUNS_PER_PAGE, Run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    MapHeader,
    /// Its first slot.
    Map(u32),
    FreeMap(u32),
    PlanHeader,
    /// Its first slot.
    Plan(u32),
    /// Number of the first byte.
    Learned(u32),
    End,
}

/// Later changes are in the log behind the checkpoint's position.
#[derive(Debug)]
pub(crate) struct CheckpointPages {
    pub(crate) moment: Moment,
    /// The free pages at that moment.
    free: Vec<Run>,
    /// At a detach in order, what the adaptive policy has learned: it takes the place of a plan.
    learned: Box<[u8]>,
    next: Next,
}

impl CheckpointPages {
    pub(crate) fn new(moment: Moment, free: Vec<Run>) -> Self {
        Self { moment, free, learned: Box::default(), next: Next::MapHeader }
    }

    /// The same with the policy's learned state.
    pub(crate) fn with_learned(mut self, learned: Vec<u8>) -> Self {
        self.moment.learned = learned.len() as u32;
        self.learned = learned.into();
        self
    }

    pub(crate) fn written(moment: Moment) -> Self {
        Self { moment, free: Vec::new(), learned: Box::default(), next: Next::End }
    }

    /// The page of the area for the next page; `None` after the last.
    pub(crate) fn place(&self, engine: &Engine) -> Option<u64> {
        let geo = &engine.geo;
        let map = geo.checkpoint_at(self.moment.checkpoint_slot);
        match self.next {
            Next::MapHeader => Some(map),
            Next::Map(first) => Some(map + 1 + u64::from(first / ENTRIES_PER_PAGE)),
            Next::FreeMap(number) => {
                Some(geo.free_map_at(self.moment.checkpoint_slot) + u64::from(number))
            }
            Next::PlanHeader => Some(geo.plan_at()),
            Next::Plan(first) => Some(geo.plan_at() + 1 + u64::from(first / PLAN_PER_PAGE)),
            Next::Learned(first) => Some(geo.plan_at() + u64::from(first / LEARNED_PER_PAGE)),
            Next::End => None,
        }
    }

    /// Whether the next page begins a region: one write has pages of one region only.
    pub(crate) const fn begins_region(&self) -> bool {
        matches!(
            self.next,
            Next::MapHeader | Next::FreeMap(0) | Next::PlanHeader | Next::Learned(0) | Next::End
        )
    }

    /// Writes the next page into memory, and moves on.
    pub(crate) fn encode(&mut self, engine: &Engine, page: &mut Page) {
        let (uuid, generation) = (engine.identity.uuid, self.moment.checkpoint_generation);
        match self.next {
            Next::MapHeader => {
                engine.identity.checkpoint(&engine.geo, &self.moment).encode(page);
                self.next = Next::Map(0);
            }
            Next::Map(first) => {
                let entries = std::array::from_fn(|i| self.entry(engine, first + i as u32));
                CheckpointPage { uuid, generation, first, entries }.encode(page);
                let behind = first.saturating_add(ENTRIES_PER_PAGE);
                let more = behind < engine.geo.slots();
                self.next = if more { Next::Map(behind) } else { self.behind_the_map(engine) };
            }
            Next::FreeMap(number) => {
                // After the last run the page is empty, and a reader relies on that.
                let first = number * RUNS_PER_PAGE;
                let run =
                    |i: usize| self.free.get(first as usize + i).copied().unwrap_or(Run::NONE);
                FreeMapPage { uuid, generation, first, runs: std::array::from_fn(run) }
                    .encode(page);
                let last = self.free.len() as u32 / RUNS_PER_PAGE;
                self.next =
                    if number < last { Next::FreeMap(number + 1) } else { self.plan(engine) };
            }
            Next::PlanHeader => {
                let slots = engine.geo.read_slots().into();
                PlanHeader { uuid, generation: self.moment.plan, slots }.encode(page);
                self.next = Next::Plan(0);
            }
            Next::Plan(first) => {
                let slots = engine.geo.read_slots();
                let wanted = |i: usize| {
                    let slot = first + i as u32;
                    let page = (slot < slots).then(|| engine.background.todo.wanted(Slot(slot)));
                    page.flatten().map(|p| p.0)
                };
                let wanted = std::array::from_fn(wanted);
                PlanPage { uuid, generation: self.moment.plan, first, wanted }.encode(page);
                let behind = first.saturating_add(PLAN_PER_PAGE);
                self.next = if behind < slots { Next::Plan(behind) } else { Next::End };
            }
            Next::Learned(first) => {
                let held = &self.learned[first as usize..];
                let bytes = std::array::from_fn(|i| held.get(i).copied().unwrap_or(0));
                LearnedPage { uuid, generation, first, bytes }.encode(page);
                let behind = first + LEARNED_PER_PAGE;
                let more = (behind as usize) < self.learned.len();
                self.next = if more { Next::Learned(behind) } else { Next::End };
            }
            Next::End => debug_assert!(false, "behind the last page"),
        }
    }

    /// What the map says of a slot; free behind the last slot.
    fn entry(&self, engine: &Engine, slot: u32) -> Entry {
        if slot < engine.geo.slots() {
            engine.copies.entry(Slot(slot), self.moment.stamp.is_some())
        } else {
            Entry::FREE
        }
    }

    fn behind_the_map(&self, engine: &Engine) -> Next {
        if engine.geo.free_map_pages() > 0 { Next::FreeMap(0) } else { self.plan(engine) }
    }

    /// A plan is written once. The former plan in its region has no use: the superblock names
    /// another one.
    fn plan(&self, engine: &Engine) -> Next {
        let new = self.moment.plan != 0 && self.moment.plan != engine.identity.plan;
        match (new, self.learned.is_empty()) {
            (true, _) => Next::PlanHeader,
            (_, false) => Next::Learned(0),
            _ => Next::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::format::RunKind;
    use seekless_block::{Bytes, PAGE_BYTES};

    /// The places of a checkpoint's pages, in an area of a GiB.
    fn places(replicas: Bytes, plan: u64, runs: usize) -> (Vec<u64>, Engine) {
        let config = Config {
            area: Bytes(1 << 30).sectors_ceil(),
            replicas: replicas.sectors_ceil(),
            ..Config::new(Bytes(64 << 30).sectors_ceil())
        };
        let engine = Engine::new(config);
        let moment = Moment { plan, ..engine.moment(crate::Mode::WriteThrough, None) };
        let run = |i: usize| Run { first: 2 * i as u64, pages: 1, kind: RunKind::Free };
        let mut pages = CheckpointPages::new(moment, (0..runs).map(run).collect());
        let (mut found, mut page) = (Vec::new(), [0; PAGE_BYTES as usize]);
        while let Some(at) = pages.place(&engine) {
            pages.encode(&engine, &mut page);
            found.push(at);
        }
        (found, engine)
    }

    #[test]
    fn a_checkpoint_is_all_of_its_pages_in_their_order() {
        let (found, engine) = places(Bytes(0), 7, 0);
        let at = engine.geo.checkpoint_at(1);
        let map = 1 + u64::from(engine.geo.slots().div_ceil(ENTRIES_PER_PAGE));
        let plan = 1 + u64::from(engine.geo.read_slots().div_ceil(PLAN_PER_PAGE));
        let plan_at = engine.geo.plan_at();
        assert!(map > 700 && plan > 300, "several pages of each");
        assert!(found.iter().copied().eq((at..at + map).chain(plan_at..plan_at + plan)));
    }

    #[test]
    fn a_free_map_ends_with_a_run_that_is_none() {
        for (runs, pages) in [(0, 1), (336, 1), (337, 2), (1000, 3)] {
            let (found, engine) = places(Bytes(1 << 30), 0, runs);
            let (at, map) = (engine.geo.checkpoint_at(1), engine.geo.slots());
            let map = at..at + 1 + u64::from(map.div_ceil(ENTRIES_PER_PAGE));
            let free = engine.geo.free_map_at(1);
            assert!(found.iter().copied().eq(map.chain(free..free + pages)), "{runs} runs");
        }
    }
}
