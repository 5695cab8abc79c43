//! What an earlier seekless made, on the command line of this one: `volume check` of areas (those
//! of seekless-serve's tests), and a directory with its group store (those of seekless-store's),
//! checked, mounted, and brought home.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::grouped::Mounted;
use crate::host::{Loop, Mount, seekless};
use crate::need;
use crate::packed::{flip, unpack};
use crate::tests;

const PAGE: u64 = 4096;
/// What the file `b3` holds, over and over.
const LINE: &[u8] = b"b3 1\n";

fn manifest(dir: &str, name: &str) -> (PathBuf, Value) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(dir).join("tests/fixtures");
    let said = fs::read(dir.join(format!("{name}.json"))).unwrap();
    (dir, serde_json::from_slice(&said).unwrap())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Areas that an earlier seekless made; those with a 3 in format 3.
const AREAS: [&str; 3] = [
    "writethrough-clean writethrough-killed writeback-clean writeback-killed",
    "writeback-inside-killed replicas-clean replicas-killed 3-writethrough-killed",
    "3-writeback-clean 3-writeback-killed 3-trail-killed 3-replicas-clean 3-replicas-killed",
];

#[test]
fn check_finds_nothing_in_areas_of_an_earlier_seekless_but_what_was_damaged() {
    for name in AREAS.iter().flat_map(|names| names.split(' ')) {
        let (from, said) = manifest("volume/serve", name);
        let dir = tempfile::tempdir().unwrap();
        let (home, area) = (dir.path().join("home.img"), dir.path().join("home.area"));
        let beside = !said["area_bytes"].is_null();
        unpack(&from.join(format!("{name}.home.zst")), &said["home_bytes"], &home);
        if beside {
            unpack(&from.join(format!("{name}.area.zst")), &said["area_bytes"], &area);
        }
        let check = || {
            let mut command = seekless();
            command.args(["volume", "check"]).arg(&home).arg("--data");
            if beside {
                command.arg("--area").arg(&area);
            }
            let output = command.output().unwrap();
            (output.status.success(), text(&output))
        };
        let held = || (fs::read(&home).unwrap(), fs::read(&area).ok());
        let before = held();
        let (is_good, words) = check();
        assert!(is_good && words.starts_with("sound: "), "{name}: {words}");
        assert!(held() == before, "{name}: checking wrote something");
        // Damages it, or takes the damage back.
        let damage = |row: &Value| {
            for offset in row[2].as_array().unwrap() {
                let path = if row[1] == "area" { &area } else { &home };
                flip(path, offset.as_u64().unwrap());
            }
        };
        let rows = said["damage"].as_array().unwrap();
        for row in rows {
            damage(row);
            let ((is_good, words), what) = (check(), row[0].as_str().unwrap());
            // Where nothing is lost it may still be called harmless.
            let lost = row[3] != "nothing";
            assert_eq!(is_good, !lost, "{name}, {what}: {words}");
            // A header of version 3 stands twice: one half is enough, and nothing is said.
            let is_whole = name.starts_with('3') && what == "half a header of the log";
            assert_eq!(words.starts_with("sound: "), is_whole, "{name}, {what}: {words}");
            damage(row);
        }
        assert!(held() == before, "{name}: checking what is damaged wrote something");
        assert!(rows.len() >= 2, "{name}");
    }
}

fn content(name: &str, version: u64, size: usize) -> Vec<u8> {
    format!("{name} {version}\n").into_bytes().into_iter().cycle().take(size).collect()
}

/// A directory of a file system of its own, and its store.
struct Grouped {
    said: Value,
    from: PathBuf,
    name: &'static str,
    temp: TempDir,
}

impl Grouped {
    fn new(name: &'static str) -> Self {
        let (from, said) = manifest("files/store", name);
        let grouped = Self { said, from, name, temp: tempfile::tempdir().unwrap() };
        fs::create_dir(grouped.path("disk")).unwrap();
        fs::create_dir(grouped.path("point")).unwrap();
        for (part, to) in [("home", "home.img"), ("store", "store")] {
            let packed = grouped.from.join(format!("{name}.{part}.zst"));
            unpack(&packed, &grouped.said[format!("{part}_bytes")], &grouped.path(to));
        }
        assert!(grouped.path("store").is_file());
        grouped
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Its disk, mounted.
    fn disk(&self) -> (Loop, Mount) {
        let device = Loop::attach(&self.path("home.img"), &[]);
        let mount = Mount::new(device.device(), &self.path("disk"), "noatime");
        (device, mount)
    }

    /// What a check says, which must end so.
    fn checked(&self, code: Option<i32>) -> String {
        let mut command = seekless();
        command.args(["files", "check"]).arg(self.path("disk/files"));
        let output = command.arg("--store").arg(self.path("store")).output().unwrap();
        assert_eq!(output.status.code(), code, "{}", text(&output));
        text(&output)
    }

    fn mount(&self) -> Mounted {
        Mounted::start(&self.path("disk/files"), &self.path("point"), &self.path("store"), &[])
    }

    /// Every file is there, with bytes of a version that it may have, and no other file.
    fn compare(&self, dir: &str, when: &str) {
        let files = self.said["files"].as_array().unwrap();
        for row in files {
            let (name, within) = (row[0].as_str().unwrap(), row[3].as_str().unwrap());
            let had = fs::read(self.path(dir).join(name)).unwrap();
            let size = row[1].as_u64().unwrap() as usize;
            let versions = row[2].as_array().unwrap();
            let fits = versions.iter().any(|v| had == content(within, v.as_u64().unwrap(), size));
            let begins = String::from_utf8_lossy(&had[..had.len().min(20)]);
            assert!(fits, "{}, {when}: {name} begins {begins:?}; {versions:?} allowed", self.name);
        }
        assert_eq!(fs::read_dir(self.path(dir)).unwrap().count(), files.len(), "{when}");
    }
}

fn is_mounted_as_it_was(name: &'static str) {
    let grouped = Grouped::new(name);
    let (device, disk) = grouped.disk();
    assert!(grouped.checked(Some(0)).contains("sound: "));

    // Damage first: the directory is not changed by looking at it.
    let bytes = fs::read(grouped.path("store")).unwrap();
    // Wherever that file begins, where it stood before too.
    let begins = |&at: &usize| bytes[at..].starts_with(LINE) && !bytes[..at].ends_with(LINE);
    for at in (0..bytes.len()).filter(begins) {
        flip(&grouped.path("store"), (at + LINE.len()) as u64);
    }
    assert!(grouped.checked(Some(2)).contains("damaged"));
    let mounted = grouped.mount();
    let failed = fs::read(grouped.path("point/b3")).unwrap_err();
    assert_ne!(failed.kind(), ErrorKind::NotFound, "{failed}");
    mounted.unmount(&[]);
    for superblock in [100, PAGE + 100] {
        flip(&grouped.path("store"), superblock);
    }
    grouped.checked(Some(2));
    drop(disk);
    drop(device);

    let grouped = Grouped::new(name);
    let (_device, disk) = grouped.disk();
    let mounted = grouped.mount();
    grouped.compare("point", "mounted");
    mounted.unmount(&[]);
    grouped.checked(Some(0));
    let mounted = grouped.mount();
    grouped.compare("point", "mounted again");
    mounted.unmount(&["--return"]);
    grouped.compare("disk/files", "brought home");
    disk.unmount();
}

tests! {
    fn a_directory_grouped_by_an_earlier_seekless_is_mounted_as_it_was() {
        need!("a grouped directory", "fuse root ext4 losetup umount timeout");
        is_mounted_as_it_was("groups-clean");
    }
    fn a_directory_whose_earlier_seekless_was_killed_is_mounted_as_it_was() {
        need!("a killed grouped directory", "fuse root ext4 losetup umount timeout");
        is_mounted_as_it_was("groups-killed");
    }
}
