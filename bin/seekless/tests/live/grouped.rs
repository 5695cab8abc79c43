//! `seekless files`: a directory mounted again, its files on their way between the two modules while they are used, both
//! modules without room, servers killed. What is seen through the mount is held against what was written, always.

mod full_disk;
mod power_cut;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::host::{self, Loop, Mount, Numbers, Running};
use crate::need;
use crate::tests;

const MARKER: &str = "trusted.seekless.group";

/// A directory mounted by `seekless files mount`. Dropping it takes the mount away, by force if need be.
pub(crate) struct Mounted {
    running: Running,
    point: PathBuf,
}

impl Mounted {
    pub(crate) fn start(dir: &Path, point: &Path, store: &Path, args: &[&str]) -> Self {
        let mut command = host::seekless();
        command.args(["files", "mount"]).arg(dir).arg(point).arg("--store").arg(store);
        command.args(args);
        let always = [["--idle", "none"], ["--every", "1000000000"], ["--create", "64MiB"]];
        command.args(always.into_iter().filter(|[option, _]| !args.contains(option)).flatten());
        let mounted = Self { running: Running::start(command), point: point.to_owned() };
        mounted.running.expect("mounted ");
        mounted
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.point.join(name)
    }

    fn verb(&self, args: &[&str]) -> String {
        let verb = ["files", args[0], text(&self.point)];
        host::run([&[crate::PROGRAM], &verb[..], &args[1..]].concat())
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.verb(&["status", "--json"])).unwrap()
    }

    fn number(&self, what: &str) -> u64 {
        self.state()[what].as_u64().unwrap()
    }

    /// Opens these files one after the other, over and over, as a program does that needs them all.
    fn read(&self, names: &[&str], rounds: usize) {
        for name in (0..rounds).flat_map(|_| names) {
            fs::read(self.path(name)).unwrap();
        }
    }

    /// The same, and shuffles.
    fn group(&self, names: &[&str]) {
        self.read(names, 6);
        self.verb(&["shuffle"]);
    }

    pub(crate) fn unmount(mut self, args: &[&str]) {
        self.verb(&[&["unmount"], args].concat());
        self.ends();
    }

    /// Its end, in order.
    fn ends(&mut self) {
        assert!(self.running.child.wait().unwrap().success());
        assert!(!host::is_mounted(&self.point));
    }

    fn kill(mut self) {
        self.running.kill();
        // The dead mount is the next one's to take away.
        self.point = PathBuf::new();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.point.as_os_str().is_empty() {
            let _ = Command::new("umount").arg("-l").arg(&self.point).output();
        }
    }
}

/// An ext4 that leaves nothing for later to do by itself.
const EXT4_AT_ONCE: &[&str] = &["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

struct Place {
    _temp: TempDir,
    dir: PathBuf,
    point: PathBuf,
    store: PathBuf,
}

fn place() -> Place {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let (dir, point, store) = (at("dir"), at("point"), at("store"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&point).unwrap();
    Place { _temp: temp, dir, point, store }
}

/// A place on a file system of its own, on a device of so many MiB that this command formats.
fn on_disk(make: &[&str], mib: u64, options: &str) -> (Place, Loop, Mount) {
    let mut place = place();
    let (image, disk) = (place.dir.with_extension("img"), place.dir.clone());
    File::create(&image).unwrap().set_len(mib << 20).unwrap();
    host::run(host::with(make, image.to_str().unwrap()));
    let device = Loop::attach(&image, &[]);
    let mounted_disk = Mount::new(device.device(), &disk, options);
    place.dir = disk.join("files");
    fs::create_dir(&place.dir).unwrap();
    (place, device, mounted_disk)
}

impl Place {
    fn mount(&self) -> Mounted {
        Mounted::start(&self.dir, &self.point, &self.store, &[])
    }

    /// Writes four files.
    fn fill(&self) {
        NAMES.iter().for_each(|n| fs::write(self.dir.join(n), n.repeat(1000)).unwrap());
    }

    /// Both modules agree.
    fn check(&self) -> String {
        let (dir, store) = (text(&self.dir), text(&self.store));
        host::run([crate::PROGRAM, "files", "check", dir, "--store", store])
    }
}

fn marker(path: &Path) -> bool {
    rustix::fs::getxattr(path, MARKER, &mut [0; 64]).is_ok()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Files with random bytes, in groups of a small store.
fn many(
    place: &Place,
    seed: u64,
    count: u32,
    len: usize,
) -> (Numbers, Vec<(String, Vec<u8>)>, Mounted) {
    let mut numbers = Numbers::new(seed);
    let files: Vec<(String, Vec<u8>)> =
        (0..count).map(|i| (format!("f{i}"), numbers.bytes(len))).collect();
    for (name, bytes) in &files {
        fs::write(place.dir.join(name), bytes).unwrap();
    }
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, &["--create", "6MiB"]);
    let names: Vec<&str> = files.iter().map(|(n, _)| n.as_str()).collect();
    mounted.group(&names);
    (numbers, files, mounted)
}

/// The files of a folder have these bytes.
fn are_in<'a>(dir: &Path, files: impl IntoIterator<Item = (&'a str, &'a Vec<u8>)>) {
    for (name, bytes) in files {
        assert_eq!(fs::read(dir.join(name)).unwrap(), *bytes, "{name}");
    }
}

/// Four files, in a group.
fn grouped(place: &Place) -> (Mounted, Vec<Vec<u8>>) {
    let mut numbers = Numbers::new(7);
    let contents: Vec<Vec<u8>> = [100, 4096, 65_536, 12_345].map(|len| numbers.bytes(len)).to_vec();
    for (name, bytes) in NAMES.iter().zip(&contents) {
        fs::write(place.dir.join(name), bytes).unwrap();
    }
    let mounted = place.mount();
    mounted.group(&NAMES);
    assert_eq!(mounted.number("grouped_files"), 4, "{}", mounted.verb(&["status"]));
    (mounted, contents)
}

#[test]
fn grouped_files_look_as_ever_and_come_home() {
    need!("grouped files", "fuse root umount timeout");
    let place = place();
    for (i, name) in NAMES.iter().enumerate() {
        fs::write(place.dir.join(name), b"to be replaced").unwrap();
        let path = place.dir.join(name);
        rustix::fs::setxattr(&path, "user.own", b"kept", XattrFlags::empty()).unwrap();
        rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o640 + i as u32)).unwrap();
    }
    let (mounted, contents) = grouped(&place);
    for (name, bytes) in NAMES.iter().zip(&contents) {
        let (path, own) = (mounted.path(name), place.dir.join(name));
        let (seen, there) = (path.metadata().unwrap(), own.metadata().unwrap());
        assert_eq!((there.len(), marker(&own)), (0, true), "{name}");
        assert_eq!(seen.len(), bytes.len() as u64);
        assert_eq!(seen.blocks(), bytes.len().div_ceil(512) as u64);
        assert_eq!((seen.mode(), seen.ino()), (there.mode(), there.ino()));
        assert_eq!(fs::read(&path).unwrap(), *bytes);
        // No client sees the marker, or can set it.
        let mut room = [0; 256];
        let get = rustix::fs::getxattr(&path, MARKER, &mut room);
        assert_eq!(get, Err(Errno::NODATA));
        let set = rustix::fs::setxattr(&path, MARKER, b"x", XattrFlags::empty());
        assert_eq!(set, Err(Errno::PERM));
        assert_eq!(rustix::fs::removexattr(&path, MARKER), Err(Errno::NODATA));
        let len = rustix::fs::listxattr(&path, &mut room[..]).unwrap();
        assert_eq!(&room[..len], b"user.own\0");
    }
    let times: Vec<_> = NAMES.map(|n| mounted.path(n).metadata().unwrap().mtime_nsec()).to_vec();
    mounted.unmount(&[]);
    assert!(place.check().contains("4 of them in groups"));
    // A second time, with what the store has.
    let mounted = place.mount();
    assert_eq!(mounted.number("grouped_files"), 4);
    are_in(&mounted.point, NAMES.into_iter().zip(&contents));
    mounted.unmount(&["--return"]);
    for ((name, bytes), time) in NAMES.iter().zip(&contents).zip(times) {
        let own = place.dir.join(name);
        assert_eq!(fs::read(&own).unwrap(), *bytes);
        assert!(!marker(&own));
        assert_eq!(own.metadata().unwrap().mtime_nsec(), time);
    }
    assert!(rustix::fs::getxattr(&place.dir, "trusted.seekless.store", &mut [0; 64]).is_err());
}

#[test]
fn a_directory_is_mounted_over_itself() {
    need!("over itself", "fuse root umount timeout");
    let place = place();
    place.fill();
    let mounted = Mounted::start(&place.dir, &place.dir, &place.store, &[]);
    mounted.group(&NAMES);
    assert_eq!(mounted.number("grouped_files"), 4);
    for name in NAMES {
        assert_eq!(fs::read_to_string(place.dir.join(name)).unwrap(), name.repeat(1000));
    }
    mounted.unmount(&[]);
    assert_eq!(place.dir.join("a").metadata().unwrap().len(), 0);
    let mounted = Mounted::start(&place.dir, &place.dir, &place.store, &[]);
    mounted.unmount(&["--return"]);
    assert_eq!(fs::read_to_string(place.dir.join("d")).unwrap(), "d".repeat(1000));
}

#[test]
fn a_grouped_file_is_written_cut_and_grown_where_it_is() {
    need!("written", "fuse root umount timeout");
    let place = place();
    let (mounted, mut contents) = grouped(&place);
    let write = File::options().write(true).open(mounted.path("a")).unwrap();
    write.write_all_at(b"NEW", 50).unwrap();
    contents[0][50..53].copy_from_slice(b"NEW");
    drop(write);
    let mut append = File::options().append(true).open(mounted.path("b")).unwrap();
    append.write_all(b"more").unwrap();
    contents[1].extend(b"more");
    drop(append);
    fs::write(mounted.path("c"), b"replaced").unwrap();
    contents[2] = b"replaced".to_vec();
    host::run(["truncate".as_ref(), "-s100".as_ref(), mounted.path("d").as_os_str()]);
    contents[3].truncate(100);
    let all_are = |mounted: &Mounted, contents: &[Vec<u8>]| {
        for (name, bytes) in NAMES.iter().zip(contents) {
            assert_eq!(fs::read(mounted.path(name)).unwrap(), *bytes, "{name}");
            assert_eq!(mounted.path(name).metadata().unwrap().len(), bytes.len() as u64, "{name}");
        }
    };
    assert_eq!((mounted.number("grouped_files"), mounted.number("returned")), (4, 0));
    assert!(mounted.number("grouped_writes") >= 4, "{}", mounted.state());
    all_are(&mounted, &contents);
    // Closed by a writer, it is no other file, and no reason to move.
    mounted.verb(&["shuffle"]);
    assert_eq!((mounted.number("grouped_files"), mounted.number("returned")), (4, 0));
    // Nothing is lost without a sync, where the end is in order; and the times stay.
    let times: Vec<_> = NAMES.map(|n| mounted.path(n).metadata().unwrap().mtime_nsec()).to_vec();
    mounted.unmount(&[]);
    assert!(place.check().contains("4 of them in groups"));
    let mounted = place.mount();
    all_are(&mounted, &contents);
    assert_eq!(times, NAMES.map(|n| mounted.path(n).metadata().unwrap().mtime_nsec()));
    // What is too large, or has space reserved, goes home while it is open.
    let reader = File::open(mounted.path("a")).unwrap();
    let write = File::options().write(true).open(mounted.path("a")).unwrap();
    write.write_all_at(b"unsynced", 3).unwrap();
    contents[0][3..11].copy_from_slice(b"unsynced");
    write.set_len(80_000).unwrap();
    contents[0].resize(80_000, 0);
    let mut seen = vec![0; 80_000];
    reader.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(seen, contents[0]);
    write.set_len(500).unwrap();
    contents[0].truncate(500);
    drop((reader, write));
    let reserving = File::options().write(true).open(mounted.path("b")).unwrap();
    let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&reserving, keep, 0, 100_000).unwrap();
    drop(reserving);
    assert_eq!(mounted.number("grouped_files"), 2);
    all_are(&mounted, &contents);
    are_in(&place.dir, NAMES.into_iter().zip(&contents).take(2));
    // What the kernel has cached of an earlier stay in the group store is not believed in a later one.
    mounted.group(&NAMES);
    assert_eq!(mounted.number("grouped_files"), 4);
    are_in(&mounted.point, NAMES.into_iter().zip(&contents));
    mounted.unmount(&["--return"]);
}

#[test]
fn names_come_and_go_while_a_file_is_grouped() {
    need!("names", "fuse root umount timeout");
    let place = place();
    let (mounted, contents) = grouped(&place);
    // Removed while it is open.
    let mut open = File::open(mounted.path("a")).unwrap();
    fs::remove_file(mounted.path("a")).unwrap();
    mounted.verb(&["shuffle"]);
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, contents[0]);
    assert_eq!((open.metadata().unwrap().nlink(), open.metadata().unwrap().len()), (0, 100));
    drop(open);
    // The others do not lead to each other without it.
    assert_eq!(mounted.number("grouped_files"), 0);
    mounted.group(&["b", "c", "d"]);
    assert_eq!(mounted.number("grouped_files"), 3);
    // Another name, and the first one goes.
    fs::hard_link(mounted.path("b"), mounted.path("b2")).unwrap();
    fs::remove_file(mounted.path("b")).unwrap();
    assert_eq!(fs::read(mounted.path("b2")).unwrap(), contents[1]);
    assert_eq!(mounted.path("b2").metadata().unwrap().nlink(), 1);
    assert_eq!(mounted.number("grouped_files"), 3);
    // Renamed over by an ordinary file, while somebody reads it.
    let open = File::open(mounted.path("c")).unwrap();
    fs::write(mounted.path("new"), b"newer").unwrap();
    fs::rename(mounted.path("new"), mounted.path("c")).unwrap();
    assert_eq!(fs::read(mounted.path("c")).unwrap(), b"newer");
    let mut old = vec![0; 65_536];
    open.read_exact_at(&mut old, 0).unwrap();
    assert_eq!(old, contents[2]);
    drop(open);
    wait("its entry goes", || mounted.number("grouped_files") == 2);
    // Renamed itself, over another that is grouped; its directory too.
    fs::create_dir(mounted.path("sub")).unwrap();
    fs::rename(mounted.path("d"), mounted.path("sub/d")).unwrap();
    fs::rename(mounted.path("sub"), mounted.path("other")).unwrap();
    assert_eq!(fs::read(mounted.path("other/d")).unwrap(), contents[3]);
    fs::rename(mounted.path("other/d"), mounted.path("b2")).unwrap();
    assert_eq!(fs::read(mounted.path("b2")).unwrap(), contents[3]);
    wait("the entry of the other goes", || mounted.number("grouped_files") == 1);
    mounted.unmount(&[]);
    assert!(place.check().contains("1 of them in groups"));
    let mounted = place.mount();
    mounted.unmount(&["--return"]);
    assert_eq!(fs::read(place.dir.join("b2")).unwrap(), contents[3]);
}

/// Otherwise a program that compares listings takes the missing names for removed files.
#[test]
fn where_the_server_can_open_no_more_files_a_listing_is_complete_or_fails() {
    need!("a listing", "fuse root umount timeout prlimit");
    let place = place();
    let names: Vec<String> = (0..200).map(|i| format!("f{i}")).collect();
    names.iter().for_each(|name| fs::write(place.dir.join(name), name).unwrap());
    let mounted = place.mount();
    let limit = |files: &str| {
        let (server, files) = (mounted.running.id().to_string(), format!("--nofile={files}:"));
        host::run(["prlimit", "--pid", &server, &files]);
    };
    let list = || fs::read_dir(&mounted.point).unwrap();
    let listing = list();
    limit("5");
    let entries: std::io::Result<Vec<fs::DirEntry>> = listing.collect();
    assert!(entries.as_ref().is_err(), "{} names", entries.map_or(0, |e| e.len()));
    limit("1000");
    assert_eq!(list().map(Result::unwrap).count(), names.len());
    mounted.unmount(&[]);
}

#[test]
fn a_signal_unmounts_once_nobody_uses_it_and_a_second_one_cuts_users_off() {
    need!("signals", "fuse root umount timeout");
    let place = place();
    let (mut mounted, contents) = grouped(&place);
    let file = File::open(mounted.path("a")).unwrap();
    mounted.running.signal(Signal::TERM);
    mounted.running.expect_error("is in use");
    let mut bytes = vec![0; 100];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, contents[0]);
    drop(file);
    mounted.ends();
    let mut mounted = place.mount();
    let file = File::open(mounted.path("b")).unwrap();
    mounted.running.signal(Signal::TERM);
    mounted.running.expect_error("is in use");
    mounted.running.signal(Signal::TERM);
    mounted.ends();
    assert!(file.read_at(&mut bytes, 0).is_err());
    assert!(place.check().contains("4 of them in groups"));
}

#[test]
fn groups_are_formed_when_it_is_quiet_and_after_so_many_requests() {
    need!("by itself", "fuse root umount timeout");
    for args in [["--idle", "200ms"], ["--every", "60"]] {
        let place = place();
        place.fill();
        let mounted = Mounted::start(&place.dir, &place.point, &place.store, &args);
        mounted.read(&NAMES, 6);
        wait("they are grouped", || mounted.number("grouped_files") == 4);
        mounted.unmount(&["--return"]);
    }
}

#[test]
fn a_shuffle_does_not_wake_a_disk_that_sleeps() {
    need!("a sleeping disk", "fuse root umount timeout ext4 mkfs.ext4");
    let (place, _device, mounted_disk) = on_disk(EXT4_AT_ONCE, 100, "noatime");
    let disk = mounted_disk.path().to_owned();
    place.fill();
    rustix::fs::syncfs(File::open(&disk).unwrap()).unwrap();
    let args = ["--every", "60", "--sleep", "2s", "--disk", "toshiba-pccard"];
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, &args);
    let disk_is = |phase: &str| mounted.state()["disk"]["phase"] == phase;
    // All is in memory, also what opening needs.
    fs::read(mounted.path(NAMES[0])).unwrap();
    wait("it sleeps", || disk_is("asleep"));
    // One that found nothing to do, while it was awake and nobody asked for anything.
    let shuffles = mounted.number("shuffles");
    mounted.read(&NAMES, 10);
    // As long as several looks take.
    std::thread::sleep(Duration::from_secs(2));
    assert!(disk_is("asleep"), "{}", mounted.state());
    assert_eq!((mounted.number("shuffles"), mounted.number("grouped_files")), (shuffles, 0));
    File::open(&disk).unwrap().sync_all().unwrap();
    fs::write(disk.join("other"), b"x").unwrap();
    rustix::fs::syncfs(File::open(&disk).unwrap()).unwrap();
    wait("they are grouped once it is awake", || mounted.number("grouped_files") == 4);
    let told = mounted.verb(&["status"]);
    assert!(told.contains(" asleep, 1 times") && told.contains("to sleep and back"), "{told}");
    let state = mounted.state();
    let joules = state["disk"]["millijoules"].as_array().unwrap();
    // The kernel counts a disk's work in ticks, and so little may be none.
    let worked = state["disk"]["busy_ms"].as_u64() > Some(0);
    assert!(joules.iter().skip(usize::from(!worked)).all(|j| j.as_u64() > Some(0)), "{state}");
    mounted.unmount(&["--return"]);
    drop(mounted_disk);
}

/// One file leads to four others, each of a group; in a sixth group is nothing that anybody led to. Whoever opens files and reads
/// none has the five groups read, each once, and whoever reads them then waits for none.
#[test]
fn groups_to_which_opened_files_lead_are_read_ahead_and_no_others() {
    need!("reading ahead", "fuse root umount timeout ext4 mkfs.ext4");
    let (place, device, mounted_disk) = on_disk(&["mkfs.ext4", "-q"], 100, "noatime");
    let sets: Vec<[String; 3]> =
        (0..6).map(|set| ["x", "y", "z"].map(|n| format!("{n}{set}"))).collect();
    for name in sets.iter().flatten() {
        fs::write(place.dir.join(name), name.repeat(1000)).unwrap();
    }
    // A thread is a stream of its own, and what the next one opens follows nothing.
    let in_a_thread = |act: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(act).join()).unwrap();
    };
    let args = ["--needed", "1"];
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, &args);
    for set in &sets {
        in_a_thread(&|| {
            for name in set.iter().cycle().take(9) {
                fs::read(place.point.join(name)).unwrap();
            }
        });
    }
    mounted.verb(&["shuffle"]);
    assert_eq!(mounted.number("groups"), 6);
    mounted.unmount(&[]);
    // Nothing is in memory, and the disk turns for as long as this takes.
    let args = ["--needed", "1", "--sleep", "1h"];
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, &args);
    for set in &sets[1..5] {
        in_a_thread(&|| {
            File::open(place.point.join(&sets[0][0])).unwrap();
            File::open(place.point.join(&set[0])).unwrap();
        });
    }
    let ahead = || mounted.state()["disk"]["read_ahead"].as_u64().unwrap();
    wait("five groups are read ahead", || ahead() >= 5);
    let read = |sets: &[[String; 3]]| {
        for name in sets.iter().flatten() {
            assert_eq!(fs::read_to_string(mounted.path(name)).unwrap(), name.repeat(1000));
        }
    };
    read(&sets[..5]);
    let counted = (mounted.number("groups_read"), ahead());
    assert_eq!(counted, (5, 5), "{}", mounted.state());
    read(&sets[5..]);
    let counted = mounted.number("groups_read");
    assert_eq!(counted, 6, "{}", mounted.state());
    mounted.unmount(&["--return"]);
    mounted_disk.unmount();
    device.detach();
}

/// Waits until this is so.
fn wait(what: &str, so: impl Fn() -> bool) {
    host::until(what, 10, so);
}

/// What a file should hold: told by its name and a version, and checked whole.
fn content(name: usize, version: u64) -> Vec<u8> {
    let mut bytes = format!("{name} {version} ").into_bytes();
    let len = bytes.len() + (version as usize * 977 + name * 131) % 5000;
    bytes.extend(Numbers::new(version << 8 | name as u64).bytes(len));
    bytes
}

/// The version in a file's bytes, which must be exactly that version's.
fn version_of(name: usize, bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
    let mut words = text.split(' ');
    assert_eq!(words.next(), Some(&*name.to_string()), "file {name} begins {text:?}");
    let version = words.next().and_then(|w| w.parse().ok());
    let version = version.unwrap_or_else(|| panic!("file {name} begins {text:?}"));
    assert!(bytes == content(name, version), "file {name}, version {version}: torn");
    version
}

tests! {
    fn nobody_sees_a_torn_or_old_file_while_files_move() {
        need!("torn", "fuse root umount timeout");
        read_and_written_while_files_move(&[]);
    }
    fn nobody_does_where_the_kernel_passes_nothing_through() {
        need!("torn without pass-through", "fuse root umount timeout");
        read_and_written_while_files_move(&["--no-passthrough"]);
    }
}

fn read_and_written_while_files_move(args: &[&str]) {
    let place = place();
    for name in 0..8 {
        fs::write(place.dir.join(name.to_string()), content(name, 0)).unwrap();
    }
    for own in ["own0", "own1"] {
        File::create(place.dir.join(own)).unwrap();
    }
    let mounted = Mounted::start(&place.dir, &place.point, &place.store, args);
    assert_eq!(mounted.state()["passthrough"], Value::Bool(args.is_empty()));
    let stop = AtomicBool::new(false);
    let moved = || mounted.number("came") + mounted.number("returned");
    std::thread::scope(|scope| {
        for half in 0..2usize {
            let (stop, point) = (&stop, &mounted.point);
            // Each of two processes has four files of its own to write, all to read.
            scope.spawn(move || {
                let mut numbers = Numbers::new(half as u64 + 1);
                let mut versions = [0; 8];
                // One that it writes in place, and nobody else looks at.
                let (own, mut bytes) = (point.join(format!("own{half}")), Vec::new());
                while !stop.load(Relaxed) {
                    if numbers.below(3) == 0 {
                        bytes = content(8 + half, numbers.below(1000));
                        let file = File::options().write(true).open(&own).unwrap();
                        file.write_all_at(&bytes, 0).unwrap();
                        file.set_len(bytes.len() as u64).unwrap();
                    }
                    assert!(fs::read(&own).unwrap() == bytes, "what was written in place is lost");
                    for (name, version) in versions.iter_mut().enumerate() {
                        let path = point.join(name.to_string());
                        let seen = version_of(name, &fs::read(&path).unwrap());
                        assert!(seen >= *version, "file {name} went back to {seen}");
                        *version = seen;
                    }
                    if numbers.below(12) == 0 {
                        let name = half * 4 + numbers.below(4) as usize;
                        versions[name] += 1;
                        let bytes = content(name, versions[name]);
                        let new = point.join(format!("{name}.new"));
                        fs::write(&new, bytes).unwrap();
                        fs::rename(&new, point.join(name.to_string())).unwrap();
                    }
                }
            });
        }
        let (start, least) = (Instant::now(), if host::is_long() { 6 } else { 3 });
        let goes_on = |seconds| start.elapsed() < Duration::from_secs(seconds);
        while goes_on(least) || goes_on(20) && moved() <= 8 {
            mounted.verb(&["shuffle"]);
        }
        stop.store(true, Relaxed);
    });
    assert!(moved() > 8, "hardly anything moved: {}", mounted.verb(&["status"]));
    mounted.unmount(&[]);
    place.check();
    place.mount().unmount(&["--return"]);
    for name in 0..8 {
        version_of(name, &fs::read(place.dir.join(name.to_string())).unwrap());
    }
}

#[test]
fn what_was_synced_outlives_servers_that_are_killed() {
    need!("killed", "fuse root umount timeout");
    let place = place();
    let mut numbers = Numbers::new(11);
    let mut versions = [0; 8];
    for name in 0..8 {
        fs::write(place.dir.join(name.to_string()), content(name, 0)).unwrap();
    }
    for round in 0..8 {
        let mounted = place.mount();
        for (name, version) in versions.iter_mut().enumerate() {
            let path = mounted.path(name.to_string());
            assert_eq!(version_of(name, &fs::read(&path).unwrap()), *version, "round {round}");
            if numbers.below(4) == 0 {
                *version += 1;
                let file = File::create(&path).unwrap();
                file.write_all_at(&content(name, *version), 0).unwrap();
                file.sync_all().unwrap();
            }
        }
        mounted.read(&["0", "1", "2", "3", "4", "5", "6", "7"], 6);
        // Killed somewhere in a shuffle, or while everything goes home.
        let what: &[u8] = if round % 2 == 0 { b"shuffle" } else { b"return" };
        let point = mounted.point.clone();
        let asked = std::thread::spawn(move || {
            rustix::fs::setxattr(&point, "trusted.seekless.do", what, XattrFlags::empty())
        });
        std::thread::sleep(Duration::from_micros(numbers.below(30_000)));
        mounted.kill();
        let _ = asked.join().unwrap();
        place.check();
    }
    place.mount().unmount(&["--return"]);
    for (name, version) in versions.iter().enumerate() {
        let bytes = fs::read(place.dir.join(name.to_string())).unwrap();
        assert_eq!(version_of(name, &bytes), *version);
    }
}

/// How many requests to read the kernel has sent to a disk.
fn reads_of(device: &Loop) -> u64 {
    let name = device.device().trim_start_matches("/dev/");
    let counts = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    counts.split_whitespace().next().unwrap().parse().unwrap()
}

/// What a disk takes to look up files is reads, and through the mount there are no more of them than beneath: neither a file nor the
/// store is touched, and a marker stands in its inode. Counted, since times tell the host's load.
#[test]
fn looking_up_files_reads_no_more_of_the_disk_than_beneath() {
    need!("reads of lookups", "fuse root umount timeout ext4 mkfs.ext4");
    let (mut place, device, mounted_disk) = on_disk(EXT4_AT_ONCE, 400, "rw");
    let (disk, mut numbers) = (mounted_disk.path().to_owned(), Numbers::new(11));
    place.store = disk.join("store");
    // Directories of several blocks each, all inodes in few groups of ext4's: one in four will be grouped.
    let names: Vec<String> = (0..4_000).map(|i| format!("d{}/f{i}", i % 8)).collect();
    for name in &names {
        let path = place.dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [1; 100]).unwrap();
    }
    let mounted = place.mount();
    let used: Vec<&str> = names.iter().map(String::as_str).take(1_000).collect();
    mounted.group(&used);
    let moved = mounted.number("grouped_files");
    assert!(moved > 500, "{moved}");
    mounted.unmount(&[]);
    mounted_disk.unmount();
    let mut drawn: Vec<&String> = names.iter().collect();
    drawn.sort_by_cached_key(|_| numbers.next());
    // All inodes that lie side by side are read at once, so that it takes few to have read all of them.
    drawn.truncate(150);
    let looked_up = |through: bool| {
        let mounted_disk = Mount::new(device.device(), &disk, "rw");
        let mounted = through.then(|| place.mount());
        let at = if through { &place.point } else { &place.dir };
        let before = reads_of(&device);
        for name in &drawn {
            // A grouped file looks empty beneath.
            assert!(at.join(name).metadata().unwrap().len() == 100 || !through, "{name}");
        }
        let reads = reads_of(&device) - before;
        if let Some(mounted) = mounted {
            mounted.unmount(&[]);
        }
        mounted_disk.unmount();
        reads
    };
    let (beneath, through) = (looked_up(false), looked_up(true));
    // Reads of what lies side by side are joined now and then, or are not.
    let most = beneath + beneath / 10;
    assert!(beneath > 20 && through <= most, "{through} reads, {beneath} beneath");
    device.detach();
}

fn do_shuffle(point: &Path) -> rustix::io::Result<()> {
    rustix::fs::setxattr(point, "trusted.seekless.do", b"shuffle", XattrFlags::empty())
}

#[test]
fn without_room_at_home_a_file_stays_and_nothing_is_lost() {
    need!("no room at home", "fuse root umount timeout ext4");
    let (place, device, small) = on_disk(&["mkfs.ext4", "-q", "-m0"], 16, "rw");
    let (mounted, mut contents) = grouped(&place);
    let mut filler = File::create(mounted.path("filler")).unwrap();
    let block = vec![1; 1 << 16];
    while filler.write_all(&block).is_ok() {}
    let mut end = File::create(mounted.path("end")).unwrap();
    while end.write_all(&[1; 512]).is_ok() {}
    let _ = filler.sync_all();
    // Written where it is, it needs none.
    let open = File::options().write(true).open(mounted.path("c")).unwrap();
    open.write_all_at(b"here", 60).unwrap();
    open.sync_all().unwrap();
    contents[2][60..64].copy_from_slice(b"here");
    for grown in [open.set_len(65_537), open.write_all_at(b"home", 65_536)] {
        assert_eq!(grown.map_err(|e| Errno::from_io_error(&e)), Err(Some(Errno::NOSPC)));
    }
    drop(open);
    are_in(&mounted.point, NAMES.into_iter().zip(&contents));
    let unmount = ["files", "unmount", text(&mounted.point), "--return"];
    host::refused(host::seekless().args(unmount), &["could not be moved back"]);
    are_in(&mounted.point, NAMES.into_iter().zip(&contents));
    drop((filler, end));
    fs::remove_file(mounted.path("filler")).unwrap();
    wait("there is room again", || {
        let file = File::options().write(true).open(mounted.path("c")).unwrap();
        file.write_all_at(b"home", 65_536).is_ok()
    });
    contents[2].extend(b"home");
    mounted.unmount(&["--return"]);
    are_in(&place.dir, NAMES.into_iter().zip(&contents));
    small.unmount();
    device.detach();
}

#[test]
fn a_full_group_store_takes_no_more_and_loses_nothing() {
    need!("no room in the store", "fuse root umount timeout");
    let place = place();
    let (_, mut files, mounted) = many(&place, 3, 160, 60_000);
    let state = mounted.state();
    let here = state["grouped_files"].as_u64().unwrap();
    assert!(here > 20 && here < 160, "{here} files");
    assert!(state["trouble"].as_str().unwrap().contains("no space left"), "{state}");
    // A sixteenth of the clusters is free for stored files that are written.
    for (name, bytes) in &mut files {
        assert_eq!(fs::read(mounted.path(&name)).unwrap(), *bytes);
        let file = File::options().write(true).open(mounted.path(&name)).unwrap();
        file.write_all_at(b"written", 50_000).unwrap();
        bytes[50_000..50_007].copy_from_slice(b"written");
    }
    assert_eq!((mounted.number("grouped_files"), mounted.number("grouped_writes")), (here, here));
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes));
    are_in(&mounted.point, files.clone());
    mounted.unmount(&["--return"]);
    are_in(&place.dir, files);
}

/// Small files fill the clusters of a store, and grow.
#[test]
fn a_grouped_file_goes_home_where_the_store_has_no_space_for_what_is_written() {
    need!("no room to grow", "fuse root umount timeout");
    let place = place();
    let (mut numbers, mut files, mounted) = many(&place, 4, 480, 1_000);
    let here = mounted.number("grouped_files");
    assert!(here > 200, "{here} files");
    for (name, bytes) in &mut files {
        let mut file = File::options().append(true).open(mounted.path(&name)).unwrap();
        let more = numbers.bytes(50_000);
        file.write_all(&more).unwrap();
        bytes.extend(more);
    }
    let counts = ["grouped_writes", "returned", "grouped_files"].map(|n| mounted.number(n));
    assert!(counts.iter().all(|n| *n > 10), "{counts:?}");
    assert_eq!(counts[1] + counts[2], here);
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes));
    are_in(&mounted.point, files.clone());
    mounted.unmount(&[]);
    place.check();
    place.mount().unmount(&["--return"]);
    are_in(&place.dir, files);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    need!("refusals", "fuse root umount timeout");
    let place = place();
    let (mounted, _) = grouped(&place);
    let refuses = |dir: &Path, store: &Path, why: &str| {
        let mount = ["files", "mount", text(dir), text(&place.point), "--store", text(store)];
        host::refused(
            host::limited(45).arg(crate::PROGRAM).args(mount).arg("--create=16MiB"),
            &[why],
        );
    };
    refuses(&place.dir, &place.store, "lock is taken");
    mounted.unmount(&[]);
    let (other, store2) = (place.dir.with_extension("other"), place.store.with_extension("2"));
    fs::create_dir(&other).unwrap();
    refuses(&other, &place.store, "another directory");
    refuses(&place.dir, &store2, "another group store");
    refuses(&place.dir, &place.dir.join("store"), "choose another place");
    // A copy made without the mount has markers, and no bytes.
    let copy = place.dir.with_extension("copy");
    host::run(["cp".as_ref(), "-a".as_ref(), place.dir.as_os_str(), copy.as_os_str()]);
    refuses(&copy, &place.store, "copy");
    // Written without the mount: told, and neither is thrown away.
    fs::write(place.dir.join("a"), b"by somebody").unwrap();
    let mounted = place.mount();
    let read = fs::read(mounted.path("a")).map_err(|e| e.raw_os_error());
    assert_eq!(read, Err(Some(Errno::IO.raw_os_error())));
    assert!(mounted.state()["trouble"].as_str().unwrap().contains("without the mount"));
    mounted.unmount(&[]);
    rustix::fs::removexattr(place.dir.join("a"), MARKER).unwrap();
    let mounted = place.mount();
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"by somebody");
    mounted.unmount(&["--return"]);
    // The marker of a lost file: new contents need no old ones.
    let lost = place.dir.join("b");
    fs::write(&lost, b"").unwrap();
    rustix::fs::setxattr(&lost, MARKER, &[9; 32], XattrFlags::empty()).unwrap();
    let mounted = place.mount();
    assert!(fs::read(mounted.path("b")).is_err());
    for bytes in ["", "new"] {
        fs::write(mounted.path("b"), bytes).unwrap();
        assert_eq!(fs::read(mounted.path("b")).unwrap(), bytes.as_bytes());
    }
}
