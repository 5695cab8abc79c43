//! The operating system, for the volume and for the files product: opened and locked files and block devices, a device over
//! such a file, signatures of file systems on a disk, FUSE mounts, the service manager, and system calls without a safe
//! wrapper elsewhere. This room knows neither product.
#![deny(unsafe_code)]

mod error;
mod file;
pub mod fuse_mount;
mod in_use;
pub mod notify;
mod opened;
pub mod signature;
pub mod sys;

pub use error::{HostError, cannot};
pub use file::{FileDevice, OpenFile, device_error};
pub use opened::Opened;
