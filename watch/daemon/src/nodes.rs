//! Uses of metadata on btrfs. Events name nodes by address; the watcher learns groups of inodes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use seekless_block::{PAGE_BYTES, SimTime};
use seekless_jobs::{DEVICE, IDLE, Order, Pages};

use crate::btrfs::{Key, Leaves};
use crate::events::{Event, KernelEvent, METADATA, READ};
use crate::fetch::{Fetcher, Task};
use crate::filesystem::Filesystem;
use crate::processes::Processes;

/// The inode whose pages are the nodes.
const NODES: u64 = 1;
/// Most threads with pages that wait for their read, and most pages of each.
const THREADS: usize = 512;
const PAGES: usize = 1024;
/// Most reads of unknown nodes that wait for the list of leaves.
const UNKNOWN: usize = 4096;
/// Least time between two looks for new leaves, and the same as a multiple of the time of a look:
/// looks take no more than a twentieth of the disk's time.
const PAUSE_NS: u64 = 200_000_000;
const PAUSE: u64 = 20;
/// Most leaves that wait to be read. The more there are, the less the head travels between two.
const LEAVES_MOST: usize = 1 << 14;

/// The nodes of a tree.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    tree: u64,
    leaves: Arc<Leaves>,
    /// Addresses of pages that were added and not read yet, by thread.
    added: FxHashMap<u32, Vec<u64>>,
    /// Reads of nodes that are not known: the read, whether it is our own, and the address.
    unknown: VecDeque<(Event, bool, u64)>,
    /// A node was used that is not known.
    used: bool,
    /// When this was seen last.
    wanted: Option<u64>,
    /// Leaves to read, by address: the process group, and the first key.
    waiting: BTreeMap<u64, (u32, Key)>,
    /// The address behind the leaf that was sent last.
    arm: u64,
    /// The node that each thread of ours has read last.
    fetched: FxHashMap<u32, u64>,
    /// A look for leaves is under way; the time of the last one.
    asked: bool,
    last: u64,
    /// Least time between two looks.
    pause: u64,
}

impl Nodes {
    pub(crate) fn new(tree: u64) -> Self {
        Self { tree, pause: PAUSE_NS, ..Self::default() }
    }

    fn added(&mut self, thread: u32, page: u64, order: u64) {
        if self.added.len() >= THREADS {
            self.added.clear();
        }
        let of_thread = self.added.entry(thread).or_default();
        for page in page..page.saturating_add(1 << order.min(4)) {
            if of_thread.len() < PAGES {
                of_thread.push(page.saturating_mul(PAGE_BYTES));
            }
        }
    }

    /// The groups of inodes in a node. `None`: no leaf of the tree.
    fn groups(&self, address: u64, generation: Option<u64>) -> Option<Pages> {
        let groups = self.leaves.groups(address, generation)?;
        Some(Pages { file: DEVICE, first: groups.start, count: groups.end - groups.start })
    }

    /// Puts the leaves of an order among those that wait.
    pub(crate) fn order(&mut self, order: &Order) {
        for group in order.pages.first..order.pages.first.saturating_add(order.pages.count) {
            for (address, key) in self.leaves.of_group(group) {
                self.waiting.insert(address, (order.group, key));
            }
        }
    }

    /// The number of leaves that wait, and whether there may be more.
    pub(crate) fn waiting(&self) -> (usize, bool) {
        (self.waiting.len(), self.waiting.len() < LEAVES_MOST)
    }

    /// The next leaf in the order of addresses: the process group, and the first key. Leaves of
    /// groups that are idle or have ended are forgotten.
    pub(crate) fn next_leaf(&mut self, is_at_work: impl Fn(u32) -> bool) -> Option<(u32, Key)> {
        loop {
            let next = self.waiting.range(self.arm..).next().or_else(|| self.waiting.iter().next());
            let (&address, &leaf) = next?;
            self.waiting.remove(&address);
            if is_at_work(leaf.0) {
                self.arm = address.saturating_add(1);
                return Some(leaf);
            }
        }
    }

    /// Whether leaves must be looked for now. A use of long ago is forgotten: the disk may sleep since.
    fn wants(&mut self, now: u64) -> bool {
        if std::mem::take(&mut self.used) {
            self.wanted = Some(now);
        }
        let is_old = |at| now.saturating_sub(at) >= IDLE.0;
        if !self.asked && self.wanted.is_some_and(is_old) {
            self.wanted = None;
            self.unknown.clear();
        }
        self.wanted.is_some() && !self.asked && now.saturating_sub(self.last) >= self.pause
    }

    /// Nothing is read ahead now.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.fetched.clear();
    }
}

impl Filesystem {
    /// True while a run goes on, or leaves are looked for.
    pub(crate) fn is_busy(&self) -> bool {
        self.watcher.is_busy() || self.nodes.as_ref().is_some_and(|n| n.asked)
    }

    /// Takes an event of a node of btrfs. Returns false for other events.
    pub(crate) fn node_event(
        &mut self,
        event: &Event,
        own: bool,
        today: u64,
        processes: &mut Processes,
    ) -> bool {
        let is_here = self.is_here(event);
        let Some(nodes) = &mut self.nodes else { return false };
        let [first, second, third] = event.values;
        match event.what {
            KernelEvent::Added if event.device == self.mounted.number() && first == NODES => {
                nodes.added(event.thread, second, third);
            }
            KernelEvent::Sent if is_here && second & (READ | METADATA) == READ | METADATA => {
                let bytes = nodes.leaves.node_bytes;
                let added = nodes.added.remove(&event.thread).unwrap_or_default();
                for address in added.into_iter().filter(|a| bytes == 0 || a % bytes == 0) {
                    self.node_read(event, own, address, today, processes);
                }
            }
            KernelEvent::Node if event.device == nodes.tree => {
                // A worker of ours takes a node after it has read it: this is no use.
                if own && nodes.fetched.get(&event.thread) == Some(&first) {
                    return true;
                }
                let Some(pages) = nodes.groups(first, Some(second)) else {
                    // It may be one of another file system; a disk that sleeps is left alone.
                    nodes.used |= self.watcher.is_busy();
                    return true;
                };
                self.touched(event, own, processes, pages);
            }
            _ => return false,
        }
        true
    }

    /// A node was read from the disk.
    fn node_read(
        &mut self,
        event: &Event,
        own: bool,
        address: u64,
        today: u64,
        processes: &mut Processes,
    ) {
        let Some(nodes) = &mut self.nodes else { return };
        let Some(pages) = nodes.groups(address, None) else {
            nodes.used = true;
            if nodes.unknown.len() < UNKNOWN {
                nodes.unknown.push_back((*event, own, address));
            }
            return;
        };
        if own {
            nodes.fetched.insert(event.thread, address);
            self.watcher.fetched(pages);
        } else if let Some(who) = self.user(event, processes) {
            self.watcher.missed(SimTime(event.time), today, who, pages);
        }
    }

    /// Looks for leaves if a node was used that is not known.
    pub(crate) fn ask_for_leaves(&mut self, now: u64, fetcher: &Fetcher) {
        let Some(nodes) = &mut self.nodes else { return };
        if !nodes.wants(now) {
            return;
        }
        let Ok(device) = self.mounted.device_path() else { return };
        (nodes.wanted, nodes.asked, nodes.last) = (None, true, now);
        let leaves = Arc::clone(&nodes.leaves);
        let task = Task::Leaves(self.target.number, device, nodes.tree, leaves);
        fetcher.send(task, &self.under_way);
    }

    /// The leaves were looked for: takes the reads that waited for this.
    pub(crate) fn found_leaves(
        &mut self,
        leaves: Option<Box<Leaves>>,
        now: u64,
        today: u64,
        processes: &mut Processes,
    ) {
        let Some(nodes) = &mut self.nodes else { return };
        nodes.asked = false;
        nodes.pause = now.saturating_sub(nodes.last).saturating_mul(PAUSE).max(PAUSE_NS);
        let waiting = std::mem::take(&mut nodes.unknown);
        let Some(leaves) = leaves else { return };
        nodes.leaves = Arc::new(*leaves);
        for (event, own, address) in waiting {
            self.node_read(&event, own, address, today, processes);
        }
        if let Some(nodes) = &mut self.nodes {
            // What is not known now is no leaf of the tree.
            nodes.unknown.clear();
            (nodes.used, nodes.wanted) = (false, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_used_long_ago_wakes_no_disk() {
        let seconds = |n: u64| n * 1_000_000_000;
        let mut nodes = Nodes::new(5);
        nodes.pause = seconds(400);
        nodes.used = true;
        assert!(!nodes.wants(seconds(30)), "the pause");
        assert!(!nodes.wants(seconds(420)));
        nodes.used = true;
        assert!(nodes.wants(seconds(420)) && nodes.wants(seconds(421)));
        nodes.asked = true;
        assert!(!nodes.wants(seconds(500)) && nodes.wanted.is_some(), "a look goes on");
    }

    #[test]
    fn leaves_of_idle_groups_are_not_read() {
        let mut nodes = Nodes::new(5);
        let key = |inode| (inode, 1, 0);
        nodes.waiting = (1..=6_u64).map(|n| (n << 20, (u32::from(n % 2 == 1), key(n)))).collect();
        let mut next = || nodes.next_leaf(|group| group == 1);
        assert_eq!([next(), next()], [Some((1, key(1))), Some((1, key(3)))]);
        assert_eq!([next(), next()], [Some((1, key(5))), None]);
        assert_eq!(nodes.waiting(), (0, true));
    }
}
