//! What can go wrong with a workload on a directory.

use std::io;
use std::path::PathBuf;

/// A workload that could not be laid or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The host refused an operation.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A flow wanted a file and there was none in the state it asked for.
    #[error(
        "step '{step}': file set '{set}' has no file left to {what}; the set is too small for this many threads: \
         give it more files (a larger --scale), or run fewer threads"
    )]
    RanOut {
        /// The step.
        step: String,
        /// The set.
        set: String,
        /// What was to be done with one.
        what: &'static str,
    },
    /// An operation of a flow failed.
    #[error("step '{step}': {what} failed")]
    Step {
        /// The step.
        step: String,
        /// The operation.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The directory to work in already holds something.
    #[error("{} is not empty; give a directory of its own", .0.display())]
    NotEmpty(PathBuf),
    /// It was asked to stop.
    #[error("stopped as asked")]
    Stopped,
    /// A thread ended by itself: a bug here.
    #[error("a thread ended by panic")]
    Panicked,
}

impl WorkloadError {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
