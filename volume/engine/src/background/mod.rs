//! What the engine does by itself: one job at a time, a few I/Os at a time, within a budget. Which job comes next
//! is decided here; each job is a small machine of its own.

pub(crate) mod checkpoint;
pub(crate) mod move_plan;
pub(crate) mod prove;

use seekless_block::{
    Bytes, Duration, Extent, Flags, Op, PAGE_SECTORS, Sectors, SimTime, StreamId,
};
use seekless_learn::Plan;

use crate::background::checkpoint::Checkpoint;
use crate::background::move_plan::{Move, Todo};
use crate::background::prove::Prove;
use crate::core::page_map::State;
use crate::core::write_order::Mark;
use crate::format::{Content, PageSum};
use crate::free_space::interference::Interference;
use crate::free_space::replicate::{Clean, Replicate};
use crate::write_buffer::destage::{Destage, Which};
use crate::{Class, Engine, Io, Memory, Mode, Output, Pending, Sum, SumFor, Target, Trouble};

/// Background I/Os in flight.
const DEPTH: u32 = 2;
/// Longest background I/O: 1 MiB, so that a client never waits behind more.
pub(crate) const PIECE_PAGES: u32 = 256;
/// So many pages that clients have read out of the write buffer go home together.
const READ_PAGES: usize = 64;
/// Nothing asked for so long is an idle volume.
const IDLE: Duration = Duration(500_000_000);
/// After a job that came to nothing, the same is not tried before.
pub(crate) const RETRY: Duration = Duration(1_000_000_000);

/// How far a reconfiguration has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// In place, or given up because they were written meanwhile.
    pub done: Sectors,
    /// What the plan places.
    pub total: Sectors,
}

/// A background I/O in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundIo {
    /// Page of the staging memory, and how many.
    pub(crate) stage: u32,
    pub(crate) pages: u32,
    /// A destage: its first home page and its mark among the writes.
    pub(crate) destage: Option<(u64, Mark)>,
    /// A buffer and its metadata pages to be given back are the job's.
    pub(crate) meta: bool,
}

#[derive(Debug, Default)]
pub(crate) enum Job {
    #[default]
    None,
    Move(Move),
    Destage(Destage),
    Prove(Prove),
    Checkpoint(Checkpoint),
    Replicate(Replicate),
    Clean(Clean),
}

/// What a job did when it was its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something: its turn again.
    Again,
    /// Nothing, until something ends.
    Wait,
    /// Its last.
    Over,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Background {
    asked: Option<Plan>,
    pub(crate) todo: Todo,
    pub(crate) job: Job,
    pub(crate) in_flight: u32,
    /// By page of the staging memory: checksums, and whether it must not be used.
    pub(crate) sums: Vec<PageSum>,
    pub(crate) bad: Vec<bool>,
    pub(crate) sums_awaited: bool,
    /// The last round of making things durable that a window waited for: the window's number, and how it ended.
    pub(crate) synced: Option<(u64, bool)>,
    /// A window can go on once nobody reads what it overwrites.
    pub(crate) awaits_readers: bool,
    /// Windows so far.
    pub(crate) windows: u64,
    pub(crate) failed: bool,
    /// Home pages that a client waits for to come to rest.
    urgent: Vec<u64>,
    /// Home pages that clients have read out of the write buffer: the log is no place to read from.
    read: Vec<u64>,
    /// Home pages that are just being written home: first and number.
    pub(crate) locked: Vec<(u64, u64)>,
    /// Slots of copies in doubt, in order of home, and how far they have been looked at.
    pub(crate) suspects: Vec<u32>,
    pub(crate) next_suspect: usize,
    /// A checkpoint that the superblocks could not be made to name.
    pub(crate) unfinished: Option<Checkpoint>,
    /// What the last attempt came to grief over.
    pub(crate) trouble: Option<Trouble>,
    tail_not_before: SimTime,
    /// The superblock does not say what it should.
    pub(crate) superblock_due: bool,
    destaging: bool,
    draining: bool,
    destage_not_before: SimTime,
    pub(crate) detach: Option<[u8; 32]>,
    pub(crate) detached: bool,
    pub(crate) checkpoint_not_before: SimTime,
    pub(crate) clean_not_before: SimTime,
    not_before: SimTime,
    pub(crate) now: SimTime,
    pub(crate) wakeup: Option<SimTime>,
    pub(crate) foreground_at: SimTime,
    /// What replicating costs clients.
    pub(crate) interference: Interference,
}

impl Background {
    pub(crate) fn ask(&mut self, plan: Plan) {
        self.asked = Some(plan);
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        let moving =
            matches!(self.job, Job::Move(_)) || self.asked.is_some() || !self.todo.is_over();
        (moving && !self.detached).then(|| self.todo.progress())
    }

    pub(crate) const fn plan_generation(&self) -> u64 {
        self.todo.generation
    }

    pub(crate) fn urgent(&mut self, page: u64) {
        self.urgent.push(page);
        self.destage_not_before = SimTime::ZERO;
    }

    /// A client has read this page out of the write buffer.
    pub(crate) fn was_read(&mut self, page: u64) {
        if self.read.len() < 2 * READ_PAGES {
            self.read.push(page);
        }
    }

    /// Whether any of these pages is just being written home.
    pub(crate) fn locks(&self, pages: std::ops::Range<u64>) -> bool {
        self.locked.iter().any(|&(first, n)| first < pages.end && pages.start < first + n)
    }

    /// A client writes these pages: what a move has read of them is old.
    pub(crate) fn overtake(&mut self, pages: std::ops::Range<u64>) {
        match &self.job {
            Job::Move(job) => job.overtake(pages, &mut self.bad),
            Job::Replicate(job) => job.overtake(pages, &mut self.bad),
            _ => {}
        }
    }

    /// A client takes these pages, where a replica may be about to be written.
    pub(crate) fn overtake_places(&mut self, pages: std::ops::Range<u64>) {
        if let Job::Replicate(job) = &self.job {
            job.overtake_places(pages, &mut self.bad);
        }
    }

    /// The segment whose replicas are just being written.
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

    /// Whether no job is under way, and none is asked for.
    const fn is_at_rest(&self) -> bool {
        matches!(self.job, Job::None)
            && self.asked.is_none()
            && self.todo.is_over()
            && self.urgent.is_empty()
            && self.suspects.is_empty()
            && !self.superblock_due
            && !self.draining
            // What it was about may be gone.
            && self.trouble.is_none()
            && (self.detach.is_none() || self.detached)
    }

    /// Begins a job's use of the staging memory.
    pub(crate) fn clear_stage(&mut self, pages: u32) {
        self.sums.clear();
        self.sums.resize(pages as usize, 0);
        self.bad.clear();
        self.bad.resize(pages as usize, false);
        self.failed = false;
    }

    /// The log and the flushes of the area are at work.
    pub(crate) fn tail_noted(&mut self) {
        if !self.superblock_due {
            self.trouble = self.trouble.filter(|t| !t.is_of_area());
        }
    }

    /// What home has newer could not be noted down.
    pub(crate) fn tail_failed(&mut self) {
        self.tail_not_before = SimTime(self.now.0 + RETRY.0);
        self.trouble = Some(Trouble::Area);
    }

    pub(crate) fn wake_at(&mut self, at: SimTime) {
        self.wakeup = Some(self.wakeup.map_or(at, |w| w.min(at)));
    }
}

impl Engine {
    /// Whether everything has come to rest after [`crate::Input::Detach`].
    #[must_use]
    pub const fn is_detached(&self) -> bool {
        self.background.detached
    }

    /// Whether everything is at home, and nothing more goes into the write buffer.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.mode == Mode::WriteThrough
            && !self.background.draining
            && self.map.count(State::Dirty) == 0
            && self.log.is_idle()
            && matches!(self.background.job, Job::None)
            && !self.background.superblock_due
    }

    /// Why the last attempt to go on failed, where nothing that did not need the same has succeeded since: a drain, a
    /// change of the mode and a detach wait for it. They are tried again every second. Where nothing does: what was lost.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.background.trouble.or_else(|| self.sync.lost.then_some(Trouble::Lost))
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        if self.geo.log_segments == 0 || mode == self.config.mode {
            return;
        }
        self.config.mode = mode;
        match mode {
            Mode::WriteThrough => self.drain(),
            Mode::WriteBack => {
                // Only once the superblock says that home may not be complete.
                self.background.draining = false;
                self.background.superblock_due = true;
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        self.config.mode = Mode::WriteThrough;
        self.mode = Mode::WriteThrough;
        self.background.draining = self.geo.log_segments > 0;
        self.background.destage_not_before = SimTime::ZERO;
    }

    /// Whether there is nothing to do but what clients ask for, now; what waits until they ask for nothing is waited for. Most
    /// requests find it so, and are spared the long way to the same answer.
    pub(crate) fn is_at_rest(&mut self, now: SimTime) -> bool {
        let b = &mut self.background;
        b.now = now;
        b.wakeup = None;
        let rest = b.is_at_rest()
            && self.log.is_idle()
            // A record that is in a hurry is sent, and the hurry over, on the long way.
            && !self.log.hurry
            && self.sync.is_idle()
            && self.map.count(State::Dirty) == 0
            && !self.checkpoint_is_due()
            && self.replicas_are_at_rest();
        let waits = self.free.has_news() || self.log.wants_mark();
        if !rest || !waits || self.background.detached {
            return rest;
        }
        for at in [self.tells_at(), self.marks_at()].into_iter().flatten() {
            if at <= now {
                return false;
            }
            self.background.wake_at(at);
        }
        true
    }

    /// The long way, which is to find nothing either where all is said to be at rest.
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

    /// When clients will have asked for nothing for long enough.
    const fn idle_at(&self) -> SimTime {
        SimTime(self.background.foreground_at.0 + IDLE.0)
    }

    /// When the area is told what is newly free, although nobody asked it to know, where there is such a thing.
    fn tells_at(&self) -> Option<SimTime> {
        let tells = self.free.has_news() && !self.log.failed && self.sync.is_idle();
        let overfull = tells && self.free.is_overfull();
        let quiet = self.background.clean_not_before.max(self.idle_at());
        tells.then_some(if overfull { SimTime::ZERO } else { quiet })
    }

    /// When a mark is written behind what was flushed last, so that it is known to have been: else a damaged record looks
    /// like a torn one.
    fn marks_at(&self) -> Option<SimTime> {
        (self.log.wants_mark() && self.sync.is_idle()).then_some(self.idle_at())
    }

    pub(crate) fn run_background(&mut self, now: SimTime) {
        self.background.now = now;
        self.background.wakeup = None;
        if let Some(at) = self.gathers_until().filter(|_| self.log.may_send()) {
            self.background.wake_at(at);
        }
        loop {
            if matches!(self.background.job, Job::None) && !self.next_job() {
                return;
            }
            let mut job = std::mem::take(&mut self.background.job);
            let step = match &mut job {
                Job::None => Step::Over,
                Job::Move(job) => self.step_move(job),
                Job::Destage(job) => self.step_destage(job),
                Job::Prove(job) => self.step_prove(job),
                Job::Checkpoint(job) => self.step_checkpoint(job),
                Job::Replicate(job) => self.step_replicate(job),
                Job::Clean(job) => self.step_clean(job),
            };
            if step != Step::Over {
                self.background.job = job;
            }
            if step == Step::Wait {
                return;
            }
        }
    }

    /// Chooses what to do. False where there is nothing, or not yet.
    fn next_job(&mut self) -> bool {
        if self.background.detached {
            return false;
        }
        let now = self.background.now;
        let destage_may = now >= self.background.destage_not_before;
        let urgent = std::mem::take(&mut self.background.urgent);
        if !urgent.is_empty() {
            if let Some(job) = self.begin_destage(Which::Urgent(&urgent)) {
                self.background.job = Job::Destage(job);
                return true;
            }
            // They have come to rest by themselves.
            self.retry_blocked();
            self.pump_log();
        }
        let dirty = self.map.count(State::Dirty) > 0;
        if !dirty && !self.free.is_withdrawing() {
            self.background.trouble = self.background.trouble.filter(Trouble::is_of_area);
        }
        let ring = self.log.ring;
        // As late as can be: what is written again meanwhile need not go home, and a long sweep is a dense one. Past nine tenths of
        // the log, down to eight; and to eight when nobody asks for anything.
        let (used, all) = (u64::from(ring.used()), u64::from(ring.segments));
        let full = self.log.starved && ring.free() == 0;
        if used * 10 > all * 9 || full || self.background.draining {
            self.background.destaging = true;
        } else if used * 10 <= all * 8 {
            self.background.destaging = false;
        }
        let idle_at = self.idle_at();
        let idle = now >= idle_at;
        let spare = used * 10 > all * 8;
        if self.background.read.len() >= READ_PAGES && destage_may {
            let pages = std::mem::take(&mut self.background.read);
            if let Some(job) = self.begin_destage(Which::Read(&pages)) {
                self.background.job = Job::Destage(job);
                return true;
            }
        }
        if dirty && (self.background.destaging || idle && spare) {
            if destage_may {
                if let Some(job) = self.begin_destage(Which::Oldest) {
                    self.background.job = Job::Destage(job);
                    return true;
                }
                self.destage_came_to_nothing();
                if full && self.next_tail() == self.log.ring.tail {
                    // Something in the tail can be neither read nor written home: nobody shall wait for ever.
                    self.fail_controls();
                }
            }
            let at = self.background.destage_not_before;
            self.background.wake_at(at);
        } else if dirty && spare {
            self.background.wake_at(idle_at);
        }
        let failed = self.log.failed;
        if !dirty && self.background.draining && self.absorbs_at_rest() && !failed {
            return self.end_drain();
        }
        if self.checkpoint_is_due() {
            let at = self.background.checkpoint_not_before;
            if now >= at {
                self.background.job = Job::Checkpoint(self.begin_checkpoint());
                return true;
            }
            self.background.wake_at(at);
        }
        if let Some(plan) = self.background.asked.take() {
            self.adopt(&plan);
        }
        // A window needs the log; where that is full, something above makes room.
        if !self.background.todo.is_over() && !self.log.starved && !failed {
            match self.begin_move() {
                Some(job) => {
                    self.background.job = Job::Move(job);
                    return true;
                }
                // A large area is looked through a part at a time: clients come between.
                None if !self.background.todo.is_over() => self.background.wake_at(now),
                None => {}
            }
        }
        if let Some(job) = self.begin_prove() {
            self.background.job = Job::Prove(job);
            return true;
        }
        if let Some(job) = self.next_for_replicas() {
            self.background.job = job;
            return true;
        }
        if let Some(at) = self.tells_at() {
            if self.free.is_overfull() {
                self.background.superblock_due = true;
            } else if now >= at {
                self.background.clean_not_before = SimTime(now.0 + RETRY.0);
                self.sync.wait(crate::write_buffer::durability::Waiter::Tail);
                self.pump_sync();
            } else {
                self.background.wake_at(at);
            }
        }
        // A plan without any motion is to be noted down all the same.
        if self.background.superblock_due && now >= self.background.checkpoint_not_before {
            self.background.job = Job::Checkpoint(self.begin_checkpoint());
            return true;
        }
        if let Some(at) = self.marks_at() {
            if now >= at {
                self.log.control(Content::Data(Vec::new()), false);
                self.pump_log();
            } else {
                self.background.wake_at(at);
            }
        }
        false
    }

    fn absorbs_at_rest(&self) -> bool {
        self.log.is_idle() && self.absorbs.free.len() == self.absorbs.all.len()
    }

    /// Nothing is dirty any more: the log begins anew, so that recovery finds nothing in it.
    fn end_drain(&mut self) -> bool {
        if self.sync.has_voids() || !self.sync.is_idle() {
            let at = self.background.tail_not_before;
            if self.background.now < at {
                self.background.wake_at(at);
            } else if self.sync.is_idle() {
                self.sync.wait(crate::write_buffer::durability::Waiter::Tail);
                self.pump_sync();
            }
            return false;
        }
        self.background.draining = false;
        self.background.superblock_due = true;
        // What recovery would find before it is void; where the next segment is not free, it is at least equal. An empty one is
        // not left out: recovery looks for the next record in two segments, and may not hear of this one yet.
        if !self.log.begins_segment() {
            self.next_segment();
        }
        self.background.job = Job::Checkpoint(self.begin_checkpoint());
        true
    }

    pub(crate) fn destage_came_to_nothing(&mut self) {
        self.background.destage_not_before = SimTime(self.background.now.0 + RETRY.0);
    }

    /// Whether another background I/O may be sent now; if not because of the budget, asks to be woken.
    pub(crate) fn may_submit(&mut self, urgent: bool) -> bool {
        let b = &mut self.background;
        if b.in_flight >= DEPTH {
            return false;
        }
        let pause = SimTime(b.foreground_at.0.saturating_add(self.config.background_pause.0));
        let at = if urgent { SimTime::ZERO } else { b.not_before.max(pause) };
        // Before the first request there is nobody to make room for.
        let waits = b.now < at && (b.now < b.not_before || b.foreground_at > SimTime::ZERO);
        if waits {
            b.wake_at(at);
        }
        !waits
    }

    /// The same, for what clients must hardly feel.
    pub(crate) fn may_interfere(&mut self) -> bool {
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
        what: BackgroundIo,
        target: Target,
        op: Op,
        extent: Extent,
        memory: Option<Memory>,
    ) {
        let id = self.start(Pending::Background(what));
        let b = &mut self.background;
        b.interference.sent(b.in_flight);
        b.in_flight += 1;
        let rate = u128::from(self.config.background_rate.0);
        if let Some(ns) = (u128::from(extent.bytes().0) * 1_000_000_000).checked_div(rate) {
            b.not_before.0 = b.not_before.max(b.now).0.saturating_add(ns as u64);
        }
        let (class, flags, stream) = (Class::Background, Flags::NONE, StreamId(0));
        self.out.push_back(Output::Submit(Io {
            id,
            target,
            op,
            extent,
            flags,
            class,
            stream,
            memory,
        }));
    }

    pub(crate) fn background_done(&mut self, what: BackgroundIo, ok: bool) {
        self.background.in_flight -= 1;
        if !ok {
            self.background.failed = true;
            if !what.meta {
                let pages = what.stage as usize..(what.stage + what.pages) as usize;
                self.background.bad[pages].fill(true);
            }
        }
        if let Some((first, mark)) = what.destage {
            self.destage_written(first, what.pages, mark, ok);
        }
    }

    /// Has pages of the staging memory checksummed.
    pub(crate) fn sum_stage(&mut self, page: u32, pages: u32) {
        self.background.sums_awaited = true;
        self.sums.push_back(SumFor::Stage { page });
        let from = stage(page);
        self.out.push_back(Output::Sum(Sum { from, pages }));
    }
}

/// A page of the staging memory.
pub(crate) const fn stage(page: u32) -> Memory {
    Memory::Stage { offset: Sectors(page as u64 * PAGE_SECTORS) }
}

/// Whole pages that so many bytes are.
pub(crate) const fn pages_in(bytes: Bytes) -> u32 {
    (bytes.0 / seekless_block::PAGE_BYTES) as u32
}
