//! Operations on files: each returns the requests of the disk.

use seekless_block::SimTime;

use super::cache::merge;
use super::{
    BLOCK, BLOCK_SECTORS, BlockContent, CLUSTER_BLOCKS, DIRECT, ENTRIES, Ffs, FfsFull, INDIRECT,
    NAME_MISSES, Node, Placed, Work,
};

impl Ffs {
    /// Finds a file by name. A name in the name cache leads to an inode in memory (4.4BSD's
    /// `cache_lookup`). Otherwise the directory's block is searched, and the file's inode is read
    /// unless it is in memory (`ufs_lookup`, `ffs_vget`). Inodes of directories stay in memory.
    pub(crate) fn lookup(&mut self, file: u64) -> Work {
        let mut work = Work::default();
        self.stats.names += 1;
        let in_memory = self.inodes.put(file, ()).is_some();
        if in_memory && self.stats.names % 10 >= NAME_MISSES {
            self.stats.name_hits += 1;
            return work;
        }
        let Some(node) = self.files.get(&file) else { return work };
        let (inode, here) = (node.inode, node.here);
        if let Some(block) = self.entry_block(node) {
            self.need(block, BLOCK_SECTORS as u8, BlockContent::Directory, &mut work);
        }
        if here && !in_memory {
            self.need(self.inode_block(inode), BLOCK_SECTORS as u8, BlockContent::Inode, &mut work);
        }
        work
    }

    /// Reads bytes of a file that is here, and changes its time of access. A sequential read also
    /// reads the file's next blocks if they are adjacent on the disk (4.4BSD's `cluster_read`).
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
            let Some(block) = self.data_block(file, index) else { break };
            if index >= to {
                let before = index.checked_sub(1).and_then(|i| self.data_block(file, i));
                let follows = before.is_some_and(|b| b + 1 == block);
                if !follows || self.cache.contains_key(&block) {
                    break;
                }
            }
            self.through_indirect(file, index, &mut work);
            self.need(block, Self::sectors_of(size, index), BlockContent::Data(file), &mut work);
            on = on.saturating_sub(1);
        }
        self.change_inode(now, inode, false, &mut work);
        merge(&mut work.wait);
        work
    }

    fn data_block(&self, file: u64, index: u64) -> Option<u32> {
        self.files.get(&file)?.blocks.get(usize::try_from(index).ok()?).copied()
    }

    /// The block of a directory that holds a file's entry.
    fn entry_block(&self, node: &Node) -> Option<u32> {
        let directory = self.directories.get(&node.directory)?;
        directory.blocks.get((node.entry / ENTRIES) as usize).copied()
    }

    fn change_summary(&mut self, now: SimTime, block: u32, work: &mut Work) {
        let (summary, sectors) = (self.summary_block(block), BLOCK_SECTORS as u8);
        self.change(now, summary, sectors, BlockContent::Summary, false, work);
    }

    pub(super) fn through_indirect(&mut self, file: u64, index: u64, work: &mut Work) {
        if index >= DIRECT
            && let Some(node) = self.files.get(&file)
            && let Some(&block) = node.indirect.get(((index - DIRECT) / INDIRECT) as usize)
        {
            self.need(block, BLOCK_SECTORS as u8, BlockContent::Indirect, work);
        }
    }

    /// Writes bytes of a file that is here; a partly written block is read first.
    pub(crate) fn write(&mut self, now: SimTime, file: u64, offset: u64, len: u64) -> Placed<Work> {
        let mut work = Work::default();
        let Some(node) = self.files.get(&file).filter(|f| f.here) else { return Ok(work) };
        let (inode, old) = (node.inode, node.size);
        let end = offset.saturating_add(len);
        self.grow(file, end)?;
        let size = old.max(end);
        let (part, sync) = (BlockContent::Data(file), self.config.sync);
        for index in offset / BLOCK..end.div_ceil(BLOCK) {
            self.through_indirect(file, index, &mut work);
            let Some(block) = self.data_block(file, index) else { break };
            let sectors = Self::sectors_of(size, index);
            let (from, to) = (index * BLOCK, (index + 1) * BLOCK);
            let kept_before = offset > from && old > from;
            let kept_behind = end < to.min(old);
            if kept_before || kept_behind {
                self.need(block, Self::sectors_of(old, index), part, &mut work);
            }
            self.change(now, block, sectors, part, sync, &mut work);
            if old < end {
                self.change_summary(now, block, &mut work);
            }
        }
        self.change_inode(now, inode, sync, &mut work);
        merge(&mut work.wait);
        Ok(work)
    }

    /// Creates a file; the caller waits for the writes of its inode and its entry.
    pub(crate) fn create(&mut self, now: SimTime, file: u64, directory: u32) -> Placed<Work> {
        let mut work = Work::default();
        self.enter(file, directory)?;
        self.sync_names(now, file, &mut work);
        Ok(work)
    }

    pub(super) fn sync_names(&mut self, now: SimTime, file: u64, work: &mut Work) {
        let Some(node) = self.files.get(&file) else { return };
        let (inode, block) = (node.inode, self.entry_block(node));
        self.change_inode(now, inode, true, work);
        if let Some(block) = block {
            self.change(now, block, BLOCK_SECTORS as u8, BlockContent::Directory, true, work);
        }
    }

    /// Truncates a file that is here; the caller waits for the write of its inode, as with 4.4BSD's
    /// `ffs_truncate`.
    pub(crate) fn truncate(&mut self, now: SimTime, file: u64, size: u64) -> Work {
        let mut work = Work::default();
        let Some(node) = self.files.get_mut(&file).filter(|f| f.here) else { return work };
        let inode = node.inode;
        node.size = node.size.min(size);
        let keep = size.div_ceil(BLOCK) as usize;
        let gone = if keep < node.blocks.len() { node.blocks.split_off(keep) } else { Vec::new() };
        for block in gone {
            self.change_summary(now, block, &mut work);
            self.free_block(block);
        }
        self.change_inode(now, inode, true, &mut work);
        work
    }

    /// Removes a file; the caller waits for the writes of its entry and its inode.
    pub(crate) fn unlink(&mut self, now: SimTime, file: u64) -> Work {
        let mut work = Work::default();
        self.sync_names(now, file, &mut work);
        self.inodes.pop(&file);
        if let Some(node) = self.files.remove(&file) {
            self.release(&node);
        }
        work
    }

    /// Moves the file away (EEFS): frees its blocks and its inode, and marks its entry.
    pub(crate) fn leave(&mut self, now: SimTime, file: u64) -> Work {
        let mut work = Work::default();
        self.sync_names(now, file, &mut work);
        self.inodes.pop(&file);
        if let Some(node) = self.files.get_mut(&file) {
            let old = node.clone();
            (node.here, node.size) = (false, 0);
            (node.blocks, node.indirect) = (Vec::new(), Vec::new());
            self.release(&old);
        }
        work
    }

    /// Moves the file back, with `size` bytes.
    pub(crate) fn come_back(&mut self, now: SimTime, file: u64, size: u64) -> Placed<Work> {
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
}
