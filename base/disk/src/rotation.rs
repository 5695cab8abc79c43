//! Exact rotation: the angle of the platter as a pure function of time, without drift.
//!
//! The speed `crpm` is in hundredths of a revolution per minute. In one nanosecond the platter
//! turns by `crpm / 6e12` of a revolution. With ticks of `1 / crpm` nanoseconds, a revolution has
//! 6e12 ticks at every speed. The angle at `t` nanoseconds is then the integer `t * crpm mod 6e12`,
//! exact even after hours.

use seekless_block::{Duration, SimTime};

/// Ticks in one revolution, at every speed.
pub(crate) const REVOLUTION: u64 = 6_000_000_000_000;

/// A spindle that turns at a constant speed; angle 0 is under the heads at time 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spindle {
    crpm: u64,
}

impl Spindle {
    /// Maximum speed of the exact arithmetic, in revolutions per minute.
    pub(crate) const RPM_MAX: f64 = 30_000.0;
    /// Minimum speed, in revolutions per minute.
    pub(crate) const RPM_MIN: f64 = 60.0;

    /// A spindle with `rpm` revolutions per minute, rounded to a hundredth. Values outside 60 to
    /// 30,000 become the nearer bound; specifications are checked before.
    pub fn new(rpm: f64) -> Self {
        Self { crpm: (rpm.clamp(Self::RPM_MIN, Self::RPM_MAX) * 100.0).round() as u64 }
    }

    /// Duration of one revolution, rounded down to a nanosecond.
    pub const fn revolution(self) -> Duration {
        Duration(REVOLUTION / self.crpm)
    }

    /// The angle under the heads, in ticks.
    pub(crate) const fn angle_at(self, at: SimTime) -> u64 {
        // 6e12 ns are crpm whole revolutions; the remainder times crpm stays below 6e12 * 3e6 <
        // 2^64.
        (at.0 % REVOLUTION) * self.crpm % REVOLUTION
    }

    pub(crate) const fn swept(self, span: Duration) -> u64 {
        let span = if span.0 < REVOLUTION { span.0 } else { span.0 % REVOLUTION };
        span * self.crpm % REVOLUTION
    }

    /// The angle at `span` after `angle`.
    pub(crate) const fn after(self, angle: u64, span: Duration) -> u64 {
        let angle = angle + self.swept(span);
        if angle < REVOLUTION { angle } else { angle - REVOLUTION }
    }

    /// Ticks in a movement; the movement must be shorter than 5 s.
    pub(crate) const fn ticks(self, movement: Duration) -> u64 {
        movement.0 * self.crpm
    }

    /// Whole nanoseconds in `ticks`.
    pub(crate) const fn nanos(self, ticks: u64) -> u64 {
        ticks / self.crpm
    }

    /// Ticks that remain after the whole nanoseconds of `ticks`.
    pub(crate) const fn rest(self, ticks: u64) -> u64 {
        ticks % self.crpm
    }
}

/// Ticks until the platter turns from angle `from` to angle `to`; both are below one revolution.
pub(crate) const fn wait(from: u64, to: u64) -> u64 {
    if to >= from { to - from } else { to + REVOLUTION - from }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_angle_is_exact_after_years() {
        let t = Spindle::new(7200.0);
        // 120 revolutions per second: the angle is 0 at every whole second.
        for s in [0u64, 1, 3600, 86_400 * 365 * 10] {
            assert_eq!(t.angle_at(SimTime(s * 1_000_000_000)), 0);
        }
        // A quarter turn is 1/480 s = 2,083,333 1/3 ns.
        let a = t.angle_at(SimTime(3600 * 1_000_000_000 + 2_083_333));
        assert_eq!(a, 2_083_333 * 720_000);
        assert!(REVOLUTION / 4 - a < 720_000);
        assert_eq!(t.revolution(), Duration(8_333_333));
    }

    #[test]
    fn waits_run_forward() {
        assert_eq!(wait(5, 5), 0);
        assert_eq!(wait(5, 7), 2);
        assert_eq!(wait(7, 5), REVOLUTION - 2);
    }

    #[test]
    fn the_fastest_spindle_does_not_overflow() {
        let t = Spindle::new(30_000.0);
        assert!(t.angle_at(SimTime(u64::MAX)) < REVOLUTION);
        assert!(t.after(REVOLUTION - 1, Duration(u64::MAX)) < REVOLUTION);
        assert_eq!(t.ticks(Duration(5_000_000_000)), 15_000_000_000_000_000);
    }
}
