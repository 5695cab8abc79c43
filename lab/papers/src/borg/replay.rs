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
    /// Busy time of background work: destaging of the write buffer.
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
        let mut all = phases.iter().fold(Self::default(), |a, b| Self {
            requests: a.requests + b.requests,
            sectors: a.sectors + b.sectors,
            busy_s: a.busy_s + b.busy_s,
            background_s: a.background_s + b.background_s,
            device_ios: a.device_ios + b.device_ios,
            nonsequential: a.nonsequential + b.nonsequential,
            seek_sectors: a.seek_sectors + b.seek_sectors,
            copy_hits: a.copy_hits + b.copy_hits,
            absorbed: a.absorbed + b.absorbed,
            in_place: a.in_place + b.in_place,
            unmapped_bytes: a.unmapped_bytes + b.unmapped_bytes,
            unmapped_once_bytes: a.unmapped_once_bytes + b.unmapped_once_bytes,
            destaged_bytes: a.destaged_bytes + b.destaged_bytes,
            response_ms: a.response_ms + b.response_ms * b.requests as f64,
        });
        all.response_ms /= all.requests.max(1) as f64;
        all
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
        if record.is_none() {
            // Destaging the rest of the write buffer counts for the system that filled it.
            simulation.drain().map_err(failed)?;
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
mod tests {
    use seekless_block::Extent;
    use seekless_disk::catalogue;
    use seekless_learn::Copy;

    use super::*;

    fn plan(copies: &[(u64, u64, u64)]) -> Plan {
        let copy = |&(home, place, pages)| Copy {
            home: Extent::new(home * 8, pages * 8),
            place: Lba(place * 8),
        };
        Plan { copies: copies.iter().map(copy).collect() }
    }

    #[test]
    fn the_difference_of_two_plans_by_hand() {
        let before = plan(&[(10, 0, 4), (100, 4, 2)]);
        // Pages 10 and 11 stay, 12 and 13 move on by one, 100 goes, 101 takes its place, 50 is new.
        let after = plan(&[(10, 0, 2), (50, 2, 1), (12, 3, 2), (101, 5, 1)]);
        let pages = |new: u64, relocated: u64, kept: u64, removed: u64| PlanChange {
            new_bytes: new * 4096,
            relocated_bytes: relocated * 4096,
            kept_bytes: kept * 4096,
            removed_bytes: removed * 4096,
        };
        assert_eq!(PlanChange::between(&before, &after), pages(1, 2, 3, 1));
        assert_eq!(PlanChange::between(&Plan::default(), &before), pages(6, 0, 0, 0));
        assert_eq!(PlanChange::between(&before, &before), pages(0, 0, 6, 0));
        assert_eq!(PlanChange::between(&before, &Plan::default()), pages(0, 0, 0, 6));
    }

    /// Sixty scattered pages in the same order, round after round, a request a second; other ones
    /// from `turn` on.
    fn rounds(turn: u64) -> Source {
        let page = |i: u64, other: u64| (i * 7_919 + other * 104_729) % 500_000 * 8;
        let line = |n: u64| {
            let at = page(n % 60, u64::from(n >= turn));
            format!("{}.0 0 {at} 8 1\n", n * 1000)
        };
        let text: String = (0..1200).map(line).collect();
        Source::from_bytes("rounds", text.as_bytes()).unwrap()
    }

    fn system(area: Bytes) -> BorgSystem {
        BorgSystem {
            disk: catalogue::device("wd360gd").unwrap(),
            policy: PolicyName::Borg,
            area,
            write_buffer_percent: 0,
            gather: Duration::ZERO,
            training: Training::Cumulative,
            speed: 1,
            scheduler: Scheduler::Fcfs,
            reconfigure: Vec::new(),
        }
    }

    fn replayed<const N: usize>(source: &Source, systems: [BorgSystem; N]) -> [BorgRun; N] {
        let capacity = Sectors(4_000_000);
        let jobs = systems.map(|system| BorgJob { source, capacity, system });
        borg(&jobs, &|_| {}).unwrap().try_into().unwrap()
    }

    fn both(source: &Source, training: Training) -> [BorgRun; 2] {
        let of = |area| BorgSystem {
            training,
            // The disk always has a request to serve.
            speed: 1_000,
            reconfigure: [300, 600, 900].map(|s| SimTime(s * 1_000_000_000)).to_vec(),
            ..system(area)
        };
        replayed(source, [Bytes(0), Bytes(8 << 20)].map(of))
    }

    #[test]
    fn repeated_requests_cost_less_and_each_phase_has_its_requests() {
        let runs = both(&rounds(u64::MAX), Training::Cumulative);
        let [vanilla, borg] = &runs;
        assert!(vanilla.reconfigurations.is_empty());
        assert_eq!(borg.reconfigurations.len(), 3);
        for run in &runs {
            assert_eq!(run.phases.iter().map(|p| p.requests).collect::<Vec<_>>(), [300; 4]);
        }
        assert_eq!(vanilla.phases[0].busy_s, borg.phases[0].busy_s, "nothing learned yet");
        for i in 1..4 {
            assert!(borg.phases[i].busy_s < vanilla.phases[i].busy_s / 4.0, "{i}");
            assert!(borg.phases[i].nonsequential_share() < 0.1);
        }
        // The same plan again moves nothing.
        let moved: Vec<u64> = borg.reconfigurations.iter().map(|r| r.moved_bytes).collect();
        assert_eq!(moved, [60 * 4096, 0, 0]);
        assert_eq!(borg.reconfigurations[1].change.kept_bytes, 60 * 4096);
        assert!(borg.reconfigurations[0].reconfigurer_s > 0.0);
        assert_eq!(borg.reconfigurations[1].reconfigurer_s, 0.0);
    }

    #[test]
    fn partial_training_forgets_what_cumulative_training_keeps() {
        // Others from 300 on: seen in the second phase, planned for in the third.
        let of = |training| {
            let [_, borg] = both(&rounds(300), training);
            borg
        };
        let (long, short) = (of(Training::Cumulative), of(Training::Partial));
        let plan = |r: &BorgRun, i: usize| {
            let c = r.reconfigurations[i].change;
            (c.new_bytes / 4096, c.removed_bytes / 4096)
        };
        assert_eq!((plan(&long, 1), plan(&short, 1)), ((60, 0), (60, 60)));
        assert!(long.phases[1].copy_hits == 0 && long.phases[2].copy_hits > 200);
    }

    /// A burst of twenty writes each minute, each next to the one before.
    #[test]
    fn a_faster_replay_queues_requests_and_the_elevator_merges_them() {
        let line = |n: u64| {
            let at = (n / 20 * 7_919) % 400_000 * 8 + n % 20 * 8;
            format!("{}.0 0 {at} 8 0\n", n / 20 * 60_000 + n % 20 * 100)
        };
        let text: String = (0..2_000).map(line).collect();
        let source = Source::from_bytes("bursts", text.as_bytes()).unwrap();
        let of = |(speed, scheduler)| BorgSystem { speed, scheduler, ..system(Bytes(0)) };
        let (slow, fast) = (1, 168);
        let all = [(slow, Scheduler::CLook), (slow, Scheduler::Elevator)];
        let all = [all, all.map(|(_, s)| (fast, s))].concat();
        let all: [_; 4] = all.try_into().unwrap();
        let [slow, slow_merged, fast, merged] = replayed(&source, all.map(of)).map(|r| r.phases[0]);
        assert_eq!(slow, slow_merged, "nothing waits");
        assert_eq!([slow.device_ios, fast.device_ios], [2_000; 2]);
        assert!(merged.device_ios < 1_000, "{merged:?}");
        assert!(merged.busy_s <= fast.busy_s, "{merged:?} {fast:?}");
        assert_eq!(merged.nonsequential, fast.nonsequential);
    }

    #[test]
    fn writes_are_absorbed_and_destaged_in_idle_time() {
        let line = |n: u64| {
            let at = (n * 7_919) % 400_000 * 8;
            format!("{}.0 0 {at} 32 0\n", n * 500)
        };
        let text: String = (0..4000).map(line).collect();
        let source = Source::from_bytes("writes", text.as_bytes()).unwrap();
        let of = |area| BorgSystem { write_buffer_percent: 50, ..system(area) };
        let runs = replayed(&source, [Bytes(0), Bytes(32 << 20)].map(of));
        let [vanilla, borg] = [&runs[0].phases[0], &runs[1].phases[0]];
        assert_eq!((vanilla.absorbed, vanilla.background_s), (0, 0.0));
        assert!(borg.absorbed > 3900, "{borg:?}");
        assert!(borg.busy_s < vanilla.busy_s * 0.9, "{borg:?} {vanilla:?}");
        // No page is written twice: what does not fit the log has gone home, and that was counted.
        assert!(borg.destaged_bytes > 4000 * 16_384 - (16 << 20), "{borg:?}");
        assert!(borg.background_s > vanilla.busy_s / 4.0, "{borg:?} {vanilla:?}");
    }

    /// Sixty scattered pages, a request a second, with the plan at 300 s. `writes` says which
    /// requests are writes.
    fn by_both_policies(writes: fn(u64) -> bool) -> [BorgRun; 2] {
        let line = |n: u64| {
            let at = (n % 60) * 7_919 % 500_000 * 8;
            format!("{}.0 0 {at} 8 {}\n", n * 1000, u8::from(!writes(n)))
        };
        let text: String = (0..900).map(line).collect();
        let source = Source::from_bytes("both", text.as_bytes()).unwrap();
        let of = |policy| BorgSystem {
            policy,
            write_buffer_percent: 50,
            scheduler: Scheduler::CLook,
            reconfigure: vec![SimTime(300_000_000_000)],
            ..system(Bytes(32 << 20))
        };
        replayed(&source, [PolicyName::BorgPaper, PolicyName::Borg].map(of))
    }

    #[test]
    fn the_papers_rule_writes_copies_in_place_and_reads_them_afterwards() {
        // Reads alone are learned from; then a round of writes follows each round of reads.
        let [paper, ours] = by_both_policies(|n| n >= 300 && n / 60 % 2 == 1);
        let after = |run: &BorgRun| {
            let p = run.phases[1];
            (p.requests, p.in_place, p.absorbed, p.copy_hits, p.unmapped_bytes)
        };
        assert_eq!(after(&paper), (600, 300, 0, 300, 0));
        let (requests, in_place, absorbed, hits, _) = after(&ours);
        assert_eq!((requests, in_place, absorbed), (600, 0, 300));
        assert!(hits < 300, "{hits}: a page that went home is read from home");
        // Each page that was written goes home once, at the end.
        assert_eq!(paper.phases[1].destaged_bytes, 60 * PAGE_BYTES);
    }

    #[test]
    fn a_write_of_a_page_in_the_log_takes_new_space_and_the_plan_takes_pages_out_of_the_log() {
        // The paper overwrites in its write buffer too.
        let [paper, _] = by_both_policies(|_| true);
        let of = |p: &BorgPhase| (p.absorbed, p.in_place, p.unmapped_bytes, p.unmapped_once_bytes);
        assert_eq!(of(&paper.phases[0]), (300, 0, 300 * PAGE_BYTES, 60 * PAGE_BYTES));
        assert_eq!(of(&paper.phases[1]), (0, 600, 0, 0));
        assert_eq!(paper.reconfigurations[0].change.new_bytes, 60 * PAGE_BYTES);
    }

    #[test]
    fn a_file_system_that_does_not_fit_its_disk_is_refused() {
        let (source, system) = (rounds(0), system(Bytes(1 << 30)));
        let job = BorgJob { source: &source, capacity: Sectors(1 << 40), system };
        assert!(matches!(borg(&[job], &|_| {}), Err(StudyError::DiskTooSmall { .. })));
    }
}
