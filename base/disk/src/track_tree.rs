//! Track layouts given as a tree of runs of tracks (serpentine surfaces, nested patterns), expanded
//! into bands.
//!
//! A band is a row of equal tracks under one head, at a fixed distance of one or more cylinders.
//! The module has no notion of time.

use crate::geometry::{PlatterPosition, Run, WIDTH_BITS};
use crate::rotation::REVOLUTION;
use crate::spec::{TreeEntry, TreeSpec};
use crate::spec_check::{CYLINDERS_MAX, Checked, fault};

/// Maximum number of bands, and of node instances, in an expanded tree.
const BANDS_MAX: usize = 1 << 20;

const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct TrackTree {
    bands: Vec<Band>,
    /// Slipped addresses of the tree, each with the distance by which it moves later addresses.
    slips: Vec<Slip>,
    remaps: Vec<Remap>,
    capacity: u64,
}

#[derive(Clone, Copy, Debug)]
struct Band {
    /// First address of the tree, and the address after the last.
    first: u64,
    end: u64,
    cylinder: i64,
    cylinder_step: i64,
    head: u32,
    /// First sector used on each track, number of sectors used on it, and sectors per track.
    low: u64,
    len: u64,
    spt: u64,
    angle: u64,
    angle_step: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slip {
    /// Client addresses from this one on are moved.
    from: u64,
    /// Distance of the move, including all slips before it.
    by: u64,
}

/// Client addresses stored at another position.
#[derive(Clone, Copy, Debug)]
struct Remap {
    first: u64,
    len: u64,
    band: usize,
    track: u64,
    sector: u64,
}

/// Part of a revolution in ticks.
fn ticks(revolutions: f64) -> u64 {
    (revolutions.rem_euclid(1.0) * REVOLUTION as f64).round() as u64 % REVOLUTION
}

/// The position of the node instance that is being expanded.
#[derive(Clone, Copy)]
struct NodeInstance {
    address: u64,
    cylinder: i64,
    angle: u64,
    /// Number of addresses that the instance covers.
    covered: u64,
    /// Number of nodes around the instance.
    depth: usize,
}

impl TrackTree {
    pub(crate) fn new(tree: &TreeSpec, heads: u32, capacity: u64) -> Checked<Self> {
        let mut bands = Vec::new();
        let Some(root) = tree.nodes.len().checked_sub(1) else {
            return fault("geometry.tree.nodes", 0, "1 or more nodes; the last is the root");
        };
        let origin =
            NodeInstance { address: 0, cylinder: 0, angle: 0, covered: u64::MAX, depth: 0 };
        expand(tree, heads, root, origin, &mut 0, &mut bands)?;
        bands.sort_by_key(|b: &Band| b.first);
        let mut this = Self { bands, slips: slips(tree)?, remaps: Vec::new(), capacity };
        for i in 1..this.bands.len() {
            if this.bands[i].first < this.bands[i - 1].end {
                let at = this.bands[i].first;
                return fault("geometry.tree.nodes", at, "runs that do not overlap");
            }
        }
        // Every address that a client can use must be on a track.
        let mut covered = 0;
        for b in &this.bands {
            if b.first > covered {
                break;
            }
            covered = b.end;
        }
        let last = this.slid(capacity - 1);
        if last >= covered {
            let allowed = format!("1 to {}, the size of the tree", this.unslid(covered));
            return fault("capacity_sectors", capacity, allowed);
        }
        this.remaps = this.find_remaps(tree)?;
        Ok(this)
    }

    fn find_remaps(&self, tree: &TreeSpec) -> Checked<Vec<Remap>> {
        let find = |&[first, len, cylinder, head, sector, _]: &[u64; 6]| {
            let place = PlatterPosition {
                zone: 0,
                cylinder: u32::try_from(cylinder).ok()?,
                head: u32::try_from(head).ok()?,
                sector: u32::try_from(sector).ok()?,
            };
            self.bands.iter().enumerate().find_map(|(band, b)| {
                let track = b.track(place)?;
                let end = sector.checked_add(len)?;
                (end <= b.spt).then_some(Remap { first, len, band, track, sector })
            })
        };
        let mut remaps = Vec::new();
        for (i, r) in tree.remaps.iter().enumerate() {
            match find(r) {
                Some(r) => remaps.push(r),
                None => {
                    let field = format!("geometry.tree.remaps[{i}]");
                    return fault(field, format!("{r:?}"), "a place on a track of the tree");
                }
            }
        }
        Ok(remaps)
    }

    /// The tree address of a client address.
    fn slid(&self, lbn: u64) -> u64 {
        let passed = self.slips.partition_point(|s| s.from <= lbn);
        lbn + passed.checked_sub(1).map_or(0, |i| self.slips[i].by)
    }

    /// Number of client addresses below a tree address.
    fn unslid(&self, address: u64) -> u64 {
        let (mut low, mut high) = (0, address);
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.slid(middle) < address { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn band_of(&self, address: u64) -> usize {
        self.bands.partition_point(|b| b.end <= address)
    }

    pub(crate) fn cylinders(&self) -> u32 {
        let last = |b: &Band| {
            let tracks = (b.end - b.first).div_ceil(b.len) as i64;
            b.cylinder.max(b.cylinder + b.cylinder_step * (tracks - 1))
        };
        self.bands.iter().map(last).max().map_or(0, |c| c as u32 + 1)
    }

    /// Address ranges with the same number of sectors per track.
    pub(crate) fn zones(&self) -> Vec<(u64, u64, u32)> {
        let mut zones: Vec<(u64, u64, u32)> = Vec::new();
        for b in &self.bands {
            let (first, end) = (self.unslid(b.first), self.unslid(b.end).min(self.capacity));
            match zones.last_mut() {
                _ if first >= end => {}
                Some(z) if u64::from(z.2) == b.spt => z.1 = end - 1,
                _ => zones.push((first, end - 1, b.spt as u32)),
            }
        }
        zones
    }

    pub(crate) fn sectors_per_track(&self, place: PlatterPosition) -> u32 {
        self.bands.get(place.zone as usize).map_or(0, |b| b.spt as u32)
    }

    pub(crate) fn address(&self, place: PlatterPosition) -> Option<u64> {
        let band = place.zone as usize;
        let b = self.bands.get(band)?;
        let (track, sector) = (b.track(place)?, u64::from(place.sector));
        for r in &self.remaps {
            if r.band == band && r.track == track && (r.sector..r.sector + r.len).contains(&sector)
            {
                return Some(r.first + sector - r.sector);
            }
        }
        let used = sector.checked_sub(b.low).filter(|&s| s < b.len)?;
        let lbn = self.unslid(b.first + track * b.len + used);
        (lbn < self.capacity && self.run(lbn, 1).place == place).then_some(lbn)
    }

    pub(crate) fn track_start(&self, lbn: u64) -> u64 {
        let address = self.slid(lbn);
        let b = &self.bands[self.band_of(address)];
        self.unslid(b.first + (address - b.first) / b.len * b.len)
    }

    pub(crate) fn run(&self, lbn: u64, len: u64) -> Run {
        let len = len.min(self.capacity - lbn);
        let inside = |r: &&Remap| (r.first..r.first + r.len).contains(&lbn);
        if let Some(r) = self.remaps.iter().find(inside) {
            let done = lbn - r.first;
            return self.bands[r.band].run(
                r.band,
                r.track,
                r.sector + done,
                len.min(r.len - done),
                0,
            );
        }
        let ahead = |r: &Remap| (r.first > lbn).then(|| r.first - lbn);
        let len = self.remaps.iter().filter_map(ahead).fold(len, u64::min);
        let address = self.slid(lbn);
        let i = self.band_of(address);
        let b = &self.bands[i];
        let track = (address - b.first) / b.len;
        let track_end = (b.first + (track + 1) * b.len).min(b.end);
        let len = if len == 1 || (len <= track_end - address && self.slips.is_empty()) {
            len
        } else {
            len.min(self.unslid(track_end) - lbn)
        };
        let skipped = self.slid(lbn + len - 1) - address - (len - 1);
        b.run(i, track, b.low + address - b.first - track * b.len, len, skipped)
    }
}

impl Band {
    /// The band's track that contains a position.
    fn track(&self, place: PlatterPosition) -> Option<u64> {
        let away = i64::from(place.cylinder) - self.cylinder;
        let step = self.cylinder_step;
        let track = if step == 0 { 0 } else { away / step };
        let on = place.head == self.head
            && track >= 0
            && away == track * step
            && self.first + track as u64 * self.len < self.end
            && u64::from(place.sector) < self.spt;
        on.then_some(track as u64)
    }

    /// `len` sectors of data from `sector` on, with `skipped` slipped sectors between them.
    fn run(&self, index: usize, track: u64, sector: u64, len: u64, skipped: u64) -> Run {
        let width = (u128::from(REVOLUTION) << WIDTH_BITS) / u128::from(self.spt);
        let edge = |n: u64| ((u128::from(n) * width) >> WIDTH_BITS) as u64;
        let around = u128::from(track) * u128::from(self.angle_step) % u128::from(REVOLUTION);
        Run {
            place: PlatterPosition {
                zone: index as u32,
                cylinder: (self.cylinder + track as i64 * self.cylinder_step) as u32,
                head: self.head,
                sector: sector as u32,
            },
            angle: (self.angle + around as u64 + edge(sector)) % REVOLUTION,
            sweep: edge(sector + len + skipped) - edge(sector),
            len,
        }
    }
}

/// The slips of a tree: addresses rise, and each slip moves at least as far as the slips before it.
fn slips(tree: &TreeSpec) -> Checked<Vec<Slip>> {
    let mut out: Vec<Slip> = Vec::new();
    let mut by = 0u64;
    for (i, &(at, count)) in tree.slips.iter().enumerate() {
        let from = at.checked_sub(by);
        match from.filter(|&f| out.last().is_none_or(|s| s.from <= f) && count < 1 << 40) {
            Some(from) if count > 0 => {
                by += count;
                out.push(Slip { from, by });
            }
            Some(_) => {}
            None => {
                let field = format!("geometry.tree.slips[{i}]");
                return fault(field, at, "addresses that rise past what was slipped before");
            }
        }
    }
    Ok(out)
}

/// Adds the bands of one node instance, and of all instances below it, to `bands`.
fn expand(
    tree: &TreeSpec,
    heads: u32,
    node: usize,
    origin: NodeInstance,
    instances: &mut usize,
    bands: &mut Vec<Band>,
) -> Checked {
    if origin.depth == DEPTH_MAX {
        let field = format!("geometry.tree.nodes[{node}]");
        return fault(field, "nested too deep", "at most 64 nodes inside each other");
    }
    *instances += 1;
    if *instances > BANDS_MAX {
        return fault("geometry.tree", *instances, "at most 1048576 node instances");
    }
    for (i, e) in tree.nodes[node].iter().enumerate() {
        let path = |field: &str| format!("geometry.tree.nodes[{node}][{i}].{field}");
        check(e, &path)?;
        if e.address >= origin.covered {
            continue;
        }
        let run = RunPosition::new(e, &origin, &path)?;
        if let (Some(track), None) = (e.track, e.node) {
            let [low, spt] = track_of(tree, heads, e, track, &path)?;
            bands.push(Band {
                first: run.address,
                end: run.address + run.len,
                cylinder: run.cylinder,
                cylinder_step: run.cylinder_step,
                head: e.head,
                low,
                len: e.len,
                spt,
                angle: run.angle,
                angle_step: run.angle_step,
            });
        } else if let (None, Some(child)) = (e.track, e.node) {
            let child = child as usize;
            // Children come before their parents, so no node can contain itself.
            if child >= node {
                return fault(path("node"), child, "the index of an earlier node");
            }
            for k in 0..run.len.div_ceil(e.len) {
                let origin = run.instance(k, e.len, origin.depth + 1);
                expand(tree, heads, child, origin, instances, bands)?;
            }
        } else {
            return fault(path("track"), "neither or both of track and node", "one of the two");
        }
        if bands.len() > BANDS_MAX {
            return fault("geometry.tree", bands.len(), "at most 1048576 bands");
        }
    }
    Ok(())
}

/// The position of an entry's run in its node instance.
struct RunPosition {
    address: u64,
    /// Number of addresses.
    len: u64,
    cylinder: i64,
    cylinder_step: i64,
    angle: u64,
    angle_step: u64,
}

impl RunPosition {
    fn new(e: &TreeEntry, origin: &NodeInstance, path: &dyn Fn(&str) -> String) -> Checked<Self> {
        let len = e.run.min(origin.covered - e.address);
        let down = if e.run_cylinders < 0 { -1 } else { 1 };
        let (cylinder, cylinder_step) = (origin.cylinder + e.cylinder, down * e.cylinders);
        let far = cylinder + cylinder_step * (len.div_ceil(e.len) as i64 - 1);
        if cylinder.min(far) < 0 || cylinder.max(far) >= i64::from(CYLINDERS_MAX) {
            return fault(path("cylinder"), cylinder.min(far), "cylinders from 0 to 4194303");
        }
        Ok(Self {
            address: origin.address + e.address,
            len,
            cylinder,
            cylinder_step,
            angle: (origin.angle + ticks(e.angle)) % REVOLUTION,
            angle_step: ticks(e.angle_step),
        })
    }

    fn instance(&self, k: u64, len: u64, depth: usize) -> NodeInstance {
        let turned = u128::from(k) * u128::from(self.angle_step) % u128::from(REVOLUTION);
        NodeInstance {
            address: self.address + k * len,
            cylinder: self.cylinder + self.cylinder_step * k as i64,
            angle: (self.angle + turned as u64) % REVOLUTION,
            covered: len.min(self.len - k * len),
            depth,
        }
    }
}

/// Finds the track kind of a run of tracks and checks the run against it. Returns the first sector
/// used on the track, and its number of sectors.
fn track_of(
    tree: &TreeSpec,
    heads: u32,
    e: &TreeEntry,
    track: u32,
    path: &dyn Fn(&str) -> String,
) -> Checked<[u64; 2]> {
    let Some(&[low, high, spt]) = tree.tracks.get(track as usize) else {
        return fault(path("track"), track, "an index into geometry.tree.tracks");
    };
    if !(low <= high && high < spt && spt <= 65_536 && e.len <= high - low + 1) {
        let found = format!("{} sectors of [{low}, {high}, {spt}]", e.len);
        return fault(path("len"), found, "at most high - low + 1, high < sectors <= 65536");
    }
    if e.head >= heads {
        return fault(path("head"), e.head, "below geometry.heads");
    }
    Ok([low, spt])
}

/// Checks the bounds of an entry's numbers, so that no later sum overflows.
fn check(e: &TreeEntry, path: &dyn Fn(&str) -> String) -> Checked {
    if !(1..1 << 50).contains(&e.len) || !(1..1 << 50).contains(&e.run) || e.address >= 1 << 50 {
        return fault(path("len"), format!("{} of {}", e.len, e.run), "1 to 2^50");
    }
    if e.run.div_ceil(e.len) > u64::from(CYLINDERS_MAX) {
        return fault(path("run"), e.run, "at most 4194304 times len");
    }
    let near = |c: i64| c.unsigned_abs() <= u64::from(CYLINDERS_MAX);
    if !near(e.cylinder) || !near(e.cylinders) || !near(e.run_cylinders) {
        return fault(path("cylinder"), e.cylinder, "within 4194304");
    }
    if !e.angle.is_finite() || !e.angle_step.is_finite() {
        return fault(path("angle"), e.angle, "a finite number of revolutions");
    }
    Ok(())
}
