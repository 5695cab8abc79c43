//! Threads that read ahead. A read of metadata of ext2, ext3 and ext4 needs no descriptor of the
//! mount. A read of a file holds one for a moment: only while the program that is run ahead of is
//! alive, which keeps the mount busy itself, and on these file systems only once everything is in
//! memory that opening the file needs.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustc_hash::FxHashSet;
use rustix::fs::{Advice, FileType, Mode, OFlags, RawDir, fadvise, fstat, open};
use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use seekless_block::PAGE_BYTES;
use seekless_host::sys::{
    RawMap, btrfs_inode, btrfs_read_leaf, fiemap, file_handle, open_handle, xfs_inode,
};
use seekless_jobs::{Order, PIECE_PAGES, Pages, PieceId};

use crate::btrfs::{Key, Leaves};
use crate::ext::Ext;
use crate::processes::GroupThreads;

/// Most tasks of a file system that are not done: this many reads of single blocks go to its disk at
/// once.
pub(crate) const TASKS: usize = 32;
/// Threads: each waits for its disk, and three disks that spin up or hang do not hold all of them.
const THREADS: usize = 4 * TASKS;
/// Niceness of these threads: one that holds a file open must not wait for a processor.
const NICE: i32 = -10;
/// The kernel reads about this much at a call, and no more.
const CALL_BYTES: u64 = 1 << 20;
/// Inodes of XFS that one read brings: a page of its metadata, as jobs have it.
pub(crate) const GROUP: u64 = 32;
/// Most calls that list one directory, of [`LIST_BYTES`] each.
const LISTS: usize = 1024;
const LIST_BYTES: usize = 32 << 10;

/// A mount, as workers need it.
#[derive(Debug)]
pub(crate) struct Target {
    /// For the answer: each mount has another number.
    pub(crate) number: u64,
    /// A mount point.
    pub(crate) point: PathBuf,
    /// Device number as stat has it.
    pub(crate) device: u64,
    /// Held where the mount is open and nothing in there waits for the disk: one thread at a time,
    /// so that the mount is free as soon as this thread is done.
    pub(crate) turn: Mutex<()>,
}

/// An open block device with ext2, ext3 or ext4.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) file: File,
    ext: Option<Ext>,
}

impl Device {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        // A read of one inode brings no more than its block.
        fadvise(&file, 0, None, Advice::Random)?;
        let ext = Ext::read(&file)?;
        Ok(Self { file, ext })
    }

    /// Waits for what the kernel needs to open a file and to find these of its pages. Returns the
    /// file's generation, and the address of the first page, 0 if there is none. `None`: this
    /// layout is not known.
    fn wait(&self, inode: u64, first: u64, count: u64) -> Result<Option<(u32, u64)>, Errno> {
        let Some(ext) = &self.ext else { return Ok(None) };
        let number = u32::try_from(inode).map_err(|_| Errno::STALE)?;
        let wrong = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let found = ext.inode(&self.file, number).map_err(wrong)?;
        let found = found.filter(|i| i.is_plain).ok_or(Errno::STALE)?;
        let range = first * PAGE_BYTES..(first + count) * PAGE_BYTES;
        let address = ext.wait(&self.file, &found, range).map_err(wrong)?;
        Ok(Some((found.generation, address.unwrap_or(0))))
    }
}

/// Where the metadata of a file system is read.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// At the device, in the page cache that the file system uses too.
    Device(Arc<Device>),
    /// XFS has a cache of its own: through the mount.
    Xfs,
    /// So has btrfs.
    Btrfs,
}

impl Source {
    /// Generation and mode of an inode, through the mount. The device needs neither.
    fn inode(&self, mount: BorrowedFd<'_>, inode: u64) -> Result<(u32, u32), Errno> {
        match self {
            Self::Btrfs => btrfs_inode(mount, inode),
            _ => xfs_inode(mount, inode),
        }
    }
}

/// One thing to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Pages of the device.
    Metadata(Arc<Device>, Order),
    /// A group of inodes of XFS, through the mount, for these threads.
    Inodes(Arc<Target>, GroupThreads, u64),
    /// The leaf of btrfs with this key, the same way.
    Leaf(Arc<Target>, GroupThreads, Key),
    /// Open this device, for this mount: a sick disk may take minutes.
    Open(u64, PathBuf),
    /// The leaves of a tree of btrfs on this device, for this mount: what is known of them.
    Leaves(u64, PathBuf, u64, Arc<Leaves>),
    /// Pages of a file, for these threads.
    Pages(Arc<Target>, Source, GroupThreads, Order),
    /// Find the generation and the address of a piece, for these threads.
    Resolve(Arc<Target>, Source, GroupThreads, PieceId),
}

/// What a worker found out about a file system.
#[derive(Debug)]
pub(crate) enum FetchResult {
    /// The file is not there any more with this generation; 0: with none.
    Gone(u64, u64, u32),
    /// Generation and address of a piece.
    Resolved(u64, PieceId, u32, u64),
    /// A device that was opened. `None`: this is not possible.
    Device(u64, Option<Arc<Device>>),
    /// The leaves of a tree of btrfs. `None`: as they were, or they cannot be read.
    Leaves(u64, Option<Box<Leaves>>),
}

/// The number of tasks of a file system that are not done.
pub(crate) type UnderWay = Arc<AtomicUsize>;

/// The threads.
#[derive(Debug)]
pub(crate) struct Fetcher {
    tasks: Sender<(Task, UnderWay)>,
    found: Receiver<FetchResult>,
    /// The numbers of these threads and of the main thread, which their events carry.
    pub(crate) threads: FxHashSet<u32>,
}

impl Fetcher {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (tasks, queue) = channel();
        let (results, found) = channel();
        let (tell, told) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (queue, results, tell) = (Arc::clone(&queue), results.clone(), tell.clone());
            thread::Builder::new().name("seekless-fetch".to_owned()).spawn(move || {
                let _ = tell.send(gettid().as_raw_nonzero().get().cast_unsigned());
                drop(tell);
                // Without the right to do so, the mount is busy for longer on busy processors.
                let _ = setpriority_process(None, NICE);
                work(&queue, &results);
            })?;
        }
        drop(tell);
        let mut threads: FxHashSet<u32> = told.iter().collect();
        threads.insert(std::process::id());
        Ok(Self { tasks, found, threads })
    }

    /// Its tasks stay under way for ever.
    #[cfg(test)]
    pub(crate) fn without_threads() -> Self {
        Self { tasks: channel().0, found: channel().1, threads: FxHashSet::default() }
    }

    pub(crate) fn send(&self, task: Task, under_way: &UnderWay) {
        under_way.fetch_add(1, Ordering::Relaxed);
        // The workers end after this sender.
        let _ = self.tasks.send((task, Arc::clone(under_way)));
    }

    /// What workers found out since the last time.
    pub(crate) fn found(&self) -> impl Iterator<Item = FetchResult> {
        self.found.try_iter()
    }
}

fn work(queue: &Mutex<Receiver<(Task, UnderWay)>>, results: &Sender<FetchResult>) {
    loop {
        let task = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((task, under_way)) = task else { return };
        match task {
            Task::Metadata(device, order) => metadata(&device.file, &order),
            // Inodes that are gone cost speed, and nothing else.
            Task::Inodes(target, user, group) => {
                let _ = with_mount(&target, &user, |m| xfs_inode(m, group * GROUP).map(drop));
            }
            Task::Leaf(target, user, key) => {
                let _ = with_mount(&target, &user, |m| btrfs_read_leaf(m, key));
            }
            Task::Open(number, path) => {
                let device = Device::open(&path).ok().map(Arc::new);
                let _ = results.send(FetchResult::Device(number, device));
            }
            Task::Leaves(number, device, tree, known) => {
                let found = File::open(device).and_then(|d| {
                    fadvise(&d, 0, None, Advice::Random)?;
                    known.again(&d, tree)
                });
                let _ =
                    results.send(FetchResult::Leaves(number, found.ok().flatten().map(Box::new)));
            }
            Task::Pages(target, source, user, order) => {
                let done = pages(&target, &source, &user, &order);
                results_of(&target, (order.pages.file, order.generation), done, results);
            }
            Task::Resolve(target, source, user, place) => {
                let done = resolve(&target, &source, &user, place);
                results_of(&target, (place.file, 0), done, results);
            }
        }
        under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A piece with its generation and address, where they became known.
type KnownPiece = Option<(PieceId, u32, u64)>;

fn results_of(
    target: &Target,
    (file, generation): (u64, u32),
    done: Result<KnownPiece, Errno>,
    results: &Sender<FetchResult>,
) {
    let found = match done {
        Ok(Some((place, generation, block))) => {
            FetchResult::Resolved(target.number, place, generation, block)
        }
        Err(Errno::STALE | Errno::NOENT) => FetchResult::Gone(target.number, file, generation),
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

/// Reads metadata ahead, and waits for its last page. Only the device is open meanwhile.
fn metadata(device: &File, order: &Order) {
    read_ahead(device.as_fd(), order);
    let last = order.pages.first + order.pages.count.saturating_sub(1);
    let _ = device.read_exact_at(&mut [0], last * PAGE_BYTES);
}

fn with_mount(
    target: &Target,
    user: &GroupThreads,
    read: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    open_mount(target, user)?.map_or(Ok(()), |mount| read(mount.as_fd()))
}

fn pages(
    target: &Target,
    source: &Source,
    user: &GroupThreads,
    order: &Order,
) -> Result<KnownPiece, Errno> {
    let (inode, pages) = (order.pages.file, &order.pages);
    let (mut known, mut present) = (order.generation, None);
    if let Source::Device(device) = source
        && let Some((generation, address)) = device.wait(inode, pages.first, pages.count)?
    {
        if known != 0 && known != generation {
            return Err(Errno::STALE);
        }
        (known, present) = (generation, at_address(pages, generation, address));
    }
    let turn = matches!(source, Source::Device(_)).then(|| &target.turn);
    let _turn = turn.map(|t| t.lock().unwrap_or_else(PoisonError::into_inner));
    let Some(mount) = open_mount(target, user)? else { return Ok(present) };
    let generation = match source {
        Source::Xfs | Source::Btrfs if known == 0 => source.inode(mount.as_fd(), inode)?.0,
        _ => known,
    };
    let file = open_file(mount, inode, generation)?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => read_ahead(file.as_fd(), order),
        // The first piece stands for the whole.
        FileType::Directory if pages.first < PIECE_PAGES => list(&file, user)?,
        FileType::Directory => {}
        _ => return Err(Errno::STALE),
    }
    Ok(present)
}

/// The piece of these pages, which follow each other from this address on: a file that was written
/// again is elsewhere, with the same number and generation.
fn at_address(pages: &Pages, generation: u32, address: u64) -> KnownPiece {
    let chunk = u32::try_from(pages.first / PIECE_PAGES).ok()?;
    let block = (address / PAGE_BYTES).checked_sub(pages.first % PIECE_PAGES);
    let block = block.filter(|&b| b != 0)?;
    Some((PieceId { file: pages.file, chunk }, generation, block))
}

/// Reads a directory of XFS.
fn list(directory: &OwnedFd, user: &GroupThreads) -> Result<(), Errno> {
    let mut space = Vec::with_capacity(LIST_BYTES);
    let mut entries = RawDir::new(directory, space.spare_capacity_mut());
    for _ in 0..LISTS {
        // The rest of this call's entries.
        loop {
            if entries.next().transpose()?.is_none() {
                return Ok(());
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        if !user.is_alive() {
            return Ok(());
        }
    }
    Ok(())
}

fn resolve(
    target: &Target,
    source: &Source,
    user: &GroupThreads,
    place: PieceId,
) -> Result<KnownPiece, Errno> {
    let first = place.first_page();
    if let Source::Device(device) = source {
        let found = device.wait(place.file, first, 1)?;
        return Ok(found.map(|(generation, address)| (place, generation, address / PAGE_BYTES)));
    }
    let Some(mount) = open_mount(target, user)? else { return Ok(None) };
    let (generation, mode) = source.inode(mount.as_fd(), place.file)?;
    let block = match FileType::from_raw_mode(mode) {
        // A directory is near its inode, whose number is its address in units of an inode.
        FileType::Directory => place.file / 8,
        FileType::RegularFile => {
            let file = open_file(mount, place.file, generation)?;
            let mut map = RawMap::new(first * PAGE_BYTES, 0);
            map.count = 1;
            fiemap(&file, &mut map)?;
            if map.mapped > 0 { map.extents[0].physical / PAGE_BYTES } else { 0 }
        }
        _ => return Err(Errno::STALE),
    };
    Ok(Some((place, generation, block)))
}

/// Opens a file by its inode number. Errors `STALE` and `NOENT`: there is no such file any more.
fn open_file(mount: OwnedFd, inode: u64, generation: u32) -> Result<OwnedFd, Errno> {
    // The handle of another inode of this file system: its number first, its generation last.
    let (kind, mut handle) = file_handle(mount.as_fd())?;
    let number = inode.to_ne_bytes();
    match handle.len() {
        8 => {
            u32::try_from(inode).map_err(|_| Errno::STALE)?;
            handle[..4].copy_from_slice(number.first_chunk::<4>().unwrap_or(&[0; 4]));
            handle[4..].copy_from_slice(&generation.to_ne_bytes());
        }
        // The tree stands between both.
        20 => {
            handle[..8].copy_from_slice(&number);
            handle[16..].copy_from_slice(&generation.to_ne_bytes());
        }
        12 => {
            handle[..8].copy_from_slice(&number);
            handle[8..].copy_from_slice(&generation.to_ne_bytes());
        }
        _ => return Err(Errno::OPNOTSUPP),
    }
    // To open a device's node can be enough to rewind a tape.
    let found = open_handle(mount.as_fd(), kind, &handle, OFlags::PATH)?;
    let found = FileType::from_raw_mode(fstat(&found)?.st_mode);
    if !matches!(found, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::STALE);
    }
    // Never waits for a lease or at a FIFO, and leaves the time of the last access alone.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::NOCTTY;
    open_handle(mount.as_fd(), kind, &handle, flags)
}

/// Opens the mount for a program. `None`: the program has ended, or the mount is not there now, or
/// another one is.
fn open_mount(target: &Target, user: &GroupThreads) -> Result<Option<OwnedFd>, Errno> {
    if !user.is_alive() {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME | OFlags::CLOEXEC;
    // An error here is one of the mount point's path, and says nothing about files.
    let Ok(mount) = open(&target.point, flags, Mode::empty()) else { return Ok(None) };
    let is_this = fstat(&mount).is_ok_and(|s| s.st_dev == target.device);
    Ok(is_this.then_some(mount))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::scratch::output;

    fn target(point: &str) -> Target {
        let device = rustix::fs::stat(point).map_or(0, |s| s.st_dev);
        Target { number: 0, point: point.into(), device, turn: Mutex::new(()) }
    }

    #[test]
    fn disks_that_hang_leave_threads_for_others() {
        let dir = tempfile::tempdir().unwrap();
        // Opening it waits for a writer.
        let hangs = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &hangs, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let fetcher = Fetcher::start().unwrap();
        let (three, other) = (UnderWay::default(), UnderWay::default());
        for _ in 0..3 * TASKS {
            fetcher.send(Task::Leaves(1, hangs.clone(), 5, Arc::default()), &three);
        }
        fetcher.send(Task::Leaves(2, dir.path().join("none"), 5, Arc::default()), &other);
        let found = fetcher.found.recv_timeout(std::time::Duration::from_secs(10));
        assert!(matches!(found, Ok(FetchResult::Leaves(2, None))), "{found:?}");
        assert_eq!(three.load(Ordering::Relaxed), 3 * TASKS);
        let writer = File::options().write(true).open(&hangs).unwrap();
        while three.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        drop(writer);
    }

    /// Then everything is in memory that a file needs to be opened. `rchar` counts the bytes that a
    /// thread has read.
    #[test]
    fn a_task_for_metadata_ends_with_a_read_of_its_last_page() {
        let fetcher = Fetcher::start().unwrap();
        let workers = || fetcher.threads.iter().filter(|t| **t != std::process::id());
        let read = |thread: &u32| -> Option<u64> {
            let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/io")).ok()?;
            text.lines().find_map(|l| l.strip_prefix("rchar: ")?.parse().ok())
        };
        let all = || workers().map(read).sum::<Option<u64>>();
        let Some(before) = all() else {
            eprintln!("SKIPPED read of the last page: this kernel does not count reads");
            return;
        };
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * PAGE_BYTES).unwrap();
        let device = Arc::new(Device { file, ext: None });
        let under_way = UnderWay::default();
        let pages = Pages { file: 0, first: 3, count: 5 };
        let order = Order { group: 1, pages, generation: 0 };
        fetcher.send(Task::Metadata(device, order), &under_way);
        while under_way.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert_eq!(all(), Some(before + 1));
    }

    #[test]
    fn a_worker_opens_a_device() {
        let fetcher = Fetcher::start().unwrap();
        fetcher.send(Task::Open(7, "/nowhere".into()), &UnderWay::default());
        let found = fetcher.found.recv_timeout(std::time::Duration::from_secs(10));
        assert!(matches!(found, Ok(FetchResult::Device(7, None))), "{found:?}");
    }

    #[test]
    fn a_read_of_a_file_brings_its_present_address() {
        let has = |name: &str| Command::new(name).arg("-V").output().is_ok();
        if !has("mkfs.ext4") || !has("debugfs") {
            eprintln!("SKIPPED address of a file: no mkfs.ext4 or debugfs");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (root, image) = (dir.path().join("root"), dir.path().join("image"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("file"), vec![1; 50 * PAGE_BYTES as usize]).unwrap();
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let mut make = Command::new("mkfs.ext4");
        output(make.args(["-q", "-F", "-b", "4096", "-d"]).arg(&root).arg(&image));
        let debugfs =
            |question: &str| output(Command::new("debugfs").args(["-R", question]).arg(&image));
        let stat = debugfs("stat file");
        let file: u64 = stat.split_whitespace().nth(1).unwrap().parse().unwrap();
        let source = Source::Device(Arc::new(Device::open(&image).unwrap()));
        let mut me = GroupThreads::default();
        me.used(std::process::id(), 0);
        for first in [0, 32, 35, 49, 50] {
            let order = Order { group: 1, pages: Pages { file, first, count: 1 }, generation: 0 };
            let found = pages(&target("/nowhere"), &source, &me, &order).unwrap();
            let said = debugfs(&format!("bmap file {first}"));
            let want: u64 = said.trim().parse().unwrap_or(0);
            let want = (want != 0).then(|| (first as u32 / 32, want - first % PIECE_PAGES));
            assert_eq!(found.map(|(p, _, block)| (p.chunk, block)), want, "{first}: {said}");
        }
    }

    #[test]
    fn a_mount_point_that_is_hidden_says_nothing_about_files() {
        let pages_of = Pages { file: 77, first: 0, count: 1 };
        let order = Order { group: 1, pages: pages_of, generation: 3 };
        let mut me = GroupThreads::default();
        me.used(std::process::id(), 0);
        assert_eq!(pages(&target("/nowhere"), &Source::Xfs, &me, &order), Ok(None));
    }
}
