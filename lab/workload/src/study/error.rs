//! Why a study cannot be run or read.

use std::io;
use std::path::PathBuf;

use crate::host::HostError;
use crate::{NamedError, TextError, WorkloadError};

/// Why a study cannot be run or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StudyError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Named(#[from] NamedError),
    #[error(transparent)]
    Spec(#[from] TextError),
    #[error("{} holds no study: cannot read {}", dir.display(), path.display())]
    NoStudy { dir: PathBuf, path: PathBuf, source: io::Error },
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{}:{line}: {why}", path.display())]
    Record { path: PathBuf, line: usize, why: String },
    #[error("cannot drop caches")]
    DropCaches(#[source] io::Error),
    #[error("{0}")]
    Refused(String),
}
