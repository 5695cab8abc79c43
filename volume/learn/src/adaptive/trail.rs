//! The trail: a ring of copies in the order of use. This module decides which pages to append,
//! which of several copies to read, and whether the writes of the trail pay.

use std::collections::VecDeque;

use super::Work;
use super::history::PrefetchOutcome;
use super::predictor::Predictor;
use super::trail_features::{TRAIL_COARSE, TRAIL_FEATURES, TRAIL_FINE, trail_prior};
use super::trail_price::TrailPrice;

/// Pages that wait to be appended: 4 MiB.
const PENDING: usize = 1024;
/// A run of this number of uses from the trail is not appended again.
const RUN: usize = 16;
/// Disk time that trail writes may always take, in accesses at home: the first copies cannot have
/// paid yet. 80 accesses are half a second of a disk with an arm.
const GRANT: f64 = 80.0;
/// Share of the clients' disk time that trail writes may take beside it.
const ALLOWANCE: f64 = 0.03;
/// Trail writes that bring nothing, in accesses at home, at which this share is half: 6 s of a disk
/// with an arm.
const PATIENCE: f64 = 1000.0;
/// Share of the saving that trail writes may take.
const SHARE: f64 = 0.5;
/// Mark of a slot: the read of another used page of the trail would also have read this slot.
const COVERED: u8 = 1 << 7;
/// Disk time of clients at which the ledger counts the past half, this time included, ms: an hour.
/// So the past counts half again each half hour.
const HALVED: f64 = 3_600_000.0;
/// A read that starts at most this number of slots behind the end of one of the last reads continues that read.
const CONTINUES: u32 = 32;

/// What trail writes cost and what they brought, ms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ledger {
    pub(super) writes: f64,
    pub(super) reads: f64,
    /// All I/Os but trail writes.
    pub(super) clients: f64,
    pub(super) home_reads: f64,
    pub(super) uses: f64,
    pub(super) home_uses: f64,
}

impl Ledger {
    /// `access`: the time of an access at home, ms.
    fn allows(&self, access: f64) -> bool {
        let each = self.home_reads / self.home_uses.max(1.0);
        let credit = (self.uses * each - self.reads).max(0.0);
        let patience = PATIENCE * access;
        let hope = ((patience + credit) / (patience + self.writes)).min(1.0);
        let allowed = GRANT * access + ALLOWANCE * hope * self.clients;
        self.writes <= allowed + SHARE * credit
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Trail {
    pub(super) predictor: Predictor<TRAIL_FEATURES>,
    /// By slot: what became of its copy when it was last prefetched, and [`COVERED`].
    pub(super) outcomes: Vec<u8>,
    /// Pages that wait to be appended, and the count of insertions and touches of RAM at their use.
    pending: VecDeque<(u64, u32)>,
    /// The run under way: pages, and whether each came from the trail.
    run: Vec<(u64, bool)>,
    /// Insertions and touches of RAM so far.
    touches: u32,
    run_length: usize,
    pub(super) ledger: Ledger,
    price: TrailPrice,
    /// The last work on the trail was a write, and no work at home followed.
    wrote: bool,
    /// Ends of the last reads, and how many reads each continues.
    ends: [(u32, u32); 8],
    ends_at: usize,
}

impl Trail {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            predictor: Predictor::new((TRAIL_COARSE, TRAIL_FINE), trail_prior),
            outcomes: vec![0; slots as usize],
            pending: VecDeque::with_capacity(PENDING),
            run: Vec::with_capacity(RUN),
            touches: 0,
            run_length: 0,
            ledger: Ledger::default(),
            price: TrailPrice::default(),
            wrote: false,
            ends: [(u32::MAX, 0); 8],
            ends_at: 0,
        }
    }

    /// What became of the copy in a slot when it was last prefetched: 0 not known, 1 used, 2 unused.
    pub(super) fn outcome(&self, slot: u32) -> u8 {
        self.outcomes.get(slot as usize).map_or(0, |at| at & !COVERED)
    }

    /// The prefetched copy of a slot was used, or was evicted unused.
    pub(super) fn came_to(&mut self, slot: u32, outcome: PrefetchOutcome) {
        if let Some(at) = self.outcomes.get_mut(slot as usize) {
            *at = outcome as u8;
        }
    }

    /// A slot holds another copy now.
    pub(super) fn appended(&mut self, slot: u32) {
        self.came_to(slot, PrefetchOutcome::None);
    }

    /// The copy of this slot was used: a read of this copy would also have read the copies around
    /// it.
    pub(super) fn cover(&mut self, slot: u32) {
        let (first, end) = (slot.saturating_sub(2), slot.saturating_add(32));
        let end = (end as usize).min(self.outcomes.len());
        let around = self.outcomes.get_mut(first as usize..end).unwrap_or_default();
        around.iter_mut().for_each(|at| *at |= COVERED);
    }

    /// The copy of this slot was read again.
    pub(super) fn uncover(&mut self, slot: u32) {
        if let Some(at) = self.outcomes.get_mut(slot as usize) {
            *at &= !COVERED;
        }
    }

    pub(super) fn is_covered(&self, slot: u32) -> bool {
        self.outcomes.get(slot as usize).is_some_and(|at| at & COVERED > 0)
    }

    /// A page was used for the first time since it came to RAM.
    pub(super) fn used(&mut self, page: u64, from_trail: bool, touches: u32) {
        self.touches = touches;
        self.price.used(from_trail);
        if from_trail {
            self.ledger.uses += 1.0;
        } else {
            self.ledger.home_uses += 1.0;
        }
        self.run_length += 1;
        if self.run_length < RUN {
            self.run.push((page, from_trail));
            return;
        }
        if self.run_length == RUN {
            self.end_part(false);
        }
        if !from_trail {
            self.append(page);
        }
    }

    /// A read goes home, or elsewhere on the trail.
    pub(super) fn end_run(&mut self) {
        if self.run_length < RUN {
            self.end_part(true);
        }
        self.run_length = 0;
    }

    fn end_part(&mut self, all: bool) {
        for i in 0..self.run.len() {
            let (page, from_trail) = self.run[i];
            if all || !from_trail {
                self.append(page);
            }
        }
        self.run.clear();
    }

    fn append(&mut self, page: u64) {
        if self.pending.len() == PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((page, self.touches));
    }

    /// Nothing that waits is written.
    pub(super) fn append_nothing(&mut self) {
        self.pending.clear();
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn next(&mut self) -> Option<u64> {
        self.pending.pop_front().map(|(page, _)| page)
    }

    /// Insertions and touches of RAM since the first of them was used.
    pub(super) fn waits(&self) -> u32 {
        self.pending.front().map_or(0, |&(_, at)| self.touches.wrapping_sub(at))
    }

    /// Whether another batch may be written. A batch that may not is discarded.
    pub(super) fn may_write(&mut self, access: f32) -> bool {
        let may = self.ledger.allows(access.into());
        if !may {
            self.pending.clear();
        }
        may
    }

    /// `None` if a read at this slot continues no earlier read. Otherwise the number of reads that
    /// the earlier read continued.
    pub(super) fn continues(&self, slot: u32) -> Option<u32> {
        let near = |&&(end, _): &&(u32, u32)| slot >= end && slot - end <= CONTINUES;
        self.ends.iter().find(near).map(|&(_, n)| n)
    }

    /// A read of the trail ends here.
    pub(super) fn reads_to(&mut self, end: u32, continues: Option<u32>) {
        self.ends[self.ends_at] = (end, continues.map_or(0, |n| n + 1));
        self.ends_at = (self.ends_at + 1) % self.ends.len();
    }

    /// How much the way to the trail counts: see [`TrailPrice`].
    pub(super) const fn price(&self) -> f32 {
        self.price.factor()
    }

    /// The disk worked for `ms`. If it came from the trail to home, `way_back` ms of this time are
    /// a cost of the trail.
    pub(super) fn worked(&mut self, work: Work, ms: f64, way_back: f64) {
        let l = &mut self.ledger;
        if work != Work::TrailWrite {
            l.clients += ms;
        }
        match work {
            Work::TrailWrite => {
                l.writes += ms;
                self.wrote = true;
            }
            Work::TrailRead { .. } | Work::TrailAlong => {
                l.reads += ms;
                self.wrote = false;
                if work != Work::TrailAlong {
                    self.price.read();
                }
                self.price.worked(true, ms);
            }
            Work::HomeRead { .. } => {
                let back = way_back.min(ms);
                l.home_reads += ms - back;
                if std::mem::take(&mut self.wrote) {
                    l.writes += back;
                } else {
                    l.reads += back;
                    self.price.worked(true, back);
                }
                self.price.worked(false, ms - back);
            }
            Work::HomeAlong { .. } => {
                self.wrote = false;
                l.home_reads += ms;
                self.price.worked(false, ms);
            }
            Work::HomeOther => self.wrote = false,
            Work::Other => {}
        }
        if l.clients > HALVED {
            let Ledger { writes, reads, clients, home_reads, uses, home_uses } = l;
            for sum in [writes, reads, clients, home_reads, uses, home_uses] {
                *sum /= 2.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_copies_are_written_on_credit() {
        let spent = |writes, clients| Ledger { writes, clients, ..Ledger::default() };
        assert!(spent(480.0, 0.0).allows(6.0), "nothing can have paid yet");
        assert!(!spent(481.0, 0.0).allows(6.0));
        assert!(!spent(81.0, 0.0).allows(1.0), "a disk without an arm");
        assert!(spent(746.0, 10_000.0).allows(6.0), "and nearly 3% of the clients' time");
        assert!(!spent(749.0, 10_000.0).allows(6.0));
    }

    /// In an hour of the clients' disk time, 3% are 108 s.
    #[test]
    fn a_trail_that_brings_nothing_is_written_less_and_less() {
        let written = |hours: f64, uses: f64| {
            let mut ledger = Ledger { home_reads: 1e6, home_uses: 1e6, uses, ..Ledger::default() };
            ledger.clients = hours * 3_600_000.0;
            while ledger.allows(6.0) {
                ledger.writes += 10.0;
            }
            ledger.writes / ledger.clients
        };
        assert!((0.025..0.035).contains(&written(0.02, 0.0)), "{}", written(0.02, 0.0));
        assert!(written(1.0, 0.0) < 0.011, "{}", written(1.0, 0.0));
        assert!(written(1.0, 200_000.0) > 0.04, "its uses saved 200 s: {}", written(1.0, 2e5));
    }

    #[test]
    fn a_way_back_is_a_cost_of_the_work_before_it() {
        let mut trail = Trail::new(64);
        let mut costs = |works: &[(Work, f64, f64)]| {
            works.iter().for_each(|&(work, ms, back)| trail.worked(work, ms, back));
            (trail.ledger.writes, trail.ledger.reads, trail.ledger.home_reads)
        };
        let home = |ms, back| (Work::HomeRead { pages: 1 }, ms, back);
        let write = (Work::TrailWrite, 50.0, 0.0);
        assert_eq!(costs(&[write, home(21.0, 15.0)]), (65.0, 0.0, 6.0));
        let read = (Work::TrailRead { pages: 1 }, 10.0, 0.0);
        assert_eq!(costs(&[write, read, home(21.0, 15.0)]), (115.0, 25.0, 12.0));
        assert_eq!(costs(&[home(5.0, 15.0)]), (115.0, 30.0, 12.0), "not more than the read took");
        // A client's write pays the way back.
        let all = costs(&[write, (Work::HomeOther, 21.0, 15.0), home(6.0, 0.0)]);
        assert_eq!(all, (165.0, 30.0, 18.0));
    }

    /// All work at home ends the stay on the trail.
    #[test]
    fn the_place_of_the_last_work_is_known() {
        let mut policy = super::super::Adaptive::new(64, 256, 128);
        let pages = 1;
        for _ in 0..100 {
            for (work, ms) in [(Work::HomeRead { pages }, 6.0), (Work::TrailRead { pages }, 21.0)] {
                (0..3).for_each(|_| policy.worked(work, ms));
            }
            policy.worked(Work::HomeRead { pages }, 20.0);
        }
        for home in [Work::HomeRead { pages }, Work::HomeAlong { pages }, Work::HomeOther] {
            for trail in [Work::TrailRead { pages }, Work::TrailAlong, Work::TrailWrite] {
                policy.worked(trail, 5.0);
                policy.worked(Work::Other, 5.0);
                assert!(policy.costs.way_back() > 5.0, "{trail:?}: {:?}", policy.costs);
                policy.worked(home, 6.0);
                assert_eq!(policy.costs.way_back(), 0.0, "{home:?}");
            }
        }
    }

    /// A trail that paid for long and pays no more.
    #[test]
    fn the_ledger_forgets() {
        let mut trail = Trail::new(64);
        for page in 0..1_000_000 {
            trail.used(page, page % 2 == 0, 0);
            trail.worked(Work::HomeRead { pages: 1 }, 60.0, 0.0);
            trail.worked(Work::TrailRead { pages: 1 }, 1.0, 0.0);
        }
        let mut hours = 0;
        while trail.ledger.allows(6.0) {
            trail.worked(Work::TrailWrite, 360_000.0, 0.0);
            trail.worked(Work::Other, 3_600_000.0, 0.0);
            hours += 1;
            assert!(hours < 50, "{:?}", trail.ledger);
        }
    }
}
