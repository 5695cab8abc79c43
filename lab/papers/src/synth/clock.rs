//! People's activity: a week of hours, each with a weight. Turns uniform random numbers into times.

const HOUR: f64 = 3.6e12;
const HOURS: usize = 7 * 24;
/// A week in nanoseconds.
pub(super) const WEEK: u64 = 7 * 86_400_000_000_000;

/// Cumulative activity at the start of each hour of the week, as a share of the week's activity.
#[derive(Debug)]
pub(super) struct Clock([f64; HOURS + 1]);

impl Clock {
    pub(super) fn new(hours: &[u8; 24], days: &[u8; 7]) -> Self {
        let mut sums = [0.0; HOURS + 1];
        for i in 0..HOURS {
            sums[i + 1] = sums[i] + f64::from(hours[i % 24]) * f64::from(days[i / 24]);
        }
        let all = sums[HOURS].max(1.0);
        Self(sums.map(|s| s / all))
    }

    /// The time in nanoseconds at which a share `activity` (0 to 1) of the week's activity is over.
    pub(super) fn at(&self, activity: f64) -> u64 {
        let hour = self.0.partition_point(|s| *s <= activity).clamp(1, HOURS) - 1;
        let (from, to) = (self.0[hour], self.0[hour + 1]);
        let part = if to > from { (activity - from) / (to - from) } else { 0.0 };
        (((hour as f64 + part) * HOUR) as u64).min(WEEK - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_falls_where_the_weights_are() {
        let mut hours = [0; 24];
        (hours[9], hours[14]) = (1, 3);
        let clock = Clock::new(&hours, &[1, 0, 0, 0, 0, 0, 1]);
        // Two active days: a quarter of each before noon.
        for (activity, hour) in [(0.0, 9.0), (0.0625, 9.5), (0.3125, 14.5), (0.625, 158.0)] {
            let want = (hour * HOUR) as u64;
            assert!(clock.at(activity).abs_diff(want) < 1_000, "{activity}");
        }
        assert!(clock.at(1.0) < WEEK);
    }
}
