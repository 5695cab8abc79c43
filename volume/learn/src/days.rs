//! The one clock of ageing: tells when a day has ended. Time is an argument.

use seekless_block::{Duration, SimTime};

/// A day.
pub const DAY: Duration = Duration(86_400_000_000_000);

/// Most days in a row without a request that age the learned data. A single access is forgotten
/// after five days ([`crate::ACCESS`]). Frequent accesses survive a long silence at 1/256 of their
/// weight.
pub(crate) const AGES_MAX: u64 = 8;

/// Counts ended days.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Days {
    /// The part of the first day that had passed at time zero, in nanoseconds.
    before: u64,
    today: u64,
    /// Days ended since the last request.
    silent: u64,
}

impl Days {
    /// Goes on with a day of which this much has passed.
    pub(crate) const fn from(before: Duration) -> Self {
        Self { before: before.0, today: 0, silent: 0 }
    }

    /// The number of days that ended since the last call, as far as they count.
    pub(crate) fn ended(&mut self, now: SimTime) -> u64 {
        let day = self.before.saturating_add(now.0) / DAY.0;
        let ended = day.saturating_sub(self.today).min(AGES_MAX - self.silent);
        self.today = self.today.max(day);
        self.silent += ended;
        ended
    }

    pub(crate) const fn request(&mut self) {
        self.silent = 0;
    }

    /// The part of the day that has passed.
    pub(crate) const fn of_today(&self, now: SimTime) -> Duration {
        Duration(self.before.saturating_add(now.0) % DAY.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(days: u64) -> SimTime {
        SimTime(days * DAY.0 + 5)
    }

    #[test]
    fn each_day_ends_once_and_silence_ends_after_a_week() {
        let mut days = Days::default();
        assert_eq!([0, 0, 1, 1, 3, 2].map(|d| days.ended(at(d))), [0, 0, 1, 0, 2, 0]);
        days.request();
        // However often it is asked.
        let asked: u64 = (4..100).map(|d| days.ended(at(d))).sum();
        assert_eq!(asked, AGES_MAX);
        days.request();
        assert_eq!(days.ended(at(1000)), AGES_MAX);
        assert_eq!(days.ended(at(2000)), 0);
        days.request();
        assert_eq!(days.ended(at(2001)), 1);
    }

    #[test]
    fn a_day_goes_on_where_it_was_left() {
        let mut days = Days::from(Duration(DAY.0 - 10));
        assert_eq!(days.ended(SimTime(9)), 0);
        assert_eq!(days.of_today(SimTime(9)), Duration(DAY.0 - 1));
        assert_eq!((days.ended(SimTime(10)), days.of_today(SimTime(10))), (1, Duration(0)));
        let mut days = Days::from(Duration(u64::MAX));
        assert_eq!(days.ended(SimTime(u64::MAX)), AGES_MAX);
    }
}
