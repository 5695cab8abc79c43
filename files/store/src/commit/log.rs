//! The log: a ring of pages that batches are appended to. A checkpoint frees all of its pages.

use crate::format::Geometry;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// Page of the next batch, if the batch fits before the end.
    pub(crate) head: u32,
    /// Pages that recovery needs until the next checkpoint.
    pub(crate) used: u32,
    /// Sequence number of the next batch.
    pub(crate) sequence: u64,
}

impl Log {
    /// The first page of a batch of `pages` pages, and the used pages after it; `None` without
    /// space.
    pub(crate) const fn place(&self, geometry: &Geometry, pages: u32) -> Option<(u32, u32)> {
        let (all, rest) = (geometry.log_pages, geometry.log_pages - self.head);
        if pages <= rest && self.used + pages <= all {
            Some((self.head, self.used + pages))
        } else if pages > rest && self.used + rest + pages <= all {
            Some((0, self.used + rest + pages))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_block::Sectors;

    use super::*;

    proptest! {
        /// Against a list that says of each page of the log whether recovery needs the page.
        #[test]
        fn a_batch_overwrites_no_page_that_recovery_needs(
            log_pages in 16u32..40, steps in prop::collection::vec((0u32..20, 0u8..12), 1..120),
        ) {
            let geometry =
                Geometry { cluster: Sectors(128), clusters: 8, checkpoint_pages: 2, log_pages };
            let mut log = Log { head: 0, used: 0, sequence: 1 };
            let mut needed = vec![false; log_pages as usize];
            for (pages, checkpoint) in steps {
                // Batches are at most this long.
                let pages = 1 + pages % (log_pages / 4);
                let free = |needed: &[bool], from: u32| {
                    let run = needed.get(from as usize..(from + pages) as usize);
                    run.is_some_and(|run| run.iter().all(|n| !n))
                };
                let Some((at, used)) = log.place(&geometry, pages) else {
                    let behind = free(&needed, log.head);
                    let around = log.head + pages > log_pages && free(&needed, 0);
                    prop_assert!(!behind && !around, "{log:?}: {pages} pages had space");
                    (log.used, needed) = (0, vec![false; log_pages as usize]);
                    continue;
                };
                // Recovery looks for a batch at the head, and at page 0 where the head has no
                // batch.
                prop_assert!(at == log.head || (at == 0 && log.head + pages > log_pages));
                prop_assert!(free(&needed, at), "{log:?}: {pages} pages at {at} over {needed:?}");
                needed[at as usize..(at + pages) as usize].fill(true);
                if at != log.head {
                    // Skipped pages count as used until the next checkpoint.
                    needed[log.head as usize..].fill(true);
                }
                (log.head, log.used) = (at + pages, used);
                if checkpoint == 0 {
                    (log.used, needed) = (0, vec![false; log_pages as usize]);
                }
            }
        }
    }
}
