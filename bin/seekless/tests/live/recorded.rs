//! From a disk in use to advice: a real file system at work is recorded, and every command that
//! reads the recording takes it and counts the same requests.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::host::{self, Loop, Mount, Numbers, run, seekless};
use crate::need;
use crate::record::{Recording, recording};

/// What a command says of a recording, as JSON.
fn told(trace: &Path, args: &[&str]) -> Value {
    host::json(seekless().arg(args[0]).arg(trace).args(&args[1..]).args(["--json", "-"]))
}

fn sum(numbers: &Value) -> u64 {
    numbers.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
}

/// Makes a source tree under version control, 600 files in 30 folders.
fn plant(tree: &str, numbers: &mut Numbers) {
    for i in 0..600 {
        let folder = format!("{tree}/{}", i % 30);
        fs::create_dir_all(&folder).unwrap();
        let len = usize::try_from(numbers.below(30_000)).unwrap();
        fs::write(format!("{folder}/{i}.txt"), numbers.bytes(len)).unwrap();
    }
    run(["git", "-C", tree, "init", "-q"]);
    commit(tree, "one");
}

fn commit(tree: &str, name: &str) {
    let me = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "gc.auto=0"];
    run(["git", "-C", tree, "add", "-A"]);
    run(["git", "-C", tree].into_iter().chain(me).chain(["commit", "-q", "-m", name]));
    run(["git", "-C", tree, "tag", name]);
}

/// A round of work over cold caches: search, check out, build, install.
fn work(device: &str, root: &Path, round: u64, numbers: &mut Numbers) {
    let mount = Mount::new(device, root, "noatime");
    let tree = root.join("tree").to_str().unwrap().to_owned();
    let version = if round.is_multiple_of(2) { "one" } else { "two" };
    run(["git", "-C", &tree, "checkout", "-q", version]);
    // It finds nothing, and reads all files for that.
    assert_eq!(host::attempt(["grep", "-r", "-q", "no such words", &tree]).status.code(), Some(1));
    for _ in 0..20 {
        let file = root.join(format!("built{}", numbers.below(40)));
        fs::write(&file, numbers.bytes(10_000)).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
    }
    mount.unmount();
}

#[test]
fn a_recorded_file_system_is_counted_alike_by_every_command() {
    let tools = || host::lacks("losetup mkfs.ext4 git grep timeout ext4");
    need!("recorded file system", recording().or_else(tools));
    let dir = tempfile::tempdir().unwrap();
    let (image, root) = (dir.path().join("disk.img"), dir.path().join("root"));
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    fs::create_dir(&root).unwrap();
    let disk = Loop::attach(&image, &[]);
    run(["mkfs.ext4", "-q", disk.device()]);
    let mut numbers = Numbers::new(11);
    let mount = Mount::new(disk.device(), &root, "noatime");
    let tree = root.join("tree").to_str().unwrap().to_owned();
    plant(&tree, &mut numbers);
    for i in (0..600).step_by(7) {
        fs::write(format!("{tree}/{}/{i}.txt", i % 30), numbers.bytes(5000)).unwrap();
    }
    commit(&tree, "two");
    mount.unmount();

    let rounds = host::rounds("SEEKLESS_ROUNDS", 2, 4);
    for event in ["Q", "D"] {
        let recording = Recording::start(dir.path(), disk.device(), &["--force", "--event", event]);
        for round in 0..rounds {
            work(disk.device(), &root, round, &mut numbers);
        }
        let recorded = recording.stop();
        let count = |name: &str| recorded.counts[name].as_u64().unwrap();
        let requests = count("requests");
        // All files were read in each round, and what was installed had to be written and flushed.
        let (reads, writes) = (125 * rounds, 20 * rounds);
        assert!(count("reads") > reads && count("writes") >= writes, "{:#}", recorded.counts);
        assert!(count("flushes") >= rounds && count("lost_events") == 0, "{:#}", recorded.counts);
        assert_eq!(recorded.rows.len() as u64, requests);

        let trace = dir.path().join("trace.parquet");
        let stat = told(&trace, &["stat"]);
        let advice = told(&trace, &["advise", "--disk", "wd800jb"]);
        let simulated = told(&trace, &["simulate", "--disk", "wd800jb"]);
        for said in [&stat, &advice, &simulated] {
            assert_eq!(said["trace"]["requests"], requests, "{event}: {}", said["schema"]);
        }
        for (key, sum_key) in [("reads", "read_bytes"), ("writes", "written_bytes")] {
            assert_eq!(stat["table1"][key], count(key), "{event}: {key}");
            assert_eq!(stat["table1"][sum_key], count(sum_key), "{event}: {sum_key}");
            assert_eq!(advice["trace"][key], count(key), "{event}: {key}");
            assert_eq!(simulated["trace"][key], count(key), "{event}: {key}");
        }
        // Every request is in a fold, and either learned from or measured.
        assert_eq!(sum(&advice["fold_requests"]), requests, "{event}");
        let split = &simulated["split"];
        let parts = [&split["train_requests"], &split["measured_requests"]];
        assert_eq!(parts.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), requests, "{event}");
    }
}
