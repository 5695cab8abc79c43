//! What the volume and the files product both need of the operating system: files and block devices that are opened and
//! locked, a device over such a file, the marks of file systems on a disk, FUSE mounts, the service manager, and system
//! calls without a safe wrapper elsewhere. It knows neither product.
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
