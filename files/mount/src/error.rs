//! Errors of mounting or checking a directory, in words for the user.

use std::io;
use std::path::{Path, PathBuf};

use seekless_host::HostError;

/// Why a directory cannot be mounted, unmounted or checked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MountError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{}", path.display())]
    GroupStore {
        path: PathBuf,
        #[source]
        source: Box<seekless_store::AttachError>,
    },
    #[error(transparent)]
    Grouping(#[from] seekless_store::GroupConfigError),
}

pub(crate) fn path_error<E: Into<io::Error>>(
    path: &Path,
    what: &'static str,
) -> impl FnOnce(E) -> HostError {
    let path = path.to_owned();
    move |e| HostError::Path { path, what, source: e.into() }
}
