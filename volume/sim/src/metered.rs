//! A simulation whose costs are read a bit at a time.

use seekless_block::Duration;
use seekless_disk::Operations;

use crate::measure::Measured;
use crate::simulation::{SimError, Simulation};

/// For clients, and for moving data.
type Costs = (Duration, Duration);

/// A simulation, and how much of its cost has been read.
#[derive(Debug)]
pub(crate) struct Metered {
    pub(crate) sim: Simulation,
    /// The costs of this lap that were read.
    read: Costs,
    /// Costs of laps that ended, not read yet.
    left: Costs,
    operations: Operations,
}

fn costs(m: &Measured) -> Costs {
    (m.foreground.busy(), m.background.busy())
}

impl Metered {
    pub(crate) fn new(sim: Simulation) -> Self {
        let (read, left) = (Costs::default(), Costs::default());
        Self { sim, read, left, operations: Operations::default() }
    }

    /// The costs since the last call.
    pub(crate) fn take(&mut self) -> Costs {
        self.read_to(costs(self.sim.so_far()))
    }

    fn read_to(&mut self, now: Costs) -> Costs {
        let before = std::mem::replace(&mut self.read, now);
        let left = std::mem::take(&mut self.left);
        (left.0 + (now.0 - before.0), left.1 + (now.1 - before.1))
    }

    /// The cost of this time, with the operations since the last call.
    pub(crate) fn counts(&mut self, time: Duration) -> Duration {
        let (all, toll) = self.sim.operations();
        let new = all.since(&std::mem::replace(&mut self.operations, all));
        toll.counts(time, new.reads, new.writes)
    }

    pub(crate) fn lap(&mut self) -> Result<Measured, SimError> {
        let m = self.sim.lap_on_time()?;
        self.left = self.read_to(costs(&m));
        self.read = Costs::default();
        Ok(m)
    }
}
