//! Output files that get their name when they are complete: traces, reports and other results.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tempfile::{NamedTempFile, PersistError};

/// Longest chain of links, as of the kernel.
const LINKS_MOST: usize = 40;
/// Characters of a file's name that are in the name of its temporary file: 200 bytes at most. File
/// systems take 255.
const NAME_MOST: usize = 50;
/// A folder in which everybody may write, and remove only their own files: sticky, like /tmp.
const SHARED: u32 = 0o1002;

/// A temporary file in the folder of `path`, or of the file behind a link; [`finish`] gives it its
/// name. If the file is dropped before that, it is removed.
pub fn part(path: &Path, mode: Permissions) -> io::Result<NamedTempFile> {
    let path = &behind(path)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    let name: String = name.chars().take(NAME_MOST).collect();
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part").permissions(mode).tempfile_in(folder(path))
}

/// Makes the bytes of a file durable, then gives the file its name, and returns its path. If it cannot
/// have this name, it stays, and the error names it: it may be a recording of days.
pub fn finish(part: NamedTempFile, path: &Path) -> io::Result<PathBuf> {
    part.as_file().sync_all()?;
    // A link that another user has made meanwhile is replaced itself.
    let path = behind(path).unwrap_or_else(|_| path.to_owned());
    part.persist(&path).map_err(kept)?;
    Ok(path)
}

/// Keeps a complete file that could not get its name.
fn kept(PersistError { error, file }: PersistError) -> io::Error {
    match file.keep() {
        Ok((_, at)) => {
            io::Error::new(error.kind(), format!("{error}; its bytes are in {}", at.display()))
        }
        Err(_) => error,
    }
}

/// The file behind a link, which may not exist yet. Like the kernel, refuses a link that another
/// user has made in a shared folder: that user could choose which file is replaced. Refuses a file
/// that a program has open, such as `/dev/fd/3`: it may have lost its name, and the program goes on
/// with it.
pub fn behind(path: &Path) -> io::Result<PathBuf> {
    let at = end_of_links(path)?;
    if holds_open_files(folder(&at)) && at.metadata().is_ok_and(|m| m.is_file()) {
        let why =
            format!("{} is a file that a program has open; name the file itself", at.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(at)
}

/// The number of the open file of this process that a path names, also by links: 2 for
/// `/dev/stderr`.
pub fn open_file(path: &Path) -> Option<u32> {
    let at = end_of_links(path).ok()?;
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    let is_own = folder(&at).canonicalize().is_ok_and(|folder| folder == own);
    at.file_name().filter(|_| is_own)?.to_str()?.parse().ok()
}

/// The end of a chain of links: a file, or the link of an open file.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MOST {
        let Ok(link) = at.symlink_metadata() else { return Ok(at) };
        // The link of an open file has the last name of that file, which is no name any more if
        // somebody has removed it.
        if !link.is_symlink() || holds_open_files(folder(&at)) {
            return Ok(at);
        }
        let shared = folder(&at).metadata()?;
        let may = [shared.uid(), rustix::process::geteuid().as_raw()];
        if shared.mode() & SHARED == SHARED && !may.contains(&link.uid()) {
            let why = format!("{} is a link of another user; name another file", at.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        at = folder(&at).join(at.read_link()?);
    }
    Err(Errno::LOOP.into())
}

/// Whether this is a folder with the open files of a process.
fn holds_open_files(folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|f| f.starts_with("/proc") && f.ends_with("fd"))
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    fn write(path: &Path) -> io::Result<()> {
        let mut file = part(path, Permissions::from_mode(0o600))?;
        file.write_all(b"new")?;
        finish(file, path).map(drop)
    }

    #[test]
    fn a_link_of_another_user_in_a_shared_folder_chooses_no_file() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED links of another user: not root");
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        let theirs = |name: &str, to: &str| {
            symlink(to, at(name)).unwrap();
            lchown(at(name), Some(65_534), None).unwrap();
        };
        fs::write(at("mine"), "old").unwrap();
        theirs("theirs", "mine");
        theirs("dangling", "nothing");
        symlink("theirs", at("over theirs")).unwrap();
        symlink("mine", at("own")).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        for name in ["theirs", "dangling", "over theirs"] {
            let error = write(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}: {error}");
        }
        assert!(read("mine") == "old" && !at("nothing").exists());
        // A link that comes while the file is written.
        let late = part(&at("late"), Permissions::from_mode(0o600)).unwrap();
        theirs("late", "mine");
        finish(late, &at("late")).unwrap();
        assert!(read("mine") == "old" && !at("late").is_symlink());
        write(&at("own")).unwrap();
        assert!(read("mine") == "new" && at("own").is_symlink());
        // Of a folder that is not shared, its owner chose the other users who may write there.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(at("mine"), "old").unwrap();
        write(&at("theirs")).unwrap();
        assert!(read("mine") == "new" && at("theirs").is_symlink());
    }

    #[test]
    fn a_name_may_be_as_long_as_the_file_system_takes() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["x".repeat(255), "\u{1f4be}".repeat(63)] {
            write(&dir.path().join(name)).unwrap();
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn bytes_that_cannot_have_their_name_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut file = part(&path, Permissions::from_mode(0o600)).unwrap();
        file.write_all(b"new").unwrap();
        let at = file.path().to_owned();
        // Something that a file cannot replace has come meanwhile.
        fs::create_dir(&path).unwrap();
        let error = finish(file, &path).unwrap_err().to_string();
        assert!(error.contains(&format!("are in {}", at.display())), "{error}");
        assert_eq!(fs::read(at).unwrap(), b"new");
    }

    #[test]
    fn an_open_file_is_not_replaced_and_is_known_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let named = fs::File::create(dir.path().join("named")).unwrap();
        let unnamed = tempfile::tempfile_in(dir.path()).unwrap();
        for file in [&named, &unnamed] {
            let number = file.as_raw_fd();
            let link = dir.path().join(format!("link{number}"));
            symlink(format!("/proc/self/fd/{number}"), &link).unwrap();
            let error = write(&link).unwrap_err().to_string();
            assert!(error.contains("has open; name the file itself"), "{error}");
            assert_eq!(open_file(&link), u32::try_from(number).ok());
        }
        assert_eq!(open_file(&dir.path().join("named")), None);
        assert_eq!(dir.path().read_dir().unwrap().count(), 3, "no new file");
    }

    #[test]
    fn links_in_a_circle_are_no_file() {
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        write(&dir.path().join("a")).unwrap_err();
        assert_eq!(dir.path().read_dir().unwrap().count(), 2);
    }
}
