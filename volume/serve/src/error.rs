//! Errors of setting up a server, for the user.

use std::io;
use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_host::HostError;

use crate::capture::CaptureError;

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ServeError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{}", path.display())]
    Area {
        path: PathBuf,
        #[source]
        source: Box<seekless_engine::AttachError>,
    },
    #[error(
        "{}: the area could not be marked as detached within {waited:.0?}; no data are lost if the area can be read again: the next attach recovers it from its log",
        path.display()
    )]
    NotDetached { path: PathBuf, waited: std::time::Duration },
    #[error("{}: {why}", path.display())]
    Socket { path: PathBuf, why: &'static str },
    #[error("{}: not a regular file; name a file, new or old, for the volume to be mounted over", .0.display())]
    MountPoint(PathBuf),
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "{0} can be reached from other machines, and all of them could read and write the volume: give --tls-cert and --tls-key (with --tls-ca, clients need a certificate too), listen on 127.0.0.1, or give --insecure"
    )]
    OpenToAll(String),
    #[error("{0}")]
    Learning(String),
    #[error("the modelled disk: {0}")]
    Model(String),
    #[error(
        "{0} can be reached from other machines: give a token (--http-token, or SEEKLESS_HTTP_TOKEN in the environment), or listen on 127.0.0.1"
    )]
    HttpOpen(String),
    #[error(
        "the token must be at least 16 visible ASCII characters; `openssl rand -hex 16` makes one"
    )]
    HttpToken,
    #[error("'{0}' is no address: write unix:PATH or tcp:HOST:PORT")]
    Address(String),
    #[error(
        "the disk holds {disk_sectors} sectors; the backing and the optimized area need {needed_sectors}"
    )]
    DiskTooSmall { disk_sectors: u64, needed_sectors: u64 },
    #[error("the emulated disk cannot spin down")]
    SpinDown(#[from] seekless_disk::SpinDownError),
    #[error("{0} is no speed for an emulated disk: give a factor above 0; 1 is real time")]
    Speed(f64),
    #[error(
        "a block device, or a disk on another server, has no directory for the file of the optimized area; name a directory"
    )]
    NoAreaDir,
    #[error("cannot take streams from {}", device.display())]
    Observe {
        device: PathBuf,
        #[source]
        source: CaptureError,
    },
    #[error(
        "{}: this device holds the served data, so its trace has the server's own reads; name the device that clients use: /dev/loopN over the mount, or /dev/nbdN",
        .0.display()
    )]
    ObserveBacking(PathBuf),
    #[error("the area {}", crate::area::NO_ROOM)]
    NoGuard,
    #[error("{uri}: {why}")]
    Uri { uri: String, why: String },
    #[error("cannot connect to {uri}")]
    Remote {
        uri: String,
        #[source]
        source: crate::client::ClientError,
    },
    #[error(
        "{given} of memory is too little: this volume needs at least {least}; give --memory {}MiB{}, or a smaller area",
        .least.0 >> 20,
        if *.pages { ", or a smaller --cache" } else { "" }
    )]
    Memory { given: Bytes, least: Bytes, pages: bool },
    #[error("the server has stopped")]
    Stopped,
}
