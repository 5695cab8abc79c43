//! The comparison: scan, learn, then run every policy over the same measured requests. The trace is read
//! once a pass, so that memory does not grow with its length.

use std::str::FromStr;
use std::time::Instant;

use seekless_block::{Bytes, Extent, Lba, Request, Sectors, StreamId};
use seekless_disk::{Device, DeviceSpec, RangeError, Scheduler, SpinDown};
use seekless_engine::{Config, Mode};
use seekless_layout::{
    AccessGraph, Plan, PlanConfig, Planning, Reach, Strategy, Training, next_plan,
};
use seekless_sim::{
    Clock, DayCosts, Judged, JudgedConfig, Measured, Replay, SimConfig, SimError, Simulation,
};
use seekless_trace::{OpenOptions, Progress, Reader, Source, TraceError};

use crate::outcome::{Day, Outcome, Run, Split};
use crate::replicas::{Replicating, Touched, sidecar};
use crate::rolling::{AGES_MAX, DAYS_MIN, judged_config};
use crate::scan::{Boundary, Scan, ScanError};

/// Edges an access graph keeps: about a gigabyte at the most.
pub(crate) const EDGES: usize = 1 << 24;

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
    /// Replicas in free space (FS2, SOSP'05): what is read together with the hot region, beside it, in the order of reading.
    Fs2,
    /// The same for all that is read before, in order of address: FS2-static.
    Fs2Static,
    /// As `Fs2`, with the hot region's own blocks: whole sequences side by side. Not the paper's.
    Fs2Whole,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Vanilla,
        Self::Borg,
        Self::Judged,
        Self::Oracle,
        Self::Fs2,
        Self::Fs2Static,
        Self::Fs2Whole,
    ];

    /// Whether it puts replicas into free space.
    #[must_use]
    pub const fn replicates(self) -> bool {
        matches!(self, Self::Fs2 | Self::Fs2Static | Self::Fs2Whole)
    }

    /// As on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vanilla => "vanilla",
            Self::Borg => "borg",
            Self::Judged => "judged",
            Self::Oracle => "oracle",
            Self::Fs2 => "fs2",
            Self::Fs2Static => "fs2-static",
            Self::Fs2Whole => "fs2-whole",
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
    /// The disk.
    pub disk: DeviceSpec,
    /// Which policies, in which order.
    pub policies: Vec<Policy>,
    /// RAM.
    pub cache: Bytes,
    /// Read-ahead.
    pub read_ahead: Bytes,
    /// What a read of a copy fetches at least.
    pub cluster: Bytes,
    /// Scheduler of the drive.
    pub scheduler: Scheduler,
    /// When the drive stops its platters.
    pub spin_down: SpinDown,
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
        let reach = Reach::new(self.read_ahead, self.cluster);
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

    let disk = Device::new(&options.disk)?;
    let learns = options.policies.iter().any(|&p| p != Policy::Vanilla);
    let copies = options.optimized.sectors_ceil();
    let replicates = options.policies.iter().any(|p| p.replicates());
    let in_area = options.policies.iter().any(|&p| p != Policy::Vanilla && !p.replicates());
    let beside = if replicates { sidecar(copies) } else { Sectors(0) };
    let area = if in_area { copies } else { Sectors(0) };
    let area = if learns { area.max(beside) } else { Sectors(0) };
    let need = scan.capacity + area;
    if need > disk.capacity() {
        return Err(StudyError::DiskTooSmall {
            path,
            end: scan.capacity.0,
            devices: scan.facts.devices,
            area: area.bytes(),
            need: need.bytes(),
            disk: options.disk.name().to_owned(),
            has: disk.capacity().bytes(),
        });
    }
    let (boundary, split) = scan.split(options.train);
    if split.measured_requests == 0 {
        return Err(StudyError::NothingMeasured { requests: scan.facts.requests });
    }
    let engine = Config {
        area,
        write_buffer_percent: options.write_buffer,
        mode: if options.write_buffer > 0 { Mode::WriteBack } else { Mode::WriteThrough },
        cache_bytes: options.cache,
        read_ahead: options.read_ahead,
        cluster: options.cluster,
        grid: scan.grid,
        ..Config::new(scan.capacity)
    };
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
    if matches!(&options.disk, DeviceSpec::Volume(v) if v.power.is_none()) {
        notes.push("the device's power is not known: its energy is given as zero".to_owned());
    }
    let mut runs = Vec::new();
    let mut measured = Vec::new();
    for &policy in &options.policies {
        let learned = match policy {
            Policy::Borg => plans.0.clone(),
            Policy::Oracle => plans.1.clone(),
            _ => Learned::default(),
        };
        let vanilla = policy == Policy::Vanilla;
        let area_at = match options.area_at {
            AreaAt::End => Lba(scan.capacity.0),
            _ if policy == Policy::Judged || policy.replicates() => Lba(scan.capacity.0),
            AreaAt::Median => learned.median.unwrap_or(Lba(scan.capacity.0)),
        };
        let engine = match policy {
            Policy::Vanilla => Config { area: Sectors(0), ..engine },
            // What is written is not the judge's.
            Policy::Judged => {
                Config { write_buffer_percent: 0, mode: Mode::WriteThrough, ..engine }
            }
            Policy::Borg | Policy::Oracle => Config { area: copies, ..engine },
            Policy::Fs2 | Policy::Fs2Static | Policy::Fs2Whole => {
                Config { area: beside, replicas: copies, ..engine }
            }
        };
        let config = SimConfig {
            area_at,
            engine,
            scheduler: options.scheduler,
            spin_down: options.spin_down,
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
        let run = Run::new(policy.name(), start, &m, wall_s, options.disk.priced());
        runs.push(Run { days: days.iter().map(Day::of).collect(), ..run });
        measured.push(m);
    }
    Ok(Outcome {
        schema: "seekless.simulate/1",
        disk: options.disk.name().to_owned(),
        scheduler: options.scheduler.to_string(),
        spin_down: options.spin_down.to_string(),
        replay: if replay == Replay::Open { "open" } else { "closed" },
        queue_depth: match replay {
            Replay::Closed { depth } => Some(depth),
            Replay::Open => None,
        },
        cache_bytes: options.cache.0,
        read_ahead_bytes: options.read_ahead.0,
        cluster_bytes: options.cluster.0,
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

/// The plans of `borg` and `oracle`, empty where not asked for.
fn learn(
    source: &Source,
    options: &Options,
    scan: &Scan,
    boundary: Boundary,
    area: Sectors,
    progress: &mut dyn FnMut(Stage, Progress),
) -> Result<(Learned, Learned), StudyError> {
    let borg = options.policies.contains(&Policy::Borg);
    let oracle = options.policies.contains(&Policy::Oracle);
    if !borg && !oracle {
        return Ok(Default::default());
    }
    let mut before = AccessGraph::new(scan.pages, options.cache, EDGES);
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
            if trains && borg {
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
    let config = options.plan_config(area);
    let learned = |graph: &AccessGraph| Learned {
        plan: next_plan(&Plan::default(), graph, &config),
        median: graph.median_read(),
    };
    Ok((learned(&before), learned(&measured)))
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
