//! Unix and TCP sockets for clients, and their addresses.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use seekless_host::cannot_at;

use crate::error::ServeError;
use crate::tls::Tls;

/// Send buffer for replies; the host may allow less.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Longest wait for the queue of a unix socket at which another program listens.
pub(crate) const QUEUE_MOST: Duration = Duration::from_secs(5);
/// Clients that wait to be accepted.
const BACKLOG: i32 = 128;

/// An address to listen on: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// Host and port; port 0 is any free port.
    Tcp(String),
}

impl Address {
    /// The name or number of the machine, without brackets.
    pub(crate) fn host(&self) -> &str {
        match self {
            Self::Unix(_) => "localhost",
            Self::Tcp(address) => {
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
            }
        }
    }

    /// A connection, each read and write of which waits no longer than `patience`.
    pub(crate) fn connect(&self, patience: Duration) -> io::Result<UnixStream> {
        let stream = match self {
            Self::Unix(path) => connect_unix(path, patience)?,
            Self::Tcp(host) => {
                let stream = connect_tcp(host, patience)?;
                stream.set_nodelay(true)?;
                // Reads and writes are the same for both kinds of socket.
                OwnedFd::from(stream).into()
            }
        };
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(stream)
    }
}

/// At a server that accepts nobody, a full queue makes the next one wait: as long as it may send.
pub(crate) fn connect_unix(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let family = AddressFamily::UNIX;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

fn connect_tcp(host: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for at in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
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

/// The clients that may connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Required from every client over TCP.
    pub(crate) tls: Option<Tls>,
    /// Other machines may connect without TLS.
    pub(crate) insecure: bool,
    /// Users who may connect to unix sockets, beside root and the user who serves.
    pub(crate) users: Vec<u32>,
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// This host, over TCP: any process, or the kernel.
    Here,
    /// Another machine; with IPv6, its network.
    Machine(IpAddr),
    /// Another user of this host.
    User(u32),
}

/// A client that has just connected.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) fd: OwnedFd,
    /// `None`: root or the user who serves.
    pub(crate) peer: Option<Peer>,
    /// The client must begin with TLS.
    pub(crate) tls: Option<Tls>,
}

/// A listening socket. Dropping it removes a unix socket's name.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix { socket: OwnedFd, path: PathBuf, inode: (u64, u64), users: Vec<u32> },
    Tcp { socket: TcpListener, tls: Option<Tls> },
}

impl Listener {
    pub(crate) fn bind(address: &Address, access: &Access) -> Result<Self, ServeError> {
        let fail = |source: io::Error| ServeError::Listen { address: address.to_string(), source };
        match address {
            Address::Unix(path) => {
                clear_stale(path)?;
                let mode = if access.users.is_empty() { 0o600 } else { 0o666 };
                let socket = unix_socket(path, mode).map_err(|e| fail(e.into()))?;
                let meta = path.symlink_metadata().map_err(fail)?;
                let inode = (meta.dev(), meta.ino());
                Ok(Self::Unix { socket, path: path.clone(), inode, users: access.users.clone() })
            }
            Address::Tcp(host) => {
                let socket = TcpListener::bind(host.as_str()).map_err(fail)?;
                socket.set_nonblocking(true).map_err(fail)?;
                let local = socket.local_addr().map_err(fail)?.ip();
                if !local.is_loopback() && access.tls.is_none() && !access.insecure {
                    return Err(ServeError::OpenToAll(address.to_string()));
                }
                Ok(Self::Tcp { socket, tls: access.tls.clone() })
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { socket, .. } => socket.as_fd(),
            Self::Tcp { socket, .. } => socket.as_fd(),
        }
    }

    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix { .. } => None,
            Self::Tcp { socket, .. } => socket.local_addr().ok(),
        }
    }

    /// The next waiting client. Error `PERM`: a user who may not connect.
    pub(crate) fn accept(&self) -> Result<Accepted, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::accept_with(self.fd(), flags)?;
        let (peer, tls) = match self {
            Self::Tcp { tls, .. } => {
                // A host that refuses only makes replies slower, and keeps a dead client longer.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&fd, true);
                let _ = rustix::net::sockopt::set_socket_keepalive(&fd, true);
                let from = rustix::net::getpeername(&fd)?.ok_or(Errno::NOTCONN)?;
                let from = SocketAddr::try_from(from).map_err(|_| Errno::AFNOSUPPORT)?.ip();
                let to = SocketAddr::try_from(rustix::net::getsockname(&fd)?);
                let here = from.to_canonical().is_loopback() || to.is_ok_and(|to| to.ip() == from);
                let peer = if here { Peer::Here } else { Peer::Machine(network_of(from)) };
                (Some(peer), tls.clone())
            }
            Self::Unix { users, .. } => {
                // A full unix socket accepts more only after three quarters were read.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER_BYTES);
                let (_, user) = seekless_host::sys::peer(&fd)?;
                let own = [0, rustix::process::geteuid().as_raw()].contains(&user);
                if !own && !users.contains(&user) {
                    return Err(Errno::PERM);
                }
                ((!own).then_some(Peer::User(user)), None)
            }
        };
        Ok(Accepted { fd, peer, tls })
    }
}

/// A listening unix socket whose file has this mode from its first moment on.
fn unix_socket(path: &Path, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = AddressFamily::UNIX;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // The file takes the mode of the socket, less the umask.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    if mode != 0o600 {
        open_up(path, mode)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Gives this mode to a socket of this user. A user who may write the folder can put a link or
/// another file in its place at any moment, so every step works on one opened file.
fn open_up(path: &Path, mode: u32) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    let own = stat.st_uid == rustix::process::geteuid().as_raw();
    // With a second name, it may be a socket of another server that this user runs.
    if !is_socket || !own || stat.st_nlink != 1 {
        return Err(Errno::ACCESS);
    }
    let opened = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmod(opened, Mode::from_raw_mode(mode))
}

/// The process that connected a unix socket, if this one can see it.
pub(crate) fn process_of(socket: BorrowedFd<'_>) -> Option<i32> {
    let unix = rustix::net::sockopt::socket_domain(socket).ok()? == AddressFamily::UNIX;
    let (pid, _) = unix.then(|| seekless_host::sys::peer(socket).ok())??;
    (pid > 0).then_some(pid)
}

/// True for a unix socket whose other process has ended, or has no process number that the kernel
/// uses for it. The latter happens if this process, or the other one, is in another namespace of
/// process numbers.
pub(crate) fn is_hidden(socket: BorrowedFd<'_>) -> bool {
    let unix = rustix::net::sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX);
    unix && (is_within() || process_of(socket).is_none_or(|pid| !is_there(pid)))
}

fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// True if the kernel's own lists have another number for this process. This happens in any
/// namespace but the first, which has the same inode number in each kernel.
fn is_within() -> bool {
    let own = Path::new("/proc/self/ns/pid").read_link();
    own.is_ok_and(|own| own != Path::new("pid:[4026531836]"))
}

/// An IPv4 address, or the first 64 bits of an IPv6 address: one machine can have all others.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
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
    match connect_unix(path, QUEUE_MOST) {
        Ok(_) => refuse("another server listens there; stop it or choose another path"),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            refuse("another program listens there and does not answer; choose another path")
        }
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            Ok(std::fs::remove_file(path).map_err(cannot_at(path, "remove the stale socket"))?)
        }
        Err(e) => Err(cannot_at(path, "tell whether a server listens on the socket")(e).into()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A listener that accepts nobody, and the connections that fill its queue.
    pub(crate) fn full(path: &Path) -> (OwnedFd, Vec<UnixStream>) {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let connect = |_| connect_unix(path, Duration::from_millis(50)).ok();
        let queue: Vec<_> = (0..4).map_while(connect).collect();
        assert!((1..4).contains(&queue.len()), "{queue:?}");
        (socket, queue)
    }

    /// The result of work that waits no longer than a full queue allows. Work without an end stays
    /// behind in its thread.
    pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(work()));
        receiver.recv_timeout(QUEUE_MOST * 6).expect("the work did not end in time")
    }

    #[test]
    fn the_other_end_of_a_unix_socket_is_known() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(process_of(one.as_fd()), Some(own));
        let user = rustix::process::getuid().as_raw();
        assert_eq!(seekless_host::sys::peer(&other), Ok((own, user)));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(process_of(tcp.as_fd()), None);
        assert!(!is_hidden(tcp.as_fd()) && is_hidden(one.as_fd()) == is_within());
        assert!(
            is_there(own) && !is_there(i32::MAX),
            "a client that has gone on as another process"
        );
    }

    #[test]
    fn a_server_that_accepts_nobody_is_left_in_time() {
        let path = std::env::temp_dir().join(format!("seekless-{}-full", std::process::id()));
        let _full = full(&path);
        let address = Address::Unix(path.clone());
        let error = address.connect(Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // Nor does a server wait for the program in its place.
        let refused = in_time(move || Listener::bind(&address, &Access::default()).map(drop));
        std::fs::remove_file(path).unwrap();
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("does not answer"), "{said}");
    }

    #[test]
    fn only_a_socket_of_this_user_is_opened_to_others() {
        let dir = std::env::temp_dir().join(format!("seekless-{}-open-up", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let at = |name: &str| dir.join(name);
        let mode = |name: &str| at(name).metadata().unwrap().mode() & 0o777;
        let private = || std::fs::Permissions::from_mode(0o600);
        std::fs::write(at("file"), "").unwrap();
        std::fs::set_permissions(at("file"), private()).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let sockets = ["one", "two"].map(|name| UnixListener::bind(at(name)).unwrap());
        for name in ["one", "two"] {
            std::fs::set_permissions(at(name), private()).unwrap();
        }
        std::os::unix::fs::symlink("one", at("link to one")).unwrap();
        std::fs::hard_link(at("two"), at("again")).unwrap();
        for name in ["file", "link", "link to one", "again"] {
            assert!(open_up(&at(name), 0o666).is_err(), "{name}");
            assert_eq!(mode(name), 0o600, "{name}");
        }
        open_up(&at("one"), 0o666).unwrap();
        assert_eq!(mode("one"), 0o666);
        drop(sockets);
        std::fs::remove_dir_all(&dir).unwrap();
    }

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
