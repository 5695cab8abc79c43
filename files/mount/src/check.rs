//! Both modules held against each other, while nobody has them mounted: every entry of the store against the inode it
//! names, every empty file of the directory against the store. Nothing is changed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use seekless_host::{FileDevice, HostError, Opened};
use seekless_store::{Config, Examined, FileNumber, FileState, GroupStore, examine};

use crate::error::MountError;
use crate::underlying::{self, Marker, MarkerFound, UnderlyingDir};

/// Room for entries of a directory.
const ENTRIES_BYTES: usize = 32 << 10;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Of the store by itself: every group was read.
    pub store: Examined,
    /// Files of the directory.
    pub files: u64,
    /// Of these, those whose bytes the store has.
    pub grouped: u64,
    /// Files that a crash left on their way; the next mount decides about them.
    pub on_their_way: u64,
    /// Entries without a marker: files that were removed, or are underlying. The next mount drops them as it meets them.
    pub dead: u64,
    /// Files whose bytes are in a group that is damaged.
    pub damaged: Vec<PathBuf>,
    /// Files with a marker for which the store has no entry: their bytes are gone, or in another store.
    pub lost: Vec<PathBuf>,
    /// Files that the store has and that were written without the mount.
    pub written: Vec<PathBuf>,
}

impl Checked {
    /// Whether every file has its bytes, in one place.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.lost.is_empty() && self.written.is_empty()
    }
}

/// Checks a directory and its store. `walked` hears how many files have been looked at.
///
/// # Errors
/// Where either cannot be read, they do not belong together, or somebody has them mounted.
pub fn check(dir: &Path, store: &Path, walked: &mut dyn FnMut(u64)) -> Result<Checked, MountError> {
    let failed = |path: &Path, what| {
        let path = path.to_owned();
        move |e: Errno| HostError::Path { path, what, source: e.into() }
    };
    let attach =
        |source| MountError::GroupStore { path: store.to_owned(), source: Box::new(source) };
    let mut disk = FileDevice::new(Opened::path(store, true)?);
    let mut found = Checked { store: examine(&mut disk).map_err(attach)?, ..Checked::default() };
    let gfs = GroupStore::attach(&mut disk, Config::default()).map_err(attach)?;
    let underlying = UnderlyingDir::open(dir)?;
    match underlying.binding().map_err(failed(dir, "read its extended attributes"))? {
        Some((uuid, true)) if uuid == gfs.uuid() => {}
        None if gfs.file_count() == 0 => {}
        _ => {
            let why = format!("is not the directory of the group store {}", store.display());
            return Err(HostError::Refused { path: dir.to_owned(), why }.into());
        }
    }
    let damaged: Vec<FileNumber> =
        found.store.damaged.iter().flat_map(|(_, files)| files.iter().copied()).collect();
    // Inodes that the store has, by their numbers.
    let mut grouped = FxHashMap::default();
    for (number, file) in gfs.files() {
        let handle = underlying.handle_named(&file.name);
        let inode = handle.map(|h| underlying.open_handle(&h, OFlags::PATH));
        let (fd, stat) = match inode {
            Some(Ok(fd)) => {
                let stat = rustix::fs::fstat(&fd).map_err(failed(dir, "look at an inode in it"))?;
                (fd, stat)
            }
            Some(Err(Errno::STALE | Errno::NOENT)) | None => {
                found.dead += 1;
                continue;
            }
            Some(Err(e)) => return Err(failed(dir, "open an inode in it")(e).into()),
        };
        let expected = Marker { store: gfs.uuid(), file: number, ino: stat.st_ino };
        let marker = underlying::marker(&fd).map_err(failed(dir, "look for a marker in it"))?;
        let settled = file.state == FileState::Settled;
        found.on_their_way += u64::from(!settled);
        if marker == MarkerFound::Marker(expected) {
            grouped.insert(stat.st_ino, (number, settled));
        } else if settled {
            found.dead += 1;
        }
    }
    let mut look = |path: &Path, fd: &rustix::fd::OwnedFd, stat: &Stat| -> Result<(), Errno> {
        found.files += 1;
        if found.files.is_multiple_of(1024) {
            walked(found.files);
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let entry = grouped.get(&stat.st_ino);
        if stat.st_size > 0 {
            if matches!(entry, Some((_, true))) {
                found.written.push(path.to_owned());
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
    };
    walk(&underlying, &mut look).map_err(|(path, e)| failed(&dir.join(path), "look at it")(e))?;
    Ok(found)
}

/// Calls `look` with every inode below, by each of its names.
fn walk(
    underlying: &UnderlyingDir,
    look: &mut dyn FnMut(&Path, &rustix::fd::OwnedFd, &Stat) -> Result<(), Errno>,
) -> Result<(), (PathBuf, Errno)> {
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let of = |e: Errno| (dir.clone(), e);
        let path = if dir.as_os_str().is_empty() { Path::new(".") } else { &dir };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(underlying.root(), path, flags, Mode::empty()).map_err(of)?;
        let mut room = Vec::with_capacity(ENTRIES_BYTES);
        let mut entries = RawDir::new(&fd, room.spare_capacity_mut());
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
                left.push(path);
            }
        }
    }
    Ok(())
}
