//! Mounted file systems, from /proc/self/mountinfo and /sys, and which of them can be watched.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use seekless_host::blocks::{folder, numbers_of, whole_disk};
use seekless_host::cannot_at;
use seekless_host::mounts::{MOUNTS, Mount, is_hidden, mounts, numbers};

use crate::WatchError;

/// A mounted file system on a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// One of its mount points.
    pub(crate) point: PathBuf,
    /// Its kind, such as ext4.
    pub(crate) kind: String,
    /// Major and minor number.
    pub(crate) device: (u32, u32),
    /// The root of the file system is mounted, rather than a part of it.
    whole: bool,
    /// The device in the list of mounts.
    source: PathBuf,
    /// The tree of btrfs that is mounted.
    pub(crate) tree: Option<u64>,
    /// No other tree of it is mounted.
    pub(crate) alone: bool,
}

impl From<Mount> for Mounted {
    fn from(mount: Mount) -> Self {
        let Mount { device, whole, point, kind, source, options, .. } = mount;
        let tree = options.split(',').find_map(|o| o.strip_prefix("subvolid=")?.parse().ok());
        let tree = tree.filter(|_| kind == "btrfs");
        Self { point, kind, device, whole, source, tree, alone: true }
    }
}

impl Mounted {
    /// The device number as the kernel's events have it.
    pub(crate) const fn number(&self) -> u64 {
        kernel_number(self.device)
    }

    pub(crate) fn is_xfs(&self) -> bool {
        self.kind == "xfs"
    }

    /// Its metadata is in the page cache of its device.
    pub(crate) fn is_cached(&self) -> bool {
        !self.is_xfs() && self.tree.is_none()
    }

    /// Its folder in /sys. The device number of btrfs is no device's.
    fn sys(&self) -> io::Result<PathBuf> {
        Ok(folder(match self.tree {
            None => self.device,
            Some(_) => numbers_of(fs::metadata(&self.source)?.rdev()),
        }))
    }

    /// Folder in /sys of the whole disk, and its number.
    pub(crate) fn disk(&self) -> io::Result<(PathBuf, u64)> {
        let whole = whole_disk(fs::canonicalize(self.sys()?)?);
        let text = fs::read_to_string(whole.join("dev"))?;
        let number =
            numbers(&text).ok_or_else(|| io::Error::other(format!("its number is '{text}'")))?;
        Ok((whole, kernel_number(number)))
    }

    /// Its sectors of the whole disk. `None`: all of them.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        let sys = self.sys().ok()?;
        sys.join("partition").exists().then_some(())?;
        let number = |name| fs::read_to_string(sys.join(name)).ok()?.trim().parse::<u64>().ok();
        let (start, count) = (number("start")?, number("size")?);
        Some(start..start.saturating_add(count))
    }

    /// Another file system lies over its mount point, so that the path names that one.
    pub(crate) fn is_hidden(&self, all: &[Mount]) -> bool {
        is_hidden(all, &self.point, self.device)
    }

    /// Whether the disk says that it rotates.
    fn rotates(&self) -> bool {
        let flag = self.disk().and_then(|(d, _)| fs::read_to_string(d.join("queue/rotational")));
        flag.is_ok_and(|f| f.trim() == "1")
    }

    /// The path of the block device.
    pub(crate) fn device_path(&self) -> io::Result<PathBuf> {
        let text = fs::read_to_string(self.sys()?.join("uevent"))?;
        let name = text.lines().find_map(|l| l.strip_prefix("DEVNAME="));
        let name = name.ok_or_else(|| io::Error::other("no DEVNAME in its uevent"))?;
        Ok(Path::new("/dev").join(name))
    }
}

const fn kernel_number((major, minor): (u32, u32)) -> u64 {
    (major as u64) << 20 | minor as u64
}

/// Whether a kind can be watched, or why not.
fn supported(kind: &str) -> Result<(), &'static str> {
    match kind {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" => Ok(()),
        "f2fs" => Err("it moves files when it cleans up, so learned addresses are soon wrong"),
        "zfs" => Err("it has a cache of its own, which the kernel's events do not show"),
        _ => Err("seekless watch knows ext2, ext3, ext4, XFS and btrfs"),
    }
}

/// The file systems to watch.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// These mount points.
    Points(Vec<PathBuf>),
    /// Every file system on a disk that rotates; or on any disk.
    Every { also_flash: bool },
}

/// The mounts of now, and their file systems.
pub(crate) fn mounted() -> Result<(Vec<Mount>, Vec<Mounted>), WatchError> {
    let found = mounts().map_err(cannot_at(Path::new(MOUNTS), "list mounts"))?;
    let all = found.iter().cloned().map(Mounted::from).collect();
    Ok((found, all))
}

impl Choice {
    /// The chosen ones of these, each device once.
    pub(crate) fn of(&self, all: &[Mounted]) -> Vec<Mounted> {
        self.chosen(all, Mounted::rotates)
    }

    /// A host of containers has hundreds of mounts of one device, and mounts all the time: each
    /// device is asked once.
    fn chosen(&self, all: &[Mounted], rotates: impl Fn(&Mounted) -> bool) -> Vec<Mounted> {
        let mut known = FxHashMap::default();
        let wanted = |&m: &&Mounted| {
            supported(&m.kind).is_ok()
                // Nobody can open a name in which something was replaced.
                && !m.point.to_string_lossy().contains('\u{fffd}')
                && match self {
                    Self::Points(points) => points.contains(&m.point),
                    Self::Every { also_flash } => {
                        *also_flash || *known.entry(m.device).or_insert_with(|| rotates(m))
                    }
                }
        };
        let mut found: Vec<Mounted> = all.iter().filter(wanted).cloned().collect();
        // A mount of the whole file system comes first, and stays.
        found.sort_by_key(|m| (m.device, !m.whole));
        found.dedup_by_key(|m| m.device);
        for mounted in &mut found {
            let other = |m: &Mounted| m.device == mounted.device && m.tree != mounted.tree;
            mounted.alone = !all.iter().any(other);
        }
        found
    }

    /// Refuses what cannot be watched. A chosen mount point may be mounted later.
    pub(crate) fn check(&self, all: &[Mounted]) -> Result<(), WatchError> {
        let Self::Points(points) = self else { return Ok(()) };
        for point in points {
            // The last one lies on top: below it may be an automount.
            let Some(found) = all.iter().rfind(|m| m.point == *point) else {
                return Err(WatchError::NotMounted(point.clone()));
            };
            supported(&found.kind).map_err(|why| WatchError::Unsupported {
                point: point.clone(),
                kind: found.kind.clone(),
                why,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Vec<Mounted> {
        seekless_host::mounts::parse(text).into_iter().map(Mounted::from).collect()
    }

    const TEXT: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 254:0 /home /mnt/bind rw,relatime - ext4 /dev/vda rw
31 27 8:17 / /mnt/my\\040disk rw,relatime shared:1 - ext3 /dev/sdb1 rw
32 27 8:33 / /mnt/x rw - f2fs /dev/sdc1 rw
34 27 0:45 /@ /mnt/b rw - btrfs /dev/sdd1 rw,subvolid=256,subvol=/@
33 27 0:44 / /mnt/z rw - zfs tank rw
40 27 0:50 / /x\xff rw - fuse.sshfs h: rw
35 27 0:40 / /srv rw - autofs systemd-1 rw
36 35 8:49 / /srv rw - ext4 /dev/sdd1 rw
broken line
";

    #[test]
    fn each_device_is_watched_once() {
        let all = parse(TEXT);
        assert_eq!(all.len(), 10);
        let found = Choice::Every { also_flash: true }.of(&all);
        let seen: Vec<_> = found.iter().map(|m| (m.point.to_str(), m.device, &*m.kind)).collect();
        assert_eq!(
            seen,
            [
                (Some("/mnt/b"), (0, 45), "btrfs"),
                (Some("/mnt/my disk"), (8, 17), "ext3"),
                (Some("/srv"), (8, 49), "ext4"),
                (Some("/"), (254, 0), "ext4"),
            ]
        );
        assert_eq!(found.iter().map(|m| m.tree).collect::<Vec<_>>(), [Some(256), None, None, None]);
        assert_eq!(found[1].number(), 8 << 20 | 17);
        assert!(found[0].alone, "one subvolume");
        let two =
            [TEXT, b"9 27 0:45 /h /h rw - btrfs /dev/sdd1 rw,subvolid=257,subvol=/h\n"].concat();
        let found = Choice::Every { also_flash: true }.of(&parse(&two));
        assert!(found.iter().all(|m| m.alone != (m.kind == "btrfs")), "{found:?}");
        let no_text = [b"9 27 254:0 / /x\xff rw - ext4 /dev/vda rw\n".as_slice(), TEXT].concat();
        let found = Choice::Every { also_flash: true }.of(&parse(&no_text));
        assert_eq!(found[3].point.to_str(), Some("/"));
        let part = Choice::Points(vec!["/mnt/bind".into()]);
        assert_eq!(part.of(&all)[0].device, (254, 0));
        assert!(part.check(&all).is_ok());
        assert!(Choice::Points(vec!["/srv".into()]).check(&all).is_ok(), "below an automount");
    }

    #[test]
    fn each_device_is_asked_once_whether_it_rotates() {
        let bind = |n: u32| format!("{n} 27 254:0 /d /mnt/{n} rw - ext4 /dev/vda rw\n");
        let text: String = (100..200).map(bind).collect();
        let all = parse(&[TEXT, text.as_bytes()].concat());
        let asked = std::cell::Cell::new(0);
        let rotates = |_: &Mounted| {
            asked.set(asked.get() + 1);
            true
        };
        let found = Choice::Every { also_flash: false }.chosen(&all, rotates);
        assert_eq!((found.len(), asked.get()), (4, 4));
    }

    #[test]
    fn what_cannot_be_watched_is_refused_with_a_reason() {
        let all = parse(TEXT);
        for (point, word) in [
            ("/mnt/x", "f2fs cannot be watched: it moves files"),
            ("/mnt/z", "zfs"),
            ("/nowhere", "not a mount point"),
            ("/proc", "proc"),
        ] {
            let error = Choice::Points(vec![point.into()]).check(&all).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| e.contains(word)), "{error:?}");
        }
    }
}
