//! Addresses of NBD exports, as the NBD project's URI specification (`doc/uri.md`) writes them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ServeError;
use crate::listen::Address;

/// The port of the protocol.
const PORT: u16 = 10809;

/// An export of an NBD server: `nbd://HOST[:PORT]/[EXPORT]` or `nbd+unix:///[EXPORT]?socket=PATH`;
/// with TLS, `nbds://` or `nbds+unix://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    pub(crate) address: Address,
    pub(crate) export: String,
    pub(crate) tls: Option<UriTls>,
}

/// How a URI asks for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UriTls {
    /// The name that the server's certificate must have.
    pub(crate) name: String,
    /// The folder of certificates; without it, the system's authorities.
    pub(crate) folder: Option<PathBuf>,
}

impl NbdUri {
    /// The URI in a path of the command line; `None` if the path names a file.
    ///
    /// # Errors
    /// The path begins as a URI of this protocol does, and is none that can be used.
    pub fn in_path(path: &Path) -> Option<Result<Self, ServeError>> {
        let text = path.to_str()?;
        let scheme = text.split_once("://")?.0;
        scheme.starts_with("nbd").then(|| text.parse())
    }
}

impl FromStr for NbdUri {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let bad = |why: &str| ServeError::Uri { uri: text.to_owned(), why: why.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("has no ://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(export).ok_or_else(|| bad("has a bad %-code in its export"))?;
        let asked = |key: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.into_iter().find(|(k, _)| *k == key).map(|(_, value)| value);
            let bad = || bad(&format!("has a bad {key}"));
            value.map(|v| decoded(v).filter(|v| !v.is_empty()).ok_or_else(bad)).transpose()
        };
        let (scheme, has_tls) = match scheme {
            "nbds" => ("nbd", true),
            "nbds+unix" => ("nbd+unix", true),
            other => (other, false),
        };
        let socket = asked("socket")?;
        let address = match (scheme, socket) {
            ("nbd", None) if authority.is_empty() => return Err(bad("names no host")),
            ("nbd", None) => {
                Address::Tcp(with_port(authority).ok_or_else(|| bad("has a bad port"))?)
            }
            ("nbd", Some(_)) => return Err(bad("names a socket: write nbd+unix")),
            ("nbd+unix", Some(path)) if authority.is_empty() => Address::Unix(path.into()),
            ("nbd+unix", Some(_)) => return Err(bad("names a host and a socket")),
            ("nbd+unix", None) => return Err(bad("names no socket: add ?socket=PATH")),
            _ => return Err(bad("has an unknown scheme")),
        };
        let (folder, name) = (asked("tls-certificates")?, asked("tls-hostname")?);
        let tls = if has_tls {
            if asked("tls-psk-file")?.is_some() {
                return Err(bad("asks for a shared key: seekless has TLS with certificates only"));
            }
            let name = name.unwrap_or_else(|| address.host().to_owned());
            Some(UriTls { name, folder: folder.map(PathBuf::from) })
        } else if folder.is_some() || name.is_some() {
            // Without this, a slip of one letter would send everything in the clear.
            return Err(bad("has certificates and asks for no TLS: write nbds"));
        } else {
            None
        };
        Ok(Self { address, export, tls })
    }
}

/// Host and port; an IPv6 address stands in brackets.
fn with_port(authority: &str) -> Option<String> {
    let behind_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority.get(behind_host..)?.rsplit_once(':') {
        None => Some(format!("{authority}:{PORT}")),
        Some((_, port)) => port.parse::<u16>().ok().map(|_| authority.to_owned()),
    }
}

/// `%2F` and the like as the bytes they stand for.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            let (code, behind) = rest.split_at_checked(2)?;
            let digit = |at: usize| char::from(*code.get(at)?).to_digit(16);
            bytes.push((digit(0)? * 16 + digit(1)?) as u8);
            rest = behind;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls.is_some() { "s" } else { "" };
        let mut sign = '?';
        match &self.address {
            Address::Tcp(host) => write!(f, "nbd{s}://{host}/{}", self.export)?,
            Address::Unix(path) => {
                write!(f, "nbd{s}+unix:///{}?socket={}", self.export, path.display())?;
                sign = '&';
            }
        }
        let Some(UriTls { name, folder }) = &self.tls else { return Ok(()) };
        if let Some(folder) = folder {
            write!(f, "{sign}tls-certificates={}", folder.display())?;
            sign = '&';
        }
        if name == self.address.host() { Ok(()) } else { write!(f, "{sign}tls-hostname={name}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_as_the_specification_has_them() {
        for (text, address, export) in [
            ("nbd://host", "tcp:host:10809", ""),
            ("nbd://host/", "tcp:host:10809", ""),
            ("nbd://host:99/disk%201", "tcp:host:99", "disk 1"),
            ("nbd://[::1]/a/b", "tcp:[::1]:10809", "a/b"),
            ("nbd://[::1]:7/", "tcp:[::1]:7", ""),
            ("nbd+unix:///?socket=/run/s", "unix:/run/s", ""),
            ("nbd+unix:///vm?x=1&socket=%2Frun%2fs", "unix:/run/s", "vm"),
            ("nbds://host/vm", "tcp:host:10809", "vm"),
            ("nbds://[::1]:7/vm?tls-certificates=/etc/c&tls-hostname=h", "tcp:[::1]:7", "vm"),
            ("nbds+unix:///vm?socket=/s&tls-hostname=h", "unix:/s", "vm"),
        ] {
            let uri: NbdUri = text.parse().unwrap();
            assert_eq!(
                (uri.address.to_string(), uri.export.as_str()),
                (address.to_owned(), export)
            );
            assert_eq!(uri.to_string().parse::<NbdUri>().unwrap(), uri, "{text}");
        }
        for text in [
            "nbd:host",
            "nbd://",
            "nbd:///x",
            "nbd://h:x/",
            "nbd://h:70000/",
            "nbd://h/%2",
            "nbd://h/%zz",
            "nbd://h/?socket=/s",
            "nbd+unix:///",
            "nbd+unix://h/?socket=/s",
            "nbd+unix:///?socket=",
            "nbds://",
            "nbds://h/?tls-certificates=",
            "nbds://h/?tls-psk-file=/k",
            "nbd://h/?tls-certificates=/c",
            "nbd+vsock://2/",
        ] {
            let error = text.parse::<NbdUri>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let tls = |text: &str| text.parse::<NbdUri>().unwrap().tls.unwrap();
        let folder = Some(PathBuf::from("/etc/c"));
        let here = UriTls { name: "::1".to_owned(), folder };
        assert_eq!(tls("nbds://[::1]:7/?tls-certificates=%2Fetc/c"), here);
        assert_eq!(tls("nbds+unix:///?socket=/s").name, "localhost");
        assert_eq!(tls("nbds://h:7/?tls-hostname=other").name, "other");
        assert_eq!(tls("nbds://h").folder, None);
        assert!(NbdUri::in_path(Path::new("disk.img")).is_none());
        assert!(NbdUri::in_path(Path::new("nbd")).is_none());
        assert!(NbdUri::in_path(Path::new("nbdx://h")).unwrap().is_err());
    }
}
