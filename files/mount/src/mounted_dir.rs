//! A mounted directory: the inodes that the kernel knows, and the files that are open. Every inode is one of the other
//! module's, found by its handle; nothing is walked, and what the kernel forgets is forgotten.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{BackingId, FileAttr, FileType as Kind, INodeNo};
use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use slab::Slab;

use crate::disk_watch::WatchedDisk;
use crate::error::MountError;
use crate::grouped_files::GroupedFiles;
use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::shuffle::{Observed, Shuffler};
use seekless_host::cannot;

/// The root's number, for the kernel.
pub(super) const ROOT: u64 = INodeNo::ROOT.0;

/// An inode that the kernel knows.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct Node {
    ino: u64,
    /// Answers that named it, less those that the kernel has forgotten. Once as many as can be counted, it stays.
    lookups: u32,
}

const _: () = assert!(size_of::<Node>() == 12);

impl InodeRow for Node {
    type Key = u64;

    fn key(&self, _: InodeHandle) -> u64 {
        self.ino
    }
}

/// The inodes that the kernel knows.
#[derive(Debug)]
struct Nodes {
    rows: InodeTable<Node>,
    /// Of those without a name: whoever still has one, open or not (`O_PATH`, a working directory), goes on using it.
    nameless: FxHashMap<u64, OwnedFd>,
}

/// An inode that is open.
#[derive(Debug, Default)]
pub(super) struct Opens {
    count: u64,
    /// The kernel reads and writes it by itself. What it does for the first who opens an inode it must do for the others.
    backing: Option<Arc<BackingId>>,
}

/// A file that a client has open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) handle: InodeHandle,
    pub(super) fd: OwnedFd,
    pub(super) writes: bool,
    _backing: Option<Arc<BackingId>>,
}

/// A directory that a client has open.
#[derive(Debug)]
pub(super) struct OpenDir {
    pub(super) fd: OwnedFd,
    /// One reader at a time: the descriptor has one place.
    pub(super) reading: Mutex<()>,
}

/// How an opened file is answered.
pub(super) struct Admitted {
    pub(super) fh: u64,
    pub(super) backing: Option<Arc<BackingId>>,
    /// What the kernel has cached of it is still true.
    pub(super) keep: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct MountedDir {
    pub(super) groups: GroupedFiles,
    pub(super) shuffler: Shuffler,
    /// The directory's disk, if it is known to sleep.
    pub(super) rest: Option<WatchedDisk>,
    nodes: Mutex<Nodes>,
    opens: Mutex<FxHashMap<InodeHandle, Opens>>,
    files: Mutex<Slab<Arc<Open>>>,
    dirs: Mutex<Slab<Arc<OpenDir>>>,
    pub(super) passthrough: AtomicBool,
    root: Stat,
}

pub(super) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a lock holds is whole between any two steps.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = if seconds >= 0 {
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds.unsigned_abs()))
    } else {
        UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs()))
    };
    let part = Duration::from_nanos(nanoseconds);
    whole.and_then(|t| t.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

pub(super) fn kind(mode: u32) -> Kind {
    match FileType::from_raw_mode(mode) {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::NamedPipe,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::RegularFile,
    }
}

impl MountedDir {
    pub(super) fn new(
        groups: GroupedFiles,
        shuffler: Shuffler,
        rest: Option<WatchedDisk>,
    ) -> Result<Self, MountError> {
        let root = rustix::fs::fstat(groups.underlying.root())
            .map_err(cannot("ask for the root's attributes"))?;
        let handle = groups.underlying.handle();
        let mut rows = InodeTable::new(handle.shape());
        rows.insert(handle, Node { ino: ROOT, lookups: 1 });
        Ok(Self {
            groups,
            shuffler,
            rest,
            nodes: Mutex::new(Nodes { rows, nameless: FxHashMap::default() }),
            opens: Mutex::default(),
            files: Mutex::default(),
            dirs: Mutex::default(),
            passthrough: AtomicBool::new(false),
            root,
        })
    }

    /// The kernel's number of an inode.
    pub(super) const fn number(&self, ino: u64) -> u64 {
        if ino == self.root.st_ino { ROOT } else { ino }
    }

    /// Inodes that the kernel knows, and files that are open.
    pub(super) fn known(&self) -> (usize, usize) {
        (held(&self.nodes).rows.len(), held(&self.files).len())
    }

    pub(super) fn handle(&self, ino: u64) -> Result<InodeHandle, Errno> {
        held(&self.nodes).rows.get(ino).map(|(handle, _)| handle).ok_or(Errno::STALE)
    }

    /// Opens an inode that the kernel knows.
    pub(super) fn open_node(&self, ino: u64, flags: OFlags) -> Result<OwnedFd, Errno> {
        let handle = {
            let nodes = held(&self.nodes);
            let (handle, _) = nodes.rows.get(ino).ok_or(Errno::STALE)?;
            if let Some(fd) = nodes.nameless.get(&ino) {
                if flags == OFlags::PATH {
                    return fd
                        .try_clone()
                        .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::MFILE));
                }
                let path = crate::underlying::by_path(fd);
                return rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
            }
            handle
        };
        let flags = if flags == OFlags::PATH { flags | OFlags::NOFOLLOW } else { flags };
        self.groups.underlying.open_handle(&handle, flags)
    }

    /// An inode that has just been found: from now on the kernel knows it.
    pub(super) fn enter(&self, fd: impl AsFd) -> Result<(FileAttr, u64), Errno> {
        let handle = self.groups.underlying.handle_of(fd.as_fd())?;
        let attributes = self.attributes(fd, &handle)?;
        let mut nodes = held(&self.nodes);
        let ino = attributes.ino.0;
        let known = nodes.rows.get(ino);
        let lookups = known.map_or(0, |(_, node)| node.lookups).saturating_add(1);
        if known.is_some_and(|(was, _)| was != handle) {
            // The number is used again, for another inode; what the kernel has yet to forget of the old one counts on.
            nodes.nameless.remove(&ino);
        }
        nodes.rows.insert(handle, Node { ino, lookups });
        Ok((attributes, handle.id()))
    }

    pub(super) fn forget(&self, ino: u64, lookups: u64) {
        let mut nodes = held(&self.nodes);
        let Some(node) = nodes.rows.get_mut(ino).filter(|_| ino != ROOT) else { return };
        if node.lookups < u32::MAX {
            node.lookups = u64::from(node.lookups).saturating_sub(lookups) as u32;
        }
        if node.lookups > 0 {
            return;
        }
        let gone = (nodes.rows.remove(ino), nodes.nameless.remove(&ino));
        drop(nodes);
        // Nobody can use it any more: the kernel remembers what is open or a descriptor's.
        if let (Some((handle, _)), Some(_)) = gone {
            self.no_more(&handle);
        }
    }

    /// An inode without a name is no more.
    fn no_more(&self, handle: &InodeHandle) {
        let _lock = self.groups.changing(handle);
        self.groups.forget(handle);
    }

    /// What the client sees of an inode.
    pub(super) fn attributes(
        &self,
        fd: impl AsFd,
        handle: &InodeHandle,
    ) -> Result<FileAttr, Errno> {
        // On its way between the modules a file's size is in neither for a moment.
        let _lock = self.groups.reading(handle);
        self.attributes_locked(fd, handle)
    }

    /// The same, by whoever holds its lock.
    pub(super) fn attributes_locked(
        &self,
        fd: impl AsFd,
        handle: &InodeHandle,
    ) -> Result<FileAttr, Errno> {
        let s = rustix::fs::fstat(&fd)?;
        if s.st_dev != self.root.st_dev {
            // A subvolume: its inodes have numbers that others have too.
            return Err(Errno::XDEV);
        }
        let (mut size, mut blocks) = (s.st_size.unsigned_abs(), s.st_blocks.unsigned_abs());
        if size == 0
            && FileType::from_raw_mode(s.st_mode) == FileType::RegularFile
            && let Some(kept) = self.groups.kept_of(handle, &fd)?
        {
            size = kept.size.into();
            blocks = size.div_ceil(512);
        }
        Ok(FileAttr {
            ino: INodeNo(self.number(s.st_ino)),
            size,
            blocks,
            atime: time(s.st_atime, s.st_atime_nsec),
            mtime: time(s.st_mtime, s.st_mtime_nsec),
            ctime: time(s.st_ctime, s.st_ctime_nsec),
            crtime: UNIX_EPOCH,
            kind: kind(s.st_mode),
            perm: (s.st_mode & 0o7777) as u16,
            nlink: s.st_nlink as u32,
            uid: s.st_uid,
            gid: s.st_gid,
            rdev: s.st_rdev as u32,
            blksize: s.st_blksize as u32,
            flags: 0,
        })
    }

    /// Whether a client has it open.
    pub(super) fn is_open(&self, handle: &InodeHandle) -> bool {
        held(&self.opens).contains_key(handle)
    }

    /// A client has opened a file; its lock is held. `here`: the group store has it. `backing` has the kernel do what can be
    /// done without us.
    pub(super) fn admit(
        &self,
        handle: InodeHandle,
        fd: OwnedFd,
        (here, writes): (bool, bool),
        backing: impl FnOnce(&OwnedFd) -> Option<BackingId>,
    ) -> Admitted {
        let backing = {
            let mut opens = held(&self.opens);
            let open = opens.entry(handle).or_default();
            open.count += 1;
            if open.count == 1 && !here {
                open.backing = backing(&fd).map(Arc::new);
            }
            open.backing.clone()
        };
        let keep = here && self.groups.is_cached(&handle);
        let open = Arc::new(Open { handle, fd, writes, _backing: backing.clone() });
        let fh = held(&self.files).insert(open) as u64;
        Admitted { fh, backing, keep }
    }

    pub(super) fn opened(&self, fh: u64) -> Result<Arc<Open>, Errno> {
        held(&self.files).get(fh as usize).cloned().ok_or(Errno::BADF)
    }

    /// A client has closed a file for good.
    pub(super) fn release(&self, fh: u64) {
        let open = held(&self.files).try_remove(fh as usize);
        let Some(open) = open else { return };
        let handle = open.handle;
        if open.writes
            && let Ok(stat) = rustix::fs::fstat(&open.fd)
        {
            self.shuffler.saw(Observed::Written { handle, size: stat.st_size.unsigned_abs() });
        }
        let mut opens = held(&self.opens);
        let Some(open) = opens.get_mut(&handle) else { return };
        open.count -= 1;
        // Dropped behind the lock: the kernel is told that it need not pass it through any more.
        let _last = if open.count == 0 { opens.remove(&handle) } else { None };
        drop(opens);
    }

    /// A name of this inode was taken away.
    pub(super) fn lost_a_name(&self, fd: OwnedFd) {
        let Ok(stat) = rustix::fs::fstat(&fd) else { return };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_nlink > 0 && !is_directory {
            return;
        }
        let Ok(handle) = self.groups.underlying.handle_of(fd.as_fd()) else { return };
        let known = {
            let (ino, mut nodes) = (self.number(stat.st_ino), held(&self.nodes));
            let known = nodes.rows.get(ino).is_some_and(|(known, _)| known == handle);
            if known {
                nodes.nameless.insert(ino, fd);
            }
            known
        };
        if is_directory {
            return;
        }
        if !known {
            self.no_more(&handle);
        }
        self.shuffler.saw(Observed::Gone(handle));
    }

    /// The kernel knows no inode any more: those without a name are gone from the group store too.
    pub(super) fn forget_all(&self) {
        let nodes = &mut *held(&self.nodes);
        for ino in std::mem::take(&mut nodes.nameless).into_keys() {
            if let Some((handle, _)) = nodes.rows.get(ino) {
                self.groups.forget(&handle);
            }
        }
    }

    pub(super) fn open_dir(&self, ino: u64) -> Result<u64, Errno> {
        let fd = self.open_node(ino, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(held(&self.dirs).insert(Arc::new(OpenDir { fd, reading: Mutex::new(()) })) as u64)
    }

    pub(super) fn opened_dir(&self, fh: u64) -> Result<Arc<OpenDir>, Errno> {
        held(&self.dirs).get(fh as usize).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn release_dir(&self, fh: u64) {
        held(&self.dirs).try_remove(fh as usize);
    }
}
