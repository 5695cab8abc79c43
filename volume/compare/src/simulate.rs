//! Compares policies on a trace and a modelled disk: each learns from the first part of the trace,
//! and serves the rest. This is the rolling comparison with two folds, of which the first is not
//! served.

use std::collections::BTreeSet;

use seekless_block::{Bytes, Sectors};
use seekless_learn::{Policy, PolicyName};
use seekless_trace::{Progress, Source};

use crate::error::StudyError;
use crate::outcome::{Adaptive, Outcome, Run, Split, power_note};
use crate::rolling::{Rolled, RollingOptions, RollingStage, roll};
use crate::system::{Host, Learning, System, TRAIL_MIN};

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the trace is read and cut: [`crate::Cutting::Train`].
    pub rolling: RollingOptions,
    /// The disk and its surroundings.
    pub host: Host,
    /// The policies, in order.
    pub policies: Vec<Policy>,
    /// Share of the days, or of the requests, for training, as it is reported.
    pub train: f64,
    /// Size of the optimized area, or the limit for replicas; without it the policy chooses.
    pub optimized: Option<Bytes>,
    /// Share of the write buffer in the area, in percent; 0 writes through.
    pub write_buffer: u8,
}

/// Size of an area for plans, and the most that replicas take.
const PLANNED: Bytes = Bytes(256 << 20);

const NO_BUFFER: &str = "vanilla has no write buffer: the savings against vanilla include those of the write buffer; in the table of days, vanilla has a write buffer";

impl Options {
    fn system(&self, policy: Policy, capacity: Sectors) -> System {
        let name = policy.to_string();
        let (policy, optimized) = match self.optimized {
            Some(optimized) => (policy, optimized),
            None if policy.adapts() => self.host.with_trail(policy, capacity),
            None => (policy, PLANNED),
        };
        let learning = (policy.name() != PolicyName::Vanilla).then_some(Learning {
            policy,
            optimized,
            write_buffer: self.write_buffer,
            gather: self.host.gather,
            every: 1,
        });
        self.host.system(name, learning)
    }
}

/// A note if the write buffers have several sizes.
fn buffers_note(percent: u8, systems: &[System]) -> Option<String> {
    let has_area = |s: &&System| s.policy().is_some_and(|policy| policy.has_area());
    let areas: BTreeSet<Sectors> = systems.iter().filter(has_area).map(System::area).collect();
    (percent > 0 && areas.len() > 1).then(|| {
        format!(
            "the write buffers differ: each is {percent}% of its policy's area; with --optimized the areas are alike"
        )
    })
}

/// A note if a policy that was asked for a trail has none, or a small one.
fn trail_note(asked: &Policy, system: &System) -> Option<String> {
    let (policy, size) = (system.policy()?, system.area().bytes());
    if !asked.trail || !policy.adapts() || size >= TRAIL_MIN {
        return None;
    }
    Some(if !policy.trail {
        let disk = system.disk.name();
        format!(
            "{asked}: {disk} has no space for a trail behind the trace, so the policy only reads ahead"
        )
    } else if size == Bytes(0) {
        format!(
            "{asked}: an area of 0 bytes has no space for a trail, so the policy only reads ahead"
        )
    } else {
        format!(
            "{asked}: a trail of {size} is hardly worth its writes; {TRAIL_MIN} is the least without --optimized"
        )
    })
}

/// Compares policies on a trace. Calls `progress` from time to time.
pub fn simulate(
    source: &Source,
    options: &Options,
    progress: &mut dyn FnMut(RollingStage, Progress),
) -> Result<Outcome, StudyError> {
    let systems =
        |_: &_, capacity| options.policies.iter().map(|p| options.system(*p, capacity)).collect();
    let (systems, rolled) = roll(source, &options.rolling, systems, progress)?;
    let area = systems.iter().map(System::area).max().unwrap_or(Sectors(0));
    let ((replay, queue_depth), think_s) = (rolled.replay_words(), rolled.think_s());
    let Rolled { trace, split, mut notes, runs: ran, .. } = rolled;
    notes.extend(power_note(&options.host.disk));
    let has_vanilla = options.policies.iter().any(|p| p.name() == PolicyName::Vanilla);
    if options.write_buffer > 0 && has_vanilla && options.policies.len() > 1 {
        notes.push(NO_BUFFER.to_owned());
    }
    notes.extend(buffers_note(options.write_buffer, &systems));
    let trails = options.policies.iter().zip(&systems);
    notes.extend(trails.filter_map(|(asked, system)| trail_note(asked, system)));
    let (mut runs, mut measured) = (Vec::new(), Vec::new());
    for (mut run, system) in ran.into_iter().zip(&systems) {
        // The training fold has no lap.
        let Some(m) = run.laps.pop() else { continue };
        let area = (run.area_at.map(|at| at.0), system.area().bytes().0);
        let wall_s = run.wall.as_secs_f64();
        let adaptive = run.guard().map(|guard| Adaptive::new(&m, &guard));
        let done = Run::new(&run.name, area, &m, wall_s, &options.host.disk);
        runs.push(Run { days: run.days(), adaptive, ..done });
        measured.push(m);
    }
    Ok(Outcome {
        schema: "seekless.simulate/1",
        disk: options.host.disk.name().to_owned(),
        scheduler: options.host.scheduler.to_string(),
        spin_down: options.host.spin_down.to_string(),
        replay,
        queue_depth,
        think_s,
        cache_bytes: options.host.cache.0,
        read_ahead_bytes: options.host.read_ahead.0,
        cluster_bytes: options.host.cluster.0,
        optimized_bytes: area.bytes().0,
        train: options.train,
        split: split.unwrap_or_else(|| Split::all(&trace)),
        trace,
        notes,
        runs,
        measured,
    })
}
