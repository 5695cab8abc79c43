//! What runs on a file system while its server is killed, and what must be there afterwards: files,
//! a repository of git, a file that is written in place, and fio. Each puts down what was made
//! durable; each can tell what it finds later.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::host::{Numbers, attempt, run, words};

/// Something that goes on until its disk is gone.
pub(crate) trait Workload: Send {
    /// Does one more piece of work and makes it durable.
    fn step(&mut self) -> io::Result<()>;
    /// Holds what is found against what was made durable; where something is not as it must be,
    /// panics.
    fn check(&mut self, after: &str);
    /// What it is, and how much was made durable so far.
    fn count(&self) -> String;
}

/// The disk beneath a file system. btrfs and XFS have called data durable after their disk had failed:
/// a sync counts only if the disk answers afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// The file of the volume.
    pub(crate) fn new(volume: &Path) -> Self {
        Self(volume.to_owned())
    }

    /// Fails if the disk is gone.
    fn answers(&self) -> io::Result<()> {
        let answer = File::open(&self.0).and_then(|disk| disk.read_exact_at(&mut [0; 512], 0));
        answer.inspect_err(|e| eprintln!("data was synced, and then the disk does not answer: {e}"))
    }
}

/// Files that are kept: the disk is small.
const KEPT: u64 = 300;

/// Files, each written, synced and renamed to its name.
pub(crate) struct Files {
    root: PathBuf,
    disk: Disk,
    durable: u64,
}

impl Files {
    pub(crate) fn new(root: &Path, disk: &Disk) -> Self {
        Self { root: root.to_owned(), disk: disk.clone(), durable: 0 }
    }
}

fn content(number: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(number + 1);
    let len = 1 + numbers.below(60_000) as usize;
    numbers.bytes(len)
}

impl Workload for Files {
    fn step(&mut self) -> io::Result<()> {
        let mut file = File::create(self.root.join("new"))?;
        file.write_all(&content(self.durable))?;
        file.sync_all()?;
        fs::rename(self.root.join("new"), self.root.join(self.durable.to_string()))?;
        File::open(&self.root)?.sync_all()?;
        self.disk.answers()?;
        self.durable += 1;
        if let Some(old) = self.durable.checked_sub(KEPT + 1) {
            fs::remove_file(self.root.join(old.to_string())).or_else(|e| match e.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(e),
            })?;
        }
        Ok(())
    }

    fn check(&mut self, after: &str) {
        for number in self.durable.saturating_sub(KEPT)..self.durable {
            let found = fs::read(self.root.join(number.to_string()));
            let of = self.durable;
            let found = found.unwrap_or_else(|e| panic!("{after}: file {number} of {of}: {e}"));
            assert!(found == content(number), "{after}: file {number} of {of} is wrong");
        }
    }

    fn count(&self) -> String {
        format!("{} files", self.durable)
    }
}

pub(crate) const BLOCK: usize = 4096;

/// What block `number` holds after its writing `writing`: each sector says which block and which
/// writing it is of, with bytes that follow from that. Never written, it has zeroes.
pub(crate) fn block(number: u64, writing: u64) -> Vec<u8> {
    if writing == 0 {
        return vec![0; BLOCK];
    }
    let mut bytes = Vec::with_capacity(BLOCK);
    for sector in 0..8 {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&writing.to_le_bytes());
        bytes.extend(Numbers::new(number << 32 | writing << 3 | sector).bytes(496));
    }
    bytes
}

/// Of each block, the writing that is durable, and the last that was begun.
pub(crate) struct Writings(Vec<(u64, u64)>);

impl Writings {
    pub(crate) fn new(blocks: u64, first: u64) -> Self {
        Self(vec![(first, first); blocks as usize])
    }

    pub(crate) fn last(&self, number: u64) -> u64 {
        self.0[number as usize].1
    }

    /// Begins some writings, of some blocks far more often than of others: which of which.
    pub(crate) fn begin(&mut self, numbers: &mut Numbers) -> Vec<(u64, u64)> {
        let mut written = Vec::new();
        for _ in 0..1 + numbers.below(16) {
            let most = if numbers.below(2) == 0 { 32 } else { self.0.len() as u64 };
            let number = numbers.below(most);
            self.0[number as usize].1 += 1;
            written.push((number, self.last(number)));
        }
        written
    }

    pub(crate) fn are_durable(&mut self, written: &[(u64, u64)]) {
        written.iter().for_each(|&(number, writing)| self.0[number as usize].0 = writing);
    }

    /// Holds all blocks against what was made durable. `whole`: each is of one writing, and what is
    /// found counts from now on; else it may still be of a later one.
    pub(crate) fn check(&mut self, after: &str, whole: bool, mut read: impl FnMut(u64) -> Vec<u8>) {
        for (number, (durable, last)) in (0..).zip(&mut self.0) {
            let (found, mut newest) = (read(number), 0);
            for (at, sector) in found.chunks(512).enumerate() {
                let writing = u64::from_le_bytes(sector[8..16].try_into().unwrap());
                assert!(
                    (*durable..=*last).contains(&writing)
                        && sector == &block(number, writing)[at * 512..][..512],
                    "{after}: sector {at} of block {number} is of writing {writing}; durable is {durable}, begun {last}"
                );
                newest = newest.max(writing);
            }
            if whole {
                assert!(found == block(number, newest), "{after}: block {number} is torn");
                *last = newest;
            }
        }
    }
}

/// A file of blocks that are overwritten in place, some of them made durable.
pub(crate) struct Blocks {
    path: PathBuf,
    disk: Disk,
    numbers: Numbers,
    writings: Writings,
    durable: usize,
}

const BLOCKS: u64 = 512;

impl Blocks {
    /// Writes all of them once.
    pub(crate) fn new(root: &Path, disk: &Disk, seed: u64) -> Self {
        let (path, disk) = (root.join("blocks"), disk.clone());
        let file = File::create(&path).unwrap();
        for number in 0..BLOCKS {
            file.write_all_at(&block(number, 1), number * BLOCK as u64).unwrap();
        }
        file.sync_all().unwrap();
        File::open(root).unwrap().sync_all().unwrap();
        let (numbers, writings) = (Numbers::new(seed), Writings::new(BLOCKS, 1));
        Self { path, disk, numbers, writings, durable: 0 }
    }
}

impl Workload for Blocks {
    fn step(&mut self) -> io::Result<()> {
        let file = File::options().write(true).open(&self.path)?;
        let written = self.writings.begin(&mut self.numbers);
        for &(number, writing) in &written {
            file.write_all_at(&block(number, writing), number * BLOCK as u64)?;
        }
        file.sync_data()?;
        self.disk.answers()?;
        self.writings.are_durable(&written);
        self.durable += written.len();
        Ok(())
    }

    fn check(&mut self, after: &str) {
        let bytes = fs::read(&self.path).unwrap_or_else(|e| panic!("{after}: the blocks: {e}"));
        assert_eq!(bytes.len() as u64, BLOCKS * BLOCK as u64, "{after}");
        self.writings.check(after, false, |n| bytes[n as usize * BLOCK..][..BLOCK].to_vec());
    }

    fn count(&self) -> String {
        format!("{} block writes", self.durable)
    }
}

/// A repository: commits, each durable with all that it needs, now and then packed, and cloned.
pub(crate) struct Git {
    root: PathBuf,
    disk: Disk,
    commits: Vec<String>,
    /// Which of the places for a clone hold a whole one.
    clones: [bool; 2],
    cloned: u64,
    steps: u64,
}

fn git(dir: &Path, args: &[&str]) -> io::Result<Output> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", "40", "git", "-C"]).arg(dir);
    for setting in [
        "user.name=A Person",
        "user.email=person@example.org",
        "core.fsync=all",
        "core.fsyncMethod=fsync",
        "gc.auto=0",
        "maintenance.auto=false",
        "advice.detachedHead=false",
        "safe.directory=*",
    ] {
        command.args(["-c", setting]);
    }
    let output = command
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("git {args:?}: {}: {said}", output.status)))
}

impl Git {
    pub(crate) fn new(root: &Path, disk: &Disk) -> Self {
        let (root, disk) = (root.join("repository"), disk.clone());
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]).unwrap();
        Self { root, disk, commits: Vec::new(), clones: [false; 2], cloned: 0, steps: 0 }
    }

    fn clone_path(&self, number: usize) -> PathBuf {
        self.root.with_file_name(format!("clone{number}"))
    }
}

impl Workload for Git {
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        let mut numbers = Numbers::new(self.steps + 77);
        for _ in 0..1 + numbers.below(8) {
            let dir = self.root.join(format!("d{}", numbers.below(5)));
            fs::create_dir_all(&dir)?;
            let text: String =
                (0..numbers.below(200)).map(|i| format!("{i} {}\n", numbers.next())).collect();
            fs::write(dir.join(format!("f{}", numbers.below(20))), text)?;
        }
        git(&self.root, &["add", "-A"])?;
        let message = format!("step {}", self.steps);
        git(&self.root, &["commit", "-q", "--allow-empty", "-m", &message])?;
        let id = git(&self.root, &["rev-parse", "HEAD"])?.stdout;
        if self.steps.is_multiple_of(5) {
            git(&self.root, &["gc", "-q", "--prune=now"])?;
        }
        let clone = self.steps.is_multiple_of(7).then_some((self.steps / 7 % 2) as usize);
        if let Some(number) = clone {
            let path = self.clone_path(number);
            self.clones[number] = false;
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            let name = path.to_str().unwrap();
            git(&self.root, &["clone", "-q", "--no-hardlinks", ".", name])?;
        }
        // git renames its references into place, and leaves their directories to chance.
        rustix::fs::syncfs(File::open(&self.root)?)?;
        self.disk.answers()?;
        self.commits.push(String::from_utf8_lossy(&id).trim().to_owned());
        if let Some(number) = clone {
            self.clones[number] = true;
            self.cloned += 1;
        }
        Ok(())
    }

    fn check(&mut self, after: &str) {
        // What a git that was cut off leaves; a person takes it away.
        let find = run(["find", self.root.to_str().unwrap(), "-name", "*.lock", "-print"]);
        find.lines().for_each(|lock| fs::remove_file(lock).unwrap());
        for left in ["gc.pid", "packed-refs.new"] {
            let _ = fs::remove_file(self.root.join(".git").join(left));
        }
        let must = |dir: &Path, args: &[&str]| {
            let output = git(dir, args).unwrap_or_else(|e| panic!("{after}: {e}"));
            String::from_utf8(output.stdout).unwrap()
        };
        must(&self.root, &["fsck", "--full", "--strict", "--no-dangling"]);
        if let Some(last) = self.commits.last() {
            let head = must(&self.root, &["rev-list", "HEAD"]);
            for id in &self.commits {
                assert!(head.lines().any(|l| l == id), "{after}: commit {id} is not in main");
            }
            let names = must(&self.root, &["ls-tree", "-r", "--name-only", last]);
            assert!(!names.is_empty(), "{after}");
            // Every file of it can be had.
            must(&self.root, &["archive", "--format=tar", "-o", "/dev/null", last]);
        }
        for number in (0..2).filter(|&n| self.clones[n]) {
            must(&self.clone_path(number), &["fsck", "--full", "--strict"]);
            assert_eq!(must(&self.clone_path(number), &["status", "--porcelain"]), "", "{after}");
        }
        // A work tree that was cut off in the middle is put right by what was committed.
        if !self.commits.is_empty() {
            must(&self.root, &["reset", "-q", "--hard"]);
        }
    }

    fn count(&self) -> String {
        format!("{} commits, {} clones", self.commits.len(), self.cloned)
    }
}

/// fio, which verifies what it writes while it runs. What it says is wrong counts, not that its
/// disk went.
pub(crate) struct Fio {
    path: PathBuf,
    runs: u64,
}

impl Fio {
    pub(crate) fn new(root: &Path) -> Self {
        Self { path: root.join("fio"), runs: 0 }
    }
}

static SEED: AtomicU64 = AtomicU64::new(1);

impl Workload for Fio {
    fn step(&mut self) -> io::Result<()> {
        let (file, seed) =
            (format!("--filename={}", self.path.display()), SEED.fetch_add(1, SeqCst));
        let what = "--size=4m --rw=randwrite --bsrange=512-32k --direct=1 --fsync=16";
        let checks = "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --verify_backlog=64";
        let line = format!("fio --name=verify {file} {what} {checks} --randseed={seed}");
        let output = attempt(words(&line));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        for bad in ["verify: bad", "verify failed", "crc32c: verify"] {
            assert!(!said.contains(bad), "{said}");
        }
        if !output.status.success() {
            return Err(io::Error::other(said));
        }
        self.runs += 1;
        Ok(())
    }

    /// It starts anew every time.
    fn check(&mut self, _: &str) {}

    fn count(&self) -> String {
        format!("{} runs of fio", self.runs)
    }
}
