//! Which blocks deserve a replica, and where it should stand (FS2, SOSP'05, 2.2 and 3.1). The disk is cut into regions,
//! and references to each are counted: the region with most is where the head is most of the time. What is read outside
//! of it, but together with blocks of it, is replicated in free space near there, side by side in the order in which it
//! was read. Nothing else: what is read often but by itself gains nothing, and is left alone.
//!
//! It departs from the paper where it says so: [`ReplicationConfig::whole`] replicates whole sequences, and
//! [`ReplicationConfig::price`] only what is likely to be read so often again that its replica pays, and only out of what
//! earlier replicas have saved and a small share of all accesses: so nobody loses more than that share, whatever comes.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::{Extent, Lba, Op, PAGE_SECTORS, Request, Sectors};

use crate::{Pages, Replica};

/// Reads remembered between two plans, the latest: 2 MiB.
const REMEMBERED: usize = 1 << 17;
/// Reads between two plans.
const EVERY: usize = 4096;
/// Pages whose uses are remembered from plan to plan.
const COUNTED: usize = 1 << 20;
/// Free ranges shorter than this, in sectors, are no place: 64 KiB.
const SHORT: u64 = 128;
/// Reads in a row that are together longer than this, in sectors, are well served where they lie: 512 KiB.
const LONG: u64 = 1024;
/// A read counts anew once so many others came since: sooner, RAM may have answered it.
const APART: u64 = 1000;
/// Sightings are told apart up to this many.
const TIMES: usize = 8;
/// What may be lost: this share of clients' accesses. That "the first run is hardly slower" (4.3.3) was 1.7% in the paper.
const RISKED: f64 = 0.02;
/// A replica is planned in runs of this length at most, in sectors: 1 MiB less a page.
const RUN: u64 = 255 * PAGE_SECTORS;

/// What decides which blocks get a replica; the same words for a simulation and for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicationRule {
    /// The paper's: what is read together with the hot region.
    #[default]
    Paper,
    /// See [`ReplicationConfig::whole`].
    Whole,
    /// Of that, see [`ReplicationConfig::price`]: the one that hardly loses anything, whatever comes.
    Proven,
}

impl ReplicationRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Paper, Self::Whole, Self::Proven];

    /// As on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "fs2",
            Self::Whole => "fs2-whole",
            Self::Proven => "fs2-proven",
        }
    }
}

impl Display for ReplicationRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReplicationRule {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|rule| rule.name() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("'{text}' is no rule for replicas: {all}")
        })
    }
}

/// How many clients' reads were answered since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// By home.
    pub home: u64,
    /// By replicas.
    pub replicas: u64,
}

/// How replication is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicationConfig {
    /// Size of the device, and where its pages lie.
    pub capacity: Sectors,
    /// First sector of its first page, 0 to 7.
    pub grid: Sectors,
    /// Length of a region. The paper's is a multiple of a block group; how many it does not say.
    pub region: Sectors,
    /// Reads so far apart in the order of reading are still used together.
    pub near: u32,
    /// A block is replicated once it was used together with the hot region in so many reads.
    pub least: u32,
    /// Replicate whatever was read in short runs, wherever it lies: then whole sequences stand side by side. The paper
    /// replicates what lies outside the hot region alone.
    pub whole: bool,
    /// Replicate only what was read before so often that, of late, replicas of all that was would have been read so many times
    /// each, and no more than is paid for: a replica costs an access, a read of it saves one in so many. 0 as the paper,
    /// without asking.
    pub price: f64,
    /// Most that one plan replicates.
    pub most: Sectors,
}

impl ReplicationConfig {
    /// A price at which replicas pay: to make one, its home is read once more and it is written once, which is
    /// about what a read costs as the others are done in a row; a read of it saves about half of that (the paper's own
    /// Table 2: 50% of an access).
    pub const PAYS: f64 = 2.0;

    /// As the paper has it, where it says so: regions of a 128th of the device, of whole block groups of 128 MiB where that is
    /// more than one, else of whole MiB, reads used together within 8, and seen so once.
    #[must_use]
    pub fn new(capacity: Sectors, grid: Sectors) -> Self {
        let (group, mib) = (128 << 11, 1 << 11);
        let share = capacity.0 / 128;
        let unit = if share > group { group } else { mib };
        let region = Sectors(share.div_ceil(unit).max(1) * unit);
        let most = Sectors(256 << 11);
        Self { capacity, grid, region, near: 8, least: 1, whole: false, price: 0.0, most }
    }

    /// The same by this rule.
    #[must_use]
    pub const fn by(self, rule: ReplicationRule) -> Self {
        let (whole, price) = match rule {
            ReplicationRule::Paper => (false, 0.0),
            ReplicationRule::Whole => (true, 0.0),
            ReplicationRule::Proven => (true, Self::PAYS),
        };
        Self { whole, price, ..self }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Replication {
    config: ReplicationConfig,
    pages: Pages,
    /// References by region, halved at each plan.
    references: Vec<u64>,
    recent: VecDeque<Extent>,
    /// How many of these came since the last plan.
    fresh: usize,
    /// Where the last read ended.
    last_end: Lba,
    /// Reads since the last plan that did not begin there: those that move the head.
    apart: u64,
    /// Reads answered up to the last plan.
    answered: Answered,
    /// Accesses that replicas may cost: what is risked and what they have saved, less what they have cost.
    purse: f64,
    /// First sector of a page to how often it was used together with the hot region, halved at each plan.
    together: FxHashMap<u64, u32>,
    /// First sector of a read to how often it was seen, and at which read last.
    seen: FxHashMap<u64, (u8, u64)>,
    /// How many reads were of what had been seen so often before, from never on; halved at each plan.
    sightings: [u64; TIMES],
    reads: u64,
}

impl Replication {
    /// Of a device of which nothing is known.
    #[must_use]
    pub fn new(config: ReplicationConfig) -> Self {
        let regions = config.capacity.0.div_ceil(config.region.0.max(1)) as usize;
        Self {
            pages: Pages::new(config.grid, config.capacity),
            references: vec![0; regions.max(1)],
            recent: VecDeque::new(),
            fresh: 0,
            last_end: Lba(0),
            apart: 0,
            answered: Answered::default(),
            purse: 0.0,
            together: FxHashMap::default(),
            seen: FxHashMap::default(),
            sightings: [0; TIMES],
            reads: 0,
            config,
        }
    }

    /// Takes in one request, in order of arrival. Reads alone count.
    pub fn observe(&mut self, request: &Request) {
        let extent = self.pages.touched(request.extent);
        if request.op != Op::Read || extent.is_empty() {
            return;
        }
        let region = self.region_of(extent);
        self.references[region] += 1;
        self.reads += 1;
        if self.config.price > 0.0 {
            self.sight(extent);
            self.apart += u64::from(extent.start != self.last_end);
            self.last_end = extent.end();
        }
        self.fresh += 1;
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(extent);
    }

    fn sight(&mut self, extent: Extent) {
        let now = self.reads;
        if self.seen.len() >= COUNTED && !self.seen.contains_key(&extent.start.0) {
            return;
        }
        let (count, last) = self.seen.entry(extent.start.0).or_default();
        if *count == 0 || now - *last >= APART {
            self.sightings[usize::from(*count).min(TIMES - 1)] += 1;
            *count = count.saturating_add(1);
        }
        *last = now;
    }

    /// How often a read must have been seen for its replica to pay: the least count of which, lately, reads of what had been
    /// seen so often before were as many as the price for each that came to be seen so often. `None` where there is none.
    fn worth(&self) -> Option<u8> {
        let counts = 1..TIMES as u8;
        counts.into_iter().find(|&count| {
            let (before, from) = self.sightings.split_at(usize::from(count));
            let (made, used) = (before[before.len() - 1], from.iter().sum::<u64>());
            used > 0 && used as f64 >= self.config.price * made as f64
        })
    }

    /// Whether enough was read since the last plan for another.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.fresh >= EVERY
    }

    fn region_of(&self, extent: Extent) -> usize {
        let region = extent.start.0 / self.config.region.0.max(1);
        (region as usize).min(self.references.len() - 1)
    }

    /// The region that was referred to most, the first of equals; `None` where nothing was.
    #[must_use]
    pub fn hot_region(&self) -> Option<Extent> {
        let most = *self.references.iter().max()?;
        let at = self.references.iter().position(|&n| n == most && n > 0)? as u64;
        let region = self.config.region.0;
        Some(Extent::span(at * region, ((at + 1) * region).min(self.config.capacity.0)))
    }

    /// What to replicate, and where: in `free`, which is in order and has no replicas in it. `placed` says whether a page,
    /// by its first sector, has a replica. What was observed is used up; where replicas have a price, it is remembered, as it
    /// may come to be worth one, and what is `answered` says what there is to pay with.
    pub fn plan(
        &mut self,
        free: impl IntoIterator<Item = Extent>,
        placed: impl Fn(Lba) -> bool,
        answered: Answered,
    ) -> Vec<Replica> {
        let Some(hot) = self.hot_region() else { return Vec::new() };
        let wanted = if self.config.price > 0.0 {
            self.earn(answered);
            self.affordable(hot, placed)
        } else {
            let wanted = self.candidates(hot, placed);
            self.recent.clear();
            wanted
        };
        let replicas = side_by_side(&wanted, free, hot);
        self.fresh = 0;
        self.references.iter_mut().chain(&mut self.sightings).for_each(|n| *n /= 2);
        self.together.retain(|_, n| {
            *n /= 2;
            *n > 0
        });
        replicas
    }

    /// Pages to be replicated, in the order in which they were read last.
    fn candidates(&mut self, hot: Extent, placed: impl Fn(Lba) -> bool) -> Vec<Extent> {
        let near = self.config.near as usize;
        let inside: Vec<bool> = self.recent.iter().map(|e| hot.contains(*e)).collect();
        // How many of the first so many reads were inside, so that a window costs two looks.
        let mut before = vec![0u32; inside.len() + 1];
        for (i, &is) in inside.iter().enumerate() {
            before[i + 1] = before[i] + u32::from(is);
        }
        let window = |i: usize| {
            let (from, to) = (i.saturating_sub(near), (i + near + 1).min(inside.len()));
            (before[to] - before[from], (to - from) as u32)
        };
        let outside_with_hot = |i: usize| !inside[i] && window(i).0 > 0;
        for (i, extent) in self.recent.iter().enumerate() {
            if outside_with_hot(i) {
                for page in starts(*extent) {
                    if self.together.len() < COUNTED || self.together.contains_key(&page) {
                        *self.together.entry(page).or_default() += 1;
                    }
                }
            }
        }
        let short = if self.config.whole { self.short_runs() } else { Vec::new() };
        let mut taken: FxHashSet<u64> = FxHashSet::default();
        let mut wanted: Vec<Extent> = Vec::new();
        let mut left = self.config.most.0 / PAGE_SECTORS;
        for (i, extent) in self.recent.iter().enumerate() {
            let along = short.get(i).is_some_and(|&short| short);
            if !(outside_with_hot(i) || along) {
                continue;
            }
            for page in starts(*extent) {
                let often =
                    along || self.together.get(&page).is_some_and(|&n| n >= self.config.least);
                if left == 0 || !often || placed(Lba(page)) || !taken.insert(page) {
                    continue;
                }
                left -= 1;
                match wanted.last_mut() {
                    Some(last) if last.end().0 == page => last.len.0 += PAGE_SECTORS,
                    _ => wanted.push(Extent::new(page, PAGE_SECTORS)),
                }
            }
        }
        wanted
    }

    /// What was asked of RAM neither risks nor saves anything, nor does what goes on where the last read ended.
    fn earn(&mut self, answered: Answered) {
        let before = std::mem::replace(&mut self.answered, answered);
        let saved = answered.replicas.saturating_sub(before.replicas);
        let accesses = answered.home.saturating_sub(before.home) + saved;
        let accesses = accesses.min(std::mem::take(&mut self.apart));
        self.purse += accesses as f64 * RISKED;
        self.purse += saved.min(accesses) as f64 / self.config.price;
    }

    /// The same where replicas have a price: whole sequences, as read last, of those that came again most often as many as can
    /// be paid for, the latest first.
    fn affordable(&mut self, hot: Extent, placed: impl Fn(Lba) -> bool) -> Vec<Extent> {
        let reads = self.recent.len();
        let Some(worth) = self.worth() else { return Vec::new() };
        let times = self.times_around();
        let short = self.short_runs();
        let near = self.config.near as usize;
        let inside: Vec<bool> = self.recent.iter().map(|e| hot.contains(*e)).collect();
        let beside_hot = |i: usize| {
            let around = &inside[i.saturating_sub(near)..(i + near + 1).min(reads)];
            !inside[i] && around.contains(&true)
        };
        // The last reading of each page, where it has no replica, latest first.
        let mut taken: FxHashSet<u64> = FxHashSet::default();
        let mut by_times: [Vec<(usize, Extent)>; TIMES + 1] = Default::default();
        for (i, extent) in self.recent.iter().enumerate().rev() {
            let wants = if self.config.whole { short[i] } else { beside_hot(i) };
            if !wants || times[i] < worth {
                continue;
            }
            let mut part: Option<Extent> = None;
            let list = &mut by_times[usize::from(times[i]).min(TIMES)];
            for page in starts(*extent) {
                if placed(Lba(page)) || !taken.insert(page) {
                    list.extend(part.take().map(|e| (i, e)));
                    continue;
                }
                match &mut part {
                    Some(part) => part.len.0 += PAGE_SECTORS,
                    None => part = Some(Extent::new(page, PAGE_SECTORS)),
                }
            }
            list.extend(part.map(|e| (i, e)));
        }
        let mut left = self.config.most.0;
        let mut chosen: Vec<(usize, Extent)> = Vec::new();
        for (i, extent) in by_times.into_iter().rev().flatten() {
            if self.purse < 1.0 || extent.len.0 > left {
                break;
            }
            self.purse -= 1.0;
            left -= extent.len.0;
            chosen.push((i, extent));
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|(_, extent)| extent).collect()
    }

    /// Of each read remembered, how often it and those around it were seen: the median, so that one that came by chance
    /// does not tear a sequence.
    fn times_around(&self) -> Vec<u8> {
        let near = self.config.near as usize;
        let count = |e: &Extent| self.seen.get(&e.start.0).map_or(0, |s| s.0);
        let counts: Vec<u8> = self.recent.iter().map(count).collect();
        let mut around = Vec::with_capacity(2 * near + 1);
        let median = |i: usize| {
            around.clear();
            around.extend(&counts[i.saturating_sub(near)..(i + near + 1).min(counts.len())]);
            let middle = around.len() / 2;
            *around.select_nth_unstable(middle).1
        };
        (0..counts.len()).map(median).collect()
    }

    /// Of each read remembered, whether it is part of a short run of reads one behind the other.
    fn short_runs(&self) -> Vec<bool> {
        let mut short = Vec::with_capacity(self.recent.len());
        let (mut len, mut end) = (0, None);
        for (i, extent) in self.recent.iter().enumerate() {
            if end != Some(extent.start) {
                short.resize(i, len <= LONG);
                len = 0;
            }
            len += extent.len.0;
            end = Some(extent.end());
        }
        short.resize(self.recent.len(), len <= LONG);
        short
    }
}

/// First sectors of the pages of a run of them.
fn starts(extent: Extent) -> impl Iterator<Item = u64> {
    (extent.start.0..extent.end().0).step_by(PAGE_SECTORS as usize)
}

/// The free ranges, cut where that lets replicas begin beside `near`: behind it, and, of what lies before it, `sectors`
/// before its end.
fn beside(free: impl IntoIterator<Item = Extent>, near: Extent, sectors: u64) -> Vec<Extent> {
    let cut = |range: Extent| {
        let page = |at: u64| {
            let at = at.clamp(range.start.0, range.end().0) - range.start.0;
            range.start.0 + at / PAGE_SECTORS * PAGE_SECTORS
        };
        let behind = page(near.end().0.saturating_add(PAGE_SECTORS - 1));
        let before = page(near.start.0.min(range.end().0).saturating_sub(sectors)).min(behind);
        let parts = [(range.start.0, before), (before, behind), (behind, range.end().0)];
        parts.into_iter().filter(|(a, b)| a < b).map(|(a, b)| Extent::span(a, b))
    };
    free.into_iter().flat_map(cut).collect()
}

/// Lays runs side by side into free ranges: near the hot region first, and the longer ones before the shorter (3.1: more
/// weight where more is free).
#[must_use]
pub fn side_by_side(
    wanted: &[Extent],
    free: impl IntoIterator<Item = Extent>,
    hot: Extent,
) -> Vec<Replica> {
    let sectors: u64 = wanted.iter().map(|e| e.len.0).sum();
    let middle = hot.start.0 + hot.len.0 / 2;
    let mut ranges = beside(free, hot, sectors);
    ranges.retain(|e| e.len.0 >= SHORT);
    // A region further away for each time that all of it fits less.
    ranges.sort_by_key(|e| {
        let away = middle.abs_diff(middle.clamp(e.start.0, e.end().0));
        let misses = sectors.max(1).div_ceil(e.len.0.min(sectors.max(1)));
        (away / hot.len.0.max(1) + misses, away)
    });
    let mut replicas: Vec<Replica> = Vec::new();
    let mut ranges = ranges.into_iter();
    let mut here = Extent::default();
    let mut run = Replica::default();
    let mut run_len = 0;
    let mut wanted = wanted.iter().copied();
    let mut next = wanted.next();
    while let Some(home) = next {
        let here_left = here.len.0 / PAGE_SECTORS * PAGE_SECTORS;
        if here_left == 0 || run_len == RUN {
            if run_len > 0 {
                replicas.push(std::mem::take(&mut run));
                run_len = 0;
            }
            if here_left == 0 {
                // All that is free is taken.
                let Some(range) = ranges.next() else { break };
                here = range;
            }
            continue;
        }
        if run_len == 0 {
            run.place = here.start;
        }
        let len = home.len.0.min(here_left).min(RUN - run_len);
        run.homes.push(Extent::new(home.start.0, len));
        run_len += len;
        here = Extent::span(here.start.0 + len, here.end().0);
        next = if len == home.len.0 {
            wanted.next()
        } else {
            Some(Extent::span(home.start.0 + len, home.end().0))
        };
    }
    if run_len > 0 {
        replicas.push(run);
    }
    replicas
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seekless_block::SimTime;

    const MIB: u64 = 1 << 11;
    const NONE: Answered = Answered { home: 0, replicas: 0 };

    fn config() -> ReplicationConfig {
        let region = Sectors(MIB);
        ReplicationConfig {
            region,
            near: 2,
            ..ReplicationConfig::new(Sectors(64 * MIB), Sectors(0))
        }
    }

    fn read(planner: &mut Replication, start: u64, pages: u64) {
        let extent = Extent::new(start, pages * PAGE_SECTORS);
        planner.observe(&Request::new(SimTime(0), Op::Read, extent));
    }

    /// Files 0 and 2 in region 10, file 1 far away (figure 4), and another by itself.
    fn figure_4() -> Replication {
        let mut planner = Replication::new(config());
        for i in 0..6 {
            read(&mut planner, 10 * MIB + i * 64, 1);
            read(&mut planner, 50 * MIB + i * 80, 1);
            read(&mut planner, 10 * MIB + 904 + i * 64, 1);
        }
        for i in 0..10 {
            read(&mut planner, 30 * MIB + i * 160, 1);
        }
        planner
    }

    #[test]
    fn what_lies_outside_is_replicated_beside_the_hot_region_in_order_and_nothing_else() {
        let mut planner = figure_4();
        assert_eq!(planner.hot_region(), Some(Extent::new(10 * MIB, MIB)));
        let free = [Extent::new(5, 200), Extent::new(11 * MIB, 4096), Extent::new(40 * MIB, 9000)];
        let plan = planner.plan(free, |_| false, NONE);
        let homes: Vec<Extent> = (0..6).map(|i| Extent::new(50 * MIB + i * 80, 8)).collect();
        // Two of the third file were read within two of the last read in the hot region.
        let tail: Vec<Extent> = (0..2).map(|i| Extent::new(30 * MIB + i * 160, 8)).collect();
        let place = Lba(11 * MIB);
        assert_eq!(plan, [Replica { place, homes: [homes, tail].concat() }]);
        assert!(planner.plan(free, |_| false, NONE).is_empty(), "what was observed is used up");
    }

    #[test]
    fn whole_sequences_are_laid_as_they_were_read_and_what_has_a_replica_is_left_out() {
        let mut planner = figure_4();
        planner.config.whole = true;
        let plan = planner.plan([Extent::new(20 * MIB, 4096)], |page| page.0 >= 50 * MIB, NONE);
        let first: Vec<u64> = plan[0].homes.iter().take(4).map(|e| e.start.0).collect();
        assert_eq!(first, [0, 904, 64, 968].map(|at| 10 * MIB + at));
    }

    #[test]
    fn what_lies_in_long_runs_is_left_alone() {
        let mut planner = Replication::new(ReplicationConfig { whole: true, ..config() });
        for i in 0..9 {
            read(&mut planner, 10 * MIB + i * 128, 16);
        }
        read(&mut planner, 20 * MIB, 16);
        read(&mut planner, 20 * MIB + 128, 16);
        let plan = planner.plan([Extent::new(30 * MIB, 4096)], |_| false, NONE);
        assert_eq!(plan[0].homes, [Extent::new(20 * MIB, 256)], "of 576 KiB and of 128 KiB");
    }

    #[test]
    fn only_what_comes_again_as_often_as_its_price_is_replicated() {
        let price = ReplicationConfig::PAYS;
        let mut planner = Replication::new(ReplicationConfig { whole: true, price, ..config() });
        let free = [Extent::new(40 * MIB, 1 << 17)];
        let run = |planner: &mut Replication, from: u64| {
            (0..1200).for_each(|i| read(planner, from + i * 16, 1));
        };
        let planned = |planner: &mut Replication| -> usize {
            planner.plan(free, |_| false, NONE).iter().map(|r| r.homes.len()).sum()
        };
        // Whether it can be paid for is another matter.
        planner.purse = 1e6;
        // Nothing was ever seen before; then all of it, once for each that came anew: less than the price.
        run(&mut planner, 0);
        assert_eq!((planner.worth(), planned(&mut planner)), (None, 0));
        run(&mut planner, 0);
        assert_eq!(
            (planner.worth(), planned(&mut planner)),
            (Some(1), 1200),
            "what is old counts half"
        );
        // What never comes again is more and more: what came once is trusted no more, what came twice is.
        (0..4).for_each(|i| run(&mut planner, 10 * MIB + i % 2 * 8 + i / 2 * 19_200));
        assert_eq!((planner.worth(), planned(&mut planner)), (None, 0));
        (0..2).for_each(|_| run(&mut planner, 0));
        assert_eq!(planner.worth(), Some(2));
        run(&mut planner, 30 * MIB);
        assert_eq!(planned(&mut planner), 1200, "what came twice, though it was not read just now");
        planner.purse = 10.5;
        assert_eq!(planned(&mut planner), 10, "no more than can be paid for");
    }

    #[test]
    fn a_read_by_chance_does_not_tear_a_sequence() {
        let price = ReplicationConfig::PAYS;
        let mut planner = Replication::new(ReplicationConfig { whole: true, price, ..config() });
        planner.purse = 1e6;
        (0..3).for_each(|_| (0..1200).for_each(|i| read(&mut planner, i * 16, 1)));
        // The fourth time, one in five is another.
        for i in 0..1200 {
            read(&mut planner, if i % 5 == 4 { 20 * MIB } else { 0 } + i * 16, 1);
        }
        let plan = planner.plan([Extent::new(40 * MIB, 1 << 17)], |_| false, NONE);
        let homes: Vec<u64> = plan.iter().flat_map(|r| &r.homes).map(|e| e.start.0).collect();
        let last = &homes[homes.len() - 1200..];
        let expected = (0..1200).map(|i| if i % 5 == 4 { 20 * MIB } else { 0 } + i * 16);
        assert!(last.iter().copied().eq(expected), "as read last: {:?}", &last[..10]);
    }

    #[test]
    fn what_goes_on_where_the_last_read_ended_is_no_access_and_saves_none() {
        let price = ReplicationConfig::PAYS;
        let mut planner = Replication::new(ReplicationConfig { price, ..config() });
        (0..1000).for_each(|i| read(&mut planner, 10 * MIB + i * 8, 1));
        planner.plan([], |_| false, Answered { home: 200, replicas: 800 });
        assert!((planner.purse - RISKED - 0.5).abs() < 1e-9, "one run: {}", planner.purse);
        (0..1000).for_each(|i| read(&mut planner, i * 16, 1));
        planner.plan([], |_| false, Answered { home: 300, replicas: 900 });
        let expected = 201.0 * RISKED + 101.0 / 2.0;
        assert!((planner.purse - expected).abs() < 1e-9, "RAM answered 800: {}", planner.purse);
    }

    #[test]
    fn replicas_begin_right_behind_the_hot_region_or_end_before_it() {
        let (hot, free) = (Extent::new(20 * MIB, MIB), Extent::new(0, 64 * MIB));
        let wanted = [Extent::new(30 * MIB, 64), Extent::new(40 * MIB, 64)];
        let place = |free: Extent| side_by_side(&wanted, [free], hot)[0].place.0;
        assert_eq!(place(Extent::span(0, hot.start.0 - 256)), hot.start.0 - 256 - 128);
        assert_eq!(place(Extent::span(0, hot.start.0 + 8)), hot.start.0 - 128);
        assert_eq!(place(Extent::span(hot.end().0 - 8, free.end().0)), hot.end().0);
    }

    #[test]
    fn what_comes_again_at_once_was_in_ram() {
        let mut planner = Replication::new(ReplicationConfig { price: 1.0, ..config() });
        for i in 0..600 {
            read(&mut planner, i / 2 * 16, 1);
        }
        assert_eq!((planner.sightings[0], planner.sightings[1]), (300, 0));
    }

    proptest! {
        /// Of what is replicated each run of pages costs an access; a read that one answers saves half of one. Some reads RAM
        /// answers: these are no accesses, and save nothing.
        #[test]
        fn nobody_loses_more_than_is_risked(
            rounds in prop::collection::vec((0u64..4, 0u64..600, 1u64..1500, 1u64..5), 1..20),
            whole in any::<bool>(),
        ) {
            let price = ReplicationConfig::PAYS;
            let mut planner = Replication::new(ReplicationConfig { whole, price, ..config() });
            let mut placed: FxHashSet<u64> = FxHashSet::default();
            let (mut answered, mut cost) = (NONE, 0.0);
            for (place, skip, count, in_ram) in rounds {
                for i in 0..count {
                    let at = place * 8 * MIB + (skip + i) * 16;
                    read(&mut planner, at, 1);
                    if i % in_ram > 0 {
                        continue;
                    }
                    if placed.contains(&at) {
                        answered.replicas += 1;
                    } else {
                        answered.home += 1;
                    }
                }
                let reads = (answered.home + answered.replicas) as f64;
                let saved = answered.replicas as f64 / price;
                let free = [Extent::new(40 * MIB, 1 << 17)];
                let plan = planner.plan(free, |p| placed.contains(&p.0), answered);
                for page in plan.iter().flat_map(|r| &r.homes).flat_map(|e| starts(*e)) {
                    cost += 1.0;
                    prop_assert!(placed.insert(page));
                }
                prop_assert!(cost <= saved + reads * RISKED + 1e-6, "{cost} for {saved} in {reads} accesses");
            }
        }

        #[test]
        fn replicas_lie_in_free_space_once(
            reads in prop::collection::vec((0u64..8000, 1u64..20), 1..200),
            gaps in prop::collection::vec((0u64..400, 1u64..900), 0..20),
            whole in any::<bool>(),
        ) {
            let mut planner = Replication::new(ReplicationConfig { whole, least: 1, ..config() });
            for (at, pages) in reads {
                read(&mut planner, at * 8, pages);
            }
            let mut free: Vec<Extent> = Vec::new();
            let mut at = 0;
            for (gap, len) in gaps {
                free.push(Extent::new((at + gap) * 8, len * 8));
                at += gap + len + 1;
            }
            let mut used: Vec<Extent> = Vec::new();
            let mut homes: FxHashSet<u64> = FxHashSet::default();
            for replica in planner.plan(free.iter().copied(), |_| false, NONE) {
                let len: u64 = replica.homes.iter().map(|e| e.len.0).sum();
                let place = Extent::new(replica.place.0, len);
                prop_assert!(len > 0 && len <= RUN);
                prop_assert!(free.iter().any(|f| f.contains(place)), "{place:?}");
                prop_assert!(used.iter().all(|u| !u.overlaps(place)));
                used.push(place);
                for page in replica.homes.iter().flat_map(|e| starts(*e)) {
                    prop_assert!(homes.insert(page), "one replica a page");
                }
            }
        }
    }
}
