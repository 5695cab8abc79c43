//! `seekless adopt` and `seekless release` with disks and areas that are block devices.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::adopting::{MIB, System, same};
use crate::host::{self, Loop, run, seekless};
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

/// What such a test lacks here.
fn missing() -> Option<String> {
    let missing = host::root().or_else(|| host::programs(&["losetup", "blockdev"]));
    missing.or_else(|| host::loop_mounts("ext4"))
}

/// Disks may change places at the next start of the machine.
#[test]
fn an_area_on_a_device_is_adopted_by_a_name_that_stays() {
    need!("an area on a device", missing());
    let system = System::new("by_id");
    let blank = system.path("blank");
    File::create_new(&blank).unwrap().set_len(16 * MIB).unwrap();
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
    need!("a device without a lasting name", missing());
    let system = System::new("no_name");
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    let disk = system.path("disk");
    File::create_new(&disk).unwrap().set_len(64 * MIB).unwrap();
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

/// The system would take the bare disk when it starts.
#[test]
fn a_member_of_lvm_or_raid_is_refused() {
    need!("a member on a device", missing());
    let system = System::new("member");
    let disk = system.path("disk");
    let file = File::create_new(&disk).unwrap();
    file.set_len(64 * MIB).unwrap();
    // A mark that no program takes for a whole one.
    file.write_all_at(b"LABELONE", 512).unwrap();
    let device = Loop::attach(&disk, &[]);
    let _link = ById::new(device.device(), "member");
    let before = system.all();
    let adopt = |disk: &str| {
        let args = ["adopt", disk, "--name", &system.name, "--area", "area", "--dry-run"];
        system.command(&args)
    };
    let words = [device.device(), "an LVM physical volume", "takes when it starts"];
    host::refused(&mut adopt(device.device()), &words);
    same(&before, &system.all(), "refused");
    // Nothing looks for members in an image.
    File::options()
        .write(true)
        .open(system.path("disk.img"))
        .unwrap()
        .write_all_at(b"LABELONE", 512)
        .unwrap();
    host::succeeds(&mut adopt("disk.img"));
}

#[test]
fn a_disk_is_released_when_the_device_of_its_area_is_gone() {
    need!("an area on a device", missing());
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
        File::create_new(&blank).unwrap().set_len(16 * MIB).unwrap();
        let device = Loop::attach(&blank, &[]);
        let link = ById::new(device.device(), name);
        host::succeeds(&mut system.adopt(&["--area", device.device()]));
        Self { link, device, before, system }
    }

    /// As a release that a power cut ended while it made the device blank.
    fn goes(&self) {
        let mut dump = seekless();
        dump.args(["volume", "dump", "disk.img", "--json", "--area", self.device.device()]);
        let dump = host::succeeds(dump.current_dir(self.system.dir.path()));
        let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
        let id = dump["superblock"]["uuid"].as_str().unwrap();
        let mark = format!("root/etc/seekless/{}.area-goes", self.system.name);
        fs::write(self.system.path(&mark), id).unwrap();
    }

    fn zero(&self, from: u64, bytes: u64) {
        let device = File::options().write(true).open(self.device.device()).unwrap();
        device.write_all_at(&vec![0; bytes as usize], from).unwrap();
        device.sync_all().unwrap();
    }

    /// Releases the disk again; returns what it says.
    fn release(&self) -> String {
        let output = self.system.command(&["release", &self.system.name]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        same(&self.before, &self.system.all(), "released");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A power cut came when all but the first page and the last MiB of the device was blank.
#[test]
fn a_release_that_ended_while_the_area_was_blanked_is_repeated() {
    need!("an area on a device", missing());
    let adopted = OnDevice::new("half_blank");
    adopted.goes();
    adopted.zero(4096, MIB - 4096);
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
    let tools = ["losetup", "blockdev", "mkfs.ext4"];
    let missing = host::root().or_else(|| host::programs(&tools));
    need!("an area on a device", missing.or_else(|| host::loop_mounts("ext4")));
    let adopted = OnDevice::new("others");
    let device = adopted.device.device();
    adopted.goes();
    adopted.zero(0, MIB);
    adopted.zero(15 * MIB, MIB);
    run(["mkfs.ext4", "-q", "-F", device]);
    let kept = fs::read(device).unwrap();
    let said = adopted.release();
    assert!(said.contains("note: ") && said.contains("stays as it is"), "{said}");
    assert!(said.contains("an ext2/3/4 file system"), "{said}");
    assert!(fs::read(device).unwrap() == kept, "not a byte of it");
    drop(adopted);

    // The area of another image, of the same name and size.
    let adopted = OnDevice::new("others_area");
    let device = adopted.device.device();
    adopted.goes();
    adopted.zero(0, MIB);
    adopted.zero(15 * MIB, MIB);
    let other = adopted.system.path("other");
    fs::create_dir(&other).unwrap();
    File::create_new(other.join("disk.img")).unwrap().set_len(64 * MIB).unwrap();
    let other = other.join("disk.img");
    let mut format = seekless();
    host::succeeds(format.args(["volume", "format", "--at", device]).arg(other));
    let kept = fs::read(device).unwrap();
    let said = adopted.release();
    assert!(said.contains("stays as it is") && said.contains("an area"), "{said}");
    assert!(fs::read(device).unwrap() == kept, "not a byte of it");
}
