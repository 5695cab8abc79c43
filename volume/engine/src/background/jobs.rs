//! The table of background jobs, in order of priority. A row says when its job is due, and begins
//! the job. One job runs at a time. When the job ends, the search begins again at the first row.

use seekless_block::SimTime;

use super::{Job, READ_PAGES, RETRY};
use crate::background::move_plan::Moving;
use crate::core::page_map::{CopyState, HomePage, Slot};
use crate::format::Content;
use crate::write_buffer::destage::DestagePages;
use crate::write_buffer::durability::Waiter;
use crate::{Engine, Trouble};

#[allow(clippy::large_enum_variant, reason = "moved once; a box would take memory at each job")]
pub(super) enum RowResult {
    Job(Job),
    /// No job: the search goes on to the next row.
    Nothing,
    /// No job, and the rows behind must wait.
    Stop,
}

impl From<Option<Job>> for RowResult {
    fn from(job: Option<Job>) -> Self {
        job.map_or(Self::Nothing, Self::Job)
    }
}

struct JobRow {
    due: fn(&Engine) -> bool,
    begin: fn(&mut Engine) -> RowResult,
}

/// Order: jobs that clients wait for, jobs that make space in the log, checkpoints, layouts. Layouts
/// wait while an administrator waits for a command.
const JOBS: [JobRow; 15] = [
    // Pages that a client waits for go home.
    JobRow { due: |e| !e.background.urgent.is_empty(), begin: Engine::begin_urgent },
    // How full the log is.
    JobRow { due: |_| true, begin: Engine::note_pressure },
    // A drain is noted down.
    JobRow { due: Engine::is_emptied, begin: Engine::end_drain },
    // Clients' flushes may wait for it, so it comes between two batches that go home.
    JobRow { due: Engine::checkpoint_is_due, begin: Engine::begin_due_checkpoint },
    // Pages that clients read out of the write buffer go home.
    JobRow { due: Engine::is_much_read, begin: Engine::begin_destage_of_read },
    // The log is emptied from its tail.
    JobRow { due: |e| e.is_dirty() && e.may_empty_log(), begin: Engine::begin_destage_of_oldest },
    // A new plan is taken up.
    JobRow {
        due: |e| e.background.asked.is_some() && !e.is_hurried(),
        begin: Engine::take_up_plan,
    },
    // Copies move to where the plan wants them.
    JobRow { due: Engine::may_move, begin: Engine::begin_window },
    // Pages that clients used are appended to the trail.
    JobRow { due: |e| e.appends_at().is_some(), begin: Engine::append_to_trail },
    // Copies in doubt are compared with home.
    JobRow { due: |e| !e.is_hurried(), begin: |e| e.begin_prove().map(Job::Prove).into() },
    // Replicas are written, and zeroes where they stood.
    JobRow { due: |_| true, begin: |e| e.next_for_replicas().into() },
    // The area learns which pages are free.
    JobRow { due: |e| e.tells_at().is_some(), begin: Engine::tell_of_free_pages },
    // The superblock is out of date.
    JobRow { due: Engine::is_superblock_late, begin: |e| RowResult::Job(e.checkpoint_job()) },
    // A mark is written behind the last flush.
    JobRow { due: |e| e.marks_at().is_some(), begin: Engine::write_mark },
    // The area is compared with its checksums.
    JobRow { due: |e| e.scrubs_at().is_some(), begin: Engine::scrub },
];

impl Engine {
    /// Chooses the next job. False if no job can begin now.
    pub(super) fn next_job(&mut self) -> bool {
        if self.state.is_detached() {
            return false;
        }
        for row in &JOBS {
            if (row.due)(self) {
                match (row.begin)(self) {
                    RowResult::Job(job) => {
                        self.background.job = job;
                        return true;
                    }
                    RowResult::Nothing => {}
                    RowResult::Stop => return false,
                }
            }
        }
        if self.learned_work_waits() {
            let at = self.background.hurried_until;
            self.background.wake_at(at);
        }
        false
    }

    fn begin_urgent(&mut self) -> RowResult {
        // The pages beyond one batch stay urgent: if the batch fails, nothing else frees their clients.
        let most = self.destage_most();
        while !self.background.urgent.is_empty() {
            let count = most.min(self.background.urgent.len());
            let urgent: Vec<_> = self.background.urgent.drain(..count).collect();
            if let Some(job) = self.begin_destage(DestagePages::Urgent(&urgent)) {
                return RowResult::Job(Job::Destage(job));
            }
        }
        // The pages came home by themselves.
        self.retry_blocked();
        self.pump_log();
        self.pump_sync();
        RowResult::Nothing
    }

    /// Used segments of the log, and all of them.
    fn log_used(&self) -> (u64, u64) {
        (u64::from(self.log.ring.used()), u64::from(self.log.ring.segments))
    }

    fn is_log_full(&self) -> bool {
        self.log.starved && self.log.ring.free() == 0
    }

    /// Destages as late as possible: a page that is written again need not go home, and a long
    /// sweep is a dense one. Destaging starts above nine tenths of the log and stops at eight
    /// tenths. An idle volume destages down to eight tenths too.
    fn note_pressure(&mut self) -> RowResult {
        self.note_left_log();
        if !self.is_dirty() && !self.free.replicas.withdrawing {
            self.background.trouble = self.background.trouble.filter(Trouble::is_of_area);
            if std::mem::take(&mut self.background.outgoing) {
                self.background.destaging = false;
            }
        }
        let (used, all) = self.log_used();
        let much = used * 10 > all * 9 && !self.may_open();
        if much || self.is_log_full() || self.state.is_draining() || self.background.outgoing {
            self.background.destaging = true;
        } else if used * 10 <= all * 8 {
            self.background.destaging = false;
        }
        RowResult::Nothing
    }

    /// Pages that left the log for a plan hold up its tail no longer. No destage moves the tail past
    /// them, so a checkpoint does: at the end of the move, or once the log takes no page.
    fn note_left_log(&mut self) {
        if self.background.left_log && (self.background.todo.is_over() || !self.log_has_room(1)) {
            self.background.left_log = false;
            self.background.superblock_due |= self.next_tail() != self.log.ring.tail;
        }
    }

    fn is_dirty(&self) -> bool {
        self.copies.count(CopyState::Dirty) > 0
    }

    fn destage_may(&self) -> bool {
        self.background.now >= self.background.destage_not_before
    }

    /// Whether pages go home that no client waits for. After the last request they stay where they
    /// are, unless the log needs their space for its last records.
    fn may_empty_log(&self) -> bool {
        !self.state.is_leaving() || self.is_log_full()
    }

    /// Whether a batch that no client waits for ends early: the last request has ended, or clients
    /// wait for a page, or for a checkpoint that can begin now. A checkpoint that fails is tried
    /// every second: then a batch first writes something, of these pages. So it does before it
    /// gives way to a page: otherwise many such clients would keep it from its end.
    pub(crate) fn batch_gives_way(&self, written: u64) -> bool {
        let b = &self.background;
        let waits = self.log.failed || self.is_log_full();
        let begins = b.now >= b.checkpoint_not_before && (written > 0 || !b.checkpoint_fails);
        let page = written > 0 && !b.urgent.is_empty();
        !self.may_empty_log() || page || waits && begins && self.checkpoint_is_due()
    }

    fn is_much_read(&self) -> bool {
        let much = self.background.read.len() >= READ_PAGES && !self.config.in_place;
        much && self.destage_may() && self.may_empty_log()
    }

    fn begin_destage_of_read(&mut self) -> RowResult {
        let pages = std::mem::take(&mut self.background.read);
        self.begin_destage(DestagePages::These(&pages)).map(Job::Destage).into()
    }

    fn begin_destage_of_oldest(&mut self) -> RowResult {
        let (used, all) = self.log_used();
        let (idle_at, spare) = (self.idle_at(), used * 10 > all * 8 && !self.may_open());
        let idle = self.background.now >= idle_at;
        let goes = self.background.destaging || idle && spare;
        if !goes {
            if spare {
                self.background.wake_at(idle_at);
            }
            return RowResult::Nothing;
        }
        if self.destage_may() {
            if let Some(job) = self.begin_destage(DestagePages::Oldest) {
                return RowResult::Job(Job::Destage(job));
            }
            // What is still dirty was written in place, or stays in the plan.
            let of_log = |slot: Slot| self.copies.state(slot) == CopyState::Dirty;
            let in_use = self.log.ring.in_use();
            let outgoing = std::mem::take(&mut self.background.outgoing);
            if !self.state.is_draining()
                && (outgoing || !in_use.flat_map(|s| self.geo.slots_of(s)).any(of_log))
            {
                self.background.destaging = false;
                return RowResult::Nothing;
            }
            self.destage_came_to_nothing();
            self.fail_if_stuck();
        }
        let at = self.background.destage_not_before;
        self.background.wake_at(at);
        RowResult::Nothing
    }

    /// Whether a dirty page of the write buffer waits there for its place in the new plan. Not if
    /// the log needs its space.
    pub(crate) fn waits_for_plan(&self, page: HomePage) -> bool {
        let outgoing = self.background.outgoing && !self.state.is_draining();
        outgoing && !self.is_log_full() && self.background.todo.keeps(page)
    }

    /// Whether a drain has nothing left to destage.
    fn is_emptied(&self) -> bool {
        let absorbs_at_rest = self.log.is_idle() && self.absorbs.is_empty();
        !self.is_dirty() && self.state.is_draining() && absorbs_at_rest && !self.log.failed
    }

    /// Nothing is dirty any more: the log begins again, so that recovery finds nothing in it.
    fn end_drain(&mut self) -> RowResult {
        self.close_all();
        if self.awaits_round() {
            return RowResult::Stop;
        }
        // An empty segment voids all that recovery would find before: after a drain somebody else may
        // write home, and no page of the log may count as newer. A reader of the next segment ends,
        // and a checkpoint frees it. An empty segment is not left out: recovery looks for the next
        // record in only two segments.
        if !self.log.begins_segment() && !self.next_segment() {
            return RowResult::Nothing;
        }
        self.state.drained();
        self.background.superblock_due = true;
        self.background.ends_drain = true;
        RowResult::Job(self.checkpoint_job())
    }

    /// Whether the log has yet to learn of pages that are void. A round then tells.
    pub(crate) fn awaits_round(&mut self) -> bool {
        let awaits = self.sync.has_voids() || !self.sync.is_idle();
        let at = self.background.tail_not_before;
        if awaits && self.background.now < at {
            self.background.wake_at(at);
        } else if awaits && self.sync.is_idle() {
            self.sync.wait(Waiter::Tail);
            self.pump_sync();
        }
        awaits
    }

    pub(super) fn checkpoint_job(&mut self) -> Job {
        Job::Checkpoint(self.begin_checkpoint())
    }

    fn begin_due_checkpoint(&mut self) -> RowResult {
        let at = self.background.checkpoint_not_before;
        if self.background.now >= at {
            return RowResult::Job(self.checkpoint_job());
        }
        self.background.wake_at(at);
        RowResult::Nothing
    }

    fn take_up_plan(&mut self) -> RowResult {
        if let Some(plan) = self.background.asked.take() {
            // First the dirty pages of the write buffer go out that the plan drops (BORG, 4.4).
            self.background.outgoing = self.may_open() && self.is_dirty();
            self.adopt(&plan);
            if self.background.outgoing {
                self.background.destaging = true;
                return self.begin_destage_of_oldest();
            }
        }
        RowResult::Nothing
    }

    /// Whether a window may begin. A window needs the log; if the log is full, a row above makes
    /// space.
    fn may_move(&self) -> bool {
        let can = !self.background.todo.is_over() && !self.log.starved && !self.log.failed;
        can && !self.is_hurried()
    }

    fn begin_window(&mut self) -> RowResult {
        match self.begin_move() {
            Moving::Job(job) => RowResult::Job(job),
            Moving::Waits => RowResult::Nothing,
            Moving::Nothing => {
                if !self.background.todo.is_over() {
                    // A search of a large area pauses for clients.
                    self.background.wake_at(self.background.now);
                }
                self.note_left_log();
                RowResult::Nothing
            }
        }
    }

    fn append_to_trail(&mut self) -> RowResult {
        let Some(mut at) = self.appends_at() else { return RowResult::Nothing };
        if self.background.now >= at && self.is_hurried() {
            at = self.background.hurried_until;
        }
        if self.background.now < at {
            self.background.wake_at(at);
            return RowResult::Nothing;
        }
        match self.close_for_trail() {
            Moving::Job(job) => RowResult::Job(job),
            Moving::Waits => RowResult::Nothing,
            Moving::Nothing => self.begin_append().map(Job::Trail).into(),
        }
    }

    fn tell_of_free_pages(&mut self) -> RowResult {
        let now = self.background.now;
        let Some(at) = self.tells_at() else { return RowResult::Nothing };
        if self.free.map.is_overfull() {
            self.background.superblock_due = true;
        } else if now >= at {
            self.background.clean_not_before = SimTime(now.0 + RETRY.0);
            self.sync.wait(Waiter::Tail);
            self.pump_sync();
        } else {
            self.background.wake_at(at);
        }
        RowResult::Nothing
    }

    /// Whether the superblock is out of date. A plan without any motion is saved too.
    fn is_superblock_late(&self) -> bool {
        let b = &self.background;
        b.superblock_due && b.now >= b.checkpoint_not_before
    }

    fn write_mark(&mut self) -> RowResult {
        let Some(at) = self.marks_at() else { return RowResult::Nothing };
        if self.background.now >= at {
            self.log.control(Content::Data(Vec::new()), false);
            self.pump_log();
        } else {
            self.background.wake_at(at);
        }
        RowResult::Nothing
    }

    /// The log is full, and its tail holds a page that can be neither read nor written home: no
    /// record shall wait for ever.
    pub(crate) fn fail_if_stuck(&mut self) {
        if self.is_log_full() && self.next_tail() == self.log.ring.tail && !self.tail_in_work() {
            self.fail_controls();
        }
    }

    pub(crate) fn destage_came_to_nothing(&mut self) {
        self.background.destage_not_before = SimTime(self.background.now.0 + RETRY.0);
    }
}
