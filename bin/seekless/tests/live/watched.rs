//! `seekless watch` beside ext4, XFS and btrfs on an emulated disk: repeated jobs wait less, umount
//! works, and nothing is left behind.

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::files::reserved;
use crate::host::{self, Loop, Mount, Numbers, Running, Server, attempt, run, seekless};
use crate::need;
use crate::pressure::{Group, no_group};
use crate::tests;

/// Files of the job, in folders of ten; half of them in the short form, where no test needs all.
const FILES: usize = 800;
/// Empty files beside them, for jobs that read no contents.
const EMPTY: usize = 4000;
/// Reads all files.
pub(crate) const READ_ALL: &str = "tar cf - d* | cat > /dev/null";
/// A run ends when nothing is used for two seconds.
const IDLE: Duration = Duration::from_millis(2500);

pub(crate) fn missing(kind: &str) -> Option<String> {
    host::lacks(&format!("fuse {kind} mkfs.{kind} tar setsid"))
        .or_else(|| seekless_serve::capture::check().err().map(|e| e.to_string()))
}

/// A disk that takes its time, with a file system full of small files.
pub(crate) struct Slow {
    dir: tempfile::TempDir,
    pub(crate) device: Option<Loop>,
    pub(crate) server: Option<Server>,
    files: usize,
    /// A run ends by itself before the unmount, which ends it too. On btrfs, its metadata is looked
    /// for meanwhile.
    idles: bool,
}

impl Slow {
    pub(crate) fn new(kind: &str) -> Self {
        Self::with(kind, if host::is_long() { FILES } else { FILES / 2 })
    }

    fn with(kind: &str, files: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.img");
        File::create(&image).unwrap().set_len(4 << 30).unwrap();
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        let make = match kind {
            "ext4" => vec!["mkfs.ext4", "-q", "-F", "-E", options],
            "btrfs" => vec!["mkfs.btrfs", "-q", "-f"],
            _ => vec!["mkfs.xfs", "-q", "-f"],
        };
        run(host::with(&make, image.to_str().unwrap()));
        fs::create_dir(dir.path().join("m")).unwrap();
        fill(&image, &dir.path().join("m"), files, if kind == "ext4" { 0 } else { EMPTY });
        let file = dir.path().join("volume");
        let mut command = seekless();
        command.args(["disk", "emulate", "wd800jb"]).arg(&image).args(["--scheduler", "sptf"]);
        let server = Server::of(command, dir.path(), Some(&file));
        let device = Loop::attach(&file, &["--direct-io=on"]);
        let idles = host::is_long() || kind == "btrfs";
        Self { dir, device: Some(device), server: Some(server), files, idles }
    }

    /// A disk, and a daemon that was started while it was mounted.
    pub(crate) fn watched(kind: &str, args: &[&str]) -> (Self, Watch) {
        let slow = Self::new(kind);
        let watch = slow.watch(args);
        (slow, watch)
    }

    /// A daemon that is started while the disk is mounted.
    fn watch(&self, args: &[&str]) -> Watch {
        self.mounted(|| Watch::start(&self.state(), &self.point(), args))
    }

    /// Ends the daemon while the disk is mounted; returns what it said.
    fn ends(&self, watch: Watch) -> Vec<String> {
        self.mounted(|| watch.stop())
    }

    /// Does this while it is mounted.
    pub(crate) fn mounted<T>(&self, act: impl FnOnce() -> T) -> T {
        let mount = self.mount();
        let done = act();
        mount.unmount();
        done
    }

    fn state(&self) -> PathBuf {
        self.dir().join("state")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn point(&self) -> PathBuf {
        self.dir.path().join("m")
    }

    /// Mounts it with nothing of it in memory.
    pub(crate) fn mount(&self) -> Mount {
        let device = self.device.as_ref().unwrap().device();
        run(["blockdev", "--flushbufs", device]);
        Mount::new(device, &self.point(), "noatime")
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.device.take());
        drop(self.server.take());
    }
}

/// Files in the order of a random walk through the folders, as on a disk in use.
fn fill(image: &Path, point: &Path, files: usize, empty: usize) {
    let device = Loop::attach(image, &[]);
    let mount = Mount::new(device.device(), point, "noatime");
    let mut numbers = Numbers::new(3);
    let folders = files / 10;
    (0..folders).for_each(|d| fs::create_dir(point.join(format!("d{d:03}"))).unwrap());
    for i in 0..files {
        let folder = numbers.below(folders as u64);
        let len = 2000 + numbers.below(30_000) as usize;
        let file = reserved(&point.join(format!("d{folder:03}/f{i}")), len as u64);
        file.write_all_at(&numbers.bytes(len), 0).unwrap();
        // Space between the files: other files, which are gone later.
        reserved(&point.join(format!("gap{i}")), 200_000);
    }
    // Inodes and names, for those who read no contents.
    for i in 0..empty {
        let folder = point.join(format!("e{:02}", i % 40));
        fs::create_dir_all(&folder).unwrap();
        File::create(folder.join(format!("{i:060}"))).unwrap();
    }
    (0..files).for_each(|i| fs::remove_file(point.join(format!("gap{i}"))).unwrap());
    mount.unmount();
    device.detach();
}

/// A running `seekless watch`.
pub(crate) struct Watch {
    running: Running,
    state: PathBuf,
}

impl Deref for Watch {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for Watch {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

impl Watch {
    pub(crate) fn start(state: &Path, point: &Path, args: &[&str]) -> Self {
        Self::of(seekless(), state, point, args)
    }

    fn of(mut command: Command, state: &Path, point: &Path, args: &[&str]) -> Self {
        command.arg("watch").arg(point).args(args).arg("--state").arg(state);
        let watch = Self { running: Running::start(command), state: state.to_owned() };
        watch.expect("watching ");
        watch
    }

    pub(crate) fn status(&self) -> Value {
        let asked = ["watch", "status", "--json", "--state"];
        let output = seekless().args(asked).arg(&self.state).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{e}: {said}: {:?}", self.errors.try_iter().collect::<Vec<_>>());
        });
        assert_eq!(status["schema"], "seekless.watch/1");
        status
    }

    /// The first file system in its status.
    pub(crate) fn filesystem(&self) -> Value {
        self.status()["filesystems"][0].clone()
    }

    /// The job of this name with most pages; without a name, of all.
    fn named(&self, name: &str) -> Option<Value> {
        let filesystem = self.filesystem();
        let jobs = filesystem["jobs"].as_array().cloned().unwrap_or_default();
        let jobs = jobs.into_iter().filter(|j| name.is_empty() || j["name"] == name);
        jobs.max_by_key(|j| j["pages"].as_u64())
    }

    /// Its job with most pages, once it has seen a new mount and has read the state that it saved.
    pub(crate) fn remembered(&self) -> Value {
        host::awaited("a job is remembered", 10, || self.named(""))
    }

    /// Ends it in order; returns what it said on standard error.
    pub(crate) fn stop(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        let said: Vec<String> = self.errors.iter().collect();
        assert!(status.success(), "{status}: {said:?}");
        said
    }
}

/// The job: reads all files of these folders, as a process group of its own.
pub(crate) fn job(point: &Path, folders: &str) -> Child {
    shell(point, &format!("tar cf - {folders} | cat > /dev/null"))
}

pub(crate) fn shell(point: &Path, script: &str) -> Child {
    let script = format!("cd '{}' && {script}", point.display());
    let mut command = Command::new("setsid");
    command.args(["-w", "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// One cold run of a script; returns its output.
pub(crate) fn cold(slow: &Slow, watch: &Watch, script: &str) -> String {
    let mount = slow.mount();
    let output = shell(&slow.point(), script).wait_with_output().unwrap();
    assert!(output.status.success(), "{script}");
    // The run must end before the next one begins: after its idle time, or by the unmount.
    if slow.idles {
        std::thread::sleep(IDLE);
    }
    // Between two answers the daemon takes the last events.
    (0..2).for_each(|_| drop(watch.status()));
    mount.unmount();
    String::from_utf8(output.stdout).unwrap()
}

/// What the daemon knows of this job at the next mount.
fn remembered(slow: &Slow, watch: &Watch, name: &str) -> Value {
    slow.mounted(|| {
        watch.remembered();
        watch.named(name).unwrap_or_default()
    })
}

/// Runs a script cold until the daemon has run ahead of one whole run: the job waited at most a
/// third as often as `alone`, and at most half of the pages ahead were in vain. The daemon and
/// the job race for the processors, so on a busy host a run may fall behind: six runs may try.
/// Returns their outputs.
fn until_helped(slow: &Slow, watch: &Watch, name: &str, script: &str, alone: u64) -> Vec<String> {
    let job = || {
        let job = remembered(slow, watch, name);
        let of = |value: &Value| value.as_u64().unwrap_or_default();
        [&job["helped"]["runs"], &job["helped"]["misses"], &job["fetched"], &job["vain"]].map(of)
    };
    let mut outputs = Vec::new();
    let mut before = job();
    for attempt in 1..=6 {
        outputs.push(cold(slow, watch, script));
        let after = job();
        let [runs, misses, fetched, vain] =
            std::array::from_fn(|i| after[i].saturating_sub(before[i]));
        eprintln!(
            "{script}: attempt {attempt}: {runs} helped, {misses} waits ({alone} alone), \
             {fetched} pages ahead, {vain} of them in vain"
        );
        if runs == 1 && misses * 3 <= alone && vain * 2 <= fetched {
            return outputs;
        }
        before = after;
    }
    panic!("{script}: no run of six was helped");
}

#[test]
fn a_repeated_job_waits_less_from_the_second_run_on() {
    need!("watch: repeated job", missing("ext4"));
    let (mut slow, watch) = Slow::watched("ext4", &[]);
    slow.idles = true;
    cold(&slow, &watch, READ_ALL);
    let job = remembered(&slow, &watch, "");
    let [plain, helped] = ["plain", "helped"].map(|sort| &job[sort]["runs"]);
    assert_eq!((plain, helped), (&1.into(), &0.into()), "{job}");
    let alone = job["plain"]["misses"].as_u64().unwrap();
    assert!(alone as usize >= slow.files, "{job}");
    until_helped(&slow, &watch, "", READ_ALL, alone);
    assert_eq!(slow.ends(watch), [""; 0]);
}

tests! {
    fn jobs_on_xfs_wait_less_and_read_the_same() {
        need!("watch: xfs", missing("xfs"));
        jobs_through_the_mount("xfs");
    }
    fn jobs_on_btrfs_wait_less_and_read_the_same() {
        need!("watch: btrfs", host::long().or_else(|| missing("btrfs")));
        jobs_through_the_mount("btrfs");
    }
    fn umount_is_never_refused_on_ext4() {
        need!("watch: umount", missing("ext4"));
        assert_eq!(unmounts("ext4", host::rounds("SEEKLESS_ROUNDS", 8, 20)), 0);
    }
    fn umount_works_within_a_second_on_xfs() {
        need!("watch: umount of xfs", host::long().or_else(|| missing("xfs")));
        unmounts("xfs", 6);
    }
    fn umount_works_within_a_second_on_btrfs() {
        need!("watch: umount of btrfs", missing("btrfs"));
        unmounts("btrfs", host::rounds("SEEKLESS_ROUNDS", 4, 6));
    }
}

#[test]
fn a_job_on_btrfs_is_known_after_its_metadata_has_moved() {
    need!("watch: moved metadata of btrfs", missing("btrfs"));
    let (slow, watch) = Slow::watched("btrfs", &["--names"]);
    cold(&slow, &watch, "du -s .");
    // Each leaf is written to another address.
    cold(&slow, &watch, "chmod -R g+w .");
    let alone = remembered(&slow, &watch, "du")["plain"]["misses"].as_u64().unwrap();
    until_helped(&slow, &watch, "du", "du -s .", alone);
    // What a part of the job does not use is in vain, though the daemon has looked at it.
    let vain = || {
        let totals = slow.mounted(|| {
            watch.remembered();
            watch.filesystem()["totals"].clone()
        });
        totals["vain"].as_u64().unwrap()
    };
    let before = vain();
    let in_vain = (0..3).any(|_| {
        cold(&slow, &watch, "du -s d000 d001 d002");
        vain() > before
    });
    assert!(in_vain, "what was read for nobody counts as used");
    slow.ends(watch);
}

/// Jobs on a file system whose metadata is read through the mount.
fn jobs_through_the_mount(kind: &str) {
    let (slow, watch) = Slow::watched(kind, &["--names"]);
    // Metadata of the first `tar` comes from the job of `du` already: it is not alone.
    let files = slow.files as u64;
    for (name, script, least) in [
        ("du", "du -s .", 0),
        ("find", "find . -size +9k | md5sum", 0),
        ("tar", "tar cf - d* | md5sum", files),
    ] {
        let want = cold(&slow, &watch, script);
        assert!(watch.status()["filesystems"][0].is_null(), "it is not mounted");
        let job = remembered(&slow, &watch, name);
        let alone = job["plain"]["misses"].as_u64().unwrap_or(0).max(least);
        let outputs = match name {
            // What `find` reads is the job of `du`.
            "find" => vec![cold(&slow, &watch, script), cold(&slow, &watch, script)],
            _ => until_helped(&slow, &watch, name, script, alone),
        };
        assert!(outputs.iter().all(|o| *o == want), "{script}: {want}, then {outputs:?}");
    }
    assert_eq!(slow.ends(watch), [""; 0]);
}

/// Kills a job that is run ahead of, and unmounts, many times. Returns how often umount was
/// refused.
fn unmounts(kind: &str, rounds: u64) -> u32 {
    // The moments are for a job of this length.
    let slow = Slow::with(kind, FILES);
    let watch = slow.watch(&[]);
    cold(&slow, &watch, READ_ALL);
    let mut numbers = Numbers::new(5);
    let mut all = 0;
    for round in 0..rounds {
        let mount = slow.mount();
        let mut child = job(&slow.point(), "d*");
        // Some moment of the job, the first among them before anything is recognized; later ones
        // also where the host is slow.
        std::thread::sleep(Duration::from_millis(50 + numbers.below(600 + 150 * round)));
        let group = Pid::from_child(&child);
        let whole = attempt(["pgrep", "-P", &group.as_raw_nonzero().to_string()]);
        for pid in String::from_utf8_lossy(&whole.stdout).split_whitespace() {
            let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.kill();
        child.wait().unwrap();
        gone(&slow.point());
        let start = Instant::now();
        let mut refused = 0;
        while !attempt(["umount".as_ref(), slow.point().as_os_str()]).status.success() {
            refused += 1;
            assert!(start.elapsed() < Duration::from_secs(1), "round {round}: busy");
        }
        eprintln!("{kind}, round {round}: refused {refused} times");
        all += refused;
        drop(mount);
    }
    let job = remembered(&slow, &watch, "");
    assert!(job["fetched"].as_u64() > Some(0), "it was at work: {job}");
    slow.ends(watch);
    all
}

/// The trace instances of a process, those that can be removed left out. A mount of our own: no
/// daemon of another test uses it.
fn instances(of: u32) -> usize {
    let script = "mount -t tracefs none /mnt && cd /mnt/instances && rmdir -- *-$1-* 2> /dev/null; \
                  ls -d -- *-$1-* 2> /dev/null; true";
    run(["unshare", "-m", "sh", "-c", script, "sh", &of.to_string()]).lines().count()
}

#[test]
fn a_daemon_killed_at_any_time_leaves_no_trace_and_a_damaged_state_is_said() {
    need!("watch: killed", missing("ext4"));
    let (slow, mut watch) = Slow::watched("ext4", &[]);
    let state = slow.state();
    assert_eq!(instances(watch.child.id()), 1, "the trace of a running daemon stays");
    let script = "tar cf - d* | md5sum";
    let want = cold(&slow, &watch, script);
    let mut numbers = Numbers::new(7);
    for round in 0..host::rounds("SEEKLESS_ROUNDS", 3, 5) {
        let mount = slow.mount();
        let child = shell(&slow.point(), script);
        std::thread::sleep(Duration::from_millis(numbers.below(900)));
        let pid = watch.child.id();
        watch.signal(Signal::KILL);
        drop(watch);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), want, "round {round}");
        watch = Watch::start(&state, &slow.point(), &[]);
        assert_eq!(instances(pid), 0, "round {round}: its trace is left");
        assert_eq!(watch.errors.try_iter().collect::<Vec<_>>(), [""; 0], "round {round}");
        mount.unmount();
    }
    let mount = slow.mount();
    assert!(!watch.remembered().is_null());
    watch.stop();
    let jobs = fs::read_dir(&state).unwrap().map(|e| e.unwrap().path());
    let file = jobs.into_iter().find(|p| p.extension().is_some_and(|e| e == "jobs")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let watch = Watch::start(&state, &slow.point(), &[]);
    assert_eq!(watch.filesystem()["jobs"], Value::Array(Vec::new()));
    let said = watch.stop();
    assert!(
        said.len() == 1 && said[0].contains("learning starts again without earlier data"),
        "{said:?}"
    );
    mount.unmount();
}

#[test]
fn what_is_ahead_fits_into_the_daemons_control_group() {
    const LIMIT: u64 = 32 << 20;
    need!("watch: control group", missing("ext4").or_else(no_group));
    let group = Group::new("watch", LIMIT);
    let slow = Slow::with("ext4", FILES);
    let state = slow.state();
    let mount = slow.mount();
    let watch = Watch::start(&state, &slow.point(), &[]);
    fs::write(group.0.join("cgroup.procs"), watch.child.id().to_string()).unwrap();
    mount.unmount();
    let script = "tar cf - d* | md5sum";
    let runs: Vec<_> = (0..3).map(|_| cold(&slow, &watch, script)).collect();
    let mount = slow.mount();
    let (job, ahead) = (watch.remembered(), watch.status()["pages_ahead"].as_u64().unwrap());
    eprintln!("{ahead} pages ahead; {job}");
    // Zero if the group waits for memory at this moment.
    assert!(ahead <= LIMIT / 4096 / 2, "{ahead}");
    assert!(runs.iter().all(|r| *r == runs[0]), "{runs:?}");
    assert!(job["fetched"].as_u64() > Some(500), "{job}");
    assert!(watch.stop().is_empty());
    mount.unmount();
    drop(group);
}

/// Waits until no process has the mount open.
fn gone(point: &Path) {
    let start = Instant::now();
    let prefix = point.to_str().unwrap();
    let uses = |dir: &Path| {
        let links = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten().map(|e| e.path());
        let mut links = links.chain([dir.join("cwd")]);
        links.any(|l| fs::read_link(l).is_ok_and(|t| t.starts_with(prefix)))
    };
    let is_job = |dir: &Path| {
        let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
        ["tar", "cat", "sh"].contains(&name.trim())
    };
    loop {
        let all = fs::read_dir("/proc").unwrap().flatten().map(|e| e.path());
        if all.filter(|d| is_job(d)).all(|d| !uses(&d)) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "the job does not end");
    }
}

#[test]
fn a_dry_run_reads_nothing_and_a_full_state_is_said_once() {
    need!("watch: dry run", missing("ext4"));
    let slow = Slow::new("ext4");
    let state = slow.state();
    fs::create_dir(&state).unwrap();
    run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", state.to_str().unwrap()]);
    let small = Mount::at(&state);
    let mount = slow.mount();
    let watch = Watch::start(&state, &slow.point(), &["--dry-run"]);
    mount.unmount();
    let script = "tar cf - d00* | cat > /dev/null";
    cold(&slow, &watch, script);
    let full = attempt(["dd", "if=/dev/zero", &format!("of={}/full", state.display())]);
    assert!(!full.status.success(), "the folder of the state is full now");
    // Its end is to be saved at the unmount, and then at the stop.
    cold(&slow, &watch, script);
    let mount = slow.mount();
    let job = watch.remembered();
    assert_eq!(job["fetched"], 0, "{job}");
    assert!(job["would"][1].as_u64() > Some(20), "{job}");
    let said = watch.stop();
    let about: Vec<_> = said.iter().filter(|s| s.contains("cannot save")).collect();
    assert_eq!((about.len(), said.len()), (1, 1), "{said:?}");
    mount.unmount();
    drop(small);
}

/// A small file system on a fast disk.
struct Quick {
    mount: Option<Mount>,
    device: Option<Loop>,
    dir: tempfile::TempDir,
}

impl Quick {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (image, point) = (dir.path().join("disk.img"), dir.path().join("m"));
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        run(host::with(&["mkfs.ext4", "-q", "-F"], image.to_str().unwrap()));
        fs::create_dir(&point).unwrap();
        let device = Loop::attach(&image, &[]);
        run(["blockdev", "--setra", "0", device.device()]);
        let mount = Mount::new(device.device(), &point, "noatime");
        Self { mount: Some(mount), device: Some(device), dir }
    }

    /// Mounts it again: nothing of it is in memory then.
    fn remount(&mut self) {
        let (_, point) = self.paths();
        self.mount.take().unwrap().unmount();
        self.mount = Some(Mount::new(self.device.as_ref().unwrap().device(), &point, "noatime"));
    }

    fn paths(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("state"), self.dir.path().join("m"))
    }
}

impl Drop for Quick {
    fn drop(&mut self) {
        drop(self.mount.take());
        drop(self.device.take());
    }
}

/// The end of a daemon that ends by itself, and what it said.
fn failed(watch: &mut Watch) -> String {
    let status = watch.wait(Duration::from_secs(60));
    assert_eq!(status.and_then(|s| s.code()), Some(2), "a daemon that sees nothing goes on");
    watch.errors.iter().collect::<Vec<_>>().join("\n")
}

#[test]
fn a_lost_trace_ends_the_daemon_with_a_reason_and_saves_what_it_learned() {
    need!("watch: lost trace", missing("ext4").or_else(|| host::lacks("unshare nsenter")));
    let quick = Quick::new();
    let (state, point) = quick.paths();
    for setting in ["tracing_on", "events/enable"] {
        let mut watch = Watch::start(&state, &point, &[]);
        // A mount of our own: the host may have none.
        let script = "mount -t tracefs none /mnt && echo 0 | tee /mnt/instances/seekless-$1-*/$2";
        let pid = watch.child.id().to_string();
        run(["unshare", "-m", "sh", "-c", script, "sh", &pid, setting]);
        let said = failed(&mut watch);
        assert!(said.contains("another program has switched this off"), "{setting}: {said}");
        assert!(!state.join("control").exists(), "{setting}");
    }
    // Tracefs is taken away.
    let mut command = Command::new("unshare");
    let mounted = "{ mountpoint -q /sys/kernel/tracing || \
                   mount -t tracefs none /sys/kernel/tracing; } && exec \"$@\"";
    command.args(["-m", "sh", "-c", mounted, "sh"]).arg(seekless().get_program());
    let mut watch = Watch::of(command, &state, &point, &[]);
    let away = "while umount -l /sys/kernel/tracing; do :; done; \
                umount -l /sys/kernel/debug/tracing; true";
    let pid = watch.child.id().to_string();
    run(["nsenter", "-t", &pid, "-m", "sh", "-c", away]);
    let said = failed(&mut watch);
    assert!(said.contains("cannot read whether events are recorded"), "{said}");
}

#[test]
fn a_kernel_without_tracing_is_said_at_the_start() {
    need!("watch: no tracing", missing("ext4").or_else(|| host::lacks("unshare")));
    let quick = Quick::new();
    let (state, point) = quick.paths();
    let cover = "{ mountpoint -q /sys/kernel/tracing || \
                 mount -t tracefs none /sys/kernel/tracing; } && \
                 mount -t tmpfs none /sys/kernel/tracing && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", cover, "sh"]).arg(seekless().get_program());
    command.arg("watch").arg(&point).arg("--state").arg(&state);
    host::refused(&mut command, &["the kernel's events cannot be reached"]);
}

#[test]
fn events_that_do_not_fit_the_buffer_are_counted_and_watching_goes_on() {
    need!("watch: lost events", missing("ext4"));
    let quick = Quick::new();
    let (state, point) = quick.paths();
    // A hole: each page of it is an event, and none takes the disk.
    let hole = point.join("hole");
    File::create(&hole).unwrap().set_len(2 << 30).unwrap();
    let watch = Watch::start(&state, &point, &[]);
    assert_eq!(watch.status()["lost_events"], 0);
    watch.signal(Signal::STOP);
    run(["dd", "bs=4k", "of=/dev/null", &format!("if={}", hole.display())]);
    watch.signal(Signal::CONT);
    let lost = watch.status()["lost_events"].as_u64().unwrap();
    assert!(lost > 1000, "{lost} of 524,288");
    assert_eq!(watch.status()["lost_events"], lost, "no more are lost");
    assert_eq!(watch.stop(), [""; 0]);
}

#[test]
fn a_daemon_with_a_long_run_tells_the_service_manager_that_it_is_alive() {
    need!("watch: watchdog", missing("ext4"));
    let mut quick = Quick::new();
    let (state, point) = quick.paths();
    (0..40).for_each(|i| fs::write(point.join(format!("f{i}")), [1; 4096]).unwrap());
    // From now on, nothing of it is in memory.
    quick.remount();
    let socket = UnixDatagram::bind(quick.dir.path().join("notify")).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut command = seekless();
    command.env("NOTIFY_SOCKET", quick.dir.path().join("notify"));
    let watch = Watch::of(command, &state, &point, &[]);
    let mut text = [0; 512];
    let mut told = 0;
    for i in 0..40 {
        fs::read(point.join(format!("f{i}"))).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        while let Ok(n) = socket.recv(&mut text) {
            told += u32::from(i > 1 && text[..n].starts_with(b"WATCHDOG=1"));
        }
        if i > 1 {
            assert_eq!(watch.filesystem()["busy"], true, "{i}");
        }
        if told > 0 {
            break;
        }
    }
    assert!(told > 0, "twelve seconds without a sign of life");
    watch.stop();
}

#[test]
fn what_could_not_be_saved_is_saved_after_the_unmount() {
    need!("watch: full at unmount", missing("ext4"));
    let mut quick = Quick::new();
    let (state, point) = quick.paths();
    fs::create_dir(&state).unwrap();
    run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", state.to_str().unwrap()]);
    let small = Mount::at(&state);
    (0..100).for_each(|i| fs::write(point.join(format!("f{i}")), [1; 4096]).unwrap());
    quick.remount();
    // Begun in the file system, by a relative path: it must not keep the mount busy.
    let mut command = seekless();
    command.current_dir(&point);
    let watch = Watch::of(command, Path::new("../state"), &point, &[]);
    let job = shell(&point, "cat f* > /dev/null").wait_with_output().unwrap();
    assert!(job.status.success());
    std::thread::sleep(IDLE);
    let full = attempt(["dd", "if=/dev/zero", &format!("of={}/full", state.display())]);
    assert!(!full.status.success(), "the folder of the state is full now");
    quick.mount.take().unwrap().unmount();
    watch.expect_error("cannot save");
    fs::remove_file(state.join("full")).unwrap();
    watch.stop();
    let jobs = fs::read_dir(&state).unwrap().flatten();
    assert!(jobs.into_iter().any(|f| f.path().extension().is_some_and(|e| e == "jobs")));
    drop(small);
}

#[test]
fn a_file_system_below_another_one_is_left_alone() {
    need!("watch: hidden", missing("ext4"));
    let (below, mut above) = (Quick::new(), Quick::new());
    let (state, point) = below.paths();
    above.mount.take().unwrap().unmount();
    let over = Mount::new(above.device.as_ref().unwrap().device(), &point, "noatime");
    let watch = Watch::start(&state, &point, &[]);
    let all = watch.status()["filesystems"].as_array().unwrap().len();
    assert_eq!(all, 1, "the one that lies on top");
    watch.stop();
    over.unmount();
}

#[test]
fn the_page_the_metrics_and_top_show_the_same() {
    need!("watch: page", missing("ext4").or_else(|| host::lacks("python3")));
    let quick = Quick::new();
    let (state, point) = quick.paths();
    let watch = Watch::start(&state, &point, &["--http", "127.0.0.1:0"]);
    let said = watch.expect("http ");
    let url = said.trim_start_matches("http ").trim();
    let get = |path: &str| {
        let read = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())";
        run(["python3", "-c", read, &format!("{url}{path}")])
    };
    let status: Value = serde_json::from_str(&get("api/status")).unwrap();
    assert_eq!(status["filesystems"][0]["kind"], "ext4", "{status}");
    assert_eq!(status["schema"], "seekless.watch/1");
    let schema: Value = serde_json::from_str(&get("api/schema")).unwrap();
    assert_eq!(schema["title"], "seekless.watch/1");
    let metrics = get("metrics");
    let used = format!("seekless_watch_used_pages_total{{mount=\"{}\"}} 0", point.display());
    assert!(metrics.contains(&used), "{metrics}");
    match host::programs(&["promtool"]) {
        Some(why) => eprintln!("SKIPPED promtool: {why}"),
        None => crate::watching::promtool(&(metrics.trim_end().to_owned() + "\n")),
    }
    let output = seekless().args(["watch", "top", "--once", "--state"]).arg(&state).output();
    let top = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(top.contains("File systems") && top.contains("Jobs on"), "{top}");
    match crate::browsing::missing() {
        Some(why) => eprintln!("SKIPPED page: {why}"),
        None => {
            let run = serde_json::json!({
                "overflow": "document.documentElement.scrollWidth",
                "verdict": "document.getElementById('verdict').textContent",
                "rows": "document.querySelectorAll('#files tbody tr').length",
            });
            let ready = "document.body.dataset.ready === 'yes'";
            let page = crate::browsing::visit("watch", url, ready, &run);
            assert_eq!(page["values"]["rows"], 1, "{page:#}");
            assert!(page["values"]["verdict"].as_str().unwrap().starts_with("No job"), "{page:#}");
        }
    }
    watch.stop();
}
