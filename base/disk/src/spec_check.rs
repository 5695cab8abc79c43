//! Checks that the values of a specification are in their allowed ranges. An error names the field;
//! [`crate::spec_text`] adds file and line.

use crate::device::Kind;
use crate::energy::IDLE_LEVELS_MAX;
use crate::rotation::Spindle;
use crate::spec::{DiskSpec, SeekSpec, SpareRule, ZoneSpec};
use crate::track_tree::TrackTree;

/// A value outside its allowed range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}; allowed: {allowed}")]
pub struct RangeError {
    /// Dotted path of the field; `[i]` counts from 0.
    pub field: String,
    /// The value found.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

/// The result of a check.
pub(crate) type Checked<T = ()> = Result<T, RangeError>;

pub(crate) fn fault<T>(
    field: impl Into<String>,
    found: impl ToString,
    allowed: impl Into<String>,
) -> Checked<T> {
    Err(RangeError { field: field.into(), found: found.to_string(), allowed: allowed.into() })
}

pub(crate) fn between(field: &str, value: f64, low: f64, high: f64, unit: &str) -> Checked {
    if value >= low && value <= high {
        Ok(())
    } else {
        fault(field, value, format!("{low} to {high} {unit}"))
    }
}

pub(crate) fn whole(field: &str, value: impl Into<u64>, low: u64, high: u64) -> Checked {
    let value = value.into();
    if (low..=high).contains(&value) {
        return Ok(());
    }
    fault(field, value, format!("{low} to {high}"))
}

/// A name that can be used on a command line.
pub(crate) fn named(name: &str) -> Checked {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
        return fault("name", format!("{name:?}"), "printable ASCII without spaces");
    }
    Ok(())
}

/// Maximum capacity in sectors: 562 TB. At 4 ms per sector over the interface, the longest request
/// takes 2^62 ns.
pub(crate) const CAPACITY_MAX: u64 = 1 << 40;
pub(crate) const MOVE_MS_MAX: f64 = 2_000.0;
const WATTS_MAX: f64 = 1_000.0;
pub(crate) const CYLINDERS_MAX: u32 = 1 << 22;

impl DiskSpec {
    /// Checks every value against its range, and the zones against each other.
    pub fn validate(&self) -> Result<(), RangeError> {
        if !self.kind.is_mechanical() {
            return fault("kind", self.kind, "disk, dual_actuator or shingled here");
        }
        named(&self.name)?;
        whole("capacity_sectors", self.capacity_sectors, 1, CAPACITY_MAX)?;
        let m = &self.mechanics;
        let (low, high) = (Spindle::RPM_MIN, Spindle::RPM_MAX);
        between("mechanics.rpm", m.rpm, low, high, "revolutions a minute")?;
        between("mechanics.head_switch_ms", m.head_switch_ms, 0.0, MOVE_MS_MAX, "ms")?;
        between("mechanics.write_settle_ms", m.write_settle_ms, -MOVE_MS_MAX, MOVE_MS_MAX, "ms")?;
        self.validate_seek()?;
        self.validate_power()?;
        self.validate_controller()?;
        self.validate_shingled()?;
        self.validate_geometry()?;
        match self.half() {
            None => Ok(()),
            Some(half) => self.validate_halves(&half),
        }
    }

    fn validate_halves(&self, half: &Self) -> Checked {
        let heads = u64::from(self.geometry.heads);
        for (field, n) in [("geometry.heads", heads), ("capacity_sectors", self.capacity_sectors)] {
            if !n.is_multiple_of(2) {
                return fault(field, n, "an even number: each actuator has half of them");
            }
        }
        if let Some(w) = self.power.standby_w {
            let allowed = "absent: two actuators are not modelled with their platters at rest";
            return fault("power.standby_w", w, allowed);
        }
        half.validate()
    }

    fn validate_shingled(&self) -> Checked {
        let Some(s) = &self.shingled else {
            return match self.kind {
                Kind::Shingled => fault("shingled", "missing", "a table: bands and media cache"),
                _ => Ok(()),
            };
        };
        if self.kind != Kind::Shingled {
            return fault("kind", self.kind, "shingled, where a table [shingled] is given");
        }
        whole("shingled.band_sectors", s.band_sectors, 1, 1 << 24)?;
        whole("shingled.cache_sectors", s.cache_sectors, s.band_sectors, CAPACITY_MAX)?;
        whole("shingled.cache_entries", s.cache_entries, 1, 1 << 20)?;
        whole("shingled.sequential_sectors", s.sequential_sectors, 1, CAPACITY_MAX)?;
        between("shingled.idle_ms", s.idle_ms.unwrap_or(0.0), 0.0, 3_600_000.0, "ms")?;
        if self.controller.is_some() {
            return fault("controller", "given", "absent: not modelled together with [shingled]");
        }
        if matches!(self.seek, SeekSpec::CubicLinear { .. }) {
            return fault("seek.kind", "cubic_linear", "a curve over cylinders, with [shingled]");
        }
        if let Some(w) = self.power.standby_w {
            let allowed = "absent: cleaning is not modelled with the platters at rest";
            return fault("power.standby_w", w, allowed);
        }
        Ok(())
    }

    fn validate_power(&self) -> Checked {
        let p = &self.power;
        let watts = |field: &str, w: f64| between(field, w, 0.0, WATTS_MAX, "W");
        for (field, w) in [
            ("seek_w", Some(p.seek_w)),
            ("rotation_transfer_w", Some(p.rotation_transfer_w)),
            ("idle_w", Some(p.idle_w)),
            ("coast_w", p.coast_w),
            ("read_w", p.read_w),
            ("write_w", p.write_w),
            ("standby_w", p.standby_w),
            ("spin_up_w", p.spin_up_w),
        ] {
            watts(&format!("power.{field}"), w.unwrap_or(0.0))?;
        }
        for (field, s) in [("spin_down_s", p.spin_down_s), ("spin_up_s", p.spin_up_s)] {
            between(&format!("power.{field}"), s.unwrap_or(0.0), 0.0, 600.0, "s")?;
        }
        for (field, j) in [("spin_down_j", p.spin_down_j), ("spin_up_j", p.spin_up_j)] {
            between(&format!("power.{field}"), j.unwrap_or(0.0), 0.0, 100_000.0, "J")?;
        }
        if let (Some(j), Some(_)) = (p.spin_up_j, p.spin_up_w) {
            return fault("power.spin_up_j", j, "instead of power.spin_up_w, not with it");
        }
        let coast = p.coast_after_ms.unwrap_or(0.0);
        between("power.coast_after_ms", coast, 0.0, MOVE_MS_MAX, "ms")?;
        match (p.coast_after_ms, p.coast_w) {
            (Some(ms), None) => {
                return fault("power.coast_after_ms", ms, "given with power.coast_w");
            }
            (None, Some(w)) => return fault("power.coast_w", w, "given with power.coast_after_ms"),
            _ => {}
        }
        if p.idle_level.len() > IDLE_LEVELS_MAX {
            let allowed = format!("at most {IDLE_LEVELS_MAX} levels");
            return fault("power.idle_level", p.idle_level.len(), allowed);
        }
        let (mut after, mut power) = (0.0, p.idle_w);
        for (i, level) in p.idle_level.iter().enumerate() {
            let path = |field: &str| format!("power.idle_level[{i}].{field}");
            between(&path("after_s"), level.after_s, after, 86_400.0, "s, rising")?;
            between(&path("w"), level.w, 0.0, power, "W, falling")?;
            between(&path("recovery_ms"), level.recovery_ms, 0.0, 60_000.0, "ms")?;
            (after, power) = (level.after_s, level.w);
        }
        Ok(())
    }

    fn validate_controller(&self) -> Checked {
        let Some(c) = &self.controller else { return Ok(()) };
        for (i, ms) in c.bus_sector_ms.into_iter().enumerate() {
            between(&format!("controller.bus_sector_ms[{i}]"), ms, 0.0, 4.0, "ms")?;
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
        for (field, ms) in [
            ("settle_ms", c.settle_ms),
            ("write_data_ms", c.write_data_ms),
            ("write_seek_ms", c.write_seek_ms),
            ("reconnect_ms", c.reconnect_ms),
            ("read_end_ms", c.read_end_ms),
            ("write_end_ms", c.write_end_ms),
        ] {
            between(&format!("controller.{field}"), ms, 0.0, MOVE_MS_MAX, "ms")?;
        }
        if let Some(w) = &c.write_elsewhere {
            for (field, ms) in [("miss", w.miss_ms), ("data", w.data_ms), ("end", w.end_ms)] {
                let field = format!("controller.write_elsewhere.{field}_ms");
                between(&field, ms, 0.0, MOVE_MS_MAX, "ms")?;
            }
        }
        between("controller.read_watermark", c.read_watermark, 0.0, 1.0, "of the request")?;
        whole("controller.segments", c.segments, 0, 4_096)?;
        if c.segments > 0 {
            whole("controller.segment_sectors", c.segment_sectors, 1, u32::MAX.into())?;
        }
        whole("controller.write_segments", c.write_segments, 1, 4_096)
    }

    fn validate_seek(&self) -> Checked {
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

    fn validate_geometry(&self) -> Checked {
        let g = &self.geometry;
        whole("geometry.heads", g.heads, 1, 256)?;
        if let Some(tree) = &g.tree {
            if !g.zones.is_empty() {
                return fault("geometry.tree", "given", "with no zones");
            }
            return TrackTree::new(tree, g.heads, self.disk_sectors()).map(|_| ());
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
        if self.disk_sectors() > sectors {
            let allowed = match &self.shingled {
                None => format!("1 to {sectors}, the size of the zones"),
                Some(s) => format!(
                    "the size of the zones, {sectors}, less {} of the media cache",
                    s.cache_sectors
                ),
            };
            return fault("capacity_sectors", self.capacity_sectors, allowed);
        }
        Ok(())
    }
}

fn validate_slipped_tracks(field: &str, z: &ZoneSpec, tracks: u64, whole_zone: bool) -> Checked {
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

/// Checks a zone. Returns the number of its data sectors.
fn validate_zone(index: usize, z: &ZoneSpec, heads: u32, next_cylinder: u32) -> Checked<u64> {
    let path = |field: &str| format!("geometry.zone[{index}].{field}");
    if !(next_cylinder..CYLINDERS_MAX).contains(&z.first_cylinder) {
        let allowed = format!("{next_cylinder} (past the zone before) to {}", CYLINDERS_MAX - 1);
        return fault(path("first_cylinder"), z.first_cylinder, allowed);
    }
    whole(&path("cylinders"), z.cylinders, 1, u64::from(CYLINDERS_MAX - z.first_cylinder))?;
    whole(&path("sectors_per_track"), z.sectors_per_track, 1, 65_536)?;
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
    whole(&path("spares"), z.spares, 0, region - 1)?;
    validate_defects(index, z, physical, region)?;
    let regions = physical / region;
    let data = physical - regions * z.spares;
    let lost = u64::from(z.unused_front);
    whole(&path("unused_front"), lost, 0, data - 1)?;
    Ok(data - lost)
}

/// Checks the slips and remaps of a zone with `physical` sectors, and with `region` sectors in each
/// spare region.
fn validate_defects(index: usize, z: &ZoneSpec, physical: u64, region: u64) -> Checked {
    for (i, slip) in z.slips.iter().enumerate() {
        let field = format!("geometry.zone[{index}].slips[{i}]");
        let low = if i == 0 { 0 } else { z.slips[i - 1] + 1 };
        if !(low..physical).contains(slip) {
            return fault(field, slip, format!("rising, {low} to {}", physical - 1));
        }
    }
    let regions = physical / region;
    if !z.slipped_tracks.is_empty() {
        let field = format!("geometry.zone[{index}].slipped_tracks");
        validate_slipped_tracks(
            &field,
            z,
            physical / u64::from(z.sectors_per_track),
            region == physical,
        )?;
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
        whole(&field, *bad.max(good), 0, physical - 1)?;
    }
    Ok(())
}
