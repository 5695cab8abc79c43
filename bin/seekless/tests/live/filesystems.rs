//! File systems on a loop device on the served file, in use while the server learns and moves data.

use std::path::Path;

use crate::files::Files;
use crate::host::{self, Loop, Mount, Numbers, Server, run, with};
use crate::need;

/// A file system: commands to make and check it.
struct Kind {
    size: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
    check_file: &'static [&'static str],
}

#[test]
fn ext4_lives_on_a_volume_that_is_re_laid_under_it() {
    need!("ext4", host::programs(&["losetup", "mkfs.ext4", "e2fsck", "timeout"]));
    need!("ext4", host::fuse().or_else(host::root).or_else(|| host::loop_mounts("ext4")));
    lives(&Kind {
        size: "160MiB",
        make: &["mkfs.ext4", "-q"],
        check: &["e2fsck", "-fn"],
        check_file: &["e2fsck", "-fn"],
    });
}

#[test]
fn xfs_lives_on_a_volume_that_is_re_laid_under_it() {
    need!("xfs", host::programs(&["losetup", "mkfs.xfs", "xfs_repair", "timeout"]));
    need!("xfs", host::fuse().or_else(host::root).or_else(|| host::loop_mounts("xfs")));
    lives(&Kind {
        size: "320MiB",
        make: &["mkfs.xfs", "-q", "-f"],
        check: &["xfs_repair", "-n"],
        check_file: &["xfs_repair", "-n", "-f"],
    });
}

fn lives(kind: &Kind) {
    let dir = tempfile::tempdir().unwrap();
    let (image, file, root) =
        (dir.path().join("disk.img"), dir.path().join("volume"), dir.path().join("root"));
    std::fs::create_dir(&root).unwrap();
    let args = [
        "--size",
        kind.size,
        "--optimized",
        "48MiB",
        "--learn-every",
        "300ms",
        "--policy",
        "borg:planning=anew",
    ];
    let more = ["--background-rate", "30MiB/s", "--cache", "2MiB"];
    let server = Server::start(dir.path(), &image, Some(&file), &[&args[..], &more].concat());

    let mut numbers = Numbers::new(7);
    let device = Loop::attach(&file, &["--direct-io=on"]);
    run(with(kind.make, device.device()));
    let mut files = Files::new(300, &mut numbers);
    let mount = Mount::new(device.device(), &root, "noatime");
    files.fill(mount.path());
    mount.unmount();
    use_it(&server, device.device(), &root, &mut files, &mut numbers);
    run(with(kind.check, device.device()));
    device.detach();

    let counts = server.stop();
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(count("moved_bytes") > 1 << 20, "hardly anything was copied: {counts:#}");
    assert!(count("copy_reads") > 0, "copies were made and not read from: {counts:#}");
    assert_eq!(count("plans_refused"), 0);

    // The backing alone holds everything: no copy was ever the only one.
    run(with(kind.check_file, image.to_str().unwrap()));
    let device = Loop::attach(&image, &["-r"]);
    let mount = Mount::new(device.device(), &root, "ro");
    files.check(mount.path());
    mount.unmount();
}

/// Reads all files again and again from a cold page cache, and changes some between.
fn use_it(server: &Server, device: &str, root: &Path, files: &mut Files, numbers: &mut Numbers) {
    for round in 0..6 {
        let mount = Mount::new(device, root, "noatime");
        files.check(mount.path());
        if round % 2 == 0 {
            // From here on there are copies of the files that are written next.
            server.learn();
        }
        for i in (round..files.count()).step_by(5) {
            files.overwrite(mount.path(), i);
        }
        for i in (round..files.count()).step_by(11) {
            files.replace(mount.path(), i, numbers);
        }
        mount.unmount();
    }
    let mount = Mount::new(device, root, "noatime");
    files.check(mount.path());
    mount.unmount();
}
