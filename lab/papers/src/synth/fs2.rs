//! Made-up loads like those of FS2's evaluation (SOSP'05, 4.3 to 4.6) on an aged file system: the
//! paper's traces cannot be obtained. The paper prints for each load the length of a run and the
//! disk's busy share, and for TPC-W the mean access. The number of files, their locations and the
//! repetitions within a run are ours; `docs/lab/synth.md` lists them.
//!
//! A load is a list of *places* and of *visits*. A visit reads several places, always in the same
//! order. A run begins with empty RAM, and reads each place at most once.

use std::collections::BTreeMap;

use seekless_block::{Duration, Extent, Op, PAGE_SECTORS, Request, Sectors, SimTime, StreamId};

use super::dice::Dice;

/// Pages of a block group of Ext2 with blocks of 4 KiB, and its pages for inodes and bitmaps.
const GROUP: u64 = 32_768;
const INODES: u64 = 514;
const INODES_A_PAGE: u64 = 32;
/// Mean free share of each group: 60% of the paper's disks have more than 30% free (2.1), Windows
/// PCs 47% (2.1).
const FREE: f64 = 0.4;
/// Mean pages of a free piece: 2 MiB.
const PIECE: f64 = 512.0;
/// Most pages of a request: 128 KiB, Linux's read-ahead.
const LONGEST: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fs2Load {
    /// A web shop's database and pictures: fixed times; queries and pictures recur in any order,
    /// rows do not recur.
    TpcW,
    /// `cvs update` of a kernel's tree: file by file, a working file's inode and the repository's
    /// file, always in the same order; a lock in each directory of the repository.
    Cvs,
    /// The start of a desktop: programs, libraries and small files, nearly always the same.
    X,
    /// Two web sites: fixed times; pages and their embedded files, popular by Zipf's law.
    Surge,
}

impl Fs2Load {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TpcW => "TPC-W-like",
            Self::Cvs => "CVS-update-like",
            Self::X => "X-and-KDE-like",
            Self::Surge => "SURGE-like",
        }
    }

    /// Whether requests come at fixed times; otherwise each request waits for the request before.
    pub(crate) const fn is_timed(self) -> bool {
        matches!(self, Self::TpcW | Self::Surge)
    }
}

/// A request, and the time since the request before: since its arrival if times are fixed,
/// otherwise since its answer.
pub(crate) type Paced = (Duration, Request);

/// A file system with its load.
#[derive(Clone, Debug)]
pub(crate) struct Fs2World {
    load: Fs2Load,
    seed: u64,
    scale: f64,
    crowd: f64,
    /// Free space, in order of address.
    pub free: Vec<Extent>,
    /// Everything that a run may read, in order of address.
    pub files: Vec<Extent>,
    visits: Vec<Vec<Extent>>,
    /// Places read one by one, different places in each run.
    rows: Vec<Extent>,
    /// Pages that each run dirties, in order of address. Linux writes them after 30 s; a CVS update
    /// takes 33 s (4.4). So the disk has them behind the run.
    pub dirtied: Vec<Extent>,
    /// Destinations of writes, one after the other, then again from the first.
    written: Extent,
}

/// The disk while files are placed.
struct FilePlacement {
    dice: Dice,
    groups: u64,
    taken: BTreeMap<u64, u64>,
    /// The next page that a growing file system would allocate, by group.
    next: BTreeMap<u64, u64>,
    inodes: BTreeMap<u64, u64>,
}

impl FilePlacement {
    fn new(capacity: Sectors, seed: u64, load: Fs2Load) -> Self {
        let groups = (capacity.0 / PAGE_SECTORS / GROUP).max(1);
        let dice = Dice::new(seed, 100 + load as u64);
        let (taken, next, inodes) = Default::default();
        Self { dice, groups, taken, next, inodes }
    }

    fn group(&self, share: f64) -> u64 {
        ((self.groups as f64 * share) as u64).min(self.groups - 1)
    }

    /// A file's pages: behind the files placed in the group before, with other files' pages
    /// between; or, for a file written later, anywhere in the group with free space.
    fn file(&mut self, group: u64, pages: u64, later: bool) -> Extent {
        let group = group % self.groups;
        let base = group * GROUP;
        let pages = pages.clamp(1, GROUP / 4);
        let gap = u64::from(self.dice.count(3.0)) - 1;
        let grown = self.next.get(&group).copied().unwrap_or(INODES) + gap;
        let at = if later || grown + pages > GROUP {
            INODES + u64::from(self.dice.below((GROUP - INODES - pages) as u32))
        } else {
            self.next.insert(group, grown + pages);
            grown
        };
        let mut at = base + at;
        // Behind the files already there; sometimes elsewhere, if files are placed one after
        // another.
        let mut tries = 0;
        while let Some((_, &end)) = self.taken.range(..at + pages).next_back().filter(|t| *t.1 > at)
        {
            tries += 1;
            if tries > 4096 {
                return self.file(group + 1, pages, later);
            }
            at = if end + pages <= base + GROUP && tries % 16 != 0 {
                end
            } else {
                base + INODES + u64::from(self.dice.below((GROUP - INODES - pages) as u32))
            };
        }
        self.taken.insert(at, at + pages);
        Extent::new(at * PAGE_SECTORS, pages * PAGE_SECTORS)
    }

    /// The page of the next inode of a group.
    fn inode(&mut self, group: u64) -> Extent {
        let group = group % self.groups;
        let n = self.inodes.entry(group).or_default();
        *n += 1;
        let page = 2 + (*n - 1) / INODES_A_PAGE % (INODES - 2);
        Extent::new((group * GROUP + page) * PAGE_SECTORS, PAGE_SECTORS)
    }

    /// Free pieces between the files of the load.
    fn free(&mut self) -> Vec<Extent> {
        let mut free = Vec::new();
        for group in 0..self.groups {
            let share = (FREE * 2.0 * self.dice.unit()).clamp(0.02, 0.98);
            let (mut at, end) = (group * GROUP + INODES, (group + 1) * GROUP);
            while at < end {
                at += u64::from(self.dice.count(PIECE * (1.0 - share) / share));
                let to = (at + u64::from(self.dice.count(PIECE))).min(end);
                let mut from = at;
                while from < to {
                    let before = self.taken.range(..=from).next_back().map_or(0, |(_, &end)| end);
                    from = from.max(before);
                    if from >= to {
                        break;
                    }
                    let next = self.taken.range(from..to).next().map_or(to, |(&start, _)| start);
                    if from < next {
                        let len = (next - from) * PAGE_SECTORS;
                        free.push(Extent::new(from * PAGE_SECTORS, len));
                    }
                    from = next.max(from + 1);
                }
                at = to;
            }
        }
        free
    }
}

/// The requests of a program that reads the whole file.
fn requests(file: Extent) -> impl Iterator<Item = Extent> {
    let step = LONGEST * PAGE_SECTORS;
    (0..file.len.0.div_ceil(step)).map(move |i| {
        let at = file.start.0 + i * step;
        Extent::new(at, step.min(file.end().0 - at))
    })
}

impl Fs2World {
    /// Places a load on a disk of this size. `scale` is the size of the load; 1 is the paper's.
    pub(crate) fn new(load: Fs2Load, capacity: Sectors, scale: f64, seed: u64) -> Self {
        let mut on = FilePlacement::new(capacity, seed, load);
        let mut world = Self {
            load,
            seed,
            scale,
            crowd: 1.0,
            free: Vec::new(),
            files: Vec::new(),
            visits: Vec::new(),
            rows: Vec::new(),
            dirtied: Vec::new(),
            written: Extent::default(),
        };
        match load {
            Fs2Load::Cvs => world.cvs(&mut on),
            Fs2Load::X => world.desktop(&mut on),
            Fs2Load::TpcW => world.shop(&mut on),
            Fs2Load::Surge => world.sites(&mut on),
        }
        let log = on.group(0.5);
        world.written = on.file(log, 256, false);
        world.free = on.free();
        world.files = world.visits.iter().flatten().chain(&world.rows).copied().collect();
        world.files.sort_unstable();
        world.files.dedup();
        world
    }

    fn scaled(&self, count: f64) -> u32 {
        (count * self.scale).ceil().max(1.0) as u32
    }

    /// The same with `clients` times as many clients in the same time, if times are fixed; the
    /// files stay the same.
    pub(crate) fn crowded(self, times: f64) -> Self {
        Self { crowd: times, ..self }
    }

    /// Some of the free pieces, so that at most this share of a disk is free; pieces are left out
    /// evenly over the disk.
    pub(crate) fn free_of(&self, capacity: Sectors, share: f64) -> Vec<Extent> {
        let all: u64 = self.free.iter().map(|e| e.len.0).sum();
        let kept = (capacity.0 as f64 * share / all.max(1) as f64).min(1.0);
        let mut left = 0.0;
        let keeps = |_: &&Extent| {
            left += kept;
            let keep = left >= 1.0;
            left -= f64::from(u8::from(keep));
            keep
        };
        self.free.iter().filter(keeps).copied().collect()
    }

    /// About the tree of Linux 2.6: 16,500 files in 1,100 directories. For each directory, its
    /// blocks and `Entries` of the working tree, and the repository's directory, where a lock comes
    /// and goes. Then for each file, the inode of the working file and the beginning of the
    /// repository's file; an eighth of these was rewritten since the import.
    fn cvs(&mut self, on: &mut FilePlacement) {
        let (here, there) = (on.group(0.30), on.group(0.36));
        for i in 0..u64::from(self.scaled(1100.0)) {
            let (local, central) = (here + i / 220, there + i / 110);
            let mut visit = vec![on.file(local, 1, false), on.inode(local)];
            visit.push(on.file(local, 1, false));
            let locked = [on.file(central, 1, false), on.inode(central)];
            visit.extend(locked);
            self.dirtied.extend(locked);
            for _ in 0..on.dice.count(15.0) {
                // A page of inodes is read once.
                visit.extend([on.inode(local), on.inode(central)]);
                let pages = u64::from(on.dice.count(6.0));
                let later = on.dice.unit() < 0.12;
                let file = on.file(central, pages, later);
                visit.push(Extent::new(file.start.0, file.len.0.min(4 * PAGE_SECTORS)));
            }
            self.visits.push(visit);
        }
        self.dirtied.sort_unstable();
        self.dirtied.dedup();
    }

    /// About 180 programs, each with libraries that it may share, read in pieces, and with small
    /// files from other groups.
    fn desktop(&mut self, on: &mut FilePlacement) {
        let places = [0.01, 0.03, 0.06, 0.10, 0.22];
        let dice_group = |on: &mut FilePlacement, share: f64, wide: u32| {
            let wide = u64::from(on.dice.below(wide));
            on.group(share) + wide
        };
        for _ in 0..self.scaled(180.0) {
            let mut visit = Vec::new();
            for _ in 0..on.dice.count(3.0) {
                let share = places[on.dice.below(3) as usize];
                let group = dice_group(on, share, 6);
                visit.push(on.inode(group));
                let later = on.dice.unit() < 0.5;
                let pages = u64::from(on.dice.count(60.0));
                let file = on.file(group, pages, later);
                visit.push(Extent::new(file.start.0, file.len.0.min(4 * PAGE_SECTORS)));
                for _ in 0..on.dice.count(2.0) {
                    let page = u64::from(on.dice.below((file.len.0 / PAGE_SECTORS) as u32));
                    let at = file.start.0 + page * PAGE_SECTORS;
                    visit.push(Extent::new(at, (file.end().0 - at).min(8 * PAGE_SECTORS)));
                }
            }
            for _ in 0..on.dice.count(3.0) {
                let share = places[on.dice.below(5) as usize];
                let group = dice_group(on, share, 6);
                let pages = u64::from(on.dice.count(1.5));
                visit.extend([on.inode(group), on.file(group, pages, true)]);
            }
            self.visits.push(visit);
        }
    }

    /// Tables and pictures in ten segments in different groups, as Ext2's hash spreads large files
    /// (4.3.1).
    fn shop(&mut self, on: &mut FilePlacement) {
        let segments: Vec<u64> = (0..10).map(|i| on.group(0.38 + 0.02 * f64::from(i))).collect();
        let segment = |on: &mut FilePlacement| {
            let at = on.dice.below(10) as usize;
            segments[at] + u64::from(on.dice.below(4))
        };
        for _ in 0..self.scaled(3500.0) {
            let mut visit = Vec::new();
            for _ in 0..on.dice.count(12.0) {
                let group = segment(on);
                let pages = u64::from(on.dice.count(2.0));
                visit.push(on.file(group, pages, true));
            }
            self.visits.push(visit);
        }
        for _ in 0..self.scaled(70_000.0) {
            let group = segment(on);
            let row = on.file(group, 1, true);
            self.rows.push(row);
        }
    }

    /// Pages and their embedded files, each file an inode and its data, in two regions.
    fn sites(&mut self, on: &mut FilePlacement) {
        for i in 0..self.scaled(8000.0) {
            let region = if i % 2 == 0 { 0.3 } else { 0.6 };
            let mut visit = Vec::new();
            for _ in 0..on.dice.count(3.4) {
                let group = on.group(region) + u64::from(on.dice.below(16));
                let pages = u64::from(on.dice.count(5.0));
                visit.push(on.inode(group));
                visit.extend(requests(on.file(group, pages, true)));
            }
            self.visits.push(visit);
        }
    }

    /// Seconds of a run of a timed load; 0 for other loads.
    pub(crate) fn seconds(&self) -> f64 {
        if self.load.is_timed() { 1200.0 * self.scale } else { 0.0 }
    }

    /// The requests of run number `run`, from 1. `pause` is the time from an answer to the next
    /// request, if times are not fixed.
    pub(crate) fn run(&self, run: u64, pause: Duration) -> Vec<Paced> {
        let mut dice = Dice::new(self.seed.wrapping_add(run << 32), 200 + self.load as u64);
        let mut asked = RunRequests { read: Default::default(), all: Vec::new() };
        match self.load {
            Fs2Load::Cvs | Fs2Load::X => {
                // Each start opens a few different files.
                let skipped = if self.load == Fs2Load::X { 0.03 } else { 0.0 };
                for place in self.visits.iter().flatten() {
                    if dice.unit() >= skipped {
                        asked.read(*place, 0, asked.all.len() as u64);
                    }
                }
                asked.all.into_iter().map(|(_, request)| (pause, request)).collect()
            }
            Fs2Load::TpcW => {
                let (visits, rows) =
                    (self.scaled(5200.0 * self.crowd), self.scaled(12_000.0 * self.crowd));
                let mut list = Dice::new(self.seed.wrapping_add(run << 32), 301);
                self.timed(&mut list, &mut dice, &mut asked, visits, (0.5, 8.0));
                for _ in 0..rows {
                    let at = (dice.unit() * self.seconds() * 1e9) as u64;
                    let row = self.rows[dice.below(self.rows.len() as u32) as usize];
                    asked.read(row, 1 + dice.below(25), at);
                }
                self.writes(&mut dice, &mut asked, self.scaled(2000.0));
                asked.paced()
            }
            Fs2Load::Surge => {
                // All runs share the lists of requests; the times differ.
                let mut list = Dice::new(self.seed, 300);
                let visits = self.scaled(14_000.0 * self.crowd);
                self.timed(&mut list, &mut dice, &mut asked, visits, (0.7, 10.0));
                self.writes(&mut dice, &mut asked, self.scaled(600.0));
                asked.paced()
            }
        }
    }

    /// Visits at random times, drawn from `list`: the n-th most popular in proportion to n^-steep,
    /// with `think_ms` milliseconds from one place to the next.
    fn timed(
        &self,
        list: &mut Dice,
        dice: &mut Dice,
        asked: &mut RunRequests,
        visits: u32,
        (steep, gap_ms): (f64, f64),
    ) {
        let count = self.visits.len() as f64;
        let mut starts: Vec<(u64, u32)> = Vec::with_capacity(visits as usize);
        for _ in 0..visits {
            let at = list.unit() * self.seconds() + dice.exponential(0.5);
            let at = (at * 1e9) as u64;
            // The continuous law, inverted.
            let x = list.unit();
            let rank = ((count.powf(1.0 - steep) - 1.0) * x + 1.0).powf(1.0 / (1.0 - steep)) - 1.0;
            starts.push((at, rank as u32));
        }
        starts.sort_unstable();
        for (mut at, which) in starts {
            let visit = &self.visits[(which as usize).min(self.visits.len() - 1)];
            let client = 1 + dice.below(25);
            for &place in visit {
                if asked.read(place, client, at) {
                    at += (gap_ms * 1e6) as u64 + (dice.exponential(2.0) * 1e6) as u64;
                }
            }
        }
    }

    fn writes(&self, dice: &mut Dice, asked: &mut RunRequests, count: u32) {
        let pages = self.written.len.0 / PAGE_SECTORS;
        for i in 0..u64::from(count) {
            let at = (dice.unit() * self.seconds() * 1e9) as u64;
            let place = self.written.start.0 + i % pages * PAGE_SECTORS;
            let request = Request::new(SimTime(at), Op::Write, Extent::new(place, PAGE_SECTORS));
            asked.all.push((at, request));
        }
    }
}

/// A run's requests.
struct RunRequests {
    read: std::collections::BTreeSet<Extent>,
    all: Vec<(u64, Request)>,
}

impl RunRequests {
    /// Reads a place, unless it is in RAM.
    fn read(&mut self, place: Extent, stream: u32, at: u64) -> bool {
        let new = self.read.insert(place);
        if new {
            let request = Request::new(SimTime(at), Op::Read, place);
            self.all.push((at, Request { stream: StreamId(stream), ..request }));
        }
        new
    }

    /// In order of time.
    fn paced(mut self) -> Vec<Paced> {
        self.all.sort_by_key(|a| a.0);
        let mut before = 0;
        let paced = |(at, request)| {
            let pause = Duration(at - before);
            before = at;
            (pause, request)
        };
        self.all.into_iter().map(paced).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Sectors = Sectors(156_301_488);

    #[test]
    fn a_load_leaves_the_stated_share_of_the_disk_free() {
        for load in [Fs2Load::TpcW, Fs2Load::Cvs, Fs2Load::X, Fs2Load::Surge] {
            let world = Fs2World::new(load, CAPACITY, 0.1, 1);
            let free: u64 = world.free.iter().map(|e| e.len.0).sum();
            let share = free as f64 / CAPACITY.0 as f64;
            assert!((0.35..0.45).contains(&share), "{load:?}: {share}");
            assert!(world.free.windows(2).all(|w| w[0].end() <= w[1].start), "{load:?}");
            let mut at = 0;
            for file in &world.files {
                assert!(file.end().0 <= CAPACITY.0 && !file.is_empty());
                while world.free.get(at).is_some_and(|f| f.end() <= file.start) {
                    at += 1;
                }
                let beside = world.free.get(at).is_none_or(|f| f.start >= file.end());
                assert!(beside, "{load:?}: {file:?} lies in free space");
            }
            let run = world.run(1, Duration(5));
            let again = Fs2World::new(load, CAPACITY, 0.1, 1).run(1, Duration(5));
            assert_eq!(run, again);
            assert_ne!(run, Fs2World::new(load, CAPACITY, 0.1, 2).run(1, Duration(5)));
            let same = run == world.run(2, Duration(5));
            assert_eq!(same, load == Fs2Load::Cvs, "{load:?}: a CVS update is always the same");
            let reads: Vec<Extent> =
                run.iter().filter(|r| r.1.op == Op::Read).map(|r| r.1.extent).collect();
            let mut once = reads.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), reads.len(), "{load:?}: RAM serves repeated reads");
        }
    }
}
