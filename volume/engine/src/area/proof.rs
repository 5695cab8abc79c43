//! The knowledge of a driver about home when it attaches an area. This proof decides which entries of the
//! area are in doubt, and whether home needs its guard before the first request.

use crate::Mode;
use crate::area::attach::AttachError;
use crate::format::{AreaFlags, Superblock};

/// How home is kept from use without its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeGuard {
    /// The area lies on home's own device, whose first page is ours: nobody can mount that device.
    SameDevice,
    /// The area stands elsewhere, without space for a guard.
    Missing,
    /// The area stands elsewhere and has space for a guard, which is down: home can be mounted
    /// alone.
    Down,
    /// The guard is up: home cannot be mounted alone. The generation of the area that the guard
    /// names; 0 if it names none.
    Up(u64),
}

/// The knowledge of the driver about home and its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Equal to the stamp of the detach if and only if nobody else wrote home. All zero proves
    /// nothing.
    pub stamp: [u8; 32],
    /// The state of home's guard.
    pub guard: HomeGuard,
    /// The area is attached only to be drained: nothing is absorbed or replicated.
    pub to_drain: bool,
}

impl Proof {
    /// Nothing is known, and anybody may write home.
    pub const NONE: Self = Self { stamp: [0; 32], guard: HomeGuard::Missing, to_drain: false };

    /// Refuses an older copy of the area: an attach first advances the area's generation, then the
    /// guard's.
    ///
    /// # Errors
    /// If the guard on home names a later generation than the superblock has.
    pub const fn fits(&self, superblock: &Superblock) -> Result<(), AttachError> {
        match self.guard {
            HomeGuard::Up(guard) if guard > superblock.generation => {
                Err(AttachError::Older { area: superblock.generation, guard })
            }
            _ => Ok(()),
        }
    }

    /// Whether nobody else can have written home since the area was last in use.
    pub(crate) const fn keeps_home(&self) -> bool {
        matches!(self.guard, HomeGuard::SameDevice | HomeGuard::Up(_))
    }
}

/// Whether home alone may lack data that clients read, now or once the area is in use.
pub(crate) fn needs_guard(superblock: &Superblock, proof: &Proof) -> bool {
    // Where replicas stand, home lacks the zeroes that clients read.
    let replicates = superblock.free_map_pages > 0 && !proof.to_drain;
    superblock.mode == Mode::WriteBack || superblock.flags.contains(AreaFlags::DIRTY) || replicates
}
