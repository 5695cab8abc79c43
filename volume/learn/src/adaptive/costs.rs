//! Prices in milliseconds of disk time, measured while the disk works.

/// Weight of the newest read.
const WEIGHT: f32 = 0.01;
/// Reads that a line needs.
const LINE: u32 = 500;

/// Prices of reads at home and of space in RAM.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// Access to a place at home, without its transfer, ms.
    pub(crate) access: f32,
    /// Transfer of a page, ms.
    pub(crate) transfer: f32,
    /// All disk time per first use, ms.
    pub(crate) per_use: f32,
    busy: f64,
    uses: u32,
    /// Hits on pages close to eviction, and insertions into full RAM.
    pub(super) close_hits: f32,
    pub(super) insertions: f32,
    /// Access times by where the read before went and where this one goes: home or trail, ms.
    pub(super) access_by: [[f32; 2]; 2],
    last_on_trail: bool,
    /// Means over the last reads, for [`Self::fit`]: pages, ms, pages squared, pages times ms.
    line: [f64; 4],
    reads: u32,
}

impl Costs {
    pub(crate) fn new() -> Self {
        Self {
            access: 6.0,
            transfer: 0.08,
            per_use: 1.0,
            busy: 0.0,
            uses: 0,
            close_hits: 0.0,
            insertions: 0.0,
            access_by: [[6.0; 2]; 2],
            last_on_trail: false,
            line: [0.0; 4],
            reads: 0,
        }
    }

    /// A read of `pages` pages, at home or on the trail, took `ms`.
    pub(crate) fn read(&mut self, pages: u64, ms: f64, on_trail: bool) {
        let access = (ms as f32 - pages as f32 * self.transfer).max(0.0);
        let by = &mut self.access_by[usize::from(self.last_on_trail)][usize::from(on_trail)];
        *by += 0.01 * (access - *by);
        self.last_on_trail = on_trail;
        if on_trail {
            return;
        }
        self.access += WEIGHT * (access - self.access);
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
        self.transfer += WEIGHT * ((ms / pages.max(1) as f64) as f32 - self.transfer);
    }

    /// By how much longer the way to the trail is than the way home, ms.
    pub(crate) const fn way_to_trail(&self) -> f32 {
        let from = &self.access_by[self.last_on_trail as usize];
        from[1] - from[0]
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
        self.insertions += 1.0;
        if self.insertions >= 65_536.0 {
            self.insertions /= 2.0;
            self.close_hits /= 2.0;
        }
    }

    /// A hit on a page that was about to be evicted.
    pub(crate) fn close_hit(&mut self) {
        self.close_hits += 1.0;
    }

    /// Price of a page's space in RAM, ms: what the page that it displaces would have saved.
    pub(crate) fn pollution(&self) -> f32 {
        8.0 * self.close_hits / self.insertions.max(4096.0) * self.per_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_reads_show_the_times_of_access_and_transfer() {
        for (access, transfer) in [(60.0, 0.05), (0.7, 0.008), (12.0, 0.3)] {
            let mut costs = Costs::new();
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
}
