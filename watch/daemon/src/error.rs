//! Errors of watching, for the user.

use std::io;
use std::path::PathBuf;

use seekless_host::tracing::TraceError;

/// Watching cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum WatchError {
    #[error("{}: no mount point; `findmnt -T PATH` says which one holds a path", .0.display())]
    NotMounted(PathBuf),
    #[error("{}: {kind} cannot be watched: {why}", point.display())]
    Unsupported { point: PathBuf, kind: String, why: &'static str },
    #[error(
        "no file system to watch: no ext2, ext3, ext4, XFS or btrfs is mounted from a disk that rotates; name mount points, or use --all"
    )]
    Nothing,
    #[error("{}: cannot {what}", path.display())]
    Path { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{}: another `seekless watch` uses this state; stop it first, or give --state another folder", .0.display())]
    InUse(PathBuf),
    #[error("{}: no `seekless watch` runs with this state; start one, or give --state its folder", path.display())]
    NotRunning { path: PathBuf, source: io::Error },
    #[error("{}: the daemon's answer is not understood: {what}", path.display())]
    Answer { path: PathBuf, what: String },
    #[error(transparent)]
    Tracing(#[from] TraceError),
}
