//! The judged policy: the actual system, vanilla beside it, and a trial that has each candidate
//! plan at once. All three serve the same requests. [`Judge`] decides, and this module carries the
//! decision out. The simulator runs it as a policy. A served volume does the same acts: [`Act`].

use std::collections::BTreeMap;

use seekless_block::{Bytes, Duration, Extent, Lba, PAGE_SECTORS, Request, Sectors, SimTime};
use seekless_disk::Device;
use seekless_learn::{
    Act, Costs, Decision, Judge, JudgeConfig, Learner, Ledger, Look, Means, PART_IOS, Plan, Policy,
    Price, instalment, ios_left,
};

use crate::learned::shape_of;
use crate::measure::Measured;
use crate::simulation::{Replay, SimConfig, SimError, Simulation};

/// The settings of a system that judges itself.
#[derive(Clone, Copy, Debug)]
pub struct JudgedConfig {
    /// The actual system. Vanilla has the same settings without an area.
    pub sim: SimConfig,
    /// How it learns and plans, and what it may risk.
    pub policy: Policy,
    /// In an open loop, data is moved when no request has come for this long. None: data is moved
    /// only in [`Judged::rest`]. In a closed loop, data is moved between two requests.
    pub idle: Option<Duration>,
    /// Most requests in flight at each of the systems. Faster requests wait.
    pub in_flight: u32,
}

/// The time of a request, for learning and for judging. No field ever runs backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The learner's time.
    pub now: SimTime,
    /// The day of its costs.
    pub day: u64,
    /// Intervals of reconfiguration so far.
    pub turn: u64,
}

/// The account of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayCosts {
    /// As in [`Clock`].
    pub day: u64,
    /// The day's costs.
    pub costs: Ledger,
}

/// Three systems, and their costs. Every call fails if a request so far could not be served.
#[derive(Debug)]
pub struct Judged {
    actual: Metered,
    vanilla: Metered,
    trial: Metered,
    learner: Learner,
    now: SimTime,
    judge: Judge,
    candidate: Plan,
    uses: Uses,
    /// Busy time per I/O of the candidate, when the trial moved all of it.
    an_io: Duration,
    /// I/Os moved so far, and their busy time.
    moved: (u64, Duration),
    open: bool,
    idle: Option<Duration>,
    in_flight: u32,
    clock: Option<Clock>,
    last_arrival: SimTime,
    days: Vec<DayCosts>,
    acts: Vec<Act>,
}

impl Judged {
    /// Three idle devices, without copies.
    ///
    /// # Errors
    /// If addresses and area do not fit the device, or it cannot spin down as asked.
    pub fn new(device: &Device, config: &JudgedConfig) -> Result<Self, SimError> {
        let mut bare = config.sim;
        bare.engine.area = Sectors(0);
        bare.engine.cluster = Bytes(0);
        bare.area_at = Lba(bare.engine.capacity.0);
        let metered = |sim| Simulation::new(device.clone(), sim).map(Metered::new);
        Ok(Self {
            actual: metered(config.sim)?,
            vanilla: metered(bare)?,
            trial: metered(config.sim)?,
            learner: Learner::new(config.policy, shape_of(&config.sim.engine)),
            now: SimTime::ZERO,
            judge: Judge::new(JudgeConfig { allowance: config.policy.allowance }),
            candidate: Plan::default(),
            uses: Uses::default(),
            an_io: Duration::ZERO,
            moved: (0, Duration::ZERO),
            open: config.sim.replay == Replay::Open,
            idle: config.idle,
            in_flight: config.in_flight,
            clock: None,
            last_arrival: SimTime::ZERO,
            days: Vec::new(),
            acts: Vec::new(),
        })
    }

    /// Learns from a request that is not served.
    pub fn learn(&mut self, now: SimTime, request: &Request) {
        self.now = now;
        self.learner.observe(now, request);
    }

    /// Judges the requests so far, carries the decision out, and serves one more request.
    pub fn offer(&mut self, clock: Clock, request: &Request) -> Result<(), SimError> {
        let before = *self.clock.get_or_insert(clock);
        self.now = clock.now;
        let quiet = request.arrival.since(self.last_arrival);
        self.last_arrival = self.last_arrival.max(request.arrival);
        // A move now belongs to the day that begins; the day before must not pay for it.
        let may_move =
            before.day == clock.day && (!self.open || self.idle.is_some_and(|idle| quiet >= idle));
        self.judge(before.day, clock.turn, may_move, self.idle.unwrap_or_default())?;
        if before.day != clock.day {
            self.days.push(DayCosts { day: before.day, costs: *self.judge.today() });
            self.uses.fade();
        }
        self.clock = Some(clock);
        self.learn(clock.now, request);
        for system in [&mut self.vanilla, &mut self.trial, &mut self.actual] {
            system.sim.settle_below(self.in_flight)?;
        }
        let at_home = |s: &Metered| s.sim.stats().home_reads;
        let before = (at_home(&self.vanilla), at_home(&self.trial));
        self.vanilla.sim.offer(request)?;
        self.trial.sim.offer(request)?;
        // A copy served it, or RAM after a read of a copy.
        if at_home(&self.vanilla) > before.0 && at_home(&self.trial) == before.1 {
            self.uses.count(request.extent);
        }
        self.actual.sim.offer(request)
    }

    /// The system is idle and may move data: judges the requests so far, and carries the decision
    /// out.
    pub fn rest(&mut self, clock: Clock) -> Result<(), SimError> {
        self.now = clock.now;
        for system in [&mut self.vanilla, &mut self.trial, &mut self.actual] {
            system.sim.settle_below(1)?;
        }
        // A day that has begun without requests has nothing to spend.
        let Some(Clock { day, .. }) = self.clock else { return Ok(()) };
        self.judge(day, clock.turn, day == clock.day, Duration::ZERO)
    }

    /// Moves to a whole plan that a person asked for. The judge does not count the move as a loss.
    pub fn adopt(&mut self, now: SimTime) -> Result<(), SimError> {
        self.now = now;
        self.replan()?;
        let plan = self.candidate.clone();
        self.actual.try_out(plan.clone())?;
        self.bypass(false);
        self.judge.adopted();
        self.acts.push(Act::Install(plan));
        Ok(())
    }

    /// The costs of the actual system since the last lap; see [`Simulation::lap`].
    pub fn lap(&mut self) -> Result<Measured, SimError> {
        // All three laps end at the same request: else the systems would serve different parts of a
        // day.
        self.vanilla.lap()?;
        self.trial.lap()?;
        self.actual.lap()
    }

    /// The account of every day so far, the current one included.
    #[must_use]
    pub fn days(&self) -> Vec<DayCosts> {
        let mut days = self.days.clone();
        if let Some(clock) = self.clock {
            let mut judge = self.judge.clone();
            let (mut actual, mut vanilla) = (self.actual.costs, self.vanilla.costs);
            let (clients, moving) = actual.read(&self.actual.sim);
            let costs = Costs {
                vanilla: vanilla.read(&self.vanilla.sim).0,
                actual: clients,
                moving,
                trial: Duration::ZERO,
            };
            judge.look(&Look { day: clock.day, turn: clock.turn, costs, may_move: false });
            days.push(DayCosts { day: clock.day, costs: *judge.today() });
        }
        days
    }

    /// The capacity for clients.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        self.vanilla.sim.capacity()
    }

    /// The number of layouts given up; see [`Judge::failures`].
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.judge.failures()
    }

    /// The acts of the actual system since the last call.
    pub fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Judges, and carries the decision out; a move begins after this time.
    fn judge(&mut self, day: u64, turn: u64, quiet: bool, after: Duration) -> Result<(), SimError> {
        let may_move = quiet && !self.actual.sim.is_moving();
        let (actual, moving) = self.actual.take();
        let (vanilla, trial) = (self.vanilla.take().0, self.trial.take().0);
        self.moved.1 += moving;
        let costs = Costs { vanilla, actual, moving, trial };
        match self.judge.look(&Look { day, turn, costs, may_move }) {
            Decision::Keep => Ok(()),
            Decision::Replan => {
                self.replan()?;
                // Earlier savings may be spent on this plan, at once: a live volume is seldom idle.
                self.judge(day, turn, quiet, after)
            }
            Decision::Move(means) => self.advance(&means, after),
            Decision::Bypass => {
                self.bypass(true);
                if self.actual.sim.is_moving() {
                    let standing = self.actual.sim.standing();
                    self.install(standing, Duration::ZERO)?;
                }
                Ok(())
            }
            Decision::Resume => {
                self.bypass(false);
                Ok(())
            }
            Decision::Withdraw => {
                self.bypass(false);
                // The next plan must not be a revision of one that failed.
                self.candidate = Plan::default();
                self.install(Plan::default(), Duration::ZERO)
            }
        }
    }

    fn replan(&mut self) -> Result<(), SimError> {
        let plan = self.learner.replan(self.now, &self.candidate);
        let standing = self.actual.sim.standing();
        let ios = ios_left(&plan, &standing);
        self.trial.try_out(standing)?;
        let all = self.trial.try_out(plan.clone())?;
        self.an_io = Duration(all.0 / ios.max(1));
        self.candidate = plan;
        self.judge.candidate_made(self.price(ios));
        Ok(())
    }

    /// Small moves take longer than one large move, in which I/Os share the way of the head. So the
    /// price is at least the time per I/O so far.
    fn price(&self, ios: u64) -> Price {
        let so_far = Duration(self.moved.1.0 / self.moved.0.max(1));
        let an_io = self.an_io.max(so_far);
        let times = |n: u64| Duration(an_io.0.saturating_mul(n));
        Price { all: times(ios), least: times(PART_IOS) }
    }

    fn advance(&mut self, means: &Means, after: Duration) -> Result<(), SimError> {
        let standing = self.actual.sim.standing();
        let ios = PART_IOS * means.most.0 / self.price(0).least.0.max(1);
        let uses = |home| self.uses.of(home);
        match instalment(&self.candidate, &standing, uses, ios, means.proof) {
            Some(step) => {
                self.moved.0 += step.ios;
                let left = ios_left(&self.candidate, &step.plan);
                self.judge.moved(step.uses, self.price(left));
                self.install(step.plan, after)
            }
            None => {
                self.judge.nothing_for(means);
                Ok(())
            }
        }
    }

    fn bypass(&mut self, on: bool) {
        self.actual.sim.bypass(on);
        self.acts.push(Act::Bypass(on));
    }

    fn install(&mut self, plan: Plan, after: Duration) -> Result<(), SimError> {
        self.acts.push(Act::Install(plan.clone()));
        if self.open { self.actual.sim.begin(after, plan) } else { self.actual.sim.install(plan) }
    }
}

/// How often copies would have saved vanilla a read of the disk, by the first page of the request.
#[derive(Clone, Debug, Default)]
struct Uses(BTreeMap<u64, u32>);

impl Uses {
    /// The weight of one use.
    const USE: u32 = 16;

    fn count(&mut self, request: Extent) {
        *self.0.entry(request.start.0 / PAGE_SECTORS).or_insert(0) += Self::USE;
    }

    fn of(&self, home: Extent) -> u64 {
        let pages = home.start.0 / PAGE_SECTORS..home.end().0.div_ceil(PAGE_SECTORS);
        self.0.range(pages).map(|(_, &n)| u64::from(n)).sum()
    }

    /// By a fifth, as the judge's evidence does.
    fn fade(&mut self) {
        self.0.retain(|_, n| {
            *n = *n * 4 / 5;
            *n > 0
        });
    }
}

/// A simulation, and the part of its cost that has been read.
#[derive(Debug)]
struct Metered {
    sim: Simulation,
    costs: Read,
}

/// The part of a simulation's costs that has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    clients: Duration,
    moving: Duration,
    /// Unread costs of ended laps.
    left: (Duration, Duration),
}

impl Read {
    /// The cost since the last read: for clients, and for moving data.
    fn read(&mut self, sim: &Simulation) -> (Duration, Duration) {
        let m = sim.so_far();
        self.read_from(m)
    }

    fn read_from(&mut self, m: &Measured) -> (Duration, Duration) {
        let (clients, moving) = (m.foreground.busy(), m.background.busy());
        let new = (clients - self.clients, moving - self.moving);
        (self.clients, self.moving) = (clients, moving);
        let left = std::mem::take(&mut self.left);
        (left.0 + new.0, left.1 + new.1)
    }
}

impl Metered {
    fn new(sim: Simulation) -> Self {
        Self { sim, costs: Read::default() }
    }

    fn take(&mut self) -> (Duration, Duration) {
        self.costs.read(&self.sim)
    }

    fn lap(&mut self) -> Result<Measured, SimError> {
        let m = self.sim.lap()?;
        let left = self.costs.read_from(&m);
        self.costs = Read { left, ..Read::default() };
        Ok(m)
    }

    /// Installs a plan at once. Returns the busy time of its move, which counts as read.
    fn try_out(&mut self, plan: Plan) -> Result<Duration, SimError> {
        // In an open loop, the arrival time of the next request counts as now.
        self.lap()?;
        self.sim.install(plan)?;
        let moving = self.sim.so_far().background.busy();
        self.costs.moving = moving;
        Ok(moving)
    }
}
