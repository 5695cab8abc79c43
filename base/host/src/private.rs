//! The other users who may open a file, and the holder of its lock: files with clients' data belong
//! to one user.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::Mode;

use crate::HostError;

/// Access for the owner alone.
const OWNER_ONLY: u32 = 0o600;

/// Makes a new file that only its owner may open.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(OWNER_ONLY).open(path)
}

/// Says that users without a right to the data may open this regular file. `None`: they may not.
pub fn open_to_all(path: &Path, file: impl AsFd) -> Option<String> {
    let mode = mode_of_file(file)?.0;
    (mode & 0o007 != 0).then(|| {
        let path = path.display();
        format!(
            "{path}: any user may open it (mode {mode:03o}), read the data and hold its lock; `chmod 600 {path}` ends that"
        )
    })
}

/// Takes the rights of all users but the owner from a regular file with clients' data, and says so.
/// With `write` false, only says so. Refuses a file of another user than this one, root and `also`.
pub fn keep_private(
    path: &Path,
    file: impl AsFd,
    write: bool,
    also: Option<u32>,
) -> Result<Option<String>, HostError> {
    let Some((mode, owner)) = mode_of_file(&file) else { return Ok(None) };
    if ![rustix::process::geteuid().as_raw(), 0].contains(&owner) && also != Some(owner) {
        let owner = owner_in_words(owner);
        let why = format!(
            "belongs to {owner}, who could read and change its data: `chown` the file to the user who serves it, or make another file"
        );
        return Err(HostError::Refused { path: path.to_owned(), why });
    }
    if mode & 0o077 == 0 {
        return Ok(None);
    }
    let name = path.display();
    let tightened = write && rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o700)).is_ok();
    Ok(Some(if tightened {
        format!("{name}: other users could open it (mode {mode:03o}); now only its owner may")
    } else {
        format!("{name}: other users may open it (mode {mode:03o}); `chmod 600 {name}` ends that")
    }))
}

/// The owner of a regular file.
pub fn owner_of(file: impl AsFd) -> Option<u32> {
    mode_of_file(file).map(|(_, owner)| owner)
}

/// A user by number, for a message. In a user namespace, as in a container, the kernel shows one
/// number for all users who have none there: the message says so.
pub fn owner_in_words(owner: u32) -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let known = read("/proc/sys/kernel/overflowuid").zip(read("/proc/self/uid_map"));
    if known.is_some_and(|(number, map)| may_be_unmapped(owner, &number, &map)) {
        return format!(
            "user {owner} (in this user namespace, as of a container, each user without a number in /proc/self/uid_map looks like this: map the owner, or change it outside)"
        );
    }
    format!("user {owner}")
}

/// Whether this number may stand for users without one: `number` does, and the map lacks some.
fn may_be_unmapped(owner: u32, number: &str, map: &str) -> bool {
    let length = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    let mapped: u64 = map.lines().filter_map(length).sum();
    number.trim().parse::<u32>() == Ok(owner) && mapped < u64::from(u32::MAX)
}

/// The permissions and the owner of a regular file.
fn mode_of_file(file: impl AsFd) -> Option<(u32, u32)> {
    let stat = rustix::fs::fstat(file).ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    is_file.then_some((stat.st_mode & 0o777, stat.st_uid))
}

/// The holder of the lock of a file, in words.
pub(crate) fn holder(path: &Path, file: &File) -> String {
    let known = "another process serves it (its lock is taken); stop that process first, or open both read-only";
    let Some(id) = pid_of_lock(file) else {
        return known.to_owned();
    };
    let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let user = std::fs::metadata(format!("/proc/{id}")).map(|m| m.uid()).ok();
    let stranger =
        user.filter(|u| *u != 0 && Some(*u) != owner_of(file) && open_to_all(path, file).is_some());
    let name = name.trim();
    match stranger {
        Some(user) => format!(
            "process {id} ({name}) of user {user} has taken its lock, because other users may open the file: `chmod 600` the file, then end that process"
        ),
        None => format!("process {id} ({name}) has taken its lock: {known}"),
    }
}

/// False if a process is known to hold the lock of a file, and that process is not udev's.
pub(crate) fn may_be_udevs(file: &File) -> bool {
    let name =
        pid_of_lock(file).and_then(|id| std::fs::read_to_string(format!("/proc/{id}/comm")).ok());
    name.is_none_or(|name| name.contains("udev"))
}

/// The process that holds an flock(2) on a file, from /proc/locks.
fn pid_of_lock(file: &File) -> Option<u32> {
    let meta = file.metadata().ok()?;
    let (major, minor) = crate::blocks::numbers_of(meta.dev());
    let place = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, at, ..] = words[..] else { return None };
        (at == place).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::{FlockOperation, Gid, Uid, chown};

    use super::*;

    #[test]
    fn others_lose_their_rights_and_the_owner_hears_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private");
        let file = create_private(&path).unwrap();
        let mode = || path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(), keep_private(&path, &file, true, None).unwrap()), (0o600, None));
        for (open, kept) in [(0o644, 0o600), (0o660, 0o600), (0o604, 0o600), (0o755, 0o700)] {
            file.set_permissions(std::fs::Permissions::from_mode(open)).unwrap();
            let said = keep_private(&path, &file, false, None).unwrap().unwrap();
            assert!(mode() == open && said.contains("may open it"), "{said}");
            let said = keep_private(&path, &file, true, None).unwrap().unwrap();
            assert!(mode() == kept && said.contains("could open it"), "{said}");
        }
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(Uid::from_raw(65_534)), Some(Gid::from_raw(65_534))).unwrap();
            let refused = keep_private(&path, &file, true, None).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 65534"), "{refused}");
            keep_private(&path, &file, true, Some(65_534)).unwrap();
        }
    }

    #[test]
    fn a_user_without_a_number_is_known_by_the_map_of_the_namespace() {
        let unmapped = |owner, map| may_be_unmapped(owner, "65534\n", map);
        let (whole, rootless) =
            ("         0          0 4294967295\n", "0 1000 1\n1 100000 65536\n");
        assert!(!unmapped(65_534, whole), "the first namespace has all users");
        assert!(unmapped(65_534, rootless) && unmapped(65_534, ""));
        assert!(!unmapped(1000, rootless), "a user of the container");
        assert!(owner_in_words(1000).starts_with("user 1000"));
    }

    #[test]
    fn who_holds_a_lock_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = create_private(&path).unwrap();
        assert!(holder(&path, &file).starts_with("another process"), "nobody has it");
        assert!(may_be_udevs(&file), "it may have had it");
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let said = holder(&path, &file);
        assert!(!may_be_udevs(&file), "it is ours");
        assert!(said.contains(&format!("process {} ", std::process::id())), "{said}");
    }
}
