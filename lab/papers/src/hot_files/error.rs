//! Why hot files cannot be found or moved.

use std::io;
use std::path::PathBuf;

use seekless_disk::RangeError;
use seekless_trace::TraceError;

/// Why hot files cannot be found or moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum HotFilesError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Disk(#[from] RangeError),
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Host(#[from] io::Error),
    #[error("{} is not a list of hot files: {why}", path.display())]
    List { path: PathBuf, why: String },
    #[error("{0}")]
    Refused(String),
}

impl From<rustix::io::Errno> for HotFilesError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Host(error.into())
    }
}
