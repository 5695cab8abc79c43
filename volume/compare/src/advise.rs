//! Does a learned policy pay, which one, how certain is the gain, and which other change would
//! help? Tries systems fold by fold (`rolling`), chooses among them by the earlier folds only, and
//! checks the choice on the later folds.

use std::ops::Range;

use seekless_disk::DeviceSpec;
use seekless_learn::Policy;
use seekless_trace::{Progress, Source};
use serde::Serialize;

use crate::advise_commands::{Yearly, commands, yearly};
use crate::candidates::{check, holds, systems};
use crate::error::StudyError;
use crate::estimate::{Gain, saved};
use crate::fold_costs::FoldCosts;
use crate::outcome::{Day, TraceFacts, power_note};
use crate::rolling::{Rolled, RollingOptions, RollingStage, roll};
use crate::system::{Host, System};

/// A gain below this is not worth a change: two per cent of disk time, or of the price.
pub(crate) const WORTH: f64 = 0.02;

/// The cost that systems are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RankedBy {
    /// Disk time.
    Time,
    /// The price of operations, where the present disk bills them.
    Money,
}

impl RankedBy {
    /// The savings of a system; none if nobody bills the operations of its device.
    pub const fn saves(self, tried: &Tried) -> Option<Gain> {
        match self {
            Self::Time => Some(tried.saves_busy),
            Self::Money => tried.saves_usd,
        }
    }

    /// The share that is saved; 0 if unknown.
    pub(crate) fn share(self, tried: &Tried) -> f64 {
        self.saves(tried).map_or(0.0, |gain| gain.share)
    }

    /// The share saved over the held-out folds.
    pub fn held_out(self, tried: &Tried) -> f64 {
        match self {
            Self::Time => tried.held_out_saves_busy,
            Self::Money => tried.held_out_saves_usd.unwrap_or(0.0),
        }
    }

    /// The cost in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Time => "the disk's time",
            Self::Money => "the price of operations",
        }
    }
}

/// The question.
#[derive(Clone, Debug)]
pub struct AdviseOptions {
    /// How the trace is read and cut.
    pub rolling: RollingOptions,
    /// The system as it is.
    pub host: Host,
    /// Policies to try, beside the system as it is.
    pub policies: Vec<Policy>,
    /// Other devices that could take the disk's place.
    pub others: Vec<DeviceSpec>,
    /// The disk in the commands of the answer.
    pub named: String,
}

/// Kind of change that a system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// None: the current system.
    None,
    /// A policy that learns.
    Layout,
    /// A policy that knows the next requests: no real choice.
    Foresight,
    /// More RAM, more read-ahead, or another scheduler; no policy.
    Setting,
    /// A policy that learns, with more RAM.
    LayoutAndRam,
    /// Another device in the disk's place.
    Device,
    /// Another device, with a learned layout on it.
    DeviceLayout,
}

/// A system that was tried, and its results.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// Its name.
    pub system: String,
    /// The kind of change.
    pub change: Change,
    /// The device.
    pub device: String,
    /// RAM.
    pub cache_bytes: u64,
    /// Read-ahead.
    pub read_ahead_bytes: u64,
    /// The drive's scheduler.
    pub scheduler: String,
    /// Size of the optimized area, or of the trail; none without a policy.
    pub optimized_bytes: Option<u64>,
    /// Folds from one plan to the next; none for systems that make no plans.
    pub replan_folds: Option<u32>,
    /// Disk time saved over the folds that choose, with moving counted, and its range for the
    /// held-out folds.
    pub saves_busy: Gain,
    /// Joules saved over the folds that choose, with moving counted, and its range for the held-out
    /// folds; none unless the power of both devices is known.
    pub saves_energy: Option<Gain>,
    /// The price of operations saved, in the same way; none unless both devices bill operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saves_usd: Option<Gain>,
    /// Disk time saved over the held-out folds.
    pub held_out_saves_busy: f64,
    /// Joules saved over the held-out folds.
    pub held_out_saves_energy: Option<f64>,
    /// The price of operations saved over the held-out folds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_saves_usd: Option<f64>,
    /// Over all folds but the first.
    pub total: FoldCosts,
    /// Fold by fold, the first included.
    pub laps: Vec<FoldCosts>,
    /// Day by day, under a guard.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
}

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A learned policy pays: the whole range is above the least useful gain, and the held-out
    /// folds agree.
    Worth,
    /// It pays on average, but the range reaches below the least useful gain, or the held-out folds
    /// disagree.
    Unsure,
    /// It does not pay.
    NoGain,
}

/// The answer: schema `seekless.advise/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// `seekless.advise/1`.
    pub schema: &'static str,
    /// The trace.
    pub trace: TraceFacts,
    /// The disk.
    pub disk: String,
    /// `closed` or `open`.
    pub replay: &'static str,
    /// Requests in flight of a closed loop.
    pub queue_depth: Option<u32>,
    /// The client's own time before each request, seconds; none without `--think`.
    pub think_s: Option<f64>,
    /// Requests of each fold.
    pub fold_requests: Vec<u64>,
    /// Days of each fold; zeroes if the trace is cut by requests.
    pub fold_days: Vec<u64>,
    /// Last folds, which no choice has seen.
    pub held_out_folds: usize,
    /// Share of disk time in seeks and rotational waits; the rest is transfer, and on some devices
    /// latency.
    pub positioning_share: f64,
    /// The cost that decides.
    pub ranked_by: RankedBy,
    /// Share of this cost that a clairvoyant policy saves over the folds that choose, background work
    /// counted; 0 if none was tried.
    pub foresight_share: f64,
    /// The answer in a word.
    pub verdict: Verdict,
    /// Index in `tried` of the chosen policy; none if no policy saves anything.
    pub choice: Option<usize>,
    /// The answer in sentences.
    pub sentences: Vec<String>,
    /// The commands to type for the chosen policy; empty if no policy is worth it.
    pub commands: Vec<String>,
    /// The savings of the choice in a year of such days; none for short traces, and for traces without
    /// times.
    pub a_year: Option<Yearly>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// All systems that were tried; the first is the current system.
    pub tried: Vec<Tried>,
}

/// Tries all systems on the trace, and draws the conclusion.
pub fn advise(
    source: &Source,
    options: &AdviseOptions,
    progress: &mut dyn FnMut(RollingStage, Progress),
) -> Result<Advice, StudyError> {
    options.policies.iter().try_for_each(check)?;
    let (mut changes, mut small) = (Vec::new(), Vec::new());
    let (systems, mut rolled) = roll(
        source,
        &options.rolling,
        |facts, capacity| {
            small.extend(options.others.iter().filter(|device| !holds(device, capacity)));
            let (kinds, systems) = systems(options, facts, capacity).into_iter().unzip();
            changes = kinds;
            systems
        },
        progress,
    )?;
    let tried = options.others.iter().filter(|d| systems.iter().any(|s| s.disk == **d));
    let devices = std::iter::once(&options.host.disk).chain(tried);
    rolled.notes.extend(devices.filter_map(power_note));
    let left_out =
        |d: &DeviceSpec| format!("{} is left out: it is too small for the trace", d.name());
    rolled.notes.extend(small.into_iter().map(left_out));
    Ok(conclude(options, &changes, &systems, rolled))
}

/// The folds that choose, of `folds`, and the number of held-out folds after them. The first fold
/// counts for nothing: no system has learned before it.
pub(crate) fn chooses(folds: usize) -> (Range<usize>, usize) {
    let counted = folds.saturating_sub(1);
    let held_out = if counted >= 3 { (counted / 4).max(1) } else { 0 };
    (1..1 + counted - held_out, held_out)
}

/// Savings against the first system, over the folds that choose and over the held-out folds.
pub(crate) struct Scale<'a> {
    base: &'a [FoldCosts],
    /// The folds that choose.
    pub(crate) chooses: Range<usize>,
    held_out: usize,
    by: RankedBy,
    /// Whether the power of the first system's device is known.
    powered: bool,
}

impl<'a> Scale<'a> {
    pub(crate) fn new(base: &'a [FoldCosts], by: RankedBy) -> Self {
        let (chooses, held_out) = chooses(base.len());
        Self { base, chooses, held_out, by, powered: true }
    }

    /// Savings over the folds that choose, with the range for the held-out folds.
    pub(crate) fn estimate(&self, laps: &[FoldCosts], of: fn(&FoldCosts) -> f64) -> Gain {
        let cost =
            |laps: &[FoldCosts]| laps[self.chooses.clone()].iter().map(of).collect::<Vec<f64>>();
        Gain::estimate(&cost(self.base), &cost(laps), self.held_out.max(1))
    }

    /// Savings over the held-out folds.
    pub(crate) fn left_out(&self, laps: &[FoldCosts], of: fn(&FoldCosts) -> f64) -> f64 {
        let sum = |laps: &[FoldCosts]| laps[self.chooses.end..].iter().map(of).sum();
        saved(sum(self.base), sum(laps))
    }

    fn tried(&self, system: &System, change: Change, laps: &[FoldCosts], days: Vec<Day>) -> Tried {
        let busy: fn(&FoldCosts) -> f64 = FoldCosts::all_busy_s;
        // Used only where the power of both devices is known.
        let joules: fn(&FoldCosts) -> f64 = |lap| lap.joules.unwrap_or(0.0);
        let usd: fn(&FoldCosts) -> f64 = |lap| lap.operations_usd;
        let billed = self.by == RankedBy::Money && system.disk.bills_operations();
        let powered = self.powered && system.disk.has_power();
        Tried {
            system: system.name.clone(),
            change,
            device: system.disk.name().to_owned(),
            cache_bytes: system.cache.0,
            read_ahead_bytes: system.read_ahead.0,
            scheduler: system.scheduler.to_string(),
            optimized_bytes: system.learning.map(|l| l.optimized.0),
            replan_folds: system.learning.and_then(|l| l.plan_folds()),
            days,
            saves_busy: self.estimate(laps, busy),
            saves_energy: powered.then(|| self.estimate(laps, joules)),
            saves_usd: billed.then(|| self.estimate(laps, usd)),
            held_out_saves_busy: self.left_out(laps, busy),
            held_out_saves_energy: powered.then(|| self.left_out(laps, joules)),
            held_out_saves_usd: billed.then(|| self.left_out(laps, usd)),
            total: FoldCosts::sum(&laps[1..]),
            laps: laps.to_vec(),
        }
    }
}

/// The learned policy that saves most, if any saves, and the verdict.
fn choose(tried: &[Tried], held_out: usize, by: RankedBy) -> (Option<usize>, Verdict) {
    let choice = (0..tried.len())
        .filter(|&i| tried[i].change == Change::Layout && by.share(&tried[i]) > 0.0)
        .max_by(|&a, &b| by.share(&tried[a]).total_cmp(&by.share(&tried[b])));
    let verdict = match choice.and_then(|i| Some((&tried[i], by.saves(&tried[i])?))) {
        Some((t, gain)) if gain.share >= WORTH => {
            let agrees = held_out > 0 && by.held_out(t) >= WORTH;
            if agrees && gain.low >= WORTH { Verdict::Worth } else { Verdict::Unsure }
        }
        _ => Verdict::NoGain,
    };
    (choice, verdict)
}

/// Chooses by the earlier folds, and checks on the later folds.
fn conclude(
    options: &AdviseOptions,
    changes: &[Change],
    systems: &[System],
    rolled: Rolled,
) -> Advice {
    let laps = rolled.laps();
    let billed = laps[0].iter().any(|lap| lap.operations_usd > 0.0);
    let by = if billed { RankedBy::Money } else { RankedBy::Time };
    let powered = options.host.disk.has_power();
    let scale = Scale { powered, ..Scale::new(&laps[0], by) };
    let results = laps.iter().zip(&rolled.runs);
    let tried: Vec<Tried> = systems
        .iter()
        .zip(changes)
        .zip(results)
        .map(|((system, change), (laps, run))| scale.tried(system, *change, laps, run.days()))
        .collect();
    let (choice, verdict) = choose(&tried, scale.held_out, by);
    let now = &tried[0].total;
    let foresight = tried.iter().find(|t| t.change == Change::Foresight);
    let ((replay, queue_depth), think_s) = (rolled.replay_words(), rolled.think_s());
    let mut advice = Advice {
        schema: "seekless.advise/1",
        disk: options.host.disk.name().to_owned(),
        replay,
        queue_depth,
        think_s,
        fold_requests: rolled.folds.iter().map(|f| f.requests).collect(),
        fold_days: rolled.folds.iter().map(|f| f.days).collect(),
        held_out_folds: scale.held_out,
        positioning_share: if now.busy_s > 0.0 { now.positioning_s / now.busy_s } else { 0.0 },
        ranked_by: by,
        foresight_share: foresight.map_or(0.0, |t| by.share(t)),
        verdict,
        choice,
        sentences: Vec::new(),
        commands: Vec::new(),
        a_year: None,
        notes: rolled.notes,
        trace: rolled.trace,
        tried,
    };
    let policy_of = |i: usize| systems[i].learning.map(|l| l.policy);
    advice.commands = commands(&advice, policy_of, &options.named);
    advice.a_year = yearly(&advice, &options.host.disk);
    advice.sentences = crate::advise_words::sentences(&advice);
    advice
}
