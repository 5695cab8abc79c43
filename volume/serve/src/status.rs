//! What is told of a running volume: schema `seekless.status/1` and its companions, as the JSON API, the page,
//! the metrics and `seekless top` share them. Plain data: it knows neither how it was gathered nor how it
//! is shown.

use serde::{Deserialize, Serialize};

/// How a volume stands: schema `seekless.status/1`. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `seekless.status/1`.
    pub schema: String,
    /// Of seekless.
    pub version: String,
    /// Of this reading, since 1970.
    pub time_unix_ms: u64,
    /// Since the start.
    pub uptime_s: f64,
    /// What is served.
    pub volume: VolumeStatus,
    /// What clients asked.
    pub requests: RequestStatus,
    /// Copies and the area they stand in.
    pub copies: CopyStatus,
    /// The plan, and the way to it.
    pub plan: PlanStatus,
    /// What moving data may take.
    pub budget: BudgetStatus,
    /// What was learned from.
    pub learning: LearningStatus,
    /// What the disk was busy with; absent where there is neither an emulated nor a modelled disk.
    pub busy: Option<BusyStatus>,
}

/// What is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// The backing file or device.
    pub backing: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// NBD clients connected.
    pub nbd_clients: u64,
    /// Why it does not go on with what it was asked, in words; absent where it does.
    pub trouble: Option<String>,
}

/// What clients asked, and where their reads were answered from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestStatus {
    /// All requests.
    pub total: u64,
    /// Reads answered from RAM alone.
    pub ram_reads: u64,
    /// Device reads of a copy, for clients.
    pub copy_reads: u64,
    /// Device reads of home, for clients.
    pub home_reads: u64,
}

/// Copies and the area they stand in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Size of the optimized area.
    pub area_bytes: u64,
    /// Copies that may be used now.
    pub usable_bytes: u64,
    /// Written into the area since the start.
    pub moved_bytes: u64,
    /// Dropped because their home was written, or could not be read, while they were made.
    pub overtaken_bytes: u64,
}

/// The plan, and the way to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStatus {
    /// Plans made.
    pub made: u64,
    /// Plans refused because they did not fit: a bug of the planner.
    pub refused: u64,
    /// Extents of the latest plan.
    pub extents: u64,
    /// Size of the latest plan.
    pub plan_bytes: u64,
    /// Whether copies are on their way.
    pub moving: bool,
    /// Of the move under way, or of the last one: copied, or given up.
    pub done_bytes: u64,
    /// Of the move under way, or of the last one: to be copied.
    pub total_bytes: u64,
}

/// What moving data may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Read and written a second, at most; absent where there is no limit.
    pub limit_bytes_per_s: Option<u64>,
    /// Read and written a second, over the last ten seconds.
    pub used_bytes_per_s: f64,
}

/// What was learned from, and what the watcher saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearningStatus {
    /// Whether there is a learner.
    pub learns: bool,
    /// Whose requests are told apart: `one`: nobody's, all are one stream; `observed`: each thread's, by the kernel's
    /// block trace.
    pub streams: String,
    /// The same in words: which device, or why none.
    pub streams_note: String,
    /// Events of the kernel's block trace that were lost.
    pub lost_events: u64,
    /// Requests that the learner missed, because it was busy.
    pub missed_requests: u64,
    /// Requests and I/Os that this watcher missed, because it was busy; `busy` leaves them out.
    pub unwatched: u64,
}

/// What the disk was busy with, now and as the vanilla system would have been.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyStatus {
    /// The disk, as the catalogue or a file has it.
    pub disk: String,
    /// `emulated`: the books of the emulated disk that served; `modelled`: what that disk would have done with
    /// the I/Os that were sent to another.
    pub basis: String,
    /// Seconds of that disk since the start.
    pub elapsed_s: f64,
    /// With copies, the moving of data included.
    pub now: Busy,
    /// Of `now`, moving data.
    pub moving_s: f64,
    /// Where the head had to go for `now`; absent where the disk is modelled.
    pub head: Option<Head>,
    /// The same requests with no copy, modelled; absent where it cannot be said.
    pub vanilla: Option<Busy>,
    /// How the comparison was made, or why there is none.
    pub note: String,
}

/// What an emulated disk's head did, moving data included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Commands.
    pub ios: u64,
    /// Commands that started elsewhere than where the one before ended.
    pub nonsequential: u64,
    /// Cylinders crossed before the first sectors of the commands.
    pub seek_cylinders: u64,
    /// Read, written and otherwise changed.
    pub bytes: u64,
    /// How far answers were behind the emulated disk, in real time; the sum over all.
    pub late_s: f64,
}

/// Busy time by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// The arm moved.
    pub seek_s: f64,
    /// The platter was waited for.
    pub rotation_s: f64,
    /// Sectors passed the head.
    pub transfer_s: f64,
    /// The controller worked.
    pub overhead_s: f64,
    /// For all of these.
    pub energy_j: f64,
}

impl Busy {
    /// All phases.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.seek_s + self.rotation_s + self.transfer_s + self.overhead_s
    }
}

/// The last minutes: schema `seekless.history/1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// `seekless.history/1`.
    pub schema: String,
    /// End of the position axis: the disk's home addresses, then the optimized area.
    pub end_bytes: u64,
    /// Where the optimized area begins on that axis.
    pub area_from_bytes: u64,
    /// What the positions are: `head`, of an emulated disk, or `address`, of the I/Os sent.
    pub position: String,
    /// I/Os for each that is shown, over the last minute.
    pub one_in: u64,
    /// Counts of each interval, oldest first.
    pub samples: Vec<Sample>,
    /// Where I/Os went, oldest first.
    pub points: Vec<Point>,
}

/// What happened in an interval that ended `time_unix_ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its end, since 1970.
    pub time_unix_ms: u64,
    /// How long it was.
    pub took_s: f64,
    /// Requests.
    pub requests: u64,
    /// Reads answered from RAM.
    pub ram_reads: u64,
    /// Device reads of copies.
    pub copy_reads: u64,
    /// Device reads of home.
    pub home_reads: u64,
    /// Written into the area.
    pub moved_bytes: u64,
    /// Time the disk was busy, where known.
    pub busy_s: Option<f64>,
    /// Time the vanilla disk would have been, where known.
    pub vanilla_busy_s: Option<f64>,
}

/// Where an I/O went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// When, since 1970.
    pub time_unix_ms: u64,
    /// First byte, on the axis of [`History`].
    pub at_bytes: u64,
    /// How long.
    pub len_bytes: u64,
    /// What it was.
    pub kind: Kind,
}

/// What an I/O was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A client's read, at home.
    #[default]
    HomeRead,
    /// A client's read, from a copy.
    CopyRead,
    /// A client's write, discard or write of zeroes.
    Write,
    /// Moving data.
    Moving,
}

/// What was decided lately: schema `seekless.events/1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// `seekless.events/1`.
    pub schema: String,
    /// Oldest first; the last few hundred.
    pub events: Vec<Event>,
}

/// A decision, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counted from 1.
    pub number: u64,
    /// When, since 1970.
    pub time_unix_ms: u64,
    /// What happened and why.
    pub text: String,
}
