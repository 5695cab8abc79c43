//! Import and validate against the references at hand. The bounds are what is reached, with a
//! little room.

use crate::beside::shared;
use crate::support::Place;

/// Names, and the demerit to stay below in milliseconds: the reference simulator's published
/// figure.
const DRIVES: [(&str, &str, f64); 5] = [
    ("atlas10k", "atlas10k", 0.268),
    ("cheetah9LP", "cheetah9LP", 0.107),
    ("barracuda", "barracuda", 0.349),
    ("ibm18es", "ibm18es", 0.135),
    ("hp_c3323a_validate", "hp_c3323a", 0.306),
];

#[test]
fn an_imported_drive_meets_its_measured_requests() {
    let Some(reference) = shared("an_imported_drive_meets_its_measured_requests", "reference")
    else {
        return;
    };
    let (place, disks) = (Place::new(), reference.with_file_name("traces").join("disks"));
    for (specs, trace, most) in DRIVES {
        let of = |name: String| disks.join(name).to_str().unwrap().to_owned();
        let (specs, trace) = (of(format!("{specs}.diskspecs")), of(format!("{trace}.trace.zst")));
        place.ok(&["disk", "import", &specs, "-o", "drive.toml"]);
        let v = place.told(&["disk", "validate", "--disk", "drive.toml", &trace]);
        let keys: Vec<&str> = v.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "demerit_ms",
            "demerit_share",
            "disk",
            "measured_ms_mean",
            "model_ms_mean",
            "requests",
            "schema",
        ];
        assert_eq!(keys, expected);
        assert_eq!(v["schema"], "seekless.disk-validate/1");
        assert!(v["requests"].as_u64().unwrap() > 9_000);
        let of = |key: &str| v[key].as_f64().unwrap();
        assert!(of("demerit_ms") <= most, "{v}");
        let share = of("demerit_ms") / of("measured_ms_mean");
        assert!((share - of("demerit_share")).abs() < 1e-12, "{v}");
        let means = of("model_ms_mean") / of("measured_ms_mean");
        assert!((means - 1.0).abs() < 0.03, "{v}");
    }
}
