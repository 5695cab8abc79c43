//! After an unclean stop, or after somebody else may have written home, copies are in doubt. This
//! job reads home, a run at a time, and compares the checksums with those of the copies.

use seekless_block::Op;

use crate::background::{JobStep, PIECE_PAGES, pages_in, stage};
use crate::core::page_map::{CopyState, Slot, pages, slots};
use crate::core::write_order::Since;
use crate::{Engine, Target};

/// A read takes along a gap of up to this many home pages.
const GAP: u64 = 16;

/// A run in progress.
#[derive(Debug)]
pub(crate) struct Prove {
    first: u64,
    pages: u32,
    /// When its read began.
    since: Since,
    sent: bool,
    summing: bool,
}

impl Engine {
    /// Puts every copy in doubt, as an unclean stop does: a simulation cannot be killed.
    pub fn doubt(&mut self) {
        for slot in slots(0..self.geo.read_slots()) {
            if self.copies.state(slot) == CopyState::Clean && !self.copies.is_open(slot) {
                self.copies.set_state(slot, CopyState::Suspect);
            }
        }
        self.find_suspects();
        self.background.wake_at(self.background.now);
    }

    /// Lists the copies in doubt, in order of home. Those of the trail are not listed: clients'
    /// reads of home prove them, at no cost.
    pub(crate) fn find_suspects(&mut self) {
        if self.has_trail() {
            return;
        }
        let all = slots(0..self.geo.slots());
        let mut suspects: Vec<Slot> =
            all.filter(|&slot| self.copies.state(slot) == CopyState::Suspect).collect();
        suspects.sort_unstable_by_key(|&slot| self.copies.home(slot));
        (self.background.suspects, self.background.next_suspect) = (suspects, 0);
    }

    pub(crate) fn begin_prove(&mut self) -> Option<Prove> {
        if self.copies.count(CopyState::Suspect) == 0 {
            self.background.suspects = Vec::new();
            return None;
        }
        let most = u64::from(PIECE_PAGES.min(pages_in(self.config.stage_bytes)));
        let mut run: Option<(u64, u64)> = None;
        while let Some(&slot) = self.background.suspects.get(self.background.next_suspect) {
            let page =
                self.copies.home(slot).filter(|_| self.copies.state(slot) == CopyState::Suspect);
            let page = page.map(|page| page.0);
            if let Some(page) = page {
                match &mut run {
                    None => run = Some((page, page + 1)),
                    Some((first, end))
                        if (*end..=*end + GAP).contains(&page) && page < *first + most =>
                    {
                        *end = page + 1;
                    }
                    Some(_) => break,
                }
            }
            self.background.next_suspect += 1;
        }
        let (first, end) = run?;
        let pages = (end - first) as u32;
        self.background.clear_stage(pages);
        Some(Prove { first, pages, since: Since::default(), sent: false, summing: false })
    }

    pub(crate) fn step_prove(&mut self, job: &mut Prove) -> JobStep {
        if !job.sent {
            if !self.may_submit(false) {
                return JobStep::Wait;
            }
            job.sent = true;
            job.since = self.writes.since();
            let home = self.home_of(job.first, job.pages.into());
            self.submit_background(Target::Home, Op::Read, home, Some(stage(0)));
            return JobStep::Wait;
        }
        if self.background.in_flight > 0 || self.background.sums_awaited {
            return JobStep::Wait;
        }
        if self.background.failed {
            return JobStep::Over; // they stay in doubt, and home is read
        }
        if !job.summing {
            job.summing = true;
            self.sum_stage(0, job.pages);
            return JobStep::Wait;
        }
        let sums = std::mem::take(&mut self.background.sums);
        for (page, &sum) in pages(job.first..u64::MAX).zip(&sums) {
            self.judge(page, sum, job.since);
        }
        self.background.sums = sums;
        JobStep::Over
    }
}
