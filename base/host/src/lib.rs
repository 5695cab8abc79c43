//! The operating system, for volume and files: opened and locked files and block devices,
//! signatures of file systems, FUSE mounts, the service manager, the kernel's tracing, and system calls without a safe
//! wrapper elsewhere.
#![deny(unsafe_code)]

pub mod blocks;
mod direct;
mod error;
mod escapes;
mod file;
pub mod fuse_mount;
pub mod mounts;
pub mod notify;
mod opened;
pub mod pressure;
pub mod private;
pub mod reserve;
pub mod signature;
pub mod sys;
pub mod tracing;
mod users;
mod whole;

pub use direct::reserve_bounce;
pub use error::{HostError, cannot, cannot_at};
pub use escapes::{quoted, unescaped};
pub use file::{FileDevice, OpenFile, device_error, is_in_memory};
pub use opened::Opened;
pub use users::Users;
pub use whole::{folder, part_of, remove_parts, write_whole, write_whole_through};
