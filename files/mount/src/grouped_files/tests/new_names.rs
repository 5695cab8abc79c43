//! New names: a client owns the inode that its request made, and no other inode. Replaced names.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps};
use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::mounted_dir::ROOT;
use crate::name_requests::{Client, NewInode, find_replaced};

const SERVER: Client = Client { uid: 0, gid: 0, pid: 0 };
const USER: Client = Client { uid: 65_533, gid: 65_533, pid: 0 };

/// Waits until a new inode has a later birth time than all inodes of now. A time of an inode may be
/// ahead of this clock, by less than one step.
fn later() {
    for _ in 0..2 {
        let now = || {
            let time = clock_gettime(ClockId::RealtimeCoarse);
            (time.tv_sec, time.tv_nsec)
        };
        let before = now();
        while now() == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A user who owns a directory, and reaches the directory without the mount, gives the name of a
/// new inode to an inode of somebody else.
#[test]
fn an_inode_in_the_place_of_a_new_one_keeps_its_owner() {
    let node = |kind| NewInode::Node { mode: kind | 0o644, umask: 0, device: 0 };
    let all = [
        ("directory", NewInode::Directory { mode: 0o755, umask: 0 }),
        ("fifo", node(libc::S_IFIFO)),
        ("file", node(libc::S_IFREG)),
    ];
    for (kind, new) in all {
        let Some(mut dir) = TestDir::new() else { return };
        dir.attach();
        let mounted = dir.mounted();
        let made = mounted.make(USER, ROOT, OsStr::new("own"), new).unwrap().0;
        assert_eq!((made.uid, made.gid), (USER.uid, USER.gid), "{kind}: no other inode");
        mounted.make(SERVER, ROOT, OsStr::new("secret"), new).unwrap();
        let (secret, name) = (dir.dir().join("secret"), dir.dir().join("new"));
        let old = Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(CWD, &secret, &times, AtFlags::empty()).unwrap();
        later();
        let look = |step: InodeStep, _: InodeHandle| {
            if step == InodeStep::Made {
                fs::rename(&secret, &name).unwrap();
            }
        };
        let make = || mounted.make(USER, ROOT, OsStr::new("new"), new);
        let made = watched(&mounted.groups, look, make);
        let owner = fs::symlink_metadata(&name).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (SERVER.uid, SERVER.gid), "{kind}");
        assert!(!secret.exists(), "{kind}: renamed");
        if kind != "file" {
            assert_eq!(made.map(|_| ()), Err(Errno::STALE), "{kind}");
        }
    }
}

/// The server may set the bit for each group, a client only for its own groups.
#[test]
fn a_client_makes_no_set_group_program_for_a_group_of_others() {
    let Some(mut dir) = TestDir::new() else { return };
    let others = 65_531;
    rustix::fs::chown(dir.dir(), None, Some(Gid::from_raw(others))).unwrap();
    rustix::fs::chmod(dir.dir(), Mode::from_raw_mode(0o2777)).unwrap();
    dir.attach();
    let member = Client { gid: others, ..USER };
    for (name, client, bits, kept) in [
        ("by a member", member, 0o2755, 0o2755),
        ("by another", USER, 0o2755, 0o755),
        ("no program", USER, 0o2744, 0o2744),
    ] {
        let new = NewInode::Node { mode: libc::S_IFREG | bits, umask: 0, device: 0 };
        let made = dir.mounted().make(client, ROOT, OsStr::new(name), new).unwrap().0;
        assert_eq!((made.gid, made.perm), (others, kept), "{name}");
    }
}

/// Other errors than a missing name end the rename.
#[test]
fn a_rename_knows_whether_it_replaces_a_file() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("file");
    fs::write(&path, b"").unwrap();
    let [dir, file] =
        [temp.path(), path.as_path()].map(|path| OwnedFd::from(File::open(path).unwrap()));
    let found = |parent: &OwnedFd, name: &str| {
        find_replaced(parent.as_fd(), OsStr::new(name)).map(|found| found.is_some())
    };
    assert_eq!(found(&dir, "file"), Ok(true));
    assert_eq!(found(&dir, "nothing"), Ok(false));
    assert_eq!(found(&file, "file"), Err(Errno::NOTDIR));
}
