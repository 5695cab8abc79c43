//! `seekless serve --ublk`, in a guest whose kernel has the driver: this host's may lack it. The
//! guest is emulated, so the test is of the long form. It needs the unpacked package of a Debian
//! kernel in SEEKLESS_GUEST_KERNEL; `.ci/run --long` fetches one.

use std::path::Path;
use std::process::Command;

use crate::PROGRAM;
use crate::host;

/// The steps of guest/steps.sh.
const STEPS: &str = "start limits verify zeroes ext4 xfs refuses_to_end ends \
    survives_kills write_back_gives_errors";

fn missing() -> Option<String> {
    let kernel = std::env::var_os("SEEKLESS_GUEST_KERNEL");
    let kernel = kernel.is_none_or(|k| !Path::new(&k).join("boot").is_dir());
    host::lacks("long qemu-system-x86_64 busybox cpio fio mkfs.ext4 mkfs.xfs ldd")
        .or_else(|| kernel.then(|| "no kernel in SEEKLESS_GUEST_KERNEL".to_owned()))
}

/// Runs a script of steps in the guest: each step must be done.
pub(crate) fn in_guest(what: &str, script: &str, steps: &[&str]) {
    if let Some(missing) = missing() {
        return eprintln!("SKIPPED {what}: {missing}");
    }
    let kernel = std::env::var_os("SEEKLESS_GUEST_KERNEL").unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/run.sh");
    let args = [run.as_os_str(), PROGRAM.as_ref(), &kernel, scratch.path().as_os_str()];
    let output = Command::new("bash").args(args).arg(script).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}");
    if !said.contains("guest: begin") {
        return eprintln!("SKIPPED {what}: the guest does not boot\n{wrong}");
    }
    for step in steps {
        assert!(said.contains(&format!("guest: ok {step}")), "{step}: {said}\n{wrong}");
    }
    assert!(!said.contains("guest: FAILED"), "{said}");
}

#[test]
fn a_block_device_outlives_its_server_and_is_a_disk_to_everybody() {
    in_guest("a block device of the kernel", "steps.sh", &host::words(STEPS));
}
