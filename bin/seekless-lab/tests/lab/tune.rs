//! `tune` finds the settings that pay.

use crate::support::{Dice, Place, disksim, number, scattered};

#[test]
fn tune_finds_the_area_that_holds_what_comes_again() {
    let mut dice = Dice::new(43);
    // 600 places again and again, amid ten times as many that never come back.
    let again = scattered(&mut dice, 600);
    let mut all = Vec::new();
    for _ in 0..16 {
        all.extend_from_slice(&again);
        all.extend(scattered(&mut dice, 400));
    }
    let place = Place::with("a.trace", disksim(&all));
    let args = ["tune", "a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--folds", "8"];
    let json = place.told(&[&args[..], &["--report", "t.html"]].concat());
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
    assert!(table.out.contains("new plan after"), "{}", table.out);
}

/// Writes that a buffer absorbs are work for later. The folds that choose may not leave it to others.
#[test]
fn the_folds_that_choose_pay_for_their_writes() {
    let mut writes = scattered(&mut Dice::new(44), 1_000);
    writes.iter_mut().for_each(|(_, _, reads)| *reads = false);
    let place = Place::with("a.trace", disksim(&writes));
    let json = place.told(&[
        "tune", "a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--folds", "4", "--gather", "1s",
    ]);
    let panels = json["panels"].as_array().unwrap();
    let panel = panels.iter().find(|p| p["parameter"] == "write_buffer").unwrap();
    let points = panel["points"].as_array().unwrap();
    let all = points.iter().find(|p| p["setting"]["write_buffer_percent"] == 100).unwrap();
    let (saves, held_out) = (&all["saves_busy"]["share"], &all["held_out_saves_busy"]);
    assert!((number(saves) - number(held_out)).abs() < 0.3, "{saves}, held out: {held_out}");
}
