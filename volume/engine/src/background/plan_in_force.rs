//! The plan in force: its pages by slot and by home, and how far its move is.

use seekless_block::{PAGE_SECTORS, Sectors};

use crate::background::Progress;
use crate::core::page_map::{HomePage, Slot};

/// The plan in force, and the position of its move.
#[derive(Debug, Default)]
pub(crate) struct PlanMove {
    /// Runs in order of slot, none across a segment: `(slot, home page, pages)`.
    pub(super) wants: Vec<(Slot, HomePage, u32)>,
    /// Where copies are written in place: the same pages in order of home, `(first, pages)`.
    pub(super) homes: Vec<(HomePage, u32)>,
    /// The first of `wants` in the next window.
    pub(super) next: usize,
    /// The first segment of the next window, and the segment after the last.
    pub(super) segment: u32,
    pub(super) end: u32,
    pub(super) done: Sectors,
    pub(super) total: Sectors,
    pub(crate) generation: u64,
}

impl PlanMove {
    pub(crate) const fn is_over(&self) -> bool {
        self.segment >= self.end
    }

    /// Goes on with a plan after a restart: copies in place stay, the others have yet to be moved.
    pub(crate) fn resume(
        &mut self,
        wants: Vec<(Slot, HomePage, u32)>,
        generation: u64,
        segments: u32,
        in_place: bool,
    ) {
        let pages = wants.iter().map(|&(.., n)| u64::from(n)).sum::<u64>();
        let (next, segment, end, done) = (0, 0, segments, Sectors(0));
        let total = Sectors(pages * PAGE_SECTORS);
        *self = Self { wants, homes: Vec::new(), next, segment, end, done, total, generation };
        if in_place {
            self.sort_homes();
        }
    }

    /// From now on [`Self::keeps`] knows the plan.
    pub(super) fn sort_homes(&mut self) {
        self.homes = self.wants.iter().map(|&(_, page, n)| (page, n)).collect();
        self.homes.sort_unstable();
    }

    /// Whether the plan has a copy of this page, in any slot.
    pub(crate) fn keeps(&self, page: HomePage) -> bool {
        let at = self.homes.partition_point(|&(first, _)| first <= page).checked_sub(1);
        at.is_some_and(|at| {
            let (first, n) = self.homes[at];
            page.0 - first.0 < u64::from(n)
        })
    }

    /// The number of the plan in force; 0 without one.
    pub(crate) const fn plan(&self) -> u64 {
        if self.wants.is_empty() { 0 } else { self.generation }
    }

    /// All wanted runs: `(slot, home page, pages)`, in order of slot.
    pub(crate) fn wants(&self) -> &[(Slot, HomePage, u32)] {
        &self.wants
    }

    pub(crate) fn wanted(&self, slot: Slot) -> Option<HomePage> {
        let at = self.wants.partition_point(|&(first, ..)| first <= slot).checked_sub(1)?;
        let (first, page, n) = self.wants[at];
        (slot - first < n).then(|| page + u64::from(slot - first))
    }

    pub(crate) const fn progress(&self) -> Progress {
        Progress { done: self.done, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_keeps_its_own_pages_alone() {
        let wants = vec![(Slot(1), HomePage(40), 2), (Slot(3), HomePage(7), 1)];
        let kept = |in_place| {
            let mut plan = PlanMove::default();
            plan.resume(wants.clone(), 1, 1, in_place);
            (0..64).filter(|&page| plan.keeps(HomePage(page))).collect::<Vec<_>>()
        };
        assert_eq!(kept(true), [7, 40, 41]);
        assert!(kept(false).is_empty(), "nobody asks");
    }
}
