//! The watcher in a small world: programs use pages, a cache holds what was read, orders fill it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::orders::key;
use super::*;
use crate::{DEVICE, Piece, VAIN_MOST};

mod along;
mod budget;
mod long;
mod scripts;

const SECOND: u64 = 1_000_000_000;
const DU: PageUser = PageUser { group: 10, program: 1 };
const TAR: PageUser = PageUser { group: 11, program: 2 };

/// A page of a file, or of the device.
pub(super) type Page = (u64, u64);

pub(super) struct World {
    pub(super) watcher: Watcher,
    now: u64,
    cache: BTreeSet<Page>,
    /// Pages for which a program waited in this run.
    misses: usize,
    /// Pages fetched in this run.
    fetched: usize,
    /// Orders that the disk does for one use of a program.
    speed: usize,
    /// The kernel drops what was fetched before its use.
    drops: bool,
    /// The kernel shows uses in memory.
    sees: bool,
}

impl World {
    pub(super) fn new() -> Self {
        Self::of(Watcher::default())
    }

    /// After one cold run.
    pub(super) fn after(who: PageUser, pages: &[Page]) -> Self {
        let mut world = Self::new();
        world.run(who, pages);
        world
    }

    fn of(watcher: Watcher) -> Self {
        let cache = BTreeSet::new();
        let (drops, sees) = (false, true);
        Self { watcher, now: 0, cache, misses: 0, fetched: 0, speed: 4, drops, sees }
    }

    fn fetch(&mut self) {
        for _ in 0..self.speed {
            let Some(order) = self.watcher.next_order(SimTime(self.now), true) else { return };
            assert!(order.pages.count > 0 && order.pages.count <= ORDER_PAGES);
            for page in order.pages.first..order.pages.first + order.pages.count {
                if self.cache.insert((order.pages.file, page)) {
                    self.fetched += 1;
                    let pages = Pages { file: order.pages.file, first: page, count: 1 };
                    self.watcher.fetched(pages);
                }
                if self.drops {
                    self.cache.remove(&(order.pages.file, page));
                }
            }
        }
    }

    /// One cold run: uses each page, then is idle.
    pub(super) fn run(&mut self, who: PageUser, pages: &[Page]) -> (usize, usize) {
        self.cool();
        self.uses(who, pages);
        self.end();
        (self.misses, self.fetched)
    }

    fn cool(&mut self) {
        self.cache.clear();
        (self.misses, self.fetched) = (0, 0);
    }

    fn uses(&mut self, who: PageUser, pages: &[Page]) {
        for &(file, first) in pages {
            self.now += SECOND / 1000;
            let pages = Pages { file, first, count: 1 };
            if self.cache.insert((file, first)) {
                self.misses += 1;
                self.watcher.missed(SimTime(self.now), self.now / SECOND, who, pages);
            } else if self.watcher.wants_touches() && self.sees {
                self.watcher.touched(SimTime(self.now), Some(who.group), pages);
            }
            self.fetch();
        }
    }

    fn end(&mut self) {
        self.now += IDLE.0;
        self.watcher.tick(SimTime(self.now), self.now / SECOND, false);
        assert!(!self.watcher.is_busy());
    }

    fn totals(&mut self) -> Totals {
        self.watcher.totals(SimTime(self.now))
    }
}

/// Metadata scattered over the device.
fn metadata(n: u64, seed: u64) -> Vec<Page> {
    (0..n).map(|i| (DEVICE, (i * 7919 + seed * 104_729) % 1_000_003 * 64)).collect()
}

/// Each file after its metadata.
pub(super) fn with_files(metadata: &[Page]) -> Vec<Page> {
    metadata.iter().enumerate().flat_map(|(i, &m)| [m, (100 + i as u64, 0)]).collect()
}

#[test]
fn the_second_run_of_a_job_waits_for_a_few_pages_only() {
    let mut world = World::new();
    let job = metadata(2000, 1);
    assert_eq!(world.run(DU, &job), (2000, 0));
    let (misses, fetched) = world.run(DU, &job);
    assert!(misses < 40 && fetched > 1960, "{misses} misses, {fetched} fetched");
    // By another program, it takes one miss more to recognize it.
    let (misses, _) = world.run(TAR, &job);
    assert!(misses < 45, "{misses}");
    let report = world.watcher.report();
    let du = &report[0];
    assert_eq!((du.runs, du.plain.runs, du.helped.runs), (2, 1, 1));
    assert_eq!((du.plain.misses, du.vain), (2000, 0));
    assert!(du.helped.misses < 45);
    // The other program now has a job of its own, and no run of it was alone or measured.
    let tar = &report[1];
    assert_eq!((tar.runs, tar.plain.runs, tar.helped.runs), (1, 0, 0));
}

#[test]
fn a_programs_own_job_takes_over_from_anothers() {
    let names = metadata(1000, 2);
    let mut world = World::after(DU, &names);
    let most = with_files(&names[4..]);
    let first: Vec<Page> = most.iter().copied().chain(names[..4].iter().rev().copied()).collect();
    world.run(TAR, &first);
    // These begin like the job of DU, and not like that of TAR.
    let second: Vec<Page> = names[..4].iter().copied().chain(most).collect();
    let (misses, _) = world.run(TAR, &second);
    assert!(misses < 200, "{misses}");
}

#[test]
fn files_come_after_metadata_and_only_for_those_who_use_files() {
    let names = metadata(1000, 2);
    let all = with_files(&names);
    let mut world = World::after(TAR, &all);
    let (misses, _) = world.run(TAR, &all);
    assert!(misses < 200, "{misses}");
    // du uses the metadata of the same job, and no file.
    let (misses, fetched) = world.run(DU, &names);
    assert!(misses < 60, "{misses}");
    assert!(fetched <= 1000, "{fetched}");
    assert_eq!(world.watcher.totals(SimTime(world.now)).vain, 0);
}

#[test]
fn a_changed_tree_is_followed_and_learned() {
    let mut job = metadata(2000, 3);
    let mut world = World::after(DU, &job);
    for night in 0..10u64 {
        for k in 0..100 {
            let at = (night as usize * 100 + k * 19) % job.len();
            job[at] = (DEVICE, 900_000_000 + (night * 100 + k as u64) * 640);
        }
        let (misses, fetched) = world.run(DU, &job);
        assert!(misses < 220, "night {night}: {misses}");
        assert!(fetched < 2400, "night {night}: {fetched}");
    }
    assert_eq!(world.watcher.jobs().len(), 1);
    assert!(world.watcher.jobs()[0].pieces().len() < 2600, "what is gone is dropped in time");
}

#[test]
fn a_small_part_of_a_job_becomes_a_job_of_its_own_once_the_whole_is_too_much() {
    // 32 pages of each piece for du, 2 for tar.
    let all: Vec<Page> =
        (0..60).flat_map(|p| (0..32).map(move |i| (DEVICE, p * 640 + i))).collect();
    let part: Vec<Page> = all.iter().copied().filter(|p| p.1 % 32 < 2).collect();
    let mut world = World::after(DU, &all);
    world.run(DU, &all);
    let fetched: Vec<usize> = (0..4).map(|_| world.run(TAR, &part).1).collect();
    assert!(fetched[2..].iter().all(|&f| f <= part.len()), "{fetched:?}");
    let (misses, fetched) = world.run(DU, &all);
    assert!(misses < 200 && fetched > 1700, "du lost nothing: {misses} misses, {fetched} fetched");
}

/// Groups of inodes are a read each: a piece of them is much, and its holes are not read.
#[test]
fn a_few_pieces_of_inodes_are_a_job_and_every_piece_is_fetched_as_it_was_used() {
    let job: Vec<Page> = (0..100).map(|i| (DEVICE, i * 2)).collect();
    let mut device = World::after(DU, &job);
    assert_eq!(device.run(DU, &job), (100, 0), "seven pieces of the device are a few reads");
    let mut inodes = World::of(Watcher::default().by_inode(true));
    inodes.run(DU, &job);
    let (misses, fetched) = inodes.run(DU, &job);
    assert_eq!((misses, fetched), (2, 98));
}

#[test]
fn a_run_goes_on_while_the_disk_has_not_answered() {
    let mut watcher = Watcher::default();
    let mut now = SECOND;
    for (i, (file, first)) in metadata(20, 13).into_iter().enumerate() {
        // The disk spins up before the second read.
        now += if i == 1 { 10 * SECOND } else { SECOND / 100 };
        assert!(!watcher.tick(SimTime(now), 0, true));
        watcher.missed(SimTime(now), 0, DU, Pages { file, first, count: 1 });
    }
    assert!(!watcher.tick(SimTime(now + IDLE.0), 0, true));
    assert!(watcher.tick(SimTime(now + IDLE_WAITING.0), 0, true), "not for ever");
    assert_eq!(watcher.jobs()[0].pieces().len(), 20, "one run");
}

#[test]
fn a_run_that_teaches_nothing_changes_nothing() {
    let mut watcher = Watcher::default();
    let mut miss = |now, group, pages: &[Page]| {
        for &(file, first) in pages {
            let who = PageUser { group, program: 0 };
            watcher.missed(SimTime(now), 0, who, Pages { file, first, count: 1 });
        }
        watcher.tick(SimTime(now + IDLE.0), 0, false)
    };
    assert!(!miss(0, 1, &metadata(1, 40)), "one page");
    let job = metadata(2000, 41);
    assert!(miss(10 * SECOND, 1, &job));
    assert!(!miss(20 * SECOND, 1, &metadata(1, 40)));
    assert!(miss(30 * SECOND, 1, &job[..4]), "it was recognized");
    // The first pieces again: a run ends between two ticks.
    assert!(miss(40 * SECOND, 2, &[&job[..], &job[..16]].concat()));
    watcher.missed(SimTime(50 * SECOND), 0, DU, Pages { file: 1, first: 0, count: 1 });
    assert!(!watcher.finish(0));
}

#[test]
fn pages_here_and_there_in_many_pieces_are_there_in_time() {
    // As du uses tables of inodes: a page of each piece, then the next page of each.
    let job: Vec<Page> =
        (0..32).flat_map(|i| (0..200).map(move |p| (DEVICE, p * 640 + i))).collect();
    let mut world = World::after(DU, &job);
    let (misses, fetched) = world.run(DU, &job);
    assert!(misses < 200 && fetched > 6200, "{misses} misses, {fetched} fetched");
}

#[test]
fn a_run_leaves_the_job_of_another_program_once() {
    let job = metadata(2000, 11);
    let mut world = World::after(DU, &job);
    let before = world.watcher.totals(SimTime(0)).recognized;
    // Now and then it uses pages of that job, between many others.
    let others = metadata(3000, 12);
    let mixed = job.chunks(10).zip(others.chunks(50)).flat_map(|(a, b)| [a, b].concat());
    let (_, fetched) = world.run(TAR, &mixed.collect::<Vec<_>>());
    let recognized = world.watcher.totals(SimTime(0)).recognized - before;
    assert!(recognized <= 2 && fetched < 300, "{recognized} times, {fetched} fetched");
}

#[test]
fn a_run_that_leaves_its_job_costs_a_bounded_number_of_reads() {
    let job = metadata(5000, 4);
    let mut world = World::after(DU, &job);
    let mut other = job[..40].to_vec();
    other.extend(metadata(2000, 5));
    let (misses, fetched) = world.run(DU, &other);
    assert!(misses >= 2000);
    assert!(fetched < 600, "{fetched} fetched for a run that left after 40 pages");
    assert_eq!(world.watcher.jobs().len(), 2, "it is a job of its own");
}

#[test]
fn a_job_that_lost_twice_is_left_alone() {
    // One page of each piece is used again, and the others are not.
    let all = |p: u64| (0..8).map(move |i| (DEVICE, p * 640 + i));
    let job: Vec<Page> = (0..400).flat_map(all).collect();
    let part: Vec<Page> = job.iter().copied().step_by(8).collect();
    let mut world = World::after(DU, &job);
    let fetched: Vec<usize> = (0..3).map(|_| world.run(DU, &part).1).collect();
    assert!(fetched[0] > 1000, "{fetched:?}");
    world.watcher.jobs.truncate(1);
    let fetched: Vec<usize> = (0..3).map(|_| world.run(DU, &part).1).collect();
    assert_eq!(fetched[1..], [0; 2], "{fetched:?}");
    assert!(world.watcher.report()[0].rests);
}

/// Each night a job, and another job of its program that begins like it and then goes elsewhere.
#[test]
fn a_job_that_leaves_the_way_costs_little_and_its_programs_other_jobs_gain() {
    for (used, files) in [(200, true), (20, true), (300, false)] {
        let mut world = World::new();
        let make = |n, seed| {
            let names = metadata(n, seed);
            if files { with_files(&names) } else { names }
        };
        let job = make(2500, 21);
        let mut slow = 0;
        for night in 0..12 {
            let (misses, _) = world.run(TAR, &job);
            // One run in twenty is left alone.
            slow += u32::from(misses > 300);
            let mut other = job[..used].to_vec();
            let mut rest = make(2500, 22 + night);
            rest.iter_mut().filter(|p| p.0 != DEVICE).for_each(|p| p.0 += 10_000 * (1 + night));
            if night > 1 {
                // It uses some pieces of the job again, here and there.
                other.extend(job[used..used + 12].iter().step_by(5));
                let at = 1000 + night as usize * 20;
                rest.splice(1000..1000, job[at..at + 6].iter().copied());
            }
            other.extend(rest);
            let before = world.watcher.totals(SimTime(world.now)).vain;
            world.run(TAR, &other);
            let vain = world.watcher.totals(SimTime(world.now)).vain - before;
            assert!(night < 2 || vain < 32, "night {night}, {used}: {vain} in vain");
        }
        assert_eq!(slow, 2, "the first night, and the one left alone");
        assert!(!world.watcher.report()[0].rests);
    }
}

#[test]
fn a_run_that_goes_on_behind_an_exit_is_helped_again_and_the_exit_is_forgotten() {
    let job = metadata(3000, 6);
    let mut world = World::after(DU, &job);
    let mut all = Vec::new();
    for round in 0..6 {
        let mut other = job[100..112].to_vec();
        other.extend(metadata(100, 50 + round));
        all.push(world.run(DU, &other).1);
    }
    assert!(all[0] > 100 && all[1] > 100, "{all:?}");
    assert!(all[2..].iter().all(|&f| f <= 12), "up to the exit: {all:?}");
    let misses: Vec<usize> = (0..10).map(|_| world.run(DU, &job).0).collect();
    assert!(misses.iter().all(|&m| m < 200), "{misses:?}");
    assert!(misses[9] < misses[0], "{misses:?}");
    assert_eq!(world.watcher.jobs()[0].fence(0), None);
}

#[test]
fn one_run_in_twenty_is_left_alone_and_counted_as_plain() {
    let job = metadata(500, 7);
    let mut world = World::after(DU, &job);
    let runs: Vec<usize> = (0..40).map(|_| world.run(DU, &job).1).collect();
    assert_eq!(runs.iter().filter(|&&fetched| fetched == 0).count(), 2, "{runs:?}");
    let report = &world.watcher.report()[0];
    assert_eq!((report.plain.runs, report.helped.runs), (3, 38));
}

#[test]
fn a_dry_run_fetches_nothing_and_says_what_it_would_have_saved() {
    let mut world = World::new();
    world.watcher.limit(Limits { act: false, ..Limits::default() });
    let job = metadata(1000, 8);
    world.run(DU, &job);
    assert_eq!(world.run(DU, &job), (1000, 0));
    let report = &world.watcher.report()[0];
    let (sure, most) = report.would;
    assert!(sure > 900 && sure <= most && most < 1000, "{sure} to {most}");
    assert_eq!((report.plain.runs, report.helped.runs), (2, 0));
}

#[test]
fn a_run_for_which_the_limits_allowed_nothing_is_not_helped() {
    let mut world = World::new();
    world.watcher.limit(Limits { pages_ahead: 0, ..Limits::default() });
    let job = metadata(1000, 8);
    world.run(DU, &job);
    assert_eq!(world.run(DU, &job), (1000, 0));
    let report = &world.watcher.report()[0];
    assert_eq!((report.runs, report.plain.runs, report.helped.runs), (2, 1, 0));
}

#[test]
fn a_run_whose_end_was_not_seen_is_not_measured() {
    let job = metadata(3000, 42);
    let mut world = World::after(DU, &job);
    world.cool();
    world.speed = 1000;
    world.uses(DU, &job[..2400]);
    world.watcher.blind();
    world.sees = false;
    world.uses(DU, &job[2400..]);
    world.watcher.tick(SimTime(world.now + IDLE_WAITING.0), 0, true);
    assert!(world.misses < 100 && !world.watcher.is_busy(), "{}", world.misses);
    let report = &world.watcher.report()[0];
    assert_eq!((report.runs, report.helped.runs), (2, 0));
}

#[test]
fn nothing_is_fetched_beyond_the_budget_ahead_of_the_reader() {
    let mut world = World::new();
    world.speed = 1000;
    world.watcher.limit(Limits { pages_ahead: 50, ..Limits::default() });
    let job = metadata(3000, 9);
    world.run(DU, &job);
    world.cache.clear();
    for (i, &(file, first)) in job.iter().enumerate().take(600) {
        world.now += 1000;
        let pages = Pages { file, first, count: 1 };
        if world.cache.insert((file, first)) {
            world.watcher.missed(SimTime(world.now), 0, DU, pages);
        } else {
            world.watcher.touched(SimTime(world.now), Some(DU.group), pages);
        }
        world.fetch();
        let ahead = job[i + 1..].iter().filter(|p| world.cache.contains(p)).count();
        assert!(ahead <= 50 + ORDER_PAGES as usize, "{ahead}");
    }
}

#[test]
fn the_guard_stops_what_is_in_vain() {
    let mut world = World::new();
    let dear = Duration(SECOND);
    world.watcher.limit(Limits { price: dear, ..Limits::default() });
    world.speed = 1000;
    let job = metadata(3000, 10);
    world.run(DU, &job);
    for round in 0..30 {
        // Leaves the job after some uses; each time in another part of it, by other programs.
        let at = round * 90;
        let mut other = job[at..at + 20].to_vec();
        other.extend(metadata(40, 100 + round as u64));
        world.run(PageUser { group: 20 + round as u32, program: 0 }, &other);
        // Keeps the job from resting: here only the guard is tried.
        world
            .watcher
            .jobs
            .iter_mut()
            .for_each(|j| (j.rests, j.exits) = (Default::default(), Vec::new()));
        let hour = world.watcher.totals(SimTime(world.now)).vain_last_hour;
        assert!(hour <= VAIN_MOST.0 / 1_000_000, "{hour}");
    }
    assert!(world.watcher.totals(SimTime(world.now)).guarded > 0);
}

#[test]
fn what_the_driver_keeps_back_is_at_risk_and_ahead() {
    let mut watcher = Watcher::default();
    let seconds = VAIN_MOST.0 / SECOND;
    let limits = Limits { pages_ahead: 150, ..Limits::default() };
    watcher.limit(Limits { price: Duration(SECOND), ..limits });
    let fill = |watcher: &mut Watcher| {
        for chunk in [0, 9] {
            let piece = Piece::new(PieceId { file: DEVICE, chunk }, 1);
            watcher.metadata.insert(key(1, &piece), (1, piece));
        }
    };
    fill(&mut watcher);
    let next = |watcher: &mut Watcher, held| {
        watcher.hold(held);
        watcher.next_order(SimTime(0), true).is_some()
    };
    assert!(!next(&mut watcher, seconds - IN_FLIGHT + 1), "the guard");
    watcher.limit(Limits { price: Duration(1), vain_elsewhere: VAIN_MOST, ..limits });
    assert_eq!(watcher.next_order(SimTime(0), true), None, "the guard of another file system");
    fill(&mut watcher);
    watcher.limit(Limits { price: Duration(SECOND), ..limits });
    assert!(next(&mut watcher, seconds - IN_FLIGHT));
    watcher.limit(Limits { price: Duration(1), ..limits });
    assert!(!next(&mut watcher, 150), "the budget ahead of the reader");
    assert!(next(&mut watcher, 149), "nothing is forgotten meanwhile");
}

#[test]
fn metadata_goes_out_in_the_disks_order_with_short_holes() {
    let mut watcher = Watcher::default();
    for (chunk, mask) in [(40, 0b1), (3, 0b11), (3 + 9, 0b1), (4, 0b100)] {
        let piece = Piece::new(PieceId { file: DEVICE, chunk }, mask);
        watcher.metadata.insert(key(1, &piece), (1, piece));
    }
    let far = Piece { block: 7, generation: 9, ..Piece::new(PieceId { file: 8, chunk: 0 }, 0b111) };
    watcher.files.insert(key(1, &far), (1, far));
    let mut out = Vec::new();
    let mut metadata = 0;
    while let Some(order) = watcher.next_order(SimTime(0), false) {
        assert_eq!(order.pages.file, DEVICE);
        out.push((order.pages.file, order.pages.first, order.pages.count, order.generation));
        metadata += 1;
    }
    assert_eq!(metadata, 4, "files wait");
    while let Some(order) = watcher.next_order(SimTime(0), true) {
        out.push((order.pages.file, order.pages.first, order.pages.count, order.generation));
    }
    let at = |chunk: u64| chunk * 32;
    let all = [
        (0, at(3), 2, 0),
        (0, at(4) + 2, 1, 0),
        (0, at(12), 1, 0),
        (0, at(40), 1, 0),
        (8, 0, 3, 9),
    ];
    assert_eq!(out, all);
}

#[test]
fn neighbours_are_read_at_once() {
    let mut watcher = Watcher::default();
    for (chunk, mask) in [(1, 1 << 31), (2, 0b1), (3, u32::MAX), (4, 1 << 9 | 1 << 31)] {
        let piece = Piece::new(PieceId { file: DEVICE, chunk }, mask);
        watcher.metadata.insert(key(1, &piece), (1, piece));
    }
    let mut next = || watcher.next_order(SimTime(0), true).map(|o| (o.pages.first, o.pages.count));
    assert_eq!(next(), Some((63, 2)));
    assert_eq!(next(), Some((96, 32)));
    assert_eq!(next(), Some((128 + 9, 1)));
    assert_eq!(next(), Some((128 + 31, 1)));
    assert_eq!(next(), None);
    // Of two runs.
    for (group, mask) in [(1, 0b1111 << 5), (2, 0b11 << 6), (3, 0b1)] {
        let piece = Piece::new(PieceId { file: DEVICE, chunk: 7 }, mask);
        watcher.metadata.insert(key(group, &piece), (group, piece));
    }
    let mut next = || watcher.next_order(SimTime(0), true).map(|o| (o.pages.first, o.pages.count));
    assert_eq!(next(), Some((224 + 5, 4)));
    assert_eq!(next(), Some((224, 1)));
    assert_eq!(next(), None);
}

#[test]
fn a_file_that_is_gone_is_not_fetched_again() {
    let job: Vec<Page> = (100..400).map(|f| (f, 0)).collect();
    let mut world = World::after(TAR, &job);
    (200..300).for_each(|f| world.watcher.gone(f, 0));
    let rest: Vec<Page> = job.iter().copied().filter(|p| !(200..300).contains(&p.0)).collect();
    let (misses, fetched) = world.run(TAR, &rest);
    assert!(misses < 50 && fetched <= 200, "{misses} {fetched}");
    assert_eq!(world.watcher.jobs()[0].pieces().len(), 200);
}

#[test]
fn addresses_are_asked_for_once_and_kept() {
    let job: Vec<Page> = (100..200).map(|f| (f, 0)).collect();
    let mut world = World::after(TAR, &job);
    let mut asked = Vec::new();
    assert!(world.watcher.has_unresolved());
    while let Some((group, place)) = world.watcher.next_unresolved() {
        assert_eq!(group, TAR.group);
        world.watcher.resolved(place, 5, 1000 - place.file);
        asked.push(place.file);
    }
    assert_eq!(asked, (100..200).collect::<Vec<_>>());
    world.run(TAR, &job);
    assert!(!world.watcher.has_unresolved());
    assert_eq!(world.watcher.next_unresolved(), None);
    assert!(world.watcher.jobs()[0].pieces().iter().all(|p| p.generation == 5));
}

#[test]
fn a_file_with_a_number_that_another_had_is_asked_about_again() {
    let job: Vec<Page> = (100..200).map(|f| (f, 0)).collect();
    let mut world = World::after(TAR, &job);
    let asked = |world: &mut World| -> Vec<u64> {
        std::iter::from_fn(|| world.watcher.next_unresolved()).map(|(_, p)| p.file).collect()
    };
    for file in asked(&mut world) {
        world.watcher.resolved(PieceId { file, chunk: 0 }, 5, 1000 + file);
    }
    world.watcher.gone(150, 5);
    world.watcher.gone(160, 4);
    world.run(TAR, &job);
    assert_eq!(asked(&mut world), [150], "of 160 another generation was gone");
}

#[test]
fn what_is_read_once_is_evicted_before_what_is_read_daily() {
    let daily = metadata(100, 11);
    let mut world = World::after(DU, &daily);
    world.run(DU, &daily);
    for seed in 0..200 {
        let once: Vec<Page> = (0..20).map(|i| (10_000 + seed, i * 64)).collect();
        world.run(PageUser { group: 1000 + seed as u32, program: 0 }, &once);
    }
    assert!(world.watcher.jobs().len() <= JOBS_MOST);
    let (misses, _) = world.run(DU, &daily);
    assert!(misses < 40, "{misses}");
}

#[test]
fn jobs_fit_into_a_file_after_the_last_run_though_it_was_short() {
    let mut watcher = Watcher::default();
    let piece = |id: u32| Piece::new(PieceId { file: id.into(), chunk: 0 }, 1);
    watcher.set_jobs((1..=70).map(|id| Job::new(id, 0, vec![piece(id)])).collect());
    watcher.missed(SimTime(0), 0, DU, Pages { file: 1, first: 0, count: 1 });
    watcher.finish(0);
    assert!(watcher.fits());
}

#[test]
fn large_scans_that_ran_once_evict_no_nightly_job() {
    let big = |id: u32, runs: u32, last_used: u64| {
        let piece = |chunk| Piece::new(PieceId { file: id.into(), chunk }, 1);
        let mut job = Job::new(id, id.into(), (0..1 << 17).map(piece).collect());
        (job.runs, job.last_used) = (runs, last_used);
        job
    };
    let mut watcher = Watcher::default();
    let once = [big(3, 1, 12), big(4, 1, 13), big(5, 1, 14)];
    watcher.set_jobs([big(1, 100, 10), big(2, 100, 11)].into_iter().chain(once).collect());
    watcher.evict();
    assert_eq!(watcher.jobs().iter().map(|j| j.id).collect::<Vec<_>>(), [1, 2, 4, 5]);
}

#[test]
fn pages_that_the_kernel_drops_before_their_use_are_in_vain() {
    let job = metadata(2000, 30);
    let mut world = World::after(DU, &job);
    world.drops = true;
    for round in 0..2 {
        let (misses, fetched) = world.run(DU, &job);
        assert!(misses == 2000 && fetched > 100, "{round}: {fetched}");
        assert!(fetched < 600, "the windows close: {fetched}");
    }
    let totals = world.totals();
    assert_eq!((totals.used, totals.vain), (0, totals.fetched));
    assert!(totals.vain_last_hour > 0 && world.watcher.report()[0].rests);
    let mut inodes = World::of(Watcher::default().by_inode(true));
    inodes.drops = true;
    for _ in 0..2 {
        inodes.run(DU, &job);
    }
    assert!(inodes.totals().used > 500, "a group of inodes is in more than one block");
}

#[test]
fn a_new_job_is_learned_though_all_others_ran_twice() {
    let mut world = World::new();
    for seed in 0..64 {
        let job: Vec<Page> = (0..20).map(|i| (10_000 + seed, i * 64)).collect();
        for _ in 0..2 {
            world.run(PageUser { group: 10, program: 100 + seed }, &job);
        }
    }
    assert_eq!(world.watcher.jobs().len(), JOBS_MOST);
    let new = metadata(100, 31);
    world.run(DU, &new);
    let (misses, _) = world.run(DU, &new);
    assert!(misses < 40, "{misses}");
    assert_eq!(world.watcher.jobs().len(), JOBS_MOST);
}

#[test]
fn nothing_is_fetched_for_a_run_that_is_idle() {
    let job = metadata(3000, 32);
    let mut world = World::after(DU, &job);
    world.cool();
    world.speed = 1;
    world.uses(DU, &job[..300]);
    assert!(world.watcher.next_order(SimTime(world.now), true).is_some());
    world.now += IDLE.0;
    assert_eq!(world.watcher.next_order(SimTime(world.now), true), None);
    assert!(!world.watcher.is_group_at_work(DU.group, SimTime(world.now)));
    world.uses(DU, &job[300..301]);
    assert!(world.watcher.is_group_at_work(DU.group, SimTime(world.now)));
    world.watcher.limit(Limits { pages_ahead: 0, ..Limits::default() });
    assert!(!world.watcher.may_fetch(), "what the driver keeps back waits, too");
    world.watcher.limit(Limits::default());
    assert!(world.watcher.may_fetch());
    assert!(world.watcher.next_order(SimTime(world.now), true).is_some(), "it goes on");
}

#[test]
fn runs_at_the_same_time_take_no_orders_from_each_other() {
    let most: Vec<Page> =
        (0..200).flat_map(|p| (0..16).map(move |i| (DEVICE, p * 640 + i))).collect();
    let few: Vec<Page> = most.iter().copied().step_by(16).collect();
    for (one, other) in [(DU, TAR), (TAR, DU)] {
        let mut world = World::after(one, &most);
        world.run(other, &few);
        world.cool();
        world.speed = 0;
        world.uses(other, &few[..3]);
        world.uses(one, &most[32..80]);
        world.speed = 10_000;
        world.fetch();
        let missing = most[80..].iter().filter(|p| !world.cache.contains(p)).count();
        assert_eq!(missing, 0, "of {} pages", most.len());
    }
}

#[test]
fn all_runs_together_take_bounded_memory() {
    let mut watcher = Watcher::default();
    for i in 0..100_000 {
        for group in 0..6u32 {
            let first = (i * 6 + u64::from(group)) * 64;
            let pages = Pages { file: DEVICE, first, count: 1 };
            watcher.missed(SimTime(i), 0, PageUser { group, program: 0 }, pages);
        }
    }
    let seen: usize = watcher.runs.values().map(|r| r.seen.len()).sum();
    assert!(seen <= PIECES_ALL, "{seen}");
}

#[test]
fn what_comes_after_its_run_has_left_the_job_is_in_vain() {
    let job = metadata(3000, 38);
    let mut world = World::after(DU, &job);
    world.cool();
    world.speed = 0;
    world.uses(DU, &job[..10]);
    let now = SimTime(world.now);
    let orders: Vec<Order> = (0..10).map_while(|_| world.watcher.next_order(now, true)).collect();
    assert_eq!(orders.len(), 10);
    world.uses(DU, &metadata(40, 39));
    orders.iter().for_each(|o| world.watcher.fetched(o.pages));
    world.watcher.fetched(Pages { file: 7, first: 0, count: 9 });
    let totals = world.totals();
    assert_eq!((totals.fetched, totals.vain, totals.used), (10, 10, 0));
}

#[test]
fn a_run_that_is_recognized_twice_is_one_run() {
    let mut world = World::new();
    world.watcher.limit(Limits { pages_ahead: 50, ..Limits::default() });
    let job = metadata(1000, 33);
    let all = [&job[..200], &metadata(40, 34), &job[200..]].concat();
    world.run(DU, &job);
    let runs: Vec<usize> = (0..40).map(|_| world.run(DU, &all).1).collect();
    assert_eq!(runs.iter().filter(|&&fetched| fetched == 0).count(), 2, "{runs:?}");
    assert_eq!(world.totals().recognized, 40);
}

#[test]
fn each_group_of_inodes_in_vain_is_a_read() {
    let mut world = World::of(Watcher::default().by_inode(true));
    world.watcher.limit(Limits { price: Duration(SECOND / 1000), ..Limits::default() });
    let job: Vec<Page> = (0..4096).map(|group| (DEVICE, group)).collect();
    world.run(DU, &job);
    world.run(DU, &job[..40]);
    let totals = world.totals();
    assert!(totals.vain > 1000 && totals.vain_last_hour >= totals.vain * 9 / 10, "{totals:?}");
}

#[test]
fn pages_in_vain_cost_what_the_orders_of_their_own_job_took() {
    let mut world = World::new();
    let long: Vec<Page> = (0..600).flat_map(|f| (0..32).map(move |i| (100 + f, i))).collect();
    for _ in 0..3 {
        world.run(TAR, &long);
    }
    let job = metadata(5000, 4);
    world.run(DU, &job);
    let before = world.totals();
    assert!(before.fetched > 30_000, "many pages a read: {before:?}");
    world.run(DU, &[&job[..40], &metadata(2000, 5)].concat());
    let after = world.totals();
    let (pages, millis) = (after.vain - before.vain, after.vain_last_hour - before.vain_last_hour);
    assert!(pages > 100 && millis >= 7 * pages, "{pages} pages, each a read of 8 ms: {millis} ms");
}

#[test]
fn pages_ahead_count_as_if_in_vain() {
    let mut watcher = Watcher::default();
    watcher.limit(Limits { price: Duration(SECOND), ..Limits::default() });
    watcher.ahead = 1;
    assert_eq!(watcher.vain_at_most(SimTime(0)), Duration(SECOND));
}

#[test]
fn an_order_has_few_groups_of_inodes() {
    let mut watcher = Watcher::default().by_inode(true);
    for chunk in 0..6 {
        let piece = Piece::new(PieceId { file: DEVICE, chunk }, u32::MAX);
        watcher.metadata.insert(key(1, &piece), (1, piece));
    }
    let orders: Vec<Pages> =
        std::iter::from_fn(|| watcher.next_order(SimTime(0), false)).map(|o| o.pages).collect();
    let want = |n| Pages { file: DEVICE, first: n * ORDER_GROUPS, count: ORDER_GROUPS };
    assert_eq!(orders, (0..6 * 32 / ORDER_GROUPS).map(want).collect::<Vec<_>>());
}

#[test]
fn pages_that_a_run_has_passed_over_are_not_ahead_of_it() {
    let mut world = World::new();
    world.watcher.limit(Limits { pages_ahead: 1000, ..Limits::default() });
    let job = metadata(6000, 35);
    world.run(DU, &job);
    let most: Vec<Page> = job.chunks(3).flat_map(|c| &c[..2.min(c.len())]).copied().collect();
    let (_, fetched) = world.run(DU, &most);
    assert!(fetched > 4000, "{fetched}");
    let totals = world.totals();
    assert_eq!(totals.used + totals.vain, totals.fetched);
}

#[test]
fn uses_that_are_not_seen_cost_a_job_no_rest_and_no_piece() {
    let job = metadata(3000, 36);
    let mut world = World::after(DU, &job);
    world.speed = 1000;
    for night in 0..3 {
        world.cool();
        world.uses(DU, &job[..400]);
        world.watcher.blind();
        world.sees = false;
        for part in job[400..2800].chunks(1000) {
            world.uses(DU, part);
            // A flood: the driver waits longer.
            assert!(!world.watcher.tick(SimTime(world.now), 0, true));
        }
        world.sees = true;
        world.uses(DU, &job[2800..]);
        world.end();
        assert!(world.misses < 100, "night {night}: {}", world.misses);
        let report = &world.watcher.report()[0];
        assert!(!report.rests && report.metadata_pieces == 3000, "night {night}: {report:?}");
    }
}

#[test]
fn what_only_our_workers_used_is_in_vain_behind_the_place_of_the_program() {
    let names = metadata(400, 37);
    let job = with_files(&names);
    let mut world = World::after(TAR, &job);
    world.cool();
    world.speed = 1000;
    for &page in &job[..360] {
        world.uses(TAR, &[page]);
        let files: Vec<u64> = world.cache.iter().map(|p| p.0).filter(|&f| f != DEVICE).collect();
        for file in files {
            let (file, first) = names[file as usize - 100];
            let pages = Pages { file, first, count: 1 };
            world.watcher.touched(SimTime(world.now), None, pages);
        }
    }
    let before = world.totals().used;
    world.end();
    let totals = world.totals();
    assert!(totals.used >= before, "a counter that falls looks like a restart");
    assert!(totals.used <= 360 && totals.fetched > 700, "{totals:?}");
    assert_eq!(totals.used + totals.vain, totals.fetched);
    let report = &world.watcher.report()[0];
    assert_eq!((report.runs, report.helped.runs), (1, 0), "less than half of the job was used");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever programs do: no panic, bounded tables, and as much is booked as was fetched.
    #[test]
    fn any_events_leave_bounded_tables(
        events in prop::collection::vec(
            (0u8..4, 0u32..80, 0u64..6, 0u64..400, 1u64..70, 0u64..SECOND * 2), 1..400)
    ) {
        let mut watcher = Watcher::default();
        let mut now = 0;
        for (what, group, file, first, count, wait) in events {
            now += wait / 8;
            let pages = Pages { file, first: first * 8, count };
            let time = SimTime(now);
            match what {
                0 | 1 => watcher.missed(time, 0, PageUser { group, program: u64::from(group % 3) }, pages),
                2 => watcher.touched(time, (group > 9).then_some(group), pages),
                _ => drop(watcher.tick(time, 0, group % 2 == 1)),
            }
            for _ in 0..8 {
                let Some(order) = watcher.next_order(time, true) else { break };
                prop_assert!(order.pages.count > 0);
                watcher.fetched(order.pages);
            }
            prop_assert!(watcher.runs.len() <= RUNS_MOST && watcher.jobs.len() <= JOBS_MOST);
        }
        watcher.finish(0);
        prop_assert_eq!(watcher.next_order(SimTime(now), true), None);
        let totals = watcher.totals(SimTime(now));
        prop_assert!(totals.used + totals.vain <= totals.fetched);
        prop_assert!(totals.vain_last_hour <= VAIN_MOST.0 / 1_000_000);
        for job in watcher.jobs() {
            prop_assert_eq!(job.distinct(), job.pieces().len());
        }
        let bytes = crate::state::encode(watcher.jobs());
        prop_assert_eq!(crate::state::decode(&bytes).unwrap(), watcher.jobs());
    }
}

/// ext4 reads a table of inodes by 32 requests of a block.
fn table(n: u64) -> impl Iterator<Item = Page> {
    (0..32).map(move |i| (DEVICE, (1 << 30) + n * 64 + i))
}

#[test]
fn a_table_of_inodes_that_the_job_lacks_is_no_reason_to_leave_it() {
    let known = with_files(&metadata(1000, 43));
    let mut world = World::after(TAR, &known);
    // As after a night in which the job of another program had brought these tables.
    let parts = known.chunks(80).zip(0..);
    let all: Vec<Page> = parts.flat_map(|(part, n)| part.iter().copied().chain(table(n))).collect();
    let (misses, _) = world.run(TAR, &all);
    assert!(misses < 25 * 32 + 200, "{misses}");
}

#[test]
fn a_table_of_inodes_that_the_job_has_late_is_no_jump() {
    let mut job = with_files(&metadata(1000, 44));
    job.insert(1500, (DEVICE, (1 << 30) + 5));
    let mut world = World::after(TAR, &job);
    job.remove(1500);
    // The program needs this table before its first file now.
    job.splice(2..2, table(0));
    let (misses, _) = world.run(TAR, &job);
    assert!(misses < 200, "{misses}");
}
