//! The learner of a live volume: BORG's access graph of what was asked, planned on demand.

use std::time::{Duration, Instant};

use seekless_block::{Request, Sectors};
use seekless_layout::{AccessGraph, BorgConfig, Decoded, Plan, plan_borg};
use seekless_serve::Learner;

use crate::serve::memory::Memory;

/// Edges kept: about a hundred megabytes at the most.
pub(crate) const EDGES: usize = 1 << 21;
/// An access counts half after so long.
const DAY: Duration = Duration::from_secs(86_400);

/// Learns in the learner's thread of a server.
pub(crate) struct BorgLearner {
    graph: AccessGraph,
    config: BorgConfig,
    /// When weights were last halved, or as if: time in which nothing was served does not count.
    aged: Instant,
    /// Before that, served since.
    served: Duration,
    memory: Option<Memory>,
    changed: bool,
}

impl BorgLearner {
    /// For an optimized area of this size.
    pub(crate) fn new(area: Sectors) -> Self {
        let config = BorgConfig { area, min_weight: 0 };
        let graph = AccessGraph::new(EDGES);
        let (aged, served) = (Instant::now(), Duration::ZERO);
        Self { graph, config, aged, served, memory: None, changed: false }
    }

    /// Goes on from what was known, and keeps what it learns in a file.
    pub(crate) fn remember(mut self, memory: Memory, known: Option<Decoded>) -> Self {
        if let Some(known) = known {
            self.graph = known.graph;
            self.served = Duration::from_nanos(known.since_aged.0);
        }
        self.memory = Some(memory);
        self
    }

    fn since_aged(&self) -> Duration {
        self.served.saturating_add(self.aged.elapsed())
    }
}

impl Learner for BorgLearner {
    fn observe(&mut self, request: &Request) {
        self.changed = true;
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        let mut since = self.since_aged();
        while since >= DAY && self.graph.vertex_count() > 0 {
            self.graph.age();
            self.changed = true;
            since -= DAY;
        }
        (self.aged, self.served) = (Instant::now(), since);
        plan_borg(&self.graph, &self.config)
    }

    fn keep(&mut self) {
        let since = self.since_aged().as_nanos();
        if let Some(memory) = self.memory.as_mut().filter(|_| self.changed) {
            let since = u64::try_from(since).unwrap_or(u64::MAX);
            memory.write(&self.graph, seekless_block::Duration(since));
            self.changed = false;
        }
    }
}
