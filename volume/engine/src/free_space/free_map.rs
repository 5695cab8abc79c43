//! The pages of home that the client has discarded and not written since (FS2, SOSP'05, 2.1, at
//! block level): the free space of any file system that discards. Zeroes without reserved space
//! count too. A read of such a page returns zeroes whatever home holds, so replicas may stand
//! there.
//!
//! What the area knows of these pages, so that after a crash no uncertain page counts as free:
//! - A page without replica bytes counts by region. Before the first write into a region's
//!   discarded pages lands, the area learns that the region is *open*; after a crash no page in it
//!   is free. That is one record a region, until a checkpoint lists all pages exactly and closes
//!   the region.
//! - A page that may hold replica bytes is *stained*, and recorded by itself: before the first such
//!   byte is written, and, once the client has written the page, in the round of the next flush,
//!   after home was flushed. Equal bytes prove nothing: a client may copy the same data there.

use seekless_block::PAGE_SECTORS;

use crate::Config;
use crate::format::{Content, Geometry, RUNS_PER_PAGE, Run, RunKind};
use crate::free_space::extents::Extents;

/// Regions of a large device: 128 MiB, as block groups of ext4.
const REGION_PAGES: u64 = 32_768;
/// The number of regions of a small one.
const REGIONS: u64 = 4096;
/// Newly free ranges that go into records; more of them wait for the next checkpoint.
const FREED_MOST: usize = 4 * RUNS_PER_PAGE as usize;
/// Pages of zeroes in the places of replicas, of which the area then learns: 64 MiB, or this part of
/// all pages that may be stained.
const CLEANED_MOST: u64 = 16 << 10;
const CLEANED_SHARE: u64 = 16;

#[derive(Debug, Default)]
pub(crate) struct FreeMap {
    pub(super) region_pages: u64,
    pub(super) home_pages: u64,
    /// Runs for which a checkpoint has space.
    pub(super) capacity: usize,
    /// Most stained pages: even if every second one is written, the checkpoint has space.
    pub(super) stained_most: u64,
    /// Discarded and not written since.
    pub(super) free: Extents,
    /// Of these: may hold bytes of replicas.
    pub(super) stained: Extents,
    /// Stained in the area's view, and written by the client since.
    pub(super) used: Extents,
    /// Free, and unknown to the area.
    pub(super) freed: Extents,
    /// Stained, and zeroes stand there again.
    pub(super) cleaned: Extents,
    /// Free; the area will learn that they are stained. Perhaps it does not know that they are
    /// free.
    pub(super) staining: Extents,
    /// Numbers of the regions that are open in the area's view.
    pub(super) open: Extents,
    /// Regions to be opened, for writes that wait.
    pub(super) to_open: Extents,
    /// The news of the round in progress.
    pub(super) told: RoundNews,
}

/// The news of one round.
#[derive(Debug, Default)]
pub(super) struct RoundNews {
    pub(super) used: Extents,
    pub(super) freed: Extents,
    pub(super) cleaned: Extents,
    pub(super) staining: Extents,
    pub(super) opened: Extents,
}

impl FreeMap {
    pub(super) fn new(geo: &Geometry, config: &Config) -> Self {
        let home_pages = config.capacity.0.saturating_sub(config.grid.0) / PAGE_SECTORS;
        Self {
            region_pages: (home_pages / REGIONS).clamp(8, REGION_PAGES),
            home_pages,
            capacity: geo.free_map_pages() as usize * RUNS_PER_PAGE as usize
                - usize::from(geo.free_map_pages() > 0),
            stained_most: 2 * u64::from(geo.read_slots()),
            ..Self::default()
        }
    }

    /// After an attach: the state that recovery found.
    pub(super) fn resume(&mut self, free: Extents, stained: Extents) {
        (self.free, self.stained) = (free, stained);
    }

    pub(super) fn regions(&self, pages: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        pages.start / self.region_pages..pages.end.div_ceil(self.region_pages)
    }

    pub(super) const fn region_pages(&self) -> u64 {
        self.region_pages
    }

    /// Of these pages, stained ones where zeroes stand, or will once the area knows.
    pub(super) fn cleaned_or_about_to_be(
        &self,
        pages: &std::ops::Range<u64>,
    ) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        self.cleaned.within(pages.clone()).chain(self.told.cleaned.within(pages.clone()))
    }

    /// Whether the area should learn of zeroes although more are to come.
    pub(super) const fn has_much_cleaned(&self) -> bool {
        let share = self.stained_most / CLEANED_SHARE;
        let most = if share < CLEANED_MOST { share } else { CLEANED_MOST };
        self.cleaned.pages() > 0 && self.cleaned.pages() >= most
    }

    /// Whether a flush must first send news to the area.
    pub(crate) fn is_pending(&self) -> bool {
        !self.used.is_empty() || !self.to_open.is_empty()
    }

    /// Whether the area calls no page stained, and will not after the round in progress, even if
    /// that round fails.
    pub(crate) fn is_unstained(&self) -> bool {
        let sets = [&self.stained, &self.staining, &self.told.staining, &self.told.used];
        sets.iter().all(|set| set.is_empty()) && !self.is_pending()
    }

    /// Whether there is news that only a checkpoint would send to the area.
    pub(crate) fn has_news(&self) -> bool {
        !self.freed.is_empty() || !self.cleaned.is_empty()
    }

    /// Whether that news is too much for records.
    pub(crate) fn is_overfull(&self) -> bool {
        self.freed.len() > FREED_MOST
    }

    /// Whether the area could still count some of these pages as free after a crash. Data absorbed
    /// meanwhile could stand in the log before the record that calls its page free, and would be
    /// lost.
    pub(super) fn is_uncertain(&self, pages: std::ops::Range<u64>) -> bool {
        self.used.overlaps(pages.clone()) || self.told.used.overlaps(pages)
    }

    /// Whether these pages can be stained in the next round.
    pub(super) fn can_stain(&self, pages: std::ops::Range<u64>) -> bool {
        self.free.covers(pages.clone()) && !self.told.used.overlaps(pages.clone()) && {
            let already: u64 = self.stained.within(pages.clone()).map(|p| p.end - p.start).sum();
            self.stained.pages() + (pages.end - pages.start) - already <= self.stained_most
        }
    }

    /// The next round records that these pages may hold bytes of replicas.
    pub(super) fn stain(&mut self, pages: std::ops::Range<u64>) {
        self.freed.remove(pages.clone());
        self.cleaned.remove(pages.clone());
        self.staining.insert(pages);
    }

    /// Zeroes now stand in these stained pages.
    pub(super) fn clean(&mut self, pages: std::ops::Range<u64>) {
        let parts: Vec<_> = self.stained.within(pages).collect();
        self.cleaned.extend(parts);
    }

    /// The regions to be opened before a write to these pages: discarded ones that the area does
    /// not call stained.
    pub(super) fn closed(&self, pages: std::ops::Range<u64>) -> Extents {
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
    pub(super) fn wrote(&mut self, pages: std::ops::Range<u64>) {
        if !self.free.overlaps(pages.clone()) {
            return;
        }
        // Pages that the area calls stained, or will, are recorded one by one.
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

    /// A discard of these pages has ended, and no other write was in flight there.
    pub(super) fn discarded(&mut self, pages: std::ops::Range<u64>) {
        let pages = pages.start..pages.end.min(self.home_pages);
        let mut new = Extents::default();
        new.insert(pages.clone());
        self.free.within(pages.clone()).for_each(|part| new.remove(part));
        // The area still calls these stained.
        let stained: Vec<_> = self.used.within(pages.clone()).collect();
        for part in stained {
            self.used.remove(part.clone());
            new.remove(part.clone());
            self.stained.insert(part);
        }
        self.freed.extend(new.iter());
        self.free.insert(pages);
    }

    /// Starts a round: collects its news. No record if nobody needs one and the round has no other
    /// (`anyway`).
    pub(super) fn tell(&mut self, anyway: bool) -> bool {
        let needed = self.is_pending() || !self.staining.is_empty();
        if !needed && !anyway {
            return false;
        }
        // Pages that were cleaned without a record are free now.
        self.cleaned.iter().for_each(|part| self.staining.remove(part));
        self.told = RoundNews {
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

    /// Whether the round in progress opens regions.
    pub(super) fn tells_of_open(&self) -> bool {
        !self.told.opened.is_empty()
    }

    /// The records of the round in progress.
    pub(crate) fn records(&self) -> Vec<Content> {
        let told = &self.told;
        let opened =
            told.opened.iter().map(|r| r.start * self.region_pages..r.end * self.region_pages);
        let runs: Vec<Run> = runs(told.cleaned.iter().chain(told.freed.iter()), RunKind::Free)
            .chain(runs(told.used.iter(), RunKind::Used))
            .chain(runs(told.staining.iter(), RunKind::Stained))
            .chain(runs(opened.map(|r| r.start..r.end.min(self.home_pages)), RunKind::Open))
            .collect();
        Content::pieces(&runs, Content::FreeMap).collect()
    }

    pub(super) fn told(&mut self, ok: bool) {
        let told = std::mem::take(&mut self.told);
        // After a failure the area may know of it, or not.
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
        // The area may already count the cleaned pages as free: it must learn again that they are
        // stained.
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

    /// The free pages at this moment, for a checkpoint: from its position in the log on, regions
    /// are closed. Without space for all, the shortest free ranges count as used after a crash.
    pub(super) fn snapshot(
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
        // Pages written since are called free behind this checkpoint.
        for pages in self.told.freed.iter().filter(|pages| !self.free.covers(pages.clone())) {
            written.extend(self.open.within(self.regions(&pages)));
        }
        // Home is flushed before the checkpoint is valid.
        self.told.cleaned.iter().for_each(|part| stained.remove(part));
        let mut opened = self.told.opened.clone();
        opened.extend(written.iter());
        let opened = opened.iter();
        let open = opened
            .map(|r| r.start * self.region_pages..(r.end * self.region_pages).min(self.home_pages));
        let mut open: Vec<Run> = runs(open, RunKind::Open).collect();
        if open.len() > self.capacity / 4 {
            // Pages in between are called open as well.
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
        // The checkpoint has this news. If the checkpoint fails, a later one has it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_stained_than_a_checkpoint_has_room_for_and_nothing_that_is_used() {
        let on = FreeMap { region_pages: 8, home_pages: 64, ..FreeMap::default() };
        let mut map = FreeMap { stained_most: 10, ..on };
        map.discarded(0..40);
        map.stained.insert(0..8);
        assert!(map.can_stain(20..22) && !map.can_stain(20..23));
        assert!(map.can_stain(6..10), "some are stained already");
        assert!(!map.can_stain(39..41), "the client's");
        // A round is recording that the page is used, and may be the last that the area learns of
        // it.
        map.told.used.insert(20..21);
        assert!(!map.can_stain(20..22));
    }

    /// A run whose stain was never recorded, or whose record failed, is stained only later: by then
    /// a guard that had gone down would let somebody else write there.
    #[test]
    fn what_a_round_may_still_stain_counts_as_stained() {
        let mut map =
            FreeMap { region_pages: 8, home_pages: 64, stained_most: 10, ..FreeMap::default() };
        map.discarded(0..40);
        assert!(map.is_unstained());
        map.stain(4..6);
        assert!(map.stained.is_empty() && !map.is_unstained(), "the next round stains them");
        assert!(map.tell(false) && !map.is_unstained(), "a round is in progress");
        map.told(false);
        assert!(!map.is_unstained(), "the area may know of it");
        assert!(map.tell(false));
        map.told(true);
        map.clean(4..6);
        assert!(map.tell(true) && !map.is_unstained(), "the area still calls them stained");
        map.told(true);
        assert!(map.is_unstained());
        map.told.used.insert(7..8);
        assert!(!map.is_unstained(), "if the round fails, the area calls the page stained");
    }

    /// No record says that the page is used: else a discard before that record would count as
    /// stained, and be cleaned.
    #[test]
    fn where_something_is_written_that_is_called_free_stays_open_over_a_checkpoint() {
        for (written, kept) in [(None, false), (Some(2..3), true)] {
            let (home_pages, capacity) = (64, 100);
            let mut map = FreeMap { region_pages: 8, home_pages, capacity, ..FreeMap::default() };
            map.discarded(0..16);
            map.open.insert(0..1);
            assert!(map.tell(true));
            written.into_iter().for_each(|pages| map.wrote(pages));
            let open = |run: &Run| (run.kind, run.first, run.pages) == (RunKind::Open, 0, 8);
            assert_eq!(map.snapshot(std::iter::empty()).iter().any(open), kept);
            assert!(map.open.covers(0..1) == kept && !map.is_pending());
            map.told(true);
            // The next round leaves nothing of it.
            assert!(!map.snapshot(std::iter::empty()).iter().any(open));
        }
    }
}
