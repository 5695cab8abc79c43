//! Power and energy by state. [`crate::Drive`] adds them up over time; this module has no queue and
//! no clock.
//!
//! FS2 4.2: `E_A = T_s P_s + (T_r + T_t) P_i`, in integers (milliwatts times nanoseconds). The
//! other states and transitions are those of power models of disks (Zedlewski and others, FAST
//! 2003).

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use seekless_block::{Duration, Energy, Power};
use serde::Serialize;

use crate::Access;
use crate::spec::PowerSpec;

pub(crate) const IDLE_LEVELS_MAX: usize = 4;

/// Power in each state, and the cost of the transitions between states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerStates {
    /// Power while the arm moves (FS2's P_s). If the arm coasts: power while it accelerates and
    /// decelerates.
    pub seek: Power,
    /// The part of a seek in which the arm accelerates and decelerates, and the power of coasting
    /// in the rest.
    pub coast: Option<(Duration, Power)>,
    /// Power while waiting for the platter (FS2's P_i).
    pub rotation_transfer: Power,
    /// Power while reading.
    pub read: Power,
    /// Power while writing.
    pub write: Power,
    /// Power without requests.
    pub idle: Power,
    levels: [Option<IdleLevel>; IDLE_LEVELS_MAX],
    /// Standby with stopped platters; `None` if the description does not give all values for it.
    pub standby: Option<Standby>,
}

/// A lower idle level with rotating platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLevel {
    /// The drive enters the level after this time without work.
    pub after: Duration,
    /// Power in this level.
    pub power: Power,
    /// Time that the next command waits.
    pub recovery: Duration,
}

/// Standby with stopped platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Standby {
    pub power: Power,
    pub down: Transition,
    pub up: Transition,
}

/// A transition between states: its duration and its energy, spread evenly over the duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transition {
    /// Duration.
    pub time: Duration,
    /// Energy of the whole transition.
    pub energy: Energy,
}

impl Transition {
    /// A transition at constant power.
    pub(crate) fn at(power: Power, time: Duration) -> Self {
        Self { time, energy: power * time }
    }

    /// Energy of the first `time` of the transition.
    pub(crate) fn part(&self, time: Duration) -> Energy {
        if time >= self.time {
            return self.energy;
        }
        Energy(mul_div(self.energy.0, time.0, self.time.0))
    }

    pub(crate) fn rest(&self, time: Duration) -> Self {
        Self {
            time: Duration(self.time.0.saturating_sub(time.0)),
            energy: Energy(self.energy.0 - self.part(time).0),
        }
    }
}

/// `a b / c` for `b < c`, without overflow.
fn mul_div(a: u128, b: u64, c: u64) -> u128 {
    let (b, c) = (u128::from(b), u128::from(c));
    // a = q c + r: a b / c = q b + r b / c, and r b < c^2 < 2^128.
    a / c * b + a % c * b / c
}

impl PowerStates {
    /// The powers of a checked specification, rounded to the nearest milliwatt, nanosecond and
    /// picojoule.
    pub fn new(spec: &PowerSpec) -> Self {
        let mw = |w: f64| Power((w * 1e3).round() as u32);
        let time = |s: f64| Duration::from_millis_f64(s * 1e3);
        let joules = |j: f64| Energy((j * 1e12).round() as u128);
        let rotation_transfer = mw(spec.rotation_transfer_w);
        let mut levels = [None; IDLE_LEVELS_MAX];
        for (slot, l) in levels.iter_mut().zip(&spec.idle_level) {
            *slot = Some(IdleLevel {
                after: time(l.after_s),
                power: mw(l.w),
                recovery: Duration::from_millis_f64(l.recovery_ms),
            });
        }
        let standby = || {
            let up = time(spec.spin_up_s?);
            let energy = match (spec.spin_up_j, spec.spin_up_w) {
                (Some(j), _) => joules(j),
                (None, w) => mw(w?) * up,
            };
            let down = time(spec.spin_down_s.unwrap_or(0.0));
            Some(Standby {
                power: mw(spec.standby_w?),
                down: Transition { time: down, energy: joules(spec.spin_down_j.unwrap_or(0.0)) },
                up: Transition { time: up, energy },
            })
        };
        Self {
            seek: mw(spec.seek_w),
            coast: spec
                .coast_after_ms
                .zip(spec.coast_w)
                .map(|(ms, w)| (Duration::from_millis_f64(ms), mw(w))),
            rotation_transfer,
            read: spec.read_w.map_or(rotation_transfer, mw),
            write: spec.write_w.map_or(rotation_transfer, mw),
            idle: mw(spec.idle_w),
            levels,
            standby: standby(),
        }
    }

    /// The lower idle levels, in the order in which the drive enters them.
    pub fn levels(&self) -> impl Iterator<Item = IdleLevel> + '_ {
        self.levels.iter().flatten().copied()
    }

    /// Energy of one arm movement.
    pub fn seeking(&self, time: Duration) -> Energy {
        let driven = self.driven(time);
        let coast = self.coast.map_or(self.seek, |(_, coast)| coast);
        self.seek * driven + coast * (time - driven)
    }

    /// The part of one arm movement in which the arm accelerates and decelerates.
    pub(crate) fn driven(&self, time: Duration) -> Duration {
        self.coast.map_or(time, |(driven, _)| driven.min(time))
    }

    /// Energy of one access by FS2's formula, exact in picojoules. Controller overhead has the
    /// power of waiting. So does the drive's own work, except seeking.
    pub fn of(&self, access: &Access) -> EnergyByState {
        let waiting = access.overhead + access.rotation + access.behind_rotation_transfer;
        EnergyByState {
            seek: self.seeking(access.seek) + self.seek * access.behind_seek,
            rotation_transfer: self.rotation_transfer * waiting
                + self.transfer(access.write) * access.transfer,
            ..EnergyByState::default()
        }
    }

    /// Power of a transfer.
    pub const fn transfer(&self, write: bool) -> Power {
        if write { self.write } else { self.read }
    }

    /// The shortest time without work for which spinning down saves energy: spinning down, standby
    /// and spinning up together cost as much as idling for the same time (Benini, Bogliolo and De
    /// Micheli, IEEE TVLSI 8(3), 2000). It is at least the duration of the transitions. Idling is
    /// at its lowest level. `None` if the description lacks values, or if standby does not need
    /// less power than idling.
    pub fn break_even(&self) -> Option<Duration> {
        let Standby { power, down, up } = self.standby?;
        let idle = self.levels().last().map_or(self.idle, |l| l.power);
        let saved = u128::from(idle.0.checked_sub(power.0).filter(|&mw| mw > 0)?);
        let transitions = down.time + up.time;
        let extra = (down.energy + up.energy).0.saturating_sub((power * transitions).0);
        let ns = u64::try_from(extra.div_ceil(saved)).unwrap_or(u64::MAX);
        Some(Duration(ns).max(transitions))
    }
}

/// One value for each state of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByState<T> {
    /// Moving the arm.
    pub seek: T,
    /// Waiting for the platter, transferring, and controller overhead.
    pub rotation_transfer: T,
    /// Without requests, ready at once.
    pub idle: T,
    /// Without requests, at a lower idle level, with rotating platters.
    pub low_idle: T,
    /// Spinning down.
    pub spin_down: T,
    /// Standby with stopped platters.
    pub standby: T,
    /// Spinning up, or leaving a lower idle level.
    pub spin_up: T,
}

/// Energy by state.
pub type EnergyByState = ByState<Energy>;
/// Time by state.
pub type TimeByState = ByState<Duration>;

impl<T: Copy> ByState<T> {
    /// Makes a value for each state from the state's value.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> ByState<U> {
        ByState {
            seek: f(self.seek),
            rotation_transfer: f(self.rotation_transfer),
            idle: f(self.idle),
            low_idle: f(self.low_idle),
            spin_down: f(self.spin_down),
            standby: f(self.standby),
            spin_up: f(self.spin_up),
        }
    }

    fn zip(self, rhs: Self, f: impl Fn(T, T) -> T) -> Self {
        Self {
            seek: f(self.seek, rhs.seek),
            rotation_transfer: f(self.rotation_transfer, rhs.rotation_transfer),
            idle: f(self.idle, rhs.idle),
            low_idle: f(self.low_idle, rhs.low_idle),
            spin_down: f(self.spin_down, rhs.spin_down),
            standby: f(self.standby, rhs.standby),
            spin_up: f(self.spin_up, rhs.spin_up),
        }
    }
}

impl<T: Copy + Add<Output = T>> ByState<T> {
    /// The sum over all states.
    pub fn total(&self) -> T {
        let turning = self.seek + self.rotation_transfer + self.idle + self.low_idle;
        turning + self.spin_down + self.standby + self.spin_up
    }
}

impl<T: Copy + Add<Output = T>> Add for ByState<T> {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        self.zip(rhs, Add::add)
    }
}

impl<T: Copy + Add<Output = T>> AddAssign for ByState<T> {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl<T: Copy + Sub<Output = T>> Sub for ByState<T> {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        self.zip(rhs, Sub::sub)
    }
}

impl<T: Copy + Default + Add<Output = T>> Sum for ByState<T> {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}
