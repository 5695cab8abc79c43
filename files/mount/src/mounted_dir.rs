//! A mounted directory: the inodes that the kernel knows, and the open files. Every inode belongs
//! to the underlying directory and is found by its handle. Nothing is scanned, and an inode that
//! the kernel forgets is forgotten.

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

/// The inode number of the root, for the kernel.
pub(super) const ROOT: u64 = INodeNo::ROOT.0;

/// An inode that the kernel knows.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct KnownInode {
    ino: u64,
    /// Replies that named the inode, minus those that the kernel has forgotten. At the largest
    /// count the inode stays for good.
    lookups: u32,
}

const _: () = assert!(size_of::<KnownInode>() == 12);

impl InodeRow for KnownInode {
    type Key = u64;

    fn key(&self, _: InodeHandle) -> u64 {
        self.ino
    }
}

/// The inodes that the kernel knows.
#[derive(Debug)]
struct KnownInodes {
    table: InodeTable<KnownInode>,
    /// Inodes without a name that are still in use: open, an `O_PATH` descriptor or a working
    /// directory.
    nameless: FxHashMap<u64, OwnedFd>,
}

#[derive(Debug, Default)]
pub(super) struct Opens {
    count: u64,
    /// The kernel has no cache of the file: each read and write reaches this process.
    uncached: bool,
    /// The kernel reads and writes the file without us. It must treat all opens of an inode like
    /// the first.
    backing: Option<Arc<BackingId>>,
}

/// How a client opens a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenIntent {
    pub(super) writes: bool,
    /// Each write is durable when it ends: with O_DSYNC as after fdatasync (true), with O_SYNC as
    /// after fsync (false).
    pub(super) syncs: Option<bool>,
    /// The inode is append-only (`chattr +a`), so our descriptor has `O_APPEND`, too.
    pub(super) appends: bool,
    /// The bytes of the file were lost when it was opened: its marker names no entry of this store.
    /// The client may empty the file.
    pub(super) lost: bool,
}

impl OpenIntent {
    pub(super) fn of(flags: OFlags) -> Self {
        let writes = !(flags & OFlags::RWMODE).is_empty();
        let syncs = flags.contains(OFlags::DSYNC).then(|| !flags.contains(OFlags::SYNC));
        Self { writes, syncs, appends: false, lost: false }
    }
}

/// One open file of a client.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) handle: InodeHandle,
    pub(super) fd: OwnedFd,
    pub(super) how: OpenIntent,
    pub(super) backing: Option<Arc<BackingId>>,
}

/// One open directory of a client.
#[derive(Debug)]
pub(super) struct OpenDir {
    pub(super) fd: OwnedFd,
    /// One reader at a time: the descriptor has one position.
    pub(super) reading: Mutex<()>,
    /// Why a name was left out since the listing began.
    pub(super) left_out: Mutex<Option<Errno>>,
}

pub(super) struct Admitted {
    pub(super) fh: u64,
    pub(super) backing: Option<Arc<BackingId>>,
    /// The kernel's cache of the file is still valid.
    pub(super) keep_cache: bool,
    /// Reads and writes go to this process, past a cache of the kernel, or although the kernel reads
    /// and writes the file without this process.
    pub(super) direct: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct MountedDir {
    pub(super) groups: GroupedFiles,
    pub(super) shuffler: Shuffler,
    /// The disk of the directory, if it sleeps.
    pub(super) disk: Option<WatchedDisk>,
    nodes: Mutex<KnownInodes>,
    opens: Mutex<FxHashMap<InodeHandle, Opens>>,
    files: Mutex<Slab<Arc<Open>>>,
    dirs: Mutex<Slab<Arc<OpenDir>>>,
    pub(super) passthrough: AtomicBool,
    root: Stat,
}

/// Takes a lock. The data under a lock is consistent between any two steps, also after a panic.
pub(super) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
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
        disk: Option<WatchedDisk>,
    ) -> Result<Self, MountError> {
        let root = rustix::fs::fstat(groups.underlying.root())
            .map_err(cannot("ask for the root's attributes"))?;
        let handle = groups.underlying.handle();
        let mut table = InodeTable::new(handle.shape());
        table.insert(handle, KnownInode { ino: ROOT, lookups: 1 });
        Ok(Self {
            groups,
            shuffler,
            disk,
            nodes: Mutex::new(KnownInodes { table, nameless: FxHashMap::default() }),
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

    /// Number of inodes that the kernel knows, and of open files.
    pub(super) fn counts(&self) -> (usize, usize) {
        (held(&self.nodes).table.len(), held(&self.files).len())
    }

    pub(super) fn handle(&self, ino: u64) -> Result<InodeHandle, Errno> {
        held(&self.nodes).table.get(ino).map(|(handle, _)| handle).ok_or(Errno::STALE)
    }

    /// Opens an inode that the kernel knows.
    pub(super) fn open_node(&self, ino: u64, flags: OFlags) -> Result<OwnedFd, Errno> {
        let handle = {
            let nodes = held(&self.nodes);
            let (handle, _) = nodes.table.get(ino).ok_or(Errno::STALE)?;
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

    /// The kernel knows this inode from now on.
    pub(super) fn enter(&self, fd: impl AsFd) -> Result<(FileAttr, u64), Errno> {
        let handle = self.groups.underlying.handle_of(fd.as_fd())?;
        let attributes = self.attributes(fd, &handle)?;
        let mut nodes = held(&self.nodes);
        let ino = attributes.ino.0;
        let known = nodes.table.get(ino);
        let lookups = known.map_or(0, |(_, node)| node.lookups).saturating_add(1);
        if known.is_some_and(|(was, _)| was != handle) {
            // The number belongs to a new inode. The kernel still forgets lookups of the old one:
            // the count goes on.
            nodes.nameless.remove(&ino);
        }
        nodes.table.insert(handle, KnownInode { ino, lookups });
        Ok((attributes, handle.id()))
    }

    pub(super) fn forget(&self, ino: u64, lookups: u64) {
        let mut nodes = held(&self.nodes);
        let Some(node) = nodes.table.get_mut(ino).filter(|_| ino != ROOT) else { return };
        if node.lookups < u32::MAX {
            node.lookups = u64::from(node.lookups).saturating_sub(lookups) as u32;
        }
        if node.lookups > 0 {
            return;
        }
        let gone = (nodes.table.remove(ino), nodes.nameless.remove(&ino));
        drop(nodes);
        // No client can use the inode any more: the kernel keeps inodes that are open or have a
        // descriptor.
        if let (Some((handle, _)), Some(_)) = gone {
            self.drop_removed(&handle);
        }
    }

    /// A file without a name is not in use any more.
    fn drop_removed(&self, handle: &InodeHandle) {
        let _lock = self.groups.changing(handle);
        self.groups.forget(handle);
    }

    /// The attributes of an inode for clients.
    pub(super) fn attributes(
        &self,
        fd: impl AsFd,
        handle: &InodeHandle,
    ) -> Result<FileAttr, Errno> {
        // During a move, the size is for a moment neither in the inode nor in the store.
        let _lock = self.groups.reading(handle);
        self.attributes_locked(fd, handle)
    }

    /// The same. The caller holds the lock of the file.
    pub(super) fn attributes_locked(
        &self,
        fd: impl AsFd,
        handle: &InodeHandle,
    ) -> Result<FileAttr, Errno> {
        let s = rustix::fs::fstat(&fd)?;
        if s.st_dev != self.root.st_dev {
            // A subvolume: its inode numbers are not unique here.
            return Err(Errno::XDEV);
        }
        let (mut size, mut blocks) = (s.st_size.unsigned_abs(), s.st_blocks.unsigned_abs());
        // A failed move can leave bytes in the inode of a file of the store.
        if FileType::from_raw_mode(s.st_mode) == FileType::RegularFile
            && let Some(kept) = self.groups.lookup_open(handle, &fd)?
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

    /// True if a client has the file open.
    pub(super) fn is_open(&self, handle: &InodeHandle) -> bool {
        held(&self.opens).contains_key(handle)
    }

    /// A client has opened a file; the caller holds its lock. `grouped`: the group store has the
    /// file. `backing` registers the file with the kernel for reads and writes without us.
    pub(super) fn add_open(
        &self,
        handle: InodeHandle,
        fd: OwnedFd,
        (grouped, how): (bool, OpenIntent),
        backing: impl FnOnce(&OwnedFd) -> Option<BackingId>,
    ) -> Admitted {
        let (first, backing, uncached) = {
            let mut opens = held(&self.opens);
            let open = opens.entry(handle).or_default();
            open.count += 1;
            // The kernel ends a read at its size of the file, 0, and asks nobody. Without a cache it
            // asks, and the client gets an error. A cache for other clients would keep old bytes
            // beside the writes that bypass it.
            open.uncached |= how.lost;
            if open.count == 1 && !grouped && !how.lost {
                open.backing = backing(&fd).map(Arc::new);
            }
            (open.count == 1, open.backing.clone(), open.uncached)
        };
        // The kernel's cache is valid since the first open, and must not be dropped beside a write:
        // a read could put bytes from before the write there, and they would stay.
        let is_valid = !first || grouped && self.groups.is_cached(&handle);
        let keep_cache = is_valid && backing.is_none();
        let direct = uncached || how.appends && backing.is_some();
        let open = Arc::new(Open { handle, fd, how, backing: backing.clone() });
        let fh = held(&self.files).insert(open) as u64;
        Admitted { fh, backing, keep_cache, direct }
    }

    pub(super) fn opened(&self, fh: u64) -> Result<Arc<Open>, Errno> {
        held(&self.files).get(fh as usize).cloned().ok_or(Errno::BADF)
    }

    /// A client has closed an open file.
    pub(super) fn release(&self, fh: u64) {
        let open = held(&self.files).try_remove(fh as usize);
        let Some(open) = open else { return };
        let (handle, how) = (open.handle, open.how);
        if how.writes
            && let Ok(stat) = rustix::fs::fstat(&open.fd)
        {
            let kept = self.groups.peek(&handle).map(|k| k.size.into());
            let size = kept.unwrap_or_else(|| stat.st_size.unsigned_abs());
            self.shuffler.observe(Observed::Written { handle, size });
        }
        let mut opens = held(&self.opens);
        let Some(open) = opens.get_mut(&handle) else { return };
        open.count -= 1;
        // Dropped after the lock: this tells the kernel to stop the passthrough.
        let _last = if open.count == 0 { opens.remove(&handle) } else { None };
        drop(opens);
    }

    /// A name of this inode was removed.
    pub(super) fn name_removed(&self, fd: OwnedFd) {
        let Ok(stat) = rustix::fs::fstat(&fd) else { return };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_nlink > 0 && !is_directory {
            return;
        }
        let Ok(handle) = self.groups.underlying.handle_of(fd.as_fd()) else { return };
        let known = {
            let (ino, mut nodes) = (self.number(stat.st_ino), held(&self.nodes));
            let known = nodes.table.get(ino).is_some_and(|(known, _)| known == handle);
            if known {
                nodes.nameless.insert(ino, fd);
            }
            known
        };
        if is_directory {
            return;
        }
        if !known {
            self.drop_removed(&handle);
        }
        self.shuffler.observe(Observed::Removed(handle));
    }

    /// The kernel forgets all inodes: the store drops those without a name.
    pub(super) fn forget_all(&self) {
        let nodes = &mut *held(&self.nodes);
        for ino in std::mem::take(&mut nodes.nameless).into_keys() {
            if let Some((handle, _)) = nodes.table.get(ino) {
                self.groups.forget(&handle);
            }
        }
    }

    pub(super) fn open_dir(&self, ino: u64) -> Result<u64, Errno> {
        let fd = self.open_node(ino, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let dir = OpenDir { fd, reading: Mutex::default(), left_out: Mutex::default() };
        Ok(held(&self.dirs).insert(Arc::new(dir)) as u64)
    }

    pub(super) fn opened_dir(&self, fh: u64) -> Result<Arc<OpenDir>, Errno> {
        held(&self.dirs).get(fh as usize).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn release_dir(&self, fh: u64) {
        held(&self.dirs).try_remove(fh as usize);
    }
}
