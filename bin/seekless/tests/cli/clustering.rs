//! `model`, `reproduce clustering`, and placement by temperature in `simulate` and `stat`, through the binary.

use serde_json::Value;

use crate::support::{Place, TOY, number};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_clustering_paper_is_reproduced_with_its_statements_beside_ours() {
    let place = Place::new();
    let args = ["reproduce", "clustering", "--runs", "1", "--report", "c.html", "--json", "-"];
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = json(&ran.out);
    assert_eq!(told["what"], "clustering");
    let figures = told["figures"].as_array().unwrap();
    let numbers: Vec<u64> = figures.iter().map(|f| f["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (3..=12).collect::<Vec<_>>());
    assert!(figures.iter().all(|f| f["lines"].as_array().is_some_and(|l| l.len() >= 3)));
    let claims = told["claims"].as_array().unwrap();
    assert!(claims.len() == 15 && claims.iter().all(|c| c["holds"] == true), "{claims:?}");
    let html = std::fs::read_to_string(place.path("c.html")).unwrap();
    assert!(html.contains("Figure 12") && html.contains("modelled"));
}

#[test]
fn the_model_says_what_a_layout_brings_and_refuses_what_is_none() {
    let place = Place::new();
    let args =
        ["model", "--layout", "perfect,buckets:6+drift:20%", "--queue", "1,50", "--runs", "1"];
    let ran = place.run(&[&args[..], &["--json", "-"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = json(&ran.out);
    assert_eq!((&told["schema"], &told["cylinders"]), (&"seekless.model/1".into(), &1224.into()));
    let seeks: Vec<f64> =
        told["layouts"].as_array().unwrap().iter().map(|l| number(&l["seek_ms"])).collect();
    assert!(seeks[1] < seeks[2] && seeks[2] < seeks[0], "{seeks:?}");
    let ran = place.run(&["model", "--disk", "wd800jb", "--queue", "10", "--runs", "1"]);
    assert!(ran.code == Some(0) && ran.out.contains("lazy:8%"), "{}", ran.err);
    for (bad, words) in [
        (&["model", "--layout", "best"][..], "+drift:SHARE"),
        (&["model", "--disk", "nowhere"], "nowhere"),
        (&["model", "--queue", "301"], "300"),
        (&["model", "--block", "0"], "block"),
    ] {
        let ran = place.run(bad);
        assert!(ran.code == Some(2) && ran.err.contains(words), "{bad:?}: {}", ran.err);
    }
}

#[test]
fn placement_by_temperature_is_compared_on_a_trace() {
    // Eight hot megabytes all over the disk, read again and again in another order each time.
    let place = Place::new();
    place.file("toy.toml", TOY);
    let mut text = String::from("time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n");
    let mut state = 7u64;
    for n in 0..4000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Of forty places the lower numbers are hotter.
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        let at = (unit * unit * 40.0) as u64 * 2111 % 84_000 / 8 * 8;
        text += &format!("{n}.0,,R,{at},8,,,,\n");
    }
    place.file("t.csv", text);
    let policies = "vanilla,organ-pipe,buckets,lazy,cylinder-shuffle,block-shuffle,outer-zone,cylinders-in-place,blocks-in-place";
    let args =
        ["simulate", "t.csv", "--disk", "toy.toml", "--policy", policies, "--optimized", "4MiB"];
    let ran = place.run(
        &[&args[..], &["--cache", "0", "--read-ahead", "0", "--cluster", "0", "--json", "-"]]
            .concat(),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = json(&ran.out);
    let runs = told["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 9);
    let seek = |name: &str| {
        let run = runs.iter().find(|r| r["policy"] == name).unwrap();
        number(&run["seek_s"])
    };
    let vanilla = seek("vanilla");
    for name in [
        "organ-pipe",
        "buckets",
        "block-shuffle",
        "outer-zone",
        "cylinders-in-place",
        "blocks-in-place",
    ] {
        assert!(seek(name) < vanilla * 0.7, "{name}: {} of {vanilla}", seek(name));
        let run = runs.iter().find(|r| r["policy"] == name).unwrap();
        assert!(
            number(&run["background_busy_s"]) > 0.0 && number(&run["moved_bytes"]) > 0.0,
            "{run}"
        );
    }
    assert!(seek("lazy") < vanilla && seek("lazy") > seek("organ-pipe"));
    // The trace's temperature, as a mixture.
    let ran = place.run(&["stat", "t.csv", "--json", "-"]);
    let told = json(&ran.out);
    let mixture = &told["mixture"];
    assert!(
        number(&mixture["off_most"]) < 0.15 && number(&mixture["seek_shorter"]) > 0.05,
        "{mixture}"
    );
}
