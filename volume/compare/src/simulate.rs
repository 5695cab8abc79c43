//! Compares policies on a trace and a modelled disk: each learns from the first part of the trace,
//! and serves the rest. This is the rolling comparison with two folds, of which the first is not
//! served.

use seekless_block::{Bytes, Sectors};
use seekless_disk::DeviceSpec;
use seekless_learn::{Policy, PolicyName};
use seekless_trace::{Progress, Source};

use crate::error::StudyError;
use crate::outcome::{Adaptive, Day, Outcome, Run, Split};
use crate::rolling::{Rolled, RollingOptions, RollingStage, roll};
use crate::system::{Host, Learning, System};

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

/// Size of a trail.
const TRAIL: Bytes = Bytes(2 << 30);
/// Size of an area for plans, and the most that replicas take.
const PLANNED: Bytes = Bytes(256 << 20);

impl Options {
    fn system(&self, policy: Policy) -> System {
        let learning = (policy.name() != PolicyName::Vanilla).then_some(Learning {
            policy,
            optimized: self.optimized.unwrap_or(if policy.adapts() { TRAIL } else { PLANNED }),
            write_buffer: self.write_buffer,
            gather: self.host.gather,
            every: 1,
        });
        self.host.system(policy.to_string(), learning)
    }
}

/// Compares policies on a trace. Calls `progress` from time to time.
pub fn simulate(
    source: &Source,
    options: &Options,
    progress: &mut dyn FnMut(RollingStage, Progress),
) -> Result<Outcome, StudyError> {
    let systems = |_: &_, _| options.policies.iter().map(|p| options.system(*p)).collect();
    let (systems, rolled) = roll(source, &options.rolling, systems, progress)?;
    let area = systems.iter().map(System::area).max().unwrap_or(Sectors(0));
    let (replay, queue_depth) = rolled.replay_words();
    let Rolled { trace, split, mut notes, runs: ran, .. } = rolled;
    if matches!(&options.host.disk, DeviceSpec::Volume(v) if v.power.is_none()) {
        notes.push("the device's power is not known: its energy is given as zero".to_owned());
    }
    let (mut runs, mut measured) = (Vec::new(), Vec::new());
    for mut run in ran {
        let days = run.days();
        // The training fold has no lap. Judged days count from one.
        let Some(m) = run.laps.pop() else { continue };
        let start = run.area_at.map(|at| at.0);
        let wall_s = run.wall.as_secs_f64();
        let guard = run.guard().map(|guard| Adaptive::new(&m, &guard));
        let done = Run::new(&run.name, start, &m, wall_s, options.host.disk.priced());
        let days = days.iter().map(|d| Day { day: d.day - 1, ..Day::of(d) }).collect();
        runs.push(Run { days, adaptive: guard, ..done });
        measured.push(m);
    }
    Ok(Outcome {
        schema: "seekless.simulate/1",
        disk: options.host.disk.name().to_owned(),
        scheduler: options.host.scheduler.to_string(),
        spin_down: options.host.spin_down.to_string(),
        replay,
        queue_depth,
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
