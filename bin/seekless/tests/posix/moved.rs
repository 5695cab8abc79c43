//! A file that moves between the two modules is the same file: what clients see of it before and
//! afterwards, what they hold open meanwhile, and programs that run from it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;

use rustix::fs::{FallocateFlags, OFlags, XattrFlags, fallocate, ftruncate, link, setxattr};
use rustix::io::Errno;

use crate::case::{ALICE, Facts, chmod, chown, difference, later, open};
use crate::ground::{Ground, RESTLESS, shuffle, text};
use crate::host::{self, Numbers, run};
use crate::need;
use crate::sys::Map;

fn facts(path: &Path) -> Facts {
    Facts::of(rustix::fs::lstat(path).unwrap())
}

/// What a client may compare; the blocks are where it is stored, the time of access its own doing.
fn seen(path: &Path) -> (Facts, Vec<u8>) {
    let names = {
        let mut names = vec![0; 4_096];
        let n = rustix::fs::listxattr(path, &mut names[..]).unwrap();
        names[..n].to_vec()
    };
    (Facts { blocks: 0, atime: 0, ..facts(path) }, names)
}

/// Reads and shuffles until so many files are in groups: the kernel tells that a file was closed,
/// or a program's end, a little after it was.
fn until_grouped(ground: &Ground, read: Option<&Path>, enough: impl Fn(u64) -> bool) {
    host::until("files move", 30, || {
        let is_enough = enough(ground.state()["grouped_files"].as_u64().unwrap());
        if !is_enough {
            if let Some(path) = read {
                fs::read(path).unwrap();
            }
            assert!(shuffle(&ground.root()));
        }
        is_enough
    });
}

/// Each open by another client could make the kernel drop its cache, and a read could then bring back
/// bytes from before a write that is on its way.
#[test]
fn a_write_is_read_back_while_others_open_the_file() {
    const SIZE: usize = 60_000;
    need!("others open", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    let path = ground.root().join("file");
    fs::write(&path, [0; SIZE]).unwrap();
    until_grouped(&ground, Some(&path), |files| files == 1);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut numbers = Numbers::new(host::seed());
    for is_home in [false, true] {
        if is_home {
            // Space is reserved at home only. The file stays open, and so without passthrough.
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1).unwrap();
        }
        let ended = AtomicBool::new(false);
        let wrong = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ended.load(SeqCst) {
                        assert_eq!(fs::read(&path).unwrap().len(), SIZE);
                    }
                });
            }
            let wrong = (0..host::rounds("SEEKLESS_FSX", 4_000, 40_000)).find_map(|round| {
                let len = 1 + numbers.below(9_000) as usize;
                let (at, bytes) = (numbers.below((SIZE - len) as u64), numbers.bytes(len));
                file.write_all_at(&bytes, at).unwrap();
                let mut read = vec![0; len];
                file.read_exact_at(&mut read, at).unwrap();
                (read != bytes).then(|| (round, at, difference(&read, &bytes)))
            });
            ended.store(true, SeqCst);
            wrong
        });
        assert_eq!(wrong, None, "at home: {is_home}");
    }
    drop(file);
    ground.end();
}

/// One program appends numbers, a few at a time, while another empties the file. Returns the first
/// contents that no order of their calls explains.
fn emptied_beside_an_appender(path: &Path) -> Option<(u64, Vec<u64>)> {
    const TOGETHER: u64 = 8;
    let log = File::options().append(true).open(path).unwrap();
    let mut numbers = Numbers::new(host::seed());
    let ((begin, begun), (end, ended)) = (channel(), channel());
    std::thread::scope(|scope| {
        let mut log = &log;
        scope.spawn(move || {
            for (burst, ()) in (0u64..).zip(begun) {
                for n in 1..=TOGETHER {
                    log.write_all(&(burst * TOGETHER + n).to_le_bytes()).unwrap();
                }
                end.send(()).unwrap();
            }
        });
        let wrong = (0..host::rounds("SEEKLESS_FSX", 2_000, 20_000)).find_map(|round| {
            begin.send(()).unwrap();
            (0..numbers.below(20)).for_each(|_| std::thread::yield_now());
            drop(File::options().write(true).truncate(true).open(path).unwrap());
            ended.recv().unwrap();
            let all = fs::read(path).unwrap();
            let number = |record: &[u8]| <[u8; 8]>::try_from(record).map_or(0, u64::from_le_bytes);
            let found: Vec<u64> = all.chunks(8).map(number).collect();
            let follow = found.windows(2).all(|two| two[1] == two[0] + 1);
            (!follow || found.contains(&0)).then_some((round, found))
        });
        // The appender ends.
        drop(begin);
        wrong
    })
}

/// Otherwise an append could land where the file ended before, behind zeroes.
#[test]
fn a_file_that_is_emptied_beside_an_appender_has_whole_records_in_their_order() {
    let plain = Ground::plain();
    fs::write(plain.root().join("log"), [b'x'; 64]).unwrap();
    assert_eq!(emptied_beside_an_appender(&plain.root().join("log")), None, "without a mount");
    need!("emptied", Ground::missing());
    for (grouped, more) in [(true, vec![]), (false, vec!["--no-passthrough"]), (false, vec![])] {
        let ground = Ground::mounted(&[RESTLESS, &more[..]].concat());
        let path = ground.root().join("log");
        fs::write(&path, [b'x'; 64]).unwrap();
        if grouped {
            // As long as it stays open, the kernel asks the server for each read and write.
            until_grouped(&ground, Some(&path), |files| files == 1);
        }
        let wrong = emptied_beside_an_appender(&path);
        assert_eq!(wrong, None, "grouped: {grouped}, {more:?}");
        ground.end();
    }
}

/// The marker of a lost file names no entry of the store. The kernel opens a file before it empties
/// it, and does not say that it will.
#[test]
fn a_lost_file_can_be_emptied_by_an_open_and_is_not_empty_before() {
    need!("lost", Ground::missing());
    for more in [vec![], vec!["--no-passthrough"]] {
        let mut ground = Ground::plain();
        for name in ["both", "written", "created"] {
            let path = ground.root().join(name);
            fs::write(&path, "").unwrap();
            setxattr(&path, "trusted.seekless.group", &[9; 32], XattrFlags::empty()).unwrap();
        }
        ground.start(&[RESTLESS, &more[..]].concat());
        let path = |name: &str| ground.root().join(name);
        let opened = open(&path("both"), OFlags::RDONLY, 0).map(|_| ());
        assert_eq!(opened, Err(Errno::IO));
        let both = open(&path("both"), OFlags::RDWR, 0).unwrap();
        assert_eq!(rustix::io::pread(&both, &mut [0u8; 9], 0), Err(Errno::IO));
        assert_eq!(rustix::io::pwrite(&both, b"part", 0), Err(Errno::IO));
        assert_eq!(ftruncate(&both, 9), Err(Errno::IO));
        ftruncate(&both, 0).unwrap();
        assert_eq!(fs::read(path("both")).unwrap(), b"");
        both.write_all_at(b"whole", 0).unwrap();
        assert_eq!(fs::read(path("both")).unwrap(), b"whole");
        both.write_all_at(b"again", 0).unwrap();
        assert_eq!(fs::read(path("both")).unwrap(), b"again");
        let written = open(&path("written"), OFlags::RDWR | OFlags::TRUNC, 0).unwrap();
        written.write_all_at(b"new", 0).unwrap();
        fs::write(path("created"), b"new").unwrap();
        drop((both, written));
        for name in ["written", "created"] {
            assert_eq!(fs::read(path(name)).unwrap(), b"new", "{name}");
        }
        ground.end();
    }
}

#[test]
fn what_clients_see_of_a_file_does_not_change_when_it_moves() {
    need!("moved", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    let root = ground.root();
    let (file, other) = (root.join("file"), root.join("other name"));
    fs::write(&file, [7; 5_000]).unwrap();
    chown(&file, ALICE).unwrap();
    chmod(&file, 0o2640).unwrap();
    setxattr(&file, "user.mine", b"value", XattrFlags::empty()).unwrap();
    let before = seen(&file);
    until_grouped(&ground, Some(&file), |files| files == 1);
    let (mut now, names) = seen(&file);
    // The one thing that shows: the marker is set on the inode. docs/using/files.md says so.
    assert!(now.ctime >= before.0.ctime);
    now.ctime = before.0.ctime;
    assert_eq!((now, names), before);
    // A file with several names does not move; a file of the store can get more.
    link(&file, &other).unwrap();
    assert_eq!(facts(&file), facts(&other));
    assert_eq!(fs::read(&other).unwrap(), [7; 5_000]);
    let told = rustix::fs::getxattr(&file, "trusted.seekless.group", &mut [0; 64][..]);
    assert_eq!(told, Err(Errno::NODATA), "the marker is shown");
    // What is ours can be neither set nor removed by clients, root or not.
    assert!(setxattr(&file, "trusted.seekless.group", b"forged", XattrFlags::empty()).is_err());
    assert!(rustix::fs::removexattr(&file, "trusted.seekless.group").is_err());
    assert_eq!(fs::read(&file).unwrap(), [7; 5_000]);
    // Attributes of a file that is there are changed there, and bring nothing home.
    chmod(&file, 0o600).unwrap();
    rustix::fs::rename(&other, root.join("a third")).unwrap();
    assert_eq!(ground.state()["grouped_files"], 1);
    assert_eq!((facts(&file).permissions(), facts(&file).nlink), (0o600, 2));
    // Written, it stays, with the time of the write; too large, it goes home; and its last name
    // gone, it is gone from wherever it is.
    let (writer, before) = (File::options().write(true).open(&file).unwrap(), facts(&file));
    later();
    writer.write_all_at(b"here", 0).unwrap();
    assert_eq!(ground.state()["grouped_files"], 1);
    assert_eq!(ground.state()["grouped_writes"], 1);
    let now = facts(&file);
    assert!(now.mtime > before.mtime && now.ctime > before.ctime);
    assert_eq!((now.size, now.mtime), (5_000, facts(&root.join("a third")).mtime));
    assert_eq!(fs::read(root.join("a third")).unwrap()[..5], *b"here\x07");
    writer.write_all_at(b"home", 70_000).unwrap();
    assert_eq!(ground.state()["grouped_files"], 0);
    writer.set_len(5_000).unwrap();
    writer.write_all_at(b"home", 0).unwrap();
    drop(writer);
    assert_eq!(fs::read(root.join("a third")).unwrap()[..5], *b"home\x07");
    fs::remove_file(root.join("a third")).unwrap();
    until_grouped(&ground, Some(&file), |files| files == 1);
    let held = File::open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let mut bytes = [0; 4];
    held.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"home");
    drop(held);
    // Removed, it does not stay in the store.
    until_grouped(&ground, None, |files| files == 0);
    ground.end();
}

#[test]
fn who_holds_a_file_open_or_mapped_or_runs_it_does_not_notice() {
    need!("held", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    let root = ground.root();
    let file = root.join("file");
    fs::write(&file, [1; 9_000]).unwrap();
    // Open for reading while it is in the store, then written by another.
    fs::read(&file).unwrap();
    shuffle(&root);
    let reader = open(&file, OFlags::RDONLY, 0).unwrap();
    let map = Map::new(&reader, 9_000, false, true).unwrap();
    let mut got = [0; 9_000];
    map.read(0, &mut got);
    assert_eq!(got, [1; 9_000]);
    let writer = File::options().read(true).write(true).open(&file).unwrap();
    writer.write_all_at(&[2; 100], 4_000).unwrap();
    let mut wanted = [1; 9_000];
    wanted[4_000..4_100].fill(2);
    reader.read_exact_at(&mut got, 0).unwrap();
    assert_eq!(got, wanted, "through the file that was opened before");
    map.read(0, &mut got);
    assert_eq!(got, wanted, "through the map that was made before");
    shuffle(&root);
    writer.write_all_at(&[3; 100], 0).unwrap();
    wanted[..100].fill(3);
    map.read(0, &mut got);
    assert_eq!(got, wanted, "after a shuffle with all of them open");
    drop((writer, reader, map));
    shuffle(&root);
    assert_eq!(fs::read(&file).unwrap(), wanted);
    // Programs and scripts run from the store.
    let script = root.join("script");
    fs::write(&script, "#!/bin/sh\necho ran\n").unwrap();
    chmod(&script, 0o755).unwrap();
    fs::read(&script).unwrap();
    shuffle(&root);
    assert_eq!(run([text(&script)]), "ran\n");
    let small = ["/bin/true", "/usr/bin/true"]
        .into_iter()
        .find(|p| fs::metadata(p).is_ok_and(|m| m.len() <= 65_536));
    if let Some(program) = small {
        let copy = root.join("program");
        fs::copy(program, &copy).unwrap();
        let before = ground.state()["grouped_files"].as_u64().unwrap();
        until_grouped(&ground, Some(&copy), |files| files > before);
        run([text(&copy)]);
        chmod(&copy, 0o755).unwrap();
        run([text(&copy)]);
    }
    ground.end();
}

/// Read without pause while they go there and back.
#[test]
fn readers_see_whole_files_while_these_move() {
    need!("readers", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    let root = ground.root();
    let path = |i: usize| root.join(format!("f{i}"));
    let content = |i: usize| vec![i as u8 + 1; 3_000 + 500 * i];
    (0..12).for_each(|i| fs::write(path(i), content(i)).unwrap());
    let ended = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|r| {
                scope.spawn(move || {
                    for n in (0..).take_while(|_| !ended.load(SeqCst)) {
                        let i = (n * (r + 1) + r) % 12usize;
                        assert!(fs::read(path(i)).unwrap() == content(i), "file {i}, read {n}");
                    }
                })
            })
            .collect();
        for n in 0..40 {
            // Space is reserved at home.
            let file = File::options().append(true).open(path(n % 12)).unwrap();
            fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 10).unwrap();
            drop(file);
            shuffle(&root);
        }
        ended.store(true, SeqCst);
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
    let state = ground.state();
    eprintln!("{} came, {} went home", state["came"], state["returned"]);
    assert!(state["came"].as_u64() > Some(20) && state["returned"].as_u64() > Some(5), "{state}");
    ground.end();
}

#[test]
fn git_and_tar_find_what_they_left() {
    need!("git", "git tar timeout root fuse");
    let ground = Ground::mounted(RESTLESS);
    let (root, out) = (ground.root(), ground.path("out"));
    let tree = root.join("tree");
    fs::create_dir(&tree).unwrap();
    let git = |args: &[&str]| {
        let with = ["-c", "user.name=a", "-c", "user.email=a@b", "-C", text(&tree)];
        let output = Command::new("git").args(with).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init", "-q"]);
    for round in 0..4 {
        for i in 0..40 {
            fs::write(tree.join(format!("f{i}")), format!("{round} {i}\n").repeat(i + 1)).unwrap();
        }
        git(&["add", "."]);
        git(&["commit", "-qm", "all"]);
        for i in 0..40 {
            fs::read(tree.join(format!("f{i}"))).unwrap();
        }
        assert!(shuffle(&root));
        assert_eq!(git(&["status", "--porcelain"]), "", "after round {round}");
    }
    git(&["gc", "-q"]);
    git(&["fsck", "--full", "--strict"]);
    assert!(ground.state()["came"].as_u64() > Some(40));
    // A copy with everything has the bytes, and none of our attributes.
    let archive = ground.path("tree.tar");
    // The ctime of a file changes when it moves, and tar reports a change while it reads.
    let moves = |archived: &std::process::Output| {
        String::from_utf8_lossy(&archived.stderr).contains("file changed as we read it")
    };
    let archived = (0..5).map(|_| {
        let mut tar = Command::new("tar");
        tar.args(["--xattrs", "--xattrs-include=*", "-C", text(&root), "-cf", text(&archive)]);
        tar.arg("tree").output().unwrap()
    });
    let archived = archived.into_iter().find(|archived| !moves(archived)).unwrap();
    assert!(archived.status.success(), "{archived:?}");
    fs::create_dir(&out).unwrap();
    run(["tar", "--xattrs", "--xattrs-include=*", "-C", text(&out), "-xf", text(&archive)]);
    run(["diff", "-r", text(&tree), text(&out.join("tree"))]);
    for i in 0..40 {
        let mut names = [0; 1_024];
        let n =
            rustix::fs::listxattr(out.join("tree").join(format!("f{i}")), &mut names[..]).unwrap();
        assert!(!String::from_utf8_lossy(&names[..n]).contains("seekless"));
    }
    ground.end();
}

const MAPPED: &str = "SEEKLESS_MAPPED_CHILD";

/// Another process's part: SIGBUS would be its end.
#[test]
fn a_process_with_a_mapping() {
    let Some(path) = std::env::var_os(MAPPED) else { return };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let map = Map::new(&file, 9_000, true, true).unwrap();
    // The mapping keeps the file, without a descriptor.
    drop(file);
    println!("mapped");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut got = [0; 9_000];
    map.read(0, &mut got);
    assert_eq!(got, [6; 9_000]);
    map.write(8_000, b"written through the mapping");
    map.sync().unwrap();
}

fn outlived(ground: &Ground, grouped: bool) {
    let root = ground.root();
    let file = root.join("file");
    fs::write(&file, [6; 9_000]).unwrap();
    fs::read(&file).unwrap();
    if grouped {
        assert!(shuffle(&root));
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "moved::a_process_with_a_mapping", "--nocapture"])
        .env(MAPPED, &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Held open to its end: it says more.
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|l| l.contains("mapped")));
    fs::read(&file).unwrap();
    if ground.is_mounted() {
        assert!(shuffle(&root));
    }
    drop(child.stdin.take());
    let status = child.wait().unwrap();
    assert!(status.success(), "the process with the mapping: {status}");
    let mut wanted = [6; 9_000];
    wanted[8_000..8_027].copy_from_slice(b"written through the mapping");
    assert_eq!(fs::read(&file).unwrap(), wanted, "grouped before: {grouped}");
    // With the mapping gone, it may move, with what was written through it.
    if ground.is_mounted() {
        until_grouped(ground, Some(&file), |files| files == 1);
        assert_eq!(fs::read(&file).unwrap(), wanted, "moved since");
    }
}

#[test]
fn a_mapping_outlives_its_descriptor() {
    outlived(&Ground::plain(), false);
    need!("mapping", Ground::missing());
    for grouped in [false, true] {
        let ground = Ground::mounted(RESTLESS);
        outlived(&ground, grouped);
        ground.end();
    }
}

#[test]
fn a_running_program_does_not_move() {
    need!("running", Ground::missing());
    let sleep = ["/bin/sleep", "/usr/bin/sleep"]
        .into_iter()
        .find(|p| fs::metadata(p).is_ok_and(|m| m.len() <= 65_536));
    let Some(sleep) = sleep else {
        eprintln!("SKIPPED running: no sleep of at most 64 KiB");
        return;
    };
    let ground = Ground::mounted(RESTLESS);
    let root = ground.root();
    let program = root.join("program");
    fs::copy(sleep, &program).unwrap();
    chmod(&program, 0o755).unwrap();
    for round in 0..2 {
        let mut child = Command::new(&program).arg("0.7").spawn().unwrap();
        fs::read(&program).unwrap();
        assert!(shuffle(&root));
        let wrote = open(&program, OFlags::WRONLY, 0).map(|_| ());
        assert_eq!(wrote, Err(Errno::TXTBSY), "round {round}");
        let status = child.wait().unwrap();
        assert!(status.success(), "round {round}: the program ended with {status}");
        until_grouped(&ground, Some(&program), |files| files == 1);
    }
    assert_eq!(fs::read(&program).unwrap(), fs::read(sleep).unwrap());
    ground.end();
}
