//! Finds the mount of tracefs, or makes a private mount that ends with its descriptor.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::error::TraceError;
use crate::mounts::mounts;

/// The root of tracefs.
#[derive(Debug)]
pub(super) struct Tracefs {
    path: PathBuf,
    /// The private mount, if there was no other.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    pub(super) fn find() -> Result<Self, TraceError> {
        let no = |what: String| TraceError::NoTracing { what };
        let mounted = mounts().unwrap_or_default().into_iter().find(|m| m.kind == "tracefs");
        let (path, mount) = match mounted {
            Some(mounted) => (mounted.point, None),
            None => {
                let mount = private()
                    .map_err(|e| no(format!("tracefs is not mounted, and mounting it: {e}")))?;
                (format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), Some(mount))
            }
        };
        // Checks for the right to read it.
        let events = path.join("events/block");
        fs::read_dir(&events).map_err(|e| no(format!("{}: {e}", events.display())))?;
        Ok(Self { path, _mount: mount })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn private() -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
