//! An opened backing: a file or device of this host, or an export of another server.

use std::path::Path;
use std::sync::Arc;

use seekless_host::{Opened, cannot, private};

use super::files::Disk;
use super::remote::{NbdUri, Remote};
use super::runs::Runs;
use crate::error::ServeError;

/// See the module.
#[derive(Debug)]
pub(crate) enum Home {
    /// Locked: nobody else writes it.
    Here(Opened),
    /// Nothing locks it.
    Elsewhere(Arc<Remote>),
}

impl Home {
    /// Opens the file, device or address that a path names.
    pub(crate) fn named(path: &Path, read_only: bool) -> Result<Self, ServeError> {
        match NbdUri::in_path(path) {
            None => Ok(Self::Here(Opened::path(path, read_only)?)),
            Some(uri) => Ok(Self::Elsewhere(Arc::new(Remote::connect(uri?, read_only)?))),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Here(opened) => opened.bytes,
            Self::Elsewhere(remote) => remote.bytes(),
        }
    }

    /// The owner of a regular file.
    pub(crate) fn owner(&self) -> Option<u32> {
        match self {
            Self::Here(opened) => private::owner_of(opened),
            Self::Elsewhere(_) => None,
        }
    }

    pub(crate) fn whole(&self) -> Result<Disk, ServeError> {
        match self {
            Self::Here(opened) => {
                let fd = opened.fd.try_clone().map_err(cannot("duplicate a descriptor"))?;
                Ok(Disk::new(fd, Runs::new(&[(0, opened.bytes)])))
            }
            Self::Elsewhere(remote) => Ok(Disk::elsewhere(Arc::clone(remote))),
        }
    }
}
