//! Finds the mount of tracefs, or makes a private mount that ends with its descriptor.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::error::TraceError;
use crate::unescaped;

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
        // Any user may mount at a name that is no text.
        let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
        let (path, mount) = match mounted(&String::from_utf8_lossy(&mounts)) {
            Some(path) => (path, None),
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

/// The first tracefs mount in the text of /proc/mounts, which writes a blank as `\040`.
fn mounted(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "tracefs").then(|| unescaped(place).into())
    })
}

fn private() -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_found_among_mounts() {
        let mounts =
            "proc /proc proc rw 0 0\nnodev /my\\040trace tracefs rw 0 0\nx /y tracefs rw 0 0\n";
        assert_eq!(mounted(mounts), Some("/my trace".into()));
        assert_eq!(mounted("proc /proc proc rw 0 0\ntracefs\n"), None);
    }
}
