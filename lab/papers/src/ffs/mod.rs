//! A model of the Berkeley fast file system (McKusick and others, ACM TOCS 2(3), 1984), as far as a disk sees it: the
//! other module of EEFS in simulations, and the baseline. Cylinder groups with inodes and blocks, directories, indirect
//! blocks, a buffer cache, delayed and synchronous writes. It holds no bytes; out come the disk's requests. What is
//! modelled, and what is not, is in docs/believing/groups.md.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use seekless_block::{Bytes, Duration, Extent, Op, SECTOR_BYTES, Sectors, SimTime};

/// A block is 8 KiB, and begins at a multiple of it; the last part of a file takes fragments of 1 KiB.
const BLOCK: u64 = 8_192;
const BLOCK_SECTORS: u64 = BLOCK / SECTOR_BYTES;
const FRAGMENT: u64 = 1_024;
/// Blocks that an inode names itself; then one indirect block names the next 2,048.
const DIRECT: u64 = 12;
const INDIRECT: u64 = 2_048;
/// Inodes in one block, of 128 bytes each.
const INODES: u32 = 64;
/// Entries in a block of a directory, of 32 bytes each.
const ENTRIES: u32 = 256;
/// Blocks of a large file in one cylinder group, before it goes on in the next.
const RUN: u64 = 256;
/// Longest request: what 4.4BSD clusters, of one file's blocks alone.
const CLUSTER_BLOCKS: u64 = 8;

/// How the model is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FfsConfig {
    /// Size of the file system.
    pub capacity: Sectors,
    /// Blocks of a cylinder group.
    pub group_blocks: u32,
    /// Inodes of a cylinder group.
    pub group_inodes: u32,
    /// The buffer cache.
    pub cache: Bytes,
    /// A read that misses the cache reads on to so many bytes, whatever lies there; 0: not at all.
    pub read_ahead: Bytes,
    /// A delayed write is on its way so long after it was made: the update daemon.
    pub write_after: Duration,
    /// Nothing that is written is delayed, nor the inode that tells of it; only times of access are: mounted with `sync`.
    pub sync: bool,
}

impl FfsConfig {
    /// 4.4BSD's usual figures.
    #[must_use]
    pub(crate) const fn new(capacity: Sectors, cache: Bytes) -> Self {
        let write_after = Duration::from_millis(30_000);
        let (group_blocks, group_inodes) = (2_048, 2_048);
        Self {
            capacity,
            group_blocks,
            group_inodes,
            cache,
            read_ahead: Bytes(0),
            write_after,
            sync: false,
        }
    }
}

/// No room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the modelled file system is full")]
pub struct FfsFull;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Inodes.
    Inode,
    /// Entries of a directory.
    Directory,
    /// What is free in a cylinder group.
    Summary,
    /// Places of a file's further blocks.
    Indirect,
    /// Bytes of this file.
    Data(u64),
}

/// Requests of the disk, and what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Those that the caller waits for, one after the other.
    pub wait: Vec<(Op, Extent, Part)>,
    /// Those that nobody waits for.
    pub later: Vec<(Op, Extent, Part)>,
}

#[derive(Clone, Debug)]
struct Node {
    inode: u32,
    directory: u32,
    /// Place of its entry in the directory.
    entry: u32,
    /// Whether it has blocks and an inode of its own here; else only its entry is: EEFS's negative inode.
    here: bool,
    size: u64,
    blocks: Vec<u32>,
    indirect: Vec<u32>,
    /// The block behind the one read last: who reads it reads on.
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
    /// When it became dirty.
    dirty: Option<SimTime>,
    sectors: u8,
    part: Part,
}

/// What the cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FfsStats {
    /// Blocks looked for.
    pub lookups: u64,
    /// Of these, those found.
    pub hits: u64,
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
    /// Sectors in memory: a block's fragments alone where that is all there is of it.
    cached: u64,
    dirty: BTreeSet<(SimTime, u32)>,
    clock: u64,
    stats: FfsStats,
}

impl Ffs {
    /// An empty one. At least one cylinder group.
    #[must_use]
    pub(crate) fn new(config: FfsConfig) -> Self {
        let blocks = config.capacity.0 / BLOCK_SECTORS;
        let count = (blocks / u64::from(config.group_blocks)).max(1);
        let words = config.group_blocks.div_ceil(64) as usize;
        // The first blocks of each hold its summary and its inodes.
        let meta = Self::meta_blocks(&config);
        let mut group = Group {
            used: vec![0; words],
            free: config.group_blocks - meta,
            hint: meta,
            inodes: 0,
            spare: Vec::new(),
        };
        (0..meta).for_each(|b| group.used[b as usize / 64] |= 1 << (b % 64));
        Self {
            config,
            groups: vec![group; count as usize],
            directories: FxHashMap::default(),
            files: FxHashMap::default(),
            cache: FxHashMap::default(),
            by_use: BTreeMap::new(),
            cached: 0,
            dirty: BTreeSet::new(),
            clock: 0,
            stats: FfsStats::default(),
        }
    }

    const fn meta_blocks(config: &FfsConfig) -> u32 {
        1 + config.group_inodes.div_ceil(INODES)
    }

    /// What the cache did.
    #[must_use]
    pub(crate) const fn stats(&self) -> FfsStats {
        self.stats
    }

    /// Whether there is such a file, here or elsewhere.
    #[must_use]
    pub(crate) fn knows(&self, file: u64) -> bool {
        self.files.contains_key(&file)
    }

    /// Bytes of a file that is here.
    #[must_use]
    pub(crate) fn size(&self, file: u64) -> Option<u64> {
        self.files.get(&file).filter(|f| f.here).map(|f| f.size)
    }

    /// Puts a file of `size` bytes into a directory as if it had been there for long: no request is made.
    ///
    /// # Errors
    /// Where there is no room.
    pub(crate) fn place(&mut self, file: u64, directory: u32, size: u64) -> Result<(), FfsFull> {
        self.enter(file, directory)?;
        self.grow(file, size)?;
        Ok(())
    }

    fn enter(&mut self, file: u64, directory: u32) -> Result<(), FfsFull> {
        if !self.directories.contains_key(&directory) {
            // Directories go where there is most room.
            let at =
                (0..self.groups.len()).max_by_key(|&g| (self.groups[g].free, std::cmp::Reverse(g)));
            let inode = self.new_inode(at.unwrap_or(0))?;
            self.directories.insert(directory, Directory { inode, blocks: Vec::new(), entries: 0 });
        }
        let Some(d) = self.directories.get(&directory) else { return Err(FfsFull) };
        let (at, entry) = (self.group_of_inode(d.inode), d.entries);
        if entry.is_multiple_of(ENTRIES) {
            let block = self.new_block(at)?;
            if let Some(d) = self.directories.get_mut(&directory) {
                d.blocks.push(block);
            }
        }
        if let Some(d) = self.directories.get_mut(&directory) {
            d.entries += 1;
        }
        let inode = self.new_inode(at)?;
        let (blocks, indirect) = (Vec::new(), Vec::new());
        let (here, size, next) = (true, 0, 0);
        self.files
            .insert(file, Node { inode, directory, entry, here, size, blocks, indirect, next });
        Ok(())
    }

    fn group_of_inode(&self, inode: u32) -> usize {
        (inode / self.config.group_inodes) as usize
    }

    fn new_inode(&mut self, wanted: usize) -> Result<u32, FfsFull> {
        let (count, each) = (self.groups.len(), self.config.group_inodes);
        for i in 0..count {
            let at = (wanted + i) % count;
            let group = &mut self.groups[at];
            let local = group.spare.pop().or_else(|| {
                (group.inodes < each).then(|| {
                    group.inodes += 1;
                    group.inodes - 1
                })
            });
            if let Some(local) = local {
                return Ok(at as u32 * each + local);
            }
        }
        Err(FfsFull)
    }

    /// The next free block of a cylinder group, or of the next one with room.
    fn new_block(&mut self, wanted: usize) -> Result<u32, FfsFull> {
        let (count, each) = (self.groups.len(), self.config.group_blocks);
        for i in 0..count {
            let at = (wanted + i) % count;
            let group = &mut self.groups[at];
            if group.free == 0 {
                continue;
            }
            let found = (group.hint..each)
                .chain(0..group.hint)
                .find(|&b| group.used[b as usize / 64] & 1 << (b % 64) == 0);
            if let Some(b) = found {
                group.used[b as usize / 64] |= 1 << (b % 64);
                group.free -= 1;
                group.hint = b + 1;
                return Ok(at as u32 * each + b);
            }
        }
        Err(FfsFull)
    }

    fn free_block(&mut self, block: u32) {
        let (at, b) = (block / self.config.group_blocks, block % self.config.group_blocks);
        let group = &mut self.groups[at as usize];
        group.used[b as usize / 64] &= !(1 << (b % 64));
        group.free += 1;
        group.hint = group.hint.min(b);
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        if let Some(old) = self.cache.remove(&block) {
            self.by_use.remove(&old.used);
            self.cached -= u64::from(old.sectors);
            if let Some(time) = old.dirty {
                self.dirty.remove(&(time, block));
            }
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub(crate) const fn cached_bytes(&self) -> u64 {
        self.cached * SECTOR_BYTES
    }

    /// Counts uses; a block used later has a larger one. Two caches that share their memory share this count.
    #[must_use]
    pub(crate) const fn uses(&self) -> u64 {
        self.clock
    }

    /// Goes on counting uses from here, if that is further.
    pub(crate) const fn count_from(&mut self, uses: u64) {
        if uses > self.clock {
            self.clock = uses;
        }
    }

    /// The use of the block that was not used for longest.
    #[must_use]
    pub(crate) fn oldest_use(&self) -> Option<u64> {
        self.by_use.first_key_value().map(|(used, _)| *used)
    }

    /// Forgets the block that was not used for longest; where it is newer than on the disk, it is written.
    pub(crate) fn forget_oldest(&mut self) -> Work {
        let mut work = Work::default();
        let Some((_, oldest)) = self.by_use.pop_first() else { return work };
        let Some(buffer) = self.cache.remove(&oldest) else { return work };
        self.cached -= u64::from(buffer.sectors);
        if let Some(time) = buffer.dirty {
            self.dirty.remove(&(time, oldest));
            let extent = Self::extent(oldest, buffer.sectors.into());
            work.later.push((Op::Write, extent, buffer.part));
        }
        work
    }

    /// Gives a file blocks up to `size`.
    fn grow(&mut self, file: u64, size: u64) -> Result<(), FfsFull> {
        let Some(node) = self.files.get(&file) else { return Ok(()) };
        let (home, mut have) = (self.group_of_inode(node.inode), node.blocks.len() as u64);
        while have < size.div_ceil(BLOCK) {
            let at = home + have.saturating_sub(DIRECT).div_ceil(RUN) as usize;
            if have >= DIRECT && (have - DIRECT).is_multiple_of(INDIRECT) {
                let indirect = self.new_block(at)?;
                if let Some(node) = self.files.get_mut(&file) {
                    node.indirect.push(indirect);
                }
            }
            let block = self.new_block(at)?;
            if let Some(node) = self.files.get_mut(&file) {
                node.blocks.push(block);
            }
            have += 1;
        }
        if let Some(node) = self.files.get_mut(&file) {
            node.size = node.size.max(size);
        }
        Ok(())
    }

    fn inode_block(&self, inode: u32) -> u32 {
        let at = inode / self.config.group_inodes;
        at * self.config.group_blocks + 1 + inode % self.config.group_inodes / INODES
    }

    fn summary_block(&self, block: u32) -> u32 {
        block / self.config.group_blocks * self.config.group_blocks
    }

    fn extent(block: u32, sectors: u64) -> Extent {
        Extent::new(u64::from(block) * BLOCK_SECTORS, sectors)
    }

    /// Looks for a block, and reads it where it is not in memory.
    fn need(&mut self, block: u32, sectors: u8, part: Part, work: &mut Work) {
        self.stats.lookups += 1;
        if self.touch(block, sectors) {
            self.stats.hits += 1;
            return;
        }
        let ahead = (self.config.read_ahead.0 / BLOCK) as u32;
        let last = self.groups.len() as u32 * self.config.group_blocks;
        let mut end = block + 1;
        while end < (block + ahead).min(last) && !self.cache.contains_key(&end) {
            end += 1;
        }
        let length = if end == block + 1 {
            u64::from(sectors)
        } else {
            u64::from(end - block) * BLOCK_SECTORS
        };
        work.wait.push((Op::Read, Self::extent(block, length), part));
        for b in (block + 1..end).rev() {
            self.insert(b, BLOCK_SECTORS as u8, part, work);
        }
        self.insert(
            block,
            if length == u64::from(sectors) { sectors } else { BLOCK_SECTORS as u8 },
            part,
            work,
        );
    }

    fn touch(&mut self, block: u32, sectors: u8) -> bool {
        self.clock += 1;
        let Some(buffer) = self.cache.get_mut(&block) else { return false };
        self.by_use.remove(&buffer.used);
        buffer.used = self.clock;
        self.by_use.insert(self.clock, block);
        buffer.sectors >= sectors || buffer.dirty.is_some()
    }

    fn insert(&mut self, block: u32, sectors: u8, part: Part, work: &mut Work) {
        self.clock += 1;
        let old = self.cache.remove(&block);
        if let Some(old) = old {
            self.by_use.remove(&old.used);
            self.cached -= u64::from(old.sectors);
        }
        let dirty = old.and_then(|b| b.dirty);
        self.cache.insert(block, Buffer { used: self.clock, dirty, sectors, part });
        self.cached += u64::from(sectors);
        self.by_use.insert(self.clock, block);
        while self.cached_bytes() > self.config.cache.0 && self.cache.len() > 1 {
            work.later.extend(self.forget_oldest().later);
        }
    }

    /// A block is changed in memory; `sync`: and on the disk before the caller goes on.
    fn change(
        &mut self,
        now: SimTime,
        block: u32,
        sectors: u8,
        part: Part,
        sync: bool,
        work: &mut Work,
    ) {
        if !self.touch(block, 0) {
            self.insert(block, sectors, part, work);
        }
        let Some(buffer) = self.cache.get_mut(&block) else { return };
        // What was read ahead was not known to be this.
        buffer.part = part;
        self.cached += u64::from(sectors.saturating_sub(buffer.sectors));
        buffer.sectors = buffer.sectors.max(sectors);
        if sync {
            if let Some(time) = buffer.dirty.take() {
                self.dirty.remove(&(time, block));
            }
            work.wait.push((Op::Write, Self::extent(block, buffer.sectors.into()), part));
        } else if buffer.dirty.is_none() {
            buffer.dirty = Some(now);
            self.dirty.insert((now, block));
        }
    }

    /// Finds a file by its name: its directory's inode and block, and its own inode.
    pub(crate) fn lookup(&mut self, file: u64) -> Work {
        let mut work = Work::default();
        let Some(node) = self.files.get(&file) else { return work };
        let (inode, here, entry) = (node.inode, node.here, node.entry);
        let Some(d) = self.directories.get(&node.directory) else { return work };
        let (own, block) = (d.inode, d.blocks.get((entry / ENTRIES) as usize).copied());
        self.need(self.inode_block(own), BLOCK_SECTORS as u8, Part::Inode, &mut work);
        if let Some(block) = block {
            self.need(block, BLOCK_SECTORS as u8, Part::Directory, &mut work);
        }
        if here {
            self.need(self.inode_block(inode), BLOCK_SECTORS as u8, Part::Inode, &mut work);
        }
        work
    }

    /// Sectors of a file's block: the last one is as long as its fragments.
    fn sectors_of(size: u64, index: u64) -> u8 {
        let left = size.saturating_sub(index * BLOCK).min(BLOCK);
        (left.div_ceil(FRAGMENT) * FRAGMENT / SECTOR_BYTES) as u8
    }

    /// Reads bytes of a file that is here, and notes when. Who goes on where the last read ended gets what follows in
    /// one run along with it, as far as that is the file's (4.4BSD's `cluster_read`).
    pub(crate) fn read(&mut self, now: SimTime, file: u64, offset: u64, len: u64) -> Work {
        let mut work = Work::default();
        let Some(node) = self.files.get_mut(&file).filter(|f| f.here) else { return work };
        let end = offset.saturating_add(len).min(node.size);
        let (inode, size) = (node.inode, node.size);
        let (from, to) = (offset / BLOCK, end.div_ceil(BLOCK));
        let mut on = if from > 0 && from == node.next { CLUSTER_BLOCKS } else { 0 };
        node.next = to;
        for index in from..size.div_ceil(BLOCK) {
            if index >= to && (on == 0 || work.wait.is_empty()) {
                break;
            }
            let block_of = |i: u64| {
                self.files.get(&file).and_then(|f| f.blocks.get(usize::try_from(i).ok()?).copied())
            };
            let Some(block) = block_of(index) else { break };
            if index >= to {
                let follows = index > 0 && block_of(index - 1).is_some_and(|b| b + 1 == block);
                if !follows || self.cache.contains_key(&block) {
                    break;
                }
            }
            self.through_indirect(file, index, &mut work);
            self.need(block, Self::sectors_of(size, index), Part::Data(file), &mut work);
            on = on.saturating_sub(1);
        }
        self.change(
            now,
            self.inode_block(inode),
            BLOCK_SECTORS as u8,
            Part::Inode,
            false,
            &mut work,
        );
        merge(&mut work.wait);
        work
    }

    fn through_indirect(&mut self, file: u64, index: u64, work: &mut Work) {
        if index >= DIRECT
            && let Some(node) = self.files.get(&file)
            && let Some(&block) = node.indirect.get(((index - DIRECT) / INDIRECT) as usize)
        {
            self.need(block, BLOCK_SECTORS as u8, Part::Indirect, work);
        }
    }

    /// Writes bytes of a file that is here; a block that is written in part is read first.
    ///
    /// # Errors
    /// Where there is no room.
    pub(crate) fn write(
        &mut self,
        now: SimTime,
        file: u64,
        offset: u64,
        len: u64,
    ) -> Result<Work, FfsFull> {
        let mut work = Work::default();
        let Some(node) = self.files.get(&file).filter(|f| f.here) else { return Ok(work) };
        let (inode, old) = (node.inode, node.size);
        let end = offset.saturating_add(len);
        self.grow(file, end)?;
        let size = old.max(end);
        let (part, sync) = (Part::Data(file), self.config.sync);
        for index in offset / BLOCK..end.div_ceil(BLOCK) {
            self.through_indirect(file, index, &mut work);
            let Some(block) =
                self.files.get(&file).and_then(|f| f.blocks.get(index as usize).copied())
            else {
                break;
            };
            let sectors = Self::sectors_of(size, index);
            let (from, to) = (index * BLOCK, (index + 1) * BLOCK);
            let kept_before = offset > from && old > from;
            let kept_behind = end < to.min(old);
            if kept_before || kept_behind {
                self.need(block, Self::sectors_of(old, index), part, &mut work);
            }
            self.change(now, block, sectors, part, sync, &mut work);
            if old < end {
                self.change(
                    now,
                    self.summary_block(block),
                    BLOCK_SECTORS as u8,
                    Part::Summary,
                    false,
                    &mut work,
                );
            }
        }
        self.change(
            now,
            self.inode_block(inode),
            BLOCK_SECTORS as u8,
            Part::Inode,
            sync,
            &mut work,
        );
        merge(&mut work.wait);
        Ok(work)
    }

    /// Makes a file: its inode and its entry are written before it goes on.
    ///
    /// # Errors
    /// Where there is no room.
    pub(crate) fn create(
        &mut self,
        now: SimTime,
        file: u64,
        directory: u32,
    ) -> Result<Work, FfsFull> {
        let mut work = Work::default();
        self.enter(file, directory)?;
        self.sync_names(now, file, &mut work);
        Ok(work)
    }

    fn sync_names(&mut self, now: SimTime, file: u64, work: &mut Work) {
        let Some(node) = self.files.get(&file) else { return };
        let (inode, directory, entry) = (node.inode, node.directory, node.entry);
        self.change(now, self.inode_block(inode), BLOCK_SECTORS as u8, Part::Inode, true, work);
        let block = self
            .directories
            .get(&directory)
            .and_then(|d| d.blocks.get((entry / ENTRIES) as usize))
            .copied();
        if let Some(block) = block {
            self.change(now, block, BLOCK_SECTORS as u8, Part::Directory, true, work);
        }
    }

    /// Cuts a file that is here: its inode is written before it goes on, as 4.4BSD's `ffs_truncate` does.
    pub(crate) fn truncate(&mut self, now: SimTime, file: u64, size: u64) -> Work {
        let mut work = Work::default();
        let Some(node) = self.files.get_mut(&file).filter(|f| f.here) else { return work };
        let inode = node.inode;
        node.size = node.size.min(size);
        let keep = size.div_ceil(BLOCK) as usize;
        let gone = if keep < node.blocks.len() { node.blocks.split_off(keep) } else { Vec::new() };
        for block in gone {
            self.change(
                now,
                self.summary_block(block),
                BLOCK_SECTORS as u8,
                Part::Summary,
                false,
                &mut work,
            );
            self.free_block(block);
        }
        self.change(
            now,
            self.inode_block(inode),
            BLOCK_SECTORS as u8,
            Part::Inode,
            true,
            &mut work,
        );
        work
    }

    /// Removes a file: its entry and inode are written before it goes on.
    pub(crate) fn unlink(&mut self, now: SimTime, file: u64) -> Work {
        let mut work = Work::default();
        self.sync_names(now, file, &mut work);
        if let Some(node) = self.files.remove(&file) {
            self.release(&node);
        }
        work
    }

    fn release(&mut self, node: &Node) {
        for &block in node.blocks.iter().chain(&node.indirect) {
            self.free_block(block);
        }
        if node.here {
            let at = self.group_of_inode(node.inode);
            self.groups[at].spare.push(node.inode % self.config.group_inodes);
        }
    }

    /// The file is elsewhere now (EEFS): its blocks and its inode are free, its entry says so.
    pub(crate) fn leave(&mut self, now: SimTime, file: u64) -> Work {
        let mut work = Work::default();
        self.sync_names(now, file, &mut work);
        if let Some(node) = self.files.get_mut(&file) {
            let old = node.clone();
            (node.here, node.size) = (false, 0);
            (node.blocks, node.indirect) = (Vec::new(), Vec::new());
            self.release(&old);
        }
        work
    }

    /// The file is here again, with `size` bytes.
    ///
    /// # Errors
    /// Where there is no room.
    pub(crate) fn come_back(
        &mut self,
        now: SimTime,
        file: u64,
        size: u64,
    ) -> Result<Work, FfsFull> {
        let Some(node) = self.files.get(&file).filter(|f| !f.here) else {
            return Ok(Work::default());
        };
        let Some(at) = self.directories.get(&node.directory).map(|d| self.group_of_inode(d.inode))
        else {
            return Err(FfsFull);
        };
        let inode = self.new_inode(at)?;
        if let Some(node) = self.files.get_mut(&file) {
            (node.here, node.inode) = (true, inode);
        }
        let mut work = self.write(now, file, 0, size)?;
        self.sync_names(now, file, &mut work);
        Ok(work)
    }

    /// Makes a file's blocks and inode durable.
    pub(crate) fn sync(&mut self, file: u64) -> Work {
        let mut work = Work::default();
        let Some(node) = self.files.get(&file).filter(|f| f.here) else { return work };
        let mut blocks = node.blocks.clone();
        blocks.extend(&node.indirect);
        blocks.push(self.inode_block(node.inode));
        work.wait = self.clean(blocks);
        work
    }

    /// Writes all that is dirty once something has been for long enough, as the update daemon's `sync` does: a file's blocks
    /// that lie together in one request; blocks of inodes, directories and other files each by itself, whatever it lies
    /// beside, as 4.4BSD does.
    pub(crate) fn update(&mut self, now: SimTime) -> Work {
        if self.wakeup().is_none_or(|at| at > now) {
            return Work::default();
        }
        Work { wait: Vec::new(), later: self.sync_all().wait }
    }

    /// Writes everything.
    pub(crate) fn sync_all(&mut self) -> Work {
        let all = self.dirty.iter().map(|(_, b)| *b).collect();
        Work { wait: self.clean(all), later: Vec::new() }
    }

    /// When [`Self::update`] has something to do.
    #[must_use]
    pub(crate) fn wakeup(&self) -> Option<SimTime> {
        self.dirty.first().map(|(t, _)| *t + self.config.write_after)
    }

    fn clean(&mut self, mut blocks: Vec<u32>) -> Vec<(Op, Extent, Part)> {
        blocks.sort_unstable();
        let mut writes = Vec::new();
        for block in blocks {
            let Some(buffer) = self.cache.get_mut(&block) else { continue };
            if let Some(time) = buffer.dirty.take() {
                let extent = Self::extent(block, buffer.sectors.into());
                writes.push((Op::Write, extent, buffer.part));
                self.dirty.remove(&(time, block));
            }
        }
        merge(&mut writes);
        writes
    }
}

/// Requests of one kind for one file that follow each other on the disk become one, up to a cluster.
fn merge(all: &mut Vec<(Op, Extent, Part)>) {
    all.dedup_by(|next, first| {
        let joined = Extent::span(first.1.start.0, next.1.end().0);
        let one = first.0 == next.0
            && matches!(first.2, Part::Data(_))
            && first.2 == next.2
            && first.1.end() == next.1.start
            && joined.len.0 <= CLUSTER_BLOCKS * BLOCK_SECTORS;
        if one {
            first.1 = joined;
        }
        one
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: SimTime = SimTime(1);

    fn small() -> Ffs {
        Ffs::new(FfsConfig::new(Sectors(1 << 20), Bytes(1 << 20)))
    }

    #[test]
    fn a_cold_read_takes_the_names_and_the_blocks_and_a_warm_one_nothing() {
        let mut fs = small();
        fs.place(1, 7, 20_000).unwrap();
        // The directory's inode, which the file's is beside; its block; then 20,000 bytes in one run.
        let names = fs.lookup(1);
        assert_eq!(names.wait.len(), 2);
        let read = fs.read(T, 1, 0, 20_000);
        assert_eq!(read.wait.len(), 1);
        // Two blocks, and of the third four fragments.
        assert_eq!(read.wait[0].1.len, Sectors(40));
        assert!(fs.lookup(1).wait.is_empty() && fs.read(T, 1, 0, 20_000).wait.is_empty());
        // The time of the access goes with the next update.
        assert_eq!(fs.wakeup(), Some(T + Duration::from_millis(30_000)));
        assert!(fs.update(T).later.is_empty());
        assert_eq!(fs.update(fs.wakeup().unwrap()).later.len(), 1);
        assert_eq!(fs.wakeup(), None);
    }

    #[test]
    fn names_are_written_at_once_and_bytes_later() {
        let mut fs = small();
        let made = fs.create(T, 1, 7).unwrap();
        assert_eq!(made.wait.iter().map(|w| w.0).collect::<Vec<_>>(), [Op::Write, Op::Write]);
        assert!(fs.write(T, 1, 0, 3_000).unwrap().wait.is_empty());
        // A part of a block that is in memory needs no reading; the file's own sync takes block and inode.
        assert!(fs.write(T, 1, 1_000, 100).unwrap().wait.is_empty());
        assert_eq!(fs.sync(1).wait.len(), 2);
        assert!(fs.sync(1).wait.is_empty());
        assert_eq!(fs.unlink(T, 1).wait.len(), 2);
        assert!(!fs.knows(1));
    }

    /// What 4.4BSD clusters: blocks of one file, and never of two, nor of inodes, however they lie.
    #[test]
    fn one_files_blocks_go_in_one_request_and_two_files_never_do() {
        let mut fs = small();
        (0..2).for_each(|f| fs.place(f, 7, 30_000).unwrap());
        for at in (0..30_000).step_by(8_192) {
            let now = T + Duration::from_millis(at);
            (0..2).for_each(|f| drop(fs.write(now, f, at, 8_192.min(30_000 - at)).unwrap()));
        }
        let gone = fs.update(fs.wakeup().unwrap()).later;
        let data =
            |f| gone.iter().filter(|w| w.2 == Part::Data(f)).map(|w| w.1.len.0).collect::<Vec<_>>();
        assert_eq!([data(0), data(1)], [vec![60], vec![60]], "{gone:?}");
        // Both inodes are in one block.
        assert_eq!(gone.len(), 3);
        assert_eq!(fs.wakeup(), None);
    }

    #[test]
    fn who_reads_on_gets_the_rest_of_his_file_and_nothing_else() {
        let mut fs = small();
        (0..2).for_each(|f| fs.place(f, 7, 40_960).unwrap());
        let lens = |w: Work| w.wait.iter().map(|w| w.1.len.0).collect::<Vec<_>>();
        assert_eq!(lens(fs.read(T, 0, 0, 8_192)), [16]);
        assert_eq!(lens(fs.read(T, 0, 8_192, 8_192)), [64]);
        assert!((2..5).all(|i| fs.read(T, 0, i * 8_192, 8_192).wait.is_empty()));
        // Elsewhere than behind the last read: a block.
        assert_eq!(lens(fs.read(T, 1, 16_384, 8_192)), [16]);
    }

    #[test]
    fn a_cut_and_a_write_under_sync_write_the_inode_at_once() {
        let config = FfsConfig { sync: true, ..FfsConfig::new(Sectors(1 << 20), Bytes(1 << 20)) };
        let mut fs = Ffs::new(config);
        fs.place(1, 7, 30_000).unwrap();
        let parts = |w: Work| w.wait.iter().map(|w| w.2).collect::<Vec<_>>();
        assert_eq!(parts(fs.truncate(T, 1, 0)), [Part::Inode]);
        let wrote = parts(fs.write(T, 1, 0, 20_000).unwrap());
        assert_eq!(wrote, [Part::Data(1), Part::Inode]);
    }

    #[test]
    fn blocks_come_back_and_a_large_file_is_found_through_its_indirect_block() {
        let mut fs = small();
        let free = |fs: &Ffs| fs.groups.iter().map(|g| g.free).sum::<u32>();
        fs.place(1, 7, 100).unwrap();
        let before = free(&fs);
        fs.place(2, 7, 1 << 20).unwrap();
        assert_eq!(before - free(&fs), 128 + 1);
        let cold = fs.read(T, 2, 1 << 19, 1);
        assert_eq!(cold.wait.len(), 2, "{cold:?}");
        let gone = fs.leave(T, 2);
        assert_eq!((gone.wait.len(), free(&fs)), (2, before));
        assert_eq!(fs.size(2), None);
        fs.come_back(T, 2, 5_000).unwrap();
        assert_eq!((fs.size(2), free(&fs)), (Some(5_000), before - 1));
    }

    #[test]
    fn read_ahead_brings_what_lies_behind() {
        let config = FfsConfig {
            read_ahead: Bytes(65_536),
            ..FfsConfig::new(Sectors(1 << 20), Bytes(1 << 20))
        };
        let mut fs = Ffs::new(config);
        (0..8).for_each(|f| fs.place(f, 7, 8_192).unwrap());
        let first = fs.read(T, 0, 0, 8_192);
        assert_eq!(first.wait.iter().map(|w| w.1.len.0).collect::<Vec<_>>(), [128]);
        assert!((1..8).all(|f| fs.read(T, f, 0, 8_192).wait.is_empty()));
    }

    #[test]
    fn the_cache_keeps_its_size_and_writes_what_it_forgets() {
        let mut fs = small();
        (0..200).for_each(|f| fs.place(f, 7, 8_192).unwrap());
        let mut written = 0;
        for f in 0..200 {
            written += fs.write(T, f, 0, 8_192).unwrap().later.len();
            assert!(fs.cached_bytes() <= 1 << 20);
            let sum: u64 = fs.cache.values().map(|b| u64::from(b.sectors)).sum();
            assert_eq!(fs.cached, sum);
        }
        assert!(written > 60, "{written}");
    }
}
