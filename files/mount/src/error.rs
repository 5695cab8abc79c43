//! Errors of mounting or checking a directory, in words for the user.

use std::path::PathBuf;

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
