//! A directory and its store compared with each other, while they are not mounted: every entry of
//! the store with the inode that it names, every empty file of the directory with the store.
//! Nothing is changed.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use seekless_host::{FileDevice, HostError, Opened, cannot_at};
use seekless_store::{Config, Examined, FileNumber, FileState, GroupStore, examine};

use crate::error::MountError;
use crate::underlying::{self, Marker, MarkerFound, UnderlyingDir};

/// Size of the buffer for entries of a directory.
const ENTRIES_BYTES: usize = 32 << 10;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The store by itself: every group was read.
    pub store: Examined,
    /// Number of files in the directory.
    pub files: u64,
    /// Number of these files whose bytes are in the store.
    pub grouped: u64,
    /// Number of files that a crash left between the two; the next mount settles them.
    pub unsettled: u64,
    /// Entries without a marker: files that were removed, or are underlying. A mount drops them
    /// as it meets them, those of removed inodes when all files move back.
    pub dead: u64,
    /// No other directory can have files in the store.
    pub alone: bool,
    /// Files whose bytes are in a group that is damaged, or that cannot be read.
    pub damaged: Vec<PathBuf>,
    /// Files with a marker but without an entry: their bytes are lost, or in another store.
    pub lost: Vec<PathBuf>,
    /// Files of the store that were written without the mount.
    pub written: Vec<PathBuf>,
}

impl Checked {
    /// True if every file has its bytes in exactly one of the two.
    pub const fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.lost.is_empty() && self.written.is_empty()
    }
}

/// Compares a directory and its store. `walked` is called with the number of files seen so far.
///
/// # Errors
/// One of the two cannot be read, is mounted, or does not belong to the other.
pub fn check(dir: &Path, store: &Path, walked: &mut dyn FnMut(u64)) -> Result<Checked, MountError> {
    let attach =
        |source| MountError::GroupStore { path: store.to_owned(), source: Box::new(source) };
    let mut device = FileDevice::new(Opened::path(store, true)?);
    let mut found = Checked { store: examine(&mut device).map_err(attach)?, ..Checked::default() };
    let group_store = GroupStore::attach(&mut device, Config::default()).map_err(attach)?;
    let underlying = UnderlyingDir::open(dir)?;
    let (binding, is_older) = (underlying.binding(), underlying.is_newer_than(&group_store));
    let is_older = is_older.map_err(cannot_at(dir, "read its extended attributes"))?;
    match binding.map_err(cannot_at(dir, "read its extended attributes"))? {
        Some((uuid, true)) if uuid == group_store.uuid() && is_older => {
            let why = underlying::OLDER_STORE.to_owned();
            return Err(HostError::Refused { path: dir.to_owned(), why }.into());
        }
        Some((uuid, true)) if uuid == group_store.uuid() => {}
        None if group_store.file_count() == 0 => {}
        _ => {
            let why = format!("is not the directory of the group store {}", store.display());
            return Err(HostError::Refused { path: dir.to_owned(), why }.into());
        }
    }
    let alone = underlying.is_alone(group_store.uuid());
    found.alone = alone.map_err(cannot_at(dir, "read its extended attributes"))?;
    let grouped = check_entries(&underlying, &group_store, &mut found)?;
    let damaged: FxHashSet<FileNumber> =
        found.store.damaged.iter().flat_map(|(_, files)| files.iter().copied()).collect();
    let mut look = |path: &Path, fd: &OwnedFd, stat: &Stat| {
        found.files += 1;
        if found.files.is_multiple_of(1024) {
            walked(found.files);
        }
        check_inode(path, fd, stat, (&grouped, &damaged), &mut found)
    };
    walk(&underlying, &mut look)
        .map_err(|(path, e)| cannot_at(&dir.join(path), "look at it")(e))?;
    Ok(found)
}

/// Files of the store by inode number, each with its number in the store; true if the file is
/// settled.
type Grouped = FxHashMap<u64, (FileNumber, bool)>;

/// Compares every entry of the store with the inode that it names. Returns the entries whose inodes
/// have the marker.
fn check_entries(
    underlying: &UnderlyingDir,
    group_store: &GroupStore,
    found: &mut Checked,
) -> Result<Grouped, HostError> {
    let dir = underlying.path();
    let mut grouped = FxHashMap::default();
    for (number, file) in group_store.files() {
        let handle = underlying.handle_named(&file.name);
        let fd = match handle.map(|h| underlying.open_handle(&h, OFlags::PATH)) {
            Some(Ok(fd)) => fd,
            Some(Err(Errno::STALE | Errno::NOENT)) | None => {
                found.dead += 1;
                continue;
            }
            Some(Err(e)) => return Err(cannot_at(dir, "open an inode in it")(e)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(cannot_at(dir, "look at an inode in it"))?;
        let expected = Marker { store: group_store.uuid(), file: number, ino: stat.st_ino };
        let marker = underlying::marker(&fd).map_err(cannot_at(dir, "look for a marker in it"))?;
        let settled = file.state == FileState::Settled;
        found.unsettled += u64::from(!settled);
        if marker == MarkerFound::Marker(expected) {
            grouped.insert(stat.st_ino, (number, settled));
        } else if settled {
            found.dead += 1;
        }
    }
    Ok(grouped)
}

/// Compares an inode of the directory with the entries of the store.
fn check_inode(
    path: &Path,
    fd: &OwnedFd,
    stat: &Stat,
    (grouped, damaged): (&Grouped, &FxHashSet<FileNumber>),
    found: &mut Checked,
) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let entry = grouped.get(&stat.st_ino);
    if stat.st_size > 0 {
        match entry {
            Some((_, true)) => found.written.push(path.to_owned()),
            Some((number, false)) if damaged.contains(number) => {
                found.damaged.push(path.to_owned());
            }
            _ => {}
        }
        return Ok(());
    }
    match (entry, underlying::marker(fd)?) {
        (Some((number, _)), _) => {
            found.grouped += 1;
            if damaged.contains(number) {
                found.damaged.push(path.to_owned());
            }
        }
        (None, MarkerFound::Nothing) => {}
        (None, _) => found.lost.push(path.to_owned()),
    }
    Ok(())
}

/// Calls `look` with every inode below the directory, once for each of its names.
pub(crate) fn walk(
    underlying: &UnderlyingDir,
    look: &mut dyn FnMut(&Path, &OwnedFd, &Stat) -> Result<(), Errno>,
) -> Result<(), (PathBuf, Errno)> {
    let mut left = vec![(PathBuf::new(), underlying.handle())];
    while let Some((dir, handle)) = left.pop() {
        let of = |e: Errno| (dir.clone(), e);
        // By its handle: a path from the root can be longer than the kernel takes.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let fd = underlying.open_handle(&handle, flags).map_err(of)?;
        let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
        let mut entries = RawDir::new(&fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(of)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = dir.join(name);
            let of = |e: Errno| (path.clone(), e);
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inode = rustix::fs::openat(&fd, name, flags, Mode::empty()).map_err(of)?;
            let stat = rustix::fs::statat(&inode, "", AtFlags::EMPTY_PATH).map_err(of)?;
            look(&path, &inode, &stat).map_err(of)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let handle = underlying.handle_of(inode.as_fd()).map_err(of)?;
                left.push((path, handle));
            }
        }
    }
    Ok(())
}
