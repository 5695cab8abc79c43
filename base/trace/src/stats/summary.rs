//! What is said of a trace, as plain data: the body of the JSON of schema `seekless.stat/1`. Units stand in
//! the keys. docs/using/stat.md defines every one of them. Knows nothing of how a number came about, but how far off
//! it may be.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

/// A number and how far off it may be: three standard errors; 0 where it is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// It may be off by this much, in its own unit.
    pub error: f64,
}

impl Estimate {
    /// A number that was counted.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Whether it was counted.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.error == 0.0
    }

    /// The same in another unit, of which one of the old is `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, error: self.error * factor }
    }

    /// As a share of a whole that is known: never outside 0 to 1.
    pub(super) fn of(self, whole: f64) -> Self {
        if whole <= 0.0 {
            return Self::default();
        }
        let share = self.scaled(1.0 / whole);
        Self { value: share.value.clamp(0.0, 1.0), error: share.error.min(1.0) }
    }
}

/// Whole numbers are written as such: 2^53 and below lose nothing.
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

/// Everything.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// What was read.
    pub trace: TraceSummary,
    /// BORG's Table 1.
    pub table1: Table1,
    /// Requests by operation.
    pub mix: Vec<OpRow>,
    /// Sectors of reads and writes, and distances between them.
    pub shape: Shape,
    /// Times between requests, and burstiness; none where the trace has no times.
    pub time: Option<TimeSummary>,
    /// How long the disk of the time took; none where the trace does not tell.
    pub service: Option<Service>,
    /// Accesses of pages by rank: BORG's Figure 1, top row.
    pub rank_frequency: RankFrequency,
    /// Cumulative accesses over cumulative space, hottest first (clustering paper, Figure 1).
    pub temperature: Vec<TemperaturePoint>,
    /// Reuse distance and miss ratio.
    pub reuse: Reuse,
    /// Day-to-day working sets; none where the trace has neither times nor days.
    pub days: Option<Days>,
    /// Requests over time and address, a map for each of the devices seen first.
    pub heat: Vec<Heat>,
    /// By device, busiest first.
    pub devices: Vec<DeviceRow>,
    /// By name of process, busiest first; empty where the trace names none.
    pub processes: Vec<ProcessRow>,
    /// What a reader should know, in words.
    pub notes: Vec<String>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// As the user named it.
    pub path: String,
    /// Name of its format.
    pub format: String,
    /// Requests of every kind.
    pub requests: u64,
    /// Whether it has arrival times.
    pub has_times: bool,
    /// Whether it has day numbers.
    pub has_days: bool,
    /// Whether it names processes.
    pub has_processes: bool,
    /// Whether it tells service times.
    pub has_service: bool,
    /// First arrival to last, in seconds; none without times.
    pub span_s: Option<f64>,
    /// Requests older than one before them in the trace.
    pub out_of_order: u64,
    /// Malformed records passed over.
    pub malformed: u64,
    /// Requests of no sectors passed over.
    pub zero_length: u64,
    /// Events the recorder itself said it lost.
    pub lost_events: u64,
}

/// BORG's Table 1 (FAST'09, section 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table1 {
    /// Size of file system or device, where the user told it.
    pub size_bytes: Option<u64>,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes, of zeroes too.
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
    /// Accesses of pages: each request counts once for each page it touches.
    pub page_accesses: u64,
    /// Share of `size_bytes` in pages that were accessed.
    pub accessed_share: Option<Estimate>,
    /// Share of page accesses that go to the most accessed 20% of the pages.
    pub top20_share: Estimate,
    /// Partial determinism (2.3).
    pub determinism: Determinism,
}

/// Partial determinism: how much of what is not sequential comes again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Determinism {
    /// Pairs of successive requests to one device, the second not starting where the first ended.
    pub non_sequential: u64,
    /// Share of these whose pair of addresses occurs at least twice.
    pub share: Estimate,
    /// Share of these whose pair of addresses occurs at least a hundred times.
    pub share_100: Estimate,
    /// Different pairs.
    pub pairs: Estimate,
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpRow {
    /// `read`, `write`, `discard`, `write_zeroes` or `flush`.
    pub op: &'static str,
    /// How many.
    pub requests: u64,
    /// How many bytes they name.
    pub bytes: u64,
}

/// A distribution: mean and ends exact, the rest to three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many.
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
    /// A value other than mean, smallest and largest may be off by this share of itself.
    pub plus_minus_share: f64,
    /// Values, and the share of all that are no greater.
    pub curve: Vec<(f64, f64)>,
}

/// Sizes, distances, sequentiality, alignment; of reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shape {
    /// Sizes of reads in bytes.
    pub read_size_bytes: Distribution,
    /// Sizes of writes in bytes.
    pub write_size_bytes: Distribution,
    /// Distances in bytes from where a request ended to where the next of its device starts, without those
    /// of 0.
    pub seek_bytes: Distribution,
    /// Share of these that go towards lower addresses.
    pub backward_share: f64,
    /// Share of requests that start where the one before of the same device ended.
    pub sequential_share: f64,
    /// Share of requests that start where the one before of the same process ended, on the same device;
    /// none where the trace names no process.
    pub sequential_in_process_share: Option<f64>,
    /// Share of requests that start at a multiple of 4 KiB.
    pub aligned_start_share: f64,
    /// Share of requests whose length is a multiple of 4 KiB.
    pub aligned_length_share: f64,
    /// Requests by the sector of a 4 KiB page that they start at.
    pub start_sector_in_page: [u64; 8],
}

/// How requests come in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeSummary {
    /// Seconds from one request to the next.
    pub interarrival_s: Distribution,
    /// Requests a second over the whole span; none where the span is nothing.
    pub requests_per_s: Option<f64>,
    /// Burstiness at several scales.
    pub bursts: Vec<Burst>,
}

/// Counts of requests in windows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Burst {
    /// Length of a window.
    pub window_s: f64,
    /// How many windows, empty ones too.
    pub windows: u64,
    /// Variance over mean of the counts: 1 for Poisson arrivals, more where they come in bursts.
    pub dispersion: f64,
    /// Most requests in a window.
    pub peak: u64,
    /// `peak` over the mean.
    pub peak_to_mean: f64,
}

/// How long the disk of the time took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Service {
    /// Of reads, in seconds.
    pub read_s: Distribution,
    /// Of writes, in seconds.
    pub write_s: Distribution,
}

/// Accesses by rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankFrequency {
    /// Of reads and writes.
    pub all: Vec<RankPoint>,
    /// Of reads alone.
    pub reads: Vec<RankPoint>,
    /// Of writes alone.
    pub writes: Vec<RankPoint>,
}

/// One page of the ranking.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankPoint {
    /// Rank, from 1.
    pub rank: Estimate,
    /// Accesses of the page at that rank.
    pub accesses: u64,
}

/// A point of a temperature curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TemperaturePoint {
    /// Share of the pages, hottest first.
    pub space: f64,
    /// Share of accesses that go to them.
    pub accesses: Estimate,
}

/// Reuse distance: how many other pages were accessed since a page was last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reuse {
    /// Share of page accesses that are the page's first.
    pub first_share: Estimate,
    /// The curve, by growing cache.
    pub curve: Vec<MissPoint>,
}

/// A size of an LRU cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissPoint {
    /// Pages it holds.
    pub pages: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Share of page accesses that miss it: those at a reuse distance of `pages` or more, and first ones.
    pub miss_ratio: Estimate,
}

/// Working sets by day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Days {
    /// Length of a day in seconds; none where the trace numbers its days.
    pub day_s: Option<f64>,
    /// How many days have requests.
    pub active: u64,
    /// Each of them, in order, at most 4,096.
    pub rows: Vec<DayRow>,
    /// How the ranking of one day fares on days to come: one, two and three active days later.
    pub persistence: Vec<Persistence>,
}

/// One day.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DayRow {
    /// Its number.
    pub day: u64,
    /// Reads and writes.
    pub requests: u64,
    /// Accesses of pages.
    pub page_accesses: u64,
    /// Different pages accessed.
    pub pages: Estimate,
    /// Share of these accessed on the first day too; none on the first day.
    pub of_first_day: Option<Estimate>,
    /// Share of its most accessed 20% that are of the first day's most accessed 20%.
    pub top20_of_first_day: Option<Estimate>,
    /// Share of its pages accessed on the active day before too.
    pub of_day_before: Option<Estimate>,
    /// Share of its most accessed 20% that are of those of the active day before.
    pub top20_of_day_before: Option<Estimate>,
}

/// How a day's ranking fares later (clustering paper, Figure 2).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Persistence {
    /// Active days later; 0 is the day itself.
    pub days_later: u64,
    /// Pairs of days that the curve is the mean of.
    pub pairs: u64,
    /// Share of the ranked day's pages, hottest first, and of the later day's accesses that go to them.
    pub curve: Vec<(f64, f64)>,
    /// Each of these shares may be off by this much.
    pub plus_minus: f64,
}

/// Requests over time and address of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// The device, as the trace names it.
    pub device: String,
    /// What a column is: `s` for seconds, `requests` where the trace has no times.
    pub across: &'static str,
    /// Width of a column.
    pub column: f64,
    /// Height of a row in bytes of address.
    pub row_bytes: u64,
    /// Columns.
    pub columns: usize,
    /// Reads and writes that start in a cell, row by row from address 0.
    pub cells: Vec<u64>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceRow {
    /// As the trace names it.
    pub name: String,
    /// Requests of every kind.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes, of zeroes too.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes read or written at least once.
    pub unique_bytes: Estimate,
    /// Where the highest request ends, in bytes: the device is no smaller.
    pub end_bytes: u64,
    /// Share of reads and writes that start where the one before ended.
    pub sequential_share: f64,
    /// Sectors past a 4 KiB boundary that nearly all requests of whole pages start at: a partition that is not
    /// aligned; 0 where they are aligned, none where they start anywhere.
    pub offset_sectors: Option<u64>,
}

/// Processes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessRow {
    /// The command; empty where unknown.
    pub name: String,
    /// How many processes.
    pub processes: u64,
    /// Requests of every kind.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes, of zeroes too.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Different pages accessed.
    pub pages: Estimate,
    /// Share of reads and writes that start where the one before of the same process ended.
    pub sequential_share: f64,
}
