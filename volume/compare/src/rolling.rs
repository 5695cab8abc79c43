//! Many systems, one trace. The trace is cut into folds ([`Cutting`]). Every system serves every
//! fold, and before each fold plans again from the folds before. So training always precedes
//! measurement, as in a live system. If the trace is cut in two, the first fold trains and is not
//! served.
//!
//! All systems step side by side over one reading of the trace, in batches: memory does not grow
//! with the trace. Systems with the same learning share one learner.

use std::num::NonZero;
use std::ops::ControlFlow;

use seekless_block::{Bytes, Lba, Request, Sectors, SimTime};
use seekless_learn::{DAY, Learner, Policy, PolicyName, Streams, Training, VolumeShape};
use seekless_sim::Replay;
use seekless_trace::{OpenOptions, Progress, Reader, Source};

use crate::advise::chooses;
use crate::error::StudyError;
use crate::fold_costs::FoldCosts;
use crate::folds::{Cutting, Days, Fold, FoldCuts, day_of};
use crate::foresee::{foresee, is_clairvoyant};
use crate::outcome::{Split, TraceFacts};
use crate::scan::Scan;
use crate::system::System;
use crate::worlds::{Begin, Running, Timed};

/// Requests that all systems get at a time.
const BATCH: usize = 1 << 15;

/// Fewer requests tell nothing about the following ones.
const REQUESTS_MIN: u64 = 100;

/// More days than this are probably times that were read in a wrong unit.
const DAYS_MANY: u64 = 1_000;

/// How the trace is read and cut.
#[derive(Clone, Debug)]
pub struct RollingOptions {
    /// How the trace is read.
    pub open: OpenOptions,
    /// Only this device of the trace.
    pub device: Option<String>,
    /// Closed or open loop.
    pub replay: Replay,
    /// Where the trace is cut.
    pub cutting: Cutting,
    /// RAM of the systems that learn: reads answered by RAM are not learned.
    pub ram: Bytes,
    /// Space assumed to be free, for replicas.
    pub free: AssumedFree,
    /// Threads that serve the systems; none = one per processor.
    pub threads: Option<NonZero<usize>>,
}

/// Free space before a trace without discards, chosen among untouched space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AssumedFree {
    /// Share of the device, 0 to 1.
    pub share: f64,
    /// Chooses the part.
    pub seed: u64,
}

impl Default for AssumedFree {
    /// Two fifths.
    fn default() -> Self {
        Self { share: 0.4, seed: 1 }
    }
}

/// The stage, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollingStage {
    /// Counting the trace.
    Scan,
    /// Learning in advance: places of areas, free space, reads for clairvoyant policies.
    Foresee,
    /// Running all systems.
    Run,
}

impl RollingStage {
    /// The work, in one word.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Scan => "reading",
            Self::Foresee => "learning",
            Self::Run => "simulating",
        }
    }
}

/// Reports the progress of a comparison.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(RollingStage, Progress);

/// Systems after the whole run.
pub(crate) struct Rolled {
    pub(crate) trace: TraceFacts,
    pub(crate) folds: Vec<Fold>,
    /// Training and measured part, if the trace was cut in two.
    pub(crate) split: Option<Split>,
    /// The actual replay: closed if the trace has no times.
    pub(crate) replay: Replay,
    /// Notes for the reader.
    pub(crate) notes: Vec<String>,
    /// By system, in the order given.
    pub(crate) runs: Vec<Running>,
}

impl Rolled {
    /// By system, then by fold. Learning systems serve the first fold without a plan.
    pub(crate) fn laps(&self) -> Vec<Vec<FoldCosts>> {
        self.runs.iter().map(Running::costs).collect()
    }

    /// `closed` or `open`, and the requests in flight of a closed loop.
    pub(crate) const fn replay_words(&self) -> (&'static str, Option<u32>) {
        match self.replay {
            Replay::Closed { depth } => ("closed", Some(depth)),
            Replay::Think { .. } => ("closed", Some(1)),
            Replay::Open => ("open", None),
        }
    }

    /// The client's own time before each request, where it thinks.
    pub(crate) fn think_s(&self) -> Option<f64> {
        match self.replay {
            Replay::Think { time } => Some(time.as_secs_f64()),
            Replay::Closed { .. } | Replay::Open => None,
        }
    }
}

/// Runs every system over every fold. `systems` may depend on the trace's facts.
pub(crate) fn roll(
    source: &Source,
    options: &RollingOptions,
    systems: impl FnOnce(&TraceFacts, Sectors) -> Vec<System>,
    progress: Tell<'_>,
) -> Result<(Vec<System>, Rolled), StudyError> {
    let path = source.path().display().to_string();
    let (mut scan, days) = scan(source, options, progress)?;
    let (cut, split) = match options.cutting {
        Cutting::Folds(_) if scan.facts.requests < REQUESTS_MIN => {
            return Err(StudyError::TooShort { path, requests: scan.facts.requests });
        }
        Cutting::Folds(most) => (FoldCuts::folds(&scan.facts, &days, most), None),
        Cutting::Train(share) => {
            let (cut, split) = FoldCuts::train(&scan.facts, &days, share);
            if split.measured_requests == 0 {
                return Err(StudyError::NothingMeasured { requests: scan.facts.requests });
            }
            (cut, Some(split))
        }
    };
    let mut notes = std::mem::take(&mut scan.notes);
    let trip = FoldedTrace { source, options, scan, cut, first_day: days.first() };
    let systems = systems(&trip.scan.facts, trip.scan.capacity);
    systems.iter().try_for_each(|system| system.check_fits(&trip.scan, &path))?;

    let mut foreseen = foresee(&trip, &systems, progress)?;
    notes.extend(foreseen.note.clone());
    let replay = possible(options.replay, &trip.scan, &mut notes);
    let last_to_know = systems.iter().rposition(is_clairvoyant);
    let begin = |(i, system): (usize, &System)| {
        let area_at = foreseen.area_at.get(i).copied().flatten();
        let free = foreseen.free.clone();
        // They may need much memory: the last policy takes them.
        let reads = is_clairvoyant(system).then(|| {
            let reads = &mut foreseen.reads;
            if last_to_know == Some(i) { std::mem::take(reads) } else { reads.clone() }
        });
        system.begin(Begin { scan: &trip.scan, replay, area_at, free, reads })
    };
    let runs = systems.iter().enumerate().map(begin).collect::<Result<Vec<_>, _>>()?;
    let learners = Learners::of(&trip, &systems, |_| true);
    let march = SystemsReplay { trip: &trip, runs, learners, batch: Vec::new(), fold: 0 };
    let runs = march.run(progress)?;
    notes.extend(runs.iter().filter_map(Running::note));
    notes.extend(own_work(&runs));
    let FoldedTrace { scan, cut, .. } = trip;
    Ok((systems, Rolled { trace: scan.facts, folds: cut.folds, split, replay, notes, runs }))
}

/// A note of the drive's own work, if it is above a hundredth of a system's busy time.
fn own_work(runs: &[Running]) -> Option<String> {
    let times: Vec<(f64, f64)> = runs.iter().map(Running::own_work).collect();
    if times.iter().all(|(own_s, busy_s)| *own_s <= 0.01 * busy_s) {
        return None;
    }
    let of = |i: usize| format!("{:.1} s ({})", times[i].0, runs[i].name);
    let most = (0..runs.len()).max_by(|&a, &b| times[a].0.total_cmp(&times[b].0))?;
    let rest = if most == 0 { String::new() } else { format!(", at most {}", of(most)) };
    Some(format!(
        "the drive's own work (cleaning, writing its cache, reading ahead) is in the joules, but in no disk time: {}{rest}",
        of(0)
    ))
}

/// The first pass.
fn scan(
    source: &Source,
    options: &RollingOptions,
    progress: Tell<'_>,
) -> Result<(Scan, Days), StudyError> {
    let path = source.path().display().to_string();
    let mut reader = source.open(&options.open)?;
    // The end of the trace says whether its days are valid.
    let (mut by_time, mut by_number, mut back) = (Days::default(), Days::default(), 0u64);
    let mut scan = Scan::new(&mut reader, options.device.as_deref(), |reader, record, index| {
        by_time.count(day_of(record, false));
        let number = day_of(record, true);
        back += u64::from(by_number.count(number) > number);
        if index.is_multiple_of(65_536) {
            progress(RollingStage::Scan, reader.progress());
        }
    })
    .map_err(|e| StudyError::scan(e, &path))?;
    scan.facts.path.clone_from(&path);
    let has_days = scan.facts.days > 0;
    let days = if has_days { by_number } else { by_time };
    if has_days {
        scan.facts.days = days.total();
    }
    if has_days && back > 0 {
        scan.notes.push(format!(
            "the days go back: {back} requests have an earlier day than a request before them, and count for the later day"
        ));
    }
    if days.total() > DAYS_MANY {
        scan.notes.push(format!(
            "the trace has {} days with requests. If this is too much, its times are read in a wrong unit: --columns names the unit. The guard forgives a loss on each such day",
            days.total()
        ));
    }
    Ok((scan, days))
}

/// The replay asked for, or a closed loop if the trace has no times.
fn possible(asked: Replay, scan: &Scan, notes: &mut Vec<String>) -> Replay {
    if asked == Replay::Open && !scan.facts.has_times {
        notes
            .push("the trace has no times: replayed closed loop, one request at a time".to_owned());
        return Replay::Closed { depth: 1 };
    }
    asked
}

/// A trace, and how to read it.
pub(crate) struct FoldedTrace<'a> {
    source: &'a Source,
    pub(crate) options: &'a RollingOptions,
    pub(crate) scan: Scan,
    pub(crate) cut: FoldCuts,
    first_day: u64,
}

/// One request of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldedRequest {
    pub(crate) index: u64,
    pub(crate) fold: usize,
    pub(crate) day: u64,
    /// The learner's time. Only days count: a trace may have no other times.
    pub(crate) now: SimTime,
    pub(crate) request: Request,
}

impl FoldedTrace<'_> {
    /// Calls `each` for every wanted request of the trace, in order, until `each` breaks.
    pub(crate) fn each(
        &self,
        mut each: impl FnMut(&Reader, FoldedRequest) -> Result<ControlFlow<()>, StudyError>,
    ) -> Result<(), StudyError> {
        let mut reader = self.source.open(&self.options.open)?;
        let (mut index, mut fold, mut day) = (0, 0, 0);
        let has_days = self.scan.facts.days > 0;
        while let Some(record) = reader.next_record()? {
            let Some(request) = self.scan.place(&record) else { continue };
            // A record out of order stays in the current fold and day.
            day = day_of(&record, has_days).max(day);
            fold = self.cut.fold(index, day).max(fold);
            let now = SimTime((day.saturating_sub(self.first_day)).saturating_mul(DAY.0));
            if each(&reader, FoldedRequest { index, fold, day, now, request })?.is_break() {
                break;
            }
            index += 1;
        }
        Ok(())
    }
}

/// Learners for plans of several systems: one for each way of learning.
#[derive(Debug)]
pub(crate) struct Learners(Vec<((Training, Streams), Learner)>);

impl Learners {
    /// For the systems whose policy plans from earlier requests.
    pub(crate) fn of(
        trip: &FoldedTrace<'_>,
        systems: &[System],
        which: impl Fn(&Policy) -> bool,
    ) -> Self {
        let mut all = Self(Vec::new());
        for policy in systems.iter().filter_map(System::policy) {
            let is_told = !policy.adapts() && !policy.replicates();
            let way = (policy.training, policy.streams);
            if is_told && which(&policy) && all.by(&policy).is_none() {
                all.0.push((way, Self::new_learner(trip, policy)));
            }
        }
        all
    }

    fn new_learner(trip: &FoldedTrace<'_>, policy: Policy) -> Learner {
        let shape = VolumeShape {
            capacity: trip.scan.capacity,
            grid: trip.scan.grid,
            ram: trip.options.ram,
            // Each system plans with its own values.
            ..VolumeShape::default()
        };
        Learner::new(policy, shape)
    }

    pub(crate) fn observe(&mut self, stop: &FoldedRequest) {
        self.0.iter_mut().for_each(|(_, learner)| learner.observe(stop.now, &stop.request));
    }

    /// The learner from which a policy plans.
    pub(crate) fn by(&self, policy: &Policy) -> Option<&Learner> {
        let way = (policy.training, policy.streams);
        self.0.iter().find(|(of, _)| *of == way).map(|(_, learner)| learner)
    }
}

/// All systems on their way through the trace.
struct SystemsReplay<'a, 'b> {
    trip: &'a FoldedTrace<'b>,
    runs: Vec<Running>,
    learners: Learners,
    batch: Vec<Timed>,
    fold: usize,
}

impl SystemsReplay<'_, '_> {
    fn run(mut self, progress: Tell<'_>) -> Result<Vec<Running>, StudyError> {
        let trip = self.trip;
        let (trains, last) = (trip.cut.trains, trip.cut.last());
        let takes_training = self.runs.iter().any(Running::takes_training);
        trip.each(|reader, stop| {
            if stop.fold != self.fold {
                self.end_fold()?;
                self.begin_fold(&stop)?;
            }
            // No system plans after the last fold has begun.
            if stop.fold < last {
                self.learners.observe(&stop);
            }
            let trains = trains && stop.fold == 0;
            if !trains || takes_training {
                let FoldedRequest { request, day, now, .. } = stop;
                self.batch.push(Timed { request, day, now, trains });
            }
            if self.batch.len() == BATCH {
                self.serve()?;
            }
            if stop.index.is_multiple_of(65_536) {
                progress(RollingStage::Run, reader.progress());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.serve()?;
        self.runs.iter_mut().try_for_each(Running::drain)?;
        self.runs.iter_mut().try_for_each(Running::lap)?;
        Ok(self.runs)
    }

    fn serve(&mut self) -> Result<(), StudyError> {
        let threads = threads(self.trip.options.threads);
        let share = self.runs.len().div_ceil(threads).max(1);
        let requests = self.batch.as_slice();
        let serve = |runs: &mut [Running]| runs.iter_mut().try_for_each(|run| run.serve(requests));
        if threads == 1 {
            let done = serve(&mut self.runs);
            self.batch.clear();
            return done;
        }
        let results: Vec<Result<(), StudyError>> = std::thread::scope(|scope| {
            let handles: Vec<_> =
                self.runs.chunks_mut(share).map(|chunk| scope.spawn(|| serve(chunk))).collect();
            // A panic in a thread goes on in the caller.
            handles
                .into_iter()
                .map(|h| h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        self.batch.clear();
        results.into_iter().collect()
    }

    fn end_fold(&mut self) -> Result<(), StudyError> {
        self.serve()?;
        if self.trip.cut.trains {
            return Ok(()); // it was not served
        }
        // The folds that choose pay for all writes that they absorbed, and for no others.
        let choose = chooses(self.trip.cut.folds.len()).0;
        if [choose.start, choose.end].contains(&(self.fold + 1)) {
            self.runs.iter_mut().try_for_each(Running::settle_buffer)?;
        }
        self.runs.iter_mut().try_for_each(Running::lap)
    }

    /// Systems with a plan due plan again.
    fn begin_fold(&mut self, stop: &FoldedRequest) -> Result<(), StudyError> {
        let was_first = self.fold == 0;
        self.fold = stop.fold;
        for run in &mut self.runs {
            if was_first {
                run.end_first_fold(stop.now, self.trip.cut.trains)?;
            }
            let (Some(policy), Some(config)) = (run.policy, run.plan_config) else { continue };
            let Some(every) = run.plan_folds else { continue };
            let learner = self.learners.by(&policy);
            let plan = match learner {
                Some(learner) if run.is_to_shuffle() => {
                    learner.accesses().into_iter().for_each(|graph| run.shuffle(graph));
                    continue;
                }
                Some(learner) if (stop.fold - 1).is_multiple_of(every.max(1) as usize) => {
                    learner.next_plan(&run.plan, &config)
                }
                _ => continue,
            };
            run.install(plan)?;
        }
        self.learners.0.iter_mut().for_each(|(_, learner)| learner.planned());
        Ok(())
    }
}

/// Threads to use; none asked = one per processor.
pub(crate) fn threads(asked: Option<NonZero<usize>>) -> usize {
    asked.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get)
}

/// The first sector of a system's area, as learned so far.
pub(crate) fn area_of(system: &System, learner: &Learner, scan: &Scan) -> Option<Lba> {
    let graph = learner.accesses()?;
    match system.policy()?.name() {
        PolicyName::OuterZone => {
            let room = system.engine(scan.capacity, scan.grid).room();
            crate::place::cheapest(&system.disk, graph, room, scan.capacity)
        }
        _ => graph.median_read(),
    }
}
