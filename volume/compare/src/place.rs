//! The cheapest place on a disk for an optimized area, by the disk's own seek curve. Near the outer
//! edge tracks are longer; in the middle of other accesses the arm travels less.

use seekless_block::{Lba, Sectors};
use seekless_disk::{DeviceSpec, Disk};
use seekless_learn::AccessGraph;

/// Places that are tried, evenly over the disk, and parts of home for which reads are counted.
const TRIED: u64 = 64;
/// Length in sectors of a read that is priced: 64 KiB.
const READ: u64 = 128;

/// Reads that an area answers, and the other reads by part of home.
struct Reads {
    inside: f64,
    home: Vec<f64>,
}

impl Reads {
    /// The hottest extents of `graph` that fit go to the area.
    fn of(graph: &AccessGraph, area: Sectors, stretch: u64) -> Self {
        let vertices = graph.snapshot().0;
        let mut by_heat: Vec<(u32, u64, u64)> =
            vertices.iter().map(|v| (v.reads, v.extent.len.0, v.extent.start.0)).collect();
        by_heat.sort_unstable_by_key(|v| std::cmp::Reverse(v.0));
        let (mut left, mut inside) = (area.0, 0.0);
        let mut home = vec![0.0; TRIED as usize + 1];
        for (reads, len, start) in by_heat {
            if len <= left {
                left -= len;
                inside += f64::from(reads);
            } else {
                home[(start / stretch).min(TRIED) as usize] += f64::from(reads);
            }
        }
        Self { inside, home }
    }
}

/// The place of an area of `area` sectors, between client addresses of `capacity`, at which the
/// accesses of `graph` cost least: expected seek (equation 10 over parts) and transfer. None if the
/// device has no single arm.
pub(crate) fn cheapest(
    spec: &DeviceSpec,
    graph: &AccessGraph,
    area: Sectors,
    capacity: Sectors,
) -> Option<Lba> {
    let disk = Disk::new(spec.plain_disk()?).ok()?;
    let end = disk.capacity().0.saturating_sub(area.0).min(capacity.0);
    let stretch = (capacity.0 / TRIED).max(1);
    let Reads { inside, home } = Reads::of(graph, area, stretch);
    let all: f64 = inside + home.iter().sum::<f64>();
    if all <= 0.0 {
        return None;
    }
    let cylinder = |sector: u64| {
        let at = sector.min(disk.capacity().0 - 1);
        disk.geometry().place(Lba(at)).map_or(0, |p| p.cylinder)
    };
    let seek = |a: u64, b: u64| {
        disk.curve().time(cylinder(a).abs_diff(cylinder(b)), a.abs_diff(b)).as_millis_f64()
    };
    let transfer = |sector: u64| {
        let at = Lba(sector.min(disk.capacity().0 - 1));
        let per_track =
            disk.geometry().place(at).map_or(1, |p| disk.geometry().sectors_per_track(p));
        disk.spindle().revolution().as_millis_f64() * READ as f64 / f64::from(per_track.max(1))
    };
    let cost = |at: u64| {
        // Home behind the area is shifted by the area's length.
        let shifted = |i: usize| {
            let sector = i as u64 * stretch + stretch / 2;
            if sector < at { sector } else { sector + area.0 }
        };
        let middle = at + area.0 / 2;
        let hot = inside / all;
        // A seek within the area crosses a third of it on average.
        let mut sum = hot * (hot * seek(middle, middle + area.0 / 3) + transfer(at));
        for (i, reads) in home.iter().enumerate().filter(|h| *h.1 > 0.0) {
            let share = reads / all;
            let place = shifted(i);
            sum += share * (2.0 * hot * seek(middle, place) + transfer(place));
            for (j, others) in home.iter().enumerate().filter(|h| *h.1 > 0.0) {
                sum += share * others / all * seek(place, shifted(j));
            }
        }
        sum
    };
    let tried = (0..=TRIED).map(|i| end / TRIED * i / 8 * 8);
    let best = tried.map(|at| (cost(at), at)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Lba(best.1))
}

#[cfg(test)]
mod tests {
    use seekless_block::{Bytes, Extent, Op, Request, SimTime};
    use seekless_disk::catalogue;
    use seekless_learn::Pages;

    use super::*;

    fn graph(capacity: u64, reads: &[(u64, u32)]) -> AccessGraph {
        let mut graph = AccessGraph::new(Pages::new(Sectors(0), Sectors(capacity)), Bytes(0), 100);
        for &(start, times) in reads {
            (0..times).for_each(|_| {
                let extent = Extent::new(start, 128);
                graph.observe(&Request::new(SimTime(0), Op::Read, extent));
            });
        }
        graph
    }

    #[test]
    fn the_disk_decides_between_its_edge_and_its_middle() {
        let spec = catalogue::device("wd800jb").unwrap();
        let capacity = spec.capacity().0 - 8192;
        // All hot data fits: home has no reads left, and the outermost zone is fastest.
        let hot = graph(capacity, &[(capacity / 2 / 8 * 8, 100)]);
        assert_eq!(cheapest(&spec, &hot, Sectors(4096), Sectors(capacity)), Some(Lba(0)));
        // Most requests stay in the middle: so the area is there.
        let middle = capacity / 2 / 8 * 8;
        let warm: Vec<(u64, u32)> = (0..200).map(|i| (middle + i * 256, 10)).collect();
        let at =
            cheapest(&spec, &graph(capacity, &warm), Sectors(4096), Sectors(capacity)).unwrap();
        assert!(at.0.abs_diff(middle) < capacity / 20, "{at}");
        // The paper's disk has one zone: the outside is not faster.
        let rz55 = catalogue::device("rz55").unwrap();
        let n = rz55.capacity().0 - 4096;
        // Every third is hot enough for the area.
        let reads = |i: u64| if i.is_multiple_of(3) { 20 } else { 10 };
        let spread: Vec<(u64, u32)> = (0..100).map(|i| (i * (n / 100) / 8 * 8, reads(i))).collect();
        let at = cheapest(&rz55, &graph(n, &spread), Sectors(4096), Sectors(n)).unwrap();
        assert!(at.0.abs_diff(n / 2) < n / 10, "{at}");
        let ssd = catalogue::names().map(|n| catalogue::device(n).unwrap());
        let ssd = ssd.into_iter().find(|s| s.plain_disk().is_none()).unwrap();
        assert_eq!(cheapest(&ssd, &hot, Sectors(4096), Sectors(capacity)), None);
    }
}
