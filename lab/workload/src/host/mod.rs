//! The host: devices are attached, formatted and mounted, and always removed again. A [`Ledger`] on
//! disk records each of them before it is attached, so that a later process can clean up after a
//! killed one.

mod device;
mod facts;
mod filesystem;
mod ledger;
mod memory;
mod program;

pub use device::{Attached, BlockDevice, LoopDevice, Mounted};
pub use facts::{Facts, drop_caches};
pub use filesystem::{FsKind, FsTable};
pub use ledger::{Ledger, LedgerEntry};
pub use memory::MemoryLimit;
pub use program::{HostError, Server, attempt};
