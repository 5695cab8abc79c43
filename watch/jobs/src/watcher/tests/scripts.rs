//! Several programs in one process group, as in a script.

use super::*;

const SECOND_PROGRAM: PageUser = PageUser { group: 10, program: 9 };

#[test]
fn a_second_program_of_a_script_goes_on_in_its_job() {
    let job = metadata(2000, 60);
    let mut world = World::new();
    for _ in 0..3 {
        world.cool();
        world.uses(DU, &job[..1000]);
        // As pages that the kernel has dropped: the second program waits for these.
        for at in [1001, 1003, 1005] {
            world.cache.remove(&job[at]);
        }
        world.uses(SECOND_PROGRAM, &job[1000..]);
        world.end();
    }
    let totals = world.totals();
    assert!(totals.fetched > 3000 && totals.vain <= 6, "{totals:?}");
    assert!(world.watcher.jobs()[0].exits.is_empty());
}

/// As `du` and then `tar` on one tree, if the kernel has dropped it meanwhile.
#[test]
fn a_second_program_that_begins_again_is_helped_from_there() {
    let job = metadata(1000, 66);
    let mut world = World::new();
    for round in 0..2 {
        world.cool();
        world.uses(DU, &job);
        world.cache.clear();
        let before = world.misses;
        world.uses(SECOND_PROGRAM, &job);
        let misses = world.misses - before;
        assert!(round == 0 || misses < 200, "{misses}");
        world.end();
    }
}

/// The first program is asked whether the job rests, and the second one ends the run.
#[test]
fn a_script_whose_runs_lose_is_left_alone() {
    // One page of each piece is used again, and the others are not.
    let job: Vec<Page> =
        (0..400).flat_map(|p: u64| (0..8).map(move |i| (DEVICE, p * 640 + i))).collect();
    let part: Vec<Page> = job.iter().copied().step_by(8).collect();
    let mut world = World::new();
    let mut run = |pages: &[Page], seed| {
        world.cool();
        world.uses(DU, pages);
        // New pages each time: it waits for them.
        world.uses(SECOND_PROGRAM, &metadata(10, seed));
        world.end();
        world.watcher.jobs.truncate(1);
        world.fetched
    };
    run(&job, 62);
    let fetched = [63, 64, 65].map(|seed| run(&part, seed));
    assert!(fetched[0] > 1000 && fetched[1] > 1000, "{fetched:?}");
    assert_eq!(fetched[2], 0, "{fetched:?}");
}

/// The second program begins the job again, when the first one has lost for the second time.
#[test]
fn a_second_program_that_begins_a_lost_job_again_is_left_alone() {
    let job: Vec<Page> =
        (0..400).flat_map(|p: u64| (0..8).map(move |i| (DEVICE, p * 640 + i))).collect();
    let part: Vec<Page> = job.iter().copied().step_by(8).collect();
    let mut world = World::new();
    for (pages, again) in [(&job, false), (&part, false), (&part, true)] {
        world.cool();
        world.uses(DU, pages);
        let before = world.fetched;
        assert!(pages == &job || before > 1000, "{before}");
        if again {
            world.cache.clear();
            world.uses(SECOND_PROGRAM, pages);
            assert_eq!(world.fetched, before);
        } else {
            world.uses(SECOND_PROGRAM, &metadata(10, 67 + before as u64));
        }
        world.end();
        world.watcher.jobs.truncate(1);
    }
}

/// The first program is asked whether the job rests, and the job is of the second one. Help that
/// makes a job slower pauses it for both.
#[test]
fn a_script_that_is_helped_again_is_not_reported_as_paused() {
    let job = metadata(1000, 69);
    let mut world = World::new();
    let run = |world: &mut World| {
        world.cool();
        world.uses(DU, &job[..500]);
        world.uses(SECOND_PROGRAM, &job[500..]);
        world.end();
        (world.fetched > 0, world.watcher.report()[0].rests)
    };
    assert_eq!(run(&mut world), (false, false), "learned");
    let slow = Duration(99 * SECOND);
    (0..4).for_each(|_| world.watcher.jobs[0].whole_run(true, 1, slow));
    for n in 1..=8 {
        assert_eq!(run(&mut world), (false, n < 8), "run {n}");
    }
    assert_eq!(run(&mut world), (true, false), "helped");
}
