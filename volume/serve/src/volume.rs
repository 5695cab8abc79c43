//! One volume, driven by one thread: the engine, its memory, and its device I/O. Front ends start
//! requests, and collect those that did not end at once. All decisions are the engine's.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rtrb::Producer;
use seekless_block::{Extent, Op, Request, SECTOR_BYTES, Sectors, SimTime};
use seekless_engine::{
    Command, Engine, Fault, GuardStep, Guarding, Input, Io, IoFailed, IoId, Memory, Mode, Output,
    PageSum, Progress, RequestId, RoomFrom, Stats, Target,
};
use seekless_learn::{Pages, Plan, Replica};
use seekless_nbd::Errno;
use slab::Slab;

use crate::backend::emulated::{DiskStats, Emulated, HeadSample};
use crate::backend::errno_of;
use crate::backend::files::Files;
use crate::backend::guard::EDGE;
use crate::backend::region::Region;
use crate::backend::workers::{Ended, Job, JobName, Work, Workers};
use crate::error::ServeError;
use crate::learner::{Room, RoomReply};
use crate::memory::{Current, Data, Inflight, Memories, range_of, transfer};
use crate::server::AreaStats;
use crate::tap::Tap;

/// Longest delay of a stop by replicas on request.
const REPLICATE_MOST: seekless_block::Duration = seekless_block::Duration(5_000_000_000);

/// Real time, times a factor. With an infinite factor, time jumps over waits for the emulated disk,
/// and is real otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    speed: f64,
    skipped: u64,
}

impl Clock {
    pub(crate) fn new(speed: f64) -> Self {
        Self { start: Instant::now(), speed, skipped: 0 }
    }

    /// True if waits for the disk are skipped.
    const fn jumps(&self) -> bool {
        self.speed.is_infinite()
    }

    /// Jumps to `then`.
    fn jump(&mut self, then: SimTime) {
        self.skipped += then.since(self.now()).0;
    }

    pub(crate) fn now(&self) -> SimTime {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.speed == 1.0 || self.jumps() {
            return SimTime(ns.saturating_add(self.skipped));
        }
        SimTime((ns as f64 * self.speed) as u64)
    }

    /// Time to sleep from `now` until `then`.
    pub(crate) fn wait(&self, now: SimTime, then: SimTime) -> std::time::Duration {
        let ns = then.since(now).0;
        if self.speed == 1.0 || self.jumps() {
            return std::time::Duration::from_nanos(ns);
        }
        std::time::Duration::from_nanos((ns as f64 / self.speed).ceil() as u64)
    }
}

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

/// Where a job's buffer returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// The request's own buffer.
    Client(usize),
    /// A read buffer of the engine.
    Buffer(usize),
    /// A bounce buffer: read data is copied from it.
    Bounce,
}

/// An I/O in progress.
#[derive(Clone, Copy, Debug)]
struct Running {
    io: Io,
    home: Home,
}

/// Parts of a volume.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    /// True if the area outlasts the server.
    pub(crate) lasting: bool,
    /// Attached for a drain: absorbs and replicates nothing.
    pub(crate) drain: bool,
    pub(crate) files: Arc<Files>,
    pub(crate) workers: usize,
    pub(crate) bell: Arc<OwnedFd>,
    pub(crate) emulated: Option<Emulated>,
    pub(crate) clock: Clock,
    pub(crate) observer: Option<Producer<Request>>,
    pub(crate) tap: Option<Tap>,
}

/// `O` identifies a request to its front end.
pub(crate) struct Volume<O> {
    engine: Engine,
    clock: Clock,
    now: SimTime,
    pub(crate) memories: Memories<O>,
    questions: Slab<O>,
    running: Vec<Option<Running>>,
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
}

/// A failed I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure {
    /// Home or the area.
    pub target: Target,
    /// The operation.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// The error, as clients get it.
    pub errno: Errno,
}

impl<O> Volume<O> {
    pub(crate) fn new(parts: Parts) -> Result<Self, ServeError> {
        let Parts { engine, lasting, drain, files, .. } = parts;
        let Parts { workers, bell, emulated, clock, observer, tap, .. } = parts;
        let guarding = Guarding::new(&engine, drain);
        let mut volume = Self {
            clock,
            now: clock.now(),
            memories: Memories::new(engine.config()),
            engine,
            questions: Slab::new(),
            running: Vec::with_capacity(1024),
            workers: Workers::new(workers, &files, &bell)?,
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
        flags: seekless_block::Flags,
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
        self.engine.handle(self.now, Input::Request { id: RequestId(id as u64), request });
        self.pump(&mut current);
        if current.result.is_none() {
            // It outlives the call, and part of its data may have come from RAM.
            self.memories.detach(&mut current);
        }
        current.result
    }

    /// Asks for holes; the answer comes through [`Self::drain`].
    pub(crate) fn ask_status(&mut self, owner: O, at: u64, len: u32) {
        self.question(owner, Work::Status, at, len);
    }

    /// Asks the host to read ahead.
    pub(crate) fn ask_will_need(&mut self, owner: O, at: u64, len: u32) {
        self.question(owner, Work::WillNeed(Target::Home), at, len);
    }

    fn question(&mut self, owner: O, work: Work, at: u64, len: u32) {
        let name = JobName::Question(self.questions.insert(owner));
        let job = Job { name, work, at, len: len.into(), buf: Vec::new(), from: 0 };
        if let Err(job) = self.workers.send(job) {
            self.worker_lost(job);
        }
    }

    /// With `on`, reads go home even if copies exist.
    pub(crate) fn bypass(&mut self, on: bool) {
        self.engine.handle(self.now, Input::Bypass(on));
    }

    /// Installs a new layout.
    pub(crate) fn install(&mut self, plan: Plan) {
        self.engine.handle(self.now, Input::Install(plan));
        self.pump_background();
    }

    /// Executes an administrator's command.
    pub(crate) fn command(&mut self, command: Command) {
        match command {
            Command::SetMode(mode) => self.set_mode(mode),
            Command::Drain => self.drain_area(),
        }
    }

    /// Changes the mode.
    fn set_mode(&mut self, mode: Mode) {
        if self.guarding.want(mode) || self.files.guard().is_none() {
            self.obey(mode);
        }
        self.guard();
    }

    fn obey(&mut self, mode: Mode) {
        self.guarding.obeyed();
        self.engine.handle(self.now, Input::Command(Command::SetMode(mode)));
        self.pump_background();
    }

    /// Writes replicas; `soon` if an administrator asks.
    pub(crate) fn replicate(&mut self, list: Vec<Replica>, soon: bool) {
        if !self.guarding.holds() {
            let input = if soon { Input::ReplicateSoon(list) } else { Input::Replicate(list) };
            self.engine.handle(self.now, input);
            self.pump_background();
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
        self.engine.handle(self.now, Input::Command(Command::Drain));
        self.engine.handle(self.now, Input::Withdraw);
        self.pump_background();
        self.guard();
    }

    /// True if home's ends are elsewhere, so that nobody mounts the bare disk.
    pub(crate) fn is_guarded(&self) -> bool {
        self.files.guard().is_some_and(Region::is_in_region)
    }

    /// Moves the guard if that is due.
    fn guard(&mut self) {
        if self.files.guard().is_none() {
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
                    let job = Job { name, work, at: 0, len: 0, buf: Vec::new(), from: 0 };
                    if let Err(job) = self.workers.send(job) {
                        self.worker_lost(job);
                    }
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
            self.engine.handle(self.now, Input::Detach { stamp });
            self.pump_background();
        }
        self.engine.is_detached()
    }

    /// State of the area.
    pub(crate) fn area(&self) -> AreaStats {
        AreaStats {
            lasting: self.lasting,
            mode: self.engine.mode(),
            dirty_sectors: self.engine.dirty().0,
            in_doubt_sectors: self.engine.in_doubt().0,
            drained: self.guarding.is_home_complete(&self.engine) && !self.is_guarded(),
            replicas: self.engine.replicated(),
            guarded: self.is_guarded(),
            trouble: self.engine.trouble(),
            failure: self.failure,
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
                    tap.io(self.now, &running.io);
                }
                self.carry_out(running);
            }
            self.pump_background();
        }
        if self.engine.wakeup().is_some_and(|at| at <= self.now) {
            self.engine.handle(self.now, Input::Tick);
            self.pump_background();
        }
        self.guard();
    }

    /// Time until something happens by itself.
    pub(crate) fn idle_for(&mut self) -> Option<std::time::Duration> {
        let disk = self.emulated.as_ref().and_then(Emulated::next_event);
        if let Some(then) = disk.filter(|_| self.clock.jumps()) {
            self.clock.jump(then);
        }
        let next = [disk, self.engine.wakeup()].into_iter().flatten().min()?;
        Some(self.clock.wait(self.clock.now(), next))
    }

    /// The next request that has ended.
    pub(crate) fn drain(&mut self) -> Option<Finished<O>> {
        self.finished.pop_front()
    }

    /// True if nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.memories.requests.is_empty() && self.questions.is_empty()
    }

    /// True while copies are being moved to their places.
    pub(crate) fn is_moving(&self) -> bool {
        self.engine.progress().is_some()
    }

    pub(crate) fn stats(&self) -> (Stats, Sectors, Option<Progress>, u64) {
        let state = self.engine.replicated().filter(|_| self.engine.is_replicating());
        let replicating =
            state.map(|r| Progress { done: r.standing, total: r.standing + r.waiting });
        let progress = self.engine.progress().or(replicating);
        (self.engine.stats(), self.engine.copied(), progress, self.unobserved)
    }

    pub(crate) fn disk_stats(&self) -> Option<DiskStats> {
        self.emulated.as_ref().map(|e| e.stats(self.now))
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
        let home = Target::Home;
        self.files.change(home, Op::Flush, seekless_block::Flags::NONE, 0, 0, &[]).map_err(errno_of)
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

    /// Starts an I/O; executes it at once if that cannot block.
    fn submit(&mut self, io: Io, current: &mut Current<'_>) {
        let concerns = || concerns(self.files.guard(), &io);
        if self.guarding.park(&io, concerns) {
            if matches!(io.memory, Some(Memory::Client { id, .. }) if id.0 as usize == current.id) {
                self.memories.detach(current);
            }
            return;
        }
        if self.emulated.is_none()
            && let Some(tap) = &mut self.tap
        {
            tap.io(self.now, &io);
        }
        if self.emulated.is_none()
            && let Some(result) = self.try_now(&io, current)
        {
            self.report(&io, result);
            return;
        }
        if matches!(io.memory, Some(Memory::Client { id, .. }) if id.0 as usize == current.id) {
            self.memories.detach(current);
        }
        let slot = io.id.0 as usize;
        if slot >= self.running.len() {
            self.running.resize(slot + 1, None);
        }
        let running = Running { io, home: Home::Bounce };
        if let Some(entry) = self.running.get_mut(slot) {
            *entry = Some(running);
        }
        match &mut self.emulated {
            Some(disk) => {
                if disk.submit(self.now, &io) {
                    self.fetch(&io);
                } else {
                    self.ran(io.id);
                    self.report(&io, Err(Errno::Io));
                }
            }
            None => self.carry_out(running),
        }
    }

    /// Lets the host read ahead while the emulated disk takes its time: otherwise the read would be
    /// late.
    fn fetch(&mut self, io: &Io) {
        let (at, len) = (io.extent.start.0.saturating_mul(SECTOR_BYTES), io.extent.bytes().0);
        if io.op != Op::Read || self.files.holds(io.target, at, len) {
            return;
        }
        let (name, work) = (JobName::Hint, Work::WillNeed(io.target));
        // If the worker is gone, the read itself will fail.
        let _ = self.workers.send(Job { name, work, at, len, buf: Vec::new(), from: 0 });
    }

    /// Does an I/O if that does not wait for the disk.
    #[inline]
    fn try_now(&mut self, io: &Io, current: &mut Current<'_>) -> Option<Result<(), Errno>> {
        let at = io.extent.start.0.checked_mul(SECTOR_BYTES)?;
        let len = io.extent.bytes().0 as usize;
        let memory = io.memory?;
        match io.op {
            Op::Read => {
                let buf = self.memories.place_mut(memory, len, current)?;
                self.files.read_now(io.target, at, buf).map(Ok)
            }
            Op::Write if !io.flags.contains(seekless_block::Flags::FUA) => {
                let buf = self.memories.place(memory, len, current)?;
                let result = self.files.write_now(io.target, at, buf)?;
                Some(result.map_err(errno_of))
            }
            _ => None,
        }
    }

    /// Reports the end of an I/O to the engine.
    fn report(&mut self, io: &Io, result: Result<(), Errno>) {
        if let Some(disk) = &mut self.emulated
            && let Some(due) = disk.due(io.id)
        {
            disk.was_late(self.clock.wait(due, self.clock.now()));
        }
        if let Err(errno) = result {
            self.errno = errno;
            let Io { target, op, extent, .. } = *io;
            self.failure = Some(IoFailure { target, op, extent, errno });
        }
        let result = result.map_err(|_| IoFailed);
        self.engine.handle(self.now, Input::Done { io: io.id, result });
    }

    /// Gives an I/O to the workers, or executes it at once if that does not wait.
    fn carry_out(&mut self, running: Running) {
        let io = running.io;
        let mut nobody = Current::nobody();
        if self.emulated.is_some()
            && let Some(result) = self.try_now(&io, &mut nobody)
        {
            self.ran(io.id);
            self.report(&io, result);
            return;
        }
        let (buf, from, home) = self.lend(&io);
        if let Some(Some(entry)) = self.running.get_mut(io.id.0 as usize) {
            entry.home = home;
        }
        let job = Job {
            name: JobName::Io(io.id),
            work: Work::Io(io.target, io.op, io.flags),
            at: io.extent.start.0.saturating_mul(SECTOR_BYTES),
            len: io.extent.bytes().0,
            buf,
            from,
        };
        if let Err(job) = self.workers.send(job) {
            self.worker_lost(job);
        }
    }

    /// The memory of an I/O as a buffer for a worker: its own buffer if it has one, else a bounce
    /// buffer.
    fn lend(&mut self, io: &Io) -> (Vec<u8>, usize, Home) {
        let Some(memory) = io.memory else { return (Vec::new(), 0, Home::Bounce) };
        let len = io.extent.bytes().0 as usize;
        let from = range_of(memory, len).start;
        match memory {
            Memory::Client { id, .. } => {
                let id = id.0 as usize;
                // Only if the I/O covers the whole request: otherwise bytes from other I/Os would
                // be lost when the buffer returns.
                if let Some(inflight) = self.memories.requests.get_mut(id)
                    && len == inflight.bytes
                {
                    let bytes = inflight.bytes;
                    let own = inflight.buf.take();
                    let buf = own.unwrap_or_else(|| self.memories.buffers.take(bytes));
                    return (buf, from, Home::Client(id));
                }
            }
            // A piece inside a buffer is copied: other pieces may be in flight too.
            Memory::Buffer { index, offset } if offset.0 == 0 => {
                let index = index as usize;
                let buf = std::mem::take(self.memories.read_buffer(index));
                if !buf.is_empty() {
                    return (buf, from, Home::Buffer(index));
                }
            }
            Memory::Buffer { .. } | Memory::Slot { .. } | Memory::Stage { .. } => {}
        }
        let mut bounce = self.memories.buffers.take(len);
        if io.op == Op::Write {
            let nobody = Current::nobody();
            transfer(bounce.get_mut(..len), self.memories.place(memory, len, &nobody));
        }
        (bounce, 0, Home::Bounce)
    }

    /// Removes an I/O in flight.
    fn ran(&mut self, io: IoId) -> Option<Running> {
        self.running.get_mut(io.0 as usize).and_then(Option::take)
    }

    /// Handles a finished job.
    fn ended(&mut self, ended: Ended) {
        let io = match ended.name {
            JobName::Io(io) => io,
            JobName::Hint => return,
            JobName::Guard => return self.guard_moved(ended.result),
            JobName::Question(index) => {
                if let Some(owner) = self.questions.try_remove(index) {
                    let Ended { result, runs, .. } = ended;
                    self.finished.push_back(Finished { owner, result, buf: None, runs });
                }
                return;
            }
        };
        let Some(Running { io, home }) = self.ran(io) else { return };
        match home {
            Home::Client(id) => {
                if let Some(inflight) = self.memories.requests.get_mut(id) {
                    inflight.buf = Some(ended.buf);
                }
            }
            Home::Buffer(index) => *self.memories.read_buffer(index) = ended.buf,
            Home::Bounce => {
                let len = io.extent.bytes().0 as usize;
                if let (Op::Read, Some(memory)) = (io.op, io.memory) {
                    let mut nobody = Current::nobody();
                    let to = self.memories.place_mut(memory, len, &mut nobody);
                    transfer(to, ended.buf.get(..len));
                }
                self.memories.buffers.give(ended.buf);
            }
        }
        self.report(&io, ended.result);
        self.pump_background();
    }

    /// Fails a job without a worker, which only a bug can cause.
    fn worker_lost(&mut self, job: Job) {
        let Job { name, buf, .. } = job;
        self.ended(Ended { name, result: Err(Errno::Io), buf, runs: Vec::new() });
    }
}

/// True if an I/O touches the sectors that the guard moves.
fn concerns(region: Option<&Region>, io: &Io) -> bool {
    io.target == Target::Home
        && io.op != Op::Flush
        && region.is_some_and(|region| region.touches(io.extent))
}
