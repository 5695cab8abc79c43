//! `seekless watch` beside a disk that is pulled out while the daemon reads ahead of a job: the daemon
//! goes on, and holds neither the mount nor the disk. The disk is a loop device over the file of an
//! emulated disk, which is killed: from then on, each of its requests fails.

use std::fs;
use std::path::Path;

use crate::host::{self, Loop, attempt};
use crate::need;
use crate::tests;
use crate::watched::{READ_ALL, Slow, cold, missing, shell};

/// What must happen in time, also on a busy host.
fn until(what: &str, done: impl FnMut() -> bool) {
    host::until(what, 30, done);
}

/// Files that a process has open, below this path or on this device.
fn opened(process: u32, paths: &[&Path]) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let targets = links.filter_map(|l| fs::read_link(l.path()).ok());
    let held = targets.filter(|t| paths.iter().any(|p| t.starts_with(p)));
    held.map(|t| t.display().to_string()).collect()
}

fn pulled_out(kind: &str) {
    let (mut slow, watch) = Slow::watched(kind, &[]);
    let (state, point) = (slow.dir().join("state"), slow.point());
    cold(&slow, &watch, READ_ALL);
    let mount = slow.mount();
    watch.remembered();
    let fetched = || watch.filesystem()["totals"]["fetched"].as_u64().unwrap_or_default();
    let before = fetched();
    let job = shell(&point, READ_ALL);
    until("it reads ahead", || fetched() > before + 20);
    let mut server = slow.server.take().unwrap();
    server.kill();
    // The job ends with errors, or with what was in memory.
    let _ = job.wait_with_output().unwrap();
    let umount = ["umount".as_ref(), point.as_os_str()];
    until("umount is refused", || attempt(umount).status.success());
    std::mem::forget(mount);
    until("the daemon sees that the mount is gone", || watch.filesystem().is_null());
    let device = slow.device.take().unwrap();
    let path = device.device().to_owned();
    until("the daemon holds the disk", || {
        let held = opened(watch.child.id(), &[path.as_ref(), &point]);
        held.is_empty()
    });
    device.detach();
    let number = path.trim_start_matches("/dev/");
    let used = format!("/sys/block/{number}/loop/backing_file");
    let backing = || fs::read_to_string(&used).unwrap_or_default();
    until("the disk is still in use", || !backing().starts_with(slow.dir().to_str().unwrap()));
    // What it learned before is saved, and it ends in order.
    let said = watch.stop();
    assert!(said.is_empty(), "{said:?}");
    let jobs = fs::read_dir(&state).unwrap().flatten();
    assert!(jobs.into_iter().any(|f| f.path().extension().is_some_and(|e| e == "jobs")));
}

tests! {
    fn a_disk_of_ext4_that_is_pulled_out_is_let_go() {
        need!("watch: ext4 pulled out", missing("ext4"));
        pulled_out("ext4");
    }
    fn a_disk_of_xfs_that_is_pulled_out_is_let_go() {
        need!("watch: xfs pulled out", host::long().or_else(|| missing("xfs")));
        pulled_out("xfs");
    }
    fn a_disk_of_btrfs_that_is_pulled_out_is_let_go() {
        need!("watch: btrfs pulled out", host::long().or_else(|| missing("btrfs")));
        pulled_out("btrfs");
    }
}

#[test]
fn what_was_learned_of_an_xfs_is_known_when_its_device_has_another_number() {
    need!("watch: xfs on another device", missing("xfs"));
    let (mut slow, watch) = Slow::watched("xfs", &[]);
    cold(&slow, &watch, "du -s .");
    // The old device keeps its number until the end.
    let before = slow.device.take().unwrap();
    let device = Loop::attach(&slow.dir().join("volume"), &["--direct-io=on"]);
    assert!(device.device() != before.device());
    slow.device = Some(device);
    let mount = slow.mount();
    watch.remembered();
    let said = watch.stop();
    assert!(said.is_empty(), "{said:?}");
    mount.unmount();
    before.detach();
}

/// With a kernel that has control groups of version 2, and with a disk whose driver takes it away.
#[test]
fn a_group_and_a_lost_disk_are_borne_in_a_guest() {
    let steps = ["start", "learns", "group", "pulled_out", "ends"];
    crate::ublk::in_guest("watch in a guest", "watch.sh", &steps);
}
