//! What names an inode of the other module, whatever becomes of its names: the kernel's file handle, which holds the
//! inode's number and a count of its lives. One that was removed is stale, and never another file.

use std::hash::{BuildHasher as _, BuildHasherDefault};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustc_hash::FxHasher;
use rustix::fs::OFlags;
use rustix::io::Errno;

use seekless_host::sys;

/// Longest handle: ext2 to ext4 and F2FS have 8 bytes, XFS and tmpfs 12, Btrfs 20.
const BYTES_MAX: usize = 22;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InodeHandle {
    kind: u8,
    len: u8,
    bytes: [u8; BYTES_MAX],
}

/// What all handles of a file system have in common, as it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    kind: u8,
    len: u8,
}

impl Shape {
    /// How many bytes they have.
    pub(crate) fn bytes(self) -> usize {
        self.len.into()
    }

    /// The handle of this shape that has these bytes.
    pub(crate) fn handle(self, bytes: &[u8]) -> Option<InodeHandle> {
        InodeHandle::new(self.kind, bytes)
    }
}

impl InodeHandle {
    /// Of an open file.
    ///
    /// # Errors
    /// `OPNOTSUPP` where its file system has no handles, or longer ones.
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

    /// Opens it on the file system that `mount` is open on.
    ///
    /// # Errors
    /// `STALE` where it is gone.
    pub(crate) fn open(&self, mount: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        sys::open_handle(mount, self.kind.into(), self.data(), flags)
    }

    /// As the group store keeps it: its kind, then its bytes.
    pub(crate) fn to_name(self) -> Vec<u8> {
        let mut name = vec![self.kind];
        name.extend_from_slice(self.data());
        name
    }

    /// From what a group store kept.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        let (kind, bytes) = name.split_first()?;
        Self::new(*kind, bytes)
    }

    /// A number for it: the learner's name of the file, and what tells two lives of an inode apart.
    pub(crate) fn id(&self) -> u64 {
        BuildHasherDefault::<FxHasher>::default().hash_one(self)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_name_is_read_back_and_bytes_that_are_none_are_refused() {
        let file = tempfile();
        let handle = InodeHandle::of(file.as_fd()).unwrap();
        assert_eq!(InodeHandle::from_name(&handle.to_name()), Some(handle));
        assert_eq!(InodeHandle::from_name(&[]), None);
        assert_eq!(InodeHandle::from_name(&[1; BYTES_MAX + 2]), None);
    }

    fn tempfile() -> OwnedFd {
        let dir = std::env::temp_dir();
        rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, rustix::fs::Mode::empty())
            .unwrap()
    }
}
