//! Specifications as text: what is accepted, and what an error says.

use seekless_disk::{DiskSpec, catalogue};

use crate::toy::TOY;

/// The error after replacing `from` by `to` in the toy, and the line `to` stands on.
fn broken(from: &str, to: &str) -> (seekless_disk::SpecError, usize) {
    assert_eq!(TOY.matches(from).count().min(1), 1, "{from}");
    let text = TOY.replacen(from, to, 1);
    let at = TOY.find(from).unwrap();
    let line =
        1 + TOY[..at].matches('\n').count() + from.len() - from.trim_start_matches('\n').len();
    (DiskSpec::parse("toy.toml", &text).unwrap_err(), line)
}

#[test]
fn values_out_of_range_are_told_with_file_line_field_and_range() {
    for (from, to, field, allowed) in [
        ("rpm = 6000", "rpm = 600000", "mechanics.rpm", "60 to 30000"),
        ("rpm = 6000", "rpm = nan", "mechanics.rpm", "60 to 30000"),
        (
            "head_switch_ms = 1.0",
            "head_switch_ms = -1.0",
            "mechanics.head_switch_ms",
            "0 to 2000 ms",
        ),
        ("heads = 2", "heads = 0", "geometry.heads", "1 to 256"),
        ("first_cylinder = 2", "first_cylinder = 1", "geometry.zone[1].first_cylinder", "2 (past"),
        (
            "sectors_per_track = 5",
            "sectors_per_track = 0",
            "geometry.zone[1].sectors_per_track",
            "1 to 65536",
        ),
        ("cylinder_skew = 3", "cylinder_skew = 11", "geometry.zone[0].cylinder_skew", "0 to 10"),
        ("capacity_sectors = 60", "capacity_sectors = 61", "capacity_sectors", "1 to 60"),
        ("idle_w = 5.0", "idle_w = 5e3", "power.idle_w", "0 to 1000 W"),
        (
            "points = [[1, 2.0], [2, 3.0], [3, 4.0]]",
            "points = [[1, 2.0], [1, 3.0]]",
            "seek.points[1]",
            "2 to",
        ),
    ] {
        let (e, line) = broken(from, to);
        assert_eq!((e.file.as_str(), e.line, e.field.as_str()), ("toy.toml", line, field), "{e}");
        assert!(e.what.contains(allowed), "{e}");
        assert!(e.to_string().starts_with(&format!("toy.toml:{line}: {field}: ")), "{e}");
    }
}

#[test]
fn wrong_types_unknown_and_missing_fields_are_told_with_their_line() {
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
        // Cutting the last table or its strings leaves something unsourced or unfinished.
        if let Err(e) = DiskSpec::parse("cut", &TOY[..end]) {
            assert!(e.line <= TOY.matches('\n').count() + 1);
        } else {
            panic!("accepted when cut at byte {end}");
        }
    }
}

#[test]
fn the_catalogue_reads_back_from_its_own_toml() {
    let mut names = 0;
    for name in catalogue::names() {
        let spec = catalogue::get(name).unwrap();
        assert_eq!(spec.name, name);
        let again = DiskSpec::parse(name, &spec.to_toml().unwrap()).unwrap();
        assert_eq!(again, spec);
        names += 1;
    }
    assert!(names >= 2);
    let e = catalogue::get("floppy").unwrap_err().to_string();
    assert!(e.contains("floppy") && e.contains("wd800jb"), "{e}");
}
