//! `seekless serve --observe`: what two threads read in turns is learned as two sequences where the kernel's
//! trace tells who asks, and as one where nobody does; nothing is counted twice. What was learned
//! is read from the `--state` file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use rustix::fs::OFlags;
use seekless_block::{Bytes, Sectors};
use seekless_learn::{ACCESS, AccessGraph, PlanConfig, Planning, Reach, Strategy, Vertex, plan};

use crate::host::{self, Loop, Mount, Numbers, Server, attempt, run, run_line};
use crate::need;
use crate::record::recording;

/// Places in each file, and times that each is read.
const PLACES: u64 = 16;
const ROUNDS: u32 = 4;
const FILE: usize = 4 << 20;
const PAGE: u64 = 4096;

/// The graph that a server left behind.
fn learned(state: &Path) -> AccessGraph {
    AccessGraph::decode(&std::fs::read(state).unwrap(), Bytes(0), 1 << 20).unwrap().graph
}

/// The first sector on the disk of each page of a file.
fn sectors_of(file: &Path) -> BTreeMap<u64, u64> {
    let text = run(["filefrag".as_ref(), "-b4096".as_ref(), "-v".as_ref(), file.as_os_str()]);
    let mut pages = BTreeMap::new();
    for line in text.lines() {
        let numbers: Vec<u64> =
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        // "0:   0..  1023:  34816..  35839:  1024:": number, logical, physical, length.
        if let [_, from, to, at, ..] = numbers[..]
            && line.contains("..")
        {
            pages.extend((from..=to).map(|page| (page, (at + page - from) * 8)));
        }
    }
    assert_eq!(pages.len(), FILE / PAGE as usize, "{text}");
    pages
}

/// Reads a page of a file that was opened to go past the page cache.
fn read_page(file: &File, page: u64) {
    let mut room = vec![0; 2 * PAGE as usize];
    let from = room.as_ptr().align_offset(PAGE as usize);
    file.read_exact_at(&mut room[from..][..PAGE as usize], page * PAGE).unwrap();
}

/// Two threads read one page each in turns, each its own places in its own order, again and again.
fn read_in_turns(files: [&File; 2], places: [&[u64]; 2]) {
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|who| {
            let (go, come) = sync_channel::<u64>(0);
            let (done, over) = sync_channel(0);
            scope.spawn(move || {
                for page in come {
                    read_page(files[who], page);
                    done.send(()).unwrap();
                }
            });
            (go, over)
        });
        for _ in 0..ROUNDS {
            for (a, b) in places[0].iter().zip(places[1]) {
                for ((go, over), page) in readers.iter().zip([a, b]) {
                    go.send(*page).unwrap();
                    over.recv().unwrap();
                }
            }
        }
    });
}

/// A server of a file, and where its parts lie.
struct Case {
    dir: tempfile::TempDir,
    server: Server,
    file: PathBuf,
    state: PathBuf,
    device: PathBuf,
}

impl Case {
    /// The device it observes is not there yet.
    fn start(observes: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (image, file, state, device) =
            (path("disk.img"), path("volume"), path("state"), path("device"));
        let observe = format!("--observe={}", device.display());
        let observe = if observes { observe.as_str() } else { "" };
        let args = "--size=256MiB --policy=borg --cache=0 --learn-every=1d";
        let args = format!("{args} --state={} {observe}", state.display());
        let server = Server::line(dir.path(), &image, Some(&file), &args);
        Self { dir, server, file, state, device }
    }

    fn attach(&self, options: &[&str]) -> Loop {
        let disk = Loop::attach(&self.file, &[&["--direct-io=on"], options].concat());
        let _ = attempt(["udevadm", "settle"]);
        disk
    }
}

/// What is learned of two threads, as the vertices of their places and the order that a plan gives
/// these: for each copy of such a place, whose it is.
fn learn(observes: bool) -> (Vec<Vertex>, Vec<usize>, String) {
    let case = Case::start(observes);
    let disk = case.attach(&[]);
    if observes {
        symlink(disk.device(), &case.device).unwrap();
        case.server.expect("streams: each thread's its own, observed on ");
    }
    let lazy = "lazy_itable_init=0,lazy_journal_init=0";
    run_line(&format!("mkfs.ext4 -q -b 4096 -E {lazy} {}", disk.device()));
    let point = case.dir.path().join("fs");
    std::fs::create_dir(&point).unwrap();
    let mount = Mount::new(disk.device(), &point, "noatime");
    let mut numbers = Numbers::new(11);
    let paths = ["a", "b"].map(|name| point.join(name));
    for path in &paths {
        std::fs::write(path, numbers.bytes(FILE)).unwrap();
        File::open(path).unwrap().sync_all().unwrap();
    }
    let direct = OFlags::DIRECT.bits().cast_signed();
    let open = |path: &PathBuf| File::options().read(true).custom_flags(direct).open(path).unwrap();
    let files = [open(&paths[0]), open(&paths[1])];
    // Far apart enough that no two places touch.
    let places = [0, 1].map(|_| {
        let mut pages: Vec<u64> = (0..PLACES).map(|i| i * 64 + numbers.below(60)).collect();
        for i in (1..pages.len()).rev() {
            pages.swap(i, numbers.below(i as u64 + 1) as usize);
        }
        pages
    });
    let homes: Vec<BTreeMap<u64, u64>> = paths.iter().map(|p| sectors_of(p)).collect();
    read_in_turns([&files[0], &files[1]], [&places[0], &places[1]]);
    drop(files);
    mount.unmount();
    disk.detach();
    let state = case.state.clone();
    let said = case.server.said();
    let said = format!("{said:?}, {}", case.server.stop());

    let owner: BTreeMap<u64, usize> = (0..2)
        .flat_map(|w| places[w].iter().map(move |p| (w, *p)))
        .map(|(w, p)| (homes[w][&p], w))
        .collect();
    assert_eq!(owner.len() as u64, 2 * PLACES);
    let graph = learned(&state);
    let vertices = graph.snapshot().0;
    let vertices = vertices.into_iter().filter(|v| owner.contains_key(&v.extent.start.0)).collect();
    let area = Bytes(256 << 20).sectors_ceil();
    let config = PlanConfig {
        area,
        min_weight: 0,
        strategy: Strategy::default(),
        planning: Planning::Anew,
        reach: Reach::new(Bytes(0), Bytes(0)),
    };
    let plan = plan(&graph, &config);
    let order = plan.copies.iter().filter_map(|c| owner.get(&c.home.start.0).copied()).collect();
    (vertices, order, said)
}

#[test]
fn two_threads_in_turns_are_two_sequences_where_they_are_observed() {
    let tools = || host::lacks("fuse ext4 mkfs.ext4 filefrag mount umount");
    need!("observe", recording().or_else(tools));
    for observes in [false, true] {
        let (vertices, order, said) = learn(observes);
        // Each place was seen as often as it was read: by one of the two ways, and by no more.
        assert!(observes || vertices.len() as u64 == 2 * PLACES, "{vertices:?}");
        for v in &vertices {
            let once = v.extent.len == Sectors(8) && v.reads <= ROUNDS * ACCESS;
            assert!(once, "counted twice, {observes}: {v:?}: {said}");
        }
        let seen: u64 = vertices.iter().map(|v| u64::from(v.reads)).sum();
        let all = 2 * PLACES * u64::from(ROUNDS * ACCESS);
        assert!(observes || seen == all, "{seen} of {all}");
        if seen * 100 < all * 95 {
            println!(
                "SKIPPED the order of observed threads: {seen} of {all} seen, too much else is going on: {said}"
            );
            continue;
        }
        assert_eq!(order.len() as u64, 2 * PLACES, "{observes}");
        let changes = order.windows(2).filter(|w| w[0] != w[1]).count();
        if observes {
            assert!(changes <= 1, "one thread's places lie amid the other's: {order:?}");
        } else {
            assert!(changes as u64 > PLACES, "nobody could tell them apart: {order:?}");
        }
    }
}

#[test]
fn a_partition_is_found_at_its_place_on_the_volume() {
    need!("observe: partitions", recording().or_else(|| host::lacks("fuse addpart")));
    let case = Case::start(true);
    let disk = case.attach(&["-P"]);
    let added = attempt(["addpart", disk.device(), "2", "40960", "40960"]);
    need!("observe: partitions", (!added.status.success()).then(|| format!("{added:?}")));
    symlink(format!("{}p2", disk.device()), &case.device).unwrap();
    case.server.expect("streams: each thread's its own, observed on ");
    let rest = "of=/dev/null bs=4096 skip=7 count=1 iflag=direct status=none";
    run_line(&format!("dd if={} {rest}", case.device.display()));
    // Outside of it: not what was asked for.
    run_line(&format!("dd if={} {rest}", disk.device()));
    run(["delpart", disk.device(), "2"]);
    // The device is gone, and requests count as they come again.
    case.server.expect("streams: all requests are one (waiting for ");
    disk.detach();
    let state = case.state.clone();
    case.server.stop();
    let read: Vec<u64> = learned(&state).snapshot().0.iter().map(|v| v.extent.start.0).collect();
    assert!(read.contains(&(40_960 + 7 * 8)), "{read:?}");
    assert!(!read.contains(&(7 * 8)), "{read:?}");
}

/// Loop devices' numbers go from hand to hand.
#[test]
fn another_disk_under_the_same_number_is_not_learned_from() {
    need!("observe: another disk", recording().or_else(host::fuse));
    let case = Case::start(true);
    let other = case.dir.path().join("other.img");
    File::create(&other).unwrap().set_len(255 << 20).unwrap();
    let disk = case.attach(&[]);
    let name = disk.device().to_owned();
    symlink(&name, &case.device).unwrap();
    case.server.expect("streams: each thread's its own, observed on ");
    let read = |skip: u64| {
        let rest = "of=/dev/null bs=4096 count=1 iflag=direct status=none";
        attempt(host::words(&format!("dd if={name} skip={skip} {rest}"))).status.success()
    };
    assert!(read(7));
    // Before the server looks whether its device is there; or another was quicker to get the
    // number.
    disk.detach();
    let again = attempt(["losetup".as_ref(), name.as_ref(), other.as_os_str()]);
    let attached = again.status.success().then(|| Loop(name.clone()));
    let read_other = attached.is_some() && read(9);
    need!("observe: another disk", (!read_other).then(|| "its number was taken".to_owned()));
    case.server.expect("streams: all requests are one (waiting for ");
    drop(attached);
    let state = case.state.clone();
    case.server.stop();
    // Nothing at all may have been learned.
    let vertices = if state.exists() { learned(&state).snapshot().0 } else { Vec::new() };
    assert!(vertices.iter().all(|v| v.extent.start.0 != 9 * 8), "{vertices:?}");
}

#[test]
fn what_cannot_be_observed_is_refused_or_said() {
    need!("observe: refusals", recording().or_else(|| host::lacks("setpriv")));
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let other = dir.path().join("other.img");
    File::create(&other).unwrap().set_len(2 << 20).unwrap();
    let disk = Loop::attach(&other, &[]);
    let serve = |backing: &str, device: &str, words: &[&str]| {
        let mut command = host::seekless();
        command.current_dir(dir.path()).args(["serve", backing, "--nbd=unix:s", "--area-dir=."]);
        command.arg("--policy=borg");
        host::refused(command.args(["--observe", device]), words);
    };
    serve("disk.img", ".", &["a folder", "lsblk"]);
    serve(disk.device(), disk.device(), &["the device that clients use"]);
    // Nobody in particular may not trace, and is told before anything is served.
    let program = env!("CARGO_BIN_EXE_seekless");
    let user = ["setpriv", "--reuid=65534", "--clear-groups", program, "serve"];
    let open = tempfile::tempdir().unwrap();
    run(["chmod", "777", open.path().to_str().unwrap()]);
    let (new, nbd) = (open.path().join("disk.img"), open.path().join("s"));
    let (new, nbd) = (new.to_str().unwrap(), format!("unix:{}", nbd.display()));
    let rest = [new, "--policy=borg", "--size=1MiB", "--nbd", &nbd, "--observe", "/dev/nowhere"];
    let output = attempt(user.into_iter().chain(rest));
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("failed to execute") {
        eprintln!("SKIPPED observe: without root: {program} is out of reach for others");
    } else {
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("/dev/nowhere") && said.contains("CAP_SYS_ADMIN"), "{said}");
        assert_eq!(std::fs::read_dir(open.path()).unwrap().count(), 0, "it left something");
    }
    // Another device's size: it may yet become the right one.
    let observe = format!("--observe={}", disk.device());
    let server =
        Server::start(dir.path(), &image, None, &["--nbd=unix:s", "--policy=borg", &observe]);
    server.expect("streams: all requests are one (waiting for ");
    server.stop();
}
