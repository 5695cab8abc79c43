//! Opens a file or a block device exclusively: a file among our servers, a device among all
//! programs.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::{HostError, Users, folder, notify, private};

/// Longest wait for udev: when a writer closes a disk, udev locks the disk while it looks what is on
/// it. A program of a service manager waits as long for any holder: the manager gives up what needs
/// this program if a start fails, even if the next start succeeds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Usual wait for any other holder: a process that this program is just starting shares its open files
/// until it is loaded, and a server that was killed holds its files until it is gone.
const MOMENT: Duration = Duration::from_millis(500);

/// A file or block device that is open and locked.
#[derive(Debug)]
pub struct Opened {
    /// Holds the lock until it is closed.
    pub fd: OwnedFd,
    /// Size in bytes, a multiple of 512.
    pub bytes: u64,
    /// The directory of a file; `None` for a device.
    pub dir: Option<PathBuf>,
}

impl Opened {
    /// Opens and locks a file or block device. Readers share the lock.
    pub fn path(path: &Path, read_only: bool) -> Result<Self, HostError> {
        let fail = |what| move |source| HostError::Path { path: path.to_owned(), what, source };
        let kind = path.metadata().map_err(fail("open it"))?.file_type();
        let mut options = File::options();
        options.read(true).write(!read_only);
        if kind.is_block_device() && !read_only {
            // With EXCL the kernel gives the device to one user: a mount, swap or one server.
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        let file = options.open(path).map_err(|e| {
            if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) {
                HostError::InUse { path: path.to_owned(), by: user_of(path) }
            } else {
                fail("open it")(e)
            }
        })?;
        let kind = file.metadata().map_err(fail("ask for its kind"))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(HostError::NotADisk(path.to_owned()));
        }
        let lock = if read_only {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        let start = Instant::now();
        let managed = notify::is_managed();
        let again = || {
            let waited = start.elapsed();
            let udev = || kind.is_block_device() && private::may_be_udevs(&file);
            let waits = waited < MOMENT || waited < PATIENCE && (managed || udev());
            if waits {
                std::thread::sleep(Duration::from_millis(20));
            }
            waits
        };
        take_lock(&file, lock, again).map_err(|e| {
            if e == Errno::WOULDBLOCK {
                HostError::Locked { path: path.to_owned(), by: private::holder(path, &file) }
            } else {
                fail("lock it")(e.into())
            }
        })?;
        // The metadata of a block device has no size.
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))
            .map_err(|e| fail("find its end")(e.into()))?;
        if !bytes.is_multiple_of(512) {
            return Err(HostError::Size { path: path.to_owned(), bytes });
        }
        let dir = (!kind.is_block_device()).then(|| folder(path).to_owned());
        Ok(Self { fd: file.into(), bytes, dir })
    }
}

/// The users of a block device, in words.
fn user_of(path: &Path) -> String {
    let users = Users::of_file(path);
    if users.is_empty() {
        "another program or the kernel holds it: a server, a mount elsewhere, RAID or device mapper"
            .to_owned()
    } else {
        users.to_string()
    }
}

/// Takes the lock. While another holds the lock, tries again as long as `again` says.
fn take_lock(
    file: &File,
    lock: FlockOperation,
    mut again: impl FnMut() -> bool,
) -> Result<(), Errno> {
    loop {
        match rustix::fs::flock(file, lock) {
            Err(Errno::WOULDBLOCK) if again() => {}
            other => return other,
        }
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_for_a_moment_is_waited_for() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = named.as_file();
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        let other = named.reopen().unwrap();
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
        assert_eq!(take_lock(file, exclusive, || false), Err(Errno::WOULDBLOCK));
        let mut held = Some(other);
        let mut tries = 0;
        let again = || {
            tries += 1;
            held.take();
            true
        };
        assert_eq!(take_lock(file, exclusive, again), Ok(()));
        assert_eq!(tries, 1);
    }
}
