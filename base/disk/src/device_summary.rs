//! A device description in a few figures, for lists. The figures come from the model, not from a
//! data sheet.

use seekless_block::{Extent, Op, SimTime};

use crate::device::DeviceSpec;
use crate::disk::Disk;
use crate::spec::DiskSpec;
use crate::spec_check::{Checked, RangeError};
use crate::volume_spec::{RateSpec, VolumeSpec};

/// Figures that devices of all kinds have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Revolutions per minute; `None` without platters.
    pub rpm: Option<f64>,
    /// Mean seek over random pairs of cylinders, or the latency of a read; in milliseconds.
    pub latency_ms: f64,
    /// Sequential read throughput in MB/s: on the outermost zone of a disk, and by both arms of
    /// two.
    pub stream_mb_s: f64,
    /// Idle power in watts; `None` if not known.
    pub idle_w: Option<f64>,
    /// Price of the capacity for a month of 730 hours, in US dollars; `None` without a provider's
    /// prices.
    pub usd_per_month: Option<f64>,
    /// Price of a million read operations in US dollars; `None` without a provider's prices.
    pub usd_per_million_reads: Option<f64>,
}

/// Number of distances at which the mean seek is sampled.
const DISTANCES: u32 = 1_000;
/// Number of sectors read to measure the sequential throughput.
const STREAM: u64 = 1 << 17;

impl DeviceSpec {
    /// Computes the figures of the description.
    pub fn summary(&self) -> Result<Summary, RangeError> {
        match self {
            Self::Volume(spec) => {
                spec.validate()?;
                Ok(volume(spec))
            }
            Self::Disk(spec) => match spec.half() {
                None => disk(spec),
                Some(half) => {
                    let one = disk(&half)?;
                    let idle_w = Some(spec.power.idle_w);
                    Ok(Summary { stream_mb_s: 2.0 * one.stream_mb_s, idle_w, ..one })
                }
            },
        }
    }
}

fn disk(spec: &DiskSpec) -> Checked<Summary> {
    let mut disk = Disk::new(spec)?;
    let cylinders = f64::from(disk.geometry().cylinders());
    let capacity = disk.capacity().0;
    // Between random pairs, the distance x (as a fraction of all cylinders) has the density 2 (1 -
    // x).
    let mean = (0..DISTANCES).map(|i| {
        let x = (f64::from(i) + 0.5) / f64::from(DISTANCES);
        let time = disk.curve().time((x * cylinders) as u32, (x * capacity as f64) as u64);
        2.0 * (1.0 - x) * time.as_millis_f64() / f64::from(DISTANCES)
    });
    let latency_ms = mean.sum();
    let len = STREAM.min(capacity);
    let read = disk.access(SimTime(0), Op::Read, Extent::new(0, len));
    let seconds = read.map_or(f64::NAN, |a| a.transfer.as_secs_f64());
    Ok(Summary {
        rpm: Some(spec.mechanics.rpm),
        latency_ms,
        stream_mb_s: len as f64 * 512e-6 / seconds,
        idle_w: Some(spec.power.idle_w).filter(|w| *w > 0.0),
        usd_per_month: None,
        usd_per_million_reads: None,
    })
}

fn volume(spec: &VolumeSpec) -> Summary {
    let s = &spec.service;
    let fastest = |r: &RateSpec| r.burst_per_s.unwrap_or(r.per_s);
    let operation_mb = f64::from(spec.operations.kib()) * 1_024e-6;
    let lanes = s.lane_read_mb_s * f64::from(s.lanes);
    let limits = [
        spec.limits.megabytes.as_ref().map(fastest),
        spec.limits.operations.as_ref().map(|r| fastest(r) * operation_mb),
    ];
    let stream_mb_s = limits.into_iter().flatten().fold(lanes, f64::min);
    let priced = spec.price.as_ref();
    Summary {
        rpm: None,
        latency_ms: s.read_ms,
        stream_mb_s,
        idle_w: spec.power.as_ref().map(|p| p.idle_w),
        usd_per_month: priced.map(|_| spec.holding_usd(730.0 * 3_600.0)),
        usd_per_million_reads: priced.map(|p| p.usd_per_million_reads),
    }
}
