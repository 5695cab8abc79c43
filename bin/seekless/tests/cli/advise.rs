//! Advice: says "no gain" where there is none, finds what is there, never looks ahead, and stands
//! by its range.

use serde_json::Value;

use crate::beside::shared;
use crate::support::{Dice, Place, busy, disksim, mixed, number, scattered};

fn advice(place: &Place, args: &[&str]) -> Value {
    place.told(&[&["advise"], args].concat())
}

fn chosen(advice: &Value) -> &Value {
    &advice["tried"][advice["choice"].as_u64().unwrap() as usize]
}

fn words(advice: &Value) -> String {
    let sentences = advice["sentences"].as_array().unwrap();
    sentences.iter().map(|s| s.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn where_requests_are_random_it_says_no_gain() {
    let place = Place::with("a.trace", disksim(&scattered(&mut Dice::new(21), 12_000)));
    let bare = ["a.trace", "--disk", "wd800jb", "--read-ahead", "0"];
    let advice = advice(&place, &bare);
    assert_eq!(advice["schema"], "seekless.advise/1");
    assert_eq!(advice["verdict"], "no_gain");
    assert!(words(&advice).contains("No gain here"), "{}", words(&advice));
    assert_eq!(advice["commands"], Value::Array(Vec::new()));
    for tried in advice["tried"].as_array().unwrap().iter().filter(|t| t["change"] == "layout") {
        assert!(number(&tried["saves_busy"]["share"]) < 0.01, "{}", tried["system"]);
    }
    // Read-ahead brings what nobody wants: adaptive leaves it out, and so can the user.
    let advice = self::advice(&place, &bare[..3]);
    assert_eq!(advice["verdict"], "worth", "{}", words(&advice));
    assert!(words(&advice).contains("without a learned policy: "), "{}", words(&advice));
    assert!(words(&advice).contains("no read-ahead saves 11%"), "{}", words(&advice));
    // A layout that is made at any price pays for the moving.
    let advice = self::advice(&place, &[&bare[..], &["--policy", "borg:planning=anew"]].concat());
    for tried in advice["tried"].as_array().unwrap().iter().filter(|t| t["change"] == "layout") {
        assert!(number(&tried["saves_busy"]["share"]) < 0.0, "{}", tried["system"]);
        assert!(number(&tried["total"]["background_busy_s"]) > 0.0);
    }
}

/// Picks without order among 8 MiB, which more RAM answers, and a round of 75 MiB, which no RAM
/// holds and a trail does.
#[test]
fn a_policy_and_more_ram_are_tried_together() {
    let mut dice = Dice::new(23);
    let mut far = |n: usize| -> Vec<(u64, u64, bool)> {
        (0..n).map(|_| (dice.below(600_000) * 64, 64, true)).collect()
    };
    let (few, round) = (far(250), far(2_400));
    let mut all = Vec::new();
    for _ in 0..8 {
        all.extend((0..3_000).map(|_| few[dice.below(few.len() as u64) as usize]));
        all.extend(&round);
    }
    let place = Place::with("a.trace", disksim(&all));
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--policy", "adaptive"];
    let advice = advice(&place, &args);
    let share = |change: &str, name: &str| {
        let mut tried = advice["tried"].as_array().unwrap().iter();
        let found = tried.find(|t| t["change"] == change && t["system"] == name);
        number(&found.unwrap_or_else(|| panic!("{change} {name}"))["saves_busy"]["share"])
    };
    let both = share("layout_and_ram", "adaptive, RAM 64 MiB");
    let (policy, ram) = (share("layout", "adaptive"), share("setting", "RAM 64 MiB"));
    assert!(both > policy.max(ram) + 0.1, "{both}: {policy} and {ram}");
    let said = words(&advice);
    assert!(said.contains("Both together: adaptive, RAM 64 MiB saves "), "{said}");
    // The choice is for the RAM there is.
    assert_eq!(chosen(&advice)["cache_bytes"], 1 << 20, "{}", chosen(&advice)["system"]);
}

#[test]
fn a_device_that_is_too_small_is_left_out() {
    // Behind the first terabyte, where the default of --or ends.
    let far = |(at, len, reads): (u64, u64, bool)| (at + 3_000_000_000, len, reads);
    let requests: Vec<_> = scattered(&mut Dice::new(24), 100).into_iter().map(far).collect();
    let place = Place::with("a.trace", disksim(&requests.repeat(4)));
    let note = "sata-ssd is left out: it is too small for the trace";
    let cases: [(&[&str], Option<&str>, bool); 3] = [
        (&[], None, true),
        (&["--or", "exos-2x18"], Some("exos-2x18"), false),
        (&["--or", "exos-2x18,sata-ssd"], Some("exos-2x18"), true),
    ];
    for (or, tried, left_out) in cases {
        let advice = advice(&place, &[&["a.trace", "--disk", "exos-x20"], or].concat());
        let all = advice["tried"].as_array().unwrap();
        let devices = all.iter().filter(|t| t["change"] == "device").map(|t| t["device"].as_str());
        assert_eq!(devices.collect::<Vec<_>>(), tried.map(Some).as_slice(), "{or:?}");
        let notes = advice["notes"].as_array().unwrap();
        assert_eq!(notes.contains(&note.into()), left_out, "{or:?}: {notes:?}");
    }
}

#[test]
fn what_is_asked_again_and_again_is_found_worth_it() {
    let once = scattered(&mut Dice::new(22), 1000);
    let place = Place::with("a.trace", disksim(&once.repeat(24)));
    let advice = advice(&place, &["a.trace", "--disk", "wd800jb", "--cache", "1MiB"]);
    assert_eq!(advice["verdict"], "worth", "{}", words(&advice));
    let best = chosen(&advice);
    // One fold is spent on moving; the others cost a tenth.
    assert!(number(&best["saves_busy"]["share"]) > 0.6, "{}", best["saves_busy"]);
    assert!(number(&best["held_out_saves_busy"]) > 0.9);
    assert!(number(&advice["foresight_share"]) > 0.8);
    let adaptive = advice["tried"].as_array().unwrap().iter().find(|t| t["system"] == "adaptive");
    let saves = &adaptive.unwrap()["saves_busy"]["share"];
    assert!(number(saves) > 0.8, "the first fold has taught the trail: {saves}");
    let command = advice["commands"][0].as_str().unwrap();
    let is =
        command.starts_with("seekless adopt DISK --area ") && command.ends_with("--cache 1MiB");
    assert!(is && command.contains("--policy"), "{command}");
    assert_eq!(advice["a_year"], Value::Null, "the trace is too short");
    // RAM that holds it all does as well, and is named.
    assert!(words(&advice).contains("RAM 64 MiB saves"), "{}", words(&advice));
}

#[test]
fn no_system_sees_what_is_yet_to_come() {
    let mut dice = Dice::new(23);
    let (mut a, b) = (scattered(&mut dice, 500), scattered(&mut dice, 500));
    // Both reach equally far.
    a[0].0 = 5_000_000 * 8;
    // Eight folds of 500 requests; the traces differ in the last alone.
    let place = Place::with("a.trace", disksim(&a.repeat(8)));
    place.file("b.trace", disksim(&[a.repeat(7), b].concat()));
    let args = |name| [name, "--disk", "wd800jb", "--cache", "1MiB", "--folds", "8"];
    let (one, other) = (advice(&place, &args("a.trace")), advice(&place, &args("b.trace")));
    for k in 0..one["tried"].as_array().unwrap().len() {
        let (x, y) = (&one["tried"][k], &other["tried"][k]);
        if x["change"] == "foresight" {
            continue;
        }
        assert_eq!(x["system"], y["system"]);
        let (x, y) = (x["laps"].as_array().unwrap(), y["laps"].as_array().unwrap());
        assert_eq!(x[..7], y[..7], "{}", one["tried"][k]["system"]);
        assert_ne!(x[7], y[7], "{}", one["tried"][k]["system"]);
        // Data without an earlier request has no copy yet.
        if one["tried"][k]["replan_folds"].is_u64() && one["tried"][k]["change"] == "layout" {
            assert_eq!(y[7]["copy_hits"], 0, "{}", one["tried"][k]["system"]);
            assert!(x[7]["copy_hits"].as_u64().unwrap() > 0, "{}", one["tried"][k]["system"]);
        }
    }
}

/// The last page of each place, then the page before it, and so on: 500 requests apart, in folds of
/// 166 or 167. Who knows the next 1,000 requests reads two more pages with the first, and RAM holds
/// them. So two passes of four need the disk: of the 1,500 requests that decide, 334 and 166.
#[test]
fn a_clairvoyant_policy_knows_what_comes_in_the_folds_after_this_one() {
    let places = scattered(&mut Dice::new(28), 500);
    let pass = |page: u64| places.iter().map(move |&(at, len, reads)| (at + 8 * page, len, reads));
    let requests: Vec<_> = [3, 2, 1, 0].into_iter().flat_map(pass).collect();
    let place = Place::with("a.trace", disksim(&requests));
    let args = ["a.trace", "--disk", "wd800jb", "--policy", "clairvoyant:trail=off"];
    let advice = advice(&place, &args);
    let share = number(&advice["foresight_share"]);
    assert!(share > 0.3, "{share}");
    let mut tried = advice["tried"].as_array().unwrap().iter();
    let laps = tried.find(|t| t["change"] == "foresight").unwrap()["laps"].as_array().unwrap();
    let requests: Vec<u64> = laps.iter().map(|l| l["requests"].as_u64().unwrap()).collect();
    assert_eq!(serde_json::json!(requests), advice["fold_requests"]);
    let busy_s: f64 = laps.iter().map(|l| number(&l["busy_s"])).sum();
    let simulated = busy(&place.json(&[&args[..], &["--train", "0%"]].concat()), "clairvoyant");
    assert!((busy_s / simulated - 1.0).abs() < 0.02, "{busy_s} s, simulate says {simulated} s");
}

#[test]
fn the_system_as_it_is_costs_what_simulate_says() {
    let place = Place::with("a.trace", mixed());
    let advice = advice(&place, &["a.trace", "--disk", "wd800jb"]);
    let all = ["a.trace", "--disk", "wd800jb", "--policy", "vanilla", "--train", "0%"];
    let simulated = busy(&place.json(&all), "vanilla");
    let laps = advice["tried"][0]["laps"].as_array().unwrap();
    let sum: f64 = laps.iter().map(|l| number(&l["busy_s"])).sum();
    assert!((sum - simulated).abs() < 1e-6 * simulated, "{sum} s, simulate says {simulated} s");
    let requests: u64 =
        advice["fold_requests"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!(requests, advice["trace"]["requests"].as_u64().unwrap());
}

/// The range is for the folds left out: on each of these traces the choice's gain there is no lower.
/// It may be a little higher, since the adaptive policy goes on learning.
#[test]
fn the_days_left_out_come_to_what_the_range_says() {
    let place = Place::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst").to_owned();
    let mut traces = vec![(sample, "wd800jb")];
    let name = "the_days_left_out_come_to_what_the_range_says (real traces)";
    if std::env::var_os("SEEKLESS_LONG").is_none() {
        println!("SKIPPED {name}: long; SEEKLESS_LONG=1 runs it");
    } else if let Some(dir) = shared(name, "traces") {
        for name in ["P3.lis.zst", "ajw.1week.srt.xz"] {
            traces.push((dir.join(name).to_str().unwrap().to_owned(), "wd800jb"));
        }
    }
    for (trace, disk) in traces {
        let advice = advice(&place, &[&trace, "--event", "D", "--disk", disk]);
        let best = chosen(&advice);
        let (low, high) = (number(&best["saves_busy"]["low"]), number(&best["saves_busy"]["high"]));
        let came = number(&best["held_out_saves_busy"]);
        let above = high + 0.05;
        assert!((low..=above).contains(&came), "{trace}: {came} is not in {low}..{high}");
        assert!(advice["held_out_folds"].as_u64().unwrap() > 0);
    }
}

#[test]
fn what_cannot_be_cut_or_does_not_fit_is_refused_with_reason() {
    let place = Place::with("one.trace", disksim(&[(0, 8, true)]));
    place.file("far.trace", disksim(&[(1 << 40, 8, true); 100]));
    place.refuses("advise one.trace --disk wd800jb", &["too few requests"]);
    place.refuses("advise far.trace --disk wd800jb", &["Choose a larger disk"]);
    place.refuses("advise one.trace --folds 1", &["from 2 to 64"]);
    place.refuses("advise none.trace", &["none.trace"]);
}

#[test]
fn the_disk_is_chosen_by_the_size_of_the_device() {
    let place = Place::with("a.trace", mixed());
    let disk_for = |size: &str| advice(&place, &["a.trace", "--device-size", size])["disk"].clone();
    assert_eq!(disk_for("80GB"), "wd800jb");
    assert_eq!(disk_for("81GB"), "travelstar-5k320");
    assert_eq!(disk_for("18TB"), "exos-x20");
    assert_eq!(disk_for("100TB"), "exos-x20");
    place.refuses("advise a.trace --disk wd800jb --device-size 1TB", &[]);
}

#[test]
fn operations_are_counted_and_priced_where_somebody_sends_a_bill() {
    // 4 KiB each, far from each other: nothing merges.
    let place = Place::with("a.trace", disksim(&scattered(&mut Dice::new(24), 1200)));
    let bare = ["--cache", "0", "--read-ahead", "0", "--cluster", "0"];
    let args = ["a.trace", "--disk", "wd800jb", "--or", "cloud-hdd-metered,sata-ssd"];
    let advice = advice(&place, &[&args[..], &bare[..]].concat());
    let tried = advice["tried"].as_array().unwrap();
    let of = |name: &str| tried.iter().find(|t| t["system"] == name).unwrap();
    // The first of 12 folds is not in the sum; $0.05 a million.
    assert_eq!(of("cloud-hdd-metered")["total"]["operations"], 1100);
    let usd = number(&of("cloud-hdd-metered")["total"]["operations_usd"]);
    assert!((usd - 1100.0 * 0.05 / 1e6).abs() < 1e-12, "{usd}");
    assert_eq!(of("as it is")["total"]["operations"], 0, "a disk sends no bill");
    // Nobody knows the power of the cloud's disks.
    assert_eq!(of("cloud-hdd-metered")["saves_energy"], Value::Null);
    assert_eq!(of("cloud-hdd-metered")["held_out_saves_energy"], Value::Null);
    assert!(of("sata-ssd")["saves_energy"]["share"].is_number(), "{}", of("sata-ssd"));
    assert!(tried.iter().any(|t| t["change"] == "device_layout"));
    assert!(
        words(&advice).contains("On cloud-hdd-metered: 1100 operations, $0.0001"),
        "{}",
        words(&advice)
    );
}

/// A device that bills its capacity alone costs nothing for operations, but more for the capacity:
/// its operations are compared with nothing.
#[test]
fn a_device_that_bills_no_operations_is_not_said_to_save_their_price() {
    let place = Place::with("a.trace", disksim(&scattered(&mut Dice::new(27), 1200)));
    let others = "cloud-ssd,cloud-hdd,object-store";
    let args = ["a.trace", "--disk", "cloud-hdd-metered", "--or", others];
    let advice = advice(&place, &[&args[..], &["--policy", "borg"]].concat());
    assert_eq!(advice["ranked_by"], "money");
    let tried = advice["tried"].as_array().unwrap();
    let of = |name: &str| tried.iter().find(|t| t["system"] == name).unwrap();
    for (name, bills) in [("cloud-ssd", false), ("cloud-hdd", false), ("object-store", true)] {
        for key in ["saves_usd", "held_out_saves_usd"] {
            assert_eq!(of(name).get(key).is_some(), bills, "{name}: {key}");
        }
        assert!(bills || !words(&advice).contains(&format!("{name} saves")), "{}", words(&advice));
    }
    let layouts = tried.iter().filter(|t| t["change"] == "device_layout");
    let devices: Vec<&Value> = layouts.map(|t| &t["device"]).collect();
    assert_eq!(devices, ["object-store"]);
}

/// Without an arm, most of the time is latency.
#[test]
fn a_device_without_an_arm_is_not_said_to_spend_its_time_in_transfer() {
    let place = Place::with("a.trace", disksim(&scattered(&mut Dice::new(25), 1200)));
    let args = ["a.trace", "--disk", "cloud-hdd", "--or", "cloud-hdd", "--read-ahead", "0"];
    let advice = advice(&place, &args);
    let (said, now) = (words(&advice), &advice["tried"][0]["total"]);
    assert!(number(&now["transfer_s"]) < 0.1 * number(&now["busy_s"]), "{now}");
    assert!(said.contains("; the rest is latency and the controller's time."), "{said}");
    assert!(!said.contains("faster transfer"), "{said}");
}

/// 500 places again and again: a request every ten seconds, for two days.
fn two_days() -> String {
    let once = scattered(&mut Dice::new(24), 500);
    let lines = once.iter().cycle().take(17_280).enumerate();
    let line = |(i, &(start, len, _)): (usize, &(u64, u64, bool))| {
        format!("{}.0 0 {start} {len} 1\n", i * 10_000)
    };
    lines.map(line).collect()
}

/// The arm takes 6 W more than rotation and idling. So a second by which the faster system ends
/// earlier, or in which it moves data before its folds, counts 8 W less.
#[test]
fn a_year_counts_moves_above_idle_power() {
    let place = Place::with("a.trace", two_days());
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--policy", "borg"];
    let advice = advice(&place, &args);
    let (now, then) = (&advice["tried"][0]["total"], &chosen(&advice)["total"]);
    let saves = |key: &str| number(&now[key]) - number(&then[key]);
    let moving_s = number(&then["background_busy_s"]);
    let a_year = 17_280.0 / number(&now["requests"]) * 365.25 / 2.0;
    let by_hand = (saves("joules") - 8.0 * (saves("span_s") - moving_s)) * a_year;
    let joules = number(&advice["a_year"]["joules"]);
    assert!((joules / by_hand - 1.0).abs() < 0.01, "{joules}, by hand {by_hand}");
    let idling = 8.0 * moving_s * a_year;
    assert!(idling > 0.03 * by_hand, "{idling} of {by_hand}: the moves are too few to be seen");
    let most = 6.0 * saves("positioning_s") * a_year;
    assert!(0.0 < joules && joules <= most, "{joules}, at most {most}");
}

/// The command is one that the program takes, and a year is the trace's saving above idle power, in
/// proportion.
#[test]
fn the_answer_ends_with_what_to_type_and_with_a_year() {
    let place = Place::with("a.trace", two_days());
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB"];
    let advice = advice(&place, &args);
    let (now, then) = (&advice["tried"][0]["total"], &chosen(&advice)["total"]);
    let saved = number(&now["joules"]) - number(&then["joules"]);
    let counted = number(&now["requests"]) / 17_280.0;
    // The disk idles at 8 W for the time by which the faster system ends earlier.
    let shorter = number(&now["span_s"]) - number(&then["span_s"]);
    let by_hand = (saved - 8.0 * shorter) / counted * 365.25 / 2.0;
    let joules = number(&advice["a_year"]["joules"]);
    // The arm takes 14 W, rotation and idling take 8 W: at most 6 W of the positioning is saved.
    let most = 6.0 * number(&now["positioning_s"]) / counted * 365.25 / 2.0;
    assert!(joules <= most, "{joules}, at most {most}");
    assert!(words(&advice).contains(" of the joules of its work."), "{}", words(&advice));
    assert!(saved > 0.0 && (joules / by_hand - 1.0).abs() < 1e-3, "{joules}, by hand {by_hand}");
    assert_eq!(advice["a_year"]["usd"], Value::Null, "nobody sells this disk by the hour");
    assert!(words(&advice).contains("In a year of such days"), "{}", words(&advice));
    let ran = place.run(&[&["advise"], &args[..]].concat());
    let command = ran.out.lines().last().unwrap().trim();
    assert_eq!(command, advice["commands"][0], "{}", ran.out);
    place.file("DISK", vec![0; 64 << 20]);
    let mut words: Vec<&str> = command.split(' ').skip(1).collect();
    let at = words.iter().position(|w| *w == "--area").unwrap();
    words[at + 1] = "area";
    std::fs::create_dir(place.path("root")).unwrap();
    let ran = place.done(&[&words[..], &["--dry-run", "--root", "root"]].concat());
    assert!(ran.out.contains("--policy") && ran.out.contains("nothing was written"), "{}", ran.out);
}

/// A read every ten seconds in the first 50 minutes of each of five days, then silence.
fn five_days() -> String {
    let reads = scattered(&mut Dice::new(26), 1_500);
    let line = |(i, (start, len, _)): (u64, &(u64, u64, bool))| {
        format!("{}.0 0 {start} {len} 1\n", i / 300 * 86_400_000 + i % 300 * 10_000)
    };
    (0..).zip(&reads).map(line).collect()
}

/// In standby the disk takes 1 W instead of 8 W. Pauses of ten seconds are too short for it, but each
/// night has 83,410 s: 83 kJ, and 0.1 kJ for a stop and a start, instead of 667 kJ. A day, which is a
/// fold, has 691 kJ.
#[test]
fn the_nights_between_the_folds_of_an_open_loop_count() {
    let place = Place::with("a.trace", five_days());
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--open-loop"];
    let advice = advice(&place, &[&args[..], &["--policy", "adaptive,borg"]].concat());
    assert_eq!(advice["fold_days"], serde_json::json!([1, 1, 1, 1, 1]));
    let tried = advice["tried"].as_array().unwrap();
    for t in tried.iter().filter(|t| t["change"] != "layout" || t["replan_folds"].is_null()) {
        let span_s = number(&t["total"]["span_s"]);
        let days = span_s / 86_400.0;
        assert!((days / 4.0 - 1.0).abs() < 0.01, "{}: {span_s} s", t["system"]);
    }
    let stops = tried.iter().find(|t| t["system"] == "spin-down adaptive").unwrap();
    let share = number(&stops["saves_energy"]["share"]);
    assert!((0.80..0.86).contains(&share), "{share}");
    assert!(words(&advice).contains("spin-down adaptive saves 8"), "{}", words(&advice));
}

/// The trail saves time and costs writes, for which an object store sends a bill.
#[test]
fn money_decides_where_operations_are_billed() {
    let place = Place::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst");
    let on = |disk: &str| {
        let policy = "adaptive,adaptive:trail=off";
        advice(&place, &[sample, "--event", "D", "--disk", disk, "--policy", policy])
    };
    let billed = on("object-store");
    let folds = billed["fold_requests"].as_array().unwrap().len();
    let held_out = billed["held_out_folds"].as_u64().unwrap() as usize;
    let sum = |tried: &Value, of: &dyn Fn(&Value) -> f64| -> f64 {
        tried["laps"].as_array().unwrap()[1..folds - held_out].iter().map(of).sum()
    };
    let usd: &dyn Fn(&Value) -> f64 = &|lap| number(&lap["operations_usd"]);
    let busy: &dyn Fn(&Value) -> f64 =
        &|lap| number(&lap["busy_s"]) + number(&lap["background_busy_s"]);
    let tried = billed["tried"].as_array().unwrap();
    let best = |of| {
        let layouts = tried.iter().filter(|t| t["change"] == "layout");
        let least = layouts.min_by(|a, b| sum(a, of).total_cmp(&sum(b, of)));
        least.unwrap()["system"].as_str().unwrap()
    };
    assert_eq!((best(usd), best(busy)), ("adaptive:trail=off", "adaptive"));
    assert_eq!(billed["ranked_by"], "money");
    let choice = chosen(&billed);
    assert_eq!(choice["system"], best(usd));
    let by_hand = 1.0 - sum(choice, usd) / sum(&tried[0], usd);
    assert!((number(&choice["saves_usd"]["share"]) - by_hand).abs() < 1e-9, "{by_hand}");
    let said = words(&billed);
    for part in [" of the price of operations, background", " operations to object-store instead"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(choice["saves_energy"], Value::Null, "the power of this device is not known");
    assert_eq!(billed["a_year"]["joules"], Value::Null);
    assert!(!said.contains(" MJ "), "{said}");
    let free = on("wd800jb");
    assert_eq!(free["ranked_by"], "time");
    assert_eq!(
        (chosen(&free)["system"].as_str(), &chosen(&free)["saves_usd"]),
        (Some("adaptive"), &Value::Null)
    );
    for folder in ["fleet", "small"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink(sample, place.path("fleet/one.zst")).unwrap();
    // Whatever the trace is, a disk sends no bill.
    place.file("small/one", mixed());
    for (fleet, disk, dollars) in [("fleet", "object-store", true), ("small", "wd800jb", false)] {
        let args = ["--event", "D", "--disk", disk, "--policy", "adaptive:trail=off"];
        let ran = place.run(&[&["advise", "--fleet", fleet], &args[..]].concat());
        let found = (ran.code, ran.out.contains("dollars"));
        assert_eq!(found, (Some(0), dollars), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn a_trace_without_valid_days_is_cut_by_requests() {
    let day = |i: usize| if i < 60 { i / 10 + 1 } else { 0 };
    let text: String = (0..1000).map(|i| format!("{} 8 {} {i}\n", i * 8, day(i))).collect();
    let place = Place::with("x.lis", text);
    assert_eq!(place.run(&["convert", "lis:x.lis", "x.parquet"]).code, Some(0));
    for trace in ["lis:x.lis", "x.parquet"] {
        let advice = advice(&place, &[trace, "--disk", "wd800jb", "--policy", "borg"]);
        let numbers = |key: &str| -> Vec<u64> {
            advice[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
        };
        assert!(numbers("fold_days").iter().all(|days| *days == 0), "{trace}");
        let requests = numbers("fold_requests");
        let (least, most) = (requests.iter().min().unwrap(), requests.iter().max().unwrap());
        assert!(most - least <= 1, "{trace}: {requests:?}");
    }
}
