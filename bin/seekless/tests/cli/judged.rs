//! A layout that judges itself keeps its promise for every day.

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
