//! Other people's programs on the mount: CPython's own tests of files, SQLite, pjdfstest and stress-ng where they are. What fails
//! on a plain directory as well is not the mount's fault.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::ground::{Ground, RESTLESS, shuffle, text};
use crate::host::{self, Numbers, attempt, run};
use crate::need;

/// Of CPython's tests, those that are about files.
const PYTHON: &[&str] = &[
    "test_os",
    "test_shutil",
    "test_posix",
    "test_posixpath",
    "test_tempfile",
    "test_pathlib",
    "test_zipfile",
    "test_tarfile",
    "test_mmap",
    "test_file",
    "test_fileio",
    "test_io",
    "test_largefile",
    "test_glob",
    "test_dbm",
    "test_dbm_gnu",
    "test_sqlite3",
    "test_mailbox",
    "test_fileinput",
    "test_filecmp",
    "test_fcntl",
    "test_stat",
    "test_shelve",
    "test_bz2",
    "test_gzip",
];

/// Longest time that one module may take.
const MODULE: &str = "200";

/// A Python that has its tests with it.
fn python() -> Option<String> {
    let has = |name: &str| {
        let mut command = Command::new(name);
        command.args(["-c", "import test.support, test.test_os"]).stderr(Stdio::null());
        command.status().is_ok_and(|s| s.success())
    };
    ["python3", "python3.13", "python3.12", "python3.11"]
        .into_iter()
        .find(|p| has(p))
        .map(str::to_owned)
}

/// How many test cases a module has, and those that fail with their files in a directory.
fn failures(python: &str, module: &str, dir: &Path, out: &Path) -> (usize, BTreeSet<String>) {
    let report = out.join(format!("{module}.xml"));
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", MODULE, python, "-m", "test", "--tempdir", text(dir)]);
    command.arg("--junit-xml").arg(&report).arg(module);
    command.current_dir(dir).env("TMPDIR", dir).env_remove("HOME");
    let said = command.stdin(Stdio::null()).output().unwrap();
    let found = fs::read_to_string(&report).unwrap_or_default();
    let _ = fs::remove_file(&report);
    let mut failed = BTreeSet::new();
    for case in found.split("<testcase ").skip(1) {
        let name =
            case.split("name=\"").nth(1).and_then(|n| n.split('"').next()).unwrap_or_default();
        if case.contains("<failure") || case.contains("<error") {
            failed.insert(format!("{module}: {name}"));
        }
    }
    // No report: a module that is not there, is skipped here, or was cut off.
    let words = String::from_utf8_lossy(&said.stdout);
    if found.is_empty()
        && !said.status.success()
        && !words.contains("skipped")
        && !words.contains("ImportError")
    {
        failed.insert(format!("{module}: {} without a report", said.status));
    }
    (found.matches("<testcase ").count(), failed)
}

#[test]
fn cpython_finds_nothing_that_a_plain_directory_does_not_show() {
    need!("cpython", Ground::missing().or_else(|| host::programs(&["timeout"])));
    let Some(python) = python() else {
        eprintln!("SKIPPED cpython: no python3 with the package `test`");
        return;
    };
    let only = std::env::var("SEEKLESS_PYTHON").ok();
    let modules: Vec<&str> = match &only {
        Some(names) if names == "all" => PYTHON.to_vec(),
        Some(names) => names.split(',').collect(),
        // The others take minutes.
        None => vec![
            "test_os",
            "test_shutil",
            "test_mmap",
            "test_fileio",
            "test_tempfile",
            "test_fcntl",
        ],
    };
    let (plain, ground) = (Ground::plain(), Ground::mounted(RESTLESS));
    let (mut wrong, mut all) = (Vec::new(), 0);
    for module in modules {
        let (cases, here) = failures(&python, module, &ground.root(), plain.dir());
        eprintln!("{module}: {cases} cases, {} fail on the mount", here.len());
        all += cases;
        if here.is_empty() {
            continue;
        }
        // Again, and beneath: a test that fails now and then is nobody's.
        let (_, beneath) = failures(&python, module, &plain.root(), plain.dir());
        let (_, again) = failures(&python, module, &ground.root(), plain.dir());
        for name in &here {
            if beneath.contains(name) {
                eprintln!("  as beneath: {name}");
            } else if again.contains(name) {
                wrong.push(name.clone());
            } else {
                eprintln!("  once of twice: {name}");
            }
        }
    }
    ground.end();
    assert!(wrong.is_empty(), "fails on the mount alone:\n{}", wrong.join("\n"));
    assert!(all > 100 || only.is_some(), "only {all} cases were run");
}

fn sqlite(path: &Path, script: &str) -> String {
    run(["sqlite3", "-batch", "-cmd", ".timeout 20000", text(path), script])
}

/// Databases in every journal mode, written by several processes, one of which is killed, while files move.
fn databases(ground: &Ground) {
    let root = ground.root();
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let path = root.join(format!("{mode}.db"));
        let told = sqlite(
            &path,
            &format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a INTEGER, b BLOB);"),
        );
        assert_eq!(told.trim(), mode.to_lowercase());
        let insert = "INSERT INTO t VALUES(1, randomblob(300));".repeat(20);
        let spawn = |script: &str| {
            let mut command = Command::new("sqlite3");
            command.args(["-batch", "-bail", "-cmd", ".timeout 20000"]).arg(&path).arg(script);
            command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut victim = spawn(&"BEGIN; UPDATE t SET b = randomblob(301); COMMIT; ".repeat(400));
        let writers: Vec<_> = (0..2).map(|_| spawn(&insert)).collect();
        std::thread::sleep(Duration::from_millis(60));
        let _ = victim.kill();
        let _ = victim.wait();
        for mut writer in writers {
            assert!(writer.wait().unwrap().success(), "{mode}: a writer failed");
        }
        if ground.is_mounted() {
            let _ = fs::read(&path);
            shuffle(&root);
        }
        let checked = sqlite(&path, "PRAGMA integrity_check; SELECT count(*) FROM t;");
        assert_eq!(checked.trim(), "ok\n40", "{mode}");
    }
}

#[test]
fn sqlite_keeps_its_databases() {
    need!("sqlite", host::programs(&["sqlite3", "timeout"]));
    databases(&Ground::plain());
    need!("sqlite on the mount", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    databases(&ground);
    ground.end();
}

#[test]
fn pjdfstest_finds_nothing_that_a_plain_directory_does_not_show() {
    need!("pjdfstest", host::programs(&["pjdfstest", "timeout"]).or_else(Ground::missing));
    let (plain, ground) = (Ground::plain(), Ground::mounted(RESTLESS));
    let failed = |root: &Path| -> BTreeSet<String> {
        let output = attempt(["pjdfstest", "-p", text(root)]);
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        words.lines().filter(|l| l.contains("FAILED")).map(str::to_owned).collect()
    };
    let (beneath, mount) = (failed(&plain.root()), failed(&ground.root()));
    ground.end();
    let wrong: Vec<_> = mount.difference(&beneath).collect();
    assert!(wrong.is_empty(), "fails on the mount alone: {wrong:#?}");
}

#[test]
fn stress_ng_verifies() {
    need!("stress-ng", host::programs(&["stress-ng", "timeout"]).or_else(Ground::missing));
    let ground = Ground::mounted(RESTLESS);
    for stressor in [
        "dentry",
        "dir",
        "dirdeep",
        "fallocate",
        "filename",
        "hdd",
        "link",
        "rename",
        "seek",
        "symlink",
        "utime",
        "xattr",
    ] {
        let root = ground.root();
        let amount = format!("--{stressor}");
        run(["stress-ng", &amount, "1", "--verify", "--timeout", "2", "--temp-path", text(&root)]);
    }
    ground.end();
}

/// Small files by the thousand: all are there, before and after they were moved, and mounting does not read them.
#[test]
fn many_small_files() {
    need!("small files", Ground::missing());
    let mut ground = Ground::mounted(&["--needed", "2", "--idle", "none"]);
    let root = ground.root();
    let content = |i: u64| Numbers::new(i).bytes(200 + (i * 37 % 3_000) as usize);
    for dir in 0..20 {
        fs::create_dir(root.join(format!("d{dir}"))).unwrap();
    }
    let path = |i: u64| root.join(format!("d{}/f{i}", i / 100));
    (0..2_000).for_each(|i| fs::write(path(i), content(i)).unwrap());
    // Eight at a time, round and round.
    for group in 0..250 {
        for i in (0..3).flat_map(|_| group * 8..(group + 1) * 8) {
            assert_eq!(fs::read(path(i)).unwrap(), content(i));
        }
    }
    shuffle(&root);
    let state = ground.state();
    let grouped = state["grouped_files"].as_u64().unwrap();
    assert!(grouped > 1_500, "only {grouped} files are in groups: {state}");
    ground.stop();
    ground.start(&[]);
    assert_eq!(ground.state()["grouped_files"].as_u64(), Some(grouped));
    (0..2_000).for_each(|i| assert_eq!(fs::read(path(i)).unwrap(), content(i), "file {i}"));
    let state = ground.state();
    let (reads, groups) =
        (state["grouped_reads"].as_u64().unwrap(), state["groups_read"].as_u64().unwrap());
    assert!(
        reads >= grouped && groups * 3 < reads,
        "{reads} reads of files took {groups} of groups"
    );
    ground.bring_home();
    let beneath = ground.root();
    for i in 0..2_000 {
        let path = beneath.join(path(i).strip_prefix(&root).unwrap());
        assert_eq!(fs::read(path).unwrap(), content(i), "file {i} at home");
    }
}
