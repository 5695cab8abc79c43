//! The buffer cache: least recently used blocks leave, changed blocks are written later or at once.

use seekless_block::{Extent, Op, SECTOR_BYTES, SimTime};

use super::{BLOCK, BLOCK_SECTORS, BlockContent, Buffer, CLUSTER_BLOCKS, Ffs, Work};

impl Ffs {
    pub(super) fn forget(&mut self, block: u32) {
        if let Some(old) = self.cache.remove(&block) {
            self.by_use.remove(&old.used);
            self.cached -= u64::from(old.sectors);
            if let Some(time) = old.dirty {
                self.dirty.remove(&(time, block));
            }
        }
    }

    pub(crate) const fn cached_bytes(&self) -> u64 {
        self.cached * SECTOR_BYTES
    }

    /// The count of uses; a block used later has a greater number. Two caches that share memory
    /// share this count.
    pub(crate) const fn uses(&self) -> u64 {
        self.clock
    }

    /// Continues the count of uses from here, if that is greater.
    pub(crate) const fn count_from(&mut self, uses: u64) {
        if uses > self.clock {
            self.clock = uses;
        }
    }

    /// The use of the least recently used block.
    pub(crate) fn oldest_use(&self) -> Option<u64> {
        self.by_use.first_key_value().map(|(used, _)| *used)
    }

    /// Evicts the least recently used block, and writes it if it is dirty.
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

    /// Looks a block up, and reads it if it is not in memory.
    pub(super) fn need(&mut self, block: u32, sectors: u8, part: BlockContent, work: &mut Work) {
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

    pub(super) fn touch(&mut self, block: u32, sectors: u8) -> bool {
        self.clock += 1;
        let Some(buffer) = self.cache.get_mut(&block) else { return false };
        self.by_use.remove(&buffer.used);
        buffer.used = self.clock;
        self.by_use.insert(self.clock, block);
        buffer.sectors >= sectors || buffer.dirty.is_some()
    }

    pub(super) fn insert(&mut self, block: u32, sectors: u8, part: BlockContent, work: &mut Work) {
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

    /// Changes a block in memory; with `sync`, the caller waits for its write.
    pub(super) fn change(
        &mut self,
        now: SimTime,
        block: u32,
        sectors: u8,
        part: BlockContent,
        sync: bool,
        work: &mut Work,
    ) {
        if !self.touch(block, 0) {
            self.insert(block, sectors, part, work);
        }
        let Some(buffer) = self.cache.get_mut(&block) else { return };
        // Read-ahead does not know the content of a block.
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

    /// Changes an inode in memory. If its block is not in memory, the block is read before it is
    /// written (4.4BSD's `ffs_update`).
    pub(super) fn change_inode(&mut self, now: SimTime, inode: u32, sync: bool, work: &mut Work) {
        let (block, sectors) = (self.inode_block(inode), BLOCK_SECTORS as u8);
        if !self.cache.contains_key(&block) {
            let read = (Op::Read, Self::extent(block, sectors.into()), BlockContent::Inode);
            if sync { work.wait.push(read) } else { work.later.push(read) }
        }
        self.change(now, block, sectors, BlockContent::Inode, sync, work);
    }

    /// Writes all dirty blocks once the oldest is old enough, as the update daemon's `sync` does:
    /// adjacent blocks of a file in one request; each block of inodes, directories and other files
    /// in its own request, as 4.4BSD does.
    pub(crate) fn update(&mut self, now: SimTime) -> Work {
        if self.wakeup().is_none_or(|at| at > now) {
            return Work::default();
        }
        Work { wait: Vec::new(), later: self.sync_all().wait }
    }

    /// Writes all dirty blocks.
    pub(crate) fn sync_all(&mut self) -> Work {
        let all = self.dirty.iter().map(|(_, b)| *b).collect();
        Work { wait: self.clean(all), later: Vec::new() }
    }

    /// The next time at which [`Self::update`] writes.
    pub(crate) fn wakeup(&self) -> Option<SimTime> {
        self.dirty.first().map(|(t, _)| *t + self.config.write_after)
    }

    pub(super) fn clean(&mut self, mut blocks: Vec<u32>) -> Vec<(Op, Extent, BlockContent)> {
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

/// Joins adjacent requests of one kind for one file, up to a cluster.
pub(super) fn merge(all: &mut Vec<(Op, Extent, BlockContent)>) {
    all.dedup_by(|next, first| {
        let joined = Extent::span(first.1.start.0, next.1.end().0);
        let one = first.0 == next.0
            && matches!(first.2, BlockContent::Data(_))
            && first.2 == next.2
            && first.1.end() == next.1.start
            && joined.len.0 <= CLUSTER_BLOCKS * BLOCK_SECTORS;
        if one {
            first.1 = joined;
        }
        one
    });
}
