//! One watched file system: its events, its orders, and its disk.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use seekless_block::{PAGE_BYTES, SimTime};
use seekless_jobs::{DEVICE, Fills, Limits, Order, Pages, Watcher, Who};

use crate::WatchError;
use crate::disk::Disk;
use crate::events::{Event, METADATA, READ, What};
use crate::fetch::{Device, Fetcher, GROUP, Source, Target, Task, is_there};
use crate::mounts::Mounted;
use crate::nodes::Nodes;
use crate::processes::{Processes, is_alive};
use crate::store::Store;

/// Most reads at the disk, foreground included, while orders go out.
const DEPTH: u64 = 32;
/// Most tasks of workers that are not done.
const TASKS: usize = 32;
/// Wait for metadata after which it never comes, if the disk does nothing; and in any case. A page
/// that a program has made, and not read, stays as it is.
const PATIENCE_NS: u64 = 100_000_000;
const PATIENCE_MOST_NS: u64 = 2_000_000_000;
/// Most threads whose use of inodes is remembered.
const THREADS: usize = 4096;
/// Most pages of a folio that an event may claim: 2^this.
const ORDER_MOST: u64 = 20;

/// A watched file system.
#[derive(Debug)]
pub(crate) struct Filesystem {
    pub(crate) mounted: Mounted,
    /// Names its state, also after a reboot.
    pub(crate) id: u64,
    pub(crate) disk_number: u64,
    pub(crate) watcher: Watcher,
    fills: Fills,
    disk: Disk,
    target: Arc<Target>,
    /// Open only while something is fetched.
    device: Option<Arc<Device>>,
    /// What threads did last with inodes of XFS.
    inodes: FxHashMap<u32, LastInode>,
    /// The nodes of btrfs.
    pub(crate) nodes: Option<Nodes>,
    /// Orders for metadata that may be under way, and when they went out.
    waiting: VecDeque<(u64, Order)>,
    /// The last thread of each group that used something here.
    users: FxHashMap<u32, u32>,
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
    pub(crate) fn open(
        mounted: Mounted,
        store: &Store,
        away: &mut FxHashMap<u64, Watcher>,
    ) -> Result<(Self, Option<String>), WatchError> {
        let point = mounted.point.clone();
        let fail = |what| {
            let path = point.clone();
            move |source| WatchError::Path { path, what, source }
        };
        let id = identity(&mounted).map_err(fail("find the file system's number"))?;
        let status = rustix::fs::stat(&mounted.point).map_err(std::io::Error::from);
        let status = status.map_err(fail("find its device number"))?;
        let (_, disk_number) = mounted.disk().map_err(fail("find its disk in /sys"))?;
        let disk = Disk::open(&mounted).map_err(fail("read the counts of its disk"))?;
        let (watcher, wrong) = match away.remove(&id) {
            Some(watcher) => (watcher, None),
            None => {
                let (jobs, wrong) = store.load(id);
                (Watcher::new(jobs).by_inode(!mounted.is_cached()), wrong)
            }
        };
        let target = Arc::new(Target {
            number: mounted.number(),
            point: mounted.point.clone(),
            device: status.st_dev,
            turn: Mutex::new(()),
        });
        let nodes = mounted.tree.map(Nodes::new);
        let filesystem = Self {
            nodes,
            mounted,
            id,
            disk_number,
            watcher,
            fills: Fills::default(),
            disk,
            target,
            device: None,
            inodes: FxHashMap::default(),
            waiting: VecDeque::new(),
            users: FxHashMap::default(),
            changed: false,
        };
        Ok((filesystem, wrong))
    }

    pub(crate) fn limit(&mut self, act: bool, pages_ahead: u64) {
        let price = self.disk.price();
        self.watcher.limit(Limits { act, pages_ahead, price });
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
        let now = SimTime(event.time);
        if self.node_event(event, own, today, processes) {
            return;
        }
        match event.what {
            What::Added => self.added(event, own, bdev),
            What::Sent if event.device == self.disk_number && second & READ != 0 => {
                self.read_sent(event, own, today, processes);
            }
            What::Touched if event.device == number => {
                // To open a file, a worker uses its inode, in place of the program.
                let user = if own { None } else { self.user(event, processes) };
                if !own && user.is_none() {
                    return;
                }
                let group = user.map(|u| u.group);
                let bytes = second.clamp(512, 65_536);
                let first = first.saturating_mul(bytes) / PAGE_BYTES;
                let count = bytes.div_ceil(PAGE_BYTES);
                self.watcher.touched(now, group, Pages { file: DEVICE, first, count });
            }
            What::Got | What::Mapped if event.device == number && !own => {
                let Some(user) = self.user(event, processes) else { return };
                let group = Some(user.group);
                let count = third.saturating_sub(second).saturating_add(1);
                self.watcher.touched(now, group, Pages { file: first, first: second, count });
            }
            What::Inode if event.device == number => {
                let pages = Pages { file: DEVICE, first: first / GROUP, count: 1 };
                self.inode(event, own, today, processes, pages);
            }
            What::Listed if event.device == number => {
                let last = self.last_inode(event.thread);
                let call = if last.listed.0 == first { last.listed.1 + 1 } else { 0 };
                last.listed = (first, call);
                let pages = Pages { file: first, first: call, count: 1 };
                self.inode(event, own, today, processes, pages);
            }
            _ => {}
        }
    }

    /// Takes pages that were added to the page cache.
    fn added(&mut self, event: &Event, own: bool, bdev: &mut Option<u64>) {
        let number = self.mounted.number();
        let [inode, first, order] = event.values;
        let metadata =
            inode == number && self.mounted.is_cached() && is_bdev(event.device, number, own, bdev);
        if !metadata && event.device != number {
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
        let now = SimTime(event.time);
        let read = std::mem::take(&mut self.last_inode(event.thread).reading);
        match (own, read) {
            (true, true) => self.watcher.fetched(pages),
            // To open a file, a worker uses its inode, in place of the program.
            (true, false) => self.watcher.touched(now, None, pages),
            (false, _) => {
                let Some(who) = self.user(event, processes) else { return };
                if read {
                    self.watcher.missed(now, today, who, pages);
                } else {
                    self.watcher.touched(now, Some(who.group), pages);
                }
            }
        }
    }

    pub(crate) fn user(&mut self, event: &Event, processes: &mut Processes) -> Option<Who> {
        let who = processes.who(event.thread, event.time)?;
        self.users.insert(who.group, event.thread);
        Some(who)
    }

    /// Ends runs that are idle.
    pub(crate) fn end_runs(&mut self, now: u64, today: u64) {
        if self.watcher.is_busy() {
            let waiting = self.disk.reads_under_way() > 0;
            self.changed |= self.watcher.tick(SimTime(now), today, waiting);
        }
    }

    /// Sends orders to the workers. Returns false if there is nothing to send, and true if the
    /// disk or the workers have enough.
    pub(crate) fn pump(&mut self, now: u64, fetcher: &Fetcher, files: bool) -> bool {
        self.ask_for_leaves(now, fetcher);
        if !self.watcher.is_busy() {
            self.device = None;
            self.waiting.clear();
            self.users.clear();
            self.inodes.clear();
            self.nodes.iter_mut().for_each(Nodes::clear);
            return false;
        }
        loop {
            if fetcher.under_way() >= TASKS || self.disk.reads_under_way() >= DEPTH {
                return true;
            }
            // Leaves go out in the order of their addresses: as many as possible are known first.
            let (leaves, more) = self.nodes.as_ref().map_or((0, true), Nodes::waiting);
            self.watcher.hold(leaves as u64);
            let files = files && self.metadata_is_there(now) && leaves == 0;
            let order = if more { self.watcher.next_order(SimTime(now), files) } else { None };
            match order {
                Some(order) => self.send(now, order, fetcher),
                None if leaves > 0 => self.send_leaf(fetcher),
                None => break,
            }
        }
        self.resolve(fetcher);
        !self.waiting.is_empty()
    }

    fn send(&mut self, now: u64, order: Order, fetcher: &Fetcher) {
        let Some(source) = self.source() else { return };
        let target = || Arc::clone(&self.target);
        let user = self.users.get(&order.group).copied();
        match (source, user) {
            (Source::Device(device), _) if order.pages.file == DEVICE => {
                self.waiting.push_back((now, order));
                fetcher.send(Task::Metadata(device, order));
            }
            (Source::Btrfs, _) if order.pages.file == DEVICE => {
                self.nodes.iter_mut().for_each(|n| n.order(&order));
            }
            (_, Some(user)) if order.pages.file == DEVICE => {
                let groups = order.pages.first..order.pages.first + order.pages.count;
                groups.for_each(|g| fetcher.send(Task::Inodes(target(), user, g)));
            }
            (source, Some(user)) => fetcher.send(Task::Pages(target(), source, user, order)),
            (_, None) => {}
        }
    }

    fn send_leaf(&mut self, fetcher: &Fetcher) {
        let Some((group, key)) = self.nodes.as_mut().and_then(Nodes::next_leaf) else { return };
        if let Some(&user) = self.users.get(&group) {
            fetcher.send(Task::Leaf(Arc::clone(&self.target), user, key));
        }
    }

    /// Where metadata is read. Opens the device if it must. `None`: the device cannot be opened.
    fn source(&mut self) -> Option<Source> {
        if self.mounted.is_xfs() {
            return Some(Source::Xfs);
        }
        if self.nodes.is_some() {
            return Some(Source::Btrfs);
        }
        if self.device.is_none() {
            let device = self.mounted.device_path().and_then(|p| Device::open(&p));
            self.device = device.ok().map(Arc::new);
        }
        self.device.clone().map(Source::Device)
    }

    /// True if all metadata that was ordered has come: inodes are then opened without waiting for
    /// the disk.
    fn metadata_is_there(&mut self, now: u64) -> bool {
        let Some(device) = &self.device else { return true };
        while let Some((sent, order)) = self.waiting.front() {
            let age = now.saturating_sub(*sent);
            let may_come =
                age < PATIENCE_NS || (age < PATIENCE_MOST_NS && self.disk.reads_under_way() > 0);
            if may_come && !is_there(device, order) {
                return false;
            }
            self.waiting.pop_front();
        }
        true
    }

    fn resolve(&mut self, fetcher: &Fetcher) {
        while fetcher.under_way() < TASKS {
            let Some((group, place)) = self.watcher.next_unresolved() else { return };
            if let Some(&user) = self.users.get(&group)
                && is_alive(user)
                && let Some(source) = self.source()
            {
                fetcher.send(Task::Resolve(Arc::clone(&self.target), source, user, place));
            }
        }
    }
}

/// A number of this file system that stays when its device has another number: made from its UUID.
fn identity(mounted: &Mounted) -> std::io::Result<u64> {
    if mounted.is_xfs() {
        // The kernel's number of an XFS is that of its device. The superblock has the UUID.
        let mut superblock = [0; 48];
        File::open(mounted.device_path()?)?.read_exact_at(&mut superblock, 0)?;
        if let (b"XFSB", Some((first, second))) =
            (&superblock[..4], superblock[32..].split_first_chunk::<8>())
        {
            let second = second.first_chunk().copied().unwrap_or_default();
            return Ok(u64::from_le_bytes(*first) ^ u64::from_le_bytes(second));
        }
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
