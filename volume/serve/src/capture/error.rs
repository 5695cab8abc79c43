//! Errors of recording, for the user.

use std::io;
use std::path::{Path, PathBuf};

/// A recording cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The path is no block device.
    #[error(
        "{}: {what}; name a block device, as `lsblk` lists them (`findmnt -no SOURCE -T PATH` says which one holds a file)",
        path.display()
    )]
    NotABlockDevice {
        /// The path.
        path: PathBuf,
        /// Its kind.
        what: String,
    },
    /// The kernel's tracing is not available.
    #[error(
        "the kernel's block events cannot be reached: {what}. Recording needs root (or CAP_SYS_ADMIN and CAP_DAC_OVERRIDE) and tracefs; `mount -t tracefs nodev /sys/kernel/tracing` mounts it; a kernel locked down for confidentiality, and most containers, forbid it"
    )]
    NoTracing {
        /// The failed attempt, and the host's error.
        what: String,
    },
    /// A device without a request queue has no D events.
    #[error("{}: it has no request queue of its own, so nothing is issued there; record Q events, or the disk below it", .0.display())]
    NoIssue(PathBuf),
    /// The kernel refused one of the settings.
    #[error("{}: cannot {what}", path.display())]
    Tracefs {
        /// The file of tracefs.
        path: PathBuf,
        /// The failed operation.
        what: &'static str,
        /// The host's error.
        #[source]
        source: io::Error,
    },
    /// The kernel's binary format is unknown to this program.
    #[error("{}: {what}; this kernel's tracing is newer or older than this program knows", path.display())]
    Layout {
        /// The file of tracefs with the description.
        path: PathBuf,
        /// The missing part.
        what: String,
    },
    /// The data does not match the kernel's description.
    #[error("{}: {what}", path.display())]
    Data {
        /// The pipe.
        path: PathBuf,
        /// The fault.
        what: String,
    },
}

/// Adds the file and the operation to the host's error.
pub(super) fn at(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> CaptureError {
    move |source| CaptureError::Tracefs { path: path.to_owned(), what, source }
}
