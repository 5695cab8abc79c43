//! Meters a drive: time and energy in each state, and the stops of its platters. It has no queue.
//! The drive reports each command when the command starts. The meter computes the time between
//! commands.

use std::ops::AddAssign;

use seekless_block::{Duration, SimTime};

use crate::disk::Access;
use crate::energy::{ByState, EnergyByState, PowerStates, TimeByState, Transition};
use crate::spin_down::{SpinDown, SpinDownError};

/// Time and energy of a drive, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in each state; the sum is the time that has passed.
    pub time: TimeByState,
    /// Energy in each state.
    pub energy: EnergyByState,
    /// The part of [`Self::energy`] caused by background commands.
    pub background: EnergyByState,
    /// Number of times the platters were stopped.
    pub spin_downs: u64,
}

impl Usage {
    /// The difference to `earlier`, a former value of the same drive.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time - earlier.time,
            energy: self.energy - earlier.energy,
            background: self.background - earlier.background,
            spin_downs: self.spin_downs - earlier.spin_downs,
        }
    }

    fn add(&mut self, state: DriveState, spent: Transition, background: bool) {
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

/// The states that a command passes through.
#[derive(Clone, Copy, Debug)]
enum DriveState {
    Seek,
    Busy,
    SpinDown,
    SpinUp,
}

impl DriveState {
    fn of<T>(self, by: &mut ByState<T>) -> &mut T {
        match self {
            Self::Seek => &mut by.seek,
            Self::Busy => &mut by.rotation_transfer,
            Self::SpinDown => &mut by.spin_down,
            Self::SpinUp => &mut by.spin_up,
        }
    }
}

/// The transitions that a command waits for before the disk can start it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeTransitions {
    /// The rest of spinning down.
    down: Transition,
    /// Spinning up, or leaving a lower idle level.
    up: Transition,
    /// The new timeout, if the policy learned from this spin-up.
    timeout: Option<Duration>,
}

impl WakeTransitions {
    pub(crate) fn time(&self) -> Duration {
        self.down.time + self.up.time
    }
}

/// Time, grouped by the power of each part. Powers are whole numbers, so the energy can be computed
/// from the sums when it is needed, and not for each command.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    driven: Duration,
    coasting: Duration,
    waiting: Duration,
    read: Duration,
    write: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct MeterTotals {
    idle: Duration,
    /// Caused by foreground commands, and by background commands.
    served: [Served; 2],
    /// All other: spinning down and up, standby, lower idle levels.
    rest: Usage,
}

impl MeterTotals {
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
            usage.add(DriveState::Seek, seek, background);
            let busy = Transition {
                time: s.waiting + s.read + s.write,
                energy: power.rotation_transfer * s.waiting
                    + power.read * s.read
                    + power.write * s.write,
            };
            usage.add(DriveState::Busy, busy, background);
        }
        usage
    }
}

struct Gap {
    idle: Duration,
    /// The part of the owed work that happens in this time.
    paid: [Duration; 2],
    /// Time and energy below the first idle level.
    rest: Option<Usage>,
}

/// The last command, for subtracting its part after the present time.
#[derive(Clone, Copy, Debug, Default)]
struct LastCommand {
    start: SimTime,
    wake: WakeTransitions,
    /// The part of the overhead in which the arm moves for the drive's own work.
    behind: Duration,
    access: Access,
    background: bool,
}

impl LastCommand {
    fn legs(&self, power: &PowerStates) -> [(DriveState, Transition); 7] {
        let rotating = |time| Transition::at(power.rotation_transfer, time);
        let Access { overhead, seek, rotation, transfer, write, .. } = self.access;
        [
            (DriveState::SpinDown, self.wake.down),
            (DriveState::SpinUp, self.wake.up),
            (DriveState::Seek, Transition::at(power.seek, self.behind)),
            (DriveState::Busy, rotating(overhead - self.behind)),
            (DriveState::Seek, Transition { time: seek, energy: power.seeking(seek) }),
            (DriveState::Busy, rotating(rotation)),
            (DriveState::Busy, Transition::at(power.transfer(write), transfer)),
        ]
    }
}

/// The meter. All values follow from absolute times, so a query changes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    policy: SpinDown,
    /// Time without work after which the platters stop; `None` means never.
    timeout: Option<Duration>,
    /// Totals up to [`Self::until`].
    books: MeterTotals,
    /// End of the last command; can be in the future.
    until: SimTime,
    /// End of the drive's own work; can be in the future.
    quiet: SimTime,
    /// The drive's own work without an assigned time yet: seeking, and all other work.
    owed: [Duration; 2],
    last: LastCommand,
}

impl Meter {
    pub(crate) fn set_policy(
        &mut self,
        power: &PowerStates,
        policy: SpinDown,
    ) -> Result<(), SpinDownError> {
        self.timeout = policy.timeout(power)?;
        self.policy = policy;
        Ok(())
    }

    /// The transitions that a command waits for if it needs the platter at `at`.
    pub(crate) fn wake(&self, power: &PowerStates, at: SimTime) -> WakeTransitions {
        let idle = at.since(self.quiet);
        if idle == Duration::ZERO {
            return WakeTransitions::default();
        }
        match (self.timeout, &power.standby) {
            (Some(timeout), Some(standby)) if idle >= timeout => {
                let down = standby.down.rest(idle - timeout);
                let wait = down.time + standby.up.time;
                let timeout = self.policy.adapted(power, timeout, wait, idle);
                WakeTransitions { down, up: standby.up, timeout: Some(timeout) }
            }
            _ => {
                let level = power.levels().take_while(|l| idle >= l.after).last();
                let recovery = level.map_or(Duration::ZERO, |l| l.recovery);
                WakeTransitions {
                    up: Transition::at(power.idle, recovery),
                    ..WakeTransitions::default()
                }
            }
        }
    }

    /// Records a command that the drive starts at `at`, and the time since the command before it.
    /// `written_back` is the end of the drive's own work.
    pub(crate) fn book(
        &mut self,
        power: &PowerStates,
        at: SimTime,
        wake: WakeTransitions,
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
        // A transition without duration still costs energy.
        if wake.timeout.is_some() || wake.time() > Duration::ZERO {
            self.books.rest.add(DriveState::SpinDown, wake.down, background);
            self.books.rest.add(DriveState::SpinUp, wake.up, background);
        }
        let served = &mut self.books.served[usize::from(background)];
        let driven = power.driven(access.seek);
        served.driven += behind + driven;
        served.coasting += access.seek - driven;
        served.waiting += overhead + access.rotation;
        *(if access.write { &mut served.write } else { &mut served.read }) += access.transfer;
        self.owe(access);
        self.last = LastCommand { start: at, wake, behind, access: *access, background };
        self.until = SimTime(at.0.saturating_add(access.total().0));
        self.quiet = self.until.max(written_back);
    }

    /// Write-back follows the command that caused it. Read-ahead came before the command that ended
    /// it and made it known. Read-ahead also gets later time, so that recorded values never change.
    fn owe(&mut self, access: &Access) {
        self.owed[0] += access.behind_seek;
        self.owed[1] += access.behind_rotation_transfer;
    }

    fn gap(&self, power: &PowerStates, to: SimTime) -> Gap {
        let (mut idle, rest) = self.resting(power, to.since(self.quiet));
        idle += to.min(self.quiet).since(self.until);
        let seek = self.owed[0].min(idle);
        idle -= seek;
        let other = self.owed[1].min(idle);
        idle -= other;
        Gap { idle, paid: [seek, other], rest }
    }

    /// Splits the first `time` without work into idle time and the time below the first idle level.
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

    /// The totals up to `now`. `now` must not be before the start of the last command.
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
