//! The end of a volume that programs on this host use: a file or a block device.

use std::path::PathBuf;

use crate::error::ServeError;
use crate::{FuseMount, UblkDevice};

/// A file or block device of this host that serves a volume.
#[derive(Debug)]
pub enum HostEnd {
    /// A file, for loop devices.
    File(FuseMount),
    /// A block device.
    Device(UblkDevice),
}

impl HostEnd {
    /// Its path.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::File(mount) => mount.path().to_owned(),
            Self::Device(device) => device.path(),
        }
    }

    /// What its server lacks to serve when memory is short, in words.
    pub const fn missing(&self) -> Option<&'static str> {
        match self {
            Self::File(mount) => mount.missing(),
            Self::Device(device) => device.missing(),
        }
    }

    /// An error if it answers no more, and its users wait for another server.
    pub fn ensure_works(&self) -> Result<(), ServeError> {
        match self {
            Self::File(_) => Ok(()),
            Self::Device(device) => device.ensure_works(),
        }
    }

    /// Takes it away, unless it is in use: then false, and nothing has changed.
    pub fn end(&mut self) -> Result<bool, ServeError> {
        match self {
            Self::File(mount) => mount.unmount(),
            Self::Device(device) => device.end(),
        }
    }

    /// Takes it away; its users get errors.
    pub fn cut_off(self) {
        match self {
            // Dropping it does so.
            Self::File(_) => {}
            Self::Device(mut device) => device.cut_off(),
        }
    }
}
