//! A fit returns the disk whose accesses are fitted.

use seekless_block::{Dice, Duration, Op, SimTime};
use seekless_disk::fit::{Pace, Sample, fit, workload};
use seekless_disk::{Command, Disk, DiskSpec, Drive, Scheduler, catalogue};

use crate::compared::compare;

/// Runs the characterizing workload on a drive, one request at a time, for `seconds` of the drive's
/// time.
fn probe(spec: &DiskSpec, seconds: f64) -> Vec<Sample> {
    probe_from(spec, seconds, || Duration(0))
}

/// The same with a host that needs some time for each request.
fn probe_from(spec: &DiskSpec, seconds: f64, mut host: impl FnMut() -> Duration) -> Vec<Sample> {
    let budget = Duration((seconds * 1e9) as u64);
    let mut pace = Pace::new(budget);
    let mut drive = Drive::new(Disk::new(spec).unwrap(), Scheduler::Fcfs);
    let mut now = SimTime(0);
    let mut samples = Vec::new();
    for extent in workload(spec.capacity_sectors).unwrap() {
        if !pace.wants(now.since(SimTime(0)), extent) {
            continue;
        }
        let command = Command::new(0, Op::Read, extent);
        drive.submit(now, command).unwrap();
        let end = drive.next_event().unwrap();
        let took = host();
        let service = drive.poll(end).unwrap().access.total() + took;
        now = end + took;
        samples.push(Sample { op: Op::Read, extent, service });
        if now.0 > budget.0 {
            break;
        }
    }
    samples
}

/// A minute of probing. The two disks of the eighties have weaker limits. They have no skew, so a
/// sequential read loses a revolution at each new cylinder, every fifteenth track. That looks like
/// a disturbance, which is not counted, and makes 1 / 15 of the bandwidth. Their curve is a square
/// root, steep where there are few knots.
#[test]
fn a_fit_gives_the_disk_back() {
    for name in catalogue::disks() {
        let (even, rate) = match name {
            "rz55" => (0.95, 0.07),
            "disk1000" => (0.8, 0.07),
            _ => (0.95, 0.03),
        };
        // Only the mechanism: the buffer is not fitted.
        let spec = DiskSpec { controller: None, ..catalogue::get(name).unwrap() };
        if spec.geometry.zones.is_empty() {
            continue;
        }
        let samples = probe(&spec, 60.0);
        let f = fit("fitted", spec.capacity_sectors, &samples, "a test").unwrap();
        let c = compare(&spec, &f.spec, 0.0, 0.03);
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

/// The time of a slow host appears in the seek curve and nowhere else; if the time is random, its
/// mean appears. The test lasts half a minute, as the test in real time that uses these limits.
#[test]
fn the_hosts_time_appears_in_the_seeks() {
    let spec = DiskSpec { controller: None, ..catalogue::get("cheetah9lp").unwrap() };
    for (mean_us, by_chance) in [(60, false), (200, false), (200, true), (400, false)] {
        let mut dice = Dice::new(1);
        let host = || {
            let more = dice.below(mean_us * 1000);
            Duration(mean_us * 500 + if by_chance { more } else { mean_us * 500 })
        };
        let samples = probe_from(&spec, 30.0, host);
        let f = fit("fitted", spec.capacity_sectors, &samples, "a test").unwrap();
        let with = compare(&spec, &f.spec, mean_us as f64 / 1e3, 0.1);
        let without = compare(&spec, &f.spec, 0.0, 0.1);
        println!(
            "{mean_us} us{}: rpm off {:.3} %; bandwidth off {:.2} %; seeks within 10 %: {:.1} % of distances, {:.1} % \
             of their logarithms; as if there were no host {:.1} % and {:.1} %",
            if by_chance { " in the mean" } else { "" },
            with.rpm * 100.0,
            with.rate * 100.0,
            with.even * 100.0,
            with.log * 100.0,
            without.even * 100.0,
            without.log * 100.0
        );
        assert!(with.rpm < 0.01 && with.rate < 0.1, "{mean_us} us");
        assert!(with.even >= 0.97 && with.log >= 0.97 && without.log < 0.97, "{mean_us} us");
    }
}

#[test]
fn samples_that_are_not_from_a_disk_are_refused() {
    let spec = catalogue::get("wd800jb").unwrap();
    let samples = probe(&spec, 60.0);
    let fit = |s: &[Sample]| fit("x", spec.capacity_sectors, s, "a test");
    for end in [0, 1, 7, 300, 2_000] {
        let _ = fit(&samples[..end]).unwrap_err();
    }
    // Every read takes a tenth of a millisecond: a device without platters.
    let mut flat = samples.clone();
    flat.iter_mut().for_each(|s| s.service = Duration(100_000));
    let e = fit(&flat).unwrap_err().to_string();
    assert!(e.contains("not a possible revolution"), "{e}");
    flat.iter_mut().for_each(|s| s.service = Duration(0));
    let _ = fit(&flat).unwrap_err();
    flat.iter_mut().for_each(|s| s.service = Duration(u64::MAX));
    let _ = fit(&flat).unwrap_err();
}

#[test]
fn without_backward_steps_the_speed_comes_from_the_band() {
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
