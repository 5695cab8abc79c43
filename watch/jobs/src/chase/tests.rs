//! A chase over jobs of single pieces.

use super::*;
use crate::DEVICE;

const PIECES: u32 = 5000;

fn job() -> Job {
    let piece = |chunk| Piece::new(PieceId { file: DEVICE, chunk }, 1);
    Job::new(1, 0, (0..PIECES).map(piece).collect())
}

/// Uses one piece of `every`, and orders what it may meanwhile; returns the number of orders.
fn ordered(every: usize, sees: bool) -> usize {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, false, false);
    chase.sees = sees;
    let mut orders = 0;
    for chunk in (1..PIECES).step_by(every) {
        chase.judge(&job);
        while let Some(piece) = chase.next(&job, u64::MAX) {
            orders += 1;
            chase.fetched(piece.place, 1);
        }
        chase.used(&job, PieceId { file: DEVICE, chunk }, 1, false);
    }
    orders
}

#[test]
fn a_window_closes_when_the_program_passes_over_what_was_fetched() {
    assert_eq!(ordered(1, true), PIECES as usize - 1);
    assert!(ordered(2, true) > 4000, "half is used: {}", ordered(2, true));
    let orders = ordered(10, true);
    assert!(orders < 700, "{orders}");
    assert!(ordered(10, false) > 1000, "it stays open while uses in memory are not seen yet");
}

#[test]
fn what_serves_to_open_files_leaves_space_in_the_window() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, false, false);
    let mut orders = 0;
    while let Some(piece) = chase.next(&job, u64::MAX) {
        orders += 1;
        chase.served(piece.place, 1);
    }
    assert_eq!(orders, PIECES as usize - 1);
}

#[test]
fn what_the_program_has_passed_is_not_ordered() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, false, false);
    for chunk in 1..1000 {
        chase.used(&job, PieceId { file: DEVICE, chunk }, 1, true);
    }
    let first = chase.next(&job, u64::MAX).map(|p| p.place.chunk);
    assert_eq!(first, Some(999 - SURE as u32));
}

#[test]
fn a_run_leaves_its_job_after_many_uses_outside() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, false, false);
    for other in 1..u64::from(STRAYS) {
        chase.used(&job, PieceId { file: other, chunk: 0 }, 1, false);
    }
    assert!(!chase.is_lost());
    chase.used(&job, PieceId { file: DEVICE, chunk: 5 }, 1, false);
    for other in 1..=u64::from(STRAYS) {
        assert!(!chase.is_lost(), "{other}");
        chase.used(&job, PieceId { file: other, chunk: 0 }, 1, false);
    }
    assert!(chase.is_lost());
}

#[test]
fn a_jump_is_followed_after_three_uses_and_is_not_judged() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, false, false);
    let use_one = |chase: &mut Chase, chunk| {
        chase.used(&job, PieceId { file: DEVICE, chunk }, 1, false);
        chase.next(&job, u64::MAX).map(|p| p.place.chunk)
    };
    assert_eq!(use_one(&mut chase, 4000), Some(1));
    assert_eq!(use_one(&mut chase, 4001), Some(2));
    assert_eq!(use_one(&mut chase, 4002), Some(4003));
    assert_eq!((chase.metadata.good, chase.metadata.bad), (0, 0));
}

#[test]
fn uses_far_ahead_are_no_jump_while_the_program_goes_on() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, false, false);
    let mut orders = 0;
    for chunk in 1..100 {
        chase.used(&job, PieceId { file: DEVICE, chunk: 4000 + chunk }, 1, false);
        chase.used(&job, PieceId { file: DEVICE, chunk }, 1, false);
        while let Some(piece) = chase.next(&job, u64::MAX) {
            orders += 1;
            assert_eq!(piece.place.chunk, orders);
        }
    }
    assert!(orders > 100, "{orders}");
}

#[test]
fn metadata_make_no_jump_of_a_program_that_uses_files() {
    let places = (0..PIECES).map(|chunk| match chunk {
        0..2000 => PieceId { file: u64::from(chunk) + 1, chunk: 0 },
        _ => PieceId { file: DEVICE, chunk },
    });
    let job = Job::new(1, 0, places.map(|p| Piece::new(p, 1)).collect());
    let mut chase = Chase::new(1, (0, 1), true, true, true);
    chase.used(&job, PieceId { file: 1, chunk: 0 }, 1, false);
    for chunk in 4000..4010 {
        chase.used(&job, PieceId { file: DEVICE, chunk }, 1, false);
    }
    assert_eq!((chase.at, chase.files.next), (0, 1));
    for file in 1000..1003 {
        chase.used(&job, PieceId { file, chunk: 0 }, 1, false);
    }
    assert_eq!(chase.at, 1001, "files do");
}

#[test]
fn metadata_alone_leads_past_an_exit() {
    let place = |n: u32| match n {
        0..10 => PieceId { file: u64::from(n) + 1, chunk: 0 },
        _ => PieceId { file: DEVICE, chunk: n },
    };
    let mut job = Job::new(1, 7, (0..1000).map(|n| Piece::new(place(n), 1)).collect());
    job.exits = vec![(place(20), crate::job::JobPause { losses: 1, runs: 8 })];
    let mut chase = Chase::new(1, (0, 1), true, true, true);
    chase.fence = job.fence(0);
    for n in 0..1000 {
        assert_eq!(chase.fence.is_some(), n <= 20 + NEAR as u32 + CROSSED, "{n}");
        chase.used(&job, place(n), 1, true);
    }
    assert_eq!(chase.fence, None);
}

#[test]
fn a_piece_outside_is_one_use_whatever_the_number_of_its_requests() {
    let job = job();
    let outside = |n: u32| PieceId { file: DEVICE, chunk: PIECES + n };
    let mut chase = Chase::new(1, (0, 1), true, true, true);
    for n in 1..STRAYS {
        for page in 0..32 {
            chase.used(&job, outside(n), 1 << page, true);
        }
        assert!(!chase.is_lost(), "{n}");
    }
    chase.used(&job, outside(STRAYS), 1, true);
    assert!(chase.is_lost());
    let mut groups = Chase::new(1, (0, 1), true, true, true);
    for group in 0..STRAYS {
        groups.used(&job, outside(1), 1 << group, false);
    }
    assert!(groups.is_lost(), "a group of inodes is a read");
}

#[test]
fn the_requests_of_one_piece_far_ahead_are_no_jump() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, true, true);
    for page in 0..32 {
        chase.used(&job, PieceId { file: DEVICE, chunk: 4000 }, 1 << page, true);
    }
    assert_eq!((chase.at, chase.next(&job, u64::MAX).map(|p| p.place.chunk)), (0, Some(1)));
}

/// As after another job, which needed half of what may be ahead.
#[test]
fn a_window_is_as_large_as_before_once_more_may_be_ahead() {
    let job = job();
    let mut chase = Chase::new(1, (0, 1), true, true, false);
    let mut orders = |most| std::iter::from_fn(|| chase.next(&job, most)).count();
    assert_eq!(orders(0), WINDOW_FIRST);
    assert_eq!(orders(u64::MAX), WINDOW_SAME - WINDOW_FIRST);
}
