//! Threads that read ahead. A read of metadata needs no descriptor of the mount. A read of a file
//! holds one for a moment: only while the program that is run ahead of is alive, which keeps the
//! mount busy itself.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{Advice, FileType, Mode, OFlags, fadvise, fstat, open};
use rustix::io::Errno;
use rustix::thread::gettid;
use seekless_block::PAGE_BYTES;
use seekless_host::sys::{RawMap, fiemap, generation, open_handle};
use seekless_jobs::{Order, PIECE_PAGES, Place};

use crate::processes::is_alive;

/// Threads.
const THREADS: usize = 8;
/// The kernel reads about this much at a call, and no more.
const CALL_BYTES: u64 = 1 << 20;
/// Type of a handle with inode number and generation: `FILEID_INO32_GEN` of linux/exportfs.h.
const HANDLE_KIND: i32 = 1;

/// A mount, as workers need it.
#[derive(Debug)]
pub(crate) struct Target {
    /// Number in the kernel's events, for the answer.
    pub(crate) number: u64,
    /// A mount point.
    pub(crate) point: PathBuf,
    /// Device number as stat has it.
    pub(crate) device: u64,
}

/// One thing to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Pages of the device.
    Metadata(Arc<File>, Order),
    /// Pages of a file, for this thread.
    Pages(Arc<Target>, u32, Order),
    /// Find the generation and the address of a piece, for this thread.
    Resolve(Arc<Target>, u32, Place),
}

/// What a worker found out about a file system.
#[derive(Debug)]
pub(crate) enum Found {
    /// The file is not there any more.
    Gone(u64, u64),
    /// Generation and address of a piece.
    Resolved(u64, Place, u32, u64),
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Fetcher {
    tasks: Sender<Task>,
    found: Receiver<Found>,
    under_way: Arc<AtomicUsize>,
    /// The threads' numbers, which their events carry.
    pub(crate) threads: Vec<u32>,
}

impl Fetcher {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (tasks, queue) = channel();
        let (results, found) = channel();
        let (tell, told) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let under_way = Arc::new(AtomicUsize::new(0));
        for _ in 0..THREADS {
            let (queue, results, tell) = (Arc::clone(&queue), results.clone(), tell.clone());
            let under_way = Arc::clone(&under_way);
            thread::Builder::new().name("seekless-fetch".to_owned()).spawn(move || {
                let _ = tell.send(gettid().as_raw_nonzero().get().cast_unsigned());
                drop(tell);
                work(&queue, &results, &under_way);
            })?;
        }
        drop(tell);
        let threads = told.iter().collect();
        Ok(Self { tasks, found, under_way, threads })
    }

    pub(crate) fn send(&self, task: Task) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        // The workers end after this sender.
        let _ = self.tasks.send(task);
    }

    /// Tasks that are not done.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// What workers found out since the last time.
    pub(crate) fn found(&self) -> impl Iterator<Item = Found> {
        self.found.try_iter()
    }
}

fn work(queue: &Mutex<Receiver<Task>>, results: &Sender<Found>, under_way: &AtomicUsize) {
    loop {
        let task = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = task else { return };
        match task {
            Task::Metadata(device, order) => read_ahead(device.as_fd(), &order),
            Task::Pages(target, user, order) => {
                results_of(&target, order.pages.file, pages(&target, user, &order), results);
            }
            Task::Resolve(target, user, place) => {
                results_of(&target, place.file, resolve(&target, user, place), results);
            }
        }
        under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A piece with its generation and address, where they became known.
type Known = Option<(Place, u32, u64)>;

fn results_of(target: &Target, file: u64, done: Result<Known, Errno>, results: &Sender<Found>) {
    let found = match done {
        Ok(Some((place, generation, block))) => {
            Found::Resolved(target.number, place, generation, block)
        }
        Err(Errno::STALE | Errno::NOENT) => Found::Gone(target.number, file),
        Ok(None) | Err(_) => return,
    };
    let _ = results.send(found);
}

/// Reads ahead; does not wait for the bytes.
fn read_ahead(file: BorrowedFd<'_>, order: &Order) {
    let (start, end) =
        (order.pages.first * PAGE_BYTES, (order.pages.first + order.pages.count) * PAGE_BYTES);
    let mut at = start;
    while at < end {
        let length = (end - at).min(CALL_BYTES);
        // A read that fails costs speed, and nothing else.
        let _ = fadvise(file, at, std::num::NonZeroU64::new(length), Advice::WillNeed);
        at += length;
    }
}

fn pages(target: &Target, user: u32, order: &Order) -> Result<Known, Errno> {
    let Some(file) = open_file(target, user, order.pages.file, order.generation)? else {
        return Ok(None);
    };
    read_ahead(file.as_fd(), order);
    Ok(None)
}

fn resolve(target: &Target, user: u32, place: Place) -> Result<Known, Errno> {
    let Some(file) = open_file(target, user, place.file, 0)? else { return Ok(None) };
    let generation = generation(&file)?;
    let mut map = RawMap::new(u64::from(place.chunk) * PIECE_PAGES * PAGE_BYTES, 0);
    map.count = 1;
    fiemap(&file, &mut map)?;
    let block = if map.mapped > 0 { map.extents[0].physical / PAGE_BYTES } else { 0 };
    Ok(Some((place, generation, block)))
}

/// Opens a file by its inode number. `None`: the program has ended, or another file system is
/// mounted there now. Errors `STALE` and `NOENT`: there is no such file any more.
fn open_file(
    target: &Target,
    user: u32,
    inode: u64,
    generation: u32,
) -> Result<Option<OwnedFd>, Errno> {
    let Ok(number) = u32::try_from(inode) else { return Err(Errno::STALE) };
    if !is_alive(user) {
        return Ok(None);
    }
    let Some(mount) = open_mount(&target.point, target.device)? else { return Ok(None) };
    let mut handle = [0; 8];
    handle[..4].copy_from_slice(&number.to_ne_bytes());
    handle[4..].copy_from_slice(&generation.to_ne_bytes());
    // Never waits for a lease or at a FIFO, and leaves the time of the last access alone.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::NOCTTY;
    let file = open_handle(mount.as_fd(), HANDLE_KIND, &handle, flags)?;
    drop(mount);
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::STALE);
    }
    Ok(Some(file))
}

fn open_mount(point: &Path, device: u64) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME | OFlags::CLOEXEC;
    let mount = open(point, flags, Mode::empty())?;
    Ok((fstat(&mount)?.st_dev == device).then_some(mount))
}

/// True if the last page of an order for metadata is in memory.
pub(crate) fn is_there(device: &File, order: &Order) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    let last = order.pages.first + order.pages.count.saturating_sub(1);
    let mut byte = [0];
    let mut slices = [std::io::IoSliceMut::new(&mut byte)];
    let read = preadv2(device, &mut slices, last * PAGE_BYTES, ReadWriteFlags::NOWAIT);
    // Another error: waiting would not help.
    !matches!(read, Err(Errno::AGAIN))
}
