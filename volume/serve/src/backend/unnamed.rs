//! Files without a name: on a disk or in memory. They end with the server.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use seekless_host::{HostError, Opened, cannot, cannot_at};

/// Memory that looks like an opened file.
pub(crate) fn opened_memory(bytes: u64) -> Result<Opened, HostError> {
    Ok(Opened { fd: memory_file(bytes)?, bytes, dir: None })
}

/// A file of `bytes` without a name: it ends with the server, and overwrites nothing.
pub(super) fn anonymous_file(dir: &Path, bytes: u64) -> Result<OwnedFd, HostError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
        .map_err(cannot_at(dir, "make the optimized area in it (an anonymous file)"))?;
    rustix::fs::ftruncate(&fd, bytes).map_err(cannot_at(dir, "size the optimized area in it"))?;
    Ok(fd)
}

pub(super) fn memory_file(bytes: u64) -> Result<OwnedFd, HostError> {
    let make = || {
        let fd = rustix::fs::memfd_create("seekless", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&fd, bytes)?;
        Ok::<_, Errno>(fd)
    };
    make().map_err(cannot("make a file in memory"))
}
