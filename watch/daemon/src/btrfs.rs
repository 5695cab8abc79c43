//! The leaves of a btrfs tree as they stand on the device: which inodes each leaf holds. The
//! kernel's events name a leaf by its address, which changes with each write; jobs are learned by
//! inode numbers, which stay. Only nodes above the leaves are read, and each version of them once.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use rustc_hash::FxHashMap;
use rustix::fs::{Advice, fadvise};

use crate::ext::{number16, number32};

/// Where the superblock is, and its length.
const SUPERBLOCK: (u64, usize) = (0x1_0000, 0x1000);
const MAGIC: &[u8] = b"_BHRfS_M";
/// The tree of chunks in the superblock: where it begins, and its most bytes.
const CHUNKS: (usize, usize) = (0x32B, 2048);
/// Lengths: head of a node, key, pointer to a node below, item of a leaf, chunk without stripes.
const HEAD: usize = 101;
const KEY: usize = 17;
const POINTER: usize = 33;
const ITEM: usize = 25;
const CHUNK: usize = 48;
/// Kinds of items.
const ROOT_ITEM: u8 = 132;
const CHUNK_ITEM: u8 = 228;
const EXTENT: u8 = 108;
/// Kinds of chunks whose first stripe holds all: data, system, metadata, two copies on one disk.
const PLAIN: u64 = 1 | 2 | 4 | 0x20;
/// Most nodes of a tree that are read, and most leaves that are known.
const NODES_MOST: usize = 1 << 14;
const LEAVES_MOST: usize = 1 << 20;
/// Most pointers in the nodes that are known: one leads to each node and leaf.
const POINTERS_MOST: usize = LEAVES_MOST + NODES_MOST;
/// Most chunks: 64 TiB of usual ones. A damaged tree may lead to one chunk many times.
const CHUNKS_MOST: usize = 1 << 16;
/// Bytes of a chunk that are of use: up to the address of its first stripe.
const CHUNK_USED: usize = CHUNK + 16;
/// Most levels of a tree.
const LEVELS: u8 = 8;

/// Most leaves of a group that hold nothing but extents of one file. Those of a large file are read
/// with the file.
const EXTENTS_MOST: usize = 8;
/// Most leaves of a group that hold nothing but parts of one inode, for each kind of part. A
/// program that wants one name of a large directory reads one of its leaves.
const PARTS_MOST: usize = 64;

/// Inodes of a group, which jobs have as a page.
const GROUP: u64 = 16;
/// Most groups that a leaf stands for: its last inode may be far away.
const GROUPS_MOST: u64 = 32;

/// A key of a tree: inode, kind of item, offset.
pub(crate) type Key = (u64, u8, u64);

/// A part of a node: the first key below a child, the child's address and version.
type ChildPointer = (Key, u64, u64);

/// The known facts of a file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaves {
    /// Version of the whole file system.
    generation: u64,
    pub(crate) node_bytes: u64,
    /// Leaves of the tree by address: their version, and their number in `order`.
    leaves: FxHashMap<u64, (u64, usize)>,
    /// The first key and the address of each leaf, in order.
    order: Vec<(Key, u64)>,
    /// Nodes above the leaves, by address and version.
    nodes: FxHashMap<(u64, u64), Vec<ChildPointer>>,
    /// The number of their pointers.
    pointers: usize,
}

impl Leaves {
    /// The groups of inodes for which the leaf at this address stands, if it is known in this
    /// version: those that begin in the leaf, or else the one that the leaf is a part of.
    pub(crate) fn groups(&self, address: u64, generation: Option<u64>) -> Option<Range<u64>> {
        let &(found, index) = self.leaves.get(&address)?;
        if generation.is_some_and(|g| g != found) {
            return None;
        }
        let (start, end) = (self.key(index), self.key(index + 1));
        let begun = |key: Key| key.0 / GROUP + u64::from(start_of(key.0 / GROUP) < key);
        let (first, behind) = (begun(start), begun(end));
        let one = |group| group..group + 1;
        Some(match behind.saturating_sub(first) {
            0 => one(start.0 / GROUP),
            1..=GROUPS_MOST => first..behind,
            _ => one(first),
        })
    }

    /// The leaves that stand for a group of inodes: address and first key.
    pub(crate) fn of_group(&self, group: u64) -> impl Iterator<Item = (u64, Key)> {
        let (start, end) = (start_of(group), start_of(group.saturating_add(1)));
        let first = self.order.partition_point(|l| l.0 <= start).saturating_sub(1);
        let rest = self.order.get(first..).unwrap_or_default().iter().enumerate();
        // By kind.
        let mut parts = [0_usize; 1 << u8::BITS];
        rest.take_while(move |&(i, _)| i == 0 || self.key(first + i + 1) <= end)
            .filter(move |&(i, (key, _))| {
                let is_part = self.key(first + i + 1).0 == key.0;
                let known = &mut parts[usize::from(key.1)];
                *known += usize::from(is_part);
                let most = if key.1 == EXTENT { EXTENTS_MOST } else { PARTS_MOST };
                !is_part || *known <= most
            })
            .map(|(_, &(key, address))| (address, key))
    }

    /// The first key of a leaf. Behind the last leaf is the end of all keys.
    fn key(&self, index: usize) -> Key {
        self.order.get(index).map_or((u64::MAX, u8::MAX, u64::MAX), |l| l.0)
    }

    /// Adds a leaf. A damaged tree may lead to one leaf many times: the first time counts.
    fn add(&mut self, (key, address, generation): ChildPointer) {
        if let Entry::Vacant(entry) = self.leaves.entry(address) {
            entry.insert((generation, self.order.len()));
            self.order.push((key, address));
        }
    }

    /// Keeps a node above the leaves. Returns false if it is known, as a damaged tree may lead to one
    /// node many times, or if it is too much.
    fn keep(&mut self, node: (u64, u64), children: &[ChildPointer]) -> bool {
        let fits = self.pointers + children.len() <= POINTERS_MOST;
        if !fits || self.nodes.contains_key(&node) {
            return false;
        }
        self.pointers += children.len();
        self.nodes.insert(node, children.to_vec());
        true
    }

    /// The present state. Reads what has changed since `self`. `None`: nothing has.
    pub(crate) fn again(&self, device: &File, tree: u64) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; SUPERBLOCK.1];
        device.read_exact_at(&mut bytes, SUPERBLOCK.0)?;
        let volume = Volume::parse(device, &bytes).ok_or_else(|| wrong("the superblock"))?;
        if volume.generation == self.generation {
            return Ok(None);
        }
        let volume = volume.with_chunks()?;
        let (address, generation, level) = volume.root_of(tree)?;
        let (generation_of_all, node_bytes) = (volume.generation, volume.node_bytes as u64);
        let mut new = Self { generation: generation_of_all, node_bytes, ..Self::default() };
        if level == 0 {
            new.add(((0, 0, 0), address, generation));
        } else {
            self.walk(&volume, &mut new, (address, generation), level)?;
        }
        Ok(Some(new))
    }

    /// Adds what is below a node that is above the leaves.
    fn walk(
        &self,
        volume: &Volume<'_>,
        new: &mut Self,
        (address, generation): (u64, u64),
        level: u8,
    ) -> io::Result<()> {
        if new.nodes.len() >= NODES_MOST || new.leaves.len() >= LEAVES_MOST {
            return Ok(());
        }
        let children = match self.nodes.get(&(address, generation)) {
            Some(known) => known.clone(),
            None => volume.children(address, generation, level)?,
        };
        if !new.keep((address, generation), &children) {
            return Ok(());
        }
        if level == 1 {
            children.into_iter().for_each(|child| new.add(child));
            return Ok(());
        }
        let unknown = |c: &&ChildPointer| !self.nodes.contains_key(&(c.1, c.2));
        children.iter().filter(unknown).for_each(|c| volume.read_ahead(c.1));
        children.iter().try_for_each(|c| self.walk(volume, new, (c.1, c.2), level - 1))
    }
}

/// A file system on one device.
struct Volume<'a> {
    device: &'a File,
    generation: u64,
    /// Trees of roots and of chunks: address, version, level.
    root: (u64, u64, u8),
    chunk_root: (u64, u64, u8),
    node_bytes: usize,
    disk: u64,
    /// Address, length, and address on the device, in order.
    chunks: Vec<(u64, u64, u64)>,
    /// Nodes that may still be read.
    budget: Cell<usize>,
}

impl<'a> Volume<'a> {
    fn parse(device: &'a File, block: &[u8]) -> Option<Self> {
        let at = |offset| number64(block, offset);
        let node_bytes = number32(block, 0x94)? as usize;
        let sound = block.get(0x40..)?.starts_with(MAGIC)
            && node_bytes.is_power_of_two()
            && (4096..=65_536).contains(&node_bytes)
            && at(0x88)? == 1;
        let level = |offset: usize| block.get(offset).copied().filter(|&l| l < LEVELS);
        let mut volume = Self {
            device,
            generation: at(0x48)?,
            root: (at(0x50)?, at(0x48)?, level(0xC6)?),
            chunk_root: (at(0x58)?, at(0xA4)?, level(0xC7)?),
            node_bytes,
            disk: at(0xC9)?,
            chunks: Vec::new(),
            budget: Cell::new(NODES_MOST),
        };
        // Keys and chunks that lead to the tree of chunks.
        let mut rest = block.get(CHUNKS.0..CHUNKS.0 + CHUNKS.1)?;
        rest = rest.get(..(number32(block, 0xA0)? as usize).min(CHUNKS.1))?;
        while rest.len() >= KEY + CHUNK {
            let chunk = &rest[KEY..];
            volume.chunk(number64(rest, 9)?, chunk);
            let stripes = usize::from(number16(chunk, 44)?);
            rest = rest.get(KEY + CHUNK + stripes * 32..).unwrap_or_default();
        }
        volume.chunks.sort_unstable();
        sound.then_some(volume)
    }

    /// Adds a chunk that stands on this device as it is.
    fn chunk(&mut self, address: u64, item: &[u8]) {
        let (Some(length), Some(kind)) = (number64(item, 0), number64(item, 24)) else { return };
        let stripe = |at| number64(item, CHUNK + at);
        if let (Some(disk), Some(place)) = (stripe(0), stripe(8))
            && disk == self.disk
            && kind & !PLAIN == 0
        {
            self.chunks.push((address, length, place));
        }
    }

    /// Reads the tree of chunks.
    fn with_chunks(mut self) -> io::Result<Self> {
        let mut found = Vec::new();
        self.items(self.chunk_root, &mut |key, item| {
            if key.1 == CHUNK_ITEM
                && found.len() < CHUNKS_MOST
                && let Some(item) = item.first_chunk::<CHUNK_USED>()
            {
                found.push((key.2, *item));
            }
        })?;
        self.chunks.clear();
        found.iter().for_each(|(address, item)| self.chunk(*address, item));
        self.chunks.sort_unstable();
        Ok(self)
    }

    /// The root of a tree: address, version, level.
    fn root_of(&self, tree: u64) -> io::Result<(u64, u64, u8)> {
        let mut found = None;
        self.items(self.root, &mut |key, item| {
            if (key.0, key.1) == (tree, ROOT_ITEM) {
                let level = item.get(238).copied().filter(|&l| l < LEVELS);
                let both = number64(item, 176).zip(number64(item, 160)).zip(level);
                found = both.map(|((address, generation), level)| (address, generation, level));
            }
        })?;
        found.ok_or_else(|| wrong("the tree's root"))
    }

    /// Every item of a small tree, with its key.
    fn items(
        &self,
        (address, generation, level): (u64, u64, u8),
        each: &mut impl FnMut((u64, u8, u64), &[u8]),
    ) -> io::Result<()> {
        if level > 0 {
            for (_, address, generation) in self.children(address, generation, level)? {
                self.items((address, generation, level - 1), each)?;
            }
            return Ok(());
        }
        let node = self.node(address, generation, 0)?;
        let count = number32(&node, 96).unwrap_or(0) as usize;
        for head in node.get(HEAD..).unwrap_or_default().chunks_exact(ITEM).take(count) {
            let key = number64(head, 0).zip(number64(head, 9));
            let place = number32(head, 17).zip(number32(head, 21));
            let (Some((object, offset)), Some((start, length))) = (key, place) else { continue };
            let start = HEAD.saturating_add(start as usize);
            let item = node.get(start..start.saturating_add(length as usize));
            each((object, head[8], offset), item.unwrap_or_default());
        }
        Ok(())
    }

    fn children(&self, address: u64, generation: u64, level: u8) -> io::Result<Vec<ChildPointer>> {
        let node = self.node(address, generation, level)?;
        let count = number32(&node, 96).unwrap_or(0) as usize;
        let all = node.get(HEAD..).unwrap_or_default().chunks_exact(POINTER).take(count);
        let key = |p: &[u8]| Some((number64(p, 0)?, *p.get(8)?, number64(p, 9)?));
        let child = |p: &[u8]| Some((key(p)?, number64(p, 17)?, number64(p, 25)?));
        Ok(all.filter_map(child).collect())
    }

    /// Where a node is on the device.
    fn place(&self, address: u64) -> Option<u64> {
        let after = self.chunks.partition_point(|c| c.0 <= address);
        let chunk = after.checked_sub(1).and_then(|i| self.chunks.get(i));
        chunk.filter(|c| address - c.0 < c.1).map(|c| c.2.wrapping_add(address - c.0))
    }

    /// Begins to read a node, and does not wait for it.
    fn read_ahead(&self, address: u64) {
        if let Some(place) = self.place(address) {
            let length = NonZeroU64::new(self.node_bytes as u64);
            let _ = fadvise(self.device, place, length, Advice::WillNeed);
        }
    }

    /// A node in this version. Pages of the device in memory may be older than the disk.
    fn node(&self, address: u64, generation: u64, level: u8) -> io::Result<Vec<u8>> {
        let left = self.budget.get().checked_sub(1).ok_or_else(|| wrong("the size of a tree"))?;
        self.budget.set(left);
        let place = self.place(address).ok_or_else(|| wrong("the chunk of a node"))?;
        let mut bytes = vec![0; self.node_bytes];
        for _ in 0..2 {
            self.device.read_exact_at(&mut bytes, place)?;
            let head = (number64(&bytes, 48), number64(&bytes, 80), bytes.get(100));
            if head == (Some(address), Some(generation), Some(&level)) {
                return Ok(bytes);
            }
            let length = NonZeroU64::new(self.node_bytes as u64);
            let _ = fadvise(self.device, place, length, Advice::DontNeed);
        }
        Err(wrong("a node"))
    }
}

/// The first key of a group of inodes.
const fn start_of(group: u64) -> Key {
    const INODE_ITEM: u8 = 1;
    (group.saturating_mul(GROUP), INODE_ITEM, 0)
}

/// Written again while it was read, or damaged: the next try may find it.
fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is not as expected"))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
