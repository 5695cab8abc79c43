//! The guard: keeps the disk time of the adaptive policy close to the disk time of the vanilla
//! system, which is simulated on a model of the disk. Each day has a separate account: the gain of
//! a day does not pay for the loss of another day.

use seekless_block::Duration;

/// The policy steps aside when it is behind by more than this share and this time.
const ASIDE: (f64, Duration) = (0.0075, Duration::from_millis(3_000));
/// It returns when it is behind by less than this.
const RETURNS: (f64, Duration) = (0.0025, Duration::from_millis(1_500));

/// Disk time of one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayTimes {
    /// That the vanilla system takes.
    pub vanilla: Duration,
    /// That the adaptive policy takes, background work counted.
    pub actual: Duration,
}

impl DayTimes {
    /// By how much the policy is behind.
    pub fn excess(&self) -> Duration {
        Duration(self.actual.0.saturating_sub(self.vanilla.0))
    }

    fn exceeds(&self, (share, time): (f64, Duration)) -> bool {
        self.excess().0 > (self.vanilla.0 as f64 * share) as u64 + time.0
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guard {
    /// Disk time between two looks, within which the policy may fall behind unseen.
    between: Duration,
    day: u64,
    today: DayTimes,
    bypasses: bool,
    bypassed: Duration,
    worst: Duration,
}

impl Guard {
    /// A guard that looks once in this time: it must act earlier to keep its promise.
    ///
    /// # Panics
    /// If the time is not less than half of what the policy may lose.
    pub fn looking_each(between: Duration) -> Self {
        assert!(between.0 < ASIDE.1.0 - RETURNS.1.0, "too seldom");
        Self { between, ..Self::default() }
    }

    /// Disk time since the last look, which is of this day. Says whether the policy must stay aside.
    pub fn look(&mut self, day: u64, times: DayTimes) -> bool {
        // A clock that is set back does not end a day, nor the debt of it.
        if day > self.day {
            (self.day, self.today) = (day, DayTimes::default());
        }
        self.today.vanilla += times.vanilla;
        self.today.actual += times.actual;
        if self.bypasses {
            self.bypassed += times.actual;
        }
        self.worst = self.worst.max(self.today.excess());
        let aside = (ASIDE.0, Duration(ASIDE.1.0 - self.between.0));
        self.bypasses = self.today.exceeds(if self.bypasses { RETURNS } else { aside });
        self.bypasses
    }

    /// The account of the day.
    pub const fn today(&self) -> DayTimes {
        self.today
    }

    /// Whether the policy stays aside.
    pub const fn bypasses(&self) -> bool {
        self.bypasses
    }

    /// Disk time in which the policy stayed aside.
    pub const fn bypassed(&self) -> Duration {
        self.bypassed
    }

    /// The most by which the policy was behind within a day.
    pub const fn worst_excess(&self) -> Duration {
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(vanilla: u64, actual: u64) -> DayTimes {
        DayTimes { vanilla: Duration::from_millis(vanilla), actual: Duration::from_millis(actual) }
    }

    #[test]
    fn who_is_behind_steps_aside_until_the_loss_is_small() {
        let mut guard = Guard::default();
        assert!(!guard.look(1, times(1_000, 4_000)), "3 s and a share are allowed");
        assert!(guard.look(1, times(0, 100)), "no more than that");
        assert!(guard.look(1, times(100_000, 100_000)), "behind by 3.1 s of 101");
        assert!(!guard.look(1, times(1_000_000, 1_000_000)), "3.1 s of 1101 are little");
        assert_eq!(guard.bypassed(), Duration::from_millis(1_100_000));
        assert_eq!(guard.worst_excess(), Duration::from_millis(3_100));
    }

    /// The promise holds at the next look, if the policy loses all time until then.
    #[test]
    fn who_looks_seldom_acts_earlier() {
        let mut guard = Guard::looking_each(Duration::from_millis(1_000));
        assert!(!guard.look(1, times(0, 2_000)));
        assert!(guard.look(1, times(0, 1_000)));
        assert_eq!(guard.worst_excess(), Duration::from_millis(3_000));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_forget_a_day() {
        let mut guard = Guard::default();
        assert!(!guard.look(2, times(0, 2_900)));
        assert!(!guard.look(1, times(0, 0)), "still the same account");
        assert!(guard.look(2, times(0, 200)), "behind by 3.1 s");
    }

    #[test]
    fn a_day_does_not_pay_for_another() {
        let mut guard = Guard::default();
        assert!(!guard.look(1, times(1_000_000, 0)), "a gain");
        assert!(guard.look(2, times(0, 3_100)), "is of no use the next day");
        assert!(!guard.look(3, times(0, 0)), "and so is a loss");
    }
}
