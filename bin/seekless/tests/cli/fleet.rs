//! Advice for a folder of traces.

use serde_json::Value;

use crate::support::{Place, disksim, mixed};

#[test]
fn a_fleet_has_the_answers_of_each_trace_alone() {
    let place = Place::new();
    let text = mixed();
    std::fs::create_dir(place.path("fleet")).unwrap();
    place.file("fleet/a.blkparse", &text).file("fleet/b.blkparse", &text);
    place.file("fleet/c.blkparse", "no trace at all\n");
    // Its last line is older than the others.
    place.file("fleet/d.trace", disksim(&[(0, 8, true); 400]) + "9000.0 0 0 8 1\n5.0 0 0 8 1\n");
    let options = ["--disk", "wd800jb", "--policy", "borg", "--folds", "4"];
    let fleet = place.told(&[&["advise", "--fleet", "fleet"], &options[..]].concat());
    assert_eq!(fleet["schema"], "seekless.fleet/1");
    let disks = fleet["disks"].as_array().unwrap();
    assert_eq!(disks.len(), 4);
    let alone = place.told(&[&["advise", "fleet/b.blkparse"], &options[..]].concat());
    for disk in &disks[..2] {
        assert_eq!(disk["verdict"], alone["verdict"]);
        assert_eq!(disk["busy_s"], alone["tried"][0]["total"]["busy_s"]);
        assert_eq!(disk["error"], Value::Null);
    }
    assert!(disks[2]["error"].as_str().is_some_and(|e| e.contains("c.blkparse")), "{}", disks[2]);
    let said = disks[3]["notes"].as_str().unwrap();
    assert!(said.contains("not in order of time: 1 requests are older"), "{}", disks[3]);
    assert!(said.contains("first request 402"), "{}", disks[3]);
    assert_eq!(fleet["failed"], 1);
    let ran = place.run(&[&["advise", "--fleet", "fleet", "--csv", "-"], &options[..]].concat());
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 5), "{}", ran.err);
    // Rows without any answer are no success.
    std::fs::create_dir(place.path("bad")).unwrap();
    place.file("bad/a", "").file("bad/b", "");
    let ran = place.run(&["advise", "--fleet", "bad", "--disk", "wd800jb", "--csv", "-"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(2), 3), "{}", ran.err);
    assert!(ran.err.contains("bad/a: the file is empty"), "{}", ran.err);
    place.refuses("advise --fleet none --disk wd800jb", &["none: cannot list it"]);
}
