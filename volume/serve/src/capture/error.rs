//! Why nothing can be recorded, in words for the person who asked.

use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The path is no block device.
    #[error(
        "{}: {what}; name a block device, as `lsblk` lists them (`findmnt -no SOURCE -T PATH` says which one holds a file)",
        path.display()
    )]
    NotABlockDevice {
        /// What was named.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The kernel's tracing cannot be reached.
    #[error(
        "the kernel's block events cannot be reached: {what}. Recording needs root (or CAP_SYS_ADMIN and CAP_DAC_OVERRIDE) and tracefs; `mount -t tracefs nodev /sys/kernel/tracing` mounts it; a kernel locked down for confidentiality, and most containers, forbid it"
    )]
    NoTracing {
        /// What was tried, and the host's word.
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
        /// What was tried.
        what: &'static str,
        /// The host's word.
        #[source]
        source: io::Error,
    },
    /// The kernel describes its binary data in a way that this program does not know.
    #[error("{}: {what}; this kernel's tracing is newer or older than this program knows", path.display())]
    Layout {
        /// The file of tracefs that describes it.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// What was read is not what the kernel described.
    #[error("{}: {what}", path.display())]
    Data {
        /// The pipe.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Wraps the host's error with the file it came of.
pub(super) fn at(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> CaptureError {
    move |source| CaptureError::Tracefs { path: path.to_owned(), what, source }
}
