//! An engine under test, by its interface to a driver.

use std::ops::Range;

use seekless_block::{Bytes, Duration, Extent, Lba, PAGE_SECTORS, Sectors, SimTime, Toll};
use seekless_engine::format::{AreaFlags, Contents, Geometry, page_extent, read_superblock};
use seekless_engine::{
    AttachError, Config, Engine, FormatOptions, GuardStep, Guarding, HomeGuard, Input, Mode,
    Output, PageSum, Proof, Repair, Scrubbed, Stats, attach, examine, format_area, repair,
    resizable, resize_area,
};

use super::medium::Disk;

/// Setup of devices and engine. Sizes are small, so that rare events are frequent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Home's sectors.
    pub(crate) home: u64,
    /// The area's sectors.
    pub(crate) area: u64,
    /// Sectors before the first home page, 0 to 7.
    pub(crate) grid: u64,
    /// Pages of a segment.
    pub(crate) segment_pages: u32,
    /// Share of the segments that are the write buffer, in percent.
    pub(crate) write_buffer_percent: u8,
    /// Most sectors of replicas in discarded pages; 0 if copies stand in the area.
    pub(crate) replicas: u64,
    /// A client waits for replicas.
    pub(crate) soon: bool,
    /// How many replicas a page may have.
    pub(crate) degree: u32,
    /// The device of the area.
    pub(crate) placement: Placement,
    /// Whether it begins with write-back.
    pub(crate) write_back: bool,
    /// Pages of RAM; 0 for none.
    pub(crate) cache_pages: u64,
    /// Read-ahead in bytes.
    pub(crate) read_ahead: u64,
    /// A read of the area is widened to this many bytes.
    pub(crate) cluster: u64,
    /// Length of a buffer in bytes.
    pub(crate) buffer_bytes: u64,
    /// Length of the staging memory in bytes.
    pub(crate) stage_bytes: u64,
    /// Most records of the log in RAM.
    pub(crate) records: u32,
    /// How long an absorbed write may stay in RAM, in nanoseconds.
    pub(crate) gather: u64,
    /// Background bytes per second; 0 for no limit.
    pub(crate) background_rate: u64,
    /// Most reads and writes take effect at once.
    pub(crate) at_once: bool,
    /// One cache serves home and area.
    pub(crate) shared: bool,
    /// After a failed flush the host forgets sectors of home, as Linux does.
    pub(crate) forgets: bool,
    /// And sectors of the area.
    pub(crate) area_forgets: bool,
    /// Sectors of each end of home that stand in a guard region while the guard is up.
    pub(crate) ends: u64,
    /// The adaptive policy chooses what a miss reads.
    pub(crate) adaptive: bool,
    /// Pages that it appends in one piece; 0: there is no trail.
    pub(crate) append_pages: u32,
    /// Every other life is without it, or with it.
    pub(crate) toggles: bool,
    /// Copies of plans are written in place.
    pub(crate) in_place: bool,
    /// Every other life is without it, or with it.
    pub(crate) in_place_toggles: bool,
    /// How long a read of home takes, in nanoseconds.
    pub(crate) home_nanos: u64,
    /// Every other life only drains the area, and serves nobody.
    pub(crate) drains: bool,
    /// This life is such a one.
    pub(crate) to_drain: bool,
    /// First sector and number of the sectors that no file system used when the area was made.
    pub(crate) unused: (u64, u64),
}

impl Setup {
    /// Write-back, no RAM, two caches.
    pub(crate) fn plain() -> Self {
        Self {
            home: 320,
            area: 1280,
            segment_pages: 8,
            write_buffer_percent: 60,
            degree: 2,
            write_back: true,
            buffer_bytes: 1 << 16,
            stage_bytes: 1 << 16,
            records: u32::MAX,
            append_pages: 1,
            ..Self::default()
        }
    }

    /// Whether copies stand on a trail, in the order of use.
    pub(crate) const fn has_trail(&self) -> bool {
        self.adaptive && self.append_pages > 0 && self.replicas == 0 && self.cache_pages > 0
    }
}

/// The device of the area, which decides whether others can write home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Home's own device, which nobody can mount without the area.
    #[default]
    SameDevice,
    /// Another device, with space for a guard: somebody else may write home while the guard is
    /// down.
    Elsewhere,
    /// Another device, without space for a guard.
    ElsewhereUnguarded,
}

impl Placement {
    /// The guard's state for a driver that finds home like this.
    pub(crate) const fn guard(self, up: Option<u64>) -> HomeGuard {
        match self {
            Self::SameDevice => HomeGuard::SameDevice,
            Self::ElsewhereUnguarded => HomeGuard::Missing,
            Self::Elsewhere => match up {
                Some(generation) => HomeGuard::Up(generation),
                None => HomeGuard::Down,
            },
        }
    }
}

/// The end of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mended {
    /// Lost: home's newest bytes of these sectors, or of any sectors if `None`.
    But(Option<Vec<Extent>>),
    /// Data would be lost: nothing was written.
    WouldLose,
}

/// Why an engine refuses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The engine reports damage.
    Damaged(String),
    /// Any other reason.
    Other(String),
}

/// An engine under test. An error is the reason of a failure.
pub(crate) trait Machine: Sized {
    /// Damage of one sector of its log is repaired or reported, even if nothing written later confirms
    /// that the sector was flushed.
    const HEALS: bool = false;
    /// The engine; `None` of a toy.
    fn engine(&self) -> Option<&Engine> {
        None
    }
    /// Makes a new area. Its name differs from the names of former areas there.
    fn format(setup: &Setup, area: &mut Disk, name: u8) -> Result<(), String>;
    /// Divides the area again, for its size and home's size now. False if there is no area.
    fn resize(setup: &Setup, area: &mut Disk) -> Result<bool, String>;
    /// Repairs an area; `lose` allows losses.
    fn repair(area: &mut Disk, lose: bool) -> Result<Mended, String>;
    /// Attaches the devices, with the knowledge about home: the stamp changes when somebody else
    /// writes there. Returns the area's generation, and whether the guard must be up before the
    /// first request.
    fn attach(
        setup: &Setup,
        area: &mut Disk,
        home: &mut Disk,
        proof: &Proof,
    ) -> Result<(Self, u64, bool), Refused>;
    /// The mover of home's guard, for a machine that was just attached; none if it needs no guard.
    fn guarding(&self, to_drain: bool) -> Option<Guarding> {
        self.engine().map(|engine| Guarding::new(engine, to_drain))
    }
    /// No file system uses these sectors, as its own tables say before the first client comes.
    fn seed_free(&mut self, _unused: Extent) {}
    /// The generation of the area, if it has one.
    fn generation(_area: &mut Disk) -> Option<u64> {
        None
    }
    /// See [`Guarding::resumes_drain`].
    fn resumes_drain(&self, guarding: Option<&Guarding>, up: bool) -> bool {
        self.engine().zip(guarding).is_some_and(|(engine, g)| g.resumes_drain(engine, up))
    }
    /// See [`Guarding::step`]. No I/O of home's ends is waited for, as a guard moves in no time
    /// here.
    fn guard_step(&self, guarding: &mut Guarding, up: bool) -> GuardStep {
        self.engine().map_or(GuardStep::Rest, |engine| guarding.step(engine, up, || false))
    }
    /// Whether home alone may lack data that clients read, so that nobody must be able to mount it.
    fn needs_guard(&self) -> bool {
        self.engine().is_some_and(|engine| {
            engine.mode() == Mode::WriteBack
                || engine.dirty().0 > 0
                || engine.stained().next().is_some()
                || engine.is_replicating()
        })
    }
    /// The log's sectors in the area.
    fn log(setup: &Setup) -> Range<u64>;
    /// The pages of the superblocks in the area.
    fn superblocks(_: &Setup) -> [u64; 3] {
        [0; 3]
    }
    /// The losses that a check of the area finds; the check writes nothing.
    fn check(area: &mut Disk) -> Vec<String>;
    /// Extents of the area that may be written in place in parts of pages: damage of the other parts
    /// goes unnoticed.
    fn unsummed(_area: &mut Disk) -> Vec<Extent> {
        Vec::new()
    }
    /// Extents of home whose newest bytes a check calls perhaps lost.
    fn perhaps_lost(_area: &mut Disk) -> Vec<Extent> {
        Vec::new()
    }
    /// See [`seekless_engine::Engine::stats`].
    fn stats(&self) -> Stats {
        self.engine().map(Engine::stats).unwrap_or_default()
    }
    /// See [`seekless_engine::Engine::scrubbed`].
    fn scrubbed(&self) -> Scrubbed {
        self.engine().map(Engine::scrubbed).unwrap_or_default()
    }
    /// Capacity for a plan, in sectors.
    fn room(&self) -> u64;
    /// Homes of the clean copies.
    fn standing(&self) -> Vec<Extent> {
        let plans = self.engine().map(Engine::standing).into_iter();
        plans.flat_map(|plan| plan.copies).map(|copy| copy.home).collect()
    }
    /// Copies that are not proven yet, in sectors.
    fn in_doubt(&self) -> u64 {
        self.engine().map_or(0, |engine| engine.in_doubt().0)
    }
    /// Whether home alone may be incomplete.
    fn is_dirty(&self) -> bool {
        self.engine().is_some_and(|engine| engine.dirty().0 > 0)
    }
    /// Whether everything is at home, and nothing is absorbed any more.
    fn is_drained(&self) -> bool {
        self.engine().is_none_or(Engine::is_drained)
    }
    /// Whether the engine names its trouble.
    fn says_why(&self) -> bool;
    /// Sectors that read as zeroes, but may hold bytes of replicas at home.
    fn stained(&self) -> Vec<Extent> {
        self.engine().into_iter().flat_map(Engine::stained).collect()
    }
    /// Whether the engine is detached.
    fn is_detached(&self) -> bool;
    /// See [`seekless_engine::Engine::handle`].
    fn handle(&mut self, now: SimTime, input: Input);
    /// See [`seekless_engine::Engine::poll`].
    fn poll(&mut self) -> Option<Output>;
    /// See [`seekless_engine::Engine::summed`].
    fn summed(&mut self, sums: &[PageSum]);
    /// See [`seekless_engine::Engine::page`].
    fn page(&self, page: u32) -> &[u8] {
        match self.engine() {
            Some(engine) => engine.page(page),
            None => &[],
        }
    }
    /// See [`seekless_engine::Engine::wakeup`].
    fn wakeup(&self) -> Option<SimTime> {
        self.engine().and_then(Engine::wakeup)
    }
}

/// The proof that home is unchanged.
pub(crate) type Stamp = [u8; 32];

impl Machine for Engine {
    const HEALS: bool = true;

    fn engine(&self) -> Option<&Engine> {
        Some(self)
    }

    fn format(setup: &Setup, area: &mut Disk, name: u8) -> Result<(), String> {
        let options = FormatOptions {
            uuid: [name; 16],
            capacity: Sectors(setup.home),
            inside: None,
            grid: Sectors(setup.grid),
            mode: if setup.write_back { Mode::WriteBack } else { Mode::WriteThrough },
            segment_pages: setup.segment_pages,
            write_buffer_percent: setup.write_buffer_percent,
            replicas: Sectors(setup.replicas),
            label: "home".to_owned(),
        };
        format_area(area, &options).map(drop).map_err(|e| format!("{e:?}"))
    }

    fn resize(setup: &Setup, area: &mut Disk) -> Result<bool, String> {
        let Ok(found) = read_superblock(area, Lba(0)) else { return Ok(false) };
        let before = found.superblock;
        let options = FormatOptions {
            uuid: before.uuid.0,
            capacity: Sectors(setup.home),
            inside: None,
            grid: Sectors(before.grid.into()),
            mode: before.mode,
            segment_pages: before.segment_pages,
            write_buffer_percent: setup.write_buffer_percent,
            replicas: Sectors(setup.replicas),
            label: "home".to_owned(),
        };
        let before = resizable(area, &before).map_err(|e| format!("{e:?}"))?;
        resize_area(area, &options, &before).map(|_| true).map_err(|e| format!("{e:?}"))
    }

    fn repair(area: &mut Disk, lose: bool) -> Result<Mended, String> {
        match repair(area, lose).map_err(|e| format!("{e:?}"))? {
            Repair::WouldLose(_) => Ok(Mended::WouldLose),
            Repair::Stopped(_, error) => Err(format!("{error:?}")),
            // Clients may read bytes of other sectors where they discarded: no model knows these.
            Repair::Done(report) if report.stained.is_some() => {
                Err("nothing tells any more which pages are free".to_owned())
            }
            Repair::Done(report) => {
                let cut = report.mended.iter().filter(|f| f.loss).count() > report.lost.len();
                let lost = report.lost.into_iter().chain(report.doubtful).collect();
                Ok(Mended::But((!cut).then_some(lost)))
            }
        }
    }

    fn attach(
        setup: &Setup,
        area: &mut Disk,
        _home: &mut Disk,
        proof: &Proof,
    ) -> Result<(Self, u64, bool), Refused> {
        // All options of a server.
        let config = Config {
            cache_bytes: Bytes(setup.cache_pages * seekless_block::PAGE_BYTES),
            read_ahead: Bytes(setup.read_ahead),
            cluster: Bytes(setup.cluster),
            background_rate: Bytes(setup.background_rate),
            gather: Duration(setup.gather),
            degree: setup.degree,
            adaptive: setup.adaptive,
            in_place: setup.in_place,
            append_pages: setup.append_pages,
            // Reads with a window are one read in half of the histories, two in the others.
            toll: Toll {
                read: Duration(u64::from(setup.append_pages % 2) * 5_000_000),
                ..Toll::default()
            },
            // Memory as small as the devices: a server's memory would hold all of home.
            buffer_bytes: Bytes(setup.buffer_bytes),
            stage_bytes: Bytes(setup.stage_bytes),
            sweep_bytes: Bytes(setup.stage_bytes),
            records: setup.records,
            ..Config::new(Sectors(setup.home))
        };
        let attached = attach(area, config, proof).map_err(|error| match error {
            AttachError::Geometry(_)
            | AttachError::Device(_)
            | AttachError::NoGuard
            | AttachError::Capacity { .. } => Refused::Other(format!("{error:?}")),
            damaged => Refused::Damaged(format!("{damaged:?}")),
        })?;
        let (engine, report) = attached;
        Ok((engine, report.generation, report.needs_guard))
    }

    fn generation(area: &mut Disk) -> Option<u64> {
        read_superblock(area, Lba(0)).ok().map(|found| found.superblock.generation)
    }

    fn superblocks(setup: &Setup) -> [u64; 3] {
        let log = Self::log(setup).start / PAGE_SECTORS;
        [0, log - 1, setup.area / PAGE_SECTORS - 1]
    }

    fn log(setup: &Setup) -> Range<u64> {
        let pages = setup.segment_pages;
        let contents = Contents::new(setup.write_buffer_percent, Sectors(setup.replicas));
        let geometry = Geometry::lasting(Sectors(setup.area), pages, contents);
        let Ok(geometry) = geometry else { return 0..0 };
        let first = geometry.page_of(geometry.read_slots()).unwrap_or_default();
        let log = u64::from(geometry.log_segments()) * u64::from(pages);
        first * PAGE_SECTORS..(first + log) * PAGE_SECTORS
    }

    fn check(area: &mut Disk) -> Vec<String> {
        let found = examine(area).and_then(|e| e.check(area, true, &mut |_| {}));
        match found {
            Ok(found) => found.into_iter().filter(|f| f.loss).map(|f| f.what).collect(),
            Err(error) => vec![format!("{error:?}")],
        }
    }

    fn unsummed(area: &mut Disk) -> Vec<Extent> {
        let Ok(found) = examine(area) else { return Vec::new() };
        let s = found.superblock();
        let in_place = s.flags.contains(AreaFlags::IN_PLACE);
        let Some(geometry) = s.geometry().ok().filter(|_| in_place) else { return Vec::new() };
        let read = found.copies().take_while(|copy| copy.0 < geometry.read_slots());
        read.filter_map(|(slot, ..)| Some(page_extent(geometry.page_of(slot)?, 1))).collect()
    }

    fn perhaps_lost(area: &mut Disk) -> Vec<Extent> {
        examine(area).map_or_else(|_| Vec::new(), |found| found.incomplete().collect())
    }

    fn room(&self) -> u64 {
        self.room().0
    }

    fn seed_free(&mut self, unused: Extent) {
        self.seed_free([unused]);
    }

    fn says_why(&self) -> bool {
        self.trouble().is_some()
    }

    fn is_detached(&self) -> bool {
        self.is_detached()
    }

    fn handle(&mut self, now: SimTime, input: Input) {
        self.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        self.poll()
    }

    fn summed(&mut self, sums: &[PageSum]) {
        self.summed(sums);
    }
}
