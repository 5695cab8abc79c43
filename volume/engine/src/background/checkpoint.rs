//! Putting the whole map down in one piece, so that recovery need not read the log from its beginning: into that of
//! two places that the superblock does not name, then the superblock, one copy after the other. What changes
//! meanwhile is in the log after the position that the checkpoint names.

use seekless_block::{Extent, Op, PAGE_BYTES, PAGE_SECTORS, Sectors, SimTime};

use crate::area::attach::Moment;
use crate::background::{BackgroundIo, RETRY, Step};
use crate::core::page_map::State;
use crate::format::{
    AreaId, CheckpointHeader, CheckpointPage, ENTRIES_PER_PAGE, Entry, FreeMapPage, PLAN_PER_PAGE,
    PlanHeader, PlanPage, RUNS_PER_PAGE, Run,
};
use crate::{Engine, Memory, Mode, Output, Target, Trouble};

/// The log grows by so many times the checkpoint's size before the next one: an eighth of what is written.
const LOG_PER_CHECKPOINT: u64 = 8;
/// And by this many pages, 64 MiB, at least: small areas need no more.
const LOG_AT_LEAST: u64 = 16 << 10;

/// Buffers that are given back together: a large map does not stand in RAM once more while it is put down.
const BUFFERS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Map,
    Free,
    Plan,
    Sync,
    /// Which write or flush of the superblock comes next.
    Superblock(u8),
}

/// A checkpoint on its way.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// Segment and page of the log, sequence, checksum of the header before.
    position: (u32, u32, u64, u32),
    tail: u32,
    generation: u64,
    slot: u8,
    /// First slot of the map that is not down yet, and the page of the checkpoint it goes to.
    next: u32,
    page: u64,
    /// The plan at hand, 0 for none; and the first of its slots that is not down yet.
    plan: u64,
    next_wanted: u32,
    /// What is free, and how many pages of it are down.
    free: Vec<Run>,
    next_free: u32,
    phase: Phase,
    mode: Mode,
    last: Option<[u8; 32]>,
    /// It leaves a record behind that could not be written.
    restarts: bool,
    buffers: Vec<u32>,
    pages: Vec<u32>,
}

impl Engine {
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let log = &self.log;
        if log.failed {
            return log.is_idle();
        }
        let rest = || {
            self.writes_open == 0 && self.blocked.is_empty() && log.is_idle() && self.sync.is_idle()
        };
        // Most often there was nothing at all, and how much there may be need not be known.
        log.since_checkpoint > 0 && log.since_checkpoint > self.checkpoint_after()
            || self.background.superblock_due
            || log.starved && self.would_make_room()
            || self.background.detach.is_some() && rest()
    }

    /// Pages of the log until the next checkpoint.
    fn checkpoint_after(&self) -> u64 {
        let map = u64::from(self.geo.slots()).div_ceil(ENTRIES_PER_PAGE.into());
        // A log smaller than that makes room for itself before it is full.
        (map * LOG_PER_CHECKPOINT).max(LOG_AT_LEAST).min(self.log.pages() / 4)
    }

    /// Whether a checkpoint gives the log a segment to go on in.
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
            return Checkpoint { phase: Phase::Superblock(0), ..job };
        }
        self.background.superblock_due = false;
        let restarts = self.log.failed && self.log.is_idle();
        if restarts {
            self.log.leave_behind();
        }
        let under_way = self.pages_under_way();
        let free_now =
            if self.free.on { self.free.snapshot(under_way.into_iter()) } else { Vec::new() };
        Checkpoint {
            position: self.log.position(),
            tail: self.log.ring.tail_durable,
            generation: self.identity.checkpoint_generation + 1,
            slot: 1 - self.identity.checkpoint_slot,
            next: 0,
            page: 1,
            plan: self.background.todo.plan(),
            next_wanted: 0,
            free: free_now,
            next_free: 0,
            phase: Phase::Map,
            mode: self.config.mode,
            last: self.background.detach,
            restarts,
            buffers: Vec::new(),
            pages: Vec::new(),
        }
    }

    pub(crate) fn step_checkpoint(&mut self, job: &mut Checkpoint) -> Step {
        if self.background.failed {
            if self.background.in_flight > 0 {
                return Step::Wait;
            }
            return self.checkpoint_failed(job);
        }
        match job.phase {
            Phase::Map => {
                if job.next < self.geo.slots() {
                    if !self.may_put(job) {
                        return Step::Wait;
                    }
                    self.put_map(job);
                    return Step::Again;
                }
                job.phase = Phase::Free;
                Step::Again
            }
            Phase::Free => {
                if self.free.on && job.next_free <= job.free.len() as u32 / RUNS_PER_PAGE {
                    if !self.may_put(job) {
                        return Step::Wait;
                    }
                    self.put_free_map(job);
                    return Step::Again;
                }
                job.phase = Phase::Plan;
                Step::Again
            }
            Phase::Plan => {
                let write = job.plan != 0 && job.plan != self.identity.plan;
                if write && job.next_wanted < self.geo.read_slots() {
                    if !self.may_put(job) {
                        return Step::Wait;
                    }
                    self.put_plan(job);
                    return Step::Again;
                }
                if self.background.in_flight > 0 {
                    return Step::Wait;
                }
                // What was dropped from the map because home has it newer must be durable at home before the old
                // map goes; and so must the pages just written. And the tail may pass only what these flushes cover.
                job.tail = self.next_tail();
                for target in [Target::Home, Target::Area] {
                    let what = BackgroundIo { stage: 0, pages: 0, destage: None, meta: true };
                    self.submit_background(what, target, Op::Flush, Extent::default(), None);
                }
                job.phase = Phase::Sync;
                Step::Wait
            }
            Phase::Sync if self.background.in_flight > 0 => Step::Wait,
            Phase::Sync => {
                self.log.ring.tail = job.tail;
                job.phase = Phase::Superblock(0);
                Step::Again
            }
            Phase::Superblock(_) if self.background.in_flight > 0 => Step::Wait,
            Phase::Superblock(step @ 0..4) => {
                job.phase = Phase::Superblock(step + 1);
                if step == 0 {
                    self.identity.generation += 1;
                }
                if step % 2 == 0 {
                    self.put_superblock(job, u64::from(step) / 2);
                } else {
                    let what = BackgroundIo { stage: 0, pages: 0, destage: None, meta: true };
                    self.submit_background(what, Target::Area, Op::Flush, Extent::default(), None);
                }
                Step::Wait
            }
            Phase::Superblock(_) => {
                self.identity.checkpoint_slot = job.slot;
                self.identity.checkpoint_generation = job.generation;
                self.identity.plan = job.plan;
                self.log.begins_at(job.position.0, job.position.2);
                self.log.ring.tail_is_durable(job.tail);
                self.log.failed &= !job.restarts;
                self.background.trouble = self.background.trouble.filter(|t| !t.is_of_area());
                self.mode = job.mode.min(self.config.mode);
                self.background.detached = job.last.is_some();
                self.pump_log();
                self.pump_sync();
                self.give_back(job, Step::Over)
            }
        }
    }

    /// Whether another buffer may be filled and written.
    fn may_put(&mut self, job: &Checkpoint) -> bool {
        let full = job.buffers.len() >= BUFFERS && self.background.in_flight > 0;
        !full && self.may_submit(job.last.is_some())
    }

    /// The old one stands; another try later. Where a superblock may name the new one, that stands as well: the next
    /// try begins with the superblocks, and overwrites neither.
    fn checkpoint_failed(&mut self, job: &mut Checkpoint) -> Step {
        let step = self.give_back(job, Step::Over);
        let b = &mut self.background;
        b.superblock_due |= job.last.is_none();
        b.checkpoint_not_before = SimTime(b.now.0 + RETRY.0);
        b.trouble = Some(Trouble::Area);
        if matches!(job.phase, Phase::Superblock(_)) {
            let (buffers, pages) = (Vec::new(), Vec::new());
            b.unfinished = Some(Checkpoint { buffers, pages, free: Vec::new(), ..*job });
        }
        // Nor does the log go on where it is full: nobody waits for that.
        if self.log.failed || self.log.starved && self.log.ring.free() == 0 {
            self.fail_controls();
            self.fail_waiters();
        }
        step
    }

    fn give_back(&mut self, job: &mut Checkpoint, step: Step) -> Step {
        self.buffers_free.append(&mut job.buffers);
        self.pages_free.append(&mut job.pages);
        step
    }

    /// One buffer's worth of the map.
    fn put_map(&mut self, job: &mut Checkpoint) {
        if self.background.in_flight == 0 {
            // The buffers of the I/Os before are free again.
            self.give_back(job, Step::Again);
        }
        let index = self.take_buffer();
        job.buffers.push(index);
        let first = job.page;
        let mut count = 0;
        if first == 1 {
            // The header belongs before the first page.
            let header: CheckpointHeader = self.identity.checkpoint(&self.geo, &self.moment(job));
            let page = self.take_page();
            header.encode(&mut self.pages[page as usize]);
            self.put_page(job, page, index, 0);
            count = 1;
        }
        while count < u64::from(self.geo.segment_pages) && job.next < self.geo.slots() {
            let end = job.next.saturating_add(ENTRIES_PER_PAGE).min(self.geo.slots());
            let entry = |i: usize| {
                let slot = job.next + i as u32;
                if slot < end { self.entry(slot) } else { Entry::FREE }
            };
            let put = CheckpointPage {
                uuid: self.identity.uuid,
                generation: job.generation,
                first: job.next,
                entries: std::array::from_fn(entry),
            };
            let page = self.take_page();
            put.encode(&mut self.pages[page as usize]);
            self.put_page(job, page, index, count);
            job.next = end;
            job.page += 1;
            count += 1;
        }
        let start = self.geo.checkpoint_at(job.slot) + if first == 1 { 0 } else { first };
        self.write_meta(index, start, count);
    }

    /// One buffer's worth of the free map.
    fn put_free_map(&mut self, job: &mut Checkpoint) {
        if self.background.in_flight == 0 {
            self.give_back(job, Step::Again);
        }
        let index = self.take_buffer();
        job.buffers.push(index);
        let at = job.next_free;
        let last = job.free.len() as u32 / RUNS_PER_PAGE;
        let end = (at + self.geo.segment_pages).min(last + 1);
        for number in at..end {
            let put = free_map_page(self.identity.uuid, job.generation, number, &job.free);
            let page = self.take_page();
            put.encode(&mut self.pages[page as usize]);
            self.put_page(job, page, index, (number - at).into());
        }
        job.next_free = end;
        let start = self.geo.free_map_at(job.slot) + u64::from(at);
        self.write_meta(index, start, (end - at).into());
    }

    /// One buffer's worth of the plan. What the region held is of no use to anyone: the superblock names another.
    fn put_plan(&mut self, job: &mut Checkpoint) {
        if self.background.in_flight == 0 {
            self.give_back(job, Step::Again);
        }
        let index = self.take_buffer();
        job.buffers.push(index);
        let (uuid, generation, slots) = (self.identity.uuid, job.plan, self.geo.read_slots());
        let at = job.next_wanted / PLAN_PER_PAGE;
        let mut count = 0;
        if at == 0 {
            let page = self.take_page();
            let header = PlanHeader { uuid, generation, slots: slots.into() };
            header.encode(&mut self.pages[page as usize]);
            self.put_page(job, page, index, 0);
            count = 1;
        }
        while count < u64::from(self.geo.segment_pages) && job.next_wanted < slots {
            let first = job.next_wanted;
            let wanted = |i: usize| {
                let slot = first + i as u32;
                if slot < slots { self.background.todo.wanted(slot) } else { None }
            };
            let put = PlanPage { uuid, generation, first, wanted: std::array::from_fn(wanted) };
            let page = self.take_page();
            put.encode(&mut self.pages[page as usize]);
            self.put_page(job, page, index, count);
            job.next_wanted = first.saturating_add(PLAN_PER_PAGE).min(slots);
            count += 1;
        }
        let start = self.geo.plan_at() + if at == 0 { 0 } else { 1 + u64::from(at) };
        self.write_meta(index, start, count);
    }

    /// Writes pages of metadata from a buffer's start.
    fn write_meta(&mut self, index: u32, start: u64, pages: u64) {
        self.stats.metadata_bytes += pages * PAGE_BYTES;
        let what = BackgroundIo { stage: 0, pages: 0, destage: None, meta: true };
        let extent = Extent::new(start * PAGE_SECTORS, pages * PAGE_SECTORS);
        let memory = Memory::Buffer { index, offset: Sectors(0) };
        self.submit_background(what, Target::Area, Op::Write, extent, Some(memory));
    }

    fn put_page(&mut self, job: &mut Checkpoint, page: u32, index: u32, at: u64) {
        job.pages.push(page);
        let to = Memory::Buffer { index, offset: Sectors(at * PAGE_SECTORS) };
        self.out.push_back(Output::Put { page, to });
    }

    fn moment(&self, job: &Checkpoint) -> Moment {
        Moment {
            dirty: job.mode == Mode::WriteBack || self.map.count(State::Dirty) > 0,
            stamp: job.last,
            mode: job.mode,
            checkpoint_slot: job.slot,
            checkpoint_generation: job.generation,
            position: job.position,
            tail: job.tail,
            plan: job.plan,
        }
    }

    fn put_superblock(&mut self, job: &mut Checkpoint, copy: u64) {
        let superblock = self.identity.superblock(&self.config, &self.geo, &self.moment(job));
        let page = self.take_page();
        superblock.encode(&mut self.pages[page as usize]);
        let index = self.take_buffer();
        job.buffers.push(index);
        self.put_page(job, page, index, 0);
        self.write_meta(index, copy, 1);
    }
}

/// A page of a free map by its number: the runs that belong there, and behind the last nothing.
pub(crate) fn free_map_page(
    uuid: AreaId,
    generation: u64,
    number: u32,
    all: &[Run],
) -> FreeMapPage {
    let first = number * RUNS_PER_PAGE;
    let run = |i: usize| all.get(first as usize + i).copied().unwrap_or(Run::NONE);
    FreeMapPage { uuid, generation, first, runs: std::array::from_fn(run) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Input};
    use seekless_block::Bytes;

    #[test]
    fn a_large_map_is_put_down_through_a_few_buffers() {
        let sectors = |gib: u64| Bytes(gib << 30).sectors_ceil();
        let config = Config { area: sectors(1), replicas: sectors(8), ..Config::new(sectors(64)) };
        let mut engine = Engine::new(config);
        engine.handle(SimTime(0), Input::SetMode(Mode::WriteBack));
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
