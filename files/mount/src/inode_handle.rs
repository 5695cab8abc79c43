//! Handles of inodes, independent of file names: the file handle of the kernel holds the inode
//! number and its generation. The handle of a removed inode is stale, and never leads to another
//! file.

use std::hash::{BuildHasher as _, BuildHasherDefault};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustc_hash::FxHasher;
use rustix::fs::OFlags;
use rustix::io::Errno;

use seekless_host::sys;

/// Length of the longest handle in bytes: ext2 to ext4 and F2FS have 8 bytes, XFS and tmpfs 12,
/// Btrfs 20.
const BYTES_MAX: usize = 22;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InodeHandle {
    kind: u8,
    len: u8,
    bytes: [u8; BYTES_MAX],
}

/// The form that all handles of a mounted file system share: kind and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    kind: u8,
    len: u8,
}

impl Shape {
    /// Length of a handle in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.len.into()
    }

    /// The handle of this shape with these bytes.
    pub(crate) fn handle(self, bytes: &[u8]) -> Option<InodeHandle> {
        InodeHandle::new(self.kind, bytes)
    }
}

impl InodeHandle {
    /// The handle of an open file.
    ///
    /// # Errors
    /// `OPNOTSUPP` if the file system has no handles, or longer ones.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let (kind, bytes) = sys::file_handle(file)?;
        let kind = u8::try_from(kind).map_err(|_| Errno::OPNOTSUPP)?;
        Self::new(kind, &bytes).ok_or(Errno::OPNOTSUPP)
    }

    fn new(kind: u8, from: &[u8]) -> Option<Self> {
        let mut bytes = [0; BYTES_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self { kind, len: from.len() as u8, bytes })
    }

    pub(crate) const fn shape(&self) -> Shape {
        Shape { kind: self.kind, len: self.len }
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    /// Opens the inode on the file system of `mount`.
    ///
    /// # Errors
    /// `STALE` if the inode was removed, and also if the disk cannot read the inode: the kernel tells
    /// no difference.
    pub(crate) fn open(&self, mount: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        sys::open_handle(mount, self.kind.into(), self.data(), flags)
    }

    /// The form in the group store: the kind, then the bytes.
    pub(crate) fn to_name(self) -> Vec<u8> {
        let mut name = vec![self.kind];
        name.extend_from_slice(self.data());
        name
    }

    /// Reads the form of the group store.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        let (kind, bytes) = name.split_first()?;
        Self::new(*kind, bytes)
    }

    /// A hash of the handle: the number of the file in the learner, and the generation of the inode
    /// for the kernel.
    pub(crate) fn id(&self) -> u64 {
        BuildHasherDefault::<FxHasher>::default().hash_one(self)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_handle_is_read_back_and_invalid_bytes_are_refused() {
        let file = std::fs::File::open(std::env::temp_dir()).unwrap();
        let handle = InodeHandle::of(file.as_fd()).unwrap();
        assert_eq!(InodeHandle::from_name(&handle.to_name()), Some(handle));
        assert_eq!(InodeHandle::from_name(&[]), None);
        assert_eq!(InodeHandle::from_name(&[1; BYTES_MAX + 2]), None);
    }
}
