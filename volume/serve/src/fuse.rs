//! A volume as one file, for hosts without NBD in the kernel. FUSE mounts the volume over a regular
//! file. Programs can read, write, flush, punch and loop-mount this file. The kernel caches data
//! only for sendfile(2), splice(2) and private mappings.
//!
//! Requests go to the volume's thread at once; replies are sent as requests end, in any order.

mod bytes;
mod gate;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno as Error, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};
use seekless_block::{Flags, SECTOR_BYTES};
use seekless_host::mounts::mounts;
use seekless_host::{cannot, cannot_at, fuse_mount, pressure};
use seekless_nbd::Errno;

use crate::backend::host_number;
use crate::error::ServeError;
use crate::handle::ServerHandle;
use bytes::ByteDisk;

/// Longest read and write of the kernel.
const REQUEST_BYTES: u32 = 256 << 10;
/// Most requests with data, and most asynchronous requests of the kernel.
const IN_FLIGHT: u16 = 32;
/// Memory to hold for a request in flight: its data twice, and a read buffer of the engine.
const OF_REQUEST_BYTES: usize = 2 * REQUEST_BYTES as usize + (1 << 20);
/// Lifetime of attributes in the kernel: they never change.
const BELIEVE: Duration = Duration::from_secs(86_400);
/// Longest time until the kernel closes the connection of a mount that nobody else has.
const CLOSES: Duration = Duration::from_secs(2);

/// A regular file for a mount. Made if it is absent, and then removed again.
#[derive(Debug)]
pub struct MountPoint {
    path: PathBuf,
    made: bool,
}

impl MountPoint {
    /// Finds or makes the file. First removes the mount of a dead server.
    pub fn new(path: &Path) -> Result<Self, ServeError> {
        let device = Path::new(fuse_mount::DEVICE);
        let what = "open it: FUSE needs the kernel's fuse module, and access to this device";
        File::options().read(true).write(true).open(device).map_err(cannot_at(device, what))?;
        if fuse_mount::is_dead(path) {
            let what = "unmount it after the death of its server";
            fuse_mount::unmount(path, true).map_err(cannot_at(path, what))?;
        }
        let made = match path.metadata() {
            Ok(meta) if meta.is_file() => false,
            Ok(_) => return Err(ServeError::MountPoint(path.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                File::create_new(path).map_err(cannot_at(path, "make a file to mount over"))?;
                true
            }
            Err(e) => return Err(cannot_at(path, "ask for its kind")(e).into()),
        };
        Ok(Self { path: path.to_owned(), made })
    }

    /// Mounts a volume over the file. Calls `ended` after any unmount.
    pub fn mount(
        self,
        server: &ServerHandle,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<FuseMount, ServeError> {
        let fail = cannot_at(&self.path, "mount the volume over it");
        let read_only = server.is_read_only();
        let at = self.path.canonicalize().ok();
        let export = Export {
            disk: ByteDisk::new(server.injector(), server.size().0),
            places: RequestPlaces::default(),
            read_only,
            owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
            since: SystemTime::now(),
        };
        let device = match fuse_mount::mount(&self.path, read_only) {
            Ok(device) => device,
            Err(e) => return Err(fail(e).into()),
        };
        let listed = at.and_then(|at| Some((on_top(&at)?, at)));
        // From here on, dropping it unmounts.
        let mut mounted =
            FuseMount { point: self, listed, thread: None, gone: false, missing: None };
        let session = Session::from_fd(export, device, SessionACL::Owner, fuser::Config::default());
        let session = session.map_err(fail)?;
        let thread = std::thread::Builder::new().name("seekless-fuse".into()).spawn(move || {
            // An unmount ends it; its result adds nothing.
            let _ = session.run();
            ended();
        });
        mounted.thread = Some(thread.map_err(cannot("start the thread of the FUSE mount"))?);
        // The kernel learns the size only by this question, and some programs never ask: busybox's
        // losetup made a device of no size.
        let _ = mounted.point.path.metadata();
        let in_flight = usize::from(IN_FLIGHT) * OF_REQUEST_BYTES;
        mounted.missing = pressure::hold(in_flight + server.stage.0 as usize);
        Ok(mounted)
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Never removes a file of another program.
        if self.made && self.path.metadata().is_ok_and(|m| m.is_file() && m.len() == 0) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The file system that lies on top at this path, by the kernel's list of mounts.
fn on_top(at: &Path) -> Option<(u32, u32)> {
    mounts().ok()?.into_iter().rfind(|m| m.point == at).map(|m| m.device)
}

/// A mounted volume. Dropping it unmounts it; its users then get errors once the server ends.
#[derive(Debug)]
pub struct FuseMount {
    point: MountPoint,
    /// The number of its file system in the kernel's list of mounts, and its path there.
    listed: Option<((u32, u32), PathBuf)>,
    thread: Option<JoinHandle<()>>,
    gone: bool,
    missing: Option<&'static str>,
}

impl FuseMount {
    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.point.path
    }

    /// What its server lacks to serve when memory is short, in words.
    pub const fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// Unmounts it, unless that is done already. False if it is in use: nothing has changed then.
    /// An error if a copy of the mount, such as a container's, is still there: it may have users.
    pub fn unmount(&mut self) -> Result<bool, ServeError> {
        match self.take_away(false) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(e) => Err(cannot_at(&self.point.path, "unmount the volume from it")(e).into()),
        }
    }

    fn take_away(&mut self, lazily: bool) -> io::Result<()> {
        // The kernel has closed the connection: it was unmounted, or a dead mount is left.
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let mut patience = Duration::ZERO;
        if !self.gone && self.is_on_top() {
            if !ended || fuse_mount::is_dead(&self.point.path) {
                fuse_mount::unmount(&self.point.path, lazily || ended)?;
                patience = CLOSES;
            }
        } else if !self.gone && !ended {
            let why = "another mount lies over it, or it was unmounted while something used it";
            return Err(io::Error::other(why));
        }
        self.gone = true;
        if lazily {
            self.thread = None;
        }
        self.wait_for_close(patience)
    }

    /// Whether an unmount of the path unmounts this volume.
    fn is_on_top(&self) -> bool {
        self.listed.as_ref().is_none_or(|(own, at)| on_top(at) == Some(*own))
    }

    /// Waits until the thread sees the kernel close the connection.
    fn wait_for_close(&mut self, patience: Duration) -> io::Result<()> {
        let since = Instant::now();
        while let Some(thread) = &self.thread
            && !thread.is_finished()
        {
            if since.elapsed() >= patience {
                let why =
                    "a copy of the mount in another namespace, such as a container's, is left";
                return Err(io::Error::other(why));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        Ok(())
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        if self.take_away(false).is_err() {
            // In use: the mount ends with its last user, or with this process.
            let _ = self.take_away(true);
        }
    }
}

/// Places for requests with data, each of which holds memory. The kernel limits only the
/// asynchronous ones: more wait there.
#[derive(Clone, Default)]
struct RequestPlaces(Arc<(Mutex<u16>, Condvar)>);

/// Free again when it is dropped.
struct RequestPlace(RequestPlaces);

impl RequestPlaces {
    fn taken(&self) -> MutexGuard<'_, u16> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> RequestPlace {
        let full = |taken: &mut u16| *taken >= IN_FLIGHT;
        let free = self.0.1.wait_while(self.taken(), full);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        RequestPlace(self.clone())
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.0.1.notify_one();
    }
}

/// The kernel's view: a file system with one file.
struct Export {
    disk: ByteDisk,
    places: RequestPlaces,
    read_only: bool,
    /// User and group.
    owner: (u32, u32),
    since: SystemTime,
}

impl Export {
    fn attributes(&self) -> FileAttr {
        let size = self.disk.size();
        FileAttr {
            ino: INodeNo::ROOT,
            size,
            blocks: size / SECTOR_BYTES,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind: FileType::RegularFile,
            perm: if self.read_only { 0o400 } else { 0o600 },
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Export {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without these capabilities sends shorter requests, one at a time.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_background(IN_FLIGHT);
        Ok(())
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVE, &self.attributes());
    }

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.is_some_and(|s| s != self.disk.size());
        if resized || mode.is_some() || uid.is_some() || gid.is_some() {
            reply.error(Error::EPERM);
        } else {
            reply.attr(&BELIEVE, &self.attributes());
        }
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Error::EROFS);
        }
        let how = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), how);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        // A read for the page cache has no owner, and may bring older bytes to later readers. But
        // it cannot be refused: reads by io_uring before Linux 5.12 and by vhost threads have none
        // either, and an NFS server of the kernel would report errors.
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let place = self.places.take();
        self.disk.read(at, len.into(), move |result| {
            match result {
                Ok(data) => reply.data(data),
                Err(e) => reply.error(error_of(e)),
            }
            drop(place);
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if self.read_only {
            return reply.error(Error::EROFS);
        }
        // O_DSYNC, or O_SYNC, which includes its bit.
        let fua = OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::DSYNC);
        let place = self.places.take();
        let done = Box::new(move |result: Result<u64, Errno>| {
            match result {
                Ok(len) => reply.written(len as u32),
                Err(e) => reply.error(error_of(e)),
            }
            drop(place);
        });
        self.disk.write(at, data, fua, done);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.read_only {
            return reply.ok();
        }
        self.disk.flush(ends(reply));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let grows =
            at.saturating_add(len) > self.disk.size() && !mode.contains(FallocateFlags::KEEP_SIZE);
        // Both promise zeroes, which a discard does not: a loop device writes zeroes by punching
        // holes.
        let flags = match mode - FallocateFlags::KEEP_SIZE {
            FallocateFlags::PUNCH_HOLE => Flags::NONE,
            FallocateFlags::ZERO_RANGE => Flags::NO_HOLE,
            _ => return reply.error(Error::EOPNOTSUPP),
        };
        if self.read_only {
            reply.error(Error::EROFS);
        } else if grows {
            reply.error(Error::ENOSPC);
        } else {
            self.disk.zero(at, len, flags, ends(reply));
        }
    }
}

fn ends(reply: ReplyEmpty) -> bytes::Done<()> {
    Box::new(move |result| match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(error_of(e)),
    })
}

fn error_of(e: Errno) -> Error {
    Error::from_i32(host_number(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_a_place() {
        let places = RequestPlaces::default();
        let mut taken: Vec<RequestPlace> = (0..IN_FLIGHT).map(|_| places.take()).collect();
        let next = places.clone();
        let waits = std::thread::spawn(move || drop(next.take()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished());
        taken.pop();
        waits.join().unwrap();
        drop(taken);
        assert_eq!(*places.taken(), 0);
    }
}
