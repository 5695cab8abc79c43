//! What can go wrong when a file, a device or the host is asked for something, in words for the person who asked.

use std::io;
use std::path::PathBuf;

/// Why a file or device cannot be used, or why the host refused a call.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file or device could not be opened or asked.
    #[error("{}: cannot {what}", path.display())]
    Path {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The host's error.
        #[source]
        source: io::Error,
    },
    /// Another process holds the lock of a file.
    #[error(
        "{}: another process serves it (its lock is taken); stop that one first, or open both read-only",
        .0.display()
    )]
    Locked(PathBuf),
    /// The kernel or another program holds a device.
    #[error("{}: in use: {by}", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
        /// The holder.
        by: String,
    },
    /// The contents of a file or device forbid the operation; nothing was changed.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The file or device.
        path: PathBuf,
        /// What was found, and what to do.
        why: String,
    },
    /// Neither a file nor a block device.
    #[error("{}: neither a regular file nor a block device", .0.display())]
    NotADisk(PathBuf),
    /// The size is not a multiple of the sector size.
    #[error(
        "{}: {bytes} bytes is not a multiple of 512; extend it with `truncate -s %512 FILE`",
        path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The host refused a call.
    #[error("cannot {what}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// The host's error.
        #[source]
        source: io::Error,
    },
}

/// Wraps the host's error of a call; `what` completes "cannot ...".
pub fn cannot<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> HostError {
    move |e| HostError::Call { what, source: e.into() }
}
