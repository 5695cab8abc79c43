//! The adaptive policy in `simulate`: what it saves on the sample, what its days answer for, and
//! where it has room for a trail.

use serde_json::Value;

use crate::support::{Dice, Place, TOY, busy, disksim, mixed, number, run_of, scattered};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst");
const NIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/nights.parquet");

/// Busy time with background work.
fn all(run: &Value) -> f64 {
    number(&run["busy_s"]) + number(&run["background_busy_s"])
}

/// Each day: disk time over vanilla's, background work counted, and the promise: 1% and 3 s, and
/// one refill of RAM, at most this long.
fn keeps_the_promise(run: &Value, refill_s: f64) {
    for day in run["days"].as_array().unwrap() {
        let most = number(&day["vanilla_s"]) * 1.01 + 3.0 + refill_s;
        assert!(all(day) <= most, "{day}");
    }
}

/// The days are the run: nothing is left out of them.
fn days_add_up(json: &Value, policy: &str) {
    let run = run_of(json, policy);
    let days = run["days"].as_array().unwrap();
    let sum = |of: &str| days.iter().map(|d| number(&d[of])).sum::<f64>();
    // After a training, the arm of the vanilla system beside it starts from another cylinder.
    for (of, whole, off) in [
        ("busy_s", number(&run["busy_s"]), 1e-6),
        ("background_busy_s", number(&run["background_busy_s"]), 1e-6),
        ("vanilla_s", busy(json, "vanilla"), 1e-3),
    ] {
        assert!((sum(of) - whole).abs() <= off * whole, "{of}: {} of {whole}", sum(of));
    }
}

#[test]
fn on_the_sample_it_saves_what_the_documents_say() {
    let place = Place::new();
    let policies = "vanilla,adaptive,adaptive:trail=off,clairvoyant";
    for (event, saved) in [("D", 0.40), ("Q", 0.33)] {
        let args = [SAMPLE, "--event", event, "--disk", "wd800jb", "--train", "0%"];
        let more = ["--cache", "16MiB", "--read-ahead", "64KiB", "--policy", policies];
        let json = place.json(&[&args[..], &more].concat());
        let vanilla = busy(&json, "vanilla");
        let runs = json["runs"].as_array().unwrap();
        let saves = |i: usize| 1.0 - all(&runs[i]) / vanilla;
        assert!(saves(1) >= saved, "events {event}: {}", saves(1));
        assert!(saves(2) > 0.3 && saves(3) > saves(1), "{} {}", saves(2), saves(3));
        assert_eq!(
            (&runs[2]["policy"], &runs[2]["trail_reads"]),
            (&policies[17..35].into(), &0.into())
        );
        assert_eq!(runs[2]["optimized_start_sector"], Value::Null);
        for policy in ["adaptive", "clairvoyant"] {
            days_add_up(&json, policy);
            keeps_the_promise(run_of(&json, policy), 1.0);
        }
    }
}

/// Space in RAM that is too expensive, or not expensive enough, lost most of this.
#[test]
fn more_ram_takes_no_gain_away() {
    let place = Place::new();
    for (trace, disk, cache, saved) in
        [(SAMPLE, "wd800jb", "256MiB", 0.10), (NIGHTS, "exos-x20", "128MiB", 0.75)]
    {
        let args = [trace, "--disk", disk, "--train", "0%", "--cache", cache];
        let json = place.json(&[&args[..], &["--policy", "vanilla,adaptive"]].concat());
        let saves = 1.0 - all(run_of(&json, "adaptive")) / busy(&json, "vanilla");
        assert!(saves >= saved, "{disk}, {cache}: {saves}");
    }
}

#[test]
fn a_training_is_not_measured_and_not_forgotten() {
    let once = scattered(&mut Dice::new(41), 400);
    let place = Place::with("a.trace", disksim(&once.repeat(8)));
    let of = |train: &str| {
        let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--train", train];
        let json = place.json(&[&args[..], &["--policy", "vanilla,adaptive"]].concat());
        days_add_up(&json, "adaptive");
        assert_eq!(run_of(&json, "adaptive")["requests"], json["split"]["measured_requests"]);
        all(run_of(&json, "adaptive")) / busy(&json, "vanilla")
    };
    let (cold, warm) = (of("0%"), of("50%"));
    assert!(warm < 0.8 * cold, "{warm} of vanilla after training, {cold} before");
}

/// The requests that `split` counts are those that are replayed.
fn is_all_replayed(json: &Value) {
    let split = |key: &str| json["split"][key].as_u64().unwrap();
    let (trained, measured) = (split("train_requests"), split("measured_requests"));
    assert_eq!(json["trace"]["requests"], trained + measured);
    for run in json["runs"].as_array().unwrap() {
        assert_eq!(run["requests"], measured, "{}", run["policy"]);
        assert!(number(&run["busy_s"]) > 0.0, "{}", run["policy"]);
    }
}

/// A device with flushes alone has no addresses, and days that go back count for a later day.
#[test]
fn no_request_is_split_and_not_replayed() {
    let title = "time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n";
    let read = |i: u64, day: &str| format!("{i}.0,a,R,{},8,,,{day},\n", i * 80_000);
    let flush = |i: u64| format!("{i}.0,b,F,0,0,,,,\n");
    let flushed = (0..100).map(|i| if i % 5 < 2 { read(i, "") } else { flush(i) });
    let place = Place::with("flushed.csv", title.to_owned() + &flushed.collect::<String>());
    let of =
        |days: [&str; 4]| (0..40).map(|i: u64| read(i, days[i as usize / 10])).collect::<String>();
    place.file("back.csv", title.to_owned() + &of(["0", "2", "1", "3"]));
    place.file("one.csv", title.to_owned() + &of(["1", "0", "0", "0"]));
    for (trace, train, trained, note) in [
        ("flushed.csv", "0%", 0, false),
        ("flushed.csv", "50%", 50, false),
        ("back.csv", "0%", 0, true),
        // Days 0, 2 and 3: two of them train.
        ("back.csv", "50%", 30, true),
        ("one.csv", "50%", 20, true),
    ] {
        let args = [trace, "--disk", "wd800jb", "--cache", "1MiB", "--train", train];
        let json = place.json(&[&args[..], &["--policy", "vanilla,adaptive,clairvoyant"]].concat());
        is_all_replayed(&json);
        assert_eq!(json["split"]["train_requests"], trained, "{trace}, {train}");
        let goes_back = |n: &Value| n.as_str().unwrap().contains("the days go back");
        assert_eq!(json["notes"].as_array().unwrap().iter().any(goes_back), note, "{trace}");
        if train == "0%" {
            days_add_up(&json, "adaptive");
        }
    }
}

#[test]
fn where_nothing_repeats_no_day_pays_for_it() {
    // Five days of 2,000 reads; each day has other data.
    let mut dice = Dice::new(42);
    let line = |i: u64| format!("{} 8 {} {i}\n", dice.below(5_000_000) * 8, i / 2_000);
    let place = Place::with("a.lis", (0..10_000).map(line).collect::<String>());
    let args = ["a.lis", "--disk", "wd800jb", "--train", "20%", "--policy", "vanilla,adaptive"];
    let args = [&args[..], &["--read-ahead", "0"]].concat();
    let json = place.json(&args);
    let run = run_of(&json, "adaptive");
    let days: Vec<&Value> = run["days"].as_array().unwrap().iter().map(|d| &d["day"]).collect();
    assert_eq!(days, [1, 2, 3, 4]);
    keeps_the_promise(run, 0.0);
    days_add_up(&json, "adaptive");
    assert!(run_of(&json, "vanilla").get("days").is_none());
    let table = place.run(&[&["simulate"], &args[..]].concat()).out;
    for words in ["day by day", "prefetched", "trail reads", "stood aside", "nothing to gain"] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

/// A day is not long enough to hide requests that are booked to the next one.
#[test]
fn a_day_of_one_request_has_the_time_of_this_request() {
    let place = Place::with("a.lis", "20000000 8 0 0\n40000000 8 1 1\n0 8 2 2\n");
    let args = ["a.lis", "--disk", "wd800jb", "--train", "0%"];
    let json = place.json(&[&args[..], &["--policy", "vanilla,adaptive,clairvoyant"]].concat());
    for policy in ["adaptive", "clairvoyant"] {
        let days = run_of(&json, policy)["days"].as_array().unwrap();
        assert_eq!(days.iter().map(|d| &d["day"]).collect::<Vec<_>>(), [0, 1, 2]);
        for day in days {
            let (vanilla, busy) = (number(&day["vanilla_s"]), number(&day["busy_s"]));
            assert!(vanilla > 0.002 && busy > 0.002, "{policy}: a seek takes longer: {day}");
        }
        days_add_up(&json, policy);
    }
}

#[test]
fn a_trail_takes_the_room_that_the_disk_has() {
    let place = Place::new();
    let toy = |name: &str, cylinders: u64| {
        let text = TOY.replace(
            "capacity_sectors = 100000",
            &format!("capacity_sectors = {}", cylinders * 100),
        );
        let text = text.replace("cylinders = 1000", &format!("cylinders = {cylinders}"));
        place.file(name, text.replace("[999, 11.99]", &format!("[{}, 11.99]", cylinders - 1)));
    };
    toy("small.toml", 1_200);
    toy("large.toml", 4_000);
    place.file("a.trace", disksim(&[(0, 8, true), (8_000, 8, true)].repeat(20)));
    let of = |disk: &str| {
        place.json(&["a.trace", "--disk", disk, "--train", "0", "--policy", "vanilla,adaptive"])
    };
    let small = of("./small.toml");
    assert_eq!(run_of(&small, "adaptive")["optimized_bytes"], 0);
    let note = small["notes"][0].as_str().unwrap();
    assert!(note.contains("toy has no space for a trail"), "{note}");
    let large = of("./large.toml");
    let size = run_of(&large, "adaptive")["optimized_bytes"].as_u64().unwrap();
    let room = (400_000 - 8_008) * 512;
    assert!(size <= room && size > room - (2 << 20), "{size} of {room}");
    assert_eq!(large["notes"], Value::Array(Vec::new()));
    assert_eq!(run_of(&of("wd800jb"), "adaptive")["optimized_bytes"], 2_u64 << 30);
    let small = [("0", "no space for a trail"), ("32MiB", "a trail of 32 MiB"), ("64MiB", "")];
    for (size, words) in small {
        let args = ["a.trace", "--disk", "wd800jb", "--train", "0", "--optimized", size];
        let json = place.json(&[&args[..], &["--policy", "vanilla,adaptive"]].concat());
        let note = json["notes"][0].as_str().unwrap_or_default();
        assert!(note.contains(words) && note.is_empty() == words.is_empty(), "{size}: {note}");
    }
}

/// A small trace on a large disk: the trail is near it, or as far away as the disk allows.
#[test]
fn a_trail_at_the_end_of_the_disk_is_far_away_and_costs_more() {
    let mut dice = Dice::new(43);
    let once: Vec<_> = (0..400).map(|_| (dice.below(200_000) * 8, 8, true)).collect();
    let place = Place::with("a.trace", disksim(&once.repeat(8)));
    let policies = "adaptive,adaptive:area-at=disk-end,clairvoyant:area-at=disk-end";
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--train", "0"];
    let json = place.json(&[&args[..], &["--policy", policies]].concat());
    let (near, far) = (&json["runs"][0], &json["runs"][1]);
    let end = once.iter().map(|(start, len, _)| start + len).max().unwrap();
    assert_eq!(near["optimized_start_sector"], end);
    for run in [far, &json["runs"][2]] {
        // The sectors of the disk, and 2 GiB.
        assert_eq!(run["optimized_start_sector"], 156_301_488_u64 - (4 << 20));
        assert_eq!(run["optimized_bytes"], 2_u64 << 30);
    }
    for run in [near, far] {
        assert!(run["trail_reads"].as_u64().unwrap() > 0, "{}", run["policy"]);
    }
    assert!(all(far) > all(near), "{} s far away, {} s nearby", all(far), all(near));
}

/// Where reads of the trail lose, the way there counts more; where they pay, they stay.
#[test]
fn a_trail_that_is_far_away_pays_or_is_left_alone() {
    let place = Place::new();
    let policies = "vanilla,adaptive:trail=off,adaptive:area-at=disk-end";
    let far = [
        ([SAMPLE, "--disk", "wd800jb", "--event", "D"].as_slice(), -0.05),
        (&[NIGHTS, "--disk", "exos-x20"], 0.08),
    ];
    for (trace, gains) in far {
        let json = place.json(&[trace, &["--train", "0%", "--policy", policies]].concat());
        let saves = |i: usize| 1.0 - all(&json["runs"][i]) / busy(&json, "vanilla");
        let (alone, far) = (saves(1), saves(2));
        assert!(far >= alone + gains, "{trace:?}: {far} with a trail, {alone} without");
    }
}

/// Times in a wrong unit make days that the trace does not have.
#[test]
fn a_trace_of_very_many_days_gets_a_note() {
    let place = Place::new();
    for (days, noted) in [(1_000, false), (1_001, true)] {
        let line = |i: u64| format!("{},R,{},4096\n", i * 86_400, i * 4096);
        place.file("a.txt", (0..days).map(line).collect::<String>());
        let args = ["a.txt", "--columns", "time=1:s,op=2,offset=3,size=4", "--disk", "wd800jb"];
        let json = place.json(&[&args[..], &["--policy", "vanilla", "--train", "0"]].concat());
        let says = json["notes"].to_string().contains("1001 days with requests");
        assert_eq!(says, noted, "{}", json["notes"]);
    }
}

#[test]
fn every_format_is_simulated_from_cold() {
    let place = Place::with("a.trace", mixed());
    let outs = ["b.parquet", "csv:b.csv", "fio:b.fio", "oraclegeneral:b.bin"];
    let policies = "vanilla,adaptive,adaptive:trail=off,clairvoyant";
    let base = ["--disk", "wd800jb", "--train", "0%", "--policy", policies];
    for out in outs {
        place.done(&["convert", "a.trace", out]);
        let json = place.json(&[&[out], &base[..]].concat());
        let runs = json["runs"].as_array().unwrap();
        assert!(runs.iter().all(|r| r["requests"] == json["trace"]["requests"]), "{out}");
        assert_eq!(json["split"]["train_requests"], 0);
        days_add_up(&json, "adaptive");
    }
}
