//! Finds the loop device of a regular file in /sys.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seekless_host::mounts::{Mount, mounts};

/// Beginnings of the kinds of file systems that another program or machine serves.
const MAY_HANG: [&str; 6] = ["fuse", "nfs", "cifs", "smb", "9p", "ceph"];

/// The loop device that stands on a regular file, if any. The file may have several names.
pub(crate) fn loop_device(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mounts = mounts().unwrap_or_default();
    let devices = std::fs::read_dir("/sys/block").ok()?;
    devices.flatten().find_map(|entry| {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let used = Path::new(file.trim_end_matches('\n'));
        let same = used == path || !may_hang(&mounts, used) && number(used) == number(&path);
        same.then(|| Path::new("/dev").join(entry.file_name()))
    })
}

/// Whether a look at this path may wait for a server that hangs.
fn may_hang(mounts: &[Mount], path: &Path) -> bool {
    let hangs = |mount: &Mount| MAY_HANG.iter().any(|kind| mount.kind.starts_with(kind));
    mounts.iter().any(|mount| hangs(mount) && path.starts_with(&mount.point))
}

/// The numbers of a file, which are the same under each of its names.
fn number(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_number_under_all_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let [one, link, other] = ["one", "link", "other"].map(|name| dir.path().join(name));
        std::fs::write(&one, "").unwrap();
        std::fs::hard_link(&one, &link).unwrap();
        std::fs::write(&other, "").unwrap();
        assert!(number(&one).is_some() && number(&one) == number(&link));
        assert_ne!(number(&one), number(&other));
        assert_eq!(loop_device(&one), None);
    }

    #[test]
    fn files_of_servers_are_not_looked_at() {
        let text =
            b"1 0 0:20 / /run/x rw - fuse.seekless x rw\n2 0 8:1 / /srv rw - ext4 /dev/sda1 rw";
        let mounts = seekless_host::mounts::parse(text);
        assert_eq!(mounts.len(), 2);
        assert!(may_hang(&mounts, Path::new("/run/x/disk")));
        assert!(
            !may_hang(&mounts, Path::new("/run/xy")) && !may_hang(&mounts, Path::new("/srv/a"))
        );
    }
}
