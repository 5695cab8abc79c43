//! `synth`, `reproduce borg` and `reproduce fs2` through the binary.

use seekless_papers::synth::Synthetic;
use seekless_trace::{OpenOptions, Source};
use serde_json::Value;

use crate::claims::held;
use crate::support::{Place, number};

#[test]
fn a_made_up_week_matches_the_paper_and_says_that_it_is_made_up() {
    let place = Place::new();
    let said = place.ok(&["synth", "borg-svn", "--json", "svn.json"]);
    assert!(said.contains("made up") && said.contains("50.73 %"), "{said}");
    assert_eq!(place.names(), ["borg-svn.parquet", "svn.json"]);
    let told = place.read("svn.json");
    assert_eq!(told["schema"], "seekless.synth/1");
    let rows = told["matched"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let off = number(&row["ours"]) / number(&row["printed"]) - 1.0;
        assert!(off.abs() < 0.05, "{row}");
    }
    // The file is the trace, and its reader says that the trace is made up.
    let mut reader =
        Source::new(place.path("borg-svn.parquet")).open(&OpenOptions::default()).unwrap();
    assert!(reader.info().format.caveat().unwrap().contains("synthetic"));
    let mut requests = 0u64;
    while reader.next_record().unwrap().is_some() {
        requests += 1;
    }
    assert_eq!(told["requests"], requests);

    place.refuses("synth borg-svn", &["--force"]);
}

#[test]
fn formats_seeds_and_sizes_of_a_made_up_week() {
    let place = Place::new();
    let csv = |seed: &str| {
        let args = ["synth", "borg-office", "--scale", "0.002", "--seed", seed, "-o", "csv:-"];
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.contains("standard output"), "{}", ran.err);
        ran.out
    };
    assert_eq!(csv("3"), csv("3"));
    assert_ne!(csv("3"), csv("4"));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn the_json_of_a_study_is_alone_on_standard_output() {
    let place = Place::new();
    let runs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/runs/quick-shared-vm");
    assert_eq!(place.told(&["study", "report", runs])["schema"], "seekless.study/1");
    let out = place.ok(&["study", "report", runs, "--json", "o.json"]);
    assert!(out.lines().count() > 10, "{out}");
}

/// Without measured times.
fn timeless(document: &Value) -> Value {
    let mut document = document.clone();
    for figure in document["phases"].as_array_mut().unwrap() {
        for system in figure["systems"].as_array_mut().unwrap() {
            for r in system["reconfigurations"].as_array_mut().unwrap() {
                assert!(number(&r["analyzer_s"]) >= 0.0);
                (r["analyzer_s"], r["planner_s"]) = (Value::Null, Value::Null);
            }
        }
    }
    document
}

/// Every system of a figure serves the same requests in the same phases.
fn check_systems(figure: &Value) {
    let systems = figure["systems"].as_array().unwrap();
    let requests = |s: &Value| -> Vec<u64> {
        s["phases"].as_array().unwrap().iter().map(|p| p["requests"].as_u64().unwrap()).collect()
    };
    assert_eq!(systems[0]["name"], "vanilla");
    assert_eq!(systems[0]["reconfigurations"].as_array().unwrap().len(), 0);
    for system in &systems[1..] {
        assert_eq!(requests(system), requests(&systems[0]));
        let reconfigurations = system["reconfigurations"].as_array().unwrap();
        assert_eq!((requests(system).len(), reconfigurations.len()), (5, 4));
        let change = &reconfigurations[0]["change"];
        assert!(number(&change["new_bytes"]) > 0.0);
        assert_eq!((&change["removed_bytes"], &change["kept_bytes"]), (&0.into(), &0.into()));
    }
}

#[test]
fn borg_is_reproduced_with_the_papers_numbers_beside_ours() {
    let runs = r#"{"runs": [
        {"name": "gimp", "system": "vanilla", "phase": "measured", "wall_s": 4.0},
        {"name": "gimp", "system": "vanilla", "phase": "measured", "wall_s": 6.0},
        {"name": "gimp", "system": "vanilla", "phase": "training", "wall_s": 60.0}]}"#;
    let place = Place::with("real.json", runs);
    let args = ["reproduce", "borg", "--scale", "0.01", "--started", "real.json"];
    let told = place.told(&[&args[..], &["--report", "b.html"]].concat());
    assert_eq!((&told["what"], &told["scale"]), (&"borg".into(), &0.01.into()));
    assert_eq!(told["table1"].as_array().unwrap().len(), 4);
    let figures = told["phases"].as_array().unwrap();
    assert_eq!(
        figures.iter().map(|f| f["figure"].as_str().unwrap()).collect::<Vec<_>>(),
        ["6", "7", "8", "11"]
    );
    figures.iter().for_each(check_systems);
    let gimp = &told["table4"][5];
    assert_eq!((&gimp["program"], &gimp["trained"]), (&"gimp".into(), &false.into()));
    assert_eq!(gimp["paper"]["seconds"][1], 3.66);
    let vanilla = number(&gimp["ours"]["vanilla"]["busy_s"]);
    assert!((vanilla / 3.62 - 1.0).abs() < 0.1, "{vanilla}");
    assert_eq!(told["started"][0]["means"][0]["wall_s"], 5.0);
    assert_eq!(told["figure12"].as_array().unwrap().len(), 12);
    held("borg-small", &told);
    let html = std::fs::read_to_string(place.path("b.html")).unwrap();
    assert!(html.contains("made up") && html.contains("real.json"));

    let again = place.ok(&[&args[..], &["--json", "again.json"]].concat());
    for words in ["Table 1", "272 s", "−45 %", "oaimpress", "Figure 12", "real.json", "made up"] {
        assert!(again.contains(words), "{words} is missing:\n{again}");
    }
    assert_eq!(timeless(&place.read("again.json")), timeless(&told));
}

#[test]
fn fs2_is_reproduced_within_its_tolerances() {
    let place = Place::new();
    let run = |scale: &str, seed: &str| -> Value {
        let args = ["reproduce", "fs2", "--scale", scale, "--seed", seed];
        place.told(&[&args[..], &["--report", "f.html"]].concat())
    };
    let told = run("0.02", "1");
    assert_eq!((&told["what"], &told["scale"]), (&"fs2".into(), &0.02.into()));
    assert_eq!(told, run("0.02", "1"), "the same seed gives the same numbers");
    let seed = Synthetic::SEED;
    let told = run("0.2", &seed.to_string());
    held("fs2-small", &told);
    let loads = told["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 4);
    // T_A of the seventh run: the paper's improvement, and the accepted difference at this
    // scale.
    for (load, short) in loads.iter().zip([0.12, 0.0, 0.0, 0.1]) {
        let last = |name: &str, what: &str| -> f64 {
            let systems = load["systems"].as_array().unwrap();
            let system = systems.iter().find(|s| s["name"] == name).unwrap();
            assert_eq!(system["runs"].as_array().unwrap().len(), 7);
            number(&system["last"][what])
        };
        let less = |name: &str, what: &str| 1.0 - last(name, what) / last("ext2", what);
        let paper = number(&load["paper"]["fs2"]["access"]);
        let whole = less("fs2-whole", "access_ms");
        assert!(whole >= paper - short, "seed {seed}, {}: {whole} of {paper}", load["load"]);
        for what in ["seek_ms", "rotation_ms", "access_mj"] {
            assert!(less("fs2-whole", what) > 0.2, "seed {seed}, {}: {what}", load["load"]);
            assert!(less("fs2", what) > 0.0, "seed {seed}, {}: {what}", load["load"]);
        }
        // The first run, which learns, is hardly slower (4.3.3).
        let systems = load["systems"].as_array().unwrap();
        let first = |name: &str| {
            let system = systems.iter().find(|s| s["name"] == name).unwrap();
            number(&system["runs"][0]["response_ms"])
        };
        for name in ["fs2", "fs2, 20 groups", "fs2-whole", "fs2-proven"] {
            let slower = first(name) / first("ext2") - 1.0;
            assert!(slower <= 0.02, "seed {seed}, {}, {name}: {slower}", load["load"]);
        }
        // The disk is as busy as the paper's disk.
        let busy = last("ext2", "disk_busy") / number(&load["paper"]["ext2_busy"]);
        assert!((0.8..1.25).contains(&busy), "seed {seed}, {}: {busy}", load["load"]);
    }
    let tpcw = &loads[0]["systems"][0]["last"];
    for (what, paper) in [("access_ms", 8.2), ("seek_ms", 3.8), ("rotation_ms", 4.3)] {
        let off = number(&tpcw[what]) / paper - 1.0;
        assert!(off.abs() < 0.15, "seed {seed}, TPC-W's {what}: {off}");
    }
    let html = std::fs::read_to_string(place.path("f.html")).unwrap();
    assert!(html.contains("synthetic") && html.contains("Table 5"));
}
