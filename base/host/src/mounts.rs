//! The mounts of this process, from /proc/self/mountinfo.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::unescaped;

/// The kernel's list of mounts.
pub const MOUNTS: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Mount {
    /// Its number, and that of the mount that its mount point is in.
    pub id: u32,
    pub parent: u32,
    /// Major and minor number.
    pub device: (u32, u32),
    /// The root of the file system is mounted, rather than a part of it.
    pub whole: bool,
    pub point: PathBuf,
    /// Its kind, such as ext4.
    pub kind: String,
    /// The device in the list of mounts.
    pub source: PathBuf,
    /// The options of the file system.
    pub options: String,
    /// The options of this mount of it.
    pub own_options: String,
}

/// The mounts of now.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read(MOUNTS)?))
}

/// The mounts in the text of mountinfo. Any user may mount at a name that is no text: what is no
/// text in it is replaced, so that its device counts as in use.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&b| b == b'\n').filter_map(|l| line(&String::from_utf8_lossy(l))).collect()
}

/// Whether this path leads to none of these mounts of a file system: another mount lies over it, or
/// over a folder on the way. Looks at the list alone: a file system that hangs may lie there.
pub fn is_hidden(all: &[Mount], point: &Path, device: (u32, u32)) -> bool {
    let mut own = all.iter().filter(|m| m.point == point && m.device == device);
    !own.any(|mount| is_reached(all, mount))
}

fn is_reached(all: &[Mount], mount: &Mount) -> bool {
    let (mut at, mut way): (&Mount, Option<&Mount>) = (mount, None);
    // No chain of parents is longer.
    for _ in 0..all.len() {
        let lies_over = |m: &Mount| match way {
            None => m.point == at.point,
            Some(way) => m.point != way.point && way.point.starts_with(&m.point),
        };
        if all.iter().filter(|m| m.parent == at.id && m.id != at.id).any(lies_over) {
            return false;
        }
        let Some(parent) = all.iter().find(|m| m.id == at.parent && m.id != at.id) else {
            return true;
        };
        (at, way) = (parent, Some(at));
    }
    true
}

/// The two numbers of a device in a text such as `8:17`.
pub fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let (id, parent) = (left.next()?.parse().ok()?, left.next()?.parse().ok()?);
    let (device, root, point) = (numbers(left.next()?)?, left.next()?, left.next()?);
    let own_options = left.next().unwrap_or_default().to_owned();
    let mut right = right.split(' ');
    Some(Mount {
        id,
        parent,
        device,
        whole: root == "/",
        point: unescaped(point).into(),
        kind: right.next()?.to_owned(),
        source: unescaped(right.next()?).into(),
        options: right.next().unwrap_or_default().to_owned(),
        own_options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_escapes_and_broken_lines_are_left_out() {
        let text = b"36 35 7:0 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/my\\134disk rw\n\
            37 35 7:0 /in /mnt/in rw - ext4 /dev/loop0\n\
            40 27 0:50 / /x\xff rw - fuse.sshfs h: rw\n\
            41 27 7 / /y rw - ext4 /dev/loop1 rw\nbroken line\n";
        let mount = |id, whole, point: &str, own: &str, source: &str, options: &str| Mount {
            id,
            parent: 35,
            device: (7, 0),
            whole,
            point: point.into(),
            kind: "ext4".to_owned(),
            source: source.into(),
            options: options.to_owned(),
            own_options: own.to_owned(),
        };
        let no_text = Mount {
            parent: 27,
            device: (0, 50),
            kind: "fuse.sshfs".to_owned(),
            ..mount(40, true, "/x\u{fffd}", "rw", "h:", "rw")
        };
        let found = [
            mount(36, true, "/mnt/a b", "rw,noatime", r"/dev/my\disk", "rw"),
            mount(37, false, "/mnt/in", "rw", "/dev/loop0", ""),
            no_text,
        ];
        assert_eq!(parse(text), found);
        assert_eq!((numbers("8:17\n"), numbers(""), numbers("8")), (Some((8, 17)), None, None));
    }

    #[test]
    fn a_mount_below_another_one_is_hidden() {
        // The first one was moved there with the root of the machine.
        let text = b"22 27 8:0 / /early rw - ext4 /dev/sda rw\n\
            27 1 8:1 / / rw - ext4 /dev/sdb rw\n\
            28 27 8:2 / /a rw - ext4 /dev/sdc rw\n\
            29 28 8:3 / /a/in rw - ext4 /dev/sdd rw\n\
            30 28 0:9 / /a rw - fuse.hangs hangs rw\n\
            31 27 8:4 / /b/in rw - ext4 /dev/sde rw\n\
            32 27 8:5 / /b rw - ext4 /dev/sdf rw\n\
            33 27 8:6 / /c rw - ext4 /dev/sdg rw\n\
            34 33 8:6 / /c rw - ext4 /dev/sdg rw\n";
        let all = parse(text);
        assert_eq!(all.len(), 9);
        let hidden: Vec<u32> =
            all.iter().filter(|m| is_hidden(&all, &m.point, m.device)).map(|m| m.id).collect();
        assert_eq!(hidden, [28, 29, 31]);
    }
}
