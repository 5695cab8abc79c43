//! Memory of past uses, page by page, in bounded space: entries of eight pages in a set-associative table. A full set gives up
//! the entry that was used longest ago.

/// Pages of an entry.
pub(crate) const REGION: u64 = 8;
/// Entries of a set.
const WAYS: usize = 8;

/// Memory of one page. Times are the clock's, counted in first uses; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageHistory {
    /// Last first use.
    pub(crate) last: u32,
    /// The one before.
    pub(crate) before: u32,
    /// Last write.
    pub(crate) written: u32,
    /// Times that it was prefetched, at most 3.
    pub(crate) fetched: u8,
    /// Times that a prefetched copy was used, at most 3.
    pub(crate) used: u8,
    /// What became of the last prefetch.
    pub(crate) outcome: PrefetchOutcome,
}

/// What became of a prefetched page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PrefetchOutcome {
    #[default]
    None,
    Used,
    Unused,
}

/// Memory of eight pages that follow each other.
pub(crate) type Region = [PageHistory; REGION as usize];

/// The table. All memory is reserved at construction.
#[derive(Debug)]
pub(crate) struct History {
    /// Number of the region plus one, or 0.
    tags: Vec<u64>,
    recent: Vec<u32>,
    regions: Vec<Region>,
    sets: u64,
    empty: Region,
}

impl History {
    /// A table for about this number of pages.
    pub(crate) fn new(pages: u64) -> Self {
        let sets = (pages / REGION / WAYS as u64).max(1).next_power_of_two();
        let entries = sets as usize * WAYS;
        Self {
            tags: vec![0; entries],
            recent: vec![0; entries],
            regions: vec![Region::default(); entries],
            sets,
            empty: Region::default(),
        }
    }

    fn set_of(&self, region: u64) -> usize {
        (region.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 & (self.sets - 1)) as usize * WAYS
    }

    fn find(&self, region: u64) -> Option<usize> {
        let set = self.set_of(region);
        (set..set + WAYS).find(|&at| self.tags[at] == region + 1)
    }

    /// The pages of a region; all zeroes where it is unknown.
    pub(crate) fn region(&self, region: u64) -> &Region {
        self.find(region).map_or(&self.empty, |at| &self.regions[at])
    }

    /// A page; all zeroes where it is unknown.
    pub(crate) fn page(&self, page: u64) -> PageHistory {
        self.region(page / REGION)[(page % REGION) as usize]
    }

    /// The pages of a region, to be changed, where the region is known.
    pub(crate) fn known_region(&mut self, region: u64) -> Option<&mut Region> {
        self.find(region).map(|at| &mut self.regions[at])
    }

    /// A page to be changed, where its region is known.
    pub(crate) fn known(&mut self, page: u64) -> Option<&mut PageHistory> {
        self.known_region(page / REGION).map(|pages| &mut pages[(page % REGION) as usize])
    }

    /// A page to be changed at this time. Its region takes the place of the least recent one of its set.
    pub(crate) fn entry(&mut self, page: u64, now: u32) -> &mut PageHistory {
        let region = page / REGION;
        let at = self.find(region).unwrap_or_else(|| {
            let set = self.set_of(region);
            let at = (set..set + WAYS).min_by_key(|&at| self.recent[at]).unwrap_or(set);
            self.tags[at] = region + 1;
            self.regions[at] = Region::default();
            at
        });
        self.recent[at] = now;
        &mut self.regions[at][(page % REGION) as usize]
    }

    /// Sets all times back, those of long ago to the earliest.
    pub(crate) fn rewind(&mut self, by: u32) {
        let back = |at: &mut u32| {
            if *at > 0 {
                *at = at.saturating_sub(by).max(1);
            }
        };
        self.recent.iter_mut().for_each(back);
        for page in self.regions.as_flattened_mut() {
            [&mut page.last, &mut page.before, &mut page.written].into_iter().for_each(back);
        }
    }
}
