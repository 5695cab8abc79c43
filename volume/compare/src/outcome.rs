//! The results of a comparison as plain data: the JSON of schema `seekless.simulate/1`. Units are
//! in the keys; numbers are not rounded.

use seekless_block::PAGE_BYTES;
use seekless_disk::{ByState, DeviceSpec, Operations, VolumeSpec};
use seekless_learn::Guard;
use seekless_sim::{GuardedDay, Measured};
use serde::Serialize;

/// Facts about a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceFacts {
    /// Its path, as given by the user.
    pub path: String,
    /// Name of its format.
    pub format: String,
    /// Requests of every kind.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes and zeroing writes.
    pub writes: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Bytes read or written at least once.
    pub footprint_bytes: u64,
    /// From the first arrival to the last; none if the trace has no times.
    pub span_s: Option<f64>,
    /// Whether it has arrival times.
    pub has_times: bool,
    /// Whether it names processes.
    pub has_processes: bool,
    /// Devices, laid end to end on the simulated disk.
    pub devices: u64,
    /// Days with requests; 0 if the trace does not count days.
    pub days: u64,
    /// Malformed records, skipped.
    pub skipped: u64,
}

/// The trained part and the measured part.
#[derive(Clone, Debug, Serialize)]
pub struct Split {
    /// `days` or `requests`.
    pub by: String,
    /// Days in the trace; 0 if it has none.
    pub days: u64,
    /// Days of training.
    pub train_days: u64,
    /// Requests of training.
    pub train_requests: u64,
    /// Requests measured.
    pub measured_requests: u64,
}

impl Split {
    /// The whole trace is measured.
    pub(crate) fn all(facts: &TraceFacts) -> Self {
        Self {
            by: "requests".to_owned(),
            days: facts.days,
            train_days: 0,
            train_requests: 0,
            measured_requests: facts.requests,
        }
    }
}

/// Response times in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct ResponseMs {
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Median; percentiles to three significant digits.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

impl ResponseMs {
    fn new(m: &Measured) -> Self {
        let r = &m.response;
        Self {
            mean: r.mean_ms(),
            p50: r.quantile_ms(0.50),
            p95: r.quantile_ms(0.95),
            p99: r.quantile_ms(0.99),
            max: r.max_ms(),
        }
    }
}

/// Energy in joules, modelled; none if the power is not known.
#[derive(Clone, Debug, Serialize)]
pub struct EnergyJoules {
    /// The sum of all others.
    pub total: Option<f64>,
    /// By state, without reconfiguration.
    #[serde(flatten)]
    pub states: ByState<Option<f64>>,
    /// Reconfiguration.
    pub background: Option<f64>,
}

/// A note on a device whose power is not known.
pub(crate) fn power_note(device: &DeviceSpec) -> Option<String> {
    (!device.has_power())
        .then(|| format!("the power of {} is not known, so its energy is unknown", device.name()))
}

/// A number for each state of a drive.
pub type States = ByState<f64>;

/// The price of a device, in US dollars.
#[derive(Clone, Debug, Serialize)]
pub struct CostUsd {
    /// Its operations.
    pub operations: f64,
    /// Holding it for `span_s`: capacity and provisioned rates.
    pub holding: f64,
    /// Both.
    pub total: f64,
    /// The sum per million client requests.
    pub per_million_requests: f64,
}

impl CostUsd {
    fn new(spec: &VolumeSpec, counted: &Operations, m: &Measured) -> Self {
        let operations = spec.operations_usd(counted);
        let holding = spec.holding_usd(m.span.as_secs_f64());
        let total = operations + holding;
        let per_million_requests = total / m.requests.max(1) as f64 * 1e6;
        Self { operations, holding, total, per_million_requests }
    }
}

/// Disk busy time of one day, under a guard.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Day {
    /// Day number of the trace, or period of 24 hours; 0 if the trace counts neither.
    pub day: u64,
    /// Busy time that vanilla would have taken, with the same write buffer.
    pub vanilla_s: f64,
    /// Busy time for clients.
    pub busy_s: f64,
    /// Busy time of moving data.
    pub background_busy_s: f64,
}

impl Day {
    pub(crate) fn of(of: &GuardedDay) -> Self {
        Self {
            day: of.day,
            vanilla_s: of.vanilla.as_secs_f64(),
            busy_s: of.clients.as_secs_f64(),
            background_busy_s: of.background.as_secs_f64(),
        }
    }

    /// Share of vanilla's busy time that is saved, with moving counted; negative if it took more.
    pub fn saves(&self) -> f64 {
        crate::estimate::saved(self.vanilla_s, self.busy_s + self.background_busy_s)
    }
}

/// The work of the adaptive policy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Adaptive {
    /// Bytes brought to RAM although nobody had asked for them.
    pub prefetched_bytes: u64,
    /// Share of them that was used.
    pub prefetch_used_share: f64,
    /// Reads of the area: of the trail, and of a write buffer.
    pub trail_reads: u64,
    /// Bytes written to the trail.
    pub trail_written_bytes: u64,
    /// Disk time in which the guard had the policy stand aside, seconds.
    pub guard_bypassed_s: f64,
    /// The most by which the policy was behind vanilla within a day, seconds of disk time.
    pub worst_excess_s: f64,
}

impl Adaptive {
    pub(crate) fn new(m: &Measured, guard: &Guard) -> Self {
        let engine = &m.engine;
        Self {
            prefetched_bytes: engine.prefetched * PAGE_BYTES,
            prefetch_used_share: engine.prefetch_used as f64 / engine.prefetched.max(1) as f64,
            trail_reads: engine.copy_reads,
            trail_written_bytes: engine.moved_bytes,
            guard_bypassed_s: guard.bypassed().as_secs_f64(),
            worst_excess_s: guard.worst_excess().as_secs_f64(),
        }
    }
}

/// One policy's run over the measured requests.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// As asked, with its settings.
    pub policy: String,
    /// First sector of the optimized area on the disk; none without an area.
    pub optimized_start_sector: Option<u64>,
    /// Size of the optimized area; 0 without an area.
    pub optimized_bytes: u64,
    /// Client requests.
    pub requests: u64,
    /// Foreground disk I/Os.
    pub device_ios: u64,
    /// Foreground busy time: seek, rotation, transfer and controller overhead.
    pub busy_s: f64,
    /// Moving the arm.
    pub seek_s: f64,
    /// Waiting for the platter.
    pub rotation_s: f64,
    /// Transferring, later track switches of the same I/O included.
    pub transfer_s: f64,
    /// Controller overhead.
    pub overhead_s: f64,
    /// Busy time of reconfiguration.
    pub background_busy_s: f64,
    /// Bytes that reconfiguration wrote.
    pub moved_bytes: u64,
    /// Response times.
    pub response_ms: ResponseMs,
    /// Energy.
    pub energy_j: EnergyJoules,
    /// Total energy per client request; none if the power is not known.
    pub j_per_op: Option<f64>,
    /// Time by state, with background work; the sum is `span_s`, or twice that for two actuators.
    pub state_s: States,
    /// Number of times the platters were stopped.
    pub spin_downs: u64,
    /// Operations counted, for the measured requests and for moving data; absent for disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// Price; absent for disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<CostUsd>,
    /// Share of foreground disk I/Os that did not start at the end of the previous I/O.
    pub nonsequential_share: f64,
    /// Mean distance from the end of an I/O to the start of the next foreground I/O.
    pub seek_distance_mean_sectors: f64,
    /// Requests answered from RAM, also after a wait for a read in flight.
    pub cache_hits: u64,
    /// Reads answered from a copy.
    pub copy_hits: u64,
    /// Day by day, under a guard; absent for others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// Under the adaptive policy alone.
    #[serde(flatten)]
    pub adaptive: Option<Adaptive>,
    /// Time from the first request to the last completion, simulated.
    pub span_s: f64,
    /// Real time of the simulation.
    pub wall_s: f64,
    /// Requests simulated per second of real time.
    pub requests_per_wall_s: f64,
}

impl Run {
    pub(crate) fn new(
        policy: &str,
        (start, size): (Option<u64>, u64),
        m: &Measured,
        wall_s: f64,
        device: &DeviceSpec,
    ) -> Self {
        let ios = m.device_ios.max(1) as f64;
        let powered = device.has_power();
        let joules = |e: seekless_block::Energy| powered.then(|| e.as_joules_f64());
        let all = joules(m.energy.total() + m.background_energy);
        Self {
            policy: policy.to_owned(),
            optimized_start_sector: start.filter(|_| size > 0),
            optimized_bytes: size,
            requests: m.requests,
            device_ios: m.device_ios,
            busy_s: m.foreground.busy().as_secs_f64(),
            seek_s: m.foreground.seek.as_secs_f64(),
            rotation_s: m.foreground.rotation.as_secs_f64(),
            transfer_s: m.foreground.transfer.as_secs_f64(),
            overhead_s: m.foreground.overhead.as_secs_f64(),
            background_busy_s: m.background.busy().as_secs_f64(),
            moved_bytes: m.engine.moved_bytes,
            response_ms: ResponseMs::new(m),
            energy_j: EnergyJoules {
                total: all,
                states: m.energy.map(joules),
                background: joules(m.background_energy),
            },
            j_per_op: all.map(|joules| joules / m.requests.max(1) as f64),
            state_s: m.state_time.map(seekless_block::Duration::as_secs_f64),
            operations: m.operations,
            cost_usd: device.priced().zip(m.operations).map(|(spec, o)| CostUsd::new(spec, &o, m)),
            spin_downs: m.spin_downs,
            nonsequential_share: m.nonsequential as f64 / ios,
            seek_distance_mean_sectors: m.seek_distance_sectors as f64 / ios,
            cache_hits: m.engine.cache_hits,
            copy_hits: m.engine.copy_reads,
            days: Vec::new(),
            adaptive: None,
            span_s: m.span.as_secs_f64(),
            wall_s,
            requests_per_wall_s: if wall_s > 0.0 { m.requests as f64 / wall_s } else { 0.0 },
        }
    }
}

/// A whole comparison. Serializes as `seekless.simulate/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `seekless.simulate/1`.
    pub schema: &'static str,
    /// The trace.
    pub trace: TraceFacts,
    /// Name of the disk.
    pub disk: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// When the platters stop: `none`, `adaptive` or seconds without work.
    pub spin_down: String,
    /// `closed` or `open`.
    pub replay: &'static str,
    /// Requests in flight of a closed loop; none for an open loop.
    pub queue_depth: Option<u32>,
    /// The client's own time before each request, seconds; none without `--think`.
    pub think_s: Option<f64>,
    /// RAM, the same for every policy.
    pub cache_bytes: u64,
    /// Read-ahead, the same for every policy.
    pub read_ahead_bytes: u64,
    /// Least length of a read of a copy.
    pub cluster_bytes: u64,
    /// Size of the largest optimized area.
    pub optimized_bytes: u64,
    /// Share asked for training.
    pub train: f64,
    /// The resulting split.
    pub split: Split,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// One per policy, in the order asked.
    pub runs: Vec<Run>,
    /// The measurements behind the figures, in the same order; not part of the JSON.
    #[serde(skip)]
    pub measured: Vec<Measured>,
}
