//! Dirty pages of read segments that a window is about to overwrite go to the log, if the plan keeps
//! them (BORG, FAST'09, 4.4: relocate). The batch is read and checked as in a destage. Its pages are
//! written as a client's write would be. Writes of clients to them wait until the area is flushed:
//! until then, the bytes in the read segment are the only ones that a crash leaves for sure.

use seekless_block::{Extent, Op};

use super::destage::{Destage, DestagePhase};
use crate::background::{Job, JobStep};
use crate::core::page_map::{CopyState, HomePage, Slot, UNSUMMED};
use crate::{Class, Engine, Target};

impl Engine {
    /// Appends the pages of a batch to the log, while the log has space.
    pub(super) fn park(&mut self, job: &mut Destage) -> JobStep {
        while let Some(&(first, ..)) = job.items.get(job.next) {
            let most = self.geo.segment_pages as usize - 1;
            let run = self.newest_run(job, most);
            let pages = first.0..first.0 + run as u64;
            if run == 0 || pages.clone().any(|page| self.log.takes(page)) {
                job.next += run.max(1);
                continue;
            }
            if self.sync.is_void(&pages) || !self.may_open() || !self.log_has_room(run as u64) {
                break;
            }
            if self.records_are_full(run as u64) {
                self.log.hurry = true;
                self.pump_log();
                return JobStep::Wait;
            }
            let home = self.home_of(first.0, run as u64);
            let write = self.absorb_staged(home, job.second + job.next as u32);
            job.parked.push((write, job.next..job.next + run));
            job.next += run;
            self.stats.moved_bytes += home.bytes().0;
            self.stats.relocated_bytes += home.bytes().0;
        }
        if job.parked.is_empty() {
            // Pages that cannot go to the log now are tried again, or go home.
            self.destage_came_to_nothing();
            return JobStep::Over;
        }
        self.log.hurry = true;
        self.pump_log();
        job.phase = DestagePhase::Parked;
        JobStep::Again
    }

    /// Flushes the area once the records have ended.
    pub(super) fn flush_parked(&mut self, job: &mut Destage) -> JobStep {
        if job.parked.iter().any(|&(write, _)| self.absorbs[write as usize].is_on_its_way()) {
            return JobStep::Wait;
        }
        self.background.failed = false;
        // Clients' writes of these pages wait for it.
        let (class, extent) = (Class::InTurn, Extent::default());
        self.submit_marked(class, None, Target::Area, Op::Flush, extent, None);
        job.phase = DestagePhase::SyncParked;
        JobStep::Wait
    }

    /// The pages now stand in the log. If the area may have lost the records, the bytes in the read
    /// segments count again: nobody has written there since.
    pub(super) fn parked_is_synced(&mut self, job: &mut Destage) -> JobStep {
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        let lost = self.background.failed || self.log.failed;
        for (write, run) in std::mem::take(&mut job.parked) {
            if lost {
                job.items[run].iter().for_each(|&(page, slot, _)| self.unpark(page, slot));
            }
            self.absorbed_done(write, true);
        }
        if self.retry_blocked {
            self.retry_blocked();
            self.pump_log();
            self.pump_sync();
        }
        JobStep::Over
    }

    /// A flush of the area failed, perhaps not the job's own: reads must not find pages in the log that
    /// the area may lack.
    pub(super) fn unpark_all(&mut self) {
        let Job::Destage(job) = &self.background.job else { return };
        let runs = job.parked.iter().map(|(_, run)| &job.items[run.clone()]);
        let pages: Vec<(HomePage, Slot)> = runs.flatten().map(|item| (item.0, item.1)).collect();
        pages.into_iter().for_each(|(page, slot)| self.unpark(page, slot));
    }

    /// The log has no other page than the one that was just written there: clients waited.
    fn unpark(&mut self, page: HomePage, slot: Slot) {
        let logged = self.copies.find(page).is_some_and(|s| self.copies.is_log(s));
        if logged && self.copies.state(slot) == CopyState::Free {
            self.copies.set(slot, page, CopyState::Dirty, UNSUMMED);
            self.copies.open(slot);
        }
    }
}
