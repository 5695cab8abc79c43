//! The folder with the learned data: one file for each file system, private, of bounded size.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use seekless_host::{remove_parts, write_whole};
use seekless_jobs::{Job, state};

use crate::WatchError;

/// The folder. Locked while it is open.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    pub(crate) fn open(dir: &Path) -> Result<Self, WatchError> {
        let fail = |what| move |source| WatchError::Path { path: dir.to_owned(), what, source };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(fail("make the folder of the state"))?;
        let about = dir.metadata().map_err(fail("look at the folder of the state"))?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
            let source = io::Error::other("other users may write there; name another folder");
            return Err(fail("keep the state")(source));
        }
        let mut private = File::options();
        private.create(true).truncate(true).write(true).mode(0o600);
        let lock = private.open(dir.join("lock")).map_err(fail("make the lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                remove_parts(dir, |name| Path::new(name).extension().is_some_and(|e| e == "jobs"));
                Ok(Self { dir: dir.to_owned(), _lock: lock })
            }
            Err(_) => Err(WatchError::InUse(dir.to_owned())),
        }
    }

    /// The jobs of a file system, and what is wrong with its file.
    pub(crate) fn load(&self, id: u64) -> (Vec<Job>, Option<String>) {
        let path = self.path(id);
        let mut bytes = Vec::new();
        let most = state::BYTES_MOST as u64;
        let read = File::open(&path).and_then(|f| f.take(most).read_to_end(&mut bytes));
        let wrong = match read {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return (Vec::new(), None),
            Err(e) => e.to_string(),
            Ok(_) => match state::decode(&bytes) {
                Ok(jobs) => return (jobs, None),
                Err(e) => e.to_string(),
            },
        };
        (
            Vec::new(),
            Some(format!(
                "{}: {wrong}; learning starts again without earlier data",
                path.display()
            )),
        )
    }

    /// Replaces the file of a file system. After an error the old file is still there.
    pub(crate) fn save(&self, id: u64, jobs: &[Job]) -> io::Result<()> {
        write_whole(&self.path(id), &state::encode(jobs), 0o600)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{id:016x}.jobs"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panic")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_state_is_private_locked_and_a_bad_file_starts_from_nothing() {
        let dir = std::env::temp_dir().join(format!("seekless-watch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let store = Store::open(&dir).unwrap();
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(matches!(Store::open(&dir), Err(WatchError::InUse(_))));
        assert_eq!(store.load(7), (Vec::new(), None));
        store.save(7, &[]).unwrap();
        let path = dir.join("0000000000000007.jobs");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(store.load(7), (Vec::new(), None));
        fs::write(&path, b"something else").unwrap();
        let (jobs, wrong) = store.load(7);
        assert!(jobs.is_empty() && wrong.unwrap().contains("SKLWATCH"));
        // The file cannot be replaced: nothing is left of the new one.
        fs::create_dir(dir.join("0000000000000008.jobs")).unwrap();
        assert!(store.save(8, &[]).is_err());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "the lock, a file, a folder");
        drop(store);
        // As a kill leaves it.
        fs::write(dir.join(".0000000000000007.jobs.aB3dEf.part"), b"torn").unwrap();
        // A program that another test starts has a copy of the lock until it is executed.
        let start = std::time::Instant::now();
        while let Err(e) = Store::open(&dir) {
            assert!(start.elapsed().as_secs() < 5, "the lock ends with its owner: {e}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "of bounded size, after kills too");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
        let refused = Store::open(&dir).unwrap_err();
        assert!(matches!(refused, WatchError::Path { what: "keep the state", .. }), "{refused}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
