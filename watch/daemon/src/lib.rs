//! `seekless watch`: makes repeated work on mounted file systems faster from beside the path. The
//! kernel's trace shows what enters the page cache; [`seekless_jobs`] recognizes jobs and says what
//! comes next; worker threads read that ahead, in the order of the disk. No request passes through
//! here, and nothing is written but the learned data.
//!
//! From the top down: [`Daemon`] is the loop. `filesystem` takes events and sends orders. `tracer`
//! and `events` read the kernel's trace. `nodes` and `btrfs` know what
//! is in a node of btrfs, and `ext` where inodes of ext4 are. `fetch` reads ahead. `store` keeps the learned data.
#![forbid(unsafe_code)]

mod btrfs;
mod control;
mod daemon;
mod disk;
mod error;
pub mod events;
mod ext;
mod fetch;
mod filesystem;
mod mounts;
mod nodes;
mod pressure;
mod processes;
mod report;
#[cfg(test)]
mod scratch;
pub mod show;
mod store;
mod switch;
mod tracer;

pub use control::ask;
pub use daemon::{Config, Daemon};
pub use error::WatchError;
pub use report::{FilesystemReport, SCHEMA, SCHEMA_JSON, WatchReport};
pub use seekless_jobs::{JobReport, Tally};
