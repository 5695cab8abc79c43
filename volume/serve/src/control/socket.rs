//! The control socket of a backing's server.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::Uid;
use seekless_host::{HostError, cannot_at, private};

use crate::listen::{QUEUE_MOST, connect_unix};
use crate::{Address, NbdUri, ServeError};

/// The unix socket of the server of `backing`, in a directory of this user alone. The server may
/// not run.
pub(super) fn socket_of(backing: &Path) -> Result<PathBuf, ServeError> {
    let uid = rustix::process::getuid();
    let dir = if uid.is_root() {
        PathBuf::from("/run/seekless")
    } else {
        let asked = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let login = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
        asked.or_else(|| own(login)).map_or_else(|| temporary(uid), |dir| dir.join("seekless"))
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

/// The directory of control sockets of a user who is not logged in. Another user can take its name
/// first.
fn temporary(uid: Uid) -> PathBuf {
    std::env::temp_dir().join(format!("seekless-{}", uid.as_raw()))
}

/// The directory of a logged-in user, without the variable that names it. It comes before
/// [`temporary`].
fn own(dir: PathBuf) -> Option<PathBuf> {
    ensure_own(&dir).is_ok().then_some(dir)
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
    let own = meta.uid() == rustix::process::getuid().as_raw();
    if meta.is_dir() && own && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    let why = if own {
        "others can reach into it; `chmod 700` it, or remove it".to_owned()
    } else {
        format!("belongs to {}; remove it", private::owner_in_words(meta.uid()))
    };
    Err(HostError::Refused { path: dir.to_owned(), why }.into())
}

/// The address of the server of a backing, if one answers.
pub(super) fn server_of(backing: &Path) -> Result<Option<Address>, ServeError> {
    let socket = socket_of(backing)?;
    let uid = rustix::process::getuid();
    // A server that was started before its user logged in.
    let earlier = socket.file_name().map(|name| temporary(uid).join(name));
    answering(socket, earlier.filter(|_| !uid.is_root()))
}

/// The first of both sockets at which a server answers. A directory that others have made for the
/// second one holds no server of this user.
fn answering(socket: PathBuf, earlier: Option<PathBuf>) -> Result<Option<Address>, ServeError> {
    if answers(&socket)? {
        return Ok(Some(Address::Unix(socket)));
    }
    let earlier = earlier.filter(|earlier| answers(earlier).unwrap_or(false));
    Ok(earlier.map(Address::Unix))
}

/// True if a server listens at this socket, also one whose queue is full. Any user can listen in a
/// directory of their own, say that a volume is drained, or keep who asks waiting. So the directory
/// comes first.
fn answers(socket: &Path) -> Result<bool, ServeError> {
    if socket.symlink_metadata().is_err() {
        return Ok(false);
    }
    socket.parent().map_or(Ok(()), ensure_own)?;
    let failed = connect_unix(socket, QUEUE_MOST).err();
    Ok(failed.is_none_or(|e| e.kind() == io::ErrorKind::WouldBlock))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;
    use crate::listen::tests::{full, in_time};

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

    #[test]
    fn a_full_queue_is_a_server_and_in_a_directory_of_others_nobody_waits_for_it() {
        let dir = std::env::temp_dir().join(format!("seekless-{}-queue", std::process::id()));
        let socket = dir.join("s");
        make_directory(&socket).unwrap();
        let _full = full(&socket);
        let ask = |socket: PathBuf| in_time(move || answers(&socket));
        assert!(ask(socket.clone()).unwrap());
        set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        let start = Instant::now();
        assert!(ask(socket).is_err());
        assert!(start.elapsed() < QUEUE_MOST, "waited for the queue of another user");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// One was started by cron, and the other one after its user had logged in.
    #[test]
    fn a_server_from_before_the_login_is_found_too() {
        let name = format!("seekless-{}-earlier", std::process::id());
        let dirs = ["login", "temporary"].map(|d| std::env::temp_dir().join(format!("{name}-{d}")));
        let [new, earlier] = dirs.clone().map(|dir| dir.join("s"));
        let found = || answering(new.clone(), Some(earlier.clone()));
        let at = |socket: &Path| Some(Address::Unix(socket.to_owned()));
        dirs.iter().for_each(|dir| make_directory(&dir.join("s")).unwrap());
        assert_eq!(found().unwrap(), None);
        let _one = UnixListener::bind(&earlier).unwrap();
        assert_eq!(found().unwrap(), at(&earlier));
        assert_eq!(answering(new.clone(), None).unwrap(), None);
        // Any user can make this directory.
        set_permissions(&dirs[1], Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found().unwrap(), None);
        set_permissions(&dirs[1], Permissions::from_mode(0o700)).unwrap();
        let _other = UnixListener::bind(&new).unwrap();
        assert_eq!(found().unwrap(), at(&new));
        set_permissions(&dirs[0], Permissions::from_mode(0o755)).unwrap();
        assert!(found().is_err());
        for dir in dirs {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }

    #[test]
    fn a_directory_of_this_user_comes_before_the_one_for_temporary_files() {
        let dir = std::env::temp_dir().join(format!("seekless-{}-login", std::process::id()));
        assert_eq!(own(dir.clone()), None);
        make_directory(&dir.join("s")).unwrap();
        assert_eq!(own(dir.clone()), Some(dir.clone()));
        set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(own(dir.clone()), None);
        std::fs::remove_dir(&dir).unwrap();
    }
}
