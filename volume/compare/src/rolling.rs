//! Many systems, one trace, as time goes by: the trace is cut into folds (days, where it counts them); every
//! system serves every fold, and before each one it plans anew from the folds before. Training and measurement
//! are apart in time at every step, as they are for a system that runs.
//!
//! All systems are stepped side by side over one reading of the trace, in batches, so that memory does not
//! grow with its length.

use std::collections::BTreeMap;
use std::num::NonZero;

use seekless_block::{Bytes, Duration, Lba, Request, Sectors};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_learn::{AccessGraph, JudgeConfig, Plan, PlanConfig, Reach, Training, next_plan};
use seekless_sim::{
    Clock, DayCosts, Judged, JudgedConfig, Measured, Replay, SimConfig, SimError, Simulation,
};
use seekless_trace::{OpenOptions, Progress, Reader, Record, Source};
use serde::Serialize;

use crate::outcome::TraceFacts;
use crate::scan::Scan;
use crate::simulate::{AreaAt, DAY, EDGES, Learner, StudyError, explain, possible};

/// Requests handed to all systems at a time.
const BATCH: usize = 1 << 15;

/// In an open loop, data is moved where no request has come for this long: a tenth of a second, some ten requests of a disk.
const IDLE: Duration = Duration::from_millis(100);

/// Fewer requests than this say nothing of what comes after them.
const REQUESTS_MIN: u64 = 100;

/// How a system learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning {
    /// Size of the optimized area.
    pub optimized: Bytes,
    /// Share of it that takes in writes, in percent; 0 writes through.
    pub write_buffer: u8,
    /// How long these may stay in RAM.
    pub gather: Duration,
    /// Where it lies.
    pub area_at: AreaAt,
    /// When it plans.
    pub schedule: Schedule,
}

/// When a system plans, and from what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Anew after so many folds, at least 1, from those before.
    Every(u32),
    /// Before each fold, from it as well as those before: what foresight would gain.
    Foresight,
    /// Anew every day, or every fold where the trace is cut by requests; it moves what it has proof for, and takes
    /// back what does not hold: [`Judged`]. Its area lies at the end, so that without copies it is the vanilla system.
    Judged,
}

impl Schedule {
    /// Folds from one plan to the next, where that is fixed.
    pub(crate) const fn folds(self) -> Option<u32> {
        match self {
            Self::Every(folds) => Some(folds),
            Self::Foresight => Some(1),
            Self::Judged => None,
        }
    }
}

impl Learning {
    /// What a plan may place on a device of `capacity`.
    fn room(&self, capacity: Sectors) -> Sectors {
        let area = self.optimized.sectors_ceil();
        let config = Config { area, ..Config::new(capacity) };
        config.with_write_buffer(self.write_buffer, self.gather).room()
    }
}

/// A system to be tried.
#[derive(Clone, Debug)]
pub struct System {
    /// Its name, for tables.
    pub name: String,
    /// The device.
    pub disk: DeviceSpec,
    /// The drive's scheduler.
    pub scheduler: Scheduler,
    /// When the drive stops its platters.
    pub spin_down: SpinDown,
    /// RAM.
    pub cache: Bytes,
    /// Read-ahead.
    pub read_ahead: Bytes,
    /// What a read of a copy fetches at least.
    pub cluster: Bytes,
    /// `None` is vanilla.
    pub learning: Option<Learning>,
}

impl System {
    /// What its planner may use.
    fn plan_config(&self, area: Sectors, learner: Learner) -> PlanConfig {
        let Learner { strategy, planning, .. } = learner;
        let reach = Reach::new(self.read_ahead, self.cluster);
        PlanConfig { area, min_weight: 0, strategy, planning, reach }
    }
}

/// What serves a trace, layouts aside.
#[derive(Clone, Debug)]
pub struct Host {
    /// The device.
    pub disk: DeviceSpec,
    /// The drive's scheduler.
    pub scheduler: Scheduler,
    /// When the drive stops its platters.
    pub spin_down: SpinDown,
    /// RAM.
    pub cache: Bytes,
    /// Read-ahead.
    pub read_ahead: Bytes,
    /// What a read of a copy fetches at least.
    pub cluster: Bytes,
    /// How long writes may stay in RAM, where there is a write buffer.
    pub gather: Duration,
}

impl Host {
    /// A system on it to be tried.
    pub(crate) fn system(&self, name: String, learning: Option<Learning>) -> System {
        let Self { disk, scheduler, spin_down, cache, read_ahead, cluster, .. } = self.clone();
        System { name, disk, scheduler, spin_down, cache, read_ahead, cluster, learning }
    }
}

/// How the trace is read and cut.
#[derive(Clone, Debug)]
pub struct RollingOptions {
    /// How the trace is read.
    pub open: OpenOptions,
    /// Only this device of the trace.
    pub device: Option<String>,
    /// Closed or open loop.
    pub replay: Replay,
    /// Most folds; at least 2.
    pub folds: u32,
    /// RAM of the systems that learn: what it answers is not learned from.
    pub ram: Bytes,
    /// How all that learn do it.
    pub learner: Learner,
}

/// A stretch of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Requests in it.
    pub requests: u64,
    /// Days in it; 0 where the trace is cut by requests.
    pub days: u64,
}

/// What a system's run over one fold cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lap {
    /// Client requests.
    pub requests: u64,
    /// Foreground device I/Os.
    pub device_ios: u64,
    /// Foreground busy time.
    pub busy_s: f64,
    /// Of it, moving the arm and waiting for the platter.
    pub positioning_s: f64,
    /// Busy time of moving data before the fold, and of writing home what the write buffer held.
    pub background_busy_s: f64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Energy, moving included.
    pub joules: f64,
    /// Mean response time.
    pub response_ms: f64,
    /// From the first request to the last answer.
    pub span_s: f64,
    /// Requests answered from RAM alone.
    pub cache_hits: u64,
    /// Reads answered from a copy.
    pub copy_hits: u64,
    /// Operations as the provider counts them, those of moving data included; 0 for disks.
    pub operations: u64,
    /// What they cost, in US dollars; 0 where nobody sends a bill.
    pub operations_usd: f64,
}

impl Lap {
    fn new(m: &Measured, disk: &DeviceSpec) -> Self {
        let all = m.energy.total() + m.background_energy;
        Self {
            requests: m.requests,
            device_ios: m.device_ios,
            busy_s: m.foreground.busy().as_secs_f64(),
            positioning_s: (m.foreground.seek + m.foreground.rotation).as_secs_f64(),
            background_busy_s: m.background.busy().as_secs_f64(),
            moved_bytes: m.engine.moved_bytes,
            joules: all.as_joules_f64(),
            response_ms: m.response.mean_ms(),
            span_s: m.span.as_secs_f64(),
            cache_hits: m.engine.cache_hits,
            copy_hits: m.engine.copy_reads,
            operations: m.operations.map_or(0, |o| o.total()),
            operations_usd: disk
                .priced()
                .zip(m.operations)
                .map_or(0.0, |(spec, o)| spec.operations_usd(&o)),
        }
    }

    /// Laps together; the response time is the mean over all their requests.
    pub(crate) fn sum(laps: &[Self]) -> Self {
        let mut all = laps.iter().fold(Self::default(), |sum, lap| Self {
            requests: sum.requests + lap.requests,
            device_ios: sum.device_ios + lap.device_ios,
            busy_s: sum.busy_s + lap.busy_s,
            positioning_s: sum.positioning_s + lap.positioning_s,
            background_busy_s: sum.background_busy_s + lap.background_busy_s,
            moved_bytes: sum.moved_bytes + lap.moved_bytes,
            joules: sum.joules + lap.joules,
            response_ms: sum.response_ms + lap.response_ms * lap.requests as f64,
            span_s: sum.span_s + lap.span_s,
            cache_hits: sum.cache_hits + lap.cache_hits,
            copy_hits: sum.copy_hits + lap.copy_hits,
            operations: sum.operations + lap.operations,
            operations_usd: sum.operations_usd + lap.operations_usd,
        });
        all.response_ms /= all.requests.max(1) as f64;
        all
    }

    /// Busy time, moving counted.
    #[must_use]
    pub fn all_busy_s(&self) -> f64 {
        self.busy_s + self.background_busy_s
    }
}

/// Every system's laps.
#[derive(Clone, Debug)]
pub struct Rolling {
    /// The trace.
    pub trace: TraceFacts,
    /// What it was cut into.
    pub folds: Vec<Fold>,
    /// The replay that was possible: closed where the trace has no times.
    pub replay: Replay,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// By system, in the order given, then by fold. The first fold is served without a plan by those that learn.
    pub laps: Vec<Vec<Lap>>,
    /// By system, the days' accounts of those that judge themselves; empty for others.
    pub days: Vec<Vec<DayCosts>>,
}

/// What is going on, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollingStage {
    /// Counting the trace.
    Scan,
    /// Building the graph of each fold.
    Foresee,
    /// Running all systems.
    Run,
}

/// Runs every system over every fold. `systems` may depend on what the trace is like.
///
/// # Errors
/// Where the trace cannot be read, is empty, has fewer than a hundred requests, or does not fit a system's disk.
pub fn rolling(
    source: &Source,
    options: &RollingOptions,
    systems: impl FnOnce(&TraceFacts, Sectors) -> Vec<System>,
    progress: &mut dyn FnMut(RollingStage, Progress),
) -> Result<(Vec<System>, Rolling), StudyError> {
    let path = source.path().display().to_string();
    let mut reader = source.open(&options.open)?;
    let mut days = Days::default();
    let mut scan = Scan::new(&mut reader, options.device.as_deref(), |reader, record, index| {
        days.count(record);
        if index.is_multiple_of(65_536) {
            progress(RollingStage::Scan, reader.progress());
        }
    })
    .map_err(|e| explain(e, &path))?;
    scan.facts.path.clone_from(&path);
    let cut = Cut::new(&scan.facts, &days, options.folds);
    if scan.facts.requests < REQUESTS_MIN {
        return Err(StudyError::TooShort { path, requests: scan.facts.requests });
    }
    let mut notes = std::mem::take(&mut scan.notes);
    let replay = possible(options.replay, &scan, &mut notes);
    let systems = systems(&scan.facts, scan.capacity);
    let (foreseen, median) = foresee(source, options, &scan, &cut, &systems, progress)?;

    let mut runs = Vec::with_capacity(systems.len());
    for system in &systems {
        runs.push(Running::new(system, options.learner, &scan, replay, median, &path)?);
    }
    let mut graph = AccessGraph::new(scan.pages, options.ram, EDGES);
    let mut batch: Vec<(Clock, Request)> = Vec::with_capacity(BATCH);
    let mut fold = 0;
    let mut today = 0;
    for_each(source, options, &scan, &cut, |reader, at, day, request| {
        if at != fold {
            step(&mut runs, &mut batch)?;
            finish_fold(&mut runs, &systems)?;
            begin_fold((&mut runs, &systems), options.learner, &graph, &foreseen, at)?;
            options.learner.training.planned(&mut graph);
            fold = at;
        }
        if day > today {
            step(&mut runs, &mut batch)?;
            for run in &mut runs {
                run.age(day - today);
            }
        }
        learn(&mut graph, options.learner.training, &mut today, day, request);
        let judged_by = if cut.has_days() { day } else { at as u64 };
        batch.push((Clock { day: judged_by, turn: judged_by }, *request));
        if batch.len() == BATCH {
            step(&mut runs, &mut batch)?;
            progress(RollingStage::Run, reader.progress());
        }
        Ok(())
    })?;
    step(&mut runs, &mut batch)?;
    for (run, system) in runs.iter_mut().zip(&systems) {
        // What a write buffer still holds is to go home at the cost of who put it there.
        if let World::Told(simulation) = &mut run.world {
            simulation.drain().map_err(|e| failed(&system.name, e))?;
        }
    }
    finish_fold(&mut runs, &systems)?;
    let days = runs.iter().map(Running::days).collect();
    let laps = runs.into_iter().map(|r| r.laps).collect();
    Ok((systems, Rolling { trace: scan.facts, folds: cut.folds, replay, notes, laps, days }))
}

/// One system at work.
#[derive(Debug)]
struct Running {
    world: World,
    name: String,
    /// What a plan may place.
    room: Sectors,
    plan: Plan,
    laps: Vec<Lap>,
}

/// A system that is told its plans, or one that makes them.
#[derive(Debug)]
enum World {
    Told(Box<Simulation>),
    Judged(Box<Judged>),
}

impl Running {
    fn offer(&mut self, clock: Clock, request: &Request) -> Result<(), StudyError> {
        match &mut self.world {
            World::Told(s) => s.offer(request),
            World::Judged(j) => j.offer(clock, request),
        }
        .map_err(|e| failed(&self.name, e))
    }

    fn lap(&mut self) -> Result<Measured, SimError> {
        match &mut self.world {
            World::Told(s) => s.lap(),
            World::Judged(j) => j.lap(),
        }
    }

    /// So many days have passed. Nothing is left of what was learned after a few.
    fn age(&mut self, days: u64) {
        if let World::Judged(j) = &mut self.world {
            (0..days.min(AGES_MAX)).for_each(|_| j.age());
        }
    }

    fn days(&self) -> Vec<DayCosts> {
        match &self.world {
            World::Told(_) => Vec::new(),
            World::Judged(j) => j.days(),
        }
    }

    fn new(
        system: &System,
        learner: Learner,
        scan: &Scan,
        replay: Replay,
        median: Option<Lba>,
        path: &str,
    ) -> Result<Self, StudyError> {
        let disk = Device::new(&system.disk)?;
        let area = system.learning.map_or(Sectors(0), |l| l.optimized.sectors_ceil());
        let (percent, gather) =
            system.learning.map_or((0, Duration::ZERO), |l| (l.write_buffer, l.gather));
        let need = scan.capacity + area;
        if need > disk.capacity() {
            return Err(StudyError::DiskTooSmall {
                path: path.to_owned(),
                end: scan.capacity.0,
                devices: scan.facts.devices,
                area: area.bytes(),
                need: need.bytes(),
                disk: system.disk.name().to_owned(),
                has: disk.capacity().bytes(),
            });
        }
        let judged = system.learning.is_some_and(|l| l.schedule == Schedule::Judged);
        let amid = system.learning.is_some_and(|l| l.area_at == AreaAt::Median);
        let area_at = median.filter(|_| amid).unwrap_or(Lba(scan.capacity.0));
        let config = SimConfig {
            area_at,
            engine: Config {
                area,
                cache_bytes: system.cache,
                read_ahead: system.read_ahead,
                cluster: system.cluster,
                grid: scan.grid,
                ..Config::new(scan.capacity)
            }
            .with_write_buffer(percent, gather),
            scheduler: system.scheduler,
            spin_down: system.spin_down,
            replay,
        };
        let room = config.engine.room();
        let world = if judged {
            let config = judged_config(config, system.plan_config(room, learner), learner.training);
            Judged::new(&disk, &config).map(|j| World::Judged(Box::new(j)))
        } else {
            Simulation::new(disk, config).map(|s| World::Told(Box::new(s)))
        };
        let world = world.map_err(|e| failed(&system.name, e))?;
        let (name, plan, laps) = (system.name.clone(), Plan::default(), Vec::new());
        Ok(Self { world, name, room, plan, laps })
    }
}

/// How a system that judges itself is set up here.
pub(crate) fn judged_config(sim: SimConfig, plan: PlanConfig, training: Training) -> JudgedConfig {
    JudgedConfig {
        sim,
        plan,
        training,
        judge: JudgeConfig::default(),
        idle: Some(IDLE),
        in_flight: u32::MAX,
        edges: EDGES,
        one_stream: false,
    }
}

fn failed(name: &str, source: SimError) -> StudyError {
    StudyError::Run { policy: name.to_owned(), source }
}

/// Every system serves the batch, on as many threads as there are processors.
fn step(runs: &mut [Running], batch: &mut Vec<(Clock, Request)>) -> Result<(), StudyError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = runs.len().div_ceil(threads).max(1);
    let requests = batch.as_slice();
    let serve = |runs: &mut [Running]| -> Result<(), StudyError> {
        for run in runs {
            for (clock, request) in requests {
                run.offer(*clock, request)?;
            }
        }
        Ok(())
    };
    let results: Vec<Result<(), StudyError>> = std::thread::scope(|scope| {
        let handles: Vec<_> =
            runs.chunks_mut(share).map(|chunk| scope.spawn(|| serve(chunk))).collect();
        // A panic of ours goes on as one.
        handles
            .into_iter()
            .map(|h| h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    batch.clear();
    results.into_iter().collect()
}

fn finish_fold(runs: &mut [Running], systems: &[System]) -> Result<(), StudyError> {
    for (run, system) in runs.iter_mut().zip(systems) {
        let m = run.lap().map_err(|e| failed(&system.name, e))?;
        run.laps.push(Lap::new(&m, &system.disk));
    }
    Ok(())
}

/// Systems whose turn it is plan again.
fn begin_fold(
    (runs, systems): (&mut [Running], &[System]),
    learner: Learner,
    graph: &AccessGraph,
    foreseen: &BTreeMap<(usize, u64), Plan>,
    fold: usize,
) -> Result<(), StudyError> {
    for (run, system) in runs.iter_mut().zip(systems) {
        let World::Told(simulation) = &mut run.world else { continue };
        let plan = match system.learning.map(|l| l.schedule) {
            Some(Schedule::Foresight) => {
                foreseen.get(&(fold, run.room.0)).cloned().unwrap_or_default()
            }
            Some(Schedule::Every(every)) if (fold - 1).is_multiple_of(every.max(1) as usize) => {
                next_plan(&run.plan, graph, &system.plan_config(run.room, learner))
            }
            _ => continue,
        };
        run.plan.clone_from(&plan);
        simulation.install(plan).map_err(|e| failed(&system.name, e))?;
    }
    Ok(())
}

/// The plan that foresight would make for each fold, from it and those before, by fold and size of the area; and the median of the reads of
/// the first fold, where the area of those who want it amid the addresses lies.
#[expect(clippy::type_complexity)]
fn foresee(
    source: &Source,
    options: &RollingOptions,
    scan: &Scan,
    cut: &Cut,
    systems: &[System],
    progress: &mut dyn FnMut(RollingStage, Progress),
) -> Result<(BTreeMap<(usize, u64), Plan>, Option<Lba>), StudyError> {
    let foreseeing: Vec<(&System, Sectors)> = systems
        .iter()
        .filter_map(|s| {
            let learning = s.learning.filter(|l| l.schedule == Schedule::Foresight)?;
            Some((s, learning.room(scan.capacity)))
        })
        .collect();
    let (mut plans, mut median) = (BTreeMap::new(), None);
    let mut graph = AccessGraph::new(scan.pages, options.ram, EDGES);
    let mut fold = 0;
    let mut today = 0;
    let mut count = 0u64;
    let mut close = |graph: &AccessGraph, fold: usize| {
        if fold == 0 {
            median = graph.median_read();
        } else {
            for &(system, area) in &foreseeing {
                let config = system.plan_config(area, options.learner);
                plans.insert((fold, area.0), next_plan(&Plan::default(), graph, &config));
            }
        }
    };
    for_each(source, options, scan, cut, |reader, at, day, request| {
        if at != fold {
            close(&graph, fold);
            fold = at;
        }
        learn(&mut graph, options.learner.training, &mut today, day, request);
        count += 1;
        if count.is_multiple_of(65_536) {
            progress(RollingStage::Foresee, reader.progress());
        }
        Ok(())
    })?;
    close(&graph, fold);
    Ok((plans, median))
}

/// Days after which nothing is left of what was learned, and some to spare.
pub(crate) const AGES_MAX: u64 = 8;

/// One more request, and a day older where it is of another one.
fn learn(
    graph: &mut AccessGraph,
    training: Training,
    today: &mut u64,
    day: u64,
    request: &Request,
) {
    // Days without requests age too, but nothing is left after a few.
    for _ in *today..day.min(*today + AGES_MAX) {
        training.day_ended(graph);
    }
    *today = (*today).max(day);
    graph.observe(request);
}

/// Calls `each(reader, fold, day, request)` for every wanted request of the trace, in order.
fn for_each(
    source: &Source,
    options: &RollingOptions,
    scan: &Scan,
    cut: &Cut,
    mut each: impl FnMut(&Reader, usize, u64, &Request) -> Result<(), StudyError>,
) -> Result<(), StudyError> {
    let mut reader = source.open(&options.open)?;
    let (mut index, mut fold) = (0, 0);
    while let Some(record) = reader.next_record()? {
        let Some(request) = scan.place(&record) else { continue };
        let day = day_of(&record);
        // A record out of order stays in the fold that is open.
        fold = cut.fold(index, day).max(fold);
        each(&reader, fold, day, &request)?;
        index += 1;
    }
    Ok(())
}

/// The trace's day number, or 24 hours of its time.
fn day_of(record: &Record) -> u64 {
    record.day.map_or(record.request.arrival.0 / DAY, u64::from)
}

/// Requests of each day.
#[derive(Debug, Default)]
struct Days(BTreeMap<u64, u64>);

impl Days {
    fn count(&mut self, record: &Record) {
        *self.0.entry(day_of(record)).or_insert(0) += 1;
    }
}

/// Where folds begin.
#[derive(Clone, Debug)]
struct Cut {
    folds: Vec<Fold>,
    by: By,
}

#[derive(Clone, Debug)]
enum By {
    /// First day of each fold.
    Day(Vec<u64>),
    /// First request of each fold.
    Index(Vec<u64>),
}

/// Fewer days than this tell too little of one another: the trace is cut by requests.
pub(crate) const DAYS_MIN: usize = 4;

impl Cut {
    /// At most `most` folds of whole days with nearly equally many days each, where there are enough; else of
    /// nearly equally many requests.
    fn new(facts: &TraceFacts, days: &Days, most: u32) -> Self {
        let most = most.max(2) as usize;
        if days.0.len() >= DAYS_MIN {
            let active: Vec<(u64, u64)> = days.0.iter().map(|(&d, &n)| (d, n)).collect();
            let count = active.len().min(most);
            let mut folds = Vec::with_capacity(count);
            let mut starts = Vec::with_capacity(count);
            for k in 0..count {
                let run = &active[k * active.len() / count..(k + 1) * active.len() / count];
                starts.push(if k == 0 { 0 } else { run[0].0 });
                folds.push(Fold {
                    requests: run.iter().map(|&(_, n)| n).sum(),
                    days: run.len() as u64,
                });
            }
            return Self { folds, by: By::Day(starts) };
        }
        let total = facts.requests;
        let count = (most as u64).min(total);
        let starts: Vec<u64> = (0..count)
            .map(|k| (u128::from(k) * u128::from(total) / u128::from(count)) as u64)
            .collect();
        let ends = starts.iter().skip(1).copied().chain([total]);
        let folds =
            starts.iter().zip(ends).map(|(&s, e)| Fold { requests: e - s, days: 0 }).collect();
        Self { folds, by: By::Index(starts) }
    }

    /// Whether folds are of whole days.
    const fn has_days(&self) -> bool {
        matches!(self.by, By::Day(_))
    }

    /// The fold of the `index`-th request, which is of `day`.
    fn fold(&self, index: u64, day: u64) -> usize {
        let (starts, at) = match &self.by {
            By::Day(starts) => (starts, day),
            By::Index(starts) => (starts, index),
        };
        starts.partition_point(|&s| s <= at).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_never_torn_and_every_request_has_a_fold() {
        let days = Days(BTreeMap::from([(3, 10), (4, 20), (7, 30), (8, 40), (11, 50)]));
        let facts = TraceFacts { requests: 150, ..TraceFacts::default() };
        let cut = Cut::new(&facts, &days, 2);
        // Five active days in two folds: two and three.
        assert_eq!(cut.folds, [Fold { requests: 30, days: 2 }, Fold { requests: 120, days: 3 }]);
        assert_eq!([0, 3, 6, 7, 11, 99].map(|d| cut.fold(0, d)), [0, 0, 0, 1, 1, 1]);
        let cut = Cut::new(&facts, &days, 100);
        assert_eq!(cut.folds.len(), 5);
    }

    #[test]
    fn a_trace_of_one_day_is_cut_by_requests() {
        let days = Days(BTreeMap::from([(0, 7)]));
        let facts = TraceFacts { requests: 7, ..TraceFacts::default() };
        let cut = Cut::new(&facts, &days, 3);
        assert_eq!(cut.folds.iter().map(|f| f.requests).collect::<Vec<_>>(), [2, 2, 3]);
        assert_eq!([0, 1, 2, 3, 4, 6].map(|i| cut.fold(i, 0)), [0, 0, 1, 1, 2, 2]);
        let few = TraceFacts { requests: 1, ..TraceFacts::default() };
        assert_eq!(Cut::new(&few, &Days::default(), 8).folds.len(), 1);
    }
}
