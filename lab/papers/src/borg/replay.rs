//! BORG's replays (FAST'09, 6): one system replays a trace and makes a new plan at given times.
//! `borg-paper` has the paper's write path (4.2, 4.5), `borg` a log for all writes.
//! Results are the cost of each phase between two reconfigurations, the cost of each
//! reconfiguration, and the differences between a plan and the plan before. The vanilla system is
//! the same replay without an optimized area.

use std::collections::HashSet;
use std::time::Instant;

use seekless_block::{
    Bytes, Duration, Lba, Op, PAGE_BYTES, PAGE_SECTORS, Request, Sectors, SimTime,
};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_learn::{Learner, Plan, Planning, Policy, PolicyName, Training};
use seekless_sim::{Measured, Replay, SimConfig, SimError, Simulation, shape_of};
use seekless_trace::{OpenOptions, Source};
use serde::Serialize;

use crate::reproduction::sum_of_runs;
use seekless_compare::{StudyError, in_parallel};

/// Requests served and learned from at a time.
const BATCH: usize = 1 << 15;
/// Most requests in flight: Linux's block layer lets a program wait that sends more (`nr_requests`).
const WAITING: u32 = 128;

#[derive(Clone, Debug)]
pub(super) struct BorgSystem {
    pub disk: DeviceSpec,
    /// `borg` or `borg-paper`.
    pub policy: PolicyName,
    /// Size of the optimized area; 0 is vanilla.
    pub area: Bytes,
    /// Share of the area for the write buffer, in percent; 0 is write-through.
    pub write_buffer_percent: u8,
    /// Longest time that absorbed writes stay in RAM.
    pub gather: Duration,
    /// The requests that each plan is learned from; nothing ages within a replay.
    pub training: Training,
    /// How many times faster than in the trace requests arrive, at least 1. A reconfiguration lets
    /// no request wait: the arrival times begin again at its end.
    pub speed: u64,
    /// The order of requests that wait for the disk.
    pub scheduler: Scheduler,
    /// Times of reconfigurations, from the first request, ascending.
    pub reconfigure: Vec<SimTime>,
}

/// The cost of a phase between two reconfigurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct BorgPhase {
    pub requests: u64,
    pub sectors: u64,
    /// Busy time of the disk for client requests.
    pub busy_s: f64,
    /// Busy time of background work: destaging of the write buffer. Not in `busy_s`.
    pub background_s: f64,
    /// I/Os of the disk for client requests.
    pub device_ios: u64,
    /// Those of these I/Os that do not start where the I/O before ended.
    pub nonsequential: u64,
    /// Sectors between the end of an I/O and the start of the next, summed.
    pub seek_sectors: f64,
    /// Requests answered from a copy.
    pub copy_hits: u64,
    /// Writes that went into the write buffer.
    pub absorbed: u64,
    /// Writes of which a part, or all, went to copies in place.
    pub in_place: u64,
    /// Whole pages written by clients that have no copy in the plan, each write counted: what a log
    /// must hold until it is emptied.
    pub unmapped_bytes: u64,
    /// The same, each page counted once in a phase: what a buffer must hold that is overwritten in
    /// place.
    pub unmapped_once_bytes: u64,
    /// Bytes destaged from the write buffer.
    pub destaged_bytes: u64,
    /// Mean response time.
    pub response_ms: f64,
}

impl BorgPhase {
    pub(super) fn new(m: &Measured, sectors: u64, installing_s: f64) -> Self {
        Self {
            requests: m.requests,
            sectors,
            busy_s: m.foreground.busy().as_secs_f64(),
            background_s: m.background.busy().as_secs_f64() - installing_s,
            device_ios: m.device_ios,
            nonsequential: m.nonsequential,
            seek_sectors: m.seek_distance_sectors as f64,
            copy_hits: m.engine.copy_reads,
            absorbed: m.engine.absorbed,
            in_place: m.engine.in_place,
            unmapped_bytes: 0,
            unmapped_once_bytes: 0,
            destaged_bytes: m.engine.destaged_bytes,
            response_ms: m.response.mean_ms(),
        }
    }

    /// The sum of several phases; the response time is the mean over all requests.
    pub(super) fn sum(phases: &[Self]) -> Self {
        sum_of_runs!(
            phases,
            requests sectors busy_s background_s device_ios nonsequential seek_sectors copy_hits
            absorbed in_place unmapped_bytes unmapped_once_bytes destaged_bytes
        )
    }

    /// Busy time of the disk, whatever it does: the paper's "total disk busy time" (6).
    pub(super) fn disk_s(&self) -> f64 {
        self.busy_s + self.background_s
    }

    /// "# Seeks / # BlocksRead" (FAST'09, 6), blocks of 512 bytes.
    pub(super) fn nonsequential_share(&self) -> f64 {
        self.nonsequential as f64 / self.sectors.max(1) as f64
    }

    /// Mean distance from one I/O to the next, in sectors.
    pub(super) fn seek_mean_sectors(&self) -> f64 {
        self.seek_sectors / self.device_ios.max(1) as f64
    }
}

/// Differences between a plan and the plan before, in bytes (FAST'09, Figure 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct PlanChange {
    /// Bytes with a copy in the new plan alone.
    pub new_bytes: u64,
    /// Bytes with a copy at another place.
    pub relocated_bytes: u64,
    /// Bytes with a copy at the same place.
    pub kept_bytes: u64,
    /// Bytes with a copy in the old plan alone.
    pub removed_bytes: u64,
}

impl PlanChange {
    /// From one plan to the next, whole pages.
    pub(super) fn between(before: &Plan, after: &Plan) -> Self {
        let (before, after) = (pages(before), pages(after));
        let mut change = Self::default();
        let mut old = before.iter().peekable();
        for &(home, place) in &after {
            while old.next_if(|o| o.0 < home).is_some() {
                change.removed_bytes += PAGE_BYTES;
            }
            match old.next_if(|o| o.0 == home) {
                None => change.new_bytes += PAGE_BYTES,
                Some(&(_, at)) if at == place => change.kept_bytes += PAGE_BYTES,
                Some(_) => change.relocated_bytes += PAGE_BYTES,
            }
        }
        change.removed_bytes += old.count() as u64 * PAGE_BYTES;
        change
    }
}

/// Pages of a plan by home, with their places.
fn pages(plan: &Plan) -> Vec<(u64, u64)> {
    let of = |c: &seekless_learn::Copy| {
        let (home, place, len) = (c.home.start.0, c.place.0, c.home.len.0);
        (0..len.div_ceil(PAGE_SECTORS))
            .map(move |i| (home / PAGE_SECTORS + i, place + i * PAGE_SECTORS))
    };
    let mut all: Vec<_> = plan.copies.iter().flat_map(of).collect();
    all.sort_unstable();
    all
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Reconfiguration {
    /// This computer's time to build the access graph from the requests since the last
    /// reconfiguration.
    pub analyzer_s: f64,
    /// This computer's time to plan.
    pub planner_s: f64,
    /// Busy time of the modelled disk to move the plan's blocks.
    pub reconfigurer_s: f64,
    /// Bytes that the plan writes into the area.
    pub moved_bytes: u64,
    /// Vertices of the access graph.
    pub vertices: u64,
    pub edges: u64,
    /// Differences from the plan before.
    pub change: PlanChange,
}

/// The cost of a replay: one phase more than reconfigurations.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct BorgRun {
    /// Between reconfigurations.
    pub phases: Vec<BorgPhase>,
    /// The reconfigurations; none for vanilla.
    pub reconfigurations: Vec<Reconfiguration>,
    /// Destaging of what the write buffer holds after the last phase. The paper's bars end before.
    pub drained: BorgPhase,
}

/// A replay to run: a trace with one device of this capacity, and the system.
#[derive(Clone, Debug)]
pub(super) struct BorgJob<'a> {
    pub source: &'a Source,
    /// Size of the client's device.
    pub capacity: Sectors,
    pub system: BorgSystem,
}

/// Runs all replays, one a processor at a time. `progress` gets the number of finished replays.
pub(super) fn borg(
    jobs: &[BorgJob<'_>],
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<BorgRun>, StudyError> {
    in_parallel(jobs, None, replay, progress).into_iter().collect()
}

/// The paper's planner (FAST'09, 4.3): each plan places all blocks again.
pub(super) fn paper_policy(name: PolicyName, training: Training) -> Policy {
    let mut policy = Policy::new(name);
    (policy.planning, policy.training) = (Planning::Anew, training);
    policy
}

/// One system's learning.
struct Learning {
    learner: Learner,
    plan: Plan,
    analyzer_s: f64,
    unmapped: Unmapped,
}

/// Writes of pages that the plan has no copy of, since the plan.
#[derive(Default)]
struct Unmapped {
    copied: HashSet<u64>,
    once: HashSet<u64>,
    pages: u64,
}

impl Unmapped {
    fn new(plan: &Plan) -> Self {
        Self { copied: pages(plan).into_iter().map(|p| p.0).collect(), ..Self::default() }
    }

    fn note(&mut self, request: &Request) {
        if request.op != Op::Write {
            return;
        }
        let extent = request.extent;
        for page in extent.start.0.div_ceil(PAGE_SECTORS)..extent.end().0 / PAGE_SECTORS {
            if !self.copied.contains(&page) {
                self.pages += 1;
                self.once.insert(page);
            }
        }
    }

    fn count(&self, phase: &mut BorgPhase) {
        phase.unmapped_bytes = self.pages * PAGE_BYTES;
        phase.unmapped_once_bytes = self.once.len() as u64 * PAGE_BYTES;
    }
}

/// The simulation of a job, and its learning, if there is an area. The area lies behind the file
/// system.
fn prepared(job: &BorgJob<'_>) -> Result<(Simulation, Option<Learning>), StudyError> {
    let BorgJob { source, capacity, system } = job;
    let disk = Device::new(&system.disk)?;
    let area = system.area.sectors_ceil();
    let need = *capacity + area;
    if need > disk.capacity() {
        return Err(StudyError::DiskTooSmall {
            path: source.path().display().to_string(),
            end: capacity.0,
            devices: 1,
            area: area.bytes(),
            need: need.bytes(),
            disk: system.disk.name().to_owned(),
            has: disk.capacity().bytes(),
        });
    }
    let policy = paper_policy(system.policy, system.training);
    let in_place = policy.writes_in_place();
    let config = SimConfig {
        area_at: Lba(capacity.0),
        engine: Config { area, in_place, ..Config::new(*capacity) }
            .with_write_buffer(system.write_buffer_percent, system.gather),
        scheduler: system.scheduler,
        spin_down: SpinDown::None,
        replay: Replay::Open,
    };
    let learning = (area > Sectors(0)).then(|| Learning {
        learner: Learner::new(policy, shape_of(&config.engine)),
        plan: Plan::default(),
        analyzer_s: 0.0,
        unmapped: Unmapped::default(),
    });
    Ok((Simulation::new(disk, config).map_err(failed)?, learning))
}

pub(super) fn failed(source: SimError) -> StudyError {
    StudyError::Run { policy: "borg".to_owned(), source }
}

fn replay(job: &BorgJob<'_>) -> Result<BorgRun, StudyError> {
    let (mut simulation, mut learning) = prepared(job)?;
    let mut run = BorgRun::default();
    let (mut sectors, mut installing_s) = (0, 0.0);
    let mut batch: Vec<Request> = Vec::with_capacity(BATCH);
    let mut reader = job.source.open(&OpenOptions::default())?;
    let mut times = job.system.reconfigure.iter().peekable();
    loop {
        let record = reader.next_record()?;
        let due = |at: &SimTime| record.is_none_or(|r| r.request.arrival >= *at);
        let ends = times.next_if(|at| due(at)).is_some();
        if ends || record.is_none() || batch.len() == BATCH {
            serve(&mut simulation, &mut learning, &mut batch, job.system.speed)?;
        }
        if ends || record.is_none() {
            let measured = simulation.lap().map_err(failed)?;
            let mut phase = BorgPhase::new(&measured, std::mem::take(&mut sectors), installing_s);
            learning.iter().for_each(|l| l.unmapped.count(&mut phase));
            run.phases.push(phase);
            installing_s = 0.0;
        }
        let Some(record) = record else { break };
        if ends && let Some(learning) = &mut learning {
            let done = learning.reconfigure(record.request.arrival, &mut simulation)?;
            installing_s = done.reconfigurer_s;
            run.reconfigurations.push(done);
        }
        sectors += record.request.extent.len.0;
        batch.push(record.request);
    }
    // Destaging the rest of the write buffer counts for the system that filled it.
    simulation.drain().map_err(failed)?;
    run.drained = BorgPhase::new(&simulation.lap().map_err(failed)?, 0, 0.0);
    Ok(run)
}

/// Learns from the batch and serves it. The learner has the times of the trace.
fn serve(
    simulation: &mut Simulation,
    learning: &mut Option<Learning>,
    batch: &mut Vec<Request>,
    speed: u64,
) -> Result<(), StudyError> {
    if let Some(learning) = learning {
        let started = Instant::now();
        batch.iter().for_each(|r| learning.learner.observe(r.arrival, r));
        learning.analyzer_s += started.elapsed().as_secs_f64();
        batch.iter().for_each(|r| learning.unmapped.note(r));
    }
    for request in batch.drain(..) {
        let arrival = SimTime(request.arrival.0 / speed);
        simulation.settle_below(WAITING).map_err(failed)?;
        simulation.offer(&Request { arrival, ..request }).map_err(failed)?;
    }
    Ok(())
}

impl Learning {
    fn reconfigure(
        &mut self,
        now: SimTime,
        simulation: &mut Simulation,
    ) -> Result<Reconfiguration, StudyError> {
        let graph = self.learner.accesses();
        let (vertices, edges) =
            graph.map_or((0, 0), |g| (g.vertex_count() as u64, g.edge_count() as u64));
        let started = Instant::now();
        let plan = self.learner.replan(now, &self.plan);
        let planner_s = started.elapsed().as_secs_f64();
        let change = PlanChange::between(&self.plan, &plan);
        self.plan.clone_from(&plan);
        self.unmapped = Unmapped::new(&plan);
        simulation.install(plan).map_err(failed)?;
        Ok(Reconfiguration {
            analyzer_s: std::mem::take(&mut self.analyzer_s),
            planner_s,
            reconfigurer_s: simulation.so_far().background.busy().as_secs_f64(),
            moved_bytes: change.new_bytes + change.relocated_bytes,
            vertices,
            edges,
            change,
        })
    }
}

#[cfg(test)]
mod tests;
