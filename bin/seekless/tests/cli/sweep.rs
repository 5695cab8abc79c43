//! `simulate --sweep`: each row is the run of its own, to the last digit, in a fixed order.

use serde_json::Value;

use crate::support::{Place, TOY, mixed, run_of, timeless};

const POLICIES: &str = "vanilla,adaptive,borg,clairvoyant";

fn place() -> Place {
    let place = Place::new();
    place.file("t.disksim", mixed()).file("toy.toml", TOY);
    place
}

/// The rows of a CSV without quotes, by title.
fn rows(csv: &str) -> Vec<Vec<(&str, &str)>> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let titles = lines.next().unwrap();
    lines.map(|line| titles.iter().copied().zip(line).collect()).collect()
}

fn of<'a>(row: &[(&str, &'a str)], title: &str) -> &'a str {
    row.iter().find(|(t, _)| *t == title).unwrap_or_else(|| panic!("no column {title}")).1
}

#[test]
fn a_sweep_has_the_numbers_of_single_runs_to_the_last_digit() {
    let place = place();
    let base = ["t.disksim", "--disk", "wd800jb", "--policy", POLICIES, "--train", "30%"];
    let sweep = ["--sweep", "cluster=0,64KiB", "--sweep", "cache=64KiB,1MiB", "--csv"];
    for (workers, file) in [("1", "one.csv"), ("3", "three.csv")] {
        let ran =
            place.run(&[&["simulate"][..], &base, &sweep, &[file, "--workers", workers]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    }
    let csv = place.text_of("one.csv");
    assert_eq!(csv, place.text_of("three.csv"));
    let rows = rows(&csv);
    assert_eq!(rows.len(), 4 * 4);
    let mut expected = Vec::new();
    for cluster in ["0", "64KiB"] {
        for cache in ["64KiB", "1MiB"] {
            let more = ["--cluster", cluster, "--cache", cache];
            let text = place.text(&[&base[..], &more].concat());
            let json = timeless(serde_json::from_str(&text).unwrap());
            for policy in POLICIES.split(',') {
                let run = run_of(&json, policy).clone();
                expected.push((cluster, cache, policy, text.clone(), run));
            }
        }
    }
    for (row, (cluster, cache, policy, text, run)) in rows.iter().zip(&expected) {
        assert_eq!((of(row, "cluster"), of(row, "cache")), (*cluster, *cache));
        assert_eq!(of(row, "policy"), *policy);
        // A parsed number may differ from its text in the last digit, so the text is compared too.
        let same = |column: &str, name: &str, value: &Value| {
            let found = of(row, column);
            assert_eq!(serde_json::from_str::<Value>(found).unwrap(), *value, "{policy} {column}");
            assert!(text.contains(&format!("\"{name}\": {found}")), "{policy} {column}: {found}");
        };
        for (name, value) in run.as_object().unwrap() {
            match value {
                Value::Number(_) => same(name, name, value),
                Value::Object(inner) => {
                    inner.iter().for_each(|(p, value)| same(&format!("{name}_{p}"), p, value));
                }
                _ => {}
            }
        }
    }
    let busy: Vec<&str> = rows.iter().map(|row| of(row, "busy_s")).collect();
    let changes = |cell: usize| busy[..4] != busy[4 * cell..4 * cell + 4];
    assert!(changes(1) && changes(2), "the settings change nothing: {busy:?}");
}

#[test]
fn every_key_of_a_sweep_is_an_option_of_simulate() {
    let help = Place::new().run(&["simulate", "--help"]).out;
    for key in seekless_compare::KEYS {
        assert!(help.contains(&format!("--{key}")), "{key}");
    }
}

#[test]
fn every_key_means_what_the_option_means() {
    let place = place();
    let base = ["t.disksim", "--disk", "wd800jb", "--policy", "vanilla,borg"];
    for (key, value) in [
        ("train", "20%"),
        ("queue-depth", "4"),
        ("think", "5ms"),
        ("scheduler", "sptf"),
        ("spin-down", "2"),
        ("read-ahead", "0"),
        ("optimized", "16MiB"),
        ("write-buffer", "50%"),
        ("free", "10%"),
        ("free-seed", "3"),
        ("disk", "exos-x20"),
        ("open-loop", "true"),
    ] {
        let option = format!("--{key}");
        let mut single: Vec<&str> = base
            .iter()
            .copied()
            .filter(|a| key != "disk" || !a.contains("wd800jb") && *a != "--disk")
            .collect();
        single.push(&option);
        if key != "open-loop" {
            single.push(value);
        }
        let json = place.json(&single);
        let swept = format!("{key}={value}");
        let ran = place.done(&[&["simulate"][..], &base, &["--sweep", &swept]].concat());
        for (row, policy) in rows(&ran.out).iter().zip(["vanilla", "borg"]) {
            let run = run_of(&json, policy);
            for name in ["busy_s", "span_s", "device_ios", "moved_bytes", "optimized_bytes"] {
                assert_eq!(of(row, name), run[name].to_string(), "{key} {policy} {name}");
            }
        }
    }
}

#[test]
fn wrong_sweeps_are_refused_with_what_to_do() {
    let place = place();
    for (sweep, words) in [
        ("--sweep clutser=1", &["Did you mean 'cluster'?", "cache, cluster"][..]),
        ("--sweep cache=1QB", &["cache", "1QB"]),
        ("--sweep cache=1MiB --sweep cache=2MiB", &["twice"]),
        ("--sweep open-loop=true,false --sweep queue-depth=1,8", &["two ways of replay"]),
        ("--sweep think=1ms --sweep queue-depth=2", &["two ways of replay"]),
        ("--open-loop --sweep think=1ms", &["two ways of replay"]),
        ("--queue-depth 8 --sweep open-loop=true", &["two ways of replay"]),
        ("--sweep cache=1MiB --json -", &["--json"]),
        ("--sweep disk=rz55", &["disk=rz55", "Choose a larger disk"]),
        ("--csv x.csv", &["--sweep"]),
    ] {
        place.refuses(&format!("simulate t.disksim --disk wd800jb {sweep}"), words);
    }
}
