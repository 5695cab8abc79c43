//! FS2's experiments (SOSP'05, 4.3 to 4.6): a load is run again and again on one disk; what each run costs, and what replicating costs in and after
//! it. What a run is replicated from are the runs before it, and, as they happen, its own reads: nothing is known beforehand.

use crate::synth::Paced;
use seekless_block::{Bytes, Duration, Extent, Lba, Request, Sectors, SimTime};
use seekless_disk::{Device, DeviceSpec, DiskSpec, Scheduler, SpinDown};
use seekless_engine::{Class, Config, Target};
use seekless_learn::{
    Learner, Policy, Replication, ReplicationConfig, ReplicationRule, side_by_side,
};
use seekless_sim::{HeadPath, Measured, Replay, SimConfig, SimError, Simulation, shape_of};
use serde::Serialize;

use crate::parallel::in_parallel;
use seekless_compare::StudyError;
use seekless_compare::replicate;
use seekless_engine::format::Geometry;

/// Between two runs the disk is at rest for so long before replicas are written, and goes on when they are.
const REST: Duration = Duration::from_millis(1_000);
/// Replicas are written where nothing was asked for so long.
const PAUSE: Duration = Duration::from_millis(250);

/// Most that replicas take: more than a load has.
const REPLICAS: Bytes = Bytes(4 << 30);

/// How a system replicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Replicates {
    /// Not at all.
    Never,
    /// All files of the load, in order of address, before the first run (FS2-static, 4.3.2).
    Statically,
    /// As it goes: the paper's rule, or ours.
    Dynamically {
        /// Length of a region.
        region: Sectors,
        /// Which blocks.
        rule: ReplicationRule,
        /// Replicas that a page may have (6.1).
        degree: u32,
    },
}

/// A system that serves the runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fs2System {
    /// How it replicates.
    pub replicates: Replicates,
    /// RAM.
    pub cache: Bytes,
    /// Reads of home, and of replicas, fetch at least this.
    pub read_ahead: Bytes,
}

/// Some runs of a load on one system.
#[derive(Clone, Debug)]
pub struct Fs2Job<'a> {
    /// The disk.
    pub disk: &'a DiskSpec,
    /// What is free before the first run.
    pub free: &'a [Extent],
    /// All that the load's files are, for [`Replicates::Statically`].
    pub files: &'a [Extent],
    /// Each run's requests.
    pub runs: &'a [Vec<Paced>],
    /// Whether these come at fixed times.
    pub timed: bool,
    /// Who serves them.
    pub system: Fs2System,
    /// Whether their I/Os are to be drawn.
    pub draws: bool,
}

/// What one run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fs2Run {
    /// Client requests.
    pub requests: u64,
    /// I/Os of the disk for them.
    pub device_ios: u64,
    /// Reads that replicas answered.
    pub copy_reads: u64,
    /// Seek time, rotational delay, and the rest (transfer, interface, what the drive's buffer answers), each summed over these I/Os.
    pub seek_s: f64,
    /// See `seek_s`.
    pub rotation_s: f64,
    /// See `seek_s`.
    pub transfer_s: f64,
    /// Energy of these I/Os as FS2 counts it: seeking at P_s, all else at P_i (4.2).
    pub access_j: f64,
    /// Energy of the run, idling and replicating in it included.
    pub joules: f64,
    /// From the first request to the last answer.
    pub span_s: f64,
    /// Mean response time of a request.
    pub response_ms: f64,
    /// Busy time of replicating during the run, and after it before the next (or, of static replication, before the first).
    pub replicating_s: f64,
    /// See `replicating_s`.
    pub after_s: f64,
    /// Bytes of replicas written, during the run and after it.
    pub replica_bytes: u64,
    /// Free pages' bytes that hold replicas at the end.
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
    #[must_use]
    pub fn busy_s(&self) -> f64 {
        self.seek_s + self.rotation_s + self.transfer_s
    }

    /// Mean of an I/O of the disk, in milliseconds, of seconds summed over all of them.
    #[must_use]
    pub fn mean_ms(&self, seconds: f64) -> f64 {
        seconds * 1e3 / self.device_ios.max(1) as f64
    }

    /// Several runs together; the response time is the mean over all their requests.
    #[must_use]
    pub fn sum(runs: &[Self]) -> Self {
        let mut all = runs.iter().fold(Self::default(), |a, b| Self {
            requests: a.requests + b.requests,
            device_ios: a.device_ios + b.device_ios,
            copy_reads: a.copy_reads + b.copy_reads,
            seek_s: a.seek_s + b.seek_s,
            rotation_s: a.rotation_s + b.rotation_s,
            transfer_s: a.transfer_s + b.transfer_s,
            access_j: a.access_j + b.access_j,
            joules: a.joules + b.joules,
            span_s: a.span_s + b.span_s,
            response_ms: a.response_ms + b.response_ms * b.requests as f64,
            replicating_s: a.replicating_s + b.replicating_s,
            after_s: a.after_s + b.after_s,
            replica_bytes: a.replica_bytes + b.replica_bytes,
            standing_bytes: b.standing_bytes,
        });
        all.response_ms /= all.requests.max(1) as f64;
        all
    }
}

/// What it takes to prove all replicas after a crash (3.3), where the disk has nothing else to do and while the last run is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fs2Proof {
    /// Replicas that stood.
    pub replica_bytes: u64,
    /// What was read of home at rest.
    pub read_bytes: u64,
    /// From the crash until the last was proven, at rest.
    pub rest_s: f64,
    /// The same under the run.
    pub used_s: f64,
    /// How long that run took.
    pub run_s: f64,
}

/// What a system's runs cost, and where the head went.
#[derive(Clone, Debug)]
pub struct Fs2Done {
    /// After a crash behind the last run.
    pub proof: Fs2Proof,
    /// Each run.
    pub runs: Vec<Fs2Run>,
    /// The I/Os of the first, second and last run, counted from one, where they are to be drawn.
    pub paths: Vec<(usize, HeadPath)>,
}

/// Carries out all jobs, on as many threads as there are processors. `tick` hears how many are done.
///
/// # Errors
/// Where a disk is too small, or refuses an I/O.
pub fn fs2(jobs: &[Fs2Job<'_>], tick: &(dyn Fn(usize) + Sync)) -> Result<Vec<Fs2Done>, StudyError> {
    in_parallel(jobs, carry_out, tick).into_iter().collect()
}

fn carry_out(job: &Fs2Job<'_>) -> Result<Fs2Done, StudyError> {
    let device = Device::new(&DeviceSpec::Disk(job.disk.clone()))?;
    serve(job, device).map_err(|source| StudyError::Run { policy: "fs2".to_owned(), source })
}

fn serve(job: &Fs2Job<'_>, device: Device) -> Result<Fs2Done, SimError> {
    let disk = device.capacity();
    let replicates = job.system.replicates != Replicates::Never;
    // A file system's read-ahead ends with the file. The engine's ends where it is told that nothing is, so it must be told with
    // replicas and without: else only one of the two reads what nobody will ask for.
    let knows_free = replicates || job.system.read_ahead > Bytes(0);
    let replicas = if knows_free { REPLICAS.sectors_ceil() } else { Sectors(0) };
    let area = if knows_free { Geometry::area_beside(replicas) } else { Sectors(0) };
    let degree = match job.system.replicates {
        Replicates::Dynamically { degree, .. } => degree,
        _ => 1,
    };
    let capacity = Sectors((disk.0 - area.0) / 8 * 8);
    let config = SimConfig {
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
    };
    let mut simulation = Simulation::new(device, config)?;
    let inside = |e: &&Extent| e.end().0 <= capacity.0;
    if knows_free {
        simulation.seed_free(job.free.iter().filter(inside).copied());
        // The area learns of it before anybody asks for anything, as with the paper's mkfs2 (3.3).
        simulation.settle()?;
    }
    let mut learner = match job.system.replicates {
        Replicates::Dynamically { region, rule, .. } => {
            let policy = Policy::new(rule.into());
            Some(Learner::new(policy, shape_of(&config.engine)).region(region).when_due())
        }
        _ => None,
    };
    let mut before = simulation.lap()?.background.busy().as_secs_f64();
    let mut static_bytes = 0;
    if job.system.replicates == Replicates::Statically {
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
        before += lap.background.busy().as_secs_f64();
        static_bytes = lap.engine.moved_bytes;
    }
    let mut laps = Vec::with_capacity(job.runs.len());
    let mut paths = Vec::new();
    for (number, run) in (1..).zip(job.runs) {
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
        if let Some(learner) = &mut learner {
            simulation.pass(REST)?;
            simulation.settle_replicas()?;
            let now = simulation.now();
            replicate(&mut simulation, learner, now, 0)?;
            simulation.settle_replicas()?;
        }
        let after = simulation.lap()?;
        lap.after_s = after.background.busy().as_secs_f64() + std::mem::take(&mut before);
        lap.replica_bytes += after.engine.moved_bytes + std::mem::take(&mut static_bytes);
        lap.standing_bytes = simulation.engine().copied().bytes().0;
        laps.push(lap);
    }
    let last = job.runs.last().map_or(&[][..], Vec::as_slice);
    let proof =
        if replicates { prove(&mut simulation, last, job.timed)? } else { Fs2Proof::default() };
    Ok(Fs2Done { runs: laps, paths, proof })
}

/// A run's requests; `then` hears of each, once it is asked.
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

/// All replicas in doubt, twice: with nobody there, and under this run, nothing learned from it.
fn prove(simulation: &mut Simulation, run: &[Paced], timed: bool) -> Result<Fs2Proof, SimError> {
    let replica_bytes = simulation.engine().copied().bytes().0;
    simulation.settle()?;
    simulation.lap()?;
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
