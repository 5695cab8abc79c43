//! The cost of an operation beside its time, at a provider that counts operations.

use crate::{Duration, Sectors};

/// The cost of operations as disk time, so that policies weigh time, operations and money in one
/// unit. The default counts nothing: an I/O costs the time that it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// Least time that an operation counts: its share of the rate that the provider sustains.
    pub share: Duration,
    /// Price of an operation that reads, as time.
    pub read: Duration,
    /// Price of an operation that writes, as time.
    pub write: Duration,
    /// Longest operation; zero if an I/O of any length is one operation.
    pub operation: Sectors,
    /// A read that goes on where another ended is part of its operation.
    pub merges: bool,
    /// A write of a part of an object reads the object first.
    pub rewrites: bool,
    /// Operations in the area are counted too: it lies on the same device.
    pub area: bool,
}

impl Toll {
    /// Whether operations cost nothing beside their time.
    pub fn is_none(&self) -> bool {
        self.share.0 == 0 && self.read.0 == 0 && self.write.0 == 0
    }

    /// Operations of an I/O of `len` sectors.
    pub fn operations(&self, len: Sectors) -> u64 {
        if self.operation.0 == 0 { 1 } else { len.0.div_ceil(self.operation.0).max(1) }
    }

    /// The price of operations, as time.
    pub const fn price(&self, reads: u64, writes: u64) -> Duration {
        let reads = self.read.0.saturating_mul(reads);
        Duration(reads.saturating_add(self.write.0.saturating_mul(writes)))
    }

    /// The time that counts for work: the time it took, and the prices of its operations.
    pub const fn counts(&self, took: Duration, reads: u64, writes: u64) -> Duration {
        let share = self.share.0.saturating_mul(reads.saturating_add(writes));
        let time = if took.0 > share { took.0 } else { share };
        Duration(time.saturating_add(self.price(reads, writes).0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_its_time_or_its_share_of_the_rate_and_the_price() {
        let toll = Toll {
            share: Duration(10),
            read: Duration(3),
            write: Duration(50),
            operation: Sectors(8),
            merges: false,
            rewrites: false,
            area: true,
        };
        assert_eq!(toll.operations(Sectors(0)), 1);
        assert_eq!(toll.operations(Sectors(8)), 1);
        assert_eq!(toll.operations(Sectors(9)), 2);
        assert_eq!(
            toll.counts(Duration(4), 1, 0),
            Duration(13),
            "a share of the rate, and a price"
        );
        assert_eq!(toll.counts(Duration(100), 1, 2), Duration(203));
        assert_eq!(toll.counts(Duration(u64::MAX), 9, 9), Duration(u64::MAX));
        let none = Toll::default();
        assert!(none.is_none() && !toll.is_none());
        assert_eq!(none.counts(Duration(4), 7, 7), Duration(4));
    }
}
