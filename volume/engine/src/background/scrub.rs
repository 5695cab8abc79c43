//! The scrub: a pass reads the area's superblocks, its checkpoint and all copies, and compares them
//! with their checksums. So rot is found while home, or the map in RAM, still has the same bytes.
//! A damaged clean copy is dropped, and damaged metadata is written again. A damaged only copy is
//! reported; no read returns it.
//!
//! A pass begins with a checkpoint. Then no recovery needs the headers of older log records, and
//! all that the log still holds are copies. Newer headers are older than a checkpoint in the next
//! pass. Replicas stand at home: reads check them.

use seekless_block::{Extent, Op, PAGE_SECTORS, SimTime};

use super::jobs::RowResult;
use crate::background::{Job, JobStep, pages_in, stage};
use crate::core::page_map::{CopyState, Slot, UNSUMMED};
use crate::{Engine, PageSum, Target};

/// The longest read, 256 KiB: a client that comes meanwhile waits for no more.
const PIECE: u32 = 64;
/// A pass takes one part in this many of the idle time.
const SHARE: u64 = 10;
/// Slots that are looked at in one step.
const LOOK: u32 = 1 << 16;
/// Most damaged only copies that are remembered.
const LOST_MOST: usize = 4096;

/// A pass in progress.
#[derive(Debug)]
struct Pass {
    saved: bool,
    /// The next page of metadata.
    next_page: usize,
    next_slot: Slot,
    slots_left: u32,
    not_before: SimTime,
}

/// Results of the scrub since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Passes that have ended.
    pub passes: u64,
    /// A pass is in progress.
    pub running: bool,
    /// Pages that were read and compared.
    pub pages: u64,
    /// Of these, pages that could not be read or did not match their checksums. After a crash this
    /// counts copies too whose bytes had not reached the area: they are dropped, and home is whole.
    pub damaged: u64,
    /// Of these, damaged pages of superblocks and checkpoints.
    pub metadata: u64,
    /// Damaged pages that have no other copy now: reads of them fail.
    pub lost: u64,
}

/// The state of the scrub.
#[derive(Debug, Default)]
pub(crate) struct Scrubbing {
    pass: Option<Pass>,
    /// Pages of the superblocks and of the checkpoint that they name, with their sums.
    metadata: Vec<(u64, PageSum)>,
    /// The same of a checkpoint that is being written. A plan is left out: it is only a hint.
    written: Vec<(u64, PageSum)>,
    /// Only copies that were found damaged.
    lost: Vec<(Slot, PageSum)>,
    done: Scrubbed,
}

impl Scrubbing {
    /// A new checkpoint begins.
    pub(crate) fn forget_writes(&mut self) {
        self.written.clear();
    }

    /// The checkpoint, or a superblock that names it, has this page. A superblock may be written
    /// again.
    pub(crate) fn writes(&mut self, page: u64, sum: PageSum) {
        match self.written.iter_mut().rev().take(3).find(|(at, _)| *at == page) {
            Some(held) => held.1 = sum,
            None => self.written.push((page, sum)),
        }
    }

    /// The superblocks name the checkpoint.
    pub(crate) fn metadata_is_saved(&mut self) {
        std::mem::swap(&mut self.metadata, &mut self.written);
    }
}

/// The pages of a piece.
#[derive(Debug)]
enum ScrubPiece {
    /// Pages of metadata from this one of the list.
    Metadata(usize),
    /// Slots from this one, with the sums that they had when the read began.
    Copies(Slot, Vec<PageSum>),
}

/// A piece in progress.
#[derive(Debug)]
pub(crate) struct Scrub {
    piece: ScrubPiece,
    /// Its first page in the area, and the number of pages.
    at: u64,
    pages: u32,
    began: SimTime,
    sent: u32,
    /// Pages are read one by one, as not all can be read.
    singly: bool,
    summed: bool,
}

impl Engine {
    /// Results of the scrub.
    pub fn scrubbed(&self) -> Scrubbed {
        let scrub = &self.background.scrub;
        let still = |&&(slot, sum): &&(Slot, PageSum)| {
            self.copies.state(slot) == CopyState::Dirty && self.copies.sum(slot) == sum
        };
        let lost = scrub.lost.iter().filter(still).count() as u64;
        Scrubbed { running: scrub.pass.is_some(), lost, ..scrub.done }
    }

    /// Begins a pass, unless one is in progress.
    pub(crate) fn begin_pass(&mut self) {
        let slots = self.geo.slots();
        if self.background.scrub.pass.is_some() || self.geo.log_segments == 0 {
            return;
        }
        // A server that is often restarted does not look at the same first slots each time.
        let first = self.identity.generation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.background.scrub.pass = Some(Pass {
            saved: false,
            next_page: 0,
            next_slot: Slot((first % u64::from(slots.max(1))) as u32),
            slots_left: slots,
            not_before: SimTime::ZERO,
        });
    }

    /// When a pass goes on; `None` without a pass. While a checkpoint is being written, the list of
    /// its pages is not true.
    pub(super) fn scrubs_at(&self) -> Option<SimTime> {
        let b = &self.background;
        let pass = b.scrub.pass.as_ref()?;
        let settled = b.unfinished.is_none() && !b.superblock_due && !self.log.failed;
        settled.then_some(pass.not_before.max(self.idle_at()))
    }

    /// The next piece of the pass, in idle time only.
    pub(super) fn scrub(&mut self) -> RowResult {
        let (Some(mut at), now) = (self.scrubs_at(), self.background.now) else {
            return RowResult::Nothing;
        };
        if now >= at && self.is_hurried() {
            at = self.background.hurried_until;
        }
        if now < at {
            self.background.wake_at(at);
            return RowResult::Nothing;
        }
        let Some(pass) = &mut self.background.scrub.pass else { return RowResult::Nothing };
        if !std::mem::replace(&mut pass.saved, true) && self.log.since_checkpoint > 0 {
            return RowResult::Job(self.checkpoint_job());
        }
        let most = PIECE.min(pages_in(self.config.stage_bytes));
        let piece = self.next_metadata(most).or_else(|| self.next_copies(most));
        if let Some((piece, at, pages)) = piece {
            self.background.clear_stage(pages);
            let (began, sent) = (now, 0);
            let scrub = Scrub { piece, at, pages, began, sent, singly: false, summed: false };
            return RowResult::Job(Job::Scrub(scrub));
        }
        let scrub = &mut self.background.scrub;
        if scrub.pass.as_ref().is_some_and(|pass| pass.slots_left == 0) {
            scrub.pass = None;
            scrub.done.passes += 1;
        } else {
            // A search of a large area pauses for clients.
            self.background.wake_at(now);
        }
        RowResult::Nothing
    }

    fn next_metadata(&mut self, most: u32) -> Option<(ScrubPiece, u64, u32)> {
        let scrub = &mut self.background.scrub;
        let pass = scrub.pass.as_mut()?;
        let first = pass.next_page;
        let rest = scrub.metadata.get(first..).unwrap_or_default();
        let &(at, _) = rest.first()?;
        let run = rest.iter().zip(at..).take(most as usize);
        let pages = run.take_while(|&(&(page, _), expected)| page == expected).count();
        pass.next_page += pages;
        Some((ScrubPiece::Metadata(first), at, pages as u32))
    }

    /// The next run of slots with copies, within a segment.
    fn next_copies(&mut self, most: u32) -> Option<(ScrubPiece, u64, u32)> {
        let (slots, copies) = (self.geo.slots(), &self.copies);
        let pass = self.background.scrub.pass.as_mut()?;
        let mut sums: Vec<PageSum> = Vec::new();
        let mut first = None;
        for _ in 0..pass.slots_left.min(LOOK) {
            let slot = pass.next_slot;
            let held = copies.state(slot) != CopyState::Free && self.geo.page_of(slot.0).is_some();
            let follows = first.is_none_or(|first: Slot| {
                held && copies.segment_of(first) == copies.segment_of(slot)
                    && first.0 <= slot.0
                    && sums.len() < most as usize
            });
            if !follows {
                break;
            }
            if held {
                first = first.or(Some(slot));
                sums.push(copies.sum(slot));
            }
            pass.next_slot = Slot((slot.0 + 1) % slots);
            pass.slots_left -= 1;
        }
        let first = first?;
        let pages = sums.len() as u32;
        Some((ScrubPiece::Copies(first, sums), self.geo.page_of(first.0)?, pages))
    }

    pub(super) fn step_scrub(&mut self, job: &mut Scrub) -> JobStep {
        if job.sent < job.pages {
            if !self.may_submit(false) {
                return JobStep::Wait;
            }
            if job.sent == 0 && !job.singly {
                job.began = self.background.now;
                if let &ScrubPiece::Copies(first, _) = &job.piece {
                    self.copies.begin_read(first, job.pages);
                }
            }
            let pages = if job.singly { 1 } else { job.pages };
            let first = job.at + u64::from(job.sent);
            let extent = Extent::new(first * PAGE_SECTORS, u64::from(pages) * PAGE_SECTORS);
            let to = Some(stage(job.sent));
            self.submit_background(Target::Area, Op::Read, extent, to);
            job.sent += pages;
            return JobStep::Again;
        }
        if self.background.in_flight > 0 || self.background.sums_awaited {
            return JobStep::Wait;
        }
        if self.background.failed && !job.singly {
            (job.singly, job.sent, self.background.failed) = (true, 0, false);
            self.background.bad.fill(false);
            return JobStep::Again;
        }
        if !std::mem::replace(&mut job.summed, true) {
            self.sum_stage(0, job.pages);
            return JobStep::Wait;
        }
        self.end_scrub(job);
        JobStep::Over
    }

    fn end_scrub(&mut self, job: &Scrub) {
        self.background.scrub.done.pages += u64::from(job.pages);
        let found = std::mem::take(&mut self.background.sums);
        match &job.piece {
            &ScrubPiece::Metadata(first) => {
                let b = &mut self.background;
                let expected = b.scrub.metadata.iter().skip(first).zip(&found).zip(&b.bad);
                let damaged = expected.filter(|&((&(_, sum), is), &bad)| bad || *is != sum).count();
                b.scrub.done.damaged += damaged as u64;
                b.scrub.done.metadata += damaged as u64;
                // The next checkpoint goes to the other place.
                b.superblock_due |= damaged > 0;
            }
            ScrubPiece::Copies(first, sums) => {
                self.copies.end_read(*first, job.pages);
                for ((slot, &sum), at) in (first.0..).map(Slot).zip(sums).zip(0..) {
                    self.judge_scrubbed(slot, sum, self.background.bad[at], found[at]);
                }
            }
        }
        self.background.sums = found;
        let now = self.background.now;
        let pause = now.since(job.began).0.saturating_mul(SHARE - 1);
        if let Some(pass) = &mut self.background.scrub.pass {
            pass.not_before = SimTime(now.0.saturating_add(pause));
        }
    }

    /// A slot held a page with the sum `before` when it was read. The read failed if it is `bad`.
    fn judge_scrubbed(&mut self, slot: Slot, before: PageSum, bad: bool, found: PageSum) {
        let unchanged = self.copies.home(slot).is_some() && self.copies.sum(slot) == before;
        if !unchanged || !bad && (found == before || before == UNSUMMED) {
            return;
        }
        self.background.scrub.done.damaged += 1;
        let lost = self.damaged(slot);
        if lost && bad {
            self.area_fails();
        }
        let scrub = &mut self.background.scrub;
        if lost && scrub.lost.len() < LOST_MOST && !scrub.lost.contains(&(slot, before)) {
            scrub.lost.push((slot, before));
        }
    }
}
