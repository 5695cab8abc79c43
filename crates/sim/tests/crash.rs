//! The crash enumerator: that it finds what is wrong, and that the engine has nothing of it.
#![allow(clippy::unwrap_used)]

mod toy;

use seekless_sim::crash::{History, Looks, Machine, Tally, explore, shrink};
use toy::{Toy, Wrong};

/// Histories from these seeds; panics with the smallest history found of the first failure.
fn all_hold<M: Machine>(seeds: std::ops::Range<u64>, looks: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if let Err(failure) = explore::<M>(&History::of(seed), &Looks::Each(looks), &mut tally) {
            panic!("{}", shrink::<M>(failure, 300));
        }
    }
    tally
}

#[test]
fn what_is_right_is_found_right() {
    let tally = all_hold::<Toy<{ Wrong::Nothing as u8 }>>(0..24, 2);
    println!("{tally:?}");
    assert!(tally.states > 2000 && tally.cut > 600 && tally.damaged > 400, "{tally:?}");
}

/// Seeds until the mistake is found; the smallest history that shows it has at most `most` steps.
fn found<const WRONG: u8>(most: usize) {
    let failure = (0..200).find_map(|seed| {
        explore::<Toy<WRONG>>(&History::of(seed), &Looks::Each(2), &mut Tally::default()).err()
    });
    let small = shrink::<Toy<WRONG>>(failure.expect("it must be found"), 300);
    println!("{small}");
    assert!(small.history.steps.len() <= most, "{small}");
}

#[test]
fn what_is_wrong_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    found::<{ Wrong::FlushLies as u8 }>(12);
    found::<{ Wrong::FuaForgotten as u8 }>(12);
    found::<{ Wrong::EndsEarly as u8 }>(12);
    found::<{ Wrong::StaleCopy as u8 }>(12);
    found::<{ Wrong::RecoveryGoesBack as u8 }>(12);
    found::<{ Wrong::RecoveryIsTorn as u8 }>(12);
    found::<{ Wrong::TrustsTheArea as u8 }>(12);
    found::<{ Wrong::WrongPlace as u8 }>(12);
    found::<{ Wrong::Panics as u8 }>(12);
    found::<{ Wrong::NeverEnds as u8 }>(12);
}
