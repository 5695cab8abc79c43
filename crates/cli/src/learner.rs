//! The learner of a live volume: BORG's access graph of what was asked, planned on demand.

use std::time::{Duration, Instant};

use seekless_block::{Bytes, Request, Sectors};
use seekless_engine::Config;
use seekless_layout::{AccessGraph, Pages, Plan, PlanConfig, Strategy, Training, plan};
use seekless_serve::Learner;

/// Edges kept: about a hundred megabytes at the most.
const EDGES: usize = 1 << 21;
/// An access counts half after so long.
const DAY: Duration = Duration::from_secs(86_400);

/// Learns in the learner's thread of a server.
pub(crate) struct BorgLearner {
    graph: AccessGraph,
    config: PlanConfig,
    training: Training,
    aged: Instant,
}

impl BorgLearner {
    /// Knows nothing yet, not even of which volume.
    pub(crate) fn new(strategy: Strategy, training: Training) -> Self {
        let nothing = Pages::new(Sectors(0), Sectors(0));
        Self {
            graph: AccessGraph::new(nothing, Bytes(0), EDGES),
            config: PlanConfig { area: Sectors(0), min_weight: 0, strategy },
            training,
            aged: Instant::now(),
        }
    }
}

impl Learner for BorgLearner {
    fn begin(&mut self, config: &Config) {
        let pages = Pages::new(config.grid, config.capacity);
        self.graph = AccessGraph::new(pages, config.cache_bytes, EDGES);
        self.config.area = config.room();
    }

    fn observe(&mut self, request: &Request) {
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        while self.aged.elapsed() >= DAY {
            self.training.day_ended(&mut self.graph);
            self.aged += DAY;
        }
        let plan = plan(&self.graph, &self.config);
        self.training.planned(&mut self.graph);
        plan
    }
}
