//! `seekless-lab cluster` on a new ext4 on a loop device: hot files move together, and nothing else
//! about them changes, also after a kill. Seek times decrease as the model predicts.
//! SEEKLESS_HOT=2000 SEEKLESS_KILLS=50 makes a long run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_disk::{Disk, Scheduler, SpinDown, catalogue};
use seekless_engine::Config;
use seekless_serve::extents;
use seekless_sim::{Replay, SimConfig, Simulation};
use serde_json::Value;

use crate::host::{self, Loop, Mount, Numbers, run, seekless};
use crate::need;

/// The paper's disk, large enough for the file system.
const DISK: &str = "rz55";
const SIZE: u64 = 320 << 20;

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |n| n.parse().unwrap())
}

/// An ext4 with hot files between larger cold files.
struct Place {
    mount: Mount,
    device: Loop,
    dir: tempfile::TempDir,
    hot: Vec<PathBuf>,
}

impl Place {
    fn new(hot: u64, seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.img");
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        let device = Loop::attach(&image, &[]);
        run(["mkfs.ext4", "-q", "-b", "4096", "-N", "16384", device.device()]);
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        let mount = Mount::new(device.device(), &root, "");
        let mut numbers = Numbers::new(seed);
        let folders = 60;
        for d in 0..folders {
            fs::create_dir(root.join(format!("d{d}"))).unwrap();
        }
        let mut hot_files = Vec::new();
        // One of three files is hot; the files between are larger.
        for i in 0..hot * 3 {
            let path = root.join(format!("d{}/f{i}", numbers.below(folders)));
            let is_hot = i.is_multiple_of(3);
            let len = if is_hot { 1 + numbers.below(20_000) } else { numbers.below(60_000) };
            fs::write(&path, numbers.bytes(len as usize)).unwrap();
            if is_hot {
                hot_files.push(path);
            }
        }
        rustix::fs::sync();
        Self { mount, device, dir, hot: hot_files }
    }

    fn root(&self) -> &Path {
        self.mount.path()
    }

    /// A trace of the device with whole reads of the hot files, the i-th in proportion to 1 / (i +
    /// 10). The order of heat is not the order of address.
    fn trace(&self, seed: u64) -> PathBuf {
        let runs = self.locations();
        let mut text =
            String::from("time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n");
        let reads = draws(self.hot.len(), 30 * self.hot.len(), seed);
        for (n, i) in (0..self.hot.len()).chain(reads).enumerate() {
            for (sector, len) in &runs[i] {
                writeln!(text, "{:.3},,R,{sector},{len},,,,", n as f64 * 0.01).unwrap();
            }
        }
        let path = self.dir.path().join("trace.csv");
        fs::write(&path, text).unwrap();
        path
    }

    fn list(&self) -> (PathBuf, Value) {
        let (list, json) = (self.dir.path().join("list"), self.dir.path().join("json"));
        let mut command = seekless();
        command.arg("cluster").arg(self.root()).arg("--trace").arg(self.trace(3)).arg("--list");
        command.arg(&list).args(["--hottest", "60%", "--disk", DISK, "--json"]).arg(&json);
        host::succeeds(&mut command);
        (list, serde_json::from_slice(&fs::read(json).unwrap()).unwrap())
    }

    fn apply(&self, list: &Path) -> Value {
        let mut command = seekless();
        command.arg("cluster").arg(self.root()).arg("--apply").arg(list);
        let said = host::succeeds(command.args(["--disk", DISK, "--json", "-"]));
        serde_json::from_str(&said).unwrap()
    }

    /// A trace of system calls on the odd files and the hot files.
    fn trace_of_calls(&self) -> PathBuf {
        let names =
            ["sparse", "linked", "d1/also", "busy", "still", "over/elsewhere", "link", "gone"];
        let mut text = String::new();
        let all = names.iter().map(|n| self.root().join(n)).chain(self.hot.iter().cloned());
        for (n, path) in all.enumerate() {
            writeln!(
                text,
                "100 1700000000.{n:06} openat(AT_FDCWD, \"{}\", O_RDONLY) = 3",
                path.display()
            )
            .unwrap();
            writeln!(text, "100 1700000001.{n:06} read(3, \"\"..., 8192) = 8192").unwrap();
            writeln!(text, "100 1700000002.{n:06} close(3) = 0").unwrap();
        }
        let trace = self.dir.path().join("calls.strace");
        fs::write(&trace, text).unwrap();
        trace
    }

    /// Rewrites every file, in order of name.
    fn rewrite(&self) {
        for path in self.state().into_keys() {
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
        }
        rustix::fs::sync();
    }

    /// The locations of the hot files.
    fn locations(&self) -> Vec<Vec<(u64, u64)>> {
        self.hot.iter().map(|p| runs_of(p)).collect()
    }

    /// Everything that must stay unchanged: contents, and all fields of `stat`.
    fn state(&self) -> BTreeMap<PathBuf, (u32, [i64; 12])> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let m = fs::symlink_metadata(&path).unwrap();
                if m.is_dir() {
                    folders.push(path);
                } else if m.is_file() {
                    let facts = [
                        m.ino() as i64,
                        m.size() as i64,
                        i64::from(m.mode()),
                        i64::from(m.uid()),
                        i64::from(m.gid()),
                        m.nlink() as i64,
                        m.mtime(),
                        m.mtime_nsec(),
                        m.ctime(),
                        m.ctime_nsec(),
                        m.atime(),
                        m.blocks() as i64,
                    ];
                    all.insert(path.clone(), (content(&path), facts));
                }
            }
        }
        all
    }

    /// Mean seek time of the simulated disk for reads of the hot files, each with its frequency.
    fn seek_ms(&self, seed: u64) -> f64 {
        let disk = Disk::new(&catalogue::get(DISK).unwrap()).unwrap();
        let engine = Config {
            cache_bytes: Bytes(0),
            read_ahead: Bytes(0),
            cluster: Bytes(0),
            area: Sectors(0),
            ..Config::new(disk.capacity())
        };
        let config = SimConfig {
            engine,
            area_at: Lba(disk.capacity().0),
            scheduler: Scheduler::Fcfs,
            spin_down: SpinDown::None,
            replay: Replay::Closed { depth: 1 },
        };
        let runs = self.locations();
        let mut sim = Simulation::new(disk, config).unwrap();
        for i in draws(self.hot.len(), 20_000, seed) {
            for &(sector, len) in &runs[i] {
                let extent = Extent::new(sector, len);
                sim.offer(&Request::new(SimTime(0), Op::Read, extent)).unwrap();
            }
        }
        let m = sim.finish().unwrap();
        m.foreground.seek.as_millis_f64() / m.device_ios as f64
    }

    /// Unmounts and checks the file system, and compares everything again from the device.
    fn check(self, before: &BTreeMap<PathBuf, (u32, [i64; 12])>) {
        let Self { mount, device, dir, hot } = self;
        let root = mount.path().to_owned();
        mount.unmount();
        run(["e2fsck", "-fn", device.device()]);
        let mount = Mount::new(device.device(), &root, "noatime");
        let place = Self { mount, device, dir, hot };
        assert!(place.state() == *before, "something changed on the device");
        place.mount.unmount();
        place.device.detach();
    }
}

/// Checksum of the file's contents, with holes as zeroes. The time of last access stays unchanged.
fn content(path: &Path) -> u32 {
    use std::os::unix::fs::OpenOptionsExt as _;
    let noatime = rustix::fs::OFlags::NOATIME.bits() as i32;
    let file = File::options().read(true).custom_flags(noatime).open(path).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    crc_fast::crc32_iscsi(&bytes)
}

/// First sector and length of each run of a file.
fn runs_of(path: &Path) -> Vec<(u64, u64)> {
    let runs = extents::map(&File::open(path).unwrap(), true).unwrap();
    runs.iter().map(|r| (r.physical / 512, r.len / 512)).collect()
}

/// Numbers below `n`, the i-th in proportion to 1 / (i + 10).
fn draws(n: usize, how_many: usize, seed: u64) -> Vec<usize> {
    let mut sums = Vec::with_capacity(n);
    let mut sum = 0.0;
    for i in 0..n {
        sum += 1.0 / (i as f64 + 10.0);
        sums.push(sum);
    }
    let mut numbers = Numbers::new(seed);
    let mut one = || numbers.below(1 << 50) as f64 / (1u64 << 50) as f64 * sum;
    (0..how_many).map(|_| one()).map(|at| sums.partition_point(|s| *s <= at).min(n - 1)).collect()
}

fn missing() -> Option<String> {
    host::programs(&["losetup", "mkfs.ext4", "e2fsck", "timeout"])
        .or_else(host::root)
        .or_else(|| host::loop_mounts("ext4"))
}

#[test]
fn hot_files_move_together_and_seeks_shorten_as_predicted() {
    need!("cluster", missing());
    let place = Place::new(asked("SEEKLESS_HOT", 250), 11);
    let (before, unmoved) = (place.state(), place.seek_ms(5));
    let (list, told) = place.list();
    assert_eq!(told["schema"], "seekless.cluster/1");
    assert_eq!(place.state(), before, "making a list changed something");
    let outcome = place.apply(&list);
    let hot = place.hot.len() as u64;
    assert!(outcome["moved_files"].as_u64().unwrap() > hot * 9 / 10, "{outcome}");
    assert_eq!(place.state(), before, "moving changed something");
    let number = |v: &Value| v.as_f64().unwrap();
    let (from, to) =
        (number(&outcome["before"]["seek_ms"]), number(&outcome["foretold"]["seek_ms"]));
    let fell = unmoved - place.seek_ms(5);
    assert!(fell > 1.0 && (fell / (from - to) - 1.0).abs() < 0.2, "{fell} ms; {outcome}");
    assert!((number(&outcome["after"]["seek_ms"]) / to - 1.0).abs() < 0.02, "{outcome}");
    // The second run moves nothing.
    let again = place.apply(&list);
    assert_eq!(again["moved_files"], 0, "{again}");
    place.check(&before);
}

#[test]
fn a_killed_run_keeps_all_files_and_the_next_continues() {
    need!("cluster", missing());
    let place = Place::new(asked("SEEKLESS_HOT", 250) / 2, 12);
    let whole = Instant::now();
    place.apply(&place.list().0);
    let whole = whole.elapsed().as_millis() as u64;
    let (mut before, mut list) = (BTreeMap::new(), PathBuf::new());
    let mut numbers = Numbers::new(8);
    let (kills, mut amid, mut tries) = (asked("SEEKLESS_KILLS", 2), 0, 0);
    let mut done = true;
    // Only kills during moves count.
    while amid < kills && tries < 30 * kills {
        tries += 1;
        if done {
            // Everything lies together: rewriting hot and cold files in turn makes work again.
            place.rewrite();
            (before, list) = (place.state(), place.list().0);
        }
        let lay = place.locations();
        let mut command = seekless();
        command.arg("cluster").arg(place.root()).arg("--apply").arg(&list);
        let quiet = std::process::Stdio::null;
        let mut child = command.stdout(quiet()).stderr(quiet()).spawn().unwrap();
        let until = Instant::now() + Duration::from_millis(numbers.below(whole));
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        done = child.try_wait().unwrap().is_some();
        let _ = child.kill();
        child.wait().unwrap();
        amid += u64::from(!done && place.locations() != lay);
        assert!(place.state() == before, "something changed by kill {tries}");
    }
    eprintln!("{amid} of {tries} kills came while files were being moved");
    assert!(amid > 0, "it was never killed while it moved something");
    // The space of a killed run is free again, so that a second pass may find better space; but
    // passes come to an end.
    let mut passes = 0;
    loop {
        let outcome = place.apply(&list);
        assert_eq!(place.state(), before);
        if outcome["moved_files"] == 0 {
            break;
        }
        passes += 1;
        assert!(passes < 6, "it does not come to rest: {outcome}");
    }
    place.check(&before);
}

/// A file with a hole and unwritten space (`sparse`), a file with two names, a file that is open
/// for writing (`busy`), an immutable file (`still`), a file of another file system, a link, and a
/// file to be removed.
struct OddFiles {
    sparse: PathBuf,
    busy: PathBuf,
    still: PathBuf,
    held: File,
    other: Mount,
}

impl OddFiles {
    fn make(root: &Path) -> Self {
        let file = |name: &str, len: usize| {
            let path = root.join(name);
            fs::write(&path, Numbers::new(len as u64).bytes(len)).unwrap();
            path
        };
        let sparse = file("sparse", 8192);
        let open = File::options().write(true).open(&sparse).unwrap();
        open.write_all_at(&[7; 8192], 1 << 20).unwrap();
        rustix::fs::fallocate(&open, rustix::fs::FallocateFlags::KEEP_SIZE, 2 << 20, 1 << 16)
            .unwrap();
        drop(open);
        let linked = file("linked", 9000);
        fs::hard_link(&linked, root.join("d1/also")).unwrap();
        let busy = file("busy", 9001);
        let held = File::options().write(true).open(&busy).unwrap();
        let still = file("still", 9002);
        run(["chattr".as_ref(), "+i".as_ref(), still.as_os_str()]);
        fs::create_dir(root.join("over")).unwrap();
        let over = root.join("over");
        run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", &over.display().to_string()]);
        let other = Mount::at(&over);
        file("over/elsewhere", 9003);
        std::os::unix::fs::symlink(&linked, root.join("link")).unwrap();
        file("gone", 9004);
        rustix::fs::sync();
        Self { sparse, busy, still, held, other }
    }

    fn release(self) {
        self.other.unmount();
        run(["chattr".as_ref(), "-i".as_ref(), self.still.as_os_str()]);
        drop(self.held);
    }
}

#[test]
fn special_open_and_foreign_files_are_left_alone() {
    need!("cluster", missing());
    let place = Place::new(40, 13);
    let root = place.root().to_owned();
    let odd = OddFiles::make(&root);
    let OddFiles { sparse, busy, still, .. } = &odd;
    let trace = place.trace_of_calls();
    let list = place.dir.path().join("list");
    let mut command = seekless();
    command.arg("cluster").arg(&root).arg("--trace").arg(format!("strace:{}", trace.display()));
    host::succeeds(command.arg("--list").arg(&list).args(["--hottest", "100%"]));
    fs::remove_file(root.join("gone")).unwrap();

    let (before, flags) =
        (place.state(), |p: &Path| extents::map(&File::open(p).unwrap(), true).unwrap());
    let shape =
        |p: &Path| flags(p).iter().map(|r| (r.logical, r.len, r.unwritten)).collect::<Vec<_>>();
    let (was, lay, kept) = (shape(sparse), flags(sparse), [flags(busy), flags(still)]);
    assert!(was.len() >= 3 && was.iter().any(|r| r.2), "{was:?}");
    let outcome = place.apply(&list);
    let alone = &outcome["left_alone"];
    for why in [
        "somebody has it open for writing",
        "immutable, or may only be appended to",
        "no longer there",
    ] {
        assert_eq!(alone[why], 1, "{why}: {outcome}");
    }
    assert_eq!(
        outcome["files"], 45,
        "a file with two names counts once, a file elsewhere not at all: {outcome}"
    );
    assert_eq!(outcome["moved_files"], 42, "{outcome}");
    assert_eq!(place.state(), before);
    // Holes and unwritten space stay at their offsets.
    assert_eq!(shape(sparse), was);
    assert_ne!(flags(sparse), lay);
    assert_eq!([flags(busy), flags(still)], kept);

    // A text that is no list, a folder that is no mount point, and another file system are refused.
    let refused = |args: &[&std::ffi::OsStr], words: &str| {
        let out = seekless().arg("cluster").args(args).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && err.contains(words), "{words}: {err}");
    };
    let below = root.join("d1");
    refused(&[below.as_os_str(), "--apply".as_ref(), list.as_os_str()], "not a mount point");
    refused(&[root.as_os_str(), "--apply".as_ref(), trace.as_os_str()], "not a list");
    refused(&[root.join("over").as_os_str(), "--apply".as_ref(), list.as_os_str()], "ext4");
    refused(&[root.as_os_str()], "--trace");
    odd.release();
    let before = place.state();
    place.check(&before);
}
