//! Power and energy by state: what each second costs. Knows no queue and no time of day; [`crate::Drive`] keeps the
//! books over time.
//!
//! FS2 4.2: `E_A = T_s P_s + (T_r + T_t) P_i`, in integers (milliwatts times nanoseconds). Around it stand the states
//! and transitions that power models of disks measure (Zedlewski and others, FAST 2003).

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use seekless_block::{Duration, Energy, Power};

use crate::Access;
use crate::spec::PowerSpec;

/// Levels of idling below the first that a description may have.
pub(crate) const IDLE_LEVELS_MAX: usize = 4;

/// Power in each state, and the cost of changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerStates {
    /// While the arm moves (FS2's P_s); while it speeds up and slows down, where it coasts in between.
    pub seek: Power,
    /// How long of a seek the arm speeds up and slows down, and the power of coasting for the rest.
    pub coast: Option<(Duration, Power)>,
    /// While waiting for the platter (FS2's P_i).
    pub rotation_transfer: Power,
    /// While reading.
    pub read: Power,
    /// While writing.
    pub write: Power,
    /// While nothing is asked.
    pub idle: Power,
    levels: [Option<IdleLevel>; IDLE_LEVELS_MAX],
    /// Platters at rest; none where the description does not say enough to spin down.
    pub standby: Option<Standby>,
}

/// A lower level of idling with the platters turning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLevel {
    /// Time without work after which it is entered.
    pub after: Duration,
    /// Power in it.
    pub power: Power,
    /// What the next command waits for.
    pub recovery: Duration,
}

/// Platters at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Power at rest.
    pub power: Power,
    /// Spinning down.
    pub down: Transition,
    /// Spinning up.
    pub up: Transition,
}

/// Time that costs a given energy, spread evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transition {
    /// How long.
    pub time: Duration,
    /// Of all of it.
    pub energy: Energy,
}

impl Transition {
    /// At one power.
    pub(crate) fn at(power: Power, time: Duration) -> Self {
        Self { time, energy: power * time }
    }

    /// What its first `time` costs.
    pub(crate) fn part(&self, time: Duration) -> Energy {
        if time >= self.time {
            return self.energy;
        }
        Energy(mul_div(self.energy.0, time.0, self.time.0))
    }

    /// What is left of it after `time`.
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
    /// From a checked specification, to the nearest milliwatt, nanosecond and picojoule.
    #[must_use]
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

    /// The lower levels of idling, in the order in which they are entered.
    pub fn levels(&self) -> impl Iterator<Item = IdleLevel> + '_ {
        self.levels.iter().flatten().copied()
    }

    /// Energy of one movement of the arm.
    #[must_use]
    pub fn seeking(&self, time: Duration) -> Energy {
        let driven = self.driven(time);
        let coast = self.coast.map_or(self.seek, |(_, coast)| coast);
        self.seek * driven + coast * (time - driven)
    }

    /// How long of one movement the arm speeds up and slows down.
    pub(crate) fn driven(&self, time: Duration) -> Duration {
        self.coast.map_or(time, |(driven, _)| driven.min(time))
    }

    /// Energy of one access: FS2's formula, exact in picojoules. Controller overhead is charged as
    /// waiting, and so is all that is done behind it but seeking.
    #[must_use]
    pub fn of(&self, access: &Access) -> EnergyByState {
        let waiting = access.overhead + access.rotation + access.behind_rotation_transfer;
        EnergyByState {
            seek: self.seeking(access.seek) + self.seek * access.behind_seek,
            rotation_transfer: self.rotation_transfer * waiting
                + self.transfer(access.write) * access.transfer,
            ..EnergyByState::default()
        }
    }

    /// Power while transferring.
    #[must_use]
    pub const fn transfer(&self, write: bool) -> Power {
        if write { self.write } else { self.read }
    }

    /// The shortest time without work that makes spinning down worth its energy: spinning down, resting and spinning
    /// up within it costs what idling costs (Benini, Bogliolo and De Micheli, IEEE TVLSI 8(3), 2000), but no less than
    /// the transitions take. Idling is taken at its lowest level. None where the description does not say enough, or
    /// resting takes no less power than idling.
    #[must_use]
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

/// A value for each state a drive can be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByState<T> {
    /// Moving the arm.
    pub seek: T,
    /// Waiting for the platter, transferring, and what the controller takes.
    pub rotation_transfer: T,
    /// Nothing asked, ready at once.
    pub idle: T,
    /// Nothing asked, at a lower level of idling, platters turning.
    pub low_idle: T,
    /// Spinning down.
    pub spin_down: T,
    /// Platters at rest.
    pub standby: T,
    /// Spinning up, or leaving a lower level of idling.
    pub spin_up: T,
}

/// Energy by state.
pub type EnergyByState = ByState<Energy>;
/// Time by state.
pub type TimeByState = ByState<Duration>;

impl<T: Copy> ByState<T> {
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
    /// Everything together.
    #[must_use]
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
