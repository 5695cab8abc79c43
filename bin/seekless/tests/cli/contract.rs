//! What programs rely on: `seekless simulate`, its JSON, and the laws its numbers keep.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::beside::shared;
use crate::support::{Dice, Place, TOY, busy, disksim, mixed, number, run_of, timeless, words};

// Keys and types. With `?` a value may be null; `within` is an object or a list.
const TOP: &str = "\
    schema:text trace:within disk:text scheduler:text spin_down:text replay:text \
    queue_depth:count? think_s:float? cache_bytes:count read_ahead_bytes:count cluster_bytes:count \
    optimized_bytes:count train:float split:within notes:texts runs:within";
const TRACE: &str = "\
    path:text format:text requests:count reads:count writes:count bytes:count \
    footprint_bytes:count span_s:float? has_times:bool has_processes:bool devices:count \
    days:count skipped:count";
const SPLIT: &str = "\
    by:text days:count train_days:count train_requests:count measured_requests:count";
const RUN: &str = "\
    policy:text optimized_start_sector:count? optimized_bytes:count requests:count \
    device_ios:count busy_s:float seek_s:float rotation_s:float transfer_s:float \
    overhead_s:float background_busy_s:float moved_bytes:count response_ms:within \
    energy_j:within j_per_op:float state_s:within spin_downs:count nonsequential_share:float \
    seek_distance_mean_sectors:float cache_hits:count copy_hits:count span_s:float wall_s:float \
    requests_per_wall_s:float";
/// Beside those of [`RUN`], for adaptive and clairvoyant.
const ADAPTIVE: &str = "\
    days:within prefetched_bytes:count prefetch_used_share:float trail_reads:count \
    trail_written_bytes:count guard_bypassed_s:float worst_excess_s:float";
const DAY: &str = "day:count vanilla_s:float busy_s:float background_busy_s:float";
const RESPONSE: &str = "mean:float p50:float p95:float p99:float max:float";
const ENERGY: &str = "\
    total:float seek:float rotation_transfer:float idle:float low_idle:float spin_down:float \
    standby:float spin_up:float background:float";
const STATES: &str = "\
    seek:float rotation_transfer:float idle:float low_idle:float spin_down:float standby:float \
    spin_up:float";

fn keys(tables: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    let words = tables.iter().flat_map(|table| table.split_whitespace());
    words.map(|word| word.split_once(':').unwrap()).collect()
}

fn exactly(object: &Value, tables: &[&'static str]) {
    let (object, keys) = (object.as_object().unwrap(), keys(tables));
    let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
    let mut wanted: Vec<&str> = keys.iter().map(|k| k.0).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    for (key, is) in keys {
        let v = &object[key];
        let right = match is {
            "text" => v.is_string(),
            "count" => v.is_u64(),
            "float" => v.is_f64(),
            "count?" => v.is_u64() || v.is_null(),
            "float?" => v.is_f64() || v.is_null(),
            "bool" => v.is_boolean(),
            "texts" => v.as_array().is_some_and(|a| a.iter().all(Value::is_string)),
            "within" => v.is_object() || v.is_array(),
            _ => panic!("no type {is}"),
        };
        assert!(right, "{key} is {v}, not {is}");
    }
}

#[test]
fn the_keys_of_the_json_are_those_promised() {
    let place = Place::new();
    place.file("a.trace", mixed()).file("b.lis", "0 8 0 0\n100 8 0 1\n0 8 1 2\n");
    for args in [&["a.trace", "--disk", "wd800jb"], &["b.lis", "--disk", "wd800jb"]] {
        let json = place.json(args);
        exactly(&json, &[TOP]);
        exactly(&json["trace"], &[TRACE]);
        exactly(&json["split"], &[SPLIT]);
        let runs = json["runs"].as_array().unwrap();
        let names: Vec<&str> = runs.iter().map(|r| r["policy"].as_str().unwrap()).collect();
        assert_eq!(names, ["vanilla", "adaptive", "clairvoyant"]);
        for run in runs {
            let adapts = run["policy"] != "vanilla";
            exactly(run, &[RUN, if adapts { ADAPTIVE } else { "" }]);
            for day in run["days"].as_array().into_iter().flatten() {
                exactly(day, &[DAY]);
            }
            exactly(&run["response_ms"], &[RESPONSE]);
            exactly(&run["energy_j"], &[ENERGY]);
            exactly(&run["state_s"], &[STATES]);
        }
        assert_eq!(json["schema"], "seekless.simulate/1");
        assert_eq!(run_of(&json, "vanilla")["optimized_start_sector"], Value::Null);
    }
    let json = place.json(&["b.lis", "--disk", "exos-x20", "--policy", "clairvoyant,vanilla"]);
    assert_eq!(json["trace"]["span_s"], Value::Null);
    assert_eq!(json["runs"][0]["policy"], "clairvoyant", "in the order asked");
    assert_eq!(json["disk"], "exos-x20");
}

#[test]
fn the_document_names_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/using/simulate.md");
    let document = std::fs::read_to_string(path).unwrap();
    let table = document.split("## The JSON").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    for (key, _) in keys(&[TOP, TRACE, SPLIT, RUN, ADAPTIVE, DAY, RESPONSE, ENERGY]) {
        let named = [
            format!("`{key}`"),
            format!(".{key}`"),
            format!("`{key}[]`"),
            format!(".{key}."),
            format!("`{key}."),
        ];
        assert!(
            named.iter().any(|n| table.contains(n)),
            "docs/using/simulate.md does not name {key}"
        );
    }
}

fn near(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3), "{what}: {a} is not {b}");
}

/// Busy time and energy are what their parts add up to; FS2's disk takes 14 W to seek and 8 W for
/// all else.
fn laws(json: &Value) {
    for run in json["runs"].as_array().unwrap() {
        let n = |key: &str| number(&run[key]);
        let e = |key: &str| number(&run["energy_j"][key]);
        let rest = n("rotation_s") + n("transfer_s") + n("overhead_s");
        near(n("busy_s"), n("seek_s") + rest, "busy");
        near(e("seek"), n("seek_s") * 14.0, "energy of seeking");
        near(e("rotation_transfer"), rest * 8.0, "energy of turning");
        near(e("total"), e("seek") + e("rotation_transfer") + e("idle") + e("background"), "total");
        near(n("j_per_op"), e("total") / n("requests"), "joules a request");
        let states = run["state_s"].as_object().unwrap();
        near(states.values().map(number).sum(), n("span_s"), "time by state");
        assert!(n("busy_s") <= n("span_s") + 1e-9, "one arm does one thing at a time");
        let idle = number(&states["idle"]);
        near(e("idle"), idle * 8.0, "energy of idling");
        let background = n("background_busy_s");
        // An adaptive policy does background work between requests; a plan is moved before them.
        let between = if run.get("days").is_some() { background } else { 0.0 };
        assert!((-1e-9..=between + 1e-9).contains(&(n("span_s") - n("busy_s") - idle)));
        assert!(e("background") >= background * 8.0 - 1e-9);
        assert!(e("background") <= background * 14.0 + 1e-9);
        assert!(n("cache_hits") + n("copy_hits") <= n("requests"));
        assert!(n("nonsequential_share") <= 1.0);
        let r = |key: &str| number(&run["response_ms"][key]);
        assert!(r("p50") <= r("p95") && r("p95") <= r("p99") && r("mean") <= r("max"));
    }
}

#[test]
fn busy_time_and_energy_are_the_sums_of_their_parts() {
    let place = Place::with("a.trace", mixed());
    for more in [&[][..], &["--open-loop"], &["--queue-depth", "8", "--scheduler", "sptf"]] {
        laws(&place.json(&[&["a.trace", "--disk", "wd800jb"], more].concat()));
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let place = Place::with("a.trace", mixed());
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "256KiB"];
    let timeless_text = || {
        let text = place.text(&args);
        let lines = text.lines().filter(|l| !l.contains("wall_s"));
        lines.map(|l| format!("{l}\n")).collect::<String>()
    };
    let first = timeless_text();
    assert_eq!(first, timeless_text());
    assert_eq!(first.lines().count(), place.text(&args).lines().count() - 6);
}

#[test]
fn the_same_requests_by_another_way_are_the_same_runs() {
    let place = Place::new();
    let text = mixed();
    let packed = |mut to: Box<dyn std::io::Write>| {
        to.write_all(text.as_bytes()).unwrap();
        to.flush().unwrap();
    };
    let create = |name: &str| std::fs::File::create(place.path(name)).unwrap();
    place.file("plain", &text);
    place.file("zst", zstd::encode_all(text.as_bytes(), 3).unwrap());
    packed(Box::new(flate2::write::GzEncoder::new(create("gz"), flate2::Compression::fast())));
    packed(Box::new(bzip2::write::BzEncoder::new(create("bz2"), bzip2::Compression::fast())));
    packed(Box::new(liblzma::write::XzEncoder::new(create("xz"), 3)));
    place.ok(&["convert", "plain", "store.parquet"]);
    let plain = timeless(place.json(&["plain", "--disk", "wd800jb"]));
    assert_eq!(plain["trace"]["format"], "disksim");
    for name in ["zst", "gz", "bz2", "xz", "store.parquet"] {
        let mut other = timeless(place.json(&[name, "--disk", "wd800jb"]));
        assert_eq!(other["trace"]["path"], name);
        other["trace"]["path"] = plain["trace"]["path"].clone();
        if name == "store.parquet" {
            assert_eq!(other["trace"]["format"], "parquet");
            other["trace"]["format"] = plain["trace"]["format"].clone();
        }
        assert_eq!(other, plain, "{name}");
    }
    for name in ["-", "disksim:-"] {
        let args = ["simulate", name, "--disk", "wd800jb", "--json", "-"];
        let ran = place.feed(&args, text.as_bytes());
        let json: Value = serde_json::from_str(&ran.out).expect(&ran.err);
        assert_eq!(timeless(json)["runs"], plain["runs"], "{name}");
    }
}

#[test]
fn training_takes_a_share_of_requests_or_of_days() {
    let place = Place::with("a.trace", mixed());
    // Ten requests on day 0, 20 on day 1, 30 on day 4, 40 on day 5.
    let mut lis = String::new();
    let mut dice = Dice::new(5);
    for (day, n) in [(0, 10), (1, 20), (4, 30), (5, 40)] {
        for _ in 0..n {
            lis += &format!("{} 8 {day} {}\n", dice.below(1_000_000) * 8, lis.lines().count());
        }
    }
    place.file("b.lis", lis);
    let split = |trace: &str, train: &str| {
        let json = place.json(&[trace, "--disk", "wd800jb", "--train", train]);
        let s = &json["split"];
        let n = |key: &str| s[key].as_u64().unwrap();
        let runs = json["runs"].as_array().unwrap();
        assert!(runs.iter().all(|r| r["requests"] == s["measured_requests"]));
        assert_eq!(n("train_requests") + n("measured_requests"), json["trace"]["requests"]);
        (s["by"].as_str().unwrap().to_owned(), n("train_days"), n("train_requests"))
    };
    assert_eq!(split("b.lis", "50%"), ("days".to_owned(), 2, 30));
    assert_eq!(split("b.lis", "0.75"), ("days".to_owned(), 3, 60));
    assert_eq!(split("b.lis", "99%"), ("days".to_owned(), 3, 60), "a day is left to measure");
    assert_eq!(split("b.lis", "0"), ("requests".to_owned(), 0, 0));
    let all = mixed().lines().count() as u64;
    assert_eq!(split("a.trace", "50%"), ("requests".to_owned(), 0, all / 2));
    assert_eq!(split("a.trace", "10%"), ("requests".to_owned(), 0, all / 10));

    for borg in ["borg", "borg:planning=anew"] {
        let policies = format!("vanilla,{borg}");
        let args = ["a.trace", "--disk", "wd800jb", "--train", "0%", "--policy", &policies];
        let json = place.json(&args);
        assert_eq!(busy(&json, "borg"), busy(&json, "vanilla"), "it learned nothing");
        assert_eq!(run_of(&json, "borg")["moved_bytes"], 0);
    }
}

#[test]
fn sizes_are_read_with_their_units() {
    let place = Place::with("a.trace", mixed());
    let base = ["a.trace", "--disk", "wd800jb", "--policy", "vanilla,borg"];
    let of = |more: &str| place.json(&[&base[..], &words(more)[..]].concat());
    let a = of("--cache 1MiB --read-ahead 64KB --cluster 0 --optimized 0.5GiB");
    assert_eq!(a["cache_bytes"], 1 << 20);
    assert_eq!(a["read_ahead_bytes"], 64_000);
    assert_eq!(a["cluster_bytes"], 0);
    assert_eq!(a["optimized_bytes"], 1 << 29);
    let b = of("--cache 1048576 --read-ahead 64000 --cluster 0B --optimized 512mib");
    assert_eq!(timeless(a), timeless(b));
    let defaults = of("");
    for (key, bytes) in [
        ("cache_bytes", 16 << 20),
        ("read_ahead_bytes", 64 << 10),
        ("cluster_bytes", 64 << 10),
        ("optimized_bytes", 256 << 20),
    ] {
        assert_eq!(defaults[key], bytes, "{key}");
    }
    assert_eq!(defaults["train"], 0.5);
    assert_eq!((&defaults["scheduler"], &defaults["queue_depth"]), (&"fcfs".into(), &1.into()));
}

#[test]
fn vanilla_does_not_depend_on_what_only_the_others_use() {
    let place = Place::with("a.trace", mixed());
    let of = |more: &[&str]| {
        let args = [&["a.trace", "--disk", "wd800jb", "--cache", "512KiB"], more].concat();
        run_of(&timeless(place.json(&args)), "vanilla").clone()
    };
    let vanilla = of(&[]);
    for more in [
        &["--optimized", "64MiB"][..],
        &["--cluster", "0"],
        &["--cluster", "1MiB"],
        &["--policy", "vanilla,borg:area-at=end"],
        &["--policy", "vanilla,borg:min-weight=3"],
        &["--policy", "vanilla"],
    ] {
        assert_eq!(of(more), vanilla, "{more:?}");
    }
    assert_ne!(of(&["--read-ahead", "0"]), vanilla, "what it does use, it depends on");
    assert_ne!(of(&["--train", "25%"]), vanilla);
}

#[test]
fn a_queue_is_kept_full_in_a_closed_loop() {
    let place = Place::with("a.trace", mixed());
    let base = ["a.trace", "--disk", "wd800jb", "--policy", "vanilla", "--cache", "0"];
    let of = |more: &[&str]| place.json(&[&base, more].concat());
    let (one, fcfs) = (of(&[]), of(&["--queue-depth", "8"]));
    let sptf = of(&["--queue-depth", "8", "--scheduler", "sptf"]);
    assert_eq!((&fcfs["queue_depth"], &fcfs["replay"]), (&8.into(), &"closed".into()));
    let thinks = of(&["--think", "20ms"]);
    assert_eq!((number(&thinks["think_s"]), &thinks["queue_depth"]), (0.02, &1.into()));
    assert_eq!(one["think_s"], Value::Null);
    assert_eq!(sptf["scheduler"], "sptf");
    assert_eq!(fcfs["runs"][0]["device_ios"], one["runs"][0]["device_ios"]);
    assert!(busy(&sptf, "vanilla") < 0.9 * busy(&fcfs, "vanilla"), "it had eight to choose from");
    let mean = |json: &Value| number(&json["runs"][0]["response_ms"]["mean"]);
    assert!(mean(&fcfs) > 6.0 * mean(&one), "each waits for about seven others");
}

#[test]
fn a_disk_that_stops_its_platters_saves_energy_and_costs_time() {
    // Two readers, and a pause of 100 s in the middle of what is measured.
    let lines: String = (0..40u64)
        .map(|i| format!("{} 0 {} 8 1\n", i * 20 + 100_000 * (i / 30), i * 7_919 % 90_000 * 8))
        .collect();
    let place = Place::with("pause.trace", lines);
    let base = words("disksim:pause.trace --disk wd800jb --policy vanilla --train 0 --open-loop");
    let of = |policy: &str| place.json(&[&base[..], &["--spin-down", policy]].concat());
    let (none, five) = (of("none"), of("5"));
    assert_eq!((&none["spin_down"], &five["spin_down"]), (&"none".into(), &"5".into()));
    let run = |json: &Value, key: &str| number(&json["runs"][0][key]);
    let state = |json: &Value, what: &str, key: &str| number(&json["runs"][0][what][key]);
    assert_eq!((run(&none, "spin_downs"), run(&five, "spin_downs")), (0.0, 1.0));
    // 5.5 s of spinning up at 17 W, within a second's reach of 95 s at 1 W instead of 8.
    near(state(&five, "energy_j", "spin_up"), 5.5 * 17.0, "spin-up");
    let standby = state(&five, "state_s", "standby");
    assert!((94.0..96.0).contains(&standby), "{standby}");
    near(state(&five, "energy_j", "standby"), standby, "1 W");
    let saved = state(&none, "energy_j", "total") - state(&five, "energy_j", "total");
    assert!((500.0..600.0).contains(&saved), "{saved}");
    let slowest = number(&five["runs"][0]["response_ms"]["max"]);
    assert!((5_500.0..5_600.0).contains(&slowest), "{slowest}");
    // Time by state adds up, busy time is not touched.
    let states = five["runs"][0]["state_s"].as_object().unwrap();
    near(states.values().map(number).sum(), run(&five, "span_s"), "time by state");
    // A disk that does not say how says so.
    let on = |rest: &str| format!("simulate disksim:pause.trace --disk {rest}");
    place.refuses(&on("exos-x20 --spin-down 5"), &["power.standby_w"]);
    place.refuses(&on("wd800jb --spin-down soon"), &["adaptive"]);
}

#[test]
fn an_open_loop_keeps_the_traces_times_where_it_has_them() {
    let place = Place::new();
    place.file("a.trace", mixed()).file("b.lis", "0 8 0 0\n80000 8 0 1\n160 8 1 2\n96 8 1 3\n");
    let open = place.json(&["a.trace", "--disk", "wd800jb", "--open-loop"]);
    assert_eq!((&open["replay"], &open["queue_depth"]), (&"open".into(), &Value::Null));
    let measured = number(&open["split"]["measured_requests"]);
    let span = number(&open["runs"][0]["span_s"]);
    assert!((span - (measured - 1.0) * 0.020).abs() < 0.05, "{span} s of {measured} requests");
    assert!(number(&open["runs"][0]["energy_j"]["idle"]) > 0.0);

    let args = ["simulate", "b.lis", "--disk", "wd800jb", "--json", "-"];
    let ran = place.run(&[&args[..], &["--open-loop"]].concat());
    assert!(ran.err.contains("no times") && ran.err.contains("closed loop"), "{}", ran.err);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&said["replay"], &said["queue_depth"]), (&"closed".into(), &1.into()));
    assert_eq!(said["notes"].as_array().unwrap().len(), 1);
    let closed: Value = serde_json::from_str(&place.run(&args).out).unwrap();
    assert_eq!(timeless(said)["runs"], timeless(closed)["runs"]);
}

/// The toy disk again, with the numbers at the head of its TOML and in whole nanoseconds: one
/// request after another, no RAM. Returns seek, rotation and transfer.
fn by_hand(requests: &[(u64, u64, bool)]) -> (u64, u64, u64) {
    let (turn, track, sector) = (10_000_000, 100, 100_000);
    let seek_time = |from: u64, to: u64| match from.abs_diff(to) {
        0 => 0,
        d => 2_000_000 + 10_000 * d,
    };
    let (mut now, mut cylinder) = (0, 0);
    let (mut seek, mut rotation, mut transfer) = (0, 0, 0);
    for &(start, len, _) in requests {
        let arm = seek_time(cylinder, start / track);
        let wait = (start % track * sector + turn - (now + arm) % turn) % turn;
        (seek, rotation) = (seek + arm, rotation + wait);
        now += arm + wait;
        for s in start..start + len {
            if s > start && s % track == 0 {
                // On to the next cylinder: the arm moves, and the track's first sector comes by.
                let arm = seek_time(0, 1);
                let wait = (turn - (now + arm) % turn) % turn;
                transfer += arm + wait;
                now += arm + wait;
            }
            transfer += sector;
            now += sector;
        }
        cylinder = (start + len - 1) / track;
    }
    (seek, rotation, transfer)
}

#[test]
fn twenty_requests_equal_an_independent_calculation() {
    let requests: [(u64, u64, bool); 20] = [
        (0, 8, true),
        (8, 8, true),
        (0, 8, false),
        (10_000, 8, true),
        (10_020, 10, true),
        (9_950, 10, false),
        (50_050, 1, true),
        (50_051, 1, true),
        (50_099, 1, true),
        (50_100, 1, true),
        (50_000, 250, true), // across two borders of cylinders
        (89_999, 1, true),
        (89_990, 12, false), // across one
        (130, 20, true),
        (150, 50, true),
        (200, 4, true),
        (202, 4, true),
        (301, 2, false),
        (399, 1, true),
        (300, 1, true),
    ];
    let place = Place::new();
    place.file("toy.toml", TOY).file("twenty.trace", disksim(&requests));
    let base = words("twenty.trace --policy vanilla --train 0 --cache 0 --read-ahead 0 --disk");
    let on = |disk: &str| place.json(&[&base[..], &[disk]].concat());
    let ran = on("./toy.toml");
    let run = run_of(&ran, "vanilla");
    let (seek, rotation, transfer) = by_hand(&requests);
    for (key, ns) in [("seek_s", seek), ("rotation_s", rotation), ("transfer_s", transfer)] {
        let s = ns as f64 / 1e9;
        assert!((number(&run[key]) - s).abs() < 1e-7, "{key}: {} is not {s}", run[key]);
    }
    near(number(&run["energy_j"]["seek"]), seek as f64 / 1e9 * 10.0, "10 W");
    near(
        number(&run["energy_j"]["rotation_transfer"]),
        (rotation + transfer) as f64 / 1e9 * 5.0,
        "5 W",
    );
    assert_eq!((&run["requests"], &run["device_ios"]), (&20.into(), &20.into()));
    assert_eq!((&run["cache_hits"], &run["copy_hits"]), (&0.into(), &0.into()));
    // Not by luck: another disk gives another number.
    place.file("fast.toml", TOY.replace("rpm = 6000", "rpm = 12000"));
    assert!(busy(&on("./fast.toml"), "vanilla") < busy(&ran, "vanilla"));
}

#[test]
fn known_answers_on_real_traces() {
    let Some(dir) = shared("known_answers_on_real_traces", "traces") else { return };
    let place = Place::new();
    let p3 = dir.join("P3.lis.zst");
    let json = place.json(&[p3.to_str().unwrap(), "--disk", "wd800jb"]);
    let t = &json["trace"];
    assert_eq!(json!([t["format"], t["requests"], t["days"]]), json!(["lis", 238_578, 34]));
    assert_eq!((&t["reads"], &t["writes"]), (&238_578.into(), &0.into()));
    // The union of all extents, by a sort and a sum in another language: 372 MiB.
    assert_eq!(t["footprint_bytes"], 390_422_016);
    assert_eq!((&json["split"]["by"], &json["split"]["train_days"]), (&"days".into(), &17.into()));
    laws(&json);
    let all = |policy| busy(&json, policy) + number(&run_of(&json, policy)["background_busy_s"]);
    assert!(all("clairvoyant") < all("adaptive"), "foresight is worth something here");
    assert!(all("adaptive") < 0.75 * all("vanilla"));

    let ajw = dir.join("ajw.1week.srt.xz");
    let json = place.json(&[ajw.to_str().unwrap(), "--disk", "wd800jb", "--open-loop"]);
    let t = &json["trace"];
    assert_eq!(json!([t["format"], t["requests"], t["devices"]]), json!(["srt", 44_519, 2]));
    let share = number(&t["reads"]) / number(&t["requests"]);
    assert!((share - 0.29).abs() < 0.005, "{share}");
    let week = number(&t["span_s"]) / 86_400.0;
    assert!((6.0..8.0).contains(&week), "{week} days");
    let others = |note: &&Value| !note.as_str().unwrap().contains("training part");
    let notes = json["notes"].as_array().unwrap().iter().filter(others).count();
    assert_eq!(notes, 1, "two devices on one disk is said");
    laws(&json);
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let place = Place::with("a.trace", mixed());
    for args in [
        &["simulate", "a.trace", "--disk", "wd800jb", "--json", "-"][..],
        &["simulate", "a.trace", "--disk", "wd800jb"],
        &["convert", "a.trace", "csv:-"],
        &["disk", "show", "wd800jb"],
    ] {
        let ran = place.unread(args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_no_work_and_hides_no_failure() {
    let place = Place::new();
    place.file("disk.img", vec![0; 64 << 20]);
    std::fs::create_dir_all(place.path("root/etc/systemd/system")).unwrap();
    let adopt = ["adopt", "disk.img", "--area", "disk.area", "--name", "x", "--root", "root"];
    let ran = place.unread(&adopt);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(place.path("disk.area").exists() && place.path("root/etc/seekless").exists());
    let ran = place.unread(&adopt);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("adopted already"), "{}", ran.err);
}

#[test]
fn json_and_report_go_to_files_and_the_table_to_the_terminal() {
    let place = Place::with("a.trace", mixed());
    let args =
        ["simulate", "a.trace", "--disk", "wd800jb", "--json", "o.json", "--report", "o.html"];
    let ran = place.run(&args);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for word in ["vanilla", "adaptive", "clairvoyant", "modelled", "measured requests"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "colour is for terminals");
    assert_eq!(place.names(), ["a.trace", "o.html", "o.json"]);
    assert_eq!(
        timeless(place.read("o.json")),
        timeless(place.json(&["a.trace", "--disk", "wd800jb"]))
    );

    let html = place.text_of("o.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    for load in ["src=\"http", "href=\"http", "url(http", "@import", "src=\"//", "<link", "fetch("]
    {
        assert!(!html.contains(load), "the report loads something: {load}");
    }
    // Names of XML vocabularies are never fetched.
    let elsewhere = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
    for words in ["Head position over time", "modelled", &args.join(" ")] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn a_trace_of_the_whole_disk_fits_that_disk() {
    let place = Place::new();
    let last = 100_000 - 8;
    place.file("toy.toml", TOY).file("a.trace", disksim(&[(0, 8, true), (last, 8, true)]));
    let args = ["a.trace", "--disk", "./toy.toml", "--policy", "vanilla", "--train", "0"];
    assert_eq!(place.json(&args)["runs"][0]["requests"], 2);
    place.file("a.trace", disksim(&[(0, 8, true), (last + 1, 8, true)]));
    let ran = place.run(&[&["simulate"], &args[..]].concat());
    assert_eq!(ran.code, Some(2), "a sector more does not");
}

#[test]
fn a_picture_stands_alone() {
    let place = Place::with("a.trace", mixed());
    let policies = ["--policy", "vanilla,borg,adaptive", "--picture", "o.svg"];
    place.ok(&[&["simulate", "a.trace", "--disk", "wd800jb"], &policies[..]].concat());
    let svg = place.text_of("o.svg");
    assert!(svg.contains("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"));
    for word in
        ["vanilla", "borg", "adaptive", "optimized area", "modelled", "prefers-color-scheme:dark"]
    {
        assert!(svg.contains(word), "{word}");
    }
    assert!(!svg.contains("<script") && !svg.contains("href="));
}

#[test]
fn no_output_replaces_a_trace() {
    let place = Place::with("a.trace", mixed());
    for args in [
        &["stat", "a.trace", "--json", "./a.trace"][..],
        &["stat", "disksim:a.trace", "--report", "a.trace"],
        &["stat", "a.trace", "--report", "o", "--json", "o"],
        &["stat", "a.trace", "--report", "-", "--json", "-"],
        &["simulate", "a.trace", "--disk", "wd800jb", "--picture", "a.trace"],
        &["advise", "a.trace", "--disk", "wd800jb", "--json", "a.trace"],
        &["simulate", "a.trace", "--disk", "./d.toml", "--json", "d.toml"],
        &["advise", "a.trace", "--disk", "wd800jb", "--or", "d.toml", "--json", "d.toml"],
        &["convert", "a.trace", "b.csv", "--json", "a.trace"],
        &["convert", "a.trace", "b.csv", "--json", "b.csv"],
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(ran.err.contains("is named twice"), "{args:?}: {}", ran.err);
    }
    assert_eq!(place.names(), ["a.trace"]);
    // A page on standard output is alone there.
    let ran = place.run(&["stat", "a.trace", "--report", "-"]);
    assert!(ran.code == Some(0) && ran.out.trim_end().ends_with("</html>"), "{}", ran.err);
}

#[test]
fn a_name_in_a_trace_controls_no_terminal() {
    let line = "0.0,a\u{1b}[2Jb,R,8,8,,,,";
    let place = Place::with(
        "a.csv",
        format!("time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n{line}\n"),
    );
    let ran = place.run(&["stat", "a.csv", "--device", "x"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("a\u{fffd}[2Jb") && !ran.err.contains('\u{1b}'), "{}", ran.err);
}

#[test]
fn a_path_is_any_bytes() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::with("a.trace", mixed());
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.html");
    let mut command = place.command(&["stat", "a.trace", "--report"]);
    assert_eq!(command.arg(name).output().unwrap().status.code(), Some(0));
    assert!(place.path("").join(name).exists());
    let mut command = place.command(&[]);
    let output = command.arg(std::ffi::OsStr::from_bytes(b"\xff")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let place = Place::with("a.trace", mixed());
    place.ok(&["simulate", "a.trace", "--disk", "wd800jb", "--json", "/dev/null"]);
    use std::os::unix::fs::FileTypeExt as _;
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}
