//! Runs that are idle or stalled, and the measured time of runs.

use super::*;

#[test]
fn orders_of_an_idle_run_are_in_no_search_and_return_with_it() {
    let mut world = World::new();
    let (one, other) = (metadata(3000, 45), metadata(3000, 46));
    world.run(DU, &one);
    world.run(TAR, &other);
    world.cool();
    world.speed = 0;
    let of = |world: &World, who: PageUser| {
        world.watcher.metadata.values().filter(|(group, _)| *group == who.group).count()
    };
    world.uses(DU, &one[..300]);
    assert!(world.watcher.next_order(SimTime(world.now), true).is_some());
    let waiting = of(&world, DU);
    assert!(waiting > 100, "{waiting}");
    world.now += IDLE.0;
    world.uses(TAR, &other[..10]);
    assert!(world.watcher.next_order(SimTime(world.now), true).is_some());
    assert!(of(&world, DU) == 0 && of(&world, TAR) > 100);
    world.uses(DU, &one[300..301]);
    assert!(world.watcher.next_order(SimTime(world.now), true).is_some());
    assert!(of(&world, DU) + 1 >= waiting, "{} of {waiting}", of(&world, DU));
    world.end();
    assert!(world.watcher.parked.is_empty() && world.watcher.metadata.is_empty());
}

/// Alone, such uses are not seen.
#[test]
fn uses_of_the_same_pages_again_make_a_run_no_longer() {
    let job = metadata(1000, 48);
    let mut world = World::after(DU, &job);
    world.cool();
    (0..3).for_each(|_| world.uses(DU, &job));
    world.end();
    let millis = |world: &World| {
        let report = &world.watcher.report()[0];
        (report.helped.runs, report.plain.millis, report.helped.millis)
    };
    let (runs, plain, helped) = millis(&world);
    assert_eq!((runs, helped), (1, plain));
    // Alone, a miss after a pause begins another run.
    world.cool();
    world.uses(DU, &job);
    for _ in 0..4 {
        world.now += SECOND;
        world.uses(DU, &job[..1]);
    }
    world.uses(DU, &metadata(1, 49));
    world.end();
    assert_eq!(millis(&world), (2, plain, helped));
}

#[test]
fn uses_again_and_uses_of_what_was_not_ordered_say_nothing() {
    let job = metadata(300, 50);
    let mut world = World::after(DU, &job);
    let pages = |(file, first): Page| Pages { file, first, count: 1 };
    assert!(!world.watcher.awaits(pages(job[200])), "nothing is ordered");
    world.cool();
    world.uses(DU, &job[..100]);
    assert!(world.watcher.awaits(pages(job[50])) && world.watcher.awaits(pages(job[200])));
    assert!(world.watcher.awaits(Pages { count: 10_000, ..pages(job[200]) }), "a long read");
    assert!(!world.watcher.awaits(pages((7, 0))));
    let before = world.totals();
    (0..1000).for_each(|_| world.uses(DU, &job[50..51]));
    assert_eq!(world.totals(), before);
    let chase = world.watcher.runs.get_mut(&DU.group).and_then(|r| r.chase.as_mut()).unwrap();
    let mut again = |(file, first): Page| {
        let mut places = pieces(file, first, 1);
        places.all(|(place, mask)| chase.used_again(place, mask))
    };
    assert!(again(job[50]) && !again(job[200]), "then nothing more is done");
    world.uses(DU, &job[100..]);
    world.end();
    assert_eq!(world.totals().vain, 0);
}

/// Alone, such a run is not measured either: its uses in memory are not seen.
#[test]
fn a_run_with_most_pages_in_memory_before_is_not_measured() {
    let job = metadata(1000, 47);
    let mut world = World::after(DU, &job);
    for (there, helped) in [(700, 0), (100, 1)] {
        world.cool();
        world.cache.extend(&job[1000 - there..]);
        world.uses(DU, &job);
        world.end();
        assert!(world.fetched > 100, "{}", world.fetched);
        let report = &world.watcher.report()[0];
        assert_eq!((report.plain.runs, report.helped.runs), (1, helped), "{there}");
    }
}

#[test]
fn a_run_that_ends_for_want_of_space_is_not_measured() {
    let job = metadata(1000, 51);
    let mut world = World::after(DU, &job);
    world.cool();
    world.uses(DU, &job[..900]);
    for group in 100..100 + RUNS_MOST as u32 {
        world.uses(PageUser { group, program: 0 }, &metadata(1, 1000 + u64::from(group)));
    }
    assert!(!world.watcher.runs.contains_key(&DU.group));
    let report = &world.watcher.report()[0];
    assert_eq!((report.runs, report.helped.runs), (2, 0));
    world.end();
}

/// As a program that has started, and uses its pages all day.
#[test]
fn a_run_that_goes_no_further_in_its_job_is_not_watched_all_day() {
    let job = metadata(500, 49);
    let mut world = World::after(DU, &job);
    world.cool();
    world.uses(DU, &job);
    for second in 1..70 {
        world.now += SECOND;
        world.uses(DU, &job[..1]);
        world.watcher.tick(SimTime(world.now), 0, false);
        let stalled = Duration(second * SECOND) >= STALLED;
        assert_eq!(world.watcher.wants_touches(), !stalled, "{second} s");
    }
    world.end();
    let report = &world.watcher.report()[0];
    assert_eq!((report.runs, report.helped.runs, report.vain), (2, 1, 0));
    // A pause in the middle of a job.
    world.cool();
    world.uses(DU, &job[..300]);
    for _ in 1..70 {
        world.now += SECOND;
        world.uses(DU, &job[..1]);
        world.watcher.tick(SimTime(world.now), 0, false);
    }
    let before = world.fetched;
    world.cache.clear();
    world.uses(DU, &job[300..]);
    world.end();
    assert!(world.fetched > before + 100, "no help after the pause: {}", world.fetched - before);
}
