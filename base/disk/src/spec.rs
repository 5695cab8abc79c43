//! What a disk is: the values of a catalogue entry. Knows no file, no time, and no range: those are [`crate::check`]'s.

use serde::{Deserialize, Serialize};

use crate::device::Kind;

/// A disk as its catalogue entry says it is. Times in milliseconds and powers in watts, as data sheets
/// have them; [`crate::Disk::new`] turns them into integers once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// One of those with a mechanism.
    #[serde(default)]
    pub kind: Kind,
    /// Short name, as given on the command line.
    pub name: String,
    /// Maker and model.
    pub title: String,
    /// Sectors of 512 bytes that a client sees.
    pub capacity_sectors: u64,
    /// Rotation, head switch, settle.
    pub mechanics: MechanicsSpec,
    /// How long the arm takes.
    pub seek: SeekSpec,
    /// Where sectors lie.
    pub geometry: GeometrySpec,
    /// Power in each state.
    pub power: PowerSpec,
    /// Overheads, interface and buffer; absent where only the mechanism counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerSpec>,
    /// The media cache and the bands of a shingled disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shingled: Option<ShingledSpec>,
    /// Where each value comes from.
    #[serde(default, rename = "source")]
    pub sources: Vec<Source>,
}

/// Rotation, head switch, settle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsSpec {
    /// Revolutions a minute, to a hundredth.
    pub rpm: f64,
    /// Time to change to another head of the same cylinder.
    pub head_switch_ms: f64,
    /// Added to every positioning of a write that moves the arm or changes the head; may be negative.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_settle_ms: f64,
    /// Which requests are served from the first of their sectors that comes by, not from their first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero_latency: ZeroLatency,
}

/// Which requests are served from the first of their sectors that comes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroLatency {
    /// None: each waits for its first sector.
    #[default]
    None,
    /// Reads. A read that the buffer does not answer buffers its whole track.
    Reads,
    /// Reads, as above, and writes.
    All,
}

/// A seek curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekSpec {
    /// Measured times at cylinder distances, straight lines between them, extended at both ends (from
    /// 0 ms at distance 0, and along the last line).
    Table {
        /// Pairs of cylinders and milliseconds; distances rise.
        points: Vec<(u32, f64)>,
    },
    /// `a + b sqrt(d - 1) + c (d - 1)` through three published times (Lee and Katz's equation): one
    /// cylinder, the mean over random pairs of cylinders, and all cylinders.
    ThreePoint {
        /// One cylinder.
        single_ms: f64,
        /// Mean over random pairs.
        average_ms: f64,
        /// From the first to the last cylinder.
        full_ms: f64,
    },
    /// `constant + factor sqrt(d)` (Staelin and Garcia-Molina, equation 14: 5 and 0.5).
    SquareRoot {
        /// Milliseconds of the shortest seek, without the root.
        constant_ms: f64,
        /// Milliseconds per root of a cylinder.
        factor_ms: f64,
    },
    /// FS2 4.2: a cubic for short and a line for long distances, over *logical* distance in sectors.
    CubicLinear {
        /// Coefficients of x^3, x^2, x and 1 below the threshold, in milliseconds.
        cubic: [f64; 4],
        /// Coefficients of x and 1 from the threshold on.
        linear: [f64; 2],
        /// Sectors at which the line takes over.
        threshold_sectors: f64,
    },
    /// `short_constant + short_root sqrt(d)` below the threshold, a line from there on; optional times for the first
    /// distances (the "HPL" equation of the disk simulation literature).
    RootLinear {
        /// Times for distances 1, 2, 3...; may be empty.
        #[serde(default)]
        first_ms: Vec<f64>,
        /// Cylinders at which the line takes over.
        threshold: u32,
        /// Constant of the root part.
        short_constant_ms: f64,
        /// Factor of the root part.
        short_root_ms: f64,
        /// Constant of the line.
        long_constant_ms: f64,
        /// Milliseconds a cylinder of the line.
        long_linear_ms: f64,
    },
}

/// How tracks follow each other in address order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// Heads 0, 1, 2... on every cylinder.
    #[default]
    Ascending,
    /// Head order reversed on odd cylinders, counted from the zone's start.
    ZoneSerpentine,
    /// Head order reversed on odd cylinders, counted from the disk's start.
    DiskSerpentine,
}

/// What a zone's spare sectors belong to: within each such region slipped sectors push later ones on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "per", content = "cylinders")]
pub enum SpareRule {
    /// The whole zone.
    #[default]
    Zone,
    /// Each track.
    Track,
    /// Each run of this many cylinders.
    Cylinders(u32),
}

/// Where sectors lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Recording surfaces.
    pub heads: u32,
    /// How tracks follow each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mapping: Mapping,
    /// Zones from the outermost on, in address order.
    #[serde(rename = "zone", default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneSpec>,
    /// Instead of zones: a tree of runs of tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeSpec>,
}

/// A layout as a tree of runs of tracks (DiskSim's "G4"): surfaces used in any order, patterns that repeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSpec {
    /// Kinds of tracks: first and last sector used, sectors on the track.
    pub tracks: Vec<[u64; 3]>,
    /// Nodes; the last is the root.
    pub nodes: Vec<Vec<TreeEntry>>,
    /// Slipped sectors: address in the tree, and how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<(u64, u64)>,
    /// Addresses that lie elsewhere: first, how many, cylinder, head, sector, sectors on that track.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<[u64; 6]>,
}

/// A run of equal things, tracks or nodes, within a node; addresses, cylinders and angles count from those of
/// the node's instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeEntry {
    /// First address.
    pub address: u64,
    /// Cylinder of the first.
    pub cylinder: i64,
    /// Angle of the first, in revolutions.
    pub angle: f64,
    /// Addresses of each.
    pub len: u64,
    /// Cylinders from one to the next.
    pub cylinders: i64,
    /// Revolutions from one to the next.
    pub angle_step: f64,
    /// Addresses of all together.
    pub run: u64,
    /// Cylinders of all together; negative where they go towards cylinder 0.
    pub run_cylinders: i64,
    /// Index of the kind of track.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track: Option<u32>,
    /// Or index of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Head, for tracks.
    #[serde(default)]
    pub head: u32,
}

/// Cylinders with equally many sectors on each track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors on a track.
    pub sectors_per_track: u32,
    /// Angle between the first sectors of neighbouring tracks of a cylinder, in sectors.
    pub track_skew: f64,
    /// Angle between the first sector of a cylinder's last track and that of the next cylinder, in sectors.
    pub cylinder_skew: f64,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offset: f64,
    /// Physical sectors at the zone's front that hold no data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unused_front: u32,
    /// Spare sectors in each region of [`Self::spare_rule`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u64,
    /// What the spares belong to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spare_rule: SpareRule,
    /// Physical sectors (counted from the zone's start) that are skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Physical tracks (counted from the zone's start) that are skipped whole; not together with `slips`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slipped_tracks: Vec<u64>,
    /// Pairs of physical sectors (counted from the zone's start): a bad one and the one used instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<(u64, u64)>,
}

/// Overheads, interface and buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Time to move one sector over the interface: of a read, and of a write.
    pub bus_sector_ms: [f64; 2],
    /// Before a read whose sectors the buffer holds: after a read, and after a write.
    pub read_hit_ms: [f64; 2],
    /// Before the arm starts for any other read: after a read, and after a write.
    pub read_miss_ms: [f64; 2],
    /// Before a write that is answered from the buffer: after a read, and after a write.
    pub write_hit_ms: [f64; 2],
    /// Before the arm starts for a write that is answered from the platter: after a read, and after a write.
    pub write_miss_ms: [f64; 2],
    /// Least time from a command's arrival until the arm can be on its track, even on the one it stands on: the
    /// drive settles anew for each command that the buffer does not answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settle_ms: f64,
    /// From the end of its overhead until the interface brings the data of a write that is answered from the platter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_data_ms: f64,
    /// Least time the first movement of such a write takes, even where the arm stands on its track.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_seek_ms: f64,
    /// Sectors of such a write that must have come before the first is written (all, where it has fewer): of one of
    /// fewer than 45 sectors, and of a longer one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_gather_sectors: [u32; 2],
    /// What differs for such a write where it follows a write and does not go on where that ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_elsewhere: Option<WriteElsewhereSpec>,
    /// To take the interface again once the platter has delivered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reconnect_ms: f64,
    /// After the last sector of a read has left.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_end_ms: f64,
    /// After a write has ended on the platter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_end_ms: f64,
    /// Share of a read's sectors that must be in the buffer before the interface starts; 0 is one sector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_watermark: f64,
    /// Segments of the buffer; each holds one run of addresses. 0 buffers nothing.
    pub segments: u32,
    /// Sectors a segment holds.
    pub segment_sectors: u32,
    /// One segment serves writes alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_write_segment: bool,
    /// What is read on after a read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead: ReadAhead,
    /// Most sectors read on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_sectors: u32,
    /// Reading on may push the request's own sectors out of the segment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_over_requested: bool,
    /// A read found whole in the buffer starts reading on again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_on_hit: bool,
    /// Reading on stops at once for a new command, not at the end of the sector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_stops_in_sector: bool,
    /// Which writes end in the buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_back: WriteBack,
    /// Writes waiting in the buffer at once.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub write_segments: u32,
    /// Reads may be answered from what was written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads_hit_writes: bool,
}

/// A write that follows a write and does not go on where that ended, on a drive that lets go of the interface before it
/// takes the data of such a write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteElsewhereSpec {
    /// In place of `write_miss_ms`.
    pub miss_ms: f64,
    /// In place of `write_data_ms`.
    pub data_ms: f64,
    /// In place of `write_end_ms`.
    pub end_ms: f64,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_one(n: &u32) -> bool {
    *n == 1
}

/// What is read on after a read.
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
    /// As much as the segment takes.
    Segment,
    /// To the end of the track whatever the segment holds, and of the next where the segment began on an earlier one and
    /// has room.
    TrackOrNext,
}

/// Which writes end in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteBack {
    /// None: each ends on the platter.
    #[default]
    None,
    /// Those that find nothing waiting, or go on where the waiting one ends.
    OneStream,
    /// All, as long as there is a segment.
    All,
}

/// The media cache and the bands of a drive-managed shingled disk. The cache takes the first sectors of the geometry,
/// before those that a client sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShingledSpec {
    /// Sectors that are only rewritten together.
    pub band_sectors: u64,
    /// Sectors of the media cache.
    pub cache_sectors: u64,
    /// Writes that the media cache holds at the most.
    pub cache_entries: u32,
    /// A run of consecutive writes goes to its bands directly once it is this long.
    pub sequential_sectors: u64,
    /// Time without work after which the drive cleans; absent: only when the cache is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<f64>,
}

/// Power in each state, watts. What is needed to spin down: `standby_w`, `spin_up_s`, and `spin_up_w` or `spin_up_j`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    /// While the arm moves; where it coasts, while it speeds up and slows down.
    pub seek_w: f64,
    /// How much of a seek's time the arm speeds up and slows down. What is left of longer seeks it coasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coast_after_ms: Option<f64>,
    /// While it coasts; given with `coast_after_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coast_w: Option<f64>,
    /// While waiting for the platter, and transferring where nothing else is given.
    pub rotation_transfer_w: f64,
    /// While reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_w: Option<f64>,
    /// While writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_w: Option<f64>,
    /// While nothing is asked, platters turning.
    pub idle_w: f64,
    /// Platters at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby_w: Option<f64>,
    /// Time to spin down; none is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_down_s: Option<f64>,
    /// Energy of spinning down; none is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_down_j: Option<f64>,
    /// Mean while spinning up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_w: Option<f64>,
    /// Energy of spinning up, instead of the mean power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_j: Option<f64>,
    /// Time from standby to ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_s: Option<f64>,
    /// Lower levels of idling that the drive falls to by itself, at most four, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_level: Vec<IdleLevelSpec>,
}

/// A level of idling below `idle_w`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleLevelSpec {
    /// Time without work after which the drive falls to it.
    pub after_s: f64,
    /// Power in it.
    pub w: f64,
    /// What the next command waits for.
    pub recovery_ms: f64,
}

/// Where some of the values come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Fields spoken of: dotted paths as in the file; a path covers everything under it.
    pub fields: Vec<String>,
    /// How the values came about.
    pub kind: SourceKind,
    /// Document, section, or the derivation.
    pub from: String,
}

/// How a value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Measured on the drive.
    Measured,
    /// Printed by the maker or in a paper.
    Published,
    /// Worked out or assumed, as `from` says.
    Derived,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
