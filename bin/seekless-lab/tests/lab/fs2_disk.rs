//! `reproduce fs2-disk`, through the binary.

use std::fs;

use crate::support::Place;

#[test]
fn accesses_of_fs2s_disk_have_their_parts() {
    let place = Place::new();
    let (html, figures) = (place.path("r.html"), place.path("figures"));
    let outs = ["--report", "r.html", "--figures", "figures"];
    let v = place.told(&[&["reproduce", "fs2-disk"], &outs[..]].concat());
    for disk in v["figure2"].as_array().unwrap() {
        let of = |key: &str| disk[key].as_f64().unwrap();
        let parts = of("seek_ms") + of("rotation_ms") + of("transfer_ms");
        assert!((parts - of("access_ms")).abs() < 1e-9, "{disk}");
        // Random reads: seek is the greatest part, transfer is small.
        assert!(of("seek_ms") > of("rotation_ms") && of("transfer_ms") < 0.05 * parts, "{disk}");
    }
    // Half a revolution of the testbed's 7200 rpm is 4.17 ms.
    let testbed = v["figure2"].as_array().unwrap().iter().find(|d| d["disk"] == "wd800jb").unwrap();
    assert!((testbed["rotation_ms"].as_f64().unwrap() - 4.167).abs() < 0.05, "{testbed}");
    assert!((v["figure8"]["band_ms"].as_f64().unwrap() - 8.333).abs() < 0.1);
    for file in [
        "01-the-parts-of-a-random-read-of-4-kib.svg",
        "02-wd800jb-access-time-over-seek-distance.svg",
    ] {
        assert!(fs::read_to_string(figures.join(file)).unwrap().contains("<svg"));
        assert!(figures.join(file).with_extension("csv").exists());
    }
    // The report is written although JSON goes to standard output.
    assert!(fs::read_to_string(&html).unwrap().contains("FS2&#39;s numbers and ours"));
}
