//! The host: devices are attached, formatted and mounted, and always removed again. A [`Ledger`] on
//! disk records each of them before it is attached, so that a later process can clean up after a
//! killed one.

mod device;
mod facts;
mod filesystem;
mod ledger;
mod memory;
mod program;

pub(crate) use device::{Attached, BlockDevice, Mounted};
pub(crate) use facts::Facts;
pub use facts::drop_caches;
pub use filesystem::{FsKind, FsTable};
pub use ledger::Ledger;
pub(crate) use ledger::LedgerEntry;
pub(crate) use memory::MemoryLimit;
pub use program::HostError;
pub(crate) use program::{Server, attempt};
