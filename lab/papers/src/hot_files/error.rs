//! Why hot files cannot be found or moved.

use std::io;
use std::path::PathBuf;

use seekless_disk::RangeError;
use seekless_trace::TraceError;

/// Why hot files cannot be found or moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HotFilesError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The description of the disk is out of range.
    #[error(transparent)]
    Disk(#[from] RangeError),
    /// The host refused an operation on a path.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The host refused an operation on the file system.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// A file is no list of hot files.
    #[error("{} is no list of hot files", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ListError,
    },
    /// The request is not possible; the text says why.
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
pub enum ListError {
    /// Not the JSON of a list.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Another schema.
    #[error("its schema is '{found}', not {expected}: make a new list with --trace and --list")]
    Schema {
        /// The schema in the file.
        found: String,
        /// The schema of a list.
        expected: &'static str,
    },
    /// A path that could leave the mount point.
    #[error("'{0}' is no path below a mount point")]
    Path(String),
}
