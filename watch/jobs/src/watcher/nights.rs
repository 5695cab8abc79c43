//! Fourteen nights of jobs whose data change daily, with idle time cut out. The sequences are made
//! up: metadata and files scattered over a disk.

use super::tests::{Page, World, with_files};
use super::*;
use crate::DEVICE;

const NIGHTS: u64 = 14;
/// Directories and inodes of the tree, in pages of the device.
const TREE: usize = 3000;
/// Pages that a program's start reads.
const PROGRAM: usize = 150;
const DU: PageUser = PageUser { group: 10, program: 1 };
const TAR: PageUser = PageUser { group: 11, program: 2 };
const RSYNC: PageUser = PageUser { group: 12, program: 3 };
const START: PageUser = PageUser { group: 13, program: 4 };

/// A tree in which files come and go.
struct Tree {
    pages: Vec<Page>,
    random: u64,
}

impl Tree {
    fn new(seed: u64, pages: usize) -> Self {
        let mut tree = Self { pages: Vec::new(), random: seed };
        for _ in 0..pages {
            let page = tree.page();
            tree.pages.push(page);
        }
        tree
    }

    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.random >> 33) % end as u64) as usize
    }

    /// A page of metadata at a place of its own.
    fn page(&mut self) -> Page {
        (DEVICE, self.below(1 << 30) as u64 * 64)
    }

    /// A day: of a hundred pages three move, one is new, and one is gone.
    fn day(&mut self) {
        for i in 0..self.pages.len() / 20 {
            let at = self.below(self.pages.len());
            match i % 5 {
                0 => drop(self.pages.remove(at)),
                1 => {
                    let page = self.page();
                    self.pages.insert(at, page);
                }
                _ => self.pages[at] = self.page(),
            }
        }
    }
}

/// One night: misses, pages fetched, and pages used, by job.
fn night(world: &mut World, tree: &Tree, program: &[Page]) -> [(usize, usize, usize); 4] {
    let tar = with_files(&tree.pages[..TREE / 4]);
    let jobs: [(PageUser, &[Page]); 4] =
        [(DU, &tree.pages), (TAR, &tar), (RSYNC, &tree.pages), (START, program)];
    jobs.map(|(who, pages)| {
        let (misses, fetched) = world.run(who, pages);
        (misses, fetched, pages.len())
    })
}

#[test]
fn fourteen_nights_converge_stay_bounded_and_none_is_slow() {
    let mut world = World::new();
    let mut tree = Tree::new(17, TREE);
    let program: Vec<Page> = Tree::new(99, PROGRAM).pages;
    for number in 1..=NIGHTS {
        let before = world.watcher.totals(SimTime(0)).vain;
        let jobs = night(&mut world, &tree, &program);
        let misses: usize = jobs.iter().map(|j| j.0).sum();
        let used: usize = jobs.iter().map(|j| j.2).sum();
        let vain = (world.watcher.totals(SimTime(0)).vain - before) as usize;
        let pieces: usize = world.watcher.jobs().iter().map(|j| j.pieces().len()).sum();
        let known = world.watcher.jobs().len();
        eprintln!(
            "night {number}: {used} used, {misses} misses, {vain} in vain, {known} jobs, {pieces} pieces"
        );
        // No night is slow: what a job waits for and what is read in vain is never more than the
        // job alone would read.
        assert!(misses + vain <= used + used / 50, "night {number}");
        // A tenth, and what has moved or is new: one in 25.
        assert!(number < 3 || misses * 100 <= used * 14, "night {number}: {misses} of {used}");
        // What has moved is read in vain for three nights: 3 times one in 25.
        assert!(vain * 100 <= used * 12 || number == 1, "night {number}: {vain} in vain");
        // One job for each program, and no more than what was used in the last nights.
        assert!(known <= 6, "night {number}: {known} jobs");
        assert!(pieces * 2 <= used * 3, "night {number}: {pieces} pieces");
        tree.day();
    }
    assert!(world.watcher.jobs().iter().all(|j| !j.rests()), "nothing rests after good nights");
}
