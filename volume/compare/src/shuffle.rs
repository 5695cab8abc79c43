//! Data that changes places over the whole disk, hottest in the middle: cylinder and block
//! shuffling as in the literature (Vongsathorn and Carson; Ruemmler and Wilkes), and the placement
//! analysed by the clustering paper. No copies and no engine: requests follow the data. Only for
//! comparison: no server moves data in this way.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use seekless_block::{Extent, Lba, Op, Sectors, SimTime};
use seekless_disk::{Command, Device, DeviceSpec, DiskError, Drive, Scheduler};
use seekless_learn::AccessGraph;
use seekless_sim::Measured;

/// Unit of block shuffling: 8 KiB.
pub(crate) const BLOCK: u64 = 16;
/// Longest run of a move in sectors: the RAM of a driver.
const PIECE: u64 = 2048;

/// Sectors of a cylinder; a mebibyte for a device without cylinders.
pub(crate) fn cylinder(spec: &DeviceSpec) -> u64 {
    let heads = spec.plain_disk().map(|d| u64::from(d.geometry.heads));
    let per_track = spec.plain_disk().and_then(|d| {
        let cylinders: u64 = d.geometry.zones.iter().map(|z| u64::from(z.cylinders)).sum();
        d.capacity_sectors.checked_div(cylinders * heads?)
    });
    heads.zip(per_track).map_or(2048, |(h, s)| (h * s).max(BLOCK))
}

/// Place of each unit.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    unit: u64,
    /// Units of the disk; sectors behind the last whole unit stay.
    units: u64,
    /// Home and place of each moved unit.
    places: FxHashMap<u64, u64>,
}

impl Shuffle {
    /// Units that `graph` saw read change places with units in the middle of the disk: the hottest
    /// in the middle, the others outwards on alternating sides.
    pub(crate) fn new(graph: &AccessGraph, unit: u64, capacity: Sectors) -> Self {
        let units = capacity.0 / unit;
        let mut heat: Vec<(u64, u64)> = Vec::new();
        for v in graph.snapshot().0 {
            let (mut at, end) = (v.extent.start.0, v.extent.end().0);
            while at < end {
                let of = at / unit;
                let stop = end.min((of + 1) * unit);
                let read = u64::from(v.reads).saturating_mul(stop - at);
                match heat.last_mut() {
                    Some((last, sum)) if *last == of => *sum = sum.saturating_add(read),
                    _ => heat.push((of, read)),
                }
                at = stop;
            }
        }
        heat.retain(|h| h.1 > 0 && h.0 < units);
        heat.sort_unstable_by_key(|h| (Reverse(h.1), h.0));
        let mut places: FxHashMap<u64, u64> = FxHashMap::default();
        let mut homes: FxHashMap<u64, u64> = FxHashMap::default();
        let middle = units / 2;
        for (i, &(home, _)) in heat.iter().enumerate() {
            let out = (i as u64).div_ceil(2);
            let place = if i % 2 == 0 { middle + out } else { middle - out };
            // The unit at that place moves to where this unit stood.
            let from = places.get(&home).copied().unwrap_or(home);
            let other = homes.get(&place).copied().unwrap_or(place);
            places.insert(home, place);
            homes.insert(place, home);
            places.insert(other, if other == home { place } else { from });
            if other != home {
                homes.insert(from, other);
            }
        }
        places.retain(|home, place| home != place);
        Self { unit, units, places }
    }

    /// Sectors of a unit.
    pub(crate) const fn unit(&self) -> u64 {
        self.unit
    }

    /// Units that moved.
    pub(crate) fn moved(&self) -> usize {
        self.places.len()
    }

    /// The places of an extent's sectors, in as few runs as possible.
    pub(crate) fn parts(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let mut runs: Vec<Extent> = Vec::new();
        let (mut at, end) = (extent.start.0, extent.end().0);
        while at < end {
            let of = at / self.unit;
            let stop = if of < self.units { end.min((of + 1) * self.unit) } else { end };
            let place = self.places.get(&of).copied().unwrap_or(of);
            let start = place * self.unit + (at - of * self.unit);
            match runs.last_mut() {
                Some(run) if run.end().0 == start => run.len += Sectors(stop - at),
                _ => runs.push(Extent::new(start, stop - at)),
            }
            at = stop;
        }
        if runs.is_empty() {
            runs.push(extent); // a flush
        }
        runs.into_iter()
    }

    /// Adds the cost of moving to the measurement: every moved unit is read once in order of home,
    /// and written once in order of place, in runs, on an idle disk.
    pub(crate) fn price(&self, disk: &Device, measured: &mut Measured) -> Result<(), DiskError> {
        let mut drive = Drive::new(disk.clone(), Scheduler::Fcfs);
        let mut now = SimTime::ZERO;
        let mut homes: Vec<u64> = self.places.keys().copied().collect();
        let mut places: Vec<u64> = self.places.values().copied().collect();
        for (op, units) in [(Op::Read, &mut homes), (Op::Write, &mut places)] {
            units.sort_unstable();
            let mut run = Extent::default();
            let ends = units.iter().map(|u| Some(u * self.unit)).chain([None]);
            for at in ends {
                let longer = at == Some(run.end().0) && run.len.0 + self.unit <= PIECE;
                if longer && !run.is_empty() {
                    run.len += Sectors(self.unit);
                    continue;
                }
                if !run.is_empty() {
                    let command = Command { background: true, ..Command::new(0, op, run) };
                    drive.submit(now, command)?;
                    while let Some(t) = drive.next_event() {
                        now = now.max(t);
                        while let Some(done) = drive.poll(now) {
                            measured.background.add(&done.access);
                        }
                    }
                }
                run = at.map_or(run, |a| Extent { start: Lba(a), len: Sectors(self.unit) });
            }
        }
        let usage = drive.usage(now);
        measured.background_energy += usage.background.total();
        measured.engine.moved_bytes += Sectors(self.unit * self.places.len() as u64).bytes().0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Bytes, Request};
    use seekless_learn::Pages;

    use super::*;

    fn graph(reads: &[(u64, u32)]) -> AccessGraph {
        let pages = Pages::new(Sectors(0), Sectors(1600));
        let mut graph = AccessGraph::new(pages, Bytes(0), 100);
        for &(block, times) in reads {
            for _ in 0..times {
                let extent = Extent::new(block * 16, 16);
                graph.observe(&Request::new(SimTime(0), Op::Read, extent));
            }
        }
        graph
    }

    #[test]
    fn the_hottest_go_to_the_middle_and_nothing_is_lost() {
        for reads in [
            &[(3, 5), (99, 4), (50, 3), (7, 2)][..],
            &[(50, 5), (51, 4), (49, 3)],
            &[(49, 9), (51, 8), (50, 7), (52, 6)],
            &[(0, 1)],
            &[],
        ] {
            let s = Shuffle::new(&graph(reads), 16, Sectors(1605));
            let mut heat: Vec<(u64, u32)> = reads.to_vec();
            heat.sort_by_key(|h| (Reverse(h.1), h.0));
            for (i, (home, _)) in heat.iter().enumerate() {
                let place = s.parts(Extent::new(home * 16, 16)).next().unwrap().start.0 / 16;
                assert_eq!(place, [50, 49, 51, 48][i], "{reads:?}");
            }
            // A permutation of all sectors, with the last incomplete unit.
            let all = (0..1605).flat_map(|at| s.parts(Extent::new(at, 1)));
            let mut places: Vec<u64> = all.map(|e| e.start.0).collect();
            places.sort_unstable();
            assert_eq!(places, (0..1605).collect::<Vec<_>>());
            // In runs or one by one: the same.
            let whole: Vec<u64> =
                s.parts(Extent::new(0, 1605)).flat_map(|e| e.start.0..e.end().0).collect();
            let single: Vec<u64> =
                (0..1605).flat_map(|at| s.parts(Extent::new(at, 1))).map(|e| e.start.0).collect();
            assert_eq!(whole, single);
        }
    }
}
