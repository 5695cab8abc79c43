//! Moving files from the store back to the directory, and forgetting them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;
use rustix::io::Errno;
use seekless_store::{Ask, FILE_BYTES_MAX, FileNumber};

use super::{GroupedFile, GroupedFiles, MarkerCheck, attributes, errno, in_parallel};
use crate::inode_handle::InodeHandle;
use crate::underlying;

const TOGETHER: usize = 64;

impl GroupedFiles {
    /// Moves a file back, if the store has the file. The caller holds the lock of the file for
    /// writing.
    ///
    /// # Errors
    /// `NOSPC` if the directory has no space, or another error of either side. The file then stays
    /// in the store.
    pub(crate) fn move_back(&self, handle: &InodeHandle) -> Result<(), Errno> {
        if self.lookup_clean(handle)?.is_none() {
            return Ok(());
        }
        self.move_into(handle, &self.underlying.open_handle(handle, OFlags::RDWR)?)
    }

    /// The same with an inode that is open for writing.
    pub(crate) fn move_into(&self, handle: &InodeHandle, inode: &OwnedFd) -> Result<(), Errno> {
        let Some(file) = self.lookup_clean(handle)? else { return Ok(()) };
        let is_empty = self.is_settled(file.number);
        if is_empty {
            self.check_empty(handle, &file, inode)?;
        }
        self.save_times(&file, inode)?;
        self.ask(Ask::Leave { files: vec![file.number] }).map_err(|f| errno(&f))?;
        if is_empty {
            self.check_empty(handle, &file, inode)?;
        }
        self.write_to_inode(handle, &file, inode)
    }

    /// Checks that the inode of a file of the store, which was empty when the file settled there, is
    /// still empty: a move home would overwrite the bytes of another program. Before a file settles,
    /// and after a move that failed, there can be bytes of our own.
    ///
    /// # Errors
    /// `IO` if another program has written to the inode.
    fn check_empty(
        &self,
        handle: &InodeHandle,
        file: &GroupedFile,
        inode: impl AsFd,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(inode)?;
        if stat.st_size == 0 {
            return Ok(());
        }
        self.set_check(handle, file.number, MarkerCheck::Conflicting);
        self.note_conflict(&stat);
        if !self.is_settled(file.number) {
            // The next attach must take the bytes for those of another program, too.
            let _ = self.ask(Ask::Settle { files: vec![file.number] });
        }
        Err(Errno::IO)
    }

    /// Saves the times of the inode in the entry: after a crash during a move they are restored
    /// from there. The caller holds the lock of the file for writing.
    pub(crate) fn save_times(&self, file: &GroupedFile, inode: impl AsFd) -> Result<(), Errno> {
        let attributes = attributes(&rustix::fs::fstat(inode)?);
        let ask = Ask::SetAttributes { file: file.number, attributes };
        self.ask(ask).map(|_| ()).map_err(|f| errno(&f))
    }

    /// Writes a file whose entry is leaving into its inode.
    fn write_to_inode(
        &self,
        handle: &InodeHandle,
        file: &GroupedFile,
        inode: &OwnedFd,
    ) -> Result<(), Errno> {
        let times = underlying::times(&rustix::fs::fstat(inode)?);
        let written = self.read(file, 0, FILE_BYTES_MAX).and_then(|data| {
            if data.len() != file.size as usize {
                return Err(Errno::IO);
            }
            self.underlying.fill(inode, &data, &times)
        });
        let moved = written.and_then(|()| self.underlying.clear_marker(inode));
        if let Err(e) = moved {
            let undo = self.underlying.truncate(inode, &times);
            if undo.and_then(|()| self.underlying.sync_file(inode)).is_ok() {
                let _ = self.ask(Ask::Settle { files: vec![file.number] });
            }
            return Err(e);
        }
        // An fdatasync of a client covers no extended attribute. On ext4, a marker that survives a
        // crash would replace the client's new bytes with the old bytes of the store.
        let sync = || self.underlying.sync_file(inode);
        if let Err(e) = sync().or_else(|_| sync()) {
            self.set_check(handle, file.number, MarkerCheck::Unsure);
            self.note_unsure(&format!("the removal of its marker could not be synced: {e}"));
            return Err(e);
        }
        self.counts.returned.fetch_add(1, Relaxed);
        self.forget(handle);
        Ok(())
    }

    /// Drops the contents of a file in the store: the file is empty in the directory then. The
    /// caller holds the lock of the file for writing.
    ///
    /// # Errors
    /// The error of the host. Nothing was changed then.
    pub(super) fn drop_contents(&self, handle: &InodeHandle) -> Result<(), Errno> {
        self.underlying.clear_marker(self.underlying.open_handle(handle, OFlags::RDWR)?)?;
        self.forget(handle);
        Ok(())
    }

    /// Forgets a file without a marker: it is in the directory, or removed.
    pub(crate) fn forget(&self, handle: &InodeHandle) {
        if let Some(file) = self.take_out(handle, None) {
            // If the store cannot commit the removal, a dead entry remains, which the next attach
            // removes.
            let _ = self.ask(Ask::Remove { file: file.number });
        }
    }

    /// Moves files back, many at a time; a file that cannot move stays. Open files move, too.
    /// Returns the number of moved files.
    pub(crate) fn move_all_back(&self, files: &[InodeHandle]) -> usize {
        self.move_back_until(files, || false)
    }

    /// The same, until `ended`: the other files stay.
    pub(crate) fn move_back_until(&self, files: &[InodeHandle], ended: impl Fn() -> bool) -> usize {
        let wanted = files.chunks(TOGETHER).take_while(|_| !ended());
        wanted.map(|handles| self.move_together_back(handles)).sum()
    }

    fn move_together_back(&self, handles: &[InodeHandle]) -> usize {
        let failed = |handle: &InodeHandle, e: Errno| {
            // A conflict has a message of its own.
            if self.peek(handle).is_none_or(|file| file.check != MarkerCheck::Conflicting) {
                self.note_trouble(format!("a file could not be moved back to the directory: {e}"));
            }
        };
        let mut leaving = Vec::new();
        for handle in handles {
            match self.prepare_to_leave(handle) {
                Ok(prepared) => leaving.extend(prepared.map(|file| (*handle, file))),
                // The file stays.
                Err(Errno::STALE) => {}
                Err(e) => failed(handle, e),
            }
        }
        let numbers = leaving.iter().map(|(_, (number, _))| *number).collect();
        // This fails if one of them was removed meanwhile; then each file moves on its own.
        let together = self.ask(Ask::Leave { files: numbers }).is_ok();
        let moved = in_parallel(&leaving, |(handle, file)| {
            self.move_prepared(handle, *file, together).unwrap_or_else(|e| {
                failed(handle, e);
                false
            })
        });
        moved.iter().filter(|moved| **moved).count()
    }

    /// Moves a file whose times are saved. `is_empty`: its inode has no bytes of ours. `is_leaving`:
    /// its entry is leaving. False if the store does not have the file any more.
    pub(super) fn move_prepared(
        &self,
        handle: &InodeHandle,
        (number, is_empty): (FileNumber, bool),
        is_leaving: bool,
    ) -> Result<bool, Errno> {
        let _lock = self.changing(handle);
        let Some(file) = self.peek(handle).filter(|k| k.has_number(number)) else {
            return Ok(false);
        };
        let inode = self.underlying.open_handle(handle, OFlags::RDWR).inspect_err(|_| {
            if is_empty && !self.is_settled(number) {
                // Bytes in the inode of a leaving file pass for ours, and the next move home would
                // overwrite those of another program.
                let _ = self.ask(Ask::Settle { files: vec![number] });
            }
        })?;
        if is_empty {
            self.check_empty(handle, &file, &inode)?;
        }
        // The move by a client that failed meanwhile has settled the file again.
        let is_leaving = is_leaving && !self.is_settled(number);
        // Bytes that a client has written since are only in memory. The inode must not have newer
        // bytes than the device of the store: after a crash they would look like bytes of another
        // program.
        if is_leaving && !self.group_store(|g| g.is_being_written(number)) {
            self.write_to_inode(handle, &file, &inode)?;
        } else {
            self.move_into(handle, &inode)?;
        }
        Ok(true)
    }

    /// The number of a file that is about to leave, its times saved, and whether its inode is empty;
    /// `None` if the store does not have the file.
    fn prepare_to_leave(&self, handle: &InodeHandle) -> Result<Option<(FileNumber, bool)>, Errno> {
        let _lock = self.changing(handle);
        let Some(file) = self.lookup_clean(handle)? else { return Ok(None) };
        let Some(inode) = self.open_inode(handle, OFlags::PATH)? else {
            // Only entries of missing inodes are looked for in the whole directory, and dropped.
            self.set_check(handle, file.number, MarkerCheck::Missing);
            return Err(Errno::STALE);
        };
        let is_empty = self.is_settled(file.number);
        if is_empty {
            self.check_empty(handle, &file, &inode)?;
        }
        self.save_times(&file, inode)?;
        Ok(Some((file.number, is_empty)))
    }
}
