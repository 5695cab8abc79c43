//! Errors of a workload on a directory.

use std::io;
use std::path::PathBuf;

/// A workload could not be prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The host refused an operation.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error from the host.
        source: io::Error,
    },
    /// A flow needed a file, but none was in the requested state.
    #[error(
        "step '{step}': file set '{set}' has no file left to {what}; the set is too small for this many threads: \
         give it more files (a larger --scale), or run fewer threads"
    )]
    RanOut {
        /// The step.
        step: String,
        /// The file set.
        set: String,
        /// The operation that needed a file.
        what: &'static str,
    },
    /// An operation of a flow failed.
    #[error("step '{step}': {what} failed")]
    FlowStep {
        /// The step.
        step: String,
        /// The operation.
        what: &'static str,
        /// The error from the host.
        source: io::Error,
    },
    /// The working directory is not empty.
    #[error("{} is not empty; choose an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// The run was stopped on request.
    #[error("stopped on request")]
    Stopped,
    /// A thread panicked: a bug in this crate.
    #[error("a thread panicked; this is a bug")]
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
