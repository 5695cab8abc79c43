//! A drive's books: which state it was in for how long, what that cost, and when its platters rest. Knows no queue:
//! it is told of each command when the drive turns to it, and works out the time between by itself.

use std::ops::AddAssign;

use seekless_block::{Duration, SimTime};

use crate::disk::Access;
use crate::energy::{ByState, EnergyByState, PowerStates, TimeByState, Transition};
use crate::spin_down::{SpinDown, SpinDownError};

/// What a drive has spent, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in each state; together, the time that has passed.
    pub time: TimeByState,
    /// Energy in each state.
    pub energy: EnergyByState,
    /// Of [`Self::energy`], what background commands caused.
    pub background: EnergyByState,
    /// How often the platters were stopped.
    pub spin_downs: u64,
}

impl Usage {
    /// What was spent since `earlier`, an account of the same drive.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time - earlier.time,
            energy: self.energy - earlier.energy,
            background: self.background - earlier.background,
            spin_downs: self.spin_downs - earlier.spin_downs,
        }
    }

    fn add(&mut self, state: State, spent: Transition, background: bool) {
        *state.of(&mut self.time) += spent.time;
        *state.of(&mut self.energy) += spent.energy;
        if background {
            *state.of(&mut self.background) += spent.energy;
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, rhs: Self) {
        self.time += rhs.time;
        self.energy += rhs.energy;
        self.background += rhs.background;
        self.spin_downs += rhs.spin_downs;
    }
}

/// The states a command passes through.
#[derive(Clone, Copy, Debug)]
enum State {
    Seek,
    Busy,
    SpinDown,
    SpinUp,
}

impl State {
    fn of<T>(self, by: &mut ByState<T>) -> &mut T {
        match self {
            Self::Seek => &mut by.seek,
            Self::Busy => &mut by.rotation_transfer,
            Self::SpinDown => &mut by.spin_down,
            Self::SpinUp => &mut by.spin_up,
        }
    }
}

/// What a command waits for before the disk can turn to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wake {
    /// The rest of spinning down.
    down: Transition,
    /// Spinning up, or leaving a lower level of idling.
    up: Transition,
    /// The timeout from here on, where the policy learned from this.
    timeout: Option<Duration>,
}

impl Wake {
    pub(crate) fn time(&self) -> Duration {
        self.down.time + self.up.time
    }
}

/// Time by what each second of it costs. Powers are whole numbers, so energy can be worked out from the sums, when somebody
/// asks for it, and not at each command.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    driven: Duration,
    coasting: Duration,
    waiting: Duration,
    read: Duration,
    write: Duration,
}

/// What was spent so far.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    idle: Duration,
    /// By commands of the foreground, and of the background.
    served: [Served; 2],
    /// All else: spinning down and up, platters at rest, lower levels of idling.
    rest: Usage,
}

impl Books {
    fn spend(&mut self, gap: &Gap, background: bool) {
        self.idle += gap.idle;
        let served = &mut self.served[usize::from(background)];
        served.driven += gap.paid[0];
        served.waiting += gap.paid[1];
        if let Some(rest) = &gap.rest {
            self.rest += *rest;
        }
    }

    fn usage(&self, power: &PowerStates) -> Usage {
        let mut usage = self.rest;
        usage.time.idle += self.idle;
        usage.energy.idle += power.idle * self.idle;
        for (s, background) in self.served.iter().zip([false, true]) {
            let coast = power.coast.map_or(power.seek, |(_, coast)| coast);
            let seek = Transition {
                time: s.driven + s.coasting,
                energy: power.seek * s.driven + coast * s.coasting,
            };
            usage.add(State::Seek, seek, background);
            let busy = Transition {
                time: s.waiting + s.read + s.write,
                energy: power.rotation_transfer * s.waiting
                    + power.read * s.read
                    + power.write * s.write,
            };
            usage.add(State::Busy, busy, background);
        }
        usage
    }
}

/// The time from the end of a command to some later instant.
struct Gap {
    idle: Duration,
    /// How much of what is owed falls into it.
    paid: [Duration; 2],
    /// Below idling.
    rest: Option<Usage>,
}

/// The last command, to take back what is yet to come of it.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    start: SimTime,
    wake: Wake,
    /// Of the overhead: moving the arm on the disk's own account.
    behind: Duration,
    access: Access,
    background: bool,
}

impl Last {
    /// Its legs, in the order of time.
    fn legs(&self, power: &PowerStates) -> [(State, Transition); 7] {
        let rotating = |time| Transition::at(power.rotation_transfer, time);
        let Access { overhead, seek, rotation, transfer, write, .. } = self.access;
        [
            (State::SpinDown, self.wake.down),
            (State::SpinUp, self.wake.up),
            (State::Seek, Transition::at(power.seek, self.behind)),
            (State::Busy, rotating(overhead - self.behind)),
            (State::Seek, Transition { time: seek, energy: power.seeking(seek) }),
            (State::Busy, rotating(rotation)),
            (State::Busy, Transition::at(power.transfer(write), transfer)),
        ]
    }
}

/// The books. Everything is worked out from absolute times: being asked changes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    policy: SpinDown,
    /// Time without work after which the platters stop; none: never.
    timeout: Option<Duration>,
    /// Up to [`Self::until`].
    books: Books,
    /// When the last command ended or will end.
    until: SimTime,
    /// When the disk was or will be done with its own work too.
    quiet: SimTime,
    /// Work on the disk's own account that is yet to be found a time: seeking, and all else.
    owed: [Duration; 2],
    last: Last,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            policy: SpinDown::None,
            timeout: None,
            books: Books::default(),
            until: SimTime(0),
            quiet: SimTime(0),
            owed: [Duration::ZERO; 2],
            last: Last::default(),
        }
    }

    /// Spins down by `policy` from now on.
    pub(crate) fn set_policy(
        &mut self,
        power: &PowerStates,
        policy: SpinDown,
    ) -> Result<(), SpinDownError> {
        self.timeout = policy.timeout(power)?;
        self.policy = policy;
        Ok(())
    }

    /// What a command that needs the platter has to wait for at `at`.
    pub(crate) fn wake(&self, power: &PowerStates, at: SimTime) -> Wake {
        let idle = at.since(self.quiet);
        if idle == Duration::ZERO {
            return Wake::default();
        }
        match (self.timeout, &power.standby) {
            (Some(timeout), Some(standby)) if idle >= timeout => {
                let down = standby.down.rest(idle - timeout);
                let wait = down.time + standby.up.time;
                let timeout = self.policy.adapted(power, timeout, wait, idle);
                Wake { down, up: standby.up, timeout: Some(timeout) }
            }
            _ => {
                let level = power.levels().take_while(|l| idle >= l.after).last();
                let recovery = level.map_or(Duration::ZERO, |l| l.recovery);
                Wake { up: Transition::at(power.idle, recovery), ..Wake::default() }
            }
        }
    }

    /// Books a command that the drive turns to at `at`, and the time since the one before.
    /// `written_back` is when the disk will be done with its own work.
    pub(crate) fn book(
        &mut self,
        power: &PowerStates,
        at: SimTime,
        wake: Wake,
        access: &Access,
        background: bool,
        written_back: SimTime,
    ) {
        if access.total() == Duration::ZERO {
            self.owe(access);
            return;
        }
        if at > self.until {
            let gap = self.gap(power, at);
            self.books.spend(&gap, self.last.background);
            self.owed = [self.owed[0] - gap.paid[0], self.owed[1] - gap.paid[1]];
        }
        self.timeout = wake.timeout.or(self.timeout);
        let behind = access.overhead.min(self.owed[0]);
        self.owed[0] -= behind;
        let overhead = access.overhead - behind;
        self.owed[1] -= overhead.min(self.owed[1]);
        // Transitions that take no time still cost.
        if wake.timeout.is_some() || wake.time() > Duration::ZERO {
            self.books.rest.add(State::SpinDown, wake.down, background);
            self.books.rest.add(State::SpinUp, wake.up, background);
        }
        let served = &mut self.books.served[usize::from(background)];
        let driven = power.driven(access.seek);
        served.driven += behind + driven;
        served.coasting += access.seek - driven;
        served.waiting += overhead + access.rotation;
        *(if access.write { &mut served.write } else { &mut served.read }) += access.transfer;
        self.owe(access);
        self.last = Last { start: at, wake, behind, access: *access, background };
        self.until = SimTime(at.0.saturating_add(access.total().0));
        self.quiet = self.until.max(written_back);
    }

    /// Writing back follows the command that set it off. Reading ahead came before the one that ended it and made it
    /// known; it is given later time as well, so that no account is ever taken back.
    fn owe(&mut self, access: &Access) {
        self.owed[0] += access.behind_seek;
        self.owed[1] += access.behind_rotation_transfer;
    }

    /// The account of the time from the end of the last command to `to`.
    fn gap(&self, power: &PowerStates, to: SimTime) -> Gap {
        let (mut idle, rest) = self.resting(power, to.since(self.quiet));
        idle += to.min(self.quiet).since(self.until);
        let seek = self.owed[0].min(idle);
        idle -= seek;
        let other = self.owed[1].min(idle);
        idle -= other;
        Gap { idle, paid: [seek, other], rest }
    }

    /// Of the first `time` without work, that of idling, and what was spent below it.
    fn resting(&self, power: &PowerStates, time: Duration) -> (Duration, Option<Usage>) {
        let turning = self.timeout.map_or(time, |t| t.min(time));
        let idle = power.levels().next().map_or(turning, |l| l.after.min(turning));
        if idle == time && self.timeout != Some(time) {
            return (idle, None);
        }
        let mut usage = Usage::default();
        let mut levels = power.levels().peekable();
        while let Some(level) = levels.next() {
            let end = levels.peek().map_or(turning, |next| next.after.min(turning));
            let spent = end - level.after.min(turning);
            usage.time.low_idle += spent;
            usage.energy.low_idle += level.power * spent;
        }
        if let (Some(timeout), Some(standby)) = (self.timeout, &power.standby)
            && time >= timeout
        {
            let since = time - timeout;
            usage.time.spin_down = since.min(standby.down.time);
            usage.energy.spin_down = standby.down.part(since);
            usage.time.standby = since - usage.time.spin_down;
            usage.energy.standby = standby.power * usage.time.standby;
            usage.spin_downs = 1;
        }
        (idle, Some(usage))
    }

    /// The books up to `now`, which is not before the last command began.
    pub(crate) fn usage(&self, power: &PowerStates, now: SimTime) -> Usage {
        if now >= self.until {
            let mut books = self.books;
            books.spend(&self.gap(power, now), self.last.background);
            return books.usage(power);
        }
        let mut usage = self.books.usage(power);
        let mut passed = now.since(self.last.start);
        for (state, leg) in self.last.legs(power) {
            let to_come = leg.rest(passed);
            passed = Duration(passed.0.saturating_sub(leg.time.0));
            *state.of(&mut usage.time) -= to_come.time;
            *state.of(&mut usage.energy) -= to_come.energy;
            if self.last.background {
                *state.of(&mut usage.background) -= to_come.energy;
            }
        }
        usage
    }
}
