//! Flags of inodes (`chattr`): the server may change all of them, its clients may not.

use rustix::fs::{IFlags, Uid};

use super::*;
use crate::client_rights::tests::{IMMUTABLE, OWNER, RESOURCE, client};
use crate::client_rights::{ClientRights, NewFlags};
use crate::underlying::tests::Disk;

const USER: u32 = 65_533;
const STRANGER: u32 = 65_532;

/// `FS_XFLAG_IMMUTABLE` and `FS_XFLAG_NODUMP` of linux/fs.h.
const XFS_FLAGS: [u32; 2] = [0x8, 0x80];

#[test]
fn a_client_changes_only_the_flags_that_the_file_system_lets_it_change() {
    let Some(disk) = Disk::new("flags") else { return };
    let Some(mut dir) = TestDir::new_in(TempDir::new_in(&disk.ext4).unwrap()) else { return };
    dir.attach();
    rustix::fs::chown(dir.path(1), Some(Uid::from_raw(USER)), None).unwrap();
    let mounted = dir.mounted();
    let node = dir.groups().underlying.open_handle(&dir.handle(1), OFlags::PATH).unwrap();
    let ino = mounted.enter(node).unwrap().0.ino.0;
    // Turns a flag over.
    let set = |client: &ClientRights, flag: IFlags| {
        let now = IFlags::from_bits_retain(mounted.inode_flags(ino).unwrap());
        mounted.set_flags(client, ino, &NewFlags::Ext(now ^ flag))
    };
    let (owner, refused) = (client(USER, 0), Err(Errno::PERM));
    assert_eq!(set(&owner, IFlags::NODUMP), Ok(()));
    assert_eq!(set(&client(STRANGER, 0), IFlags::NODUMP), refused);
    assert_eq!(set(&client(STRANGER, OWNER), IFlags::NODUMP), Ok(()));
    for flag in [IFlags::IMMUTABLE, IFlags::APPEND, IFlags::JOURNALING] {
        assert_eq!(set(&owner, flag), refused, "{flag:?}");
        assert_eq!(set(&client(STRANGER, IMMUTABLE | RESOURCE), flag), refused, "{flag:?}");
    }
    assert_eq!(set(&owner, IFlags::JOURNALING | IFlags::NODUMP), refused);
    for _ in 0..2 {
        // On, and off.
        assert_eq!(set(&client(USER, IMMUTABLE), IFlags::IMMUTABLE), Ok(()));
    }
    let file = OwnedFd::from(File::open(dir.path(1)).unwrap());
    let journals = NewFlags::Ext(rustix::fs::ioctl_getflags(&file).unwrap() ^ IFlags::JOURNALING);
    assert_eq!(client(USER, RESOURCE).may_set_flags(USER, &file, &journals), Ok(true));
    for (flag, result) in XFS_FLAGS.into_iter().zip([refused, Ok(())]) {
        let mut new = mounted.xfs_flags(ino).unwrap();
        let first = u32::from_ne_bytes(*new.first_chunk().unwrap()) ^ flag;
        new[..4].copy_from_slice(&first.to_ne_bytes());
        assert_eq!(mounted.set_flags(&owner, ino, &NewFlags::Xfs(new)), result, "{flag:#x}");
    }
}

/// A kill came before the store knew that the inode is durably empty; then `chattr +i`.
#[test]
fn a_file_that_nobody_may_change_does_not_keep_the_others_from_being_used() {
    let Some(disk) = Disk::new("immutable") else { return };
    let Some(mut dir) = TestDir::new_in(TempDir::new_in(&disk.ext4).unwrap()) else { return };
    dir.attach();
    assert_eq!(dir.form(), [Ok(2), Ok(1)]);
    dir.mounted = None;
    let file = OwnedFd::from(File::open(dir.path(1)).unwrap());
    let flags = rustix::fs::ioctl_getflags(&file).unwrap();
    rustix::fs::ioctl_setflags(&file, flags | IFlags::IMMUTABLE).unwrap();
    let groups = dir.attach();
    let unsettled = groups.group_store(GroupStore::unsettled).len();
    let trouble = groups.trouble();
    dir.check("with an immutable file");
    rustix::fs::ioctl_setflags(&file, flags).unwrap();
    assert_eq!(unsettled, 1, "only the immutable one");
    assert!(trouble.as_ref().is_some_and(|t| t.contains("not settled")), "{trouble:?}");
    dir.attach();
    dir.check_twice("without the flag");
    assert_eq!(dir.groups().group_store(GroupStore::unsettled), []);
}
