//! The folder with the learned data: one file for each file system, private, of bounded size.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use seekless_host::{cannot_at, private, remove_parts, write_whole};
use seekless_jobs::{Job, state};

use crate::WatchError;

/// Most state files: those that were saved longest ago are removed at a start.
const FILES_MOST: usize = 256;

/// The folder. Locked while it is open.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    pub(crate) fn open(dir: &Path) -> Result<Self, WatchError> {
        let fail = |what| cannot_at(dir, what);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(fail("make the folder of the state"))?;
        let about = dir.metadata().map_err(fail("look at the folder of the state"))?;
        let own = about.uid() == rustix::process::geteuid().as_raw();
        if !own || about.mode() & 0o022 != 0 {
            let whose =
                if own { "other users".to_owned() } else { private::owner_in_words(about.uid()) };
            let source = io::Error::other(format!("{whose} may write there; name another folder"));
            return Err(fail("keep the state")(source).into());
        }
        let mut private = File::options();
        private.create(true).truncate(true).write(true).mode(0o600);
        let lock = private.open(dir.join("lock")).map_err(fail("make the lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                remove_parts(dir, |name| is_state(Path::new(name)));
                let store = Self { dir: dir.to_owned(), _lock: lock };
                store.remove_old(FILES_MOST);
                Ok(store)
            }
            Err(_) => Err(WatchError::InUse(dir.to_owned())),
        }
    }

    /// The jobs of a file system, and what is wrong with its file.
    pub(crate) fn load(&self, id: u64) -> (Vec<Job>, Option<String>) {
        let path = self.path(id);
        let wrong = match read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return (Vec::new(), None),
            Err(e) => e.to_string(),
            Ok(bytes) => match state::decode(&bytes) {
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

    /// Replaces the file of a file system. After an error the old file is still there. Without jobs
    /// and without a file, there is nothing to write.
    pub(crate) fn save(&self, id: u64, jobs: &[Job]) -> io::Result<()> {
        let path = self.path(id);
        if jobs.is_empty() && !path.exists() {
            return Ok(());
        }
        write_whole(&path, &state::encode(jobs), 0o600)
    }

    /// Removes the names of programs from all files, also of file systems that are not mounted now.
    /// Returns messages about files that cannot be written. A damaged file stays as it is.
    pub(crate) fn forget_names(&self) -> Vec<String> {
        let mut messages = Vec::new();
        for path in self.files() {
            let Some(mut jobs) = read(&path).ok().and_then(|b| state::decode(&b).ok()) else {
                continue;
            };
            if jobs.iter().all(|j| j.name.is_empty()) {
                continue;
            }
            jobs.iter_mut().for_each(|j| j.name.clear());
            if let Err(e) = write_whole(&path, &state::encode(&jobs), 0o600) {
                let file = path.display();
                messages.push(format!("{file}: cannot remove the names of programs ({e})"));
            }
        }
        messages
    }

    /// Removes the files that were saved longest ago, beyond this number.
    fn remove_old(&self, most: usize) {
        let saved = |p: &PathBuf| p.metadata().and_then(|m| m.modified()).ok();
        let mut files: Vec<_> = self.files().map(|p| (saved(&p), p)).collect();
        files.sort_unstable();
        let beyond = files.len().saturating_sub(most);
        for (_, path) in files.drain(..beyond) {
            // A file that remains costs only space.
            let _ = fs::remove_file(path);
        }
    }

    /// The state files.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.map(|e| e.path()).filter(|p| is_state(p))
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{id:016x}.jobs"))
    }
}

fn is_state(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "jobs")
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(state::BYTES_MOST as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_state_is_private_locked_and_a_bad_file_starts_from_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("state");
        let store = Store::open(&dir).unwrap();
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(matches!(Store::open(&dir), Err(WatchError::InUse(_))));
        assert_eq!(store.load(7), (Vec::new(), None));
        store.save(7, &[]).unwrap();
        let path = dir.join("0000000000000007.jobs");
        assert!(!path.exists(), "a file system without jobs needs no file");
        store.save(7, &[Job::default()]).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(store.load(7), (vec![Job::default()], None));
        store.save(7, &[]).unwrap();
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
        assert!(refused.to_string().contains("cannot keep the state"), "{refused}");
    }

    #[test]
    fn names_are_removed_from_all_files_and_old_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("state");
        let store = Store::open(&dir).unwrap();
        let mut jobs = [Job::default(), Job::default()];
        jobs[0].name = "tar".to_owned();
        (7..9).for_each(|id| store.save(id, &jobs).unwrap());
        let bytes = || fs::read(dir.join("0000000000000007.jobs")).unwrap();
        let holds_name = |bytes: Vec<u8>| bytes.windows(3).any(|w| w == b"tar");
        assert!(holds_name(bytes()));
        fs::write(dir.join("0000000000000009.jobs"), b"something else").unwrap();
        assert_eq!(store.forget_names(), [""; 0]);
        assert!(!holds_name(bytes()));
        assert!((7..9).all(|id| store.load(id).0 == [Job::default(), Job::default()]));
        let old = File::options().write(true).open(dir.join("0000000000000008.jobs")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        store.remove_old(2);
        let left: Vec<bool> = (7..10).map(|id| store.path(id).exists()).collect();
        assert_eq!(left, [true, false, true]);
    }
}
