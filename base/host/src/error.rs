//! The errors of files, devices and system calls.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file or device cannot be used, or why the host refused a call.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum HostError {
    #[error("{}: cannot {what}", path.display())]
    Path { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{}: {by}", path.display())]
    Locked { path: PathBuf, by: String },
    #[error("{}: in use: {by}", path.display())]
    InUse { path: PathBuf, by: String },
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    #[error("{}: not a regular file and not a block device; name a file or a block device", .0.display())]
    NotADisk(PathBuf),
    #[error(
        "{}: {bytes} bytes is not a multiple of 512; extend it with `truncate -s %512 FILE`",
        path.display()
    )]
    Size { path: PathBuf, bytes: u64 },
    #[error("cannot {what}")]
    Call { what: &'static str, source: io::Error },
}

/// Wraps the host's error of a call; `what` completes "cannot ...".
pub fn cannot<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> HostError {
    move |e| HostError::Call { what, source: e.into() }
}

/// The same for a file, a folder or a device.
pub fn cannot_at<E: Into<io::Error>>(
    path: &Path,
    what: &'static str,
) -> impl FnOnce(E) -> HostError + use<E> {
    let path = path.to_owned();
    move |e| HostError::Path { path, what, source: e.into() }
}
