//! Joules: power per state times time in it. FS2 4.2: `E_A = T_s P_s + (T_r + T_t) P_i`.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use seekless_block::{Duration, Energy, Power};

use crate::Access;
use crate::spec::PowerSpec;

/// Power in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerStates {
    /// While the arm moves (FS2's P_s).
    pub seek: Power,
    /// While waiting for the platter and transferring (FS2's P_i).
    pub rotation_transfer: Power,
    /// While nothing is asked.
    pub idle: Power,
}

impl PowerStates {
    /// From watts, to the nearest milliwatt.
    #[must_use]
    pub fn new(spec: &PowerSpec) -> Self {
        let mw = |w: f64| Power((w * 1e3).round() as u32);
        Self {
            seek: mw(spec.seek_w),
            rotation_transfer: mw(spec.rotation_transfer_w),
            idle: mw(spec.idle_w),
        }
    }

    /// Energy of one access: FS2's formula, exact in picojoules. Controller overhead is charged as
    /// waiting.
    #[must_use]
    pub fn of(&self, access: &Access) -> EnergyByState {
        EnergyByState {
            seek: self.seek * (access.seek + access.behind_seek),
            rotation_transfer: self.rotation_transfer
                * (access.overhead
                    + access.rotation
                    + access.transfer
                    + access.behind_rotation_transfer),
            idle: Energy::ZERO,
        }
    }

    /// Energy of doing nothing for a time.
    #[must_use]
    pub fn idling(&self, time: Duration) -> EnergyByState {
        EnergyByState { idle: self.idle * time, ..EnergyByState::default() }
    }
}

/// Energy by what it was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyByState {
    /// Moving the arm.
    pub seek: Energy,
    /// Waiting for the platter and transferring.
    pub rotation_transfer: Energy,
    /// Nothing asked.
    pub idle: Energy,
}

impl EnergyByState {
    /// Everything together.
    #[must_use]
    pub fn total(&self) -> Energy {
        self.seek + self.rotation_transfer + self.idle
    }
}

impl Add for EnergyByState {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self {
            seek: self.seek + rhs.seek,
            rotation_transfer: self.rotation_transfer + rhs.rotation_transfer,
            idle: self.idle + rhs.idle,
        }
    }
}

impl AddAssign for EnergyByState {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sum for EnergyByState {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}
