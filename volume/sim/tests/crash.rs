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

/// The example `torture` examines a million of them.
#[test]
fn the_engine_keeps_its_promises_in_every_state_that_a_crash_leaves() {
    let tally = all_hold::<Engine>(0..80, History::of, 2);
    assert!(tally.states > 6_000 && tally.cut > 2_000, "{tally:?}");
    assert!(tally.damaged > 1_000 && tally.told > 30, "{tally:?}");
    // The crashes interrupt all of the engine's work.
    assert!(tally.done.iter().all(|&n| n > 15), "{tally:?}");
    let [passes, damaged, lost] = tally.scrubs;
    assert!(tally.scrubbed > 1_000 && passes > 1_000, "{tally:?}");
    assert!(damaged > 5 && lost > 1, "{tally:?}");
}

/// Replicas, free map, watermarks and victims.
#[test]
fn with_replicas_in_discarded_pages_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..30, History::with_replicas, 2);
    assert!(tally.states > 3_000 && tally.cut > 1_000 && tally.damaged > 500, "{tally:?}");
    assert!(tally.done.iter().all(|&n| n > 0), "{tally:?}");
}

/// Blocks of two sectors are written, discarded and zeroed side by side in pages where replicas
/// come and go; and the engine dies alone, too.
#[test]
fn under_blocks_shorter_than_a_page_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..8, History::with_parts, 1);
    assert!(tally.states > 1_000 && tally.killed > 300 && tally.cut > 200, "{tally:?}");
}

/// Reads, writes and flushes of either device fail, for a time or for good, with copies and with
/// replicas.
#[test]
fn where_devices_fail_it_keeps_them_too() {
    for replicas in [false, true] {
        let tally = all_hold::<Engine>(4..24, |seed| History::with_faults(seed, replicas), 2);
        assert!(tally.states > 2_000 && tally.failed > 500, "{tally:?}");
        assert!(replicas || tally.forgot > 0, "{tally:?}");
    }
}

/// Copies in the order of use: they are appended, read, overwritten by the ring, dropped by writes,
/// found again, and proven.
#[test]
fn with_a_trail_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..16, History::with_trail, 1);
    assert!(tally.states > 3_000 && tally.cut > 500 && tally.killed > 500, "{tally:?}");
    let [appended, reads, rounds, dropped, in_doubt, proven] = tally.trail;
    assert!(appended > 400 && reads > 100 && rounds > 20, "{tally:?}");
    assert!(dropped > 30 && in_doubt > 10 && proven > 5, "{tally:?}");
}

/// Copies are opened, written in place, destaged, closed and overwritten.
#[test]
fn with_writes_in_place_it_keeps_them_too() {
    let tally = all_hold::<Engine>(0..16, History::with_in_place, 1);
    assert!(tally.states > 3_000 && tally.cut > 500 && tally.killed > 500, "{tally:?}");
    assert!(tally.in_place > 100 && tally.done[2] > 100 && tally.trail[0] > 0, "{tally:?}");
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
