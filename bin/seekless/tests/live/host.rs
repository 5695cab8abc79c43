//! The host for the tests: a server process, loop devices and mounts that clean up after
//! themselves, and other programs, each with a time limit.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest time of a test and of a program; multiplied for long tests.
const TEST: Duration = Duration::from_secs(80);
const PROGRAM_SECONDS: u64 = 45;
const LONGER: u32 = 20;

/// Returns from the test with a message if the host lacks something: the words of [`lacks`].
#[macro_export]
macro_rules! need {
    ($test:literal, $words:literal) => {
        $crate::need!($test, $crate::host::lacks($words))
    };
    ($test:literal, $missing:expr) => {
        if let Some(missing) = $missing {
            eprintln!("SKIPPED {}: {missing}", $test);
            return;
        }
    };
}

/// Tests that are short, a line each.
#[macro_export]
macro_rules! tests {
    ($($(#[doc = $about:literal])* fn $name:ident() $body:block)*) => {
        $($(#[doc = $about])* #[test] fn $name() $body)*
    };
}

/// True for the long form of tests, as in `.ci/run --long`.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SEEKLESS_LONG").is_some()
}

/// The missing setting for a test without a short form.
pub(crate) fn long() -> Option<String> {
    (!is_long()).then(|| "long; SEEKLESS_LONG=1 runs it".to_owned())
}

/// The seed of a test, from SEEKLESS_SEED, which repeats a run.
pub(crate) fn seed() -> u64 {
    let asked = std::env::var("SEEKLESS_SEED").ok().map(|n| n.parse().unwrap());
    let seed = asked.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("SEEKLESS_SEED={seed}");
    seed
}

/// Number of repetitions: from the variable, or from the form of the tests.
pub(crate) fn rounds(variable: &str, short: u64, long: u64) -> u64 {
    let asked = std::env::var(variable).ok().map(|n| n.parse().unwrap());
    asked.unwrap_or(if is_long() { long } else { short })
}

/// The first of these words that this host lacks: the long form of the tests, `root`, `fuse`,
/// mounts of a file system, or a program.
pub(crate) fn lacks(words: &str) -> Option<String> {
    words.split_whitespace().find_map(|word| match word {
        "long" => long(),
        "root" => root(),
        "fuse" => fuse(),
        "ext4" | "xfs" | "btrfs" => loop_mounts(word),
        program => programs(&[program]),
    })
}

/// The missing ones of these programs.
pub(crate) fn programs(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    names.iter().find(|n| !is_there(n)).map(|n| format!("no program {n}"))
}

/// A program in the path, or installed by cargo.
#[allow(dead_code, reason = "shared with the tests of `fs mount`")]
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = |var: &str| std::env::var_os(var).map(PathBuf::from);
    let cargo = home("CARGO_HOME").or_else(|| home("HOME").map(|h| h.join(".cargo")));
    let cargo = cargo.map(|c| c.join("bin"));
    std::env::split_paths(&path).chain(cargo).map(|dir| dir.join(name)).find(|p| p.is_file())
}

/// What FUSE mounts lack on this host.
pub(crate) fn fuse() -> Option<String> {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    let helper = root().and_then(|_| programs(&["fusermount3"]));
    device.err().map(|e| format!("/dev/fuse: {e}")).or(helper)
}

/// What loop devices and mounts lack on this host.
pub(crate) fn root() -> Option<String> {
    (!rustix::process::getuid().is_root()).then(|| "not root".to_owned())
}

/// What loop mounts of this file system lack on this host.
pub(crate) fn loop_mounts(filesystem: &str) -> Option<String> {
    let known = || std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known().contains(filesystem) {
        // The module may not be loaded yet; the check below decides.
        let _ = Command::new("modprobe").arg(filesystem).output();
    }
    if !known().contains(filesystem) {
        return Some(format!("the kernel has no {filesystem}"));
    }
    let control = std::fs::File::open("/dev/loop-control");
    control.err().map(|e| format!("/dev/loop-control: {e}"))
}

/// A file system: commands to make and check it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Bytes of a disk for tests.
    pub(crate) size: u64,
    pub(crate) make: &'static [&'static str],
    pub(crate) check: &'static [&'static str],
    pub(crate) check_file: &'static [&'static str],
}

pub(crate) const EXT4: Kind = Kind {
    name: "ext4",
    size: 160 << 20,
    make: &["mkfs.ext4", "-q"],
    check: &["e2fsck", "-fn"],
    check_file: &["e2fsck", "-fn"],
};
pub(crate) const XFS: Kind = Kind {
    name: "xfs",
    size: 320 << 20,
    make: &["mkfs.xfs", "-q", "-f"],
    check: &["xfs_repair", "-n"],
    check_file: &["xfs_repair", "-n", "-f"],
};
pub(crate) const BTRFS: Kind = Kind {
    name: "btrfs",
    size: 512 << 20,
    make: &["mkfs.btrfs", "-q"],
    // By force: otherwise it looks at all mounts of the host, and stops at a dead one of another test.
    check: &["btrfs", "check", "--force", "--readonly"],
    check_file: &["btrfs", "check", "--force", "--readonly"],
};

impl Kind {
    /// What volumes under this file system lack on this host; `more` programs are needed too.
    pub(crate) fn missing(&self, more: &[&str]) -> Option<String> {
        let own = [self.make[0], self.check[0], self.name];
        lacks("losetup timeout fuse root").or_else(|| lacks(&[&own[..], more].concat().join(" ")))
    }
}

/// The words of a line: arguments without spaces.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The beginning of a command: its program has this time, and more in the long form.
pub(crate) fn limited(seconds: u64) -> Command {
    let seconds = seconds * if is_long() { u64::from(LONGER) } else { 1 };
    let mut command = Command::new("timeout");
    command.arg("--kill-after=2").arg(seconds.to_string()).stdin(Stdio::null());
    command
}

/// Runs a program to its end.
pub(crate) fn attempt<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    let mut command = limited(PROGRAM_SECONDS);
    command.args(args);
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Runs a program that must succeed; returns its output.
pub(crate) fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let args: Vec<_> = args.into_iter().map(|a| a.as_ref().to_owned()).collect();
    let output = attempt(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{args:?}: {}\n{out}\n{err}", output.status);
    out
}

/// Runs a program with arguments without spaces, which must succeed; returns its output.
pub(crate) fn run_line(line: &str) -> String {
    run(words(line))
}

/// The program under test.
pub(crate) fn seekless() -> Command {
    Command::new(crate::PROGRAM)
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON that a command prints, which must succeed.
pub(crate) fn json(command: &mut Command) -> Value {
    serde_json::from_str(&succeeds(command)).unwrap()
}

/// Asks for a JSON until it fits, at most for this time.
pub(crate) fn json_that(
    seconds: u64,
    mut ask: impl FnMut() -> Value,
    mut fits: impl FnMut(&Value) -> bool,
) -> Value {
    let start = Instant::now();
    loop {
        let json = ask();
        if fits(&json) {
            return json;
        }
        assert!(start.elapsed() < Duration::from_secs(seconds), "{json:#}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a command that must be refused, with all of these words; returns all it said.
pub(crate) fn refused(command: &mut Command, words: &[&str]) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{command:?} does not say '{word}': {said}");
    }
    said
}

/// Waits until this is so, for at most so many seconds.
pub(crate) fn until(what: &str, seconds: u64, mut is_so: impl FnMut() -> bool) {
    awaited(what, seconds, || is_so().then_some(()));
}

/// Waits for this answer, at most for this time.
pub(crate) fn awaited<T>(what: &str, seconds: u64, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(seconds), "{what}: not after {seconds} s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A command and its last argument.
pub(crate) fn with<'a>(command: &[&'a str], target: &'a str) -> Vec<&'a str> {
    command.iter().copied().chain([target]).collect()
}

/// The answer of `seekless volume status --json`. `rest`: `--area`, if no server runs.
pub(crate) fn status(image: &Path, rest: &[&str]) -> Value {
    let output =
        seekless().args(["volume", "status", "--json"]).arg(image).args(rest).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
        panic!("{e}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

/// A started program, and what it says. Dropping it kills it.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) errors: Receiver<String>,
    has_ended: bool,
    _limit: Sender<()>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let errors = lines_of(child.stderr.take().unwrap());
        let limit = watch(Pid::from_child(&child));
        Self { child, lines, errors, has_ended: false, _limit: limit }
    }

    /// The next line on its standard output with this beginning.
    pub(crate) fn expect(&self, beginning: &str) -> String {
        next_line(&self.lines, beginning).unwrap_or_else(|| {
            let said: Vec<_> = self.errors.try_iter().collect();
            panic!("it never said '{beginning}'; but: {}", said.join("\n"))
        })
    }

    /// The next line on its standard error must contain this.
    pub(crate) fn expect_error(&self, part: &str) {
        let line = self.error();
        assert!(line.contains(part), "expected '{part}', got {line:?}");
    }

    /// The next line on its standard error.
    pub(crate) fn error(&self) -> String {
        next_line(&self.errors, "").unwrap_or_else(|| panic!("it said nothing"))
    }

    /// All lines that were not read yet. A program that has ended says no more, but its last lines
    /// may still be on their way.
    pub(crate) fn said(&self) -> Vec<String> {
        let wait = Duration::from_secs(if self.has_ended { 5 } else { 0 });
        let next = |lines: &Receiver<String>| lines.recv_timeout(wait).ok();
        let lines = std::iter::from_fn(|| next(&self.lines));
        lines.chain(std::iter::from_fn(|| next(&self.errors))).collect()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(20)).unwrap();
    }

    /// Its status, if it ends within this time.
    pub(crate) fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                None if start.elapsed() < most => std::thread::sleep(Duration::from_millis(5)),
                status => {
                    self.has_ended = status.is_some();
                    return status;
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `seekless serve`. Dropping it stops it, by force if necessary, and removes its mount.
pub(crate) struct Server {
    running: Running,
    json: PathBuf,
    mount: Option<PathBuf>,
}

impl Deref for Server {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

impl Server {
    /// Starts a server and waits until it serves. `mount` is the path for `--fuse`.
    pub(crate) fn start(dir: &Path, backing: &Path, mount: Option<&Path>, args: &[&str]) -> Self {
        let mut command = seekless();
        command.arg("serve").arg(backing).args(args);
        Self::of(command, dir, mount)
    }

    /// The same; options without spaces are in a line.
    pub(crate) fn line(dir: &Path, backing: &Path, mount: Option<&Path>, options: &str) -> Self {
        Self::start(dir, backing, mount, &words(options))
    }

    /// Starts this command, which serves like `seekless serve`, and waits until it serves.
    pub(crate) fn of(command: Command, dir: &Path, mount: Option<&Path>) -> Self {
        let server = Self::spawned(command, dir, mount);
        server.expect("serving ");
        server
    }

    /// The same; also returns its first line with this beginning, which comes before it serves.
    pub(crate) fn told(command: Command, dir: &Path, beginning: &str) -> (Self, String) {
        let server = Self::spawned(command, dir, None);
        let line = server.expect(beginning);
        server.expect("serving ");
        (server, line)
    }

    /// Starts `seekless volume rescue`, which has no counters.
    pub(crate) fn of_rescue(mut command: Command, dir: &Path) -> Self {
        command.current_dir(dir);
        let (running, json) = (Running::start(command), dir.join("none"));
        running.expect("serving ");
        Self { running, json, mount: None }
    }

    fn spawned(mut command: Command, dir: &Path, mount: Option<&Path>) -> Self {
        let json = dir.join("counts.json");
        command.arg("--json").arg(&json).current_dir(dir);
        if let Some(path) = mount {
            command.arg("--fuse").arg(path);
        }
        Self { running: Running::start(command), json, mount: mount.map(Path::to_owned) }
    }

    /// Lets it learn, waits until all moves are done, and checks that there are copies.
    pub(crate) fn learn(&self) {
        self.signal(Signal::USR1);
        let line = self.expect("learned: ");
        assert!(!line.contains("copies of 0 B"), "{line}");
    }

    /// Stops it; returns its counters. A program that another test is just starting shares our open
    /// files until it is loaded: a server that refuses to end because of that is asked again.
    pub(crate) fn stop(mut self) -> Value {
        self.signal(Signal::TERM);
        let start = Instant::now();
        while self.wait(Duration::from_millis(100)).is_none() && start.elapsed().as_secs() < 20 {
            if self.errors.try_iter().any(|line| line.contains("is in use: process")) {
                self.signal(Signal::TERM);
            }
        }
        self.ended()
    }

    /// Waits for its successful end; returns its counters.
    pub(crate) fn ended(&mut self) -> Value {
        let status = self.wait(Duration::from_secs(20));
        assert!(status.is_some_and(|s| s.success()), "{status:?}\n{}", self.said().join("\n"));
        serde_json::from_slice(&std::fs::read(&self.json).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It refuses while its mount is in use.
        if self.wait(Duration::ZERO).is_none() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            self.wait(Duration::from_secs(4));
        }
        if self.wait(Duration::ZERO).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(path) = self.mount.as_ref().filter(|p| is_mounted(p)) {
            let _ = Command::new("umount").arg("-l").arg(path).output();
        }
    }
}

/// Kills a server that runs far beyond its test's time. Programs that hang in its mounts then get
/// errors, and the test fails. Dropping the result cancels this.
pub(crate) fn watch(pid: Pid) -> Sender<()> {
    let (keep, ended) = channel();
    std::thread::spawn(move || {
        let most = TEST * if is_long() { LONGER } else { 1 };
        if ended.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
            eprintln!("the test takes too long: its server is killed");
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    keep
}

pub(crate) fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

pub(crate) fn next_line(lines: &Receiver<String>, beginning: &str) -> Option<String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let line = lines.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
        if line.starts_with(beginning) {
            return Some(line);
        }
    }
}

/// True if something is mounted at this path.
pub(crate) fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(&format!(" {} ", path.display()))
}

/// A loop device.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn attach(file: &Path, options: &[&str]) -> Self {
        let mut args: Vec<&OsStr> = vec!["losetup".as_ref(), "-f".as_ref(), "--show".as_ref()];
        args.extend(options.iter().map(OsStr::new));
        args.push(file.as_ref());
        let device = Self(run(args).trim().to_owned());
        assert!(device.0.starts_with("/dev/loop"), "{}", device.0);
        // Drops the kernel's cache of another disk of this name, from a program that read it late.
        run(["blockdev", "--flushbufs", &device.0]);
        device
    }

    pub(crate) fn device(&self) -> &str {
        &self.0
    }

    /// Detaches it, and waits for that.
    pub(crate) fn detach(self) {
        drop(self);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let file = format!("/sys/block/{}/loop/backing_file", self.0.trim_start_matches("/dev/"));
        let begun = std::fs::read(&file);
        let _ = attempt(["losetup", "-d", &self.0]);
        // Another test that looks for a device may have this one open: it is detached after that.
        let (start, late) = (Instant::now(), Duration::from_secs(5));
        let same = || begun.as_ref().is_ok_and(|b| std::fs::read(&file).is_ok_and(|now| now == *b));
        while same() && start.elapsed() < late {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Unmounts, and retries: a program that another test is just starting shares our open files until
/// it is loaded.
pub(crate) fn unmount(path: &Path) {
    let start = Instant::now();
    loop {
        let output = attempt(["umount".as_ref(), path.as_os_str()]);
        if output.status.success() {
            return;
        }
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let may_wait = words.contains("busy") && start.elapsed() < Duration::from_secs(5);
        assert!(may_wait, "umount {}: {words}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until no file system uses this device: a copy of the host's mounts (of a container or
/// another test) may keep it in use after an unmount.
pub(crate) fn let_go(device: &str) {
    let start = Instant::now();
    loop {
        // A mounted device cannot be opened exclusively.
        let opened = std::fs::File::options()
            .read(true)
            .custom_flags(OFlags::EXCL.bits().cast_signed())
            .open(device);
        match opened {
            Ok(_) => return,
            Err(e) => assert!(
                e.kind() == std::io::ErrorKind::ResourceBusy
                    && start.elapsed() < Duration::from_secs(120),
                "{device}, unmounted: {e}"
            ),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A mounted file system: its path, and its device if it has one.
pub(crate) struct Mount(PathBuf, Option<String>);

impl Mount {
    pub(crate) fn new(device: &str, dir: &Path, options: &str) -> Self {
        run(["mount".as_ref(), "-o".as_ref(), options.as_ref(), device.as_ref(), dir.as_os_str()]);
        Self(dir.to_owned(), Some(device.to_owned()))
    }

    /// A mount that exists already.
    pub(crate) fn at(dir: &Path) -> Self {
        Self(dir.to_owned(), None)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Unmounts it; this must succeed.
    pub(crate) fn unmount(self) {
        unmount(&self.0);
        if let Some(device) = &self.1 {
            let_go(device);
        }
        std::mem::forget(self);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !attempt(["umount".as_ref(), self.0.as_os_str()]).status.success() {
            let _ = attempt(["umount".as_ref(), "-l".as_ref(), self.0.as_os_str()]);
        }
    }
}

/// Pseudo-random numbers, the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
