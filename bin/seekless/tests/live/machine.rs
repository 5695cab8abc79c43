//! The package on a whole machine: a Debian with a kernel that has ublk, under its own systemd, by
//! software emulation. A disk is adopted, written while its server is killed, stopped, restarted,
//! powered off and released. The test is of the long form. It needs the unpacked package of a Debian
//! kernel in SEEKLESS_GUEST_KERNEL; `.ci/run --long` fetches one.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::debian::{Debian, in_order, package};
use crate::host;
use crate::need;

/// The steps of guest/person.sh.
const STEPS: &str = "installed to_the_byte adopted outlives_kills waits_for_a_reader \
    stands stops_in_order restarts tries_again restarts_in_use restarts_under_a_container \
    goes_on_in_use \
    released clean_outside";

fn missing() -> Option<String> {
    let kernel = std::env::var_os("SEEKLESS_GUEST_KERNEL");
    let kernel = kernel.is_none_or(|k| !Path::new(&k).join("boot").is_dir());
    host::lacks("long root debootstrap qemu-system-x86_64 busybox cpio chroot mke2fs e2fsck")
        .or_else(|| host::lacks("dpkg-deb cargo-deb"))
        .or_else(|| kernel.then(|| "no kernel in SEEKLESS_GUEST_KERNEL".to_owned()))
}

#[test]
fn a_machine_keeps_its_adopted_disk_over_kills_and_restarts() {
    need!("a whole machine", missing());
    let kernel = std::env::var_os("SEEKLESS_GUEST_KERNEL").unwrap();
    let (packages, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let package = package(packages.path(), "deb");
    let debian = match Debian::new() {
        Ok(debian) => debian,
        Err(why) => return eprintln!("SKIPPED a whole machine: {why}"),
    };
    fs::copy(&package, debian.tree().join("opt/seekless.deb")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/machine.sh");
    let output = Command::new("bash")
        .arg(script)
        .args([debian.tree().as_path(), Path::new(&kernel), scratch.path()])
        .output()
        .unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    for colour in ["\x1b[0m", "\x1b[0;1;39m", "\r"] {
        said = said.replace(colour, "");
    }
    let wrong = String::from_utf8_lossy(&output.stderr);
    if !said.contains("guest: first start") {
        return eprintln!("SKIPPED a whole machine: the guest does not boot\n{wrong}");
    }
    eprintln!("{said}");
    assert!(output.status.success() && !said.contains("guest: FAILED"), "{wrong}");
    for step in STEPS.split(' ') {
        assert!(said.contains(&format!("guest: ok {step}\n")), "{step}: {wrong}");
    }
    // A restart and a power-off unmount the disk before its server ends.
    for (from, to) in [("# systemctl reboot", "second start"), ("# systemctl poweroff", "third")] {
        let end = said.split_once(from).and_then(|(_, rest)| rest.split_once(to)).unwrap().0;
        in_order(end, &["Unmounted srv-data.mount", "Stopped seekless-ublk@vdb"]);
        assert!(!end.contains("Failed unmounting") && !end.contains("I/O error"), "{end}");
    }
}
