//! Finds the loop device of a regular file in /sys.

use std::path::{Path, PathBuf};

/// The loop device that stands on a regular file, if any.
pub(crate) fn loop_device(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let devices = std::fs::read_dir("/sys/block").ok()?;
    devices.flatten().find_map(|entry| {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        (Path::new(file.trim_end_matches('\n')) == path)
            .then(|| Path::new("/dev").join(entry.file_name()))
    })
}
