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
