//! One adoption or release at a time: each changes the same files, /etc/fstab among them.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{AdoptError, file, refused};

/// Longest wait for another adoption or release.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lock on the root of a system, until this value is dropped.
#[derive(Debug)]
pub(super) struct Alone {
    _root: File,
}

impl Alone {
    pub(super) fn at(root: &Path) -> Result<Self, AdoptError> {
        Self::within(root, PATIENCE)
    }

    fn within(root: &Path, most: Duration) -> Result<Self, AdoptError> {
        let opened = File::open(root).map_err(file(root, "open it"))?;
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
                _ => return Ok(Self { _root: opened }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_adoption_or_release_waits_for_another() {
        let root = std::env::temp_dir().join(format!("seekless-{}-alone", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        let first = Alone::within(&root, Duration::ZERO).unwrap();
        let error = Alone::within(&root, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("try again"), "{error}");
        let path = root.clone();
        let second = std::thread::spawn(move || Alone::at(&path).map(drop));
        drop(first);
        second.join().unwrap().unwrap();
        std::fs::remove_dir(&root).unwrap();
    }
}
