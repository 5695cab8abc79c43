//! The adaptive policy and its guard: the actual system, and vanilla beside it. Both serve the same requests. [`Guard`] says when
//! the policy must stand aside.

use seekless_block::{Bytes, Lba, Request, Sectors};
use seekless_disk::Device;
use seekless_learn::{DayTimes, Guard};

use crate::measure::Measured;
use crate::metered::Metered;
use crate::simulation::{SimConfig, SimError, Simulation};

/// Two systems, and the guard between them.
#[derive(Debug)]
pub struct Guarded {
    actual: Metered,
    vanilla: Metered,
    guard: Guard,
    bypasses: bool,
}

impl Guarded {
    /// Two devices at rest, with no copies.
    ///
    /// # Errors
    /// Where addresses and area do not fit the device, or it cannot spin down as asked.
    pub fn new(device: &Device, config: &SimConfig) -> Result<Self, SimError> {
        let mut bare = *config;
        bare.engine.area = Sectors(0);
        bare.engine.adaptive = false;
        bare.engine.cluster = Bytes(0);
        bare.area_at = Lba(bare.engine.capacity.0);
        let metered = |sim| Simulation::new(device.clone(), sim).map(Metered::new);
        Ok(Self {
            actual: metered(*config)?,
            vanilla: metered(bare)?,
            guard: Guard::default(),
            bypasses: false,
        })
    }

    /// Looks at the requests so far, and serves one more, which is of this day.
    ///
    /// # Errors
    /// Where a request so far could not be served.
    pub fn offer(&mut self, day: u64, request: &Request) -> Result<(), SimError> {
        self.look(day);
        self.vanilla.sim.offer(request)?;
        self.actual.sim.offer(request)
    }

    fn look(&mut self, day: u64) {
        let (clients, moving) = self.actual.take();
        let times = DayTimes { vanilla: self.vanilla.take().0, actual: clients + moving };
        let bypass = self.guard.look(day, times);
        if bypass != self.bypasses {
            self.bypasses = bypass;
            self.actual.sim.bypass(bypass);
        }
    }

    /// What the actual system cost since the last lap; see [`Simulation::lap`].
    ///
    /// # Errors
    /// Where a request could not be served.
    pub fn lap(&mut self) -> Result<Measured, SimError> {
        self.vanilla.lap()?;
        self.actual.lap()
    }

    /// The guard.
    #[must_use]
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The actual system.
    #[must_use]
    pub const fn actual(&self) -> &Simulation {
        &self.actual.sim
    }
}
