//! One watched file system: its events, its orders, and its disk.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use seekless_block::{Duration, PAGE_BYTES, SimTime};
use seekless_host::cannot_at;
use seekless_host::sys::xfs_uuid;
use seekless_jobs::{DEVICE, Fills, Limits, ORDER_GROUPS, Order, PageUser, Pages, Watcher};

use crate::WatchError;
use crate::disk::Disk;
use crate::events::{Event, KernelEvent, METADATA, READ};
use crate::fetch::{Device, Fetcher, GROUP, Source, TASKS, Target, Task, UnderWay};
use crate::mounts::Mounted;
use crate::nodes::Nodes;
use crate::processes::{GroupThreads, Processes};

/// Most reads at the disk, foreground included, while orders go out.
const DEPTH: u64 = 32;
/// Pause after a device could not be opened.
const CLOSED_NS: u64 = 1_000_000_000;
/// Most threads whose use of inodes is remembered, and most groups that use something.
const THREADS: usize = 4096;
/// Most pages of a folio that an event may claim: 2^this.
const ORDER_MOST: u64 = 20;

/// Pages of memory for a group of inodes, which the watcher counts as a page: buffers of XFS, or a
/// leaf of btrfs.
const GROUP_PAGES: u64 = 4;

/// Each mount that is watched has another number, for answers of workers: a device number returns.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// A watched file system.
#[derive(Debug)]
pub(crate) struct Filesystem {
    pub(crate) mounted: Mounted,
    /// Names its state, also after a reboot.
    pub(crate) id: u64,
    pub(crate) disk_number: u64,
    /// Its sectors of the disk, if it is on a partition.
    range: Option<std::ops::Range<u64>>,
    pub(crate) watcher: Watcher,
    fills: Fills,
    disk: Disk,
    pub(crate) target: Arc<Target>,
    pub(crate) under_way: UnderWay,
    /// Open only while something is fetched.
    device: Option<Arc<Device>>,
    /// A worker opens the device.
    opening: bool,
    /// The device cannot be opened: when this was found.
    closed: Option<u64>,
    /// What threads did last with inodes of XFS.
    inodes: FxHashMap<u32, LastInode>,
    /// The nodes of btrfs.
    pub(crate) nodes: Option<Nodes>,
    /// Orders for metadata of the device that have not come.
    metadata: UnderWay,
    /// The threads of each group that used something here.
    users: FxHashMap<u32, GroupThreads>,
    /// Jobs have changed since they were saved.
    pub(crate) changed: bool,
}

/// What a thread did last with inodes of XFS.
#[derive(Debug, Default)]
struct LastInode {
    /// It has read metadata since.
    reading: bool,
    /// The directory that it lists, and the number of calls for it.
    listed: (u64, u64),
}

impl Filesystem {
    /// Without jobs. `taken`: names of other states.
    pub(crate) fn open(mounted: Mounted, taken: &[u64]) -> Result<Self, WatchError> {
        let fail = |what| cannot_at(&mounted.point, what);
        let mut id = identity(&mounted).map_err(fail("find the file system's number"))?;
        if taken.contains(&id) {
            // A snapshot has the UUID of its origin.
            id = id.rotate_left(1) ^ mounted.number();
        }
        let status = rustix::fs::stat(&mounted.point).map_err(std::io::Error::from);
        let status = status.map_err(fail("find its device number"))?;
        let (_, disk_number) = mounted.disk().map_err(fail("find its disk in /sys"))?;
        let disk = Disk::open(&mounted).map_err(fail("read the counts of its disk"))?;
        Ok(Self::new(mounted, id, disk_number, disk, status.st_dev))
    }

    /// `device`: its device number as stat has it.
    fn new(mounted: Mounted, id: u64, disk_number: u64, disk: Disk, device: u64) -> Self {
        let target = Arc::new(Target {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            point: mounted.point.clone(),
            device,
            turn: Mutex::new(()),
        });
        Self {
            nodes: mounted.tree.map(Nodes::new),
            watcher: Watcher::default().by_inode(!mounted.is_cached()),
            range: mounted.range(),
            mounted,
            id,
            disk_number,
            fills: Fills::default(),
            disk,
            target,
            under_way: UnderWay::default(),
            device: None,
            opening: false,
            closed: None,
            inodes: FxHashMap::default(),
            metadata: UnderWay::default(),
            users: FxHashMap::default(),
            changed: false,
        }
    }

    /// Its share of the limits: its disk, pages ahead, and time in vain with these pages.
    pub(crate) fn share(&mut self, now: u64) -> (u64, u64, Duration) {
        let pages_ahead = self.watcher.ahead().saturating_mul(pages_each(self.mounted.is_cached()));
        (self.disk_number, pages_ahead, self.watcher.vain_at_most(SimTime(now)))
    }

    /// Looks at what a read of its disk costs.
    pub(crate) fn look_at_disk(&mut self) {
        self.disk.look();
    }

    pub(crate) fn limit(&mut self, act: bool, pages_ahead: u64, vain_elsewhere: Duration) {
        let price = self.disk.price();
        let pages_ahead = pages_ahead / pages_each(self.mounted.is_cached());
        self.watcher.limit(Limits { act, pages_ahead, price, vain_elsewhere });
    }

    /// Whether a request goes to this file system's part of the disk.
    pub(crate) fn is_here(&self, event: &Event) -> bool {
        event.device == self.disk_number && is_within(event, self.range.as_ref())
    }

    /// Takes an event of this file system. `own`: of one of our threads. `bdev`: the device number
    /// of the pages of block devices, once known.
    pub(crate) fn event(
        &mut self,
        event: &Event,
        own: bool,
        today: u64,
        processes: &mut Processes,
        bdev: &mut Option<u64>,
    ) {
        let number = self.mounted.number();
        let [first, second, third] = event.values;
        if self.node_event(event, own, today, processes) {
            return;
        }
        match event.what {
            KernelEvent::Added => self.added(event, own, bdev),
            KernelEvent::Sent if self.is_here(event) && second & READ != 0 => {
                self.read_sent(event, own, today, processes);
            }
            KernelEvent::Touched if event.device == number => {
                let bytes = second.clamp(512, 65_536);
                let first = first.saturating_mul(bytes) / PAGE_BYTES;
                let pages = Pages { file: DEVICE, first, count: bytes.div_ceil(PAGE_BYTES) };
                self.touched(event, own, processes, pages);
            }
            KernelEvent::Got | KernelEvent::Mapped
                if event.device == number && !own && self.knows_files() =>
            {
                let count = third.saturating_sub(second).saturating_add(1);
                self.touched(event, own, processes, Pages { file: first, first: second, count });
            }
            KernelEvent::Inode if event.device == number => {
                let pages = Pages { file: DEVICE, first: first / GROUP, count: 1 };
                self.inode(event, own, today, processes, pages);
            }
            KernelEvent::Listed if event.device == number => {
                let last = self.last_inode(event.thread);
                let call = if last.listed.0 == first { last.listed.1 + 1 } else { 0 };
                last.listed = (first, call);
                let pages = Pages { file: first, first: call, count: 1 };
                self.inode(event, own, today, processes, pages);
            }
            _ => {}
        }
    }

    /// A thread has used pages in memory. Most are of no order, and then nobody asks whose thread it is.
    pub(crate) fn touched(
        &mut self,
        event: &Event,
        own: bool,
        processes: &mut Processes,
        pages: Pages,
    ) {
        if !self.watcher.awaits(pages) {
            return;
        }
        // To open a file, a worker uses its inode, in place of the program.
        let user = if own { None } else { self.user(event, processes) };
        if own || user.is_some() {
            self.watcher.touched(SimTime(event.time), user.map(|u| u.group), pages);
        }
    }

    /// False if an inode number may be that of another file: each subvolume of btrfs has its own.
    fn knows_files(&self) -> bool {
        self.nodes.is_none() || self.mounted.alone
    }

    /// Takes pages that were added to the page cache.
    fn added(&mut self, event: &Event, own: bool, bdev: &mut Option<u64>) {
        let number = self.mounted.number();
        let [inode, first, order] = event.values;
        let metadata =
            inode == number && self.mounted.is_cached() && is_bdev(event.device, number, own, bdev);
        if !metadata && (event.device != number || !self.knows_files()) {
            return;
        }
        let file = if metadata { DEVICE } else { inode };
        let count = 1 << order.min(ORDER_MOST);
        // Inode 0 does not exist: it is our name of the device.
        if metadata || inode != DEVICE {
            self.fills.added(event.thread, Pages { file, first, count });
        }
    }

    /// Takes a read that was sent to the disk: a miss of its program, or a fetch of ours.
    fn read_sent(&mut self, event: &Event, own: bool, today: u64, processes: &mut Processes) {
        let [sectors, flags, _] = event.values;
        if self.mounted.is_xfs() && flags & METADATA != 0 {
            self.last_inode(event.thread).reading = true;
            return;
        }
        let mut found = Vec::new();
        let pages = sectors.div_ceil(PAGE_BYTES / 512);
        self.fills.sent(event.thread, pages, |pages| found.push(pages));
        found.reverse();
        if own {
            found.iter().for_each(|&pages| self.watcher.fetched(pages));
        } else if !found.is_empty()
            && let Some(who) = self.user(event, processes)
        {
            let now = SimTime(event.time);
            found.iter().for_each(|&pages| self.watcher.missed(now, today, who, pages));
        }
    }

    fn last_inode(&mut self, thread: u32) -> &mut LastInode {
        if self.inodes.len() >= THREADS {
            self.inodes.clear();
        }
        self.inodes.entry(thread).or_default()
    }

    /// A thread has used an inode or a directory of XFS. It has waited for the disk if it has read
    /// metadata since the last time.
    fn inode(
        &mut self,
        event: &Event,
        own: bool,
        today: u64,
        processes: &mut Processes,
        pages: Pages,
    ) {
        let read = std::mem::take(&mut self.last_inode(event.thread).reading);
        match (own, read) {
            (true, true) => self.watcher.fetched(pages),
            (_, false) => self.touched(event, own, processes, pages),
            (false, true) => {
                if let Some(who) = self.user(event, processes) {
                    self.watcher.missed(SimTime(event.time), today, who, pages);
                }
            }
        }
    }

    pub(crate) fn user(&mut self, event: &Event, processes: &mut Processes) -> Option<PageUser> {
        let who = processes.who(event.thread, event.time)?;
        if self.users.len() >= THREADS && !self.users.contains_key(&who.group) {
            self.users.clear();
        }
        self.users.entry(who.group).or_default().used(event.thread, event.time);
        Some(who)
    }

    /// Ends runs that are idle. `blind`: uses in memory are not seen now.
    pub(crate) fn end_runs(&mut self, now: u64, today: u64, blind: bool) {
        if self.watcher.is_busy() {
            let blind = blind && self.watcher.wants_touches();
            let waiting = blind || self.disk.reads_under_way() > 0;
            self.changed |= self.watcher.tick(SimTime(now), today, waiting);
        }
    }

    /// Sends orders to the workers. Returns false if there is nothing to send, and true if there may
    /// be, and the disk or the workers have enough.
    pub(crate) fn pump(&mut self, now: u64, fetcher: &Fetcher, files: bool) -> bool {
        self.ask_for_leaves(now, fetcher);
        if !self.watcher.is_busy() {
            self.device = None;
            self.users.clear();
            self.inodes.clear();
            self.nodes.iter_mut().for_each(Nodes::clear);
            return false;
        }
        let is_open = self.is_open(now, fetcher);
        if !is_open && self.watcher.wants_touches() {
            // No order is lost meanwhile.
            return false;
        }
        let at_work = self.watcher.is_at_work(SimTime(now)) && self.watcher.may_fetch();
        loop {
            if self.tasks() + self.tasks_each() > TASKS || self.disk.reads_under_way() >= DEPTH {
                // Without a run that is helped, nothing waits for a place at the disk.
                return self.watcher.wants_touches();
            }
            // Leaves go out in the order of their addresses: as many as possible are known first.
            let (leaves, more) = self.nodes.as_ref().map_or((0, true), Nodes::waiting);
            self.watcher.hold(leaves as u64);
            let files = self.may_fetch_files(files) && leaves == 0;
            let order = if more { self.watcher.next_order(SimTime(now), files) } else { None };
            match order {
                Some(order) => self.send(order, fetcher),
                None if leaves > 0 && at_work => self.send_leaf(now, fetcher),
                None => break,
            }
        }
        if is_open {
            self.resolve(fetcher);
        }
        self.metadata.load(Ordering::Relaxed) > 0
    }

    fn tasks(&self) -> usize {
        self.under_way.load(Ordering::Relaxed) + self.metadata.load(Ordering::Relaxed)
    }

    /// Most tasks of one order. On XFS, each group of inodes is one.
    fn tasks_each(&self) -> usize {
        if self.mounted.is_xfs() { ORDER_GROUPS as usize } else { 1 }
    }

    fn send(&mut self, order: Order, fetcher: &Fetcher) {
        let Some(source) = self.source() else { return };
        let target = || Arc::clone(&self.target);
        let user = self.users.get(&order.group).copied();
        match (source, user) {
            (Source::Device(device), _) if order.pages.file == DEVICE => {
                fetcher.send(Task::Metadata(device, order), &self.metadata);
            }
            (Source::Btrfs, _) if order.pages.file == DEVICE => {
                self.nodes.iter_mut().for_each(|n| n.order(&order));
            }
            (_, Some(user)) if order.pages.file == DEVICE => {
                let groups = order.pages.first..order.pages.first + order.pages.count;
                groups.for_each(|g| fetcher.send(Task::Inodes(target(), user, g), &self.under_way));
            }
            (source, Some(user)) => {
                fetcher.send(Task::Pages(target(), source, user, order), &self.under_way);
            }
            (_, None) => {}
        }
    }

    fn send_leaf(&mut self, now: u64, fetcher: &Fetcher) {
        let watcher = &self.watcher;
        let is_at_work = |group| watcher.is_group_at_work(group, SimTime(now));
        let next = self.nodes.as_mut().and_then(|n| n.next_leaf(is_at_work));
        let Some((group, key)) = next else { return };
        if let Some(&user) = self.users.get(&group) {
            let task = Task::Leaf(Arc::clone(&self.target), user, key);
            fetcher.send(task, &self.under_way);
        }
    }

    /// Where metadata is read. `None`: the device is not open.
    fn source(&self) -> Option<Source> {
        if self.mounted.is_xfs() {
            return Some(Source::Xfs);
        }
        if self.nodes.is_some() {
            return Some(Source::Btrfs);
        }
        self.device.clone().map(Source::Device)
    }

    /// True if the device is open, or none is needed. If one is, a worker opens it: the kernel may
    /// wait for a sick disk meanwhile.
    fn is_open(&mut self, now: u64, fetcher: &Fetcher) -> bool {
        if !self.mounted.is_cached() || self.device.is_some() {
            return true;
        }
        let waits =
            self.opening || self.closed.is_some_and(|at| now.saturating_sub(at) < CLOSED_NS);
        let wanted = self.watcher.wants_touches() || self.watcher.has_unresolved();
        if wanted
            && !waits
            && let Ok(path) = self.mounted.device_path()
        {
            self.opening = true;
            fetcher.send(Task::Open(self.target.number, path), &self.under_way);
        }
        false
    }

    /// A worker has opened the device, or could not do so.
    pub(crate) fn opened(&mut self, device: Option<Arc<Device>>, now: u64) {
        self.opening = false;
        self.closed = device.is_none().then_some(now);
        self.device = device;
    }

    /// True if files may be read ahead now: inodes are then opened without waiting for the disk.
    /// `files`: the kernel shows uses of files.
    fn may_fetch_files(&self, files: bool) -> bool {
        files && self.metadata.load(Ordering::Relaxed) == 0
    }

    fn resolve(&mut self, fetcher: &Fetcher) {
        while self.tasks() < TASKS {
            let Some((group, place)) = self.watcher.next_unresolved() else { return };
            if let Some(&user) = self.users.get(&group)
                && user.is_alive()
                && let Some(source) = self.source()
            {
                let task = Task::Resolve(Arc::clone(&self.target), source, user, place);
                fetcher.send(task, &self.under_way);
            }
        }
    }
}

/// Pages of memory for what the watcher counts as one. On XFS and btrfs, pages of files count like
/// groups of inodes: more than they take.
const fn pages_each(is_cached: bool) -> u64 {
    if is_cached { 1 } else { GROUP_PAGES }
}

/// Whether a request begins in this range of sectors; without one it does.
fn is_within(event: &Event, range: Option<&std::ops::Range<u64>>) -> bool {
    range.is_none_or(|r| r.contains(&event.values[2]))
}

/// A number of this file system that stays when its device has another number: made from its UUID.
fn identity(mounted: &Mounted) -> std::io::Result<u64> {
    if mounted.is_xfs() {
        // The kernel's number of an XFS is that of its device. The mount has the UUID in memory: the
        // disk may sleep.
        let point = File::open(&mounted.point)?;
        let (first, second) = xfs_uuid(point.as_fd())?;
        return Ok(first ^ second);
    }
    Ok(rustix::fs::statvfs(&mounted.point)?.f_fsid)
}

/// Whether these pages are of a block device: their inode has the device's number, and is in the
/// kernel's own file system of block devices. Our own reads show that one's number.
fn is_bdev(device: u64, number: u64, own: bool, bdev: &mut Option<u64>) -> bool {
    if let Some(known) = *bdev {
        return device == known;
    }
    let maybe = device != number && device >> 20 == 0;
    if maybe && own {
        *bdev = Some(device);
    }
    maybe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_busy_disk(kind: &str) -> Filesystem {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("inflight"), format!("{DEPTH} 0\n")).unwrap();
        std::fs::write(dir.path().join("stat"), "").unwrap();
        let text = format!("30 1 0:0 / /x rw - {kind} /dev/x rw\n");
        let mounted = Mounted::from(seekless_host::mounts::parse(text.as_bytes()).remove(0));
        Filesystem::new(mounted, 1, 0, Disk::at(dir.path()).unwrap(), 0)
    }

    /// That takes two calls to the kernel.
    #[test]
    fn nobody_asks_whose_thread_uses_a_page_that_was_not_ordered() {
        let mut filesystem = on_a_busy_disk("xfs");
        let thread = std::process::id();
        let event = Event { time: 0, thread, what: KernelEvent::Got, device: 0, values: [9, 0, 0] };
        filesystem.event(&event, false, 0, &mut Processes::new(false), &mut None);
        assert!(filesystem.users.is_empty());
    }

    #[test]
    fn files_wait_until_all_metadata_has_come() {
        let mut filesystem = on_a_busy_disk("ext4");
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(16 * PAGE_BYTES).unwrap();
        filesystem.opened(Device::open(image.path()).ok().map(Arc::new), 0);
        assert!(filesystem.may_fetch_files(true) && !filesystem.may_fetch_files(false));
        let pages = Pages { file: DEVICE, first: 3, count: 1 };
        filesystem.send(Order { group: 1, pages, generation: 0 }, &Fetcher::without_threads());
        assert!(!filesystem.may_fetch_files(true));
        assert_eq!(filesystem.tasks(), 1, "it has a thread");
    }

    /// A look costs calls to the kernel for each processor, and a disk may be busy all day.
    #[test]
    fn a_busy_disk_is_looked_at_often_only_while_something_is_read_ahead() {
        let mut busy = on_a_busy_disk("xfs");
        let fetcher = Fetcher::start().unwrap();
        let who = PageUser { group: 1, program: 1 };
        let miss = |busy: &mut Filesystem, n: u64| {
            let pages = Pages { file: DEVICE, first: n * 64, count: 1 };
            busy.watcher.missed(SimTime(0), 0, who, pages);
        };
        (0..40).for_each(|n| miss(&mut busy, n));
        assert!(!busy.pump(0, &fetcher, true), "a run that is not helped");
        busy.watcher.finish(0);
        (0..9).for_each(|n| miss(&mut busy, n));
        assert!(busy.pump(0, &fetcher, true), "orders wait for the disk");
    }

    #[test]
    fn a_group_of_inodes_counts_with_the_memory_that_it_takes() {
        // 32 inodes of 512 bytes; a leaf of 16 KiB.
        assert_eq!(pages_each(false) * PAGE_BYTES, GROUP * 512);
        assert_eq!(pages_each(true), 1, "a page of the device");
    }

    #[test]
    fn a_request_to_another_partition_is_of_another_file_system() {
        let at = |sector| Event {
            time: 0,
            thread: 1,
            what: KernelEvent::Sent,
            device: 8,
            values: [16, READ, sector],
        };
        let found = [99, 100, 199, 200].map(|s| is_within(&at(s), Some(&(100..200))));
        assert_eq!(found, [false, true, true, false]);
        assert!(is_within(&at(5), None), "the whole disk");
    }
}
