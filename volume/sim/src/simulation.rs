//! The loop: engine x drive x requests. Time jumps from event to event.

use std::collections::VecDeque;

use seekless_block::{Duration, Extent, Lba, Op, Request, Sectors, SimTime, Toll};
use seekless_disk::{
    Command, Device, DiskError, Drive, Operations, Scheduler, SpinDown, SpinDownError, Usage,
};
use seekless_engine::{
    Class, Config, Engine, Fault, Input, Io, IoId, Mode, Output, PageSum, RequestId, Stats, Target,
};
use seekless_learn::{Adaptive, Plan, Replica};

use crate::measure::Measured;
use crate::path::{Kind, Point};

/// When the next request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// As soon as fewer than this many are in flight; arrival times are ignored.
    Closed {
        /// At least 1.
        depth: u32,
    },
    /// One at a time. A client sends the next request this long after the answer to the last one.
    Think {
        /// The client's own time.
        time: Duration,
    },
    /// At its arrival time.
    Open,
}

/// The settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct SimConfig {
    /// The engine's settings.
    pub engine: Config,
    /// First sector of the optimized area on the disk. Later client addresses lie behind the area:
    /// a partition between two others, as BORG suggests (FAST'09, 3.3).
    pub area_at: Lba,
    /// The drive's scheduler.
    pub scheduler: Scheduler,
    /// When the drive stops its platters.
    pub spin_down: SpinDown,
    /// Closed or open loop.
    pub replay: Replay,
}

/// Why a simulation cannot start or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SimError {
    #[error(
        "{home} of client addresses and an optimized area of {area} do not fit a disk of {disk}: choose a larger disk or a smaller area"
    )]
    DoesNotFit { home: Sectors, area: Sectors, disk: Sectors },
    #[error("the disk cannot spin down")]
    SpinDown(#[from] SpinDownError),
    #[error("request {index} cannot be served")]
    Request {
        index: u64,
        #[source]
        fault: Fault,
    },
    #[error("the disk refused an I/O")]
    Disk(#[from] DiskError),
    #[error(
        "the simulated time passes 292 years: check the unit of the trace's times, or give a shorter --think"
    )]
    TooLate,
}

/// The latest simulated time at which a request is sent, about 292 years: later ones would wrap.
const LATEST: SimTime = SimTime(1 << 63);

/// An I/O of the engine at the drive. It is two commands if it reaches across the optimized area.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// The number of I/Os before it.
    number: u64,
    class: Class,
    target: Target,
    op: Op,
    commands: u8,
}

/// A run in progress. Every call fails if a request or an I/O so far could not be served.
#[derive(Debug)]
pub struct Simulation {
    engine: Engine,
    drive: Drive,
    config: SimConfig,
    now: SimTime,
    /// The times of requests in flight. The index is a request's number, less that of the oldest.
    asked: VecDeque<Option<SimTime>>,
    oldest: u64,
    in_flight: u32,
    /// The engine's I/Os in flight, by their name.
    ios: Vec<InFlight>,
    /// I/Os that the drive got so far.
    sent: u64,
    /// When this lap began to wait for its first request.
    started: Option<SimTime>,
    /// In an open loop, the time of a request, and its time in the trace: all others keep their
    /// distance from it.
    origin: Option<(SimTime, SimTime)>,
    /// The drive's account at the start of the span.
    usage_before: Usage,
    measured: Measured,
    /// The drive's and the engine's accounts at the start of this lap, with background work before
    /// its first request.
    lap_before: Usage,
    operations_before: Option<Operations>,
    stats_before: Stats,
    refused: Option<SimError>,
    sums: Vec<PageSum>,
    /// The area lies on another device, of which there is no model.
    area_elsewhere: bool,
    /// I/Os there that end now.
    elsewhere: Vec<IoId>,
}

impl Simulation {
    /// An idle device at time zero, and an engine without copies.
    ///
    /// # Errors
    /// If the client's addresses and the area do not fit the disk, or the disk cannot spin down as
    /// asked.
    pub fn new(device: impl Into<Device>, config: SimConfig) -> Result<Self, SimError> {
        let disk = device.into();
        let Config { capacity, area, .. } = config.engine;
        if capacity.0.checked_add(area.0).is_none_or(|all| all > disk.capacity().0) {
            return Err(SimError::DoesNotFit { home: capacity, area, disk: disk.capacity() });
        }
        let mut drive = Drive::new(disk, config.scheduler);
        drive.set_spin_down(config.spin_down)?;
        Ok(Self {
            engine: Engine::new(config.engine),
            drive,
            config,
            now: SimTime::ZERO,
            asked: VecDeque::new(),
            oldest: 0,
            in_flight: 0,
            ios: Vec::new(),
            sent: 0,
            started: None,
            origin: None,
            usage_before: Usage::default(),
            measured: Measured::default(),
            lap_before: Usage::default(),
            operations_before: None,
            stats_before: Stats::default(),
            refused: None,
            sums: Vec::new(),
            area_elsewhere: false,
            elsewhere: Vec::new(),
        })
    }

    /// Installs a plan and completes its move before any other request. This time is background
    /// time.
    pub fn install(&mut self, plan: Plan) -> Result<(), SimError> {
        self.feed(Input::Install(plan));
        // Also waits for the metadata of the move.
        self.step_while(|s| s.engine.progress().is_some() || s.drive.next_event().is_some())
    }

    /// Destages the whole write buffer in the background, before any other request. The write
    /// buffer then absorbs nothing more.
    pub fn drain(&mut self) -> Result<(), SimError> {
        if self.engine.mode() == Mode::WriteThrough {
            return Ok(());
        }
        self.feed(Input::Command(seekless_engine::Command::Drain));
        self.step_while(|s| !s.engine.is_drained())
    }

    /// As [`Self::drain`], but then the write buffer absorbs again.
    pub fn empty_buffer(&mut self) -> Result<(), SimError> {
        if self.engine.mode() == Mode::WriteThrough {
            return Ok(());
        }
        self.drain()?;
        self.set_mode(Mode::WriteBack);
        // Writes follow once the superblock is written.
        self.step_while(|s| s.engine.mode() == Mode::WriteThrough && s.next_event().is_some())
    }

    /// Lets time pass until the last answer, and then until the drive has ended the I/Os that it
    /// has at that time. No client waits for them: pages that are read ahead, pieces of a trail.
    pub fn end_ios(&mut self) -> Result<(), SimError> {
        self.step_while(|s| s.in_flight > 0)?;
        let sent = self.sent;
        self.step_while(|s| s.ios.iter().any(|io| io.commands > 0 && io.number < sent))
    }

    /// Lets this time pass, then installs a plan. The move goes on while requests are served.
    pub fn begin(&mut self, after: Duration, plan: Plan) -> Result<(), SimError> {
        self.pass_to(self.now + after);
        self.feed(Input::Install(plan));
        self.refused.map_or(Ok(()), Err)
    }

    /// Counts these sectors as discarded from the start, if copies stand in free pages.
    pub fn seed_free(&mut self, free: impl IntoIterator<Item = Extent>) {
        self.engine.seed_free(free);
    }

    /// Requests replicas. They are written while requests are served.
    pub fn replicate(&mut self, replicas: Vec<Replica>) -> Result<(), SimError> {
        self.feed(Input::Replicate(replicas));
        self.refused.map_or(Ok(()), Err)
    }

    /// Lets time pass until all requested replicas are written or refused.
    pub fn settle_replicas(&mut self) -> Result<(), SimError> {
        self.step_while(|s| s.engine.is_replicating() && s.next_event().is_some())
    }

    /// Lets time pass until the engine has no work of its own.
    pub fn settle(&mut self) -> Result<(), SimError> {
        self.feed(Input::Tick);
        self.step_while(|s| s.next_event().is_some())
    }

    /// Puts all copies in doubt, as after an unclean stop. The engine proves them in the
    /// background.
    pub fn doubt(&mut self) {
        self.engine.doubt();
    }

    /// Lets time pass until no copy is in doubt, or the engine stops proving them.
    pub fn settle_doubts(&mut self) -> Result<(), SimError> {
        self.step_while(|s| s.engine.in_doubt() > Sectors(0) && s.next_event().is_some())
    }

    /// Handles events while this is true, and until a request is refused.
    fn step_while(&mut self, goes_on: impl Fn(&Self) -> bool) -> Result<(), SimError> {
        while self.refused.is_none() && goes_on(self) {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// The current time.
    pub const fn now(&self) -> SimTime {
        self.now
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The adaptive policy, to tell it of the future, where it is in use.
    pub(crate) fn adaptive(&mut self) -> Option<&mut Adaptive> {
        self.engine.adaptive()
    }

    /// Empties RAM.
    pub fn empty_ram(&mut self) {
        self.engine.empty_ram();
    }

    /// Lets so much time pass, in which whatever is under way goes on.
    pub fn pass(&mut self, time: Duration) -> Result<(), SimError> {
        self.pass_to(self.now + time);
        self.refused.map_or(Ok(()), Err)
    }

    /// The same, up to this time.
    pub fn pass_until(&mut self, at: SimTime) -> Result<(), SimError> {
        self.pass_to(at.max(self.now));
        self.refused.map_or(Ok(()), Err)
    }

    /// Handles every event up to this time.
    fn pass_to(&mut self, at: SimTime) {
        while self.next_event().is_some_and(|t| t <= at) && self.refused.is_none() {
            self.step();
        }
        self.now = at;
    }

    /// From now on the area lies on another device: its I/Os take no time of this one.
    pub const fn place_area_elsewhere(&mut self) {
        self.area_elsewhere = true;
    }

    /// Where writes go from now on; as [`seekless_engine::Command::SetMode`].
    pub fn set_mode(&mut self, mode: Mode) {
        self.feed(Input::Command(seekless_engine::Command::SetMode(mode)));
    }

    /// Whether reads go home although copies exist.
    pub fn bypass(&mut self, on: bool) {
        self.feed(Input::Bypass(on));
    }

    /// The work of the engine so far.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Sends one more request, at its time.
    pub fn offer(&mut self, request: &Request) -> Result<(), SimError> {
        self.await_turn(request)?;
        if let Replay::Think { time } = self.config.replay {
            let first = self.measured.requests == 0;
            let wait = if first { 0 } else { time.0 };
            self.pass_to_request(SimTime(self.now.0.saturating_add(wait)));
        }
        if let Some(error) = self.refused {
            return Err(error);
        }
        let id = RequestId(self.oldest + self.asked.len() as u64);
        self.asked.push_back(Some(self.now));
        self.in_flight += 1;
        self.measured.requests += 1;
        self.feed(Input::Request { id, request: *request });
        self.refused.map_or(Ok(()), Err)
    }

    /// Lets time pass until a request is sent at this time.
    fn pass_to_request(&mut self, at: SimTime) {
        if at > LATEST {
            self.refused = Some(SimError::TooLate);
        } else {
            self.pass_to(at);
        }
    }

    /// Lets time pass until this request may be sent, but for the time in which its client thinks.
    /// [`Self::offer`] begins with the same steps.
    pub(crate) fn await_turn(&mut self, request: &Request) -> Result<(), SimError> {
        if self.started.is_none() {
            self.usage_before = self.drive.usage(self.now);
            self.started = Some(self.now);
            self.measured.before = self.measured.background.busy();
        }
        match self.config.replay {
            Replay::Closed { depth } => self.wait_below(depth),
            Replay::Think { .. } => self.wait_below(1),
            Replay::Open => {
                let (began, origin) = *self.origin.get_or_insert((self.now, request.arrival));
                let at = began.0.saturating_add(request.arrival.since(origin).0);
                self.pass_to_request(SimTime(at).max(self.now));
            }
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Lets time pass until fewer than `most` requests are in flight: what is offered next then
    /// waits its turn, as a client's would.
    pub fn settle_below(&mut self, most: u32) -> Result<(), SimError> {
        self.wait_below(most);
        self.refused.map_or(Ok(()), Err)
    }

    fn wait_below(&mut self, most: u32) {
        while self.in_flight >= most.max(1) && self.refused.is_none() {
            self.step();
        }
    }

    /// The capacity for clients.
    pub const fn capacity(&self) -> Sectors {
        self.config.engine.capacity
    }

    /// Time and energy by state so far, with installing and background work.
    pub fn usage(&self) -> Usage {
        self.drive.usage(self.now)
    }

    /// Operations so far, as a provider counts them, and what they cost beside their time.
    pub fn operations(&self) -> (Operations, Toll) {
        (self.drive.operations().unwrap_or_default(), self.config.engine.toll)
    }

    /// The measurements so far. The span, the engine's counts and everything by state come only at
    /// the end.
    pub const fn so_far(&self) -> &Measured {
        &self.measured
    }

    /// Waits for everything in flight, and returns the cost.
    pub fn finish(mut self) -> Result<Measured, SimError> {
        self.lap()
    }

    /// Waits for everything in flight, returns the cost since the beginning or the last lap, and
    /// resets the counts. RAM, copies and the arm stay as they are. In an open loop, the arrival
    /// time of the next request counts as now.
    pub fn lap(&mut self) -> Result<Measured, SimError> {
        let measured = self.lap_on_time()?;
        self.restart_times();
        Ok(measured)
    }

    /// The same, but in an open loop the next request still comes at its own time. The pause before
    /// it is a part of the next lap.
    pub fn lap_on_time(&mut self) -> Result<Measured, SimError> {
        self.step_while(|s| s.in_flight > 0)?;
        let mut m = std::mem::take(&mut self.measured);
        let started = self.started.take();
        m.span = started.map_or(Duration::ZERO, |started| self.now.since(started));
        let all = self.drive.usage(self.now);
        let span = all.since(&self.usage_before);
        m.energy = span.energy - span.background;
        m.background_energy = all.since(&self.lap_before).background.total();
        m.state_time = span.time;
        m.spin_downs = span.spin_downs;
        let operations = self.drive.operations();
        m.operations = operations.map(|o| o.since(&self.operations_before.unwrap_or_default()));
        let stats = self.engine.stats();
        m.engine = stats - self.stats_before;
        (self.usage_before, self.lap_before) = (all, all);
        (self.operations_before, self.stats_before) = (operations, stats);
        Ok(m)
    }

    /// In an open loop, the arrival time of the next request counts as the time at which it is
    /// offered.
    pub(crate) const fn restart_times(&mut self) {
        self.origin = None;
    }

    fn next_event(&self) -> Option<SimTime> {
        match (self.drive.next_event(), self.engine.wakeup()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Lets time pass to the next event, and handles this event.
    fn step(&mut self) {
        let Some(at) = self.next_event() else {
            unreachable!("something is in flight, so something will happen")
        };
        self.now = self.now.max(at);
        let Some(done) = self.drive.poll(self.now) else {
            self.feed(Input::Tick);
            return;
        };
        let InFlight { class, target, op, ref mut commands, .. } = self.ios[done.tag as usize];
        *commands -= 1;
        let ended = *commands == 0;
        let moved = matches!(op, Op::Read | Op::Write | Op::WriteZeroes);
        self.measured.costs.add(class, target, op, &done);
        match class {
            Class::Foreground if moved => {
                let ahead = self.engine.reads_ahead(IoId(done.tag as u32));
                self.measured.foreground_io(&done, ahead);
            }
            // A flush moves no data, but keeps a disk with a cache busy.
            Class::Foreground => self.measured.foreground.add(&done.access),
            Class::InTurn | Class::Background => self.measured.background.add(&done.access),
        }
        if moved {
            let kind = match (class, op) {
                (Class::InTurn | Class::Background, _) => Kind::Background,
                (_, Op::Read) => Kind::Read,
                _ => Kind::Write,
            };
            self.measured.path.push(Point {
                at: done.finished,
                lba: done.extent.start,
                kind,
                distance: done.seek_distance_sectors,
                took: done.access.total(),
            });
        }
        if ended {
            let io = IoId(done.tag as u32);
            self.feed(Input::Done { io, result: Ok(()) });
        }
    }

    fn feed(&mut self, input: Input) {
        self.handle(input);
        while let Some(io) = self.elsewhere.pop() {
            self.handle(Input::Done { io, result: Ok(()) });
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Move(_) | Output::Put { .. } | Output::Zero { .. } => {} // there are no bytes here
                Output::Sum(sum) => {
                    // All pages have the same sum.
                    self.sums.resize(self.sums.len().max(sum.pages as usize), 0);
                    self.engine.summed(&self.sums[..sum.pages as usize]);
                }
                Output::Submit(io) => self.submit(&io),
                Output::Complete { id, result } => self.complete(id, result),
            }
        }
    }

    fn submit(&mut self, io: &Io) {
        if self.area_elsewhere && io.target == Target::Area {
            return self.elsewhere.push(io.id);
        }
        let (at, area) = (self.config.area_at, self.config.engine.area);
        let whole = io.extent;
        let (before, after) = match io.target {
            Target::Area => (Extent { start: at + Sectors(whole.start.0), ..whole }, None),
            Target::Home if whole.end() <= at => (whole, None),
            Target::Home if whole.start >= at => {
                (Extent { start: whole.start + area, ..whole }, None)
            }
            Target::Home => {
                let rest = Extent::span(at.0 + area.0, whole.end().0 + area.0);
                (Extent::span(whole.start.0, at.0), Some(rest))
            }
        };
        let index = io.id.0 as usize;
        let commands = 1 + u8::from(after.is_some());
        let Io { class, target, op, .. } = *io;
        let state = InFlight { number: self.sent, class, target, op, commands };
        if self.ios.len() <= index {
            self.ios.resize(index + 1, InFlight { commands: 0, ..state });
        }
        self.ios[index] = state;
        self.sent += 1;
        for extent in [Some(before), after].into_iter().flatten() {
            let command = Command {
                tag: u64::from(io.id.0),
                op: io.op,
                extent,
                stream: io.stream,
                background: io.class.is_background(),
                in_turn: io.class == Class::InTurn,
            };
            if let Err(error) = self.drive.submit_with(self.now, command, io.flags) {
                self.refused = Some(SimError::Disk(error));
            }
        }
    }

    fn complete(&mut self, id: RequestId, result: Result<(), Fault>) {
        if let Err(fault) = result {
            self.refused = Some(SimError::Request { index: id.0, fault });
        }
        if let Some(asked) = self.asked[(id.0 - self.oldest) as usize].take() {
            self.measured.response.push(self.now.since(asked));
        }
        self.in_flight -= 1;
        while self.asked.front() == Some(&None) {
            self.asked.pop_front();
            self.oldest += 1;
        }
    }
}
