//! `seekless release` that is repeated, after a power cut, a kill or an error has ended it early.

use std::fs;

use crate::adopting::{MIB, System, missing, same, sparse};
use crate::host;
use crate::need;

/// The record outlives the area, so others may have the path of the area by then.
#[test]
fn a_repeated_release_leaves_an_area_of_others_at_its_path() {
    let system = System::new("again");
    let before = system.all();
    // Of the same name and size.
    fs::create_dir(system.path("other")).unwrap();
    sparse(system.path("other/disk.img"), 64);
    host::succeeds(&mut system.adopt(&["--area", "area"]));
    system.release_ends_early();
    let area = system.path("area");
    assert!(!area.exists());
    let name = format!("{}_other", system.name);
    let other = ["adopt", "other/disk.img", "--name", &name, "--area", "area"];
    host::succeeds(&mut system.command(&other));
    let kept = fs::read(&area).unwrap();
    let said = system.release();
    assert!(said.contains("stays as it is") && said.contains("holds an area"), "{said}");
    assert!(fs::read(&area).unwrap() == kept, "not a byte of it");
    host::succeeds(&mut system.command(&["release", &name]));
    // The first adoption has made it, and it was in use when this adoption ended.
    fs::remove_dir(system.path("root/etc/seekless")).unwrap();
    same(&before, &system.all(), "both released");
}

/// The first release ended before the last write that makes an area blank.
#[test]
fn a_repeated_release_removes_the_rest_of_its_own_area_alone() {
    const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";
    type Change = fn(&mut [u8]);
    let cases: [(Change, bool); 4] = [
        (
            |area| {
                let at = area.len() - MIB as usize;
                area[4096..MIB as usize].fill(0);
                area[at..].fill(0);
            },
            true,
        ),
        (|area| area[..4096].fill(0), false),
        // The marks of RAID 1.2 and 1.0: the first page is as it was.
        (
            |area| {
                area[4096..MIB as usize].fill(0);
                area[4096..4100].copy_from_slice(RAID);
            },
            false,
        ),
        (
            |area| {
                area[4096..MIB as usize].fill(0);
                let at = area.len() - 8192;
                area[at..at + 4].copy_from_slice(RAID);
            },
            false,
        ),
    ];
    for (number, (change, goes)) in cases.into_iter().enumerate() {
        let system = System::new(&format!("rest_{number}"));
        let before = system.all();
        let path = system.path("area");
        host::succeeds(&mut system.adopt(&["--area", "area"]));
        let mut area = fs::read(&path).unwrap();
        system.release_ends_early();
        assert!(!path.exists());
        change(&mut area);
        fs::write(&path, &area).unwrap();
        let said = system.release();
        if goes {
            assert_eq!(said, "", "{number}");
        } else {
            assert!(said.contains("stays as it is"), "{number}: {said}");
            assert!(fs::read(&path).unwrap() == area, "{number}: not a byte of it");
            fs::remove_file(&path).unwrap();
        }
        same(&before, &system.all(), "released");
    }
}

/// Nobody starts them again.
#[test]
fn a_release_names_the_services_that_stop_with_the_mount() {
    need!("adoption", missing());
    let system = System::new("needing").with_ext4().booted();
    let mnt = system.path("mnt");
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    host::succeeds(&mut system.adopt(&["--area", "area", "--mount", mnt.to_str().unwrap()]));
    let above = "local-fs.target data.service stopped.service\n\n";
    fs::write(system.path("state/above"), above).unwrap();
    fs::write(system.path("state/data.service"), "").unwrap();
    let said = system.release();
    let words = "mnt.mount is stopped, and with it what needs it: data.service\n";
    assert!(said.starts_with("note: ") && said.contains(words), "{said}");
}

/// A release failed behind the removal of the units: systemd still has them, and starts the server.
#[test]
fn a_repeated_release_stops_a_server_whose_units_are_gone() {
    need!("adoption", missing());
    let system = System::new("no_units").booted();
    fs::write(system.path("root/etc/fstab"), "# none").unwrap();
    let before = system.all();
    host::succeeds(&mut system.adopt(&["--area", "area"]));
    let unit = |kind: &str| format!("seekless-{kind}@{}.service", system.name);
    for kind in ["loop", "file"] {
        fs::remove_file(system.path("root/etc/systemd/system").join(unit(kind))).unwrap();
    }
    assert_eq!(host::status(&system.path("disk.img"), &[])["served"], true);
    let said = system.release();
    for kind in ["loop", "file"] {
        let waits = format!("note: waits until systemd has stopped {}", unit(kind));
        assert_eq!(said.matches(&waits).count(), 1, "{said}");
    }
    assert!(!system.path("state").join(unit("file")).exists(), "the server runs");
    same(&before, &system.all(), "released");
}
