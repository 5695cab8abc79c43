//! One adoption or release at a time: each changes the same files, /etc/fstab among them.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{AdoptError, file, refused};

/// Longest wait for another adoption or release.
const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of running servers, which no other user can open.
const OWN: &str = "/run/seekless";

/// A lock on a system, until this value is dropped.
#[derive(Debug)]
pub(super) struct Alone {
    _folder: File,
}

impl Alone {
    /// Locks the system at this root.
    pub(super) fn at(root: &Path) -> Result<Self, AdoptError> {
        // Any user may open the root of the system that runs, and hold a lock on it.
        let own = Path::new(OWN);
        let is_own = root == Path::new("/") && is_own(own);
        Self::within(root, if is_own { own } else { root }, PATIENCE)
    }

    fn within(root: &Path, folder: &Path, most: Duration) -> Result<Self, AdoptError> {
        let opened = File::open(folder).map_err(file(folder, "open it"))?;
        let start = Instant::now();
        loop {
            match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if start.elapsed() < most => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => {
                    let why = "another `seekless adopt` or `seekless release` works on this system; try again when it has ended";
                    return Err(refused(root, why));
                }
                // After another error: this file system locks no folder.
                _ => return Ok(Self { _folder: opened }),
            }
        }
    }
}

/// Whether the folder is there, after an attempt to make it, and belongs to this user alone.
fn is_own(folder: &Path) -> bool {
    // It may be there already.
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let by_us = |meta: std::fs::Metadata| {
        let own = meta.uid() == rustix::process::geteuid().as_raw();
        meta.is_dir() && own && meta.mode() & 0o077 == 0
    };
    folder.symlink_metadata().is_ok_and(by_us)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_that_others_can_open_is_not_locked() {
        let folder = std::env::temp_dir().join(format!("seekless-{}-own", std::process::id()));
        assert!(is_own(&folder) && is_own(&folder), "made, and there");
        for mode in [0o755, 0o750, 0o701] {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_own(&folder), "{mode:o}");
        }
        std::fs::remove_dir(&folder).unwrap();
        std::fs::write(&folder, "").unwrap();
        assert!(!is_own(&folder), "a file");
        std::fs::remove_file(&folder).unwrap();
        assert!(!is_own(&folder.join("deep")), "it is not there");
    }

    #[test]
    fn one_adoption_or_release_waits_for_another() {
        let root = tempfile::tempdir().unwrap();
        let within = || Alone::within(root.path(), root.path(), Duration::ZERO);
        let first = within().unwrap();
        let error = within().unwrap_err().to_string();
        assert!(error.contains("try again"), "{error}");
        let path = root.path().to_owned();
        let second = std::thread::spawn(move || Alone::at(&path).map(drop));
        drop(first);
        second.join().unwrap().unwrap();
    }
}
