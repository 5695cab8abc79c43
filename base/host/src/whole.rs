//! Files that are replaced as a whole: after a crash, the old bytes or the new ones are there.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::NamedTempFile;

/// A new file beside `path`, which only its owner may open. It is removed when dropped.
pub fn part_of(path: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    prefix.push(".");
    tempfile::Builder::new().prefix(&prefix).suffix(".part").tempfile_in(folder(path))
}

/// Replaces a file durably. After an error the old file is still there.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(part_of(path)?, path, bytes, mode)
}

/// The same, through a file with this name in the same folder: a power cut may leave that file.
pub fn write_whole_through(part: &Path, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match fs::remove_file(part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let name = part.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let part = tempfile::Builder::new().prefix(name).rand_bytes(0).tempfile_in(folder(part))?;
    put(part, path, bytes, mode)
}

fn put(mut part: NamedTempFile, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    part.as_file().set_permissions(Permissions::from_mode(mode))?;
    part.write_all(bytes)?;
    part.as_file().sync_all()?;
    part.persist(path).map_err(|e| e.error)?;
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
