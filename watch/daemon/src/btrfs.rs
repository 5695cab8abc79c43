//! The leaves of a btrfs tree as they stand on the device: which inodes each leaf holds. The
//! kernel's events name a leaf by its address, which changes with each write; jobs are learned by
//! inode numbers, which stay. Only nodes above the leaves are read, and each version of them once.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustc_hash::FxHashMap;
use rustix::fs::{Advice, fadvise};

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
/// Kinds of chunks whose first stripe holds all: data, system, metadata, two copies on one disk.
const PLAIN: u64 = 1 | 2 | 4 | 0x20;
/// Most nodes of a tree that are read, and most leaves that are known.
const NODES_MOST: usize = 1 << 14;
const LEAVES_MOST: usize = 1 << 20;
/// Most levels of a tree.
const LEVELS: u8 = 8;

/// A leaf: its version, and the first and last inode that it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) generation: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// A part of a node: the first inode below a child, the child's address and version.
type Child = (u64, u64, u64);

/// The known facts of a file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaves {
    /// Version of the whole file system.
    generation: u64,
    pub(crate) node_bytes: u64,
    /// Leaves of the tree by address.
    leaves: FxHashMap<u64, Leaf>,
    /// Nodes above the leaves, by address and version.
    nodes: FxHashMap<(u64, u64), Vec<Child>>,
}

impl Leaves {
    /// The leaf at this address.
    pub(crate) fn leaf(&self, address: u64) -> Option<Leaf> {
        self.leaves.get(&address).copied()
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
            new.leaves.insert(address, Leaf { generation, first: 0, last: u64::MAX });
        } else {
            self.walk(&volume, &mut new, (0, address, generation), level, u64::MAX)?;
        }
        Ok(Some(new))
    }

    /// Adds what is below a node that is above the leaves. `end`: where the next node begins.
    fn walk(
        &self,
        volume: &Volume<'_>,
        new: &mut Self,
        node: Child,
        level: u8,
        end: u64,
    ) -> io::Result<()> {
        let (_, address, generation) = node;
        if new.nodes.len() >= NODES_MOST || new.leaves.len() >= LEAVES_MOST {
            return Ok(());
        }
        let children = match self.nodes.get(&(address, generation)) {
            Some(known) => known.clone(),
            None => volume.children(address, generation, level)?,
        };
        new.nodes.insert((address, generation), children.clone());
        for (i, &child) in children.iter().enumerate() {
            let next = children.get(i + 1).map_or(end, |c| c.0);
            if level > 1 {
                self.walk(volume, new, child, level - 1, next)?;
            } else {
                let (first, address, generation) = child;
                let last = next.max(first);
                new.leaves.insert(address, Leaf { generation, first, last });
            }
        }
        Ok(())
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
            if key.1 == CHUNK_ITEM {
                found.push((key.2, item.to_vec()));
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

    fn children(&self, address: u64, generation: u64, level: u8) -> io::Result<Vec<Child>> {
        let node = self.node(address, generation, level)?;
        let count = number32(&node, 96).unwrap_or(0) as usize;
        let all = node.get(HEAD..).unwrap_or_default().chunks_exact(POINTER).take(count);
        let child = |p: &[u8]| Some((number64(p, 0)?, number64(p, 17)?, number64(p, 25)?));
        Ok(all.filter_map(child).collect())
    }

    /// A node in this version. Pages of the device in memory may be older than the disk.
    fn node(&self, address: u64, generation: u64, level: u8) -> io::Result<Vec<u8>> {
        let left = self.budget.get().checked_sub(1).ok_or_else(|| wrong("the size of a tree"))?;
        self.budget.set(left);
        let after = self.chunks.partition_point(|c| c.0 <= address);
        let chunk = after.checked_sub(1).and_then(|i| self.chunks.get(i));
        let place = chunk.filter(|c| address - c.0 < c.1).map(|c| c.2.wrapping_add(address - c.0));
        let place = place.ok_or_else(|| wrong("the chunk of a node"))?;
        let mut bytes = vec![0; self.node_bytes];
        for _ in 0..2 {
            self.device.read_exact_at(&mut bytes, place)?;
            let head = (number64(&bytes, 48), number64(&bytes, 80), bytes.get(100));
            if head == (Some(address), Some(generation), Some(&level)) {
                return Ok(bytes);
            }
            let length = std::num::NonZeroU64::new(self.node_bytes as u64);
            let _ = fadvise(self.device, place, length, Advice::DontNeed);
        }
        Err(wrong("a node"))
    }
}

/// Written again while it was read, or damaged: the next try may find it.
fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is not as expected"))
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panic")]
mod tests;
