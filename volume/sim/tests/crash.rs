//! Tests of the crash enumerator: it finds mistakes, and finds none in the engine.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code, reason = "the example `torture` uses the rest")]
mod enumerator;
mod regressions;
mod toy;

use enumerator::{History, Looks, Machine, Tally, explore, shrink};
use seekless_engine::Engine;
use toy::{Toy, Wrong};

/// Histories from these seeds; panics with the smallest history found of the first failure.
fn all_hold<M: Machine>(
    seeds: std::ops::Range<u64>,
    history: impl Fn(u64) -> History,
    looks: u64,
) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if let Err(failure) = explore::<M>(&history(seed), &Looks::Each(looks), &mut tally) {
            panic!("{}", shrink::<M>(failure, 300));
        }
    }
    println!("{tally:?}");
    tally
}

fn is_long() -> bool {
    std::env::var_os("SEEKLESS_LONG").is_some()
}

/// Of the seeds of the long form (SEEKLESS_LONG=1): half of them in the short one.
fn seeds(long: u64) -> u64 {
    if is_long() { long } else { long / 2 }
}

/// What the counts of so many seeds exceed: half as many seeds have a quarter at least.
fn least(long: u64) -> u64 {
    if is_long() { long } else { long / 4 }
}

/// The example `torture` examines a million of them.
#[test]
fn the_engine_keeps_its_promises_in_every_state_that_a_crash_leaves() {
    let tally = all_hold::<Engine>(0..seeds(80), History::of, 2);
    assert!(tally.states > least(6_000) && tally.cut > least(2_000), "{tally:?}");
    assert!(tally.damaged > least(1_000) && tally.told > least(30), "{tally:?}");
    // The crashes interrupt all of the engine's work.
    assert!(tally.done.iter().all(|&n| n > least(15)), "{tally:?}");
    let [passes, damaged, lost] = tally.scrubs;
    assert!(tally.scrubbed > least(1_000) && passes > least(1_000), "{tally:?}");
    assert!(damaged > least(5) && lost > least(1), "{tally:?}");
}

/// Replicas, free map, watermarks and victims.
#[test]
fn with_replicas_in_discarded_pages_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..seeds(30), History::with_replicas, 2);
    assert!(tally.states > least(3_000) && tally.cut > least(1_000), "{tally:?}");
    assert!(tally.damaged > least(500), "{tally:?}");
    // Half of the seeds may be too few for a rare kind of work.
    assert!(!is_long() || tally.done.iter().all(|&n| n > 0), "{tally:?}");
}

/// Blocks of two sectors are written, discarded and zeroed side by side in pages where replicas
/// come and go; and the engine dies alone, too.
#[test]
fn under_blocks_shorter_than_a_page_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..seeds(8), History::with_parts, 1);
    assert!(tally.states > least(1_000) && tally.killed > least(300), "{tally:?}");
    assert!(tally.cut > least(200), "{tally:?}");
}

/// Reads, writes and flushes of either device fail, for a time or for good, with copies and with
/// replicas.
#[test]
fn where_devices_fail_it_keeps_them_too() {
    for replicas in [false, true] {
        let tally =
            all_hold::<Engine>(4..4 + seeds(20), |seed| History::with_faults(seed, replicas), 2);
        assert!(tally.states > least(2_000) && tally.failed > least(500), "{tally:?}");
        assert!(!is_long() || replicas || tally.forgot > 0, "{tally:?}");
    }
}

/// Copies in the order of use: they are appended, read, overwritten by the ring, dropped by writes,
/// found again, and proven.
#[test]
fn with_a_trail_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..seeds(16), History::with_trail, 1);
    assert!(tally.states > least(3_000) && tally.cut > least(500), "{tally:?}");
    assert!(tally.killed > least(500), "{tally:?}");
    let [appended, reads, rounds, dropped, in_doubt, proven] = tally.trail;
    assert!(appended > least(400) && reads > least(100) && rounds > least(20), "{tally:?}");
    assert!(dropped > least(30) && in_doubt > least(10) && proven > least(5), "{tally:?}");
}

/// Copies are opened, written in place, destaged, closed and overwritten. Dirty pages that stay in
/// the plan go to the log and leave it.
#[test]
fn with_writes_in_place_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..seeds(16), History::with_in_place, 1);
    assert!(tally.states > least(3_000) && tally.cut > least(500), "{tally:?}");
    assert!(tally.killed > least(500), "{tally:?}");
    assert!(tally.in_place > least(100) && tally.done[2] > least(100), "{tally:?}");
    assert!(tally.relocated > least(40), "{tally:?}");
    assert!(tally.trail[0] > 0, "{tally:?}");
}

#[test]
fn what_is_right_is_found_right() {
    let tally = all_hold::<Toy<{ Wrong::Nothing as u8 }>>(0..24, History::of, 2);
    assert!(tally.states > 2000 && tally.cut > 600 && tally.damaged > 400, "{tally:?}");
}

/// Seeds until the mistake is found; the smallest history that shows it has at most `most` steps.
fn found<const WRONG: u8>(most: usize) {
    let failure = (0..200).find_map(|seed| {
        explore::<Toy<WRONG>>(&History::of(seed), &Looks::Each(2), &mut Tally::default()).err()
    });
    let small = shrink::<Toy<WRONG>>(failure.unwrap(), 300);
    println!("{small}");
    assert!(small.history.steps.len() <= most, "{small}");
}

#[test]
fn what_is_wrong_is_found() {
    found::<{ Wrong::FlushLies as u8 }>(40);
    found::<{ Wrong::FuaForgotten as u8 }>(40);
    found::<{ Wrong::EndsEarly as u8 }>(40);
    found::<{ Wrong::StaleCopy as u8 }>(40);
    found::<{ Wrong::RecoveryGoesBack as u8 }>(40);
    found::<{ Wrong::RecoveryIsTorn as u8 }>(40);
    found::<{ Wrong::TrustsTheArea as u8 }>(40);
    found::<{ Wrong::Misplaced as u8 }>(40);
    found::<{ Wrong::Panics as u8 }>(40);
    found::<{ Wrong::NeverEnds as u8 }>(40);
}
