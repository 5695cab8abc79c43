//! When data may be moved: when the volume is idle, and in the allowed hours. The engine decides
//! how fast, and the judge how much.

use seekless_block::Duration;

const DAY: u64 = 86_400_000_000_000;

/// When a move may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The time without requests before a move.
    pub idle: Duration,
    /// The allowed hours, from the first time of the day to before the second, past midnight if the
    /// second is earlier. None allows all hours.
    pub hours: Option<(Duration, Duration)>,
}

impl Budget {
    /// Whether a move may begin after this time without a request, at this time of the day.
    #[must_use]
    pub const fn allows(&self, idle: Duration, time_of_day: Duration) -> bool {
        let (quiet, now) = (idle.0 >= self.idle.0, time_of_day.0 % DAY);
        quiet
            && match self.hours {
                None => true,
                Some((from, to)) if from.0 <= to.0 => from.0 <= now && now < to.0,
                Some((from, to)) => from.0 <= now || now < to.0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = DAY / 24;

    #[test]
    fn quiet_and_hours_are_both_asked_for() {
        let budget = |from: u64, to: u64| Budget {
            idle: Duration(5),
            hours: Some((Duration(from * HOUR), Duration(to * HOUR))),
        };
        for (from, to, now, allowed) in [
            (9, 17, 8, false),
            (9, 17, 9, true),
            (9, 17, 17, false),
            (22, 6, 23, true),
            (22, 6, 5, true),
            (22, 6, 6, false),
            (22, 6, 26, true),
            (3, 3, 3, false),
        ] {
            let at = Duration(now * HOUR);
            assert_eq!(
                budget(from, to).allows(Duration(5), at),
                allowed,
                "{from} to {to} at {now}"
            );
            assert!(!budget(from, to).allows(Duration(4), at));
        }
        assert!(Budget::default().allows(Duration(0), Duration(0)));
    }
}
