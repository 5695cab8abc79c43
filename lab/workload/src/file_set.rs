//! Sets of files in a real directory. They are created once. Threads then take files in turn and
//! open, create and delete them. Atomics decide which thread owns a file; there are no locks.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::directory_tree::Tree;
use crate::error::WorkloadError;
use crate::personality::{FileSetSpec, Personality};
use crate::seeded_random::SeededRandom;

/// The data written: this many bytes that cannot be compressed, repeated.
pub(crate) const PATTERN: usize = 1 << 20;
/// Alignment of buffers, for direct I/O.
pub(crate) const ALIGN: usize = 4096;

const EXISTS: u32 = 1 << 31;
/// A thread is opening, creating, deleting or examining the file.
const BUSY: u32 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) spec: FileSetSpec,
    pub(crate) tree: Tree,
    root: OwnedFd,
    path: PathBuf,
    /// [`EXISTS`], [`BUSY`], and the number of threads that have the file open.
    states: Vec<AtomicU32>,
    /// The next existing file and the next absent file; each in its own cache line.
    present: Rotor,
    absent: Rotor,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Rotor(AtomicU64);

/// The files that were created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Filled {
    /// Number of files written.
    pub files: u64,
    /// Number of directories created.
    pub folders: u64,
    /// Number of bytes written.
    pub bytes: u64,
    /// Duration in seconds, including making the files durable.
    pub seconds: f64,
}

/// All file sets of a personality, in one directory.
#[derive(Debug)]
pub struct FileSet {
    pub(crate) sets: Vec<Set>,
    pattern: Vec<u8>,
    pattern_from: usize,
    filled: Filled,
}

impl FileSet {
    /// Creates the file sets of a personality in `dir`, one directory per set, and makes them
    /// durable. `progress` gets the bytes written and the bytes to write. Setting `stop` ends it
    /// early.
    ///
    /// # Errors
    /// The directory of a set exists already, the host refuses an operation, or `stop` was set.
    pub fn fill(
        dir: &Path,
        personality: &Personality,
        seed: u64,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, WorkloadError> {
        let begun = Instant::now();
        let trees: Vec<Tree> =
            personality.sets.iter().zip(0..).map(|(s, i)| Tree::grow(s, seed, i)).collect();
        let bytes_of =
            |t: &Tree| t.sizes.iter().zip(&t.there).filter(|x| *x.1).map(|x| *x.0).sum::<u64>();
        let total: u64 = trees.iter().map(bytes_of).sum();
        let mut files = Self::planned(seed);
        for (spec, tree) in personality.sets.iter().zip(trees) {
            let path = dir.join(&spec.name);
            if path.exists() {
                return Err(WorkloadError::NotEmpty(path));
            }
            std::fs::create_dir_all(&path).map_err(WorkloadError::io("make", &path))?;
            let set = Set::open_root(dir, spec, tree)?;
            for folder in &set.tree.folders {
                rustix::fs::mkdirat(&set.root, folder.as_str(), Mode::from_raw_mode(0o755))
                    .map_err(|e| WorkloadError::io("make", path.join(folder))(e.into()))?;
            }
            files.filled.folders += set.tree.folders.len() as u64;
            files.sets.push(set);
        }
        let result = files.write_all(total, stop, progress);
        if result.is_err() {
            files.remove();
        }
        result?;
        files.filled.seconds = begun.elapsed().as_secs_f64();
        Ok(files)
    }

    /// The file sets as [`Self::fill`] created them with the same seed, after they were mounted
    /// again.
    pub(crate) fn reopen(
        dir: &Path,
        personality: &Personality,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let mut files = Self::planned(seed);
        for (spec, purpose) in personality.sets.iter().zip(0..) {
            files.sets.push(Set::open_root(dir, spec, Tree::grow(spec, seed, purpose))?);
        }
        Ok(files)
    }

    /// A value without sets.
    fn planned(seed: u64) -> Self {
        let mut pattern = vec![0; PATTERN + ALIGN];
        SeededRandom::new(seed, u64::MAX).fill(&mut pattern);
        let pattern_from = pattern.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { sets: Vec::new(), pattern, pattern_from, filled: Filled::default() }
    }

    fn write_all(
        &mut self,
        total: u64,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), WorkloadError> {
        let mut told = 0;
        for s in &self.sets {
            for file in (0..s.tree.len()).filter(|f| s.tree.there[*f]) {
                if stop.load(Ordering::Relaxed) {
                    return Err(WorkloadError::Stopped);
                }
                let name = s.name(file);
                let failed = |e: rustix::io::Errno| {
                    let name = s.path.join(name.to_string_lossy().as_ref());
                    WorkloadError::io("write", name)(e.into())
                };
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(&s.root, name, flags, Mode::from_raw_mode(0o644));
                let fd = fd.map_err(failed)?;
                let mut left = s.tree.sizes[file];
                while left > 0 {
                    let some = left.min(PATTERN as u64) as usize;
                    let wrote = rustix::io::write(&fd, &self.pattern()[..some]).map_err(failed)?;
                    left -= wrote as u64;
                    self.filled.bytes += wrote as u64;
                    if self.filled.bytes >= told + (4 << 20) {
                        told = self.filled.bytes;
                        progress(told, total);
                        if stop.load(Ordering::Relaxed) {
                            return Err(WorkloadError::Stopped);
                        }
                    }
                }
                self.filled.files += 1;
            }
        }
        for s in &self.sets {
            rustix::fs::syncfs(&s.root)
                .map_err(|e| WorkloadError::io("sync", &s.path)(e.into()))?;
        }
        progress(total, total);
        Ok(())
    }

    /// The files that were created.
    pub const fn filled(&self) -> Filled {
        self.filled
    }

    /// The bytes to write, aligned for direct I/O.
    pub(crate) fn pattern(&self) -> &[u8] {
        &self.pattern[self.pattern_from..][..PATTERN]
    }

    /// Removes all files again, as far as the host allows.
    pub fn remove(&self) {
        for set in &self.sets {
            let _ = std::fs::remove_dir_all(&set.path);
        }
    }
}

impl Set {
    fn open_root(dir: &Path, spec: &FileSetSpec, tree: Tree) -> Result<Self, WorkloadError> {
        let path = dir.join(&spec.name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &path, flags, Mode::empty())
            .map_err(|e| WorkloadError::io("open", &path)(e.into()))?;
        let states = tree.there.iter().map(|t| AtomicU32::new(if *t { EXISTS } else { 0 }));
        let states = states.collect();
        let (present, absent) = (Rotor::default(), Rotor::default());
        Ok(Self { spec: spec.clone(), tree, root, path, states, present, absent })
    }

    fn name(&self, file: usize) -> &CStr {
        CStr::from_bytes_until_nul(self.tree.name(file)).unwrap_or_default()
    }

    /// The next file for which `change` returns a new state; the new state is set. `None` if there
    /// is none and no thread is working on a file.
    fn next(&self, rotor: &Rotor, change: impl Fn(u32) -> Option<u32>) -> Option<usize> {
        let n = self.states.len() as u64;
        loop {
            let mut hope = false;
            for _ in 0..n {
                let file = (rotor.0.fetch_add(1, Ordering::Relaxed) % n) as usize;
                let state = self.states[file].load(Ordering::Relaxed);
                hope |= state & BUSY != 0;
                let Some(new) = change(state) else { continue };
                let taken = self.states[file].compare_exchange(
                    state,
                    new,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return Some(file);
                }
                hope = true;
            }
            if !hope {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// Takes the next existing file.
    fn take_present(&self) -> Option<usize> {
        self.next(&self.present, |s| (s & (EXISTS | BUSY) == EXISTS).then_some(s | BUSY))
    }

    /// Returns a file that was taken.
    fn give_back(&self, file: usize) {
        self.states[file].fetch_and(!BUSY, Ordering::Release);
    }

    /// Opens the next existing file.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<Option<(usize, OwnedFd)>> {
        let Some(file) = self.take_present() else { return Ok(None) };
        match self.open_this(file, flags) {
            Ok(fd) => {
                self.states[file].fetch_add(1u32.wrapping_sub(BUSY), Ordering::Release);
                Ok(Some((file, fd)))
            }
            Err(e) => {
                self.give_back(file);
                Err(e)
            }
        }
    }

    /// Opens this file, independent of other threads; for sets whose files are never deleted.
    pub(crate) fn open_this(&self, file: usize, flags: OFlags) -> io::Result<OwnedFd> {
        let access = if self.spec.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let flags = access | flags | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.root, self.name(file), flags, Mode::empty())?)
    }

    /// Creates the next absent file.
    pub(crate) fn create(&self, flags: OFlags) -> io::Result<Option<(usize, OwnedFd)>> {
        let taken = self.next(&self.absent, |s| (s == 0).then_some(BUSY));
        let Some(file) = taken else { return Ok(None) };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | flags;
        match rustix::fs::openat(&self.root, self.name(file), flags, Mode::from_raw_mode(0o644)) {
            Ok(fd) => {
                let (opened, free) = (EXISTS + 1, BUSY);
                self.states[file].fetch_add(opened.wrapping_sub(free), Ordering::Release);
                Ok(Some((file, fd)))
            }
            Err(e) => {
                self.give_back(file);
                Err(e.into())
            }
        }
    }

    /// Releases a file from [`Self::open`] or [`Self::create`].
    pub(crate) fn closed(&self, file: usize) {
        self.states[file].fetch_sub(1, Ordering::Release);
    }

    /// Deletes the next file that no thread has open. Returns false if there is none. Filebench
    /// skips the deletion if it meets an open file, so its long runs end without files to create.
    pub(crate) fn delete(&self) -> io::Result<bool> {
        let taken = self.next(&self.present, |s| (s == EXISTS).then_some(s | BUSY));
        let Some(file) = taken else { return Ok(false) };
        let result = rustix::fs::unlinkat(&self.root, self.name(file), AtFlags::empty());
        match result {
            Ok(()) => self.states[file].store(0, Ordering::Release),
            Err(_) => self.give_back(file),
        }
        result.map(|()| true).map_err(Into::into)
    }

    /// Reads the attributes of the next file. Returns false if there is none.
    pub(crate) fn stat(&self) -> io::Result<bool> {
        let Some(file) = self.take_present() else { return Ok(false) };
        let result = rustix::fs::statat(&self.root, self.name(file), AtFlags::empty());
        self.give_back(file);
        result.map(|_| true).map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personality::preset;

    fn laid(prealloc: f64) -> (tempfile::TempDir, FileSet) {
        let dir = tempfile::tempdir().unwrap();
        let mut p = preset("varmail").unwrap().unwrap().scaled(0.002);
        p.sets[0].prealloc = prealloc;
        let files =
            FileSet::fill(dir.path(), &p, 1, &AtomicBool::new(false), &mut |_, _| ()).unwrap();
        (dir, files)
    }

    #[test]
    fn created_files_agree_with_the_drawn_sizes() {
        let (dir, files) = laid(0.8);
        let set = &files.sets[0];
        let (mut n, mut bytes) = (0, 0);
        for file in 0..set.tree.len() {
            let path = set.path.join(set.name(file).to_str().unwrap());
            match path.metadata() {
                Ok(m) => {
                    assert!(set.tree.there[file]);
                    assert_eq!(m.len(), set.tree.sizes[file]);
                    (n, bytes) = (n + 1, bytes + m.len());
                }
                Err(_) => assert!(!set.tree.there[file]),
            }
        }
        assert_eq!((files.filled().files, files.filled().bytes), (n, bytes));
        assert!(matches!(
            FileSet::fill(
                dir.path(),
                &preset("varmail").unwrap().unwrap(),
                1,
                &AtomicBool::new(false),
                &mut |_, _| ()
            ),
            Err(WorkloadError::NotEmpty(_))
        ));
        files.remove();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_are_used_in_turn_and_open_files_are_not_deleted() {
        let (_dir, files) = laid(1.0);
        let set = &files.sets[0];
        let n = set.tree.len();
        let opened: Vec<_> = (0..n).map(|_| set.open(OFlags::empty()).unwrap().unwrap()).collect();
        assert!(opened.iter().map(|o| o.0).eq(0..n), "each once, in order");
        assert!(!set.delete().unwrap(), "all are open");
        assert!(set.create(OFlags::empty()).unwrap().is_none(), "all exist");
        for (file, _) in &opened {
            set.closed(*file);
        }
        assert_eq!((0..n).filter(|_| set.delete().unwrap()).count(), n);
        assert!(!set.delete().unwrap());
        assert!(!set.stat().unwrap());
        let (file, _fd) = set.create(OFlags::empty()).unwrap().unwrap();
        assert_eq!(file, 0);
        assert!(set.stat().unwrap());
    }

    /// Many threads at once: no file is created twice, deleted twice, or opened after its deletion.
    #[test]
    fn threads_never_conflict_over_a_file() {
        let (_dir, files) = laid(0.5);
        let set = &files.sets[0];
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for _ in 0..400 {
                        // Every call fails if the directory does not agree with the states.
                        let flags = OFlags::EXCL;
                        if let Some((file, _)) = set.create(flags).unwrap() {
                            set.closed(file);
                        }
                        let _ = set.delete().unwrap();
                        if let Some((file, _)) = set.open(OFlags::empty()).unwrap() {
                            set.closed(file);
                        }
                        set.stat().unwrap();
                    }
                });
            }
        });
        assert!(set.states.iter().all(|s| matches!(s.load(Ordering::Relaxed), 0 | EXISTS)));
    }
}
