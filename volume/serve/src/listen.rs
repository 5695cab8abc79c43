//! Unix and TCP sockets for clients, and their addresses.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::net::SocketFlags;
use seekless_host::HostError;

use crate::error::ServeError;

/// Send buffer for replies; the host may allow less.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// An address to listen on: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// Host and port; port 0 is any free port.
    Tcp(String),
}

impl FromStr for Address {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let bad = || ServeError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:").filter(|p| !p.is_empty()) {
            Ok(Self::Unix(path.into()))
        } else if let Some(rest) = text.strip_prefix("tcp:") {
            let (host, port) = rest.rsplit_once(':').ok_or_else(bad)?;
            port.parse::<u16>().map_err(|_| bad())?;
            if host.is_empty() { Err(bad()) } else { Ok(Self::Tcp(rest.to_owned())) }
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A listening socket. Dropping it removes a unix socket's name.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix { socket: UnixListener, path: PathBuf, inode: (u64, u64) },
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> Result<Self, ServeError> {
        let fail = |source: io::Error| ServeError::Listen { address: address.to_string(), source };
        match address {
            Address::Unix(path) => {
                clear_stale(path)?;
                let socket = UnixListener::bind(path).map_err(fail)?;
                socket.set_nonblocking(true).map_err(fail)?;
                let meta = path.symlink_metadata().map_err(fail)?;
                Ok(Self::Unix { socket, path: path.clone(), inode: (meta.dev(), meta.ino()) })
            }
            Address::Tcp(host) => {
                let socket = TcpListener::bind(host.as_str()).map_err(fail)?;
                socket.set_nonblocking(true).map_err(fail)?;
                Ok(Self::Tcp(socket))
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { socket, .. } => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }

    /// The address in use, for TCP.
    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix { .. } => None,
            Self::Tcp(socket) => socket.local_addr().ok(),
        }
    }

    /// The next waiting client.
    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::accept_with(self.fd(), flags)?;
        // A host that refuses only makes replies slower.
        let _ = match self {
            // Replies are sent whole: no delay is useful.
            Self::Tcp(_) => rustix::net::sockopt::set_tcp_nodelay(&fd, true),
            // A full unix socket accepts more only after three quarters were read.
            Self::Unix { .. } => {
                rustix::net::sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER_BYTES)
            }
        };
        Ok(fd)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, inode, .. } = self
            && path.symlink_metadata().is_ok_and(|m| (m.dev(), m.ino()) == *inode)
        {
            // If another server removed it first, it is gone too.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket without a listener.
fn clear_stale(path: &Path) -> Result<(), ServeError> {
    let refuse = |why| Err(ServeError::Socket { path: path.to_owned(), why });
    match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(meta) if !meta.file_type().is_socket() => {
            return refuse("it exists and is not a socket; remove it or choose another path");
        }
        Ok(_) => {}
    }
    let failed = |what, source| -> ServeError {
        HostError::Path { path: path.to_owned(), what, source }.into()
    };
    match UnixStream::connect(path) {
        Ok(_) => refuse("another server listens there; stop it or choose another path"),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| failed("remove the stale socket", source))
        }
        Err(source) => Err(failed("tell whether a server listens on the socket", source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        for text in ["unix:/tmp/x", "unix:a b", "tcp:localhost:10809", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "tcp:", "tcp:host", "tcp::80", "tcp:h:99999", "/tmp/x", "udp:a:1"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
