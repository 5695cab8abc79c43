//! Where the files of a list lie, and where they could lie: the files that may be moved, their
//! order, and which of them lie together already.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::list::List;
use super::location::{self, Movable};
use super::mounted::Mounted;
use super::travel::{HotRange, Travel, Trip};

/// The files of a list at their present locations, and the reasons for files that may not be moved.
#[derive(Debug)]
pub struct Survey {
    /// Index into the list, and location.
    pub(super) files: Vec<(usize, Movable)>,
    /// Bytes transferred, by index into the list.
    pub(super) heat: Vec<f64>,
    alone: BTreeMap<&'static str, u64>,
}

/// Looks at every file of a list. A file with two entries counts once.
pub fn survey(mounted: &Mounted, list: &List) -> Survey {
    let swaps = location::swap_files(mounted);
    let mut seen: rustc_hash::FxHashSet<u64> = Default::default();
    let mut survey = Survey {
        files: Vec::new(),
        heat: list.files.iter().map(|f| f.moved as f64).collect(),
        alone: BTreeMap::new(),
    };
    for (i, hot) in list.files.iter().enumerate() {
        if !seen.insert(hot.inode) {
            continue;
        }
        let located = if swaps.contains(&hot.inode) {
            Err("a swap file")
        } else {
            location::locate(mounted, hot)
        };
        let located = located.and_then(|m| match mounted.refusal() {
            // On other file systems ext4's attributes mean nothing.
            Some(_) => Ok(m),
            None => location::check_exchangeable(&m).map(|()| m),
        });
        match located {
            Ok(movable) => survey.files.push((i, movable)),
            Err(why) => *survey.alone.entry(why).or_insert(0) += 1,
        }
    }
    survey
}

impl Survey {
    /// Files left alone, by reason.
    pub const fn left_alone(&self) -> &BTreeMap<&'static str, u64> {
        &self.alone
    }

    /// The head's travel at the present locations, and with all files side by side.
    pub fn trips(&self, mounted: &Mounted, travel: &Travel) -> [Trip; 2] {
        [travel.between(&self.present()), travel.between(&self.ideal(mounted))]
    }

    /// Where each file lies now.
    pub(super) fn present(&self) -> Vec<HotRange> {
        self.files.iter().flat_map(|(i, m)| ranges(m, self.heat[*i])).collect()
    }

    /// All files side by side, about the middle of today's heat.
    fn ideal(&self, mounted: &Mounted) -> Vec<HotRange> {
        let all: Vec<usize> = (0..self.files.len()).collect();
        let total: u64 = self.files.iter().map(|f| f.1.bytes()).sum();
        let last = mounted.bytes().saturating_sub(total);
        let mut at = self.middle().saturating_sub(total / 2).min(last);
        let side_by_side = |i: usize| {
            let (hot, movable) = &self.files[i];
            let range = (at, movable.bytes(), self.heat[*hot]);
            at += movable.bytes();
            range
        };
        self.organ_pipe(&all).into_iter().map(side_by_side).collect()
    }

    /// The first byte of the range with the median of the heat.
    fn middle(&self) -> u64 {
        let mut present = self.present();
        present.sort_by_key(|p| p.0);
        let half = present.iter().map(|p| p.2).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let found = present.iter().find(|p| {
            sum += p.2;
            sum >= half
        });
        found.map_or(0, |p| p.0)
    }

    /// These files in the order to lay them out: the hottest by their size in the middle.
    pub(super) fn organ_pipe(&self, which: &[usize]) -> Vec<usize> {
        let temperature =
            |i: usize| self.heat[self.files[i].0] / self.files[i].1.bytes().max(1) as f64;
        let mut hottest_first = which.to_vec();
        hottest_first.sort_by(|&a, &b| temperature(b).total_cmp(&temperature(a)).then(a.cmp(&b)));
        let (mut order, mut before, mut after) = (VecDeque::new(), 0, 0);
        for i in hottest_first {
            let bytes = self.files[i].1.bytes();
            if before <= after {
                before += bytes;
                order.push_back(i);
            } else {
                after += bytes;
                order.push_front(i);
            }
        }
        order.into()
    }

    /// Files that lie apart: not wholly inside the densest stretch. All files if that stretch holds
    /// less than a quarter of the bytes.
    pub(super) fn apart(&self) -> Vec<usize> {
        let all = 0..self.files.len();
        let total: u64 = self.files.iter().map(|f| f.1.bytes()).sum();
        let runs = self.files.iter().flat_map(|f| f.1.runs.iter().map(|r| (r.physical, r.len)));
        let (start, end, inside) = densest(runs.collect());
        if inside < total / 4 {
            return all.collect();
        }
        let within =
            |m: &Movable| m.runs.iter().all(|r| r.physical >= start && r.physical + r.len <= end);
        all.filter(|&i| !within(&self.files[i].1)).collect()
    }
}

/// The stretch with the greatest score: the bytes of `runs` in it, less four times the gaps between
/// them. Its first byte, the byte behind its last, and the bytes of `runs` in it.
fn densest(mut runs: Vec<(u64, u64)>) -> (u64, u64, u64) {
    runs.sort_unstable();
    // Start, end, bytes and score of the stretch that ends here, and of the best.
    let (mut here, mut best) = ((0, 0, 0, 0i128), (0, 0, 0, 0i128));
    for (at, len) in runs {
        let gap = i128::from(at.saturating_sub(here.1));
        let left = here.3 - 4 * gap;
        here = if here.2 == 0 || left <= 0 {
            (at, at + len, len, i128::from(len))
        } else {
            (here.0, at + len, here.2 + len, left + i128::from(len))
        };
        if here.3 > best.3 {
            best = here;
        }
    }
    (best.0, best.1, best.2)
}

/// The runs of a file, each with its part of the heat.
pub(super) fn ranges(movable: &Movable, heat: f64) -> impl Iterator<Item = HotRange> + '_ {
    let total = movable.bytes().max(1) as f64;
    movable.runs.iter().map(move |r| (r.physical, r.len, heat * r.len as f64 / total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_densest_stretch_has_small_gaps() {
        assert_eq!(densest(vec![]), (0, 0, 0));
        // Three that lie together with a small gap, and two far off.
        let runs = vec![(5000, 10), (100, 40), (140, 40), (185, 100), (9000, 60)];
        assert_eq!(densest(runs), (100, 285, 180));
        // Evenly spread runs lie apart.
        let spread: Vec<(u64, u64)> = (0..50).map(|i| (i * 100, 10)).collect();
        assert_eq!(densest(spread).2, 10);
    }
}
