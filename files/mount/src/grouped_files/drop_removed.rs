//! Dropping entries whose inodes were removed before a crash, or without the mount. An unreadable
//! inode looks like a removed one, so only a look at the whole directory tells the two apart.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use seekless_store::FileNumber;

use super::{GroupedFile, GroupedFiles};
use crate::check::walk;
use crate::inode_handle::InodeHandle;
use crate::underlying::{self, MarkerFound};

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
    /// them, and no marker in the directory names one of them. Every inode that has a name must be
    /// readable, and no file renamed meanwhile: otherwise all entries stay. If another directory
    /// may have files in the store, the store keeps the entries: they are no files of this one.
    pub(crate) fn drop_removed(&self) {
        let missing = self.files_where(|_, file| file.is_missing());
        if missing.is_empty() {
            return;
        }
        let number = |handle: &InodeHandle| self.peek(handle).map(|file| (file.number, *handle));
        let mut search = Search {
            groups: self,
            numbers: missing.iter().filter_map(number).collect(),
            unnamed: missing.iter().copied().collect(),
            elsewhere: None,
        };
        let before = self.renames.number();
        let walked = walk(&self.underlying, &mut |path, fd, stat| search.look(path, fd, stat));
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
            search.note_elsewhere();
            let mut kept = 0;
            for handle in missing.iter().filter(|h| search.unnamed.contains(h)) {
                let _lock = self.changing(handle);
                match self.peek(handle).filter(GroupedFile::is_missing) {
                    Some(_) if self.is_alone => self.forget(handle),
                    Some(file) => {
                        kept += u64::from(self.take_out(handle, Some(file.number)).is_some());
                    }
                    None => {}
                }
            }
            if kept > 0 {
                self.counts.kept.fetch_add(kept, Relaxed);
                self.note_trouble(format!(
                    "the group store keeps {kept} files that are not in this directory: they were removed, or belong to another directory that an older version mounted with this store"
                ));
            }
        }
    }
}

/// A search for the names of files whose inodes were not found.
struct Search<'a> {
    groups: &'a GroupedFiles,
    numbers: FxHashMap<FileNumber, InodeHandle>,
    /// Files that nothing in the directory has named so far.
    unnamed: FxHashSet<InodeHandle>,
    /// A file whose marker names a file of the store with another inode.
    elsewhere: Option<PathBuf>,
}

impl Search<'_> {
    fn look(&mut self, path: &Path, fd: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        self.unnamed.remove(&self.groups.underlying.handle_of(fd.as_fd())?);
        // The marker of another inode: a tool has given the file another inode number, as a shrink
        // of the file system does, or has copied the marker. The store may have the only bytes.
        if let MarkerFound::Marker(marker) = underlying::marker(fd)?
            && marker.store == self.groups.uuid
            && let Some(handle) = self.numbers.get(&marker.file)
            && self.unnamed.remove(handle)
        {
            self.elsewhere = Some(path.to_owned());
        }
        Ok(())
    }

    fn note_elsewhere(&self) {
        if let Some(path) = &self.elsewhere {
            self.groups.note_trouble(format!(
                "{}: its marker belongs to another inode, so the group store keeps the bytes; was the file copied, or its file system shrunk? `setfattr -x {} FILE` gives the bytes up",
                self.groups.underlying.path().join(path).display(),
                underlying::MARKER,
            ));
        }
    }
}
