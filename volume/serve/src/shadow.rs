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
mod tests {
    use proptest::prelude::Rng as _;
    use proptest::test_runner::{RngAlgorithm, TestRng};
    use seekless_block::{Extent, Flags, Op};
    use seekless_disk::Disk;

    use super::*;

    const CAPACITY: Sectors = Sectors(16 << 21);

    /// An I/O of a client at home, whose time is unknown.
    fn io(at: SimTime, op: Op, extent: Extent) -> IoSample {
        let (target, flags) = (Target::Home, Flags::NONE);
        IoSample { at, target, op, extent, flags, background: false, took: None }
    }

    /// A served disk of the catalogue, and random places on it.
    fn on(name: &str, config: Config) -> (Box<dyn Shadow>, impl FnMut() -> Extent) {
        let disk = Device::new(&catalogue::device(name).unwrap()).unwrap();
        let make = disk_shadow(disk, Scheduler::Fcfs, SpinDown::None, false);
        (make(&config).unwrap(), places())
    }

    fn places() -> impl FnMut() -> Extent {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[27; 32]);
        move || Extent::new(random.next_u64() % (CAPACITY.0 / 8 - 1) * 8, 8)
    }

    /// A volume of 16 GiB without RAM reads at random from a disk of the catalogue whose times are
    /// multiplied, and writes after some of the reads. Of the second half: the measured seconds, and
    /// those that the guard compares.
    fn served(
        real: &str,
        factor: impl Fn(u64) -> f64,
        writes: impl Fn(u64) -> u64,
    ) -> (f64, Compared) {
        let capacity = CAPACITY;
        let mut place = places();
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
            shadow.io(&IoSample { took: Some(took), ..io(at, Op::Read, extent) });
            at += took;
            for _ in 0..writes(i) {
                let extent = place();
                shadow.request(&Request::new(at, Op::Write, extent));
                shadow.io(&io(at, Op::Write, extent));
                at += disk.access(at, Op::Write, extent).unwrap().total();
            }
            shadow.quiet();
            shadow.look();
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
            let (measured_s, compared) = served(real, |_| 1.0, |_| 0);
            assert!(!compared.measured, "{real}: {compared:?}");
            assert!(is_close(compared.actual_s, measured_s, 0.05), "{real}: {compared:?}");
            assert!(is_close(compared.vanilla_s, measured_s, 0.05), "{real}: {compared:?}");
        }
    }

    #[test]
    fn where_the_model_does_not_fit_measured_times_count() {
        let factor = |i: u64| if (i / 300).is_multiple_of(2) { 0.2 } else { 3.0 };
        let (measured_s, compared) = served("wd800jb", factor, |_| 0);
        assert!(compared.measured && compared.model_error > Some(0.1), "{compared:?}");
        assert!(is_close(compared.actual_s, measured_s, 0.01), "{measured_s} {compared:?}");
        assert!(is_close(compared.vanilla_s, measured_s, 0.25), "{measured_s} {compared:?}");
    }

    /// Reads among writes take twice as long. Nobody measures the writes.
    #[test]
    fn writes_count_alike_for_both_systems_where_the_model_does_not_fit() {
        let slow = |i: u64| (i / 1_200).is_multiple_of(2);
        let factor = |i| if slow(i) { 2.0 } else { 1.0 };
        let compared = served("wd800jb", factor, |i| if slow(i) { 3 } else { 0 }).1;
        assert!(is_close(compared.actual_s, compared.vanilla_s, 0.03), "{compared:?}");
    }

    /// Eight reads in flight, which the disk serves in the order of their addresses.
    #[test]
    fn a_disk_that_sorts_its_queue_sorts_it_for_both_systems() {
        let (mut shadow, mut place) = on("wd800jb", Config::new(CAPACITY));
        let mut disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
        let mut now = SimTime(0);
        for _ in 0..500 {
            let mut ios: Vec<_> =
                (0..8).map(|i| io(now + Duration(i), Op::Read, place())).collect();
            for io in &ios {
                shadow.request(&Request::new(io.at, Op::Read, io.extent));
            }
            ios.sort_by_key(|io| io.extent.start);
            for io in &ios {
                now += disk.access(now, Op::Read, io.extent).unwrap().total();
                shadow.io(&IoSample { took: Some(now.since(io.at)), ..*io });
            }
            shadow.look();
        }
        shadow.quiet();
        shadow.look();
        let compared = shadow.compared().unwrap();
        assert!(is_close(compared.actual_s, compared.vanilla_s, 0.05), "{compared:?}");
    }

    #[test]
    fn flushes_and_forced_writes_cost_both_systems_the_same() {
        let (mut shadow, mut place) = on("maxtor-6l020", Config::new(CAPACITY));
        let mut now = SimTime(0);
        for i in 0..1_000 {
            let forced = if i % 3 == 0 { Flags::FUA } else { Flags::NONE };
            for (op, flags, extent) in
                [(Op::Write, forced, place()), (Op::Flush, Flags::NONE, Extent::default())]
            {
                shadow.request(&Request { flags, ..Request::new(now, op, extent) });
                shadow.io(&IoSample { flags, ..io(now, op, extent) });
                now += Duration::from_millis(if op == Op::Flush { 50 } else { 1 });
            }
            shadow.look();
        }
        shadow.quiet();
        shadow.look();
        let compared = shadow.compared().unwrap();
        assert!(compared.vanilla_s > 2.0, "{compared:?}");
        assert!(is_close(compared.actual_s, compared.vanilla_s, 0.01), "{compared:?}");
    }

    /// As many reads of a fast device as of the disk: they are measured, and fit no disk to
    /// themselves.
    #[test]
    fn an_area_elsewhere_counts_its_measured_reads() {
        let config = Config { area: Sectors(1 << 11), ..Config::new(CAPACITY) };
        let (mut shadow, mut place) = on("wd800jb", config);
        assert!(shadow.area_elsewhere());
        let mut disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
        let (mut now, fast) = (SimTime(0), Duration::from_millis(1));
        for _ in 0..2_000 {
            let extent = place();
            shadow.request(&Request::new(now, Op::Read, extent));
            let took = disk.access(now, Op::Read, extent).unwrap().total();
            shadow.io(&IoSample { took: Some(took), ..io(now, Op::Read, extent) });
            now += took;
            let area = io(now, Op::Read, Extent::new(0, 8));
            shadow.io(&IoSample { target: Target::Area, took: Some(fast), ..area });
            now += fast;
            shadow.quiet();
            shadow.look();
        }
        let compared = shadow.compared().unwrap();
        let more_s = compared.actual_s - compared.vanilla_s;
        assert!(is_close(more_s, 2.0, 0.01), "{compared:?}");
        let measured_s = now.since(SimTime(0)).as_secs_f64() - 2.0;
        assert!(is_close(compared.vanilla_s, measured_s, 0.02), "{measured_s} {compared:?}");
    }

    /// The adaptive policy adds nothing to a write buffer, and takes nothing from it.
    #[test]
    fn the_vanilla_system_has_the_write_buffer_of_the_volume() {
        let config = Config { area: Sectors(64 << 11), adaptive: true, ..Config::new(CAPACITY) };
        let config = Config {
            cache_bytes: seekless_block::Bytes(1 << 20),
            toll: Toll { area: true, ..Toll::default() },
            ..config.with_write_buffer(50, Duration::ZERO)
        };
        let (mut shadow, mut place) = on("wd800jb", config);
        assert!(!shadow.area_elsewhere());
        let mut now = SimTime(0);
        let mut seconds = |shadow: &mut Box<dyn Shadow>| {
            let before = shadow.vanilla().unwrap().total_s();
            for _ in 0..1_000 {
                shadow.request(&Request::new(now, Op::Write, place()));
                now += Duration::from_millis(20);
            }
            shadow.quiet();
            shadow.vanilla().unwrap().total_s() - before
        };
        let buffered = seconds(&mut shadow);
        shadow.mode(Mode::WriteThrough);
        seconds(&mut shadow);
        let through = seconds(&mut shadow);
        shadow.mode(Mode::WriteBack);
        let again = seconds(&mut shadow);
        let less = 0.8 * through;
        assert!(buffered < less && again < less, "{buffered}, {through}, {again} s");
    }

    /// Ten times, a read takes 20 seconds.
    #[test]
    fn a_stall_counts_for_nobody() {
        let stalls = |i: u64| if i > 4_000 && i.is_multiple_of(400) { 2_000.0 } else { 1.0 };
        let (measured_s, compared) = served("wd800jb", stalls, |_| 0);
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
            shadow.io(&IoSample { target, ..io(at, Op::Read, extent) });
        }
        shadow.quiet();
        shadow.look();
        let counted = shadow.operations().unwrap();
        assert_eq!((counted.now.reads, counted.vanilla.reads), (5, 10));
        // $0.4 a million reads; the volume is held for $0.023 a GiB and month of 730 hours.
        let a_read_s = 0.4e-6 / (0.023 * 1024.0 / (730.0 * 3600.0));
        let price = counted.toll.price(5, 0).as_secs_f64();
        assert!((price - 5.0 * a_read_s).abs() < 1e-6, "{price}");
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
