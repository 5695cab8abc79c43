//! Reuse distance (stack distance) of page accesses, which gives the miss ratio of every LRU cache
//! at once (Mattson et al. 1970). All pages are used while they fit; then a sample with distances
//! scaled up (SHARDS: Waldspurger et al., FAST'15).

use seekless_block::{PAGE_BYTES, mix};

use super::sampled_map::{SIGMAS, SampledMap};
use super::summary::{Estimate, MissPoint, Reuse};

/// Cache sizes per doubling in the output.
const PER_DOUBLING: u32 = 4;
/// Number of cache sizes: up to 2^52 pages.
const SIZES: usize = 52 * PER_DOUBLING as usize;
/// The pages are divided into this many groups. Their variance gives the error of their sum.
const GROUPS: usize = 32;
/// Bits per block of the bitmap.
const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;

/// The times in a window that are the latest access of some page: a bitmap, with a Fenwick tree
/// over the counts of its blocks.
#[derive(Debug)]
struct LatestAccesses {
    bits: Vec<u64>,
    tree: Vec<u32>,
    live: u64,
}

impl LatestAccesses {
    fn new(window: usize) -> Self {
        let blocks = window.div_ceil(BLOCK);
        Self { bits: vec![0; blocks * WORDS], tree: vec![0; blocks + 1], live: 0 }
    }

    fn flip(&mut self, at: u32, on: bool) {
        self.bits[at as usize / 64] ^= 1 << (at % 64);
        self.live = if on { self.live + 1 } else { self.live - 1 };
        let mut i = at as usize / BLOCK + 1;
        while i < self.tree.len() {
            self.tree[i] = self.tree[i].wrapping_add(if on { 1 } else { u32::MAX });
            i += i & i.wrapping_neg();
        }
    }

    /// Number of times after `at` that are the latest access of some page.
    fn after(&self, at: u32) -> u64 {
        let (mut upto, mut i) = (0u64, at as usize / BLOCK);
        let (first, word) = (i * WORDS, at as usize / 64);
        while i > 0 {
            upto += u64::from(self.tree[i]);
            i &= i - 1;
        }
        for w in &self.bits[first..word] {
            upto += u64::from(w.count_ones());
        }
        upto += u64::from((self.bits[word] & (u64::MAX >> (63 - at % 64))).count_ones());
        self.live - upto
    }
}

/// Distances of all accesses so far.
#[derive(Debug)]
pub(super) struct Distances {
    /// For each page, the time of its last access plus one; 0 if never accessed.
    last: SampledMap<u64, u32>,
    latest: LatestAccesses,
    window: u32,
    now: u32,
    /// Accesses by distance and group, each with the weight at its time. The last row counts first
    /// accesses.
    counts: Vec<[u64; GROUPS]>,
    edges: Vec<u64>,
    accesses: u64,
    sampled: bool,
}

impl Distances {
    pub(super) fn within(bytes: u64) -> Self {
        // One third is for the window and for sorting it again.
        Self::of(SampledMap::within(bytes / 3 * 2))
    }

    #[cfg(test)]
    pub(super) fn with_keys(keys: usize) -> Self {
        Self::of(SampledMap::of(keys))
    }

    fn of(last: SampledMap<u64, u32>) -> Self {
        let window = (last.keys_max() * 2).next_multiple_of(BLOCK).min(u32::MAX as usize - BLOCK);
        Self {
            last,
            latest: LatestAccesses::new(window),
            window: window as u32,
            now: 0,
            counts: vec![[0; GROUPS]; SIZES + 2],
            edges: sizes(),
            accesses: 0,
            sampled: false,
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, key: u64) {
        self.accesses += 1;
        if !self.last.takes(key) {
            return;
        }
        if self.now == self.window {
            self.compact();
        }
        let before = self.last.shift();
        let Some(last) = self.last.get(key) else {
            // The sample shrank to make space for this page, but the page itself is not in it.
            if self.last.shift() != before {
                self.compact();
            }
            return;
        };
        let seen = std::mem::replace(last, self.now + 1);
        let shift = self.last.shift();
        // The low bits select the group; the high bits decide whether the page is in the sample.
        let group = key as usize % GROUPS;
        let row = match seen.checked_sub(1) {
            None => SIZES + 1,
            Some(at) => {
                let distance = self.latest.after(at).saturating_mul(1 << shift);
                self.latest.flip(at, false);
                self.edges.partition_point(|e| *e <= distance)
            }
        };
        self.latest.flip(self.now, true);
        self.counts[row][group] = self.counts[row][group].saturating_add(1 << shift);
        self.now += 1;
        if shift != before {
            self.compact();
        }
    }

    /// Renumbers the times of the stored pages, from 0.
    #[cold]
    fn compact(&mut self) {
        self.sampled = !self.last.is_whole();
        let mut order: Vec<(u32, u64)> =
            self.last.iter().filter(|(_, at)| **at > 0).map(|(key, at)| (*at, key)).collect();
        order.sort_unstable();
        self.latest = LatestAccesses::new(self.window as usize);
        self.now = 0;
        for (_, key) in order {
            if let Some(at) = self.last.get(key) {
                *at = self.now + 1;
                self.latest.flip(self.now, true);
                self.now += 1;
            }
        }
    }

    pub(super) fn finish(&self) -> Reuse {
        if self.accesses == 0 {
            return Reuse::default();
        }
        let firsts = &self.counts[SIZES + 1];
        let largest = self.counts[..=SIZES].iter().rposition(|c| c.iter().any(|n| *n > 0));
        let mut curve: Vec<MissPoint> = Vec::new();
        let mut misses = [0u64; GROUPS];
        for row in self.counts.iter() {
            for (m, n) in misses.iter_mut().zip(row) {
                *m = m.saturating_add(*n);
            }
        }
        // A cache of edges[i] pages hits all smaller distances: the rows up to and including i.
        for (i, &pages) in self.edges.iter().enumerate() {
            for (m, n) in misses.iter_mut().zip(&self.counts[i]) {
                *m = m.saturating_sub(*n);
            }
            let miss_ratio = self.share(&misses);
            curve.push(MissPoint { pages, bytes: pages.saturating_mul(PAGE_BYTES), miss_ratio });
            if largest.is_none_or(|l| i >= l) {
                break;
            }
        }
        if self.sampled {
            self.widen(&mut curve);
        }
        Reuse { first_share: self.share(firsts), curve }
    }

    /// The fraction of all accesses in these groups. The hottest pages may be missing in a sample,
    /// but the total is known (SHARDS-adj, 3.5): misses need no correction, and hits are the rest.
    fn share(&self, groups: &[u64; GROUPS]) -> Estimate {
        let sum: f64 = groups.iter().map(|g| *g as f64).sum();
        if !self.sampled {
            return Estimate::exact(sum / self.accesses as f64);
        }
        let mean = sum / GROUPS as f64;
        let squares: f64 = groups.iter().map(|g| (*g as f64 - mean).powi(2)).sum();
        let variance = squares / (GROUPS - 1) as f64 * GROUPS as f64;
        let floor = SIGMAS * self.last.weight() as f64;
        Estimate { value: sum, error: (SIGMAS * variance.sqrt()).max(floor) }
            .of(self.accesses as f64)
    }

    /// A distance is itself an estimate, from the pages of the sample inside it. So the curve can
    /// be this far to the left or right.
    fn widen(&self, curve: &mut [MissPoint]) {
        let weight = self.last.weight() as f64;
        let told: Vec<(f64, f64)> =
            curve.iter().map(|p| (p.pages as f64, p.miss_ratio.value)).collect();
        for point in curve {
            let within = (point.pages as f64 / weight).max(1.0);
            let slip = SIGMAS / within.sqrt();
            let (from, to) = (point.pages as f64 * (1.0 - slip), point.pages as f64 * (1.0 + slip));
            let left = told.iter().rev().find(|t| t.0 <= from).map_or(1.0, |t| t.1);
            let right = told.iter().find(|t| t.0 >= to).or(told.last()).map_or(0.0, |t| t.1);
            let here = point.miss_ratio.value;
            let slip = (left - here).max(here - right).max(0.0);
            point.miss_ratio.error = point.miss_ratio.error.hypot(slip).min(1.0);
        }
    }
}

/// Cache sizes in pages: from 1, growing by the fourth root of two, at least by one page.
fn sizes() -> Vec<u64> {
    let mut out = Vec::with_capacity(SIZES + 1);
    for i in 0..=SIZES {
        let size = (f64::from(i as u32) / f64::from(PER_DOUBLING)).exp2().round() as u64;
        if out.last().is_none_or(|l| *l < size) {
            out.push(size);
        }
    }
    out
}

/// The key of a page, unique below 1 EiB.
pub(super) const fn page_key(page: u64, device: u32, seed: u64) -> u64 {
    mix(page ^ (device as u64) << 48 ^ mix(seed))
}
