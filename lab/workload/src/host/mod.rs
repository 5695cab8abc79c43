//! The host: devices attached, formatted and mounted, and all of it taken away again, whatever happens. What was
//! attached stands in a [`Ledger`] on disk before it is, so that a later process can clean up after one that was killed.

mod device;
mod facts;
mod filesystem;
mod ledger;
mod memory;
mod program;

pub use device::{Attached, BlockDevice, Loop, Mounted};
pub use facts::{Facts, drop_caches};
pub use filesystem::{BUILT_IN, FsKind, FsTable};
pub use ledger::{Ledger, What};
pub use memory::MemoryLimit;
pub use program::{HostError, Server, attempt, run_program};
