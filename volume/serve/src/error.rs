//! What can go wrong when a server is set up, in words for the person who set it up.

use std::io;
use std::path::PathBuf;

use crate::capture::CaptureError;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file or device could not be opened or asked.
    #[error("{}: cannot {what}", path.display())]
    Path {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The host's word.
        #[source]
        source: io::Error,
    },
    /// Another process holds the backing.
    #[error(
        "{}: another process serves it (its lock is taken); stop that one first, or open both read-only",
        .0.display()
    )]
    Locked(PathBuf),
    /// The kernel or another program holds a device.
    #[error("{}: in use: {by}", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
        /// Who holds it.
        by: String,
    },
    /// What is there does not allow it; nothing was changed.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The file or device.
        path: PathBuf,
        /// What was found, and what to do.
        why: String,
    },
    /// An area that cannot be made or attached.
    #[error("{}", path.display())]
    Area {
        /// Where it stands.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<seekless_engine::AttachError>,
    },
    /// A group store that cannot be made or attached.
    #[error("{}", path.display())]
    GroupStore {
        /// Where it stands.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<seekless_store::AttachError>,
    },
    /// Files cannot be grouped so.
    #[error("{0}")]
    Grouping(String),
    /// The area could not be put to rest.
    #[error(
        "{}: the area could not be marked as detached within {waited:?}; nothing is lost: the next attach recovers it from its log",
        path.display()
    )]
    NotDetached {
        /// Where it stands.
        path: PathBuf,
        /// For so long.
        waited: std::time::Duration,
    },
    /// The backing is no file and no block device.
    #[error("{}: neither a regular file nor a block device", .0.display())]
    NotADisk(PathBuf),
    /// The backing's size is not whole sectors.
    #[error(
        "{}: {bytes} bytes is not a multiple of 512; extend it with `truncate -s %512 FILE`",
        path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Something is at the path of a socket to be.
    #[error("{}: {why}", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// What is there.
        why: &'static str,
    },
    /// A volume cannot be mounted over what is there.
    #[error("{}: not a regular file; name a file, new or old, for the volume to be mounted over", .0.display())]
    MountPoint(PathBuf),
    /// An address could not be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The host's word.
        #[source]
        source: io::Error,
    },
    /// The volume cannot be learned from so.
    #[error("{0}")]
    Learning(String),
    /// The model of a disk beside the volume cannot be had.
    #[error("the modelled disk: {0}")]
    Model(String),
    /// A page would be open to the network.
    #[error(
        "{0} can be reached from other machines: give a token (--http-token, or SEEKLESS_HTTP_TOKEN in the environment), or listen on 127.0.0.1"
    )]
    HttpOpen(String),
    /// A token that can be guessed, or cannot be sent.
    #[error(
        "the token must be at least 16 visible ASCII characters; `openssl rand -hex 16` makes one"
    )]
    HttpToken,
    /// An address that is no address.
    #[error("'{0}' is no address: write unix:PATH or tcp:HOST:PORT")]
    Address(String),
    /// The emulated disk is smaller than what it must hold.
    #[error(
        "the disk holds {disk_sectors} sectors; the backing and the optimized area need {needed_sectors}"
    )]
    DiskTooSmall {
        /// What it holds.
        disk_sectors: u64,
        /// What it should hold.
        needed_sectors: u64,
    },
    /// The emulated disk cannot spin down as asked.
    #[error("the emulated disk cannot spin down")]
    SpinDown(#[from] seekless_disk::SpinDownError),
    /// The emulated disk's speed is no factor.
    #[error("{0} is no speed for an emulated disk: give a factor above 0, 1 being real time")]
    Speed(f64),
    /// There is no directory beside the backing to put the optimized area in.
    #[error("a block device has no directory beside it; name one for the optimized area's file")]
    NoAreaDir,
    /// The host refused something that a server needs.
    #[error("cannot {what}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// The host's word.
        #[source]
        source: io::Error,
    },
    /// The kernel's trace of a device cannot be had.
    #[error("cannot take streams from {}", device.display())]
    Observe {
        /// The device.
        device: PathBuf,
        /// Why.
        #[source]
        source: CaptureError,
    },
    /// The device to observe is the server's, not its clients'.
    #[error(
        "{}: what is served lies on it, so that it shows the server's own reads; name the device that clients use: /dev/loopN over the mount, or /dev/nbdN",
        .0.display()
    )]
    ObserveBacking(PathBuf),
    /// There is no room for a guard.
    #[error("the area {}", crate::area::NO_ROOM)]
    NoGuard,
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}

/// Wraps the host's error.
pub(crate) fn host<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> ServeError {
    move |e| ServeError::Host { what, source: e.into() }
}
