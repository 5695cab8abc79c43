//! A map of limited size: it holds every key while they fit, and then a uniform sample of the keys.
//! Only a key's hash decides about its membership, so the count of a key in the map is its complete
//! count (SHARDS: Waldspurger et al., FAST'15, 2-3).

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::summary::Estimate;

/// Minimum number of keys that a sample can hold, even with less memory.
const KEYS_MIN: usize = 1 << 10;
/// The smallest sampling rate is 1 key in 2^32: with the least memory, that covers more pages than
/// any device has.
const SHIFT_MAX: u32 = 32;
/// The stated error in standard errors: 99.7% of the estimates are inside it.
pub(super) const SIGMAS: f64 = 3.0;

/// A key with an evenly distributed 64-bit hash.
pub(super) trait Sampled: Copy + Eq + Hash {
    /// The hash: evenly distributed over all keys, and always the same for a key.
    fn place(self) -> u64;
}

/// A key that is already a hash.
impl Sampled for u64 {
    fn place(self) -> u64 {
        self
    }
}

/// Sampled by the first element, so that all entries of it are in the sample or none.
impl Sampled for (u64, u32) {
    fn place(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug)]
pub(super) struct SampledMap<K, V> {
    map: FxHashMap<K, V>,
    keys_max: usize,
    /// A key is in the map if its hash is not above this limit.
    limit: u64,
    /// The fraction of keys in the map is 2^-shift.
    shift: u32,
}

impl<K: Sampled, V: Default> SampledMap<K, V> {
    /// A map of at most about `bytes`, also while it grows.
    pub(super) fn within(bytes: u64) -> Self {
        let slot = size_of::<(K, V)>() as u64 + 1;
        // While the table doubles, the old half still exists.
        let slots = (bytes * 2 / 3 / slot).max(2) as usize;
        let slots = if slots.is_power_of_two() { slots } else { slots.next_power_of_two() / 2 };
        Self::of((slots / 8 * 7).max(KEYS_MIN))
    }

    /// A map of at most this many keys.
    pub(super) fn of(keys_max: usize) -> Self {
        Self { map: FxHashMap::default(), keys_max, limit: u64::MAX, shift: 0 }
    }

    pub(super) const fn keys_max(&self) -> usize {
        self.keys_max
    }

    /// The value of `key`, created if the key is new; `None` if the key is not in the sample.
    #[inline]
    pub(super) fn get(&mut self, key: K) -> Option<&mut V> {
        if key.place() > self.limit {
            return None;
        }
        if self.map.len() >= self.keys_max && !self.map.contains_key(&key) {
            self.halve();
            if key.place() > self.limit || self.map.len() >= self.keys_max {
                return None;
            }
        }
        Some(self.map.entry(key).or_default())
    }

    #[cold]
    fn halve(&mut self) {
        // A hostile trace can have hashes that are not even. Then further keys are refused at this
        // rate.
        while self.map.len() >= self.keys_max && self.shift < SHIFT_MAX {
            self.shift += 1;
            self.limit = u64::MAX >> self.shift;
            let limit = self.limit;
            self.map.retain(|k, _| k.place() <= limit);
        }
    }

    /// Removes all keys, and keeps memory for as many.
    pub(super) fn clear(&mut self) {
        let len = self.map.len();
        self.map.clear();
        self.map.shrink_to(len);
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether a key with this hash belongs to the sample.
    pub(super) const fn takes(&self, place: u64) -> bool {
        place <= self.limit
    }

    /// Whether the sample contains every key.
    pub(super) const fn is_whole(&self) -> bool {
        self.shift == 0
    }

    /// Number of keys that each key in the sample represents.
    pub(super) const fn weight(&self) -> u64 {
        1 << self.shift
    }

    /// Binary logarithm of [`Self::weight`].
    pub(super) const fn shift(&self) -> u32 {
        self.shift
    }

    /// The keys with their values, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.map.iter().map(|(k, v)| (*k, v))
    }

    /// Estimates the sum of all keys' values, from the sum and the sum of squares over the sample.
    pub(super) fn total(&self, sum: f64, squares: f64, unit: f64) -> Estimate {
        total(self.weight(), sum, squares, unit)
    }
}

/// A sum over keys that each represent `weight` keys (Horvitz-Thompson), and its error: three
/// standard errors, widened as in Wilson's interval if few keys were seen. `unit` is the maximum
/// value of one key, for samples without keys.
pub(super) fn total(weight: u64, sum: f64, squares: f64, unit: f64) -> Estimate {
    let w = weight as f64;
    let out = 1.0 - 1.0 / w;
    let typical = if sum > 0.0 { squares / sum } else { unit };
    let slack = SIGMAS * typical / 2.0;
    let error = SIGMAS * w * (slack * out + (out * (squares + slack * slack)).sqrt());
    Estimate { value: sum * w, error }
}

#[cfg(test)]
mod tests {
    use seekless_block::mix;

    use super::*;

    #[test]
    fn a_full_sample_halves_its_rate_and_still_estimates_the_number_of_keys() {
        for seed in 0..20 {
            let mut sample = SampledMap::<u64, u32>::of(1000);
            for round in 1..=2 {
                for i in 0..100_000u64 {
                    if let Some(v) = sample.get(mix(i ^ seed << 32)) {
                        *v += 1;
                        assert_eq!(
                            *v, round,
                            "a key in the sample was counted from its first access"
                        );
                    }
                }
            }
            assert!(sample.len() <= 1000 && sample.len() > 400, "{}", sample.len());
            let n = sample.len() as f64;
            let keys = sample.total(n, n, 1.0);
            assert!((keys.value - 1e5).abs() <= keys.error, "seed {seed}: {keys:?}");
            assert!(keys.error < 0.16 * 1e5, "{keys:?}");
        }
    }

    #[test]
    fn keys_that_are_not_even_neither_hang_nor_pass_the_limit_by_much() {
        let mut sample = SampledMap::<u64, ()>::of(1000);
        for i in 0..5000 {
            sample.get(i);
        }
        assert_eq!((sample.len(), sample.shift()), (1000, SHIFT_MAX));
    }

    #[test]
    fn memory_bounds_the_number_of_keys() {
        let sample = SampledMap::<u64, u32>::within(1 << 20);
        assert_eq!(sample.keys_max(), (1 << 15) / 8 * 7);
        assert_eq!(SampledMap::<u64, u32>::within(0).keys_max(), KEYS_MIN);
    }
}
