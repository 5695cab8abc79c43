//! An engine as a learner sees it: its shape at the start, and the space for replicas at each plan.

use seekless_block::{Extent, Lba};
use seekless_engine::{Config, Engine};
use seekless_learn::{AnsweredReads, ReplicaProgress, ReplicaSpace, VolumeShape, needs_no_more};

/// The learner's view of a volume with this engine.
pub fn shape_of(config: &Config) -> VolumeShape {
    VolumeShape {
        capacity: config.capacity,
        grid: config.grid,
        ram: config.cache_bytes,
        read_ahead: config.read_ahead,
        cluster: config.cluster,
        room: config.room(),
        replicas: config.replicas,
    }
}

/// The space for replicas in the free space of a simulated volume.
#[derive(Debug)]
pub struct EngineSpace<'a> {
    /// The volume's engine.
    pub engine: &'a Engine,
    /// Reads that home answered before the engine began.
    pub answered_before: u64,
}

impl ReplicaSpace for EngineSpace<'_> {
    fn progress(&self) -> ReplicaProgress {
        let Some(state) = self.engine.replicated() else {
            return ReplicaProgress { blocked: true, ..ReplicaProgress::default() };
        };
        let home = self.answered_before + state.answered.home;
        ReplicaProgress {
            blocked: state.suspended || state.under_way,
            answered: AnsweredReads { home, ..state.answered },
        }
    }

    fn free(&self) -> Vec<Extent> {
        self.engine.room_for_replicas()
    }

    fn is_placed(&self, page: Lba, hot: Extent) -> bool {
        needs_no_more(self.engine.replicas_of(page), hot, self.engine.config().degree)
    }
}
