//! System calls without a safe wrapper elsewhere. This file is the only one of the room with unsafe
//! code.
#![allow(unsafe_code, reason = "each call says why it is sound")]

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{NoArg, Updater, ioctl, opcode};

/// `_IO(0x12, 95)` of linux/fs.h.
const BLKRRPART: rustix::ioctl::Opcode = opcode::none(0x12, 95);
/// Longest wait for programs that briefly open a new device, such as udev.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lets the kernel read the partition table of a block device again, so that partitions of an old
/// table disappear. Does nothing for other files.
/// Error `BUSY`: a partition is in use.
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
            // A partition, or a device that has none.
            Ok(()) | Err(Errno::INVAL | Errno::NOTTY | Errno::OPNOTSUPP) => return Ok(()),
            Err(Errno::BUSY | Errno::INTR) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(e) => return Err(e),
        }
    }
}

/// Size of `struct fsxattr` of linux/fs.h in bytes.
pub const FSXATTR_BYTES: usize = 28;
/// `FS_IOC_FSGETXATTR` of linux/fs.h.
pub const FSGETXATTR: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR` of linux/fs.h.
pub const FSSETXATTR: u32 = 0x401c_5820;

/// The flags of an inode in the form of XFS, a `struct fsxattr`.
/// Errors `NOTTY` and `OPNOTSUPP`: the file system has no such flags.
pub fn fsxattr(file: impl AsFd) -> Result<[u8; FSXATTR_BYTES], Errno> {
    let mut found = [0; FSXATTR_BYTES];
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the request fills in a structure of 28 bytes without pointers; `fd` is open while
    // `file` is borrowed.
    let result = unsafe { libc::ioctl(fd, FSGETXATTR as _, found.as_mut_ptr()) };
    done(result).map(|()| found)
}

/// Changes these flags.
pub fn set_fsxattr(file: impl AsFd, to: &[u8; FSXATTR_BYTES]) -> Result<(), Errno> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the request reads a structure of 28 bytes without pointers; `fd` is open while `file`
    // is borrowed.
    done(unsafe { libc::ioctl(fd, FSSETXATTR as _, to.as_ptr()) })
}

/// Writes pages of a file that the host has in memory to its device, and waits for them. A length of
/// 0 means up to the end.
pub(crate) fn write_back(file: BorrowedFd<'_>, at: u64, len: u64) -> Result<(), Errno> {
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(file, at, len, how)
}

/// Waits for a page of a file that is on its way to its device.
pub(crate) fn wait_for_write_back(file: BorrowedFd<'_>, at: u64) -> Result<(), Errno> {
    sync_file_range(file, at, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

/// Files without pages in memory, and kernels that lack the call, need nothing.
fn sync_file_range(
    file: BorrowedFd<'_>,
    at: u64,
    len: u64,
    how: libc::c_uint,
) -> Result<(), Errno> {
    let (fd, at, len) = (file.as_raw_fd(), at.cast_signed(), len.cast_signed());
    // SAFETY: the call takes integers, and touches no memory of ours; `fd` is open while `file` is
    // borrowed.
    match done(unsafe { libc::sync_file_range(fd, at, len, how) }) {
        Err(Errno::SPIPE | Errno::NOSYS | Errno::INVAL) => Ok(()),
        done => done,
    }
}

/// Sets the signal that reports a wait for a lease; `asm-generic/fcntl.h`.
const F_SETSIG: libc::c_int = 10;

/// The opens of a file that refuse a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Opens for writing by others.
    Writing,
    /// All opens by others. The file must be open for writing here.
    Any,
}

/// Checks that nobody else has the file open: takes a lease and gives it back. A memory mapping
/// counts as open. A mapping outlives its descriptor, and with FUSE passthrough also the FUSE file.
/// Error `AGAIN`: the file is open elsewhere.
pub fn lease(file: impl AsFd, others: Others) -> std::io::Result<()> {
    leased(file, others, || ())
}

/// The same, and acts while the lease is held: a program that opens the file meanwhile waits. After
/// 45 seconds (`/proc/sys/fs/lease-break-time`) the program waits no longer.
pub fn leased<T>(file: impl AsFd, others: Others, act: impl FnOnce() -> T) -> std::io::Result<T> {
    let fd = file.as_fd();
    let kind = match others {
        Others::Writing => libc::F_RDLCK,
        Others::Any => libc::F_WRLCK,
    };
    // If a program opens the file meanwhile, the kernel sends us a signal. SIGURG is ignored by
    // default; the default signal of leases would end this process.
    lease_command(fd, F_SETSIG, libc::SIGURG)?;
    lease_command(fd, libc::F_SETLEASE, kind)?;
    let done = act();
    // This fails only if the kernel has taken the lease away.
    let _ = lease_command(fd, libc::F_SETLEASE, libc::F_UNLCK);
    Ok(done)
}

fn lease_command(
    fd: BorrowedFd<'_>,
    command: libc::c_int,
    argument: libc::c_int,
) -> std::io::Result<()> {
    // SAFETY: these commands take an integer and touch no memory of ours; `fd` is open while it is
    // borrowed.
    if unsafe { libc::fcntl(fd.as_raw_fd(), command, argument) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// The process and the user at the other end of a unix socket. The process is 0 if this one cannot
/// see it: it is in another PID namespace.
pub fn peer(socket: impl AsFd) -> Result<(i32, u32), Errno> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, to) = (socket.as_fd().as_raw_fd(), (&raw mut found).cast());
    // SAFETY: the call writes at most `len` bytes, which `found` has, and their number to `len`; `fd`
    // is open while `socket` is borrowed. All bytes are valid values.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut len) };
    done(result).map(|()| (found.pid, found.uid))
}

/// `MAX_HANDLE_SZ` of linux/fcntl.h.
const HANDLE_BYTES: usize = 128;

/// `struct file_handle` with space for the longest handle.
#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES],
}

/// The kind and the bytes of the handle of an open file's inode. The handle is valid until the
/// inode is removed. Error `OPNOTSUPP`: the file system has no handles.
pub fn file_handle(file: BorrowedFd<'_>) -> Result<(i32, Vec<u8>), Errno> {
    let mut handle = FileHandle { bytes: HANDLE_BYTES as u32, kind: 0, data: [0; HANDLE_BYTES] };
    let mut mount = 0;
    // SAFETY: the path is a string that ends in a zero; the handle has space for as many bytes as
    // it says, and begins as the kernel's structure does; the number of the mount is one `int`.
    let result = unsafe {
        libc::name_to_handle_at(
            file.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    done(result)?;
    let data = handle.data.get(..handle.bytes as usize).ok_or(Errno::OVERFLOW)?;
    Ok((handle.kind, data.to_vec()))
}

/// Opens the inode of a handle on the file system of `mount`.
/// Error `STALE`: the inode was removed.
pub fn open_handle(
    mount: BorrowedFd<'_>,
    kind: i32,
    bytes: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut handle = FileHandle { bytes: bytes.len() as u32, kind, data: [0; HANDLE_BYTES] };
    handle.data.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    // SAFETY: the handle has as many bytes as it says, and begins as the kernel's structure does,
    // which only reads it.
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
    // SAFETY: the kernel has just returned this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets the allocator keep freed memory for the next request, in one arena for all threads. Other
/// allocators than that of glibc stay as they are.
pub(crate) fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const LARGEST: libc::c_int = 32 << 20;
        KEEPS.store(true, std::sync::atomic::Ordering::Relaxed);
        let settings = [
            (libc::M_MMAP_THRESHOLD, LARGEST),
            (libc::M_TRIM_THRESHOLD, libc::c_int::MAX),
            (libc::M_ARENA_MAX, 1),
        ];
        for (name, value) in settings {
            // SAFETY: the call takes two integers, and sets numbers of the allocator.
            unsafe { libc::mallopt(name, value) };
        }
    }
}

/// For a process with a bound on its memory: large pieces are mapped by themselves, so that their
/// memory goes back to the kernel when they are freed. Few arenas, so that little lies idle in them.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (name, value) in [(libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_ARENA_MAX, 2)] {
        // SAFETY: the call takes two integers, and sets numbers of the allocator.
        unsafe { libc::mallopt(name, value) };
    }
}

/// Gives free memory between the pieces in use back to the kernel, unless
/// [`prepare`](crate::pressure::prepare) said to keep it.
pub fn trim_freed_memory() {
    #[cfg(target_env = "gnu")]
    if !KEEPS.load(std::sync::atomic::Ordering::Relaxed) {
        // SAFETY: the call takes an integer, and touches only free memory of the allocator.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Freed memory stays with the process.
#[cfg(target_env = "gnu")]
static KEEPS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Extents per call of [`fiemap`].
pub const FIEMAP_BATCH: usize = 256;

/// `struct fiemap_extent` of linux/fiemap.h. Only integers: any bytes from the kernel are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawExtent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the device.
    pub physical: u64,
    /// In bytes.
    pub length: u64,
    reserved64: [u64; 2],
    /// FIEMAP_EXTENT_* or FIEMAP_FLAG_*.
    pub flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with space for extents.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawMap {
    /// Offset in the file where the map begins.
    pub start: u64,
    /// In bytes.
    pub length: u64,
    /// FIEMAP_EXTENT_* or FIEMAP_FLAG_*.
    pub flags: u32,
    /// Number of extents that the kernel returned.
    pub mapped: u32,
    /// Number of extents that are wanted, at most [`FIEMAP_BATCH`].
    pub count: u32,
    reserved: u32,
    /// The extents.
    pub extents: [RawExtent; FIEMAP_BATCH],
}

impl RawMap {
    /// Asks for what begins at `start`.
    pub fn new(start: u64, flags: u32) -> Box<Self> {
        Box::new(Self {
            start,
            length: u64::MAX - start,
            flags,
            mapped: 0,
            count: FIEMAP_BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); FIEMAP_BATCH],
        })
    }
}

/// Length of `struct fiemap` without extents, for the number of the call.
const FIEMAP_HEAD: usize = size_of::<RawMap>() - size_of::<[RawExtent; FIEMAP_BATCH]>();
const _: () = assert!(FIEMAP_HEAD == 32 && size_of::<RawExtent>() == 56);

/// FS_IOC_FIEMAP: `_IOWR('f', 11, struct fiemap)`.
pub fn fiemap(file: impl AsFd, map: &mut RawMap) -> Result<(), Errno> {
    const CALL: rustix::ioctl::Opcode = opcode::read_write::<[u8; FIEMAP_HEAD]>(b'f', 11);
    // SAFETY: the call reads and writes `struct fiemap` and at most `count` extents behind it.
    // `RawMap` has this layout and FIEMAP_BATCH extents; `count` is limited to that here.
    map.count = map.count.min(FIEMAP_BATCH as u32);
    unsafe { ioctl(file, Updater::<CALL, RawMap>::new(map)) }
}

/// Size of `struct xfs_bstat` of xfs/xfs_fs.h in bytes, rounded up.
const BSTAT_BYTES: usize = 192;

/// `struct xfs_fsop_bulkreq` of xfs/xfs_fs.h.
#[repr(C)]
struct BulkRequest {
    number: *mut u64,
    count: i32,
    inode: *mut [u8; BSTAT_BYTES],
    found: *mut i32,
}

/// The generation and the mode of an inode of the XFS that `mount` is on. The kernel reads the
/// inode's block, which holds 32 inodes, if it is not in memory, and does not keep the inode.
/// Errors `NOENT` and `INVAL`: there is no such inode.
pub fn xfs_inode(mount: BorrowedFd<'_>, number: u64) -> Result<(u32, u32), Errno> {
    // XFS_IOC_FSBULKSTAT_SINGLE: `_IOWR('X', 102, struct xfs_fsop_bulkreq)`.
    const CALL: rustix::ioctl::Opcode = opcode::read_write::<BulkRequest>(b'X', 102);
    let (mut number, mut inode, mut found) = (number, [0; BSTAT_BYTES], 0);
    let request = BulkRequest {
        number: &raw mut number,
        count: 1,
        inode: &raw mut inode,
        found: &raw mut found,
    };
    // SAFETY: the kernel reads the request, and writes through its three pointers: a number each,
    // and at most one `struct xfs_bstat`, which is shorter than the space for it.
    done(unsafe { libc::ioctl(mount.as_raw_fd(), CALL as _, &raw const request) })?;
    let mode = u16::from_ne_bytes([inode[8], inode[9]]);
    let generation = inode[108..].first_chunk().copied().unwrap_or([0; 4]);
    Ok((u32::from_ne_bytes(generation), mode.into()))
}

/// Both halves of the UUID of the XFS that `mount` is on. The kernel has it in memory.
pub fn xfs_uuid(mount: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    // XFS_IOC_FSGEOMETRY_V1: `_IOR('X', 100, struct xfs_fsop_geom_v1)`.
    const CALL: rustix::ioctl::Opcode = opcode::read::<[u64; 14]>(b'X', 100);
    let mut found = [0u64; 14];
    // SAFETY: the request fills in a structure of 112 bytes without pointers.
    done(unsafe { libc::ioctl(mount.as_raw_fd(), CALL as _, found.as_mut_ptr()) })?;
    Ok((u64::from_le(found[8]), u64::from_le(found[9])))
}

/// `struct btrfs_ioctl_search_args_v2` of linux/btrfs.h, with space for what is found. Only
/// integers: any bytes from the kernel are valid.
#[repr(C)]
struct TreeSearch {
    tree: u64,
    objects: [u64; 2],
    offsets: [u64; 2],
    transactions: [u64; 2],
    kinds: [u32; 2],
    /// In: most items; out: the number of items.
    items: u32,
    unused: [u32; 9],
    bytes: u64,
    found: [u8; SEARCH_BYTES],
}

/// Space for one item.
const SEARCH_BYTES: usize = 1 << 10;
/// Length of `struct btrfs_ioctl_search_header`.
const SEARCH_HEAD: usize = 32;
const _: () = assert!(size_of::<TreeSearch>() == 112 + SEARCH_BYTES);

impl TreeSearch {
    /// In the tree that the descriptor belongs to.
    fn new(objects: [u64; 2], kinds: [u32; 2], items: u32) -> Box<Self> {
        Box::new(Self {
            tree: 0,
            objects,
            offsets: [0, u64::MAX],
            transactions: [0, u64::MAX],
            kinds,
            items,
            unused: [0; 9],
            bytes: SEARCH_BYTES as u64,
            found: [0; SEARCH_BYTES],
        })
    }

    fn run(&mut self, mount: BorrowedFd<'_>) -> Result<(), Errno> {
        // BTRFS_IOC_TREE_SEARCH_V2: `_IOWR(0x94, 17, struct btrfs_ioctl_search_args_v2)`.
        const CALL: rustix::ioctl::Opcode = opcode::read_write::<[u8; 112]>(0x94, 17);
        // SAFETY: the kernel reads and writes the structure of 112 bytes and at most `bytes` bytes
        // behind it, which is the space that `found` has.
        done(unsafe { libc::ioctl(mount.as_raw_fd(), CALL as _, std::ptr::from_mut(self)) })
    }
}

/// The generation and the mode of an inode of the btrfs tree that `mount` is in. The kernel reads
/// the leaf that holds the inode, if it is not in memory. Error `NOENT`: there is no such inode.
pub fn btrfs_inode(mount: BorrowedFd<'_>, number: u64) -> Result<(u32, u32), Errno> {
    const INODE_ITEM: u32 = 1;
    let mut search = TreeSearch::new([number; 2], [INODE_ITEM; 2], 1);
    search.run(mount)?;
    if search.items == 0 {
        return Err(Errno::NOENT);
    }
    let number = |at: usize| {
        let bytes = search.found.get(SEARCH_HEAD + at..).and_then(|b| b.first_chunk());
        bytes.map_or(0, |&b| u32::from_le_bytes(b))
    };
    // The generation of a handle has 32 of the 64 bits.
    Ok((number(0), number(52)))
}

/// Brings the leaf that holds a key into memory, in the btrfs tree that `mount` is in. A key is an
/// object, a kind of item, and an offset.
pub fn btrfs_read_leaf(mount: BorrowedFd<'_>, key: (u64, u8, u64)) -> Result<(), Errno> {
    let mut search = TreeSearch::new([key.0; 2], [key.1.into(); 2], 1);
    search.offsets = [key.2; 2];
    match search.run(mount) {
        // The item is longer than the space for it. Its leaf is there.
        Err(Errno::OVERFLOW) => Ok(()),
        done => done,
    }
}

/// The outcome of a call that returns 0.
fn done(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
