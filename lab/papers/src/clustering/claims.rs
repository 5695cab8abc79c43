//! What the paper says of its figures, and whether ours bears it out within a tolerance that is stated.

use seekless_disk::clustering::Access;
use serde::Serialize;

use super::Order;
use super::figures::{BLOCK, Effort, Loaded, imaginary, rz55};

/// A claim and its test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusteringClaim {
    /// Section or figure.
    pub place: &'static str,
    /// What the paper says.
    pub paper: &'static str,
    /// The number it says.
    pub printed: f64,
    /// The number of ours.
    pub ours: f64,
    /// What ours may be to bear it out: least and most.
    pub bounds: (f64, f64),
    /// Whether the numbers are milliseconds, shares or ratios.
    pub unit: &'static str,
}

impl ClusteringClaim {
    /// Whether ours lies within the bounds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.bounds.0 <= self.ours && self.ours <= self.bounds.1
    }
}

/// All of them.
#[must_use]
pub fn claims(effort: Effort) -> Vec<ClusteringClaim> {
    let mut all = Vec::new();
    let mut claim = |place, paper, unit, printed: f64, bounds: (f64, f64), ours: f64| {
        all.push(ClusteringClaim { place, paper, printed, ours, bounds, unit });
    };
    let arm = imaginary();
    let n = arm.cylinders();
    let seek = |a: &Access| arm.light(a, BLOCK).seek_ms;
    let perfect = Access::perfect(n);
    let even = seek(&Access::random(n));
    let shorter = |a: &Access| 1.0 - seek(a) / even;
    claim(
        "Figure 4",
        "a perfect layout shortens seeks by 40 %",
        "share",
        0.4,
        (0.37, 0.46),
        shorter(&perfect),
    );
    claim(
        "Figure 4",
        "and by 30 % where 20 % of the accesses have drifted",
        "share",
        0.3,
        (0.27, 0.36),
        shorter(&perfect.drifted(0.2)),
    );
    claim("Figure 4", "a perfect layout seeks 7.5 ms", "ms", 7.5, (7.3, 7.9), seek(&perfect));
    claim(
        "Figure 4",
        "a normal one of sigma 3 % as long",
        "ms",
        7.5,
        (7.3, 7.9),
        seek(&Access::normal(n, 0.03)),
    );
    claim(
        "Figure 4",
        "5 % organized lazily shorten seeks by 30 %",
        "share",
        0.3,
        (0.26, 0.34),
        shorter(&perfect.lazily(0.05)),
    );
    claim(
        "Figure 4",
        "20 % organized lazily bring nearly all there is",
        "share",
        1.0,
        (0.9, 1.0),
        shorter(&perfect.lazily(0.2)) / shorter(&perfect),
    );

    let disk = Loaded::new(&rz55(), BLOCK, 300, effort);
    let n = disk.arm.cylinders();
    let (random, perfect) = (Access::random(n), Access::perfect(n));
    let at = |a: &Access, q, order| disk.point(a, q, order).utilization;
    let base = at(&random, 300, Order::Arrival);
    let short = at(&perfect, 10, Order::Arrival) / at(&random, 10, Order::Arrival);
    claim(
        "Figure 7",
        "clustering alone brings a quarter more throughput, queue 10",
        "ratio",
        1.25,
        (1.15, 1.35),
        short,
    );
    claim(
        "Figure 7",
        "the same, queue 300",
        "ratio",
        1.25,
        (1.15, 1.35),
        at(&perfect, 300, Order::Arrival) / base,
    );
    let best = at(&perfect, 300, Order::Position);
    claim("Figure 7", "with reordering, queue 300: double", "ratio", 2.0, (1.8, 2.4), best / base);
    let q50 = at(&perfect, 50, Order::Position) / at(&random, 50, Order::Arrival);
    claim(
        "Figure 7",
        "with reordering, queue 50: at most half more",
        "ratio",
        1.5,
        (1.25, 1.6),
        q50,
    );
    let gained = |a: &Access| (at(a, 300, Order::Position) - base) / (best - base);
    claim(
        "Figure 9",
        "half of the gain from 1 % organized lazily",
        "share",
        0.5,
        (0.4, 0.6),
        gained(&perfect.lazily(0.01)),
    );
    claim(
        "Figure 9",
        "most of it from 8 %",
        "share",
        1.0,
        (0.8, 1.02),
        gained(&perfect.lazily(0.08)),
    );
    claim(
        "Figure 10",
        "half of the gain from 3 buckets",
        "share",
        0.5,
        (0.4, 0.6),
        gained(&perfect.in_buckets(3)),
    );
    claim(
        "Figure 10",
        "nearly all of it from 6",
        "share",
        1.0,
        (0.85, 1.02),
        gained(&perfect.in_buckets(6)),
    );
    let least =
        [1, 2, 5, 10].map(|q| at(&perfect, q, Order::Position) / at(&random, q, Order::Arrival));
    let least = least.into_iter().fold(f64::MAX, f64::min);
    claim(
        "Figure 12",
        "blocks of 2 KiB: a speedup of 1.3 at least",
        "ratio",
        1.3,
        (1.25, 1.4),
        least,
    );
    all
}

#[cfg(test)]
mod tests {
    use crate::clustering::Start;

    use super::*;

    #[test]
    fn what_the_paper_says_is_so() {
        for start in [Start::Paper, Start::Arrival] {
            let all = claims(Effort { runs: 2, seed: 1, start });
            assert_eq!(all.len(), 15);
            for c in all {
                assert!(c.bounds.0 <= c.printed && c.printed <= c.bounds.1, "{c:?}");
                assert!(c.holds(), "{start:?}: {c:?}");
            }
        }
    }
}
