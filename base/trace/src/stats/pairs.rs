//! Partial determinism (BORG, FAST'09, 2.3): which non-sequential accesses come again. Knows addresses of
//! successive requests, not who asked.

use super::sample::{Sample, mix};
use super::summary::Determinism;

/// The least often that counts as often.
const OFTEN: u32 = 100;

/// Pairs of addresses, with how often the second came after the first. They are told apart by 64 bits of
/// hash: among 100 million pairs the chance of any mistake is below 1 in 3,000.
#[derive(Debug)]
pub(super) struct Pairs {
    counts: Sample<u64, u32>,
    non_sequential: u64,
}

impl Pairs {
    pub(super) fn within(bytes: u64) -> Self {
        Self { counts: Sample::within(bytes), non_sequential: 0 }
    }

    /// A request at `to` came after one at `from`, and does not start where that one ended.
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
        // What is left of a known whole, so that the most frequent pairs need not be in the sample.
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
