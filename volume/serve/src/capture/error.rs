//! Errors of recording, for the user.

use std::path::PathBuf;

use seekless_host::tracing::TraceError;

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
    /// A device without a request queue has no D events.
    #[error("{}: it has no request queue of its own, so nothing is issued there; record Q events, or the disk below it", .0.display())]
    NoIssue(PathBuf),
    /// The kernel's tracing refused.
    #[error(transparent)]
    Tracing(#[from] TraceError),
}
