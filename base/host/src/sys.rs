//! Requests of the kernel that have no safe wrapper elsewhere. It refuses to know what they are for.
#![allow(unsafe_code, reason = "each call says why it is sound")]

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{NoArg, ioctl, opcode};

/// `_IO(0x12, 95)` of linux/fs.h.
const BLKRRPART: rustix::ioctl::Opcode = opcode::none(0x12, 95);
/// Whoever looks at a new device, as udev does, is soon done.
const PATIENCE: Duration = Duration::from_secs(3);

/// Has the kernel look for a block device's partitions again; nothing where it is none, or can have none. Those of
/// a table that is gone could be used until the next start otherwise.
///
/// # Errors
/// `BUSY` where a partition is in use.
pub fn read_partitions(device: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(device)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Ok(());
    }
    let start = Instant::now();
    loop {
        // SAFETY: the request takes no argument and touches no memory of ours.
        let result = unsafe { ioctl(device, NoArg::<BLKRRPART>::new()) };
        match result {
            // A partition itself, or a device without.
            Ok(()) | Err(Errno::INVAL | Errno::NOTTY | Errno::OPNOTSUPP) => return Ok(()),
            Err(Errno::BUSY | Errno::INTR) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(e) => return Err(e),
        }
    }
}

/// `struct fsxattr` of linux/fs.h: flags, hints, project.
pub const FSXATTR_BYTES: usize = 28;
/// `FS_IOC_FSGETXATTR` of linux/fs.h.
pub const FSGETXATTR: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR` of linux/fs.h.
pub const FSSETXATTR: u32 = 0x401c_5820;

/// What an inode has of flags, in the form that XFS began.
///
/// # Errors
/// The host's word; `NOTTY` or `OPNOTSUPP` where its file system has none.
pub fn fsxattr(file: impl AsFd) -> Result<[u8; FSXATTR_BYTES], Errno> {
    let mut found = [0; FSXATTR_BYTES];
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the request fills in a structure of 28 bytes, without a pointer in it; `fd` is open as long as `file` is borrowed.
    let result = unsafe { libc::ioctl(fd, FSGETXATTR as _, found.as_mut_ptr()) };
    if result == 0 { Ok(found) } else { Err(last_error()) }
}

/// Changes that.
///
/// # Errors
/// As [`fsxattr`].
pub fn set_fsxattr(file: impl AsFd, to: &[u8; FSXATTR_BYTES]) -> Result<(), Errno> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the request reads a structure of 28 bytes, without a pointer in it; `fd` is open as long as `file` is borrowed.
    let result = unsafe { libc::ioctl(fd, FSSETXATTR as _, to.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Which signal tells of a lease that somebody waits for: `asm-generic/fcntl.h`.
const F_SETSIG: libc::c_int = 10;

/// What a lease is refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// That others have the file open for writing.
    Writing,
    /// That others have it open at all. The file must be open for writing here.
    Any,
}

/// Takes and gives back a lease, which is granted only where nobody else has the file open. A mapping counts: it outlives the
/// descriptor that it was made with, and where a file is passed through FUSE, the FUSE file too.
///
/// # Errors
/// `AGAIN` where somebody has; else the host's word.
pub fn lease(file: impl AsFd, others: Others) -> std::io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    let kind = match others {
        Others::Writing => libc::F_RDLCK,
        Others::Any => libc::F_WRLCK,
    };
    // Who opens the file in between waits until the lease is given back, and we are told by a signal: by one that is
    // ignored where nobody handles it. The default would end us.
    for (command, argument) in
        [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, kind), (libc::F_SETLEASE, libc::F_UNLCK)]
    {
        // SAFETY: these commands take an integer and touch no memory of ours; `fd` is open as long as `file` is borrowed.
        if unsafe { libc::fcntl(fd, command, argument) } == -1 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// `MAX_HANDLE_SZ` of linux/fcntl.h.
const HANDLE_BYTES: usize = 128;

/// `struct file_handle` with all the room that a file system may ask for.
#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES],
}

/// The kind and the bytes of the handle that names an open file's inode for as long as it lives, whatever names it has.
///
/// # Errors
/// `OPNOTSUPP` where the file system has no handles.
pub fn file_handle(file: BorrowedFd<'_>) -> Result<(i32, Vec<u8>), Errno> {
    let mut handle = FileHandle { bytes: HANDLE_BYTES as u32, kind: 0, data: [0; HANDLE_BYTES] };
    let mut mount = 0;
    // SAFETY: the path is a string that ends in a zero; the handle has room for as many bytes as it says, and begins as
    // the kernel's structure does; the mount's number is one `int`.
    let result = unsafe {
        libc::name_to_handle_at(
            file.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    let data = handle.data.get(..handle.bytes as usize).ok_or(Errno::OVERFLOW)?;
    Ok((handle.kind, data.to_vec()))
}

/// Opens the inode that a handle names, on the file system that `mount` is open on.
///
/// # Errors
/// `STALE` where it is gone.
pub fn open_handle(
    mount: BorrowedFd<'_>,
    kind: i32,
    bytes: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut handle = FileHandle { bytes: bytes.len() as u32, kind, data: [0; HANDLE_BYTES] };
    handle.data.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    // SAFETY: the handle has as many bytes as it says, and begins as the kernel's structure does, which only reads it.
    let fd = unsafe {
        libc::open_by_handle_at(
            mount.as_raw_fd(),
            (&raw mut handle).cast(),
            (flags | OFlags::CLOEXEC).bits().cast_signed(),
        )
    };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
