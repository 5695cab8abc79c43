//! Replicas of all that was read, in order of address: FS2-static (SOSP'05, 4.3.2).

use seekless_block::{Extent, Op, PAGE_SECTORS, Request};

use super::{Replication, side_by_side};
use crate::Replica;

/// Reads remembered before the first merge. Later merges follow whenever the number of reads has
/// doubled.
const MERGED_FROM: usize = 1 << 16;

/// All reads, and the hot region.
#[derive(Clone, Debug)]
pub(crate) struct StaticReplication {
    regions: Replication,
    reads: Vec<Extent>,
}

impl StaticReplication {
    pub(crate) const fn new(regions: Replication) -> Self {
        Self { regions, reads: Vec::new() }
    }

    pub(crate) fn observe(&mut self, request: &Request) {
        self.regions.observe(request);
        if request.op != Op::Read {
            return;
        }
        self.reads.push(request.extent);
        // Reads that repeat need no more memory.
        if self.reads.len().is_power_of_two() && self.reads.len() > MERGED_FROM {
            self.reads = Extent::merged(std::mem::take(&mut self.reads));
        }
    }

    /// Replicas of all that is read outside the hot region.
    pub(crate) fn plan(&self, free: Vec<Extent>) -> Vec<Replica> {
        let Some(hot) = self.regions.hot_region() else { return Vec::new() };
        let pages = |e: Extent| {
            let down = |at: u64| at / PAGE_SECTORS * PAGE_SECTORS;
            Extent::span(down(e.start.0), down(e.end().0 + PAGE_SECTORS - 1))
        };
        let read = Extent::merged(self.reads.clone());
        let away = read.into_iter().filter(|e| !hot.overlaps(*e)).map(pages).collect();
        side_by_side(&Extent::merged(away), free, hot)
    }
}
