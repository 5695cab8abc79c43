//! The vanilla system beside a live volume: the same requests in the simulator, without copies.
//! Without an emulated disk, also a modelled disk for the I/Os that were sent. The volume does not
//! depend on it.

use std::path::Path;

use seekless_block::{Duration, Lba, Request, Sectors, SimTime, Toll};
use seekless_disk::{
    Command, Device, DeviceSpec, Drive, Operations, Scheduler, SpinDown, Usage, catalogue,
};
use seekless_engine::{Config, Mode, Target};
use seekless_learn::without_stall;
use seekless_sim::{Phases, Replay, SimConfig, SimError, Simulation, vanilla_of};

use crate::backend::identity;
use crate::calibration::{Calibration, ServiceTime};
use crate::status::Busy;
use crate::{IoSample, MakeShadow};

/// Most requests in flight at the vanilla system; others wait.
const DEPTH: u32 = 32;
/// Above this error of the calibrated model, the guard compares measured times.
const FITS: f64 = 0.1;

/// A model of a disk beside the volume. It runs in the watcher's thread.
pub trait Shadow: Send {
    /// A client's request, for the vanilla system.
    fn request(&mut self, request: &Request);
    /// An I/O sent to the device.
    fn io(&mut self, io: &IoSample);
    /// No request came for a while: requests in flight end.
    fn quiet(&mut self) {}
    /// Where writes of the volume go.
    fn mode(&mut self, _: Mode) {}
    /// All requests and I/Os of an interval were passed on.
    fn look(&mut self) {}
    /// Disk times for the guard, if they come from a real device; otherwise [`now`](Self::now) and
    /// [`vanilla`](Self::vanilla) are compared.
    fn compared(&self) -> Option<Compared> {
        None
    }
    /// Busy time of the modelled disk for the I/Os, and its seconds for moving data; `None` if the
    /// disk is emulated.
    fn now(&self) -> Option<(Busy, f64)>;
    /// Busy time of the vanilla system, or the reason why it is unknown.
    fn vanilla(&self) -> Result<Busy, String>;
    /// Operations so far of the volume and of the vanilla system, and their cost. `None` if the
    /// device does not count operations.
    fn operations(&self) -> Option<Counted> {
        None
    }
    /// Whether the area lies on another device: writes to it are no work of the disk.
    fn area_elsewhere(&self) -> bool {
        false
    }
    /// The method of the comparison, in a sentence.
    fn note(&self) -> String;
}

/// Disk times that the guard compares, in seconds since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// Of the vanilla system.
    pub vanilla_s: f64,
    /// Of the volume, background work counted.
    pub actual_s: f64,
    /// The recent error of the calibrated model, as a share of the measured service times.
    pub model_error: Option<f64>,
    /// True if the times are measured, because the model does not fit.
    pub measured: bool,
}

/// Operations as a provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// For the I/Os that were sent.
    pub now: Operations,
    /// Of the vanilla system.
    pub vanilla: Operations,
    /// Their cost beside their time.
    pub toll: Toll,
}

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

/// The kind of disk that is assumed for a backing, where nobody has named one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// The disk rotates, or the kernel does not say: a nearline disk of today.
    Rotating,
    /// The disk has no moving parts.
    Flash,
}

impl StandIn {
    /// For a file or block device, from what the kernel says of its disk.
    pub fn of(backing: &Path) -> Self {
        if identity::rotates(backing) == Some(false) { Self::Flash } else { Self::Rotating }
    }

    /// The name of the assumed disk.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotating => "exos-x20",
            Self::Flash => "sata-ssd",
        }
    }

    /// The shadow of a volume on the assumed disk, which is as large as the volume needs.
    pub fn shadow(self) -> MakeShadow {
        Box::new(move |engine| {
            let held = engine.capacity + engine.area;
            let spec = match self {
                Self::Rotating => catalogue::nearline(held.bytes()).map(DeviceSpec::from),
                Self::Flash => catalogue::device(self.name()),
            };
            let mut spec = spec.map_err(|e| e.to_string())?;
            if let DeviceSpec::Volume(flash) = &mut spec {
                flash.capacity_sectors = flash.capacity_sectors.max(held.0);
            }
            let disk = Device::new(&spec).map_err(|e| e.to_string())?;
            disk_shadow(disk, Scheduler::Fcfs, SpinDown::default(), false)(engine)
        })
    }
}

struct DiskShadow {
    vanilla: Result<Simulation, SimError>,
    /// The vanilla system's clock shows the volume's time. If the two began apart, their platters
    /// would stand differently at each request, and the times of rotation would differ.
    started: bool,
    /// Where writes of both systems go.
    mode: Mode,
    /// Time of the latest I/O.
    seen: SimTime,
    /// The modelled disk for the I/Os that were sent; none if the volume's own disk is emulated.
    model: Option<Model>,
}

struct Model {
    drive: Drive,
    home: Sectors,
    now: SimTime,
    busy: Phases,
    moving_s: f64,
    /// The area lies on another device, whose I/Os are no work of this disk.
    area_elsewhere: bool,
    /// I/Os of this interval, with their modelled times; `None` of an area elsewhere.
    ios: Vec<(IoSample, Option<ServiceTime>)>,
    real: Real,
}

/// Disk times of the real device, by the calibrated model and by measured service times.
#[derive(Default)]
struct Real {
    calibration: Calibration,
    /// End of the latest measured read, of the disk and of an area elsewhere.
    free: [SimTime; 2],
    /// Modelled time of the vanilla system that is compared already.
    vanilla: ServiceTime,
    compared: Compared,
}

impl Real {
    fn fits(&self) -> bool {
        self.calibration.error().is_none_or(|e| e <= FITS)
    }

    /// The volume's I/Os of an interval in the order of their ends, and the vanilla system's modelled
    /// time so far. One fit, that of the interval's begin, predicts the times of both systems.
    fn look(&mut self, ios: &[(IoSample, Option<ServiceTime>)], vanilla: Option<ServiceTime>) {
        let (fit, fits) = (self.calibration.clone(), self.fits());
        let expected_s = |modelled| {
            if fits { fit.predict(modelled) } else { fit.measured_like(modelled) }
        };
        for (io, modelled) in ios {
            let predicted_s = modelled.map(|modelled| fit.predict(modelled));
            let measured_s = self.measured_s(io, predicted_s);
            self.compared.actual_s += match (modelled, measured_s) {
                (Some(modelled), None) => expected_s(*modelled),
                (Some(modelled), Some(_)) if fits => expected_s(*modelled),
                (_, measured_s) => measured_s.unwrap_or(0.0),
            };
            if let (Some(modelled), Some(measured_s)) = (modelled, measured_s) {
                self.calibration.observe(*modelled, measured_s);
            }
        }
        if let Some(total) = vanilla {
            self.compared.vanilla_s += expected_s(total.since(self.vanilla));
            self.vanilla = total;
        }
        self.compared.model_error = self.calibration.error();
        self.compared.measured = !self.fits();
    }

    /// The measured time of an I/O. Of reads in flight together, each counts from the end of the one
    /// before.
    fn measured_s(&mut self, io: &IoSample, predicted_s: Option<f64>) -> Option<f64> {
        let free = &mut self.free[usize::from(predicted_s.is_none())];
        let end = io.at + io.took?;
        let began = io.at.max(*free);
        *free = end.max(*free);
        let ms = end.since(began.min(end)).as_millis_f64();
        Some(without_stall(ms, predicted_s.unwrap_or(0.0) * 1e3) / 1e3)
    }
}

impl DiskShadow {
    fn new(
        disk: Device,
        (scheduler, spin_down): (Scheduler, SpinDown),
        engine: Config,
        emulated: bool,
    ) -> Result<Self, SimError> {
        let home = engine.capacity;
        let area_elsewhere = !emulated && !engine.toll.area;
        let model = (!emulated).then(|| Model {
            drive: Drive::new(disk.clone(), scheduler),
            home,
            now: SimTime::ZERO,
            busy: Phases::default(),
            moving_s: 0.0,
            area_elsewhere,
            ios: Vec::new(),
            real: Real::default(),
        });
        let (area_at, replay) = (Lba(home.0), Replay::Open);
        let config = SimConfig { engine, area_at, scheduler, spin_down, replay };
        let mut vanilla = Simulation::new(disk, vanilla_of(&config))?;
        if area_elsewhere {
            vanilla.place_area_elsewhere();
        }
        let (vanilla, mode, seen) = (Ok(vanilla), engine.mode, SimTime::ZERO);
        Ok(Self { vanilla, started: false, mode, seen, model })
    }
}

impl Shadow for DiskShadow {
    fn request(&mut self, request: &Request) {
        if let Ok(sim) = &mut self.vanilla {
            // The volume refused a request past its end too.
            let home = request.extent.end();
            let fits = sim.capacity() >= Sectors(home.0);
            let first = !std::mem::replace(&mut self.started, true);
            let since = if first { request.arrival.since(sim.now()) } else { Duration::ZERO };
            let result = if fits {
                sim.settle_below(DEPTH)
                    .and_then(|()| sim.pass(since))
                    .and_then(|()| sim.offer(request))
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
            && let Err(error) = sim.settle_below(1).and_then(|()| sim.pass_until(self.seen))
        {
            self.vanilla = Err(error);
        }
    }

    fn io(&mut self, io: &IoSample) {
        self.seen = self.seen.max(io.at);
        if let Some(model) = &mut self.model {
            model.ios.push((*io, None));
        }
    }

    fn mode(&mut self, mode: Mode) {
        let changed = std::mem::replace(&mut self.mode, mode) != mode;
        if let Some(sim) = self.vanilla.as_mut().ok().filter(|_| changed) {
            sim.set_mode(mode);
        }
    }

    fn now(&self) -> Option<(Busy, f64)> {
        self.model.as_ref().map(|m| (busy(&m.busy, active_j(&m.drive.usage(m.now))), m.moving_s))
    }

    fn vanilla(&self) -> Result<Busy, String> {
        match &self.vanilla {
            Ok(sim) => Ok(busy(&all_of(sim), active_j(&sim.usage()))),
            Err(error) => Err(format!("the simulation of the vanilla system stopped: {error}")),
        }
    }

    fn look(&mut self) {
        if let Some(model) = &mut self.model {
            model.look(self.vanilla.as_ref().ok().map(|sim| parts(&all_of(sim))));
        }
    }

    fn compared(&self) -> Option<Compared> {
        self.vanilla.as_ref().ok()?;
        Some(self.model.as_ref()?.real.compared)
    }

    fn operations(&self) -> Option<Counted> {
        let now = self.model.as_ref()?.drive.operations()?;
        let (vanilla, toll) = self.vanilla.as_ref().ok()?.operations();
        Some(Counted { now, vanilla, toll })
    }

    fn area_elsewhere(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.area_elsewhere)
    }

    fn note(&self) -> String {
        format!(
            "modelled: the same requests without copies, with the same RAM, read-ahead and scheduler, and at most {DEPTH} in flight"
        )
    }
}

impl Model {
    /// Serves the I/Os of an interval in the order of arrival, as the vanilla system's: a real disk
    /// would sort those of both.
    fn look(&mut self, vanilla: Option<ServiceTime>) {
        let mut ios = std::mem::take(&mut self.ios);
        ios.sort_by_key(|(io, _)| io.at);
        for (io, modelled) in &mut ios {
            *modelled = self.serve(io);
        }
        ios.sort_by_key(|(io, _)| io.at + io.took.unwrap_or_default());
        self.real.look(&ios, vanilla);
        ios.clear();
        self.ios = ios;
    }

    /// The modelled time of the next I/O of the disk, at its arrival or when the disk is free.
    fn serve(&mut self, io: &IoSample) -> Option<ServiceTime> {
        let mut extent = io.extent;
        match io.target {
            Target::Area if self.area_elsewhere => return None,
            Target::Area => extent.start = extent.start + self.home,
            Target::Home => {}
        }
        self.now = self.now.max(io.at);
        let command = Command { background: io.background, ..Command::new(0, io.op, extent) };
        let before = parts(&self.busy);
        if self.drive.submit_with(self.now, command, io.flags).is_err() {
            return Some(ServiceTime::default());
        }
        while let Some(at) = self.drive.next_event() {
            self.now = self.now.max(at);
            while let Some(done) = self.drive.poll(self.now) {
                self.busy.add(&done.access);
                if io.background {
                    self.moving_s += done.access.total().as_secs_f64();
                }
            }
        }
        Some(parts(&self.busy).since(before))
    }
}

/// The time that a system takes for clients and for its background work.
fn all_of(sim: &Simulation) -> Phases {
    sim.so_far().foreground + sim.so_far().background
}

fn parts(busy: &Phases) -> ServiceTime {
    ServiceTime {
        positioning_s: (busy.overhead + busy.seek + busy.rotation).as_secs_f64(),
        transfer_s: busy.transfer.as_secs_f64(),
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

#[cfg(test)]
mod tests;
