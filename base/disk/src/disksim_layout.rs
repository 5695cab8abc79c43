//! DiskSim's layouts: zones (G1) and track trees (G4).

use crate::disksim_import::{Imported, Page};
use crate::disksim_syntax::Value;
use crate::spec::{GeometrySpec, Mapping, SpareRule, TreeEntry, TreeSpec, ZoneSpec};

/// Parses a G1 layout. Returns its zones and the number of their data sectors.
pub(crate) fn zones(layout: &Page<'_>, heads: u32) -> Imported<(GeometrySpec, u64)> {
    let mapping = match layout.whole("LBN-to-PBN mapping scheme")?.unwrap_or(0u32) {
        0 => Mapping::Ascending,
        1 => Mapping::ZoneSerpentine,
        2 => Mapping::DiskSerpentine,
        n => {
            let what = format!("mapping scheme {n} is not known; expected 0, 1 or 2");
            return Err(layout.error(layout.line("LBN-to-PBN mapping scheme"), what));
        }
    };
    let scheme: u32 = layout.whole("Sparing scheme used")?.unwrap_or(0);
    let range: u32 = layout.whole("Rangesize for sparing")?.unwrap_or(1).max(1);
    let revolutions = layout.words("Skew units").is_some_and(|u| u.0 == "revolutions");
    let Some((Value::List(items), line)) = layout.block.get("Zones") else {
        return Err(layout.error(layout.block.line, "no list 'Zones' in this block"));
    };
    let mut zones = Vec::new();
    let mut data = 0u64;
    for item in items {
        let Value::Block(block) = item else {
            return Err(layout.error(line, "Zones: expected blocks"));
        };
        let page = Page { file: layout.file, block };
        let z = zone(&page, scheme, range, revolutions)?;
        // A number that is too large is refused when the disk is checked.
        let tracks = u64::from(z.cylinders) * u64::from(heads);
        let physical = tracks.saturating_mul(u64::from(z.sectors_per_track));
        let region_cylinders = match z.spare_rule {
            SpareRule::Zone => z.cylinders,
            SpareRule::Track | SpareRule::Cylinders(0) => 1,
            SpareRule::Cylinders(n) => n,
        };
        let per = if z.spare_rule == SpareRule::Track { u64::from(heads) } else { 1 };
        let regions = u64::from(z.cylinders / region_cylinders.max(1)) * per;
        let lost = regions.saturating_mul(z.spares).saturating_add(u64::from(z.unused_front));
        data = data.saturating_add(physical.saturating_sub(lost));
        zones.push(z);
    }
    Ok((GeometrySpec { heads, mapping, zones, tree: None }, data))
}

/// The words of a list, with the words of inner lists in place.
fn flat<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::Words(w) => out.extend(w.split_whitespace()),
        Value::List(items) => items.iter().for_each(|v| flat(v, out)),
        Value::Block(_) => {}
    }
}

/// Parses a G4 layout: kinds of tracks, index nodes, slips and remaps.
pub(crate) fn tree(layout: &Page<'_>, heads: u32, blocks: u64) -> Imported<(GeometrySpec, u64)> {
    let words = |key: &str| {
        let mut out = Vec::new();
        layout.block.get(key).iter().for_each(|e| flat(e.0, &mut out));
        (out, layout.line(key))
    };
    let counts = |key: &str, width: usize| -> Imported<Vec<u64>> {
        let (words, line) = words(key);
        let numbers: Option<Vec<u64>> = words.iter().map(|w| w.parse().ok()).collect();
        numbers.filter(|n| n.len() % width == 0).ok_or_else(|| {
            layout.error(line, format!("{key}: expected counts in groups of {width}"))
        })
    };
    let Some((Value::List(items), line)) = layout.block.get("IDX") else {
        return Err(layout.error(layout.block.line, "no list 'IDX' in this block"));
    };
    let mut nodes = Vec::new();
    for item in items {
        let mut fields = Vec::new();
        flat(item, &mut fields);
        let fits = |width: usize| {
            fields.len() % width == 0
                && fields.chunks(width).all(|e| matches!(e[8], "TRACK" | "IDX"))
        };
        let Some(width) = [11, 10].into_iter().find(|&w| fits(w)) else {
            let what = "IDX: expected entries of 10 or 11 fields, the 9th TRACK or IDX";
            return Err(layout.error(line, what));
        };
        let node: Option<Vec<TreeEntry>> = fields.chunks(width).map(entry).collect();
        nodes.push(node.ok_or_else(|| layout.error(line, "IDX: a field is not a number"))?);
    }
    let groups = |n: Vec<u64>| n.chunks_exact(6).filter_map(|c| c.try_into().ok()).collect();
    let tree = TreeSpec {
        tracks: counts("TP", 3)?.chunks_exact(3).filter_map(|c| c.try_into().ok()).collect(),
        nodes,
        slips: counts("Slips", 2)?.chunks_exact(2).map(|c| (c[0], c[1])).collect(),
        remaps: groups(counts("Remaps", 6)?),
    };
    let mapping = Mapping::Ascending;
    Ok((GeometrySpec { heads, mapping, zones: Vec::new(), tree: Some(tree) }, blocks))
}

/// An entry of an index node. Its fields: address, cylinder, angle, length, cylinders, angle step,
/// run, cylinders of the run, kind of child, child, head.
fn entry(f: &[&str]) -> Option<TreeEntry> {
    let track = f[8] == "TRACK";
    let child = f[9].parse().ok()?;
    Some(TreeEntry {
        address: f[0].parse().ok()?,
        cylinder: f[1].parse().ok()?,
        angle: f[2].parse().ok()?,
        len: f[3].parse().ok()?,
        cylinders: f[4].parse().ok()?,
        angle_step: f[5].parse().ok()?,
        run: f[6].parse().ok()?,
        run_cylinders: f[7].parse().ok()?,
        track: track.then_some(child),
        node: (!track).then_some(child),
        head: match f.get(10) {
            Some(head) if track => head.parse().ok()?,
            _ => 0,
        },
    })
}

fn zone(page: &Page<'_>, scheme: u32, range: u32, revolutions: bool) -> Imported<ZoneSpec> {
    let first: u32 = page.need_whole("First cylinder number")?;
    let last: u32 = page.need_whole("Last cylinder number")?;
    let spt: u32 = page.need_whole("Blocks per track")?;
    if last < first || spt == 0 {
        let what = "a zone needs last cylinder >= first cylinder and at least 1 block per track";
        return Err(page.error(page.block.line, what));
    }
    // If the angle is in sectors, only its whole part counts.
    let angle = |key: &str| -> Imported<f64> {
        let v = page.or_zero(key)?;
        Ok(if revolutions { v.fract() * f64::from(spt) } else { v.trunc() % f64::from(spt) })
    };
    let count: u64 = page.whole("Number of spares")?.unwrap_or(0);
    let mut slips = page.counts("slips")?;
    slips.sort_unstable();
    slips.dedup();
    let number = slips.len() as u64;
    let cylinders = (last - first).saturating_add(1);
    let track = u64::from(spt);
    let (spare_rule, spares) = match scheme {
        0 => (SpareRule::Zone, 0),
        1 => (SpareRule::Zone, count.saturating_mul(track)),
        2 | 4 | 5 | 6 => (SpareRule::Cylinders(1), count),
        3 => (SpareRule::Track, count),
        7 => (SpareRule::Zone, number),
        8 => (SpareRule::Cylinders(range.min(cylinders)), count),
        9 => (SpareRule::Zone, count),
        10 => (SpareRule::Zone, count.saturating_add(number)),
        n => return Err(page.error(page.block.line, format!("sparing scheme {n} is not known"))),
    };
    // With spare tracks, the slips are track numbers.
    let slipped_tracks = if scheme == 1 { std::mem::take(&mut slips) } else { Vec::new() };
    let defects = page.counts("defects")?;
    if defects.len() % 2 != 0 {
        return Err(page.error(page.line("defects"), "defects: expected pairs of sectors"));
    }
    Ok(ZoneSpec {
        first_cylinder: first,
        cylinders,
        sectors_per_track: spt,
        track_skew: angle("Skew for track switch")?,
        cylinder_skew: angle("Skew for cylinder switch")?,
        offset: angle("Offset of first block")?,
        unused_front: page.whole("Empty space at zone front")?.unwrap_or(0),
        spares,
        spare_rule,
        slips,
        slipped_tracks,
        remaps: defects.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
    })
}
