//! What the kernel asks of a mounted directory, and how it is answered. It decides nothing.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno as Word, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, IFlags, OFlags};
use rustix::io::Errno;

use crate::control;
use crate::mounted_dir::{Admitted, MountedDir, ROOT, kind};
use crate::name_requests::{Changes, New};
use seekless_host::sys::{FSGETXATTR, FSSETXATTR, set_fsxattr};

/// How long the kernel may believe what it was told. We alone change anything; what it does by itself with a file that is
/// mapped into memory shows in the file's times so much later.
const BELIEVE: Duration = Duration::from_secs(1);
/// Longest read and write.
const REQUEST_BYTES: u32 = 1 << 20;
/// Asynchronous requests that may be under way.
const IN_FLIGHT: u16 = 64;

/// FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of Linux.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;

/// See the module.
pub(super) struct FuseRequests {
    pub(super) live: Arc<MountedDir>,
    pub(super) passthrough: bool,
}

impl FuseRequests {
    fn live(&self) -> &MountedDir {
        self.live.shuffler.requests.fetch_add(1, Relaxed);
        &self.live
    }
}

fn word(e: Errno) -> Word {
    Word::from_i32(e.raw_os_error())
}

fn open_flags(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned())
}

fn done(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(word(e)),
    }
}

fn entry(reply: ReplyEntry, result: Result<(FileAttr, u64), Errno>) {
    match result {
        Ok((attributes, generation)) => reply.entry(&BELIEVE, &attributes, Generation(generation)),
        Err(e) => reply.error(word(e)),
    }
}

fn attributes(reply: ReplyAttr, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.attr(&BELIEVE, &attributes),
        Err(e) => reply.error(word(e)),
    }
}

/// The kernel need not tell us of every close of a descriptor.
fn how(admitted: &Admitted) -> FopenFlags {
    let keep = if admitted.keep { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
    FopenFlags::FOPEN_NOFLUSH | keep
}

impl Filesystem for FuseRequests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The umask and ACLs are looked after by us and by the other module.
        config
            .add_capabilities(InitFlags::FUSE_DONT_MASK | InitFlags::FUSE_ATOMIC_O_TRUNC)
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
            self.live.passthrough.store(true, Relaxed);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.live.forget_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.live().lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.live.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.live().getattr(ino.0, fh.map(|f| f.0)));
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
        attributes(reply, self.live().setattr(ino.0, &changes));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.live().readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(word(e)),
        }
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
        let new = New::Node { mode, umask, device: rdev.into() };
        entry(reply, self.live().make(request, parent.0, name, new));
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
        let new = New::Directory { mode, umask };
        entry(reply, self.live().make(request, parent.0, name, new));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        entry(reply, self.live().make(request, parent.0, name, New::Symlink(target)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.live().remove(parent.0, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.live().remove(parent.0, name, AtFlags::REMOVEDIR));
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
        done(reply, self.live().rename(request, (parent.0, name), (new_parent.0, new_name), flags));
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        entry(reply, self.live().link(ino.0, new_parent.0, new_name));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened =
            self.live().open(request, ino.0, open_flags(flags.0), |fd| reply.open_backing(fd));
        match opened {
            Ok(a) => match &a.backing {
                Some(id) => reply.opened_passthrough(FileHandle(a.fh), how(&a), id),
                None => reply.opened(FileHandle(a.fh), how(&a)),
            },
            Err(e) => reply.error(word(e)),
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
        let made =
            self.live().create(request, at, bits, open_flags(flags), |fd| reply.open_backing(fd));
        match made {
            Ok((attributes, generation, a)) => {
                let (generation, fh) = (Generation(generation), FileHandle(a.fh));
                match &a.backing {
                    Some(id) => reply.created_passthrough(
                        &BELIEVE,
                        &attributes,
                        generation,
                        fh,
                        how(&a),
                        id,
                    ),
                    None => reply.created(&BELIEVE, &attributes, generation, fh, how(&a)),
                }
            }
            Err(e) => reply.error(word(e)),
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
        match self.live().read(fh.0, offset, size) {
            Ok(data) => reply.data(&data),
            Err(e) => reply.error(word(e)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.live().write(fh.0, offset, data) {
            Ok(written) => reply.written(written),
            Err(e) => reply.error(word(e)),
        }
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
        self.live().release(fh.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, data: bool, reply: ReplyEmpty) {
        done(reply, self.live().sync(fh.0, data));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.live().open_dir(ino.0) {
            Ok(fh) => reply.opened(FileHandle(fh), FopenFlags::empty()),
            Err(e) => reply.error(word(e)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let live = self.live();
        let listed = live.opened_dir(fh.0).and_then(|dir| {
            MountedDir::list(&dir, offset, |entry| {
                let ino = INodeNo(live.listed(&dir, entry));
                let name = OsStr::from_bytes(entry.name.to_bytes());
                reply.add(ino, entry.next, kind(entry.kind.as_raw_mode()), name)
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(word(e)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let live = self.live();
        let listed = live.opened_dir(fh.0).and_then(|dir| {
            MountedDir::list(&dir, offset, |entry| {
                let name = OsStr::from_bytes(entry.name.to_bytes());
                if entry.is_dots() {
                    let ino = INodeNo(live.listed(&dir, entry));
                    let bare = bare(ino);
                    return reply.add(ino, entry.next, name, &Duration::ZERO, &bare, Generation(0));
                }
                // One that went away meanwhile, or cannot be shown, is not listed.
                let Ok((found, generation)) =
                    live.lookup_in(std::os::fd::AsFd::as_fd(&dir.fd), name)
                else {
                    return false;
                };
                let generation = Generation(generation);
                let full = reply.add(found.ino, entry.next, name, &BELIEVE, &found, generation);
                if full {
                    live.forget(found.ino.0, 1);
                }
                full
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(word(e)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.live().release_dir(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let dir = self.live().opened_dir(fh.0);
        done(reply, dir.and_then(|dir| rustix::fs::fsync(&dir.fd)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.live().groups.underlying.statvfs() {
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
            Err(e) => reply.error(word(e)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let live = self.live();
        if ino.0 == ROOT && name == control::COMMAND_XATTR {
            return done(reply, control::act(live, value));
        }
        done(reply, live.setxattr(ino.0, name, value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let live = self.live();
        let found = if ino.0 == ROOT && name == control::STATUS_XATTR {
            control::state(live).map(|s| (s.len(), s))
        } else {
            live.getxattr(ino.0, name, size as usize)
        };
        match found {
            Ok((len, _)) if size == 0 => reply.size(len as u32),
            Ok((_, value)) => sized(reply, &value, size),
            Err(e) => reply.error(word(e)),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.live().listxattr(request, ino.0) {
            Ok(names) if size == 0 => reply.size(names.len() as u32),
            Ok(names) => sized(reply, &names, size),
            Err(e) => reply.error(word(e)),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.live().removexattr(ino.0, name));
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
        done(reply, self.live().allocate(fh.0, offset, length, mode));
    }

    fn ioctl(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let live = self.live();
        let done = match command {
            GET_FLAGS => live.flags(ino.0).map(|flags| flags.to_ne_bytes().to_vec()),
            FSGETXATTR => live.more_flags(ino.0).map(|flags| flags.to_vec()),
            SET_FLAGS => data.first_chunk().ok_or(Errno::INVAL).and_then(|bytes| {
                let flags = IFlags::from_bits_retain(u32::from_ne_bytes(*bytes));
                let change = |fd: &OwnedFd| rustix::fs::ioctl_setflags(fd, flags);
                live.set_flags(ino.0, change).map(|()| vec![])
            }),
            FSSETXATTR => data.first_chunk().ok_or(Errno::INVAL).and_then(|flags| {
                live.set_flags(ino.0, |fd| set_fsxattr(fd, flags)).map(|()| vec![])
            }),
            _ => Err(Errno::NOTTY),
        };
        match done {
            Ok(data) => reply.ioctl(0, &data),
            Err(e) => reply.error(word(e)),
        }
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
        match self.live().seek(fh.0, offset, whence) {
            Ok(at) => reply.offset(at),
            Err(e) => reply.error(word(e)),
        }
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
        match self.live().copy((from.0, from_at), (to.0, to_at), len) {
            Ok(copied) => reply.written(copied),
            Err(e) => reply.error(word(e)),
        }
    }
}

fn sized(reply: ReplyXattr, value: &[u8], size: u32) {
    if value.len() > size as usize { reply.error(Word::ERANGE) } else { reply.data(value) }
}

/// Attributes that the kernel does not look at.
const fn bare(ino: INodeNo) -> FileAttr {
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
