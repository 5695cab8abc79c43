//! The learner of a live volume: BORG's access graph of what was asked, planned on demand.

use std::time::{Duration, Instant};

use seekless_block::{Request, Sectors};
use seekless_layout::{AccessGraph, BorgConfig, Plan, plan_borg};
use seekless_serve::Learner;

/// Edges kept: about a hundred megabytes at the most.
const EDGES: usize = 1 << 21;
/// An access counts half after so long.
const DAY: Duration = Duration::from_secs(86_400);

/// Learns in the learner's thread of a server.
pub(crate) struct BorgLearner {
    graph: AccessGraph,
    config: BorgConfig,
    aged: Instant,
}

impl BorgLearner {
    /// For an optimized area of this size.
    pub(crate) fn new(area: Sectors) -> Self {
        let config = BorgConfig { area, min_weight: 0 };
        Self { graph: AccessGraph::new(EDGES), config, aged: Instant::now() }
    }
}

impl Learner for BorgLearner {
    fn observe(&mut self, request: &Request) {
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        while self.aged.elapsed() >= DAY {
            self.graph.age();
            self.aged += DAY;
        }
        plan_borg(&self.graph, &self.config)
    }
}
