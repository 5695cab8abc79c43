//! Which replicas give way, and when (FS2, SOSP'05, 3.2): below the low watermark the coldest,
//! below the critical one whole regions, until enough space is free again.

use std::ops::Range;

use super::replicas::LOOKS;
use crate::Engine;
use crate::core::page_map::{CopyState, slots};

/// The low watermark (3.2): replication stops and the coldest replicas go if less than this share
/// of home, in percent, is free of data and replicas.
const LOW: u64 = 10;
/// The high watermark: replication goes on.
const HIGH: u64 = 15;
/// The critical watermark: whole regions go at once.
const CRITICAL: u64 = 5;

impl Engine {
    /// Pages of home that are free of data and of replicas.
    fn spare(&self) -> u64 {
        self.free.map.free.pages().saturating_sub(self.free.replicas.bound_pages)
    }

    /// Whether this many pages may be replicated now.
    pub(crate) fn may_replicate(&self, pages: u64) -> bool {
        !self.free.replicas.suspended
            && self.spare().saturating_sub(pages) * 100 >= self.free.map.home_pages * LOW
    }

    /// Drops replicas if too little is free (3.2).
    pub(crate) fn yield_space(&mut self) {
        if !self.free.used {
            return;
        }
        let home = self.free.map.home_pages;
        let is_below = |engine: &Self, percent: u64| engine.spare() * 100 < home * percent;
        if !is_below(self, HIGH) {
            self.free.replicas.suspended = false;
            return;
        }
        if !is_below(self, LOW) {
            return;
        }
        self.free.replicas.suspended = true;
        let busy = self.background.replicating();
        if is_below(self, CRITICAL) {
            let region = self.free.map.region_pages();
            let mut from = 0;
            while is_below(self, LOW)
                && let Some((&first, _)) = self.free.replicas.by_place.range(from..).next()
            {
                from = (first / region + 1) * region;
                let there: Vec<u32> =
                    self.free.replicas.by_place.range(first..from).map(|(_, &s)| s).collect();
                for segment in there.into_iter().filter(|&s| Some(s) != busy) {
                    self.drop_segment(segment);
                }
            }
        } else {
            while is_below(self, LOW)
                && let Some(segment) = self.free.replicas.coldest().filter(|&s| Some(s) != busy)
            {
                self.drop_segment(segment);
            }
        }
    }

    /// A segment that may be written: an unbound one, one that has lost all its replicas, or the
    /// coldest.
    pub(crate) fn take_segment(&mut self) -> Option<u32> {
        let copies = &self.copies;
        let read = |segment: u32| copies.is_read(segment);
        if let Some(spare) = self.free.replicas.take_spare(read) {
            return Some(spare);
        }
        let per = self.geo.segment_pages;
        let empty = |s: u32| {
            slots(s * per..(s + 1) * per).all(|slot| self.copies.state(slot) == CopyState::Free)
        };
        let count = self.free.replicas.bound.len() as u32;
        let look = self.free.replicas.look;
        let around = (0..count.min(LOOKS as u32)).map(|i| (look + i) % count);
        let found = around.into_iter().find(|&s| !read(s) && empty(s));
        self.free.replicas.look = (look + LOOKS as u32) % count.max(1);
        let taken = found.or_else(|| self.free.replicas.coldest())?;
        if read(taken) {
            return None;
        }
        self.drop_segment(taken);
        Some(taken)
    }

    /// Whether replicas that could be used stand in any of these pages; those that cannot make
    /// room.
    pub(crate) fn is_taken(&mut self, pages: Range<u64>) -> bool {
        for (segment, _) in self.free.replicas.slots_at(pages) {
            let first = segment * self.geo.segment_pages;
            if slots(first..first + self.geo.segment_pages)
                .any(|slot| self.copies.state(slot) != CopyState::Free)
            {
                return true;
            }
            self.free.replicas.unbind(segment);
        }
        false
    }
}
