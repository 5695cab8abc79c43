//! The vanilla system beside a live volume: the same requests in the simulator, without copies.
//! Without an emulated disk, also a modelled disk for the I/Os that were sent. The volume does not
//! depend on it.

use std::path::Path;

use seekless_block::{Duration, Lba, Op, Request, Sectors, SimTime, Toll};
use seekless_disk::{
    Command, Device, DeviceSpec, Drive, Operations, Scheduler, SpinDown, Usage, catalogue,
};
use seekless_engine::{Config, Target};
use seekless_learn::without_stall;
use seekless_sim::{Phases, Replay, SimConfig, SimError, Simulation};

use crate::backend::identity;
use crate::calibration::{Calibration, Parts};
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
    /// Operations so far, of the volume and of the vanilla system, if the device counts them; and what
    /// they cost.
    fn operations(&self) -> Option<Counted> {
        None
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

impl Counted {
    /// Times for the guard, with the price of the operations.
    pub(crate) fn priced(&self, times: Compared) -> Compared {
        let price_s = |o: &Operations| self.toll.price(o.reads, o.writes).as_secs_f64();
        Compared {
            vanilla_s: times.vanilla_s + price_s(&self.vanilla),
            actual_s: times.actual_s + price_s(&self.now),
            ..times
        }
    }
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
    #[must_use]
    pub fn of(backing: &Path) -> Self {
        if identity::rotates(backing) == Some(false) { Self::Flash } else { Self::Rotating }
    }

    /// The name of the assumed disk.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotating => "exos-x20",
            Self::Flash => "sata-ssd",
        }
    }

    /// The shadow of a volume on the assumed disk, which is as large as the volume needs.
    #[must_use]
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
    /// The modelled disk for the I/Os that were sent; none if the volume's own disk is emulated.
    model: Option<Model>,
}

struct Model {
    drive: Drive,
    home: Sectors,
    now: SimTime,
    busy: Phases,
    moving_s: f64,
    /// Operations that the provider counts: without those of an area that lies elsewhere.
    operations: Operations,
    area_counts: bool,
    real: Real,
}

/// Disk times of the real device, by the calibrated model and by measured service times.
#[derive(Default)]
struct Real {
    calibration: Calibration,
    /// End of the latest measured read.
    free: SimTime,
    /// Modelled time of the vanilla system that is compared already.
    vanilla: Parts,
    compared: Compared,
}

impl Real {
    fn fits(&self) -> bool {
        self.calibration.error().is_none_or(|e| e <= FITS)
    }

    /// One I/O of the volume, with its modelled time.
    fn io(&mut self, io: &IoSample, modelled: Parts) {
        let predicted_s = self.calibration.predict(modelled);
        let measured_s = io.took.map(|took| {
            // Of reads in flight together, each counts from the end of the one before.
            let end = io.at + took;
            let began = io.at.max(self.free);
            self.free = self.free.max(end);
            let ms = end.since(began.min(end)).as_millis_f64();
            without_stall(ms, predicted_s * 1e3) / 1e3
        });
        self.compared.actual_s +=
            if self.fits() { None } else { measured_s }.unwrap_or(predicted_s);
        if let Some(measured_s) = measured_s {
            self.calibration.observe(modelled, measured_s);
        }
    }

    /// The vanilla system's modelled time so far.
    fn vanilla(&mut self, total: Parts) {
        let new = total.since(self.vanilla);
        self.vanilla = total;
        self.compared.vanilla_s += if self.fits() {
            self.calibration.predict(new)
        } else {
            self.calibration.measured_like(new)
        };
        self.compared.model_error = self.calibration.error();
        self.compared.measured = !self.fits();
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
        let model = (!emulated).then(|| Model {
            drive: Drive::new(disk.clone(), scheduler),
            home,
            now: SimTime::ZERO,
            busy: Phases::default(),
            moving_s: 0.0,
            operations: Operations::default(),
            area_counts: engine.toll.area,
            real: Real::default(),
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
        Ok(Self { vanilla: Ok(Simulation::new(disk, config)?), started: false, model })
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

    fn look(&mut self) {
        if let (Some(model), Ok(sim)) = (&mut self.model, &self.vanilla) {
            model.real.vanilla(parts(&sim.so_far().foreground));
        }
    }

    fn compared(&self) -> Option<Compared> {
        self.vanilla.as_ref().ok()?;
        Some(self.model.as_ref()?.real.compared)
    }

    fn operations(&self) -> Option<Counted> {
        let model = self.model.as_ref()?;
        model.drive.operations()?;
        let (vanilla, toll) = self.vanilla.as_ref().ok()?.operations();
        Some(Counted { now: model.operations, vanilla, toll })
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
        let counted = self.drive.operations().unwrap_or_default();
        if self.drive.submit(self.now, command).is_err() {
            return;
        }
        let before = parts(&self.busy);
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
        let new = self.drive.operations().unwrap_or_default().since(&counted);
        if self.area_counts || io.target == Target::Home {
            self.operations.reads += new.reads;
            self.operations.writes += new.writes;
            self.operations.background += new.background;
        }
        self.real.io(io, parts(&self.busy).since(before));
    }
}

fn parts(busy: &Phases) -> Parts {
    Parts {
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
mod tests {
    use proptest::prelude::Rng as _;
    use proptest::test_runner::{RngAlgorithm, TestRng};
    use seekless_block::Extent;
    use seekless_disk::Disk;

    use super::*;

    /// A volume of 16 GiB without RAM reads at random from a disk of the catalogue whose times are
    /// multiplied. Of the second half: the measured seconds, and those that the guard compares.
    fn served(real: &str, factor: impl Fn(u64) -> f64) -> (f64, Compared) {
        let capacity = Sectors(16 << 21);
        let mut shadow = StandIn::Rotating.shadow()(&Config::new(capacity)).unwrap();
        let mut disk = Disk::new(&catalogue::get(real).unwrap()).unwrap();
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[26; 32]);
        let (mut at, mut measured_s, mut half) = (SimTime::ZERO, 0.0, Compared::default());
        for i in 0..8_000 {
            let start = random.next_u64() % (capacity.0 - 1_024);
            let extent = Extent::new(start, 8 + random.next_u64() % 4 * 256);
            let access = disk.access(at, Op::Read, extent).unwrap();
            let took = Duration((access.total().0 as f64 * factor(i)) as u64);
            if i == 4_000 {
                (measured_s, half) = (0.0, shadow.compared().unwrap());
            }
            shadow.request(&Request::new(at, Op::Read, extent));
            let (target, background) = (Target::Home, false);
            let took_s = Some(took);
            shadow.io(&IoSample { at, target, op: Op::Read, extent, background, took: took_s });
            shadow.quiet();
            shadow.look();
            at += took;
            measured_s += took.as_secs_f64();
        }
        let end = shadow.compared().unwrap();
        let (vanilla_s, actual_s) = (end.vanilla_s - half.vanilla_s, end.actual_s - half.actual_s);
        (measured_s, Compared { vanilla_s, actual_s, ..end })
    }

    fn is_close(one: f64, other: f64, share: f64) -> bool {
        (one - other).abs() < share * other
    }

    #[test]
    fn a_stand_in_takes_on_the_times_of_the_real_disk() {
        for real in ["wd800jb", "travelstar-5k320", "cheetah15k5"] {
            let (measured_s, compared) = served(real, |_| 1.0);
            assert!(!compared.measured, "{real}: {compared:?}");
            assert!(is_close(compared.actual_s, measured_s, 0.05), "{real}: {compared:?}");
            assert!(is_close(compared.vanilla_s, measured_s, 0.05), "{real}: {compared:?}");
        }
    }

    #[test]
    fn where_the_model_does_not_fit_measured_times_count() {
        let (measured_s, compared) =
            served("wd800jb", |i| if (i / 300).is_multiple_of(2) { 0.2 } else { 3.0 });
        assert!(compared.measured && compared.model_error > Some(0.1), "{compared:?}");
        assert!(is_close(compared.actual_s, measured_s, 0.01), "{measured_s} {compared:?}");
        assert!(is_close(compared.vanilla_s, measured_s, 0.25), "{measured_s} {compared:?}");
    }

    /// Ten times, a read takes 20 seconds.
    #[test]
    fn a_stall_counts_for_nobody() {
        let stalls = |i: u64| if i > 4_000 && i.is_multiple_of(400) { 2_000.0 } else { 1.0 };
        let (measured_s, compared) = served("wd800jb", stalls);
        assert!(measured_s > 150.0 && !compared.measured, "{measured_s} {compared:?}");
        let behind_s = compared.actual_s - compared.vanilla_s;
        assert!(behind_s.abs() < 1.0, "{compared:?}");
        assert!(compared.actual_s < 100.0, "{compared:?}");
    }

    /// Reads of a volume that an object store holds; every second I/O goes to an area here.
    #[test]
    fn a_provider_counts_what_reaches_it() {
        let spec = catalogue::device("object-store").unwrap();
        let disk = Device::new(&spec).unwrap();
        let toll = Toll { area: false, ..spec.toll() };
        let config = Config { toll, area: Sectors(1 << 11), ..Config::new(Sectors(16 << 21)) };
        let make = disk_shadow(disk, Scheduler::Fcfs, SpinDown::None, false);
        let mut shadow = make(&config).unwrap();
        for i in 0..10 {
            let at = SimTime(i * 1_000_000_000);
            let extent = Extent::new(i * 32_768, 8);
            shadow.request(&Request::new(at, Op::Read, extent));
            let target = if i % 2 == 0 { Target::Home } else { Target::Area };
            let extent = if i % 2 == 0 { extent } else { Extent::new(0, 8) };
            let (op, background, took) = (Op::Read, false, None);
            shadow.io(&IoSample { at, target, op, extent, background, took });
        }
        shadow.quiet();
        let counted = shadow.operations().unwrap();
        assert_eq!((counted.now.reads, counted.vanilla.reads), (5, 10));
        // $0.4 a million reads; the volume is held for $0.023 a GiB and month of 730 hours.
        let a_read_s = 0.4e-6 / (0.023 * 1024.0 / (730.0 * 3600.0));
        let priced = counted.priced(Compared::default());
        assert!((priced.actual_s - 5.0 * a_read_s).abs() < 1e-6, "{priced:?}");
        assert!((priced.vanilla_s - 10.0 * a_read_s).abs() < 1e-6, "{priced:?}");
        let disk = StandIn::Rotating.shadow()(&config).unwrap();
        assert_eq!(disk.operations(), None, "a disk sends no bill");
    }

    #[test]
    fn a_stand_in_is_as_large_as_its_volume() {
        for bytes in [1 << 20, 250_000_000_000, 36_000_000_000_000, 200_000_000_000_000] {
            let config = Config::new(Sectors(bytes / 512));
            for stand_in in [StandIn::Rotating, StandIn::Flash] {
                let shadow = stand_in.shadow()(&config);
                assert!(shadow.is_ok(), "{stand_in:?} of {bytes}: {:?}", shadow.err());
            }
        }
    }
}
