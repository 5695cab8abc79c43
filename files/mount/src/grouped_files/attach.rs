//! Attaching a store to its directory: files that a crash left between the two are settled first.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Instant;

use rustix::fs::{OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use seekless_host::{FileDevice, HostError, cannot_at};
use seekless_store::{
    Ask, Attributes, Config, Fault, FileEntry, FileNumber, FileState, GroupStore, Name, Reply,
    StoreOnDevice, format_store, superblock,
};

use super::{
    GroupedFile, GroupedFiles, LOCKS, MarkerCheck, MountCounts, Renames, SyncsLater, errno,
};
use crate::error::MountError;
use crate::group_mount::new_uuid;
use crate::inode_handle::InodeHandle;
use crate::inode_table::InodeTable;
use crate::underlying::{self, MarkerFound, UnderlyingDir};

/// What failed, in errors.
const READ_BINDING: &str = "read its extended attributes";
const BIND: &str = "set an extended attribute on it; its file system must support trusted attributes, and must not be read-only";

const fn timespec(nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
    }
}

fn times_of(attributes: Attributes) -> Timestamps {
    Timestamps {
        last_access: timespec(attributes.accessed),
        last_modification: timespec(attributes.modified),
    }
}

/// Gives a store without files a new UUID before a directory is bound to it. Other directories that
/// were bound to the store are refused from then on: they would take the files of this one for
/// removed files of their own.
fn renew_empty(
    underlying: &UnderlyingDir,
    device: &mut FileDevice,
    place: &Path,
) -> Result<(), MountError> {
    let binding = underlying.binding();
    if binding.map_err(cannot_at(underlying.path(), READ_BINDING))?.is_some() {
        return Ok(());
    }
    let failed =
        |source| MountError::GroupStore { path: place.to_owned(), source: Box::new(source) };
    let (found, _) = superblock(device).map_err(failed)?;
    let store = GroupStore::attach(device, Config::default()).map_err(failed)?;
    if store.files().next().is_some() {
        // Refused later.
        return Ok(());
    }
    let label = String::from_utf8_lossy(&found.label);
    let label = label.trim_end_matches('\0');
    format_store(device, new_uuid()?, found.cluster.bytes(), label).map_err(failed)
}

/// Checks that the directory belongs to this store, and binds a new directory to the store.
fn check_binding(underlying: &UnderlyingDir, group_store: &GroupStore) -> Result<(), HostError> {
    let (path, uuid) = (underlying.path(), group_store.uuid());
    let has_files = group_store.files().next().is_some();
    let is_older = underlying.is_newer_than(group_store).map_err(cannot_at(path, READ_BINDING))?;
    let refuse = |why: &str| Err(HostError::Refused { path: path.to_owned(), why: why.to_owned() });
    match underlying.binding().map_err(cannot_at(path, READ_BINDING))? {
        Some((store, true)) if store == uuid && is_older => refuse(underlying::OLDER_STORE),
        Some((store, true)) if store == uuid => Ok(()),
        Some((_, true)) => refuse(
            "its grouped files are in another group store; name that store with --store; if it has no grouped files, or that store is lost, and the grouped files with it, run `setfattr -x trusted.seekless.store` on the directory",
        ),
        Some((_, false)) => refuse(
            "is a copy of a directory with a group store, made without the mount: its grouped files have no contents; mount the original directory, and copy from the mount",
        ),
        None if has_files => refuse("the group store has files that belong to another directory"),
        None => underlying.bind(Some(uuid)).map_err(cannot_at(path, BIND)),
    }
}

impl GroupedFiles {
    /// Attaches a store to its directory. `place` is the path of the store, for errors.
    ///
    /// # Errors
    /// The store is damaged or belongs to another directory, or either of the two fails.
    pub(crate) fn attach(
        underlying: UnderlyingDir,
        mut device: FileDevice,
        config: Config,
        place: &Path,
    ) -> Result<Self, MountError> {
        renew_empty(&underlying, &mut device, place)?;
        let underlying = Arc::new(underlying);
        #[cfg(test)]
        let device = super::tests::CutDevice::new(device, Arc::clone(&underlying));
        let store = StoreOnDevice::attach(device, SyncsLater, config).map_err(|source| {
            MountError::GroupStore { path: place.to_owned(), source: Box::new(source) }
        })?;
        let uuid = store.group_store().uuid();
        check_binding(&underlying, store.group_store())?;
        let shape = underlying.handle().shape();
        let path = underlying.path().to_owned();
        let is_alone = underlying.is_alone(uuid).map_err(cannot_at(&path, READ_BINDING))?;
        let groups = Self {
            underlying,
            store: Mutex::new(store),
            synced: Condvar::new(),
            uuid,
            is_alone,
            started: Instant::now(),
            files: RwLock::new(InodeTable::new(shape)),
            bytes: AtomicU64::new(0),
            locks: (0..LOCKS).map(|_| RwLock::new(())).collect(),
            watched: Mutex::default(),
            rewritten: Mutex::default(),
            owed_errors: Mutex::default(),
            counts: MountCounts::default(),
            renames: Renames::default(),
            trouble: Mutex::default(),
        };
        groups.settle_all().map_err(cannot_at(
            &path,
            "settle files that were moving between directory and store at a crash",
        ))?;
        Ok(groups)
    }

    /// Decides about each unsettled file, and lists the files of the store.
    fn settle_all(&self) -> Result<(), Errno> {
        let of = |fault: Fault| errno(&fault);
        let unsettled = self.group_store(GroupStore::unsettled);
        let any = !unsettled.is_empty();
        let (mut settled, mut gone) = (Vec::new(), Vec::new());
        for number in unsettled {
            match self.settle(number)? {
                Some(true) => settled.push(number),
                Some(false) => gone.push(number),
                None => {}
            }
        }
        for number in gone {
            // A file without an entry by now was removed in an earlier step.
            if self.group_store(|g| g.file(number).is_some()) {
                self.remove_unmarked(number).map_err(of)?;
            }
        }
        if !settled.is_empty() {
            self.ask(Ask::Settle { files: settled }).map_err(of)?;
        }
        let entries: Vec<(FileNumber, Name, u32)> =
            self.group_store(|g| g.files().map(|(n, f)| (n, f.name.clone(), f.size)).collect());
        for (number, name, size) in entries {
            let handle = self.underlying.handle_named(&name).ok_or(Errno::IO)?;
            self.list_entry(handle, number, size)?;
        }
        if any {
            // Without this, each kill would leave more unsettled files.
            self.ask(Ask::Sync { file: None }).map_err(of)?;
        }
        Ok(())
    }

    /// Settles a file whose marker is found. False if the store must forget the file; `None` if its
    /// inode is not found, or nobody may change it, or the store cannot read its bytes: the file
    /// stays unsettled.
    fn settle(&self, number: FileNumber) -> Result<Option<bool>, Errno> {
        let Some(entry) = self.group_store(|g| g.file(number).cloned()) else {
            return Ok(Some(false));
        };
        let handle = self.underlying.handle_named(&entry.name).ok_or(Errno::IO)?;
        let fd = match self.open_inode(&handle, OFlags::RDWR) {
            Ok(Some(fd)) => fd,
            Ok(None) => return Ok(None),
            // One file that is immutable (`chattr +i`) or a program that runs must not keep all
            // others from being used.
            Err(e @ (Errno::PERM | Errno::TXTBSY)) => {
                self.note_trouble(format!("a file that was moving at a crash is not settled: {e}"));
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let stat = rustix::fs::fstat(&fd)?;
        if underlying::marker(&fd)? != MarkerFound::Marker(self.marker(number, &stat)) {
            return Ok(Some(false));
        }
        if stat.st_size > 0 && !self.is_whole(number, entry.size) {
            // The inode may have the only whole copy.
            let (path, marker) = (self.underlying.path().display(), underlying::MARKER);
            self.note_trouble(format!(
                "inode {} in {path} was moving at a crash, and the group store cannot read its file: unmount first; then `setfattr -x {marker} FILE` keeps the bytes in the directory",
                stat.st_ino,
            ));
            return Ok(None);
        }
        if stat.st_size > 0 && self.has_foreign_bytes(&fd, &stat, number, &entry)? {
            // The first use of the file reports them.
            return Ok(Some(true));
        }
        // An inode that is empty already may not have its old times back yet.
        self.underlying.truncate(&fd, &times_of(entry.attributes))?;
        self.underlying.sync_file(&fd)?;
        Ok(Some(true))
    }

    /// True if another program has written to the inode of an unsettled file, without the mount. On
    /// its way into the store, an inode has the bytes and the time from before, which are those in
    /// the store; a restored backup has an old time, too. On its way back, the inode has a part of
    /// the bytes in the store. A power cut may leave zeroes for bytes that no client has synced.
    fn has_foreign_bytes(
        &self,
        inode: &OwnedFd,
        stat: &Stat,
        number: FileNumber,
        entry: &FileEntry,
    ) -> Result<bool, Errno> {
        let modified = underlying::nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64);
        let is_newer = modified > entry.attributes.modified;
        let is_arriving = entry.state == FileState::Arriving;
        if !is_newer && !is_arriving {
            return Ok(false);
        }
        let longer = stat.st_size > i64::from(entry.size);
        if is_newer && is_arriving || longer {
            return Ok(true);
        }
        let read = self.ask(Ask::Read { file: number, offset: 0, len: entry.size });
        let Ok(Reply::Data(stored)) = read else { return Ok(true) };
        let mut bytes = vec![0; stat.st_size as usize];
        rustix::io::pread(inode, &mut bytes, 0)?;
        Ok(bytes.iter().zip(&stored).any(|(byte, stored)| *byte != 0 && byte != stored))
    }

    /// True if the store can read all bytes of a file.
    fn is_whole(&self, number: FileNumber, size: u32) -> bool {
        let read = self.ask(Ask::Read { file: number, offset: 0, len: size });
        matches!(read, Ok(Reply::Data(bytes)) if bytes.len() == size as usize)
    }

    /// Lists a file of the store. Of two entries with the same handle the one without a marker is
    /// removed; if the inode is not found, the later one is listed, and both stay.
    fn list_entry(&self, handle: InodeHandle, number: FileNumber, size: u32) -> Result<(), Errno> {
        let file = GroupedFile { number, size, check: MarkerCheck::Unchecked, cached: false };
        let Some(twin) = self.insert(handle, file) else { return Ok(()) };
        // One of the two was removed long ago, and its removal was not committed.
        let twin_number = twin.number;
        let Some(fd) = self.open_inode(&handle, OFlags::PATH)? else {
            if twin_number > number {
                self.insert(handle, twin);
            }
            return Ok(());
        };
        let expected = self.marker(twin_number, &rustix::fs::fstat(&fd)?);
        let dead = if underlying::marker(&fd)? == MarkerFound::Marker(expected) {
            self.insert(handle, twin);
            number
        } else {
            twin_number
        };
        self.remove_unmarked(dead).map_err(|fault| errno(&fault))
    }
}
