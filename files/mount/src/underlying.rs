//! The other module of EEFS: a directory of an existing file system. It is reached past every mount over it or in it,
//! through a mount of its own that nobody else sees. Here are markers, and what else is done to inodes there without a
//! client's asking.
//!
//! A *marker* is the extended attribute [`MARKER`] of an inode without bytes: the store's UUID, the file's number, the
//! inode's number. The directory itself carries [`BINDING`]: the store's UUID and the directory's own handle, so that no
//! store is used with another directory, and no copy of a directory is taken for it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, StatVfs, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use seekless_host::HostError;
use seekless_store::FileNumber;

use crate::error::MountError;
use crate::inode_handle::InodeHandle;

/// Of a file that the group store has.
pub(crate) const MARKER: &str = "trusted.seekless.group";
/// Of the directory.
pub(crate) const BINDING: &str = "trusted.seekless.store";
/// What its file may do as a program. The kernel takes it away where anybody writes or cuts the file, be it root.
pub(crate) const CAPABILITIES: &str = "security.capability";
/// Bytes of a marker.
const MARKER_BYTES: usize = 32;

/// What a marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) store: [u8; 16],
    pub(crate) file: FileNumber,
    /// A marker that was copied along with its file, by whoever copies extended attributes, is not at its inode.
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

    /// `None` where the bytes are no marker.
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

/// What stands where a marker would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerFound {
    Nothing,
    Marker(Marker),
    /// An attribute of that name which is no marker.
    Nonsense,
}

/// What is done to an inode so that its file has a place, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeStep {
    Marked,
    Unmarked,
    Cut,
    Filled,
    Synced,
    /// Of all.
    AllSynced,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct UnderlyingDir {
    path: PathBuf,
    root: OwnedFd,
    handle: InodeHandle,
    /// The order of steps, for tests, which stop at any of them.
    #[cfg(test)]
    pub(crate) steps: crate::grouped_files::tests::Steps,
    /// Its mount lives as long as this.
    _tree: OwnedFd,
}

impl UnderlyingDir {
    /// Opens a directory.
    ///
    /// # Errors
    /// Where it is none, or its file system has no file handles or no `trusted` extended attributes, or we may not
    /// use them.
    pub(crate) fn open(path: &Path) -> Result<Self, MountError> {
        let fail = |what| {
            move |e: Errno| HostError::Path { path: path.to_owned(), what, source: e.into() }
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(rustix::fs::CWD, path, flags)
            .map_err(fail("mount it where nobody else sees it; this needs root"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&tree, ".", flags, Mode::empty())
            .map_err(fail("open it as a directory"))?;
        let handle = InodeHandle::of(root.as_fd())
            .map_err(fail("get a file handle on it; its file system may have none"))?;
        handle
            .open(root.as_fd(), OFlags::PATH)
            .map_err(fail("open it by its file handle; this needs CAP_DAC_READ_SEARCH"))?;
        Ok(Self {
            path: path.to_owned(),
            root,
            handle,
            #[cfg(test)]
            steps: crate::grouped_files::tests::Steps::default(),
            _tree: tree,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Of the directory itself.
    pub(crate) const fn handle(&self) -> InodeHandle {
        self.handle
    }

    /// Of an open file of its file system.
    ///
    /// # Errors
    /// `OPNOTSUPP` where it is not like the directory's own: all handles of a mounted file system are alike, in those that are known.
    pub(crate) fn handle_of(&self, file: BorrowedFd<'_>) -> Result<InodeHandle, Errno> {
        InodeHandle::of(file).and_then(|h| self.alike(h).ok_or(Errno::OPNOTSUPP))
    }

    /// From what a group store kept; `None` where it is no handle of this file system.
    pub(crate) fn handle_named(&self, name: &[u8]) -> Option<InodeHandle> {
        InodeHandle::from_name(name).and_then(|h| self.alike(h))
    }

    fn alike(&self, handle: InodeHandle) -> Option<InodeHandle> {
        (handle.shape() == self.handle.shape()).then_some(handle)
    }

    pub(crate) fn open_handle(
        &self,
        handle: &InodeHandle,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        handle.open(self.root.as_fd(), flags | OFlags::CLOEXEC)
    }

    /// Makes all that was told to its file system durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        self.may()?;
        rustix::fs::syncfs(&self.root)?;
        self.did(InodeStep::AllSynced, self.root())
    }

    /// Whether a step may be done: tests stop before any of them, as a process does that is killed.
    #[cfg(test)]
    fn may(&self) -> Result<(), Errno> {
        self.steps.may()
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests stop at steps")]
    const fn may(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// It was done.
    #[cfg(test)]
    fn did(&self, step: InodeStep, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.steps.did(step, InodeHandle::of(file)?);
        Ok(())
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests note steps")]
    const fn did(&self, _: InodeStep, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes an inode and its bytes durable.
    pub(crate) fn sync_file(&self, file: impl AsFd) -> Result<(), Errno> {
        self.may()?;
        rustix::fs::fsync(&file)?;
        self.did(InodeStep::Synced, file.as_fd())
    }

    /// Sets a marker, which takes effect at once, and durably after the file's next sync.
    pub(crate) fn set_marker(&self, file: impl AsFd, marker: &Marker) -> Result<(), Errno> {
        self.may()?;
        rustix::fs::fsetxattr(&file, MARKER, &marker.encode(), XattrFlags::empty())?;
        self.did(InodeStep::Marked, file.as_fd())
    }

    /// Takes a marker away.
    pub(crate) fn clear_marker(&self, file: impl AsFd) -> Result<(), Errno> {
        self.may()?;
        match rustix::fs::fremovexattr(&file, MARKER) {
            Ok(()) | Err(Errno::NODATA) => self.did(InodeStep::Unmarked, file.as_fd()),
            failed => failed,
        }
    }

    /// Cuts a file to no bytes; its times stay.
    pub(crate) fn cut(&self, file: impl AsFd, times: &Timestamps) -> Result<(), Errno> {
        let file = file.as_fd();
        self.may()?;
        rustix::fs::ftruncate(file, 0)?;
        rustix::fs::futimens(file, times)?;
        self.did(InodeStep::Cut, file)
    }

    /// Gives an empty file its bytes, durably; its times stay.
    pub(crate) fn fill(&self, file: &File, data: &[u8], times: &Timestamps) -> Result<(), Errno> {
        self.may()?;
        file.write_all_at(data, 0).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        rustix::fs::futimens(file, times)?;
        self.did(InodeStep::Filled, file.as_fd())?;
        self.sync_file(file)
    }

    /// Room, and limits.
    pub(crate) fn statvfs(&self) -> Result<StatVfs, Errno> {
        rustix::fs::fstatvfs(&self.root)
    }

    /// The store that this directory belongs to, and whether this is the directory that was bound to it.
    ///
    /// # Errors
    /// The host's word.
    pub(crate) fn binding(&self) -> Result<Option<([u8; 16], bool)>, Errno> {
        let mut bytes = [0; 64];
        match rustix::fs::fgetxattr(&self.root, BINDING, &mut bytes) {
            Err(Errno::NODATA) => Ok(None),
            Err(e) => Err(e),
            Ok(len) => {
                let (store, handle) = bytes.get(..len).and_then(bound).ok_or(Errno::IO)?;
                Ok(Some((store, handle == Some(self.handle))))
            }
        }
    }

    /// Binds it to a store, or to none.
    pub(crate) fn bind(&self, store: Option<[u8; 16]>) -> Result<(), Errno> {
        match store {
            Some(uuid) => {
                let mut bytes = uuid.to_vec();
                bytes.extend(self.handle.to_name());
                rustix::fs::fsetxattr(&self.root, BINDING, &bytes, XattrFlags::empty())?;
            }
            None => rustix::fs::fremovexattr(&self.root, BINDING)?,
        }
        rustix::fs::fsync(&self.root)
    }
}

/// What a binding says: the store, and the directory's handle if it is one.
pub(crate) fn bound(bytes: &[u8]) -> Option<([u8; 16], Option<InodeHandle>)> {
    let (store, name) = bytes.split_at_checked(16)?;
    Some((store.try_into().ok()?, InodeHandle::from_name(name)))
}

/// The path under which an open file can be found again, whatever it was opened for: some calls take nothing else.
pub(crate) fn by_path(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// What a file has for a marker; any descriptor will do.
pub(crate) fn marker(file: impl AsFd) -> Result<MarkerFound, Errno> {
    let mut bytes = [0; MARKER_BYTES + 1];
    match rustix::fs::getxattr(by_path(file), MARKER, &mut bytes) {
        Ok(len) => {
            let marker = bytes.get(..len).and_then(Marker::decode);
            Ok(marker.map_or(MarkerFound::Nonsense, MarkerFound::Marker))
        }
        Err(Errno::RANGE) => Ok(MarkerFound::Nonsense),
        // File systems without extended attributes have no markers.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(MarkerFound::Nothing),
        Err(e) => Err(e),
    }
}

/// Whether moving a file would take away what it may do.
pub(crate) fn has_capabilities(file: impl AsFd) -> bool {
    rustix::fs::fgetxattr_query(file, CAPABILITIES).is_ok()
}

/// When a file was last read and written.
pub(crate) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as i64 },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as i64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_back_and_other_bytes_are_none() {
        let marker = Marker { store: [7; 16], file: FileNumber(0x0102_0304_0506_0708), ino: 99 };
        assert_eq!(Marker::decode(&marker.encode()), Some(marker));
        assert_eq!(Marker::decode(&marker.encode()[1..]), None);
        assert_eq!(Marker::decode(&[0; MARKER_BYTES + 1]), None);
    }
}
