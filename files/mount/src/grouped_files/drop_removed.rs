//! Dropping entries whose inodes were removed before a crash, or without the mount. An unreadable
//! inode looks like a removed one, so only a look at the whole directory tells the two apart.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rustc_hash::FxHashSet;
use rustix::fs::FileType;

use super::GroupedFiles;
use crate::check::walk;
use crate::inode_handle::InodeHandle;

/// Renames through the mount: a file that is renamed during a look at the directory may be missed.
#[derive(Debug, Default)]
pub(crate) struct Renames {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Renames {
    pub(crate) fn during<T>(&self, rename: impl FnOnce() -> T) -> T {
        self.begun.fetch_add(1, SeqCst);
        let renamed = rename();
        self.ended.fetch_add(1, SeqCst);
        renamed
    }

    /// The number of renames; `None` while one runs.
    fn number(&self) -> Option<u64> {
        let ended = self.ended.load(SeqCst);
        (self.begun.load(SeqCst) == ended).then_some(ended)
    }
}

impl GroupedFiles {
    /// Drops the entries whose inodes were not found, if no name in the directory leads to one of
    /// them. Every inode that has a name must be readable, and no file renamed meanwhile:
    /// otherwise all entries stay.
    pub(crate) fn drop_removed(&self) {
        let missing = self.files_where(|_, file| file.is_missing());
        let mut unnamed: FxHashSet<InodeHandle> = missing.iter().copied().collect();
        if missing.is_empty() {
            return;
        }
        let before = self.renames.number();
        let walked = walk(&self.underlying, &mut |_, fd, stat| {
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                unnamed.remove(&self.underlying.handle_of(fd.as_fd())?);
            }
            Ok(())
        });
        if let Err((path, e)) = walked {
            let path = self.underlying.path().join(path);
            self.note_trouble(format!(
                "{}: {e}; so it is unknown which files of the group store were removed",
                path.display()
            ));
        } else if before.is_none() || before != self.renames.number() {
            self.note_trouble(
                "files were renamed during the search for removed files: try again".to_owned(),
            );
        } else {
            for handle in missing.iter().filter(|h| unnamed.contains(h)) {
                let _lock = self.changing(handle);
                if self.peek(handle).is_some_and(|file| file.is_missing()) {
                    self.forget(handle);
                }
            }
        }
    }
}
