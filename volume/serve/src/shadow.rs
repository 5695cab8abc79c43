//! The vanilla system beside a live volume: the same requests in the simulator, without copies.
//! Without an emulated disk, also a modelled disk for the I/Os that were sent. The volume does not
//! depend on it.

use seekless_block::{Lba, Op, Request, Sectors, SimTime};
use seekless_disk::{Command, Device, Drive, Scheduler, SpinDown, Usage};
use seekless_engine::{Config, Target};
use seekless_sim::{Phases, Replay, SimConfig, SimError, Simulation};

use crate::status::Busy;
use crate::{IoSample, MakeShadow, Shadow};

/// Most requests in flight at the vanilla system; others wait.
const DEPTH: u32 = 32;

/// The shadow of a volume on a modelled disk. `emulated`: the volume's own disk is this model.
pub fn disk_shadow(
    disk: Device,
    scheduler: Scheduler,
    spin_down: SpinDown,
    emulated: bool,
) -> MakeShadow {
    Box::new(move |engine| {
        let held = engine.capacity + engine.area;
        if disk.capacity() < held {
            let (has, held) = (disk.capacity().bytes(), held.bytes());
            return Err(format!("it holds {has}, less than volume and area, {held}"));
        }
        DiskShadow::new(disk, (scheduler, spin_down), *engine, emulated)
            .map(|s| Box::new(s) as _)
            .map_err(|e| e.to_string())
    })
}

struct DiskShadow {
    vanilla: Result<Simulation, SimError>,
    /// The modelled disk for the I/Os that were sent; none if the volume's own disk is emulated.
    model: Option<Model>,
}

struct Model {
    drive: Drive,
    home: Sectors,
    now: SimTime,
    busy: Phases,
    moving_s: f64,
}

impl DiskShadow {
    fn new(
        disk: Device,
        (scheduler, spin_down): (Scheduler, SpinDown),
        engine: Config,
        emulated: bool,
    ) -> Result<Self, SimError> {
        let home = engine.capacity;
        let model = (!emulated).then(|| Model {
            drive: Drive::new(disk.clone(), scheduler),
            home,
            now: SimTime::ZERO,
            busy: Phases::default(),
            moving_s: 0.0,
        });
        let mut vanilla = engine;
        vanilla.area = Sectors(0);
        vanilla.adaptive = false;
        vanilla.cluster = seekless_block::Bytes(0);
        let config = SimConfig {
            engine: vanilla,
            area_at: Lba(home.0),
            scheduler,
            spin_down,
            replay: Replay::Open,
        };
        Ok(Self { vanilla: Ok(Simulation::new(disk, config)?), model })
    }
}

impl Shadow for DiskShadow {
    fn request(&mut self, request: &Request) {
        if let Ok(sim) = &mut self.vanilla {
            // The volume refused a request past its end too.
            let home = request.extent.end();
            let fits = sim.capacity() >= Sectors(home.0);
            let result = if fits {
                sim.settle_below(DEPTH).and_then(|()| sim.offer(request))
            } else {
                Ok(())
            };
            if let Err(error) = result {
                self.vanilla = Err(error);
            }
        }
    }

    fn quiet(&mut self) {
        if let Ok(sim) = &mut self.vanilla
            && let Err(error) = sim.settle_below(1)
        {
            self.vanilla = Err(error);
        }
    }

    fn io(&mut self, io: &IoSample) {
        if let Some(model) = &mut self.model {
            model.io(io);
        }
    }

    fn now(&self) -> Option<(Busy, f64)> {
        self.model.as_ref().map(|m| (busy(&m.busy, active_j(&m.drive.usage(m.now))), m.moving_s))
    }

    fn vanilla(&self) -> Result<Busy, String> {
        match &self.vanilla {
            Ok(sim) => Ok(busy(&sim.so_far().foreground, active_j(&sim.usage()))),
            Err(error) => Err(format!("the simulation of the vanilla system stopped: {error}")),
        }
    }

    fn note(&self) -> String {
        format!(
            "modelled: the same requests without copies, with the same RAM, read-ahead and scheduler, and at most {DEPTH} in flight"
        )
    }
}

impl Model {
    /// The next I/O of the disk, at its arrival or when the disk is free.
    fn io(&mut self, io: &IoSample) {
        if io.op == Op::Flush {
            return;
        }
        let mut extent = io.extent;
        if io.target == Target::Area {
            extent.start = extent.start + self.home;
        }
        self.now = self.now.max(io.at);
        let command = Command { background: io.background, ..Command::new(0, io.op, extent) };
        if self.drive.submit(self.now, command).is_err() {
            return;
        }
        while let Some(at) = self.drive.next_event() {
            self.now = self.now.max(at);
            while let Some(done) = self.drive.poll(self.now) {
                let a = &done.access;
                self.busy.overhead += a.overhead;
                self.busy.seek += a.seek;
                self.busy.rotation += a.rotation;
                self.busy.transfer += a.transfer;
                if io.background {
                    self.moving_s += a.total().as_secs_f64();
                }
            }
        }
    }
}

/// Energy of seeks, rotation and transfer; without idling.
fn active_j(usage: &Usage) -> f64 {
    (usage.energy.seek + usage.energy.rotation_transfer).as_joules_f64()
}

fn busy(p: &Phases, energy_j: f64) -> Busy {
    Busy {
        seek_s: p.seek.as_secs_f64(),
        rotation_s: p.rotation.as_secs_f64(),
        transfer_s: p.transfer.as_secs_f64(),
        overhead_s: p.overhead.as_secs_f64(),
        energy_j,
    }
}
