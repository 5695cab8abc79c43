//! Free space of home, and the replicas in it (FS2, SOSP'05), behind the few calls of this file. If
//! copies stand in the area, nothing is free and no replica exists: every call then returns at
//! once.
//!
//! - `free_map`: the discarded pages, and what the area knows of them.
//! - `replicas`: where replicas stand, and their heat; `watermarks`: which give way.
//! - `replicate`: the jobs that write replicas, and zeroes in their place.
//! - `discarded`: the waits of requests to discarded pages.
//! - `interference`: the cost of replication for clients.

mod discarded;
pub(crate) mod extents;
mod free_map;
pub(crate) mod interference;
pub(crate) mod replicas;
pub(crate) mod replicate;
mod watermarks;

use std::ops::Range;

use seekless_block::Lba;
use slab::Slab;

use crate::core::page_map::{Slot, slots};
use crate::format::{Geometry, Run};
use crate::{Config, Engine};
use discarded::Edges;
use extents::Extents;
use free_map::FreeMap;
use replicas::Replicas;

#[derive(Debug)]
pub(crate) struct FreeSpace {
    /// Replicas may stand in home's free pages.
    used: bool,
    pub(crate) map: FreeMap,
    pub(crate) replicas: Replicas,
    edges: Slab<Edges>,
}

impl FreeSpace {
    pub(crate) fn new(geo: &Geometry, config: &Config) -> Self {
        Self {
            used: geo.free_map_pages() > 0,
            map: FreeMap::new(geo, config),
            replicas: Replicas::new(geo),
            edges: Slab::new(),
        }
    }

    /// Whether copies stand in the area, where a plan may place them.
    pub(crate) const fn takes_plans(&self) -> bool {
        !self.used
    }

    /// After an attach: the recovered free pages, and the places of replicas, by segment.
    pub(crate) fn resume(
        &mut self,
        (free, stained): (Extents, Extents),
        places: impl IntoIterator<Item = (u32, u64, u32)>,
    ) {
        self.map.resume(free, stained);
        for (segment, first, pages) in places {
            self.replicas.bind(segment, first, pages);
        }
    }

    /// Whether the client has discarded any of these pages, and not written it since.
    pub(crate) fn overlaps(&self, pages: Range<u64>) -> bool {
        self.used && self.map.free.overlaps(pages)
    }

    /// Whether the client has discarded all of these pages.
    pub(crate) fn covers(&self, pages: Range<u64>) -> bool {
        self.used && self.map.free.covers(pages)
    }

    /// The first discarded page from `page` on.
    pub(crate) fn next(&self, page: u64) -> Option<u64> {
        if self.used { self.map.free.next(page) } else { None }
    }

    /// Whether the area could still count some of these pages as free after a crash.
    pub(crate) fn is_uncertain(&self, pages: Range<u64>) -> bool {
        self.used && self.map.is_uncertain(pages)
    }

    /// A round of durability begins. True if it has records of free pages; `anyway`: it has others.
    pub(crate) fn begin_round(&mut self, anyway: bool) -> bool {
        self.used && self.map.tell(anyway)
    }

    /// The round has ended. True if the round opened regions.
    pub(crate) fn end_round(&mut self, ok: bool) -> bool {
        let opened = self.map.tells_of_open();
        self.map.told(ok);
        opened
    }
}

impl Engine {
    /// Client I/Os in flight to which background work must give way.
    pub(crate) fn clients_to_spare(&self) -> u32 {
        if self.free.used { self.clients_io() } else { 0 }
    }

    /// Whether a job has made way for waiting writes, which are then tried at once.
    pub(crate) const fn made_way(&self) -> bool {
        self.free.used && self.retry_blocked
    }

    /// A read in the area has ended: a write may wait for that replica's place.
    pub(crate) fn place_was_read(&mut self) {
        self.retry_blocked |= self.free.used && !self.blocked.is_empty();
    }

    /// Whether a read of this slot's copy is faster than one of its home. Always true for copies in
    /// the area, which stand side by side.
    pub(crate) fn is_worth_reading(&self, slot: Slot, home: Lba) -> bool {
        !self.free.used || self.is_nearer(slot, home)
    }

    /// Forgets the found replicas: somebody may have written in their places.
    pub(crate) fn forget_replicas(&mut self) {
        if self.free.used {
            slots(0..self.geo.read_slots()).for_each(|slot| self.copies.clear(slot));
        }
    }

    /// The free pages, for a checkpoint that begins now; `under_way`: pages that clients are
    /// writing.
    pub(crate) fn free_now(&mut self, under_way: impl Iterator<Item = Range<u64>>) -> Vec<Run> {
        if self.free.used { self.free.map.snapshot(under_way) } else { Vec::new() }
    }
}
