//! Metadata that workers read to open files, and that nobody ordered.

use super::*;

/// As with a job that was learned while all inodes were in memory.
#[test]
fn inodes_that_a_job_lacks_are_used_with_their_files_or_in_vain() {
    let job: Vec<Page> = (0..600).map(|i| (100 + i, 0)).collect();
    let mut world = World::after(TAR, &job);
    world.cool();
    world.speed = 0;
    world.uses(TAR, &job[..10]);
    for inode in 0..50 {
        let order = world.watcher.next_order(SimTime(world.now), true).unwrap();
        if world.cache.insert((order.pages.file, order.pages.first)) {
            world.watcher.fetched(Pages { file: DEVICE, first: inode * 64, count: 1 });
            world.watcher.fetched(order.pages);
        }
    }
    let counts = |world: &mut World| {
        let totals = world.totals();
        (totals.fetched, totals.used, totals.vain, world.watcher.ahead())
    };
    assert_eq!(counts(&mut world), (80, 0, 0, 80), "an inode for each of 40 files");
    world.uses(TAR, &job[10..30]);
    assert_eq!(counts(&mut world), (80, 40, 0, 40));
    world.end();
    assert_eq!(counts(&mut world), (80, 40, 40, 0));
    assert_eq!(world.totals().vain_last_hour, 40 * 8, "each is a read of 8 ms");
    let report = &world.watcher.report()[0];
    assert_eq!((report.fetched, report.vain), (80, 40));
}

#[test]
fn metadata_that_are_read_for_no_file_are_in_vain() {
    let mut watcher = Watcher::default();
    watcher.fetched(Pages { file: DEVICE, first: 7, count: 2 });
    let totals = watcher.totals(SimTime(0));
    assert_eq!((totals.fetched, totals.used, totals.vain), (2, 0, 2));
    assert_eq!(watcher.ahead(), 0);
}

#[test]
fn a_short_hole_of_an_order_is_read_for_no_file() {
    let job: Vec<Page> = (0..300).flat_map(|p| [0, 4].map(|i| (DEVICE, p * 640 + i))).collect();
    let mut world = World::after(DU, &job);
    let (_, fetched) = world.run(DU, &job);
    let totals = world.totals();
    assert!(fetched as u64 > 2 * totals.fetched, "with holes: {fetched}");
    assert!((500..=600).contains(&totals.fetched) && totals.vain == 0, "{totals:?}");
}

#[test]
fn a_leaf_with_many_groups_of_inodes_is_one_read() {
    let mut watcher = Watcher::default().by_inode(true);
    let piece = Piece::new(PieceId { file: DEVICE, chunk: 0 }, 1);
    watcher.metadata.insert(key(1, &piece), (1, piece));
    let order = watcher.next_order(SimTime(0), true).unwrap();
    watcher.fetched(Pages { count: 20, ..order.pages });
    assert_eq!(watcher.totals(SimTime(0)).fetched, 1, "the rest came with the group");
    watcher.fetched(Pages { file: DEVICE, first: 1000, count: 20 });
    assert_eq!(watcher.totals(SimTime(0)).fetched, 2);
}
