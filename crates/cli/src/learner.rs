//! The learner of a live volume: BORG's access graph of what was asked, planned on demand.

use std::time::{Duration, Instant};

use seekless_block::{Bytes, Request, Sectors};
use seekless_engine::Config;
use seekless_layout::{AccessGraph, Decoded, Pages, Plan, PlanConfig, Reach, next_plan};
use seekless_study::Learner;

use crate::serve::memory::Memory;

/// Edges kept: about a hundred megabytes at the most.
pub(crate) const EDGES: usize = 1 << 21;
/// An access counts half after so long.
const DAY: Duration = Duration::from_secs(86_400);

/// Learns in the learner's thread of a server.
pub(crate) struct BorgLearner {
    how: Learner,
    graph: AccessGraph,
    config: PlanConfig,
    /// The plan made last.
    plan: Plan,
    /// When a day ended last, or as if: time in which nothing was served does not count.
    aged: Instant,
    /// Before that, served since.
    served: Duration,
    memory: Option<Memory>,
    changed: bool,
    /// A plan was made of all that is known, and not yet kept.
    planned: bool,
}

impl BorgLearner {
    /// Knows nothing yet, not even of which volume.
    pub(crate) fn new(how: Learner) -> Self {
        let nothing = Pages::new(Sectors(0), Sectors(0));
        Self {
            how,
            graph: AccessGraph::new(nothing, Bytes(0), EDGES),
            config: PlanConfig {
                area: Sectors(0),
                min_weight: 0,
                strategy: how.strategy,
                planning: how.planning,
                reach: Reach::new(Bytes(0), Bytes(0)),
            },
            plan: Plan::default(),
            aged: Instant::now(),
            served: Duration::ZERO,
            memory: None,
            changed: false,
            planned: false,
        }
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

impl seekless_serve::Learner for BorgLearner {
    fn begin(&mut self, config: &Config) {
        let pages = Pages::new(config.grid, config.capacity);
        if self.graph.pages() != pages {
            if let Some(memory) = self.memory.as_ref().filter(|_| self.graph.vertex_count() > 0) {
                memory.set_aside(&format!(
                    "it is about a disk of another size, or with other pages, than {}",
                    config.capacity.bytes()
                ));
            }
            self.graph = AccessGraph::new(pages, config.cache_bytes, EDGES);
            self.served = Duration::ZERO;
        }
        self.config.area = config.room();
        self.config.reach = Reach::new(config.read_ahead, config.cluster);
    }

    fn observe(&mut self, request: &Request) {
        self.changed = true;
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        let mut since = self.since_aged();
        while since >= DAY && self.graph.vertex_count() > 0 {
            self.how.training.day_ended(&mut self.graph);
            self.changed = true;
            since -= DAY;
        }
        (self.aged, self.served) = (Instant::now(), since);
        self.planned = true;
        self.plan = next_plan(&self.plan, &self.graph, &self.config);
        self.plan.clone()
    }

    fn keep(&mut self) {
        let since = u64::try_from(self.since_aged().as_nanos()).unwrap_or(u64::MAX);
        if let Some(memory) = self.memory.as_mut().filter(|_| self.changed) {
            memory.write(&self.graph, seekless_block::Duration(since));
            self.changed = false;
        }
        // Only now: what the plan was made of is what the next start wants.
        if std::mem::take(&mut self.planned) {
            self.how.training.planned(&mut self.graph);
        }
    }
}
