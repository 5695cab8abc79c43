//! A simulation whose costs are read a bit at a time.

use seekless_block::Duration;
use seekless_disk::Operations;

use crate::measure::Measured;
use crate::simulation::{SimError, Simulation};

/// A simulation, and how much of its cost has been read.
#[derive(Debug)]
pub(crate) struct Metered {
    pub(crate) sim: Simulation,
    pub(crate) costs: Read,
    operations: Operations,
}

/// How far a simulation's costs were read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    clients: Duration,
    pub(crate) moving: Duration,
    /// Costs of laps that ended, not read yet.
    left: (Duration, Duration),
}

impl Read {
    /// The cost since the last reading: for clients, and for moving data.
    pub(crate) fn read(&mut self, sim: &Simulation) -> (Duration, Duration) {
        self.read_from(sim.so_far())
    }

    fn read_from(&mut self, m: &Measured) -> (Duration, Duration) {
        let (clients, moving) = (m.foreground.busy(), m.background.busy());
        let new = (clients - self.clients, moving - self.moving);
        (self.clients, self.moving) = (clients, moving);
        let left = std::mem::take(&mut self.left);
        (left.0 + new.0, left.1 + new.1)
    }
}

impl Metered {
    pub(crate) fn new(sim: Simulation) -> Self {
        Self { sim, costs: Read::default(), operations: Operations::default() }
    }

    pub(crate) fn take(&mut self) -> (Duration, Duration) {
        self.costs.read(&self.sim)
    }

    /// The cost of this time, with the operations since the last call.
    pub(crate) fn counts(&mut self, time: Duration) -> Duration {
        let (all, toll) = self.sim.operations();
        let new = all.since(&std::mem::replace(&mut self.operations, all));
        toll.counts(time, new.reads, new.writes)
    }

    pub(crate) fn lap(&mut self) -> Result<Measured, SimError> {
        let m = self.sim.lap()?;
        let left = self.costs.read_from(&m);
        self.costs = Read { left, ..Read::default() };
        Ok(m)
    }
}
