//! Real block devices, which loop devices are to everyone but their maker: claimed, refused when in
//! use, found again, and a disk with a file system that nobody can mount while an area elsewhere
//! holds its newest data.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::host::{self, Kind, Loop, Mount, Server, XFS, attempt, run, seekless, with};
use crate::need;
use crate::place::{end_both, serve};
use crate::tests;

/// A file with a loop device on it.
fn disk(dir: &Path, name: &str, mib: u64, options: &[&str]) -> (PathBuf, Loop) {
    let path = dir.join(name);
    File::create(&path).unwrap().set_len(mib << 20).unwrap();
    let device = Loop::attach(&path, options);
    (path, device)
}

fn does(args: &[&str]) -> String {
    host::succeeds(seekless().args(args))
}

fn refused(args: &[&str], words: &[&str]) {
    host::refused(seekless().args(args), words);
}

fn status(args: &[&str]) -> Value {
    host::json(seekless().args(["volume", "status", "--json"]).args(args))
}

/// What blkid makes of a device, asked without its cache.
fn blkid(device: &str) -> String {
    let output = attempt(["blkid", "-p", "-o", "export", device]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Nothing takes it for a file system, whatever it is asked for.
fn cannot_be_mounted(device: &str, dir: &Path, kinds: &[&str]) {
    let found = blkid(device);
    assert!(!found.contains("TYPE="), "{found}");
    let kinds = kinds.iter().map(|kind| format!("-t {kind} -o ro"));
    for options in kinds.chain([String::new()]) {
        let line = format!("mount {options} {device} {}", dir.display());
        assert!(!attempt(host::words(&line)).status.success(), "it was mounted: {line}");
    }
}

/// A small disk with the pages of a large one.
const EXT4: Kind = Kind { size: 64 << 20, make: &["mkfs.ext4", "-q", "-b", "4096"], ..host::EXT4 };

tests! {
    fn an_ext4_disk_cannot_be_mounted_while_its_area_has_its_newest_data() {
        cannot_be_mounted_by_accident(&EXT4);
    }
    fn an_xfs_disk_cannot_be_mounted_while_its_area_has_its_newest_data() {
        cannot_be_mounted_by_accident(&XFS);
    }
}

fn cannot_be_mounted_by_accident(kind: &Kind) {
    need!("a guarded file system", kind.missing(&["blkid"]));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let root = path("root");
    fs::create_dir(&root).unwrap();
    let (_, bare) = disk(dir.path(), "disk.img", kind.size >> 20, &[]);
    let device = bare.device().to_owned();
    run(with(kind.make, &device));
    let mount = Mount::new(&device, &root, "noatime");
    fs::write(root.join("old"), vec![1; 100_000]).unwrap();
    // In use by the kernel: nobody else's.
    let area = path("disk.area").to_str().unwrap().to_owned();
    let format =
        ["volume", "format", &device, "--at", &area, "--optimized", "16MiB", "--mode", "writeback"];
    refused(&format, &["is mounted at", root.to_str().unwrap()]);
    mount.unmount();
    assert!(blkid(&device).contains(&format!("TYPE={}", kind.name)));
    does(&format);
    // Nothing absorbed, nothing guarded.
    assert!(blkid(&device).contains("TYPE="));

    let volume = path("volume");
    let args = ["--area", &area, "--policy", "vanilla"];
    let serve = || Server::start(dir.path(), Path::new(&device), Some(&volume), &args);
    let mut server = serve();
    cannot_be_mounted(&device, &root, &[kind.name]);
    let front = Loop::attach(&volume, &["--direct-io=on"]);
    let mount = Mount::new(front.device(), &root, "noatime");
    // What lies idle goes home by itself, and then there is nothing to be lost.
    let dirty = (0..50).any(|_| {
        fs::write(root.join("new"), vec![2; 300_000]).unwrap();
        run(["sync", "-f", root.to_str().unwrap()]);
        let stands = status(&[&device]);
        assert_eq!(stands["guarded"], true);
        stands["dirty_bytes"].as_u64().unwrap() > 0
    });
    assert!(dirty, "nothing was absorbed");
    server.kill();
    drop((mount, front, server));

    let volume_args = [device.as_str(), "--area", &area];
    cannot_be_mounted(&device, &root, &[kind.name]);
    assert_eq!(status(&volume_args)["guarded"], true);
    refused(&["volume", "format", &device], &["seekless", "nothing was changed"]);
    refused(&["serve", &device, "--nbd", "unix:x.sock"], &["another area", &area]);

    // Another kill while it is being recovered, and a plain stop: it stays so.
    let server = serve();
    let front = Loop::attach(&volume, &["--direct-io=on"]);
    let mount = Mount::new(front.device(), &root, "noatime");
    assert_eq!(fs::read(root.join("new")).unwrap(), [2; 300_000]);
    mount.unmount();
    run(with(kind.check, front.device()));
    front.detach();
    server.stop();
    cannot_be_mounted(&device, &root, &[kind.name]);

    does(&[&["volume", "detach"], &volume_args[..]].concat());
    assert!(blkid(&device).contains(&format!("TYPE={}", kind.name)));
    run(with(kind.check, &device));
    let mount = Mount::new(&device, &root, "ro");
    assert_eq!(fs::read(root.join("old")).unwrap(), [1; 100_000]);
    assert_eq!(fs::read(root.join("new")).unwrap(), [2; 300_000]);
    mount.unmount();
}

/// A disk with partitions, whose kernel knows them.
#[test]
fn partitions_of_a_guarded_disk_are_gone() {
    need!("partitions", "losetup mkfs.ext4 blkid timeout root ext4");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    // One partition from the first MiB on, in a table of the old kind.
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&(62 * 2048u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    file.write_all_at(&table, 0).unwrap();
    let whole = Loop::attach(&path, &["-P"]);
    let device = whole.device().to_owned();
    let part = format!("{device}p1");
    let node = Path::new("/sys/class/block").join(Path::new(&part).file_name().unwrap());
    need!("partitions", (!node.exists()).then(|| "loop devices have no partitions".to_owned()));
    let area = dir.path().join("disk.area").to_str().unwrap().to_owned();
    does(&["volume", "format", &device, "--at", &area, "--optimized", "8MiB"]);
    does(&["volume", "mode", "writeback", &device, "--area", &area]);
    assert!(!node.exists(), "the kernel still knows the partition");
    assert!(!blkid(&device).contains("PTTYPE"), "{}", blkid(&device));
    does(&["volume", "detach", &device, "--area", &area]);
    assert!(node.exists(), "the partition has not come back");
    assert!(blkid(&device).contains("PTTYPE=dos"));
}

#[test]
fn what_has_its_mark_near_either_end_is_hidden() {
    need!("marks", "losetup blkid timeout root");
    let dir = tempfile::tempdir().unwrap();
    let (_, device) = disk(dir.path(), "disk.img", 64, &[]);
    let device = device.device();
    let end = 64 << 20;
    let area = dir.path().join("disk.area").to_str().unwrap().to_owned();
    does(&["volume", "format", device, "--at", &area, "--optimized", "8MiB"]);
    // Swap, LVM's label, and RAID's old superblock 64 KiB before the end, all at once, each found
    // by itself.
    let mut swap = vec![0; 4096];
    swap[1024] = 1;
    swap[1028..1032].copy_from_slice(&1000u32.to_le_bytes());
    swap[4086..].copy_from_slice(b"SWAPSPACE2");
    let mut lvm = vec![0; 512];
    lvm[..8].copy_from_slice(b"LABELONE");
    lvm[8] = 1;
    lvm[20] = 32;
    lvm[24..32].copy_from_slice(b"LVM2 001");
    let sum = lvm_sum(&lvm[20..]);
    lvm[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut raid = vec![0; 4096];
    raid[..4].copy_from_slice(&0xa92b_4efcu32.to_le_bytes());
    raid[8..12].copy_from_slice(&90u32.to_le_bytes());
    let places = [
        (0, swap, "swap"),
        (512, lvm, "LVM2_member"),
        (end - (64 << 10), raid, "linux_raid_member"),
    ];
    // To the device, not to its file: it may have kept what it read, while somebody else has it
    // open.
    let put = |bytes: &[u8], at: u64| {
        let file = File::options().write(true).open(device).unwrap();
        file.write_all_at(bytes, at).unwrap();
        file.sync_all().unwrap();
    };
    for (at, bytes, name) in &places {
        put(bytes, *at);
        assert!(blkid(device).contains(&format!("TYPE={name}")), "{name}: {}", blkid(device));
        does(&["volume", "mode", "writeback", device, "--area", &area]);
        assert!(!blkid(device).contains("TYPE="), "{name}: {}", blkid(device));
        does(&["volume", "drain", device, "--area", &area]);
        assert!(blkid(device).contains(&format!("TYPE={name}")), "{name} has not come back");
        put(&vec![0; bytes.len()], *at);
    }
}

/// LVM's own sum over a label's sector from byte 20 on.
fn lvm_sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |sum: u32, b| {
        (0..8).fold(
            sum ^ u32::from(*b),
            |s, _| if s & 1 == 1 { s >> 1 ^ 0xedb8_8320 } else { s >> 1 },
        )
    })
}

#[test]
fn a_blank_device_holds_its_area_and_is_claimed_for_one() {
    need!("devices", "losetup mkfs.ext4 timeout root");
    for at in ["start", "middle", "end"] {
        let dir = tempfile::tempdir().unwrap();
        let (file, device) = disk(dir.path(), "disk.img", 64, &[]);
        let device = device.device();
        let area = format!("--at {at} --optimized 8MiB --mode writeback");
        does(&host::words(&format!("volume format {device} {area}")));
        let serve = || serve(dir.path(), Path::new(device), &["--policy", "vanilla"]);
        let (server, mut client) = serve();
        client.write(5 << 20, &[at.len() as u8; 8192]).unwrap();
        client.write_fua(0, &[1; 512]).unwrap();
        // The kernel keeps it for one.
        refused(&["serve", device, "--nbd", "unix:x.sock"], &["in use", device]);
        refused(&["volume", "format", device, "--force"], &["in use", device]);
        assert!(!attempt(["mkfs.ext4", "-q", "-F", device]).status.success(), "mkfs had it");
        end_both(server, client);
        does(&["volume", "check", device, "--data"]);
        assert_eq!(status(&[device])["mode"], "writeback");
        let (server, mut client) = serve();
        assert_eq!(client.read(5 << 20, 8192).unwrap(), [at.len() as u8; 8192]);
        end_both(server, client);
        does(&["volume", "detach", device]);
        // Shrunken.
        let whole = fs::read(&file).unwrap();
        File::options().write(true).open(&file).unwrap().set_len(40 << 20).unwrap();
        run(["losetup", "-c", device]);
        refused(&["serve", device, "--nbd", "unix:x.sock"], &["the device shrank"]);
        // Grown again, the volume keeps its size until it is told.
        let grown = File::options().write(true).open(&file).unwrap();
        grown.set_len(80 << 20).unwrap();
        grown.write_all_at(&whole[40 << 20..], 40 << 20).unwrap();
        run(["losetup", "-c", device]);
        run(["blockdev", "--flushbufs", device]);
        let before = status(&[device])["size_bytes"].as_u64().unwrap();
        does(&["volume", "resize", device]);
        assert_eq!(status(&[device])["size_bytes"], before + (16 << 20), "{at}");
    }
}

#[test]
fn a_disk_and_an_area_on_devices_belong_together() {
    need!("devices", "losetup timeout blockdev root");
    let dir = tempfile::tempdir().unwrap();
    let (home_file, home) = disk(dir.path(), "home.img", 64, &[]);
    let (area_file, area) = disk(dir.path(), "area.img", 16, &[]);
    let (_, other) = disk(dir.path(), "other.img", 64, &[]);
    File::options().write(true).open(&home_file).unwrap().write_all_at(&[7; 4096], 4096).unwrap();
    let (home, area, other) = (home.device(), area.device(), other.device());
    let format = ["volume", "format", home, "--at", area, "--optimized", "16MiB"];
    refused(&format, &["for a guard", "--optimized"]);
    does(&["volume", "format", home, "--at", area, "--mode", "writeback"]);
    let serve = |home, area| ["serve", home, "--area", area, "--nbd", "unix:x.sock"];
    let args = ["--area", area, "--policy", "vanilla"];
    let (server, mut client) = crate::place::serve(dir.path(), Path::new(home), &args);
    client.write(0, &[3; 4096]).unwrap();
    refused(&serve(home, area), &["in use", home]);
    refused(&serve(other, area), &["in use", area]);
    refused(&["volume", "format", other, "--at", area], &["in use", area]);
    end_both(server, client);
    // The wrong disk, of the same size; and the right one under another name is proven by nothing
    // but its guard.
    refused(&serve(other, area), &["was made for", other]);
    let moved = [&serve(other, area)[..], &["--moved"]].concat();
    refused(&moved, &["does not carry its guard"]);
    refused(&serve(area, home), &["is an area itself"]);
    refused(&["serve", area, "--nbd", "unix:x.sock"], &["is an area, made for"]);
    // The area's device shrank, and grew back.
    File::options().write(true).open(&area_file).unwrap().set_len(15 << 20).unwrap();
    run(["losetup", "-c", area]);
    refused(&serve(home, area), &["the device shrank"]);
    // While another program has the device open, the kernel may keep bytes behind its end.
    run(["blockdev", "--flushbufs", area]);
    File::options().write(true).open(&area_file).unwrap().set_len(16 << 20).unwrap();
    run(["losetup", "-c", area]);
    // What stood at its end is gone with it: the guard region's last pages, which the disk's bytes
    // do not make up for.
    refused(&serve(home, area), &[]);
}
