//! File systems on a loop device on the served file, in use while the server learns and moves data.

use std::path::Path;

use crate::files::Files;
use crate::host::{EXT4, Kind, Loop, Mount, Numbers, Server, XFS, rounds, run, with};
use crate::need;
use crate::tests;

tests! {
    fn ext4_lives_on_a_volume_that_is_re_laid_under_it() { lives(&EXT4); }
    fn xfs_lives_on_a_volume_that_is_re_laid_under_it() { lives(&XFS); }
}

fn lives(kind: &Kind) {
    need!("a volume under a file system", kind.missing(&[]));
    let dir = tempfile::tempdir().unwrap();
    let (image, file, root) =
        (dir.path().join("disk.img"), dir.path().join("volume"), dir.path().join("root"));
    std::fs::create_dir(&root).unwrap();
    let sizes = format!("--size {} --optimized 48MiB --cache 2MiB", kind.size);
    let more = "--learn-every 300ms --policy borg:planning=anew --background-rate 30MiB/s";
    let server = Server::line(dir.path(), &image, Some(&file), &format!("{sizes} {more}"));
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
    for round in 0..rounds("SEEKLESS_ROUNDS", 4, 6) as usize {
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
