//! What can go wrong when a directory is mounted or checked, in words for the person who asked.

use std::path::PathBuf;

use seekless_host::HostError;

/// Why a directory cannot be mounted, unmounted or checked.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A file, a device or the host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A group store that cannot be made or attached.
    #[error("{}", path.display())]
    GroupStore {
        /// The file or device of the group store.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<seekless_store::AttachError>,
    },
    /// The options for grouping contradict each other.
    #[error(transparent)]
    Grouping(#[from] seekless_store::GroupConfigError),
}
