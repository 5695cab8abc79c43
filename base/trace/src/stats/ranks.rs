//! Pages ranked by access count: the ranking, the hottest fraction, the temperature curve. Pages
//! with the same count share their ranks evenly.

use rustc_hash::FxHashMap;

use super::sampled_map::{SIGMAS, total};
use super::summary::{Estimate, RankPoint, TemperaturePoint};

/// Ranks per decade in the output.
const PER_DECADE: u32 = 10;
/// Fractions of space on a temperature curve.
pub(super) const SPACE: [f64; 22] = [
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25,
    0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0,
];

/// Access counts of pages, largest first. Each page represents `weight` pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    classes: Vec<(u32, u64)>,
    pages: u64,
    weight: u64,
}

impl Ranks {
    /// From the count of each page; pages with count 0 are left out.
    pub(super) fn new(counts: impl Iterator<Item = u32>, weight: u64) -> Self {
        let mut of: FxHashMap<u32, u64> = FxHashMap::default();
        for count in counts.filter(|c| *c > 0) {
            *of.entry(count).or_insert(0) += 1;
        }
        let mut classes: Vec<_> = of.into_iter().collect();
        classes.sort_unstable_by(|a, b| b.cmp(a));
        let pages = classes.iter().map(|c| c.1).sum();
        Self { classes, pages, weight }
    }

    /// The count at the end of the hottest `share` of the pages, and the part of the pages with
    /// this count that belongs to the share. Pages with higher counts belong to it completely.
    pub(super) fn boundary(&self, share: f64) -> (u32, f64) {
        let want = share * self.pages as f64;
        let mut above = 0;
        for &(count, pages) in &self.classes {
            if (above + pages) as f64 >= want {
                return (count, ((want - above as f64) / pages as f64).clamp(0.0, 1.0));
            }
            above += pages;
        }
        (0, 0.0)
    }

    /// Fraction of all `accesses` that goes to the hottest `share` of the pages. The accesses of
    /// the other pages are estimated and subtracted from the total, because the few hottest pages
    /// may all be missing in a sample.
    pub(super) fn hottest(&self, share: f64, accesses: u64) -> Estimate {
        let (count, part) = self.boundary(share);
        let (mut sum, mut squares) = (0.0, 0.0);
        for &(c, pages) in &self.classes {
            let pages = pages as f64
                * if c > count {
                    0.0
                } else if c == count {
                    1.0 - part
                } else {
                    1.0
                };
            sum += pages * f64::from(c);
            squares += pages * f64::from(c).powi(2);
        }
        let cold = total(self.weight, sum, squares, 1.0);
        if self.weight == 1 || accesses == 0 {
            let cold = Estimate::exact(cold.value).of(accesses as f64);
            return Estimate::exact(1.0 - cold.value);
        }
        // The boundary itself comes from the sample.
        let n = self.pages.max(1) as f64;
        let slip =
            SIGMAS * (share * (1.0 - share) / n).sqrt() * n * self.weight as f64 * f64::from(count);
        let cold = Estimate { error: cold.error.hypot(slip), ..cold }.of(accesses as f64);
        Estimate { value: 1.0 - cold.value, error: cold.error }
    }

    pub(super) fn temperature(&self, accesses: u64) -> Vec<TemperaturePoint> {
        if self.pages == 0 {
            return Vec::new();
        }
        let at = |space| TemperaturePoint { space, accesses: self.hottest(space, accesses) };
        SPACE.into_iter().map(at).collect()
    }

    /// Access counts at ranks evenly spaced on a logarithmic axis, and at the last rank.
    pub(super) fn points(&self) -> Vec<RankPoint> {
        let weight = self.weight as f64;
        let mut out: Vec<RankPoint> = Vec::new();
        let (mut step, mut next, mut above) = (0, 1, 0);
        for &(accesses, pages) in &self.classes {
            let last = above + pages;
            let mut push = |rank: u64| {
                let error = if self.weight == 1 {
                    0.0
                } else {
                    SIGMAS * weight * (rank as f64 * (1.0 - 1.0 / weight)).sqrt()
                };
                let rank = Estimate { value: rank as f64 * weight, error };
                out.push(RankPoint { rank, accesses: accesses.into() });
            };
            while next <= last {
                push(next);
                while ranked(step) <= next {
                    step += 1;
                }
                next = ranked(step);
            }
            above = last;
            if last == self.pages && out.last().is_some_and(|p| p.rank.value < last as f64 * weight)
            {
                let error = SIGMAS * weight * (last as f64 * (1.0 - 1.0 / weight)).sqrt();
                let rank = Estimate { value: last as f64 * weight, error };
                out.push(RankPoint { rank, accesses: accesses.into() });
            }
        }
        out
    }
}

fn ranked(step: u32) -> u64 {
    10f64.powf(f64::from(step) / f64::from(PER_DECADE)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_pages_by_hand() {
        // 50, 20, 10, 5, 5, and five pages with 2 accesses: a hundred accesses.
        let ranks = Ranks::new([50, 20, 2, 2, 2, 2, 2, 5, 10, 5, 0].into_iter(), 1);
        let share = |s| ranks.hottest(s, 100).value;
        assert!((share(0.2) - 0.70).abs() < 1e-12);
        assert!((share(0.35) - 0.825).abs() < 1e-12, "half a page of 5 counts half");
        assert!((share(0.1) - 0.50).abs() < 1e-12);
        assert!((share(1.0) - 1.0).abs() < 1e-12);
        assert!(ranks.hottest(0.2, 100).is_exact());
        assert_eq!(ranks.boundary(0.2), (20, 1.0));
        assert_eq!(ranks.boundary(0.35), (5, 0.25));
        let points: Vec<_> = ranks.points().iter().map(|p| (p.rank.value, p.accesses)).collect();
        let want =
            [(1.0, 50), (2.0, 20), (3.0, 10), (4.0, 5), (5.0, 5), (6.0, 2), (8.0, 2), (10.0, 2)];
        assert_eq!(points, want);
        assert!(Ranks::new([].into_iter(), 1).points().is_empty());
    }
}
