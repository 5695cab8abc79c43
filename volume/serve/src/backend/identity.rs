//! Identity of a home: checks that an area was made for this home, and that no program has written
//! the home since then. This module only reads.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;
use seekless_engine::format::Label;
use seekless_host::blocks::{folder, numbers_of, whole_disk};
use twox_hash::XxHash3_64;

use super::remote::NbdUri;
use crate::capture::disks_below;

/// A file system's clock may not distinguish two writes within this time.
const TICK: Duration = Duration::from_millis(20);

/// Bytes that a label of 64 bytes keeps of the end of a long name.
const LABEL_END: usize = 42;

/// The name of home that its area stores. For a device this is its permanent name. For a file this
/// is its inode number and its name, of which one may change. For an export of another server this
/// is its address.
pub(crate) fn label(path: &Path) -> String {
    if let Some(Ok(NbdUri { address, export, .. })) = NbdUri::in_path(path) {
        let name = format!("{address} {export}");
        // A long name is cut, and its checksum is not.
        let text = format!("nbd {:08x} {name}", crc_fast::crc32_iscsi(name.as_bytes()));
        return Label::new(&text).as_str().to_owned();
    }
    let Ok(meta) = path.metadata() else { return String::new() };
    if FileType::from_raw_mode(meta.mode()) == FileType::BlockDevice {
        return fitted(&device_name(path, meta.rdev()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    cut(&format!("file {} {name}", meta.ino()))
}

fn cut(name: &str) -> String {
    Label::new(name).as_str().to_owned()
}

/// The label of a device. The end of a name tells partitions apart, and disks of one model. So the
/// label of a name that is too long is a checksum of all of it, and its end. Such a label begins with
/// `disk`, any other label of a device with `device`.
fn fitted(name: &str) -> String {
    let short = cut(name);
    if short == name {
        return short;
    }
    let sum = XxHash3_64::oneshot(name.as_bytes());
    let mut from = name.len().saturating_sub(LABEL_END);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    cut(&format!("disk {sum:016x} {}", &name[from..]))
}

/// The label that earlier versions gave to the device at a path, if its name is too long for a label:
/// its beginning alone.
pub(crate) fn former_label(path: &Path) -> Option<String> {
    let meta = path.metadata().ok()?;
    let is_device = FileType::from_raw_mode(meta.mode()) == FileType::BlockDevice;
    is_device.then(|| former(&device_name(path, meta.rdev()))).flatten()
}

fn former(name: &str) -> Option<String> {
    Some(cut(name)).filter(|short| short != name)
}

/// True if an area with the label `was` may be that of the home at this path.
pub(crate) fn is_of(path: &Path, was: &str) -> bool {
    is_name(&label(path), former_label(path).as_deref(), was)
}

/// True if the label `was` may be that of a home with these labels: that of now, and of earlier
/// versions.
fn is_name(now: &str, former: Option<&str>, was: &str) -> bool {
    same(now, was) || former == Some(was)
}

/// The name of the disk or file at a path, which stays as long as this disk or file is there. Of a
/// file: its time of birth, if its file system has one. A file that replaces it has another.
pub(crate) fn lasting_name(path: &Path) -> String {
    let Ok(meta) = path.metadata() else { return label(path) };
    if FileType::from_raw_mode(meta.mode()) == FileType::BlockDevice {
        return label(path);
    }
    let born = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    format!("file born {born:?}")
}

/// True if two labels may name one home.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let file = |label: &str| {
        let (number, name) = label.strip_prefix("file ")?.split_once(' ')?;
        Some((number.to_owned(), name.to_owned()))
    };
    match (file(a), file(b)) {
        // Copied or restored under its name, or renamed.
        (Some((a, name_a)), Some((b, name_b))) => a == b || name_a == name_b,
        _ => a == b,
    }
}

fn device_name(path: &Path, number: u64) -> String {
    let dir = sysfs(number);
    let partition = read(&dir.join("partition"));
    let disk = if partition.is_some() { dir.join("..") } else { dir };
    let names = ["wwid", "device/wwid", "dm/uuid", "md/uuid", "serial", "device/serial"];
    let name = names.iter().find_map(|n| read(&disk.join(n)).filter(|t| !t.is_empty()));
    // Without such a name, the path of its node.
    let name = name.unwrap_or_else(|| {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        path.to_string_lossy().into_owned()
    });
    partition.map_or_else(|| format!("device {name}"), |p| format!("device {name} part {p}"))
}

/// First sector and number of sectors of each partition of a block device.
pub(crate) fn partitions(path: &Path) -> Vec<(u64, u64)> {
    path.metadata().map_or_else(|_| Vec::new(), |meta| partitions_at(&sysfs(meta.rdev())))
}

/// The same, by the kernel's folder of the device.
fn partitions_at(disk: &Path) -> Vec<(u64, u64)> {
    let entries = std::fs::read_dir(disk).into_iter().flatten().flatten().map(|e| e.path());
    let number = |path: PathBuf| read(&path)?.parse::<u64>().ok();
    let parts = entries.filter(|part| part.join("partition").exists());
    parts.filter_map(|p| Some((number(p.join("start"))?, number(p.join("size"))?))).collect()
}

fn sysfs(number: u64) -> PathBuf {
    // The kernel's own path: the parent of a partition is its disk.
    let path = folder(numbers_of(number));
    path.canonicalize().unwrap_or(path)
}

/// The whole disk of a file or block device, in sysfs.
fn disk_of(path: &Path) -> Option<PathBuf> {
    let meta = path.metadata().ok()?;
    let device = FileType::from_raw_mode(meta.mode()) == FileType::BlockDevice;
    Some(whole_disk(sysfs(if device { meta.rdev() } else { meta.dev() })))
}

/// Whether two files or block devices lie on one disk, as far as the kernel says.
pub fn on_one_disk(one: &Path, other: &Path) -> bool {
    disk_of(one).is_some_and(|disk| disk_of(other) == Some(disk))
}

/// The same, also through partitions, device mapper and loop devices: a flush of one may be a flush
/// of what the other has written.
pub(crate) fn share_a_disk(one: &Path, other: &Path) -> bool {
    on_one_disk(one, other) || !disks_below(one).is_disjoint(&disks_below(other))
}

/// Whether the disk of a file or block device rotates; `None` if the kernel does not say.
pub(crate) fn rotates(path: &Path) -> Option<bool> {
    Some(read(&disk_of(path)?.join("queue/rotational"))? != "0")
}

/// The model of the disk of a file or block device, as the kernel names it.
pub(crate) fn model(path: &Path) -> Option<String> {
    read(&disk_of(path)?.join("device/model")).filter(|model| !model.is_empty())
}

/// The path of a device by a name that stays when disks change places; other paths as they are.
pub(crate) fn permanent_path(path: &Path) -> PathBuf {
    for folder in ["/dev/disk/by-id", "/dev/disk/by-partuuid"] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        names.sort();
        // Other characters mean something else in a unit of systemd.
        let fits = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=".contains(c);
        // This name is part of the content: a guard hides it, and the served disk has it too.
        let content = |p: &str| p.contains("/lvm-pv-uuid-");
        let plain = |p: &PathBuf| p.to_str().is_some_and(|p| p.chars().all(fits) && !content(p));
        let same = |p: &PathBuf| plain(p) && p.canonicalize().is_ok_and(|p| p == path);
        if let Some(name) = names.into_iter().find(same) {
            return name;
        }
    }
    path.to_owned()
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

/// 32 bytes, not all zero, that stay equal only if nobody writes to the file or device. Of a file:
/// its place, and the times of its last changes; waits until a later change must get another time.
/// Of a device: this boot, this attachment, and the writes since.
pub(crate) fn stamp(home: BorrowedFd<'_>) -> [u8; 32] {
    prove(home).unwrap_or_default()
}

fn prove(home: BorrowedFd<'_>) -> Option<[u8; 32]> {
    let file = File::from(home.as_fd().try_clone_to_owned().ok()?);
    let meta = file.metadata().ok()?;
    if FileType::from_raw_mode(meta.mode()) == FileType::BlockDevice {
        return stamp_at(&sysfs(meta.rdev()));
    }
    let time = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
    let (changed, status) =
        (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let last = Duration::from_nanos(u64::try_from(changed.max(status)).ok()?);
    // A time in the future proves nothing.
    let since = now.checked_sub(last)?;
    if let Some(left) = TICK.checked_sub(since) {
        std::thread::sleep(left);
        return prove(home);
    }
    Some(join([meta.dev(), meta.ino(), changed.cast_unsigned(), status.cast_unsigned()]))
}

/// Parts of the kernel's paths of disks that other machines may write too. The kernel does not count
/// writes of these machines.
const SHARED: [&str; 6] =
    ["/session", "/rport-", "/nvme-fabrics/", "/nvme-subsystem/", "/virtual/block/", "/rbd/"];

/// Whether the kernel counts all writes of a disk, by the kernel's path of the disk.
fn counts_all_writes(disk: &Path) -> bool {
    let path = disk.to_string_lossy();
    !SHARED.iter().any(|part| path.contains(part))
}

/// The stamp of a device, by the kernel's folder of it. A device on other devices can be written
/// through them, and uncounted writes prove nothing.
fn stamp_at(place: &Path) -> Option<[u8; 32]> {
    let disk = whole_disk(place.to_owned());
    let stacked = std::fs::read_dir(disk.join("slaves")).is_ok_and(|mut d| d.next().is_some());
    let counts = read(&disk.join("queue/iostats"))? == "1";
    if stacked || !counts || !counts_all_writes(&disk) || disk.join("loop").exists() {
        return None;
    }
    let stat = read(&disk.join("stat"))?;
    let field = |n: usize| stat.split_whitespace().nth(n)?.parse::<u64>().ok();
    // Sectors written, and sectors discarded where the kernel counts these.
    let written = field(6)?.wrapping_add(field(13).unwrap_or(0));
    let sequence: u64 = read(&disk.join("diskseq"))?.parse().ok()?;
    let boot = read(Path::new("/proc/sys/kernel/random/boot_id"))?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).ok()?;
    // The first sector of a partition: the rest is that of the whole disk, and so of its other
    // partitions.
    let from: u64 = read(&place.join("start")).map_or(Some(0), |start| start.parse().ok())?;
    Some(join([(boot >> 64) as u64 ^ from, boot as u64, sequence, written]))
}

fn join(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn disks_that_other_machines_may_write_prove_nothing() {
        for path in [
            "/sys/devices/platform/host3/session1/target3:0:0/3:0:0:0/block/sdb",
            "/sys/devices/pci0000:00/0000:00:05.0/host1/rport-1:0-0/target1:0:0/1:0:0:0/block/sdc",
            "/sys/devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1",
            "/sys/devices/virtual/block/nbd0",
            "/sys/devices/rbd/0/block/rbd0",
        ] {
            assert!(!counts_all_writes(Path::new(path)), "{path}");
        }
        for path in [
            "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
            "/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1",
        ] {
            assert!(counts_all_writes(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn files_of_one_file_system_lie_on_one_disk() {
        let (dir, other) = (std::env::temp_dir(), Path::new("/proc/version"));
        assert!(on_one_disk(&dir, &dir) && on_one_disk(other, Path::new("/proc/mounts")));
        assert!(!on_one_disk(&dir, other) && !on_one_disk(&dir, Path::new("/absent")));
        assert!(share_a_disk(&dir, &dir) && !share_a_disk(&dir, other));
    }

    #[test]
    fn a_stamp_holds_until_the_file_is_written() {
        let path = std::env::temp_dir().join(format!("seekless-stamp-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let first = stamp(file.as_fd());
        assert_ne!(first, [0; 32]);
        assert_eq!(stamp(file.as_fd()), first);
        for _ in 0..5 {
            let before = stamp(file.as_fd());
            file.write_all(b"x").unwrap();
            assert_ne!(stamp(file.as_fd()), before);
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// Names as the kernel gives them to disks without a number of their own.
    #[test]
    fn long_names_that_differ_at_their_end_have_other_labels() {
        let (ata, nvme) = ("t10.ATA     WDC WD10EZEX-08WN4A0", "57443130455a45582d30385f3031");
        let serial = "WD-WCC6Y3";
        let names = [
            format!("device {ata}                        {serial}HJ5K1 part 1"),
            format!("device {ata}                        {serial}HJ5K1 part 11"),
            format!("device {ata}                        {serial}HJ5K2 part 1"),
            format!("device nvme.8086-{nvme}-{nvme}-00000001"),
            format!("device nvme.8086-{nvme}-{nvme}-00000002"),
            format!("device {}x", "\u{e4}".repeat(61)),
        ];
        let labels: Vec<String> = names.iter().map(|name| fitted(name)).collect();
        for (i, label) in labels.iter().enumerate() {
            assert!(label.starts_with("disk ") && label.len() <= 64, "{label}");
            assert!(!labels[..i].contains(label), "{label}");
            // Stored and read, it stays; and it is what an earlier version stored.
            assert_eq!(cut(label), *label);
            let old = former(&names[i]).unwrap();
            assert_eq!(old, cut(&names[i]));
            assert!(is_name(label, Some(&old), &old), "an area of an earlier version");
            assert!(!is_name(label, Some(&old), "disk 0 part 1"), "another one");
        }
        assert!(labels[1].ends_with("HJ5K1 part 11"), "{}", labels[1]);
        assert_eq!(former(&names[0]), former(&names[1]), "an earlier version takes them for one");
        // Names that fit are their own labels: areas that exist have these.
        let most = format!("device {}", "x".repeat(57));
        for name in ["device naa.5000c500a1b2c3d4 part 2", "device /dev/loop0", &most] {
            assert_eq!((fitted(name).as_str(), former(name)), (name, None));
        }
    }

    #[test]
    fn the_label_of_a_home_is_of_this_home() {
        let path = std::env::temp_dir().join(format!("seekless-label-{}", std::process::id()));
        File::create(&path).unwrap();
        assert!(is_of(&path, &label(&path)) && !is_of(&path, "device naa.1"));
        assert_eq!(former_label(&path), None);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn partitions_of_a_disk_have_other_stamps() {
        let disk = std::env::temp_dir().join(format!("seekless-parts-{}", std::process::id()));
        let file = |name: &str, text: &str| {
            let path = disk.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let stat = |written: u64| format!("1 0 8 0 1 0 {written} 0 0 0 0 0 0 0 0 0 0\n");
        file("queue/iostats", "1\n");
        file("diskseq", "7\n");
        file("stat", &stat(8));
        for (name, start, size) in [("p1", "2048\n", "1024\n"), ("p2", "4096\n", "8\n")] {
            file(&format!("{name}/partition"), &name[1..]);
            file(&format!("{name}/start"), start);
            file(&format!("{name}/size"), size);
        }
        let mut parts = partitions_at(&disk);
        parts.sort_unstable();
        assert_eq!(parts, [(2048, 1024), (4096, 8)]);
        assert!(partitions_at(&disk.join("p1")).is_empty());
        let places = [disk.clone(), disk.join("p1"), disk.join("p2")];
        let stamps = || places.each_ref().map(|place| stamp_at(place).unwrap());
        let before = stamps();
        assert_eq!(stamps(), before);
        assert!(before[0] != before[1] && before[1] != before[2] && before[0] != before[2]);
        file("stat", &stat(16));
        assert!(stamps().iter().zip(&before).all(|(now, before)| now != before));
        std::fs::remove_dir_all(&disk).unwrap();
    }

    #[test]
    fn a_renamed_or_copied_file_is_the_same_and_another_is_not() {
        assert!(same("file 7 disk.img", "file 7 other.img"));
        assert!(same("file 7 disk.img", "file 8 disk.img"));
        assert!(!same("file 7 disk.img", "file 8 other.img"));
        assert!(!same("device naa.1", "device naa.2"));
        assert!(!same("device naa.1", "file 8 other.img"));
        assert!(same("device naa.1 part 2", "device naa.1 part 2"));
    }
}
