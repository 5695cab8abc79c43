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
