//! Which blocks get a replica, and where (FS2, SOSP'05, 2.2 and 3.1). The planner divides the disk
//! into regions, and counts the accessed blocks of each region. The region with most accessed
//! blocks is the hot region: the head is there most of the time. If a block outside of the hot
//! region is read together with blocks of the hot region, the block gets a replica in free space
//! near the hot region. Replicas are side by side in the order of reads. A block that is often read
//! alone gets no replica, because a replica saves nothing there.
//!
//! Two options differ from the paper. [`ReplicationConfig::whole`] replicates whole sequences.
//! [`ReplicationConfig::price`] replicates a block only if its replica will probably pay. This
//! option spends only the savings of earlier replicas and a small share of all accesses. So the
//! loss stays below this share for all sequences of reads.

mod proven;
mod side_by_side;
mod static_replicas;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::{Extent, Lba, Op, PAGE_SECTORS, Request, Sectors, named};

use crate::{Pages, Replica};

pub use side_by_side::side_by_side;
pub(crate) use static_replicas::StaticReplication;

/// Reads remembered between two plans: the latest ones, 2 MiB.
const REMEMBERED: usize = 1 << 17;
/// Reads between two plans.
const EVERY: usize = 4096;
/// Pages whose uses are remembered from plan to plan.
const COUNTED: usize = 1 << 20;
/// Free ranges shorter than this, in sectors, are not used: 64 KiB.
const SHORT: u64 = 128;
/// Consecutive reads longer than this together, in sectors, are fast without a replica: 512 KiB.
const LONG: u64 = 1024;
/// A read is a new sighting only after this many other reads: before, RAM may have answered it.
const APART: u64 = 1000;
/// The highest sighting count.
const TIMES: usize = 8;
/// Share of clients' accesses that replicas may cost. The paper's first run was slower by 1.7%
/// (4.3.3).
const RISKED: f64 = 0.02;
/// Longest planned run of replicas, in sectors: 1 MiB less a page.
const RUN: u64 = 255 * PAGE_SECTORS;

/// The rule by which blocks get a replica; the same names in a simulation and in a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicationRule {
    /// The paper's rule: blocks that are read together with the hot region.
    #[default]
    Paper,
    /// See [`ReplicationConfig::whole`].
    Whole,
    /// Also [`ReplicationConfig::price`]: this rule hardly loses anything, whatever comes.
    Proven,
}

named!(ReplicationRule: Paper = "fs2", Whole = "fs2-whole", Proven = "fs2-proven");

/// The number of clients' reads answered since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredReads {
    /// By home.
    pub home: u64,
    /// By replicas.
    pub replicas: u64,
}

/// The settings of replication.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicationConfig {
    /// Size of the device, and where its pages lie.
    pub capacity: Sectors,
    /// First sector of its first page, 0 to 7.
    pub grid: Sectors,
    /// Length of a region. The paper's is a multiple of a block group, without a number.
    pub region: Sectors,
    /// Reads at most this far apart in the order of reading count as used together.
    pub near: u32,
    /// A block needs this many reads together with the hot region to get a replica.
    pub least: u32,
    /// Replicate all data that was read in short runs, wherever it lies: whole sequences then stand
    /// side by side. The paper replicates only data outside the hot region.
    pub whole: bool,
    /// Reads of a replica that pay for the access that makes it. A block is replicated only at
    /// sighting counts whose replicas were re-read this often, and only within the accesses saved.
    /// 0 replicates without a price, as the paper.
    pub price: f64,
    /// Most that one plan replicates.
    pub most: Sectors,
}

impl ReplicationConfig {
    /// A price at which replicas pay. To make a replica, the engine reads its home once more, and
    /// writes the replica. Both together cost about one read, because neighbours are read and
    /// written in a row. A read of a replica saves about half of an access (50% in the paper's
    /// Table 2).
    pub(crate) const PAYS: f64 = 2.0;

    /// The paper's settings, as far as the paper names them: regions of a 128th of the device, in
    /// whole block groups of 128 MiB or else in whole MiB; reads within 8 are used together; one
    /// such sighting is enough.
    pub fn new(capacity: Sectors, grid: Sectors) -> Self {
        let (group, mib) = (128 << 11, 1 << 11);
        let share = capacity.0 / 128;
        let unit = if share > group { group } else { mib };
        let region = Sectors(share.div_ceil(unit).max(1) * unit);
        let most = Sectors(256 << 11);
        Self { capacity, grid, region, near: 8, least: 1, whole: false, price: 0.0, most }
    }

    /// The same with this rule.
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
    /// Pages read or written by region, halved at each plan.
    references: Vec<u64>,
    recent: VecDeque<Extent>,
    /// The number of these that came since the last plan.
    fresh: usize,
    /// Where the last read ended.
    last_end: Lba,
    /// Reads since the last plan that did not begin there: they move the head.
    apart: u64,
    /// Reads answered up to the last plan.
    answered: AnsweredReads,
    /// Accesses that replicas may still cost: the risked share and accesses saved, less accesses
    /// spent.
    purse: f64,
    /// First sector of a page to the number of uses together with the hot region, halved at each
    /// plan.
    together: FxHashMap<u64, u32>,
    /// First sector of a read to its number of sightings, and the last of these reads.
    seen: FxHashMap<u64, (u8, u64)>,
    /// Reads by the sighting count before the read, from 0 on; halved at each plan.
    sightings: [u64; TIMES],
    reads: u64,
}

impl Replication {
    /// For a device of which nothing is known.
    pub fn new(config: ReplicationConfig) -> Self {
        let regions = config.capacity.0.div_ceil(config.region.0.max(1)) as usize;
        Self {
            pages: Pages::new(config.grid, config.capacity),
            references: vec![0; regions.max(1)],
            recent: VecDeque::new(),
            fresh: 0,
            last_end: Lba(0),
            apart: 0,
            answered: AnsweredReads::default(),
            purse: 0.0,
            together: FxHashMap::default(),
            seen: FxHashMap::default(),
            sightings: [0; TIMES],
            reads: 0,
            config,
        }
    }

    /// Starts again with regions of this length.
    pub(crate) fn set_region(&mut self, region: Sectors) {
        *self = Self::new(ReplicationConfig { region, ..self.config });
    }

    /// Takes in one request, in order of arrival. Writes say where the head is; only what is read
    /// gets a replica.
    pub fn observe(&mut self, request: &Request) {
        let extent = self.pages.touched(request.extent);
        if !matches!(request.op, Op::Read | Op::Write) || extent.is_empty() {
            return;
        }
        for page in starts(extent) {
            let region = self.region_of(page);
            self.references[region] += 1;
        }
        if request.op == Op::Write {
            return;
        }
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

    /// Whether there are enough reads since the last plan for another plan.
    pub const fn is_due(&self) -> bool {
        self.fresh >= EVERY
    }

    fn region_of(&self, page: u64) -> usize {
        let region = page / self.config.region.0.max(1);
        (region as usize).min(self.references.len() - 1)
    }

    /// The region with most pages read or written, the first of equals; `None` without any.
    pub fn hot_region(&self) -> Option<Extent> {
        let most = *self.references.iter().max()?;
        let at = self.references.iter().position(|&n| n == most && n > 0)? as u64;
        let region = self.config.region.0;
        Some(Extent::span(at * region, ((at + 1) * region).min(self.config.capacity.0)))
    }

    /// Chooses blocks to replicate, and places in `free` for the replicas. `free` is in order and
    /// holds no replicas. `placed` returns whether a page, given by its first sector, has a
    /// replica. The plan removes the observations, unless replicas have a price: later reads may
    /// then make a block worth a replica. `answered` limits the cost of new replicas.
    pub fn plan(
        &mut self,
        free: impl IntoIterator<Item = Extent>,
        placed: impl Fn(Lba) -> bool,
        answered: AnsweredReads,
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
        if self.seen.len() >= COUNTED {
            // Space for reads that are new: what was seen once goes.
            self.seen.retain(|_, (count, _)| {
                *count /= 2;
                *count > 0
            });
        }
        replicas
    }

    /// Pages to be replicated, in the order of their last reads.
    fn candidates(&mut self, hot: Extent, placed: impl Fn(Lba) -> bool) -> Vec<Extent> {
        let near = self.config.near as usize;
        let inside: Vec<bool> = self.recent.iter().map(|e| hot.contains(*e)).collect();
        // Reads inside the hot region among the first i. So a window costs two lookups.
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

    /// For each remembered read, whether it is part of a short run of consecutive reads.
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

/// First sectors of the pages of a run.
fn starts(extent: Extent) -> impl Iterator<Item = u64> {
    (extent.start.0..extent.end().0).step_by(PAGE_SECTORS as usize)
}
