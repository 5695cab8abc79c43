//! Errors of setting up a server, for the user.

use std::io;
use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_host::HostError;

use crate::capture::CaptureError;

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file, a device or the host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An area that cannot be made or attached.
    #[error("{}", path.display())]
    Area {
        /// Its place.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Box<seekless_engine::AttachError>,
    },
    /// The area could not be saved.
    #[error(
        "{}: the area could not be marked as detached within {waited:.0?}; an area that is readable again loses nothing: the next attach recovers it from its log",
        path.display()
    )]
    NotDetached {
        /// Its place.
        path: PathBuf,
        /// Time waited.
        waited: std::time::Duration,
    },
    /// Something is at the path of a new socket.
    #[error("{}: {why}", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// Its kind.
        why: &'static str,
    },
    /// The mount point is not a regular file.
    #[error("{}: not a regular file; name a file, new or old, for the volume to be mounted over", .0.display())]
    MountPoint(PathBuf),
    /// An address could not be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The host's error.
        #[source]
        source: io::Error,
    },
    /// Every machine that reaches the address could read and write the volume.
    #[error(
        "{0} can be reached from other machines, and all of them could read and write the volume: give --tls-cert and --tls-key (with --tls-ca, clients need a certificate too), listen on 127.0.0.1, or give --insecure"
    )]
    OpenToAll(String),
    /// Learning is impossible with these settings.
    #[error("{0}")]
    Learning(String),
    /// No model of a disk for the volume.
    #[error("the modelled disk: {0}")]
    Model(String),
    /// The page would be open to the network.
    #[error(
        "{0} can be reached from other machines: give a token (--http-token, or SEEKLESS_HTTP_TOKEN in the environment), or listen on 127.0.0.1"
    )]
    HttpOpen(String),
    /// The token is too short, or cannot be sent.
    #[error(
        "the token must be at least 16 visible ASCII characters; `openssl rand -hex 16` makes one"
    )]
    HttpToken,
    /// The address is malformed.
    #[error("'{0}' is no address: write unix:PATH or tcp:HOST:PORT")]
    Address(String),
    /// The emulated disk is smaller than what it must hold.
    #[error(
        "the disk holds {disk_sectors} sectors; the backing and the optimized area need {needed_sectors}"
    )]
    DiskTooSmall {
        /// Its capacity.
        disk_sectors: u64,
        /// The needed capacity.
        needed_sectors: u64,
    },
    /// The emulated disk cannot spin down as asked.
    #[error("the emulated disk cannot spin down")]
    SpinDown(#[from] seekless_disk::SpinDownError),
    /// The emulated disk's speed is no factor.
    #[error("{0} is no speed for an emulated disk: give a factor above 0; 1 is real time")]
    Speed(f64),
    /// No directory for the optimized area.
    #[error(
        "no directory stands beside a block device, or beside a disk on another server; name one for the optimized area's file"
    )]
    NoAreaDir,
    /// The kernel's trace of a device is not available.
    #[error("cannot take streams from {}", device.display())]
    Observe {
        /// The device.
        device: PathBuf,
        /// Cause.
        #[source]
        source: CaptureError,
    },
    /// The device to observe belongs to the server, not to its clients.
    #[error(
        "{}: it holds the served data, so its trace has the server's own reads; name the device that clients use: /dev/loopN over the mount, or /dev/nbdN",
        .0.display()
    )]
    ObserveBacking(PathBuf),
    /// There is no space for a guard.
    #[error("the area {}", crate::area::NO_ROOM)]
    NoGuard,
    /// The address of a home on another server is of no use.
    #[error("{uri}: {why}")]
    Uri {
        /// The address.
        uri: String,
        /// Cause.
        why: String,
    },
    /// A home on another server cannot be reached.
    #[error("cannot connect to {uri}")]
    Remote {
        /// The address.
        uri: String,
        /// Cause.
        #[source]
        source: crate::client::ClientError,
    },
    /// The server needs more memory than it may take.
    #[error(
        "{given} of memory is too little: this volume needs at least {least}; give --memory {}MiB{}, or a smaller area",
        .least.0 >> 20,
        if *.pages { ", or a smaller --cache" } else { "" }
    )]
    Memory {
        /// What it may take.
        given: Bytes,
        /// What it needs.
        least: Bytes,
        /// Memory for pages was asked for.
        pages: bool,
    },
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}
