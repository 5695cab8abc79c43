//! Writes to files of the store. A file that cannot stay there moves to the directory, and the
//! write continues there. The inode of a file has its times, here as well.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashSet;
use rustix::io::Errno;
use seekless_store::{Ask, FILE_BYTES_MAX, Fault, FileNumber};

use super::{GroupedFiles, errno, held};
use crate::inode_handle::InodeHandle;
use crate::underlying::touch;

/// Times that a group is written because of one file between two shuffles, at most: then this file
/// moves to the directory. A synced write takes one or two flushes of the disk more in the store
/// than there; a move to the directory and back takes about twelve.
pub(super) const REWRITES_MAX: u32 = 8;

impl GroupedFiles {
    /// Writes to a file, if the file is in the store, and stays there. False if the file is in the
    /// directory, or has moved there now: the caller writes there. `inode` is open for writing. The
    /// caller holds the lock of the file for writing.
    ///
    /// # Errors
    /// `NOSPC` if the file must move and the directory has no space, or another error of either
    /// side. Nothing was written then.
    pub(crate) fn write(
        &self,
        handle: &InodeHandle,
        inode: &OwnedFd,
        offset: u64,
        data: &[u8],
    ) -> Result<bool, Errno> {
        let end = offset.saturating_add(data.len() as u64);
        let ask = |file, time| Ask::Write { file, offset, data: data.to_vec(), time };
        self.change(handle, inode, |size| end.max(size.into()), ask)
    }

    /// Truncates a file, or lets it grow with zeroes: as [`GroupedFiles::write`].
    ///
    /// # Errors
    /// As [`GroupedFiles::write`].
    pub(crate) fn resize(
        &self,
        handle: &InodeHandle,
        inode: &OwnedFd,
        size: u64,
    ) -> Result<bool, Errno> {
        self.change(handle, inode, |_| size, |file, time| Ask::Resize { file, size, time })
    }

    /// Carries out a change of contents in the store. `size`: the new size by the old size.
    fn change(
        &self,
        handle: &InodeHandle,
        inode: &OwnedFd,
        size: impl FnOnce(u32) -> u64,
        ask: impl FnOnce(FileNumber, i64) -> Ask,
    ) -> Result<bool, Errno> {
        let Some(file) = self.lookup_clean(handle)? else { return Ok(false) };
        let size = size(file.size);
        let leave = || {
            let left =
                if size == 0 { self.drop_contents(handle) } else { self.move_into(handle, inode) };
            left.map(|()| false)
        };
        if size > FILE_BYTES_MAX.into() {
            return leave();
        }
        if self.is_rewritten_too_often(handle, file.number) {
            // Where the directory has no space, the file stays.
            if leave().is_ok() {
                return Ok(false);
            }
            // The failed move may have left the file in both places: then nobody may write to it.
            self.lookup_clean(handle)?;
        }
        match self.ask(ask(file.number, touch(inode)?)) {
            Ok(_) => {
                self.set_size(handle, size as u32);
                self.counts.writes.fetch_add(1, Relaxed);
                Ok(true)
            }
            Err(Fault::NoSpace) => leave(),
            // Nobody needs the old bytes.
            Err(_) if size == 0 => leave(),
            Err(fault) => Err(errno(&fault)),
        }
    }

    fn set_size(&self, handle: &InodeHandle, size: u32) {
        let mut all = held(self.files.write());
        if let Some(file) = all.get_mut(*handle) {
            let old = file.size;
            file.size = size;
            self.bytes.fetch_add(size.into(), Relaxed);
            self.bytes.fetch_sub(old.into(), Relaxed);
        }
    }

    /// Counts a change that causes a write of the file's group.
    fn is_rewritten_too_often(&self, handle: &InodeHandle, file: FileNumber) -> bool {
        if self.group_store(|g| g.waits_to_be_written(file)) {
            return false;
        }
        let mut all = held(self.rewritten.lock());
        let count = all.entry(*handle).or_default();
        *count = count.saturating_add(1);
        *count > REWRITES_MAX
    }

    /// The files that were written too often since the latest call.
    pub(crate) fn take_rewritten_too_often(&self) -> FxHashSet<InodeHandle> {
        let all = std::mem::take(&mut *held(self.rewritten.lock()));
        all.into_iter().filter(|(_, count)| *count > REWRITES_MAX).map(|(h, _)| h).collect()
    }

    /// True once after the sync of a file failed during a move.
    pub(crate) fn take_owed_error(&self, handle: &InodeHandle) -> bool {
        held(self.owed_errors.lock()).remove(handle)
    }

    /// Makes the contents of a file durable. False if the file is not in the store.
    ///
    /// # Errors
    /// The store cannot write.
    pub(crate) fn sync(&self, handle: &InodeHandle) -> Result<bool, Errno> {
        let Some(file) = self.peek(handle) else { return Ok(false) };
        match self.ask(Ask::Sync { file: Some(file.number) }) {
            Ok(_) => Ok(true),
            // The file has moved to the directory meanwhile.
            Err(Fault::NoFile(_)) => Ok(false),
            Err(fault) => Err(errno(&fault)),
        }
    }
}
