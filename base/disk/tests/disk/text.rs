//! Specifications as text: accepted texts, and the contents of errors.

use seekless_block::{Extent, Op, SimTime};
use seekless_disk::{Device, DeviceSpec, Disk, DiskSpec, Kind, catalogue};

use crate::toy::TOY;

/// Replaces `from` by `to` in the toy's text. Returns the error and the line of `to`.
fn broken(from: &str, to: &str) -> (seekless_disk::SpecError, usize) {
    assert_eq!(TOY.matches(from).count().min(1), 1, "{from}");
    let text = TOY.replacen(from, to, 1);
    let at = TOY.find(from).unwrap();
    let line =
        1 + TOY[..at].matches('\n').count() + from.len() - from.trim_start_matches('\n').len();
    (DiskSpec::parse("toy.toml", &text).unwrap_err(), line)
}

#[test]
fn errors_for_values_out_of_range_name_file_line_field_and_range() {
    for (key, good, bad, field, allowed) in [
        ("rpm", "6000", "600000", "mechanics.rpm", "60 to 30000"),
        ("rpm", "6000", "nan", "mechanics.rpm", "60 to 30000"),
        ("head_switch_ms", "1.0", "-1.0", "mechanics.head_switch_ms", "0 to 2000 ms"),
        ("heads", "2", "0", "geometry.heads", "1 to 256"),
        ("first_cylinder", "2", "1", "geometry.zone[1].first_cylinder", "2 (past"),
        ("sectors_per_track", "5", "0", "geometry.zone[1].sectors_per_track", "1 to 65536"),
        ("cylinder_skew", "3", "11", "geometry.zone[0].cylinder_skew", "0 to 10"),
        ("capacity_sectors", "60", "61", "capacity_sectors", "1 to 60"),
        ("idle_w", "5.0", "5e3", "power.idle_w", "0 to 1000 W"),
        ("points", "[[1, 2.0], [2", "[[1, 2.0], [1", "seek.points[1]", "2 to"),
    ] {
        let (e, line) = broken(&format!("{key} = {good}"), &format!("{key} = {bad}"));
        assert_eq!((e.file.as_str(), e.line, e.field.as_str()), ("toy.toml", line, field), "{e}");
        assert!(e.what.contains(allowed), "{e}");
        assert!(e.to_string().starts_with(&format!("toy.toml:{line}: {field}: ")), "{e}");
    }
}

#[test]
fn errors_for_wrong_types_unknown_and_missing_fields_name_their_line() {
    for (from, to, field, says) in [
        ("rpm = 6000", "rpm = \"fast\"", "mechanics.rpm", "string"),
        ("heads = 2", "heads = -1", "geometry.heads", "-1"),
        ("idle_w = 5.0", "idel_w = 5.0", "power.idel_w", "idel_w"),
        ("rpm = 6000", "rpm = = 6000", "TOML", ""),
    ] {
        let (e, line) = broken(from, to);
        assert_eq!((e.line, e.field.as_str()), (line, field), "{e}");
        assert!(e.what.contains(says), "{e}");
    }
    let (e, _) = broken("rpm = 6000\n", "");
    assert!(e.what.contains("rpm"), "{e}");
}

#[test]
fn a_value_without_a_source_is_refused() {
    let (e, _) = broken("\"power\", ", "");
    assert_eq!(e.field, "power.idle_w");
    assert!(e.what.contains("source"), "{e}");
}

#[test]
fn every_truncation_is_an_error_and_none_panics() {
    for end in 0..TOY.len() - 1 {
        // A cut in the last table or its strings leaves a value without source, or an incomplete
        // string.
        if let Err(e) = DiskSpec::parse("cut", &TOY[..end]) {
            assert!(e.line <= TOY.matches('\n').count() + 1);
        } else {
            panic!("accepted when cut at byte {end}");
        }
    }
}

#[test]
fn the_catalogue_can_be_parsed_from_its_own_toml() {
    let mut names = 0;
    for name in catalogue::names() {
        let spec = catalogue::device(name).unwrap();
        assert_eq!(spec.name(), name);
        let again = DeviceSpec::parse(name, &spec.to_toml().unwrap()).unwrap();
        assert_eq!(again, spec);
        let device = Device::new(&spec).unwrap();
        assert_eq!(device.capacity(), spec.capacity());
        names += 1;
    }
    assert_eq!(names, 20);
    let kinds = catalogue::names().map(|n| catalogue::device(n).unwrap().kind());
    let kinds: std::collections::BTreeSet<_> = kinds.map(Kind::name).collect();
    assert_eq!(kinds.len(), Kind::ALL.len(), "a kind without an entry: {kinds:?}");
    assert_eq!(catalogue::disks().count(), 13);
    let e = catalogue::get("sata-ssd").unwrap_err().to_string();
    assert!(e.contains("sata-ssd") && e.contains("kind ssd"), "{e}");
    let e = catalogue::get("floppy").unwrap_err().to_string();
    assert!(e.contains("floppy") && e.contains("wd800jb"), "{e}");
}

/// The toy with every field that a specification can have.
fn full() -> String {
    let zone = "cylinder_skew = 3\noffset = 1\nunused_front = 1\nspares = 3\nspare_rule = { per = \"cylinders\", cylinders = 1 }\n\
                slips = [4, 21]\nremaps = [[7, 19]]";
    let controller = "[controller]\nbus_sector_ms = [0.5, 0.5]\nread_hit_ms = [0.1, 0.2]\nread_miss_ms = [0.3, 0.4]\n\
                      write_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]\nsegments = 2\nsegment_sectors = 8\n\
                      read_ahead = \"segment\"\nread_ahead_sectors = 9\nwrite_back = \"all\"\nwrite_segments = 2\n[geometry]\n";
    TOY.replace("cylinder_skew = 3", zone)
        .replace("[geometry]\n", controller)
        .replace("\"geometry\"]", "\"geometry\", \"controller\"]")
        .replace("capacity_sectors = 60", "capacity_sectors = 53")
}

#[test]
fn no_changed_byte_panics_in_the_parser_or_in_the_disk() {
    let text = full();
    DiskSpec::parse("full", &text).unwrap();
    let mut made = 0;
    for i in 0..text.len() {
        for with in ["0", "9", "-", ".", "e", "\"", "]", "\n"] {
            let mut changed = text.clone();
            changed.replace_range(i..=i, with);
            let Ok(spec) = DiskSpec::parse("changed", &changed) else { continue };
            let Ok(mut disk) = Disk::new(&spec) else {
                panic!("checked twice, differently: {changed}")
            };
            let end = disk.capacity().get();
            for (at, op, start, len) in [
                (0, Op::Read, 0, end),
                (1, Op::Write, end / 2, end - end / 2),
                (u64::MAX, Op::Read, end - 1, 1),
                (u64::MAX - 9, Op::Flush, 0, 0),
                (77, Op::WriteZeroes, 1.min(end - 1), 1),
            ] {
                // Disks of millions of sectors would take long, but not panic.
                disk.access(SimTime(at), op, Extent::new(start, len.min(10_000))).unwrap();
            }
            made += 1;
        }
    }
    assert!(made > 500, "{made}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read the corpus from disk")]
fn the_corpus_breaks_nothing() {
    let replay = |name: &str, target: fn(&[u8])| {
        let dir = format!("{}/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no corpus");
        files.iter().for_each(|f| target(&std::fs::read(f).unwrap()));
    };
    replay("toml", crate::harness::toml);
    replay("import", crate::harness::import);
}
