//! The loop: engine x drive x requests. Time jumps from event to event.

use std::collections::VecDeque;

use seekless_block::{Duration, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_disk::{
    Command, Device, DiskError, Drive, Operations, Scheduler, SpinDown, SpinDownError, Usage,
};
use seekless_engine::{
    Class, Config, Engine, Fault, Input, Io, IoId, Mode, Output, PageSum, RequestId, Stats, Target,
};
use seekless_learn::{Adaptive, Plan, Replica};

use crate::measure::Measured;
use crate::path::{Kind, Point};

/// When the next request is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// As soon as fewer than this many are in flight; arrival times are not used.
    Closed {
        /// At least 1.
        depth: u32,
    },
    /// At its arrival time, whatever is in flight.
    Open,
}

/// How a simulation is set up.
#[derive(Clone, Copy, Debug)]
pub struct SimConfig {
    /// The engine's settings.
    pub engine: Config,
    /// Where on the disk the optimized area starts. Client addresses from here on lie behind it: the area
    /// is a partition between two others, as BORG suggests (FAST'09, 3.3).
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
pub enum SimError {
    /// Client addresses and optimized area together are larger than the disk.
    #[error(
        "{home} of client addresses and an optimized area of {area} do not fit a disk of {disk}: choose a larger disk or a smaller area"
    )]
    DoesNotFit {
        /// Client addresses.
        home: Sectors,
        /// Optimized area.
        area: Sectors,
        /// The disk.
        disk: Sectors,
    },
    /// The disk cannot follow the policy of spinning down.
    #[error("the disk cannot spin down")]
    SpinDown(#[from] SpinDownError),
    /// The engine refused a request.
    #[error("request {index} cannot be served")]
    Request {
        /// Counted from 0.
        index: u64,
        /// Why.
        #[source]
        fault: Fault,
    },
    /// The drive refused an I/O of the engine.
    #[error("the disk refused an I/O")]
    Disk(#[from] DiskError),
}

/// An I/O of the engine at the drive: two commands where it reaches across the optimized area.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    class: Class,
    target: Target,
    op: Op,
    commands: u8,
}

/// A run in progress.
#[derive(Debug)]
pub struct Simulation {
    engine: Engine,
    drive: Drive,
    config: SimConfig,
    now: SimTime,
    /// Requests in flight: when each was asked, by its number less that of the oldest.
    asked: VecDeque<Option<SimTime>>,
    oldest: u64,
    in_flight: u32,
    /// The engine's I/Os in flight, by their number.
    ios: Vec<InFlight>,
    /// When the first request was asked, and the trace's time then.
    started: Option<(SimTime, SimTime)>,
    /// The drive's account before the first request: no part of the span.
    usage_before: Usage,
    measured: Measured,
    /// The drive's and the engine's accounts when this lap began, background work before its first request included.
    lap_before: Usage,
    operations_before: Option<Operations>,
    stats_before: Stats,
    refused: Option<SimError>,
    sums: Vec<PageSum>,
}

impl Simulation {
    /// A device at rest at time zero, an engine with no copies.
    ///
    /// # Errors
    /// Where the client's addresses and the area do not fit the disk, or the disk cannot spin down as asked.
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
            started: None,
            usage_before: Usage::default(),
            measured: Measured::new(),
            lap_before: Usage::default(),
            operations_before: None,
            stats_before: Stats::default(),
            refused: None,
            sums: Vec::new(),
        })
    }

    /// Installs a plan and carries it out to its end before anything else is asked: the time it takes is
    /// background time.
    ///
    /// # Errors
    /// Where the drive refuses an I/O.
    pub fn install(&mut self, plan: Plan) -> Result<(), SimError> {
        self.feed(Input::Install(plan));
        // And what the engine notes down about it.
        while (self.engine.progress().is_some() || self.drive.next_event().is_some())
            && self.refused.is_none()
        {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Writes home all that the write buffer holds, in the background, before anything else is asked. Then it takes in nothing more.
    ///
    /// # Errors
    /// Where a request or an I/O could not be served.
    pub fn drain(&mut self) -> Result<(), SimError> {
        if self.engine.mode() == Mode::WriteThrough {
            return Ok(());
        }
        self.feed(Input::Command(seekless_engine::Command::Drain));
        while !self.engine.is_drained() && self.refused.is_none() {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Lets so much time pass, installs a plan, and returns: it is carried out while requests are served.
    ///
    /// # Errors
    /// Where the drive refuses an I/O.
    pub fn begin(&mut self, after: Duration, plan: Plan) -> Result<(), SimError> {
        self.pass_to(self.now + after);
        self.feed(Input::Install(plan));
        self.refused.map_or(Ok(()), Err)
    }

    /// Takes these sectors for discarded by the client before it began, where copies stand in free pages.
    pub fn seed_free(&mut self, free: impl IntoIterator<Item = Extent>) {
        self.engine.seed_free(free);
    }

    /// Asks for replicas and returns: they are written while requests are served.
    ///
    /// # Errors
    /// Where the drive refuses an I/O.
    pub fn replicate(&mut self, replicas: Vec<Replica>) -> Result<(), SimError> {
        self.feed(Input::Replicate(replicas));
        self.refused.map_or(Ok(()), Err)
    }

    /// Lets time pass until all replicas that were asked for stand, or are refused.
    ///
    /// # Errors
    /// Where the drive refuses an I/O.
    pub fn settle_replicas(&mut self) -> Result<(), SimError> {
        while self.is_replicating() && self.next_event().is_some() && self.refused.is_none() {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Lets time pass until the engine has nothing more to do by itself.
    ///
    /// # Errors
    /// Where the drive refuses an I/O.
    pub fn settle(&mut self) -> Result<(), SimError> {
        self.feed(Input::Tick);
        while self.next_event().is_some() && self.refused.is_none() {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Copies are in doubt from now on, as after an unclean stop, and are proven as the engine sees fit.
    pub fn doubt(&mut self) {
        self.engine.doubt();
    }

    /// Lets time pass until no copy is in doubt, or the engine does no more about it.
    ///
    /// # Errors
    /// Where the drive refuses an I/O.
    pub fn settle_doubts(&mut self) -> Result<(), SimError> {
        while self.engine.in_doubt() > Sectors(0)
            && self.next_event().is_some()
            && self.refused.is_none()
        {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// The time since the beginning.
    #[must_use]
    pub const fn now(&self) -> SimTime {
        self.now
    }

    /// Whether replicas are asked for that do not stand yet.
    #[must_use]
    pub fn is_replicating(&self) -> bool {
        self.engine.is_replicating()
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The adaptive policy, to tell it of the future, where it is in use.
    pub fn adaptive(&mut self) -> Option<&mut Adaptive> {
        self.engine.adaptive()
    }

    /// Lets so much time pass, in which whatever is under way goes on.
    ///
    /// # Errors
    /// Where a request so far could not be served.
    pub fn pass(&mut self, time: Duration) -> Result<(), SimError> {
        self.pass_to(self.now + time);
        self.refused.map_or(Ok(()), Err)
    }

    /// Handles every event up to this time.
    fn pass_to(&mut self, at: SimTime) {
        while self.next_event().is_some_and(|t| t <= at) && self.refused.is_none() {
            self.step();
        }
        self.now = at;
    }

    /// Whether reads go home although copies stand.
    pub fn bypass(&mut self, on: bool) {
        self.feed(Input::Bypass(on));
    }

    /// The copies that may be used.
    #[must_use]
    pub fn standing(&self) -> Plan {
        self.engine.standing()
    }

    /// What the engine has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Whether data is being moved.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.engine.progress().is_some()
    }

    /// Asks one more request, after letting time pass until it may be asked.
    ///
    /// # Errors
    /// Where a request so far could not be served.
    pub fn offer(&mut self, request: &Request) -> Result<(), SimError> {
        if self.started.is_none() {
            self.usage_before = self.drive.usage(self.now);
        }
        let (started, origin) = *self.started.get_or_insert((self.now, request.arrival));
        match self.config.replay {
            Replay::Closed { depth } => {
                while self.in_flight >= depth.max(1) && self.refused.is_none() {
                    self.step();
                }
            }
            Replay::Open => {
                self.pass_to((started + request.arrival.since(origin)).max(self.now));
            }
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

    /// Lets time pass until fewer than `most` requests are in flight: what is offered next then waits its turn,
    /// as a client's would.
    ///
    /// # Errors
    /// Where a request so far could not be served.
    pub fn settle_below(&mut self, most: u32) -> Result<(), SimError> {
        while self.in_flight >= most.max(1) && self.refused.is_none() {
            self.step();
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// What clients may address.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        self.config.engine.capacity
    }

    /// How much a plan may place: less than the area, which holds the engine's metadata and log too.
    #[must_use]
    pub const fn room(&self) -> Sectors {
        self.engine.room()
    }

    /// Time and energy by state so far, installing and background work included.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.drive.usage(self.now)
    }

    /// What was measured so far; the span, the engine's counts and everything by state are there at the end only.
    #[must_use]
    pub const fn so_far(&self) -> &Measured {
        &self.measured
    }

    /// Lets everything in flight end, and says what it cost.
    ///
    /// # Errors
    /// Where a request could not be served.
    pub fn finish(mut self) -> Result<Measured, SimError> {
        self.lap()
    }

    /// Lets everything in flight end, says what it cost since the beginning or the last lap, and counts anew. RAM,
    /// copies and the arm stay as they are; of an open loop's arrival times, the next request's counts as now.
    ///
    /// # Errors
    /// Where a request could not be served.
    pub fn lap(&mut self) -> Result<Measured, SimError> {
        while self.in_flight > 0 && self.refused.is_none() {
            self.step();
        }
        if let Some(error) = self.refused {
            return Err(error);
        }
        let mut m = std::mem::replace(&mut self.measured, Measured::new());
        let started = self.started.take();
        m.span = started.map_or(Duration::ZERO, |(started, _)| self.now.since(started));
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

    fn next_event(&self) -> Option<SimTime> {
        match (self.drive.next_event(), self.engine.wakeup()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Lets time pass to the next event, and handles it.
    fn step(&mut self) {
        let Some(at) = self.next_event() else {
            unreachable!("something is in flight, so something will happen")
        };
        self.now = self.now.max(at);
        let Some(done) = self.drive.poll(self.now) else {
            self.feed(Input::Tick);
            return;
        };
        let InFlight { class, target, op, ref mut commands } = self.ios[done.tag as usize];
        *commands -= 1;
        let ended = *commands == 0;
        let moved = matches!(op, Op::Read | Op::Write | Op::WriteZeroes);
        self.measured.cost(class, target, op, &done);
        match class {
            Class::Foreground if moved => self.measured.foreground_io(&done),
            // A flush moves nothing, and keeps a disk busy that has a cache.
            Class::Foreground => self.measured.foreground_flush(&done),
            Class::Background => self.measured.background_io(&done),
        }
        if moved {
            let kind = match (class, op) {
                (Class::Background, _) => Kind::Background,
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
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Move(_) | Output::Put { .. } | Output::Zero { .. } => {} // there are no bytes here
                Output::Sum(sum) => {
                    // And all of them are alike.
                    self.sums.resize(self.sums.len().max(sum.pages as usize), 0);
                    self.engine.summed(&self.sums[..sum.pages as usize]);
                }
                Output::Submit(io) => self.submit(&io),
                Output::Complete { id, result } => self.complete(id, result),
            }
        }
    }

    fn submit(&mut self, io: &Io) {
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
        let state = InFlight { class: io.class, target: io.target, op: io.op, commands };
        if self.ios.len() <= index {
            self.ios.resize(index + 1, state);
        }
        self.ios[index] = state;
        for extent in [Some(before), after].into_iter().flatten() {
            let command = Command {
                tag: u64::from(io.id.0),
                op: io.op,
                extent,
                stream: io.stream,
                background: io.class == Class::Background,
            };
            if let Err(error) = self.drive.submit(self.now, command) {
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
