//! What is refused, and in which words: file, line, field, and what is allowed.

use crate::support::Place;

/// A small drive of our own in DiskSim's words.
const SPECS: &str =
    "disksim_disk SMALL {\n   Model = source small.model,\n   Fast write level = 0\n}\n";
const MODEL: &str = "\
dm_disk SMALL_model {
   Number of data surfaces = 2,
   Number of cylinders = 100,
   Block count = 20000,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0,
      Sparing scheme used = 0,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0,
            Last cylinder number = 99,
            Blocks per track = 100,
            Offset of first block = 0.0,
            Empty space at zone front = 0,
            Skew for track switch = 10.0,
            Skew for cylinder switch = 20.0,
            Number of spares = 0,
            slips = [],
            defects = []
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Seek type = extracted,
      Full seek curve = Small.Seek,
      Head switch time = 1.0,
      Rotation speed (in rpms) = 6000
   }
}
";
const SEEK: &str = "Seek distances measured: 2\n1, 1.0\n99, 9.0\n";

const IMPORT: [&str; 3] = ["disk", "import", "small.diskspecs"];

fn place() -> Place {
    let place = Place::new();
    place.file("small.diskspecs", SPECS).file("small.model", MODEL).file("small.seek", SEEK);
    place
}

fn import_fails(place: &Place) -> String {
    place.fails(&[&IMPORT[..], &["-o", "o"]].concat())
}

/// Makes the entry of the small drive, `small.toml`.
fn imported(place: &Place) {
    place.ok(&[&IMPORT[..], &["-o", "small.toml"]].concat());
}

#[test]
fn a_small_drive_by_hand() {
    let place = place();
    imported(&place);
    // Sector 0, then 0 again after 5 ms: 6000 rpm turn in 10 ms, a sector passes in 0.1. The arm
    // stands there already, but the description's drive settles anew: both wait for the platter to
    // come by.
    place.file("t", "R Miss 0 1 10000 4900\nR Miss 0 1 10000 0\n");
    let v = place.told(&["disk", "validate", "--disk", "small.toml", "t"]);
    let keys: Vec<&str> = v.as_object().unwrap().keys().map(String::as_str).collect();
    let demerit = ["demerit_ms", "demerit_share", "disk", "measured_ms_mean"];
    assert_eq!(keys, [&demerit[..], &["model_ms_mean", "requests", "schema"]].concat());
    assert_eq!(v["schema"], "seekless.disk-validate/1");
    assert_eq!((&v["requests"], &v["disk"]), (&2.into(), &"small".into()));
    let shown = place.ok(&["disk", "show", "small.toml"]);
    assert!(shown.contains("rpm = 6000"), "{shown}");
    // As JSON in place of the entry.
    let v = place.told(&IMPORT);
    assert_eq!(v["schema"], "seekless.disk-import/1");
    assert_eq!(v["disk"]["mechanics"]["rpm"], 6000.0);
    assert_eq!(v["disk"]["capacity_sectors"], 20_000);
}

#[test]
fn faulty_descriptions_name_file_line_and_field() {
    let place = place();
    for (file, good, bad, said) in [
        ("small.model", "Number of cylinders = 100", "Number of cylinders = many", "small.model:3"),
        ("small.model", "= 6000", "= 6", "mechanics.rpm is 6; allowed: 60 to 30000"),
        ("small.model", "   Number of data surfaces = 2,\n", "", "no 'Number of data surfaces'"),
        ("small.model", "Last cylinder number = 99", "Last cylinder number = -1", "small.model:11"),
        ("small.model", "dm_layout_g1 {", "dm_layout_g9 {", "dm_layout_g9"),
        (
            "small.diskspecs",
            "source small.model",
            "source other.modell",
            "small.diskspecs:2: names the file 'other.modell'",
        ),
        (
            "small.diskspecs",
            "Fast write level = 0",
            "Fast write level = 7",
            "small.diskspecs:3: Fast write level",
        ),
        ("small.diskspecs", "disksim_disk", "disksim_bus", "no 'disksim_disk'"),
        ("small.seek", "99, 9.0", "99, nine", "eek:3"),
    ] {
        let text = place.text_of(file);
        assert!(text.contains(good), "{good}");
        place.file(file, text.replace(good, bad));
        let error = import_fails(&place);
        assert!(error.contains(said), "{bad}: {error}");
        assert!(!place.path("o").exists());
        place.file(file, &text);
    }
}

#[test]
fn faulty_measured_requests_are_refused() {
    let place = place();
    imported(&place);
    let fails_with = |text: &str| {
        place.file("t", text).fails(&["disk", "validate", "--disk", "small.toml", "t"])
    };
    assert!(fails_with("R Hit 1 2 3\n").contains("t:1: column 6"));
    assert!(fails_with("R Hit 1 2 3 4\n\nX Hit 1 2 3 4\n").contains("t:3: column 1"));
    let past = fails_with("R Hit 0 1 9 9\nR Hit 19999 2 9 9\n");
    assert!(past.contains("request 2") && past.contains("passes the end"), "{past}");
    let past = fails_with("R Hit 18446744073709551615 2 9 9\n");
    assert!(past.contains("passes the end"), "{past}");
    assert!(fails_with("").contains("holds no request"));
}
