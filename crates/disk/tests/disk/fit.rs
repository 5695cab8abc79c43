//! Fitting gives back the disk whose accesses are fitted.

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::fit::{Fit, Sample, fit, workload};
use seekless_disk::{Command, Disk, DiskSpec, Drive, Scheduler, catalogue};

/// The characterizing workload on a drive, one request at a time, for so many seconds of the drive's time.
fn probe(spec: &DiskSpec, seconds: f64) -> Vec<Sample> {
    let mut drive = Drive::new(Disk::new(spec).unwrap(), Scheduler::Fcfs);
    let mut now = SimTime(0);
    let mut samples = Vec::new();
    for extent in workload(spec.capacity_sectors).unwrap() {
        let command = Command::new(0, Op::Read, extent);
        drive.submit(now, command).unwrap();
        now = drive.next_event().unwrap();
        let service = drive.poll(now).unwrap().access.total();
        samples.push(Sample { op: Op::Read, extent, service });
        if now.0 as f64 > seconds * 1e9 {
            break;
        }
    }
    samples
}

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

struct Compared {
    rpm: f64,
    /// Shares of distances, evenly and evenly in their logarithm, whose seeks are within the bound.
    even: f64,
    log: f64,
    /// Worst bandwidth of a zone, from its middle on.
    rate: f64,
}

fn compare(spec: &DiskSpec, fitted: &Fit, bound: f64) -> Compared {
    let (mut a, mut b) = (Disk::new(spec).unwrap(), Disk::new(&fitted.spec).unwrap());
    let capacity = spec.capacity_sectors;
    let mut within = |distances: Vec<u64>| {
        let n = distances.len() as f64;
        let good = distances.into_iter().filter(|&d| {
            let (x, y) = (seek_ms(&mut a, d), seek_ms(&mut b, d));
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
    Compared { rpm: (fitted.spec.mechanics.rpm / spec.mechanics.rpm - 1.0).abs(), even, log, rate }
}

fn a_track(spec: &DiskSpec) -> u32 {
    spec.geometry.zones[0].sectors_per_track
}

/// A minute of probing. The two disks of the eighties are not among them: their tracks are so short that many
/// reads of 4 KiB cross from one to the next.
#[test]
fn a_fit_gives_the_disk_back() {
    for name in catalogue::disks().filter(|n| !["rz55", "disk1000"].contains(n)) {
        let spec = catalogue::get(name).unwrap();
        if spec.geometry.zones.is_empty() {
            continue;
        }
        let samples = probe(&spec, 60.0);
        let f = fit("fitted", spec.capacity_sectors, &samples, "a test").unwrap();
        let c = compare(&spec, &f, 0.03);
        println!(
            "{name}: {} reads: rpm off {:.4}% ({:?}, band {:.3}/{:.3}); seeks within 3%: {:.1}% of distances, \
             {:.1}% of their logarithms; bandwidth off {:.2}% at most, {} zones; {:?}",
            samples.len(),
            c.rpm * 100.0,
            f.speed_from,
            f.band_ms,
            f.revolution_ms,
            c.even * 100.0,
            c.log * 100.0,
            c.rate * 100.0,
            f.zones.len(),
            f.spec.seek
        );
        assert!(c.rpm < 0.005 && (f.band_ms / f.revolution_ms - 1.0).abs() < 0.1, "{name}");
        assert!(c.rate < 0.03, "{name}");
        assert!(c.even >= 0.95, "{name}");
        let again = DiskSpec::parse("again", &f.spec.to_toml().unwrap()).unwrap();
        assert_eq!(again, f.spec);
    }
}

#[test]
fn what_is_no_disk_is_refused() {
    let spec = catalogue::get("wd800jb").unwrap();
    let samples = probe(&spec, 60.0);
    let fit = |s: &[Sample]| fit("x", spec.capacity_sectors, s, "a test");
    for end in [0, 1, 7, 300, 2_000] {
        let _ = fit(&samples[..end]).unwrap_err();
    }
    // Every read takes a tenth of a millisecond: a device without platters.
    let mut flat = samples.clone();
    flat.iter_mut().for_each(|s| s.service = seekless_block::Duration(100_000));
    let e = fit(&flat).unwrap_err().to_string();
    assert!(e.contains("no revolution"), "{e}");
    flat.iter_mut().for_each(|s| s.service = seekless_block::Duration(0));
    let _ = fit(&flat).unwrap_err();
    flat.iter_mut().for_each(|s| s.service = seekless_block::Duration(u64::MAX));
    let _ = fit(&flat).unwrap_err();
}

#[test]
fn the_speed_comes_from_the_band_where_nothing_steps_back() {
    let spec = catalogue::get("wd360gd").unwrap();
    let mut samples = probe(&spec, 300.0);
    let back = |a: &Sample, b: &Sample| b.extent.start < a.extent.start;
    samples.dedup_by(|b, a| back(a, b) && a.extent.start.0 - b.extent.start.0 <= 64);
    let f = fit("x", spec.capacity_sectors, &samples, "a test").unwrap();
    assert_eq!(f.speed_from, seekless_disk::fit::SpeedFrom::BandHeight);
    let off = (f.spec.mechanics.rpm / spec.mechanics.rpm - 1.0).abs();
    println!("rpm off {:.3}%", off * 100.0);
    assert!(off < 0.005, "{off}");
}
