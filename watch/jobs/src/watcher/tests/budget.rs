//! What may be ahead: windows, the budget, the guard, and memory for orders.

use super::*;

/// A larger window would hold pages from all over the job, and few of the next ones.
#[test]
fn a_window_holds_no_more_than_may_be_ahead() {
    let job = metadata(6000, 35);
    let mut world = World::new();
    world.watcher.limit(Limits { pages_ahead: 1000, ..Limits::default() });
    world.run(DU, &job);
    let (misses, _) = world.run(DU, &job);
    assert!(misses < 300, "{misses}");
}

#[test]
fn a_window_holds_no_more_than_the_guard_allows() {
    let job = metadata(6000, 61);
    let mut world = World::new();
    // 2250 reads in vain of an hour.
    let price = Duration(VAIN_MOST.0 / 2250);
    world.watcher.limit(Limits { price, pages_ahead: 1 << 17, ..Limits::default() });
    world.run(DU, &job);
    let (misses, _) = world.run(DU, &job);
    assert!(misses < 300, "{misses}");
    assert_eq!(world.totals().guarded, 0, "nothing was in vain");
}

/// What is ahead counts as if in vain, and may be used.
#[test]
fn orders_wait_for_what_is_ahead_and_are_forgotten_for_what_was_in_vain() {
    let mut watcher = Watcher::default();
    watcher.limit(Limits { price: Duration(SECOND), ..Limits::default() });
    let most = VAIN_MOST.0 / SECOND - IN_FLIGHT;
    let piece = Piece::new(PieceId { file: DEVICE, chunk: 9 }, 1);
    watcher.metadata.insert(key(1, &piece), (1, piece));
    watcher.ahead = most + 1;
    assert_eq!(watcher.next_order(SimTime(0), true), None);
    watcher.ahead = most;
    assert!(watcher.next_order(SimTime(0), true).is_some(), "it is not forgotten");
    assert_eq!(watcher.totals(SimTime(0)).guarded, 0);
    watcher.metadata.insert(key(1, &piece), (1, piece));
    watcher.in_vain(SimTime(0), most, (1, 1));
    watcher.ahead = 1;
    assert_eq!(watcher.next_order(SimTime(0), true), None);
    watcher.ahead = 0;
    assert!(watcher.next_order(SimTime(0), true).is_some(), "allowed with nothing ahead");
    watcher.metadata.insert(key(1, &piece), (1, piece));
    watcher.in_vain(SimTime(0), 1, (1, 1));
    assert_eq!(watcher.next_order(SimTime(0), true), None);
    assert!(watcher.metadata.is_empty(), "nothing more until the allowance returns");
    assert_eq!(watcher.totals(SimTime(0)).guarded, 1);
}

/// As `du` uses tables of inodes: most pages of a piece stay ahead after its first use.
#[test]
fn a_job_whose_pages_stay_ahead_gets_help_to_its_end() {
    let job: Vec<Page> =
        (0..32).flat_map(|i| (0..200).map(move |p| (DEVICE, p * 640 + i))).collect();
    let mut world = World::new();
    // 116 of these 200 pieces may be ahead.
    world.watcher.limit(Limits { price: Duration(SECOND), ..Limits::default() });
    world.run(DU, &job);
    world.run(DU, &job);
    let totals = world.totals();
    assert_eq!((totals.guarded, totals.vain), (0, 0), "{totals:?}");
    assert!(totals.orders >= 190, "{totals:?}");
}
