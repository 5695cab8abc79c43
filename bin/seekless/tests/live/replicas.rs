//! Replicas in the free space of file systems in use (FS2): ext4 and XFS on a volume that discards,
//! filled and emptied between 60 and 98%, in step with two twins on bare disks. Every byte is
//! compared. `df` and the end of space must be the same to the block wherever the bare twins agree.
//! SEEKLESS_ROUNDS=20 makes a long run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use seekless_nbd::CommandFlags;
use seekless_serve::client::Client;
use serde_json::Value;

use crate::host::{self, Loop, Mount, Numbers, Server, run, seekless, status, with, words};
use crate::need;
use crate::place::{BESIDE, Place, end_both, serve};
use crate::tests;

/// A file system whose layout depends only on the operations.
struct Aged {
    kind: host::Kind,
    mount: &'static str,
    /// Steps from one `fstrim` to the next; 0 if the mount option discards.
    trim_every: u64,
}

const EXT4: Aged = Aged {
    kind: host::Kind {
        // More than one region of the planner (128 MiB).
        size: 192 << 20,
        make: &[
            "mkfs.ext4",
            "-q",
            "-m0",
            "-U3fd15d9a-2c4b-4b0d-9e0b-0d1d4f3c2b1a",
            "-Ehash_seed=3fd15d9a-2c4b-4b0d-9e0b-0d1d4f3c2b1a,lazy_itable_init=0,lazy_journal_init=0",
        ],
        ..host::EXT4
    },
    // Not `discard`: ext4 keeps free extents to itself while it discards, so that the layout of the
    // bare twins would depend on the speed of that.
    mount: "noatime",
    trim_every: 16,
};
const XFS: Aged = Aged {
    kind: host::Kind {
        make: &["mkfs.xfs", "-q", "-f", "-muuid=3fd15d9a-2c4b-4b0d-9e0b-0d1d4f3c2b1a"],
        ..host::XFS
    },
    // The twins have the same name.
    mount: "noatime,discard,nouuid",
    trim_every: 0,
};

tests! {
    fn ext4_ages_as_on_a_bare_disk() {
        need!("ext4", host::EXT4.missing(&["fstrim"]));
        ages(&EXT4);
    }
    fn xfs_ages_as_on_a_bare_disk() {
        need!("xfs", host::XFS.missing(&["fstrim"]));
        ages(&XFS);
    }
}

pub(crate) fn ours(args: &[&str]) -> String {
    host::succeeds(seekless().args(args))
}

/// A volume of seekless, two bare disks, and the same files on all of them.
struct Twins {
    roots: [PathBuf; 3],
    files: BTreeMap<u64, (usize, u64)>,
    next: u64,
    /// A larger disk has larger files, not more.
    scale: u64,
    trim_every: u64,
    numbers: Numbers,
    /// Number of comparisons; how often the bare disks parted, and how often ours parted from both.
    /// A difference stays until the files are gone: it counts when it comes or changes, not at each
    /// look.
    looks: u32,
    bare_differed: u32,
    ours_differed: u32,
    /// At the last look at each number, how far ours and the other bare disk were from the first.
    last: [[i64; 2]; 3],
}

/// What is compared.
#[derive(Clone, Copy)]
enum Look {
    Free,
    Available,
    End,
}

/// Length of the last writes of `Twins::fill`.
const PIECE: u64 = 4096;

/// The answer of `df`.
#[derive(Debug, PartialEq, Eq)]
struct Df {
    blocks: u64,
    free: u64,
    available: u64,
    files: u64,
    /// Bytes of a block.
    unit: u64,
}

impl Df {
    fn of(root: &Path) -> Self {
        let s = rustix::fs::statvfs(root).unwrap();
        let (blocks, free, available) = (s.f_blocks, s.f_bfree, s.f_bavail);
        Self { blocks, free, available, files: s.f_files - s.f_ffree, unit: s.f_frsize }
    }
}

impl Twins {
    fn path(root: &Path, file: u64) -> PathBuf {
        root.join(format!("d{}", file % 5)).join(format!("f{file}"))
    }

    fn create(&mut self) {
        let most = if self.numbers.below(8) == 0 { 900_000 } else { 90_000 } * self.scale;
        // Space reserved for metadata is not available.
        let most = most.min(Df::of(&self.roots[1]).available << 10);
        let (file, len) = (self.next, 1 + self.numbers.below(most.max(1)) as usize);
        let seed = self.numbers.next();
        let bytes = Numbers::new(seed).bytes(len);
        self.next += 1;
        for root in &self.roots {
            let path = Self::path(root, file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file = File::create(path).unwrap();
            file.write_all(&bytes).unwrap();
            // Allocated now by this thread, not later by the kernel.
            file.sync_all().unwrap();
        }
        self.files.insert(file, (len, seed));
    }

    fn delete(&mut self) {
        let at = self.numbers.below(self.files.len() as u64) as usize;
        let file = *self.files.keys().nth(at).unwrap();
        self.files.remove(&file);
        for root in &self.roots {
            let path = Self::path(root, file);
            fs::remove_file(&path).unwrap();
            // Its blocks are free again once this is committed.
            File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
        }
    }

    fn trim(&self) {
        for root in &self.roots {
            run(["fstrim".as_ref(), root.as_os_str()]);
        }
    }

    /// Creates and deletes files until the disk is full to this share.
    fn age(&mut self, percent: u64) {
        let _here = OneProcessor::stay();
        for step in 0.. {
            // Also at first: then all have their bitmaps in memory.
            if self.trim_every > 0 && step % self.trim_every == 0 {
                self.trim();
            }
            let bare = Df::of(&self.roots[1]);
            let full = 100 - bare.free * 100 / bare.blocks;
            if full == percent {
                return;
            }
            // Three steps forward, one back.
            if (full < percent) == (self.numbers.below(4) > 0) || self.files.len() < 3 {
                if full < 98 {
                    self.create();
                }
            } else {
                self.delete();
            }
        }
    }

    /// All files have their bytes, and `df` says the same of all.
    fn check(&mut self, when: &str) {
        for (&file, &(len, seed)) in &self.files {
            let bytes = Numbers::new(seed).bytes(len);
            for root in &self.roots {
                let good = fs::read(Self::path(root, file)).unwrap() == bytes;
                assert!(good, "{when}: file {file} of {} files is wrong", self.files.len());
            }
        }
        self.compare(when, 0);
    }

    /// Compares `df`: free space may differ by `more` bytes and two blocks, or 16 KiB. The moment of
    /// write-back decides how a file is split, and so how many blocks list its parts.
    fn compare(&mut self, when: &str, more: u64) {
        let all = [0, 1, 2].map(|i| Df::of(&self.roots[i]));
        let fixed = |df: &Df| (df.blocks, df.files, df.unit);
        assert_eq!([fixed(&all[0]), fixed(&all[2])], [fixed(&all[1]); 2], "{when}: {all:?}");
        let most = (2 * all[0].unit).max(16 << 10) + more;
        let free = all.each_ref().map(|df| df.free * df.unit);
        self.same(&format!("{when}: free"), Look::Free, free, most);
        let available = all.each_ref().map(|df| df.available * df.unit);
        self.same(&format!("{when}: df"), Look::Available, available, most);
    }

    /// Compares numbers of bytes. Ours may differ by at most `most`, as the bare disks may too, and
    /// mostly not at all.
    fn same(&mut self, when: &str, look: Look, [ours, bare, other]: [u64; 3], most: u64) {
        self.looks += 1;
        let now = [ours, other].map(|bytes| bytes.cast_signed() - bare.cast_signed());
        let [ours_was, other_was] = std::mem::replace(&mut self.last[look as usize], now);
        self.bare_differed += u32::from(now[1] != other_was);
        self.ours_differed += u32::from(now[1] == other_was && now[0] != ours_was);
        if ours != bare || ours != other {
            eprintln!("{when}: ours {ours}, bare disks {bare} and {other}");
        }
        let off = ours.abs_diff(bare).min(ours.abs_diff(other));
        assert!(off <= most, "{when}: ours {ours}, bare disks {bare} and {other}");
    }

    /// Fills the rest with one file; returns its length.
    fn fill(root: &Path) -> u64 {
        let _here = OneProcessor::stay();
        let mut file = File::create(root.join("full")).unwrap();
        let bytes = Numbers::new(5).bytes(64 << 10);
        let piece = &bytes[..PIECE as usize];
        let mut written = 0;
        // Space reserved for delayed allocation returns after a sync.
        for piece in [&bytes[..], piece, piece] {
            loop {
                match file.write(piece) {
                    Ok(n) => written += n as u64,
                    Err(e) if e.kind() == ErrorKind::StorageFull => break,
                    Err(e) => panic!("{e}"),
                }
            }
            file.sync_all().unwrap();
        }
        written
    }
}

/// A file as a disk that does not rotate: the layout of ext4 depends on this, and a file of FUSE
/// says nothing else.
fn attach(file: &Path, options: &[&str]) -> Loop {
    let device = Loop::attach(file, options);
    let name = device.device().trim_start_matches("/dev/");
    fs::write(format!("/sys/block/{name}/queue/rotational"), "0").unwrap();
    device
}

/// Binds this thread to one processor until it is dropped: ext4 places small files by processor.
struct OneProcessor(CpuSet);

impl OneProcessor {
    fn stay() -> Self {
        let all = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();
        Self(all)
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

fn ages(aged: &Aged) {
    let kind = &aged.kind;
    let rounds = host::rounds("SEEKLESS_ROUNDS", 2, 12);
    let seed = std::env::var("SEEKLESS_SEED").map_or(11, |n| n.parse().unwrap());
    eprintln!("SEEKLESS_SEED={seed}");
    // In memory if possible, because of a thousand commits to three disks.
    let memory = tempfile::tempdir_in("/dev/shm");
    let dir = memory.or_else(|_| tempfile::tempdir()).unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, area, volume) = (path("disk.img"), path("disk.area"), path("volume"));
    for name in ["disk.img", "bare.img", "other.img"] {
        File::create(path(name)).unwrap().set_len(kind.size).unwrap();
    }
    let beside = ["--area", area.to_str().unwrap()];
    let at = format!("{} --at {} --replicas 25%", image.display(), area.display());
    ours(&words(&format!("volume format {at}")));
    // The policy that spends most.
    let rule = "--policy fs2 --learn-every 200ms --background-rate 60MiB/s --cache 1MiB";
    let args = format!("--area {} {rule}", area.display());
    let start = || Server::line(dir.path(), &image, Some(&volume), &args);
    let mut server = start();
    let bare = ["bare.img", "other.img"].map(|name| attach(&path(name), &[]));
    let mut device = attach(&volume, &["--direct-io=on"]);
    let roots = [path("ours"), path("twin"), path("other")];
    for (device, root) in [&device, &bare[0], &bare[1]].into_iter().zip(&roots) {
        run(with(kind.make, device.device()));
        fs::create_dir(root).unwrap();
    }
    let mount = |ours: &Loop| -> Vec<Mount> {
        let pairs = [ours, &bare[0], &bare[1]].into_iter().zip(&roots);
        pairs.map(|(d, root)| Mount::new(d.device(), root, aged.mount)).collect()
    };
    let numbers = Numbers::new(seed);
    // In the short form, half as many files that are twice as large.
    let scale = (kind.size >> 26) * if host::is_long() { 1 } else { 2 };
    let mut twins = Twins {
        roots: roots.clone(),
        files: BTreeMap::new(),
        next: 0,
        scale,
        trim_every: aged.trim_every,
        numbers,
        looks: 0,
        bare_differed: 0,
        ours_differed: 0,
        last: [[0; 2]; 3],
    };
    let (mut moved, mut yielded, mut copy_reads, mut suspended) = (0, 0, 0, 0);
    for round in 0..rounds {
        let mut mounts = mount(&device);
        let percent = [98, 60, 85, 75, 92][round as usize % 5];
        twins.age(percent);
        mounts.into_iter().for_each(Mount::unmount);
        mounts = mount(&device);
        let when = format!("{}, seed {seed}, round {round}, {percent}% full", kind.name);
        twins.trim();
        twins.check(&when);
        let now = status(&image, &[]);
        suspended += u64::from(now["replicas"]["suspended"] == true);
        settle(&image);
        replicate_files(&image, &twins);
        // Again, with the replicas that exist by now.
        mounts.into_iter().for_each(Mount::unmount);
        mounts = mount(&device);
        twins.check("again");
        if round > 0 {
            // Free space may differ already: see `compare`.
            let ends = [0, 1, 2].map(|i| Twins::fill(&roots[i]));
            twins.same("where space ends", Look::End, ends, (16 << 10) + PIECE);
            twins.compare("full", PIECE);
            roots.iter().for_each(|root| fs::remove_file(root.join("full")).unwrap());
        }
        mounts.into_iter().for_each(Mount::unmount);
        for device in [&device, &bare[0], &bare[1]] {
            run(with(kind.check, device.device()));
        }
        let now = status(&image, &[]);
        let count = |name: &str| now["replicas"][name].as_u64().unwrap();
        moved += now["moved_bytes"].as_u64().unwrap();
        yielded += count("yielded_bytes");
        // An orderly stop and another server: replicas persist.
        device.detach();
        settle(&image);
        let counts = server.stop();
        let before = counts["copied_sectors"].as_u64().unwrap() << 9;
        copy_reads += counts["copy_reads"].as_u64().unwrap();
        server = start();
        let now = status(&image, &[]);
        assert_eq!(now["copied_bytes"], before, "what stood before the restart: {now:#}");
        assert_eq!(now["in_doubt_bytes"], 0);
        device = attach(&volume, &["--direct-io=on"]);
    }
    let mounts = mount(&device);
    twins.check("at last");
    mounts.into_iter().for_each(Mount::unmount);
    device.detach();
    server.stop();
    eprintln!(
        "{}: {rounds} rounds, {} files at last; of {} looks at df and where space ends the bare disks parted at {}, ours from \
         both at {}; replicas of {} written, {} given up for the client, {copy_reads} reads from replicas; suspended at {suspended} looks",
        kind.name,
        twins.files.len(),
        twins.looks,
        twins.bare_differed,
        twins.ours_differed,
        seekless_block::Bytes(moved),
        seekless_block::Bytes(yielded),
    );
    assert!(moved > 4 << 20 && yielded > 1 << 20 && copy_reads > 0, "hardly anything happened");
    assert!(suspended > 0, "at 98% replication goes on");

    // Detaching takes less than ten seconds; the bare disk is complete.
    let begun = Instant::now();
    ours(&[&["volume", "detach", image.to_str().unwrap()][..], &beside].concat());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let left = status(&image, &beside);
    assert_eq!((&left["guarded"], &left["drained"]), (&false.into(), &true.into()));
    assert_eq!(left["replicas"]["stained_bytes"], 0);
    run(with(kind.check_file, image.to_str().unwrap()));
    let device = attach(&image, &[]);
    let mounts = mount(&device);
    twins.check("at home, without us");
    while !twins.files.is_empty() {
        twins.delete();
    }
    for root in &roots {
        (0..5).for_each(|d| fs::remove_dir(root.join(format!("d{d}"))).unwrap());
    }
    mounts.into_iter().for_each(Mount::unmount);
    let _mounts = mount(&device);
    twins.compare("with no file left", 0);
    // If one of three equal disks is another than the two others, it is ours as often as each other one.
    let (looks, ours, bare) = (twins.looks, twins.ours_differed, twins.bare_differed);
    assert!(
        ours * 3 <= looks.max(3 * bare),
        "of {looks} looks ours parted from both bare disks at {ours}, these from each other at {bare}"
    );
}

/// Asks for replicas of 8 MiB of files beside the first file: learned replicas depend on idle time
/// of the host. They are in the order of the later reads, so that the head is near them then. A
/// file on another file system is refused.
fn replicate_files(image: &Path, twins: &Twins) {
    if status(image, &[])["replicas"]["suspended"] == true {
        return;
    }
    let path = |file: u64| Twins::path(&twins.roots[0], file).to_str().unwrap().to_owned();
    let image = image.to_str().unwrap();
    let near = path(*twins.files.keys().next().unwrap());
    let mut args = vec!["volume", "replicate", image, "--near", &near, "--json"];
    let (mut bytes, mut names) = (0, Vec::new());
    for (&file, &(len, _)) in twins.files.iter().skip(1) {
        if bytes < 8 << 20 {
            bytes += len as u64;
            names.push(format!("--file={}", path(file)));
        }
    }
    let files: Vec<&str> = names.iter().map(String::as_str).collect();
    let said: Value = serde_json::from_str(&ours(&[&args[..], &files].concat())).unwrap();
    let (asked, most) = (said["asked_bytes"].as_u64().unwrap(), files.len() as u64 * (64 << 10));
    assert!(asked >= bytes && asked < bytes + most, "{bytes} B: {said:#}");
    args.extend(["--file", image]);
    host::refused(seekless().args(args), &["not on this volume"]);
}

/// Waits until requested replicas are written.
fn settle(image: &Path) {
    host::until("nothing moves", 20, || status(image, &[])["moving_bytes"].is_null());
}

/// A disk of 64 MiB with 8 MiB in use.
fn place() -> Place {
    let place = Place::new();
    let disk = File::options().write(true).open(place.disk(64, false)).unwrap();
    disk.write_all_at(&Numbers::new(3).bytes(8 << 20), 0).unwrap();
    place
}

/// Served without a learner: 40 MiB are discarded from 16 MiB on, and replicas of the first 8
/// MiB are there.
fn replicated(place: &Place) -> (Server, Client) {
    place.run("volume format disk.img --at disk.area --replicas 16MiB");
    let (server, mut client) = place.vanilla(&["--cache", "0"]);
    client.trim(16 << 20, 40 << 20).unwrap();
    let said = place.json("volume replicate disk.img --range 0+8MiB --near 32MiB --json");
    for count in ["asked_bytes", "placed_bytes", "standing_bytes"] {
        assert_eq!(said[count], 8 << 20, "{said:#}");
    }
    (server, client)
}

#[test]
fn a_range_is_replicated_where_it_was_asked_for_and_discarded_space_stays_zeroes() {
    let place = place();
    let before = place.bytes("disk.img");
    let (server, mut client) = replicated(&place);
    // The replicas are there side by side, and no client sees them.
    let home = place.bytes("disk.img");
    assert!(home[24 << 20..32 << 20] == before[..8 << 20], "it stands elsewhere");
    assert!(client.read(16 << 20, 16 << 20).unwrap().iter().all(|&b| b == 0));
    assert!(client.read(32 << 20, 16 << 20).unwrap().iter().all(|&b| b == 0));
    let reads = |place: &Place| place.status(&[])["replicas"]["zero_reads"].as_u64().unwrap();
    assert!(reads(&place) >= 2);
    // The head is near the replicas by now.
    client.write(41 << 20, &[1; 4096]).unwrap();
    assert!(client.read(3 << 19, 64 << 10).unwrap() == before[3 << 19..(3 << 19) + (64 << 10)]);
    // The client writes to part of a place, and to the home of another replica.
    client.write((25 << 20) + 512, &[7; 512]).unwrap();
    let page = client.read(25 << 20, 4096).unwrap();
    assert!(page[512..1024] == [7; 512] && page[..512] == [0; 512] && page[1024..] == [0; 3072]);
    client.write(2 << 20, &[9; 4096]).unwrap();
    assert!(client.read(2 << 20, 4096).unwrap() == [9; 4096]);
    // Zeroes that keep their space are data; others count as discarded.
    let free = |place: &Place| place.status(&[])["replicas"]["free_bytes"].as_u64().unwrap();
    let then = free(&place);
    client.write_zeroes(4 << 20, 1 << 20, CommandFlags::NONE).unwrap();
    client.write_zeroes(6 << 20, 1 << 20, CommandFlags::NO_HOLE).unwrap();
    assert_eq!(free(&place), then + (1 << 20));
    drop(client);
    place.refused("volume replicate disk.img --range 63MiB+2MiB --near 0", &["past the end"]);
    let counts = server.stop();
    assert!(counts["copy_reads"].as_u64().unwrap() > 0, "{counts:#}");
    // The contents of discarded pages are not known before the detach.
    place.volume("detach");
    let home = place.bytes("disk.img");
    let mut expected = before;
    expected[2 << 20..][..4096].fill(9);
    expected[4 << 20..5 << 20].fill(0);
    expected[6 << 20..7 << 20].fill(0);
    expected[41 << 20..][..4096].fill(1);
    expected[(25 << 20) + 512..][..512].fill(7);
    assert!(home == expected, "home differs from what the client wrote");
}

#[test]
fn a_volume_with_replicas_is_looked_into_mended_drained_and_divided_anew() {
    let place = place();
    let before = place.bytes("disk.img");
    let (mut server, client) = replicated(&place);
    for verb in ["check", "repair", "dump", "resize"] {
        place.volume_refuses(verb, &["a server serves this volume"]);
    }
    drop(client);
    server.kill();
    drop(server);
    let held = || (place.bytes("disk.img"), fs::read(place.path("disk.area")));
    let was = held();
    assert!(was.0.starts_with(b"SEEKLESS"), "it is not guarded");
    let left = place.status(&BESIDE);
    assert_eq!(left["replicas"]["stained_bytes"], 8 << 20, "{left:#}");
    assert_eq!((&left["in_doubt_bytes"], &left["drained"]), (&(8 << 20).into(), &false.into()));
    assert!(place.volume("check --data").contains("sound"));
    let dump = place.json("volume dump --json disk.img --area disk.area");
    assert_eq!((&dump["free"], &dump["stained"]), (&(40 << 11).into(), &(8 << 11).into()));
    place.volume_refuses("resize", &["not drained"]);
    // Read as with its area; writes nothing.
    let (rescue, mut client) = place.rescue();
    for mib in 0..64 {
        let found = client.read(mib << 20, 1 << 20).unwrap();
        assert!(found == before[(mib as usize) << 20..][..1 << 20], "MiB {mib}");
    }
    drop((client, rescue));
    assert!(held().0 == was.0 && held().1.unwrap() == was.1.unwrap(), "rescuing wrote something");
    place.volume("repair");

    // Proven and used, drained, and in use again by a client.
    let said = place.volume("prove");
    assert!(said.starts_with("proven: 8 MiB of 8 MiB in") && said.contains("; 0 B were"), "{said}");
    let (server, mut client) = place.vanilla(&["--cache", "0"]);
    assert_eq!(place.status(&[])["in_doubt_bytes"], 0, "the server compares them once more");
    assert_eq!(place.status(&[])["copied_bytes"], 8 << 20);
    assert_eq!(place.run("volume prove disk.img").trim(), "no copy was in doubt");
    place.run("volume drain disk.img");
    assert!(place.bytes("disk.img") == before, "drained, home is another");
    let now = place.status(&[]);
    assert_eq!((&now["drained"], &now["copied_bytes"]), (&true.into(), &0.into()), "{now:#}");
    let again = "volume replicate disk.img --range 0+1MiB --near 20MiB --json";
    let said = place.json(again);
    assert_eq!(said["placed_bytes"], 0, "nothing is replicated after a drain: {said:#}");
    place.run("volume mode writeback disk.img");
    let said = place.json(again);
    assert_eq!(said["standing_bytes"], 1 << 20, "{said:#}");
    client.write(10 << 20, &[4; 1 << 20]).unwrap();
    client.flush().unwrap();
    assert_eq!(place.status(&[])["dirty_bytes"], 1 << 20, "the write buffer is not used");
    place.run("volume mode writethrough disk.img");
    let now = place.status(&[]);
    assert_eq!((&now["guarded"], &now["dirty_bytes"]), (&true.into(), &0.into()), "{now:#}");
    end_both(server, client);
    place.volume_refuses("resize", &["seekless volume drain", "nothing was changed"]);
    place.volume("detach");
    for size in ["20MiB", "40MiB"] {
        place.volume(&format!("resize --optimized {size}"));
    }
    let left = place.status(&BESIDE);
    assert_eq!(left["area_bytes"], 40 << 20);
    assert_eq!(left["replicas"]["free_bytes"], 0);

    // A damaged free map is not replaced by a guess.
    let (server, mut client) = place.vanilla(&[]);
    client.trim(16 << 20, 1 << 20).unwrap();
    end_both(server, client);
    let dump = place.json("volume dump --json disk.img --area disk.area");
    let s = |name: &str| dump["superblock"][name].as_u64().unwrap();
    let slots = (s("read_segments") + s("log_segments")) * s("segment_pages");
    let page = 2 + 2 * (1 + slots.div_ceil(337)) + s("checkpoint_slot") * s("free_map_pages");
    let file = File::options().write(true).open(place.path("disk.area")).unwrap();
    file.write_all_at(&[0x55; 64], page * 4096 + 100).unwrap();
    for verb in ["serve disk.img --nbd unix:x.sock", "volume check disk.img"] {
        place.refused(&format!("{verb} --area disk.area"), &["free map", "damaged"]);
    }
    let before = place.bytes("disk.area");
    place.volume_refuses("repair", &["nothing was written", "--lose-data"]);
    assert!(place.bytes("disk.area") == before);
    let said = place.volume("repair --lose-data");
    assert!(said.contains("no page counts as discarded any more"), "{said}");
    let (server, client) = place.vanilla(&[]);
    assert_eq!(place.status(&[])["replicas"]["free_bytes"], 0);
    end_both(server, client);
    place.volume("detach");
    assert!(place.volume("check --data").contains("sound"));
}

#[test]
fn a_repair_hides_nothing_that_another_program_wrote_over_a_guard_and_in_free_space() {
    let place = place();
    let (mut server, client) = replicated(&place);
    drop(client);
    server.kill();
    drop(server);
    let disk = File::options().read(true).write(true).open(place.path("disk.img")).unwrap();
    // As a repair of the file system would.
    disk.write_all_at(&[5; 512], 1024).unwrap();
    disk.write_all_at(&[6; 8192], 20 << 20).unwrap();
    place.volume_refuses("repair", &["over the guard"]);
    let said = place.volume("repair --lose-data");
    assert!(said.contains("another program") && said.contains("given up"), "{said}");
    let (server, mut client) = place.vanilla(&[]);
    assert!(client.read(20 << 20, 8192).unwrap() == [6; 8192]);
    assert_eq!(place.status(&[])["replicas"]["free_bytes"], 0);
    end_both(server, client);
    place.volume("detach");
    assert!(place.bytes("disk.img")[20 << 20..][..8192] == [6; 8192]);
}

#[test]
fn what_was_written_without_us_is_never_taken_for_free() {
    let place = place();
    let (mut server, client) = replicated(&place);
    drop(client);
    // After a drain the guard is down; then the server is killed.
    place.run("volume drain disk.img");
    assert!(place.status(&[])["replicas"]["free_bytes"].as_u64().unwrap() >= 40 << 20);
    server.kill();
    drop(server);
    let disk = File::options().read(true).write(true).open(place.path("disk.img")).unwrap();
    disk.write_all_at(&[6; 8192], 20 << 20).unwrap();
    let (server, mut client) = place.vanilla(&[]);
    assert!(client.read(20 << 20, 8192).unwrap() == [6; 8192]);
    assert_eq!(place.status(&[])["replicas"]["free_bytes"], 0);
    client.trim(40 << 20, 8 << 20).unwrap();
    end_both(server, client);
    // The same after an orderly end; a repair does not prove home.
    place.volume("detach");
    disk.write_all_at(&[7; 8192], 41 << 20).unwrap();
    place.volume("repair");
    let (server, mut client) = place.vanilla(&[]);
    assert!(client.read(41 << 20, 8192).unwrap() == [7; 8192]);
    assert_eq!(place.status(&[])["replicas"]["free_bytes"], 0);
    end_both(server, client);
}

#[test]
fn replicas_stand_on_both_sides_of_an_area_on_the_same_disk() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    File::create(&image).unwrap().set_len(256 * MIB).unwrap();
    let name = image.to_str().unwrap();
    let said = ours(&["volume", "format", name, "--replicas", "16MiB"]);
    let (_, at) = said.rsplit_once("sector ").expect("where the area is");
    let at: u64 = at.split(':').next().unwrap().parse().unwrap();
    let middle = at << 9;
    let size = status(&image, &[])["size_bytes"].as_u64().unwrap();
    let serve = || serve(dir.path(), &image, &["--policy", "vanilla", "--cache", "0"]);
    let data = Numbers::new(4).bytes(8 << 20);
    let first = middle / MIB * MIB - 4 * MIB;
    let (mut server, mut client) = serve();
    for (i, piece) in (0..).zip(data.chunks(1 << 20)) {
        client.write(i * MIB, piece).unwrap();
    }
    client.trim(first, 8 << 20).unwrap();
    client.trim(size / MIB * MIB - 60 * MIB, 60 << 20).unwrap();
    client.flush().unwrap();
    let near = first.to_string();
    let line = format!("volume replicate {name} --range 0+8MiB --near {near} --json");
    let said = host::json(seekless().args(words(&line)));
    assert_eq!(said["standing_bytes"], 8 * MIB, "{said:#}");
    // Side by side, except for the area between them.
    let raw = || fs::read(&image).unwrap();
    let home = raw();
    let behind = (data.len() >> 12..).zip(home[data.len()..].chunks(4096));
    let at: BTreeMap<&[u8], usize> = behind.map(|(at, page)| (page, at)).collect();
    let places: Vec<usize> = data.chunks(4096).map(|page| at[page]).collect();
    let gaps: Vec<usize> =
        places.windows(2).map(|two| two[1] - two[0]).filter(|&gap| gap != 1).collect();
    assert!(gaps.len() == 1 && gaps[0] > (32 << 20) >> 12, "{first}: {gaps:?}");
    drop(client);
    server.kill();
    drop(server);

    let (server, mut client) = serve();
    // The server may have proven them already.
    ours(&["volume", "prove", name]);
    assert_eq!(status(&image, &[])["in_doubt_bytes"], 0);
    assert_eq!(status(&image, &[])["copied_bytes"], 8 * MIB);
    // The head is near them: reads use them on both sides, and the client does not see them.
    client.write(first + 8 * MIB, &[1; 4096]).unwrap();
    for at in (0..8).rev().map(|mib| mib * MIB + MIB / 2) {
        let found = client.read(at, 64 << 10).unwrap();
        assert!(found == data[at as usize..][..64 << 10], "at {at}");
    }
    assert!(client.read(first, 8 << 20).unwrap().iter().all(|&b| b == 0));
    // The client writes to a page on each side.
    for page in [first + 4096, first + 8 * MIB - 4096] {
        client.write(page, &[6; 4096]).unwrap();
    }
    assert!(client.read(0, 8 << 20).unwrap() == data);
    client.flush().unwrap();
    drop(client);
    assert!(server.stop()["copy_reads"].as_u64().unwrap() > 0);
    ours(&["volume", "detach", name]);
    let home = raw();
    for (i, &place) in places.iter().enumerate() {
        let taken = i == 1 || i == places.len() - 1;
        let expected = if taken { [6; 4096] } else { [0; 4096] };
        assert!(home[place << 12..][..4096] == expected, "page {i} of the replicas' places");
    }
    // The first MiB belongs to seekless: it names the area.
    assert!(home[1 << 20..][..data.len()] == data);
}

#[test]
fn a_large_disk_gets_replicas_and_loses_them_in_seconds() {
    let place = place();
    let file = File::options().write(true).open(place.path("disk.img")).unwrap();
    file.set_len(4 << 40).unwrap();
    let begun = Instant::now();
    place.run("volume format disk.img --at disk.area --replicas 8GiB");
    let (server, mut client) = place.vanilla(&[]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // As fstrim does, in the pieces of the kernel.
    for gib in 1..4096 {
        client.trim(gib << 30, 1 << 30).unwrap();
    }
    place.run("volume replicate disk.img --range 0+8MiB --near 3000GiB");
    end_both(server, client);
    let begun = Instant::now();
    place.volume("detach");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
