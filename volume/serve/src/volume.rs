//! One volume, driven by one thread: the engine, its memory, and its device I/O. Front ends start
//! requests, and collect those that did not end at once. All decisions are the engine's.

mod clock;
mod io;
mod scrub;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rtrb::Producer;
use seekless_block::{Bytes, Extent, Flags, Op, Request, SimTime};
use seekless_engine::{
    Command, Engine, Fault, GuardStep, Guarding, Input, Mode, Output, PageSum, Progress, RequestId,
    RoomFrom, Target,
};
use seekless_host::reserve::Waits;
use seekless_learn::{Pages, Plan, Replica};
use seekless_nbd::Errno;
use slab::Slab;

use crate::backend::emulated::{Emulated, HeadSample};
use crate::backend::errno_of;
use crate::backend::files::Files;
use crate::backend::guard::EDGE;
use crate::backend::region::Region;
use crate::backend::remote::Remote;
use crate::backend::workers::{Job, JobName, Work, Workers};
use crate::error::ServeError;
use crate::learner::{Room, RoomReply};
use crate::memory::{Current, Data, Inflight, Memories};
use crate::memory_shares::Shares;
use crate::server::{AdaptiveCounts, AreaStats, ServerStats};
use crate::status::MemoryStatus;
use crate::tap::Tap;

pub(crate) use clock::Clock;
pub use io::IoFailure;
use io::{Running, concerns};
use scrub::Schedule;

/// The area's device may refuse a detach so often: the engine tries once a second.
const DETACH_TRIES: u32 = 3;
/// Longest delay of a stop by replicas on request.
const REPLICATE_MOST: seekless_block::Duration = seekless_block::Duration(5_000_000_000);

/// A request that ended after its start.
#[derive(Debug)]
pub(crate) struct Finished<O> {
    pub(crate) owner: O,
    pub(crate) result: Result<(), Errno>,
    /// The data of a read, at the buffer's start; the receiver returns the buffer.
    pub(crate) buf: Option<Vec<u8>>,
    /// The answer to a block status request.
    pub(crate) runs: Vec<(u32, u32)>,
}

pub(crate) struct VolumeParts {
    pub(crate) engine: Engine,
    /// True if the area outlasts the server.
    pub(crate) lasting: bool,
    /// Time from one check of a lasting area to the next.
    pub(crate) scrub_every: std::time::Duration,
    /// Attached for a drain: absorbs and replicates nothing.
    pub(crate) drain: bool,
    pub(crate) files: Arc<Files>,
    /// A worker for each counter.
    pub(crate) waits: Arc<Waits>,
    pub(crate) bell: Arc<OwnedFd>,
    pub(crate) emulated: Option<Emulated>,
    pub(crate) clock: Clock,
    pub(crate) observer: Option<Producer<Request>>,
    pub(crate) tap: Option<Tap>,
    pub(crate) shares: Shares,
}

/// `O` identifies a request to its front end.
pub(crate) struct Volume<O> {
    engine: Engine,
    clock: Clock,
    now: SimTime,
    /// Time of the engine's last input.
    engine_time: SimTime,
    pub(crate) memories: Memories<O>,
    questions: Slab<O>,
    running: Vec<Option<Running>>,
    /// Memory of reads in flight: of reads at devices, of reads that were done at once since the
    /// engine last had no outputs, and the maximum of both.
    reads_hold: usize,
    reads_now: usize,
    reads_most: usize,
    /// Reads that wait for memory.
    starved: VecDeque<Running>,
    /// The bound on all memory of the server.
    memory_most: Option<Bytes>,
    files: Arc<Files>,
    workers: Workers,
    emulated: Option<Emulated>,
    finished: VecDeque<Finished<O>>,
    /// The host's error for the I/O being reported to the engine.
    errno: Errno,
    observer: Option<Producer<Request>>,
    unobserved: u64,
    tap: Option<Tap>,
    /// Checksums for the engine.
    sums: Vec<PageSum>,
    lasting: bool,
    detaching: bool,
    /// Start of saving the area.
    resting: Option<SimTime>,
    guarding: Guarding,
    /// The last I/O that failed.
    failure: Option<IoFailure>,
    /// `None` without a lasting area.
    scrub: Option<Schedule>,
}

impl<O> Volume<O> {
    pub(crate) fn new(parts: VolumeParts) -> Result<Self, ServeError> {
        let VolumeParts { engine, lasting, drain, files, .. } = parts;
        let VolumeParts {
            waits, bell, emulated, clock, observer, tap, scrub_every, shares, ..
        } = parts;
        let guarding = Guarding::new(&engine, drain);
        let now = clock.now();
        let mut volume = Self {
            scrub: lasting.then(|| Schedule::new(scrub_every, now)),
            clock,
            now,
            engine_time: SimTime::ZERO,
            memories: Memories::new(engine.config(), &shares),
            engine,
            questions: Slab::new(),
            running: Vec::with_capacity(1024),
            reads_hold: 0,
            reads_now: 0,
            reads_most: shares.reads,
            starved: VecDeque::new(),
            memory_most: shares.all,
            workers: Workers::new(&waits, &files, &bell)?,
            files,
            emulated,
            finished: VecDeque::with_capacity(1024),
            errno: Errno::Io,
            observer,
            unobserved: 0,
            tap,
            sums: Vec::with_capacity(256),
            lasting,
            detaching: false,
            resting: None,
            guarding,
            failure: None,
        };
        if volume.guarding.resumes_drain(&volume.engine, volume.is_guarded()) {
            volume.drain_area();
        }
        Ok(volume)
    }

    /// Reads the clock for the following calls.
    pub(crate) fn refresh(&mut self) {
        self.now = self.now.max(self.clock.now());
    }

    /// Starts a request. `Some` if it ended at once; else it ends in [`Self::drain`] under `owner`.
    #[inline]
    pub(crate) fn start(
        &mut self,
        owner: O,
        op: Op,
        extent: Extent,
        flags: Flags,
        data: Data<'_>,
    ) -> Option<Result<(), Errno>> {
        let mut request = Request::new(self.now, op, extent);
        request.flags = flags;
        if let Some(ring) = &mut self.observer
            && ring.push(request).is_err()
        {
            self.unobserved += 1;
        }
        if let Some(tap) = &mut self.tap {
            tap.request(&request);
        }
        let (data, buf) = match data {
            Data::Owned(buf) => (Data::None, Some(buf)),
            other => (other, None),
        };
        let bytes = extent.bytes().0 as usize;
        let id = self.memories.requests.insert(Inflight { owner, bytes, buf });
        let mut current = Current { id, data, result: None };
        self.handle(self.now, Input::Request { id: RequestId(id as u64), request });
        self.pump(&mut current);
        if current.result.is_none() {
            // It outlives the call, and part of its data may have come from RAM.
            self.memories.detach(&mut current);
        }
        current.result
    }

    /// Gives the workers a job that the engine does not see; it ends in [`Self::drain`].
    pub(crate) fn ask(&mut self, owner: O, work: Work, at: u64, len: u32) {
        let name = JobName::Question(self.questions.insert(owner));
        self.hand_over(Job { name, work, at, len: len.into(), buf: Vec::new(), from: 0 });
    }

    /// With `on`, reads go home even if copies exist.
    pub(crate) fn bypass(&mut self, on: bool) {
        self.handle(self.now, Input::Bypass(on));
    }

    pub(crate) fn install(&mut self, plan: Plan) {
        self.tell(Input::Install(plan));
    }

    /// Executes an administrator's command.
    pub(crate) fn command(&mut self, command: Command) {
        match command {
            Command::SetMode(mode) => self.set_mode(mode),
            Command::Drain => self.drain_area(),
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        if self.guarding.want(mode) || self.files.guard().is_none() {
            self.obey(mode);
        }
        self.guard();
    }

    fn obey(&mut self, mode: Mode) {
        self.guarding.obeyed();
        self.tell(Input::Command(Command::SetMode(mode)));
    }

    /// Writes replicas; `soon` if an administrator asks.
    pub(crate) fn replicate(&mut self, list: Vec<Replica>, soon: bool) {
        if !self.guarding.holds() {
            self.tell(if soon { Input::ReplicateSoon(list) } else { Input::Replicate(list) });
        }
    }

    /// A part of the free space for replicas and of the existing ones; `None` without replicas.
    pub(crate) fn room(&self, from: RoomFrom) -> RoomReply {
        self.engine.replicated().map(|state| {
            let part = self.engine.room_part(from);
            let free = if self.guarding.holds() { Vec::new() } else { part.free };
            let config = self.engine.config();
            let pages = Pages::new(config.grid, config.capacity);
            let degree = config.degree;
            (Room { free, placed: part.placed, degree, pages, state }, part.next)
        })
    }

    /// Brings everything home.
    fn drain_area(&mut self) {
        self.guarding.want_home();
        self.handle(self.now, Input::Command(Command::Drain));
        self.tell(Input::Withdraw);
        self.guard();
    }

    /// True if home's ends are elsewhere, so that nobody mounts the bare disk.
    fn is_guarded(&self) -> bool {
        self.files.guard().is_some_and(Region::is_in_region)
    }

    /// Moves the guard if that is due.
    fn guard(&mut self) {
        // A read-only server attaches nothing, and moves no guard.
        if !self.lasting || self.files.guard().is_none() {
            return;
        }
        loop {
            let up = self.is_guarded();
            let busy = || {
                let mut running = self.running.iter().flatten();
                running.any(|r| concerns(self.files.guard(), &r.io))
            };
            match self.guarding.step(&self.engine, up, busy) {
                GuardStep::Rest => return,
                GuardStep::Obey(mode) => self.obey(mode),
                GuardStep::Move(to) => {
                    let (name, work) = (JobName::Guard, Work::Guard(to));
                    self.hand_over(Job { name, work, at: 0, len: 0, buf: Vec::new(), from: 0 });
                }
            }
        }
    }

    /// Continues I/Os that waited for the guard.
    fn guard_moved(&mut self, result: Result<(), Errno>) {
        if let Err(errno) = result {
            let (target, op, extent) = (Target::Home, Op::Write, Extent::new(0, EDGE));
            self.failure = Some(IoFailure { target, op, extent, errno });
        }
        for io in self.guarding.moved(result.is_ok()) {
            self.submit(io, &mut Current::nobody());
        }
        self.pump_background();
        self.guard();
    }

    /// Saves the area, after the last request. True once that is done.
    pub(crate) fn detach(&mut self) -> bool {
        if !self.lasting {
            return true;
        }
        if !self.detaching {
            // Replicas on request are written first, within a time limit: later writes to home
            // would break the proof.
            self.guarding.hold();
            let since = *self.resting.get_or_insert(self.now);
            if self.engine.is_replicating() && self.now.since(since) < REPLICATE_MOST {
                return false;
            }
            self.guard();
            if self.guarding.is_moving() {
                return false;
            }
            self.detaching = true;
            // If an I/O to home is in flight now, the proof fails at the next attach, and copies
            // are compared before use.
            let stamp = self.files.stamp_home();
            self.tell(Input::Detach { stamp });
        }
        self.engine.is_detached()
    }

    /// Whether the area's device refuses the detach again and again.
    pub(crate) const fn detach_fails(&self) -> bool {
        self.engine.failed_detaches() >= DETACH_TRIES
    }

    /// How many flushes of home have failed.
    pub(crate) const fn failed_flushes(&self) -> u64 {
        self.engine.failed_flushes()
    }

    /// The end of a flush of somebody who has heard of `heard` failed flushes. A failed flush of a
    /// device is reported by the host once, and may have lost the writes of any client: the next
    /// flush of each client fails.
    pub(crate) fn hear_of_failures(
        &self,
        heard: &mut u64,
        ended: Result<(), Errno>,
    ) -> Result<(), Errno> {
        let failures = self.failed_flushes();
        if std::mem::replace(heard, failures) == failures {
            ended
        } else {
            ended.and(Err(Errno::Io))
        }
    }

    /// Handles results of workers, the emulated disk and the clock.
    pub(crate) fn advance(&mut self) {
        while let Some(ended) = self.workers.ended() {
            self.ended(ended);
        }
        while let Some(id) = self.emulated.as_mut().and_then(|e| e.poll(self.now)) {
            if let Some(Some(running)) = self.running.get(id.0 as usize).copied() {
                if let Some(tap) = &mut self.tap {
                    tap.io(self.now, &running.io, None);
                }
                self.carry_out(running);
            }
            self.pump_background();
        }
        self.feed();
        if self.engine.wakeup().is_some_and(|at| at <= self.now) {
            self.tell(Input::Tick);
        }
        let due = self.scrub.as_mut().is_some_and(|s| s.look(&self.engine, self.now));
        if due {
            // The host's memory may have what the medium lost, or never got: the pass begins when
            // that is dropped.
            let (name, work, buf) = (JobName::Scrub, Work::Forget, Vec::new());
            let _ = self.workers.send(Job { name, work, at: 0, len: 0, buf, from: 0 });
        }
        self.guard();
    }

    /// Time until something happens by itself.
    pub(crate) fn idle_for(&mut self) -> Option<std::time::Duration> {
        if !self.starved.is_empty() && self.reads_hold == 0 {
            return Some(std::time::Duration::ZERO);
        }
        let disk = self.emulated.as_ref().and_then(Emulated::next_event);
        if let Some(then) = disk.filter(|_| self.clock.jumps()) {
            self.clock.jump(then);
        }
        let scrub = self.scrub.as_ref().map(Schedule::next);
        let next = [disk, self.engine.wakeup(), scrub].into_iter().flatten().min()?;
        Some(self.clock.wait(self.clock.now(), next))
    }

    pub(crate) fn drain(&mut self) -> Option<Finished<O>> {
        if self.finished.is_empty() {
            self.feed();
        }
        self.finished.pop_front()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.memories.requests.is_empty() && self.questions.is_empty()
    }

    /// True while copies are being moved to their places.
    pub(crate) fn is_moving(&self) -> bool {
        self.engine.progress().is_some()
    }

    pub(crate) fn stats(&self, clients: usize) -> ServerStats {
        let state = self.engine.replicated().filter(|_| self.engine.is_replicating());
        let replicating =
            state.map(|r| Progress { done: r.standing, total: r.standing + r.waiting });
        ServerStats {
            engine: self.engine.stats(),
            copied_sectors: self.engine.copied().0,
            progress: self.engine.progress().or(replicating),
            disk: self.emulated.as_ref().map(|e| e.stats(self.now)),
            unobserved: self.unobserved,
            clients,
            elsewhere: self.files.remote().map(Remote::counts),
            memory: MemoryStatus {
                most_bytes: self.memory_most.map(|b| b.0),
                pages_bytes: self.engine.config().cache_bytes.0,
                buffers_bytes: self.memories.bytes() as u64,
                waiting_clients: self.memories.payload.waiting() as u64,
            },
            adaptive: self
                .engine
                .prefetched()
                .map(|counts| AdaptiveCounts { unused: counts.unused, trail: self.engine.trail() }),
            area: AreaStats {
                lasting: self.lasting,
                mode: self.engine.mode(),
                dirty_sectors: self.engine.dirty().0,
                in_doubt_sectors: self.engine.in_doubt().0,
                drained: self.guarding.is_home_complete(&self.engine) && !self.is_guarded(),
                replicas: self.engine.replicated(),
                guarded: self.is_guarded(),
                trouble: self.engine.trouble(),
                failure: self.failure,
                scrub: self.scrub.as_ref().map(|s| s.status(&self.engine)),
                fell_back: self.engine.has_fallen_back(),
            },
        }
    }

    pub(crate) fn head_path(&self) -> Vec<HeadSample> {
        self.emulated.as_ref().map(|e| e.path().to_vec()).unwrap_or_default()
    }

    pub(crate) fn reset_disk_stats(&mut self) {
        if let Some(e) = &mut self.emulated {
            e.reset(self.now);
        }
    }

    /// True if the ring of observations is at least half full.
    pub(crate) fn observer_needs_room(&self) -> bool {
        self.observer.as_ref().is_some_and(|r| r.slots() * 2 < r.buffer().capacity())
    }

    /// Ends the workers after their jobs, and makes all writes durable.
    pub(crate) fn stop(self) -> Result<(), Errno> {
        self.workers.stop();
        if let Some(remote) = self.files.remote() {
            // The last attempt for writes that no flush has covered.
            remote.rest();
        }
        let home = Target::Home;
        let flushed = self.files.change(home, Op::Flush, Flags::NONE, 0, 0, &[]);
        flushed.map_err(|failed| errno_of(failed.errno))
    }

    /// Gives an input to the engine, whose time never runs backwards.
    fn handle(&mut self, at: SimTime, input: Input) {
        self.engine_time = self.engine_time.max(at);
        self.engine.handle(self.engine_time, input);
    }

    fn tell(&mut self, input: Input) {
        self.handle(self.now, input);
        self.pump_background();
    }

    fn pump_background(&mut self) {
        self.pump(&mut Current::nobody());
    }

    /// Executes the engine's outputs until there are none.
    fn pump(&mut self, current: &mut Current<'_>) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Submit(io) => self.submit(io, current),
                Output::Move(m) => self.memories.copy(m, current),
                Output::Put { page, to } => self.memories.put(self.engine.page(page), to),
                Output::Zero { to, len } => self.memories.zero(to, len, current),
                Output::Sum(sum) => {
                    self.memories.sum(sum.from, sum.pages, current, &mut self.sums);
                    self.engine.summed(&self.sums);
                }
                Output::Complete { id, result } => self.complete(id.0 as usize, result, current),
            }
        }
        self.reads_now = 0;
        self.memories.trim(self.engine.idle_buffers());
    }

    fn complete(&mut self, id: usize, result: Result<(), Fault>, current: &mut Current<'_>) {
        let Some(inflight) = self.memories.requests.try_remove(id) else { return };
        let result = result.map_err(|fault| match fault {
            Fault::OutOfRange { .. } => Errno::Inval,
            Fault::Device(_) => self.errno,
            Fault::Damaged(_) => Errno::Io,
        });
        if id == current.id && current.result.is_none() && inflight.buf.is_none() {
            current.result = Some(result);
        } else {
            let Inflight { owner, buf, .. } = inflight;
            self.finished.push_back(Finished { owner, result, buf, runs: Vec::new() });
        }
    }
}
