//! Delays of answers, counted by size: constant memory, quantiles exact to a sixteenth.

use std::time::Duration;

/// Buckets per octave, as a power of two.
const FINE: u32 = 4;
/// One bucket for each leading digit in base 2^FINE of any 64-bit number of nanoseconds.
const BUCKETS: usize = ((64 - FINE as usize) + 1) << FINE;

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
    counts: Vec<u64>,
    total: u64,
    max: u64,
    sum: Duration,
}

impl LatenessCounts {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: 0, sum: Duration::ZERO }
    }

    pub(crate) fn add(&mut self, late: Duration) {
        let ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(ns)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(ns);
        self.sum = self.sum.saturating_add(late);
    }

    pub(crate) fn summary(&self) -> Lateness {
        let quantile = |percent: u64| {
            let rank = (self.total * percent).div_ceil(100).max(1);
            let mut below = 0;
            let found = self.counts.iter().position(|n| {
                below += n;
                below >= rank
            });
            Duration::from_nanos(found.map_or(0, |b| largest(b).min(self.max)))
        };
        Lateness {
            median: quantile(50),
            p99: quantile(99),
            max: Duration::from_nanos(self.max),
            total: self.sum,
        }
    }
}

const fn bucket(ns: u64) -> usize {
    let octave = (u64::BITS - ns.leading_zeros()).saturating_sub(FINE + 1);
    ((octave as usize) << FINE) + (ns >> octave) as usize
}

/// The largest number of a bucket.
const fn largest(bucket: usize) -> u64 {
    let octave = (bucket >> FINE).saturating_sub(1);
    let digits = (bucket - (octave << FINE)) as u128;
    (((digits + 1) << octave) - 1) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against sorting: no quantile is too low, or too high by more than a sixteenth.
        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            values in prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(s, v)| v >> s), 1..300),
        ) {
            let mut late = LatenessCounts::new();
            values.iter().for_each(|&v| late.add(Duration::from_nanos(v)));
            let mut sorted = values;
            sorted.sort_unstable();
            let s = late.summary();
            let exact: u128 = sorted.iter().map(|v| u128::from(*v)).sum();
            prop_assert_eq!(s.total.as_nanos(), exact);
            prop_assert_eq!(s.max, Duration::from_nanos(sorted[sorted.len() - 1]));
            for (percent, found) in [(50, s.median), (99, s.p99)] {
                let exact = sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
                let found = found.as_nanos() as u64;
                prop_assert!(found >= exact && found - exact <= exact >> FINE, "{} {}", exact, found);
            }
        }
    }

    #[test]
    fn every_number_has_a_bucket_and_nothing_is_never_late() {
        for ns in [0, 1, 15, 16, 17, 31, 32, 33, 1 << 40, u64::MAX - 1, u64::MAX] {
            assert!(bucket(ns) < BUCKETS && largest(bucket(ns)) >= ns, "{ns}");
        }
        assert_eq!(largest(BUCKETS - 1), u64::MAX);
        assert_eq!(LatenessCounts::new().summary(), Lateness::default());
    }
}
