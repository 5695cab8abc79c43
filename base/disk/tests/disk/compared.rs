//! A fitted disk beside the one it was fitted to. Also used by tests that probe in real time.

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::{Disk, DiskSpec};

/// Mean first movement over so many sectors, from places all over the disk, in milliseconds.
fn seek_ms(disk: &mut Disk, distance: u64) -> f64 {
    let last = disk.capacity().0 - 8 - distance;
    let mut sum = 0.0;
    for i in 0..32u64 {
        let from = (u128::from(last) * u128::from(i) / 31) as u64;
        disk.access(SimTime(0), Op::Read, Extent::new(from, 8)).unwrap();
        let to = Extent::new(from + distance, 8);
        sum += disk.access(SimTime(0), Op::Read, to).unwrap().seek.as_millis_f64();
    }
    sum / 32.0
}

/// Sectors a millisecond of a long read.
fn rate(disk: &mut Disk, from: u64) -> f64 {
    let len = 50_000.min(disk.capacity().0 - from);
    let access = disk.access(SimTime(0), Op::Read, Extent::new(from, len)).unwrap();
    len as f64 / access.transfer.as_millis_f64()
}

/// How far a fitted disk is from the one it was fitted to, as shares.
pub(crate) struct Compared {
    pub(crate) rpm: f64,
    /// Shares of distances, evenly and evenly in their logarithm, whose seeks are within the bound.
    pub(crate) even: f64,
    pub(crate) log: f64,
    /// Worst bandwidth of a zone, from its middle on.
    pub(crate) rate: f64,
}

/// Compares what the two disks do, not how they are described; seeks count where they are within `bound`. `host_ms` is
/// what the host took beside the disk, a request: times alone do not tell it from the seek, in which it is found.
pub(crate) fn compare(spec: &DiskSpec, fitted: &DiskSpec, host_ms: f64, bound: f64) -> Compared {
    let (mut a, mut b) = (Disk::new(spec).unwrap(), Disk::new(fitted).unwrap());
    let capacity = spec.capacity_sectors;
    let mut within = |distances: Vec<u64>| {
        let n = distances.len() as f64;
        let good = distances.into_iter().filter(|&d| {
            let (x, y) = (seek_ms(&mut a, d) + host_ms, seek_ms(&mut b, d));
            (y / x - 1.0).abs() <= bound
        });
        good.count() as f64 / n
    };
    let even = within((1..=200).map(|i| capacity / 201 * i).collect());
    // From two tracks on: below that most reads stay on their track.
    let least = 2.0 * f64::from(a_track(spec));
    let log = within(
        (0..100)
            .map(|i| (least * (capacity as f64 * 0.99 / least).powf(f64::from(i) / 99.0)) as u64)
            .collect(),
    );
    let middles: Vec<u64> =
        a.geometry().zones().map(|(first, last, _)| first.0 + (last.0 - first.0) / 2).collect();
    let rate = middles
        .into_iter()
        .map(|from| (rate(&mut b, from) / rate(&mut a, from) - 1.0).abs())
        .fold(0.0, f64::max);
    Compared { rpm: (fitted.mechanics.rpm / spec.mechanics.rpm - 1.0).abs(), even, log, rate }
}

fn a_track(spec: &DiskSpec) -> u32 {
    spec.geometry.zones[0].sectors_per_track
}
