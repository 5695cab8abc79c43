//! Placement by temperature in `simulate`, and its mixture in `stat`, through the binary.

use crate::support::{Dice, Place, TOY, number};

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
