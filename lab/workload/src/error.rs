//! Errors of a workload on a directory.

use std::io;
use std::path::PathBuf;

/// A workload could not be prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WorkloadError {
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "step '{step}': file set '{set}' has no file left to {what}; the set is too small for this many threads: \
         give it more files (a larger --scale), or run fewer threads"
    )]
    RanOut { step: String, set: String, what: &'static str },
    #[error("step '{step}': {what} failed")]
    FlowStep { step: String, what: &'static str, source: io::Error },
    #[error("{} is not empty; choose an empty directory", .0.display())]
    NotEmpty(PathBuf),
    #[error("stopped on request")]
    Stopped,
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
