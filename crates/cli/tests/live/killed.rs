//! File systems on a volume whose server is killed in the middle of writes and moves, again and again: the next
//! one recovers the area, the file system its journal, and every file that was made durable is whole. The page
//! cache of the host outlives a server, so this is no power cut; those the simulator enumerates.
//! SEEKLESS_KILLS=50 makes a long run of it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::process::Signal;

use crate::host::{self, Loop, Mount, Numbers, Server, run, seekless};
use crate::need;

struct Kind {
    size: u64,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const EXT4: Kind = Kind { size: 96 << 20, make: &["mkfs.ext4", "-q"], check: &["e2fsck", "-fn"] };
const XFS: Kind = Kind { size: 320 << 20, make: &["mkfs.xfs", "-q"], check: &["xfs_repair", "-n"] };

#[test]
fn ext4_survives_kills_with_writes_absorbed() {
    need!("ext4", host::programs(&["losetup", "mkfs.ext4", "e2fsck", "timeout"]));
    need!("ext4", host::fuse().or_else(host::root).or_else(|| host::loop_mounts("ext4")));
    survives(&EXT4, "writeback");
}

#[test]
fn ext4_survives_kills_with_writes_passed_on() {
    need!("ext4", host::programs(&["losetup", "mkfs.ext4", "e2fsck", "timeout"]));
    need!("ext4", host::fuse().or_else(host::root).or_else(|| host::loop_mounts("ext4")));
    survives(&EXT4, "writethrough");
}

#[test]
fn xfs_survives_kills_with_writes_absorbed() {
    need!("xfs", host::programs(&["losetup", "mkfs.xfs", "xfs_repair", "timeout"]));
    need!("xfs", host::fuse().or_else(host::root).or_else(|| host::loop_mounts("xfs")));
    survives(&XFS, "writeback");
}

fn kills() -> u64 {
    let asked = std::env::var("SEEKLESS_KILLS").ok().map(|n| n.parse().unwrap());
    asked.unwrap_or(3)
}

fn with<'a>(command: &[&'a str], target: &'a str) -> Vec<&'a str> {
    command.iter().copied().chain([target]).collect()
}

/// What a file of this number holds.
fn content(number: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(number + 1);
    let len = 1 + numbers.below(60_000) as usize;
    numbers.bytes(len)
}

/// Writes files, each made durable together with its name, until that fails; tells of each that succeeded.
fn write_files(root: &Path, first: u64, durable: &Sender<u64>) {
    for number in first.. {
        let write = || -> std::io::Result<()> {
            let mut file = File::create(root.join("new"))?;
            file.write_all(&content(number))?;
            file.sync_all()?;
            fs::rename(root.join("new"), root.join(number.to_string()))?;
            File::open(root)?.sync_all()
        };
        if write().is_err() || durable.send(number).is_err() {
            return;
        }
    }
}

fn survives(kind: &Kind, mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, volume, root) = (path("disk.img"), path("volume"), path("root"));
    fs::create_dir(&root).unwrap();
    File::create(&image).unwrap().set_len(kind.size).unwrap();
    let area = path("disk.area");
    let format = seekless()
        .arg("format")
        .arg(&image)
        .arg("--at")
        .arg(&area)
        .args(["--optimized", "24MiB", "--unguarded", "--mode", mode])
        .output()
        .unwrap();
    assert!(format.status.success(), "{}", String::from_utf8_lossy(&format.stderr));
    let start = || {
        let args =
            ["--area", area.to_str().unwrap(), "--learn-every", "200ms", "--planning", "anew"];
        let more = ["--background-rate", "30MiB/s", "--cache", "1MiB"];
        Server::start(dir.path(), &image, Some(&volume), &[&args[..], &more].concat())
    };
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut numbers = Numbers::new(seed);
    let mut server = start();
    let mut device = Loop::attach(&volume, &["--direct-io=on"]);
    run(with(kind.make, device.device()));
    let mut last = 0;
    for kill in 0..kills() {
        let mount = Mount::new(device.device(), &root, "noatime");
        let (durable, told) = channel();
        let writer = {
            let root = root.clone();
            std::thread::spawn(move || write_files(&root, last, &durable))
        };
        for _ in 0..1 + numbers.below(30) {
            last = told.recv_timeout(Duration::from_secs(30)).unwrap() + 1;
        }
        server.signal(Signal::KILL);
        server.wait(Duration::from_secs(5)).unwrap();
        writer.join().unwrap();
        // What it was told between the last look and the kill counts too.
        last = told.try_iter().last().map_or(last, |n| n + 1);
        drop(mount);
        drop(device);
        drop(server);

        server = start();
        device = Loop::attach(&volume, &["--direct-io=on"]);
        // Recovers the journal; read through the volume, which is what it learns from.
        let mount = Mount::new(device.device(), &root, "noatime");
        for number in 0..last {
            let found = fs::read(root.join(number.to_string()));
            let found =
                found.unwrap_or_else(|e| panic!("kill {kill}: file {number} of {last}: {e}"));
            assert!(found == content(number), "kill {kill}: file {number} of {last} is wrong");
        }
        mount.unmount();
        run(with(kind.check, device.device()));
    }
    device.detach();
    server.stop();
    // Everything home: the bare disk is a whole file system.
    let detach = seekless().arg("detach").arg(&image).arg("--area").arg(&area).output().unwrap();
    assert!(detach.status.success(), "{}", String::from_utf8_lossy(&detach.stderr));
    let device = Loop::attach(&image, &["-r"]);
    run(with(kind.check, device.device()));
    let mount = Mount::new(device.device(), &root, "ro");
    for number in 0..last {
        assert!(fs::read(root.join(number.to_string())).unwrap() == content(number), "{number}");
    }
    mount.unmount();
    eprintln!("{mode}: {last} files survived {} kills", kills());
}
