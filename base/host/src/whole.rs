//! Files that are replaced as a whole: after a crash, the old bytes or the new ones are there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use tempfile::NamedTempFile;

/// A new file beside `path`, which only its owner may open. It is removed when dropped.
pub fn part_of(path: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    prefix.push(".");
    tempfile::Builder::new().prefix(&prefix).suffix(".part").tempfile_in(folder(path))
}

/// The name of the file that such a part was to become.
fn whole_of(part: &OsStr) -> Option<&OsStr> {
    let rest = part.as_bytes().strip_prefix(b".")?.strip_suffix(b".part")?;
    let (name, random) = rest.split_at_checked(rest.len().checked_sub(7)?)?;
    let random = random.strip_prefix(b".")?;
    random.iter().all(u8::is_ascii_alphanumeric).then_some(OsStr::from_bytes(name))
}

/// Removes the parts of these files in a folder, which a kill or a power cut left. Nobody may write
/// these files now.
pub fn remove_parts(folder: &Path, of: impl Fn(&OsStr) -> bool) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| whole_of(&entry.file_name()).is_some_and(&of)) {
        // What remains costs only space.
        let _ = fs::remove_file(entry.path());
    }
}

/// Replaces a file durably. After an error the old file is still there.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(part_of(path)?, path, bytes, mode)
}

/// The same, through a file with this name in the same folder: a power cut may leave that file. The
/// owner stays.
pub fn write_whole_through(part: &Path, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let name = part.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let part = tempfile::Builder::new().prefix(name).rand_bytes(0).tempfile_in(folder(part))?;
    if let Ok(old) = path.metadata() {
        let (uid, gid, new) = (old.uid(), old.gid(), part.as_file().metadata()?);
        if (new.uid(), new.gid()) != (uid, gid) {
            fchown(part.as_file(), Some(uid), Some(gid))?;
        }
    }
    put(part, path, bytes, mode)
}

fn put(mut part: NamedTempFile, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    part.as_file().set_permissions(Permissions::from_mode(mode))?;
    part.write_all(bytes)?;
    part.as_file().sync_all()?;
    part.persist(path).map_err(|e| e.error)?;
    File::open(folder(path))?.sync_all()
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_through_a_name_keeps_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (path, part) = (dir.path().join("table"), dir.path().join("part"));
        fs::write(&path, "old").unwrap();
        // Only root gives files away.
        if rustix::process::getuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).unwrap();
        } else {
            println!("SKIPPED another owner of a file that is replaced: not root");
        }
        let owner = |path: &Path| path.metadata().map(|m| (m.uid(), m.gid(), m.mode())).unwrap();
        let before = owner(&path);
        write_whole_through(&part, &path, b"new", before.2).unwrap();
        assert_eq!(owner(&path), before);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(!part.exists());
    }

    #[test]
    fn what_a_kill_leaves_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let keep = |path: &Path| part_of(path).unwrap().into_temp_path().keep().unwrap();
        let (ours, others) = (keep(&at("state")), keep(&at("state.old")));
        let names = [".state.part", ".state.abc.part", "state.abcdef.part", ".state.ab-def.part"];
        names.iter().for_each(|name| fs::write(at(name), "mine").unwrap());
        write_whole(&at("state"), b"new", 0o600).unwrap();
        remove_parts(dir.path(), |name| name == "state");
        assert!(!ours.exists() && others.exists());
        assert!(names.iter().all(|name| at(name).exists()) && at("state").exists());
        remove_parts(dir.path(), |name| name == "state.old");
        assert!(!others.exists());
    }
}
