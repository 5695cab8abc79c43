//! FS2's replays (SOSP'05, 4.3 to 4.6): a load runs several times on one disk. Results are the cost
//! of each run, and the cost of replication during and after the run. Replication learns from
//! earlier runs and from the present run's reads as they arrive: it knows nothing in advance.

use crate::reproduction::sum_of_runs;
use crate::synth::Paced;
use seekless_block::{Bytes, Duration, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_disk::{Device, DeviceSpec, DiskSpec, Scheduler, SpinDown};
use seekless_engine::{Class, Config, Target};
use seekless_learn::{
    Learner, Policy, Replication, ReplicationConfig, ReplicationRule, side_by_side,
};
use seekless_sim::{HeadPath, Measured, Replay, SimConfig, SimError, Simulation, shape_of};
use serde::Serialize;

use seekless_compare::{StudyError, in_parallel, replicate};
use seekless_engine::format::Geometry;

/// Rest of the disk after a run, before replicas are written. The next run begins when they are
/// written.
const REST: Duration = Duration::from_millis(1_000);
/// Idle time before replicas are written.
const PAUSE: Duration = Duration::from_millis(250);

/// Capacity for replicas: more than any load needs.
const REPLICAS: Bytes = Bytes(4 << 30);

/// How a system replicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Replicates {
    /// Makes no replicas.
    Never,
    /// Replicates all files of the load, in order of address, before the first run (FS2-static,
    /// 4.3.2).
    Statically,
    /// Replicates during the runs, by the paper's rule or ours.
    Dynamically {
        region: Sectors,
        /// The rule that selects blocks.
        rule: ReplicationRule,
        /// Most replicas of a page (6.1).
        degree: u32,
    },
}

/// The system under test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fs2System {
    pub replicates: Replicates,
    pub cache: Bytes,
    /// Least bytes of a read, from home and from replicas.
    pub read_ahead: Bytes,
}

/// Several runs of a load on one system.
#[derive(Clone, Debug)]
pub(super) struct Fs2Job<'a> {
    pub disk: &'a DiskSpec,
    /// Free space before the first run.
    pub free: &'a [Extent],
    /// The load's files, for [`Replicates::Statically`].
    pub files: &'a [Extent],
    /// Each run's requests.
    pub runs: &'a [Vec<Paced>],
    /// Writes behind each run, before its last replicas.
    pub dirtied: &'a [Extent],
    /// Whether requests come at fixed times.
    pub timed: bool,
    /// The system under test.
    pub system: Fs2System,
    /// Whether to keep the head's path for figures.
    pub draws: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Fs2Run {
    pub requests: u64,
    /// I/Os of the disk for client requests.
    pub device_ios: u64,
    /// Reads that replicas answered.
    pub copy_reads: u64,
    /// Seek time of these I/Os. `rotation_s` is their rotational delay, `transfer_s` the rest:
    /// transfer, interface, and answers from the drive's buffer.
    pub seek_s: f64,
    /// See `seek_s`.
    pub rotation_s: f64,
    /// See `seek_s`.
    pub transfer_s: f64,
    /// Energy of these I/Os as FS2 counts it: seeking at P_s, all else at P_i (4.2).
    pub access_j: f64,
    /// Energy of the run, with idling and replication.
    pub joules: f64,
    /// From the first request to the last answer.
    pub span_s: f64,
    /// Mean response time of a request.
    pub response_ms: f64,
    /// Busy time of replication during the run; `after_s` is the time after the run and before the
    /// next, or before the first run for static replication.
    pub replicating_s: f64,
    /// See `replicating_s`.
    pub after_s: f64,
    /// Bytes of replicas written, during the run and after it.
    pub replica_bytes: u64,
    /// Bytes of replicas at the end.
    pub standing_bytes: u64,
}

impl Fs2Run {
    fn new(m: &Measured, disk: &DiskSpec) -> Self {
        let f = &m.foreground;
        let (seek_s, rotation_s) = (f.seek.as_secs_f64(), f.rotation.as_secs_f64());
        let transfer_s = f.transfer.as_secs_f64() + f.overhead.as_secs_f64();
        let power = &disk.power;
        Self {
            requests: m.requests,
            device_ios: m.device_ios,
            copy_reads: m.engine.copy_reads,
            seek_s,
            rotation_s,
            transfer_s,
            access_j: seek_s * power.seek_w + (rotation_s + transfer_s) * power.rotation_transfer_w,
            joules: (m.energy.total() + m.background_energy).as_joules_f64(),
            span_s: m.span.as_secs_f64(),
            response_ms: m.response.mean_ms(),
            replicating_s: m.background.busy().as_secs_f64(),
            replica_bytes: m.engine.moved_bytes,
            ..Self::default()
        }
    }

    /// Disk busy time for clients.
    pub(super) fn busy_s(&self) -> f64 {
        self.seek_s + self.rotation_s + self.transfer_s
    }

    /// Mean for one I/O of the disk in milliseconds, from a sum in seconds.
    pub(super) fn mean_ms(&self, seconds: f64) -> f64 {
        seconds * 1e3 / self.device_ios.max(1) as f64
    }

    /// The sum of several runs; the response time is the mean over all requests.
    pub(super) fn sum(runs: &[Self]) -> Self {
        sum_of_runs!(
            runs,
            requests device_ios copy_reads seek_s rotation_s transfer_s access_j joules span_s
            replicating_s after_s replica_bytes; last standing_bytes
        )
    }
}

/// The cost of verifying all replicas after a crash (3.3): with an idle disk, and while the last
/// run repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Fs2Proof {
    pub replica_bytes: u64,
    /// Bytes read from home with an idle disk.
    pub read_bytes: u64,
    /// From the crash to the last verification, with an idle disk.
    pub rest_s: f64,
    /// The same during the run.
    pub used_s: f64,
    pub run_s: f64,
}

/// The cost of a system's runs, and the head's paths.
#[derive(Clone, Debug)]
pub(super) struct Fs2Done {
    /// Verification after a crash behind the last run.
    pub proof: Fs2Proof,
    pub runs: Vec<Fs2Run>,
    /// The head's paths of the first, second and last run, counted from one, if they are kept.
    pub paths: Vec<(usize, HeadPath)>,
}

/// Runs all jobs, one a processor at a time. `tick` gets the number of finished jobs.
pub(super) fn fs2(
    jobs: &[Fs2Job<'_>],
    tick: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Fs2Done>, StudyError> {
    in_parallel(jobs, None, carry_out, tick).into_iter().collect()
}

fn carry_out(job: &Fs2Job<'_>) -> Result<Fs2Done, StudyError> {
    let device = Device::new(&DeviceSpec::Disk(job.disk.clone()))?;
    serve(job, device).map_err(|source| StudyError::Run { policy: "fs2".to_owned(), source })
}

fn serve(job: &Fs2Job<'_>, device: Device) -> Result<Fs2Done, SimError> {
    let degree = match job.system.replicates {
        Replicates::Dynamically { degree, .. } => degree,
        _ => 1,
    };
    let config = config(job, device.capacity(), degree);
    let mut simulation = Simulation::new(device, config)?;
    if knows_free(job) {
        let inside = |e: &&Extent| e.end() <= config.area_at;
        simulation.seed_free(job.free.iter().filter(inside).copied());
        // The area learns the free space before the first request, as with the paper's mkfs2 (3.3).
        simulation.settle()?;
    }
    let mut learner = match job.system.replicates {
        Replicates::Dynamically { region, rule, .. } => {
            let policy = Policy::new(rule.into());
            Some(Learner::new(policy, shape_of(&config.engine)).region(region).when_due())
        }
        _ => None,
    };
    let capacity = Sectors(config.area_at.0);
    let (mut before, mut static_bytes) = replicate_statically(job, &mut simulation, capacity)?;
    let mut laps = Vec::with_capacity(job.runs.len());
    let mut paths = Vec::new();
    for (number, run) in (1..).zip(job.runs) {
        simulation.empty_ram();
        ask(&mut simulation, run, job.timed, |simulation, request| {
            let (Some(learner), now) = (&mut learner, simulation.now()) else { return Ok(()) };
            learner.observe(now, request);
            if learner.is_due(now) { replicate(simulation, learner, now, 0) } else { Ok(()) }
        })?;
        let measured = simulation.lap()?;
        let mut lap = Fs2Run::new(&measured, job.disk);
        if job.draws && (number <= 2 || number == job.runs.len()) {
            paths.push((number, measured.path));
        }
        rest(job, &mut simulation, learner.as_mut())?;
        let after = simulation.lap()?;
        lap.after_s = after.background.busy().as_secs_f64() + std::mem::take(&mut before);
        lap.replica_bytes += after.engine.moved_bytes + std::mem::take(&mut static_bytes);
        lap.standing_bytes = simulation.engine().copied().bytes().0;
        laps.push(lap);
    }
    let last = job.runs.last().map_or(&[][..], Vec::as_slice);
    let proof = if job.system.replicates == Replicates::Never {
        Fs2Proof::default()
    } else {
        prove(&mut simulation, last, job.timed)?
    };
    Ok(Fs2Done { runs: laps, paths, proof })
}

/// Between two runs: the pages that a run makes dirty are written, and the learned data are
/// replicated.
fn rest(
    job: &Fs2Job<'_>,
    simulation: &mut Simulation,
    mut learner: Option<&mut Learner>,
) -> Result<(), SimError> {
    for &page in job.dirtied {
        let request = Request::new(SimTime(0), Op::Write, page);
        simulation.settle_below(1)?;
        simulation.offer(&request)?;
        learner.iter_mut().for_each(|l| l.observe(simulation.now(), &request));
    }
    simulation.settle_below(1)?;
    let Some(learner) = learner else { return Ok(()) };
    simulation.pass(REST)?;
    simulation.settle_replicas()?;
    replicate(simulation, learner, simulation.now(), 0)?;
    simulation.settle_replicas()
}

/// Whether the engine knows the free space. A file system's read-ahead ends with the file. The
/// engine's read-ahead ends at free space, so the engine must know the free space with and without
/// replicas: otherwise only one of the two systems would read data that no request needs.
fn knows_free(job: &Fs2Job<'_>) -> bool {
    job.system.replicates != Replicates::Never || job.system.read_ahead > Bytes(0)
}

/// The configuration of a job on a disk of this capacity. The area lies behind the file system.
fn config(job: &Fs2Job<'_>, disk: Sectors, degree: u32) -> SimConfig {
    let knows_free = knows_free(job);
    let replicas = if knows_free { REPLICAS.sectors_ceil() } else { Sectors(0) };
    let area = if knows_free { Geometry::area_beside(replicas) } else { Sectors(0) };
    let capacity = Sectors((disk.0 - area.0) / 8 * 8);
    SimConfig {
        area_at: Lba(capacity.0),
        engine: Config {
            area,
            replicas,
            degree,
            cache_bytes: job.system.cache,
            read_ahead: job.system.read_ahead,
            cluster: job.system.read_ahead,
            background_pause: PAUSE,
            ..Config::new(capacity)
        },
        scheduler: Scheduler::Anticipatory,
        spin_down: SpinDown::None,
        replay: if job.timed { Replay::Open } else { Replay::Closed { depth: 1 } },
    }
}

/// Static replication, if the system has it: busy time in seconds so far, and bytes of replicas.
fn replicate_statically(
    job: &Fs2Job<'_>,
    simulation: &mut Simulation,
    capacity: Sectors,
) -> Result<(f64, u64), SimError> {
    let before = simulation.lap()?.background.busy().as_secs_f64();
    if job.system.replicates != Replicates::Statically {
        return Ok((before, 0));
    }
    let mut all = Replication::new(ReplicationConfig::new(capacity, Sectors(0)));
    for (_, request) in job.runs.iter().flatten() {
        all.observe(request);
    }
    let hot = all.hot_region().unwrap_or_default();
    let away: Vec<Extent> = job.files.iter().filter(|e| !hot.overlaps(**e)).copied().collect();
    let room = simulation.engine().room_for_replicas();
    simulation.replicate(side_by_side(&away, room, hot))?;
    simulation.settle_replicas()?;
    let lap = simulation.lap()?;
    Ok((before + lap.background.busy().as_secs_f64(), lap.engine.moved_bytes))
}

/// Issues the requests of a run, and calls `then` after each request.
fn ask(
    simulation: &mut Simulation,
    run: &[Paced],
    timed: bool,
    mut then: impl FnMut(&mut Simulation, &Request) -> Result<(), SimError>,
) -> Result<(), SimError> {
    let mut at = SimTime(0);
    for &(pause, request) in run {
        at += pause;
        if !timed {
            simulation.settle_below(1)?;
            simulation.pass(pause)?;
        }
        simulation.offer(&Request { arrival: at, ..request })?;
        then(simulation, &request)?;
    }
    Ok(())
}

/// Verifies all replicas twice: with an idle disk, and during this run, which teaches nothing.
fn prove(simulation: &mut Simulation, run: &[Paced], timed: bool) -> Result<Fs2Proof, SimError> {
    let replica_bytes = simulation.engine().copied().bytes().0;
    simulation.settle()?;
    simulation.lap()?;
    simulation.empty_ram();
    let mut begun = simulation.now();
    let since = |simulation: &Simulation, begun| simulation.now().since(begun).as_secs_f64();
    simulation.doubt();
    simulation.settle_doubts()?;
    let rest_s = since(simulation, begun);
    let read = *simulation.lap()?.costs.of(Class::Background, Target::Home, false);
    begun = simulation.now();
    simulation.doubt();
    let mut proven = None;
    ask(simulation, run, timed, |simulation, _| {
        if proven.is_none() && simulation.engine().in_doubt() == Sectors(0) {
            proven = Some(since(simulation, begun));
        }
        Ok(())
    })?;
    let run_s = simulation.lap()?.span.as_secs_f64();
    simulation.settle_doubts()?;
    let used_s = proven.unwrap_or_else(|| since(simulation, begun));
    let read_bytes = Sectors(read.sectors).bytes().0;
    Ok(Fs2Proof { replica_bytes, read_bytes, rest_s, used_s, run_s })
}
