//! Which pages of home the client has discarded and not written since (FS2, SOSP'05, 2.1, at the level of blocks): under
//! any file system that discards, its free space. Zeroes of which the client keeps no space are as good. A read of such
//! a page returns zeroes whatever home holds, so that replicas may stand there.
//!
//! What the area knows of it, so that after a crash nothing uncertain counts as free:
//! - A page without replica bytes counts by region. Before the first write lands in its discarded pages, a region is
//!   known to be *open*, and after a crash nothing in it is free: one record a region, until a checkpoint tells all pages
//!   exactly and closes it.
//! - A page that may hold replica bytes is *stained*, and told by itself: before the first such byte is written, and,
//!   once the client has written it, in the round of the next flush, after home was flushed. That its bytes equal the
//!   replica's proves nothing: a client may copy the same data there.

pub(crate) mod extents;
pub(crate) mod interference;
pub(crate) mod replicas;
pub(crate) mod replicate;

use seekless_block::{Extent, Flags, Op, PAGE_SECTORS, Request};

use crate::core::shape::Shape;
use crate::core::write_order::Mark;
use crate::format::{Content, RUNS_PER_PAGE, Run, RunKind};
use crate::free_space::extents::Extents;
use crate::write_buffer::durability::Waiter;
use crate::{Asked, Config, Engine, Fault, Pending, RequestId, Target};

/// Regions of a large device: 128 MiB, as block groups of ext4.
const REGION_PAGES: u64 = 32_768;
/// Regions of a small one.
const REGIONS: u64 = 4096;
/// Ranges newly free that go into records; more are left to the next checkpoint.
const FREED_MOST: usize = 4 * RUNS_PER_PAGE as usize;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FreeMap {
    /// There is one.
    pub(crate) on: bool,
    region_pages: u64,
    pub(crate) home_pages: u64,
    /// Runs that a checkpoint has room for.
    capacity: usize,
    /// Stained pages at most: were every second one written, the checkpoint would still have room.
    pub(crate) stained_most: u64,
    /// Discarded and not written since.
    pub(crate) free: Extents,
    /// Of these: may hold bytes of replicas.
    pub(crate) stained: Extents,
    /// Pages that the area takes for stained, and that the client has written.
    used: Extents,
    /// Free, and the area does not know.
    freed: Extents,
    /// Stained, and zeroes stand there again.
    cleaned: Extents,
    /// Free, and the area is to know that they are stained; it may not know of some that are.
    staining: Extents,
    /// Regions, by number, that the area knows to be open.
    open: Extents,
    /// Regions that writes wait for it to know of.
    to_open: Extents,
    /// What the round under way tells.
    told: Told,
}

/// What one round tells the area.
#[derive(Debug, Default)]
struct Told {
    used: Extents,
    freed: Extents,
    cleaned: Extents,
    staining: Extents,
    opened: Extents,
}

/// A write that waits for zeroes beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges {
    id: RequestId,
    request: Request,
    left: u32,
    failed: bool,
}

impl FreeMap {
    pub(crate) fn new(geo: &Shape, config: &Config) -> Self {
        let home_pages = config.capacity.0.saturating_sub(config.grid.0) / PAGE_SECTORS;
        Self {
            on: geo.free_map_pages() > 0,
            region_pages: (home_pages / REGIONS).clamp(8, REGION_PAGES),
            home_pages,
            capacity: geo.free_map_pages() as usize * RUNS_PER_PAGE as usize
                - usize::from(geo.free_map_pages() > 0),
            stained_most: 2 * u64::from(geo.read_slots()),
            ..Self::default()
        }
    }

    /// After an attach: what the area was found to tell.
    pub(crate) fn resume(&mut self, free: Extents, stained: Extents) {
        (self.free, self.stained) = (free, stained);
    }

    fn regions(&self, pages: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        pages.start / self.region_pages..pages.end.div_ceil(self.region_pages)
    }

    pub(crate) const fn region_pages(&self) -> u64 {
        self.region_pages
    }

    /// Where zeroes stand, or will once the area knows, in stained pages.
    pub(crate) fn cleaned_or_about_to_be(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        self.cleaned.iter().chain(self.told.cleaned.iter())
    }

    /// Whether a flush has something to tell the area first.
    pub(crate) fn is_pending(&self) -> bool {
        !self.used.is_empty() || !self.to_open.is_empty()
    }

    /// Whether something is free that nothing but a checkpoint would tell the area.
    pub(crate) fn has_news(&self) -> bool {
        !self.freed.is_empty() || !self.cleaned.is_empty()
    }

    /// Whether there is too much of that for records.
    pub(crate) fn is_overfull(&self) -> bool {
        self.freed.len() > FREED_MOST
    }

    /// Whether the area could still take some of these pages for free after a crash. What was absorbed of them meanwhile
    /// could stand in the log before the record that calls them free, and would be read until it is brought home.
    pub(crate) fn is_uncertain(&self, pages: std::ops::Range<u64>) -> bool {
        self.used.overlaps(pages.clone()) || self.told.used.overlaps(pages)
    }

    /// Whether these pages can be stained in the next round.
    pub(crate) fn can_stain(&self, pages: std::ops::Range<u64>) -> bool {
        self.free.covers(pages.clone()) && !self.told.used.overlaps(pages.clone()) && {
            let already: u64 = self.stained.within(pages.clone()).map(|p| p.end - p.start).sum();
            self.stained.pages() + (pages.end - pages.start) - already <= self.stained_most
        }
    }

    /// The next round tells that these pages may hold bytes of replicas.
    pub(crate) fn stain(&mut self, pages: std::ops::Range<u64>) {
        self.freed.remove(pages.clone());
        self.cleaned.remove(pages.clone());
        self.staining.insert(pages);
    }

    /// Zeroes stand in these stained pages.
    pub(crate) fn clean(&mut self, pages: std::ops::Range<u64>) {
        let parts: Vec<_> = self.stained.within(pages).collect();
        self.cleaned.extend(parts);
    }

    /// The regions in which these pages, discarded and not known by the area to be stained, cannot be written yet.
    fn closed(&self, pages: std::ops::Range<u64>) -> Extents {
        let mut closed = Extents::default();
        if self.free.overlaps(pages.clone()) {
            let (mut plain, mut known) = (Extents::default(), Extents::default());
            plain.extend(self.free.within(pages.clone()));
            known.extend(self.stained.within(pages.clone()));
            let untold =
                self.staining.within(pages.clone()).chain(self.told.staining.within(pages));
            untold.for_each(|part| known.remove(part));
            known.iter().for_each(|part| plain.remove(part));
            closed.extend(plain.iter().map(|part| self.regions(&part)));
            self.open.iter().for_each(|regions| closed.remove(regions));
        }
        closed
    }

    /// A write to these pages has ended.
    fn wrote(&mut self, pages: std::ops::Range<u64>) {
        if !self.free.overlaps(pages.clone()) {
            return;
        }
        // To be told exactly: what the area takes for stained, or will.
        let sets = [&self.stained, &self.told.staining];
        let exact: Vec<_> = sets.iter().flat_map(|set| set.within(pages.clone())).collect();
        for part in exact {
            self.used.insert(part);
        }
        for set in [
            &mut self.free,
            &mut self.stained,
            &mut self.freed,
            &mut self.cleaned,
            &mut self.staining,
        ] {
            set.remove(pages.clone());
        }
    }

    /// A discard of these pages has ended, and no other write was under way with it.
    fn discarded(&mut self, pages: std::ops::Range<u64>) {
        let pages = pages.start..pages.end.min(self.home_pages);
        let mut new = Extents::default();
        new.insert(pages.clone());
        self.free.within(pages.clone()).for_each(|part| new.remove(part));
        // The area takes these for stained still.
        let stained: Vec<_> = self.used.within(pages.clone()).collect();
        for part in stained {
            self.used.remove(part.clone());
            new.remove(part.clone());
            self.stained.insert(part);
        }
        self.freed.extend(new.iter());
        self.free.insert(pages);
    }

    /// What a round that begins now tells; no record where nobody needs any and there is no other (`anyway`).
    pub(crate) fn tell(&mut self, anyway: bool) -> bool {
        let needed = self.is_pending() || !self.staining.is_empty();
        if !needed && !anyway {
            return false;
        }
        // What was cleaned since it could not be told is stained no more.
        self.cleaned.iter().for_each(|part| self.staining.remove(part));
        self.told = Told {
            used: std::mem::take(&mut self.used),
            freed: if self.is_overfull() {
                Extents::default()
            } else {
                std::mem::take(&mut self.freed)
            },
            cleaned: std::mem::take(&mut self.cleaned),
            staining: std::mem::take(&mut self.staining),
            opened: std::mem::take(&mut self.to_open),
        };
        needed || !self.told.freed.is_empty() || !self.told.cleaned.is_empty()
    }

    /// Whether the round under way tells that regions are open.
    pub(crate) fn tells_of_open(&self) -> bool {
        !self.told.opened.is_empty()
    }

    /// The records of the round under way.
    pub(crate) fn records(&self) -> Vec<Content> {
        let told = &self.told;
        let opened =
            told.opened.iter().map(|r| r.start * self.region_pages..r.end * self.region_pages);
        let runs: Vec<Run> = runs(told.cleaned.iter().chain(told.freed.iter()), RunKind::Free)
            .chain(runs(told.used.iter(), RunKind::Used))
            .chain(runs(told.staining.iter(), RunKind::Stained))
            .chain(runs(opened.map(|r| r.start..r.end.min(self.home_pages)), RunKind::Open))
            .collect();
        let most = Content::FreeMap(Vec::new()).items_max();
        runs.chunks(most).map(|some| Content::FreeMap(some.to_vec())).collect()
    }

    /// The round has ended.
    pub(crate) fn told(&mut self, ok: bool) {
        let told = std::mem::take(&mut self.told);
        // Where it failed, the area may know all the same, or not.
        for part in told.staining.iter() {
            let free: Vec<_> = self.free.within(part).collect();
            if !ok {
                self.staining.extend(free.iter().cloned());
            }
            self.stained.extend(free);
        }
        if ok {
            told.cleaned.iter().for_each(|part| self.stained.remove(part));
            self.open.extend(told.opened.iter());
            return;
        }
        for part in told.used.iter() {
            let free: Vec<_> = self.free.within(part.clone()).collect();
            self.used.insert(part);
            for part in free {
                self.used.remove(part.clone());
                self.freed.remove(part.clone());
                self.stained.insert(part);
            }
        }
        self.to_open.extend(told.opened.iter());
        // What it was told is clean it may take for free: it is to know again that it is stained, or that it is not.
        for part in told.cleaned.iter() {
            let stained: Vec<_> = self.stained.within(part).collect();
            self.staining.extend(stained);
        }
        for (back, from, within) in [
            (&mut self.freed, &told.freed, &self.free),
            (&mut self.cleaned, &told.cleaned, &self.stained),
        ] {
            for part in from.iter() {
                back.extend(within.within(part));
            }
        }
    }

    /// All of it at this moment, as a checkpoint puts it down: from its position in the log on, regions are closed. What
    /// there is no room for counts as used after a crash: the shortest free ranges.
    pub(crate) fn snapshot(
        &mut self,
        under_way: impl Iterator<Item = std::ops::Range<u64>>,
    ) -> Vec<Run> {
        let mut stained = self.stained.clone();
        for part in self.told.staining.iter() {
            stained.extend(self.free.within(part));
        }
        let mut written = Extents::default();
        for pages in under_way.filter(|pages| self.free.overlaps(pages.clone())) {
            // A discard opens nothing.
            written.extend(self.open.within(self.regions(&pages)));
        }
        // What was written since is called free behind this checkpoint.
        for pages in self.told.freed.iter().filter(|pages| !self.free.covers(pages.clone())) {
            written.extend(self.open.within(self.regions(&pages)));
        }
        // Home is flushed before the checkpoint counts.
        self.told.cleaned.iter().for_each(|part| stained.remove(part));
        let mut opened = self.told.opened.clone();
        opened.extend(written.iter());
        let opened = opened.iter();
        let open = opened
            .map(|r| r.start * self.region_pages..(r.end * self.region_pages).min(self.home_pages));
        let mut open: Vec<Run> = runs(open, RunKind::Open).collect();
        if open.len() > self.capacity / 4 {
            // What lies between is called open as well.
            open = runs(std::iter::once(0..self.home_pages), RunKind::Open).collect();
        }
        let mut list: Vec<Run> = runs(stained.iter(), RunKind::Stained).chain(open).collect();
        self.open = written;
        let mut plain = self.free.clone();
        stained.iter().for_each(|part| plain.remove(part));
        let mut plain: Vec<Run> = runs(plain.iter(), RunKind::Free).collect();
        let room = self.capacity.saturating_sub(list.len());
        if plain.len() > room {
            plain.sort_unstable_by_key(|run| std::cmp::Reverse(run.pages));
            plain.truncate(room);
        }
        list.extend(plain);
        list.truncate(self.capacity);
        // A checkpoint tells it; should it fail, a later one does.
        self.freed.clear();
        list
    }
}

/// Ranges as items.
fn runs(
    ranges: impl Iterator<Item = std::ops::Range<u64>>,
    kind: RunKind,
) -> impl Iterator<Item = Run> {
    ranges.flat_map(move |range| {
        let step = u64::from(u32::MAX);
        (range.start..range.end).step_by(step as usize).map(move |first| Run {
            first,
            pages: (range.end - first).min(step) as u32,
            kind,
        })
    })
}

impl Engine {
    /// Sectors that the client has discarded and not written since.
    #[must_use]
    pub fn free(&self) -> seekless_block::Sectors {
        seekless_block::Sectors(self.free.free.pages() * PAGE_SECTORS)
    }

    /// Where the client has discarded and not written since, in order.
    pub fn free_extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.free.free.iter().map(|part| self.home_of(part.start, part.end - part.start))
    }

    /// Where home alone does not hold what the client reads, which is zeroes, but may hold bytes of replicas.
    pub fn stained(&self) -> impl Iterator<Item = Extent> + '_ {
        self.free.stained.iter().map(|part| self.home_of(part.start, part.end - part.start))
    }

    /// Takes these sectors for discarded: the caller knows that no file system uses them, and nobody does meanwhile.
    pub fn seed_free(&mut self, extents: impl IntoIterator<Item = Extent>) {
        for extent in extents {
            let pages = self.whole_pages_of(extent);
            self.free.discarded(pages);
        }
    }

    /// Whether a write waits: for replicas that stand where it goes, which are dropped now, to be no longer read or
    /// written; for zeroes beside another write; and, where a page is free, for whatever else is on its way there.
    pub(crate) fn must_wait_for_free(&mut self, extent: Extent, on_free: bool) -> bool {
        let pages = self.pages_of(extent);
        if !on_free {
            // Nothing but free pages is stained, or has a replica.
            debug_assert!(
                !self.has_replica_at(pages.clone()),
                "{extent:?} is taken, and has a replica"
            );
            return self.background.locks(pages);
        }
        self.drop_places(pages.clone());
        let rounded = self.home_of(pages.start, pages.end - pages.start);
        let beside = self.writes.open_overlaps(rounded, self.writes_open);
        self.log.hurry |= beside;
        beside
            || self.background.locks(pages.clone())
            || self.free.stained.overlaps(pages) && self.replica_is_read(rounded)
    }

    /// Whether a write to free pages waits for the area to know that its region is written to, and what it is just being told
    /// of it.
    pub(crate) fn must_open(&mut self, extent: Extent) -> bool {
        let pages = self.pages_of(extent);
        // The area is just being told that zeroes stand there.
        if self.free.told.cleaned.overlaps(pages.clone()) {
            self.sync.wait(Waiter::Open);
            return true;
        }
        let closed = self.free.closed(pages.clone());
        if closed.is_empty() {
            // It is not told so any more. Not before the write goes on: while it waits nothing is cleaned again.
            self.free.cleaned.remove(pages);
            return false;
        }
        for regions in closed.iter() {
            self.free.to_open.insert(regions);
        }
        self.free.told.opened.iter().for_each(|regions| self.free.to_open.remove(regions));
        if !self.free.to_open.is_empty() {
            self.sync.wait(Waiter::Open);
        }
        true
    }

    /// The area has learned which regions are open and where zeroes stand, or cannot: then writes there fail.
    pub(crate) fn opened(&mut self, ok: bool) {
        if !ok {
            for waits in std::mem::take(&mut self.blocked) {
                let extent = waits.extent();
                let pages = self.pages_of(extent);
                let untold = self.free.cleaned.overlaps(pages.clone())
                    || !self.free.closed(pages).is_empty();
                if waits.is_read() || !untold {
                    self.blocked.push_back(waits);
                } else {
                    self.complete(waits.id(), extent, false);
                }
            }
        }
        self.retry_blocked |= !self.blocked.is_empty();
    }

    /// What is free, as a checkpoint that begins now puts it down; `under_way` is what clients are just writing.
    pub(crate) fn free_now(
        &mut self,
        under_way: impl Iterator<Item = std::ops::Range<u64>>,
    ) -> Vec<Run> {
        if self.free.on { self.free.snapshot(under_way) } else { Vec::new() }
    }

    /// What clients write, as pages: a checkpoint of what is free must know.
    pub(crate) fn pages_under_way(&self) -> Vec<std::ops::Range<u64>> {
        // Writes that wait for zeroes beside them are locked.
        let locked = self.background.locked.iter().map(|&(first, n)| first..first + n);
        let writes = self.writes.open(self.writes_open);
        writes.map(|extent| self.pages_of(extent)).chain(locked).collect()
    }

    /// Whether any of these pages is free.
    pub(crate) fn touches_free(&self, extent: Extent) -> bool {
        self.free.on && self.free.free.overlaps(self.pages_of(extent))
    }

    /// Writes zeroes into what a write leaves of the free pages that it touches. True where there is such a thing: the
    /// write goes on once that is done.
    pub(crate) fn zero_edges(&mut self, id: RequestId, request: &Request) -> bool {
        let extent = request.extent;
        let (touched, whole) = (self.pages_of(extent), self.whole_pages_of(extent));
        let mut beside: Vec<Extent> = Vec::new();
        let mut last = None;
        for page in [touched.start, touched.end.saturating_sub(1)] {
            if last == Some(page)
                || !touched.contains(&page)
                || whole.contains(&page)
                || !self.free.free.contains(page)
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
        let edges = self.edges.put(Edges { id, request: *request, left, failed: false });
        for extent in beside {
            let io = self.start(Pending::Edge(edges));
            let asked = Asked { flags: Flags::NONE, stream: request.stream };
            self.submit(io, Target::Home, Op::WriteZeroes, extent, asked, None);
        }
        true
    }

    pub(crate) fn edge_done(&mut self, at: u32, ok: bool) {
        self.sync.home_dirty = true;
        let edges = self.edges.get(at);
        edges.left -= 1;
        edges.failed |= !ok;
        if edges.left > 0 {
            return;
        }
        let Edges { id, request, failed, .. } = *edges;
        self.edges.give(at);
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

    /// A write has ended well at home, or what `frees` pages. True where the area has to know before it is answered with FUA.
    pub(crate) fn free_written(
        &mut self,
        frees: bool,
        extent: Extent,
        mark: Mark,
        since: Mark,
    ) -> bool {
        if frees {
            // Where another write was on its way the device alone knows which came last.
            let mut sure = Extents::default();
            if let Some(others) = self.writes.overlapping(since, extent, mark) {
                sure.insert(self.whole_pages_of(extent));
                for other in others {
                    sure.remove(self.pages_of(other));
                }
            }
            sure.iter().for_each(|part| self.free.discarded(part));
        } else {
            self.free.wrote(self.pages_of(extent));
        }
        self.free.is_uncertain(self.pages_of(extent))
    }

    /// A write has failed at home: what it left there is what is read from now on, as after a crash, but where that may be
    /// a replica's bytes.
    pub(crate) fn free_write_failed(&mut self, extent: Extent) {
        let pages = self.pages_of(extent);
        let mut plain = Extents::default();
        plain.extend(self.free.free.within(pages.clone()));
        self.free.stained.within(pages).for_each(|part| plain.remove(part));
        plain.iter().for_each(|part| self.free.wrote(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_stained_than_a_checkpoint_has_room_for_and_nothing_that_is_used() {
        let on = FreeMap { on: true, region_pages: 8, home_pages: 64, ..FreeMap::default() };
        let mut map = FreeMap { stained_most: 10, ..on };
        map.discarded(0..40);
        map.stained.insert(0..8);
        assert!(map.can_stain(20..22) && !map.can_stain(20..23));
        assert!(map.can_stain(6..10), "some are stained already");
        assert!(!map.can_stain(39..41), "the client's");
        // The area is just told that it is used, and may learn of that last.
        map.told.used.insert(20..21);
        assert!(!map.can_stain(20..22));
    }

    /// It is not told to be used: were it discarded before that was told, it would count as stained, and be cleaned.
    #[test]
    fn where_something_is_written_that_is_called_free_stays_open_over_a_checkpoint() {
        for (written, kept) in [(None, false), (Some(2..3), true)] {
            let (home_pages, capacity) = (64, 100);
            let mut map =
                FreeMap { on: true, region_pages: 8, home_pages, capacity, ..FreeMap::default() };
            map.discarded(0..16);
            map.open.insert(0..1);
            assert!(map.tell(true));
            written.into_iter().for_each(|pages| map.wrote(pages));
            let open = |run: &Run| (run.kind, run.first, run.pages) == (RunKind::Open, 0, 8);
            assert_eq!(map.snapshot(std::iter::empty()).iter().any(open), kept);
            assert!(map.open.covers(0..1) == kept && !map.is_pending());
            map.told(true);
            // What comes next leaves nothing of it.
            assert!(!map.snapshot(std::iter::empty()).iter().any(open));
        }
    }

    /// It would wait for each round that tells so again, and its waiting would begin the next.
    #[test]
    fn a_write_fails_where_the_area_cannot_be_told_of_zeroes() {
        let config = Config {
            area: seekless_block::Bytes(64 << 20).sectors_ceil(),
            replicas: seekless_block::Bytes(16 << 20).sectors_ceil(),
            ..Config::new(seekless_block::Bytes(64 << 20).sectors_ceil())
        };
        let mut engine = Engine::new(config);
        let map = &mut engine.free;
        map.free.insert(0..16);
        map.stained.insert(2..3);
        map.open.insert(0..1);
        map.clean(2..3);
        assert!(map.tell(true));
        let extent = engine.home_of(2, 1);
        let request = Request::new(seekless_block::SimTime(0), Op::Write, extent);
        engine.request(RequestId(1), &request);
        assert_eq!(engine.blocked.len(), 1, "the area is just being told");
        engine.free.told(false);
        engine.opened(false);
        assert!(engine.blocked.is_empty());
        let failed =
            crate::Output::Complete { id: RequestId(1), result: Err(Fault::Device(extent)) };
        assert_eq!(engine.poll(), Some(failed));
    }
}
