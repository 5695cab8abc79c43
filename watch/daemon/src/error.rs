//! Errors of watching, for the user.

use std::io;
use std::path::PathBuf;

use seekless_host::HostError;
use seekless_host::tracing::TraceError;

/// Watching cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum WatchError {
    #[error("{}: not a mount point; `findmnt -T PATH` shows the mount point of a path", .0.display())]
    NotMounted(PathBuf),
    #[error("{}: {kind} cannot be watched: {why}", point.display())]
    Unsupported { point: PathBuf, kind: String, why: &'static str },
    #[error("no file system to watch: {}", reasons(.0))]
    Nothing(Vec<String>),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{}: another `seekless watch` uses this state; stop it first, or give --state another folder", .0.display())]
    InUse(PathBuf),
    #[error("{}: no `seekless watch` runs with this state; start one, or give --state its folder", path.display())]
    NotRunning { path: PathBuf, source: io::Error },
    #[error("{}: this program cannot read the daemon's answer: {what}", path.display())]
    Answer { path: PathBuf, what: String },
    #[error(transparent)]
    Tracing(#[from] TraceError),
}

/// Why nothing can be watched: what was said about single file systems, if there are any.
fn reasons(messages: &[String]) -> String {
    if messages.is_empty() {
        return "no ext2, ext3, ext4, XFS or btrfs is mounted from a disk that rotates; name mount \
                points, or use --all"
            .to_owned();
    }
    messages.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_why_nothing_is_watched_is_said() {
        let said = WatchError::Nothing(vec!["/srv: cannot open".to_owned()]).to_string();
        assert_eq!(said, "no file system to watch: /srv: cannot open");
        assert!(WatchError::Nothing(Vec::new()).to_string().contains("--all"));
    }
}
