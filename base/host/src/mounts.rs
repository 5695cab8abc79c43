//! The mounts of this process, from /proc/self/mountinfo.

use std::path::PathBuf;
use std::{fs, io};

use crate::unescaped;

/// The kernel's list of mounts.
pub const MOUNTS: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Mount {
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

/// The mounts in the text of mountinfo. Any user may mount at a name that is no text: such a line is
/// left out.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&b| b == b'\n').filter_map(|l| line(std::str::from_utf8(l).ok()?)).collect()
}

/// The two numbers of a device in a text such as `8:17`.
pub fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (device, root, point) = (numbers(left.next()?)?, left.next()?, left.next()?);
    let own_options = left.next().unwrap_or_default().to_owned();
    let mut right = right.split(' ');
    Some(Mount {
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
        let mount = |whole, point: &str, own: &str, source: &str, options: &str| Mount {
            device: (7, 0),
            whole,
            point: point.into(),
            kind: "ext4".to_owned(),
            source: source.into(),
            options: options.to_owned(),
            own_options: own.to_owned(),
        };
        let found = [
            mount(true, "/mnt/a b", "rw,noatime", r"/dev/my\disk", "rw"),
            mount(false, "/mnt/in", "rw", "/dev/loop0", ""),
        ];
        assert_eq!(parse(text), found);
        assert_eq!((numbers("8:17\n"), numbers(""), numbers("8")), (Some((8, 17)), None, None));
    }
}
