//! Inodes and blocks: allocation in cylinder groups, and addresses on the disk.

use seekless_block::{Extent, SECTOR_BYTES};

use super::{
    BLOCK, BLOCK_SECTORS, DIRECT, Directory, ENTRIES, FRAGMENT, Ffs, FfsFull, INDIRECT, INODES,
    Node, Placed, RUN,
};

impl Ffs {
    pub(super) fn enter(&mut self, file: u64, directory: u32) -> Placed {
        if !self.directories.contains_key(&directory) {
            // Directories go to the group with the most free space.
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

    pub(super) fn group_of_inode(&self, inode: u32) -> usize {
        (inode / self.config.group_inodes) as usize
    }

    pub(super) fn new_inode(&mut self, wanted: usize) -> Placed<u32> {
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

    /// The next free block of a cylinder group, or of the next group with space.
    pub(super) fn new_block(&mut self, wanted: usize) -> Placed<u32> {
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

    pub(super) fn free_block(&mut self, block: u32) {
        let (at, b) = (block / self.config.group_blocks, block % self.config.group_blocks);
        let group = &mut self.groups[at as usize];
        group.used[b as usize / 64] &= !(1 << (b % 64));
        group.free += 1;
        group.hint = group.hint.min(b);
        self.forget(block);
    }

    /// Gives a file blocks up to `size`.
    pub(super) fn grow(&mut self, file: u64, size: u64) -> Placed {
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

    pub(super) fn inode_block(&self, inode: u32) -> u32 {
        let at = inode / self.config.group_inodes;
        at * self.config.group_blocks + 1 + inode % self.config.group_inodes / INODES
    }

    pub(super) fn summary_block(&self, block: u32) -> u32 {
        block / self.config.group_blocks * self.config.group_blocks
    }

    pub(super) fn extent(block: u32, sectors: u64) -> Extent {
        Extent::new(u64::from(block) * BLOCK_SECTORS, sectors)
    }

    /// Sectors of a file's block; the last block has its fragments alone.
    pub(super) fn sectors_of(size: u64, index: u64) -> u8 {
        let left = size.saturating_sub(index * BLOCK).min(BLOCK);
        (left.div_ceil(FRAGMENT) * FRAGMENT / SECTOR_BYTES) as u8
    }

    pub(super) fn release(&mut self, node: &Node) {
        for &block in node.blocks.iter().chain(&node.indirect) {
            self.free_block(block);
        }
        if node.here {
            let at = self.group_of_inode(node.inode);
            self.groups[at].spare.push(node.inode % self.config.group_inodes);
        }
    }
}
