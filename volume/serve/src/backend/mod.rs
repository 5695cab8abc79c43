//! Device I/O: at once if that cannot block, else by worker threads. With an emulated disk, an I/O
//! runs when that disk would have ended it.

pub(crate) mod emulated;
pub(crate) mod files;
pub(crate) mod flushes;
pub(crate) mod guard;
pub(crate) mod home;
pub(crate) mod identity;
pub(crate) mod lateness;
pub(crate) mod loop_device;
mod medium;
pub(crate) mod partition_grid;
pub(crate) mod region;
pub(crate) mod remote;
pub(crate) mod runs;
pub(crate) mod unnamed;
pub(crate) mod workers;

use seekless_block::Flags;
use seekless_nbd::Errno;

/// Write zeroes only if that is faster than writing.
pub(crate) const FAST_ZERO: Flags = Flags(0x20);
/// The host's page.
pub(crate) const PAGE: u64 = 4096;

/// The host's number of an error of the protocol.
pub(crate) const fn host_number(errno: Errno) -> i32 {
    match errno {
        Errno::Perm => libc::EPERM,
        Errno::NoMem => libc::ENOMEM,
        Errno::Inval => libc::EINVAL,
        Errno::NoSpc => libc::ENOSPC,
        Errno::Overflow => libc::EOVERFLOW,
        Errno::NotSup => libc::EOPNOTSUPP,
        Errno::Io | Errno::Shutdown | Errno::Other(_) => libc::EIO,
    }
}

/// The protocol's error for an error of the host.
pub(crate) fn errno_of(e: rustix::io::Errno) -> Errno {
    use rustix::io::Errno as E;
    match e {
        E::NOSPC | E::DQUOT | E::FBIG => Errno::NoSpc,
        E::NOMEM => Errno::NoMem,
        E::PERM | E::ACCESS | E::ROFS => Errno::Perm,
        E::OPNOTSUPP | E::NOSYS => Errno::NotSup,
        _ => Errno::Io,
    }
}
