//! The adaptive policy on served volumes: every byte is right while the trail is written and read,
//! copies survive a restart, and nights of scans cost the disk far less than the vanilla system.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seekless_serve::client::Client;
use serde_json::Value;

use crate::PROGRAM;
use crate::files::reserved;
use crate::host::{self, Loop, Mount, Numbers, Server, run, run_line, seekless, status};
use crate::need;
use crate::place::end_both;

const SIZE: u64 = 64 << 20;
const PAGE: u64 = 4096;
/// A modelled disk, far faster than the real one: its times stay above those of this host.
const DISK: [&str; 2] = ["--disk", "wd800jb,speed=20"];

/// A volume under test, and what must be on it.
struct Volume {
    dir: tempfile::TempDir,
    model: Vec<u8>,
    numbers: Numbers,
    /// What is read again and again, in this order.
    places: Vec<u64>,
}

impl Volume {
    fn new() -> Self {
        let mut numbers = Numbers::new(12);
        let model = numbers.bytes(SIZE as usize);
        let places = (0..600).map(|_| numbers.below(SIZE / PAGE) * PAGE).collect();
        let volume = Self { dir: tempfile::tempdir().unwrap(), model, numbers, places };
        fs::write(volume.image(), &volume.model).unwrap();
        volume
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.path("disk.img")
    }

    fn format(&self, mode: &str) {
        let at = format!("{} --at {}", self.image().display(), self.area());
        run_line(&format!("{PROGRAM} volume format {at} --optimized 24MiB --mode {mode}"));
    }

    /// A server, its policy as announced, and a client.
    fn serve(&self, args: &[&str]) -> (Server, String, Client) {
        let mut command = seekless();
        command.arg("serve").arg(self.image()).args(args).args(DISK);
        command.args(["--cache", "1MiB"]);
        command.args(["--nbd", &format!("unix:{}", self.path("nbd").display())]);
        let (server, said) = Server::told(command, self.dir.path(), "policy ");
        let client = Client::connect(&seekless_serve::Address::Unix(self.path("nbd"))).unwrap();
        (server, said, client)
    }

    fn area(&self) -> String {
        self.path("area").display().to_string()
    }

    /// Reads all places, and now and then writes one of them.
    fn use_it(&mut self, client: &mut Client, writes: bool) {
        for (i, &at) in self.places.iter().enumerate() {
            let range = at as usize..(at + PAGE) as usize;
            if writes && i % 50 == 7 {
                let bytes = self.numbers.bytes(PAGE as usize);
                self.model[range.clone()].copy_from_slice(&bytes);
                client.write(at, &bytes).unwrap();
            }
            let read = client.read(at, PAGE as u32).unwrap();
            assert!(read == self.model[range], "at {at}");
        }
    }

    fn compare(&self, client: &mut Client) {
        for (at, bytes) in (0..).step_by(1 << 20).zip(self.model.chunks(1 << 20)) {
            assert!(client.read(at, 1 << 20).unwrap() == bytes, "at {at}");
        }
    }
}

fn count(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap()
}

#[test]
fn a_trail_is_written_read_and_kept_over_a_restart() {
    let mut volume = Volume::new();
    volume.format("writethrough");
    let area = volume.area();
    let area = ["--area", &area];
    let (server, said, mut client) = volume.serve(&area);
    assert!(said.contains("adaptive, the default; a trail in 24 MiB"), "{said}");
    let begun = Instant::now();
    let image = volume.image();
    let said = loop {
        volume.use_it(&mut client, true);
        let said = status(&image, &[]);
        if count(&said, "copied_bytes") > 2 << 20 {
            break said;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the trail stays short: {said:#}");
    };
    let adaptive = &said["adaptive"];
    assert!(count(adaptive, "trail_position_bytes") > 2 << 20, "{said:#}");
    assert!(count(adaptive, "trail_written_bytes") > 2 << 20, "{said:#}");
    // The guard looks once a second.
    let guard = || status(&image, &[])["adaptive"]["guard"].clone();
    host::until("the guard looks", 120, || guard()["vanilla_today_s"].as_f64() > Some(0.0));
    for _ in 0..3 {
        volume.use_it(&mut client, false);
    }
    volume.compare(&mut client);
    drop(client);
    let counts = server.stop();
    assert!(
        count(&counts, "copy_reads") > 0 && count(&counts, "prefetch_used_pages") > 0,
        "{counts:#}"
    );

    // The copies are of use after a restart.
    let (server, said, mut client) = volume.serve(&area);
    assert!(said.contains("adaptive, the default"), "{said}");
    assert!(count(&status(&image, &[]), "copied_bytes") > 1 << 20);
    for _ in 0..3 {
        volume.use_it(&mut client, true);
    }
    drop(client);
    let counts = server.stop();
    assert!(count(&counts, "copy_reads") > 0, "{counts:#}");

    // A plan takes the place of the trail, keeps the area, and gives way to a trail on request.
    let planned = ["--policy", "borg", "--learn-every", "1d"];
    let (server, _, mut client) = volume.serve(&[&area[..], &planned].concat());
    volume.use_it(&mut client, true);
    volume.use_it(&mut client, false);
    server.learn();
    volume.use_it(&mut client, true);
    drop(client);
    assert!(count(&server.stop(), "copy_reads") > 0);
    let (server, said, mut client) = volume.serve(&area);
    assert!(said.contains("borg, because the area holds a plan"), "{said}");
    volume.use_it(&mut client, true);
    end_both(server, client);
    for _ in 0..2 {
        let (server, _, mut client) =
            volume.serve(&[&area[..], &["--policy", "adaptive"]].concat());
        for _ in 0..3 {
            volume.use_it(&mut client, true);
        }
        volume.compare(&mut client);
        end_both(server, client);
    }
    let (server, said, _) = volume.serve(&area);
    assert!(said.contains("adaptive, the default"), "the plan is gone: {said}");
    server.stop();
    assert!(fs::read(&image).unwrap() == volume.model, "home differs");
}

#[test]
fn without_an_area_it_reads_ahead_and_writes_no_copies() {
    let mut volume = Volume::new();
    let image = volume.image();
    for (args, words) in [
        (&["--policy", "adaptive:trail=off"][..], "adaptive:trail=off; no trail"),
        (&["--optimized", "0"], "adaptive:trail=off; no trail"),
        (&["--read-only"], "adaptive, the default; no trail"),
    ] {
        let (server, said, mut client) = volume.serve(args);
        assert!(said.contains(words), "{args:?}: {said}");
        volume.use_it(&mut client, false);
        // In order of address: what is read ahead is of use.
        volume.compare(&mut client);
        for at in (0..SIZE / 4).step_by(PAGE as usize) {
            let found = client.read(at, PAGE as u32).unwrap();
            assert!(found == volume.model[at as usize..][..PAGE as usize], "at {at}");
        }
        assert_eq!(count(&status(&image, &[])["adaptive"], "trail_bytes"), 0);
        drop(client);
        let counts = server.stop();
        assert_eq!((count(&counts, "copy_reads"), count(&counts, "moved_bytes")), (0, 0));
        assert!(count(&counts, "prefetch_used_pages") > 1000, "{args:?}: {counts:#}");
        assert!(count(&counts, "home_reads") < 4000, "{args:?}: {counts:#}");
    }
}

#[test]
fn there_is_nothing_to_plan_and_nothing_to_remember() {
    let volume = Volume::new();
    let image = volume.image();
    let (server, _, client) = volume.serve(&[]);
    host::refused(seekless().args(["volume", "replan"]).arg(&image), &["nothing to plan"]);
    server.signal(rustix::process::Signal::USR1);
    server.expect_error("nothing to plan: the policy adaptive");
    end_both(server, client);
    for (args, words) in [
        (&["--policy", "judged"][..], "policy judged is replaced: write --policy adaptive"),
        (
            &["--policy", "adaptive", "--state", "s"],
            "makes no plans: leave out --observe and --state",
        ),
        (&["--policy", "adaptive", "--observe", "/dev/loop0"], "makes no plans"),
        (&["--state", "s"], "a state file cannot be used: the policy adaptive makes no plans"),
        (&["--observe", "/dev/loop0"], "observes no device"),
        (&["--cache", "0"], "give --cache SIZE"),
    ] {
        let mut command = seekless();
        command.arg("serve").arg(&image).args(args).args(["--nbd", "unix:x"]);
        host::refused(command.current_dir(volume.dir.path()), &[words]);
    }
}

/// Directories, files in each, and directories that each night reads.
const DIRECTORIES: u64 = 24;
const FILES: u64 = 150;
const READ: u64 = 20;

/// Bytes of a file.
fn content(directory: u64, file: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(directory << 32 | file);
    let len = 1 + numbers.below(8_000) as usize;
    numbers.bytes(len)
}

/// A disk as years leave it: between two files of a directory, others were deleted.
fn make_files(image: &Path, root: &Path) {
    File::create(image).unwrap().set_len(1 << 30).unwrap();
    let device = Loop::attach(image, &[]);
    run(["mkfs.ext4", "-q", "-O", "^has_journal", "-N", "16384", device.device()]);
    let mount = Mount::new(device.device(), root, "noatime");
    let make = |name: String, len: u64| reserved(&root.join(name), len);
    let of = |directory: u64| (0..FILES).map(move |file| (directory, file));
    for directory in 0..DIRECTORIES {
        fs::create_dir(root.join(format!("d{directory}"))).unwrap();
        for (d, f) in of(directory) {
            let bytes = content(d, f);
            let file = make(format!("d{d}/f{f}"), bytes.len() as u64);
            file.write_all_at(&bytes, 0).unwrap();
            make(format!("d{d}/deleted{f}"), 61_000);
        }
    }
    for (d, f) in (0..DIRECTORIES).flat_map(of) {
        fs::remove_file(root.join(format!("d{d}/deleted{f}"))).unwrap();
    }
    mount.unmount();
}

/// `du`, `find` and `tar` of some directories; a mount begins with empty caches. Every byte is
/// compared.
fn night(device: &str, root: &Path) {
    let mount = Mount::new(device, root, "ro,noatime");
    let some: Vec<String> =
        (0..READ).map(|d| root.join(format!("d{d}")).display().to_string()).collect();
    let of = |command: &[&str]| {
        let all = command.iter().copied().chain(some.iter().map(String::as_str));
        run(all.collect::<Vec<_>>())
    };
    let dir = tempfile::tempdir().unwrap();
    let tar = dir.path().join("tar").display().to_string();
    of(&["du", "-s"]);
    of(&["find"]);
    of(&["tar", "-cf", &tar]);
    mount.unmount();
    run(["tar", "-xf", &tar, "-C", dir.path().to_str().unwrap()]);
    let unpacked = dir.path().join(root.strip_prefix("/").unwrap());
    for (d, f) in (0..READ).flat_map(|d| (0..FILES).map(move |f| (d, f))) {
        assert!(
            fs::read(unpacked.join(format!("d{d}/f{f}"))).unwrap() == content(d, f),
            "d{d}/f{f}"
        );
    }
}

/// Disk time so far, moves included; and that of the vanilla system for the same requests.
fn busy_s(page: &Path) -> [f64; 2] {
    // The page is renewed four times a second; what is left to be written to the trail counts too.
    std::thread::sleep(Duration::from_secs(1));
    let address = format!("unix:{}", page.display());
    let output = seekless().args(["top", "--json", &address]).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    ["now", "vanilla"].map(|system| {
        let of = |phase: &str| status["busy"][system][phase].as_f64().unwrap();
        of("seek_s") + of("rotation_s") + of("transfer_s") + of("overhead_s")
    })
}

#[test]
fn a_night_of_scans_costs_a_tenth_when_it_repeats() {
    need!("nights", "losetup mkfs.ext4 tar du find timeout fuse root ext4");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, volume, root, page) =
        (path("disk.img"), path("volume"), path("root"), path("page"));
    fs::create_dir(&root).unwrap();
    make_files(&image, &root);
    let http = format!("unix:{}", page.display());
    // RAM that does not hold the tree by itself.
    let args = ["--disk", "exos-x20,speed=3", "--http", &http, "--cache", "16MiB"];
    let server = Server::start(dir.path(), &image, Some(&volume), &args);
    let device = Loop::attach(&volume, &["--direct-io=on", "-r"]);
    let mut before = busy_s(&page);
    // A busy host makes the pauses of the client longer, and the policy learns less from a night. One
    // of the next three nights must cost a tenth.
    let mut nights: Vec<[f64; 2]> = Vec::new();
    let tenth = |&[now, vanilla]: &[f64; 2]| now <= vanilla / 10.0;
    while nights.len() < 4 && !nights.iter().skip(1).any(tenth) {
        night(device.device(), &root);
        let now = busy_s(&page);
        nights.push([now[0] - before[0], now[1] - before[1]]);
        before = now;
    }
    device.detach();
    server.stop();
    eprintln!("disk time of the nights, now and vanilla: {nights:.2?} s");
    let [now, vanilla] = nights[0];
    assert!(now <= vanilla * 1.01 + 3.0, "the guard's promise for the first night: {nights:?}");
    assert!(nights.iter().skip(1).any(tenth), "{nights:?}");
}
