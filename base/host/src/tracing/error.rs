//! Errors of the kernel's tracing, for the user.

use std::io;
use std::path::{Path, PathBuf};

/// Tracing cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum TraceError {
    #[error(
        "the kernel's events cannot be reached: {what}. Tracing needs root (or CAP_SYS_ADMIN and CAP_DAC_OVERRIDE) and tracefs; `mount -t tracefs nodev /sys/kernel/tracing` mounts it; a kernel locked down for confidentiality, and most containers, forbid it"
    )]
    NoTracing { what: String },
    #[error("{}: cannot {what}", path.display())]
    Tracefs { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{}: {what}; this kernel's tracing is newer or older than this program knows", path.display())]
    Layout { path: PathBuf, what: String },
    #[error("{}: {what}", path.display())]
    Data { path: PathBuf, what: String },
}

/// Adds the file and the operation to the host's error.
pub(super) fn at(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> TraceError {
    move |source| TraceError::Tracefs { path: path.to_owned(), what, source }
}
