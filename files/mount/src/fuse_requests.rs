//! The requests of the kernel for a mounted directory, and their replies. This module decides
//! nothing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno as FuseErrno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, IFlags, OFlags};
use rustix::io::Errno;

use crate::client_rights::{ClientRights, NewFlags};
use crate::control;
use crate::mounted_dir::{Admitted, MountedDir, OpenDir, ROOT, held, kind};
use crate::name_requests::{Changes, Client, Entry, NewInode};
use seekless_host::sys::{FSGETXATTR, FSSETXATTR};

/// Time for which the kernel may cache replies. Nobody else changes the directory. Writes through a
/// memory mapping appear in the times of a file with this delay.
const CACHE_FOR: Duration = Duration::from_secs(1);
/// Longest read and write.
const REQUEST_BYTES: u32 = 1 << 20;
/// Asynchronous requests in flight, at most.
const IN_FLIGHT: u16 = 64;

/// `FS_IOC_GETFLAGS` of Linux.
const GET_FLAGS: u32 = 0x8008_6601;
/// `FS_IOC_SETFLAGS` of Linux.
const SET_FLAGS: u32 = 0x4008_6602;

/// See the module.
pub(super) struct FuseRequests {
    pub(super) mounted: Arc<MountedDir>,
    pub(super) passthrough: bool,
}

impl FuseRequests {
    fn request(&self) -> &MountedDir {
        self.mounted.shuffler.requests.fetch_add(1, Relaxed);
        &self.mounted
    }
}

fn error_of(e: Errno) -> FuseErrno {
    FuseErrno::from_i32(e.raw_os_error())
}

/// Replies with the error of a result, or as told with its value.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $done:expr) => {
        match $result {
            Ok($value) => $done,
            Err(e) => $reply.error(error_of(e)),
        }
    };
}

fn open_flags(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned())
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    answer!(reply, result, () => reply.ok());
}

fn reply_entry(reply: ReplyEntry, result: Result<(FileAttr, u64), Errno>) {
    answer!(reply, result, (attributes, generation) => {
        reply.entry(&CACHE_FOR, &attributes, Generation(generation));
    });
}

fn reply_attributes(reply: ReplyAttr, result: Result<FileAttr, Errno>) {
    answer!(reply, result, attributes => reply.attr(&CACHE_FOR, &attributes));
}

/// The kernel need not report the close of each descriptor.
fn fopen_flags(admitted: &Admitted) -> FopenFlags {
    let mut flags = FopenFlags::FOPEN_NOFLUSH;
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, admitted.keep_cache);
    flags.set(FopenFlags::FOPEN_DIRECT_IO, admitted.direct);
    flags
}

impl Filesystem for FuseRequests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // We apply the umask, and the underlying file system applies ACLs.
        //
        // Without FUSE_ATOMIC_O_TRUNC, an open with O_TRUNC is an open and then a truncation, under
        // the kernel's lock of the inode as every truncation. With this flag the kernel opens
        // without the lock, and sets its own size to 0 later once more: a write beside the open goes
        // to a position that the kernel chose for another size.
        config
            .add_capabilities(InitFlags::FUSE_DONT_MASK)
            .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        for wish in [
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ] {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_background(IN_FLIGHT);
        if self.passthrough
            && config.set_max_stack_depth(1).is_ok()
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        {
            self.mounted.passthrough.store(true, Relaxed);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.mounted.forget_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(reply, self.request().lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.mounted.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(reply, self.request().getattr(ino.0, fh.map(|f| f.0)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, uid, gid, size, accessed, modified };
        reply_attributes(reply, self.request().setattr(ino.0, &changes));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        answer!(reply, self.request().readlink(ino.0), target => reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let new = NewInode::Node { mode, umask, device: rdev.into() };
        reply_entry(reply, self.request().make(Client::of(request), parent.0, name, new));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let new = NewInode::Directory { mode, umask };
        reply_entry(reply, self.request().make(Client::of(request), parent.0, name, new));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = NewInode::Symlink(target);
        reply_entry(reply, self.request().make(Client::of(request), parent.0, name, new));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.request().remove(parent.0, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.request().remove(parent.0, name, AtFlags::REMOVEDIR));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let (client, from, to) = (Client::of(request), (parent.0, name), (new_parent.0, new_name));
        reply_empty(reply, self.request().rename(client, from, to, flags));
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        reply_entry(reply, self.request().link(ino.0, new_parent.0, new_name));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened =
            self.request().open(request, ino.0, open_flags(flags.0), |fd| reply.open_backing(fd));
        match opened {
            Ok(a) => match &a.backing {
                Some(id) => reply.opened_passthrough(FileHandle(a.fh), fopen_flags(&a), id),
                None => reply.opened(FileHandle(a.fh), fopen_flags(&a)),
            },
            Err(e) => reply.error(error_of(e)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (at, bits) = ((parent.0, name), (mode, umask));
        let made = self
            .request()
            .create(request, at, bits, open_flags(flags), |fd| reply.open_backing(fd));
        match made {
            Ok((attributes, generation, a)) => {
                let (generation, fh) = (Generation(generation), FileHandle(a.fh));
                match &a.backing {
                    Some(id) => reply.created_passthrough(
                        &CACHE_FOR,
                        &attributes,
                        generation,
                        fh,
                        fopen_flags(&a),
                        id,
                    ),
                    None => reply.created(&CACHE_FOR, &attributes, generation, fh, fopen_flags(&a)),
                }
            }
            Err(e) => reply.error(error_of(e)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.request().read(fh.0, offset, size), data => reply.data(&data));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let result = if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            self.request().write_pages(fh.0, offset, data)
        } else {
            self.request().write(fh.0, offset, data)
        };
        answer!(reply, result, written => reply.written(written));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.request().release(fh.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, data: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.request().sync(fh.0, data));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let result = self.request().open_dir(ino.0);
        answer!(reply, result, fh => reply.opened(FileHandle(fh), FopenFlags::empty()));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mounted = self.request();
        let listed = mounted.opened_dir(fh.0).and_then(|dir| {
            list_whole(&dir, offset, |entry| {
                let ino = INodeNo(mounted.number_of_entry(&dir, entry));
                let name = OsStr::from_bytes(entry.name.to_bytes());
                Ok(reply.add(ino, entry.next, kind(entry.kind.as_raw_mode()), name))
            })
        });
        answer!(reply, listed, () => reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mounted = self.request();
        let listed = mounted.opened_dir(fh.0).and_then(|dir| {
            list_whole(&dir, offset, |entry| {
                let name = OsStr::from_bytes(entry.name.to_bytes());
                if entry.is_dots() {
                    let ino = INodeNo(mounted.number_of_entry(&dir, entry));
                    let ignored = ignored_attributes(ino);
                    return Ok(reply.add(
                        ino,
                        entry.next,
                        name,
                        &Duration::ZERO,
                        &ignored,
                        Generation(0),
                    ));
                }
                let (found, generation) =
                    mounted.lookup_in(std::os::fd::AsFd::as_fd(&dir.fd), name)?;
                let generation = Generation(generation);
                let full = reply.add(found.ino, entry.next, name, &CACHE_FOR, &found, generation);
                if full {
                    mounted.forget(found.ino.0, 1);
                }
                Ok(full)
            })
        });
        answer!(reply, listed, () => reply.ok());
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.request().release_dir(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let dir = self.request().opened_dir(fh.0);
        reply_empty(reply, dir.and_then(|dir| rustix::fs::fsync(&dir.fd)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.request().groups.underlying.statvfs() {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(e) => reply.error(error_of(e)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let mounted = self.request();
        if ino.0 == ROOT && name == control::COMMAND_XATTR {
            return reply_empty(reply, control::run_command(mounted, value));
        }
        reply_empty(reply, mounted.setxattr(request, ino.0, name, value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mounted = self.request();
        let found = if ino.0 == ROOT && name == control::STATUS_XATTR {
            control::status(mounted).map(|s| (s.len(), s))
        } else {
            mounted.getxattr(ino.0, name, size as usize)
        };
        match found {
            Ok((len, _)) if size == 0 => reply.size(len as u32),
            Ok((_, value)) => reply_sized(reply, &value, size),
            Err(e) => reply.error(error_of(e)),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.request().listxattr(request, ino.0) {
            Ok(names) if size == 0 => reply.size(names.len() as u32),
            Ok(names) => reply_sized(reply, &names, size),
            Err(e) => reply.error(error_of(e)),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.request().removexattr(ino.0, name));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.request().allocate(fh.0, offset, length, mode));
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let (mounted, client) = (self.request(), || ClientRights::of(Client::of(request)));
        let done = match command {
            GET_FLAGS => mounted.inode_flags(ino.0).map(|flags| flags.to_ne_bytes().to_vec()),
            FSGETXATTR => mounted.xfs_flags(ino.0).map(|flags| flags.to_vec()),
            SET_FLAGS => data.first_chunk().ok_or(Errno::INVAL).and_then(|bytes| {
                let flags = NewFlags::Ext(IFlags::from_bits_retain(u32::from_ne_bytes(*bytes)));
                mounted.set_flags(&client(), ino.0, &flags).map(|()| vec![])
            }),
            FSSETXATTR => data.first_chunk().ok_or(Errno::INVAL).and_then(|bytes| {
                let flags = NewFlags::Xfs(*bytes);
                mounted.set_flags(&client(), ino.0, &flags).map(|()| vec![])
            }),
            _ => Err(Errno::NOTTY),
        };
        answer!(reply, done, data => reply.ioctl(0, &data));
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        answer!(reply, self.request().seek(fh.0, offset, whence), at => reply.offset(at));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        from_at: u64,
        _: INodeNo,
        to: FileHandle,
        to_at: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let result = self.request().copy((from.0, from_at), (to.0, to_at), len);
        answer!(reply, result, copied => reply.written(copied));
    }
}

/// Calls `each` with the entries of a directory from a position on, until `each` returns true. A name
/// for which `each` fails is left out, and the end of the listing then fails: a program that takes
/// the listing for complete could remove the copies of these files elsewhere.
fn list_whole(
    dir: &OpenDir,
    from: u64,
    mut each: impl FnMut(&Entry<'_>) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    if from == 0 {
        *held(&dir.left_out) = None;
    }
    let mut at_end = true;
    let listed = MountedDir::list(dir, from, |entry| {
        let full = match each(entry) {
            Ok(full) => full,
            // Removed meanwhile, or of another file system: no name of this directory.
            Err(Errno::NOENT | Errno::STALE | Errno::XDEV | Errno::OPNOTSUPP) => return false,
            Err(e) => {
                *held(&dir.left_out) = Some(e);
                return false;
            }
        };
        at_end = false;
        full
    });
    let left_out = *held(&dir.left_out);
    reply_to_listing(listed, at_end, left_out)
}

/// `at_end`: no entry was added. An error instead of added entries would lose them, and the kernel
/// would never forget their inodes: the next request begins behind them, and meets the error again.
fn reply_to_listing(
    listed: Result<(), Errno>,
    at_end: bool,
    left_out: Option<Errno>,
) -> Result<(), Errno> {
    if at_end { listed.and(left_out.map_or(Ok(()), Err)) } else { Ok(()) }
}

fn reply_sized(reply: ReplyXattr, value: &[u8], size: u32) {
    if value.len() > size as usize { reply.error(FuseErrno::ERANGE) } else { reply.data(value) }
}

/// Attributes for `.` and `..`, which the kernel ignores.
const fn ignored_attributes(ino: INodeNo) -> FileAttr {
    let never = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind: FileType::Directory,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::fd::OwnedFd;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_listing_is_complete_or_its_end_fails() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path();
        let names = ["a", "b", "c", "d"];
        names.iter().for_each(|name| std::fs::write(path.join(name), "").unwrap());
        let fd = OwnedFd::from(std::fs::File::open(path).unwrap());
        let dir = OpenDir { fd, reading: Mutex::default(), left_out: Mutex::default() };
        // As the kernel does: two entries in each reply, and a last reply without entries.
        let listed = |unlisted: &[&str], error: Errno| {
            let (mut found, mut from) = (BTreeSet::new(), 0);
            loop {
                let mut entries = 0;
                list_whole(&dir, from, |entry| {
                    let name = entry.name.to_str().unwrap();
                    if unlisted.contains(&name) {
                        return Err(error);
                    }
                    if entries == 2 {
                        return Ok(true);
                    }
                    entries += 1;
                    found.extend((!entry.is_dots()).then(|| name.to_owned()));
                    from = entry.next;
                    Ok(false)
                })?;
                if entries == 0 {
                    return Ok(found.into_iter().collect::<String>());
                }
            }
        };
        for error in [Errno::MFILE, Errno::IO] {
            assert_eq!(listed(&names[..1], error), Err(error));
            assert_eq!(listed(&names, error), Err(error));
            assert_eq!(listed(&[], error), Ok("abcd".to_owned()));
        }
        assert_eq!(listed(&["b"], Errno::NOENT), Ok("acd".to_owned()));
    }

    #[test]
    fn an_error_of_a_listing_loses_no_entries_before_it() {
        let broken = Err(Errno::IO);
        for left_out in [None, Some(Errno::MFILE)] {
            assert_eq!(reply_to_listing(broken, false, left_out), Ok(()), "the entries first");
            assert_eq!(reply_to_listing(broken, true, left_out), broken);
            assert_eq!(reply_to_listing(Ok(()), false, left_out), Ok(()));
        }
        assert_eq!(reply_to_listing(Ok(()), true, Some(Errno::MFILE)), Err(Errno::MFILE));
        assert_eq!(reply_to_listing(Ok(()), true, None), Ok(()));
    }
}
