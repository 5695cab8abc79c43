//! What an administrator does to a disk that was in use: replicas under an ext4 that is nearly full
//! and does not reach to the end of its disk, trimmed while replicas are written, grown while they
//! stand, and killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::host::{self, Loop, Mount, Numbers, Server, run, run_line, seekless};
use crate::need;
use crate::replicas::ours;

const MIB: u64 = 1 << 20;
/// The disk, and the file system at its beginning.
const DISK: u64 = 160 * MIB;
const SYSTEM: u64 = 112 * MIB;

/// Files that a file system should have, by number: length and seed.
struct Files(BTreeMap<u64, (usize, u64)>);

impl Files {
    fn create(&mut self, root: &Path, len: usize) {
        let number = self.0.keys().next_back().map_or(0, |n| n + 1);
        fs::write(root.join(format!("f{number}")), Numbers::new(number).bytes(len)).unwrap();
        self.0.insert(number, (len, number));
    }

    fn delete(&mut self, root: &Path, which: impl Fn(u64) -> bool) {
        self.0.retain(|&number, _| {
            let goes = which(number);
            if goes {
                fs::remove_file(root.join(format!("f{number}"))).unwrap();
            }
            !goes
        });
    }

    fn check(&self, root: &Path, when: &str) {
        for (number, &(len, seed)) in &self.0 {
            let found = fs::read(root.join(format!("f{number}"))).unwrap();
            assert!(found == Numbers::new(seed).bytes(len), "{when}: file {number} is another");
        }
    }
}

#[test]
fn an_ext4_in_use_is_adopted_trimmed_grown_and_killed() {
    need!("ext4", "losetup mkfs.ext4 e2fsck fstrim resize2fs timeout fuse root ext4");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, area, volume, root) =
        (path("disk.img"), path("disk.area"), path("volume"), path("root"));
    fs::create_dir(&root).unwrap();
    let fstrim = format!("fstrim {}", root.display());
    let bare = File::create_new(&image).unwrap();
    bare.set_len(DISK).unwrap();
    // Behind the file system stands something else, of which it knows nothing.
    let behind = Numbers::new(77).bytes((DISK - SYSTEM) as usize);
    bare.write_all_at(&behind, SYSTEM).unwrap();
    let name = image.to_str().unwrap();
    run_line(&format!("mkfs.ext4 -q -F -m0 -b4096 {name} {}k", SYSTEM >> 10));
    let mut files = Files(BTreeMap::new());
    let device = Loop::attach(&image, &[]);
    let mount = Mount::new(device.device(), &root, "noatime");
    let left = || {
        let s = rustix::fs::statvfs(&root).unwrap();
        s.f_bavail * s.f_frsize
    };
    while left() > 6 * MIB {
        files.create(&root, 600_000);
    }
    mount.unmount();
    device.detach();

    let beside = area.to_str().unwrap();
    let format = format!("volume format {name} --at {beside} --replicas 24MiB --free-from ext");
    ours(&host::words(&format));
    let state = |rest: &[&str]| {
        host::json(seekless().args(["volume", "status", name, "--json"]).args(rest))
    };
    let free = |state: &Value| state["replicas"]["free_bytes"].as_u64().unwrap();
    let left_free = free(&state(&["--area", beside]));
    assert!((4 * MIB..8 * MIB).contains(&left_free), "{left_free}: not what lies behind it");

    let start = || {
        // The rule that spends most.
        let args = format!("--area {beside} --policy fs2 --learn-every 200ms --cache 1MiB");
        Server::line(dir.path(), &image, Some(&volume), &args)
    };
    let attach = || Loop::attach(&volume, &["--direct-io=on"]);
    let mut server = start();
    let mut device = attach();
    let mut mount = Mount::new(device.device(), &root, "noatime");
    files.check(&root, "adopted");
    // Too little is free for any replica, and it says so.
    let file = |number: u64| root.join(format!("f{number}")).to_str().unwrap().to_owned();
    let near = file(0);
    let replicate = ["volume", "replicate", name, "--file", &file(3), "--near", &near];
    host::refused(seekless().args(replicate), &["less than 10%"]);

    // Every second file goes; trimmed while replicas of the others are written, which change
    // meanwhile.
    let half = *files.0.keys().next_back().unwrap() / 2 * 2;
    files.delete(&root, |number| number % 2 == 1);
    run_line(&fstrim);
    for turn in 0..4u64 {
        let mut command = seekless();
        command.args(["volume", "replicate", name, "--near", &near]);
        for number in files.0.keys().filter(|&n| n % 8 == 2 * turn) {
            command.args(["--file", &file(*number)]);
        }
        let mut asked = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..if host::is_long() { 6 } else { 3 } {
            run_line(&fstrim);
            files.create(&root, 150_000);
        }
        files.delete(&root, |number| number > half && number % 3 == turn % 3);
        asked.wait().unwrap();
    }
    mount.unmount();
    mount = Mount::new(device.device(), &root, "noatime");
    files.check(&root, "trimmed");
    // It knows of what lies behind no more than before.
    let mut found = vec![0; behind.len()];
    File::open(device.device()).unwrap().read_exact_at(&mut found, SYSTEM).unwrap();
    assert!(found == behind, "what lies behind the file system is another");

    // Grown over it.
    mount.unmount();
    run(["e2fsck", "-fp", device.device()]);
    run(["resize2fs", device.device()]);
    mount = Mount::new(device.device(), &root, "noatime");
    run_line(&fstrim);
    assert!(free(&state(&[])) > DISK - SYSTEM, "what it grew by is free: {:#}", state(&[]));
    for _ in 0..60 {
        files.create(&root, 500_000);
    }
    run_line(&format!("sync -f {}", root.display()));
    let files_of_two = format!("--file {} --file {}", file(0), file(2));
    ours(&host::words(&format!("volume replicate {name} --near 120MiB {files_of_two}")));

    // Killed, and again before anything is proven.
    for kill in 0..3 {
        server.kill();
        drop(mount);
        drop(device);
        drop(server);
        assert_eq!(state(&["--area", beside])["guarded"], true, "the bare disk could be mounted");
        server = start();
        device = attach();
        mount = Mount::new(device.device(), &root, "noatime");
        if kill == 1 {
            files.check(&root, "killed twice");
        }
    }
    host::until("no byte is in doubt", 20, || state(&[])["in_doubt_bytes"] == 0);
    mount.unmount();
    mount = Mount::new(device.device(), &root, "noatime");
    files.check(&root, "killed and proven");
    mount.unmount();
    run(["e2fsck", "-fn", device.device()]);
    device.detach();
    server.stop();
    ours(&["volume", "detach", name, "--area", beside]);
    run(["e2fsck", "-fn", name]);
    let device = Loop::attach(&image, &[]);
    let mount = Mount::new(device.device(), &root, "noatime");
    files.check(&root, "at home, without us");
    mount.unmount();
}
