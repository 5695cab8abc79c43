//! Replicas with a price. A block gets a replica if the replica is likely to be re-read often
//! enough to pay. The accesses for it come from those that earlier replicas saved, and from a small
//! share of all accesses.

use rustc_hash::FxHashSet;
use seekless_block::{Extent, Lba, PAGE_SECTORS};

use super::{APART, AnsweredReads, COUNTED, RISKED, Replication, TIMES, starts};

impl Replication {
    pub(super) fn sight(&mut self, extent: Extent) {
        let now = self.reads;
        if self.seen.len() >= COUNTED && !self.seen.contains_key(&extent.start.0) {
            return;
        }
        let (count, last) = self.seen.entry(extent.start.0).or_default();
        if *count == 0 || now - *last >= APART {
            self.sightings[usize::from(*count).min(TIMES - 1)] += 1;
            *count = count.saturating_add(1);
        }
        *last = now;
    }

    /// Smallest sighting count whose replicas were re-read at least `price` times each; `None` if
    /// there is none.
    pub(super) fn worth(&self) -> Option<u8> {
        let counts = 1..TIMES as u8;
        counts.into_iter().find(|&count| {
            let (before, from) = self.sightings.split_at(usize::from(count));
            let (made, used) = (before[before.len() - 1], from.iter().sum::<u64>());
            used > 0 && used as f64 >= self.config.price * made as f64
        })
    }

    /// Reads answered by RAM, and reads that continue the last one, neither cost nor save an
    /// access.
    pub(super) fn earn(&mut self, answered: AnsweredReads) {
        let before = std::mem::replace(&mut self.answered, answered);
        let saved = answered.replicas.saturating_sub(before.replicas);
        let accesses = answered.home.saturating_sub(before.home) + saved;
        let accesses = accesses.min(std::mem::take(&mut self.apart));
        self.purse += accesses as f64 * RISKED;
        self.purse += saved.min(accesses) as f64 / self.config.price;
    }

    /// The candidates with a price: whole sequences in the order of their last reading. The most
    /// often re-read ones come first, the latest of equals, as many as can be paid for.
    pub(super) fn affordable(&mut self, hot: Extent, placed: impl Fn(Lba) -> bool) -> Vec<Extent> {
        let reads = self.recent.len();
        let Some(worth) = self.worth() else { return Vec::new() };
        let times = self.times_around();
        let short = self.short_runs();
        let near = self.config.near as usize;
        let inside: Vec<bool> = self.recent.iter().map(|e| hot.contains(*e)).collect();
        let beside_hot = |i: usize| {
            let around = &inside[i.saturating_sub(near)..(i + near + 1).min(reads)];
            !inside[i] && around.contains(&true)
        };
        // The last reading of each page without a replica, latest first.
        let mut taken: FxHashSet<u64> = FxHashSet::default();
        let mut by_times: [Vec<(usize, Extent)>; TIMES + 1] = Default::default();
        for (i, extent) in self.recent.iter().enumerate().rev() {
            let wants = if self.config.whole { short[i] } else { beside_hot(i) };
            if !wants || times[i] < worth {
                continue;
            }
            let mut part: Option<Extent> = None;
            let list = &mut by_times[usize::from(times[i]).min(TIMES)];
            for page in starts(*extent) {
                if placed(Lba(page)) || !taken.insert(page) {
                    list.extend(part.take().map(|e| (i, e)));
                    continue;
                }
                match &mut part {
                    Some(part) => part.len.0 += PAGE_SECTORS,
                    None => part = Some(Extent::new(page, PAGE_SECTORS)),
                }
            }
            list.extend(part.map(|e| (i, e)));
        }
        let mut left = self.config.most.0;
        let mut chosen: Vec<(usize, Extent)> = Vec::new();
        for (i, extent) in by_times.into_iter().rev().flatten() {
            if self.purse < 1.0 || extent.len.0 > left {
                break;
            }
            self.purse -= 1.0;
            left -= extent.len.0;
            chosen.push((i, extent));
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|(_, extent)| extent).collect()
    }

    /// For each remembered read, the sighting count of the read and its neighbours: the median, so
    /// that one chance read does not divide a sequence.
    fn times_around(&self) -> Vec<u8> {
        let near = self.config.near as usize;
        let count = |e: &Extent| self.seen.get(&e.start.0).map_or(0, |s| s.0);
        let counts: Vec<u8> = self.recent.iter().map(count).collect();
        let mut around = Vec::with_capacity(2 * near + 1);
        let median = |i: usize| {
            around.clear();
            around.extend(&counts[i.saturating_sub(near)..(i + near + 1).min(counts.len())]);
            let middle = around.len() / 2;
            *around.select_nth_unstable(middle).1
        };
        (0..counts.len()).map(median).collect()
    }
}
