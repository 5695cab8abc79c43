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

/// As a loop at a prompt: each command has its own group, and the last ones are idle.
#[test]
fn idle_runs_have_no_share_of_what_may_be_ahead() {
    let job = metadata(6000, 36);
    let mut world = World::after(DU, &job);
    world.watcher.limit(Limits { pages_ahead: 1000, ..Limits::default() });
    world.speed = 0;
    let begin = |world: &mut World, group| {
        world.cool();
        world.uses(PageUser { group, ..DU }, &job[..10]);
    };
    (20..27).for_each(|group| begin(&mut world, group));
    world.now += IDLE.0;
    begin(&mut world, 27);
    assert!(world.watcher.next_order(SimTime(world.now), true).is_some());
    // With a seventh of the budget, it has about 70.
    let waiting = world.watcher.metadata.len();
    assert!(waiting > 200, "{waiting}");
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

/// As beside a backup on another partition: it is not known what of this is in vain.
#[test]
fn orders_wait_for_what_is_ahead_on_another_file_system() {
    let mut watcher = Watcher::default();
    let limits = Limits { price: Duration(SECOND), ..Limits::default() };
    watcher.limit(Limits { vain_elsewhere: VAIN_MOST, ..limits });
    let piece = Piece::new(PieceId { file: DEVICE, chunk: 9 }, 1);
    watcher.metadata.insert(key(1, &piece), (1, piece));
    assert_eq!(watcher.next_order(SimTime(0), true), None);
    watcher.limit(limits);
    assert!(watcher.next_order(SimTime(0), true).is_some(), "it is not forgotten");
    assert_eq!(watcher.totals(SimTime(0)).guarded, 0);
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

/// Single pages cost a read each, beside long files of another job.
#[test]
fn pages_ahead_cost_what_the_orders_of_their_own_job_took() {
    let mut watcher = Watcher::default();
    watcher.limit(Limits { price: Duration(SECOND), ..Limits::default() });
    for (group, ahead, took) in [(1, 320, (1000, 32_000)), (2, 100, (200, 200))] {
        let mut chase = Chase::new(1, (0, 1), true, true, true);
        (chase.ahead, chase.took) = (ahead, took);
        let mut run = Run::new(PageUser { group, program: 0 }, SimTime(0));
        run.chase = Some(chase);
        watcher.runs.insert(group, run);
        watcher.ahead += ahead;
    }
    assert_eq!(watcher.vain_at_most(SimTime(0)), Duration(110 * SECOND));
    watcher.ahead += 5;
    assert_eq!(watcher.vain_at_most(SimTime(0)), Duration(115 * SECOND), "without a chase");
}

#[test]
fn what_all_runs_have_ahead_is_the_sum_of_what_each_has() {
    let mut world = World::new();
    let job = with_files(&metadata(1000, 63));
    world.run(TAR, &job);
    world.cool();
    for part in job.chunks(50) {
        world.cache.remove(&part[30]);
        world.uses(TAR, &part[..40]);
        let (file, first) = part[44];
        world.watcher.touched(SimTime(world.now), None, Pages { file, first, count: 1 });
        let sum: u64 = world.watcher.runs.values().flat_map(|r| &r.chase).map(|c| c.ahead).sum();
        assert_eq!(sum, world.watcher.ahead());
    }
    world.end();
    assert_eq!(world.watcher.ahead(), 0);
}

#[test]
fn all_orders_together_take_bounded_memory() {
    let job = |id: u32, pieces: usize| {
        let piece = |chunk| Piece::new(PieceId { file: DEVICE, chunk }, 1);
        Job::new(id, 1, (0..pieces as u32).map(piece).collect())
    };
    let mut watcher = Watcher::default();
    watcher.set_jobs(vec![job(1, PIECES_ALL / 2), job(2, 100)]);
    for (group, id) in [(1, 1), (2, 1), (3, 2)] {
        let mut chase = Chase::new(id, (0, 0), true, true, true);
        while id == 1
            && let Some(piece) = chase.next(&watcher.jobs[0], u64::MAX)
        {
            chase.used(&watcher.jobs[0], piece.place, 1, false);
        }
        let mut run = Run::new(PageUser { group, program: 1 }, SimTime(0));
        run.chase = Some(chase);
        watcher.runs.insert(group, run);
    }
    assert_eq!(watcher.next_order(SimTime(0), true), None);
    watcher.runs.remove(&1);
    assert!(watcher.next_order(SimTime(0), true).is_some());
}

/// As the nightly job beside servers that are never idle.
#[test]
fn without_space_for_pieces_the_largest_run_ends() {
    let mut watcher = Watcher::default();
    let mut miss = |group: u32, n: u64| {
        let pages = Pages { file: DEVICE, first: n * 64, count: 1 };
        watcher.missed(SimTime(n), 0, PageUser { group, program: 0 }, pages);
        watcher.runs.contains_key(&5)
    };
    for n in 0..20 {
        miss(5, n);
    }
    for group in 1..5 {
        for n in 20..20 + PIECES_ALL as u64 / 4 {
            assert!(miss(group, n), "{group}: {n}");
        }
    }
    assert!(watcher.runs.len() < 5, "one of the others ended");
}
