//! The description of a disk: the values of a catalogue entry. [`crate::spec_check`] checks the
//! ranges of the values.

use serde::{Deserialize, Serialize};

use crate::device::Kind;

/// The description of a disk, as in its catalogue entry. Times are in milliseconds and powers in
/// watts, as in data sheets. [`crate::Disk::new`] converts them to integers once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// The kind of device; one of the kinds with a mechanism.
    #[serde(default)]
    pub kind: Kind,
    /// Short name, as used on the command line.
    pub name: String,
    /// Manufacturer and model.
    pub title: String,
    /// Capacity visible to a client, in sectors of 512 bytes.
    pub capacity_sectors: u64,
    /// Rotation, head switch, settle.
    pub mechanics: MechanicsSpec,
    /// The seek curve.
    pub seek: SeekSpec,
    /// The layout of sectors on the platters.
    pub geometry: GeometrySpec,
    /// Power in each state.
    pub power: PowerSpec,
    /// Overheads, interface and buffer; absent if only the mechanism is modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerSpec>,
    /// The media cache and the bands of a shingled disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shingled: Option<ShingledSpec>,
    /// The source of each value.
    #[serde(default, rename = "source")]
    pub sources: Vec<Source>,
}

/// Rotation, head switch, settle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsSpec {
    /// Revolutions per minute, with two decimals.
    pub rpm: f64,
    /// Time to switch to another head of the same cylinder.
    pub head_switch_ms: f64,
    /// Added to every positioning of a write that moves the arm or changes the head. Can be
    /// negative.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_settle_ms: f64,
    /// The requests that start with the first of their sectors that passes the head, instead of
    /// their first sector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero_latency: ZeroLatency,
}

/// The requests that start with the first of their sectors that passes the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroLatency {
    /// None: each request waits for its first sector.
    #[default]
    None,
    /// Reads. A read that the buffer cannot answer buffers its whole track.
    Reads,
    /// Reads, as with `Reads`, and writes.
    All,
}

/// A seek curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekSpec {
    /// Measured times at cylinder distances, with straight lines between them. The curve starts
    /// with 0 ms at distance 0 and continues the last line at its end.
    Table {
        /// Pairs of cylinders and milliseconds, in rising order of distance.
        points: Vec<(u32, f64)>,
    },
    /// `a + b sqrt(d - 1) + c (d - 1)` through three published times (Lee and Katz's equation): one
    /// cylinder, the mean over random pairs of cylinders, and all cylinders.
    ThreePoint {
        /// Seek over one cylinder.
        single_ms: f64,
        /// Mean over random pairs of cylinders.
        average_ms: f64,
        /// Seek from the first to the last cylinder.
        full_ms: f64,
    },
    /// `constant + factor sqrt(d)` (Staelin and Garcia-Molina, equation 14: 5 and 0.5).
    SquareRoot {
        /// The constant part in milliseconds.
        constant_ms: f64,
        /// Milliseconds per square root of a cylinder.
        factor_ms: f64,
    },
    /// FS2 4.2: a cubic for short distances and a line for long ones, over *logical* distance in
    /// sectors.
    CubicLinear {
        /// Coefficients of x^3, x^2, x and 1 below the threshold, in milliseconds.
        cubic: [f64; 4],
        /// Coefficients of x and 1 from the threshold, in milliseconds.
        linear: [f64; 2],
        /// The threshold in sectors.
        threshold_sectors: f64,
    },
    /// `short_constant + short_root sqrt(d)` below the threshold and a line from there; optional
    /// times for the first distances (the "HPL" equation of disk simulators).
    RootLinear {
        /// Times for distances 1, 2, 3...; can be empty.
        #[serde(default)]
        first_ms: Vec<f64>,
        /// The threshold in cylinders.
        threshold: u32,
        /// Constant of the square-root part.
        short_constant_ms: f64,
        /// Factor of the square-root part.
        short_root_ms: f64,
        /// Constant of the line.
        long_constant_ms: f64,
        /// Milliseconds per cylinder of the line.
        long_linear_ms: f64,
    },
}

/// The order of tracks in address order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// Heads 0, 1, 2... on every cylinder.
    #[default]
    Ascending,
    /// The order of heads is reversed on odd cylinders, counted from the zone's start.
    ZoneSerpentine,
    /// The order of heads is reversed on odd cylinders, counted from the disk's start.
    DiskSerpentine,
}

/// The region that a zone's spare sectors belong to. Inside such a region, slipped sectors move
/// later sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "per", content = "cylinders")]
pub enum SpareRule {
    /// The whole zone.
    #[default]
    Zone,
    /// Each track.
    Track,
    /// Each group of this many cylinders.
    Cylinders(u32),
}

/// The layout of sectors on the platters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Number of recording surfaces.
    pub heads: u32,
    /// The order of tracks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mapping: Mapping,
    /// Zones in address order, the outermost first.
    #[serde(rename = "zone", default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneSpec>,
    /// A tree of runs of tracks, used instead of zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeSpec>,
}

/// A layout as a tree of runs of tracks (DiskSim's "G4"), for surfaces in any order and repeating
/// patterns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSpec {
    /// Kinds of tracks: first and last sector used, and sectors per track.
    pub tracks: Vec<[u64; 3]>,
    /// Nodes; the last is the root.
    pub nodes: Vec<Vec<TreeEntry>>,
    /// Slipped sectors: address in the tree, and number of sectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<(u64, u64)>,
    /// Remapped addresses: first address, number, cylinder, head, sector, and sectors on that
    /// track.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<[u64; 6]>,
}

/// A run of equal tracks or equal nodes inside a node. Addresses, cylinders and angles are relative
/// to the instance of that node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeEntry {
    /// First address.
    pub address: u64,
    /// Cylinder of the first element.
    pub cylinder: i64,
    /// Angle of the first element, in revolutions.
    pub angle: f64,
    /// Number of addresses in each element.
    pub len: u64,
    /// Cylinders from one element to the next.
    pub cylinders: i64,
    /// Revolutions from one element to the next.
    pub angle_step: f64,
    /// Number of addresses in the whole run.
    pub run: u64,
    /// Cylinders of the whole run; negative if the run goes towards cylinder 0.
    pub run_cylinders: i64,
    /// Index of the kind of track; absent for a run of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track: Option<u32>,
    /// Index of the node; absent for a run of tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Head, for a run of tracks.
    #[serde(default)]
    pub head: u32,
}

/// Cylinders with the same number of sectors per track.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors per track.
    pub sectors_per_track: u32,
    /// Angle between the first sectors of neighbouring tracks of a cylinder, in sectors.
    pub track_skew: f64,
    /// Angle between the first sector of a cylinder's last track and the first sector of the next
    /// cylinder, in sectors.
    pub cylinder_skew: f64,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offset: f64,
    /// Number of physical sectors at the zone's start without data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unused_front: u32,
    /// Spare sectors in each region of [`Self::spare_rule`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u64,
    /// The region that the spares belong to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spare_rule: SpareRule,
    /// Skipped physical sectors, counted from the zone's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Physical tracks that are skipped as a whole, counted from the zone's start. Not allowed
    /// together with `slips`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slipped_tracks: Vec<u64>,
    /// Pairs of physical sectors, counted from the zone's start: a bad sector and its replacement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<(u64, u64)>,
}

/// Overheads, interface and buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Time to move one sector over the interface: for a read, and for a write.
    pub bus_sector_ms: [f64; 2],
    /// Overhead before a read that the buffer answers: after a read, and after a write.
    pub read_hit_ms: [f64; 2],
    /// Overhead before the arm starts for any other read: after a read, and after a write.
    pub read_miss_ms: [f64; 2],
    /// Overhead before a write that is acknowledged from the buffer: after a read, and after a
    /// write.
    pub write_hit_ms: [f64; 2],
    /// Overhead before the arm starts for a write that is acknowledged from the platter: after a
    /// read, and after a write.
    pub write_miss_ms: [f64; 2],
    /// Minimum time from a command's arrival until the arm is on its track, even if the arm is
    /// already there: the drive settles again for each command that the buffer cannot answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settle_ms: f64,
    /// Time from the end of the overhead until the interface brings the data, for a write that is
    /// acknowledged from the platter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_data_ms: f64,
    /// Minimum time of the first movement for such a write, even if the arm is already on its
    /// track.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_seek_ms: f64,
    /// Sectors of such a write that must arrive before the first is written (all, if it has fewer):
    /// for a write with fewer than 45 sectors, and for a longer one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_gather_sectors: [u32; 2],
    /// Different values for such a write if it follows a write and does not continue at its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_elsewhere: Option<WriteElsewhereSpec>,
    /// Time to get the interface again after the platter has delivered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reconnect_ms: f64,
    /// Time after the last sector of a read has left.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_end_ms: f64,
    /// Time after a write has ended on the platter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_end_ms: f64,
    /// Fraction of a read's sectors that must be in the buffer before the interface starts; 0 means
    /// one sector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_watermark: f64,
    /// Number of segments in the buffer. Each holds one run of addresses. 0 means no buffer.
    pub segments: u32,
    /// Sectors per segment.
    pub segment_sectors: u32,
    /// Whether one segment is reserved for writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_write_segment: bool,
    /// The extent of read-ahead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead: ReadAhead,
    /// Maximum number of sectors to read ahead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_sectors: u32,
    /// Whether read-ahead may overwrite the request's own sectors in the segment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_over_requested: bool,
    /// Whether a read that the buffer answers completely starts read-ahead again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_on_hit: bool,
    /// Whether read-ahead stops at once for a new command, not at the end of the sector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_stops_in_sector: bool,
    /// The writes that end in the buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_back: WriteBack,
    /// Maximum number of writes that wait in the buffer.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub write_segments: u32,
    /// Whether reads can be answered from written data in the buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads_hit_writes: bool,
}

/// Values for a write that follows a write and does not continue at its end, on a drive that
/// releases the interface before it takes the data of such a write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteElsewhereSpec {
    /// Replaces `write_miss_ms`.
    pub miss_ms: f64,
    /// Replaces `write_data_ms`.
    pub data_ms: f64,
    /// Replaces `write_end_ms`.
    pub end_ms: f64,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires this signature
fn is_one(n: &u32) -> bool {
    *n == 1
}

/// The extent of read-ahead after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// Nothing.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// As much as the segment can hold.
    Segment,
    /// To the end of the track, even if the segment is full. Also to the end of the next track, if
    /// the segment began on an earlier track and has space.
    TrackOrNext,
}

/// The writes that end in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteBack {
    /// None: each write ends on the platter.
    #[default]
    None,
    /// Writes that arrive when no write waits, or that continue at the end of the waiting write.
    OneStream,
    /// All writes, while a segment is free.
    All,
}

/// The media cache and the bands of a shingled disk that is managed by the drive. The cache uses
/// the first sectors of the geometry, before those that a client sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShingledSpec {
    /// Sectors per band; a band is only rewritten as a whole.
    pub band_sectors: u64,
    /// Sectors of the media cache.
    pub cache_sectors: u64,
    /// Maximum number of writes in the media cache.
    pub cache_entries: u32,
    /// A run of consecutive writes of at least this length goes directly to its bands.
    pub sequential_sectors: u64,
    /// The drive cleans after this time without work. Absent: only when the cache is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<f64>,
}

/// Power in each state, in watts. Spinning down needs `standby_w`, `spin_up_s`, and `spin_up_w` or
/// `spin_up_j`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    /// Power while the arm moves. If the arm coasts: power while it accelerates and decelerates.
    pub seek_w: f64,
    /// The part of a seek in which the arm accelerates and decelerates. In the rest of a longer
    /// seek the arm coasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coast_after_ms: Option<f64>,
    /// Power while the arm coasts; given together with `coast_after_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coast_w: Option<f64>,
    /// Power while waiting for the platter, and while transferring if no other value is given.
    pub rotation_transfer_w: f64,
    /// Power while reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_w: Option<f64>,
    /// Power while writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_w: Option<f64>,
    /// Power without requests, with rotating platters.
    pub idle_w: f64,
    /// Power with stopped platters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby_w: Option<f64>,
    /// Time to spin down; absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_down_s: Option<f64>,
    /// Energy of spinning down; absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_down_j: Option<f64>,
    /// Mean power while spinning up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_w: Option<f64>,
    /// Energy of spinning up, instead of the mean power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_j: Option<f64>,
    /// Time from standby to ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_s: Option<f64>,
    /// Lower idle levels that the drive enters by itself, at most four, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_level: Vec<IdleLevelSpec>,
}

/// A lower idle level, below `idle_w`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleLevelSpec {
    /// The drive enters this level after this time without work.
    pub after_s: f64,
    /// Power in this level.
    pub w: f64,
    /// Time that the next command waits.
    pub recovery_ms: f64,
}

/// The source of some of the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The fields with this source, as dotted paths in the file. A path covers all fields below it.
    pub fields: Vec<String>,
    /// The origin of the values.
    pub kind: SourceKind,
    /// A document and its section, or the derivation.
    pub from: String,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Measured on the drive.
    Measured,
    /// Published by the manufacturer or in a paper.
    Published,
    /// Computed or assumed, as described in `from`.
    Derived,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
