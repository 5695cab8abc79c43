//! A token bucket in exact time: a rate limit with saved credits. Its only state is the time at
//! which the bucket will be full again (the generic cell rate algorithm).

use seekless_block::SimTime;

/// Femtoseconds in a nanosecond. Byte rates are exact to 10^-6 ns per byte.
const FS: u128 = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// Femtoseconds to fill by one unit.
    unit: u128,
    /// Capacity of the bucket, as the time to fill it.
    depth: u128,
    /// Time at which it will be full again, in femtoseconds.
    full_at: u128,
}

impl TokenBucket {
    /// A bucket with a rate in units per second (at least 10^-3) and a capacity.
    pub(crate) fn new(per_s: f64, credits: f64) -> Self {
        let unit = (1e15 / per_s).round().max(1.0) as u128;
        Self { unit, depth: (credits * unit as f64).round() as u128, full_at: 0 }
    }

    /// The first time at which `cost` units are available. If the capacity is smaller than `cost`:
    /// the time at which the bucket is full.
    pub(crate) fn ready(&self, cost: u64) -> SimTime {
        let spare = self.depth.saturating_sub(u128::from(cost) * self.unit);
        let fs = if cost == 0 { 0 } else { self.full_at.saturating_sub(spare) };
        SimTime(u64::try_from(fs.div_ceil(FS)).unwrap_or(u64::MAX))
    }

    /// Takes `cost` units at a time not before [`Self::ready`].
    pub(crate) fn take(&mut self, at: SimTime, cost: u64) {
        let from = self.full_at.max(u128::from(at.0) * FS);
        self.full_at = from + u128::from(cost) * self.unit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times, in ms, at which ten consecutive units are admitted, starting at `from`.
    fn ten(bucket: &mut TokenBucket, from: u64) -> Vec<u64> {
        let mut at = SimTime(from * 1_000_000);
        let mut all = Vec::new();
        for _ in 0..10 {
            at = at.max(bucket.ready(1));
            bucket.take(at, 1);
            all.push(at.0 / 1_000_000);
        }
        all
    }

    #[test]
    fn credits_are_spent_at_once_and_return_at_the_rate() {
        let mut bucket = TokenBucket::new(10.0, 4.0);
        assert_eq!(ten(&mut bucket, 0), [0, 0, 0, 0, 100, 200, 300, 400, 500, 600]);
        // 350 ms later, three and a half units are available.
        assert_eq!(ten(&mut bucket, 950)[..5], [950, 950, 950, 1000, 1100]);
        // After any wait, at most four units are available.
        assert_eq!(
            ten(&mut bucket, 100_000)[..6],
            [100_000; 4].iter().chain(&[100_100, 100_200]).copied().collect::<Vec<_>>()[..]
        );
    }

    #[test]
    fn without_credits_units_are_evenly_spaced() {
        assert_eq!(ten(&mut TokenBucket::new(100.0, 0.0), 7)[..4], [7, 17, 27, 37]);
    }

    #[test]
    fn a_cost_above_the_capacity_waits_for_a_full_bucket() {
        let mut bucket = TokenBucket::new(1.0, 2.0);
        bucket.take(SimTime(0), 5);
        assert_eq!(bucket.ready(5), SimTime(5_000_000_000));
        assert_eq!(bucket.ready(2), SimTime(5_000_000_000));
        assert_eq!(bucket.ready(1), SimTime(4_000_000_000));
        assert_eq!(bucket.ready(0), SimTime(0));
    }
}
