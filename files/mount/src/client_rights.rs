//! Rights of clients that the kernel does not check: groups and capabilities, as /proc shows them.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::IFlags;
use rustix::io::Errno;
use seekless_host::sys;

use crate::name_requests::Client;

// Capabilities of Linux (include/uapi/linux/capability.h), as bits.
const CAP_FOWNER: u64 = 1 << 3;
const CAP_FSETID: u64 = 1 << 4;
const CAP_LINUX_IMMUTABLE: u64 = 1 << 9;
const CAP_SYS_RESOURCE: u64 = 1 << 24;
const ALL: u64 = u64::MAX;

/// `FS_XFLAG_IMMUTABLE` and `FS_XFLAG_APPEND` of linux/fs.h.
const XFS_PROTECTS: u32 = 0x8 | 0x10;

/// A client, with the rights of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientRights {
    uid: u32,
    gid: u32,
    /// Supplementary groups.
    groups: Vec<u32>,
    capabilities: u64,
}

/// New flags of an inode, in the form of ext4 or in the form of XFS.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewFlags {
    Ext(IFlags),
    Xfs([u8; sys::FSXATTR_BYTES]),
}

/// The flags that are about to change, as far as they need a capability.
#[derive(Clone, Copy, Debug, Default)]
struct FlagChange {
    /// `chattr +i` or `+a`, or the opposite.
    protects: bool,
    /// `chattr +j`, or the opposite.
    journals: bool,
}

/// The device and inode of the user namespace of a process.
fn user_namespace(process: &Path) -> Option<(u64, u64)> {
    process.join("ns/user").metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

impl ClientRights {
    pub(super) fn of(Client { uid, gid, pid }: Client) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let Ok(status) = std::fs::read_to_string(process.join("status")) else {
            // A process of another PID namespace, which is not visible here.
            let capabilities = if uid == 0 { ALL } else { 0 };
            return Self { uid, gid, groups: Vec::new(), capabilities };
        };
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let groups = line("Groups:").unwrap_or("").split_whitespace();
        let groups = groups.filter_map(|group| group.parse().ok()).collect();
        let found = u64::from_str_radix(line("CapEff:").unwrap_or("").trim(), 16).unwrap_or(0);
        // Any user can make a user namespace, and has all capabilities there. Without this file, the
        // kernel has one user namespace.
        let ours = user_namespace(Path::new("/proc/self"));
        let counts = ours.is_none() || user_namespace(&process) == ours;
        Self { uid, gid, groups, capabilities: if counts { found } else { 0 } }
    }

    const fn has(&self, capability: u64) -> bool {
        self.capabilities & capability != 0
    }

    /// Whether a client that sets an access list may leave the set-group-ID bit of a file of this
    /// group (as Linux has it: a member of the group, or CAP_FSETID).
    pub(super) fn may_keep_set_group(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group) || self.has(CAP_FSETID)
    }

    /// Whether a client may give an inode of this owner these flags, as the file system would
    /// decide. Before Linux 5.13 the kernel leaves the whole decision to the server. Each kernel
    /// leaves `chattr +j` to the file system, which sees the server's rights only.
    ///
    /// # Errors
    /// The file system has no such flags.
    pub(super) fn may_set_flags(
        &self,
        owner: u32,
        inode: &OwnedFd,
        new: &NewFlags,
    ) -> Result<bool, Errno> {
        let change = new.change_of(inode)?;
        Ok((self.uid == owner || self.has(CAP_FOWNER))
            && (!change.protects || self.has(CAP_LINUX_IMMUTABLE))
            && (!change.journals || self.has(CAP_SYS_RESOURCE)))
    }
}

impl NewFlags {
    fn change_of(&self, inode: &OwnedFd) -> Result<FlagChange, Errno> {
        match self {
            Self::Ext(new) => {
                let changed = rustix::fs::ioctl_getflags(inode)? ^ *new;
                let protects = changed.intersects(IFlags::IMMUTABLE | IFlags::APPEND);
                Ok(FlagChange { protects, journals: changed.intersects(IFlags::JOURNALING) })
            }
            Self::Xfs(new) => {
                let first = |all: &[u8]| all.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
                let changed = first(&sys::fsxattr(inode)?) ^ first(new);
                Ok(FlagChange { protects: changed & XFS_PROTECTS != 0, journals: false })
            }
        }
    }

    pub(super) fn set(&self, inode: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Ext(flags) => rustix::fs::ioctl_setflags(inode, *flags),
            Self::Xfs(flags) => sys::set_fsxattr(inode, flags),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};
    use std::sync::PoisonError;

    use super::*;
    use crate::underlying::tests::STARTS;

    pub(crate) const IMMUTABLE: u64 = CAP_LINUX_IMMUTABLE;
    pub(crate) const RESOURCE: u64 = CAP_SYS_RESOURCE;
    pub(crate) const OWNER: u64 = CAP_FOWNER;

    /// A client without groups.
    pub(crate) fn client(uid: u32, capabilities: u64) -> ClientRights {
        ClientRights { uid, gid: uid, groups: Vec::new(), capabilities }
    }

    #[test]
    fn members_and_those_who_may_keep_a_set_group_bit() {
        let member = ClientRights { groups: vec![5, 7], ..client(3, 0) };
        assert_eq!([3, 5, 7, 9].map(|g| member.may_keep_set_group(g)), [true, true, true, false]);
        assert!(client(3, CAP_FSETID).may_keep_set_group(9));
        assert!(!client(3, ALL & !CAP_FSETID).may_keep_set_group(9));
    }

    #[test]
    fn a_process_has_its_own_capabilities_and_one_that_is_not_visible_those_of_its_user() {
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
        let of = |uid, gid, pid| ClientRights::of(Client { uid, gid, pid });
        let rights = of(4, 5, std::process::id());
        assert_eq!((rights.uid, rights.gid), (4, 5));
        assert_eq!(rights.capabilities, u64::from_str_radix(own, 16).unwrap());
        assert_eq!(of(4, 4, 0), client(4, 0));
        assert_eq!(of(0, 0, 0), client(0, ALL));
    }

    /// Any user can have all capabilities in a user namespace.
    #[test]
    fn capabilities_in_another_user_namespace_do_not_count() {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = {
            let _alone = STARTS.write().unwrap_or_else(PoisonError::into_inner);
            command.spawn()
        };
        let Ok(mut child) = started else {
            return eprintln!("SKIPPED user namespaces: no unshare");
        };
        // It answers once it runs in its namespace.
        let mut input = child.stdin.take().unwrap();
        let asked = input.write_all(b"?").is_ok();
        if asked && child.stdout.as_mut().unwrap().read(&mut [0]).is_ok_and(|n| n == 1) {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            assert!(!status.contains("CapEff:\t0000000000000000"), "{status}");
            let client = Client { uid: 9, gid: 9, pid: child.id() };
            assert_eq!(ClientRights::of(client).capabilities, 0);
        } else {
            eprintln!("SKIPPED user namespaces: the host refuses them");
        }
        drop(input);
        child.wait().unwrap();
    }
}
