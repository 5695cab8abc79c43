//! The trail: a ring of copies in the order of use. It decides which pages are appended, which of several copies is read, and
//! whether the writing pays.

use std::collections::VecDeque;

use super::predictor::Predictor;
use super::trail_features::{TRAIL_COARSE, TRAIL_FEATURES, TRAIL_FINE, TRAIL_WEIGHTS, trail_prior};

/// Pages that wait to be appended: 4 MiB.
const PENDING: usize = 1024;
/// A run of so many uses from the trail is not appended again.
const RUN: usize = 16;
/// Share of the clients' disk time that trail writes may always take.
const ALLOWANCE: f64 = 0.03;
/// Share of the saving that trail writes may take.
const SHARE: f64 = 0.5;
/// A read that starts so many slots behind the end of one of the last reads continues that read.
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
    fn allows(&self) -> bool {
        let each = self.home_reads / self.home_uses.max(1.0);
        let credit = (self.uses * each - self.reads).max(0.0);
        self.writes <= ALLOWANCE * self.clients + SHARE * credit
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Trail {
    pub(super) predictor: Predictor,
    /// By slot: what became of its copy when it was last prefetched.
    pub(super) outcomes: Vec<u8>,
    pending: VecDeque<u64>,
    /// The run under way: pages, and whether each came from the trail.
    run: Vec<(u64, bool)>,
    run_length: usize,
    pub(super) ledger: Ledger,
    /// Ends of the last reads, and how many reads each continues.
    ends: [(u32, u32); 8],
    ends_at: usize,
}

impl Trail {
    pub(super) fn new(slots: u32) -> Self {
        let sizes = (TRAIL_FEATURES, TRAIL_WEIGHTS);
        Self {
            predictor: Predictor::new(sizes, (TRAIL_COARSE, TRAIL_FINE), trail_prior),
            outcomes: vec![0; slots as usize],
            pending: VecDeque::with_capacity(PENDING),
            run: Vec::with_capacity(RUN),
            run_length: 0,
            ledger: Ledger::default(),
            ends: [(u32::MAX, 0); 8],
            ends_at: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.predictor.bytes() + self.outcomes.len() as u64 + (PENDING * 8) as u64
    }

    /// A page was used for the first time since it came to RAM.
    pub(super) fn used(&mut self, page: u64, from_trail: bool) {
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
        self.pending.push_back(page);
    }

    /// Nothing is written.
    pub(super) fn stand_aside(&mut self) {
        self.pending.clear();
    }

    /// Pages that wait to be appended.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The next page to append.
    pub(super) fn next(&mut self) -> Option<u64> {
        self.pending.pop_front()
    }

    /// Whether another batch may be written. A batch that may not is discarded.
    pub(super) fn may_write(&mut self) -> bool {
        let may = self.ledger.allows();
        if !may {
            self.pending.clear();
        }
        may
    }

    /// Which read before this one a read at a slot continues: the reads that one continues, and its place.
    pub(super) fn continues(&self, slot: u32) -> Option<u32> {
        let near = |&&(end, _): &&(u32, u32)| slot >= end && slot - end <= CONTINUES;
        self.ends.iter().find(near).map(|&(_, n)| n)
    }

    /// A read of the trail ends here.
    pub(super) fn reads_to(&mut self, end: u32, continues: Option<u32>) {
        self.ends[self.ends_at] = (end, continues.map_or(0, |n| n + 1));
        self.ends_at = (self.ends_at + 1) % self.ends.len();
    }

    /// The disk worked: for trail writes, for reads of the trail, for reads at home, for anything else, ms.
    pub(super) fn worked(&mut self, work: super::Work, ms: f64) {
        let l = &mut self.ledger;
        match work {
            super::Work::TrailWrite => l.writes += ms,
            super::Work::TrailRead { .. } | super::Work::TrailAlong => {
                (l.reads, l.clients) = (l.reads + ms, l.clients + ms);
            }
            super::Work::HomeRead { .. } | super::Work::HomeAlong { .. } => {
                (l.home_reads, l.clients) = (l.home_reads + ms, l.clients + ms);
            }
            super::Work::Other => l.clients += ms,
        }
    }
}
