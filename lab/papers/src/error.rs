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
pub enum PaperError {
    /// A replay on a modelled disk failed.
    #[error(transparent)]
    Replay(#[from] StudyError),
    /// A replay of file requests failed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The catalogue has no such disk.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The description of a disk is out of range.
    #[error(transparent)]
    Spec(#[from] RangeError),
    /// A modelled disk refused a request.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The accesses do not determine a disk.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// A file holds another thing than the experiment expects.
    #[error("{}: expected {expected}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The content that the experiment expects.
        expected: &'static str,
        /// Why the content is another.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A trace of files cannot be replayed.
    #[error("{}", path.display())]
    InTrace {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: Box<Self>,
    },
    /// The request is not possible; the text says why.
    #[error("{0}")]
    Invalid(String),
}
