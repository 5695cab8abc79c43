//! Requests of the kernel that have no safe wrapper elsewhere. It refuses to know what they are for.
#![allow(unsafe_code, reason = "each call says why it is sound")]

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::FileType;
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
pub(crate) fn read_partitions(device: BorrowedFd<'_>) -> Result<(), Errno> {
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
