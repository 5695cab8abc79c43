//! Partial determinism (BORG, FAST'09, 2.3): the repetition of non-sequential accesses. It uses the
//! addresses of consecutive requests, not their senders.

use seekless_block::mix;

use super::sampled_map::SampledMap;
use super::summary::Determinism;

/// Minimum number of occurrences that counts as frequent.
const OFTEN: u32 = 100;

/// Pairs of addresses, with the number of times that the second followed the first. A 64-bit hash
/// identifies a pair: among 100 million pairs the chance of any mistake is below 1 in 3,000.
#[derive(Debug)]
pub(super) struct Pairs {
    counts: SampledMap<u64, u32>,
    non_sequential: u64,
}

impl Pairs {
    pub(super) fn within(bytes: u64) -> Self {
        Self { counts: SampledMap::within(bytes), non_sequential: 0 }
    }

    /// Counts a request at `to` after one at `from`, whose end is not at `to`.
    #[inline]
    pub(super) fn add(&mut self, from: u64, to: u64, device: u32) {
        self.non_sequential += 1;
        if let Some(count) = self.counts.get(mix(mix(from ^ mix(device.into())).wrapping_add(to))) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn finish(&self) -> Determinism {
        let all = self.non_sequential as f64;
        let (mut once, mut rare, mut squares) = (0.0, 0.0, 0.0);
        for (_, &count) in self.counts.iter() {
            let n = f64::from(count);
            once += if count == 1 { 1.0 } else { 0.0 };
            if count < OFTEN {
                rare += n;
                squares += n * n;
            }
        }
        // The rest of a known total, because the most frequent pairs may be missing in the sample.
        let rest = |mut e: super::Estimate| {
            if all > 0.0 {
                e = e.of(all);
                e.value = 1.0 - e.value;
            } else {
                e = super::Estimate::default();
            }
            e
        };
        let pairs = self.counts.len() as f64;
        Determinism {
            non_sequential: self.non_sequential,
            share: rest(self.counts.total(once, once, 1.0)),
            share_100: rest(self.counts.total(rare, squares, 1.0)),
            pairs: self.counts.total(pairs, pairs, 1.0),
        }
    }
}
