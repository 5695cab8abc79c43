//! The underlying directory: the *other module* of EEFS, part of an existing file system. A private
//! mount reaches the directory below every mount over it or in it. This module sets markers, and
//! changes inodes for moves between directory and store.
//!
//! A *marker* is the extended attribute [`MARKER`] of an empty inode: the UUID of the store, the
//! number of the file, the number of the inode. The directory itself has the attribute [`BINDING`]:
//! the UUID of the store and the handle of the directory. The binding tells the directory from
//! other directories and from its copies.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Mode, OFlags, Stat, StatVfs, StatVfsMountFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use seekless_host::cannot_at;
use seekless_store::{FileNumber, GroupStore};

use crate::error::MountError;
use crate::inode_handle::InodeHandle;

/// The extended attribute of a file in the group store.
pub(crate) const MARKER: &str = "trusted.seekless.group";
/// The extended attribute of the directory.
pub(crate) const BINDING: &str = "trusted.seekless.store";
/// The extended attribute of a directory whose store no other directory can have files in: the UUID
/// of the store. Directories that an earlier version bound to a store lack it.
pub(crate) const ALONE: &str = "trusted.seekless.alone";
/// The extended attribute of a directory that was unmounted in order: the number of the latest
/// checkpoint of its store then.
pub(crate) const GENERATION: &str = "trusted.seekless.generation";
/// Capabilities of a program. The kernel removes this attribute at every write or truncation, also
/// by root.
pub(crate) const CAPABILITIES: &str = "security.capability";
pub(crate) const ACCESS_LIST: &str = "system.posix_acl_access";
/// Why a store is refused that is older than the directory.
pub(crate) const OLDER_STORE: &str = "was last unmounted with newer contents of its group store: this store is an older copy, with older bytes of changed files; to use these bytes, run `setfattr -x trusted.seekless.generation` on the directory";
/// Length of a marker in bytes.
const MARKER_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) store: [u8; 16],
    pub(crate) file: FileNumber,
    /// A copy of a file with its extended attributes has another inode number: the copied marker is
    /// invalid.
    pub(crate) ino: u64,
}

impl Marker {
    pub(crate) fn encode(&self) -> [u8; MARKER_BYTES] {
        let mut bytes = [0; MARKER_BYTES];
        bytes[..16].copy_from_slice(&self.store);
        bytes[16..24].copy_from_slice(&self.file.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.ino.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are no marker.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MARKER_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            store: bytes.get(..16)?.try_into().ok()?,
            file: FileNumber(number(16)?),
            ino: number(24)?,
        })
    }
}

/// The attribute [`MARKER`] of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerFound {
    Nothing,
    Marker(Marker),
    /// The attribute holds no valid marker.
    Invalid,
}

/// One change of an inode during a move, or of a name by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeStep {
    /// A new inode has its name in this directory, and the server has not opened the name yet.
    Made,
    Marked,
    Unmarked,
    Truncated,
    Filled,
    Synced,
    /// The whole file system.
    AllSynced,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct UnderlyingDir {
    path: PathBuf,
    root: OwnedFd,
    handle: InodeHandle,
    /// Notes the steps for tests, which stop at any of them.
    #[cfg(test)]
    pub(crate) steps: crate::grouped_files::tests::StepLog,
    /// Keeps the private mount.
    _tree: OwnedFd,
}

impl UnderlyingDir {
    /// Opens a directory.
    ///
    /// # Errors
    /// The path is no directory, or its file system has no file handles, or we may not use them.
    pub(crate) fn open(path: &Path) -> Result<Self, MountError> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(rustix::fs::CWD, path, flags)
            .map_err(cannot_at(path, "make a private mount of it; this needs root"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&tree, ".", flags, Mode::empty())
            .map_err(cannot_at(path, "open it as a directory"))?;
        let what = "get a file handle on it; its file system may have none";
        let handle = InodeHandle::of(root.as_fd()).map_err(cannot_at(path, what))?;
        let what = "open it by its file handle; this needs CAP_DAC_READ_SEARCH";
        handle.open(root.as_fd(), OFlags::PATH).map_err(cannot_at(path, what))?;
        Ok(Self {
            path: path.to_owned(),
            root,
            handle,
            #[cfg(test)]
            steps: crate::grouped_files::tests::StepLog::default(),
            _tree: tree,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The handle of the directory itself.
    pub(crate) const fn handle(&self) -> InodeHandle {
        self.handle
    }

    /// The handle of an open file of this file system.
    ///
    /// # Errors
    /// `OPNOTSUPP` if its shape differs from the directory's handle; in known file systems all
    /// handles have one shape.
    pub(crate) fn handle_of(&self, file: BorrowedFd<'_>) -> Result<InodeHandle, Errno> {
        InodeHandle::of(file).and_then(|h| self.of_same_shape(h).ok_or(Errno::OPNOTSUPP))
    }

    /// Reads a handle from a group store; `None` if it is no handle of this file system.
    pub(crate) fn handle_named(&self, name: &[u8]) -> Option<InodeHandle> {
        InodeHandle::from_name(name).and_then(|h| self.of_same_shape(h))
    }

    fn of_same_shape(&self, handle: InodeHandle) -> Option<InodeHandle> {
        (handle.shape() == self.handle.shape()).then_some(handle)
    }

    pub(crate) fn open_handle(
        &self,
        handle: &InodeHandle,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        #[cfg(test)]
        if !self.steps.can_read(handle) {
            return Err(Errno::STALE);
        }
        handle.open(self.root.as_fd(), flags | OFlags::CLOEXEC)
    }

    /// Makes all changes of names, markers and sizes in the file system durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        self.may()?;
        // The kernel also reports bytes of any file that it could not write, once. No rule of the
        // store needs this error: the bytes of a file that moved home were synced with that file.
        // A journal that cannot be written stops its file system, which every later call reports.
        // Without a journal (ext2), a failed write of a name may be reported by this error alone.
        rustix::fs::syncfs(&self.root).or_else(|_| rustix::fs::syncfs(&self.root))?;
        // A file system that has stopped is often read-only, and `syncfs` of a read-only file system
        // does nothing and succeeds.
        if self.statvfs()?.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(Errno::ROFS);
        }
        rustix::fs::fsync(&self.root)?;
        self.did(InodeStep::AllSynced, self.root())
    }

    /// Fails where a test stops: a kill of the process can come before any step.
    #[cfg(test)]
    fn may(&self) -> Result<(), Errno> {
        self.steps.may()
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests stop at steps")]
    const fn may(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Notes a step for tests.
    #[cfg(test)]
    pub(crate) fn did(&self, step: InodeStep, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.steps.did(step, InodeHandle::of(file)?);
        Ok(())
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests note steps")]
    pub(crate) const fn did(&self, _: InodeStep, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes an inode and its contents durable.
    pub(crate) fn sync_file(&self, file: impl AsFd) -> Result<(), Errno> {
        self.may()?;
        rustix::fs::fsync(&file)?;
        self.did(InodeStep::Synced, file.as_fd())
    }

    /// Sets a marker. The marker is durable after the next sync of the file.
    pub(crate) fn set_marker(&self, file: impl AsFd, marker: &Marker) -> Result<(), Errno> {
        self.may()?;
        rustix::fs::fsetxattr(&file, MARKER, &marker.encode(), XattrFlags::empty())?;
        self.did(InodeStep::Marked, file.as_fd())
    }

    pub(crate) fn clear_marker(&self, file: impl AsFd) -> Result<(), Errno> {
        self.may()?;
        match rustix::fs::fremovexattr(&file, MARKER) {
            Ok(()) | Err(Errno::NODATA) => self.did(InodeStep::Unmarked, file.as_fd()),
            failed => failed,
        }
    }

    /// Truncates a file to no bytes; its times stay.
    pub(crate) fn truncate(&self, file: impl AsFd, times: &Timestamps) -> Result<(), Errno> {
        let file = file.as_fd();
        self.may()?;
        rustix::fs::ftruncate(file, 0)?;
        rustix::fs::futimens(file, times)?;
        self.did(InodeStep::Truncated, file)
    }

    /// Writes the contents of a file durably; its times stay. An earlier move that failed may have
    /// left bytes in it.
    pub(crate) fn fill(
        &self,
        file: impl AsFd,
        data: &[u8],
        times: &Timestamps,
    ) -> Result<(), Errno> {
        let file = file.as_fd();
        self.may()?;
        rustix::fs::ftruncate(file, 0)?;
        let mut done = 0;
        while done < data.len() {
            done += write_at(file, &data[done..], done as u64)?;
        }
        rustix::fs::futimens(file, times)?;
        self.did(InodeStep::Filled, file)?;
        self.sync_file(file)
    }

    /// Space and limits of the file system.
    pub(crate) fn statvfs(&self) -> Result<StatVfs, Errno> {
        rustix::fs::fstatvfs(&self.root)
    }

    /// The store of the directory; true if the binding was made for this directory, false in a copy
    /// of it.
    ///
    /// # Errors
    /// The error of the host.
    pub(crate) fn binding(&self) -> Result<Option<([u8; 16], bool)>, Errno> {
        let mut bytes = [0; 64];
        match rustix::fs::fgetxattr(&self.root, BINDING, &mut bytes) {
            Err(Errno::NODATA) => Ok(None),
            Err(e) => Err(e),
            Ok(len) => {
                let (store, handle) = bytes.get(..len).and_then(decode_binding).ok_or(Errno::IO)?;
                Ok(Some((store, handle == Some(self.handle))))
            }
        }
    }

    /// True if no other directory can have files in this store.
    ///
    /// # Errors
    /// The error of the host.
    pub(crate) fn is_alone(&self, store: [u8; 16]) -> Result<bool, Errno> {
        let mut bytes = [0; 64];
        match rustix::fs::fgetxattr(&self.root, ALONE, &mut bytes) {
            Err(Errno::NODATA) => Ok(false),
            Err(e) => Err(e),
            Ok(len) => Ok(bytes.get(..len) == Some(&store[..])),
        }
    }

    /// True if the directory was unmounted with a newer version of its store.
    ///
    /// # Errors
    /// The error of the host.
    pub(crate) fn is_newer_than(&self, group_store: &GroupStore) -> Result<bool, Errno> {
        let lost = u64::from(group_store.lost_checkpoint());
        let generation = group_store.generation().saturating_add(lost);
        let mut bytes = [0; 64];
        match rustix::fs::fgetxattr(&self.root, GENERATION, &mut bytes) {
            Err(Errno::NODATA) => Ok(false),
            Err(e) => Err(e),
            Ok(len) => {
                let noted = bytes.get(..len).and_then(|bytes| bytes.try_into().ok());
                let noted = noted.map(u64::from_le_bytes).ok_or(Errno::IO)?;
                Ok(generation < noted)
            }
        }
    }

    /// Notes the latest checkpoint of the store, which must be durable.
    pub(crate) fn note_generation(&self, generation: u64) -> Result<(), Errno> {
        let noted = generation.to_le_bytes();
        rustix::fs::fsetxattr(&self.root, GENERATION, &noted, XattrFlags::empty())?;
        rustix::fs::fsync(&self.root)
    }

    fn remove_attribute(&self, name: &str) -> Result<(), Errno> {
        match rustix::fs::fremovexattr(&self.root, name) {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            failed => failed,
        }
    }

    /// Binds the directory to a store that no other directory was ever bound to, or to none.
    pub(crate) fn bind(&self, store: Option<[u8; 16]>) -> Result<(), Errno> {
        match store {
            Some(uuid) => {
                self.remove_attribute(GENERATION)?;
                // Before the binding: a binding without it is that of an earlier version.
                rustix::fs::fsetxattr(&self.root, ALONE, &uuid, XattrFlags::empty())?;
                let mut bytes = uuid.to_vec();
                bytes.extend(self.handle.to_name());
                rustix::fs::fsetxattr(&self.root, BINDING, &bytes, XattrFlags::empty())?;
            }
            None => {
                rustix::fs::fremovexattr(&self.root, BINDING)?;
                self.remove_attribute(ALONE)?;
                self.remove_attribute(GENERATION)?;
            }
        }
        rustix::fs::fsync(&self.root)
    }
}

/// Reads a binding: the UUID of the store, and the handle of the directory if it is valid.
pub(crate) fn decode_binding(bytes: &[u8]) -> Option<([u8; 16], Option<InodeHandle>)> {
    let (store, name) = bytes.split_at_checked(16)?;
    Some((store.try_into().ok()?, InodeHandle::from_name(name)))
}

/// Reads from a file: fewer bytes than the buffer has only at the end of the file.
///
/// # Errors
/// The error of the host, also after some bytes: the kernel takes a short read for the end of the
/// file, and the client would get a file that is too short.
pub(crate) fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    read_whole(buffer, |rest, done| rustix::io::pread(&file, rest, offset + done as u64))
}

/// `read` reads into the rest of the buffer, behind the bytes that are done.
fn read_whole(
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match read(&mut buffer[done..], done) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes to a file. Fewer bytes than given were written if an error came after them.
///
/// # Errors
/// The error of the host, if no byte was written.
pub(crate) fn write_at(file: impl AsFd, data: &[u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < data.len() {
        match rustix::io::pwrite(&file, &data[done..], offset + done as u64) {
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Sets the modification time of a file of the store to now, as a write does. Returns that time in
/// nanoseconds.
///
/// # Errors
/// The error of the host.
pub(crate) fn touch(file: impl AsFd) -> Result<i64, Errno> {
    let part = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    rustix::fs::futimens(
        &file,
        &Timestamps {
            last_access: part(rustix::fs::UTIME_OMIT),
            last_modification: part(rustix::fs::UTIME_NOW),
        },
    )?;
    let stat = rustix::fs::fstat(&file)?;
    Ok(nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64))
}

/// A time of an inode as one number.
pub(crate) fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// True if the store can hold these times: nanoseconds in 64 bits, from the year 1677 to 2262.
pub(crate) fn can_be_stored(times: &Timestamps) -> bool {
    let fits = |time: Timespec| {
        let whole = time.tv_sec.checked_mul(1_000_000_000);
        whole.and_then(|whole| whole.checked_add(time.tv_nsec)).is_some()
    };
    fits(times.last_access) && fits(times.last_modification)
}

/// A path of an open file, for calls that take only paths.
pub(crate) fn by_path(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// The marker of a file that is open in any way.
pub(crate) fn marker(file: impl AsFd) -> Result<MarkerFound, Errno> {
    let mut bytes = [0; MARKER_BYTES + 1];
    match rustix::fs::getxattr(by_path(file), MARKER, &mut bytes) {
        Ok(len) => {
            let marker = bytes.get(..len).and_then(Marker::decode);
            Ok(marker.map_or(MarkerFound::Invalid, MarkerFound::Marker))
        }
        Err(Errno::RANGE) => Ok(MarkerFound::Invalid),
        // File systems without extended attributes have no markers.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(MarkerFound::Nothing),
        Err(e) => Err(e),
    }
}

/// True if the file has capabilities, which a move would remove.
pub(crate) fn has_capabilities(file: impl AsFd) -> bool {
    rustix::fs::fgetxattr_query(file, CAPABILITIES).is_ok()
}

/// Access time and modification time.
pub(crate) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as i64 },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as i64 },
    }
}

#[cfg(test)]
pub(crate) mod tests;
