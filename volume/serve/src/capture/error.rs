//! Errors of recording, for the user.

use std::path::PathBuf;

use seekless_host::tracing::TraceError;

/// A recording cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CaptureError {
    #[error(
        "{}: {what}; name a block device, as `lsblk` lists them (`findmnt -no SOURCE -T PATH` says which one holds a file)",
        path.display()
    )]
    NotABlockDevice { path: PathBuf, what: String },
    #[error("{}: it has no request queue of its own, so nothing is issued there; record Q events, or the disk below it", .0.display())]
    NoIssue(PathBuf),
    #[error(transparent)]
    Tracing(#[from] TraceError),
}
