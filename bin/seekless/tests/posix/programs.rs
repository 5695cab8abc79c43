//! Other people's programs on the mount: CPython's own tests of files, SQLite, pjdfstest and
//! stress-ng where they are. What fails on a plain directory as well is not the mount's fault.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::ground::{Ground, RESTLESS, shuffle, shuffling, text};
use crate::host::{self, Numbers, attempt, run};
use crate::need;

/// Of CPython's tests, those that are about files.
const PYTHON: &str = "test_os test_shutil test_posix test_posixpath test_tempfile test_pathlib \
    test_zipfile test_tarfile test_mmap test_file test_fileio test_io test_largefile test_glob \
    test_dbm test_dbm_gnu test_sqlite3 test_mailbox test_fileinput test_filecmp test_fcntl \
    test_stat test_shelve test_bz2 test_gzip";

/// Longest time that one module may take.
const MODULE: &str = "200";

fn python() -> Option<String> {
    let has = |name: &str| {
        let mut command = Command::new(name);
        command.args(["-c", "import test.support, test.test_os"]).stderr(Stdio::null());
        command.status().is_ok_and(|s| s.success())
    };
    // Debian's has them by the package libpython3.*-testsuite.
    ["python3", "python3.13", "python3.12", "python3.11", "/usr/bin/python3"]
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
    need!("cpython", "root fuse timeout");
    let Some(python) = python() else {
        eprintln!("SKIPPED cpython: no python3 with the package `test`");
        return;
    };
    let only = std::env::var("SEEKLESS_PYTHON").ok();
    let modules: Vec<&str> = match &only {
        Some(names) if names == "all" => PYTHON.split(' ').collect(),
        None if host::is_long() => PYTHON.split(' ').collect(),
        Some(names) => names.split(',').collect(),
        // The others take minutes.
        None => vec!["test_os", "test_mmap", "test_fileio", "test_fcntl"],
    };
    let (plain, ground) = (Ground::plain(), Ground::mounted(RESTLESS));
    let (mut wrong, mut all) = (Vec::new(), 0);
    let mount = |module| {
        let test = || failures(&python, module, &ground.root(), plain.dir());
        shuffling(&ground.root(), test).0
    };
    for module in modules {
        let (cases, here) = mount(module);
        eprintln!("{module}: {cases} cases, {} fail on the mount", here.len());
        all += cases;
        if here.is_empty() {
            continue;
        }
        // Again, and beneath: a test that fails now and then is nobody's.
        let (_, beneath) = failures(&python, module, &plain.root(), plain.dir());
        let (_, again) = mount(module);
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
    eprintln!("{:?} files moved", ground.state()["came"]);
    ground.end();
    assert!(wrong.is_empty(), "fails on the mount alone:\n{}", wrong.join("\n"));
    assert!(all > 100 || only.is_some(), "only {all} cases were run");
}

fn sqlite(path: &Path, script: &str) -> String {
    run(["sqlite3", "-batch", "-cmd", ".timeout 20000", text(path), script])
}

/// Databases in every journal mode, written by several processes, one of which is killed, while
/// files move.
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
    need!("sqlite", "sqlite3 timeout");
    databases(&Ground::plain());
    need!("sqlite on the mount", Ground::missing());
    let ground = Ground::mounted(RESTLESS);
    let ((), shuffles) = shuffling(&ground.root(), || databases(&ground));
    eprintln!("sqlite: {shuffles} shuffles");
    ground.end();
}

/// Its users must have names; these two every Debian has.
const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
[dummy_auth]
entries = [["daemon", "daemon"], ["bin", "bin"]]
"#;

/// How many cases of pjdfstest pass, and those that fail, with what they say.
fn pjdfstest(program: &Path, config: &Path, other: &Path, root: &Path) -> (usize, Vec<String>) {
    let output = attempt([text(program), "-c", text(config), "-s", text(other), "-p", text(root)]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Summary"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
    let passed = lines.iter().filter(|l| l.ends_with(" ok")).count();
    let failed = lines.windows(2).filter(|w| w[0].ends_with("FAILED"));
    (passed, failed.map(|w| format!("{}: {}", w[0].trim_end_matches("FAILED"), w[1])).collect())
}

#[test]
fn pjdfstest_finds_nothing_that_a_plain_directory_does_not_show() {
    let program = host::program("pjdfstest");
    let missing =
        program.is_none().then(|| "no program pjdfstest (cargo install pjdfstest)".to_owned());
    need!("pjdfstest", host::lacks("long timeout").or(missing).or_else(Ground::missing));
    let program = program.unwrap();
    let (plain, ground) = (Ground::plain(), Ground::mounted(RESTLESS));
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = plain.dir().join("pjdfstest.toml");
    fs::write(&config, PJDFSTEST).unwrap();
    let test = |root: &Path| pjdfstest(&program, &config, other.path(), root);
    let (passed, beneath) = test(&plain.root());
    let ((here, mount), shuffles) = shuffling(&ground.root(), || test(&ground.root()));
    let came = ground.state()["came"].as_u64();
    eprintln!(
        "pjdfstest: {passed} pass beneath, {here} on the mount; {shuffles} shuffles, {came:?} files moved"
    );
    ground.end();
    let name = |said: &String| said.split(':').next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = beneath.iter().map(name).collect();
    let wrong: Vec<_> = mount.iter().filter(|s| !known.contains(&name(s))).collect();
    assert!(wrong.is_empty(), "fails on the mount alone: {wrong:#?}");
    assert!(here > 300 && came > Some(20), "{here} cases passed, {came:?} files moved");
}

/// All that it can do.
const FSX: &str = "
flen = 163840
[opsize]
max = 60000
[weights]
close_open = 5
invalidate = 1
truncate = 5
fsync = 0.3
fdatasync = 0.3
posix_fallocate = 1
punch_hole = 1
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
";

/// Another fsx than ours (`fsx.rs`), by somebody else. SEEKLESS_FSX=N: N operations on each of
/// three files.
#[test]
fn fsx_reads_what_it_wrote() {
    let program = host::program("fsx");
    let missing = program.is_none().then(|| "no program fsx (cargo install fsx)".to_owned());
    need!("fsx", host::lacks("long timeout").or(missing).or_else(Ground::missing));
    let program = program.unwrap();
    let count = host::rounds("SEEKLESS_FSX", 2_000, 30_000).to_string();
    let seed = host::seed();
    let (plain, ground) = (Ground::plain(), Ground::mounted(RESTLESS));
    // One that always fits a group, and two that grow beyond and shrink again.
    let configs =
        [("small", FSX.replace("163840", "60000")), ("a", FSX.to_owned()), ("b", FSX.to_owned())];
    let test = |root: &Path, (i, (name, config)): (u64, &(&str, String))| {
        let at = plain.dir().join(format!("{name}.toml"));
        fs::write(&at, config).unwrap();
        let mut command = Command::new(&program);
        command.args(["-q", "-N", &count, "-S", &(seed + i).to_string(), "-f", text(&at), "-P"]);
        command.arg(plain.dir()).arg(root.join(name)).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let test = |root: &Path| {
        let all: Vec<_> = (0..).zip(&configs).map(|c| test(root, c)).collect();
        for child in all {
            let output = child.wait_with_output().unwrap();
            let (out, err) = (output.stdout, output.stderr);
            let said = String::from_utf8_lossy(&[out, err].concat()).into_owned();
            assert!(output.status.success(), "{}: {}", root.display(), said);
        }
    };
    test(&plain.root());
    let ((), shuffles) = shuffling(&ground.root(), || test(&ground.root()));
    let came = ground.state()["came"].as_u64();
    eprintln!("fsx: {shuffles} shuffles, {came:?} files moved");
    ground.end();
    assert!(came > Some(10), "{came:?} files moved");
}

/// Of stress-ng's class `filesystem`, those that say something about the mount in a second; the
/// first ones in the short form.
const STRESSORS: &str = "rename link fallocate hdd lockofd xattr access chmod chown copy-file dentry \
    dir dirdeep filename fpunch fsize fstat open seek symlink utime";
const STRESSORS_SHORT: usize = 6;

/// How stress-ng ends with its files below a directory, stressor by stressor, or the whole class
/// one after the other.
fn stress(root: &Path, stressor: Option<&str>, seconds: &str) -> Result<(), String> {
    let mut args = vec!["--verify", "--timeout", seconds, "--temp-path", text(root)];
    let amount = stressor.map(|s| format!("--{s}"));
    match &amount {
        Some(amount) => args.extend([amount, "1"]),
        None => args.extend(["--class", "filesystem", "--sequential", "1"]),
    }
    let output =
        Command::new("stress-ng").args(args).current_dir(root).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // 3: a stressor could not run here; 4: it is not implemented here.
    let ran = matches!(output.status.code(), Some(0 | 3 | 4)) && !said.contains(" fail:");
    if ran { Ok(()) } else { Err(format!("{stressor:?}: {}\n{said}", output.status)) }
}

/// SEEKLESS_STRESS=SECONDS: the whole class, each so long, also beneath.
#[test]
fn stress_ng_verifies() {
    need!("stress-ng", "stress-ng timeout root fuse");
    let seconds = std::env::var("SEEKLESS_STRESS").ok();
    let most = if host::is_long() { usize::MAX } else { STRESSORS_SHORT };
    let ground = Ground::mounted(RESTLESS);
    let root = ground.root();
    let (wrong, shuffles) = shuffling(&root, || match &seconds {
        Some(seconds) => stress(&root, None, seconds).err().into_iter().collect::<Vec<_>>(),
        None => {
            let some = STRESSORS.split(' ').take(most);
            some.filter_map(|s| stress(&root, Some(s), "1").err()).collect()
        }
    });
    let came = ground.state()["came"].as_u64();
    eprintln!("stress-ng: {shuffles} shuffles, {came:?} files moved");
    ground.end();
    if let Some(seconds) = seconds
        && !wrong.is_empty()
    {
        let beneath = stress(&Ground::plain().root(), None, &seconds);
        eprintln!("beneath: {beneath:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Small files by the thousand: all are there, before and after they were moved, and mounting does
/// not read them.
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
