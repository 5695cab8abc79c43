//! A planner's decision: which extents get a copy, and where.

use seekless_block::{Extent, Lba, PAGE_SECTORS, Sectors};

use crate::Pages;

/// A copy of `home` that should stand at `place` of the optimized area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// The client's addresses.
    pub home: Extent,
    /// First sector of the copy, counted from the start of the optimized area.
    pub place: Lba,
}

impl Copy {
    /// The copy's sectors within the optimized area.
    pub const fn placed(&self) -> Extent {
        Extent::new(self.place.0, self.home.len.0)
    }
}

/// Replicas that should stand side by side in free pages of the device itself (FS2, SOSP'05).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// First sector, of the device.
    pub place: Lba,
    /// The replicated extents, in this order: whole pages, without gaps.
    pub homes: Vec<Extent>,
}

/// Why a plan cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PlanError {
    #[error("the copy of {} at {} is empty or does not fit a device of {capacity} with an area of {area}", .copy.home, .copy.place)]
    DoesNotFit { copy: Copy, capacity: Sectors, area: Sectors },
    #[error("the copy of {} at {} is not a run of whole pages: homes start at {grid} plus a multiple of 8 sectors, places at a multiple of 8", .copy.home, .copy.place)]
    NotPages { copy: Copy, grid: Sectors },
    #[error("the copies of {} and of {} share a sector or are out of order", .0.home, .1.home)]
    Overlap(Copy, Copy),
}

/// The wanted places of copies: plain data, in order of place. Homes are disjoint, and places are
/// disjoint. The empty plan is the vanilla system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The copies, in order of place.
    pub copies: Vec<Copy>,
}

impl Plan {
    /// Sectors that have a copy.
    pub fn sectors(&self) -> Sectors {
        self.copies.iter().map(|c| c.home.len).sum()
    }

    /// Whether the plan fits, in whole pages, a device of `capacity` whose pages start at sector
    /// `grid` (0 to 7), with an optimized area of `area`.
    ///
    /// # Errors
    /// The first copy that does not fit or is not of whole pages, or the first two that collide.
    pub fn check(&self, capacity: Sectors, area: Sectors, grid: Sectors) -> Result<(), PlanError> {
        self.fits(capacity, area)?;
        let pages = Pages::new(grid, capacity);
        let whole = |c: &Copy| pages.is_whole(c.home) && c.place.0.is_multiple_of(PAGE_SECTORS);
        match self.copies.iter().find(|c| !whole(c)) {
            Some(&copy) => Err(PlanError::NotPages { copy, grid }),
            None => Ok(()),
        }
    }

    /// As [`Self::check`], sector by sector: homes and places need not be whole pages.
    ///
    /// # Errors
    /// The first copy that does not fit, or the first two that collide.
    pub fn fits(&self, capacity: Sectors, area: Sectors) -> Result<(), PlanError> {
        for &copy in &self.copies {
            if copy.home.is_empty()
                || copy.home.end().0 > capacity.0
                || copy.place.0.checked_add(copy.home.len.0).is_none_or(|end| end > area.0)
            {
                return Err(PlanError::DoesNotFit { copy, capacity, area });
            }
        }
        for pair in self.copies.windows(2) {
            if pair[0].placed().end() > pair[1].place {
                return Err(PlanError::Overlap(pair[0], pair[1]));
            }
        }
        let mut homes = self.copies.clone();
        homes.sort_unstable();
        for pair in homes.windows(2) {
            if pair[0].home.end() > pair[1].home.start {
                return Err(PlanError::Overlap(pair[0], pair[1]));
            }
        }
        Ok(())
    }
}
