//! Writing replicas (FS2, SOSP'05, 3.1), a run of free pages at a time, as long as a segment, the run
//! nearest to the head first: take the wanted pages from RAM, and read the others from home in order
//! of address; record on the area that the run is stained;
//! write the run in one go, in the order of later reads. And writing zeroes in the place of
//! replicas.
//!
//! No byte goes into a page that the client has taken meanwhile, nor into one that is being read or
//! written.

use seekless_block::{Op, PAGE_BYTES, PAGE_SECTORS, SimTime};

use crate::background::{Job, JobStep, PIECE_PAGES, RETRY, pages_in, stage};
use crate::core::page_map::{CopyState, HomePage, Slot};
use crate::format::{Content, Entry};
use crate::free_space::extents::Extents;
use crate::free_space::replicas::Batch;
use crate::write_buffer::durability::Waiter;
use crate::{Engine, Target, Trouble};

/// Requested batches among which the nearest is chosen: 256 MiB.
const BATCHES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicatePhase {
    Read,
    Sum,
    Stain,
    Write,
    Map,
}

#[derive(Debug)]
pub(crate) struct Replicate {
    number: u64,
    pub(crate) segment: u32,
    /// First home page of the run.
    first: u64,
    /// Their homes, in order of place. The staging memory has the segment's map, then these.
    homes: Vec<u64>,
    /// Indices into `homes`, in order of home.
    order: Vec<u32>,
    next: usize,
    phase: ReplicatePhase,
    page: Option<u32>,
    locked: Option<(u64, u64)>,
    soon: bool,
}

/// Zeroes for the places of replicas, in progress.
#[derive(Debug)]
pub(crate) struct Clean {
    first: u64,
    pages: u32,
    sent: bool,
}

impl Replicate {
    /// The client writes these pages: earlier reads of them are out of date.
    pub(crate) fn overtake(&self, pages: std::ops::Range<u64>, bad: &mut [bool]) {
        let first = self.order.partition_point(|&i| self.homes[i as usize] < pages.start);
        for &i in &self.order[first..] {
            if self.homes[i as usize] >= pages.end {
                break;
            }
            bad[i as usize + 1] = true;
        }
    }

    /// The client takes these pages: no replica may be written there.
    pub(crate) fn overtake_places(&self, pages: std::ops::Range<u64>, bad: &mut [bool]) {
        let end = self.first + self.homes.len() as u64;
        for page in pages.start.max(self.first)..pages.end.min(end) {
            bad[(page - self.first) as usize + 1] = true;
        }
    }
}

impl Engine {
    /// Whether there is nothing to write or clean.
    pub(crate) fn replicas_are_at_rest(&self) -> bool {
        !self.free.used || self.free.replicas.asked.is_empty() && !self.has_to_clean()
    }

    /// Whether zeroes must replace replicas.
    const fn has_to_clean(&self) -> bool {
        let crowded = self.free.map.stained.pages() * 4 > self.free.map.stained_most * 3;
        self.free.replicas.withdrawing || crowded
    }

    pub(crate) fn next_for_replicas(&mut self) -> Option<Job> {
        if !self.free.used || self.log.failed {
            return None;
        }
        if let Some(job) = self.begin_clean() {
            return Some(Job::Clean(job));
        }
        if !self.log.starved && !self.is_hurried() {
            while let Some(batch) = self.next_batch() {
                if let Some(job) = self.begin_replicate(batch) {
                    return Some(Job::Replicate(job));
                }
            }
        }
        None
    }

    /// The batch that an administrator waits for, or else the one with its place nearest to the head
    /// (3.2), of as many as a plan has.
    fn next_batch(&mut self) -> Option<Batch> {
        let head = self.free.replicas.head.0;
        let asked = &self.free.replicas.asked;
        let way = |batch: &Batch| match batch.soon {
            true => 0,
            false => self.home_of(batch.first, 1).start.0.abs_diff(head),
        };
        let near = asked.iter().take(BATCHES).enumerate();
        let nearest = near.min_by_key(|&(_, batch)| (!batch.soon, way(batch)));
        let at = nearest?.0;
        self.free.replicas.asked.remove(at)
    }

    fn begin_replicate(&mut self, batch: Batch) -> Option<Replicate> {
        let mut seen = Extents::default();
        let mut homes: Vec<u64> = Vec::new();
        for page in batch.homes {
            let can = page < self.free.map.home_pages
                && !seen.contains(page)
                && !self.free.map.free.contains(page)
                && self.may_have_another(HomePage(page))
                && !self.writes.open_overlaps(self.home_of(page, 1));
            if can {
                seen.insert(page..page + 1);
                homes.push(page);
            } else {
                self.stats.replicas_refused += 1;
            }
        }
        let (first, pages, soon) = (batch.first, homes.len() as u64, batch.soon);
        let run = first..first + pages;
        let place = self.home_of(first, pages);
        let can = pages > 0
            && pages < u64::from(pages_in(self.config.stage_bytes))
            && self.may_replicate(pages)
            && self.free.map.can_stain(run.clone())
            && !self.background.locks(run.clone())
            && !self.writes.open_overlaps(place)
            && !self.is_taken(run.clone());
        let segment = if can { self.take_segment() } else { None };
        let Some(segment) = segment else {
            self.stats.replicas_refused += pages;
            return None;
        };
        self.free.replicas.bind(segment, first, pages as u32);
        self.free.map.stain(run);
        self.background.clear_stage(1 + pages as u32);
        self.background.windows += 1;
        let mut order: Vec<u32> = (0..pages as u32).collect();
        order.sort_unstable_by_key(|&i| homes[i as usize]);
        let (number, next, phase) = (self.background.windows, 0, ReplicatePhase::Read);
        let (page, locked) = (None, None);
        Some(Replicate { number, segment, first, homes, order, next, phase, page, locked, soon })
    }

    pub(crate) fn step_replicate(&mut self, job: &mut Replicate) -> JobStep {
        match job.phase {
            // Nothing was written, and nobody wants these replicas any more.
            ReplicatePhase::Read if self.free.replicas.withdrawing => {
                if self.background.in_flight > 0 {
                    return JobStep::Wait;
                }
                self.free.replicas.unbind(job.segment);
                JobStep::Over
            }
            ReplicatePhase::Read => {
                if self.log_waits_for_jobs() {
                    return self.give_way_to_log(job);
                }
                if job.next < job.order.len() {
                    let first = job.order[job.next];
                    if self.stage_from_ram(HomePage(job.homes[first as usize]), first + 1) {
                        job.next += 1;
                        return JobStep::Again;
                    }
                    if !self.may_write_replicas(job) {
                        return JobStep::Wait;
                    }
                    self.read_homes(job);
                    return JobStep::Again;
                }
                if self.background.in_flight > 0 {
                    return JobStep::Wait;
                }
                self.sum_stage(1, job.homes.len() as u32);
                job.phase = ReplicatePhase::Sum;
                JobStep::Wait
            }
            ReplicatePhase::Sum if self.background.sums_awaited => JobStep::Wait,
            ReplicatePhase::Sum => {
                self.log_for(job.number, [Content::Invalid(vec![job.segment])]);
                job.phase = ReplicatePhase::Stain;
                JobStep::Again
            }
            ReplicatePhase::Stain => self.await_stain(job),
            ReplicatePhase::Write => self.write_run(job),
            ReplicatePhase::Map if self.background.in_flight > 0 => JobStep::Wait,
            ReplicatePhase::Map => {
                self.flip_replicas(job);
                JobStep::Over
            }
        }
    }

    /// Whether the log waits for another job, which makes space in it or repairs it. Clients'
    /// flushes wait for the log.
    const fn log_waits_for_jobs(&self) -> bool {
        self.log.starved || self.log.failed
    }

    /// Ends a job that has written nothing: its replicas are requested again.
    fn give_way_to_log(&mut self, job: &mut Replicate) -> JobStep {
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        self.free.replicas.unbind(job.segment);
        let homes = std::mem::take(&mut job.homes);
        let first = job.first;
        if !self.free.replicas.withdrawing {
            self.free.replicas.asked.push_front(Batch { first, homes, soon: job.soon });
        }
        JobStep::Over
    }

    /// The area must know that the run is stained before anything is written there.
    fn await_stain(&mut self, job: &mut Replicate) -> JobStep {
        match self.background.synced.filter(|s| s.0 == job.number).map(|s| s.1) {
            // Nothing was written.
            None if self.log_waits_for_jobs() => self.give_way_to_log(job),
            None => JobStep::Wait,
            Some(false) => {
                self.free.replicas.unbind(job.segment);
                JobStep::Over
            }
            // A read of these pages began before the client discarded them, and must see no
            // replica.
            Some(true) if self.home_is_read(self.home_of(job.first, job.homes.len() as u64)) => {
                self.background.awaits_readers = true;
                JobStep::Wait
            }
            Some(true) => {
                self.background.awaits_readers = false;
                job.phase = ReplicatePhase::Write;
                job.next = 0;
                JobStep::Again
            }
        }
    }

    /// Writes the next consecutive pages, one write at a time; after the last, the segment's map.
    fn write_run(&mut self, job: &mut Replicate) -> JobStep {
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        self.unlock(job.locked.take());
        let bad = |at: usize| self.background.bad[at + 1];
        while job.next < job.homes.len() && bad(job.next) {
            job.next += 1;
        }
        let run = (job.next..job.homes.len()).take(PIECE_PAGES as usize);
        let pages = run.take_while(|&at| !bad(at)).count() as u32;
        if pages == 0 {
            self.write_replica_map(job);
            job.phase = ReplicatePhase::Map;
            return JobStep::Wait;
        }
        if !self.may_write_replicas(job) {
            return JobStep::Wait;
        }
        let (at, first) = (job.next as u32 + 1, job.first + job.next as u64);
        job.next += pages as usize;
        job.locked = Some((first, pages.into()));
        self.background.locked.extend(job.locked);
        let place = self.home_of(first, pages.into());
        self.submit_background(Target::Home, Op::Write, place, Some(stage(at)));
        self.sync.home_dirty = true;
        JobStep::Wait
    }

    /// Whether the next I/O may be sent. A client that waits for replicas does not wait for the
    /// replicas before them either. A client that waits for the log waits for no budget.
    fn may_write_replicas(&mut self, job: &Replicate) -> bool {
        if self.log_waits_for_jobs() {
            return self.may_submit(true);
        }
        let soon = job.soon || self.free.replicas.asked.front().is_some_and(|b| b.soon);
        if soon { self.may_submit(false) } else { self.may_interfere() }
    }

    /// The next pages in order of home that are also consecutive in order of place.
    fn read_homes(&mut self, job: &mut Replicate) {
        let first = job.order[job.next];
        let page = job.homes[first as usize];
        let run = job.order[job.next..].iter().zip(0u32..).take(PIECE_PAGES as usize);
        let in_ram = |n: u32| n > 0 && self.in_ram(HomePage(page + u64::from(n))).is_some();
        let pages = run
            .take_while(|&(&i, n)| i == first + n && job.homes[i as usize] == page + u64::from(n))
            .take_while(|&(_, n)| !in_ram(n))
            .count() as u32;
        job.next += pages as usize;
        let home = self.home_of(page, pages.into());
        self.submit_background(Target::Home, Op::Read, home, Some(stage(first + 1)));
    }

    fn write_replica_map(&mut self, job: &mut Replicate) {
        let entry = |(at, &home): (usize, &u64)| {
            let sum = self.background.sums[at + 1];
            let good = !self.background.bad[at + 1];
            if good { Entry { home, state: CopyState::Clean, sum } } else { Entry::FREE }
        };
        let entries = job.homes.iter().enumerate().map(entry).collect();
        job.page = Some(self.stage_map(job.segment, (job.first, 0), entries, 0));
        let place = self.place_of(Slot(job.segment * self.geo.segment_pages), 1);
        self.submit_background(Target::Area, Op::Write, place, Some(stage(0)));
    }

    fn flip_replicas(&mut self, job: &mut Replicate) {
        self.pages_free.extend(job.page);
        let slot = job.segment * self.geo.segment_pages + 1;
        let mut good = 0;
        for ((&home, slot), at) in job.homes.iter().zip(slot..).zip(1..) {
            if self.background.bad[at]
                || !self.may_have_another(HomePage(home))
                || self.free.replicas.withdrawing
            {
                self.stats.overtaken += PAGE_SECTORS;
            } else {
                let (page, sum) = (HomePage(home), self.background.sums[at]);
                self.copies.add(Slot(slot), page, CopyState::Clean, sum);
                self.stats.moved_bytes += PAGE_BYTES;
                good += 1;
            }
        }
        if good == 0 {
            self.free.replicas.unbind(job.segment);
            return;
        }
        self.log.control(Content::Committed(vec![job.segment]), false);
        self.pump_log();
    }

    /// The written pages are unlocked: clients may write there.
    fn unlock(&mut self, run: Option<(u64, u64)>) {
        if let Some(run) = run {
            self.background.locked.retain(|&locked| locked != run);
            // Later: a job does not learn of overtaking writes during its own step.
            self.retry_blocked |= !self.blocked.is_empty();
        }
    }

    fn begin_clean(&mut self) -> Option<Clean> {
        if !self.has_to_clean() {
            return None;
        }
        let now = self.background.now;
        self.tell_of_zeroes();
        let Some(run) = self.next_to_clean() else {
            if self.free.replicas.withdrawing && self.sync.is_idle() {
                // Pages that the area calls stained become stained again once the client discards
                // them.
                if self.free.map.is_unstained() {
                    self.free.replicas.withdrawing = false;
                } else if now >= self.background.clean_not_before {
                    self.background.clean_not_before = SimTime(now.0 + RETRY.0);
                    self.sync.wait(Waiter::Tail);
                    self.pump_sync();
                } else {
                    self.background.wake_at(self.background.clean_not_before);
                }
            }
            return None;
        };
        if now < self.background.clean_not_before {
            self.background.wake_at(self.background.clean_not_before);
            return None;
        }
        let pages = (run.end - run.start).min(PIECE_PAGES.into());
        let run = run.start..run.start + pages;
        let home = self.home_of(run.start, pages);
        if self.background.locks(run.clone())
            || self.writes.open_overlaps(home)
            || self.home_is_read(home)
        {
            self.background.clean_not_before = SimTime(now.0 + RETRY.0);
            self.background.wake_at(self.background.clean_not_before);
            return None;
        }
        // Chosen only when the I/O may be sent at once: else the client could take and write the
        // run meanwhile.
        if !self.may_submit(false) {
            return None;
        }
        self.background.clear_stage(0);
        Some(Clean { first: run.start, pages: pages as u32, sent: false })
    }

    /// The area learns of zeroes in the meantime. So a drain that is cut short goes on where it
    /// ended, no flush of home has all of the zeroes to write, and an administrator sees progress.
    fn tell_of_zeroes(&mut self) {
        // A later try may succeed: what has failed once does not end the progress.
        let waits = self.background.now < self.background.tail_not_before;
        if self.free.map.has_much_cleaned() && self.sync.is_idle() && !waits {
            self.sync.wait(Waiter::Tail);
            self.pump_sync();
        }
    }

    /// The first run of stained pages without zeroes, outside the places of replicas.
    fn next_to_clean(&self) -> Option<std::ops::Range<u64>> {
        self.free.map.stained.iter().find_map(|part| {
            let mut left = Extents::default();
            left.insert(part.clone());
            self.free.map.cleaned_or_about_to_be(&part).for_each(|zeroes| left.remove(zeroes));
            self.free.replicas.runs_at(&part).for_each(|run| left.remove(run));
            left.iter().next()
        })
    }

    pub(crate) fn step_clean(&mut self, job: &mut Clean) -> JobStep {
        let run = job.first..job.first + u64::from(job.pages);
        if !job.sent {
            let home = self.home_of(job.first, job.pages.into());
            job.sent = true;
            self.background.locked.push((job.first, job.pages.into()));
            self.submit_background(Target::Home, Op::WriteZeroes, home, None);
            self.sync.home_dirty = true;
            return JobStep::Wait;
        }
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        if self.background.failed {
            self.background.clean_not_before = SimTime(self.background.now.0 + RETRY.0);
            self.background.trouble = Some(Trouble::Home);
        } else {
            self.background.trouble = self.background.trouble.filter(Trouble::is_of_area);
            self.free.map.clean(run);
            self.stats.zeroed_bytes += u64::from(job.pages) * PAGE_BYTES;
        }
        self.unlock(Some((job.first, job.pages.into())));
        JobStep::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::free_space::replicas::tests::engine;

    /// Replicas that wait for the log are requested again, unless all replicas were withdrawn
    /// meanwhile: else they would exist after the withdrawal.
    #[test]
    fn replicas_that_wait_for_the_log_do_not_outlast_a_withdrawal() {
        for withdrawn in [false, true] {
            let mut engine = engine(&[(1000, 4000)]);
            let batch = Batch { first: 1000, homes: vec![1, 5], soon: false };
            let mut job = engine
                .begin_replicate(batch)
                .map(|job| Replicate { phase: ReplicatePhase::Stain, ..job });
            let job = job.as_mut().expect("there is room");
            engine.log.starved = true;
            if withdrawn {
                engine.withdraw();
            }
            assert_eq!(engine.step_replicate(job), JobStep::Over);
            assert_eq!(engine.free.replicas.asked.is_empty(), withdrawn);
        }
    }
}
