//! Workloads by their system calls, from strace: kinds, sizes and numbers; and the counts of
//! `seekless-lab workload run` against them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use crate::host::{self, run, words};
use crate::need;

/// Calls of a run's threads: names, sizes and bytes.
#[derive(Debug, Default)]
struct Calls {
    count: BTreeMap<String, u64>,
    /// Requested sizes, by call.
    asked: BTreeMap<String, Vec<u64>>,
    moved: BTreeMap<String, u64>,
    sync_opens: u64,
}

impl Calls {
    fn of(&self, name: &str) -> u64 {
        self.count.get(name).copied().unwrap_or(0)
    }
}

/// Runs a workload under strace: its calls without those of the main thread, which writes the
/// files, and its counts.
fn traced(personality: &str, scale: &str, threads: &str) -> (Calls, Value) {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() {
        tempfile::tempdir_in(shm).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let (log, json) = (dir.path().join("calls"), dir.path().join("counts.json"));
    let calls = "openat,unlinkat,read,write,pread64,pwrite64,lseek,fsync,statx,newfstatat";
    let strace = format!("strace -f -qq --seccomp-bpf -e trace={calls} -o");
    let numbers = format!("--scale {scale} --threads {threads} --warm-up 0 --seconds 1.5");
    let load = format!("workload run {personality} {numbers} --power none --dir");
    let files = dir.path().join("files");
    let program = crate::PROGRAM;
    let mut command: Vec<&OsStr> = words(&strace).into_iter().map(OsStr::new).collect();
    command.extend([log.as_os_str(), program.as_ref()]);
    command.extend(words(&load).into_iter().map(OsStr::new));
    command.extend([files.as_os_str(), "--json".as_ref(), json.as_os_str()]);
    run(command);
    let calls = calls_of_threads(&std::fs::read_to_string(&log).unwrap());
    (calls, serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap())
}

/// The calls in strace's text, without those of the first thread.
fn calls_of_threads(text: &str) -> Calls {
    let main = text.split_whitespace().next().unwrap().to_owned();
    let mut calls = Calls::default();
    let mut begun: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (pid, rest) = line.split_once(char::is_whitespace).unwrap();
        let rest = rest.trim_start();
        if pid == main {
            continue;
        }
        // A call interrupted by another thread's call has two lines.
        let whole = if let Some(head) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid.to_owned(), head.to_owned());
            continue;
        } else if rest.starts_with("<... ") {
            let Some(head) = begun.remove(pid) else { continue };
            format!("{head}{}", rest.split_once("resumed>").map_or("", |r| r.1))
        } else {
            rest.to_owned()
        };
        count(&whole, &mut calls);
    }
    calls
}

fn count(call: &str, calls: &mut Calls) {
    let Some((name, arguments)) = call.split_once('(') else { return };
    let Some((arguments, result)) = arguments.rsplit_once(" = ") else { return };
    let Ok(result) = result.split_whitespace().next().unwrap_or("").parse::<i64>() else { return };
    let name = match name {
        "openat" if arguments.contains("O_CREAT") => "create",
        // Without the program's own files.
        "openat" if arguments.starts_with("AT_FDCWD") => return,
        "openat" => "open",
        other => other,
    };
    if name == "open" && arguments.contains("O_SYNC") {
        calls.sync_opens += 1;
    }
    *calls.count.entry(name.to_owned()).or_default() += 1;
    let words: Vec<&str> = arguments.trim_end().trim_end_matches(')').rsplit(", ").collect();
    let size = match name {
        "read" | "write" => words.first(),
        "pread64" | "pwrite64" => words.get(1),
        _ => None,
    };
    if let Some(size) = size.and_then(|s| s.trim().parse().ok()) {
        calls.asked.entry(name.to_owned()).or_default().push(size);
        *calls.moved.entry(name.to_owned()).or_default() += u64::try_from(result.max(0)).unwrap();
    }
}

/// Asserts that two numbers agree within a share, with `spare` for turns cut short at the end.
fn near(what: &str, a: u64, b: u64, spare: u64) {
    let far = a.abs_diff(b);
    assert!(far <= spare + a.max(b) / 50, "{what}: {a} and {b}");
}

/// Asserts that the program's count agrees with the calls. Calls after the end of the measured time
/// do not count; a busy host may notice the end late.
fn counted(what: &str, calls: u64, counted: u64, spare: u64) {
    assert!(
        counted <= calls + spare && calls <= counted + spare + calls / 10,
        "{what}: {calls} calls, {counted} counted"
    );
}

fn step(counts: &Value, name: &str) -> u64 {
    let steps = counts["outcome"]["steps"].as_array().unwrap();
    steps.iter().find(|s| s["name"] == name).map_or(0, |s| s["count"].as_u64().unwrap())
}

#[test]
fn mail_syncs_twice_a_turn_and_appends_up_to_16_kib() {
    need!("mail", host::programs(&["strace", "timeout"]));
    let (calls, counts) = traced("varmail", "0.004", "0.04");
    let (turns, spare) = (calls.of("create"), 40);
    assert!(turns > 20, "{calls:?}");
    near("fsync", calls.of("fsync"), 2 * turns, spare);
    near("delete", calls.of("unlinkat"), turns, spare);
    near("open", calls.of("open"), 2 * turns, spare);
    // Reads of whole files: at least one with bytes, and one that finds the end.
    assert!(calls.asked["read"].iter().all(|s| *s == 1 << 20));
    let writes = &calls.asked["write"];
    assert!(writes.iter().all(|s| (1..16 << 10).contains(s)));
    let mean = writes.iter().sum::<u64>() / writes.len() as u64;
    assert!((7000..9400).contains(&mean), "uniform up to 16 KiB: {mean}");
    for (name, call) in
        [("fsync", "fsync"), ("create", "create"), ("delete", "unlinkat"), ("open", "open")]
    {
        counted(name, calls.of(call), step(&counts, name), spare);
    }
    near("reads and writes", step(&counts, "read-whole"), step(&counts, "append"), spare);
    let written = counts["outcome"]["written_bytes"].as_u64().unwrap();
    counted("bytes", calls.moved["write"], written, spare << 14);
}

#[test]
fn web_reads_ten_for_one_append_to_the_log() {
    need!("web", host::programs(&["strace", "timeout"]));
    let (calls, counts) = traced("webserver", "0.01", "0.04");
    let (opens, spare) = (calls.of("open"), 60);
    assert!(opens > 100, "{calls:?}");
    let appends = step(&counts, "append");
    near("ten to one", step(&counts, "read-whole"), 10 * appends, spare);
    counted("opens", opens, step(&counts, "open"), spare);
    assert_eq!((calls.of("create"), calls.of("unlinkat"), calls.of("fsync")), (0, 0, 0));
    // Each append seeks to the end first; each page is read from its beginning.
    counted("seeks", calls.of("lseek"), step(&counts, "read-whole") + appends, spare);
    assert!(calls.asked["read"].iter().all(|s| *s == 1 << 20));
}

#[test]
fn files_are_written_twice_as_often_as_read() {
    need!("file", host::programs(&["strace", "timeout"]));
    let (calls, counts) = traced("fileserver", "0.002", "0.04");
    let (turns, spare) = (calls.of("create"), 40);
    assert!(turns > 20, "{calls:?}");
    near("delete", calls.of("unlinkat"), turns, spare);
    near("open", calls.of("open"), 2 * turns, spare);
    near("stat", calls.of("statx") + calls.of("newfstatat"), turns, spare);
    near(
        "one to two",
        2 * counts["outcome"]["reads"].as_u64().unwrap(),
        counts["outcome"]["writes"].as_u64().unwrap(),
        spare,
    );
    assert_eq!(calls.of("fsync"), 0);
}

#[test]
fn a_database_reads_and_writes_2_kib_at_random_and_writes_are_durable() {
    need!("database", host::programs(&["strace", "timeout"]));
    let (calls, _) = traced("oltp", "0.002", "0.1");
    assert!(calls.asked["pread64"].iter().all(|s| *s == 2 << 10));
    let (small, log): (Vec<u64>, Vec<u64>) =
        calls.asked["pwrite64"].iter().partition(|s| **s == 2 << 10);
    assert!(
        !small.is_empty() && log.iter().all(|s| *s == 256 << 10) && !log.is_empty(),
        "{calls:?}"
    );
    assert!(calls.sync_opens > 0, "writers open for synchronous writes");
    assert_eq!((calls.of("create"), calls.of("fsync")), (0, 0));
}
