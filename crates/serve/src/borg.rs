//! BORG's learner for a live volume: the access graph fed as requests come, aged once a day of the volume's
//! time, and a plan made from it when one is due. It refuses to know when that is.

use seekless_block::{Duration, Request, Sectors, SimTime};
use seekless_layout::{AccessGraph, BorgConfig, Plan, plan_borg};

use crate::learner::Learner;

/// Edges that are kept: a quarter of a gigabyte at the most.
const EDGES: usize = 1 << 22;
/// A day in nanoseconds.
const DAY: Duration = Duration(86_400_000_000_000);

/// See the module.
#[derive(Debug)]
pub struct BorgLearner {
    graph: AccessGraph,
    config: BorgConfig,
    ages_at: SimTime,
}

impl BorgLearner {
    /// A learner that plans for an optimized area of this size.
    #[must_use]
    pub fn new(area: Sectors) -> Self {
        let config = BorgConfig { area, min_weight: 0 };
        Self { graph: AccessGraph::new(EDGES), config, ages_at: SimTime(0) + DAY }
    }
}

impl Learner for BorgLearner {
    fn observe(&mut self, request: &Request) {
        while request.arrival >= self.ages_at {
            self.graph.age();
            self.ages_at += DAY;
        }
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        plan_borg(&self.graph, &self.config)
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Extent, Op};

    use super::*;

    #[test]
    fn what_is_read_together_is_planned_together_and_forgotten_after_days() {
        let mut learner = BorgLearner::new(Sectors(64));
        let far = [Extent::new(1000, 8), Extent::new(90_000, 8), Extent::new(50, 8)];
        for round in 0..4 {
            for extent in far {
                learner.observe(&Request::new(SimTime(round), Op::Read, extent));
            }
        }
        let homes: Vec<_> = learner.plan().copies.iter().map(|c| c.home).collect();
        assert_eq!(homes.len(), 3);
        assert!(far.iter().all(|e| homes.contains(e)), "{homes:?}");
        // A week without a word, then a write: all that was read is forgotten.
        let later = SimTime(8 * DAY.0);
        learner.observe(&Request::new(later, Op::Write, Extent::new(7, 1)));
        assert_eq!(learner.plan(), Plan::default());
    }
}
