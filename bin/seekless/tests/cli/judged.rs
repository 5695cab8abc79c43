//! A layout that judges itself keeps its promise for every day, and `tune` finds what pays.

use serde_json::Value;

use crate::support::{Dice, Place, disksim, number, run_of};

fn scattered(dice: &mut Dice, n: usize) -> Vec<(u64, u64, bool)> {
    (0..n).map(|_| (dice.below(5_000_000) * 8, 8, true)).collect()
}

/// Every day's busy time over vanilla's, moving counted.
fn ratios(run: &Value) -> Vec<f64> {
    let all = |d: &Value| number(&d["busy_s"]) + number(&d["background_busy_s"]);
    let days = run["days"].as_array().unwrap();
    days.iter().map(|d| all(d) / number(&d["vanilla_s"])).collect()
}

#[test]
fn every_day_is_answered_for_and_what_comes_again_pays() {
    let place = Place::new();
    let once = scattered(&mut Dice(41), 400);
    place.file("a.trace", disksim(&once.repeat(72)));
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--train", "10%"];
    let json = place.json(&[&args[..], &["--policy", "vanilla,judged"]].concat());
    let run = run_of(&json, "judged");
    let ratios = ratios(run);
    assert_eq!(ratios.len(), 12);
    assert!(ratios.iter().all(|&r| r <= 1.01), "{ratios:?}");
    assert!(ratios[11] < 0.5, "{ratios:?}");
    // The days are the run: nothing is left out of them.
    let sum =
        |of: &str| run["days"].as_array().unwrap().iter().map(|d| number(&d[of])).sum::<f64>();
    for (of, whole) in [
        ("busy_s", number(&run["busy_s"])),
        ("background_busy_s", number(&run["background_busy_s"])),
        ("vanilla_s", number(&run_of(&json, "vanilla")["busy_s"])),
    ] {
        assert!((sum(of) - whole).abs() <= 0.001 * whole, "{of}: {} of {whole}", sum(of));
    }
    assert!(run_of(&json, "vanilla").get("days").is_none());
    let table = place.run(&[&["simulate"], &args[..], &["--policy", "vanilla,judged"]].concat());
    assert!(table.out.contains("day by day"), "{}", table.out);
}

#[test]
fn where_nothing_comes_again_nothing_is_moved() {
    let place = Place::new();
    place.file("a.trace", disksim(&scattered(&mut Dice(42), 10_000)));
    let json = place.json(&["a.trace", "--disk", "wd800jb", "--policy", "vanilla,judged"]);
    let run = run_of(&json, "judged");
    assert_eq!(number(&run["background_busy_s"]), 0.0);
    assert!(ratios(run).iter().all(|&r| r <= 1.01));
}

#[test]
fn tune_finds_the_area_that_holds_what_comes_again() {
    let place = Place::new();
    let mut dice = Dice(43);
    // 600 places again and again, amid ten times as many that never come back.
    let again = scattered(&mut dice, 600);
    let mut all = Vec::new();
    for _ in 0..16 {
        all.extend_from_slice(&again);
        all.extend(scattered(&mut dice, 400));
    }
    place.file("a.trace", disksim(&all));
    let args = ["tune", "a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--folds", "8"];
    let ran = place.run(&[&args[..], &["--json", "-", "--report", "t.html"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["schema"], "seekless.tune/1");
    let panels = json["panels"].as_array().unwrap();
    let names: Vec<&str> = panels.iter().map(|p| p["parameter"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["interval", "size"]);
    for panel in panels {
        let points = panel["points"].as_array().unwrap();
        let shares: Vec<f64> = points.iter().map(|p| number(&p["saves_busy"]["share"])).collect();
        let best = shares[panel["best"].as_u64().unwrap() as usize];
        assert!(shares.iter().all(|&s| s <= best), "{shares:?}");
        // Moving is never a gain.
        assert!(
            points
                .iter()
                .all(|p| number(&p["saves_foreground"]) >= number(&p["saves_busy"]["share"]))
        );
    }
    let intervals = panels[0]["points"].as_array().unwrap();
    let folds: Vec<u64> =
        intervals.iter().filter_map(|p| p["setting"]["interval_folds"].as_u64()).collect();
    assert_eq!(folds, [1, 2, 4]);
    let chosen = &json["chosen"];
    assert!(number(&chosen["saves_busy"]["share"]) > 0.2, "{chosen}");
    assert!(number(&chosen["held_out_saves_busy"]) > 0.2, "{chosen}");
    assert!(std::fs::read_to_string(place.path("t.html")).unwrap().contains("Figure 12"));
    let table = place.run(&args);
    assert!(table.out.contains("Best of"), "{}", table.out);
    assert!(table.out.contains("planned anew after"), "{}", table.out);
}
