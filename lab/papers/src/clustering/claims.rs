//! The paper's claims about its figures, and whether our results agree within a stated tolerance.

use seekless_disk::clustering::Access;
use serde::Serialize;

use super::Order;
use super::figures::{BLOCK, Effort, Loaded, imaginary, rz55};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ClusteringClaim {
    /// Section or figure.
    pub place: &'static str,
    /// The paper's words.
    pub paper: &'static str,
    /// The paper's number.
    pub printed: f64,
    /// Our number.
    pub ours: f64,
    /// Least and greatest accepted value of ours.
    pub bounds: (f64, f64),
    /// Whether the numbers are milliseconds, shares or ratios.
    pub unit: &'static str,
}

impl ClusteringClaim {
    /// Whether ours lies within the bounds.
    pub(super) fn holds(&self) -> bool {
        self.bounds.0 <= self.ours && self.ours <= self.bounds.1
    }
}

/// All claims.
pub(super) fn claims(effort: Effort) -> Vec<ClusteringClaim> {
    one_request().into_iter().chain(loaded(effort)).collect()
}

fn claim(
    place: &'static str,
    paper: &'static str,
    unit: &'static str,
    printed: f64,
    bounds: (f64, f64),
    ours: f64,
) -> ClusteringClaim {
    ClusteringClaim { place, paper, printed, ours, bounds, unit }
}

/// Claims about a disk with one request at a time.
fn one_request() -> [ClusteringClaim; 6] {
    const PLACE: &str = "Figure 4";
    let arm = imaginary();
    let n = arm.cylinders();
    let seek = |a: &Access| arm.light(a, BLOCK).seek_ms;
    let perfect = Access::perfect(n);
    let even = seek(&Access::random(n));
    let shorter = |a: &Access| 1.0 - seek(a) / even;
    let normal = seek(&Access::normal(n, 0.03));
    let drifted = shorter(&perfect.drifted(0.2));
    let lazy = shorter(&perfect.lazily(0.05));
    let most = shorter(&perfect.lazily(0.2)) / shorter(&perfect);
    let share = |paper, printed, bounds, ours| claim(PLACE, paper, "share", printed, bounds, ours);
    let ms = |paper, ours| claim(PLACE, paper, "ms", 7.5, (7.3, 7.9), ours);
    [
        share("a perfect layout shortens seeks by 40 %", 0.4, (0.37, 0.46), shorter(&perfect)),
        share("and by 30 % if 20 % of the accesses have drifted", 0.3, (0.27, 0.36), drifted),
        ms("a perfect layout seeks 7.5 ms", seek(&perfect)),
        ms("a normal layout of sigma 3 % seeks as long", normal),
        share("5 % organized lazily shorten seeks by 30 %", 0.3, (0.26, 0.34), lazy),
        share("20 % organized lazily bring nearly all of the gain", 1.0, (0.9, 1.0), most),
    ]
}

/// Claims about a loaded disk.
fn loaded(effort: Effort) -> [ClusteringClaim; 9] {
    let disk = Loaded::new(&rz55(), BLOCK, 300, effort);
    let n = disk.arm.cylinders();
    let (random, perfect) = (Access::random(n), Access::perfect(n));
    let at = |a: &Access, q, order| disk.point(a, q, order).utilization;
    let base = at(&random, 300, Order::Arrival);
    let alone_10 = at(&perfect, 10, Order::Arrival) / at(&random, 10, Order::Arrival);
    let alone_300 = at(&perfect, 300, Order::Arrival) / base;
    let best = at(&perfect, 300, Order::Position);
    let ordered_50 = at(&perfect, 50, Order::Position) / at(&random, 50, Order::Arrival);
    let gained = |a: &Access| (at(a, 300, Order::Position) - base) / (best - base);
    let least =
        [1, 2, 5, 10].map(|q| at(&perfect, q, Order::Position) / at(&random, q, Order::Arrival));
    let least = least.into_iter().fold(f64::MAX, f64::min);
    let ratio =
        |place, paper, printed, bounds, ours| claim(place, paper, "ratio", printed, bounds, ours);
    let share = |place, paper, printed, bounds, a: &Access| {
        claim(place, paper, "share", printed, bounds, gained(a))
    };
    let quarter = "clustering alone brings a quarter more throughput, queue 10";
    let half = "with reordering, queue 50: at most half more";
    let speedup = "blocks of 2 KiB: a speedup of 1.3 at least";
    [
        ratio("Figure 7", quarter, 1.25, (1.15, 1.35), alone_10),
        ratio("Figure 7", "the same, queue 300", 1.25, (1.15, 1.35), alone_300),
        ratio("Figure 7", "with reordering, queue 300: double", 2.0, (1.8, 2.4), best / base),
        ratio("Figure 7", half, 1.5, (1.25, 1.6), ordered_50),
        share(
            "Figure 9",
            "half of the gain from 1 % organized lazily",
            0.5,
            (0.4, 0.6),
            &perfect.lazily(0.01),
        ),
        share("Figure 9", "most of the gain from 8 %", 1.0, (0.8, 1.02), &perfect.lazily(0.08)),
        share(
            "Figure 10",
            "half of the gain from 3 buckets",
            0.5,
            (0.4, 0.6),
            &perfect.in_buckets(3),
        ),
        share(
            "Figure 10",
            "nearly all of the gain from 6",
            1.0,
            (0.85, 1.02),
            &perfect.in_buckets(6),
        ),
        ratio("Figure 12", speedup, 1.3, (1.25, 1.4), least),
    ]
}

#[cfg(test)]
mod tests {
    use crate::clustering::Start;

    use super::*;

    #[test]
    fn every_claim_of_the_paper_holds() {
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
