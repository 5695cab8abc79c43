//! A set of pages as disjoint ranges: the free pages of a device of terabytes are a few thousand
//! ranges. Every operation takes time near-linear in the touched ranges, whatever their lengths.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges never touch: neighbours are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    /// First page to one past the last.
    ranges: BTreeMap<u64, u64>,
    pages: u64,
}

impl Extents {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Ranges of the set.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// The parts of the set within a range, in order.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let from = self
            .ranges
            .range(..=range.start)
            .next_back()
            .filter(|&(_, &end)| end > range.start)
            .map_or(range.start, |(&start, _)| start);
        // `BTreeMap::range` panics if a range runs backwards.
        let to = range.end.max(from);
        self.ranges
            .range(from..to)
            .map(move |(&start, &end)| start.max(range.start)..end.min(range.end))
            .filter(|part| !part.is_empty())
    }

    pub(crate) fn overlaps(&self, range: Range<u64>) -> bool {
        // The last range that begins before the end: all others end earlier still.
        !range.is_empty()
            && self.ranges.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    /// Whether the set has all of a range; false for an empty range.
    pub(crate) fn covers(&self, range: Range<u64>) -> bool {
        !range.is_empty() && self.within(range.clone()).next() == Some(range)
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        self.ranges.range(..=page).next_back().is_some_and(|(_, &end)| page < end)
    }

    /// The first page of the set from `page` on.
    pub(crate) fn next(&self, page: u64) -> Option<u64> {
        if self.contains(page) {
            return Some(page);
        }
        self.ranges.range(page..).next().map(|(&start, _)| start)
    }

    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Every range that touches this one becomes a part of it.
        while let Some((&first, &last)) = self.ranges.range(..=end).next_back() {
            if last < start {
                break;
            }
            start = start.min(first);
            end = end.max(last);
            self.ranges.remove(&first);
            self.pages -= last - first;
        }
        self.ranges.insert(start, end);
        self.pages += end - start;
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        while let Some((&first, &last)) = self.ranges.range(..range.end.max(1)).next_back() {
            if range.is_empty() || last <= range.start {
                break;
            }
            self.ranges.remove(&first);
            self.pages -= last - first;
            for part in [first..range.start.min(last), range.end.max(first)..last] {
                if !part.is_empty() {
                    self.ranges.insert(part.start, part.end);
                    self.pages += part.end - part.start;
                }
            }
        }
    }

    pub(crate) fn extend(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        ranges.into_iter().for_each(|range| self.insert(range));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_pages(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 1..60)) {
            let mut set = Extents::default();
            let mut twin: BTreeSet<u64> = BTreeSet::new();
            for (insert, start, len) in steps {
                let range = start..start + len;
                if insert {
                    set.insert(range.clone());
                    twin.extend(range);
                } else {
                    set.remove(range.clone());
                    twin.retain(|page| !range.contains(page));
                }
                prop_assert!(set.iter().flatten().eq(twin.iter().copied()));
                prop_assert_eq!(set.pages(), twin.len() as u64);
                let ends: Vec<_> = set.iter().collect();
                prop_assert!(ends.windows(2).all(|w| w[0].end < w[1].start), "neighbours are one");
                for page in 0..54 {
                    prop_assert_eq!(set.contains(page), twin.contains(&page));
                    prop_assert_eq!(set.next(page), twin.range(page..).next().copied());
                    for len in [0u64, 1, 3, 9] {
                        let range = page..page + len;
                        let inside = twin.range(range.clone()).count() as u64;
                        prop_assert_eq!(set.covers(range.clone()), len > 0 && inside == len);
                        prop_assert_eq!(set.overlaps(range.clone()), inside > 0);
                        prop_assert!(set.within(range.clone()).flatten().eq(twin.range(range).copied()));
                    }
                }
            }
        }
    }
}
