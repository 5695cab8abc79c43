//! The statistics of a trace as plain data: the JSON body of schema `seekless.stat/1`. Units are in
//! the keys. docs/using/stat.md defines every key.

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
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Whether the number is exact.
    #[must_use]
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
    /// The trace.
    pub trace: TraceSummary,
    /// BORG's Table 1.
    pub table1: Table1,
    /// Requests by operation.
    pub mix: Vec<OpRow>,
    /// Sectors of reads and writes, and distances between them.
    pub shape: Shape,
    /// Times between requests, and burstiness; `None` if the trace has no times.
    pub time: Option<TimeSummary>,
    /// Service times of the traced disk; `None` if the trace has none.
    pub service: Option<Service>,
    /// Page accesses by rank: BORG's Figure 1, top row.
    pub rank_frequency: RankFrequency,
    /// Cumulative accesses over cumulative space, hottest first (clustering paper, Figure 1).
    pub temperature: Vec<TemperaturePoint>,
    /// Reuse distance and miss ratio.
    pub reuse: Reuse,
    /// Day-to-day working sets; `None` if the trace has neither times nor days.
    pub days: Option<Days>,
    /// Requests over time and address, one map for each of the first devices.
    pub heat: Vec<Heat>,
    /// By device, the busiest first.
    pub devices: Vec<DeviceRow>,
    /// By process name, the busiest first; empty if the trace names no processes.
    pub processes: Vec<ProcessRow>,
    /// Notes for the reader of the statistics.
    pub notes: Vec<String>,
}

/// The trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// The name given by the user.
    pub path: String,
    /// Name of its format.
    pub format: String,
    /// Number of requests of every kind.
    pub requests: u64,
    /// Whether it has arrival times.
    pub has_times: bool,
    /// Whether it has day numbers.
    pub has_days: bool,
    /// Whether it names processes.
    pub has_processes: bool,
    /// Whether it has service times.
    pub has_service: bool,
    /// Time from the first to the last arrival in seconds; `None` without times.
    pub span_s: Option<f64>,
    /// Number of requests that are older than an earlier one in the trace.
    pub out_of_order: u64,
    /// Number of malformed records that were skipped.
    pub malformed: u64,
    /// Number of requests without sectors that were skipped.
    pub zero_length: u64,
    /// Number of events that the recorder reported as lost.
    pub lost_events: u64,
}

/// BORG's Table 1 (FAST'09, section 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table1 {
    /// Size of the file system or device, if the user gave it.
    pub size_bytes: Option<u64>,
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of writes, including writes of zeroes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read at least once.
    pub unique_read_bytes: Estimate,
    /// Bytes written at least once.
    pub unique_written_bytes: Estimate,
    /// Bytes read or written at least once: the footprint.
    pub unique_bytes: Estimate,
    /// Bytes both read and written.
    pub unique_both_bytes: Estimate,
    /// Pages of 4 KiB accessed at least once.
    pub pages: Estimate,
    /// Page accesses: each request counts once for each of its pages.
    pub page_accesses: u64,
    /// Fraction of `size_bytes` in accessed pages.
    pub accessed_share: Option<Estimate>,
    /// Fraction of page accesses that goes to the most accessed 20% of the pages.
    pub top20_share: Estimate,
    /// Partial determinism (2.3).
    pub determinism: Determinism,
}

/// Partial determinism: how many non-sequential accesses repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Determinism {
    /// Number of pairs of consecutive requests to one device in which the second does not start at
    /// the end of the first.
    pub non_sequential: u64,
    /// Fraction of these pairs whose addresses occur at least twice.
    pub share: Estimate,
    /// Fraction of these pairs whose addresses occur at least a hundred times.
    pub share_100: Estimate,
    /// Number of different pairs.
    pub pairs: Estimate,
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpRow {
    /// `read`, `write`, `discard`, `write_zeroes` or `flush`.
    pub op: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Number of bytes in these requests.
    pub bytes: u64,
}

/// A distribution: mean, minimum and maximum are exact; the rest has three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// The possible relative error of all values except mean, minimum and maximum.
    pub plus_minus_share: f64,
    /// Values, each with the fraction of all values that are not larger.
    pub curve: Vec<(f64, f64)>,
}

/// Sizes, distances, sequentiality, alignment; of reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shape {
    /// Sizes of reads in bytes.
    pub read_size_bytes: Distribution,
    /// Sizes of writes in bytes.
    pub write_size_bytes: Distribution,
    /// Distances in bytes from the end of a request to the start of the next on its device, without
    /// distances of 0.
    pub seek_bytes: Distribution,
    /// Fraction of these distances that go to lower addresses.
    pub backward_share: f64,
    /// Fraction of requests that start at the end of the request before on the same device.
    pub sequential_share: f64,
    /// Fraction of requests that start at the end of the request before of the same process, on the
    /// same device; `None` if the trace names no processes.
    pub sequential_in_process_share: Option<f64>,
    /// Fraction of requests that start at a multiple of 4 KiB.
    pub aligned_start_share: f64,
    /// Fraction of requests whose length is a multiple of 4 KiB.
    pub aligned_length_share: f64,
    /// Requests, indexed by the sector of a 4 KiB page at which they start.
    pub start_sector_in_page: [u64; 8],
}

/// The arrival times of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeSummary {
    /// Seconds from one request to the next.
    pub interarrival_s: Distribution,
    /// Requests per second over the whole time; `None` if the time is zero.
    pub requests_per_s: Option<f64>,
    /// Burstiness at several scales.
    pub bursts: Vec<Burst>,
}

/// Counts of requests in windows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Burst {
    /// Length of a window.
    pub window_s: f64,
    /// Number of windows, including empty ones.
    pub windows: u64,
    /// Variance divided by mean of the counts: 1 for Poisson arrivals, more for bursts.
    pub dispersion: f64,
    /// Maximum number of requests in a window.
    pub peak: u64,
    /// `peak` divided by the mean.
    pub peak_to_mean: f64,
}

/// Service times of the traced disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Service {
    /// Service times of reads in seconds.
    pub read_s: Distribution,
    /// Service times of writes in seconds.
    pub write_s: Distribution,
}

/// Accesses by rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankFrequency {
    /// Reads and writes.
    pub all: Vec<RankPoint>,
    /// Reads only.
    pub reads: Vec<RankPoint>,
    /// Writes only.
    pub writes: Vec<RankPoint>,
}

/// One page of the ranking.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankPoint {
    /// Rank, from 1.
    pub rank: Estimate,
    /// Access count of the page at that rank.
    pub accesses: u64,
}

/// A point of a temperature curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TemperaturePoint {
    /// Fraction of the pages, the hottest first.
    pub space: f64,
    /// Fraction of accesses that go to them.
    pub accesses: Estimate,
}

/// Reuse distance: the number of other pages accessed since the last access to a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reuse {
    /// Fraction of page accesses that are the first access to their page.
    pub first_share: Estimate,
    /// The curve, by cache size.
    pub curve: Vec<MissPoint>,
}

/// A size of an LRU cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissPoint {
    /// Size in pages.
    pub pages: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Fraction of page accesses that miss: those with a reuse distance of `pages` or more, and
    /// first accesses.
    pub miss_ratio: Estimate,
}

/// Working sets by day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Days {
    /// Length of a day in seconds; `None` if the trace numbers its days.
    pub day_s: Option<f64>,
    /// Number of days with requests.
    pub active: u64,
    /// The days in order, at most 4,096.
    pub rows: Vec<DayRow>,
    /// The hits of one day's ranking on later days: one, two and three active days later.
    pub persistence: Vec<Persistence>,
}

/// One day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DayRow {
    /// Its number.
    pub day: u64,
    /// Number of reads and writes.
    pub requests: u64,
    /// Number of page accesses.
    pub page_accesses: u64,
    /// Number of different pages accessed.
    pub pages: Estimate,
    /// Fraction of these pages that were also accessed on the first day; `None` on the first day.
    pub of_first_day: Option<Estimate>,
    /// Fraction of its most accessed 20% that also belong to the first day's most accessed 20%.
    pub top20_of_first_day: Option<Estimate>,
    /// Fraction of its pages that were also accessed on the active day before.
    pub of_day_before: Option<Estimate>,
    /// Fraction of its most accessed 20% that also belong to those of the active day before.
    pub top20_of_day_before: Option<Estimate>,
}

/// The hits of a day's ranking on a later day (clustering paper, Figure 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Persistence {
    /// Number of active days later; 0 is the day itself.
    pub days_later: u64,
    /// Number of pairs of days in the mean.
    pub pairs: u64,
    /// Fraction of the ranked day's pages, the hottest first, and fraction of the later day's
    /// accesses that go to them.
    pub curve: Vec<(f64, f64)>,
    /// The possible error of each of these fractions.
    pub plus_minus: f64,
}

/// Requests over time and address of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// The device, as named in the trace.
    pub device: String,
    /// The unit of a column: `s` for seconds, `requests` if the trace has no times.
    pub across: &'static str,
    /// Width of a column.
    pub column: f64,
    /// Height of a row in bytes of address.
    pub row_bytes: u64,
    /// Number of columns.
    pub columns: usize,
    /// Reads and writes that start in a cell, row by row from address 0.
    pub cells: Vec<u64>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRow {
    /// The device, as named in the trace.
    pub name: String,
    /// Number of requests of every kind.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, including writes of zeroes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read or written at least once.
    pub unique_bytes: Estimate,
    /// End of the highest request in bytes; the device has at least this size.
    pub end_bytes: u64,
    /// Fraction of reads and writes that start at the end of the request before.
    pub sequential_share: f64,
    /// Sectors after a 4 KiB boundary at which nearly all page-sized requests start: the offset of
    /// a misaligned partition. 0 if the requests are aligned; `None` if they start at different
    /// sectors.
    pub offset_sectors: Option<u64>,
}

/// Processes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessRow {
    /// The command; empty if unknown.
    pub name: String,
    /// Number of processes.
    pub processes: u64,
    /// Number of requests of every kind.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, including writes of zeroes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of different pages accessed.
    pub pages: Estimate,
    /// Fraction of reads and writes that start at the end of the request before of the same
    /// process.
    pub sequential_share: f64,
}
