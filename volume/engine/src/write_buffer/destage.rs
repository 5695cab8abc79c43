//! Destaging: write dirty pages of the write buffer home (BORG, FAST'09, 4.4: outgoing). A batch
//! starts at the log's tail: read in log order, check, sort by home, write. A client's write waits
//! only for a destage of its own pages.

use std::ops::Range;

use seekless_block::{Extent, Op, PAGE_BYTES, Sectors};

use crate::background::{JobStep, PIECE_PAGES, pages_in, stage};
use crate::core::page_map::{CopyState, HomePage, Slot, UNSUMMED, pages};
use crate::core::write_order::{Mark, Since};
use crate::write_buffer::durability::Waiter;
use crate::write_buffer::ring::Segment;
use crate::{Engine, Fault, MemoryMove, Output, Target, Trouble};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestagePhase {
    Read,
    Sum,
    Write,
    Sync,
    SyncLog,
    /// The pages go to the log instead: see [`super::park`].
    Park,
    Parked,
    SyncParked,
}

/// A read takes along a gap of up to this many pages: a sixth of a turn of the platter.
const GAP_PAGES: u32 = 16;

/// A batch on its way home.
#[derive(Debug)]
pub(crate) struct Destage {
    /// In order of slot: home page, slot and page of the staging memory; later in order of home.
    pub(super) items: Vec<(HomePage, Slot, u32)>,
    reads: Vec<(Slot, u32, u32)>,
    pub(super) next: usize,
    /// Runs that could not be read in one piece are read page by page.
    singly: bool,
    /// Where the pages in order of home begin in the staging memory.
    pub(super) second: u32,
    pub(super) phase: DestagePhase,
    /// The pages go to the log, and stay dirty.
    parks: bool,
    /// Their writes, by number, and which of the items each holds.
    pub(super) parked: Vec<(u32, Range<usize>)>,
    /// A client waits for this batch: no budget, and the tail stays.
    urgent: bool,
    written: u64,
    /// Some pages could not be read, or are damaged.
    spoiled: bool,
    /// Where the log's tail moves once home is flushed, and how many flushes of home had failed when
    /// that was chosen.
    tail: Segment,
    failures: u64,
    /// When its reads began.
    since: Since,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum DestagePages<'a> {
    /// Pages that a client waits for.
    Urgent(&'a [HomePage]),
    These(&'a [HomePage]),
    Oldest,
}

impl Destage {
    /// The same batch, to the log instead of home.
    pub(crate) fn into_log(self) -> Self {
        Self { parks: true, ..self }
    }
}

impl Engine {
    pub(crate) fn destage_most(&self) -> usize {
        (pages_in(self.config.stage_bytes) / 2) as usize
    }

    /// A batch of dirty pages; `None` if no page can go now.
    pub(crate) fn begin_destage(&mut self, which: DestagePages<'_>) -> Option<Destage> {
        let most = self.destage_most();
        let mut items = self.to_destage(which, most);
        // Clients may wait for the next try of a checkpoint that failed.
        if self.background.checkpoint_fails && !matches!(which, DestagePages::Urgent(_)) {
            items.truncate(PIECE_PAGES as usize);
        }
        if items.is_empty() {
            return None;
        }
        items.sort_unstable_by_key(|&(_, slot)| slot);
        // Runs of slots, none across a segment: `(slot, page of the staging memory, pages)`. A
        // short gap between two runs is read along if memory has space for it.
        let mut reads: Vec<(Slot, u32, u32)> = Vec::new();
        let mut spare = most - items.len();
        let mut second = 0;
        let items: Vec<(HomePage, Slot, u32)> = items
            .into_iter()
            .map(|(page, slot)| {
                let gap = reads.last().map_or(u32::MAX, |&(first, _, n)| slot - (first + n));
                let same = reads.last().is_some_and(|&(first, _, n)| {
                    self.copies.segment_of(first) == self.copies.segment_of(slot)
                        && n + gap < PIECE_PAGES
                });
                if same && gap <= GAP_PAGES && gap as usize <= spare {
                    spare -= gap as usize;
                    second += gap;
                    if let Some((.., n)) = reads.last_mut() {
                        *n += gap + 1;
                    }
                } else {
                    reads.push((slot, second, 1));
                }
                second += 1;
                (page, slot, second - 1)
            })
            .collect();
        self.background.clear_stage(2 * second);
        Some(Destage {
            items,
            reads,
            next: 0,
            singly: false,
            second,
            phase: DestagePhase::Read,
            parks: false,
            parked: Vec::new(),
            urgent: matches!(which, DestagePages::Urgent(_)),
            written: 0,
            spoiled: false,
            tail: self.log.ring.tail,
            failures: 0,
            since: self.writes.since(),
        })
    }

    fn to_destage(&self, which: DestagePages<'_>, most: usize) -> Vec<(HomePage, Slot)> {
        let mut items: Vec<(HomePage, Slot)> = Vec::new();
        match which {
            DestagePages::Urgent(pages) | DestagePages::These(pages) => {
                let dirty = |&page: &HomePage| {
                    let slot = self.copies.find(page)?;
                    (self.copies.state(slot) == CopyState::Dirty).then_some((page, slot))
                };
                items.extend(pages.iter().filter_map(dirty));
                items.sort_unstable();
                items.dedup();
                items.truncate(most);
            }
            DestagePages::Oldest => {
                if self.state.is_draining() && self.copies.any_open() {
                    items.extend(self.written_in_place().take(most));
                }
                for segment in self.log.ring.in_use() {
                    for slot in self.geo.slots_of(segment) {
                        if self.copies.state(slot) == CopyState::Dirty
                            && let Some(page) = self.copies.home(slot)
                            && !self.waits_for_plan(page)
                            && !self.writes.open_overlaps(self.home_of(page, 1))
                        {
                            items.push((page, slot));
                        }
                    }
                    if items.len() + self.geo.segment_pages as usize > most {
                        break;
                    }
                }
                items.truncate(most);
            }
        }
        items
    }

    pub(crate) fn step_destage(&mut self, job: &mut Destage) -> JobStep {
        match job.phase {
            DestagePhase::Read | DestagePhase::Write
                if !job.urgent && self.batch_gives_way(job.written) =>
            {
                self.end_early(job)
            }
            DestagePhase::Read => {
                if let Some(&(slot, at, pages)) = job.reads.get(job.next) {
                    if !self.may_submit(job.urgent) {
                        return JobStep::Wait;
                    }
                    job.next += 1;
                    self.copies.begin_read(slot, pages);
                    let extent = self.place_of(slot, pages.into());
                    self.submit_background(Target::Area, Op::Read, extent, Some(stage(at)));
                    return JobStep::Again;
                }
                if self.background.in_flight > 0 {
                    return JobStep::Wait;
                }
                if !job.singly {
                    job.singly = true;
                    for &(_, slot, at) in &job.items {
                        if std::mem::take(&mut self.background.bad[at as usize]) {
                            job.reads.push((slot, at, 1));
                        }
                    }
                    return JobStep::Again;
                }
                // From here on a failure is a failure of home.
                self.background.failed = false;
                for &(slot, _, pages) in &job.reads {
                    self.copies.end_read(slot, pages);
                }
                self.sum_stage(0, job.second);
                job.phase = DestagePhase::Sum;
                JobStep::Wait
            }
            DestagePhase::Sum => {
                if self.background.sums_awaited {
                    return JobStep::Wait;
                }
                self.sort_by_home(job);
                job.phase = if job.parks { DestagePhase::Park } else { DestagePhase::Write };
                JobStep::Again
            }
            DestagePhase::Park => self.park(job),
            DestagePhase::Parked => self.flush_parked(job),
            DestagePhase::SyncParked => self.parked_is_synced(job),
            DestagePhase::Write => self.write_destaged(job),
            DestagePhase::Sync => self.home_is_synced(job),
            DestagePhase::SyncLog => self.log_is_synced(job),
        }
    }

    /// Something else comes first. The pages that went home count: a checkpoint flushes home, and
    /// moves the tail past them. The others stay dirty.
    fn end_early(&mut self, job: &Destage) -> JobStep {
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        if job.phase == DestagePhase::Read {
            // The other reads have not begun.
            for &(slot, _, pages) in job.reads.iter().take(job.next) {
                self.copies.end_read(slot, pages);
            }
            // A record may wait for the segment that was read.
            self.pump_log();
            self.pump_sync();
        } else if self.background.failed || job.spoiled {
            self.destage_came_to_nothing();
            self.fail_if_stuck();
        }
        JobStep::Over
    }

    /// Home is flushed. A newer record may have replaced a page of the segment. The tail passes the
    /// older copy only once that record is on stable storage, because recovery believes a record's
    /// tail even if pages of the record before it are torn.
    fn home_is_synced(&mut self, job: &mut Destage) -> JobStep {
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        self.background.failed |= job.failures != self.sync.home.failures;
        if self.background.failed || job.written == 0 {
            if self.background.failed && !job.spoiled {
                self.background.trouble = Some(Trouble::Home);
            }
            self.destage_came_to_nothing();
            if self.background.failed || job.spoiled {
                self.fail_if_stuck();
            }
            return JobStep::Over;
        }
        if self.log.durable < self.log.ended.0 {
            self.submit_background(Target::Area, Op::Flush, Extent::default(), None);
        }
        job.phase = DestagePhase::SyncLog;
        JobStep::Again
    }

    /// The log's tail may pass the written pages.
    fn log_is_synced(&mut self, job: &Destage) -> JobStep {
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        if job.failures != self.sync.home.failures {
            return JobStep::Over;
        }
        if self.background.failed {
            // The pages are at home. A checkpoint moves the tail later.
            self.background.superblock_due = true;
            return JobStep::Over;
        }
        if !job.spoiled {
            self.background.trouble = self.background.trouble.filter(Trouble::is_of_area);
        }
        self.log.ring.tail = job.tail;
        self.sync.wait(Waiter::Tail);
        self.pump_sync();
        JobStep::Over
    }

    /// Whether a client is writing a page at the log's tail: the page goes home a little later, or
    /// need not.
    pub(crate) fn tail_in_work(&self) -> bool {
        let in_work = |slot: Slot| {
            self.copies.state(slot) == CopyState::Dirty
                && self.copies.home(slot).is_some_and(|page| {
                    self.writes.open_overlaps(self.home_of(page, 1))
                        || self.background.locks(page.0..page.0 + 1)
                })
        };
        self.geo.slots_of(self.log.ring.tail).any(in_work)
    }

    /// Leaves out damaged pages, and moves the others into the order of home.
    fn sort_by_home(&mut self, job: &mut Destage) {
        let mut good: Vec<(HomePage, Slot, u32)> = Vec::new();
        for &(page, slot, at) in &job.items {
            let fault = if self.background.bad[at as usize] {
                self.only_copy_fails();
                Fault::Device
            } else if self.copies.sum(slot) == UNSUMMED
                || self.background.sums[at as usize] == self.copies.sum(slot)
                || self.was_written(slot, job.since)
            {
                good.push((page, slot, at));
                continue;
            } else {
                // The only copy stays; every read of it reports the damage.
                self.damaged(slot);
                Fault::Damaged
            };
            job.spoiled = true;
            self.background.trouble = Some(Trouble::Copies);
            if job.urgent {
                self.fail_blocked(page, fault);
            }
        }
        good.sort_unstable();
        let len = Sectors(seekless_block::PAGE_SECTORS);
        for (&(.., at), to) in good.iter().zip(job.second..) {
            self.out.push_back(Output::Move(MemoryMove { from: stage(at), to: stage(to), len }));
        }
        job.items = good;
        self.background.bad.fill(false);
        job.next = 0;
    }

    /// How many pages from the next one on stand side by side at home, are still the newest, and are
    /// written by no client, zeroes beside its write included.
    pub(super) fn newest_run(&self, job: &Destage, most: usize) -> usize {
        let still = |&(page, slot, _): &(HomePage, Slot, u32)| {
            self.copies.find(page) == Some(slot)
                && self.copies.state(slot) == CopyState::Dirty
                && !self.background.locks(page.0..page.0 + 1)
                && !self.writes.open_overlaps(self.home_of(page, 1))
                && !self.was_written(slot, job.since)
        };
        let first = job.items.get(job.next).map_or(0, |item| item.0.0);
        job.items[job.next..]
            .iter()
            .zip(pages(first..u64::MAX))
            .take(most)
            .take_while(|&(item, page)| item.0 == page && still(item))
            .count()
    }

    fn write_destaged(&mut self, job: &mut Destage) -> JobStep {
        while let Some(&(first, ..)) = job.items.get(job.next) {
            let run = self.newest_run(job, PIECE_PAGES as usize);
            if run == 0 {
                job.next += 1;
                continue;
            }
            if !self.may_submit(job.urgent) {
                return JobStep::Wait;
            }
            let at = job.second + job.next as u32;
            // No client writes these pages now, and none has since they were read.
            for &(_, slot, from) in &job.items[job.next..job.next + run] {
                self.copies.set_sum(slot, self.background.sums[from as usize]);
            }
            let home = self.home_of(first, run as u64);
            let mark = self.writes.begin(home);
            self.background.locked.push((first.0, run as u64));
            let destage = Some((first.0, mark));
            let (class, memory) = (self.class_of_jobs(), Some(stage(at)));
            self.submit_marked(class, destage, Target::Home, Op::Write, home, memory);
            job.next += run;
            job.written += run as u64;
            return JobStep::Again;
        }
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        if job.urgent {
            return JobStep::Over;
        }
        (job.tail, job.failures) = (self.next_tail(), self.sync.home.failures);
        self.submit_background(Target::Home, Op::Flush, Extent::default(), None);
        job.phase = DestagePhase::Sync;
        JobStep::Wait
    }

    pub(crate) fn destage_written(&mut self, first: u64, pages: u32, mark: Mark, ok: bool) {
        self.writes.end(mark);
        self.sync.home_dirty = true;
        self.retry_blocked |= !self.blocked.is_empty();
        if let Some(at) = self.background.locked.iter().position(|&(f, _)| f == first) {
            self.background.locked.swap_remove(at);
        }
        if !ok {
            self.background.trouble = Some(Trouble::Home);
            // The page goes home later; no client waits for that.
            (first..first + u64::from(pages))
                .for_each(|page| self.fail_blocked(HomePage(page), Fault::Device));
            return;
        }
        self.stats.destaged_bytes += u64::from(pages) * PAGE_BYTES;
        if mark < self.sync.home.failed_at {
            return; // a flush failed meanwhile: the pages go home once more
        }
        for page in first..first + u64::from(pages) {
            // Overlapping writes of clients waited: a dirty page is the page that was written.
            if let Some(slot) = self.copies.find(HomePage(page))
                && self.copies.state(slot) == CopyState::Dirty
            {
                self.copies.set_state(slot, CopyState::Clean);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Bytes, Request, SimTime};

    use super::*;
    use crate::{Config, Input, Mode, RequestId};

    /// A write buffer with 1024 dirty pages.
    fn absorbed() -> Engine {
        let sectors = |mib: u64| Bytes(mib << 20).sectors_ceil();
        let config = Config {
            area: sectors(64),
            write_buffer_percent: 90,
            mode: Mode::WriteBack,
            ..Config::new(sectors(1024))
        };
        let mut engine = Engine::new(config);
        for write in 0..8 {
            let request = Request::new(SimTime(0), Op::Write, Extent::new(write * 1024, 1024));
            engine.handle(SimTime(0), Input::Request { id: RequestId(write), request });
            while let Some(output) = engine.poll() {
                match output {
                    Output::Submit(io) => {
                        engine.handle(SimTime(0), Input::Done { io: io.id, result: Ok(()) });
                    }
                    Output::Sum(sum) => engine.summed(&vec![0; sum.pages as usize]),
                    _ => {}
                }
            }
        }
        engine
    }

    /// Clients' flushes may wait for the next try of the checkpoint, and that for the batch.
    #[test]
    fn after_a_checkpoint_that_failed_a_batch_is_short_unless_a_client_waits_for_it() {
        let mut engine = absorbed();
        let dirty = engine.copies.count(CopyState::Dirty) as usize;
        assert_eq!(dirty, 1024);
        assert!(dirty <= engine.destage_most());
        let asked: Vec<HomePage> = (0..512).map(HomePage).collect();
        for (fails, most) in [(false, dirty), (true, PIECE_PAGES as usize)] {
            engine.background.checkpoint_fails = fails;
            let batch = engine.begin_destage(DestagePages::Oldest).unwrap();
            assert_eq!(batch.items.len(), most, "the last checkpoint failed: {fails}");
            let urgent = engine.begin_destage(DestagePages::Urgent(&asked)).unwrap();
            assert_eq!(urgent.items.len(), asked.len());
        }
    }
}
