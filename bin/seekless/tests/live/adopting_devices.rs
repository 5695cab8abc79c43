//! `seekless adopt` and `seekless release` with disks and areas that are block devices, or on a file
//! system of their own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::adopting::{MIB, System, same, sparse};
use crate::host::{self, Loop, Mount, run, seekless};
use crate::need;

/// A link to a device, as udev makes it.
struct ById(PathBuf);

impl ById {
    fn new(device: &str, test: &str) -> Self {
        fs::create_dir_all("/dev/disk/by-id").unwrap();
        // No other name of the device comes first.
        let link = format!("/dev/disk/by-id/0-seekless-{test}-{}", std::process::id());
        std::os::unix::fs::symlink(device, &link).unwrap();
        Self(link.into())
    }
}

impl Drop for ById {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Overwrites a part of an image or a device.
fn write(path: impl AsRef<Path>, bytes: &[u8], from: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, from).unwrap();
    file.sync_all().unwrap();
}

/// Disks may change places at the next start of the machine.
#[test]
fn an_area_on_a_device_is_adopted_by_a_name_that_stays() {
    need!("an area on a device", "root losetup blockdev ext4");
    let system = System::new("by_id");
    let blank = system.path("blank");
    sparse(&blank, 16);
    let device = Loop::attach(&blank, &[]);
    let link = ById::new(device.device(), "by-id");
    let stays = link.0.display().to_string();
    for named in [device.device(), stays.as_str()] {
        let said = host::succeeds(&mut system.adopt(&["--area", named, "--dry-run"]));
        assert!(said.contains(&format!("area    {stays}, a blank device")), "{named}: {said}");
        assert!(said.contains(&format!("AREA={stays}")), "{named}: {said}");
    }
}

/// A kernel's name, such as /dev/vdb, may be another disk's at the next start of the machine.
#[test]
fn a_device_without_a_name_that_stays_is_refused() {
    need!("a device without a lasting name", "root losetup blockdev ext4");
    let system = System::new("no_name");
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    let disk = system.path("disk");
    sparse(&disk, 64);
    let device = Loop::attach(&disk, &[]);
    let before = system.all();
    let words = [device.device(), "no name that stays", "serial number", "partition"];
    let adopt = ["adopt", device.device(), "--name", &system.name, "--area", "area"];
    host::refused(&mut system.command(&adopt), &words);
    host::refused(&mut system.adopt(&["--area", device.device()]), &words);
    same(&before, &system.all(), "refused");
    let link = ById::new(device.device(), "no-name");
    let said = host::succeeds(system.command(&adopt).arg("--dry-run"));
    assert!(said.contains(&format!("BACKING={}", link.0.display())), "{said}");
}

/// systemd would find a circle when the machine starts, and leave out a unit, such as the network.
#[test]
fn an_area_that_comes_after_the_network_is_refused_below_a_mount_that_comes_before() {
    need!("a mount of another file system", host::root());
    let system = System::new("network").booted();
    let mnt = system.path("mnt");
    run(["mount", "-t", "tmpfs", "none", mnt.to_str().unwrap()]);
    let _mount = Mount::at(&mnt);
    let line = format!("UUID=x-none {} ext4 _netdev", mnt.display());
    fs::write(system.path("root/etc/fstab"), line).unwrap();
    let adopt = ["--area", "mnt/area", "--dry-run"];
    let words = ["mnt/area: needs the network", "_netdev"];
    host::refused(system.adopt(&adopt).args(["--mount", "/srv"]), &words);
    host::succeeds(&mut system.adopt(&adopt));
}

/// The system would take the bare disk when it starts.
#[test]
fn a_member_of_lvm_or_raid_is_refused() {
    need!("a member on a device", "root losetup blockdev ext4");
    let system = System::new("member");
    let disk = system.path("disk");
    let file = sparse(&disk, 64);
    // A mark that no program takes for a whole one.
    file.write_all_at(b"LABELONE", 512).unwrap();
    let device = Loop::attach(&disk, &[]);
    let _link = ById::new(device.device(), "member");
    let before = system.all();
    let adopt = |disk: &str| {
        let args = ["adopt", disk, "--name", &system.name, "--area", "area", "--dry-run"];
        system.command(&args)
    };
    let words = [device.device(), "an LVM physical volume", "takes when it starts. Adopt"];
    host::refused(&mut adopt(device.device()), &words);
    same(&before, &system.all(), "refused");
    // Nothing looks for members in an image.
    write(system.path("disk.img"), b"LABELONE", 512);
    host::succeeds(&mut adopt("disk.img"));
}

/// The system would take the partition when it starts.
#[test]
fn a_disk_with_a_member_in_a_partition_is_refused() {
    need!("a member in a partition", "root losetup blockdev ext4");
    let system = System::new("member_within");
    let disk = system.path("disk");
    let file = sparse(&disk, 64);
    // A partition of 8,192 sectors from 2,048 on.
    let mut table = [0u8; 512];
    table[446..462].copy_from_slice(&[0, 0, 2, 0, 0x8e, 0, 2, 0, 0, 8, 0, 0, 0, 32, 0, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    file.write_all_at(&table, 0).unwrap();
    let device = Loop::attach(&disk, &["-P"]);
    let kernels = device.device().trim_start_matches("/dev/").to_owned();
    let part = Path::new("/sys/block").join(&kernels).join(format!("{kernels}p1"));
    let absent = (!part.exists()).then(|| "no partitions of loop devices".to_owned());
    need!("a member in a partition", absent);
    let _link = ById::new(device.device(), "member-within");
    let adopt = ["adopt", device.device(), "--name", &system.name, "--area", "area", "--dry-run"];
    host::succeeds(&mut system.command(&adopt));
    write(device.device(), b"LABELONE", 2049 * 512);
    let words = [device.device(), "has a partition that is an LVM physical volume", "pvremove"];
    host::refused(&mut system.command(&adopt), &words);
}

#[test]
fn a_disk_is_released_when_the_device_of_its_area_is_gone() {
    need!("an area on a device", "root losetup blockdev ext4");
    let OnDevice { link, device, before, system } = OnDevice::new("area_gone");
    drop(link);
    device.detach();
    host::succeeds(&mut system.command(&["release", &system.name]));
    same(&before, &system.all(), "released without its area");
}

/// An adopted disk whose area is on a loop device.
struct OnDevice {
    link: ById,
    device: Loop,
    before: BTreeMap<PathBuf, Vec<u8>>,
    system: System,
}

impl OnDevice {
    fn new(name: &str) -> Self {
        let system = System::new(name);
        let before = system.all();
        let blank = system.path("blank");
        sparse(&blank, 16);
        let device = Loop::attach(&blank, &[]);
        let link = ById::new(device.device(), name);
        host::succeeds(&mut system.adopt(&["--area", device.device()]));
        Self { link, device, before, system }
    }

    /// As a release that a power cut ended just before it made the device blank.
    fn goes(&self) {
        let area = fs::read(self.device.device()).unwrap();
        self.system.release_ends_early();
        write(self.device.device(), &area, 0);
    }

    /// As [`Self::goes`], but the power cut came before the last write that makes it blank.
    fn half_blank(&self) {
        self.goes();
        self.zero(4096, MIB - 4096);
        self.zero(15 * MIB, MIB);
    }

    /// As [`Self::goes`], but the power cut came when it was blank.
    fn blank(&self) {
        self.goes();
        self.zero(0, MIB);
        self.zero(15 * MIB, MIB);
    }

    fn zero(&self, from: u64, bytes: u64) {
        write(self.device.device(), &vec![0; bytes as usize], from);
    }

    /// Releases the disk again; returns what it notes.
    fn release(&self) -> String {
        let said = self.system.release();
        same(&self.before, &self.system.all(), "released");
        said
    }

    /// Released again, not a byte of the device changes; this is noted, with these words.
    fn stays(&self, words: &[&str]) {
        let device = self.device.device();
        let kept = fs::read(device).unwrap();
        let said = self.release();
        let all = [words, &["stays as it is"]].concat();
        assert!(all.iter().all(|word| said.contains(word)), "{said}");
        assert!(fs::read(device).unwrap() == kept, "not a byte of it");
    }
}

/// A power cut came when both ends of the device were blank, but for the first page.
#[test]
fn a_release_that_ended_while_the_area_was_blanked_is_repeated() {
    need!("an area on a device", "root losetup blockdev ext4");
    let adopted = OnDevice::new("half_blank");
    adopted.half_blank();
    assert_eq!(adopted.release(), "");
    let OnDevice { system, link, device, .. } = adopted;
    drop(link);
    device.detach();
    let blank = fs::read(system.path("blank")).unwrap();
    for end in [&blank[..MIB as usize], &blank[15 * MIB as usize..]] {
        assert!(end.iter().all(|b| *b == 0), "an end is not blank");
    }
}

/// A release ended when the device was blank, and others use the device since.
#[test]
fn a_repeated_release_leaves_what_others_have_on_the_device() {
    need!("an area on a device", "root losetup blockdev ext4 mkfs.ext4");
    let adopted = OnDevice::new("others");
    let device = adopted.device.device();
    adopted.blank();
    run(["mkfs.ext4", "-q", "-F", device]);
    adopted.stays(&["note: ", "an ext2/3/4 file system"]);
    drop(adopted);

    // The area of another image, of the same name and size.
    let adopted = OnDevice::new("others_area");
    let device = adopted.device.device();
    adopted.blank();
    let other = adopted.system.path("other");
    fs::create_dir(&other).unwrap();
    sparse(other.join("disk.img"), 64);
    let other = other.join("disk.img");
    let mut format = seekless();
    host::succeeds(format.args(["volume", "format", "--at", device]).arg(other));
    adopted.stays(&["holds an area"]);
    drop(adopted);

    // A RAID leaves the first page as the area left it.
    let adopted = OnDevice::new("others_raid");
    let device = adopted.device.device();
    adopted.goes();
    adopted.zero(4096, MIB - 4096);
    write(device, b"\xfc\x4e\x2b\xa9", 4096);
    adopted.stays(&[]);
}

/// Only the device is left to do: all else was undone.
#[test]
fn a_repeated_release_ends_although_the_device_of_its_area_fails_or_is_in_use() {
    need!("an area on a device", "root losetup blockdev ext4");
    let adopted = OnDevice::new("refuses");
    let device = adopted.device.device();
    adopted.half_blank();
    run(["blockdev", "--setro", device]);
    let said = adopted.release();
    // The loop device would keep this for the next test.
    run(["blockdev", "--setrw", device]);
    assert!(said.contains("stays as it is") && !said.contains("may not be"), "{said}");
    drop(adopted);

    let adopted = OnDevice::new("in_use");
    adopted.goes();
    let mut user = File::options();
    user.read(true).custom_flags(OFlags::EXCL.bits().cast_signed());
    let user = user.open(adopted.device.device()).unwrap();
    let said = adopted.release();
    assert!(said.contains("stays as it is") && said.contains("in use"), "{said}");
    drop(user);
}
