//! The indirection map: for each sector of the client's device, the place of its copy, if it has one,
//! and whether that copy may be used. One plan's worth of copies, sorted once; validity is a bit a
//! sector of the optimized area, so that a write invalidates without allocating.

use seekless_block::{Extent, Lba, Sectors};
use seekless_layout::{Copy, Plan};

/// A bit per sector of the optimized area.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    /// How many are set: whoever watches asks often, and must not hold up a volume with a large area.
    set: u64,
}

impl Bits {
    pub(crate) fn new(sectors: Sectors) -> Self {
        Self { words: vec![0; sectors.0.div_ceil(64) as usize], set: 0 }
    }

    /// Calls `f(word index, mask)` for every word the extent touches.
    fn words(extent: Extent) -> impl Iterator<Item = (usize, u64)> {
        let (mut at, end) = (extent.start.0, extent.end().0);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let stop = end.min((at / 64 + 1) * 64);
                let ones = if stop - at == 64 { u64::MAX } else { (1 << (stop - at)) - 1 };
                let word = (at / 64) as usize;
                let mask = ones << (at % 64);
                at = stop;
                (word, mask)
            })
        })
    }

    pub(crate) fn set(&mut self, extent: Extent) {
        Self::words(extent).for_each(|(w, m)| {
            self.set += u64::from((m & !self.words[w]).count_ones());
            self.words[w] |= m;
        });
    }

    pub(crate) fn clear(&mut self, extent: Extent) {
        Self::words(extent).for_each(|(w, m)| {
            self.set -= u64::from((m & self.words[w]).count_ones());
            self.words[w] &= !m;
        });
    }

    pub(crate) fn all(&self, extent: Extent) -> bool {
        Self::words(extent).all(|(w, m)| self.words[w] & m == m)
    }

    pub(crate) fn get(&self, sector: u64) -> bool {
        self.words[(sector / 64) as usize] >> (sector % 64) & 1 == 1
    }

    pub(crate) const fn count(&self) -> u64 {
        self.set
    }

    /// The maximal runs of equal bits within the extent: `(run, set)`.
    pub(crate) fn runs(&self, extent: Extent) -> impl Iterator<Item = (Extent, bool)> + '_ {
        let (mut at, end) = (extent.start.0, extent.end().0);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let start = at;
                let set = self.get(at);
                while at < end {
                    let word = self.words[(at / 64) as usize] >> (at % 64);
                    let same = if set { word.trailing_ones() } else { word.trailing_zeros() };
                    let left = 64 - at % 64;
                    let step = u64::from(same).min(left);
                    at += step;
                    if step < left {
                        break;
                    }
                }
                at = at.min(end);
                (Extent::span(start, at), set)
            })
        })
    }
}

/// The map of one plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// First home sector of each copy, ascending: searched on every request.
    starts: Vec<u64>,
    /// The copies, in order of home.
    by_home: Vec<Copy>,
    /// The same, in order of place.
    by_place: Vec<Copy>,
    /// Sectors of the area whose copy equals its home.
    pub(crate) valid: Bits,
    /// Sectors written at home since their copy began to be made.
    pub(crate) tainted: Bits,
}

impl Map {
    pub(crate) fn empty(area: Sectors) -> Self {
        Self { valid: Bits::new(area), tainted: Bits::new(area), ..Self::default() }
    }

    /// The map of `plan`, keeping from `old` the copies that stand where the plan wants them. The plan
    /// has been checked.
    pub(crate) fn next(plan: Plan, old: &Self, area: Sectors) -> Self {
        let mut by_place: Vec<Copy> = Vec::with_capacity(plan.copies.len());
        for copy in plan.copies {
            match by_place.last_mut() {
                Some(last)
                    if last.home.end() == copy.home.start && last.placed().end() == copy.place =>
                {
                    last.home.len += copy.home.len;
                }
                _ => by_place.push(copy),
            }
        }
        let mut map = Self { by_home: by_place.clone(), by_place, ..Self::empty(area) };
        map.by_home.sort_unstable_by_key(|c| c.home.start);
        map.starts = map.by_home.iter().map(|c| c.home.start.0).collect();
        let mut olds = old.by_place.iter().peekable();
        for new in &map.by_place {
            while let Some(o) = olds.peek() {
                if let Some(common) = o.placed().intersection(new.placed())
                    && o.home.start.0.wrapping_sub(o.place.0)
                        == new.home.start.0.wrapping_sub(new.place.0)
                {
                    for (run, set) in old.valid.runs(common) {
                        if set {
                            map.valid.set(run);
                        }
                    }
                }
                if o.placed().end() <= new.placed().end() {
                    olds.next();
                } else {
                    break;
                }
            }
        }
        map
    }

    pub(crate) fn copies_by_place(&self) -> &[Copy] {
        &self.by_place
    }

    /// The copies that may be used, in order of place.
    pub(crate) fn standing(&self) -> Plan {
        let valid = |c: &Copy| {
            let (home, place) = (c.home.start, c.place);
            self.valid.runs(c.placed()).filter(|&(_, set)| set).map(move |(run, _)| Copy {
                home: Extent { start: home + (run.start - place), len: run.len },
                place: run.start,
            })
        };
        Plan { copies: self.by_place.iter().flat_map(valid).collect() }
    }

    /// The place of a copy of the whole extent: complete, contiguous and valid.
    pub(crate) fn find(&self, home: Extent) -> Option<Lba> {
        let at = self.starts.partition_point(|&s| s <= home.start.0).checked_sub(1)?;
        let copy = self.by_home[at];
        if !copy.home.contains(home) {
            return None;
        }
        let place = copy.place + (home.start - copy.home.start);
        self.valid.all(Extent { start: place, len: home.len }).then_some(place)
    }

    /// The copies that stand within an extent of the area, as `(home part, place)`.
    pub(crate) fn placed_within(&self, area: Extent) -> impl Iterator<Item = (Extent, Lba)> + '_ {
        let first = self.by_place.partition_point(|c| c.placed().end() <= area.start);
        self.by_place[first..].iter().take_while(move |c| c.place < area.end()).filter_map(
            move |c| {
                let part = c.placed().intersection(area)?;
                let home = c.home.start + (part.start - c.place);
                Some((Extent { start: home, len: part.len }, part.start))
            },
        )
    }

    /// The home extent was written: its copies may no longer be used, nor those being made.
    pub(crate) fn written(&mut self, home: Extent) {
        if self.starts.is_empty() {
            return;
        }
        let first = self.starts.partition_point(|&s| s <= home.start.0).saturating_sub(1);
        for c in &self.by_home[first..] {
            if c.home.start >= home.end() {
                break;
            }
            if let Some(part) = c.home.intersection(home) {
                let placed = Extent { start: c.place + (part.start - c.home.start), len: part.len };
                self.valid.clear(placed);
                self.tainted.set(placed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn copy(home: u64, len: u64, place: u64) -> Copy {
        Copy { home: Extent::new(home, len), place: Lba(place) }
    }

    #[test]
    fn adjacent_copies_become_one_and_a_gap_is_not_bridged() {
        let plan = Plan { copies: vec![copy(100, 8, 0), copy(108, 8, 8), copy(200, 8, 16)] };
        let mut map = Map::next(plan, &Map::empty(Sectors(64)), Sectors(64));
        assert_eq!(map.copies_by_place().len(), 2);
        assert_eq!(map.find(Extent::new(104, 8)), None, "not valid yet");
        map.valid.set(Extent::new(0, 24));
        assert_eq!(map.find(Extent::new(104, 8)), Some(Lba(4)));
        assert_eq!(map.find(Extent::new(112, 8)), None, "runs past the copy");
        assert_eq!(map.find(Extent::new(200, 8)), Some(Lba(16)));
        map.written(Extent::new(110, 1));
        assert_eq!(map.find(Extent::new(104, 8)), None, "one sector is stale");
        assert_eq!(map.find(Extent::new(104, 6)), Some(Lba(4)));
    }

    #[test]
    fn a_new_plan_keeps_only_copies_that_stay_in_place() {
        let mut old = Map::next(
            Plan { copies: vec![copy(100, 8, 0), copy(300, 8, 8), copy(500, 8, 16)] },
            &Map::empty(Sectors(64)),
            Sectors(64),
        );
        old.valid.set(Extent::new(0, 24));
        old.written(Extent::new(302, 1));
        let new = Plan { copies: vec![copy(500, 8, 0), copy(298, 12, 6), copy(700, 4, 18)] };
        let map = Map::next(new, &old, Sectors(64));
        let kept: Vec<u64> = (0..24).filter(|&s| map.valid.get(s)).collect();
        // Only home 300..308 still stands at 8..16, less the written sector at 10.
        assert_eq!(kept, vec![8, 9, 11, 12, 13, 14, 15]);
    }

    proptest! {
        #[test]
        fn bits_are_a_set_of_sectors(ops in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..150), 1..20),
                                     s in 0u64..200, l in 1u64..150) {
            let mut bits = Bits::new(Sectors(400));
            let mut twin = [false; 400];
            for (set, start, len) in ops {
                let e = Extent::new(start, len);
                if set { bits.set(e) } else { bits.clear(e) }
                twin[start as usize..(start + len) as usize].fill(set);
            }
            let e = Extent::new(s, l);
            let slice = &twin[s as usize..(s + l) as usize];
            prop_assert_eq!(bits.all(e), slice.iter().all(|&b| b));
            prop_assert_eq!(bits.count(), twin.iter().filter(|&&b| b).count() as u64);
            let mut at = s;
            for (run, set) in bits.runs(e) {
                prop_assert_eq!(run.start.0, at);
                prop_assert!(!run.is_empty());
                prop_assert!((run.start.0..run.end().0).all(|i| twin[i as usize] == set));
                at = run.end().0;
                prop_assert!(at == s + l || twin[at as usize] != set);
            }
            prop_assert_eq!(at, s + l);
        }
    }
}
