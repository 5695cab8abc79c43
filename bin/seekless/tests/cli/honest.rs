//! Where there is nothing to learn, nothing may be claimed; where there is much, it must be found.

use crate::support::{Dice, Place, busy, disksim, number, run_of, scattered};

/// Layouts that are made whatever they cost.
const ANEW: &str = "vanilla,borg:planning=anew";

/// What is told of a layout that is made whatever it costs.
fn told(place: &Place) -> String {
    place.ok(&["simulate", "a.trace", "--disk", "wd800jb", "--policy", ANEW])
}

#[test]
fn at_random_there_is_nothing_to_learn_and_it_is_said() {
    let place = Place::with("a.trace", disksim(&scattered(&mut Dice::new(11), 8000)));
    let policies = "vanilla,borg,adaptive,clairvoyant";
    // With read-ahead, adaptive would save the reading of data that nobody wants.
    let args = ["a.trace", "--disk", "wd800jb", "--read-ahead", "0", "--policy", policies];
    let json = place.json(&args);
    for policy in ["borg", "adaptive", "clairvoyant"] {
        let ratio = busy(&json, policy) / busy(&json, "vanilla");
        assert!((0.99..1.01).contains(&ratio), "{policy} is {ratio} of vanilla");
    }
    assert_eq!(run_of(&json, "borg")["moved_bytes"], 0, "what saves nothing is not moved");
    let json = place.json(&["a.trace", "--disk", "wd800jb", "--policy", ANEW]);
    assert!(number(&run_of(&json, "borg")["background_busy_s"]) > 0.0, "what it moved is counted");
    let text = told(&place);
    assert!(text.contains("nothing to gain"), "{text}");
    assert!(text.contains("% more"), "with the moving counted it is a loss: {text}");
}

#[test]
fn a_scattered_sequence_asked_again_and_again_is_found() {
    let once = scattered(&mut Dice::new(12), 1000);
    let place = Place::with("a.trace", disksim(&once.repeat(8)));
    // The same RAM for all, and too small for the sequence: who has it side by side must read it
    // again, too.
    let policies = "vanilla,borg,adaptive";
    let small = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB", "--policy", policies];
    let json = place.json(&small);
    let (vanilla, borg) = (busy(&json, "vanilla"), busy(&json, "borg"));
    assert!(borg < 0.1 * vanilla, "{borg} s of {vanilla} s");
    let notes = json["notes"].to_string();
    assert!(notes.contains("s of background work in the training part"), "{notes}");
    let all = busy(&json, "adaptive") + number(&run_of(&json, "adaptive")["background_busy_s"]);
    assert!(all < 0.3 * vanilla, "the trail: {all} s of {vanilla} s");
    let all = borg + number(&run_of(&json, "borg")["background_busy_s"]);
    assert!(all < 0.5 * vanilla, "even with the moving counted: {all} s of {vanilla} s");
    let energy = |policy| number(&run_of(&json, policy)["energy_j"]["total"]);
    assert!(energy("borg") < 0.5 * energy("vanilla"));
    // Asked-for sectors alone, no RAM: the gain is the layout's, not a larger read's.
    let bare = ["--cache", "0", "--read-ahead", "0", "--cluster", "0", "--policy", "vanilla,borg"];
    let json = place.json(&[&["a.trace", "--disk", "wd800jb"], &bare[..]].concat());
    assert!(busy(&json, "borg") < 0.1 * busy(&json, "vanilla"));
    assert_eq!(run_of(&json, "borg")["copy_hits"], 4000);
}

#[test]
fn a_second_half_unlike_the_first_gains_nothing_that_was_not_foreseen() {
    let mut dice = Dice::new(13);
    let (first, second) = (scattered(&mut dice, 1000), scattered(&mut dice, 1000));
    let place = Place::with("a.trace", disksim(&[first.repeat(4), second.repeat(4)].concat()));
    let policies = ["--policy", "vanilla,borg,adaptive"];
    let args = ["a.trace", "--disk", "wd800jb", "--cache", "1MiB"];
    let json = place.json(&[&args[..], &policies].concat());
    let (vanilla, borg) = (busy(&json, "vanilla"), busy(&json, "borg"));
    assert!((0.98..1.02).contains(&(borg / vanilla)), "{borg} s of {vanilla} s");
    assert!(busy(&json, "adaptive") < 0.8 * vanilla, "it learns while it serves");
    assert!(number(&run_of(&json, "borg")["background_busy_s"]) > 0.0);
}

/// A quarter of 256 MiB, and of 2 GiB.
#[test]
fn write_buffers_of_several_sizes_are_named() {
    let place = Place::with("a.trace", disksim(&scattered(&mut Dice::new(16), 200)));
    let cases: [(&str, &[&str], bool); 4] = [
        ("vanilla,borg,adaptive", &["--write-buffer", "25%"], true),
        ("vanilla,borg,adaptive", &["--write-buffer", "25%", "--optimized", "256MiB"], false),
        ("vanilla,borg,adaptive:trail=off", &["--write-buffer", "25%"], false),
        ("vanilla,borg,adaptive", &[], false),
    ];
    for (policies, buffer, differ) in cases {
        let args = ["a.trace", "--disk", "wd800jb", "--policy", policies];
        let notes = place.json(&[&args[..], buffer].concat())["notes"].to_string();
        assert_eq!(notes.contains("the write buffers differ"), differ, "{policies}: {notes}");
    }
}

/// An `fstrim` in the training, as one on the first day of a week: its space is free when the
/// measurement begins, unless the training writes there again.
#[test]
fn replicas_stand_in_space_that_the_training_discarded() {
    let mut dice = Dice::new(15);
    let pieces =
        |rwbs: &'static str| (0..16u64).map(move |i| (rwbs, 8_000_000 + i * 500_000, 500_000));
    // Places in the first megabytes, each followed by a place two gigabytes away.
    let pairs: Vec<_> =
        (0..50).map(|_| (dice.below(500) * 8, 4_000_000 + dice.below(50_000) * 8)).collect();
    let reads = pairs.iter().flat_map(|&(near, far)| [("R", near, 8), ("R", far, 8)]);
    let reads = reads.cycle().take(2_000);
    for (again, free) in [(false, true), (true, false)] {
        let mut text = "time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n".to_owned();
        let writes = pieces("W").filter(|_| again);
        for (n, (rwbs, at, len)) in pieces("D").chain(writes).chain(reads.clone()).enumerate() {
            text += &format!("{n}.0,,{rwbs},{at},{len},,,,\n");
        }
        let place = Place::with("t.csv", text);
        let args = ["t.csv", "--disk", "wd800jb", "--policy", "vanilla,fs2-static"];
        let json = place.json(&args);
        let run = run_of(&json, "fs2-static");
        let background_s = number(&run["background_busy_s"]);
        assert_eq!(background_s > 0.0, free, "{background_s} s: {}", json["notes"]);
        assert!(!json["notes"].to_string().contains("the trace discards nothing"));
    }
}

/// A write that waits in the write buffer is work that the disk still owes.
#[test]
fn a_system_with_replicas_destages_its_write_buffer() {
    let mut writes = scattered(&mut Dice::new(14), 2_000);
    writes.iter_mut().for_each(|(_, _, reads)| *reads = false);
    let place = Place::with("a.trace", disksim(&writes));
    let buffer = ["--train", "0%", "--write-buffer", "50%", "--gather", "1s"];
    let args = ["a.trace", "--disk", "wd800jb", "--policy", "vanilla,fs2"];
    let json = place.json(&[&args[..], &buffer[..]].concat());
    // Each page goes home: even in order of address this takes 2 ms.
    let background = number(&run_of(&json, "fs2")["background_busy_s"]);
    assert!(background > 1.0, "{background} s");
    let notes = json["notes"].to_string();
    assert!(notes.contains("vanilla has no write buffer"), "{notes}");
}
