//! `seekless watch` beside an ext4 file system on an emulated disk: repeated jobs wait less, umount
//! works, and nothing is left behind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::host::{
    self, Loop, Mount, Numbers, Server, attempt, lines_of, next_line, run, seekless,
};
use crate::need;

/// Files of the job, in folders of ten.
const FILES: usize = 800;
/// A run ends when nothing is used for two seconds.
const IDLE: Duration = Duration::from_millis(2500);

fn missing() -> Option<String> {
    host::fuse()
        .or_else(|| host::loop_mounts("ext4"))
        .or_else(|| host::programs(&["mkfs.ext4", "tar", "setsid"]))
        .or_else(|| seekless_serve::capture::check().err().map(|e| e.to_string()))
}

/// A disk that takes its time, with an ext4 full of small files.
struct Slow {
    dir: tempfile::TempDir,
    device: Option<Loop>,
    server: Option<Server>,
}

impl Slow {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.img");
        File::create(&image).unwrap().set_len(4 << 30).unwrap();
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run(["mkfs.ext4", "-q", "-F", "-E", options, image.to_str().unwrap()]);
        fs::create_dir(dir.path().join("m")).unwrap();
        fill(&image, &dir.path().join("m"));
        let file = dir.path().join("volume");
        let mut command = seekless();
        command.args(["disk", "emulate", "wd800jb"]).arg(&image).args(["--scheduler", "sptf"]);
        let server = Server::of(command, dir.path(), Some(&file));
        let device = Loop::attach(&file, &["--direct-io=on"]);
        Self { dir, device: Some(device), server: Some(server) }
    }

    fn point(&self) -> PathBuf {
        self.dir.path().join("m")
    }

    /// Mounts it with nothing of it in memory.
    fn mount(&self) -> Mount {
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
fn fill(image: &Path, point: &Path) {
    let device = Loop::attach(image, &[]);
    let mount = Mount::new(device.device(), point, "noatime");
    let mut numbers = Numbers::new(3);
    let folders = FILES / 10;
    (0..folders).for_each(|d| fs::create_dir(point.join(format!("d{d:03}"))).unwrap());
    for i in 0..FILES {
        let folder = numbers.below(folders as u64);
        let len = 2000 + numbers.below(30_000) as usize;
        let bytes = numbers.bytes(len);
        fs::write(point.join(format!("d{folder:03}/f{i}")), bytes).unwrap();
        // Space between the files: other files, which are gone later.
        let gap = point.join(format!("gap{i}"));
        fs::write(&gap, vec![1; 200_000]).unwrap();
    }
    for i in 0..FILES {
        fs::remove_file(point.join(format!("gap{i}"))).unwrap();
    }
    mount.unmount();
    device.detach();
}

/// A running `seekless watch`.
struct Watch {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
    state: PathBuf,
    _limit: Sender<()>,
}

impl Watch {
    fn start(state: &Path, point: &Path, args: &[&str]) -> Self {
        let mut command = seekless();
        command.arg("watch").arg(point).args(args).arg("--state").arg(state);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let errors = lines_of(child.stderr.take().unwrap());
        let limit = host::watch(Pid::from_child(&child));
        let watch = Self { child, lines, errors, state: state.to_owned(), _limit: limit };
        let told = next_line(&watch.lines, "watching ");
        assert!(told.is_some(), "{:?}", watch.errors.try_iter().collect::<Vec<_>>());
        watch
    }

    /// The first file system in its status.
    fn filesystem(&self) -> Value {
        let asked = ["watch", "status", "--json", "--state"];
        let output = seekless().args(asked).arg(&self.state).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{e}: {said}");
        });
        assert_eq!(status["schema"], "seekless.watch/1");
        status["filesystems"][0].clone()
    }

    /// Its job with most pages.
    fn job(&self) -> Value {
        let filesystem = self.filesystem();
        let jobs = filesystem["jobs"].as_array().unwrap();
        jobs.iter().max_by_key(|j| j["pages"].as_u64()).cloned().unwrap_or(Value::Null)
    }

    /// This job, once the daemon has seen a new mount and has read the state that it saved.
    fn remembered(&self) -> Value {
        let start = Instant::now();
        loop {
            let job = self.job();
            if !job.is_null() {
                return job;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "no job is remembered");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it in order; returns what it said on standard error.
    fn stop(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        let said: Vec<String> = self.errors.iter().collect();
        assert!(status.success(), "{status}: {said:?}");
        said
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The job: reads all files of these folders, as a process group of its own.
fn job(point: &Path, folders: &str) -> Child {
    let script = format!("cd '{}' && tar cf - {folders} | cat > /dev/null", point.display());
    let mut command = Command::new("setsid");
    command.args(["-w", "sh", "-c", &script]).stdin(Stdio::null()).spawn().unwrap()
}

/// One cold run; returns its seconds.
fn cold(slow: &Slow, folders: &str) -> f64 {
    let mount = slow.mount();
    let start = Instant::now();
    assert!(job(&slow.point(), folders).wait().unwrap().success());
    let took = start.elapsed();
    // The run must end before the next one begins: this is its idle time.
    std::thread::sleep(IDLE);
    mount.unmount();
    took.as_secs_f64()
}

#[test]
fn a_repeated_job_waits_less_from_the_second_run_on() {
    need!("watch: repeated job", missing());
    let slow = Slow::new();
    let state = slow.dir.path().join("state");
    let mount = slow.mount();
    let watch = Watch::start(&state, &slow.point(), &[]);
    mount.unmount();
    let times: Vec<f64> = (0..3).map(|_| cold(&slow, "d*")).collect();
    let mount = slow.mount();
    let job = watch.remembered();
    eprintln!("seconds: {times:.2?}; {job}");
    let misses = |sort: &str| job[sort]["misses"].as_u64().unwrap();
    assert_eq!((&job["plain"]["runs"], &job["helped"]["runs"]), (&1.into(), &2.into()), "{job}");
    assert!(misses("plain") as usize >= FILES, "{job}");
    assert!(misses("helped") * 3 <= misses("plain"), "{job}");
    assert!(times[2] * 2.0 < times[0], "{times:?}");
    assert!(job["vain"].as_u64() < job["fetched"].as_u64().map(|f| f / 5), "{job}");
    let said = watch.stop();
    assert!(said.is_empty(), "{said:?}");
    mount.unmount();
}

#[test]
fn umount_works_within_a_second_and_a_killed_daemon_leaves_nothing() {
    need!("watch: umount", missing());
    let slow = Slow::new();
    let state = slow.dir.path().join("state");
    let mount = slow.mount();
    let watch = Watch::start(&state, &slow.point(), &[]);
    mount.unmount();
    cold(&slow, "d*");
    let mut numbers = Numbers::new(5);
    let mut fetched = 0;
    for round in 0..6 {
        let mount = slow.mount();
        let mut child = job(&slow.point(), "d*");
        // Some moment of the job, the first among them before anything is recognized.
        std::thread::sleep(Duration::from_millis(50 + numbers.below(600)));
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
        fetched += watch.filesystem()["totals"]["fetched"].as_u64().unwrap_or(0);
        // A worker may wait for an inode at this moment, and holds the mount until the disk answers.
        let start = Instant::now();
        let mut refused = 0;
        while !attempt(["umount".as_ref(), slow.point().as_os_str()]).status.success() {
            refused += 1;
            assert!(start.elapsed() < Duration::from_secs(1), "round {round}: busy");
        }
        eprintln!("round {round}: refused {refused} times");
        drop(mount);
    }
    assert!(fetched > 0, "it was at work");
    let mount = slow.mount();
    watch.signal(Signal::KILL);
    let pid = watch.child.id();
    drop(watch);
    let again = Watch::start(&state, &slow.point(), &[]);
    let instances = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let left = instances.filter(|i| i.file_name().to_string_lossy().contains(&format!("-{pid}-")));
    assert_eq!(left.count(), 0, "its trace is left");
    assert!(!again.remembered().is_null());
    again.stop();
    mount.unmount();
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
    need!("watch: dry run", missing());
    let slow = Slow::new();
    let state = slow.dir.path().join("state");
    fs::create_dir(&state).unwrap();
    run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", state.to_str().unwrap()]);
    let small = Mount::at(&state);
    let mount = slow.mount();
    let watch = Watch::start(&state, &slow.point(), &["--dry-run"]);
    mount.unmount();
    cold(&slow, "d00*");
    cold(&slow, "d00*");
    let mount = slow.mount();
    let job = watch.remembered();
    assert_eq!(job["fetched"], 0, "{job}");
    assert!(job["would"][1].as_u64() > Some(20), "{job}");
    let full = attempt(["dd", "if=/dev/zero", &format!("of={}/full", state.display())]);
    assert!(!full.status.success(), "the folder of the state is full now");
    let said = watch.stop();
    let about: Vec<_> = said.iter().filter(|s| s.contains("cannot save")).collect();
    assert_eq!((about.len(), said.len()), (1, 1), "{said:?}");
    mount.unmount();
    drop(small);
}

#[test]
fn what_cannot_be_watched_is_refused_with_a_reason() {
    need!("watch: refusals", missing());
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    for (point, word) in [("/proc", "ext2, ext3 and ext4"), ("/proc/self", "findmnt")] {
        let output = seekless().args(["watch", point, "--state"]).arg(&state).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(word), "{point}: {said}");
    }
    let output = seekless().args(["watch", "report", "--state"]).arg(&state).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("no `seekless watch` runs"), "{said}");
}
