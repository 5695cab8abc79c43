//! Devices without an arm, on the command line: operations counted, the bill, and what they are no
//! use for.

use serde_json::Value;

use crate::support::{Place, TOY, disksim, number, run_of};

/// Half a GiB at 25 cents a GiB and month; 40 cents a million reads.
const VOLUME: &str = r#"
kind = "cloud_hdd"
name = "paper"
title = "A volume worked out on paper"
capacity_sectors = 1048576
[service]
lanes = 2
read_ms = 2.0
write_ms = 2.0
lane_read_mb_s = 512.0
lane_write_mb_s = 512.0
[operations]
rule = "merged"
kib = 1024
window_ms = 50.0
streams = 2
[price]
usd_per_gib_month = 0.25
usd_per_million_reads = 0.4
usd_per_million_writes = 5.0
[[source]]
fields = ["capacity_sectors", "service", "operations", "price"]
kind = "derived"
from = "made up"
"#;

fn simulate(requests: &[(u64, u64, bool)]) -> Value {
    let place = Place::new();
    place.file("trace", disksim(requests)).file("paper.toml", VOLUME);
    let args = ["trace", "--disk", "./paper.toml", "--policy", "vanilla", "--train", "0"];
    place.json(&[&args[..], &["--cache", "0", "--read-ahead", "0"]].concat())
}

#[test]
fn operations_are_counted_and_billed() {
    // 100 reads in sequence, one after the other: 400 KiB in one operation. Each takes 2.008 ms.
    let in_order: Vec<_> = (0..100).map(|i| (i * 8, 8, true)).collect();
    let json = simulate(&in_order);
    let run = run_of(&json, "vanilla");
    assert_eq!(run["operations"]["reads"], 1);
    assert_eq!(run["operations"]["writes"], 0);
    assert!((number(&run["busy_s"]) - 0.2008).abs() < 1e-9, "{run}");
    let cost = &run["cost_usd"];
    assert!((number(&cost["operations"]) - 0.4e-6).abs() < 1e-15, "{cost}");
    let holding = 0.125 * 0.2008 / (730.0 * 3_600.0);
    assert!((number(&cost["holding"]) / holding - 1.0).abs() < 1e-9, "{cost}");
    let total = number(&cost["total"]);
    assert!((total - 0.4e-6 - holding).abs() < 1e-15, "{cost}");
    assert!((number(&cost["per_million_requests"]) / (total * 1e4) - 1.0).abs() < 1e-9, "{cost}");
    assert!(json["notes"].to_string().contains("power of paper is not known"), "{json}");
    assert!(run["energy_j"].as_object().unwrap().values().all(Value::is_null), "{run}");
    assert_eq!(run["j_per_op"], Value::Null);
    // The same reads all over: one operation each.
    let scattered: Vec<_> = (0..100).map(|i| (i * 7_919 % 100 * 1_000, 8, true)).collect();
    assert_eq!(run_of(&simulate(&scattered), "vanilla")["operations"]["reads"], 100);
}

/// Zero watts in a disk's description are not known, whether it is from the catalogue or a file.
#[test]
fn a_disk_of_unknown_power_has_no_energy_and_saves_none() {
    let once: Vec<_> = (0..500).map(|i| (i * 7_919 % 500 * 128, 8, true)).collect();
    let place = Place::with("trace", disksim(&once.repeat(12)));
    let probed = TOY.replace("seek_w = 10.0", "seek_w = 0.0");
    let probed = probed.replace("rotation_transfer_w = 5.0", "rotation_transfer_w = 0.0");
    place.file("toy.toml", TOY).file("probed.toml", probed.replace("idle_w = 3.0", "idle_w = 0.0"));
    for (disk, known) in [("rz55", false), ("./probed.toml", false), ("./toy.toml", true)] {
        let args = ["trace", "--disk", disk, "--policy", "vanilla"];
        let json = place.json(&args);
        for run in json["runs"].as_array().unwrap() {
            let joules = run["energy_j"].as_object().unwrap().values().chain([&run["j_per_op"]]);
            joules.for_each(|j| assert_eq!(j.is_f64(), known, "{disk}: {run}"));
        }
        let note = "is not known, so its energy is unknown";
        assert_eq!(json["notes"].to_string().contains(note), !known, "{disk}");
        let told = place.ok(&[&["simulate"], &args[..]].concat());
        assert_eq!(told.contains("Energy, modelled"), known, "{told}");
        let columns = ["--sweep", "cache=0,1MiB", "--csv", "sweep.csv"];
        place.ok(&[&["simulate"], &args[..], &columns].concat());
        let csv = place.text_of("sweep.csv");
        assert!(csv.contains(",energy_j_total,"), "{csv}");
    }
    for (disk, other, known) in [
        ("rz55", "./probed.toml", [false, false]),
        ("rz55", "./toy.toml", [false, false]),
        ("./toy.toml", "rz55", [true, false]),
    ] {
        let args = ["advise", "trace", "--disk", disk, "--or", other, "--cache", "256KiB"];
        let advice = place.told(&args);
        for tried in advice["tried"].as_array().unwrap() {
            let known = known[usize::from(tried["change"] == "device")];
            assert_eq!(tried["saves_energy"].is_object(), known, "{tried}");
            assert_eq!(tried["held_out_saves_energy"].is_f64(), known, "{tried}");
        }
        let now = &advice["tried"][0];
        assert_eq!(now["total"]["joules"].is_f64(), known[0], "{now}");
        assert_eq!(now["laps"][0]["joules"].is_f64(), known[0], "{now}");
        assert!(known[0] || !advice["sentences"].to_string().contains("joules"), "{advice}");
        let year = &advice["a_year"];
        assert!(known[0] || year.is_null() || year["joules"].is_null(), "{year}");
        let notes = advice["notes"].to_string();
        assert!(notes.contains("the power of rz55 is not known"), "{notes}");
    }
}

/// The price of a volume that bills no operations does not depend on the time of a closed loop.
#[test]
fn a_closed_loop_does_not_price_the_holding_of_a_volume() {
    let scattered: Vec<_> = (0..100).map(|i| (i * 7_919 % 100 * 1_000, 8, true)).collect();
    let place = Place::with("trace", disksim(&scattered));
    let args = ["simulate", "trace", "--disk", "cloud-ssd", "--policy", "vanilla", "--train", "0"];
    let dollars = |more: &[&str]| {
        let out = place.ok(&[&args[..], more].concat());
        let row = out.lines().find(|line| line.trim_start().starts_with("vanilla")).unwrap();
        // Policy, busy time, operations, dollars.
        row.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!(dollars(&[]), "0");
    assert_ne!(dollars(&["--open-loop"]), "0");
}

/// The recorded desktop on a volume that bills and limits operations.
#[test]
fn the_adaptive_policy_saves_operations_and_money() {
    let place = Place::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst");
    let args = [sample, "--event", "D", "--train", "0", "--policy", "vanilla,adaptive"];
    let json = place.json(&[&args[..], &["--disk", "cloud-hdd-metered"]].concat());
    let operations = |policy: &str| {
        let run = run_of(&json, policy);
        let counted = &run["operations"];
        let usd = number(&run["cost_usd"]["operations"]);
        (number(&counted["reads"]) + number(&counted["writes"]), usd)
    };
    let (vanilla, adaptive) = (operations("vanilla"), operations("adaptive"));
    assert!(adaptive.0 < 0.7 * vanilla.0, "{adaptive:?} of {vanilla:?}");
    assert!(adaptive.1 < 0.7 * vanilla.1, "{adaptive:?} of {vanilla:?}");
}

/// A write, then three seconds of rest: a shingled drive cleans a band each time.
#[test]
fn a_note_names_the_work_that_a_drive_does_by_itself() {
    let write = |i: u64| format!("{}.0 0 {} 8 0\n", i * 3_000, i * 80_000);
    let place = Place::with("trace", (0..50).map(write).collect::<String>());
    let notes = |disk: &str| {
        let args = ["trace", "--disk", disk, "--policy", "vanilla", "--train", "0", "--open-loop"];
        place.json(&args)["notes"].to_string()
    };
    let own = "the drive's own work (cleaning, writing its cache, reading ahead)";
    assert!(notes("archive-8tb").contains(own), "{}", notes("archive-8tb"));
    assert_eq!(notes("wd800jb"), "[]");
}

#[test]
fn a_disk_has_no_operations_and_no_bill() {
    let place = Place::with("trace", disksim(&[(0, 8, true), (99, 8, false)]));
    let args = ["trace", "--disk", "wd800jb", "--policy", "vanilla", "--train", "0"];
    let json = place.json(&args);
    let run = run_of(&json, "vanilla").as_object().unwrap();
    assert!(!run.contains_key("operations") && !run.contains_key("cost_usd"));
}

#[test]
fn learned_layouts_run_on_every_kind_of_device() {
    let requests: Vec<_> = (0..200).map(|i| (i % 10 * 1_000, 8, i % 7 > 0)).collect();
    let place = Place::with("trace", disksim(&requests));
    for disk in ["exos-2x18", "archive-8tb", "sata-ssd", "cloud-hdd", "cloud-ssd", "object-store"] {
        let always = ["--policy", "vanilla,borg:planning=anew", "--cache", "0"];
        let json = place.json(&[&["trace", "--disk", disk], &always[..]].concat());
        for run in json["runs"].as_array().unwrap() {
            assert_eq!(run["requests"], 100, "{disk}");
            assert!(number(&run["span_s"]) > 0.0, "{disk}");
        }
        assert!(number(&run_of(&json, "borg")["moved_bytes"]) > 0.0, "{disk}");
    }
}

#[test]
fn what_needs_an_arm_refuses_what_has_none() {
    let place = Place::new();
    place.file("trace", "R Miss 0 8 5000 0\n").file("paper.toml", VOLUME);
    for (disk, kind) in [("exos-2x18", "dual_actuator"), ("./paper.toml", "cloud_hdd")] {
        place.refuses(&format!("disk validate --disk {disk} trace"), &[kind, "one arm"]);
    }
}

#[test]
fn the_list_is_grouped_by_kind() {
    let place = Place::new();
    let out = place.ok(&["disk", "list"]);
    let at = |name: &str| out.find(name).unwrap_or_else(|| panic!("{name} in {out}"));
    let order = "wd800jb exos-2x18 archive-8tb sata-ssd cloud-hdd cloud-ssd object-store";
    assert!(order.split(' ').map(at).is_sorted(), "{out}");
    let json: Value = serde_json::from_str(&place.ok(&["disk", "list", "--json"])).unwrap();
    assert_eq!(json["disks"].as_array().unwrap().len(), 20);
}
