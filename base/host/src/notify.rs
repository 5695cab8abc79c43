//! Messages to a service manager, as in sd_notify(3): one datagram per message, with lines
//! `NAME=VALUE`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::{HostError, cannot};

/// Ready to serve.
pub const READY: &str = "READY=1";
/// Stopping.
pub const STOPPING: &str = "STOPPING=1";
/// Alive; the manager expects this message if the unit has `WatchdogSec=`.
pub const ALIVE: &str = "WATCHDOG=1";

/// Whether a service manager started this program, and waits for a message.
pub(crate) fn is_managed() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some_and(|name| !name.is_empty())
}

/// The service manager that started this program.
#[derive(Debug)]
pub struct Manager(UnixDatagram);

impl Manager {
    /// The manager at `NOTIFY_SOCKET`; `None` if the variable is not set.
    pub fn from_env() -> Result<Option<Self>, HostError> {
        let name = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let manager = name.map(|name| Self::new(&name)).transpose();
        manager.map_err(cannot("tell the service manager at NOTIFY_SOCKET"))
    }

    /// A manager at a path, or at an abstract name that begins with `@`.
    fn new(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A manager that does not read must not block the server.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends a message with the first line of `status`; drops the message if that is not possible.
    pub fn tell(&self, state: &str, status: &str) {
        let status = status.lines().next().unwrap_or_default();
        let _ = self.0.send(format!("{state}\nSTATUS={status}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_at_paths_and_at_abstract_names() {
        let path = env::temp_dir().join(format!("seekless-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let abstract_name = format!("seekless-notify-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let mut buf = [0; 100];
        for (socket, name) in [
            (&by_path, path.clone().into_os_string()),
            (&by_name, format!("@{abstract_name}").into()),
        ] {
            let manager = Manager::new(&name).unwrap();
            manager.tell(READY, "serving\nmore");
            let n = socket.recv(&mut buf).unwrap();
            assert_eq!(&buf[..n], b"READY=1\nSTATUS=serving");
        }
        // A manager that does not read blocks nothing.
        let manager = Manager::new(path.as_os_str()).unwrap();
        (0..10_000).for_each(|_| manager.tell(ALIVE, "here"));
        std::fs::remove_file(&path).unwrap();
        assert!(Manager::new(path.as_os_str()).is_err(), "nobody listens");
        for bad in ["", "x\0y", &"long".repeat(100)] {
            assert!(Manager::new(OsStr::new(bad)).is_err(), "{bad}");
        }
    }
}
