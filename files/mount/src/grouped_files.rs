//! The two modules as one: which files the group store has, and every way of a file from one to the other. The orders of
//! steps are those of the crate `seekless-store`; the marker decides, always.
//!
//! A file's way is its own: whoever changes its bytes or moves it holds its lock for writing, whoever reads it there
//! holds it for reading. It refuses to know requests and kernels.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{FileType, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use seekless_block::SimTime;
use seekless_host::sys::{Others, lease};
use seekless_host::{FileDevice, HostError};
use seekless_store::{
    Arrival, Ask, Attributes, Config, DiskPhase, FILE_BYTES_MAX, Fault, FileNumber, GroupStore,
    Member, Name, OtherModule, Reply, StoreOnDevice,
};

use crate::error::MountError;
use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::underlying::{self, Marker, MarkerFound, UnderlyingDir};

/// Threads that wait for flushes.
const AT_ONCE: usize = 32;
/// Locks that all files share.
const LOCKS: usize = 1024;

/// Whether a file that the store has an entry for has its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkerCheck {
    /// Not looked yet.
    Unchecked,
    Confirmed,
    /// It has, and bytes beside it: somebody wrote there without us.
    Conflicting,
}

/// A file of the store.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub(crate) struct GroupedFile {
    pub(crate) number: FileNumber,
    pub(crate) size: u32,
    proof: MarkerCheck,
    /// What the kernel has cached of it is of this stay in the store.
    cached: bool,
}

const _: () = assert!(size_of::<GroupedFile>() == 16);

impl GroupedFile {
    fn is(&self, number: FileNumber) -> bool {
        let own = self.number;
        own == number
    }
}

impl InodeRow for GroupedFile {
    type Key = InodeHandle;

    fn key(&self, handle: InodeHandle) -> InodeHandle {
        handle
    }
}

/// What was done since the mount.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) came: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) given_up: AtomicU64,
    pub(crate) reads: AtomicU64,
}

#[derive(Debug)]
struct SyncHome(Arc<UnderlyingDir>);

impl OtherModule for SyncHome {
    fn sync(&mut self) -> bool {
        self.0.sync().is_ok()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct GroupedFiles {
    pub(crate) underlying: Arc<UnderlyingDir>,
    store: Mutex<StoreOnDevice<FileDevice, SyncHome>>,
    uuid: [u8; 16],
    started: Instant,
    kept: RwLock<InodeTable<GroupedFile>>,
    /// Bytes of these files.
    bytes: AtomicU64,
    locks: Box<[RwLock<()>]>,
    /// Files on their way here, and whether they were written meanwhile.
    watched: Mutex<FxHashMap<InodeHandle, bool>>,
    pub(crate) counts: Counts,
    trouble: Mutex<Option<String>>,
}

/// A file that is to come.
struct Newcomer {
    handle: InodeHandle,
    file: File,
    stat: Stat,
    data: Vec<u8>,
}

/// What a lock holds is whole between any two steps; a thread that panicked has left it so.
fn held<T>(lock: Result<T, PoisonError<T>>) -> T {
    lock.unwrap_or_else(PoisonError::into_inner)
}

/// Does this with each, several at a time: what waits for a device's flush waits for the same one as the others.
fn at_once<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (act, part) = (&act, all.len().div_ceil(AT_ONCE).max(1));
    let each = move |part: &[T]| part.iter().map(act).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let spawn = |p| (p, std::thread::Builder::new().spawn_scoped(scope, move || each(p)));
        let threads: Vec<_> = all.chunks(part).map(spawn).collect();
        let ended = threads.into_iter().map(|(part, thread)| match thread {
            // What panics has done nothing by halves that a crash would not; it goes on where it was.
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => each(part),
        });
        ended.flatten().collect()
    })
}

/// The client's word for a fault.
pub(crate) const fn errno(fault: &Fault) -> Errno {
    match fault {
        Fault::NoSpace | Fault::TableFull => Errno::NOSPC,
        _ => Errno::IO,
    }
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

const fn timespec(nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
    }
}

fn attributes(stat: &Stat) -> Attributes {
    Attributes {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        accessed: nanoseconds(stat.st_atime, stat.st_atime_nsec as i64),
        modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
        changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
    }
}

impl GroupedFiles {
    /// Attaches a store to its directory: what a crash left between the two is decided first.
    ///
    /// # Errors
    /// Where the store is damaged or of another directory, or either module fails.
    pub(crate) fn attach(
        underlying: UnderlyingDir,
        disk: FileDevice,
        config: Config,
        place: &Path,
    ) -> Result<Self, MountError> {
        let underlying = Arc::new(underlying);
        let path = underlying.path().to_owned();
        let fail = |what| {
            let path = path.clone();
            move |e: Errno| HostError::Path { path, what, source: e.into() }
        };
        let store = StoreOnDevice::attach(disk, SyncHome(Arc::clone(&underlying)), config)
            .map_err(|source| MountError::GroupStore {
                path: place.to_owned(),
                source: Box::new(source),
            })?;
        let (uuid, files) = (store.gfs().uuid(), store.gfs().files().count());
        let refuse = |why: &str| -> MountError {
            HostError::Refused { path: path.clone(), why: why.to_owned() }.into()
        };
        match underlying.binding().map_err(fail("read its extended attributes"))? {
            Some((store, true)) if store == uuid => {}
            Some((_, true)) => {
                return Err(refuse(
                    "its files are in another group store; name that one (--store), or, where it is lost and with it what was grouped, `setfattr -x trusted.seekless.store` on the directory",
                ));
            }
            Some((_, false)) => {
                return Err(refuse(
                    "is a copy of a directory with a group store, made without the mount: what was grouped has no bytes in it; mount the original, and copy from there",
                ));
            }
            None if files > 0 => {
                return Err(refuse("the group store has files, and they are another directory's"));
            }
            None => underlying.bind(Some(uuid)).map_err(fail(
                "set an extended attribute on it; its file system must know trusted ones, and not be read-only",
            ))?,
        }
        let shape = underlying.handle().shape();
        let groups = Self {
            underlying,
            store: Mutex::new(store),
            uuid,
            started: Instant::now(),
            kept: RwLock::new(InodeTable::new(shape)),
            bytes: AtomicU64::new(0),
            locks: (0..LOCKS).map(|_| RwLock::new(())).collect(),
            watched: Mutex::default(),
            counts: Counts::default(),
            trouble: Mutex::default(),
        };
        groups.settle_all().map_err(fail("settle what a crash left on its way"))?;
        Ok(groups)
    }

    /// After a crash: for each file on its way, whoever has the marker has the file.
    fn settle_all(&self) -> Result<(), Errno> {
        let unsettled = self.gfs(GroupStore::unsettled);
        let any = !unsettled.is_empty();
        let (mut settled, mut gone) = (Vec::new(), Vec::new());
        for number in unsettled {
            let Some(entry) = self.gfs(|g| g.file(number).cloned()) else { continue };
            let handle = self.underlying.handle_named(&entry.name).ok_or(Errno::IO)?;
            let fd = match self.underlying.open_handle(&handle, OFlags::RDWR) {
                Ok(fd) => fd,
                Err(Errno::STALE | Errno::NOENT) => {
                    gone.push(number);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let stat = rustix::fs::fstat(&fd)?;
            if underlying::marker(&fd)? == MarkerFound::Marker(self.marker(number, &stat)) {
                let a = entry.attributes;
                let times = Timestamps {
                    last_access: timespec(a.accessed),
                    last_modification: timespec(a.modified),
                };
                // Also where it was cut already: whoever did so may have ended before its times were what they had been.
                self.underlying.cut(&fd, &times)?;
                self.underlying.sync_file(&fd)?;
                settled.push(number);
            } else {
                gone.push(number);
            }
        }
        let of = |fault: Fault| errno(&fault);
        for number in gone {
            self.ask(Ask::Remove { file: number }).map_err(of)?;
        }
        if !settled.is_empty() {
            self.ask(Ask::Settle { files: settled }).map_err(of)?;
        }
        let entries: Vec<(FileNumber, Name, u32)> =
            self.gfs(|g| g.files().map(|(n, f)| (n, f.name.clone(), f.size)).collect());
        for (number, name, size) in entries {
            let handle = self.underlying.handle_named(&name).ok_or(Errno::IO)?;
            let kept = GroupedFile { number, size, proof: MarkerCheck::Unchecked, cached: false };
            let twin = self.keep(handle, kept);
            if let Some(twin) = twin {
                // One of them has been gone for long, and its removal was not written down.
                let marked = |number| match self.underlying.open_handle(&handle, OFlags::PATH) {
                    Ok(fd) => {
                        let expected = self.marker(number, &rustix::fs::fstat(&fd)?);
                        Ok(underlying::marker(&fd)? == MarkerFound::Marker(expected))
                    }
                    Err(Errno::STALE | Errno::NOENT) => Ok(false),
                    Err(e) => Err(e),
                };
                let dead = if marked(twin.number)? {
                    self.keep(handle, twin);
                    number
                } else {
                    twin.number
                };
                self.ask(Ask::Remove { file: dead }).map_err(of)?;
            }
        }
        if any {
            // Whoever is killed again and again would leave more and more of them.
            self.ask(Ask::Sync { file: None }).map_err(of)?;
        }
        Ok(())
    }

    const fn marker(&self, file: FileNumber, stat: &Stat) -> Marker {
        Marker { store: self.uuid, file, ino: stat.st_ino }
    }

    pub(crate) const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    fn store(&self) -> MutexGuard<'_, StoreOnDevice<FileDevice, SyncHome>> {
        held(self.store.lock())
    }

    /// Asks the store what it knows.
    pub(crate) fn gfs<T>(&self, look: impl FnOnce(&GroupStore) -> T) -> T {
        look(self.store().gfs())
    }

    pub(crate) fn ask(&self, ask: Ask) -> Result<Reply, Fault> {
        self.ask_all(vec![ask]).pop().unwrap_or(Err(Fault::Broken))
    }

    fn ask_all(&self, asks: Vec<Ask>) -> Vec<Result<Reply, Fault>> {
        #[cfg(test)]
        if let Some(stopped) = self.underlying.steps.asks(&asks) {
            return stopped;
        }
        #[cfg(test)]
        let asked = asks.clone();
        let now = SimTime(self.started.elapsed().as_nanos() as u64);
        let results = self.store().ask_all(now, asks);
        #[cfg(test)]
        self.underlying.steps.answered(&asked, &results);
        for result in &results {
            if let Err(fault @ (Fault::Read(_) | Fault::Damaged { .. } | Fault::Broken)) = result {
                self.note(fault.to_string());
            }
        }
        results
    }

    /// Lets the store write what has waited long enough, as the disk is.
    pub(crate) fn tick(&self, phase: DiskPhase) {
        let now = SimTime(self.started.elapsed().as_nanos() as u64);
        let mut store = self.store();
        store.set_disk_phase(phase);
        if store.gfs().wakeup().is_some_and(|t| t <= now) {
            store.tick(now);
        }
    }

    /// The latest that went wrong and is no client's fault.
    pub(crate) fn note(&self, what: String) {
        *held(self.trouble.lock()) = Some(what);
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        held(self.trouble.lock()).clone()
    }

    fn lock_of(&self, handle: &InodeHandle) -> usize {
        handle.id() as usize % LOCKS
    }

    pub(crate) fn reading(&self, handle: &InodeHandle) -> RwLockReadGuard<'_, ()> {
        held(self.locks[self.lock_of(handle)].read())
    }

    /// For changing a file's bytes, or where they are. One at a time.
    pub(crate) fn changing(&self, handle: &InodeHandle) -> RwLockWriteGuard<'_, ()> {
        held(self.locks[self.lock_of(handle)].write())
    }

    /// Somebody is about to change this file's bytes, or can from now on; its lock is held.
    pub(crate) fn touch(&self, handle: &InodeHandle) {
        if let Some(touched) = held(self.watched.lock()).get_mut(handle) {
            *touched = true;
        }
    }

    /// How many files the store has.
    pub(crate) fn len(&self) -> usize {
        held(self.kept.read()).len()
    }

    /// Bytes of files that the store has.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Those files of the store that are wanted, in order.
    pub(crate) fn those(&self, wanted: impl Fn(&InodeHandle) -> bool) -> Vec<InodeHandle> {
        let mut all: Vec<InodeHandle> =
            held(self.kept.read()).iter().map(|(h, _)| h).filter(wanted).collect();
        all.sort_unstable();
        all
    }

    /// From now on the store has this file; what it had under this handle is returned.
    fn keep(&self, handle: InodeHandle, kept: GroupedFile) -> Option<GroupedFile> {
        let mut all = held(self.kept.write());
        let old = all.insert(handle, kept).map(|(_, k)| k);
        self.bytes.fetch_add(kept.size.into(), Relaxed);
        self.bytes.fetch_sub(old.map_or(0, |k| k.size.into()), Relaxed);
        old
    }

    /// And from now on it does not, if it is still the file of this number.
    fn drop_kept(&self, handle: &InodeHandle, number: Option<FileNumber>) -> Option<GroupedFile> {
        let mut all = held(self.kept.write());
        let (_, old) = all.get(*handle).filter(|(_, k)| number.is_none_or(|n| k.is(n)))?;
        all.remove(*handle);
        self.bytes.fetch_sub(old.size.into(), Relaxed);
        Some(old)
    }

    /// What the store has of a file, without looking for its marker.
    pub(crate) fn peek(&self, handle: &InodeHandle) -> Option<GroupedFile> {
        held(self.kept.read()).get(*handle).map(|(_, kept)| kept)
    }

    /// What the store has of a file. The first time its marker is looked for: an entry without one is nothing.
    ///
    /// # Errors
    /// The host's word.
    pub(crate) fn kept(&self, handle: &InodeHandle) -> Result<Option<GroupedFile>, Errno> {
        match self.peek(handle) {
            Some(kept) if kept.proof == MarkerCheck::Unchecked => {
                self.prove(handle, kept, self.underlying.open_handle(handle, OFlags::PATH)?)
            }
            known => Ok(known),
        }
    }

    /// The same of a file that is open, for whatever.
    ///
    /// # Errors
    /// The host's word.
    pub(crate) fn kept_of(
        &self,
        handle: &InodeHandle,
        fd: impl AsFd,
    ) -> Result<Option<GroupedFile>, Errno> {
        match self.peek(handle) {
            Some(kept) if kept.proof == MarkerCheck::Unchecked => self.prove(handle, kept, fd),
            known => Ok(known),
        }
    }

    /// Looks for the marker of a file that the store has an entry for.
    fn prove(
        &self,
        handle: &InodeHandle,
        kept: GroupedFile,
        fd: impl AsFd,
    ) -> Result<Option<GroupedFile>, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        let found = underlying::marker(&fd)?;
        if found == MarkerFound::Marker(self.marker(kept.number, &stat)) {
            let foul = stat.st_size != 0;
            let now = {
                let mut all = held(self.kept.write());
                let Some(now) = all.get_mut(*handle) else { return Ok(None) };
                if !now.is(kept.number) {
                    return Ok(Some(*now));
                }
                now.proof = if foul { MarkerCheck::Conflicting } else { MarkerCheck::Confirmed };
                *now
            };
            if foul {
                self.note(format!(
                    "inode {} in {}: it was written without the mount; `setfattr -x {MARKER} FILE` keeps what was written, `truncate -s 0 FILE` what is in the group store, either without the mount",
                    stat.st_ino,
                    self.underlying.path().display(),
                    MARKER = underlying::MARKER,
                ));
            }
            return Ok(Some(now));
        }
        if self.drop_kept(handle, Some(kept.number)).is_none() {
            return Ok(self.peek(handle));
        }
        // Where the store cannot write that down now, it will be found again.
        let _ = self.ask(Ask::Remove { file: kept.number });
        Ok(None)
    }

    /// Whether a file's inode lives, as far as that is known. An entry of one that does not, left by a crash, is dropped.
    pub(crate) fn is_there(&self, handle: &InodeHandle) -> bool {
        let gone = matches!(self.kept(handle), Err(Errno::STALE | Errno::NOENT));
        if gone {
            let _lock = self.changing(handle);
            self.forget(handle);
        }
        !gone
    }

    /// What the store has of a file whose bytes are to be read or moved.
    ///
    /// # Errors
    /// `IO` where the inode has bytes of its own beside the marker.
    pub(crate) fn kept_whole(&self, handle: &InodeHandle) -> Result<Option<GroupedFile>, Errno> {
        let kept = self.kept(handle)?;
        if kept.is_some_and(|k| k.proof == MarkerCheck::Conflicting) {
            Err(Errno::IO)
        } else {
            Ok(kept)
        }
    }

    /// Whether an inode that the store has no entry for is a file all the same. Its lock is held.
    ///
    /// # Errors
    /// `IO` where it has a marker: its bytes are somewhere else, or lost.
    pub(crate) fn is_whole(&self, file: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
        if stat.st_size > 0 || underlying::marker(file)? == MarkerFound::Nothing {
            return Ok(());
        }
        if stat.st_nlink == 0 {
            // Removed since the client has found it.
            return Err(Errno::STALE);
        }
        self.note(format!(
            "inode {} in {}: its marker names a file that this group store does not have",
            stat.st_ino,
            self.underlying.path().display()
        ));
        Err(Errno::IO)
    }

    /// Whether what the kernel has cached of a file is of this stay in the store. Whoever opened it when that was not so made
    /// the kernel drop what it had, and that was done before it read.
    pub(crate) fn is_cached(&self, handle: &InodeHandle) -> bool {
        self.peek(handle).is_some_and(|k| k.cached)
    }

    /// A client reads a file of the store.
    pub(crate) fn now_cached(&self, handle: &InodeHandle, kept: &GroupedFile) {
        if !kept.cached
            && let Some(kept) = held(self.kept.write()).get_mut(*handle)
        {
            kept.cached = true;
        }
    }

    /// Bytes of a file of the store; its lock is held.
    ///
    /// # Errors
    /// `IO` where the store cannot read them, or they are damaged.
    pub(crate) fn read(&self, kept: &GroupedFile, offset: u64, len: u32) -> Result<Vec<u8>, Errno> {
        self.counts.reads.fetch_add(1, Relaxed);
        match self.ask(Ask::Read { file: kept.number, offset, len }) {
            Ok(Reply::Data(data)) => Ok(data),
            Ok(_) => Err(Errno::IO),
            Err(fault) => Err(errno(&fault)),
        }
    }

    /// Brings a file home, if the store has it; its lock is held for writing.
    ///
    /// # Errors
    /// `NOSPC` where home has no room, and what else either module says. The file then stays where it is.
    pub(crate) fn bring_home(&self, handle: &InodeHandle) -> Result<(), Errno> {
        let Some(kept) = self.kept_whole(handle)? else { return Ok(()) };
        self.note_times(handle, &kept)?;
        self.ask(Ask::Leave { files: vec![kept.number] }).map_err(|f| errno(&f))?;
        self.land(handle, &kept)
    }

    /// The entry learns when its inode was last read and written: a landing that is cut short will ask.
    fn note_times(&self, handle: &InodeHandle, kept: &GroupedFile) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(self.underlying.open_handle(handle, OFlags::PATH)?)?;
        let ask = Ask::SetAttributes { file: kept.number, attributes: attributes(&stat) };
        self.ask(ask).map(|_| ()).map_err(|f| errno(&f))
    }

    /// A file whose entry is leaving: its bytes go underlying.
    fn land(&self, handle: &InodeHandle, kept: &GroupedFile) -> Result<(), Errno> {
        let file = File::from(self.underlying.open_handle(handle, OFlags::RDWR)?);
        let times = underlying::times(&rustix::fs::fstat(&file)?);
        let landed = self.read(kept, 0, FILE_BYTES_MAX).and_then(|data| {
            if data.len() != kept.size as usize {
                return Err(Errno::IO);
            }
            self.underlying.fill(&file, &data, &times)
        });
        let landed = landed.and_then(|()| self.underlying.clear_marker(&file));
        if let Err(e) = landed {
            if self
                .underlying
                .cut(&file, &times)
                .and_then(|()| self.underlying.sync_file(&file))
                .is_ok()
            {
                let _ = self.ask(Ask::Settle { files: vec![kept.number] });
            }
            return Err(e);
        }
        self.counts.returned.fetch_add(1, Relaxed);
        // An fdatasync of what a client overwrites from now on covers no extended attribute: on ext4 a marker that is still
        // there after a crash would bring back the bytes in the store. Where this fails the file is home all the same.
        let durable = self.underlying.sync_file(&file);
        self.forget(handle);
        durable
    }

    /// Drops what the store has of a file and makes it an empty one at home; its lock is held for writing.
    ///
    /// # Errors
    /// The host's word. Nothing was changed then.
    pub(crate) fn empty(&self, handle: &InodeHandle) -> Result<(), Errno> {
        if self.kept_whole(handle)?.is_none() {
            return Ok(());
        }
        self.underlying.clear_marker(self.underlying.open_handle(handle, OFlags::RDWR)?)?;
        self.forget(handle);
        Ok(())
    }

    /// A file has no marker any more: it is home, or gone.
    pub(crate) fn forget(&self, handle: &InodeHandle) {
        if let Some(kept) = self.drop_kept(handle, None) {
            // A store that cannot write it down has a dead entry, which the next attach finds out.
            let _ = self.ask(Ask::Remove { file: kept.number });
        }
    }

    /// Brings files home, many at a time; those that cannot be stay. `busy` is asked of nobody: readers may go on.
    /// Returns how many came.
    pub(crate) fn bring_all_home(&self, files: &[InodeHandle]) -> usize {
        let mut done = 0;
        for handles in files.chunks(64) {
            let mut leaving = Vec::new();
            for handle in handles {
                match self.kept_whole(handle) {
                    Ok(Some(kept)) if self.note_times(handle, &kept).is_ok() => {
                        leaving.push((*handle, kept));
                    }
                    _ if !self.is_there(handle) => {}
                    Err(e) => self.note(format!("a file could not be brought home: {e}")),
                    Ok(_) => {}
                }
            }
            let numbers = leaving.iter().map(|(_, k)| k.number).collect();
            // Where one of them has gone meanwhile, each is asked for by itself.
            let together = self.ask(Ask::Leave { files: numbers }).is_ok();
            let landed = at_once(&leaving, |(handle, kept)| {
                let _lock = self.changing(handle);
                let there = self.peek(handle).is_some_and(|k| k.is(kept.number));
                let landed = match (there, together) {
                    (false, _) => return false,
                    (true, true) => self.land(handle, kept),
                    (true, false) => self.bring_home(handle),
                };
                landed
                    .inspect_err(|e| self.note(format!("a file could not be brought home: {e}")))
                    .is_ok()
            });
            done += landed.iter().filter(|came| **came).count();
        }
        done
    }

    /// Forms groups of files: those that are home and that `busy` says nobody has open come to the store. Returns for each how
    /// many came, or why the store takes no group: every file of it is where it was then.
    pub(crate) fn form(
        &self,
        groups: &[Vec<InodeHandle>],
        busy: impl Fn(&InodeHandle) -> bool + Sync,
    ) -> Vec<Result<usize, Fault>> {
        let mut coming: Vec<Newcomer> = Vec::new();
        let (mut asks, mut parts) = (Vec::new(), Vec::new());
        for files in groups {
            let (mut here, first) = (Vec::new(), coming.len());
            for handle in files {
                match self.kept_whole(handle) {
                    Ok(Some(kept)) => here.push(kept.number),
                    Ok(None) => coming.extend(self.fetch(handle, &busy)),
                    Err(_) => {}
                }
            }
            let arrivals = coming[first..].iter_mut().map(|c| {
                let (attributes, data) = (attributes(&c.stat), std::mem::take(&mut c.data));
                Member::New(Arrival { attributes, name: c.handle.to_name(), data })
            });
            let members: Vec<Member> =
                here.iter().map(|n| Member::Here(*n)).chain(arrivals).collect();
            // Of nothing there is no group.
            let asked = (!members.is_empty()).then(|| asks.push(Ask::Group { members }));
            parts.push((asked, here.len(), first..coming.len()));
        }
        let mut replies = self.ask_all(asks).into_iter();
        let mut numbers: Vec<Option<FileNumber>> = vec![None; coming.len()];
        let mut results = Vec::new();
        for (asked, here, part) in &parts {
            results.push(match asked.and_then(|()| replies.next()) {
                None => Ok(()),
                Some(Ok(Reply::Numbers(given))) => {
                    let given = given.iter().skip(*here);
                    for (to, number) in numbers[part.clone()].iter_mut().zip(given) {
                        *to = Some(*number);
                    }
                    Ok(())
                }
                Some(Ok(_)) => Err(Fault::Broken),
                Some(Err(fault)) => Err(fault),
            });
        }
        let given: Vec<(&Newcomer, FileNumber)> =
            coming.iter().zip(numbers).filter_map(|(c, n)| Some((c, n?))).collect();
        let came = self.flip(&given, &busy);
        let mut watched = held(self.watched.lock());
        for c in &coming {
            watched.remove(&c.handle);
        }
        let count = |part: &std::ops::Range<usize>| {
            coming[part.clone()].iter().filter(|c| came.contains(&c.handle)).count()
        };
        results.into_iter().zip(&parts).map(|(r, (.., part))| r.map(|()| count(part))).collect()
    }

    /// Reads a file that is to come; from now on it is known when it is written.
    fn fetch(
        &self,
        handle: &InodeHandle,
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> Option<Newcomer> {
        {
            let _lock = self.changing(handle);
            if busy(handle) {
                return None;
            }
            held(self.watched.lock()).insert(*handle, false);
        }
        let read = || {
            let file = File::from(
                self.underlying.open_handle(handle, OFlags::RDWR | OFlags::NOATIME).ok()?,
            );
            // What is mapped can be written without a trace, and must keep its bytes.
            lease(&file, Others::Any).ok()?;
            let stat = rustix::fs::fstat(&file).ok()?;
            let small = (1..=i64::from(FILE_BYTES_MAX)).contains(&stat.st_size);
            if !small
                || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
                || underlying::has_capabilities(&file)
            {
                return None;
            }
            let mut data = vec![0; stat.st_size as usize];
            file.read_exact_at(&mut data, 0).ok()?;
            Some(Newcomer { handle: *handle, file, stat, data })
        };
        let newcomer = read();
        if newcomer.is_none() {
            held(self.watched.lock()).remove(handle);
        }
        newcomer
    }

    /// The store has the newcomers' bytes: from here on it has the files too, those of them that nobody has touched, and which
    /// are returned.
    fn flip(
        &self,
        coming: &[(&Newcomer, FileNumber)],
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> FxHashSet<InodeHandle> {
        let mut locks: Vec<usize> = coming.iter().map(|(c, _)| self.lock_of(&c.handle)).collect();
        locks.sort_unstable();
        locks.dedup();
        let guards: Vec<_> = locks.iter().map(|&i| held(self.locks[i].write())).collect();
        let mut marked = Vec::new();
        let mut unwanted = FxHashSet::default();
        for &(c, number) in coming {
            match self.mark(c, number, busy) {
                Ok(now) => marked.push((c, number, now)),
                Err(_) => drop(unwanted.insert(number)),
            }
        }
        let durable = at_once(&marked, |(c, ..)| self.underlying.sync_file(&c.file).is_ok());
        let mut durable = durable.into_iter();
        marked.retain(|(c, number, _)| {
            let durable = durable.next() == Some(true);
            if !durable && self.underlying.clear_marker(&c.file).is_ok() {
                unwanted.insert(*number);
            }
            durable
        });
        let mut cut = Vec::new();
        for (c, number, now) in &marked {
            let size = now.st_size as u32;
            let kept =
                GroupedFile { number: *number, size, proof: MarkerCheck::Confirmed, cached: false };
            self.keep(c.handle, kept);
            if self.underlying.cut(&c.file, &underlying::times(now)).is_ok() {
                cut.push((*c, *number));
            }
        }
        drop(guards);
        // An entry that is settled says that its inode has no bytes: one that has was written by somebody else.
        let synced = at_once(&cut, |(c, _)| self.underlying.sync_file(&c.file).is_ok());
        let settled = cut.iter().zip(synced).filter(|(_, synced)| *synced).map(|((_, n), _)| *n);
        let settled: Vec<FileNumber> = settled.collect();
        if !settled.is_empty() {
            let _ = self.ask(Ask::Settle { files: settled });
        }
        self.counts.came.fetch_add(marked.len() as u64, Relaxed);
        self.counts.given_up.fetch_add(unwanted.len() as u64, Relaxed);
        for number in unwanted {
            let _ = self.ask(Ask::Remove { file: number });
        }
        marked.iter().map(|(c, ..)| c.handle).collect()
    }

    /// Sets a newcomer's marker, if its bytes are still those that were read.
    fn mark(
        &self,
        c: &Newcomer,
        number: FileNumber,
        busy: &impl Fn(&InodeHandle) -> bool,
    ) -> Result<Stat, Errno> {
        let touched = held(self.watched.lock()).get(&c.handle).is_none_or(|t| *t);
        let now = rustix::fs::fstat(&c.file)?;
        let written = |s: &Stat| (s.st_size, s.st_mtime, s.st_mtime_nsec);
        if touched || busy(&c.handle) || written(&now) != written(&c.stat) || now.st_nlink == 0 {
            return Err(Errno::AGAIN);
        }
        lease(&c.file, Others::Any).map_err(|_| Errno::AGAIN)?;
        self.underlying.set_marker(&c.file, &self.marker(number, &now))?;
        Ok(now)
    }

    /// Everything to its place, for a clean end. A directory of which the store has no file is its own again where
    /// `release` says so.
    ///
    /// # Errors
    /// Why the store could not be put to rest; nothing that was durable is lost.
    pub(crate) fn end(&self, release: bool) -> Result<(), Fault> {
        self.ask(Ask::Sync { file: None })?;
        self.ask(Ask::Checkpoint)?;
        if release && self.len() == 0 {
            let _ = self.underlying.bind(None);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
