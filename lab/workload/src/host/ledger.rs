//! The ledger: a file that records everything attached, mounted or running, before it is created.
//! The next process that opens the folder of a study undoes all entries in reverse order. Nothing
//! without an entry is undone.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;
use rustix::process::Pid;
use seekless_host::write_whole;

use super::device::{loops_of, mount_at};
use super::memory;
use super::program::{HostError, alive, attempt, end_process, marked};

/// The kind of an entry, which decides how it is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LedgerEntry {
    /// A file system is mounted at the path.
    Mount,
    /// A loop device is attached to the file.
    Loop,
    /// A device is being formatted: its contents are not valid yet.
    Format,
    /// A server of this project runs for this study.
    Server,
    /// A server that mounts a directory of the mounted file system over itself.
    Over,
    /// The file, or the folder with all its contents, belongs to the study.
    Files,
    /// A control group that limits memory.
    Memory,
}

impl LedgerEntry {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Mount, "mount"),
        (Self::Loop, "loop"),
        (Self::Format, "format"),
        (Self::Server, "server"),
        (Self::Over, "over"),
        (Self::Files, "files"),
        (Self::Memory, "memory"),
    ];

    pub(super) fn word(self) -> &'static str {
        Self::ALL.iter().find(|w| w.0 == self).map_or("", |w| w.1)
    }
}

/// Longest wait for the lock of a study that was killed.
const LOCK_MOST: Duration = Duration::from_secs(30);

/// Takes the lock, and writes the number of this process into its file. False if a study that runs
/// has the lock. A program that a killed study was just starting shares the lock until the program
/// is loaded: this may take seconds on a busy host.
fn locked(path: &Path, lock: &File) -> std::io::Result<bool> {
    let begun = Instant::now();
    while rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        let owner = std::fs::read_to_string(path)?.parse().ok().and_then(Pid::from_raw);
        if owner.is_some_and(alive) || begun.elapsed() > LOCK_MOST {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::write(path, std::process::id().to_string())?;
    Ok(true)
}

/// The ledger of one study. One process at a time holds it.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    entries: Vec<(LedgerEntry, PathBuf)>,
    lock: File,
}

impl Drop for Ledger {
    /// Names no owner any more. A program that this process was just starting may share the lock a
    /// moment longer: the next one waits for the lock, instead of taking this process for at work.
    fn drop(&mut self) {
        let _ = self.lock.set_len(0);
    }
}

impl Ledger {
    /// Opens the ledger in a folder, and undoes the entries of a process that was killed. Returns
    /// the actions taken.
    ///
    /// # Errors
    /// Another process works there, the ledger cannot be read, or an entry cannot be undone.
    pub fn open(dir: &Path) -> Result<(Self, Vec<String>), HostError> {
        std::fs::create_dir_all(dir).map_err(HostError::io("make", dir))?;
        let dir = dir.canonicalize().map_err(HostError::io("find", dir))?;
        if dir.as_os_str().as_encoded_bytes().contains(&b'\n') {
            return Err(HostError::Refused(
                "the name of a study's folder must not contain a line break".to_owned(),
            ));
        }
        let lock_path = dir.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(HostError::io("open", &lock_path))?;
        if !locked(&lock_path, &lock).map_err(HostError::io("lock", &lock_path))? {
            let why = format!("another study is running in {}", dir.display());
            return Err(HostError::Refused(why));
        }
        let mut ledger = Self { dir, entries: Vec::new(), lock };
        ledger.read()?;
        let done = ledger.undo_all()?;
        Ok((ledger, done))
    }

    /// The study's folder, which marks its programs.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self) -> PathBuf {
        self.dir.join("attached")
    }

    fn read(&mut self) -> Result<(), HostError> {
        let path = self.path();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(HostError::io("read", &path)(e)),
        };
        // A last line without its end was being written when the process died: its action had not
        // started.
        for line in text.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')) {
            let entry = line.split_once('\t').and_then(|(word, place)| {
                let what = LedgerEntry::ALL.iter().find(|w| w.1 == word)?.0;
                Some((what, PathBuf::from(place)))
            });
            let bad = || {
                HostError::Refused(format!(
                    "{}: '{line}' is not an entry of a study's ledger",
                    path.display()
                ))
            };
            self.entries.push(entry.ok_or_else(bad)?);
        }
        Ok(())
    }

    /// Records, durably, that this action is about to start.
    pub(crate) fn note(&mut self, what: LedgerEntry, place: &Path) -> Result<(), HostError> {
        let path = self.path();
        let line = format!("{}\t{}\n", what.word(), place.display());
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(line.as_bytes()).and_then(|()| f.sync_data()))
            .map_err(HostError::io("write", &path))?;
        self.entries.push((what, place.to_owned()));
        Ok(())
    }

    /// Records that this action was undone.
    pub(crate) fn forget(&mut self, what: LedgerEntry, place: &Path) -> Result<(), HostError> {
        if let Some(i) = self.entries.iter().rposition(|e| e.0 == what && e.1 == place) {
            self.entries.remove(i);
        }
        let path = self.path();
        let text: String =
            self.entries.iter().map(|(w, p)| format!("{}\t{}\n", w.word(), p.display())).collect();
        if text.is_empty() {
            return match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    Err(HostError::io("remove", &path)(e))
                }
                _ => Ok(()),
            };
        }
        write_whole(&path, text.as_bytes(), 0o644).map_err(HostError::io("write", &path))
    }

    /// Undoes all entries, the last one first.
    pub(crate) fn undo_all(&mut self) -> Result<Vec<String>, HostError> {
        if self.entries.is_empty() {
            return Ok(Vec::new());
        }
        // Tools of a killed process can still hold devices.
        for pid in marked("tool", &self.dir) {
            end_process(pid, || !alive(pid));
        }
        let (mut done, mut failed) = (Vec::new(), None);
        for (what, place) in self.entries.clone().into_iter().rev() {
            match undo(what, &place, &self.dir) {
                Ok(said) => {
                    done.extend(said);
                    self.forget(what, &place)?;
                }
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        failed.map_or(Ok(done), Err)
    }

    /// Undoes this entry and all later ones.
    pub(crate) fn undo_from(&mut self, entries: usize) -> Result<(), HostError> {
        while self.entries.len() > entries {
            let Some((what, place)) = self.entries.last().cloned() else { break };
            undo(what, &place, &self.dir)?;
            self.forget(what, &place)?;
        }
        Ok(())
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Detaches all loop devices from a file.
fn detach_loops(place: &Path, dir: &Path) -> Result<Option<String>, HostError> {
    let shown = place.display();
    let loops = loops_of(place);
    for device in &loops {
        let _ = attempt(&["losetup", "-d", device], dir)?;
    }
    // Another program may be examining it; it disappears when that program ends.
    let end = Instant::now() + Duration::from_secs(60);
    while !loops_of(place).is_empty() {
        if Instant::now() > end {
            let devices = loops_of(place).join(", ");
            let why = format!("{devices} of {shown} cannot be detached because it is in use");
            return Err(HostError::Refused(why));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((!loops.is_empty()).then(|| format!("detached {} of {shown}", loops.join(", "))))
}

/// Wipes a device that was being formatted: an incomplete file system must not look complete.
fn wipe(place: &Path, dir: &Path) -> Result<Option<String>, HostError> {
    let shown = place.display();
    let is_device = std::fs::metadata(place).is_ok_and(|m| {
        use std::os::unix::fs::FileTypeExt as _;
        m.file_type().is_block_device()
    });
    if !is_device {
        return Ok(None);
    }
    let (good, said) = attempt(&["wipefs".as_ref(), "-a".as_ref(), place.as_os_str()], dir)?;
    let busy = || {
        HostError::Refused(format!(
            "{shown} was being formatted and cannot be wiped: {}",
            said.trim()
        ))
    };
    good.then_some(()).ok_or_else(busy)?;
    Ok(Some(format!("wiped {shown}, which was being formatted")))
}

/// Undoes an entry, if its effect is present. Returns the action taken.
fn undo(what: LedgerEntry, place: &Path, dir: &Path) -> Result<Option<String>, HostError> {
    let shown = place.display();
    match what {
        LedgerEntry::Mount => {
            let mut was = false;
            while mount_at(place).is_some() {
                was = true;
                unmount(place)?;
            }
            Ok(was.then(|| format!("unmounted {shown}")))
        }
        LedgerEntry::Loop => detach_loops(place, dir),
        LedgerEntry::Format => wipe(place, dir),
        LedgerEntry::Server | LedgerEntry::Over => {
            let servers = marked(what.word(), dir);
            for pid in &servers {
                end_process(*pid, || !alive(*pid));
            }
            // A server that was killed leaves a dead mount.
            while mount_at(place).is_some() {
                rustix::mount::unmount(place, UnmountFlags::DETACH)
                    .map_err(|e| HostError::io("unmount", place)(e.into()))?;
            }
            Ok((!servers.is_empty()).then(|| format!("ended the server of {shown}")))
        }
        LedgerEntry::Memory => {
            Ok(memory::remove(place)?.then(|| format!("removed the control group {shown}")))
        }
        // Nothing outside the study's own folder is removed, whatever the ledger contains.
        LedgerEntry::Files
            if place == dir || !place.starts_with(dir) || shown.to_string().contains("..") =>
        {
            Err(HostError::Refused(format!(
                "{shown} is not in the study's folder, so it is not removed"
            )))
        }
        LedgerEntry::Files => {
            let gone = if place.is_dir() {
                std::fs::remove_dir_all(place)
            } else {
                std::fs::remove_file(place)
            };
            match gone {
                Ok(()) => Ok(Some(format!("removed {shown}"))),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(HostError::io("remove", place)(e)),
            }
        }
    }
}

/// Unmounts. If the mount is in use, waits some time and then detaches it lazily. Then waits until
/// its device is free. A copy of the host's mounts (for example of a container that started
/// meanwhile) keeps the file system with its caches alive.
fn unmount(place: &Path) -> Result<(), HostError> {
    let device = mount_at(place).map(|m| m.source);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match rustix::mount::unmount(place, UnmountFlags::empty()) {
            Ok(()) => break,
            Err(rustix::io::Errno::BUSY) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(rustix::io::Errno::BUSY) => {
                return rustix::mount::unmount(place, UnmountFlags::DETACH)
                    .map_err(|e| HostError::io("unmount", place)(e.into()));
            }
            Err(e) => return Err(HostError::io("unmount", place)(e.into())),
        }
    }
    let Some(device) = device else { return Ok(()) };
    let end = Instant::now() + Duration::from_secs(60);
    while is_held(&device) {
        if Instant::now() > end {
            return Err(HostError::Refused(format!(
                "{} was unmounted from {}, but is still mounted in a copy of the mounts (a container, `unshare -m`): \
                 `grep -l ' {} ' /proc/[0-9]*/mountinfo` finds the process; end it, then run the same command again",
                device.display(),
                place.display(),
                device.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether a file system, or another exclusive user, holds the block device.
fn is_held(device: &Path) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    let is_device = std::fs::metadata(device).is_ok_and(|m| m.file_type().is_block_device());
    let excl = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let open = || File::options().read(true).custom_flags(excl).open(device);
    is_device && open().is_err_and(|e| e.kind() == std::io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_undoes_the_entries_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ledger, done) = Ledger::open(dir.path()).unwrap();
        assert!(done.is_empty() && ledger.entries.is_empty());
        let (ours, theirs) = (ledger.dir().join("disk.img"), ledger.dir().join("keep"));
        std::fs::write(&theirs, "x").unwrap();
        ledger.note(LedgerEntry::Files, &ours).unwrap();
        std::fs::write(&ours, "x").unwrap();
        ledger.note(LedgerEntry::Mount, &ledger.dir().join("mnt")).unwrap();
        assert!(matches!(Ledger::open(dir.path()), Err(HostError::Refused(_))), "one at a time");
        // As if killed in the middle of a line.
        drop(ledger);
        let path = dir.path().join("attached");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str(&format!("files\t{}", theirs.display()));
        std::fs::write(&path, text).unwrap();
        let (ledger, done) = Ledger::open(dir.path()).unwrap();
        assert_eq!(done, [format!("removed {}", ours.display())]);
        assert!(ledger.entries.is_empty() && theirs.exists() && !ours.exists() && !path.exists());
        drop(ledger);
        let other = tempfile::tempdir().unwrap();
        for place in
            [other.path().to_owned(), dir.path().canonicalize().unwrap(), dir.path().join("../x")]
        {
            std::fs::write(&path, format!("files\t{}\n", place.display())).unwrap();
            assert!(
                matches!(Ledger::open(dir.path()), Err(HostError::Refused(_))),
                "{}",
                place.display()
            );
        }
        assert!(other.path().is_dir() && theirs.exists());
        std::fs::write(&path, format!("memory\t{}\n", other.path().display())).unwrap();
        let error = Ledger::open(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("not a control group of a study") && other.path().is_dir(),
            "{error}"
        );
        std::fs::write(&path, "junk\n").unwrap();
        let error = Ledger::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("'junk' is not an entry"), "{error}");
    }

    #[test]
    fn programs_of_a_killed_process_are_found_by_their_mark() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .env(super::super::program::MARK, format!("tool:{}", place.display()))
            .spawn()
            .unwrap();
        std::fs::write(place.join("attached"), format!("mount\t{}\n", place.join("mnt").display()))
            .unwrap();
        let begun = Instant::now();
        while marked("tool", &place).is_empty() && begun.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        let (ledger, _) = Ledger::open(&place).unwrap();
        assert!(ledger.entries.is_empty());
        assert!(!reaper.join().unwrap().success(), "it was ended");
        assert!(marked("tool", &place).is_empty());
    }

    #[test]
    fn an_unmount_waits_for_copies_of_the_mounts() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(dir.path()).unwrap();
        let (image, point) = (ledger.dir().join("disk.img"), ledger.dir().join("mnt"));
        File::create(&image).unwrap().set_len(8 << 20).unwrap();
        std::fs::create_dir(&point).unwrap();
        let image = image.to_str().unwrap().to_owned();
        ledger.note(LedgerEntry::Loop, Path::new(&image)).unwrap();
        ledger.note(LedgerEntry::Mount, &point).unwrap();
        let made = || -> Result<bool, HostError> {
            let dir = dir.path();
            Ok(attempt(&["mkfs.ext4", "-q", &image], dir)?.0
                && attempt(&["mount", "-o", "loop", &image, point.to_str().unwrap()], dir)?.0)
        };
        let copied = |mut command: std::process::Command| {
            let piped = std::process::Stdio::piped;
            command.args(["-m", "sh", "-c", "echo; read -r line"]).stdin(piped()).stdout(piped());
            let mut child = command.spawn().ok()?;
            use std::io::Read as _;
            child.stdout.as_mut()?.read_exact(&mut [0]).ok()?;
            Some(child)
        };
        let holder = matches!(made(), Ok(true))
            .then(|| copied(std::process::Command::new("unshare")))
            .flatten();
        let Some(mut holder) = holder else {
            ledger.undo_all().unwrap();
            eprintln!("SKIPPED: not root, or no loop device, mkfs.ext4, unshare");
            return;
        };
        let device = mount_at(&point).unwrap().source;
        assert!(is_held(&device));
        let held_after = std::thread::scope(|scope| {
            let undone = scope.spawn(|| {
                ledger.undo_from(1).unwrap();
                is_held(&device)
            });
            while mount_at(&point).is_some() && !undone.is_finished() {
                std::thread::yield_now();
            }
            // Enough time for a process that does not wait.
            std::thread::sleep(Duration::from_millis(100));
            drop(holder.stdin.take());
            holder.wait().unwrap();
            undone.join().unwrap()
        });
        assert!(!held_after, "{} was still mounted in a copy of the mounts", device.display());
        ledger.undo_all().unwrap();
    }
}
