//! Checkpoints: the whole map, saved in one piece, so that recovery need not read the whole log.
//! There are two places for a checkpoint; a new one goes to the place that the superblock does not
//! name. Then the copies of the superblock are written, the first one before the others. The log behind the
//! checkpoint's position has all changes made meanwhile.

use seekless_block::{Extent, Op, PAGE_BYTES, PAGE_SECTORS, Sectors, SimTime};

use crate::area::checkpoint_pages::CheckpointPages;
use crate::background::{JobStep, RETRY};
use crate::format::{ENTRIES_PER_PAGE, Page, page_sum};
use crate::{Engine, Memory, Mode, Output, Target, Trouble};

/// The log grows by this many times the checkpoint's size before the next checkpoint, which is then
/// an eighth of all writes.
const LOG_PER_CHECKPOINT: u64 = 8;
/// And by at least this many pages, 64 MiB: small areas need no more.
const LOG_AT_LEAST: u64 = 16 << 10;

/// Buffers that are given back together. Saving a large map needs no second copy of the map in RAM.
const BUFFERS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckpointPhase {
    Pages,
    Sync,
    /// The next write or flush of the superblocks, by its number.
    Superblock(u8),
}

#[derive(Debug)]
pub(crate) struct Checkpoint {
    pages: CheckpointPages,
    phase: CheckpointPhase,
    /// How many flushes of home had failed when its own began.
    home_failures: u64,
    /// How many flushes of the area had failed when its pages, or its superblocks, were begun.
    area_failures: u64,
    /// The log goes on behind a failed record.
    restarts: bool,
    /// Buffers and pages of metadata to give back once their I/Os have ended.
    buffers: Vec<u32>,
    pages_taken: Vec<u32>,
}

impl Engine {
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let log = &self.log;
        if log.failed {
            return log.is_idle();
        }
        // Most often nothing was logged; then the size of a checkpoint does not matter.
        log.since_checkpoint > 0 && log.since_checkpoint > self.checkpoint_after()
            || self.background.superblock_due
            || log.starved && self.would_make_room()
            || self.state.is_leaving() && self.has_ended_all()
    }

    /// Whether each request has ended, and the log has it. Before, no checkpoint may be the last one.
    fn has_ended_all(&self) -> bool {
        let at_rest = self.writes.is_idle() && self.blocked.is_empty();
        at_rest && self.log.is_idle() && self.sync.is_idle()
    }

    /// Pages of the log until the next checkpoint.
    fn checkpoint_after(&self) -> u64 {
        let map = u64::from(self.geo.slots()).div_ceil(ENTRIES_PER_PAGE.into());
        // A smaller log gets space before it is full.
        (map * LOG_PER_CHECKPOINT).max(LOG_AT_LEAST).min(self.log.pages() / 4)
    }

    /// Whether a checkpoint would free a segment of the log.
    fn would_make_room(&self) -> bool {
        let ring = &self.log.ring;
        let to_head = |from| ring.distance(from, ring.head);
        let by_replay =
            to_head(ring.replay) >= to_head(ring.tail) && ring.replay != self.log.position().0;
        ring.free() == 0
            && (by_replay || ring.tail != ring.tail_durable || ring.tail != self.next_tail())
    }

    pub(crate) fn begin_checkpoint(&mut self) -> Checkpoint {
        self.background.failed = false;
        if let Some(job) = self.background.unfinished.take() {
            let area_failures = self.sync.area_failures;
            return Checkpoint { phase: CheckpointPhase::Superblock(0), area_failures, ..job };
        }
        self.background.superblock_due = false;
        self.log.emptied = self.is_log_empty();
        self.background.scrub.forget_writes();
        let restarts = self.log.failed && self.log.is_idle();
        if restarts {
            self.log.leave_behind();
        }
        let under_way = self.pages_under_way();
        let free = self.free_now(under_way.into_iter());
        // After a failed flush home may lack what its copies hold: the next attach compares them.
        let proves = self.sync.home.failures == 0;
        let stamp = self.state.stamp().filter(|_| self.has_ended_all());
        let stamp = stamp.map(|stamp| if proves { stamp } else { [0; 32] });
        let mut moment = self.moment(self.state.wanted_mode(), stamp);
        let learned = self.learned(&mut moment);
        Checkpoint {
            pages: CheckpointPages::new(moment, free).with_learned(learned),
            phase: CheckpointPhase::Pages,
            home_failures: 0,
            area_failures: self.sync.area_failures,
            restarts,
            buffers: Vec::new(),
            pages_taken: Vec::new(),
        }
    }

    pub(crate) fn step_checkpoint(&mut self, job: &mut Checkpoint) -> JobStep {
        if self.background.failed {
            if self.background.in_flight > 0 {
                return JobStep::Wait;
            }
            return self.checkpoint_failed(job);
        }
        match job.phase {
            CheckpointPhase::Pages if job.pages.place(self).is_some() => {
                if !self.may_put(job) {
                    return JobStep::Wait;
                }
                self.put_pages(job);
                JobStep::Again
            }
            _ if self.background.in_flight > 0 => JobStep::Wait,
            CheckpointPhase::Pages => {
                // These flushes cover the checkpoint's pages, and all home pages whose copies the
                // map has dropped. The tail may pass only what they cover.
                job.pages.moment.tail = self.next_tail();
                job.home_failures = self.sync.home.failures;
                for target in [Target::Home, Target::Area] {
                    self.submit_background(target, Op::Flush, Extent::default(), None);
                }
                job.phase = CheckpointPhase::Sync;
                JobStep::Wait
            }
            CheckpointPhase::Sync if job.home_failures != self.sync.home.failures => {
                self.checkpoint_failed(job)
            }
            // A client's flush failed, and the area may lack pages of this checkpoint.
            CheckpointPhase::Sync | CheckpointPhase::Superblock(_)
                if job.area_failures != self.sync.area_failures =>
            {
                self.checkpoint_failed(job)
            }
            CheckpointPhase::Sync => {
                self.log.ring.tail = job.pages.moment.tail;
                job.phase = CheckpointPhase::Superblock(0);
                JobStep::Again
            }
            CheckpointPhase::Superblock(step @ 0..4) => {
                job.phase = CheckpointPhase::Superblock(step + 1);
                if step == 0 {
                    self.identity.generation += 1;
                }
                let [first, middle, last] = self.geo.superblocks(self.identity.area_size);
                if step == 0 {
                    self.put_superblock(job, first);
                } else if step == 2 {
                    self.put_superblock(job, middle);
                    if last != middle {
                        self.put_superblock(job, last);
                    }
                } else {
                    self.submit_background(Target::Area, Op::Flush, Extent::default(), None);
                }
                JobStep::Wait
            }
            CheckpointPhase::Superblock(_) => self.checkpoint_done(job),
        }
    }

    /// Both superblocks name the checkpoint.
    fn checkpoint_done(&mut self, job: &mut Checkpoint) -> JobStep {
        let moment = job.pages.moment;
        self.identity.checkpoint_slot = moment.checkpoint_slot;
        self.identity.checkpoint_generation = moment.checkpoint_generation;
        self.identity.plan = moment.plan;
        self.background.scrub.metadata_is_saved();
        self.log.begins_at(moment.position.0, moment.position.2);
        self.log.ring.tail_is_durable(moment.tail);
        self.area_works();
        self.background.checkpoint_fails = false;
        self.log.failed &= !job.restarts;
        self.log.holds_pages &= !self.log.emptied;
        self.background.trouble = self.background.trouble.filter(|t| !t.is_of_area());
        self.state.announced(moment.mode);
        // A checkpoint from before the drain says nothing about it.
        let (then, wanted) = (moment.mode, self.state.wanted_mode());
        self.background.ends_drain &= then != wanted && wanted == Mode::WriteThrough;
        if moment.stamp.is_some() {
            self.state.detached();
        }
        self.pump_log();
        self.pump_sync();
        self.give_back(job, JobStep::Over)
    }

    /// Whether another buffer may be filled and written. Clients may wait for a detach, and for a
    /// log that only this checkpoint repairs; beside replicas, for space in the log too.
    fn may_put(&mut self, job: &Checkpoint) -> bool {
        let full = job.buffers.len() >= BUFFERS && self.background.in_flight > 0;
        let starved = self.log.starved && !self.free.takes_plans();
        let urgent = job.pages.moment.stamp.is_some() || self.log.failed || starved;
        !full && self.may_submit(urgent)
    }

    /// The old checkpoint stays valid, and the job is tried again later. If a superblock may name
    /// the new checkpoint, the next try begins with the superblocks, and overwrites neither
    /// checkpoint.
    fn checkpoint_failed(&mut self, job: &mut Checkpoint) -> JobStep {
        let step = self.give_back(job, JobStep::Over);
        let b = &mut self.background;
        b.detaches_failed += u32::from(self.state.stamp().is_some());
        b.superblock_due |= job.pages.moment.stamp.is_none();
        b.checkpoint_not_before = SimTime(b.now.0 + RETRY.0);
        b.checkpoint_fails = true;
        b.trouble = Some(Trouble::Area);
        if matches!(job.phase, CheckpointPhase::Superblock(_)) {
            let pages = CheckpointPages::written(job.pages.moment);
            let (buffers, pages_taken) = (Vec::new(), Vec::new());
            b.unfinished = Some(Checkpoint { pages, buffers, pages_taken, ..*job });
        }
        // The log does not go on if it is full: its waiters get an error.
        if self.log.failed || self.log.starved && self.log.ring.free() == 0 {
            self.fail_controls();
            self.fail_waiters();
        }
        step
    }

    fn give_back(&mut self, job: &mut Checkpoint, step: JobStep) -> JobStep {
        self.buffers_free.append(&mut job.buffers);
        self.pages_free.append(&mut job.pages_taken);
        step
    }

    fn put_pages(&mut self, job: &mut Checkpoint) {
        let Some(start) = job.pages.place(self) else { return };
        if self.background.in_flight == 0 {
            // The buffers of the I/Os before are free again.
            self.give_back(job, JobStep::Again);
        }
        let index = self.take_buffer();
        job.buffers.push(index);
        let mut count = 0;
        loop {
            let page = self.take_page();
            let mut bytes: Page = [0; PAGE_BYTES as usize];
            job.pages.encode(self, &mut bytes);
            if start < self.geo.plan_at() {
                self.background.scrub.writes(start + count, page_sum(&bytes));
            }
            *self.pages[page as usize] = bytes;
            self.put_page(job, page, index, count);
            count += 1;
            if job.pages.begins_region() || count >= u64::from(self.geo.segment_pages) {
                break;
            }
        }
        self.write_meta(index, start, count);
    }

    /// Writes pages of metadata from a buffer's start.
    fn write_meta(&mut self, index: u32, start: u64, pages: u64) {
        self.stats.metadata_bytes += pages * PAGE_BYTES;
        self.stats.checkpoint_bytes += pages * PAGE_BYTES;
        let extent = Extent::new(start * PAGE_SECTORS, pages * PAGE_SECTORS);
        let memory = Memory::Buffer { index, offset: Sectors(0) };
        self.submit_background(Target::Area, Op::Write, extent, Some(memory));
    }

    fn put_page(&mut self, job: &mut Checkpoint, page: u32, index: u32, at: u64) {
        job.pages_taken.push(page);
        let to = Memory::Buffer { index, offset: Sectors(at * PAGE_SECTORS) };
        self.out.push_back(Output::Put { page, to });
    }

    fn put_superblock(&mut self, job: &mut Checkpoint, page_at: u64) {
        let moment = &mut job.pages.moment;
        moment.dirty = self.may_be_dirty(moment.mode);
        let superblock = self.identity.superblock(&self.config, &self.geo, moment);
        let page = self.take_page();
        superblock.encode(&mut self.pages[page as usize]);
        let sum = page_sum(&self.pages[page as usize][..]);
        self.background.scrub.writes(page_at, sum);
        let index = self.take_buffer();
        job.buffers.push(index);
        self.put_page(job, page, index, 0);
        self.write_meta(index, page_at, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Input, Mode};
    use seekless_block::Bytes;

    #[test]
    fn a_large_map_is_put_down_through_a_few_buffers() {
        let sectors = |gib: u64| Bytes(gib << 30).sectors_ceil();
        let config = Config { area: sectors(1), replicas: sectors(8), ..Config::new(sectors(64)) };
        let mut engine = Engine::new(config);
        engine.handle(SimTime(0), Input::Command(crate::Command::SetMode(Mode::WriteBack)));
        let mut writes = 0;
        // One I/O ends after the other, and another is always on its way.
        while let Some(output) = engine.poll() {
            if let Output::Submit(io) = output {
                writes += usize::from(io.op == Op::Write);
                engine.handle(SimTime(0), Input::Done { io: io.id, result: Ok(()) });
            }
        }
        assert_eq!(engine.mode(), Mode::WriteBack, "it is down");
        assert!(writes > 3 * BUFFERS, "{writes}");
        let most = BUFFERS * engine.geo.segment_pages as usize;
        assert!(engine.pages.len() <= most + 2, "{} of {most}", engine.pages.len());
    }
}
