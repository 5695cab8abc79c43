//! Fitting gives back the disk whose accesses are fitted.

use seekless_block::{Op, SimTime};
use seekless_disk::fit::{Sample, fit, workload};
use seekless_disk::{Command, Disk, DiskSpec, Drive, Scheduler, catalogue};

use crate::compared::compare;

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

/// A minute of probing. Of the two disks of the eighties less is asked: they have no skew, so that reading in
/// order loses a turn at each new cylinder, every fifteenth track; that looks like a disturbance, which is not
/// counted, and makes 1 / 15 of the bandwidth. Their curve is a square root, steep where knots are few.
#[test]
fn a_fit_gives_the_disk_back() {
    for name in catalogue::disks() {
        let (even, rate) = match name {
            "rz55" => (0.95, 0.07),
            "disk1000" => (0.8, 0.07),
            _ => (0.95, 0.03),
        };
        // The mechanism: what a buffer adds is not fitted.
        let spec = DiskSpec { controller: None, ..catalogue::get(name).unwrap() };
        if spec.geometry.zones.is_empty() {
            continue;
        }
        let samples = probe(&spec, 60.0);
        let f = fit("fitted", spec.capacity_sectors, &samples, "a test").unwrap();
        let c = compare(&spec, &f.spec, 0.03);
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
        assert!(c.rate < rate, "{name}");
        assert!(c.even >= even, "{name}");
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
