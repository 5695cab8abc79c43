//! File systems on a volume whose server is killed during writes and moves. The next server
//! recovers the area, the file system its journal, and everything durable must be complete: files,
//! blocks written in place, a git repository. The host's page cache outlives a server, so this is
//! not a power cut; the simulator enumerates those. Two kills each, twelve with SEEKLESS_LONG=1, N
//! with SEEKLESS_KILLS=N.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::PROGRAM;
use crate::host::{
    self, BTRFS, EXT4, Kind, Loop, Mount, Numbers, Server, XFS, attempt, run, run_line, seekless,
    status, with,
};
use crate::need;
use crate::workloads::{Blocks, Disk, Files, Fio, Git, Workload};

/// Tests of a file system, of the mode of its volume, and of what moves data. In the short form,
/// each mode meets each mover on one file system.
macro_rules! survivors {
    ($(fn $name:ident: $kind:ident, $mode:literal, $world:ident $(, $form:ident)?;)*) => {
        $(#[test]
        fn $name() {
            $(need!("kills under a file system", host::$form());)?
            survives(&$kind, $mode, World::$world);
        })*
    };
}

survivors! {
    fn ext4_survives_kills_with_writes_absorbed: EXT4, "writeback", Plan;
    fn ext4_survives_kills_with_writes_passed_on: EXT4, "writethrough", Plan, long;
    fn xfs_survives_kills_with_writes_absorbed: XFS, "writeback", Plan, long;
    fn xfs_survives_kills_with_writes_passed_on: XFS, "writethrough", Plan;
    fn btrfs_survives_kills_with_writes_absorbed: BTRFS, "writeback", Plan, long;
    fn btrfs_survives_kills_with_a_trail_and_writes_passed_on: BTRFS, "writethrough", Trail, long;
    fn ext4_survives_kills_with_replicas_in_what_it_discards: EXT4, "writethrough", Replicas;
    fn xfs_survives_kills_with_replicas_and_writes_absorbed: XFS, "writeback", Replicas;
    fn ext4_survives_kills_with_a_trail_and_writes_passed_on: EXT4, "writethrough", Trail;
    fn xfs_survives_kills_with_a_trail_and_writes_absorbed: XFS, "writeback", Trail;
}

/// What moves data while the server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum World {
    Plan,
    Replicas,
    Trail,
}

/// Reads places of the volume again and again, in the same order, until the server is gone: what
/// the workloads write is appended to the trail.
fn read_on(volume: &Path, size: u64, seed: u64) {
    let file = File::open(volume).unwrap();
    let mut numbers = Numbers::new(seed);
    // The first of the disk holds what the workloads use.
    let places: Vec<u64> = (0..800).map(|_| numbers.below(size / 4 / 4096) * 4096).collect();
    let mut page = [0; 4096];
    let mut read = |at| file.read_exact_at(&mut page, at).is_ok();
    while places.iter().all(|&at| read(at)) {}
}

/// Makes the file system. mkfs.btrfs looks at all mounts of the host, and stops at one that is dead
/// just now in another test.
fn make(kind: &Kind, device: &str) {
    let command = with(kind.make, device);
    for _ in 0..if kind.name == "btrfs" { 40 } else { 0 } {
        if attempt(&command).status.success() {
            return;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    run(command);
}

/// In write-through without replicas home is complete at any moment: the recovered volume reads as
/// the image does.
fn reads_as_home(volume: &Path, image: &Path, what: &str) {
    const PIECE: usize = 1 << 20;
    let (volume, image) = (File::open(volume).unwrap(), File::open(image).unwrap());
    let (mut seen, mut home) = (vec![0; PIECE], vec![0; PIECE]);
    for at in (0..image.metadata().unwrap().len()).step_by(PIECE) {
        volume.read_exact_at(&mut seen, at).unwrap();
        image.read_exact_at(&mut home, at).unwrap();
        let differs = seen.chunks(512).zip(home.chunks(512)).position(|(a, b)| a != b);
        let sector = differs.map(|i| at / 512 + i as u64);
        assert_eq!(sector, None, "{what}: this sector of the volume is not as at home");
    }
}

/// If the test fails, prints the kernel's last messages. They show whether a file system called data
/// durable after its disk had failed.
struct KernelLog;

impl Drop for KernelLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = attempt(["dmesg"]);
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let last = said.lines().count().saturating_sub(80);
            eprintln!("{}", said.lines().skip(last).collect::<Vec<_>>().join("\n"));
        }
    }
}

fn kills() -> u64 {
    host::rounds("SEEKLESS_KILLS", 2, 12)
}

/// Bytes moved since the server's start, and whether a move is in progress.
fn moves(image: &Path) -> (u64, bool) {
    let said = status(image, &[]);
    (said["moved_bytes"].as_u64().unwrap(), !said["moving_bytes"].is_null())
}

/// True if the server has moved something, and, with `replicas`, a replica exists.
fn has_moved(image: &Path, replicas: bool) -> bool {
    let said = status(image, &[]);
    said["moved_bytes"].as_u64().unwrap() > 0
        && (!replicas || said["replicas"]["stained_bytes"].as_u64().unwrap() > 0)
}

fn survives(kind: &'static Kind, mode: &str, world: World) {
    need!("kills under a file system", kind.missing(&["git"]));
    let _told = KernelLog;
    let replicas = world == World::Replicas;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, volume, root) = (path("disk.img"), path("volume"), path("root"));
    fs::create_dir(&root).unwrap();
    File::create(&image).unwrap().set_len(kind.size).unwrap();
    let area = path("disk.area");
    let sizes = if replicas { "8MiB --replicas 24MiB" } else { "24MiB" };
    let at = format!("{} --at {} --mode {mode}", image.display(), area.display());
    run_line(&format!("{PROGRAM} volume format {at} --optimized {sizes}"));
    let start = || {
        // The policy that spends most, or the plan that moves most.
        let policy = match world {
            World::Plan => "borg:planning=anew",
            World::Replicas => "fs2",
            World::Trail => "adaptive",
        };
        // The trail pays where reads take time.
        let disk = if world == World::Trail { "--disk wd800jb,speed=200" } else { "" };
        let args = format!("--area {} --policy {policy} {disk}", area.display());
        let more = "--learn-every 200ms --background-rate 30MiB/s --cache 1MiB";
        Server::line(dir.path(), &image, Some(&volume), &format!("{args} {more}"))
    };
    let seed = host::seed();
    let mut numbers = Numbers::new(seed);
    let options = if replicas { "noatime,discard" } else { "noatime" };
    let mut server = start();
    let mut device = Loop::attach(&volume, &["--direct-io=on"]);
    make(kind, device.device());
    let mount = Mount::new(device.device(), &root, options);
    let disk = Disk::new(&volume);
    let mut workloads: Vec<Box<dyn Workload>> = vec![
        Box::new(Files::new(&root, &disk)),
        Box::new(Blocks::new(&root, &disk, seed)),
        Box::new(Git::new(&root, &disk)),
    ];
    if host::programs(&["fio"]).is_none() {
        workloads.push(Box::new(Fio::new(&root)));
    }
    mount.unmount();
    let (mut moved, mut rounds_moved, mut amid) = (0, 0, 0);
    let mut stained = 0;
    for kill in 0..kills() {
        let mount = Mount::new(device.device(), &root, options);
        let steps: Vec<_> = workloads.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let threads: Vec<_> = workloads
            .drain(..)
            .zip(&steps)
            .map(|(mut w, steps)| {
                let steps = Arc::clone(steps);
                std::thread::spawn(move || {
                    let ended = loop {
                        match w.step() {
                            Ok(()) => steps.fetch_add(1, SeqCst),
                            Err(e) => break e,
                        };
                    };
                    (w, ended)
                })
            })
            .collect();
        // At any moment, once each of the first three has durable data; fio may need longer.
        let begun = Instant::now();
        while steps.iter().take(3).any(|s| s.load(SeqCst) == 0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing goes on");
            assert!(threads.iter().any(|t| !t.is_finished()), "everything ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        let reader = (world == World::Trail).then(|| {
            let (volume, seed) = (volume.clone(), seed + kill);
            std::thread::spawn(move || read_on(&volume, kind.size, seed))
        });
        // The workloads read little, so this gives the server something to move.
        let ask = |numbers: &mut Numbers| {
            let mut mib = |most: u64| format!("{}MiB", numbers.below(most));
            let (range, near) = (format!("{}+12MiB", mib(100)), mib(140));
            let mut command = seekless();
            command
                .args(["volume", "replicate"])
                .arg(&image)
                .args(["--range", &range, "--near", &near]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut asked = replicas.then(|| ask(&mut numbers));
        // Every second kill waits for a move: the server spares busy clients for seconds. The wait
        // is the last step before the kill, because a replica may soon be given up for a client.
        std::thread::sleep(Duration::from_millis(numbers.below(1500)));
        let begun = Instant::now();
        while kill % 2 == 0 && !has_moved(&image, replicas) {
            let late = begun.elapsed() > Duration::from_secs(60);
            assert!(!late, "nothing is moved: {:#}", status(&image, &[]));
            // The workloads are random: the guard may have ended all moves of this day.
            if status(&image, &[])["adaptive"]["guard"]["bypassing"] == true {
                break;
            }
            assert!(threads.iter().all(|t| !t.is_finished()), "a workload ended before the kill");
            // There may have been no room near that place.
            if let Some(asked) = &mut asked
                && asked.try_wait().unwrap().is_some()
            {
                *asked = ask(&mut numbers);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let (bytes, moving) = moves(&image);
        std::thread::sleep(Duration::from_micros(numbers.below(50_000)));
        let early: Vec<usize> = (0..threads.len()).filter(|&i| threads[i].is_finished()).collect();
        server.kill();
        if let Some(reader) = reader {
            reader.join().unwrap();
        }
        if let Some(mut asked) = asked {
            asked.wait().unwrap();
            let left = status(&image, &["--area", area.to_str().unwrap()]);
            assert_eq!(left["guarded"], true, "the bare disk could be mounted: {left:#}");
            stained += u64::from(left["replicas"]["stained_bytes"].as_u64().unwrap() > 0);
        }
        moved += bytes;
        rounds_moved += u64::from(bytes > 0);
        amid += u64::from(moving);
        for (i, thread) in threads.into_iter().enumerate() {
            let (workload, ended) = thread.join().unwrap();
            assert!(!early.contains(&i), "{} ended before the kill: {ended}", workload.count());
            workloads.push(workload);
        }
        drop(mount);
        // Otherwise XFS refuses the next mount: it knows this file system under another device.
        host::let_go(device.device());
        drop(device);
        drop(server);

        server = start();
        if mode == "writethrough" && !replicas {
            reads_as_home(&volume, &image, &format!("{}, seed {seed}, kill {kill}", kind.name));
        }
        device = Loop::attach(&volume, &["--direct-io=on"]);
        // Recovers the journal. The server learns from these reads.
        let mount = Mount::new(device.device(), &root, options);
        for workload in &mut workloads {
            workload.check(&format!("{} {mode}, seed {seed}, kill {kill}", kind.name));
        }
        mount.unmount();
        let checked = attempt(with(kind.check, device.device()));
        if !checked.status.success() {
            if let Ok(keep) = std::env::var("SEEKLESS_KEEP") {
                let (image, area, seen) = (image.display(), area.display(), device.device());
                run_line(&format!("cp --sparse=always {image} {area} {keep}"));
                run_line(&format!("cp --sparse=always {seen} {keep}/seen.img"));
            }
            let said = [&checked.stdout[..], &checked.stderr[..]].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            // In write-through home is always complete: is home wrong?
            let bare = attempt(with(kind.check, image.to_str().unwrap()));
            let bare = String::from_utf8_lossy(&bare.stdout).into_owned();
            panic!("{} {mode}, kill {kill}: {said}\nhome by itself: {bare}", kind.name);
        }
    }
    device.detach();
    let counts = server.stop();
    moved += counts["moved_bytes"].as_u64().unwrap();
    // Everything is at home: the bare disk is a complete file system.
    assert!(!replicas || stained > 0, "no replica stood at any kill");
    let beside = format!("{} --area {}", image.display(), area.display());
    run_line(&format!("{PROGRAM} volume detach {beside}"));
    let device = Loop::attach(&image, &[]);
    run(with(kind.check, device.device()));
    let mount = Mount::new(device.device(), &root, options);
    let mut done = Vec::new();
    for workload in &mut workloads {
        workload.check("at home");
        done.push(workload.count());
    }
    mount.unmount();
    eprintln!(
        "{} {mode}: {} survived {} kills; {} moved in {rounds_moved} rounds before their kills, {amid} killed amid a move",
        kind.name,
        done.join(", "),
        kills(),
        seekless_block::Bytes(moved),
    );
    // Both of two kills may come early.
    let least = if kills() < 20 { 0 } else { 1 << 20 };
    assert!(moved > least, "hardly anything was moved: {moved}");
    assert!(rounds_moved > 0, "nothing was moved before any kill");
}
