//! What a driver knows about home when it attaches an area. From this proof follow two decisions: which entries of the area
//! are in doubt, and whether home needs its guard before the first request.

use crate::Mode;
use crate::format::{AreaFlags, Superblock};

/// How home is kept from being used without its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeGuard {
    /// The area lies on home's own device, which therefore begins with a page of ours: nobody can mount that device.
    SameDevice,
    /// The area stands elsewhere, and has no space for a guard.
    Missing,
    /// The area stands elsewhere and has space for a guard, which is down: home can be mounted by itself.
    Down,
    /// The guard is up: home cannot be mounted by itself.
    Up,
}

/// What the driver knows of home and of its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Equal to the stamp of the detach if and only if nobody else wrote home. All zero proves nothing.
    pub stamp: [u8; 32],
    /// How home's guard stands.
    pub guard: HomeGuard,
    /// The area is attached only to bring home what it holds: nothing is absorbed, and nothing replicated.
    pub to_drain: bool,
}

impl Proof {
    /// Nothing is known, and nobody is kept from writing home.
    pub const NONE: Self = Self { stamp: [0; 32], guard: HomeGuard::Missing, to_drain: false };

    /// Whether nobody else can have written home since the area was last in use.
    #[must_use]
    pub const fn keeps_home(&self) -> bool {
        matches!(self.guard, HomeGuard::SameDevice | HomeGuard::Up)
    }
}

/// Whether home alone may not hold all that clients read, now or once the area is in use: it absorbs, or it replicates.
pub(crate) fn needs_guard(superblock: &Superblock, proof: &Proof) -> bool {
    // Where replicas stand home does not hold the zeroes that clients read there.
    let replicates = superblock.free_map_pages > 0 && !proof.to_drain;
    superblock.mode == Mode::WriteBack || superblock.flags.contains(AreaFlags::DIRTY) || replicates
}
