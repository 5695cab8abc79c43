//! The group store and the directory as one: which files the store has, and every move of a file
//! between the two. The orders of steps are those of the crate `seekless-store`; the marker of a
//! file decides, always.
//!
//! Each file has a lock. A change of its contents, or a move, holds the lock for writing; a read
//! holds the lock for reading. This module knows no requests and no kernel.

mod attach;
mod drop_removed;
mod marker_check;
mod move_back;
mod move_in;
#[cfg(test)]
pub(crate) mod tests;
mod write_in_store;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::Stat;
use rustix::io::Errno;
use seekless_block::SimTime;
use seekless_store::{
    Ask, Attributes, DiskPhase, Fault, FileNumber, GroupStore, OtherModule, Reply, StoreOnDevice,
};

use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::underlying::{Marker, UnderlyingDir, nanoseconds};
use drop_removed::Renames;

/// Threads that wait for flushes at the same time.
const SYNC_THREADS: usize = 32;
const LOCKS: usize = 1024;

/// The marker of a file with an entry in the store, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkerCheck {
    /// Not looked for yet.
    Unchecked,
    /// The inode was not found: it was removed, or the disk could not read it.
    Missing,
    /// Found on an empty inode.
    Confirmed,
    /// Found on an inode with bytes: another program wrote to the file without the mount.
    Conflicting,
    /// A sync of the marker, or of its removal, failed: a power cut decides where the file is. Or the
    /// attach could not settle the file. The bytes are in both places, and nobody may change them
    /// before the next attach.
    Unsure,
}

/// A file that the store has.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub(crate) struct GroupedFile {
    pub(crate) number: FileNumber,
    /// In bytes.
    pub(crate) size: u32,
    check: MarkerCheck,
    /// The kernel's cache holds bytes of this stay in the store, none older.
    cached: bool,
}

const _: () = assert!(size_of::<GroupedFile>() == 16);

impl GroupedFile {
    /// The marker was never found.
    fn is_unchecked(&self) -> bool {
        matches!(self.check, MarkerCheck::Unchecked | MarkerCheck::Missing)
    }

    /// See [`MarkerCheck::Missing`].
    pub(crate) fn is_missing(&self) -> bool {
        self.check == MarkerCheck::Missing
    }

    fn has_number(&self, number: FileNumber) -> bool {
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

/// Counters since the mount.
#[derive(Debug, Default)]
pub(crate) struct MountCounts {
    /// Files moved to the store.
    pub(crate) came: AtomicU64,
    /// Files moved back to the directory.
    pub(crate) returned: AtomicU64,
    /// Moves to the store that were given up, because the file was used or written meanwhile.
    pub(crate) given_up: AtomicU64,
    /// Files that the store keeps although they are not in this directory: see `drop_removed`.
    pub(crate) kept: AtomicU64,
    pub(crate) reads: AtomicU64,
    /// Writes and truncations of files that stayed in the store.
    pub(crate) writes: AtomicU64,
}

/// The directory is synced without the lock of the store: see [`GroupedFiles::sync_directory`].
#[derive(Debug)]
struct SyncsLater;

impl OtherModule for SyncsLater {
    fn sync(&mut self) -> Option<bool> {
        None
    }
}

#[cfg(not(test))]
type StoreDevice = seekless_host::FileDevice;
#[cfg(test)]
type StoreDevice = tests::CutDevice;

type StoreGuard<'a> = MutexGuard<'a, StoreOnDevice<StoreDevice, SyncsLater>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct GroupedFiles {
    pub(crate) underlying: Arc<UnderlyingDir>,
    store: Mutex<StoreOnDevice<StoreDevice, SyncsLater>>,
    /// A sync of the directory for the store has ended.
    synced: Condvar,
    uuid: [u8; 16],
    /// No other directory can have files in the store.
    is_alone: bool,
    started: Instant,
    files: RwLock<InodeTable<GroupedFile>>,
    bytes: AtomicU64,
    locks: Box<[RwLock<()>]>,
    /// Files on their way to the store; true if a file was written meanwhile.
    watched: Mutex<FxHashMap<InodeHandle, bool>>,
    /// Times that a group had to be written because of this file, since the latest shuffle.
    rewritten: Mutex<FxHashMap<InodeHandle, u32>>,
    /// Files of the directory whose sync failed during a move. The host reports the loss of file
    /// pages once: the next sync by a client must fail instead.
    owed_errors: Mutex<FxHashSet<InodeHandle>>,
    pub(crate) counts: MountCounts,
    pub(crate) renames: Renames,
    trouble: Mutex<Option<String>>,
}

/// Takes a lock. The data under a lock is consistent between any two steps, also after a panic.
fn held<T>(lock: Result<T, PoisonError<T>>) -> T {
    lock.unwrap_or_else(PoisonError::into_inner)
}

/// Calls `act` for each item, several at the same time, so that their waits for a flush of the
/// device coincide.
fn in_parallel<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (act, part) = (&act, all.len().div_ceil(SYNC_THREADS).max(1));
    let each = move |part: &[T]| part.iter().map(act).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let spawn = |p| (p, std::thread::Builder::new().spawn_scoped(scope, move || each(p)));
        let threads: Vec<_> = all.chunks(part).map(spawn).collect();
        let ended = threads.into_iter().map(|(part, thread)| match thread {
            // A panic interrupts the work no worse than a crash does: it continues in this thread.
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => each(part),
        });
        ended.flatten().collect()
    })
}

/// The error for the client.
pub(crate) const fn errno(fault: &Fault) -> Errno {
    match fault {
        Fault::NoSpace | Fault::TableFull => Errno::NOSPC,
        _ => Errno::IO,
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
    const fn marker(&self, file: FileNumber, stat: &Stat) -> Marker {
        Marker { store: self.uuid, file, ino: stat.st_ino }
    }

    pub(crate) const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    fn store(&self) -> StoreGuard<'_> {
        held(self.store.lock())
    }

    pub(crate) fn group_store<T>(&self, look: impl FnOnce(&GroupStore) -> T) -> T {
        look(self.store().group_store())
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
        let results = self.wait_for(asks);
        #[cfg(test)]
        self.underlying.steps.answered(&asked, &results);
        for result in &results {
            if let Err(fault @ (Fault::Read(_) | Fault::Damaged { .. } | Fault::Broken)) = result {
                self.note_trouble(fault.to_string());
            }
        }
        results
    }

    /// Sends asks, and waits for their replies.
    fn wait_for(&self, asks: Vec<Ask>) -> Vec<Result<Reply, Fault>> {
        let grows = asks.iter().any(|ask| !matches!(ask, Ask::Read { .. }));
        let mut store = self.store();
        let ids = store.send(self.now(), asks);
        // Without the wait of a crowded store, changes during a long sync could fill the memory.
        while !store.have_ended(&ids) || grows && store.group_store().is_crowded() {
            if store.begins_sync() {
                store = self.sync_directory(store);
            } else if store.is_syncing() {
                store = held(self.synced.wait(store));
            } else {
                break;
            }
        }
        store.take_replies(ids)
    }

    /// Syncs the directory for the store. This takes minutes if much of the directory waits to be
    /// written: other threads use the store meanwhile.
    fn sync_directory<'a>(&'a self, store: StoreGuard<'a>) -> StoreGuard<'a> {
        drop(store);
        let done = self.underlying.sync().is_ok();
        let mut store = self.store();
        store.other_synced(self.now(), done);
        self.synced.notify_all();
        store
    }

    fn now(&self) -> SimTime {
        SimTime(self.started.elapsed().as_nanos() as u64)
    }

    /// Lets the store commit changes that are old enough for this phase of the disk.
    pub(crate) fn tick(&self, phase: DiskPhase) {
        let mut store = self.store();
        store.set_disk_phase(phase);
        let now = self.now();
        if store.group_store().wakeup().is_some_and(|t| t <= now) {
            store.tick(now);
        }
        if store.begins_sync() {
            drop(self.sync_directory(store));
        }
    }

    /// Keeps the latest error that no client caused.
    pub(crate) fn note_trouble(&self, what: String) {
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

    /// Locks a file for a change of its contents, or for a move. One thread holds at most one of
    /// these locks.
    pub(crate) fn changing(&self, handle: &InodeHandle) -> RwLockWriteGuard<'_, ()> {
        held(self.locks[self.lock_of(handle)].write())
    }

    /// A client is about to write to this file, or can write from now on. The caller holds the lock
    /// of the file.
    pub(crate) fn note_write(&self, handle: &InodeHandle) {
        if let Some(written) = held(self.watched.lock()).get_mut(handle) {
            *written = true;
        }
    }

    pub(crate) fn len(&self) -> usize {
        held(self.files.read()).len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The files of the store for which `wanted` is true, in order.
    pub(crate) fn files_where(
        &self,
        wanted: impl Fn(&InodeHandle, &GroupedFile) -> bool,
    ) -> Vec<InodeHandle> {
        let all = held(self.files.read());
        let mut all: Vec<InodeHandle> =
            all.iter().filter(|(h, file)| wanted(h, file)).map(|(h, _)| h).collect();
        all.sort_unstable();
        all
    }

    /// Adds a file of the store. Returns the former file of this handle.
    fn insert(&self, handle: InodeHandle, file: GroupedFile) -> Option<GroupedFile> {
        let mut all = held(self.files.write());
        let old = all.insert(handle, file).map(|(_, k)| k);
        self.bytes.fetch_add(file.size.into(), Relaxed);
        self.bytes.fetch_sub(old.map_or(0, |k| k.size.into()), Relaxed);
        old
    }

    /// Takes out a file, if the file still has this number.
    fn take_out(&self, handle: &InodeHandle, number: Option<FileNumber>) -> Option<GroupedFile> {
        let mut all = held(self.files.write());
        let (_, old) = all.get(*handle).filter(|(_, k)| number.is_none_or(|n| k.has_number(n)))?;
        all.remove(*handle);
        self.bytes.fetch_sub(old.size.into(), Relaxed);
        Some(old)
    }

    /// The file of the store with this handle. The marker is not looked for.
    pub(crate) fn peek(&self, handle: &InodeHandle) -> Option<GroupedFile> {
        held(self.files.read()).get(*handle).map(|(_, file)| file)
    }

    /// True if the kernel's cache holds no bytes from before this stay in the store. A client that
    /// opened the file earlier made the kernel drop its cache before the first read.
    pub(crate) fn is_cached(&self, handle: &InodeHandle) -> bool {
        self.peek(handle).is_some_and(|k| k.cached)
    }

    /// A client reads this file of the store.
    pub(crate) fn set_cached(&self, handle: &InodeHandle, file: &GroupedFile) {
        if !file.cached
            && let Some(file) = held(self.files.write()).get_mut(*handle)
        {
            file.cached = true;
        }
    }

    /// Reads from a file of the store. The caller holds the lock of the file.
    ///
    /// # Errors
    /// `IO` if the store cannot read the bytes, or if they are damaged.
    pub(crate) fn read(&self, file: &GroupedFile, offset: u64, len: u32) -> Result<Vec<u8>, Errno> {
        self.counts.reads.fetch_add(1, Relaxed);
        match self.ask(Ask::Read { file: file.number, offset, len }) {
            Ok(Reply::Data(data)) => Ok(data),
            Ok(_) => Err(Errno::IO),
            Err(fault) => Err(errno(&fault)),
        }
    }

    /// Commits everything, for a clean end. `release`: the directory is unbound from a store
    /// without entries.
    ///
    /// # Errors
    /// The store cannot be saved; committed files are safe.
    pub(crate) fn end(&self, release: bool) -> Result<(), Fault> {
        self.ask(Ask::Sync { file: None })?;
        self.ask(Ask::Checkpoint)?;
        if release && self.group_store(|g| g.files().next().is_none()) {
            let _ = self.underlying.bind(None);
        } else {
            // Without it, an older copy of the store would be taken for this one.
            let _ = self.underlying.note_generation(self.group_store(GroupStore::generation));
        }
        Ok(())
    }
}
