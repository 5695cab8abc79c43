//! Converts addresses to cylinder, head, sector on the track and angle, and back.
//!
//! A zone is a row of tracks. Spare sectors are at the end of each spare region (a track, some
//! cylinders or the zone). A slipped sector moves the later sectors of its region by one. The
//! module has no notion of time.

use seekless_block::{Lba, Sectors};

use crate::rotation::REVOLUTION;
use crate::spec::{GeometrySpec, Mapping, SpareRule, ZoneSpec};
use crate::track_tree::TrackTree;

/// Number of fraction bits in the width of a sector.
pub(crate) const WIDTH_BITS: u32 = 20;

/// A position on the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatterPosition {
    /// Index of the zone.
    pub zone: u32,
    /// Cylinder, 0 outermost.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Physical sector on the track.
    pub sector: u32,
}

/// Consecutive sectors on one track, which one sweep of the head can transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) place: PlatterPosition,
    /// Angle of the first sector's leading edge, in ticks.
    pub(crate) angle: u64,
    /// Ticks from the leading edge of the first sector to the trailing edge of the last.
    pub(crate) sweep: u64,
    /// Number of data sectors covered; at least 1.
    pub(crate) len: u64,
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    zones: Vec<Zone>,
    /// A track tree, used instead of zones.
    bands: Option<TrackTree>,
    heads: u32,
    mapping: Mapping,
    capacity: Sectors,
}

#[derive(Clone, Debug)]
struct Zone {
    first_lbn: u64,
    end_lbn: u64,
    first_cylinder: u32,
    cylinders: u32,
    spt: u64,
    /// Ticks per sector, times 2^`WIDTH_BITS`.
    width: u64,
    track_skew: u64,
    /// Ticks from the first sector of a cylinder to that of the next.
    cylinder_step: u64,
    offset: u64,
    unused_front: u64,
    /// Number of physical sectors and of data sectors in a spare region, and number of such
    /// regions.
    region: u64,
    region_data: u64,
    regions: u64,
    slips: Vec<Slip>,
    remaps: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Slip {
    first: u64,
    count: u64,
    /// Number of sectors skipped in the zone before these.
    before: u64,
}

/// The skipped sectors of a zone, as runs that do not cross the end of a region.
fn slips(z: &ZoneSpec, region: u64) -> Vec<Slip> {
    let spt = u64::from(z.sectors_per_track);
    let singles = z.slips.iter().map(|&s| (s, 1));
    let tracks = z.slipped_tracks.iter().map(|&t| (t * spt, spt));
    let mut out: Vec<Slip> = Vec::new();
    let mut before = 0;
    for (first, count) in singles.chain(tracks) {
        match out.last_mut() {
            Some(s) if s.first + s.count == first && s.first / region == first / region => {
                s.count += count;
            }
            _ => out.push(Slip { first, count, before }),
        }
        before += count;
    }
    out
}

impl Zone {
    fn new(z: &ZoneSpec, heads: u32, first_lbn: u64, capacity: u64) -> Self {
        let spt = u64::from(z.sectors_per_track);
        let cylinder = spt * u64::from(heads);
        let physical = cylinder * u64::from(z.cylinders);
        let region = match z.spare_rule {
            SpareRule::Zone => physical,
            SpareRule::Track => spt,
            SpareRule::Cylinders(n) => cylinder * u64::from(n),
        };
        let regions = physical / region;
        let data = physical - regions * z.spares - u64::from(z.unused_front);
        let ticks = |sectors: f64| (sectors * REVOLUTION as f64 / spt as f64).round() as u64;
        let track_skew = ticks(z.track_skew) % REVOLUTION;
        Self {
            first_lbn,
            end_lbn: (first_lbn + data).min(capacity),
            first_cylinder: z.first_cylinder,
            cylinders: z.cylinders,
            spt,
            width: ((u128::from(REVOLUTION) << WIDTH_BITS) / u128::from(spt)) as u64,
            track_skew,
            cylinder_step: (u64::from(heads - 1) * track_skew + ticks(z.cylinder_skew))
                % REVOLUTION,
            offset: ticks(z.offset) % REVOLUTION,
            unused_front: u64::from(z.unused_front),
            region,
            region_data: region - z.spares,
            regions,
            slips: slips(z, region),
            remaps: z.remaps.clone(),
        }
    }

    /// Ticks from the start of a track to the leading edge of its sector `n`.
    fn edge(&self, n: u64) -> u64 {
        ((u128::from(n) * u128::from(self.width)) >> WIDTH_BITS) as u64
    }

    /// First physical sector of the region with data sector `l`, and the first data sector in that
    /// region.
    fn region_of(&self, l: u64) -> (u64, u64) {
        if self.regions == 1 || self.region_data == self.region {
            return (0, 0);
        }
        let r = (l / self.region_data).min(self.regions);
        (r * self.region, r * self.region_data)
    }

    /// Physical sector of data sector `l`, counted from the zone's start.
    fn physical(&self, l: u64) -> u64 {
        let l = l + self.unused_front;
        let (base, first) = self.region_of(l);
        let plain = base + (l - first);
        if self.slips.is_empty() {
            return plain;
        }
        let from = self.slips.partition_point(|s| s.first < base);
        let slips = &self.slips[from..];
        let Some(origin) = slips.first().map(|s| s.before) else { return plain };
        // A slip moves a sector if the slip begins at or before the sector's position after all
        // earlier slips. This holds for a prefix of the slips, so a binary search finds their
        // number.
        let passed = slips.partition_point(|s| s.first <= plain + (s.before - origin));
        plain + passed.checked_sub(1).map_or(0, |i| slips[i].before + slips[i].count - origin)
    }

    /// Number of sectors skipped before physical sector `p`.
    fn slipped_before(&self, p: u64) -> u64 {
        let n = self.slips.partition_point(|s| s.first < p);
        n.checked_sub(1).map_or(0, |i| {
            let s = self.slips[i];
            s.before + s.count.min(p - s.first)
        })
    }

    /// Number of data sectors of the zone before physical sector `p`.
    fn data_before(&self, p: u64) -> u64 {
        let r = (p / self.region).min(self.regions);
        let base = r * self.region;
        let inside = p - base - (self.slipped_before(p) - self.slipped_before(base));
        let inside = if r < self.regions { inside.min(self.region_data) } else { inside };
        (r * self.region_data + inside).saturating_sub(self.unused_front)
    }
}

impl Geometry {
    pub(crate) fn new(spec: &GeometrySpec, capacity: u64) -> Self {
        let mut zones = Vec::with_capacity(spec.zones.len());
        let mut first_lbn = 0;
        for z in &spec.zones {
            let zone = Zone::new(z, spec.heads, first_lbn, capacity);
            first_lbn = zone.end_lbn;
            if zone.end_lbn > zone.first_lbn {
                zones.push(zone);
            }
        }
        let bands = spec.tree.as_ref().and_then(|t| TrackTree::new(t, spec.heads, capacity).ok());
        Self { zones, bands, heads: spec.heads, mapping: spec.mapping, capacity: Sectors(capacity) }
    }

    /// Capacity visible to a client, in sectors.
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Number of recording surfaces.
    pub const fn heads(&self) -> u32 {
        self.heads
    }

    /// Number of cylinders, including those without addresses.
    pub fn cylinders(&self) -> u32 {
        if let Some(bands) = &self.bands {
            return bands.cylinders();
        }
        self.zones.last().map_or(0, |z| z.first_cylinder + z.cylinders)
    }

    /// Sectors on the track at a position.
    pub fn sectors_per_track(&self, place: PlatterPosition) -> u32 {
        if let Some(bands) = &self.bands {
            return bands.sectors_per_track(place);
        }
        self.zones.get(place.zone as usize).map_or(0, |z| z.spt as u32)
    }

    /// First and last address of each zone, and its sectors per track.
    pub fn zones(&self) -> impl Iterator<Item = (Lba, Lba, u32)> + '_ {
        let bands = self.bands.iter().flat_map(TrackTree::zones);
        let zones = self.zones.iter().map(|z| (z.first_lbn, z.end_lbn - 1, z.spt as u32));
        bands.chain(zones).map(|(first, last, spt)| (Lba(first), Lba(last), spt))
    }

    fn zone_of(&self, lbn: u64) -> usize {
        self.zones.partition_point(|z| z.end_lbn <= lbn)
    }

    /// The position of a sector; `None` after the end of the disk.
    pub fn place(&self, lba: Lba) -> Option<PlatterPosition> {
        (lba.0 < self.capacity.0).then(|| self.run(lba.0, 1).place)
    }

    /// The address of the sector at a position; `None` if the position holds no data (spares,
    /// slips, bad sectors).
    pub fn address(&self, place: PlatterPosition) -> Option<Lba> {
        if let Some(bands) = &self.bands {
            return bands.address(place).map(Lba);
        }
        let z = self.zones.get(place.zone as usize)?;
        let c = place.cylinder.checked_sub(z.first_cylinder).filter(|&c| c < z.cylinders)?;
        if place.head >= self.heads || u64::from(place.sector) >= z.spt {
            return None;
        }
        let order = self.order(z, c, place.head);
        let physical = (u64::from(c) * u64::from(self.heads) + u64::from(order)) * z.spt
            + u64::from(place.sector);
        let wanted = z.remaps.iter().find(|r| r.1 == physical).map_or(physical, |r| r.0);
        let lbn = z.first_lbn + z.data_before(wanted);
        let found = self.place(Lba(lbn))?;
        (found == place).then_some(Lba(lbn))
    }

    /// Converts a head to its position in address order on relative cylinder `c`, and back.
    fn order(&self, z: &Zone, c: u32, head: u32) -> u32 {
        let reversed = match self.mapping {
            Mapping::Ascending => false,
            Mapping::ZoneSerpentine => c % 2 == 1,
            Mapping::DiskSerpentine => (c + z.first_cylinder) % 2 == 1,
        };
        if reversed { self.heads - 1 - head } else { head }
    }

    /// The longest run on one track from `lbn`, of at most `len` sectors. `lbn` must be on the
    /// disk.
    pub(crate) fn run(&self, lbn: u64, len: u64) -> Run {
        if let Some(bands) = &self.bands {
            return bands.run(lbn, len);
        }
        let index = self.zone_of(lbn);
        let z = &self.zones[index];
        let l = lbn - z.first_lbn;
        let mut len = len.min(z.end_lbn - lbn);
        let mut first = z.physical(l);
        if !z.remaps.is_empty() {
            (first, len) = self.remapped(z, l, first, len);
        }
        let track = first / z.spt;
        let sector = first - track * z.spt;
        let track_end = first - sector + z.spt;
        let last = if len == 1 {
            first
        } else {
            if first + len > track_end || !z.slips.is_empty() || z.regions > 1 {
                len = len.min(z.data_before(track_end) - l);
            }
            z.physical(l + len - 1)
        };
        let c = (track / u64::from(self.heads)) as u32;
        let order = (track % u64::from(self.heads)) as u32;
        let start = z.edge(sector);
        let head = self.order(z, c, order);
        Run {
            place: PlatterPosition {
                zone: index as u32,
                cylinder: z.first_cylinder + c,
                head,
                sector: sector as u32,
            },
            angle: (z.offset
                + u64::from(order) * z.track_skew
                + u64::from(c) * z.cylinder_step % REVOLUTION
                + start)
                % REVOLUTION,
            sweep: z.edge(sector + (last - first) + 1) - start,
            len,
        }
    }

    /// The first address on the track of `lbn`. `lbn` must be on the disk.
    pub(crate) fn track_start(&self, lbn: u64) -> u64 {
        if let Some(bands) = &self.bands {
            return bands.track_start(lbn);
        }
        let z = &self.zones[self.zone_of(lbn)];
        let physical = z.physical(lbn - z.first_lbn);
        z.first_lbn + z.data_before(physical / z.spt * z.spt)
    }

    /// A run at a remapped sector. If the run starts on a remapped sector, it is that sector alone;
    /// otherwise it ends before the next remapped sector.
    fn remapped(&self, z: &Zone, l: u64, first: u64, len: u64) -> (u64, u64) {
        if let Some(r) = z.remaps.iter().find(|r| r.0 == first) {
            return (r.1, 1);
        }
        let near = z.remaps.iter().map(|r| z.data_before(r.0)).filter(|&d| d > l).min();
        (first, near.map_or(len, |d| len.min(d - l)))
    }
}
