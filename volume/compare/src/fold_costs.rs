//! Costs of a system over one fold.

use seekless_disk::DeviceSpec;
use seekless_sim::Measured;
use serde::Serialize;

/// Costs of a system over one fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FoldCosts {
    /// Client requests.
    pub requests: u64,
    /// Foreground device I/Os.
    pub device_ios: u64,
    /// Foreground busy time.
    pub busy_s: f64,
    /// Of this time, seeks and rotational waits.
    pub positioning_s: f64,
    /// Of this time, the transfer of data. The rest is latency, and the controller's time.
    pub transfer_s: f64,
    /// Busy time of moving data before the fold, and of the destage of the write buffer.
    pub background_busy_s: f64,
    /// Of this time, the part before the span.
    #[serde(skip)]
    pub before_s: f64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Energy, moving included; none if the power is not known.
    pub joules: Option<f64>,
    /// Mean response time.
    pub response_ms: f64,
    /// From the first request to the last answer. In an open loop also the pause before the first
    /// request, but for the first fold.
    pub span_s: f64,
    /// Requests answered from RAM, also after a wait for a read in flight.
    pub cache_hits: u64,
    /// Reads answered from a copy.
    pub copy_hits: u64,
    /// Operations as the provider counts them, with those of moving data; 0 for disks.
    pub operations: u64,
    /// Price of the operations in US dollars; 0 for disks.
    pub operations_usd: f64,
}

impl FoldCosts {
    pub(crate) fn new(m: &Measured, disk: &DeviceSpec) -> Self {
        let all = m.energy.total() + m.background_energy;
        Self {
            requests: m.requests,
            device_ios: m.device_ios,
            busy_s: m.foreground.busy().as_secs_f64(),
            positioning_s: (m.foreground.seek + m.foreground.rotation).as_secs_f64(),
            transfer_s: m.foreground.transfer.as_secs_f64(),
            background_busy_s: m.background.busy().as_secs_f64(),
            before_s: m.before.as_secs_f64(),
            moved_bytes: m.engine.moved_bytes,
            joules: disk.has_power().then(|| all.as_joules_f64()),
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

    /// The sum of laps; the response time is the mean over all their requests.
    pub(crate) fn sum(laps: &[Self]) -> Self {
        let mut all = laps.iter().fold(Self::default(), |sum, lap| Self {
            requests: sum.requests + lap.requests,
            device_ios: sum.device_ios + lap.device_ios,
            busy_s: sum.busy_s + lap.busy_s,
            positioning_s: sum.positioning_s + lap.positioning_s,
            transfer_s: sum.transfer_s + lap.transfer_s,
            background_busy_s: sum.background_busy_s + lap.background_busy_s,
            before_s: sum.before_s + lap.before_s,
            moved_bytes: sum.moved_bytes + lap.moved_bytes,
            joules: None,
            response_ms: sum.response_ms + lap.response_ms * lap.requests as f64,
            span_s: sum.span_s + lap.span_s,
            cache_hits: sum.cache_hits + lap.cache_hits,
            copy_hits: sum.copy_hits + lap.copy_hits,
            operations: sum.operations + lap.operations,
            operations_usd: sum.operations_usd + lap.operations_usd,
        });
        all.joules = laps.iter().map(|lap| lap.joules).sum();
        all.response_ms /= all.requests.max(1) as f64;
        all
    }

    /// Busy time with moving.
    pub fn all_busy_s(&self) -> f64 {
        self.busy_s + self.background_busy_s
    }
}
