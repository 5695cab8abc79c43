//! `model` and `reproduce clustering`, through the binary.

use crate::claims::held;
use crate::support::{Place, number};

#[test]
fn the_clustering_paper_is_reproduced() {
    let place = Place::new();
    let told = place.told(&["reproduce", "clustering", "--runs", "1", "--report", "c.html"]);
    assert_eq!(told["what"], "clustering");
    let figures = told["figures"].as_array().unwrap();
    let numbers: Vec<u64> = figures.iter().map(|f| f["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (3..=12).collect::<Vec<_>>());
    assert!(figures.iter().all(|f| f["lines"].as_array().is_some_and(|l| l.len() >= 3)));
    held("clustering-small", &told);
    let html = std::fs::read_to_string(place.path("c.html")).unwrap();
    assert!(html.contains("Figure 12") && html.contains("modelled"));
}

#[test]
fn the_model_compares_layouts() {
    let place = Place::new();
    let args =
        ["model", "--layout", "perfect,buckets:6+drift:20%", "--queue", "1,50", "--runs", "1"];
    let told = place.told(&args);
    assert_eq!((&told["schema"], &told["cylinders"]), (&"seekless.model/1".into(), &1224.into()));
    let seeks: Vec<f64> =
        told["layouts"].as_array().unwrap().iter().map(|l| number(&l["seek_ms"])).collect();
    assert!(seeks[1] < seeks[2] && seeks[2] < seeks[0], "{seeks:?}");
    let ran = place.run(&["model", "--disk", "wd800jb", "--queue", "10", "--runs", "1"]);
    assert!(ran.code == Some(0) && ran.out.contains("lazy:8%"), "{}", ran.err);
}
