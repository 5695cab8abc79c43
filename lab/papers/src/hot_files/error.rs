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
    #[error("{} is no list of hot files", path.display())]
    List { path: PathBuf, source: ListError },
    #[error("{0}")]
    Refused(String),
}

impl From<rustix::io::Errno> for HotFilesError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Host(error.into())
    }
}

/// Why a text is no list of hot files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ListError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("its schema is '{found}', not {expected}: make a new list with --trace and --list")]
    Schema { found: String, expected: &'static str },
    #[error("'{0}' is no path below a mount point")]
    Path(String),
}
