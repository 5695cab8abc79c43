//! Requests for the contents of files. A file of the group store is read and written there, and
//! moves back to the directory if the store cannot hold it any more, also while clients have it
//! open. All other files are read and written in the directory, by the kernel alone where it can.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fuser::{BackingId, FileAttr, Request};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use seekless_block::StreamId;
use seekless_store::FILE_BYTES_MAX;

use crate::inode_handle::InodeHandle;
use crate::mounted_dir::{Admitted, MountedDir, Open, OpenIntent};
use crate::name_requests::{Client, remove_made};
use crate::shuffle::Observed;
use crate::underlying::{read_at, write_at};

/// The flags of a client's open that hold for ours. The kernel keeps the position in the file, and
/// direct I/O needs aligned buffers, which we do not have.
fn own_flags(flags: OFlags) -> OFlags {
    flags & (OFlags::RWMODE | OFlags::SYNC | OFlags::DSYNC | OFlags::NOATIME)
}

/// True if a client may open an append-only file (`chattr +a`) in this way. A descriptor for reads
/// and writes could map the file, and so change its old bytes: the kernel does not know that the
/// file is append-only.
fn only_appends(flags: OFlags) -> bool {
    let how = OFlags::RWMODE | OFlags::APPEND;
    flags & how == OFlags::WRONLY | OFlags::APPEND
}

/// Checks that a write to an append-only file begins at its end, where our descriptor writes. The
/// kernel's cache would have the bytes elsewhere. Files with a backing file have no such cache.
fn check_end(open: &Open, offset: u64) -> Result<(), Errno> {
    if !open.how.appends || open.backing.is_some() {
        return Ok(());
    }
    let size = rustix::fs::fstat(&open.fd)?.st_size.unsigned_abs();
    if offset == size { Ok(()) } else { Err(Errno::PERM) }
}

impl MountedDir {
    fn observe_open(&self, request: &Request, handle: InodeHandle, size: u64) {
        let stream = StreamId(request.pid());
        self.shuffler.observe(Observed::Opened { stream, handle, size });
    }

    /// Opens a file. A truncation (`O_TRUNC`) is a request of its own, which follows.
    pub(super) fn open(
        &self,
        request: &Request,
        ino: u64,
        flags: OFlags,
        backing: impl FnOnce(&OwnedFd) -> std::io::Result<BackingId>,
    ) -> Result<Admitted, Errno> {
        let handle = self.handle(ino)?;
        let mut how = OpenIntent::of(flags);
        // The file must not move before it counts as open.
        let _lock = self.groups.reading(&handle);
        if how.writes {
            self.groups.note_write(&handle);
        }
        let kept = self.groups.lookup_clean(&handle)?;
        let own = own_flags(flags);
        let fd = match self.open_node(ino, own) {
            Err(Errno::PERM) if kept.is_none() && only_appends(flags) => {
                how.appends = true;
                self.open_node(ino, own | OFlags::APPEND)?
            }
            opened => opened?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        if kept.is_none() {
            match self.groups.check_ungrouped(&fd, &stat) {
                // The client may be about to empty the file.
                Err(Errno::IO) if how.writes => how.lost = true,
                checked => checked?,
            }
        }
        let size = kept.map_or(stat.st_size.unsigned_abs(), |k| k.size.into());
        self.observe_open(request, handle, size);
        Ok(self.add_open(handle, fd, (kept.is_some(), how), |fd| self.pass_through(fd, backing)))
    }

    /// Lets the kernel read and write a file without us, where it can.
    fn pass_through(
        &self,
        fd: &OwnedFd,
        backing: impl FnOnce(&OwnedFd) -> std::io::Result<BackingId>,
    ) -> Option<BackingId> {
        if !self.passthrough.load(Relaxed) {
            return None;
        }
        match backing(fd) {
            Ok(id) => Some(id),
            Err(e) => {
                self.passthrough.store(false, Relaxed);
                self.groups.note_trouble(format!(
                    "the kernel refuses passthrough ({e}): every request goes through this process"
                ));
                None
            }
        }
    }

    /// Creates a file and opens it.
    pub(super) fn create(
        &self,
        request: &Request,
        (parent, name): (u64, &OsStr),
        (bits, umask): (u32, u32),
        flags: OFlags,
        backing: impl FnOnce(&OwnedFd) -> std::io::Result<BackingId>,
    ) -> Result<(FileAttr, u64, Admitted), Errno> {
        let dir = self.parent(parent)?;
        let bits = Self::mode_after_umask(&dir, bits, umask);
        let how =
            own_flags(flags) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(bits & 0o7777);
        let fd = match rustix::fs::openat(&dir, name, how, mode) {
            Ok(fd) => fd,
            // Made without the mount since the kernel looked. The kernel does not check the rights
            // on a file that this request opens: it must look again.
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => return Err(Errno::STALE),
            Err(e) => return Err(e),
        };
        let client = Client::of(request);
        let made = Self::give_to_client(client, &dir, &fd, bits).and_then(|()| self.enter(&fd));
        let (attributes, generation) = made.inspect_err(|_| remove_made(&dir, name, &fd))?;
        let handle = self.handle(attributes.ino.0)?;
        self.observe_open(request, handle, 0);
        let _lock = self.groups.reading(&handle);
        let admitted = self.add_open(handle, fd, (false, OpenIntent::of(flags)), |fd| {
            self.pass_through(fd, backing)
        });
        Ok((attributes, generation, admitted))
    }

    /// An open file whose contents a client wants to read or to change.
    ///
    /// # Errors
    /// `IO` if the file was lost when it was opened, and has not been emptied since.
    fn opened_whole(&self, fh: u64) -> Result<Arc<Open>, Errno> {
        let open = self.opened(fh)?;
        if open.how.lost {
            let _lock = self.groups.reading(&open.handle);
            self.groups.check_ungrouped(&open.fd, &rustix::fs::fstat(&open.fd)?)?;
        }
        Ok(open)
    }

    /// Reads an open file; fewer than `len` bytes only at its end.
    pub(super) fn read(&self, fh: u64, offset: u64, len: u32) -> Result<Vec<u8>, Errno> {
        let open = self.opened_whole(fh)?;
        {
            let _lock = self.groups.reading(&open.handle);
            if let Some(kept) = self.groups.lookup_clean(&open.handle)? {
                if offset == 0 {
                    // A read of the empty inode updates the access time, if the file system keeps
                    // access times.
                    let _ = rustix::io::pread(&open.fd, &mut [0; 1], 0);
                }
                self.groups.set_cached(&open.handle, &kept);
                return self.groups.read(&kept, offset, len);
            }
        }
        let mut data = vec![0; len as usize];
        let done = read_at(&open.fd, &mut data, offset)?;
        data.truncate(done);
        Ok(data)
    }

    /// Writes to an open file.
    pub(super) fn write(&self, fh: u64, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let open = self.opened_whole(fh)?;
        self.write_open(&open, offset, data)
    }

    /// Writes pages of the kernel's cache, which clients changed through a memory mapping.
    ///
    /// # Errors
    /// The error of the write, also after a part of the bytes: the kernel takes a short write of
    /// such pages for a whole one, and the client's next sync would succeed.
    pub(super) fn write_pages(&self, fh: u64, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let open = self.opened_whole(fh)?;
        let mut done = 0;
        while done < data.len() {
            match self.write_open(&open, offset + done as u64, &data[done..])? {
                0 => return Err(Errno::IO),
                more => done += more as usize,
            }
        }
        Ok(done as u32)
    }

    fn write_open(&self, open: &Open, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        // An open file does not move to the store.
        if self.groups.peek(&open.handle).is_none() {
            check_end(open, offset)?;
            return write_at(&open.fd, data, offset).map(|n| n as u32);
        }
        let in_store = {
            let _lock = self.groups.changing(&open.handle);
            self.groups.write(&open.handle, &open.fd, offset, data)?
        };
        if !in_store {
            return write_at(&open.fd, data, offset).map(|n| n as u32);
        }
        if let Some(data_only) = open.how.syncs {
            self.sync_open(open, data_only)?;
        }
        Ok(data.len() as u32)
    }

    /// Makes an open file durable.
    pub(super) fn sync(&self, fh: u64, data_only: bool) -> Result<(), Errno> {
        let open = self.opened(fh)?;
        self.sync_open(&open, data_only)
    }

    fn sync_open(&self, open: &Open, data_only: bool) -> Result<(), Errno> {
        if self.groups.take_owed_error(&open.handle) {
            return Err(Errno::IO);
        }
        // The store has contents and size; all other attributes are those of the inode.
        if self.groups.sync(&open.handle)? && data_only {
            return Ok(());
        }
        // An empty file may owe its emptiness to a removed marker, which fdatasync does not cover.
        if data_only && rustix::fs::fstat(&open.fd)?.st_size > 0 {
            rustix::fs::fdatasync(&open.fd)
        } else {
            rustix::fs::fsync(&open.fd)
        }
    }

    /// Reserves or gives back space of an open file. The store has neither reserved space nor
    /// holes: the file moves back first.
    pub(super) fn allocate(&self, fh: u64, at: u64, len: u64, how: i32) -> Result<(), Errno> {
        let open = self.opened_whole(fh)?;
        {
            let _lock = self.groups.changing(&open.handle);
            self.groups.move_into(&open.handle, &open.fd)?;
        }
        let how = FallocateFlags::from_bits_retain(how.cast_unsigned());
        rustix::fs::fallocate(&open.fd, how, at, len)
    }

    /// The position of the next data, or of the next hole.
    pub(super) fn seek(&self, fh: u64, offset: i64, whence: i32) -> Result<i64, Errno> {
        let open = self.opened_whole(fh)?;
        let at = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let _lock = self.groups.reading(&open.handle);
        let kept = self.groups.lookup_clean(&open.handle)?;
        let found = match (whence, kept) {
            (libc::SEEK_DATA | libc::SEEK_HOLE, Some(kept)) if at >= kept.size.into() => {
                return Err(Errno::NXIO);
            }
            (libc::SEEK_DATA, Some(_)) => at,
            (libc::SEEK_HOLE, Some(kept)) => kept.size.into(),
            (libc::SEEK_DATA, None) => rustix::fs::seek(&open.fd, SeekFrom::Data(at))?,
            (libc::SEEK_HOLE, None) => rustix::fs::seek(&open.fd, SeekFrom::Hole(at))?,
            _ => return Err(Errno::INVAL),
        };
        i64::try_from(found).map_err(|_| Errno::OVERFLOW)
    }

    pub(super) fn copy(
        &self,
        (from, from_at): (u64, u64),
        (to, to_at): (u64, u64),
        len: u64,
    ) -> Result<u32, Errno> {
        let (source, target) = (self.opened_whole(from)?, self.opened_whole(to)?);
        // The reply has 32 bits.
        let len = len.min(1 << 30);
        let grouped = |open: &Open| self.groups.peek(&open.handle).is_some();
        if grouped(&source) || grouped(&target) {
            // At most as many bytes as the store has of one file; the client asks for the others
            // again.
            let data = self.read(from, from_at, len.min(FILE_BYTES_MAX.into()) as u32)?;
            return if data.is_empty() { Ok(0) } else { self.write_open(&target, to_at, &data) };
        }
        let (mut from_at, mut to_at) = (from_at, to_at);
        let done = rustix::fs::copy_file_range(
            &source.fd,
            Some(&mut from_at),
            &target.fd,
            Some(&mut to_at),
            len as usize,
        )?;
        Ok(done as u32)
    }
}
