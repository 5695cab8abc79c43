//! A model of the Berkeley fast file system (McKusick and others, ACM TOCS 2(3), 1984), as a disk
//! sees it: the baseline, and the file system beside EEFS's groups in simulations. It has cylinder
//! groups with inodes and blocks, directories, indirect blocks, a buffer cache, delayed and
//! synchronous writes. It holds no bytes; its output is the disk's requests.
//! benches/reproduce/runs/tables.md lists the modelled parts, with their sources.

mod allocation;
mod cache;
mod operations;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use lru::LruCache;
use rustc_hash::{FxBuildHasher, FxHashMap};
use seekless_block::{Bytes, Duration, Extent, Op, SECTOR_BYTES, Sectors, SimTime};

/// A block is 8 KiB, at a multiple of 8 KiB; the end of a file takes fragments of 1 KiB.
const BLOCK: u64 = 8_192;
const BLOCK_SECTORS: u64 = BLOCK / SECTOR_BYTES;
const FRAGMENT: u64 = 1_024;
/// Direct blocks of an inode; each indirect block has 2,048 more.
const DIRECT: u64 = 12;
const INDIRECT: u64 = 2_048;
/// Inodes in one block, of 128 bytes each.
const INODES: u32 = 64;
/// Entries in a block of a directory, of 32 bytes each.
const ENTRIES: u32 = 256;
/// Blocks of a large file in one cylinder group; the file continues in the next group.
const RUN: u64 = 256;
/// Longest request: 4.4BSD's clusters of one file's blocks.
const CLUSTER_BLOCKS: u64 = 8;
/// Of ten look-ups, this number misses the name cache although the inode is in memory (EEFS:
/// "directory name lookup cache hit rate is typically only 70% in UFS").
const NAME_MISSES: u64 = 3;

/// Settings of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FfsConfig {
    /// Size of the file system.
    pub capacity: Sectors,
    pub group_blocks: u32,
    pub group_inodes: u32,
    /// Size of the buffer cache.
    pub cache: Bytes,
    /// Bytes of a read that misses the cache, whatever lies behind the block; 0 is no read-ahead.
    pub read_ahead: Bytes,
    /// Age at which the update daemon writes a delayed write.
    pub write_after: Duration,
    /// Inodes that stay in memory.
    pub inodes: usize,
    /// Delays neither data nor inodes, only times of access: mounted with `sync`.
    pub sync: bool,
}

impl FfsConfig {
    /// 4.4BSD's usual figures.
    pub(crate) const fn new(capacity: Sectors, cache: Bytes, inodes: usize) -> Self {
        let write_after = Duration::from_millis(30_000);
        let (group_blocks, group_inodes) = (2_048, 2_048);
        Self {
            capacity,
            group_blocks,
            group_inodes,
            cache,
            read_ahead: Bytes(0),
            write_after,
            inodes,
            sync: false,
        }
    }
}

/// The modelled file system has no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the modelled file system is full")]
pub struct FfsFull;

/// The result of placing something on the modelled file system.
pub(crate) type Placed<T = ()> = Result<T, FfsFull>;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockContent {
    Inode,
    Directory,
    /// Free space of a cylinder group.
    Summary,
    /// Addresses of a file's further blocks.
    Indirect,
    /// Bytes of this file.
    Data(u64),
}

/// Requests of the disk, with their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Requests that the caller waits for, one after the other.
    pub wait: Vec<(Op, Extent, BlockContent)>,
    /// Background requests.
    pub later: Vec<(Op, Extent, BlockContent)>,
}

#[derive(Clone, Debug)]
struct Node {
    inode: u32,
    directory: u32,
    /// Index of its entry in the directory.
    entry: u32,
    /// Whether it has blocks and an inode here; otherwise only its entry is here: EEFS's negative
    /// inode.
    here: bool,
    size: u64,
    blocks: Vec<u32>,
    indirect: Vec<u32>,
    /// The block behind the last read: a read of this block is sequential.
    next: u64,
}

#[derive(Clone, Debug)]
struct Directory {
    inode: u32,
    blocks: Vec<u32>,
    entries: u32,
}

#[derive(Clone, Debug)]
struct Group {
    used: Vec<u64>,
    free: u32,
    hint: u32,
    inodes: u32,
    spare: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    used: u64,
    dirty: Option<SimTime>,
    sectors: u8,
    part: BlockContent,
}

/// Counts of the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FfsStats {
    pub lookups: u64,
    /// Lookups that found the block.
    pub hits: u64,
    /// Lookups of names.
    pub names: u64,
    /// Lookups that found the name in the name cache.
    pub name_hits: u64,
}

/// The file system.
#[derive(Clone, Debug)]
pub(crate) struct Ffs {
    config: FfsConfig,
    groups: Vec<Group>,
    directories: FxHashMap<u32, Directory>,
    files: FxHashMap<u64, Node>,
    cache: FxHashMap<u32, Buffer>,
    by_use: BTreeMap<u64, u32>,
    /// Files whose inodes are in memory.
    inodes: LruCache<u64, (), FxBuildHasher>,
    /// Sectors in memory; for a block with fragments alone, its fragments.
    cached: u64,
    dirty: BTreeSet<(SimTime, u32)>,
    clock: u64,
    stats: FfsStats,
}

impl Ffs {
    /// An empty file system with at least one cylinder group.
    pub(crate) fn new(config: FfsConfig) -> Self {
        let blocks = config.capacity.0 / BLOCK_SECTORS;
        let count = (blocks / u64::from(config.group_blocks)).max(1);
        let words = config.group_blocks.div_ceil(64) as usize;
        // The first blocks of each group hold its summary and its inodes.
        let meta = Self::meta_blocks(&config);
        let mut group = Group {
            used: vec![0; words],
            free: config.group_blocks - meta,
            hint: meta,
            inodes: 0,
            spare: Vec::new(),
        };
        let inodes = NonZeroUsize::new(config.inodes).unwrap_or(NonZeroUsize::MIN);
        (0..meta).for_each(|b| group.used[b as usize / 64] |= 1 << (b % 64));
        Self {
            config,
            groups: vec![group; count as usize],
            directories: FxHashMap::default(),
            files: FxHashMap::default(),
            cache: FxHashMap::default(),
            by_use: BTreeMap::new(),
            inodes: LruCache::with_hasher(inodes, FxBuildHasher),
            cached: 0,
            dirty: BTreeSet::new(),
            clock: 0,
            stats: FfsStats::default(),
        }
    }

    const fn meta_blocks(config: &FfsConfig) -> u32 {
        1 + config.group_inodes.div_ceil(INODES)
    }

    /// Counts of the caches.
    pub(crate) const fn stats(&self) -> FfsStats {
        self.stats
    }

    /// Whether the file exists, here or elsewhere.
    pub(crate) fn knows(&self, file: u64) -> bool {
        self.files.contains_key(&file)
    }

    pub(crate) fn size(&self, file: u64) -> Option<u64> {
        self.files.get(&file).filter(|f| f.here).map(|f| f.size)
    }

    /// Puts a file of `size` bytes into a directory, without requests of the disk.
    pub(crate) fn place(&mut self, file: u64, directory: u32, size: u64) -> Placed {
        self.enter(file, directory)?;
        self.grow(file, size)?;
        Ok(())
    }
}
