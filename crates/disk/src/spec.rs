//! What a disk is: the values of a catalogue entry, with their allowed ranges. Knows no file and no time.

use serde::{Deserialize, Serialize};

use crate::bands::Bands;
use crate::turn::Turn;

/// A disk as its catalogue entry says it is. Times in milliseconds and powers in watts, as data sheets
/// have them; [`crate::Disk::new`] turns them into integers once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
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
    /// To take the interface again once the platter has delivered, or has taken a write.
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
    /// To the end of the track, and of the next where the segment began on an earlier one.
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

/// Power in each state, watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    /// While the arm moves.
    pub seek_w: f64,
    /// While waiting for the platter and transferring.
    pub rotation_transfer_w: f64,
    /// While nothing is asked, platters turning.
    pub idle_w: f64,
    /// Platters at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby_w: Option<f64>,
    /// Mean while spinning up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_w: Option<f64>,
    /// Time from standby to ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_up_s: Option<f64>,
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

/// A value outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}; allowed: {allowed}")]
pub struct RangeError {
    /// Dotted path; `[i]` counts from 0.
    pub field: String,
    /// The value.
    pub found: String,
    /// What would do.
    pub allowed: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn fault<T>(
    field: impl Into<String>,
    found: impl ToString,
    allowed: impl Into<String>,
) -> Result<T, RangeError> {
    Err(RangeError { field: field.into(), found: found.to_string(), allowed: allowed.into() })
}

fn between(field: &str, value: f64, low: f64, high: f64, unit: &str) -> Result<(), RangeError> {
    if value >= low && value <= high {
        Ok(())
    } else {
        fault(field, value, format!("{low} to {high} {unit}"))
    }
}

/// Longest time accepted for one movement, in milliseconds.
const MOVE_MS_MAX: f64 = 2_000.0;
/// Most cylinders accepted.
pub(crate) const CYLINDERS_MAX: u32 = 1 << 22;

impl DiskSpec {
    /// Checks every value against its range, and the zones against each other.
    ///
    /// # Errors
    /// The first value outside its range.
    pub fn validate(&self) -> Result<(), RangeError> {
        if self.name.is_empty() || !self.name.bytes().all(|b| b.is_ascii_graphic()) {
            return fault("name", format!("{:?}", self.name), "printable ASCII without spaces");
        }
        let m = &self.mechanics;
        between("mechanics.rpm", m.rpm, Turn::RPM_MIN, Turn::RPM_MAX, "revolutions a minute")?;
        between("mechanics.head_switch_ms", m.head_switch_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("mechanics.write_settle_ms", m.write_settle_ms, -MOVE_MS_MAX, MOVE_MS_MAX, "ms")?;
        self.validate_seek()?;
        self.validate_power()?;
        self.validate_controller()?;
        self.validate_geometry()
    }

    fn validate_power(&self) -> Result<(), RangeError> {
        let p = &self.power;
        between("power.seek_w", p.seek_w, 0.0, 1_000.0, "W")?;
        between("power.rotation_transfer_w", p.rotation_transfer_w, 0.0, 1_000.0, "W")?;
        between("power.idle_w", p.idle_w, 0.0, 1_000.0, "W")?;
        between("power.standby_w", p.standby_w.unwrap_or(0.0), 0.0, 1_000.0, "W")?;
        between("power.spin_up_w", p.spin_up_w.unwrap_or(0.0), 0.0, 1_000.0, "W")?;
        between("power.spin_up_s", p.spin_up_s.unwrap_or(0.0), 0.0, 600.0, "s")
    }

    fn validate_controller(&self) -> Result<(), RangeError> {
        let Some(c) = &self.controller else { return Ok(()) };
        for (i, ms) in c.bus_sector_ms.into_iter().enumerate() {
            between(&format!("controller.bus_sector_ms[{i}]"), ms, 0.0, 100.0, "ms")?;
        }
        for (field, pair) in [
            ("read_hit_ms", c.read_hit_ms),
            ("read_miss_ms", c.read_miss_ms),
            ("write_hit_ms", c.write_hit_ms),
            ("write_miss_ms", c.write_miss_ms),
        ] {
            for (i, ms) in pair.into_iter().enumerate() {
                between(&format!("controller.{field}[{i}]"), ms, 0.0, MOVE_MS_MAX, "ms")?;
            }
        }
        between("controller.settle_ms", c.settle_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("controller.reconnect_ms", c.reconnect_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("controller.read_end_ms", c.read_end_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("controller.write_end_ms", c.write_end_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("controller.read_watermark", c.read_watermark, 0.0, 1.0, "of the request")?;
        if c.segments > 4_096 {
            return fault("controller.segments", c.segments, "0 to 4096");
        }
        if c.segments > 0 && c.segment_sectors == 0 {
            return fault("controller.segment_sectors", 0, "1 to 4294967295");
        }
        if c.write_segments == 0 || c.write_segments > 4_096 {
            return fault("controller.write_segments", c.write_segments, "1 to 4096");
        }
        Ok(())
    }

    fn validate_seek(&self) -> Result<(), RangeError> {
        let time = |field: &str, ms: f64| between(field, ms, 0.0, MOVE_MS_MAX, "ms");
        match &self.seek {
            SeekSpec::Table { points } => {
                if points.is_empty() || points.len() > CYLINDERS_MAX as usize {
                    return fault("seek.points", points.len(), "1 to 4194304 points");
                }
                for (i, &(d, ms)) in points.iter().enumerate() {
                    let field = format!("seek.points[{i}]");
                    time(&field, ms)?;
                    let after = if i == 0 { 0 } else { points[i - 1].0 };
                    if d <= after || d > CYLINDERS_MAX {
                        let allowed = format!("a distance from {} to {CYLINDERS_MAX}", after + 1);
                        return fault(field, d, allowed);
                    }
                }
                Ok(())
            }
            SeekSpec::ThreePoint { single_ms, average_ms, full_ms } => {
                time("seek.single_ms", *single_ms)?;
                between("seek.average_ms", *average_ms, *single_ms, MOVE_MS_MAX, "ms")?;
                between("seek.full_ms", *full_ms, *average_ms, MOVE_MS_MAX, "ms")
            }
            SeekSpec::SquareRoot { constant_ms, factor_ms } => {
                time("seek.constant_ms", *constant_ms)?;
                between("seek.factor_ms", *factor_ms, 0.0, 100.0, "ms")
            }
            SeekSpec::CubicLinear { cubic, linear, threshold_sectors } => {
                for (i, c) in cubic.iter().enumerate() {
                    between(&format!("seek.cubic[{i}]"), *c, -MOVE_MS_MAX, MOVE_MS_MAX, "ms")?;
                }
                for (i, c) in linear.iter().enumerate() {
                    between(&format!("seek.linear[{i}]"), *c, 0.0, MOVE_MS_MAX, "ms")?;
                }
                between("seek.threshold_sectors", *threshold_sectors, 0.0, 1e15, "sectors")
            }
            SeekSpec::RootLinear {
                first_ms,
                short_constant_ms,
                short_root_ms,
                long_constant_ms,
                long_linear_ms,
                ..
            } => {
                for (i, ms) in first_ms.iter().enumerate() {
                    time(&format!("seek.first_ms[{i}]"), *ms)?;
                }
                for (field, value) in [
                    ("seek.short_constant_ms", short_constant_ms),
                    ("seek.short_root_ms", short_root_ms),
                    ("seek.long_constant_ms", long_constant_ms),
                    ("seek.long_linear_ms", long_linear_ms),
                ] {
                    between(field, *value, -MOVE_MS_MAX, MOVE_MS_MAX, "ms")?;
                }
                Ok(())
            }
        }
    }

    fn validate_geometry(&self) -> Result<(), RangeError> {
        let g = &self.geometry;
        if !(1..=256).contains(&g.heads) {
            return fault("geometry.heads", g.heads, "1 to 256");
        }
        if let Some(tree) = &g.tree {
            if !g.zones.is_empty() || self.capacity_sectors == 0 {
                return fault("geometry.tree", "given", "with no zones and a capacity");
            }
            return Bands::new(tree, g.heads, self.capacity_sectors).map(|_| ());
        }
        if g.zones.is_empty() || g.zones.len() > 4_096 {
            return fault("geometry.zone", g.zones.len(), "1 to 4096 zones");
        }
        let mut next_cylinder = 0u32;
        let mut sectors = 0u64;
        for (i, z) in g.zones.iter().enumerate() {
            sectors += validate_zone(i, z, g.heads, next_cylinder)?;
            next_cylinder = z.first_cylinder + z.cylinders;
        }
        if self.capacity_sectors == 0 || self.capacity_sectors > sectors {
            let allowed = format!("1 to {sectors}, what the zones hold");
            return fault("capacity_sectors", self.capacity_sectors, allowed);
        }
        Ok(())
    }
}

fn validate_slipped_tracks(
    field: &str,
    z: &ZoneSpec,
    tracks: u64,
    whole_zone: bool,
) -> Result<(), RangeError> {
    if !whole_zone || !z.slips.is_empty() {
        return fault(field, "given", "only with spares per zone and without slips");
    }
    for (i, track) in z.slipped_tracks.iter().enumerate() {
        let low = if i == 0 { 0 } else { z.slipped_tracks[i - 1] + 1 };
        if !(low..tracks).contains(track) {
            let allowed = format!("rising, {low} to {}", tracks - 1);
            return fault(format!("{field}[{i}]"), track, allowed);
        }
    }
    let slipped = z.slipped_tracks.len() as u64 * u64::from(z.sectors_per_track);
    if slipped > z.spares {
        return fault(field, slipped, format!("at most {} sectors (its spares)", z.spares));
    }
    Ok(())
}

/// Sectors of data in a zone, or what is wrong with it.
fn validate_zone(
    index: usize,
    z: &ZoneSpec,
    heads: u32,
    next_cylinder: u32,
) -> Result<u64, RangeError> {
    let path = |field: &str| format!("geometry.zone[{index}].{field}");
    if !(next_cylinder..CYLINDERS_MAX).contains(&z.first_cylinder) {
        let allowed = format!("{next_cylinder} (past the zone before) to {}", CYLINDERS_MAX - 1);
        return fault(path("first_cylinder"), z.first_cylinder, allowed);
    }
    if !(1..=CYLINDERS_MAX - z.first_cylinder).contains(&z.cylinders) {
        let allowed = format!("1 to {}", CYLINDERS_MAX - z.first_cylinder);
        return fault(path("cylinders"), z.cylinders, allowed);
    }
    if !(1..=65_536).contains(&z.sectors_per_track) {
        return fault(path("sectors_per_track"), z.sectors_per_track, "1 to 65536");
    }
    let spt = u64::from(z.sectors_per_track);
    for (field, value) in
        [("track_skew", z.track_skew), ("cylinder_skew", z.cylinder_skew), ("offset", z.offset)]
    {
        between(&path(field), value, 0.0, spt as f64, "sectors (one track)")?;
    }
    let cylinder = spt * u64::from(heads);
    let physical = cylinder * u64::from(z.cylinders);
    let region = match z.spare_rule {
        SpareRule::Zone => physical,
        SpareRule::Track => spt,
        SpareRule::Cylinders(n) if n >= 1 && n <= z.cylinders => cylinder * u64::from(n),
        SpareRule::Cylinders(n) => {
            return fault(path("spare_rule"), n, format!("1 to {} cylinders", z.cylinders));
        }
    };
    if z.spares >= region {
        return fault(path("spares"), z.spares, format!("0 to {}", region - 1));
    }
    for (i, slip) in z.slips.iter().enumerate() {
        let field = format!("geometry.zone[{index}].slips[{i}]");
        let low = if i == 0 { 0 } else { z.slips[i - 1] + 1 };
        if !(low..physical).contains(slip) {
            return fault(field, slip, format!("rising, {low} to {}", physical - 1));
        }
    }
    let regions = physical / region;
    if !z.slipped_tracks.is_empty() {
        validate_slipped_tracks(&path("slipped_tracks"), z, physical / spt, region == physical)?;
    }
    let (mut last_region, mut used) = (u64::MAX, 0);
    for (i, slip) in z.slips.iter().enumerate() {
        used = if slip / region == last_region { used + 1 } else { 1 };
        last_region = slip / region;
        if last_region >= regions || used > z.spares {
            let field = format!("geometry.zone[{index}].slips[{i}]");
            let allowed = format!("at most {} slips (its spares) in its region", z.spares);
            return fault(field, slip, allowed);
        }
    }
    for (i, (bad, good)) in z.remaps.iter().enumerate() {
        let field = format!("geometry.zone[{index}].remaps[{i}]");
        let worst = (*bad).max(*good);
        if worst >= physical {
            return fault(field, worst, format!("0 to {}", physical - 1));
        }
    }
    let data = physical - regions * z.spares;
    let lost = u64::from(z.unused_front);
    if lost >= data {
        return fault(path("unused_front"), lost, format!("0 to {}", data - 1));
    }
    Ok(data - lost)
}
