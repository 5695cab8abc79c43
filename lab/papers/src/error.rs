//! Why an experiment of a paper has no result.

use std::io;
use std::path::PathBuf;

use seekless_compare::StudyError;
use seekless_disk::catalogue::CatalogueError;
use seekless_disk::fit::FitError;
use seekless_disk::{DiskError, RangeError};
use seekless_trace::TraceError;

use crate::FilesError;

/// Why an experiment of a paper has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PaperError {
    #[error(transparent)]
    Replay(#[from] StudyError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Spec(#[from] RangeError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Fit(#[from] FitError),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: expected {expected}", path.display())]
    Unexpected {
        path: PathBuf,
        expected: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{}", path.display())]
    InTrace { path: PathBuf, source: Box<Self> },
    #[error("{0}")]
    Invalid(String),
}
