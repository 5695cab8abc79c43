//! Background work: one job at a time, a few I/Os at a time, within a budget. The table in `jobs`
//! chooses the next job. Each job is a small state machine.

pub(crate) mod checkpoint;
mod jobs;
pub(crate) mod move_plan;
mod plan_in_force;
pub(crate) mod prove;
pub(crate) mod scrub;
pub(crate) mod trail;

use rustc_hash::FxHashMap;
use seekless_block::{
    Bytes, Duration, Extent, Flags, Op, PAGE_BYTES, PAGE_SECTORS, Sectors, SimTime, StreamId,
};
use seekless_learn::Plan;

use crate::background::checkpoint::Checkpoint;
use crate::background::move_plan::Window;
use crate::background::plan_in_force::PlanMove;
use crate::background::prove::Prove;
use crate::background::scrub::{Scrub, Scrubbing};
use crate::background::trail::{Append, Ring};
use crate::core::page_map::{CopyState, HomePage, Slot};
use crate::core::write_order::Mark;
use crate::format::{Content, Entry, Header, PageSum, Position};
use crate::free_space::interference::Interference;
use crate::free_space::replicate::{Clean, Replicate};
use crate::write_buffer::destage::Destage;
use crate::write_buffer::durability::{HomeFlush, Waiter};
use crate::{Class, Engine, Io, Memory, MemoryMove, Output, Pending, Sum, SumFor, Target, Trouble};

/// Background I/Os in flight.
const DEPTH: u32 = 2;
/// Longest background I/O: 1 MiB. A client never waits behind more.
pub(crate) const PIECE_PAGES: u32 = 256;
/// Pages that clients read from the write buffer go home in batches of this size.
const READ_PAGES: usize = 64;
/// A volume without requests for this long is idle.
const IDLE: Duration = Duration(500_000_000);
/// An administrator looks at the result of a command within this time. Learned moves wait as long.
const LOOKS_WITHIN: Duration = Duration(1_000_000_000);
/// A failed job is not tried again before this time has passed.
pub(crate) const RETRY: Duration = Duration(1_000_000_000);

/// Progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// In place, or dropped because a client wrote their home.
    pub done: Sectors,
    /// Size of the plan.
    pub total: Sectors,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundIo {
    /// First page of the staging memory, and the number of pages; 0 for other memory.
    stage: u32,
    pages: u32,
    /// A destage: its first home page, and its mark in the order of writes.
    destage: Option<(u64, Mark)>,
    /// A flush of home: clients' writes that it covers.
    flush: Option<HomeFlush>,
    /// A flush of the area: how many of them had failed when it began.
    area_flush: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) enum Job {
    #[default]
    None,
    Move(Window),
    Destage(Destage),
    Prove(Prove),
    Checkpoint(Checkpoint),
    Replicate(Replicate),
    Clean(Clean),
    Trail(Append),
    Scrub(Scrub),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobStep {
    /// The job has more to do now.
    Again,
    /// The job waits for an I/O.
    Wait,
    /// The job has ended.
    Over,
}

#[derive(Debug, Default)]
pub(crate) struct Background {
    asked: Option<Plan>,
    pub(crate) todo: PlanMove,
    pub(crate) job: Job,
    pub(crate) trail: Ring,
    pub(crate) scrub: Scrubbing,
    pub(crate) in_flight: u32,
    /// By page of the staging memory: its checksum, and whether it must not be used.
    pub(crate) sums: Vec<PageSum>,
    pub(crate) bad: Vec<bool>,
    pub(crate) sums_awaited: bool,
    /// The last round of durability that a window waited for: the window's number, and the result.
    pub(crate) synced: Option<(u64, bool)>,
    /// Dirty pages that leave the write buffer, by their new slot: their slot in the log. Records on
    /// their way to the area say so.
    pub(crate) relocating: FxHashMap<Slot, Slot>,
    /// Dirty pages have left the write buffer for a plan, and its tail may not know.
    pub(crate) left_log: bool,
    /// A window waits for readers of the segments that it overwrites.
    pub(crate) awaits_readers: bool,
    /// The number of windows so far.
    pub(crate) windows: u64,
    pub(crate) failed: bool,
    /// Home pages whose destage a client waits for.
    urgent: Vec<HomePage>,
    /// Home pages that clients have read from the write buffer: they go home.
    read: Vec<HomePage>,
    /// Home pages that are being written home: first and number.
    pub(crate) locked: Vec<(u64, u64)>,
    /// Slots of copies in doubt, in order of home, and the next to be proven.
    pub(crate) suspects: Vec<Slot>,
    pub(crate) next_suspect: usize,
    /// A checkpoint that the superblocks do not name yet.
    pub(crate) unfinished: Option<Checkpoint>,
    /// Why the last attempt failed.
    pub(crate) trouble: Option<Trouble>,
    /// Last checkpoints that failed.
    pub(crate) detaches_failed: u32,
    /// The last checkpoint failed.
    pub(crate) checkpoint_fails: bool,
    pub(crate) tail_not_before: SimTime,
    /// The superblock is out of date.
    pub(crate) superblock_due: bool,
    /// A drain has ended, and no superblock says so yet.
    pub(crate) ends_drain: bool,
    /// An administrator waited until just now.
    hurried_until: SimTime,
    destaging: bool,
    /// A new plan was taken up: the dirty pages of the write buffer that it drops go home first.
    outgoing: bool,
    pub(crate) destage_not_before: SimTime,
    pub(crate) checkpoint_not_before: SimTime,
    pub(crate) clean_not_before: SimTime,
    not_before: SimTime,
    pub(crate) now: SimTime,
    pub(crate) wakeup: Option<SimTime>,
    pub(crate) foreground_at: SimTime,
    /// The cost of replication for clients.
    pub(crate) interference: Interference,
}

impl Background {
    pub(crate) fn ask(&mut self, plan: Plan) {
        self.asked = Some(plan);
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let moving =
            matches!(self.job, Job::Move(_)) || self.asked.is_some() || !self.todo.is_over();
        moving.then(|| self.todo.progress())
    }

    pub(crate) const fn plan_generation(&self) -> u64 {
        self.todo.generation
    }

    pub(crate) fn urgent(&mut self, page: HomePage) {
        // Each try of each waiting write asks.
        if !self.urgent.contains(&page) {
            self.urgent.push(page);
        }
        self.destage_not_before = SimTime::ZERO;
    }

    /// A client has read this page from the write buffer.
    pub(crate) fn was_read(&mut self, page: HomePage) {
        if self.read.len() < 2 * READ_PAGES {
            self.read.push(page);
        }
    }

    /// Whether one of these pages is being written home.
    pub(crate) fn locks(&self, pages: std::ops::Range<u64>) -> bool {
        self.locked.iter().any(|&(first, n)| first < pages.end && pages.start < first + n)
    }

    /// A client writes these pages: a job's earlier reads of them are out of date.
    pub(crate) fn overtake(&mut self, pages: std::ops::Range<u64>) {
        match &self.job {
            Job::Move(job) => job.overtake(pages, &mut self.bad),
            Job::Replicate(job) => job.overtake(pages, &mut self.bad),
            Job::Trail(job) => job.overtake(pages, &mut self.bad),
            _ => {}
        }
    }

    /// A client takes these pages: no replica may be written there.
    pub(crate) fn overtake_places(&mut self, pages: std::ops::Range<u64>) {
        if let Job::Replicate(job) = &self.job {
            job.overtake_places(pages, &mut self.bad);
        }
    }

    /// The segment whose replicas are being written.
    pub(crate) const fn replicating(&self) -> Option<u32> {
        match &self.job {
            Job::Replicate(job) => Some(job.segment),
            _ => None,
        }
    }

    pub(crate) fn summed(&mut self, page: u32, sums: &[PageSum]) {
        let page = page as usize;
        self.sums[page..page + sums.len()].copy_from_slice(sums);
        self.sums_awaited = false;
    }

    /// Whether no job runs, and none is due.
    const fn is_at_rest(&self) -> bool {
        matches!(self.job, Job::None)
            && self.asked.is_none()
            && self.todo.is_over()
            && self.urgent.is_empty()
            && self.suspects.is_empty()
            && !self.superblock_due
            && !self.left_log
            // The cause may be gone.
            && self.trouble.is_none()
    }

    /// Prepares the staging memory for a job.
    pub(crate) fn clear_stage(&mut self, pages: u32) {
        self.sums.clear();
        self.sums.resize(pages as usize, 0);
        self.bad.clear();
        self.bad.resize(pages as usize, false);
        self.failed = false;
    }

    /// The log and the flushes of the area work.
    pub(crate) fn tail_noted(&mut self) {
        if !self.superblock_due {
            self.trouble = self.trouble.filter(|t| !t.is_of_area());
        }
    }

    /// The log could not record which pages are newer at home.
    pub(crate) fn tail_failed(&mut self) {
        self.tail_not_before = SimTime(self.now.0 + RETRY.0);
        self.trouble = Some(Trouble::Area);
    }

    pub(crate) fn wake_at(&mut self, at: SimTime) {
        self.wakeup = Some(self.wakeup.map_or(at, |w| w.min(at)));
    }
}

impl Engine {
    /// Why the last attempt failed, if no similar attempt has succeeded since. A drain, a change of
    /// the mode and a detach wait for it. The engine tries again every second. [`Trouble::Lost`]
    /// stays.
    pub fn trouble(&self) -> Option<Trouble> {
        let lost = || self.sync.lost.then_some(Trouble::Lost);
        let damaged = || (self.scrubbed().lost > 0).then_some(Trouble::Copies);
        let gone = self.is_area_gone().then_some(Trouble::Gone);
        gone.or_else(lost).or(self.background.trouble).or_else(damaged)
    }

    /// True if no background work can run now; schedules a wake-up for idle work. Most requests
    /// find the engine so, and skip the full search for a job.
    pub(crate) fn is_at_rest(&mut self, now: SimTime) -> bool {
        let b = &mut self.background;
        b.now = now;
        b.wakeup = None;
        let rest = b.is_at_rest()
            && !self.state.is_draining()
            && self.state.stamp().is_none()
            && self.log.is_idle()
            // The full search sends an urgent record.
            && !self.log.hurry
            && self.sync.is_idle()
            && self.copies.count(CopyState::Dirty) == 0
            && !self.checkpoint_is_due()
            && self.replicas_are_at_rest();
        let waits = self.free.map.has_news()
            || self.log.wants_mark()
            || self.ahead.is_some()
            || self.scrubs_at().is_some();
        if !rest || !waits || self.state.is_detached() {
            return rest;
        }
        let times = [self.tells_at(), self.marks_at(), self.appends_at(), self.scrubs_at()];
        for at in times.into_iter().flatten() {
            if at <= now {
                return false;
            }
            self.background.wake_at(at);
        }
        true
    }

    /// The full search, which must find nothing either.
    pub(crate) fn find_nothing(&mut self, now: SimTime) {
        let seen = |e: &Self| {
            let b = &e.background;
            let log = (e.log.hurry, e.log.is_idle(), e.sync.is_idle());
            (e.out.len(), e.stats, b.wakeup, b.trouble, b.in_flight, log, e.blocked.len())
        };
        let before = seen(self);
        self.pump_log();
        self.pump_sync();
        self.run_background(now);
        assert_eq!(seen(self), before, "it is not at rest");
        assert!(matches!(self.background.job, Job::None), "a job was left");
    }

    /// When the clients count as idle.
    const fn idle_at(&self) -> SimTime {
        SimTime(self.background.foreground_at.0 + IDLE.0)
    }

    /// When an idle volume tells the area which pages are newly free; `None` without news.
    fn tells_at(&self) -> Option<SimTime> {
        let tells = self.free.map.has_news() && !self.log.failed && self.sync.is_idle();
        let overfull = tells && self.free.map.is_overfull();
        let quiet = self.background.clean_not_before.max(self.idle_at());
        tells.then_some(if overfull { SimTime::ZERO } else { quiet })
    }

    /// When an idle volume writes a mark behind the last flushed record. Without the mark a damaged
    /// record looks like a torn one.
    fn marks_at(&self) -> Option<SimTime> {
        (self.log.wants_mark() && self.sync.is_idle()).then_some(self.idle_at())
    }

    pub(crate) fn run_background(&mut self, now: SimTime) {
        self.background.now = now;
        self.background.wakeup = None;
        if let Some(at) = self.gathers_until().filter(|_| self.log.may_send()) {
            self.background.wake_at(at);
        }
        if self.is_waited_for() {
            self.background.hurried_until = SimTime(now.0.saturating_add(LOOKS_WITHIN.0));
        }
        loop {
            if matches!(self.background.job, Job::None) && !self.next_job() {
                return;
            }
            let mut job = std::mem::take(&mut self.background.job);
            let step = match &mut job {
                Job::None => JobStep::Over,
                Job::Move(job) => self.step_move(job),
                Job::Destage(job) => self.step_destage(job),
                Job::Prove(job) => self.step_prove(job),
                Job::Checkpoint(job) => self.step_checkpoint(job),
                Job::Replicate(job) => self.step_replicate(job),
                Job::Clean(job) => self.step_clean(job),
                Job::Trail(job) => self.step_append(job),
                Job::Scrub(job) => self.step_scrub(job),
            };
            if step != JobStep::Over {
                self.background.job = job;
            }
            if step == JobStep::Wait {
                return;
            }
        }
    }

    /// Whether an administrator or a client waits for the background. Learned moves then wait,
    /// and no budget holds up the rest: the administrator of an idle volume would wait for nothing.
    /// The pause after a client's request stays.
    pub(crate) fn is_hurried(&self) -> bool {
        self.background.now < self.background.hurried_until || self.is_waited_for()
    }

    fn is_waited_for(&self) -> bool {
        self.state.is_changing()
            || self.background.ends_drain
            || self.free.replicas.withdrawing
            || !self.background.urgent.is_empty()
            // Flushes behind a failed record wait for a checkpoint, and that for the running job.
            || self.log.failed && !self.sync.is_idle()
    }

    /// Whether learned work waits; it goes on by itself.
    pub(super) fn learned_work_waits(&self) -> bool {
        let b = &self.background;
        let work = b.asked.is_some() || !b.todo.is_over() || b.next_suspect < b.suspects.len();
        self.is_hurried() && (work || !self.replicas_are_at_rest())
    }

    /// Whether another background I/O may be sent now. If the budget forbids it, schedules a
    /// wake-up.
    pub(crate) fn may_submit(&mut self, urgent: bool) -> bool {
        let hurried = self.is_hurried();
        let b = &mut self.background;
        if b.in_flight >= DEPTH {
            return false;
        }
        let pause = SimTime(b.foreground_at.0.saturating_add(self.config.background_pause.0));
        if hurried {
            b.not_before = b.now;
        }
        let at = if urgent { SimTime::ZERO } else { b.not_before.max(pause) };
        // Before the first request no client needs the pause.
        let waits = b.now < at && (b.now < b.not_before || b.foreground_at > SimTime::ZERO);
        if waits {
            b.wake_at(at);
        }
        !waits
    }

    /// The same, for I/Os that clients must hardly feel.
    pub(crate) fn may_interfere(&mut self) -> bool {
        if self.is_hurried() {
            return self.may_submit(false);
        }
        let b = &mut self.background;
        let at = SimTime(b.foreground_at.0.saturating_add(b.interference.pause().0));
        if b.now < at {
            b.wake_at(at);
            return false;
        }
        self.may_submit(false)
    }

    pub(crate) fn submit_background(
        &mut self,
        target: Target,
        op: Op,
        extent: Extent,
        memory: Option<Memory>,
    ) {
        self.submit_marked(self.class_of_jobs(), None, target, op, extent, memory);
    }

    pub(crate) fn submit_marked(
        &mut self,
        class: Class,
        destage: Option<(u64, Mark)>,
        target: Target,
        op: Op,
        extent: Extent,
        memory: Option<Memory>,
    ) {
        let (stage, pages) = match memory {
            Some(Memory::Stage { offset }) => {
                (offset.0 / PAGE_SECTORS, extent.len.0 / PAGE_SECTORS)
            }
            _ => (0, 0),
        };
        let flushes = (target, op) == (Target::Home, Op::Flush);
        let flush = flushes.then(|| self.sync.home.begin());
        let area_flush = (target, op) == (Target::Area, Op::Flush);
        let area_flush = area_flush.then_some(self.sync.area_failures);
        let (stage, pages) = (stage as u32, pages as u32);
        let what = BackgroundIo { stage, pages, destage, flush, area_flush };
        let id = self.start(Pending::Background(what));
        let b = &mut self.background;
        b.interference.sent(b.in_flight);
        b.in_flight += 1;
        let rate = u128::from(self.config.background_rate.0);
        if let Some(ns) = (u128::from(extent.bytes().0) * 1_000_000_000).checked_div(rate) {
            b.not_before.0 = b.not_before.max(b.now).0.saturating_add(ns as u64);
        }
        let (flags, stream) = (Flags::NONE, StreamId(0));
        self.send(Io { id, target, op, extent, flags, class, stream, memory });
    }

    /// The class of a job's I/Os. On a disk that is always busy, one that may wait would never end,
    /// and so would the requests that wait for the job.
    pub(crate) fn class_of_jobs(&self) -> Class {
        let log = self.log.starved && self.sync.has_clients();
        if log || self.is_hurried() { Class::InTurn } else { Class::Background }
    }

    /// The class of records and flushes without data of clients. Clients or a trail may wait for them.
    pub(crate) fn class_of_records(&self) -> Class {
        let waits = self.has_trail() || self.sync.has_clients();
        if waits { Class::InTurn } else { Class::Background }
    }

    pub(crate) fn background_done(&mut self, what: BackgroundIo, ok: bool) {
        self.background.in_flight -= 1;
        if !ok {
            self.background.failed = true;
            let pages = what.stage as usize..(what.stage + what.pages) as usize;
            self.background.bad[pages].fill(true);
        }
        if let Some((first, mark)) = what.destage {
            self.destage_written(first, what.pages, mark, ok);
        }
        if let Some(flush) = what.flush
            && !self.home_flushed(flush, ok)
        {
            self.background.failed = true;
        }
        if let Some(failures) = what.area_flush {
            if !ok {
                self.area_flush_failed();
            }
            self.background.failed |= failures != self.sync.area_failures;
        }
    }

    /// The slot of RAM that holds a page whole.
    pub(crate) fn in_ram(&self, page: HomePage) -> Option<u32> {
        self.cache.holds(self.cache.grid.ram_page(page))
    }

    /// Copies a page from RAM to the staging memory, if RAM holds the page whole and home has the
    /// same bytes.
    pub(crate) fn stage_from_ram(&mut self, page: HomePage, at: u32) -> bool {
        let home = self.home_of(page, 1);
        if home.end().0 > self.config.capacity.0
            || self.copies.is_dirty(page)
            || self.writes.open_overlaps(home)
        {
            return false;
        }
        let Some(index) = self.in_ram(page) else { return false };
        let from = Memory::Slot { index, offset: Sectors(0) };
        let (to, len) = (stage(at), Sectors(PAGE_SECTORS));
        self.out.push_back(Output::Move(MemoryMove { from, to, len }));
        true
    }

    pub(crate) fn sum_stage(&mut self, page: u32, pages: u32) {
        self.background.sums_awaited = true;
        self.sums.push_back(SumFor::Stage { page });
        let from = stage(page);
        self.out.push_back(Output::Sum(Sum { from, pages }));
    }

    /// Logs these records. The window with this number waits until they are durable.
    pub(crate) fn log_for(&mut self, window: u64, records: impl IntoIterator<Item = Content>) {
        records.into_iter().for_each(|record| self.log.control(record, false));
        self.sync.wait(Waiter::Move(window));
        self.pump_log();
        self.pump_sync();
    }

    /// Writes the map of a segment into the staging memory. Returns the metadata page, to be given
    /// back.
    pub(crate) fn stage_map(
        &mut self,
        segment: u32,
        (durable, plan_generation): (u64, u64),
        entries: Vec<Entry>,
        at: u32,
    ) -> u32 {
        let header = Header {
            uuid: self.identity.uuid,
            sequence: 0,
            durable,
            plan_generation,
            position: Position { segment, page: 0 },
            previous: 0,
            tail: self.geo.read_segments,
            content: Content::ReadMap(entries),
        };
        let page = self.take_page();
        header.encode(&mut self.pages[page as usize]);
        self.stats.metadata_bytes += PAGE_BYTES;
        self.out.push_back(Output::Put { page, to: stage(at) });
        page
    }
}

pub(crate) const fn stage(page: u32) -> Memory {
    Memory::Stage { offset: Sectors(page as u64 * PAGE_SECTORS) }
}

pub(crate) const fn pages_in(bytes: Bytes) -> u32 {
    (bytes.0 / PAGE_BYTES) as u32
}
