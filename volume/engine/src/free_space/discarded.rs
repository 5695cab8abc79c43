//! Requests to discarded pages: their waits, the zeroes beside a write, and the updates of the free
//! map when they end.

use seekless_block::{Extent, Flags, Op, PAGE_SECTORS, Request};

use super::extents::Extents;
use crate::core::write_order::{Mark, Since};
use crate::{Engine, Fault, Pending, RequestId, RequestOrigin, Target};

/// A write that waits for zeroes beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges {
    id: RequestId,
    request: Request,
    left: u32,
    failed: bool,
}

impl Engine {
    /// Sectors that the client has discarded and not written since.
    pub fn free(&self) -> seekless_block::Sectors {
        seekless_block::Sectors(self.free.map.free.pages() * PAGE_SECTORS)
    }

    /// The same as extents, in order.
    pub fn free_extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.free.map.free.iter().map(|part| self.home_of(part.start, part.end - part.start))
    }

    /// Extents that read as zeroes, but may hold bytes of replicas at home.
    pub fn stained(&self) -> impl Iterator<Item = Extent> + '_ {
        self.free.map.stained.iter().map(|part| self.home_of(part.start, part.end - part.start))
    }

    /// Counts these sectors as discarded. The caller knows that no file system uses them, and that
    /// nobody writes there meanwhile.
    pub fn seed_free(&mut self, extents: impl IntoIterator<Item = Extent>) {
        for extent in extents {
            let pages = self.whole_pages_of(extent);
            self.free.map.discarded(pages);
        }
    }

    /// Whether a write waits: for the end of I/O of replicas in its place, which are dropped now;
    /// for zeroes beside another write; or, if a page is free, for any other request to that page.
    pub(crate) fn must_wait_for_free(&mut self, extent: Extent, on_free: bool) -> bool {
        if !self.free.used {
            return false;
        }
        let pages = self.pages_of(extent);
        if !on_free {
            // Only free pages are stained or have a replica.
            debug_assert!(
                !self.has_replica_at(pages.clone()),
                "{extent:?} is taken, and has a replica"
            );
            return self.background.locks(pages);
        }
        self.drop_places(pages.clone());
        let rounded = self.home_of(pages.start, pages.end - pages.start);
        let beside = self.writes.open_overlaps(rounded);
        self.log.hurry |= beside;
        beside
            || self.background.locks(pages.clone())
            || self.free.map.stained.overlaps(pages) && self.replica_is_read(rounded)
    }

    /// Whether a write to free pages waits until the area knows that its region is open, and until
    /// a round about these pages has ended.
    pub(crate) fn must_open(&mut self, extent: Extent) -> bool {
        let pages = self.pages_of(extent);
        // A round is telling the area that zeroes stand there.
        if self.free.map.told.cleaned.overlaps(pages.clone()) {
            self.sync.wait_for_open();
            return true;
        }
        let closed = self.free.map.closed(pages.clone());
        if closed.is_empty() {
            // A later round must not say so. The removal comes first: no job cleans the page while
            // the write waits.
            self.free.map.cleaned.remove(pages);
            return false;
        }
        for regions in closed.iter() {
            self.free.map.to_open.insert(regions);
        }
        self.free.map.told.opened.iter().for_each(|regions| self.free.map.to_open.remove(regions));
        if !self.free.map.to_open.is_empty() {
            self.sync.wait_for_open();
        }
        true
    }

    /// The area knows the open regions and the cleaned pages; if it could not learn them, writes
    /// there fail.
    pub(crate) fn opened(&mut self, ok: bool) {
        if !ok {
            for waits in std::mem::take(&mut self.blocked) {
                let extent = waits.extent();
                let pages = self.pages_of(extent);
                let untold = self.free.map.cleaned.overlaps(pages.clone())
                    || !self.free.map.closed(pages).is_empty();
                if waits.is_read() || !untold {
                    self.blocked.push_back(waits);
                } else {
                    self.complete(waits.id(), extent, false);
                }
            }
        }
        self.retry_blocked |= !self.blocked.is_empty();
    }

    /// Pages that clients are writing. A checkpoint of the free pages must know them.
    pub(crate) fn pages_under_way(&self) -> Vec<std::ops::Range<u64>> {
        // Writes that wait for zeroes beside them are locked.
        let locked = self.background.locked.iter().map(|&(first, n)| first..first + n);
        let writes = self.writes.in_flight().map(|(_, extent)| extent);
        writes.map(|extent| self.pages_of(extent)).chain(locked).collect()
    }

    /// Whether any of these pages is free.
    pub(crate) fn touches_free(&self, extent: Extent) -> bool {
        self.free.overlaps(self.pages_of(extent))
    }

    /// Writes zeroes into the rest of the free pages that a write covers in part. True if there is
    /// such a rest: the write goes on once the zeroes are written.
    pub(crate) fn zero_edges(&mut self, id: RequestId, request: &Request) -> bool {
        let extent = request.extent;
        let (touched, whole) = (self.pages_of(extent), self.whole_pages_of(extent));
        let mut beside: Vec<Extent> = Vec::new();
        let mut last = None;
        for page in [touched.start, touched.end.saturating_sub(1)] {
            if last == Some(page)
                || !touched.contains(&page)
                || whole.contains(&page)
                || !self.free.map.free.contains(page)
            {
                continue;
            }
            last = Some(page);
            let home = self.home_of(page, 1);
            let before =
                Extent::span(home.start.0, extent.start.0.clamp(home.start.0, home.end().0));
            let behind =
                Extent::span(extent.end().0.clamp(home.start.0, home.end().0), home.end().0);
            beside.extend([before, behind].into_iter().filter(|e| !e.is_empty()));
        }
        if beside.is_empty() {
            return false;
        }
        self.background.locked.push((touched.start, touched.end - touched.start));
        let left = beside.len() as u32;
        let edges = Edges { id, request: *request, left, failed: false };
        let edges = self.free.edges.insert(edges) as u32;
        for extent in beside {
            let io = self.start(Pending::Edge(edges));
            let asked = RequestOrigin { flags: Flags::NONE, stream: request.stream };
            self.submit(io, Target::Home, Op::WriteZeroes, extent, asked, None);
        }
        true
    }

    pub(crate) fn edge_done(&mut self, at: u32, ok: bool) {
        self.sync.wrote_home();
        let edges = &mut self.free.edges[at as usize];
        edges.left -= 1;
        edges.failed |= !ok;
        if edges.left > 0 {
            return;
        }
        let Edges { id, request, failed, .. } = *edges;
        self.free.edges.remove(at as usize);
        let pages = self.pages_of(request.extent);
        let lock = (pages.start, pages.end - pages.start);
        self.background.locked.retain(|&locked| locked != lock);
        self.retry_blocked |= !self.blocked.is_empty();
        if failed {
            let fault = Fault::Device(request.extent);
            self.out.push_back(crate::Output::Complete { id, result: Err(fault) });
        } else {
            self.write_home(id, &request);
        }
    }

    /// A write has ended at home. `frees`: the write gave its pages back. True if the area must
    /// learn of it before an answer with FUA.
    pub(crate) fn free_written(
        &mut self,
        frees: bool,
        extent: Extent,
        mark: Mark,
        since: Since,
    ) -> bool {
        if !self.free.used {
            return false;
        }
        if frees {
            // If another write was in flight there, only the device knows which came last.
            let mut sure = Extents::default();
            if let Some(others) = self.writes.overlapping(since, extent, mark) {
                sure.insert(self.whole_pages_of(extent));
                for other in others {
                    sure.remove(self.pages_of(other));
                }
            }
            sure.iter().for_each(|part| self.free.map.discarded(part));
        } else {
            self.free.map.wrote(self.pages_of(extent));
        }
        self.free.map.is_uncertain(self.pages_of(extent))
    }

    /// A write has failed at home: clients now read home's bytes, as after a crash, unless those
    /// may be a replica's.
    pub(crate) fn free_write_failed(&mut self, extent: Extent) {
        if !self.free.used {
            return;
        }
        let pages = self.pages_of(extent);
        let mut plain = Extents::default();
        plain.extend(self.free.map.free.within(pages.clone()));
        self.free.map.stained.within(pages).for_each(|part| plain.remove(part));
        plain.iter().for_each(|part| self.free.map.wrote(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn replicated() -> Engine {
        Engine::new(Config {
            area: seekless_block::Bytes(64 << 20).sectors_ceil(),
            replicas: seekless_block::Bytes(16 << 20).sectors_ceil(),
            ..Config::new(seekless_block::Bytes(64 << 20).sectors_ceil())
        })
    }

    fn write(engine: &mut Engine, page: u64) {
        let extent = engine.home_of(page, 1);
        let request = Request::new(seekless_block::SimTime(0), Op::Write, extent);
        engine.request(RequestId(page), &request);
    }

    /// A write waits while a round is telling the area of zeroes there.
    fn behind_zeroes() -> Engine {
        let mut engine = replicated();
        let map = &mut engine.free.map;
        map.free.insert(0..16);
        map.stained.insert(2..3);
        map.open.insert(0..1);
        map.clean(2..3);
        assert!(map.tell(true));
        write(&mut engine, 2);
        engine
    }

    /// The end of any I/O tries blocked writes again, for as long as a flush of home takes.
    #[test]
    fn writes_that_wait_for_their_region_take_no_more_memory_with_each_try() {
        let mut engine = replicated();
        engine.free.map.free.insert(0..16);
        [2, 3].into_iter().for_each(|page| write(&mut engine, page));
        (0..100).for_each(|_| engine.retry_blocked());
        assert_eq!((engine.blocked.len(), engine.sync.waiters()), (2, 1));
        let mut engine = behind_zeroes();
        (0..100).for_each(|_| engine.retry_blocked());
        assert_eq!((engine.blocked.len(), engine.sync.waiters()), (1, 1));
    }

    /// Else the write would wait for each such round, and its wait would begin the next round.
    #[test]
    fn a_write_fails_where_the_area_cannot_be_told_of_zeroes() {
        let mut engine = behind_zeroes();
        assert_eq!(engine.blocked.len(), 1, "the area is just being told");
        engine.free.map.told(false);
        engine.opened(false);
        assert!(engine.blocked.is_empty());
        let extent = engine.home_of(2u64, 1);
        let failed =
            crate::Output::Complete { id: RequestId(2), result: Err(Fault::Device(extent)) };
        assert_eq!(engine.poll(), Some(failed));
    }
}
