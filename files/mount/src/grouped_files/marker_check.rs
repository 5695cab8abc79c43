//! Looking for markers. The first use of an entry after the attach checks the marker of its inode:
//! an entry without a marker means nothing.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use seekless_store::{Ask, Fault, FileNumber, FileState, GroupStore};

use super::{GroupedFile, GroupedFiles, MarkerCheck, held};
use crate::inode_handle::InodeHandle;
use crate::underlying::{self, MarkerFound};

/// See [`GroupedFiles::open_inode`].
const NOT_FOUND: &str = "the inode of a grouped file was not found: the file was removed, or the disk \
                         cannot read the inode. The group store keeps the bytes of the file";

impl GroupedFiles {
    /// The file of the store with this handle, its marker checked. The caller holds the lock of the
    /// file: during a move, a missing marker means nothing.
    ///
    /// # Errors
    /// `STALE` if the inode is not found, or another error of the host.
    pub(crate) fn lookup(&self, handle: &InodeHandle) -> Result<Option<GroupedFile>, Errno> {
        match self.peek(handle) {
            Some(file) if file.is_unchecked() => match self.open_inode(handle, OFlags::PATH)? {
                Some(fd) => self.check_marker(handle, file, fd),
                None => {
                    self.set_check(handle, file.number, MarkerCheck::Missing);
                    Err(Errno::STALE)
                }
            },
            known => Ok(known),
        }
    }

    /// The same for an inode that is open in any way.
    ///
    /// # Errors
    /// The error of the host.
    pub(crate) fn lookup_open(
        &self,
        handle: &InodeHandle,
        fd: impl AsFd,
    ) -> Result<Option<GroupedFile>, Errno> {
        match self.peek(handle) {
            Some(file) if file.is_unchecked() => self.check_marker(handle, file, fd),
            known => Ok(known),
        }
    }

    fn check_marker(
        &self,
        handle: &InodeHandle,
        file: GroupedFile,
        fd: impl AsFd,
    ) -> Result<Option<GroupedFile>, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        if underlying::marker(&fd)? == MarkerFound::Marker(self.marker(file.number, &stat)) {
            return Ok(self.confirm(handle, file, &stat));
        }
        if self.take_out(handle, Some(file.number)).is_none() {
            return Ok(self.peek(handle));
        }
        // If the store cannot commit the removal now, the next attach finds the entry again.
        let _ = self.remove_unmarked(file.number);
        Ok(None)
    }

    /// Removes an entry for which no marker was found. If another directory may have files in the
    /// store, the entry may be that of its file, and stays: here it means nothing.
    pub(super) fn remove_unmarked(&self, file: FileNumber) -> Result<(), Fault> {
        if self.is_alone { self.ask(Ask::Remove { file }).map(|_| ()) } else { Ok(()) }
    }

    /// The marker was found.
    fn confirm(&self, handle: &InodeHandle, file: GroupedFile, stat: &Stat) -> Option<GroupedFile> {
        let check = match stat.st_size {
            0 => MarkerCheck::Confirmed,
            _ if self.is_settled(file.number) => MarkerCheck::Conflicting,
            // The attach did not find the inode, or could not change it.
            _ => MarkerCheck::Unsure,
        };
        let now = {
            let mut all = held(self.files.write());
            let now = all.get_mut(*handle)?;
            if !now.has_number(file.number) {
                return Some(*now);
            }
            now.check = check;
            *now
        };
        if check == MarkerCheck::Unsure {
            self.note_unsure("it was moving at a crash, and the mount could not change it");
        } else if check == MarkerCheck::Conflicting {
            self.note_conflict(stat);
        }
        Some(now)
    }

    /// Opens the inode of a file of the store. `None` if the inode is not found. The kernel answers
    /// so for a removed inode, and also for an inode that the disk cannot read: the store keeps the
    /// file.
    ///
    /// # Errors
    /// Another error of the host.
    pub(super) fn open_inode(
        &self,
        handle: &InodeHandle,
        flags: OFlags,
    ) -> Result<Option<OwnedFd>, Errno> {
        match self.underlying.open_handle(handle, flags) {
            Err(Errno::STALE | Errno::NOENT) => {
                held(self.trouble.lock()).get_or_insert_with(|| NOT_FOUND.to_owned());
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    pub(super) fn set_check(&self, handle: &InodeHandle, number: FileNumber, check: MarkerCheck) {
        let mut all = held(self.files.write());
        if let Some(now) = all.get_mut(*handle).filter(|k| k.has_number(number)) {
            now.check = check;
        }
    }

    /// True if the inode of a file of the store was durably empty, and has no bytes of ours since.
    pub(super) fn is_settled(&self, number: FileNumber) -> bool {
        let state = |g: &GroupStore| g.file(number).map(|file| file.state);
        self.group_store(state) == Some(FileState::Settled)
    }

    /// See [`MarkerCheck::Conflicting`].
    pub(super) fn note_conflict(&self, inode: &Stat) {
        self.note_trouble(format!(
            "inode {} in {} was written without the mount; unmount first; then `setfattr -x {MARKER} FILE` keeps the written bytes, and `truncate -s 0 FILE` keeps the bytes in the group store",
            inode.st_ino,
            self.underlying.path().display(),
            MARKER = underlying::MARKER,
        ));
    }

    /// See [`MarkerCheck::Unsure`].
    pub(super) fn note_unsure(&self, why: &str) {
        let dir = self.underlying.path().display();
        self.note_trouble(format!("a file in {dir} gives errors until the next mount: {why}"));
    }

    /// False if the inode of a file of the store is not found. The file stays in the store.
    pub(crate) fn inode_exists(&self, handle: &InodeHandle) -> bool {
        let _lock = self.reading(handle);
        !matches!(self.lookup(handle), Err(Errno::STALE))
    }

    /// False if a file of the directory has several names: a move would empty all of them for
    /// programs that use a name without the mount.
    pub(crate) fn may_be_grouped(&self, handle: &InodeHandle) -> bool {
        let links = |fd| rustix::fs::fstat(fd).map(|stat| stat.st_nlink);
        self.peek(handle).is_some()
            || self.underlying.open_handle(handle, OFlags::PATH).and_then(links) == Ok(1)
    }

    /// The file of the store with this handle, for a read or a move.
    ///
    /// # Errors
    /// `IO` if the inode has bytes beside its marker, or if the marker is not durable.
    pub(crate) fn lookup_clean(&self, handle: &InodeHandle) -> Result<Option<GroupedFile>, Errno> {
        let file = self.lookup(handle)?;
        let refused = [MarkerCheck::Conflicting, MarkerCheck::Unsure];
        if file.is_some_and(|k| refused.contains(&k.check)) { Err(Errno::IO) } else { Ok(file) }
    }

    /// Removes the marker of a file that a client has emptied and the store does not have: nobody
    /// needs the lost bytes.
    pub(crate) fn drop_lost_marker(&self, emptied: &OwnedFd) -> Result<(), Errno> {
        match underlying::marker(emptied)? {
            MarkerFound::Nothing => Ok(()),
            _ => self.underlying.clear_marker(emptied),
        }
    }

    /// Checks that an inode without an entry in the store is a whole file. The caller holds the
    /// lock of the file.
    ///
    /// # Errors
    /// `IO` if the inode is empty and has a marker: its bytes are in another store, or lost.
    pub(crate) fn check_ungrouped(&self, file: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
        if stat.st_size > 0 || underlying::marker(file)? == MarkerFound::Nothing {
            return Ok(());
        }
        if stat.st_nlink == 0 {
            // Removed after the client found it.
            return Err(Errno::STALE);
        }
        self.note_trouble(format!(
            "inode {} in {}: its marker names a file that is not in this group store",
            stat.st_ino,
            self.underlying.path().display()
        ));
        Err(Errno::IO)
    }
}
