//! Temperature: bytes moved per byte stored over a window, halved periodically (Staelin and
//! Garcia-Molina, CS-TR-283-90, equation 1 and section 6). A key may stand for a file, an extent or
//! a cylinder.
//!
//! The counts are exact while all keys fit. With more keys, the table is a summary of the keys that
//! moved most bytes (Misra and Gries, 1982, in the form of Anderson et al., IMC 2017). When the
//! table is full, the table subtracts the median of all counters from every counter, and drops the
//! keys whose counter is zero. So the true count of a key is at least its counter, and at most its
//! counter plus all subtractions since the key came. With space for `n` keys, the subtractions are
//! at most 2/n of all moved bytes. Halving halves counters and subtractions.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use seekless_block::Duration;

/// Bytes moved of each key. After every window the past counts half.
#[derive(Clone, Debug)]
pub struct Temperature<K> {
    moved: FxHashMap<K, u64>,
    room: usize,
    /// The most that a count may lack.
    off: u64,
    window: u64,
    /// The current window; none before the first request.
    now: Option<u64>,
    /// Scratch space for the median.
    counts: Vec<u64>,
}

impl<K: Copy + Eq + Hash + Ord> Temperature<K> {
    /// An empty table. Counts are halved whenever a window of this length begins; a length of 0
    /// never halves. At most `room` keys are kept, at least 16. A key takes about 1.8 times its
    /// size and 8 bytes, twice that while the table grows.
    pub fn new(window: Duration, room: usize) -> Self {
        Self {
            moved: FxHashMap::default(),
            room: room.max(16),
            off: 0,
            window: window.0,
            now: None,
            counts: Vec::new(),
        }
    }

    /// Adds bytes moved of `key` at a time in nanoseconds. A time before the last one counts as the
    /// last one.
    #[inline]
    pub fn moved(&mut self, key: K, bytes: u64, at: u64) {
        let window = at.checked_div(self.window).unwrap_or(0);
        match self.now {
            Some(now) if window > now => self.cool(window - now),
            _ => {}
        }
        self.now = Some(self.now.map_or(window, |now| now.max(window)));
        if let Some(count) = self.moved.get_mut(&key) {
            *count = count.saturating_add(bytes);
            return;
        }
        if self.moved.len() >= self.room {
            self.shed();
        }
        self.moved.insert(key, bytes);
    }

    /// Halves every count, this many times.
    fn cool(&mut self, times: u64) {
        let shift = times.min(63) as u32;
        self.off = (self.off >> shift) + u64::from(self.off > 0);
        self.moved.retain(|_, count| {
            *count >>= shift;
            *count > 0
        });
    }

    /// Makes space: subtracts the median from every count.
    #[cold]
    fn shed(&mut self) {
        self.counts.clear();
        self.counts.extend(self.moved.values());
        let middle = self.counts.len() / 2;
        let (_, &mut median, _) = self.counts.select_nth_unstable(middle);
        self.off = self.off.saturating_add(median);
        self.moved.retain(|_, count| {
            *count = count.saturating_sub(median);
            *count > 0
        });
    }

    /// Bytes moved of a key, less what was forgotten: never more than the true count.
    pub fn bytes(&self, key: K) -> u64 {
        self.moved.get(&key).copied().unwrap_or(0)
    }

    /// The most that any true count may exceed [`Self::bytes`]; 0 if all keys fitted.
    pub const fn off(&self) -> u64 {
        self.off
    }

    /// The number of kept keys.
    pub fn len(&self) -> usize {
        self.moved.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// Every kept key with its temperature, bytes moved per byte stored, hottest first, then by
    /// key. `size` gives the stored bytes of a key. Keys without stored or known bytes are left
    /// out.
    pub fn hottest(&self, size: impl Fn(K) -> Option<u64>) -> Vec<Heat<K>> {
        let heat = |(&key, &moved): (&K, &u64)| {
            let stored = size(key).filter(|s| *s > 0)?;
            Some(Heat { key, moved, stored })
        };
        let mut all: Vec<Heat<K>> = self.moved.iter().filter_map(heat).collect();
        all.sort_unstable_by(|a, b| {
            // Compares moved per stored without a division.
            let (x, y) = (
                u128::from(a.moved) * u128::from(b.stored),
                u128::from(b.moved) * u128::from(a.stored),
            );
            y.cmp(&x).then(a.key.cmp(&b.key))
        });
        all
    }
}

/// The temperature of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heat<K> {
    /// The key.
    pub key: K,
    /// Bytes moved; the past counts less.
    pub moved: u64,
    /// Bytes stored.
    pub stored: u64,
}

impl<K> Heat<K> {
    /// Bytes moved per byte stored.
    pub fn temperature(&self) -> f64 {
        self.moved as f64 / self.stored as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn temperature_is_bytes_moved_per_byte_stored_and_halves() {
        let mut t = Temperature::new(Duration(100), 100);
        // The paper's example: as many bytes of a small file and of a large one.
        t.moved('s', 51_200, 0);
        t.moved('l', 51_200, 99);
        let size = |k| Some(if k == 's' { 1000 } else { 1_000_000 });
        let order: Vec<(char, f64)> =
            t.hottest(size).iter().map(|h| (h.key, h.temperature())).collect();
        assert_eq!(order, [('s', 51.2), ('l', 0.0512)]);
        // One window later, and three; a time that runs backwards halves nothing.
        t.moved('n', 8, 100);
        assert_eq!((t.bytes('s'), t.bytes('n')), (25_600, 8));
        t.moved('n', 8, 50);
        assert_eq!((t.bytes('s'), t.bytes('n')), (25_600, 16));
        t.moved('l', 0, 310);
        assert_eq!((t.bytes('s'), t.bytes('n'), t.off()), (6400, 4, 0));
        // What is cold enough is forgotten.
        t.moved('l', 1, 100_000);
        assert_eq!((t.len(), t.bytes('l')), (1, 1));
        assert!(t.hottest(|_| None).is_empty() && t.hottest(|_| Some(0)).is_empty());
    }

    proptest! {
        #[test]
        fn a_sketch_is_never_further_off_than_it_says(
            requests in prop::collection::vec((0u32..200, 1u64..5000), 0..2000),
            room in 16usize..64,
            window in prop::sample::select(vec![0u64, 50, 500]),
        ) {
            let mut sketch = Temperature::new(Duration(window), room);
            // The same without forgetting, in exact fractions: counts times 2^windows passed.
            let mut exact: BTreeMap<u32, f64> = BTreeMap::new();
            let (mut all, mut before) = (0.0, 0);
            for (at, (key, bytes)) in requests.iter().enumerate() {
                let now = (at as u64).checked_div(window).unwrap_or(0);
                for _ in before..now {
                    exact.values_mut().for_each(|v| *v /= 2.0);
                    all /= 2.0;
                }
                before = now;
                // Some keys are much hotter.
                let key = if key % 3 == 0 { key % 9 } else { *key };
                sketch.moved(key, *bytes, at as u64);
                *exact.entry(key).or_insert(0.0) += *bytes as f64;
                all += *bytes as f64;
                prop_assert!(sketch.len() <= room);
            }
            // Each halving rounds down by less than one byte.
            let rounding = before as f64 + 1.0;
            for (key, true_bytes) in exact {
                let ours = sketch.bytes(key) as f64;
                prop_assert!(ours <= true_bytes + 1e-6, "{key}: {ours} of {true_bytes}");
                prop_assert!(true_bytes <= ours + sketch.off() as f64 + rounding, "{key}: {ours} + {} of {true_bytes}", sketch.off());
            }
            prop_assert!(sketch.off() as f64 <= 2.0 * all / room as f64 + rounding);
        }
    }
}
