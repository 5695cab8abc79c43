//! Delays of answers, counted by size: little memory, quantiles exact to a hundredth.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Delay of the emulated disk's answers behind the modelled disk, in real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// At most this for half of all answers.
    pub median: Duration,
    /// At most this for 99 of 100 answers.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
    /// The sum over all answers.
    pub total: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct LatenessCounts {
    histogram: Histogram<u64>,
    max: u64,
    sum: Duration,
}

impl LatenessCounts {
    pub(crate) fn new() -> Self {
        // 2 significant digits are in the crate's allowed range (0 to 5).
        let histogram = Histogram::new(2).unwrap_or_else(|_| unreachable!());
        Self { histogram, max: 0, sum: Duration::ZERO }
    }

    pub(crate) fn add(&mut self, late: Duration) {
        let ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        // A resizable histogram of 64-bit values takes every value.
        let _ = self.histogram.record(ns);
        self.max = self.max.max(ns);
        self.sum = self.sum.saturating_add(late);
    }

    pub(crate) fn summary(&self) -> Lateness {
        let quantile = |q| self.histogram.value_at_quantile(q).min(self.max);
        Lateness {
            median: Duration::from_nanos(quantile(0.5)),
            p99: Duration::from_nanos(quantile(0.99)),
            max: Duration::from_nanos(self.max),
            total: self.sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut late = LatenessCounts::new();
        (1..=200).rev().for_each(|us| late.add(Duration::from_micros(us)));
        let s = late.summary();
        assert_eq!(s.total, Duration::from_micros(200 * 201 / 2));
        assert_eq!(s.max, Duration::from_micros(200));
        for (exact, found) in [(100_000, s.median), (198_000, s.p99)] {
            let found = found.as_nanos();
            assert!((exact..=exact + exact / 64).contains(&found), "{exact} {found}");
        }
    }

    #[test]
    fn nothing_is_never_late() {
        assert_eq!(LatenessCounts::new().summary(), Lateness::default());
    }
}
