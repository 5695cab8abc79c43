//! The status of a running volume: schema `seekless.status/1` and related ones, for the JSON API,
//! the page, the metrics and `seekless top`. Plain data.

use seekless_disk::VolumeSpec;
use serde::{Deserialize, Serialize};

use crate::server::{AdaptiveCounts, ServerStats};
use crate::shadow::{Counted, Shadow};

/// Status of a volume: schema `seekless.status/1`. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `seekless.status/1`.
    pub schema: String,
    /// Version of seekless.
    pub version: String,
    /// Time of this reading, since 1970.
    pub time_unix_ms: u64,
    /// Time since the start.
    pub uptime_s: f64,
    /// The volume.
    pub volume: VolumeStatus,
    /// Requests of clients.
    pub requests: RequestStatus,
    /// Copies and their area.
    pub copies: CopyStatus,
    /// The plan and its move.
    pub plan: PlanStatus,
    /// Limits of moving data.
    pub budget: BudgetStatus,
    /// Input of the learner.
    pub learning: LearningStatus,
    /// The adaptive policy; absent under another policy.
    pub adaptive: Option<AdaptiveStatus>,
    /// The scrub of a lasting area; absent without one.
    pub scrub: Option<ScrubStatus>,
    /// The server of home; absent if home is here.
    #[serde(default)]
    pub elsewhere: Option<ElsewhereStatus>,
    /// Memory of the server.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Operations at a provider; absent unless the modelled device counts operations.
    #[serde(default)]
    pub operations: Option<OperationStatus>,
    /// Busy time of the disk; absent without an emulated or modelled disk.
    pub busy: Option<BusyStatus>,
    /// The verdict on the last hour; absent if the vanilla system's disk time is unknown.
    #[serde(default)]
    pub verdict: Option<VerdictStatus>,
}

/// The disk's work in the last hour, against the vanilla system's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerdictStatus {
    /// In one sentence.
    pub text: String,
    /// The time that is compared: an hour, or less after a start.
    pub window_s: f64,
    /// Disk time of the vanilla system in this time.
    pub vanilla_s: f64,
    /// Actual disk time in this time, with moving data.
    pub actual_s: f64,
    /// Disk time saved since the start of the server; below zero, more was spent than saved.
    pub saved_s: f64,
    /// Since when the saved time is more than that for moving data; null before, and where moving
    /// never cost more than it saved.
    pub paid_back_since_unix_ms: Option<u64>,
}

impl VerdictStatus {
    pub(crate) fn saved_in_window(&self) -> f64 {
        self.vanilla_s - self.actual_s
    }
}

/// The volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// The backing file or device.
    pub backing: String,
    /// Its size.
    pub size_bytes: u64,
    /// True if writes are refused.
    pub read_only: bool,
    /// NBD clients connected.
    pub nbd_clients: u64,
    /// Reason for missing progress, in words; absent otherwise.
    pub trouble: Option<String>,
}

/// Requests of clients, and the sources of their reads.
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

/// Copies and their area.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Size of the optimized area.
    pub area_bytes: u64,
    /// Usable copies.
    pub usable_bytes: u64,
    /// Written into the area since the start.
    pub moved_bytes: u64,
    /// Dropped because their home was written, or could not be read, during the copy.
    pub overtaken_bytes: u64,
}

/// The plan and its move.
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
    /// True while copies are being written.
    pub moving: bool,
    /// Current or last move: bytes copied or given up.
    pub done_bytes: u64,
    /// Current or last move: bytes to copy.
    pub total_bytes: u64,
}

/// The adaptive policy: learned read-ahead, and a trail of copies in the order of use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveStatus {
    /// Pages that were read before a client asked for them.
    pub prefetched_pages: u64,
    /// Of these, pages that a client used.
    pub prefetch_used_pages: u64,
    /// Of these, pages that left RAM unused.
    pub prefetch_unused_pages: u64,
    /// Size of the trail; zero without a trail.
    pub trail_bytes: u64,
    /// Where the trail is written next.
    pub trail_position_bytes: u64,
    /// Written to the trail since the start.
    pub trail_written_bytes: u64,
    /// The guard; absent if the vanilla system's disk time is unknown.
    pub guard: Option<GuardStatus>,
    /// The guard's decision in words, or the reason for its absence.
    pub guard_note: String,
}

/// The guard: the policy stands aside while its disk time is above that of the vanilla system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardStatus {
    /// Disk time of the vanilla system on this UTC day.
    pub vanilla_today_s: f64,
    /// Actual disk time on this UTC day, with trail writes.
    pub actual_today_s: f64,
    /// Largest excess of the actual disk time within a day.
    pub worst_excess_s: f64,
    /// True while the policy stands aside.
    pub bypassing: bool,
    /// Disk time while the policy stood aside.
    pub bypassed_s: f64,
    /// The recent error of the calibrated model of the disk, as a share of measured service times;
    /// null before 256 measured reads, and with an emulated disk.
    pub model_error: Option<f64>,
    /// True if these times are measured, because the model is off by more than 10%.
    pub measured: bool,
}

impl GuardStatus {
    /// The guard's decision in words, and on which times it rests.
    pub(crate) fn note(&self, disk: &str) -> String {
        let state = if self.bypassing {
            "the policy stands aside: it took more disk time than the vanilla system, or requests come too fast to compare"
        } else {
            "the policy is in use"
        };
        let basis = if self.measured { "measured" } else { "modelled" };
        let error =
            self.model_error.map(|e| format!(", off by {:.0}% after calibration", e * 100.0));
        format!("{state}; {basis} times; disk: {disk}{}", error.unwrap_or_default())
    }
}

impl AdaptiveStatus {
    /// From the volume's counters, the guard and its note; `None` under another policy.
    pub(crate) fn of(stats: &ServerStats, guard: Option<(GuardStatus, String)>) -> Option<Self> {
        let AdaptiveCounts { unused, trail } = stats.adaptive?;
        let (position, size) = trail.unwrap_or_default();
        let (guard, note) = guard.unzip();
        Some(Self {
            prefetched_pages: stats.engine.prefetched,
            prefetch_used_pages: stats.engine.prefetch_used,
            prefetch_unused_pages: unused,
            trail_bytes: size.0,
            trail_position_bytes: position.0,
            trail_written_bytes: stats.engine.moved_bytes,
            guard,
            guard_note: note.unwrap_or_else(|| "no guard: nothing was compared".to_owned()),
        })
    }
}

/// The scrub: it compares the area with its checksums, in idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// Passes that have ended.
    pub passes: u64,
    /// True while a pass is in progress.
    pub running: bool,
    /// End of the last pass, since 1970; absent before.
    pub last_end_unix_ms: Option<u64>,
    /// Pages that were read and compared.
    pub pages: u64,
    /// Of these, damaged pages: copies that were dropped, metadata that was written again, and only
    /// copies.
    pub damaged_pages: u64,
    /// Damaged pages that have no other copy now: reads of them fail.
    pub lost_pages: u64,
}

/// A home on another server: requests to this server, and the cost of its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ElsewhereStatus {
    /// False while there is no connection.
    pub connected: bool,
    /// Reads that the server answered: the operations that many providers charge for.
    pub reads: u64,
    /// Writes, discards and writes of zeroes that it answered.
    pub changes: u64,
    /// How often connections were made again.
    pub reconnects: u64,
    /// Requests that were sent again.
    pub sent_again: u64,
    /// Time without a connection.
    pub away_s: f64,
}

/// Memory of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// The bound on all of it; absent without a bound.
    pub most_bytes: Option<u64>,
    /// Pages of RAM.
    pub pages_bytes: u64,
    /// Buffers of requests and of moves.
    pub buffers_bytes: u64,
    /// Clients that wait for memory for a long request.
    pub waiting_clients: u64,
}

/// Operations as a provider counts them, modelled: for the I/Os that were sent, and for the vanilla
/// system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationStatus {
    /// For the I/Os that were sent, moving data included.
    pub now: u64,
    /// Of the vanilla system.
    pub vanilla: u64,
    /// Price of `now`, US dollars; absent if the provider sends no bill for operations.
    pub now_usd: Option<f64>,
    /// Price of `vanilla`, US dollars.
    pub vanilla_usd: Option<f64>,
}

impl OperationStatus {
    /// From the shadow; `None` if its device counts no operations.
    pub(crate) fn of(shadow: Option<&dyn Shadow>, provider: Option<&VolumeSpec>) -> Option<Self> {
        let Counted { now, vanilla, .. } = shadow?.operations()?;
        let usd = |o| provider.map(|spec| spec.operations_usd(o));
        Some(Self {
            now: now.total(),
            vanilla: vanilla.total(),
            now_usd: usd(&now),
            vanilla_usd: usd(&vanilla),
        })
    }
}

impl std::fmt::Display for OperationStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { now, vanilla, .. } = self;
        let word = |more: bool| if more { "more" } else { "fewer" };
        write!(f, "{now} operations at the provider, modelled, {} ", now.abs_diff(*vanilla))?;
        write!(f, "{} than the vanilla system's {vanilla}", word(now > vanilla))?;
        let Some((now, vanilla)) = self.now_usd.zip(self.vanilla_usd) else { return Ok(()) };
        let word = if now > vanilla { "costs" } else { "saves" };
        write!(f, "; that {word} ${:.6} of ${vanilla:.6}", (vanilla - now).abs())
    }
}

/// Limits of moving data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Most bytes read and written per second; absent without a limit.
    pub limit_bytes_per_s: Option<u64>,
    /// Bytes read and written per second, over the last ten seconds.
    pub used_bytes_per_s: f64,
}

/// Input of the learner and of the watcher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearningStatus {
    /// True with a learner.
    pub learns: bool,
    /// `one`: all requests are one stream; `observed`: one stream per thread, from the kernel's
    /// block trace.
    pub streams: String,
    /// The same in words: the device, or the reason.
    pub streams_note: String,
    /// Lost events of the kernel's block trace.
    pub lost_events: u64,
    /// Requests that the learner missed because it was busy.
    pub missed_requests: u64,
    /// Requests and I/Os that this watcher missed because it was busy; `busy` does not include
    /// them.
    pub unwatched: u64,
}

/// Busy time of the disk, actual and for the vanilla system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyStatus {
    /// Name of the disk.
    pub disk: String,
    /// `emulated`: counters of the emulated disk; `modelled`: that disk's model for the I/Os sent
    /// to another disk.
    pub basis: String,
    /// Seconds of that disk since the start.
    pub elapsed_s: f64,
    /// With copies and moves.
    pub now: Busy,
    /// Energy of that disk over `elapsed_s`, in joules, with idling and all other states; absent if
    /// the disk is modelled.
    pub total_j: Option<f64>,
    /// Part of `now` for moving data.
    pub moving_s: f64,
    /// Head movement for `now`; absent if the disk is modelled.
    pub head: Option<Head>,
    /// The same requests without copies, modelled; absent if unknown.
    pub vanilla: Option<Busy>,
    /// Method of the comparison, or the reason for its absence.
    pub note: String,
}

/// Head movement of an emulated disk, with moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Commands.
    pub ios: u64,
    /// Commands that did not start at the end of the previous command.
    pub nonsequential: u64,
    /// Cylinders crossed before the first sectors of the commands.
    pub seek_cylinders: u64,
    /// Bytes read, written and otherwise changed.
    pub bytes: u64,
    /// Total delay of answers behind the emulated disk, in real time.
    pub late_s: f64,
}

/// Busy time by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Arm movement.
    pub seek_s: f64,
    /// Waiting for the platter.
    pub rotation_s: f64,
    /// Transfer.
    pub transfer_s: f64,
    /// Controller overhead.
    pub overhead_s: f64,
    /// Energy of all phases, in joules, without idling.
    pub energy_j: f64,
}

impl Busy {
    /// Total time.
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
    /// Start of the optimized area on that axis.
    pub area_from_bytes: u64,
    /// Meaning of positions: `head` of an emulated disk, or `address` of the I/Os sent.
    pub position: String,
    /// Number of I/Os per shown I/O, over the last minute.
    pub one_in: u64,
    /// Counts of each interval, oldest first.
    pub samples: Vec<Sample>,
    /// Positions of I/Os, oldest first.
    pub points: Vec<Point>,
}

/// Counts of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, since 1970.
    pub time_unix_ms: u64,
    /// Its length.
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
    /// Busy time of the disk, if known.
    pub busy_s: Option<f64>,
    /// Busy time of the vanilla disk, if known.
    pub vanilla_busy_s: Option<f64>,
}

/// Position of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Time since 1970.
    pub time_unix_ms: u64,
    /// First byte, on the axis of [`History`].
    pub at_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
    /// Its kind.
    pub kind: Kind,
}

/// Kind of an I/O.
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

/// Recent decisions: schema `seekless.events/1`.
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
    /// Time since 1970.
    pub time_unix_ms: u64,
    /// The event and its reason.
    pub text: String,
}
