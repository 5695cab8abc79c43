//! The control socket of a backing's server.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use seekless_host::{HostError, cannot_at};

use crate::{Address, NbdUri, ServeError};

/// The unix socket of the server of `backing`, in a directory of this user alone. The server may
/// not run.
pub(super) fn socket_of(backing: &Path) -> Result<PathBuf, ServeError> {
    let uid = rustix::process::getuid();
    let dir = if uid.is_root() {
        PathBuf::from("/run/seekless")
    } else {
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(dir) => PathBuf::from(dir).join("seekless"),
            None => std::env::temp_dir().join(format!("seekless-{}", uid.as_raw())),
        }
    };
    let path = match NbdUri::in_path(backing) {
        Some(uri) => PathBuf::from(uri?.to_string()),
        None => backing.canonicalize().map_err(cannot_at(backing, "open it"))?,
    };
    // The hash of the path distinguishes backings; the file name is for people. A socket path is
    // short.
    let name: String =
        path.file_name().unwrap_or_default().to_string_lossy().chars().take(30).collect();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    Ok(dir.join(format!("{name}-{:016x}.sock", fnv1a(path.as_os_str().as_encoded_bytes()))))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |sum, b| (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3))
}

/// Makes the directory of control sockets if it is absent. Only this user may have access.
pub(super) fn make_directory(socket: &Path) -> Result<(), ServeError> {
    let Some(dir) = socket.parent() else { return Ok(()) };
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(cannot_at(dir, "make it")(e).into())
        }
        _ => ensure_own(dir),
    }
}

/// Refuses a directory of control sockets that another user has made or may enter.
fn ensure_own(dir: &Path) -> Result<(), ServeError> {
    let meta = dir.symlink_metadata().map_err(cannot_at(dir, "look at it"))?;
    let own = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    if own && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    let why =
        "others can reach into it; `chmod 700` it, or remove it if it is not yours".to_owned();
    Err(HostError::Refused { path: dir.to_owned(), why }.into())
}

/// The address of the server of a backing, if one answers.
pub(super) fn server_of(backing: &Path) -> Result<Option<Address>, ServeError> {
    let socket = socket_of(backing)?;
    Ok(answers(&socket)?.then_some(Address::Unix(socket)))
}

/// True if a server listens at this socket. Any user can listen in a directory of their own, and
/// say that a volume is drained.
fn answers(socket: &Path) -> Result<bool, ServeError> {
    let answers = UnixStream::connect(socket).is_ok();
    if answers && let Some(dir) = socket.parent() {
        ensure_own(dir)?;
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_server_in_a_directory_of_this_user_is_believed() {
        let dir = std::env::temp_dir().join(format!("seekless-{}-control", std::process::id()));
        let socket = dir.join("s");
        make_directory(&socket).unwrap();
        assert!(!answers(&socket).unwrap());
        let _server = UnixListener::bind(&socket).unwrap();
        assert!(answers(&socket).unwrap());
        set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        assert!(answers(&socket).is_err());
        set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        if rustix::process::getuid().is_root() {
            std::os::unix::fs::chown(&dir, Some(65_534), None).unwrap();
            assert!(answers(&socket).is_err());
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
