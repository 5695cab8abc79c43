//! How a check says what it expects, so that the same check can be run in two places and the two be
//! held against each other.

use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::ground::shuffle;
use rustix::fs::{Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A check: what it asks of the file system under a directory of its own.
pub(crate) type Check = fn(&Case<'_>);

/// A check at work.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    root: &'a Path,
    /// A mount of which every file goes to the group store as soon as it is made.
    restless: Option<&'a Path>,
    /// Things asked.
    points: AtomicU32,
    /// Those that were answered otherwise than expected.
    failed: Mutex<Vec<String>>,
}

/// Somebody who is not root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: &'static [u32],
}

pub(crate) const ALICE: User = User { uid: 65_533, gid: 65_533, groups: &[] };
pub(crate) const BOB: User = User { uid: 65_532, gid: 65_532, groups: &[] };
/// Bob, who is in Alice's group besides.
pub(crate) const BOB_IN_GROUP: User = User { groups: &[65_533], ..BOB };

impl User {
    /// Does this as that user, in a thread of its own: credentials are a thread's.
    pub(crate) fn does<T: Send>(self, act: impl FnOnce() -> T + Send) -> T {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let groups: Vec<Gid> = self.groups.iter().map(|g| Gid::from_raw(*g)).collect();
        std::thread::scope(|scope| {
            let act = move || {
                set_thread_groups(&groups).unwrap();
                set_thread_res_gid(gid, gid, gid).unwrap();
                set_thread_res_uid(uid, uid, uid).unwrap();
                act()
            };
            scope.spawn(act).join().unwrap()
        })
    }
}

impl<'a> Case<'a> {
    /// In this directory, which is empty.
    pub(crate) const fn new(root: &'a Path, restless: Option<&'a Path>) -> Self {
        Self { root, restless, points: AtomicU32::new(0), failed: Mutex::new(Vec::new()) }
    }

    /// Number of things asked, and those that were answered otherwise than expected.
    pub(crate) fn end(self) -> (u32, Vec<String>) {
        (self.points.into_inner(), self.failed.into_inner().unwrap())
    }

    fn asked(&self) {
        self.points.fetch_add(1, Relaxed);
    }

    fn fails(&self, text: String) {
        self.failed.lock().unwrap().push(text);
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// This must be true.
    pub(crate) fn is<T: PartialEq + Debug>(&self, what: &str, got: T, wanted: T) {
        self.asked();
        if got != wanted {
            self.fails(format!("{what}: {got:?}, expected {wanted:?}"));
        }
    }

    pub(crate) fn holds(&self, what: &str, got: bool) {
        self.is(what, got, true);
    }

    /// This must succeed.
    pub(crate) fn ok<T, E: Debug>(&self, what: &str, result: Result<T, E>) -> Option<T> {
        self.asked();
        result.map_err(|e| self.fails(format!("{what}: {e:?}, expected success"))).ok()
    }

    /// This must be refused, in one of these ways.
    pub(crate) fn err<T>(&self, what: &str, result: Result<T, Errno>, wanted: &[Errno]) {
        self.asked();
        match result {
            Err(e) if wanted.contains(&e) => {}
            Err(e) => self.fails(format!("{what}: {e:?}, expected {wanted:?}")),
            Ok(_) => self.fails(format!("{what}: success, expected {wanted:?}")),
        }
    }

    /// A new file with these bytes, for all to read.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.at(name);
        let made = fs::write(&path, bytes).and_then(|()| chmod(&path, 0o644));
        self.ok(&format!("making {name}"), made);
        if let Some(mount) = self.restless {
            let _ = fs::read(&path);
            self.holds("shuffling", shuffle(mount));
        }
        path
    }

    /// A new directory that all may use.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        let made = fs::create_dir(&path).and_then(|()| chmod(&path, 0o755));
        self.ok(&format!("making {name}"), made);
        path
    }

    /// Gives a file to a user, with this mode.
    pub(crate) fn given(&self, path: &Path, user: User, mode: u32) {
        self.ok("chown", chown(path, user));
        self.ok("chmod", chmod(path, mode));
    }

    /// What lstat says, or nothing but zeroes where it fails, which is noted.
    pub(crate) fn stat(&self, path: &Path) -> Facts {
        let found = rustix::fs::lstat(path);
        self.ok(&format!("lstat {}", name_of(path)), found).map(Facts::of).unwrap_or_default()
    }

    /// The same of an open file.
    pub(crate) fn fstat(&self, file: &File) -> Facts {
        self.ok("fstat", rustix::fs::fstat(file)).map(Facts::of).unwrap_or_default()
    }

    /// A file's bytes, which must be these.
    pub(crate) fn reads(&self, what: &str, path: &Path, wanted: &[u8]) {
        self.asked();
        match fs::read(path) {
            Ok(got) if got == wanted => {}
            Ok(got) => self.fails(format!("{what}: {}", difference(&got, wanted))),
            Err(e) => self.fails(format!("{what}: {e}")),
        }
    }

    /// The bytes an open file has, which must be these.
    pub(crate) fn holds_bytes(&self, what: &str, file: &File, wanted: &[u8]) {
        let mut got = vec![0; wanted.len() + 1];
        let read = fill(file, &mut got);
        let Some(read) = self.ok(what, read) else { return };
        got.truncate(read);
        if got != wanted {
            self.fails(format!("{what}: {}", difference(&got, wanted)));
        }
    }
}

/// Reads from the beginning until the buffer is full or the file ends.
pub(crate) fn fill(file: &File, into: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Where two contents differ first.
pub(crate) fn difference(got: &[u8], wanted: &[u8]) -> String {
    let at = got.iter().zip(wanted).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| got.len().min(wanted.len()));
    let next = |bytes: &[u8]| bytes[at..bytes.len().min(at + 8)].to_vec();
    format!(
        "{} bytes, expected {}; at {at} {:?}, expected {:?}",
        got.len(),
        wanted.len(),
        next(got),
        next(wanted)
    )
}

/// What is asked of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) ino: u64,
    pub(crate) nlink: u64,
    /// Type and permissions.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) rdev: u64,
    /// Nanoseconds.
    pub(crate) atime: i128,
    pub(crate) mtime: i128,
    pub(crate) ctime: i128,
}

impl Facts {
    pub(crate) fn of(stat: Stat) -> Self {
        let time = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
        Self {
            ino: stat.st_ino,
            nlink: stat.st_nlink,
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            rdev: stat.st_rdev,
            atime: time(stat.st_atime, stat.st_atime_nsec as i64),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec as i64),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    pub(crate) const fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    pub(crate) const fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Of access and modification.
    pub(crate) const fn times(&self) -> (i128, i128) {
        (self.atime, self.mtime)
    }
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().chars().take(24).collect()
}

pub(crate) fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

pub(crate) fn chmod(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

pub(crate) fn chown(path: &Path, user: User) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid))
}

/// open(2) as it is, without what the standard library adds.
pub(crate) fn open(path: &Path, flags: OFlags, mode: u32) -> Result<File, Errno> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode)).map(File::from)
}

/// Waits until the clock that the kernel stamps inodes with has moved on twice, as a stamp may be
/// ahead of it by less than one step: a time taken afterwards is a later one.
pub(crate) fn later() {
    use rustix::time::{ClockId, clock_gettime};
    for _ in 0..2 {
        let now = || {
            let t = clock_gettime(ClockId::RealtimeCoarse);
            (t.tv_sec, t.tv_nsec)
        };
        let before = now();
        while now() == before {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
