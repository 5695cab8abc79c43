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

/// The states of a command's legs, in the order of time.
const LEGS: [State; 7] = [
    State::SpinDown,
    State::SpinUp,
    State::Seek, // on the disk's own account, while the command waits for it
    State::Busy,
    State::Seek,
    State::Busy,
    State::Busy,
];

/// The books. Everything is worked out from absolute times: being asked changes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    policy: SpinDown,
    /// Time without work after which the platters stop; none: never.
    timeout: Option<Duration>,
    /// Up to [`Self::until`].
    booked: Usage,
    /// When the last command ended or will end.
    until: SimTime,
    /// When the disk was or will be done with its own work too.
    quiet: SimTime,
    /// Work on the disk's own account that is yet to be found a time: seeking, and all else.
    owed: [Duration; 2],
    last_start: SimTime,
    last: [Transition; LEGS.len()],
    last_background: bool,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            policy: SpinDown::None,
            timeout: None,
            booked: Usage::default(),
            until: SimTime(0),
            quiet: SimTime(0),
            owed: [Duration::ZERO; 2],
            last_start: SimTime(0),
            last: [Transition::default(); LEGS.len()],
            last_background: false,
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
            let (gap, paid) = self.gap(power, at);
            self.booked += gap;
            self.owed = [self.owed[0] - paid[0], self.owed[1] - paid[1]];
        }
        self.timeout = wake.timeout.or(self.timeout);
        let behind = access.overhead.min(self.owed[0]);
        self.owed[0] -= behind;
        let overhead = access.overhead - behind;
        self.owed[1] -= overhead.min(self.owed[1]);
        let rotating = |time| Transition::at(power.rotation_transfer, time);
        self.last = [
            wake.down,
            wake.up,
            Transition::at(power.seek, behind),
            rotating(overhead),
            Transition { time: access.seek, energy: power.seeking(access.seek) },
            rotating(access.rotation),
            Transition::at(power.transfer(access.write), access.transfer),
        ];
        // Most commands wake nothing and wait for nothing: their first legs are empty.
        let woke = wake.timeout.is_some() || wake.time() > Duration::ZERO;
        let first = if woke || behind > Duration::ZERO { 0 } else { 3 };
        for (state, leg) in LEGS.into_iter().zip(self.last).skip(first) {
            self.booked.add(state, leg, background);
        }
        self.owe(access);
        self.last_start = at;
        self.last_background = background;
        self.until = SimTime(at.0.saturating_add(access.total().0));
        self.quiet = self.until.max(written_back);
    }

    /// Writing back follows the command that set it off. Reading ahead came before the one that ended it and made it
    /// known; it is given later time as well, so that no account is ever taken back.
    fn owe(&mut self, access: &Access) {
        self.owed[0] += access.behind_seek;
        self.owed[1] += access.behind_rotation_transfer;
    }

    /// The account of the time from the end of the last command to `to`, and how much of what is owed falls into it.
    fn gap(&self, power: &PowerStates, to: SimTime) -> (Usage, [Duration; 2]) {
        let mut gap = self.resting(power, to.since(self.quiet));
        gap.time.idle += to.min(self.quiet).since(self.until);
        let seek = self.owed[0].min(gap.time.idle);
        gap.time.idle -= seek;
        let rest = self.owed[1].min(gap.time.idle);
        gap.time.idle -= rest;
        gap.energy.idle = power.idle * gap.time.idle;
        gap.add(State::Seek, Transition::at(power.seek, seek), self.last_background);
        let rest_cost = Transition::at(power.rotation_transfer, rest);
        gap.add(State::Busy, rest_cost, self.last_background);
        (gap, [seek, rest])
    }

    /// The first `time` without work; the energy of idling is left to be filled in.
    fn resting(&self, power: &PowerStates, time: Duration) -> Usage {
        let mut usage = Usage::default();
        let turning = self.timeout.map_or(time, |t| t.min(time));
        usage.time.idle = power.levels().next().map_or(turning, |l| l.after.min(turning));
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
        usage
    }

    /// The books up to `now`, which is not before the last command began.
    pub(crate) fn usage(&self, power: &PowerStates, now: SimTime) -> Usage {
        let mut usage = self.booked;
        if now >= self.until {
            usage += self.gap(power, now).0;
            return usage;
        }
        let mut passed = now.since(self.last_start);
        for (state, leg) in LEGS.into_iter().zip(self.last) {
            let to_come = leg.rest(passed);
            passed = Duration(passed.0.saturating_sub(leg.time.0));
            *state.of(&mut usage.time) -= to_come.time;
            *state.of(&mut usage.energy) -= to_come.energy;
            if self.last_background {
                *state.of(&mut usage.background) -= to_come.energy;
            }
        }
        usage
    }
}
