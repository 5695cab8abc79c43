//! The description of a device without a mechanism (a cloud volume, an object store or an SSD), and
//! the ranges of its values.

use seekless_block::{Duration, Sectors, Toll};
use serde::{Deserialize, Serialize};

use crate::device::Kind;
use crate::spec::{Source, is_default};
use crate::spec_check::{
    CAPACITY_MAX, Checked, MOVE_MS_MAX, RangeError, between, fault, named, whole,
};
use crate::volume::Operations;

/// A device that serves operations in lanes, as in its catalogue entry. MB are 10^6 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// The kind of device; one of the kinds without a mechanism.
    pub kind: Kind,
    /// Short name, as used on the command line.
    pub name: String,
    /// Provider or manufacturer, and model.
    pub title: String,
    /// Capacity visible to a client, in sectors of 512 bytes.
    pub capacity_sectors: u64,
    /// Duration of an operation.
    pub service: ServiceSpec,
    /// The size of one operation.
    pub operations: OperationSpec,
    /// The limits on operations and bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: LimitsSpec,
    /// Prices; absent without a provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceSpec>,
    /// Power; absent if not known. Then no energy is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<VolumePowerSpec>,
    /// The source of each value.
    #[serde(default, rename = "source")]
    pub sources: Vec<Source>,
}

/// Duration of an operation: a latency, then the transfer of its bytes through one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// Number of operations served at once: channels, or requests that the service handles in
    /// parallel.
    pub lanes: u32,
    /// Latency before the first byte of a read.
    pub read_ms: f64,
    /// Latency before the first byte of a write.
    pub write_ms: f64,
    /// Replaces both latencies if the operation continues at the end of an earlier operation of the
    /// same direction (rule `merged` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_ms: Option<f64>,
    /// Read throughput of a lane in MB/s.
    pub lane_read_mb_s: f64,
    /// Write throughput of a lane in MB/s.
    pub lane_write_mb_s: f64,
}

/// The rule that defines one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum OperationSpec {
    /// Each command is one operation, or several pieces of at most `kib`.
    Commands {
        /// KiB per piece.
        kib: u32,
    },
    /// As `commands`, but commands of the same direction in consecutive address order count as one
    /// operation until it has `kib`.
    Merged {
        /// KiB per operation.
        kib: u32,
        /// The next command can arrive up to this time after the end of the command before it.
        window_ms: f64,
        /// Number of runs of addresses to remember.
        streams: u32,
    },
    /// Objects of `kib`, at multiples of their size. A read fetches the needed part of each object.
    /// A write to a part of an object reads and writes the whole object.
    Objects {
        /// KiB per object.
        kib: u32,
    },
}

impl OperationSpec {
    /// KiB per operation.
    pub const fn kib(&self) -> u32 {
        match self {
            Self::Commands { kib } | Self::Merged { kib, .. } | Self::Objects { kib } => *kib,
        }
    }
}

/// The limits of a device. An operation above a limit waits, and so do all operations after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSpec {
    /// Limit of operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<RateSpec>,
    /// Limit of bytes, in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megabytes: Option<RateSpec>,
}

/// A rate limit with credits: a token bucket that is full at first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Sustained rate per second.
    pub per_s: f64,
    /// Number of credits that the bucket can hold; it fills at the sustained rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub credits: f64,
    /// Rate at which credits can be spent; absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_per_s: Option<f64>,
}

/// Prices of a device in US dollars.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceSpec {
    /// Price per GiB of capacity and month.
    pub usd_per_gib_month: f64,
    /// Price per million read operations.
    pub usd_per_million_reads: f64,
    /// Price per million write operations.
    pub usd_per_million_writes: f64,
    /// Price per month for each operation per second of the limit above the included ones.
    pub usd_per_operation_per_s_month: f64,
    /// Included operations per second.
    pub included_operations_per_s: f64,
    /// Price per month for each MB/s of the limit above the included ones.
    pub usd_per_mb_per_s_month: f64,
    /// Included MB/s.
    pub included_mb_per_s: f64,
}

/// Power in watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumePowerSpec {
    /// Power while at least one lane reads.
    pub read_w: f64,
    /// Power while at least one lane writes.
    pub write_w: f64,
    /// Power without operations.
    pub idle_w: f64,
}

/// Most that an operation counts, ms: policies count in single precision.
const TOLL_MS_MAX: f64 = 60_000.0;
/// Hours per month, as providers bill.
const MONTH_H: f64 = 730.0;

impl VolumeSpec {
    /// Price of the device for a time, in US dollars, without operations.
    pub fn holding_usd(&self, seconds: f64) -> f64 {
        let Some(p) = &self.price else { return 0.0 };
        let gib = self.capacity_sectors as f64 / f64::from(1 << 21);
        let beyond = |limit: &Option<RateSpec>, included: f64| {
            limit.as_ref().map_or(0.0, |l| (l.per_s - included).max(0.0))
        };
        let month = gib * p.usd_per_gib_month
            + beyond(&self.limits.operations, p.included_operations_per_s)
                * p.usd_per_operation_per_s_month
            + beyond(&self.limits.megabytes, p.included_mb_per_s) * p.usd_per_mb_per_s_month;
        month * seconds / (MONTH_H * 3_600.0)
    }

    /// Price of operations, in US dollars.
    pub fn operations_usd(&self, counted: &Operations) -> f64 {
        self.price.as_ref().map_or(0.0, |p| {
            (counted.reads as f64 * p.usd_per_million_reads
                + counted.writes as f64 * p.usd_per_million_writes)
                / 1e6
        })
    }

    /// The cost of operations as time: an operation takes at least its share of the sustained rate,
    /// and a dollar is as much time as the device is held for a dollar.
    pub fn toll(&self) -> Toll {
        let a_second = self.holding_usd(1.0);
        let price = |per_million: f64| {
            let s = if a_second > 0.0 { per_million / 1e6 / a_second } else { 0.0 };
            Duration::from_millis_f64((s * 1e3).min(TOLL_MS_MAX))
        };
        let rate = self.limits.operations.as_ref().map_or(0.0, |limit| 1e3 / limit.per_s);
        let prices = self.price.as_ref();
        Toll {
            share: Duration::from_millis_f64(rate.min(TOLL_MS_MAX)),
            read: price(prices.map_or(0.0, |p| p.usd_per_million_reads)),
            write: price(prices.map_or(0.0, |p| p.usd_per_million_writes)),
            operation: Sectors(u64::from(self.operations.kib()) * 2),
            merges: matches!(self.operations, OperationSpec::Merged { .. }),
            rewrites: matches!(self.operations, OperationSpec::Objects { .. }),
            area: true,
        }
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        if self.kind.is_mechanical() {
            return fault("kind", self.kind, "cloud_hdd, cloud_ssd, object_store or ssd here");
        }
        named(&self.name)?;
        whole("capacity_sectors", self.capacity_sectors, 1, CAPACITY_MAX)?;
        self.validate_service()?;
        self.validate_operations()?;
        for (name, limit) in
            [("operations", &self.limits.operations), ("megabytes", &self.limits.megabytes)]
        {
            let Some(rate) = limit else { continue };
            let field = |f: &str| format!("limits.{name}.{f}");
            between(&field("per_s"), rate.per_s, 0.001, 1e9, "a second")?;
            between(&field("credits"), rate.credits, 0.0, 1e12, "of it")?;
            if let Some(burst) = rate.burst_per_s {
                between(&field("burst_per_s"), burst, rate.per_s, 1e9, "a second")?;
            }
        }
        if let Some(p) = &self.price {
            for (name, value) in [
                ("usd_per_gib_month", p.usd_per_gib_month),
                ("usd_per_million_reads", p.usd_per_million_reads),
                ("usd_per_million_writes", p.usd_per_million_writes),
                ("usd_per_operation_per_s_month", p.usd_per_operation_per_s_month),
                ("usd_per_mb_per_s_month", p.usd_per_mb_per_s_month),
            ] {
                between(&format!("price.{name}"), value, 0.0, 1e6, "US dollars")?;
            }
            let included = |f: &str, x| between(&format!("price.{f}"), x, 0.0, 1e9, "a second");
            included("included_operations_per_s", p.included_operations_per_s)?;
            included("included_mb_per_s", p.included_mb_per_s)?;
        }
        if let Some(p) = &self.power {
            between("power.read_w", p.read_w, 0.0, 1_000.0, "W")?;
            between("power.write_w", p.write_w, 0.0, 1_000.0, "W")?;
            between("power.idle_w", p.idle_w, 0.0, 1_000.0, "W")?;
        }
        Ok(())
    }

    fn validate_service(&self) -> Checked {
        let s = &self.service;
        whole("service.lanes", s.lanes, 1, 4_096)?;
        between("service.read_ms", s.read_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("service.write_ms", s.write_ms, 0.0, MOVE_MS_MAX, "ms")?;
        if let Some(ms) = s.continued_ms {
            between("service.continued_ms", ms, 0.0, MOVE_MS_MAX, "ms")?;
            if !matches!(self.operations, OperationSpec::Merged { .. }) {
                let allowed = "absent: only operations of rule \"merged\" go on";
                return fault("service.continued_ms", ms, allowed);
            }
        }
        between("service.lane_read_mb_s", s.lane_read_mb_s, 0.001, 1e6, "MB a second")?;
        between("service.lane_write_mb_s", s.lane_write_mb_s, 0.001, 1e6, "MB a second")
    }

    fn validate_operations(&self) -> Checked {
        let kib = self.operations.kib();
        whole("operations.kib", kib, 4, 1 << 20)?;
        if let OperationSpec::Merged { window_ms, streams, .. } = &self.operations {
            between("operations.window_ms", *window_ms, 0.0, 60_000.0, "ms")?;
            whole("operations.streams", *streams, 1, 256)?;
        }
        Ok(())
    }
}
