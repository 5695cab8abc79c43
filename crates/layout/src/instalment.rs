//! A plan adopted piece by piece: which of its parts to move next, where only so much may be moved. The parts that
//! were read most for what they cost come first.

use std::ops::Range;

use seekless_block::Extent;

use crate::{Copy, Plan};

/// A part is what stands in an aligned window of the area this long, in sectors: 256 KiB, a few of the clusters
/// that a read of the area fetches.
const WINDOW: u64 = 512;

/// Longest background I/O, in sectors: 1 MiB. A copy costs one for each begun.
const PIECE: u64 = 2048;

/// A part of a plan.
#[derive(Clone, Debug)]
struct Part {
    /// Its copies, by index in the plan.
    copies: Range<usize>,
    /// I/Os that moving it takes.
    ios: u64,
    /// How often it was read.
    reads: u64,
}

/// A plan, and what of it has not been adopted.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    plan: Plan,
    /// Most reads an I/O first.
    parts: Vec<Part>,
    ios: u64,
    reads: u64,
}

/// A step towards a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Instalment {
    /// What to install.
    pub plan: Plan,
    /// Share of the reads of what was left of the plan.
    pub reads: f64,
    /// Share of the I/Os of what was left of it.
    pub ios: f64,
}

impl Candidate {
    /// A plan to be adopted where `standing` is. `reads` says how often an extent was read, in any unit.
    #[must_use]
    pub fn new(plan: Plan, standing: &Plan, reads: impl Fn(Extent) -> u64) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let mut window = None;
        for (i, copy) in plan.copies.iter().enumerate() {
            let at = copy.place.0 / WINDOW;
            if window != Some(at) {
                window = Some(at);
                parts.push(Part { copies: i..i, ios: 0, reads: 0 });
            }
            if let Some(part) = parts.last_mut() {
                part.copies.end = i + 1;
                if !stands(standing, copy) {
                    part.ios += copy.home.len.0.div_ceil(PIECE);
                    part.reads += reads(copy.home);
                }
            }
        }
        parts.retain(|p| p.ios > 0);
        // Reads an I/O, highest first; compared without division.
        parts.sort_by(|a, b| {
            let (x, y) = (u128::from(a.reads) * u128::from(b.ios), u128::from(b.reads) * u128::from(a.ios));
            y.cmp(&x)
        });
        let (ios, reads) = (parts.iter().map(|p| p.ios).sum(), parts.iter().map(|p| p.reads).sum());
        Self { plan, parts, ios, reads }
    }

    /// I/Os that are left to adopt all of it.
    #[must_use]
    pub const fn ios(&self) -> u64 {
        self.ios
    }

    /// The next parts to adopt, of at most so many I/Os together, as long as a part's share of the reads, times `proof`,
    /// reaches its share of the I/Os. None where that is none. What stands and is in nobody's way stays.
    pub fn instalment(&mut self, standing: &Plan, ios: u64, proof: f64) -> Option<Instalment> {
        let worth = |p: &Part| {
            p.reads as f64 * proof * self.ios as f64 >= p.ios as f64 * self.reads as f64
        };
        let mut sum = 0;
        let take = self
            .parts
            .iter()
            .take_while(|p| {
                sum += p.ios;
                sum <= ios && worth(p)
            })
            .count();
        let taken: Vec<Part> = self.parts.drain(..take).collect();
        if taken.is_empty() {
            return None;
        }
        let (moved, read) =
            (taken.iter().map(|p| p.ios).sum::<u64>(), taken.iter().map(|p| p.reads).sum::<u64>());
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let (reads, ios) = (share(read, self.reads), share(moved, self.ios));
        self.ios -= moved;
        self.reads -= read;
        let new = taken.into_iter().flat_map(|p| self.plan.copies[p.copies].iter().copied());
        Some(Instalment { plan: over(standing, new.collect()), reads, ios })
    }
}

/// Whether all of the copy stands where it should.
fn stands(standing: &Plan, copy: &Copy) -> bool {
    let at = standing.copies.partition_point(|c| c.place <= copy.place);
    at.checked_sub(1).is_some_and(|i| {
        let s = &standing.copies[i];
        s.placed().contains(copy.placed()) && s.home.start + (copy.place - s.place) == copy.home.start
    })
}

/// `new`, and of `standing` what shares no sector with it, neither at home nor in the area.
fn over(standing: &Plan, mut new: Vec<Copy>) -> Plan {
    new.sort_unstable_by_key(|c| c.place);
    let mut homes: Vec<Extent> = new.iter().map(|c| c.home).collect();
    homes.sort_unstable();
    let free = |old: &&Copy| {
        let home = homes.partition_point(|h| h.end() <= old.home.start);
        let place = new.partition_point(|c| c.placed().end() <= old.place);
        homes.get(home).is_none_or(|h| h.start >= old.home.end())
            && new.get(place).is_none_or(|c| c.place >= old.placed().end())
    };
    let mut copies: Vec<Copy> = standing.copies.iter().filter(free).copied().collect();
    copies.append(&mut new);
    copies.sort_unstable_by_key(|c| c.place);
    Plan { copies }
}
