//! Why a study cannot be run or read.

use std::io;
use std::path::PathBuf;

use crate::host::HostError;
use crate::{NamedError, TextError, WorkloadError};

/// Why a study cannot be run or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The host refused a device, a file system or a mount.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The workload failed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// There is no such workload.
    #[error(transparent)]
    Named(#[from] NamedError),
    /// The specification is wrong.
    #[error(transparent)]
    Spec(#[from] TextError),
    /// The folder holds no study.
    #[error("{} holds no study: cannot read {}", dir.display(), path.display())]
    NoStudy {
        /// The folder.
        dir: PathBuf,
        /// The file that every study has.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The host refused an operation on a file of the study.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// A file of the study is damaged.
    #[error("{}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A record of a run is damaged.
    #[error("{}:{line}: {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// The page cache could not be emptied.
    #[error("cannot drop caches")]
    DropCaches(#[source] io::Error),
    /// The study cannot run so; the text says why.
    #[error("{0}")]
    Refused(String),
}
