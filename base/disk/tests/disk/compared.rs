//! Compares a fitted disk with the disk it was fitted to. Tests that probe in real time use it too.

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::{Disk, DiskSpec};

/// Mean first movement over `distance` sectors, from positions all over the disk, in milliseconds.
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

/// Sectors per millisecond of a long read.
fn rate(disk: &mut Disk, from: u64) -> f64 {
    let len = 50_000.min(disk.capacity().0 - from);
    let access = disk.access(SimTime(0), Op::Read, Extent::new(from, len)).unwrap();
    len as f64 / access.transfer.as_millis_f64()
}

/// The differences between a fitted disk and the disk it was fitted to, as fractions.
pub(crate) struct Compared {
    pub(crate) rpm: f64,
    /// Fractions of the distances (even, and even on a logarithmic scale) whose seeks are within
    /// the bound.
    pub(crate) even: f64,
    pub(crate) log: f64,
    /// Worst bandwidth error of a zone, from its middle on.
    pub(crate) rate: f64,
}

/// Compares the behaviour of two disks, not their descriptions. Seeks count if they are within
/// `bound`. `host_ms` is the host's own time per request, which the fit cannot separate from the
/// seek.
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
