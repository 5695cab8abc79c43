//! What others have made of a disk, a directory or a place of an area: refused before an adoption that
//! would keep the machine from starting.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seekless_host::mounts::{Mount, mounts};
use seekless_host::{Opened, is_in_memory};

use super::record::Record;
use super::units::{self, Mounted};
use super::{AdoptError, AdoptOptions, absolute, fstab, refused};
use crate::area;

/// File systems whose mounts systemd orders behind the network, without `fuse.` before the kind
/// (`fstype_is_network` in its source).
const NETWORK: &str =
    "afs ceph cifs davfs gfs gfs2 glusterfs lustre ncp ncpfs nfs nfs4 ocfs2 pvfs2 smb3 smbfs sshfs";

/// Refuses a disk or a name that is adopted already.
pub(super) fn check_new(
    options: &AdoptOptions,
    backing: &Path,
    name: &str,
) -> Result<(), AdoptError> {
    let Some(known) = Record::find(&options.root, backing, name)? else { return Ok(()) };
    let theirs = known.backing.canonicalize().unwrap_or_else(|_| known.backing.clone());
    let why = if theirs == backing {
        format!("is adopted already, as {}; `seekless release {0}` ends that", known.name)
    } else {
        format!(
            "cannot have the name {name}: {} is adopted under this name; give another --name",
            known.backing.display()
        )
    };
    Err(refused(&options.backing, why))
}

/// Refuses a disk that the system takes when it starts, perhaps before its server.
pub(super) fn check_unclaimed(
    options: &AdoptOptions,
    backing: &Path,
    opened: &Opened,
) -> Result<(), AdoptError> {
    area::unused(backing)?;
    fstab::check_crypttab(&options.root, backing)?;
    // The system looks for members on devices alone.
    let member = if opened.dir.is_none() { area::member(opened, backing)? } else { None };
    member.map_or(Ok(()), |what| {
        let why = format!(
            "{what}, which the system takes when it starts. Adopt the logical volume or the array above it, or remove a leftover mark (`pvremove`, `mdadm --zero-superblock`)"
        );
        Err(refused(&options.backing, why))
    })
}

/// Refuses a directory that another mount has, now or by a line of /etc/fstab: the unit would replace
/// this mount, and a release would take it away.
pub(super) fn check_free(
    options: &AdoptOptions,
    entry: Option<&fstab::Entry>,
    mount: &Mounted,
    systemd_runs: bool,
) -> Result<(), AdoptError> {
    let dir = &mount.dir;
    // The mounts of a system that does not run are not known.
    if systemd_runs && mounts().unwrap_or_default().iter().any(|m| m.point == *dir) {
        return Err(refused(dir, "is a mount already; unmount it, or name another directory"));
    }
    let own = entry.map(|entry| &entry.line);
    let other = fstab::lines_at(&options.root, dir)?.into_iter().find(|line| Some(line) != own);
    other.map_or(Ok(()), |line| {
        let why = format!(
            "is the directory of another line of /etc/fstab; remove the line '{line}', or name another directory"
        );
        Err(refused(dir, why))
    })
}

/// Refuses a mount over files of other adoptions, whose servers need them before the mount. A file
/// that is not there now may be on the disk that will be mounted.
pub(super) fn check_others(options: &AdoptOptions, mount: &Mounted) -> Result<(), AdoptError> {
    let top = absolute(&options.root)?;
    for other in Record::all(&options.root)? {
        for path in [&other.backing, &other.area].into_iter().filter(|path| path.exists()) {
            units::check_needed(&units::seen(&top, path), mount)?;
        }
    }
    Ok(())
}

/// Refuses files in a directory on which the next start of the machine mounts something that is not
/// mounted now: this mount would come first, and hide them. `entry`: the line that adoption replaces.
pub(super) fn check_hidden(
    options: &AdoptOptions,
    entry: Option<&fstab::Entry>,
    files: &[PathBuf],
) -> Result<(), AdoptError> {
    let Ok(mounted) = mounts() else { return Ok(()) };
    let adopted = Record::all(&options.root)?.into_iter().filter_map(|r| Some(r.mount?.dir));
    let dirs = fstab::dirs(&options.root, entry)?;
    for dir in adopted.chain(dirs).filter(|dir| dir.parent().is_some()) {
        if mounted.iter().any(|m| m.point == dir) {
            continue;
        }
        if let Some(path) = files.iter().find(|path| path.starts_with(&dir)) {
            let why = format!(
                "will be hidden by the mount at {}: mount this first, or name another place",
                dir.display()
            );
            return Err(refused(path, why));
        }
    }
    Ok(())
}

/// Refuses files that need the network below a mount that comes before the network: systemd would find
/// a circle when the machine starts, and leave out one of its units, such as the network.
pub(super) fn check_network(
    options: &AdoptOptions,
    mount: &Mounted,
    files: &[PathBuf],
) -> Result<(), AdoptError> {
    if mount.waits_for_network() {
        return Ok(());
    }
    let all = mounts().unwrap_or_default();
    let adopted = Record::all(&options.root)?.into_iter().filter_map(|r| r.mount);
    let adopted = adopted.filter(Mounted::waits_for_network).map(|m| m.dir);
    let mut waiting = fstab::dirs_behind_network(&options.root)?;
    waiting.extend(adopted);
    let far = files.iter().find(|path| needs_network(&all, &waiting, path));
    far.map_or(Ok(()), |path| {
        let why = "needs the network, which starts after local mounts: name another place, or write a line with the option _netdev for the disk in /etc/fstab";
        Err(refused(path, why))
    })
}

/// Whether the mount of this path comes after the network. `waiting`: directories whose mounts do.
fn needs_network(all: &[Mount], waiting: &[PathBuf], path: &Path) -> bool {
    let above = all.iter().filter(|m| path.starts_with(&m.point));
    above.max_by_key(|m| m.point.components().count()).is_some_and(|m| {
        let kind = m.kind.strip_prefix("fuse.").unwrap_or(&m.kind);
        // These two wait for nothing: systemd starts from them.
        let early = ["/", "/usr"].iter().any(|dir| m.point == Path::new(dir));
        !early && (NETWORK.split(' ').any(|k| k == kind) || waiting.contains(&m.point))
    })
}

/// Refuses a program that others than root may change, or that the next start of the machine does not
/// have: the units start it as root.
pub(super) fn check_program(options: &AdoptOptions) -> Result<(), AdoptError> {
    let program = &options.program;
    // Another system has its own users.
    if options.root != Path::new("/") {
        return Ok(());
    }
    let why = if let Some(path) = program.ancestors().find(|path| may_others_change(path)) {
        format!("would run as root from now on, and others than root may change {}", path.display())
    } else if is_in_memory(program) {
        "is in memory, and gone at the next start of the machine".to_owned()
    } else {
        return Ok(());
    };
    let install = "install it in a folder of root (`install -m 755 seekless /usr/local/bin/`), and adopt with that program";
    Err(refused(program, format!("{why}; {install}")))
}

fn may_others_change(path: &Path) -> bool {
    path.metadata().map_or(true, |meta| is_for_others(path, meta.uid(), meta.gid(), meta.mode()))
}

/// Whether this owner and mode let others than root change a file or folder. In /usr, the system itself
/// lets a group write: Debian gives /usr/local to `staff`. In a sticky folder, such as /nix/store, a
/// group cannot replace what belongs to root. /tmp is sticky too, but empty at the next start.
fn is_for_others(path: &Path, uid: u32, gid: u32, mode: u32) -> bool {
    let group = mode & 0o1020 == 0o020 && gid != 0 && !path.starts_with("/usr");
    uid != 0 || mode & 0o002 != 0 || group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_on_file_systems_of_the_network_are_found() {
        let text = b"1 0 0:40 / / rw - nfs4 h:/root rw\n\
            2 1 0:50 / /nas rw - nfs4 h:/ rw\n\
            3 2 8:2 / /nas/local rw - ext4 /dev/sdb1 rw\n\
            4 1 0:51 / /far rw - fuse.sshfs h: rw\n\
            5 1 0:52 / /own rw - fuse.gocryptfs /x rw\n\
            6 1 8:3 / /iscsi rw - ext4 /dev/sdc1 rw\n";
        let all = seekless_host::mounts::parse(text);
        assert_eq!(all.len(), 6);
        let waiting = ["/", "/iscsi", "/not/mounted"].map(PathBuf::from);
        for (path, far) in [
            ("/nas/area", true),
            ("/nas/local/area", false),
            ("/nasty/area", false),
            ("/var/lib/seekless/area", false),
            ("/far/area", true),
            ("/own/area", false),
            ("/iscsi/area", true),
            ("/not/mounted/area", false),
        ] {
            assert_eq!(needs_network(&all, &waiting, Path::new(path)), far, "{path}");
        }
    }

    #[test]
    fn only_root_may_change_the_program_and_the_folders_on_its_way() {
        for (path, uid, gid, mode, others) in [
            ("/", 0, 0, 0o40755, false),
            ("/usr/local/bin", 0, 50, 0o42775, false),
            ("/usr/local/bin", 0, 50, 0o42777, true),
            ("/opt/tools", 0, 0, 0o40775, false),
            ("/opt/tools", 0, 100, 0o40775, true),
            ("/opt/tools", 0, 100, 0o40755, false),
            ("/home/a/.cargo/bin/seekless", 1000, 1000, 0o100_755, true),
            ("/usr/bin/seekless", 1000, 0, 0o100_755, true),
            ("/nix/store", 0, 30000, 0o41775, false),
            ("/tmp", 0, 0, 0o41777, true),
        ] {
            let found = is_for_others(Path::new(path), uid, gid, mode);
            assert_eq!(found, others, "{path} {uid} {gid} {mode:o}");
        }
        assert!(may_others_change(Path::new("/none/of/these")));
    }
}
