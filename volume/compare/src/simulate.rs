//! The comparison: scan, learn, then run every policy over the same measured requests. The trace is read
//! once a pass, so that memory does not grow with its length.

use std::str::FromStr;
use std::time::Instant;

use seekless_block::{Bytes, Duration, Extent, Lba, Request, Sectors, StreamId};
use seekless_disk::{Device, DeviceSpec, RangeError};
use seekless_engine::Config;
use seekless_learn::{
    AccessGraph, Plan, PlanConfig, Planning, Reach, ReplicationRule, Strategy, Training, next_plan,
};
use seekless_sim::{
    Clock, DayCosts, Judged, JudgedConfig, Measured, Replay, SimConfig, SimError, Simulation,
};
use seekless_trace::{OpenOptions, Progress, Reader, Source, TraceError};

use crate::outcome::{Day, Outcome, Run, Split};
use crate::place;
use crate::replicas::{Replicating, Touched, sidecar};
use crate::rolling::{AGES_MAX, DAYS_MIN, Host, judged_config};
use crate::scan::{Boundary, Scan, ScanError};
use crate::shuffle::{self, Shuffle};

/// Edges an access graph keeps: about a gigabyte at the most.
pub const EDGES: usize = 1 << 24;

/// Who decides where copies stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nobody: everything stays home.
    Vanilla,
    /// BORG's planner, trained on what came before.
    Borg,
    /// The same planner and a judge, which go on learning while they serve, and move what has proved itself.
    Judged,
    /// The same planner, trained on what is measured: what perfect foresight would gain.
    Oracle,
    /// By temperature alone, trained on what came before: hottest in the middle of the area.
    OrganPipe,
    /// The same in buckets that double in size.
    Buckets,
    /// The same of the hottest 8%.
    Lazy,
    /// The same by whole megabytes.
    CylinderShuffle,
    /// The same by pieces of 8 KiB.
    BlockShuffle,
    /// Hottest first, in an area that lies where the disk's own curve makes it cheapest.
    OuterZone,
    /// No copies: the disk's cylinders themselves change places, hottest in the middle of the disk, as in the literature.
    CylindersInPlace,
    /// The same by blocks of 8 KiB.
    BlocksInPlace,
    /// Replicas in free space (FS2, SOSP'05): what is read together with the hot region, beside it, in the order of reading.
    Fs2,
    /// The same for all that is read before, in order of address: FS2-static.
    Fs2Static,
    /// As `Fs2`, with whatever is read in short runs, wherever it lies: whole sequences side by side. Not the paper's.
    Fs2Whole,
    /// As `Fs2Whole`, but only of what came again so often before that its replica pays. Not the paper's.
    Fs2Proven,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Vanilla,
        Self::Borg,
        Self::Judged,
        Self::Oracle,
        Self::OrganPipe,
        Self::Buckets,
        Self::Lazy,
        Self::CylinderShuffle,
        Self::BlockShuffle,
        Self::OuterZone,
        Self::CylindersInPlace,
        Self::BlocksInPlace,
        Self::Fs2,
        Self::Fs2Static,
        Self::Fs2Whole,
        Self::Fs2Proven,
    ];

    /// How it lays copies by temperature, where it does.
    const fn by_heat(self) -> Option<Strategy> {
        match self {
            Self::OrganPipe => Some(Strategy::OrganPipe),
            Self::Buckets => Some(Strategy::Buckets),
            Self::Lazy => Some(Strategy::Lazy),
            Self::CylinderShuffle => Some(Strategy::CylinderShuffle),
            Self::BlockShuffle => Some(Strategy::BlockShuffle),
            Self::OuterZone => Some(Strategy::HottestFirst),
            _ => None,
        }
    }

    /// Of how many sectors the units are that change places, where it moves data itself.
    fn in_place(self, options: &Options) -> Option<u64> {
        match self {
            Self::CylindersInPlace => Some(shuffle::cylinder(&options.host.disk)),
            Self::BlocksInPlace => Some(shuffle::BLOCK),
            _ => None,
        }
    }

    /// Whether copies are laid from what came before.
    const fn learns_before(self) -> bool {
        !matches!(self, Self::Vanilla | Self::Judged | Self::Oracle) && !self.replicates()
    }

    /// How it chooses what to replicate as it goes, where it does.
    #[must_use]
    pub const fn rule(self) -> Option<ReplicationRule> {
        match self {
            Self::Fs2 => Some(ReplicationRule::Paper),
            Self::Fs2Whole => Some(ReplicationRule::Whole),
            Self::Fs2Proven => Some(ReplicationRule::Proven),
            _ => None,
        }
    }

    /// Whether it puts replicas into free space.
    #[must_use]
    pub const fn replicates(self) -> bool {
        matches!(self, Self::Fs2Static) || self.rule().is_some()
    }

    /// As on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vanilla => "vanilla",
            Self::Borg => "borg",
            Self::Judged => "judged",
            Self::Oracle => "oracle",
            Self::OrganPipe => "organ-pipe",
            Self::Buckets => "buckets",
            Self::Lazy => "lazy",
            Self::CylinderShuffle => "cylinder-shuffle",
            Self::BlockShuffle => "block-shuffle",
            Self::OuterZone => "outer-zone",
            Self::CylindersInPlace => "cylinders-in-place",
            Self::BlocksInPlace => "blocks-in-place",
            Self::Fs2 => "fs2",
            Self::Fs2Static => "fs2-static",
            Self::Fs2Whole => "fs2-whole",
            Self::Fs2Proven => "fs2-proven",
        }
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
            format!("'{text}' is not a policy: {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Where the optimized area lies on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaAt {
    /// Behind all client addresses.
    End,
    /// Amid them, at the median of the reads learned from; what lies behind is shifted by its size.
    Median,
}

/// How policies are compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the trace is read.
    pub open: OpenOptions,
    /// Only this device of the trace.
    pub device: Option<String>,
    /// The disk and its surroundings.
    pub host: Host,
    /// Which policies, in which order.
    pub policies: Vec<Policy>,
    /// Closed or open loop.
    pub replay: Replay,
    /// Share of the days, or of the requests, to learn from: 0 to 1.
    pub train: f64,
    /// Size of the optimized area, or the most that replicas take.
    pub optimized: Bytes,
    /// Share of the device that is free before a trace without discards, 0 to 1; chosen by `free_seed` among what the trace
    /// never touches.
    pub free: f64,
    /// See `free`.
    pub free_seed: u64,
    /// How many replicas a page may have.
    pub degree: u32,
    /// Share of it that takes in writes, in percent; 0 writes through.
    pub write_buffer: u8,
    /// Where it lies.
    pub area_at: AreaAt,
    /// Learn as if one stream had asked for everything: what a server knows that observes no device.
    pub one_stream: bool,
    /// Weight below which an edge is no reason to place two extents together.
    pub min_weight: u32,
    /// How a layout is learned.
    pub learner: Learner,
}

impl Options {
    /// What a planner may use that fills `area`.
    fn plan_config(&self, area: Sectors) -> PlanConfig {
        let Learner { strategy, planning, .. } = self.learner;
        let reach = Reach::new(self.host.read_ahead, self.host.cluster);
        PlanConfig { area, min_weight: self.min_weight, strategy, planning, reach }
    }
}

/// How a layout is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learner {
    /// In which order copies stand.
    pub strategy: Strategy,
    /// How much of the past counts.
    pub training: Training,
    /// What becomes of the plan in force.
    pub planning: Planning,
}

/// What is going on, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Counting the trace.
    Scan,
    /// Building access graphs.
    Learn,
    /// Running a policy.
    Run(Policy),
}

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing in the trace.
    #[error("{path} holds no requests")]
    Empty {
        /// The trace.
        path: String,
    },
    /// The device asked for is not in the trace.
    #[error("{path} has no requests of device '{device}'; its devices: {names}")]
    NoSuchDevice {
        /// The trace.
        path: String,
        /// What was asked.
        device: String,
        /// What there is.
        names: String,
    },
    /// Training takes everything.
    #[error(
        "training takes all {requests} requests: nothing is left to measure; lower the share to train"
    )]
    NothingMeasured {
        /// Requests in the trace.
        requests: u64,
    },
    /// There is nothing to cut into folds.
    #[error("{path} holds too few requests ({requests}) to learn from some and judge by others")]
    TooShort {
        /// The trace.
        path: String,
        /// Requests in the trace.
        requests: u64,
    },
    /// The disk's description is out of range.
    #[error(transparent)]
    Disk(#[from] RangeError),
    /// The disk is too small for the trace.
    #[error(
        "{path} reaches sector {end} with its devices ({devices}) end to end, and with an optimized area of {area} that needs {need}; disk {disk} has {has}. Choose a larger disk, one device of the trace, or a smaller area"
    )]
    DiskTooSmall {
        /// The trace.
        path: String,
        /// Its highest sector.
        end: u64,
        /// Its devices.
        devices: u64,
        /// The area.
        area: Bytes,
        /// What both need.
        need: Bytes,
        /// The disk's name.
        disk: String,
        /// Its size.
        has: Bytes,
    },
    /// The disk has no room beside the trace.
    #[error(
        "{path} fills disk {disk}: no room for an optimized area, and nothing to tune; choose a larger disk or one device of the trace"
    )]
    NoRoom {
        /// The trace.
        path: String,
        /// The disk's name.
        disk: String,
    },
    /// The simulation could not go on.
    #[error("policy {policy}")]
    Run {
        /// Under which policy.
        policy: String,
        /// Why.
        #[source]
        source: SimError,
    },
}

/// Compares policies on a trace. `progress` is called now and then.
///
/// # Errors
/// Where the trace cannot be read, is empty, or does not fit the disk.
pub fn simulate(
    source: &Source,
    options: &Options,
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<Outcome, StudyError> {
    let path = source.path().display().to_string();
    let mut reader = source.open(&options.open)?;
    let mut scan = Scan::new(&mut reader, options.device.as_deref(), |r, _, count| {
        if count.is_multiple_of(65_536) {
            progress(Stage::Scan, r.progress());
        }
    })
    .map_err(|e| explain(e, &path))?;
    scan.facts.path.clone_from(&path);

    let disk = Device::new(&options.host.disk)?;
    let copies = options.optimized.sectors_ceil();
    let replicates = options.policies.iter().any(|p| p.replicates());
    let in_area = options
        .policies
        .iter()
        .any(|&p| p != Policy::Vanilla && !p.replicates() && p.in_place(options).is_none());
    let beside = if replicates { sidecar(copies) } else { Sectors(0) };
    let area = if in_area { copies.max(beside) } else { beside };
    let need = scan.capacity + area;
    if need > disk.capacity() {
        return Err(StudyError::DiskTooSmall {
            path,
            end: scan.capacity.0,
            devices: scan.facts.devices,
            area: area.bytes(),
            need: need.bytes(),
            disk: options.host.disk.name().to_owned(),
            has: disk.capacity().bytes(),
        });
    }
    let (boundary, split) = scan.split(options.train);
    if split.measured_requests == 0 {
        return Err(StudyError::NothingMeasured { requests: scan.facts.requests });
    }
    let engine = Config {
        area: copies,
        cache_bytes: options.host.cache,
        read_ahead: options.host.read_ahead,
        cluster: options.host.cluster,
        grid: scan.grid,
        ..Config::new(scan.capacity)
    };
    let engine = engine.with_write_buffer(options.write_buffer, options.host.gather);
    let plans = learn(source, options, &scan, boundary, engine.room(), progress)?;

    let mut notes = scan.notes.clone();
    let touched = if replicates {
        let mut touched = Touched::new(scan.capacity);
        for_each(
            source,
            options,
            &scan,
            boundary,
            |r| progress(Stage::Learn, r.progress()),
            |trains, _, request| {
                touched.observe(request, trains);
                Ok(())
            },
        )?;
        touched
    } else {
        Touched::new(Sectors(0))
    };
    let free = if replicates && !touched.discards() {
        let (free, had) = touched.assumed_free(options.free, options.free_seed);
        notes.push(format!(
            "the trace discards nothing: {:.0}% of the device is assumed to be free, of what the trace never touches (seed {}); asked for were {:.0}%",
            had * 100.0, options.free_seed, options.free * 100.0
        ));
        free
    } else {
        Vec::new()
    };
    let replay = possible(options.replay, &scan, &mut notes);
    if matches!(&options.host.disk, DeviceSpec::Volume(v) if v.power.is_none()) {
        notes.push("the device's power is not known: its energy is given as zero".to_owned());
    }
    let mut runs = Vec::new();
    let mut measured = Vec::new();
    for &policy in &options.policies {
        let learned = plans.iter().find(|p| p.0 == policy).map(|p| p.1.clone()).unwrap_or_default();
        if let Some(shuffle) = &learned.shuffle {
            let started = Instant::now();
            let engine = Config {
                area: Sectors(0),
                cache_bytes: options.host.cache,
                read_ahead: options.host.read_ahead,
                cluster: options.host.cluster,
                // Units change places over the whole disk.
                ..Config::new(disk.capacity())
            };
            let config = SimConfig {
                area_at: Lba(0),
                engine,
                scheduler: options.host.scheduler,
                spin_down: options.host.spin_down,
                replay,
            };
            let m = run_shuffled(
                source,
                options,
                &scan,
                boundary,
                (policy, shuffle, config, &disk),
                progress,
            )?;
            let wall_s = started.elapsed().as_secs_f64();
            runs.push(Run::new(policy.name(), None, &m, wall_s, options.host.disk.priced()));
            measured.push(m);
            notes.push(format!(
                "{}: {} units of {} sectors changed places; a request that reaches over several that do not lie together counts once for each",
                policy.name(),
                shuffle.moved(),
                shuffle.unit()
            ));
            continue;
        }
        let vanilla = policy == Policy::Vanilla;
        let area_at = match options.area_at {
            _ if learned.area_at.is_some() => learned.area_at.unwrap_or_default(),
            AreaAt::End => Lba(scan.capacity.0),
            _ if policy == Policy::Judged || policy.replicates() => Lba(scan.capacity.0),
            AreaAt::Median => learned.median.unwrap_or(Lba(scan.capacity.0)),
        };
        let engine = match policy {
            Policy::Vanilla => Config { area: Sectors(0), ..engine },
            // What is written is not the judge's.
            Policy::Judged => engine.with_write_buffer(0, Duration::ZERO),
            _ if policy.replicates() => {
                Config { area: beside, replicas: copies, degree: options.degree, ..engine }
            }
            _ => engine,
        };
        let config = SimConfig {
            area_at,
            engine,
            scheduler: options.host.scheduler,
            spin_down: options.host.spin_down,
            replay,
        };
        let started = Instant::now();
        let what = (policy, learned.plan, config, disk.clone());
        let (m, days) = if policy.replicates() {
            let parts = (policy, config, disk.clone(), (&touched, free.clone()));
            (run_replicating(source, options, &scan, boundary, parts, progress)?, Vec::new())
        } else if policy == Policy::Judged {
            run_judged(source, options, &scan, (boundary, &split), (config, &disk), progress)?
        } else {
            (run(source, options, &scan, boundary, what, progress)?, Vec::new())
        };
        let start = (!vanilla).then_some(area_at.0);
        let wall_s = started.elapsed().as_secs_f64();
        let run = Run::new(policy.name(), start, &m, wall_s, options.host.disk.priced());
        runs.push(Run { days: days.iter().map(Day::of).collect(), ..run });
        measured.push(m);
    }
    Ok(Outcome {
        schema: "seekless.simulate/1",
        disk: options.host.disk.name().to_owned(),
        scheduler: options.host.scheduler.to_string(),
        spin_down: options.host.spin_down.to_string(),
        replay: if replay == Replay::Open { "open" } else { "closed" },
        queue_depth: match replay {
            Replay::Closed { depth } => Some(depth),
            Replay::Open => None,
        },
        cache_bytes: options.host.cache.0,
        read_ahead_bytes: options.host.read_ahead.0,
        cluster_bytes: options.host.cluster.0,
        optimized_bytes: area.bytes().0,
        train: options.train,
        trace: scan.facts,
        split,
        notes,
        runs,
        measured,
    })
}

/// The replay asked for, or a closed loop where the trace has no times for an open one.
pub(crate) fn possible(asked: Replay, scan: &Scan, notes: &mut Vec<String>) -> Replay {
    if asked == Replay::Open && !scan.facts.has_times {
        notes
            .push("the trace has no times: replayed closed loop, one request at a time".to_owned());
        return Replay::Closed { depth: 1 };
    }
    asked
}

pub(crate) fn explain(error: ScanError, path: &str) -> StudyError {
    let path = path.to_owned();
    match error {
        ScanError::Trace(e) => StudyError::Trace(e),
        ScanError::Empty { device: None, .. } => StudyError::Empty { path },
        ScanError::Empty { device: Some(device), names } => {
            StudyError::NoSuchDevice { path, device, names: names.join(", ") }
        }
    }
}

/// What was learned from a part of the trace.
#[derive(Clone, Debug, Default)]
struct Learned {
    plan: Plan,
    median: Option<Lba>,
    /// Where the area lies, where the policy decides it.
    area_at: Option<Lba>,
    /// What changes places, where the policy moves data itself.
    shuffle: Option<Shuffle>,
}

/// Nanoseconds of a day.
pub(crate) const DAY: u64 = 86_400_000_000_000;

/// Calls `each(trains, day, request)` for every wanted request of the trace, in order. Days are the
/// trace's, or 24 hours of its time.
fn for_each(
    source: &Source,
    options: &Options,
    scan: &Scan,
    boundary: Boundary,
    mut tick: impl FnMut(&Reader),
    mut each: impl FnMut(bool, u64, &Request) -> Result<(), StudyError>,
) -> Result<(), StudyError> {
    let mut reader = source.open(&options.open)?;
    let mut index = 0;
    while let Some(record) = reader.next_record()? {
        let Some(request) = scan.place(&record) else { continue };
        let day = record.day.map_or(request.arrival.0 / DAY, u64::from);
        each(boundary.trains(index, &record), day, &request)?;
        index += 1;
        if index.is_multiple_of(65_536) {
            tick(&reader);
        }
    }
    Ok(())
}

/// What each policy that learns has learned.
fn learn(
    source: &Source,
    options: &Options,
    scan: &Scan,
    boundary: Boundary,
    area: Sectors,
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<Vec<(Policy, Learned)>, StudyError> {
    let before_asked = options.policies.iter().any(|p| p.learns_before());
    let oracle = options.policies.contains(&Policy::Oracle);
    if !before_asked && !oracle {
        return Ok(Vec::new());
    }
    let mut before = AccessGraph::new(scan.pages, options.host.cache, EDGES);
    let mut measured = before.clone();
    let mut today = 0;
    let one = options.one_stream;
    let asked = |r: &Request| Request { stream: if one { StreamId(0) } else { r.stream }, ..*r };
    for_each(
        source,
        options,
        scan,
        boundary,
        |r| progress(Stage::Learn, r.progress()),
        |trains, day, request| {
            if trains && before_asked {
                // Days without requests age too, but nothing is left after a few.
                for _ in today..day.min(today + AGES_MAX) {
                    options.learner.training.day_ended(&mut before);
                }
                today = today.max(day);
                before.observe(&asked(request));
            } else if !trains && oracle {
                measured.observe(&asked(request));
            }
            Ok(())
        },
    )?;
    let learned = |policy: Policy| {
        let graph = if policy == Policy::Oracle { &measured } else { &before };
        let config = options.plan_config(area);
        let config = match policy.by_heat() {
            // One plan a run: there is none to revise.
            Some(strategy) => PlanConfig { strategy, planning: Planning::Anew, ..config },
            None => config,
        };
        if let Some(unit) = policy.in_place(options) {
            let shuffle = Shuffle::new(graph, unit, options.host.disk.capacity());
            return Learned { shuffle: Some(shuffle), ..Learned::default() };
        }
        let by_curve = policy == Policy::OuterZone;
        Learned {
            plan: next_plan(&Plan::default(), graph, &config),
            median: graph.median_read(),
            area_at: by_curve
                .then(|| place::cheapest(&options.host.disk, graph, area, scan.capacity))
                .flatten(),
            shuffle: None,
        }
    };
    let planned = options.policies.iter().filter(|p| p.learns_before() || **p == Policy::Oracle);
    Ok(planned.map(|&p| (p, learned(p))).collect())
}

/// Requests at the places their units have moved to, the moves counted as background work before.
fn run_shuffled(
    source: &Source,
    options: &Options,
    scan: &Scan,
    boundary: Boundary,
    (policy, shuffle, config, disk): (Policy, &Shuffle, SimConfig, &Device),
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<Measured, StudyError> {
    let failed = |source| StudyError::Run { policy: policy.name().to_owned(), source };
    let mut simulation = Simulation::new(disk.clone(), config).map_err(failed)?;
    for_each(
        source,
        options,
        scan,
        boundary,
        |r| progress(Stage::Run(policy), r.progress()),
        |trains, _, request| {
            if trains {
                return Ok(());
            }
            shuffle.parts(request.extent).try_for_each(|extent| {
                simulation.offer(&Request { extent, ..*request }).map_err(failed)
            })
        },
    )?;
    let mut m = simulation.finish().map_err(failed)?;
    shuffle.price(disk, &mut m).map_err(|e| failed(e.into()))?;
    Ok(m)
}

fn run(
    source: &Source,
    options: &Options,
    scan: &Scan,
    boundary: Boundary,
    (policy, plan, config, disk): (Policy, Plan, SimConfig, Device),
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<Measured, StudyError> {
    let failed = |source| StudyError::Run { policy: policy.name().to_owned(), source };
    let mut simulation = Simulation::new(disk, config).map_err(failed)?;
    simulation.install(plan).map_err(failed)?;
    for_each(
        source,
        options,
        scan,
        boundary,
        |r| progress(Stage::Run(policy), r.progress()),
        |trains, _, request| {
            if trains { Ok(()) } else { simulation.offer(request).map_err(failed) }
        },
    )?;
    simulation.drain().map_err(failed)?;
    simulation.finish().map_err(failed)
}

fn run_replicating(
    source: &Source,
    options: &Options,
    scan: &Scan,
    boundary: Boundary,
    (policy, config, disk, (touched, free)): (Policy, SimConfig, Device, (&Touched, Vec<Extent>)),
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<Measured, StudyError> {
    let failed = |source| StudyError::Run { policy: policy.name().to_owned(), source };
    let mut run = Replicating::new(disk, config, policy, free).map_err(failed)?;
    let mut begun = false;
    for_each(
        source,
        options,
        scan,
        boundary,
        |r| progress(Stage::Run(policy), r.progress()),
        |trains, _, request| {
            if trains {
                run.learn(request);
                return Ok(());
            }
            if !std::mem::replace(&mut begun, true) {
                run.begin(touched).map_err(failed)?;
            }
            run.offer(request).map_err(failed)
        },
    )?;
    run.finish().map_err(failed)
}

/// Judges by day, or by as many parts of the measured requests where the trace has fewer than four days.
fn run_judged(
    source: &Source,
    options: &Options,
    scan: &Scan,
    (boundary, split): (Boundary, &Split),
    (config, disk): (SimConfig, &Device),
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<(Measured, Vec<DayCosts>), StudyError> {
    const PARTS: u64 = 12;
    let failed = |source| StudyError::Run { policy: Policy::Judged.name().to_owned(), source };
    let plan = options.plan_config(config.engine.room());
    let config = JudgedConfig {
        one_stream: options.one_stream,
        ..judged_config(config, plan, options.learner.training)
    };
    let mut judged = Judged::new(disk, &config).map_err(failed)?;
    let span_days = scan.facts.span_s.map_or(0.0, |s| s / 86_400.0);
    let has_days = scan.facts.days >= DAYS_MIN as u64 || span_days >= DAYS_MIN as f64;
    let (mut today, mut measured) = (0, 0);
    for_each(
        source,
        options,
        scan,
        boundary,
        |r| progress(Stage::Run(Policy::Judged), r.progress()),
        |trains, day, request| {
            (today..day.min(today + AGES_MAX)).for_each(|_| judged.age());
            today = today.max(day);
            if trains {
                judged.learn(request);
                return Ok(());
            }
            let part = measured * PARTS / split.measured_requests.max(1);
            measured += 1;
            // What was learned before is put on paper at once.
            let at = 1 + if has_days { today } else { part };
            judged.offer(Clock { day: at, turn: at }, request).map_err(failed)
        },
    )?;
    let m = judged.lap().map_err(failed)?;
    let days = judged.days().into_iter().map(|d| DayCosts { day: d.day - 1, ..d }).collect();
    Ok((m, days))
}
