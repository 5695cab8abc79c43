//! All accessed pages: access count, accessed sectors, and device. They give the footprint, unique
//! bytes, the ranking and the temperature.

use seekless_block::{PAGE_BYTES, SECTOR_BYTES};

use super::ranks::Ranks;
use super::sampled_map::SampledMap;
use super::summary::{Estimate, RankFrequency, Table1, TemperaturePoint};

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    reads: u32,
    writes: u32,
    device: u16,
    /// Sectors that were read, one bit each.
    read: u8,
    written: u8,
}

/// Sum and sum of squares over pages.
#[derive(Clone, Copy, Debug, Default)]
struct Sum(f64, f64);

impl Sum {
    fn add(&mut self, value: f64) {
        self.0 += value;
        self.1 += value * value;
    }
}

#[derive(Debug)]
pub(super) struct Pages {
    pages: SampledMap<u64, Page>,
    accesses: u64,
}

impl Pages {
    pub(super) fn within(bytes: u64) -> Self {
        Self { pages: SampledMap::within(bytes), accesses: 0 }
    }

    /// An access to the sectors of `mask`.
    #[inline]
    pub(super) fn touch(&mut self, key: u64, device: u16, mask: u8, writes: bool) {
        self.accesses += 1;
        let Some(page) = self.pages.get(key) else { return };
        page.device = device;
        if writes {
            page.writes = page.writes.saturating_add(1);
            page.written |= mask;
        } else {
            page.reads = page.reads.saturating_add(1);
            page.read |= mask;
        }
    }

    /// Number of pages that each stored page represents.
    pub(super) const fn weight(&self) -> u64 {
        self.pages.weight()
    }

    fn bytes(&self, of: impl Fn(&Page) -> u8) -> Estimate {
        let mut sum = Sum::default();
        for (_, page) in self.pages.iter() {
            sum.add(f64::from(of(page).count_ones()) * SECTOR_BYTES as f64);
        }
        self.pages.total(sum.0, sum.1, PAGE_BYTES as f64)
    }

    /// Fills in the values of BORG's Table 1 that depend on pages.
    pub(super) fn table1(&self, table: &mut Table1) {
        table.unique_read_bytes = self.bytes(|p| p.read);
        table.unique_written_bytes = self.bytes(|p| p.written);
        table.unique_bytes = self.bytes(|p| p.read | p.written);
        table.unique_both_bytes = self.bytes(|p| p.read & p.written);
        let n = self.pages.len() as f64;
        table.pages = self.pages.total(n, n, 1.0);
        table.page_accesses = self.accesses;
        table.accessed_share =
            table.size_bytes.map(|size| table.pages.scaled(PAGE_BYTES as f64).of(size as f64));
        table.top20_share = self.ranks().hottest(0.2, self.accesses);
    }

    fn ranks(&self) -> Ranks {
        self.ranks_of(|p| p.reads.saturating_add(p.writes))
    }

    fn ranks_of(&self, count: impl Fn(&Page) -> u32) -> Ranks {
        Ranks::new(self.pages.iter().map(|(_, p)| count(p)), self.weight())
    }

    /// BORG's Figure 1, top row.
    pub(super) fn rank_frequency(&self) -> RankFrequency {
        RankFrequency {
            all: self.ranks().points(),
            reads: self.ranks_of(|p| p.reads).points(),
            writes: self.ranks_of(|p| p.writes).points(),
        }
    }

    pub(super) fn temperature(&self) -> Vec<TemperaturePoint> {
        self.ranks().temperature(self.accesses)
    }

    /// Unique bytes of each device, indexed by its number.
    pub(super) fn by_device(&self, devices: usize) -> Vec<Estimate> {
        let mut sums = vec![Sum::default(); devices];
        for (_, page) in self.pages.iter() {
            if let Some(sum) = sums.get_mut(usize::from(page.device)) {
                let sectors = (page.read | page.written).count_ones();
                sum.add(f64::from(sectors) * SECTOR_BYTES as f64);
            }
        }
        sums.into_iter().map(|s| self.pages.total(s.0, s.1, PAGE_BYTES as f64)).collect()
    }
}
