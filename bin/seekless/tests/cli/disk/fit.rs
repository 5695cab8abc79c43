//! `disk fit`, `disk probe` and `reproduce fs2-disk` through the binary.

use std::fmt::Write as _;
use std::fs;

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::fit::workload;
use seekless_disk::{Disk, DiskSpec, SeekSpec, catalogue};

use crate::support::Place;

/// The characterizing reads of a modelled disk as an MSR Cambridge trace, times in units of 100 ns.
fn trace(spec: &DiskSpec, seconds: u64) -> String {
    let mut disk = Disk::new(spec).unwrap();
    let mut now = SimTime(0);
    let mut text = String::new();
    for Extent { start, len } in workload(spec.capacity_sectors).unwrap() {
        let took = disk.access(now, Op::Read, Extent { start, len }).unwrap().total();
        let (at, bytes) = (128_166_372_000_000_000 + now.0 / 100, len.0 * 512);
        writeln!(text, "{at},host,0,Read,{},{bytes},{}", start.0 * 512, took.0 / 100).unwrap();
        now += took;
        if now.0 > seconds * 1_000_000_000 {
            break;
        }
    }
    text
}

#[test]
fn measured_requests_are_fitted_as_any_trace() {
    let spec = catalogue::get("wd800jb").unwrap();
    let mut disk = Disk::new(&spec).unwrap();
    let mut now = SimTime(0);
    let mut text = String::new();
    for extent in workload(spec.capacity_sectors).unwrap() {
        let took = disk.access(now, Op::Read, extent).unwrap().total();
        let (start, len, us) = (extent.start.0, extent.len.0, took.as_millis_f64() * 1e3);
        writeln!(text, "R Miss {start} {len} {us:.3} 0.0").unwrap();
        now += took;
        if now.0 > 60_000_000_000 {
            break;
        }
    }
    let place = Place::with("t.trace", text);
    place.ok(&["disk", "fit", "measured:t.trace", "-o", "m.toml"]);
    let fitted = DiskSpec::parse("m", &place.text_of("m.toml")).unwrap();
    assert!((fitted.mechanics.rpm - 7200.0).abs() < 1.0, "{}", fitted.mechanics.rpm);
    place.file("bad.trace", "R Miss 0 8 100.0 0\nR Miss 0 eight 1 1\n");
    let said = place.fails(&["disk", "fit", "measured:bad.trace", "-o", "m.toml"]);
    assert!(said.contains("bad.trace:2") && said.contains("eight"), "{said}");
}

#[test]
fn a_trace_of_fs2s_disk_gives_fs2s_curve_back() {
    let spec = catalogue::get("wd800jb").unwrap();
    let place = Place::with("t.csv", trace(&spec, 120));
    let size = format!("{}B", spec.capacity_sectors * 512);
    let to = ["-o", "mine.toml", "--plot", "mine.svg", "--json", "mine.json"];
    let said = place.ok(&[&["disk", "fit", "msr:t.csv", "--size", &size], &to[..]].concat());
    assert!(said.contains("mine: ") && said.contains("rpm"), "{said}");
    let fitted = DiskSpec::parse("mine", &place.text_of("mine.toml")).unwrap();
    assert_eq!(fitted.capacity_sectors, spec.capacity_sectors);
    assert!((fitted.mechanics.rpm - 7200.0).abs() < 1.0, "{}", fitted.mechanics.rpm);
    let v = place.read("mine.json");
    assert_eq!((&v["schema"], &v["name"]), (&"seekless.disk-fit/1".into(), &"mine".into()));
    assert_eq!(v["rpm"], fitted.mechanics.rpm);
    assert_eq!(v["capacity_bytes"], spec.capacity_sectors * 512);
    assert_eq!(v["zones"][0]["first_sector"], 0);
    // FS2 4.2 prints 9E-8 x + 4.16 for long seeks, 1.35 for the shortest.
    let SeekSpec::CubicLinear { cubic, linear, .. } = fitted.seek else { panic!() };
    for (found, printed) in [(linear[0] * 1e8, 9.0), (linear[1], 4.16), (cubic[3], 1.35)] {
        assert!((found / printed - 1.0).abs() < 0.03, "{found} {printed}");
    }
    let svg = place.text_of("mine.svg");
    assert!(svg.contains("lower envelope") && svg.ends_with("</svg>\n"));
    // What was fitted can be used like any other disk.
    assert!(place.ok(&["disk", "show", "mine.toml"]).contains("kind = \"measured\""));
}

#[test]
fn traces_that_tell_too_little_are_refused() {
    let place = Place::new();
    let spec = catalogue::get("wd360gd").unwrap();
    let text = trace(&spec, 8);
    let cut: String = text.lines().take(300).fold(String::new(), |t, l| t + l + "\n");
    place.file("short.csv", cut).file("none.trace", "1.0 0 5 8 1\n2.0 0 9 8 1\n");
    let refuses = |line: &str, words| place.refuses(&format!("disk fit {line}"), &[words]);
    refuses("msr:short.csv -o o.toml", "200 or more are needed");
    refuses("msr:short.csv -o - --json -", "cannot both go to standard output");
    refuses("disksim:none.trace -o o.toml", "service time");
    // As if a platter turned and no arm ever moved: 0.1 to 8.1 ms, wherever it goes.
    let lines = text.lines().enumerate();
    let still: String = lines
        .map(|(i, l)| format!("{},{}\n", l.rsplit_once(',').unwrap().0, 1000 + i * 7919 % 80_000))
        .collect();
    place.file("still.csv", still);
    refuses("msr:still.csv -o o.toml", "no arm moved");
}

#[test]
fn a_probe_refuses_what_it_cannot_read() {
    let place = Place::new();
    place.file("small", [0; 4096]);
    fs::create_dir(place.path("folder")).unwrap();
    let modified = || fs::metadata(place.path("small")).unwrap().modified().unwrap();
    let before = modified();
    for path in ["folder", "absent", "small"] {
        place.refuses(&format!("disk probe {path} --budget 1s -o o.toml"), &[path]);
    }
    assert_eq!(modified(), before);
}
