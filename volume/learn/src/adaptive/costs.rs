//! Prices in milliseconds of disk time, measured while the disk works.

use super::brought_with;

/// Weight of the newest read.
const WEIGHT: f32 = 0.01;
/// Reads that each first time of [`Costs::access_by`] counts as.
const PRIOR_READS: u32 = 8;
/// From this number of reads on, the newest one has the weight [`WEIGHT`].
const MANY_READS: u32 = 100;
/// An I/O counts at most its expected time multiplied by this factor, or [`SLOW`] if that is more.
/// So a disk that spins up, or is reset, does not count as a slow disk.
const STALL: f64 = 4.0;
/// An I/O of a disk with an arm takes at most so long, ms.
const SLOW: f64 = 50.0;
/// Pages that are read along, before any is: one read of 64 KiB.
const ALONG: f32 = 16.0;
/// Reads that a line needs.
const LINE: u32 = 500;
/// Insertions after which older hits count half, if RAM does not have a quarter as many pages.
const INSERTIONS: f32 = 65_536.0;
/// First price of a page's space, as a share of an access, before the policy has measured one.
/// Unused pages must not fill a RAM whose pages had no time yet to be used again.
const PRIOR: f32 = 0.05;

/// The time, ms, that an I/O counts if it took `ms` where `expected` was expected.
pub fn without_stall(ms: f64, expected: f64) -> f64 {
    ms.min((STALL * expected).max(SLOW))
}

/// Prices of reads at home and of space in RAM.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    /// Access to a place at home, without its transfer, ms.
    pub(crate) access: f32,
    /// Transfer of a page, ms.
    pub(crate) transfer: f32,
    /// Pages that one read reads along.
    along_pages: f32,
    /// All disk time per first use, ms.
    pub(crate) per_use: f32,
    busy: f64,
    uses: u32,
    /// Disk time that hits on pages close to eviction saved, ms, and insertions into full RAM.
    pub(super) close_saved: f32,
    pub(super) insertions: f32,
    /// Pages of RAM.
    pub(super) ram: f32,
    /// RAM has been full since its start. Before, no page is close to eviction.
    pub(super) full: bool,
    /// The last pages with such a hit.
    close: [u64; 8],
    close_at: usize,
    /// Access times by where the I/O before went and where this read goes: home or trail, ms.
    pub(super) access_by: [[f32; 2]; 2],
    /// Reads that each of these times is a mean of.
    reads_by: [[u32; 2]; 2],
    /// The last I/O whose place is known read or wrote the trail.
    last_on_trail: bool,
    /// Means over the last reads, for [`Self::fit`]: pages, ms, pages squared, pages times ms.
    line: [f64; 4],
    reads: u32,
}

/// Pages of a read that shows how long a transfer takes at most.
const MANY: u64 = 4;

impl Costs {
    pub(crate) fn new(ram: u32) -> Self {
        Self {
            access: 6.0,
            transfer: 0.08,
            along_pages: ALONG,
            per_use: 1.0,
            ram: ram as f32,
            close: [u64::MAX; 8],
            access_by: [[6.0; 2]; 2],
            reads_by: [[PRIOR_READS; 2]; 2],
            ..Self::default()
        }
    }

    /// The time that an I/O of `pages` pages counts, if it took `ms`.
    pub(crate) fn counted(&self, pages: u64, ms: f64) -> f64 {
        let expected = f64::from(self.access) + pages as f64 * f64::from(self.transfer);
        without_stall(ms, expected)
    }

    /// A read of `pages` pages, at home or on the trail, took `ms`.
    pub(crate) fn read(&mut self, pages: u64, ms: f64, on_trail: bool) {
        let access = (ms as f32 - pages as f32 * self.transfer).max(0.0);
        let way_back = self.way_back();
        let (from, to) = (usize::from(self.last_on_trail), usize::from(on_trail));
        let (by, reads) = (&mut self.access_by[from][to], &mut self.reads_by[from][to]);
        *reads = reads.saturating_add(1);
        *by += WEIGHT.max(1.0 / *reads as f32) * (access - *by);
        self.last_on_trail = on_trail;
        if on_trail {
            return;
        }
        // A transfer takes no longer than the whole read. On a fast device the first price is too
        // high: without this, no page would be worth reading along, and none would be measured.
        let most = ms as f32 / pages as f32;
        if pages >= MANY && most < self.transfer {
            self.transfer += WEIGHT * (most - self.transfer);
        }
        // The way back is a cost of the trail, not of home.
        self.access += WEIGHT * ((access - way_back).max(0.0) - self.access);
    }

    /// A read of `pages` pages took `ms`: the slope of a line through the last reads is the time of a
    /// page.
    pub(crate) fn fit(&mut self, pages: u64, ms: f64) {
        let pages = pages as f64;
        let [p, m, pp, pm] = &mut self.line;
        for (mean, new) in [(&mut *p, pages), (&mut *m, ms), (pp, pages * pages), (pm, pages * ms)]
        {
            *mean += f64::from(WEIGHT) * (new - *mean);
        }
        let [p, m, pp, pm] = self.line;
        self.reads = self.reads.saturating_add(1);
        let spread = pp - p * p;
        if self.reads >= LINE && spread > 16.0 {
            self.transfer = (((pm - p * m) / spread) as f32).max(0.0);
        }
    }

    /// `pages` pages behind a read were prefetched, and took `ms`.
    pub(crate) fn read_along(&mut self, pages: u64, ms: f64) {
        let pages = pages as f32;
        self.along_pages += WEIGHT * (pages - self.along_pages);
        self.transfer += WEIGHT * (ms as f32 - pages * self.transfer) / self.along_pages.max(pages);
    }

    /// The access times were learned before a stop.
    pub(super) const fn know_access(&mut self) {
        self.reads_by = [[MANY_READS; 2]; 2];
    }

    /// The next access begins at home, or on the trail.
    pub(crate) const fn went(&mut self, on_trail: bool) {
        self.last_on_trail = on_trail;
    }

    /// The time that an access from the trail to home takes longer than an access between two places
    /// at home, ms.
    fn back(&self) -> f32 {
        let [home, trail] = self.access_by;
        // Before the first such access, nothing is known of the way back.
        let is_known = self.reads_by[1][0] > PRIOR_READS;
        if is_known { (trail[0] - home[0]).max(0.0) } else { 0.0 }
    }

    /// The same if the last I/O was on the trail, otherwise 0: the next access to home includes it.
    pub(crate) fn way_back(&self) -> f32 {
        if self.last_on_trail { self.back() } else { 0.0 }
    }

    /// The time of an access to the trail minus the time of an access to home, ms. `price`: 1, or more
    /// if the last reads of the trail have lost. Then the whole way counts, there and back, and counts
    /// more. The way back from the trail comes sooner or later, so a read there does not save it.
    pub(crate) fn way_to_trail(&self, price: f32) -> f32 {
        let ([home, trail], more) = (self.access_by, price - 1.0);
        if self.last_on_trail {
            return trail[1] - trail[0] + more.min(1.0) * self.back();
        }
        let there = home[1] - home[0];
        there + more * (there + self.back()).max(0.0)
    }

    /// The disk was busy for so long, with whatever.
    pub(crate) fn busy(&mut self, ms: f64) {
        self.busy += ms;
    }

    /// A first use.
    pub(crate) fn used(&mut self) {
        self.uses += 1;
        if self.uses == 1024 {
            self.per_use += 0.05 * ((self.busy / 1024.0) as f32 - self.per_use);
            (self.uses, self.busy) = (0, 0.0);
        }
    }

    /// A page was inserted into RAM, which was full.
    pub(crate) fn inserted(&mut self) {
        self.full = true;
        self.insertions += 1.0;
        if self.insertions >= INSERTIONS.max(4.0 * self.ram) {
            self.insertions /= 2.0;
            self.close_saved /= 2.0;
        }
    }

    /// A hit on a page that was close to eviction. The hit saved the time of an average use. If the
    /// read for another such page would also have read this page, the hit saved only a transfer.
    pub(crate) fn close_hit(&mut self, page: u64) {
        if !self.full {
            return;
        }
        let along = self.close.iter().any(|&other| brought_with(other).contains(&page));
        self.close_saved += if along { self.transfer } else { self.per_use };
        self.close[self.close_at] = page;
        self.close_at = (self.close_at + 1) % self.close.len();
    }

    /// Price of a page's space in RAM, ms: what the page that it displaces would have saved.
    pub(crate) fn pollution(&self) -> f32 {
        let prior = PRIOR * self.access * self.ram;
        (8.0 * self.close_saved + prior) / (self.insertions + self.ram).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_reads_show_the_times_of_access_and_transfer() {
        for (access, transfer) in [(60.0, 0.05), (0.7, 0.008), (12.0, 0.3)] {
            let mut costs = Costs::new(4096);
            for i in 0..20_000u64 {
                let pages = 1 + i * 7919 % 200;
                let ms = access + transfer * pages as f64;
                costs.fit(pages, ms);
                costs.read(pages, ms, false);
            }
            assert!((f64::from(costs.access) / access - 1.0).abs() < 0.05, "{costs:?}");
            assert!((f64::from(costs.transfer) / transfer - 1.0).abs() < 0.05, "{costs:?}");
        }
    }

    /// Reads of a page that take 5 ms, and reads of 16 pages along that take 1 ms.
    fn of_a_disk() -> Costs {
        let mut costs = Costs::new(4096);
        for _ in 0..1000 {
            costs.read(1, costs.counted(1, 5.0), false);
            costs.read_along(16, costs.counted(16, 1.0));
        }
        costs
    }

    /// A disk spins up, or its link is reset: one read takes ten seconds.
    #[test]
    fn a_stall_is_not_taken_for_a_slow_disk() {
        let before = of_a_disk();
        let mut costs = before.clone();
        costs.read(1, costs.counted(1, 10_000.0), false);
        costs.read_along(1, costs.counted(1, 10_000.0));
        assert!(costs.access < 1.2 * before.access, "{costs:?}");
        assert!(costs.transfer < 1.7 * before.transfer, "{costs:?}");
        let way = costs.way_to_trail(1.0) - before.way_to_trail(1.0);
        assert!(way.abs() < 1.0, "{way}: {costs:?}");
    }

    /// Reads at home take 6 ms, a way to the trail or back 15 ms more, reads on the trail 4 ms.
    #[test]
    fn the_way_back_is_a_cost_of_the_trail() {
        let mut costs = Costs::new(4096);
        costs.transfer = 0.0;
        let way = |costs: &mut Costs, writes: bool| {
            (0..10).for_each(|_| costs.read(1, 6.0, false));
            if writes {
                costs.went(true);
            } else {
                costs.read(1, 21.0, true);
                (0..3).for_each(|_| costs.read(1, 4.0, true));
            }
            costs.read(1, 21.0, false);
        };
        (0..2000).for_each(|i| way(&mut costs, i % 2 == 0));
        let near = |a: f32, b: f32| assert!((a - b).abs() < 0.3, "{a} {b}: {costs:?}");
        near(costs.access, 6.0);
        near(costs.way_back(), 0.0);
        near(costs.way_to_trail(1.0), 15.0);
        near(costs.way_to_trail(3.0), 15.0 + 2.0 * 30.0);
        let mut on_trail = costs.clone();
        on_trail.went(true);
        near(on_trail.way_back(), 15.0);
        near(on_trail.way_to_trail(1.0), 4.0 - 21.0);
        near(on_trail.way_to_trail(9.0), 4.0 - 6.0);
    }

    #[test]
    fn a_slow_disk_is_believed() {
        let mut costs = of_a_disk();
        for _ in 0..500 {
            costs.read(1, costs.counted(1, 300.0), false);
        }
        assert!(costs.access > 250.0, "{costs:?}");
    }

    /// A flash disk takes 0.1 ms for a page, and 0.21 ms for sixteen.
    #[test]
    fn a_fast_device_is_not_stuck_with_the_first_price() {
        let mut costs = Costs::new(4096);
        (0..2000).for_each(|_| costs.read(1, 0.1, false));
        assert!(costs.transfer > costs.access, "the first price: {costs:?}");
        (0..300).for_each(|_| costs.read(16, 0.21, false));
        (0..300).for_each(|_| costs.read(1, 0.1, false));
        assert!(0.8 * costs.access > costs.transfer, "{costs:?}");
    }

    /// 4,096 pages of RAM, and 409,600 insertions of which one in a hundred pages is hit late.
    fn price(page: impl Fn(u64) -> u64) -> f32 {
        let mut costs = Costs::new(4096);
        costs.close_hit(0);
        assert!((costs.pollution() - 0.05 * 6.0).abs() < 1e-6, "nothing is known: {costs:?}");
        for i in 0..409_600 {
            costs.inserted();
            if i % 100 == 0 {
                costs.close_hit(page(i / 100));
            }
        }
        costs.pollution()
    }

    /// RAM was emptied, as by a restart. What was counted before says that RAM was full once.
    #[test]
    fn no_page_of_a_ram_that_is_not_full_is_close_to_eviction() {
        let mut costs = Costs::new(4096);
        (0..10_000).for_each(|_| costs.inserted());
        let before = costs.pollution();
        costs.full = false;
        (0..10_000).for_each(|page| costs.close_hit(page * 1000));
        assert_eq!(costs.pollution(), before);
        costs.inserted();
        costs.close_hit(0);
        assert!(costs.pollution() > before);
    }

    /// An average use takes 1 ms, a transfer 0.08 ms, an access 6 ms.
    #[test]
    fn space_costs_what_the_displaced_page_would_have_saved() {
        let expected = |saved: f32| (8.0 * 491.52 * saved + 0.3 * 4096.0) / (49_152.0 + 4096.0);
        let near = |a: f32, b: f32| assert!((a / b - 1.0).abs() < 0.01, "{a} {b}");
        near(price(|i| i * 1000), expected(1.0));
        // One read brings many of them.
        near(price(|i| i), expected(0.08));
    }
}
