//! Placement by temperature in `simulate`, and its mixture in `stat`, through the binary.

use crate::support::{Dice, Place, TOY, number};

/// Eight blocks of one read go to both sides of the middle by turns.
#[test]
fn a_read_of_data_that_changed_places_is_one_request() {
    let place = Place::with("toy.toml", TOY);
    let mut text = String::from("time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n");
    for n in 0..400 {
        text += &format!("{n}.0,,R,{},128,,,,\n", n % 20 * 4096);
    }
    place.file("t.csv", text);
    let args = ["t.csv", "--disk", "toy.toml", "--policy", "vanilla,blocks-in-place"];
    let bare = ["--cache", "0", "--read-ahead", "0", "--cluster", "0"];
    let told = place.json(&[&args[..], &bare].concat());
    let runs = told["runs"].as_array().unwrap();
    for (run, parts) in runs.iter().zip([1.0, 2.0]) {
        assert_eq!(run["requests"], 200, "{run}");
        assert!(number(&run["device_ios"]) >= 200.0 * parts, "{run}");
        let joules = number(&run["energy_j"]["total"]);
        assert!((number(&run["j_per_op"]) - joules / 200.0).abs() < 1e-9, "{run}");
    }
}

#[test]
fn placement_by_temperature_is_compared_on_a_trace() {
    // Eight hot megabytes all over the disk, read again and again in another order each time.
    let place = Place::with("toy.toml", TOY);
    let mut text = String::from("time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n");
    let mut dice = Dice::new(7);
    for n in 0..4000 {
        // Of forty places the lower numbers are hotter.
        let unit = dice.unit();
        let at = (unit * unit * 40.0) as u64 * 2111 % 84_000 / 8 * 8;
        text += &format!("{n}.0,,R,{at},8,,,,\n");
    }
    place.file("t.csv", text);
    let policies = "vanilla,organ-pipe,buckets,lazy,cylinder-shuffle,block-shuffle,outer-zone,cylinders-in-place,blocks-in-place";
    let args = ["t.csv", "--disk", "toy.toml", "--policy", policies, "--optimized", "4MiB"];
    let bare = ["--cache", "0", "--read-ahead", "0", "--cluster", "0"];
    let told = place.json(&[&args[..], &bare].concat());
    let runs = told["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 9);
    let seek = |name: &str| {
        let run = runs.iter().find(|r| r["policy"] == name).unwrap();
        number(&run["seek_s"])
    };
    let vanilla = seek("vanilla");
    for name in [
        "organ-pipe",
        "buckets",
        "block-shuffle",
        "outer-zone",
        "cylinders-in-place",
        "blocks-in-place",
    ] {
        assert!(seek(name) < vanilla * 0.7, "{name}: {} of {vanilla}", seek(name));
        let run = runs.iter().find(|r| r["policy"] == name).unwrap();
        assert!(
            number(&run["background_busy_s"]) > 0.0 && number(&run["moved_bytes"]) > 0.0,
            "{run}"
        );
    }
    assert!(seek("lazy") < vanilla && seek("lazy") > seek("organ-pipe"));
    // The trace's temperature, as a mixture.
    let told = place.told(&["stat", "t.csv"]);
    let mixture = &told["mixture"];
    assert!(
        number(&mixture["off_most"]) < 0.15 && number(&mixture["seek_shorter"]) > 0.05,
        "{mixture}"
    );
}
