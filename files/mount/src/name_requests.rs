//! Requests for names, attributes and extended attributes, carried out in the underlying directory
//! as the client would have done. The kernel has checked the permissions. A new inode belongs to
//! the client that asked for it.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, Request, TimeOrNow};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat, StatxFlags,
    Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::client_rights::{ClientRights, NewFlags};
use crate::mounted_dir::{MountedDir, OpenDir, ROOT, held};
use crate::underlying::{ACCESS_LIST, CAPABILITIES, InodeStep, by_path, can_be_stored};
use seekless_host::sys;

/// Prefix of our own extended attributes, which are hidden from clients.
const OUR_PREFIX: &[u8] = b"trusted.seekless.";
/// Size of the buffer for entries of a directory.
const ENTRIES_BYTES: usize = 32 << 10;
/// Longest extended attribute, and longest list of names.
const XATTR_BYTES: usize = 64 << 10;
/// The bits of a mode without the file type.
const MODE: u32 = 0o7777;
/// Set-user-ID and set-group-ID.
const SET_IDS: u32 = 0o6000;
/// Set-group-ID of a program that the group may execute.
const SET_GROUP: u32 = 0o2010;

/// The owner of what a client makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Its process; 0 if the process is not visible here.
    pub(super) pid: u32,
}

impl Client {
    pub(super) fn of(request: &Request) -> Self {
        Self { uid: request.uid(), gid: request.gid(), pid: request.pid() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NewInode<'a> {
    Directory { mode: u32, umask: u32 },
    Node { mode: u32, umask: u32, device: u64 },
    Symlink(&'a Path),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
}

pub(super) struct Entry<'a> {
    pub(super) name: &'a CStr,
    pub(super) ino: u64,
    pub(super) kind: FileType,
    pub(super) next: u64,
}

impl Entry<'_> {
    /// True for `.` and `..`.
    pub(super) fn is_dots(&self) -> bool {
        matches!(self.name.to_bytes(), b"." | b"..")
    }
}

const fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & MODE)
}

/// A time as the kernel sent it. Before 1970, `fuser` counts the nanoseconds backwards, too.
fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => specific(time),
    }
}

fn specific(time: SystemTime) -> Timespec {
    let (sign, d) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (1, after),
        Err(before) => (-1, before.duration()),
    };
    Timespec { tv_sec: sign * d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() }
}

impl MountedDir {
    /// Opens a directory for path lookups.
    pub(super) fn parent(&self, ino: u64) -> Result<OwnedFd, Errno> {
        self.open_node(ino, OFlags::PATH)
    }

    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> Result<(FileAttr, u64), Errno> {
        self.lookup_in(self.parent(parent)?.as_fd(), name)
    }

    pub(super) fn lookup_in(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(FileAttr, u64), Errno> {
        self.enter(find(parent, name)?)
    }

    pub(super) fn getattr(&self, ino: u64, fh: Option<u64>) -> Result<FileAttr, Errno> {
        if let Some(open) = fh.and_then(|fh| self.opened(fh).ok()) {
            return self.attributes(&open.fd, &open.handle);
        }
        self.attributes(self.open_node(ino, OFlags::PATH)?, &self.handle(ino)?)
    }

    pub(super) fn setattr(&self, ino: u64, changes: &Changes) -> Result<FileAttr, Errno> {
        let (fd, handle) = (self.open_node(ino, OFlags::PATH)?, self.handle(ino)?);
        if changes.uid.is_some() || changes.gid.is_some() {
            chown(&fd, changes.uid, changes.gid)?;
        }
        if let Some(bits) = changes.mode {
            rustix::fs::chmod(by_path(&fd), mode(bits))?;
        }
        // Held to the end: the file must not move to the store again before it has its new size.
        let _lock = self.groups.changing(&handle);
        if let Some(size) = changes.size {
            self.groups.note_write(&handle);
            let file = self.open_node(ino, OFlags::WRONLY)?;
            if !self.groups.resize(&handle, &file, size)? {
                if size > 0 {
                    // Zeroes would look like the contents of a lost file.
                    self.groups.check_ungrouped(&file, &rustix::fs::fstat(&file)?)?;
                }
                rustix::fs::ftruncate(&file, size)?;
                if size == 0 {
                    self.groups.drop_lost_marker(&file)?;
                }
            }
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            if !can_be_stored(&times) {
                // A file that cannot go home loses the time only by a crash during a later move.
                let _ = self.groups.move_back(&handle);
            }
            rustix::fs::utimensat(&fd, "", &times, AtFlags::EMPTY_PATH)?;
            if let Some(file) = self.groups.peek(&handle) {
                // Needed only after a crash during a move.
                let _ = self.groups.save_times(&file, &fd);
            }
        }
        self.attributes_locked(&fd, &handle)
    }

    pub(super) fn readlink(&self, ino: u64) -> Result<Vec<u8>, Errno> {
        let fd = self.open_node(ino, OFlags::PATH)?;
        rustix::fs::readlinkat(&fd, "", Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// The mode of a new inode: the umask counts only in a directory without a default ACL.
    pub(super) fn mode_after_umask(parent: &OwnedFd, bits: u32, umask: u32) -> u32 {
        let acl = rustix::fs::getxattr_query(by_path(parent), "system.posix_acl_default");
        if acl.is_ok_and(|bytes| bytes > 0) { bits } else { bits & !umask }
    }

    /// Gives a new inode in `parent` to the client that asked for it.
    pub(super) fn give_to_client(
        client: Client,
        parent: &OwnedFd,
        fd: &OwnedFd,
        bits: u32,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(fd)?;
        let uid = (stat.st_uid != client.uid).then_some(client.uid);
        let inherits = rustix::fs::fstat(parent)?.st_mode & Mode::SGID.bits() != 0;
        let gid = (!inherits && stat.st_gid != client.gid).then_some(client.gid);
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        chown(fd, uid, gid)?;
        // A change of the owner clears these bits, except in directories.
        if bits & SET_IDS != 0 && FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let mut bits = stat.st_mode;
            // The file system lets this server set the bit for each group, and before Linux 6.0 the
            // kernel does not look.
            if inherits
                && bits & SET_GROUP == SET_GROUP
                && !ClientRights::of(client).may_keep_set_group(stat.st_gid)
            {
                bits &= !Mode::SGID.bits();
            }
            rustix::fs::chmod(by_path(fd), mode(bits))?;
        }
        Ok(())
    }

    pub(super) fn make(
        &self,
        client: Client,
        parent: u64,
        name: &OsStr,
        new: NewInode<'_>,
    ) -> Result<(FileAttr, u64), Errno> {
        let parent = self.parent(parent)?;
        let (made, bits) = self.make_in(&parent, name, new)?;
        if let Err(e) = Self::give_to_client(client, &parent, &made, bits) {
            remove_made(&parent, name, &made);
            return Err(e);
        }
        self.enter(made)
    }

    /// Makes an inode that belongs to this server, and opens the inode. Returns its mode as well.
    ///
    /// # Errors
    /// `STALE` if another inode has the name by then.
    fn make_in(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        new: NewInode<'_>,
    ) -> Result<(OwnedFd, u32), Errno> {
        let begun = clock_gettime(ClockId::RealtimeCoarse);
        let mut opened = None;
        let (kind, bits) = match new {
            NewInode::Directory { mode: bits, umask } => {
                let bits = Self::mode_after_umask(parent, bits, umask);
                rustix::fs::mkdirat(parent, name, mode(bits))?;
                (FileType::Directory, bits)
            }
            NewInode::Node { mode: bits, umask, device } => {
                let kind = FileType::from_raw_mode(bits);
                let bits = Self::mode_after_umask(parent, bits, umask);
                if kind == FileType::RegularFile {
                    let how = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    opened = Some(rustix::fs::openat(parent, name, how, mode(bits))?);
                } else {
                    rustix::fs::mknodat(parent, name, kind, mode(bits), device)?;
                }
                (kind, bits)
            }
            NewInode::Symlink(target) => {
                rustix::fs::symlinkat(target, parent, name)?;
                (FileType::Symlink, 0)
            }
        };
        self.groups.underlying.did(InodeStep::Made, parent.as_fd())?;
        if let Some(made) = opened {
            return Ok((made, bits));
        }
        let made = find(parent.as_fd(), name)?;
        if is_new(&made, kind, begun)? { Ok((made, bits)) } else { Err(Errno::STALE) }
    }

    pub(super) fn link(
        &self,
        ino: u64,
        parent: u64,
        name: &OsStr,
    ) -> Result<(FileAttr, u64), Errno> {
        let (fd, parent) = (self.open_node(ino, OFlags::PATH)?, self.parent(parent)?);
        rustix::fs::linkat(&fd, "", &parent, name, AtFlags::EMPTY_PATH)?;
        self.enter(fd)
    }

    /// Removes a file, or an empty directory.
    pub(super) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let parent = self.parent(parent)?;
        let victim = find(parent.as_fd(), name)?;
        rustix::fs::unlinkat(&parent, name, flags)?;
        self.name_removed(victim);
        Ok(())
    }

    pub(super) fn rename(
        &self,
        client: Client,
        (from, name): (u64, &OsStr),
        (to, new_name): (u64, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        let begun = clock_gettime(ClockId::RealtimeCoarse);
        let replaces = !flags.contains(RenameFlags::EXCHANGE);
        let replaced = if replaces { find_replaced(to.as_fd(), new_name)? } else { None };
        self.groups.renames.during(|| {
            if flags.is_empty() {
                rustix::fs::renameat(&from, name, &to, new_name)
            } else {
                rustix::fs::renameat_with(&from, name, &to, new_name, flags)
            }
        })?;
        if let Some(replaced) = replaced
            // A rename onto another name of the same inode changes nothing.
            && find(to.as_fd(), new_name).is_ok_and(|now| is_other(&now, &replaced))
        {
            self.name_removed(replaced);
        }
        if flags.contains(RenameFlags::WHITEOUT)
            && let Ok(left) = find(from.as_fd(), name)
            && is_new(&left, FileType::CharacterDevice, begun) == Ok(true)
        {
            // A whiteout with another owner is no error.
            let _ = Self::give_to_client(client, &from, &left, 0);
        }
        Ok(())
    }

    /// Calls `each` with the entries of a directory from a position on, until `each` returns true.
    pub(super) fn list(
        dir: &OpenDir,
        from: u64,
        mut each: impl FnMut(&Entry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let _reader = held(&dir.reading);
        rustix::fs::seek(&dir.fd, SeekFrom::Start(from))?;
        let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
        let mut entries = RawDir::new(&dir.fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    let stat = rustix::fs::statat(&dir.fd, entry.file_name(), flags);
                    stat.map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode))
                }
                known => known,
            };
            let entry = Entry {
                name: entry.file_name(),
                ino: entry.ino(),
                kind,
                next: entry.next_entry_cookie(),
            };
            if each(&entry) {
                break;
            }
        }
        Ok(())
    }

    /// The length and the value of an extended attribute; with `size` 0 only the length.
    pub(super) fn getxattr(
        &self,
        ino: u64,
        name: &OsStr,
        size: usize,
    ) -> Result<(usize, Vec<u8>), Errno> {
        if is_ours(name) {
            return Err(Errno::NODATA);
        }
        let path = self.open_node(ino, OFlags::PATH)?;
        let path = by_path(&path);
        if size == 0 {
            return Ok((rustix::fs::getxattr_query(path, name)?, Vec::new()));
        }
        let mut value = vec![0; size.min(XATTR_BYTES)];
        let len = rustix::fs::getxattr(path, name, &mut value[..])?;
        value.truncate(len);
        Ok((len, value))
    }

    /// The names of the extended attributes that this client may see.
    pub(super) fn listxattr(&self, request: &Request, ino: u64) -> Result<Vec<u8>, Errno> {
        let path = self.open_node(ino, OFlags::PATH)?;
        let mut names = vec![0; XATTR_BYTES];
        let len = rustix::fs::listxattr(by_path(&path), &mut names[..])?;
        names.truncate(len);
        let all = request.uid() == 0;
        let seen =
            |name: &&[u8]| !name.starts_with(OUR_PREFIX) && (all || !name.starts_with(b"trusted."));
        Ok(names.split_inclusive(|b| *b == 0).filter(seen).flatten().copied().collect())
    }

    pub(super) fn setxattr(
        &self,
        request: &Request,
        ino: u64,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        if is_ours(name) {
            return Err(Errno::PERM);
        }
        let path = self.open_node(ino, OFlags::PATH)?;
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        let handle = self.handle(ino)?;
        let _lock = if name == CAPABILITIES {
            // A file with capabilities does not move any more.
            let lock = self.groups.changing(&handle);
            self.groups.note_write(&handle);
            self.groups.move_back(&handle)?;
            Some(lock)
        } else {
            None
        };
        rustix::fs::setxattr(by_path(&path), name, value, flags)?;
        let stat = rustix::fs::fstat(&path)?;
        if name == ACCESS_LIST
            && stat.st_mode & Mode::SGID.bits() != 0
            && !ClientRights::of(Client::of(request)).may_keep_set_group(stat.st_gid)
        {
            let mode = Mode::from_raw_mode(stat.st_mode) - Mode::SGID;
            rustix::fs::chmod(by_path(&path), mode)?;
        }
        Ok(())
    }

    pub(super) fn removexattr(&self, ino: u64, name: &OsStr) -> Result<(), Errno> {
        if is_ours(name) {
            return Err(Errno::NODATA);
        }
        let path = self.open_node(ino, OFlags::PATH)?;
        rustix::fs::removexattr(by_path(&path), name)
    }

    /// The flags of an inode that `chattr` changes.
    pub(super) fn inode_flags(&self, ino: u64) -> Result<u32, Errno> {
        rustix::fs::ioctl_getflags(self.open_node(ino, OFlags::RDONLY)?).map(|flags| flags.bits())
    }

    /// The same in the form of XFS, which the kernel always asks for first.
    pub(super) fn xfs_flags(&self, ino: u64) -> Result<[u8; sys::FSXATTR_BYTES], Errno> {
        sys::fsxattr(self.open_node(ino, OFlags::RDONLY)?)
    }

    /// Changes the flags.
    ///
    /// # Errors
    /// `PERM` if the client may not do this, or an error of the host.
    pub(super) fn set_flags(
        &self,
        client: &ClientRights,
        ino: u64,
        new: &NewFlags,
    ) -> Result<(), Errno> {
        let (fd, handle) = (self.open_node(ino, OFlags::RDONLY)?, self.handle(ino)?);
        if !client.may_set_flags(rustix::fs::fstat(&fd)?.st_uid, &fd, new)? {
            return Err(Errno::PERM);
        }
        let _lock = self.groups.changing(&handle);
        // An immutable file could not move back later: it moves back now, and stays.
        self.groups.note_write(&handle);
        self.groups.move_back(&handle)?;
        new.set(&fd)
    }

    /// The inode number of an entry for the kernel.
    pub(super) fn number_of_entry(&self, dir: &OpenDir, entry: &Entry<'_>) -> u64 {
        let above = entry.name.to_bytes() == b"..";
        let root = |s: Stat| self.number(s.st_ino) == ROOT;
        if above && rustix::fs::fstat(&dir.fd).is_ok_and(root) {
            return ROOT;
        }
        self.number(entry.ino)
    }
}

fn is_ours(name: &OsStr) -> bool {
    name.as_bytes().starts_with(OUR_PREFIX)
}

/// Opens an inode by its name.
pub(super) fn find(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// The inode that a rename to this name replaces. A rename without this knowledge would leave a
/// replaced file in the group store.
pub(super) fn find_replaced(
    parent: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<Option<OwnedFd>, Errno> {
    match find(parent, name) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

/// True if this server made the inode since `begun`. A user who reaches the directory without the
/// mount can give the name of a new inode to another inode, before the server opens the name.
fn is_new(fd: &OwnedFd, kind: FileType, begun: Timespec) -> Result<bool, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted)?;
    let (birth, modified) = (found.stx_btime, found.stx_mtime);
    let is_late = if found.stx_mask & StatxFlags::BTIME.bits() != 0 {
        (birth.tv_sec, i64::from(birth.tv_nsec)) >= (begun.tv_sec, begun.tv_nsec)
    } else {
        // Inodes without a birth time may have times in whole seconds.
        modified.tv_sec >= begun.tv_sec
    };
    // The links of a directory are its own entries.
    let has_one_name = kind == FileType::Directory || found.stx_nlink <= 1;
    let is_ours = found.stx_uid == rustix::process::geteuid().as_raw();
    let is_kind = FileType::from_raw_mode(found.stx_mode.into()) == kind;
    Ok(is_late && has_one_name && is_ours && is_kind)
}

/// Removes the name of a new inode, if the name is still that of the new inode.
pub(super) fn remove_made(parent: &OwnedFd, name: &OsStr, made: &OwnedFd) {
    let now = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    if let (Ok(now), Ok(made)) = (now, rustix::fs::fstat(made))
        && (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino)
    {
        let is_directory = FileType::from_raw_mode(made.st_mode) == FileType::Directory;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _ = rustix::fs::unlinkat(parent, name, flags);
    }
}

fn is_other(a: &OwnedFd, b: &OwnedFd) -> bool {
    match (rustix::fs::fstat(a), rustix::fs::fstat(b)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) != (b.st_dev, b.st_ino),
        _ => true,
    }
}

fn chown(fd: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)
}
