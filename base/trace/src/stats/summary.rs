//! The statistics of a trace as plain data: the JSON body of schema `seekless.stat/1`. Units are in
//! the keys. docs/using/stat.md defines every key.
#![allow(missing_docs, reason = "docs/using/stat.md defines every key")]

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

/// A number and its possible error: three standard errors; 0 if the number is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The possible error, in the unit of the number.
    pub error: f64,
}

impl Estimate {
    /// An exact number.
    pub const fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Whether the number is exact.
    pub fn is_exact(&self) -> bool {
        self.error == 0.0
    }

    /// The same in another unit; one old unit is `factor` new ones.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor }
    }

    /// As a fraction of a known total: always from 0 to 1.
    pub(super) fn of(self, whole: f64) -> Self {
        if whole <= 0.0 {
            return Self::default();
        }
        let share = self.scaled(1.0 / whole);
        Self { value: share.value.clamp(0.0, 1.0), error: share.error.min(1.0) }
    }
}

/// Whole numbers are written as integers: numbers up to 2^53 lose nothing.
impl Serialize for Estimate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Estimate", 3)?;
        if self.value.fract() == 0.0 && self.value.abs() < 9e15 {
            out.serialize_field("value", &(self.value as i64))?;
        } else {
            out.serialize_field("value", &self.value)?;
        }
        out.serialize_field("plus_minus", &self.error)?;
        out.serialize_field("exact", &self.is_exact())?;
        out.end()
    }
}

/// All statistics of a trace.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Summary {
    pub trace: TraceSummary,
    pub table1: Table1,
    pub mix: Vec<OpRow>,
    pub shape: Shape,
    pub time: Option<TimeSummary>,
    pub service: Option<Service>,
    pub rank_frequency: RankFrequency,
    pub temperature: Vec<TemperaturePoint>,
    pub reuse: Reuse,
    pub days: Option<Days>,
    pub heat: Vec<Heat>,
    pub devices: Vec<DeviceRow>,
    pub processes: Vec<ProcessRow>,
    pub notes: Vec<String>,
}

/// The trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    pub path: String,
    pub format: String,
    pub requests: u64,
    pub has_times: bool,
    pub has_days: bool,
    pub has_processes: bool,
    pub has_service: bool,
    pub span_s: Option<f64>,
    pub out_of_order: u64,
    pub malformed: u64,
    pub zero_length: u64,
    pub without_operation: u64,
    pub unknown_files: u64,
    pub lost_events: u64,
}

/// BORG's Table 1 (FAST'09, section 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table1 {
    pub size_bytes: Option<u64>,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub unique_read_bytes: Estimate,
    pub unique_written_bytes: Estimate,
    pub unique_bytes: Estimate,
    pub unique_both_bytes: Estimate,
    pub pages: Estimate,
    pub page_accesses: u64,
    pub accessed_share: Option<Estimate>,
    pub top20_share: Estimate,
    pub determinism: Determinism,
}

/// Partial determinism: how many non-sequential accesses repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Determinism {
    pub non_sequential: u64,
    pub share: Estimate,
    pub share_100: Estimate,
    pub pairs: Estimate,
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpRow {
    pub op: &'static str,
    pub requests: u64,
    pub bytes: u64,
}

/// A distribution: mean, minimum and maximum are exact; the rest has three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
    pub plus_minus_share: f64,
    pub curve: Vec<(f64, f64)>,
}

/// Sizes, distances, sequentiality, alignment; of reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shape {
    pub read_size_bytes: Distribution,
    pub write_size_bytes: Distribution,
    pub seek_bytes: Distribution,
    pub backward_share: f64,
    pub sequential_share: f64,
    pub sequential_in_process_share: Option<f64>,
    pub aligned_start_share: f64,
    pub aligned_length_share: f64,
    pub start_sector_in_page: [u64; 8],
}

/// The arrival times of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeSummary {
    pub interarrival_s: Distribution,
    pub requests_per_s: Option<f64>,
    pub bursts: Vec<Burst>,
}

/// Counts of requests in windows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Burst {
    pub window_s: f64,
    pub windows: u64,
    pub dispersion: f64,
    pub peak: u64,
    pub peak_to_mean: f64,
}

/// Service times of the traced disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Service {
    pub read_s: Distribution,
    pub write_s: Distribution,
}

/// Accesses by rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankFrequency {
    pub all: Vec<RankPoint>,
    pub reads: Vec<RankPoint>,
    pub writes: Vec<RankPoint>,
}

/// One page of the ranking.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankPoint {
    pub rank: Estimate,
    pub accesses: u64,
}

/// A point of a temperature curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TemperaturePoint {
    pub space: f64,
    pub accesses: Estimate,
}

/// Reuse distance: the number of other pages accessed since the last access to a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reuse {
    pub first_share: Estimate,
    pub curve: Vec<MissPoint>,
}

/// A size of an LRU cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissPoint {
    pub pages: u64,
    pub bytes: u64,
    pub miss_ratio: Estimate,
}

/// Working sets by day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Days {
    pub day_s: Option<f64>,
    pub active: u64,
    pub rows: Vec<DayRow>,
    pub persistence: Vec<Persistence>,
}

/// One day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DayRow {
    pub day: u64,
    pub requests: u64,
    pub page_accesses: u64,
    pub pages: Estimate,
    pub of_first_day: Option<Estimate>,
    pub top20_of_first_day: Option<Estimate>,
    pub of_day_before: Option<Estimate>,
    pub top20_of_day_before: Option<Estimate>,
}

/// The hits of a day's ranking on a later day (clustering paper, Figure 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Persistence {
    pub days_later: u64,
    pub pairs: u64,
    pub curve: Vec<(f64, f64)>,
    pub plus_minus: f64,
}

/// Requests over time and address of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    pub device: String,
    pub across: &'static str,
    pub column: f64,
    pub row_bytes: u64,
    pub columns: usize,
    pub cells: Vec<u64>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRow {
    pub name: String,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub unique_bytes: Estimate,
    pub end_bytes: u64,
    pub sequential_share: f64,
    pub offset_sectors: Option<u64>,
}

/// Processes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessRow {
    pub name: String,
    pub processes: u64,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub pages: Estimate,
    pub sequential_share: f64,
}
