//! What a planner decides: which extents get a copy, and where.

use seekless_block::{Extent, Lba, Sectors};

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
    #[must_use]
    pub const fn placed(&self) -> Extent {
        Extent::new(self.place.0, self.home.len.0)
    }
}

/// Where copies should stand: plain data. Homes are disjoint, places are disjoint; in order of place.
/// The empty plan is the vanilla system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The copies, in order of place.
    pub copies: Vec<Copy>,
}

impl Plan {
    /// Sectors that have a copy.
    #[must_use]
    pub fn sectors(&self) -> Sectors {
        self.copies.iter().map(|c| c.home.len).sum()
    }
}
