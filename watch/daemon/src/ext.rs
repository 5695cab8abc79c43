//! Inodes of ext2, ext3 and ext4 as they stand on the device. A worker waits for them here, with
//! only the device open. When it then opens the file, the kernel finds everything in memory, so
//! that an open file never waits for the disk and never keeps a mount busy for long.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Where the superblock is, and its length.
const SUPERBLOCK: (u64, usize) = (1024, 1024);
const MAGIC: u16 = 0xEF53;
/// Features that change where inodes are: groups of descriptors, 64-bit block numbers.
const META_GROUPS: u32 = 0x10;
const WIDE: u32 = 0x80;
/// Flags of inodes: a map of extents; contents that are no plain pages of the device.
const EXTENTS: u32 = 0x8_0000;
const NOT_PLAIN: u32 = 0x800 | 0x10_0000 | 0x1000_0000;
const EXTENT_MAGIC: u16 = 0xF30A;
/// Deepest tree of extents.
const LEVELS: usize = 5;

/// Where inodes are.
#[derive(Debug)]
pub(crate) struct Ext {
    block_bytes: u64,
    inodes: u32,
    inodes_in_group: u32,
    inode_bytes: u64,
    /// Address of the first group's descriptor.
    descriptors: u64,
    descriptor_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) generation: u32,
    /// A regular file whose contents are pages of the device.
    pub(crate) is_plain: bool,
    flags: u32,
    /// Block of the attributes that do not fit into the inode; 0: none.
    attributes: u64,
    map: [u8; 60],
}

impl Ext {
    /// From the superblock. `None`: this layout is not known.
    pub(crate) fn read(device: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; SUPERBLOCK.1];
        device.read_exact_at(&mut bytes, SUPERBLOCK.0)?;
        Ok(Self::parse(&bytes))
    }

    fn parse(superblock: &[u8; SUPERBLOCK.1]) -> Option<Self> {
        let at = |offset| number32(superblock, offset);
        let features = at(0x60)?;
        if number16(superblock, 0x38)? != MAGIC || features & META_GROUPS != 0 {
            return None;
        }
        let block_bytes = 1024u64.checked_shl(at(0x18)?.min(63))?;
        // The oldest revision has no such field.
        let inode_bytes = if at(0x4C)? == 0 { 128 } else { number16(superblock, 0x58)?.into() };
        let descriptor_bytes =
            if features & WIDE == 0 { 32 } else { u64::from(number16(superblock, 0xFE)?) };
        let ext = Self {
            block_bytes,
            inodes: at(0)?,
            inodes_in_group: at(0x28)?,
            inode_bytes,
            descriptors: (u64::from(at(0x14)?) + 1).checked_mul(block_bytes)?,
            descriptor_bytes,
        };
        let sound = (1024..=65_536).contains(&block_bytes)
            && ext.inodes_in_group > 0
            && (128..=block_bytes).contains(&inode_bytes)
            && (32..=block_bytes).contains(&descriptor_bytes);
        sound.then_some(ext)
    }

    /// Reads an inode, waiting for the disk. `None`: there is no such inode.
    pub(crate) fn inode(&self, device: &File, number: u32) -> io::Result<Option<Inode>> {
        let Some(index) = number.checked_sub(1).filter(|_| number <= self.inodes) else {
            return Ok(None);
        };
        let group = u64::from(index / self.inodes_in_group);
        let mut descriptor = [0; 64];
        let length = self.descriptor_bytes.min(64) as usize;
        let place = self.descriptors.saturating_add(group * self.descriptor_bytes);
        device.read_exact_at(&mut descriptor[..length], place)?;
        // Without the long form, the upper half is zero here.
        let table = [8, 0x28].map(|at| u64::from(number32(&descriptor, at).unwrap_or(0)));
        let within = u64::from(index % self.inodes_in_group) * self.inode_bytes;
        let place = self.address(table[0] | table[1] << 32).saturating_add(within);
        let mut bytes = [0; 128];
        device.read_exact_at(&mut bytes, place)?;
        Ok(Inode::parse(&bytes))
    }

    const fn address(&self, block: u64) -> u64 {
        block.saturating_mul(self.block_bytes)
    }

    /// Waits for all that the kernel needs to open an inode and to find these bytes of it. Returns
    /// the address of the first of them on the device, if it has one.
    pub(crate) fn wait(
        &self,
        device: &File,
        inode: &Inode,
        bytes: std::ops::Range<u64>,
    ) -> io::Result<Option<u64>> {
        if inode.attributes != 0 {
            device.read_exact_at(&mut [0; 32], self.address(inode.attributes))?;
        }
        let first = self.find(device, inode, bytes.start / self.block_bytes)?;
        self.find(device, inode, bytes.end.saturating_sub(1) / self.block_bytes)?;
        Ok(first.map(|b| self.address(b)))
    }

    fn find(&self, device: &File, inode: &Inode, block: u64) -> io::Result<Option<u64>> {
        if inode.flags & EXTENTS == 0 {
            return self.find_indirect(device, &inode.map, block);
        }
        let mut node = inode.map.to_vec();
        for _ in 0..=LEVELS {
            match step(&node, block) {
                Some(TreeStep::Found(found)) => return Ok(Some(found)),
                Some(TreeStep::Below(next)) => {
                    node.resize(self.block_bytes as usize, 0);
                    device.read_exact_at(&mut node, self.address(next))?;
                }
                None => break,
            }
        }
        Ok(None)
    }

    /// Twelve blocks, then one tree each of one, two and three levels.
    fn find_indirect(&self, device: &File, map: &[u8], block: u64) -> io::Result<Option<u64>> {
        let entries = self.block_bytes / 4;
        let there = |n: u32| (n != 0).then_some(u64::from(n));
        if block < 12 {
            return Ok(number32(map, block as usize * 4).and_then(there));
        }
        let mut rest = block - 12;
        for levels in 1..=3u32 {
            if rest >= entries.pow(levels) {
                rest -= entries.pow(levels);
                continue;
            }
            let mut found = number32(map, (11 + levels as usize) * 4).and_then(there);
            for level in (0..levels).rev() {
                let Some(table) = found else { break };
                let entry = rest / entries.pow(level) % entries;
                let mut bytes = [0; 4];
                device.read_exact_at(&mut bytes, self.address(table).saturating_add(entry * 4))?;
                found = there(u32::from_le_bytes(bytes));
            }
            return Ok(found);
        }
        Ok(None)
    }
}

impl Inode {
    fn parse(bytes: &[u8; 128]) -> Option<Self> {
        let (mode, links) = (number16(bytes, 0)?, number16(bytes, 0x1A)?);
        if mode == 0 || links == 0 {
            return None;
        }
        let flags = number32(bytes, 0x20)?;
        let upper = u64::from(number16(bytes, 0x76)?) << 32;
        Some(Self {
            generation: number32(bytes, 0x64)?,
            is_plain: mode & 0xF000 == 0x8000 && flags & NOT_PLAIN == 0,
            flags,
            attributes: upper | u64::from(number32(bytes, 0x68)?),
            map: *bytes.get(0x28..)?.first_chunk()?,
        })
    }
}

enum TreeStep {
    /// The block's number on the device.
    Found(u64),
    /// The node below.
    Below(u64),
}

/// One node of a tree of extents. `None`: nothing is there, or the node is damaged.
fn step(node: &[u8], block: u64) -> Option<TreeStep> {
    if number16(node, 0)? != EXTENT_MAGIC {
        return None;
    }
    let entries = usize::from(number16(node, 2)?);
    let is_leaf = number16(node, 6)? == 0;
    let starts = (1..=entries).map(|i| Some((u64::from(number32(node, i * 12)?), i * 12)));
    let (start, at) = starts.map_while(|s| s).take_while(|&(start, _)| start <= block).last()?;
    if !is_leaf {
        let upper = u64::from(number16(node, at + 8)?) << 32;
        return Some(TreeStep::Below(upper | u64::from(number32(node, at + 4)?)));
    }
    let length = match u64::from(number16(node, at + 4)?) {
        // Allocated, and not written yet.
        n if n > 0x8000 => n - 0x8000,
        n => n,
    };
    let upper = u64::from(number16(node, at + 6)?) << 32;
    let first = upper | u64::from(number32(node, at + 8)?);
    (block - start < length).then(|| TreeStep::Found(first.saturating_add(block - start)))
}

pub(crate) fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use seekless_block::Dice;

    use super::*;
    use crate::scratch::output;

    fn debugfs(image: &std::path::Path, question: &str) -> String {
        output(Command::new("debugfs").args(["-w", "-R", question]).arg(image))
    }

    /// A file with 700 blocks in pieces, and one with a few.
    fn tree(dir: &std::path::Path, block: u64) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("small"), vec![1; 9000]).unwrap();
        let file = File::create(dir.join("pieces")).unwrap();
        (0..700).for_each(|i| file.write_all_at(&[7; 1024], i * 2 * block).unwrap());
    }

    #[test]
    fn inodes_and_addresses_are_those_of_debugfs() {
        let has = |name: &str| Command::new(name).arg("-V").output().is_ok();
        if !has("mkfs.ext4") || !has("debugfs") {
            eprintln!("SKIPPED ext inodes: no mkfs.ext4 or debugfs");
            return;
        }
        for (kind, block) in [("ext2", 1024), ("ext3", 4096), ("ext4", 1024), ("ext4", 4096)] {
            let dir = tempfile::tempdir().unwrap();
            let (root, image) = (dir.path().join("root"), dir.path().join("image"));
            tree(&root, block);
            File::create(&image).unwrap().set_len(64 << 20).unwrap();
            let mut make = Command::new("mkfs.ext4");
            make.args(["-q", "-F", "-t", kind, "-b", &block.to_string(), "-d"]);
            output(make.arg(&root).arg(&image));
            debugfs(&image, "set_inode_field small generation 77");
            let device = File::open(&image).unwrap();
            let ext = Ext::read(&device).unwrap().unwrap();
            for name in ["small", "pieces"] {
                let stat = debugfs(&image, &format!("stat {name}"));
                let number = stat.split_whitespace().nth(1).unwrap().parse().unwrap();
                let inode = ext.inode(&device, number).unwrap().unwrap();
                assert!(inode.is_plain && (name != "small" || inode.generation == 77));
                for logical in [0, 1, 5, 12, 14, 300, 1000, 1398, 9999] {
                    let said = debugfs(&image, &format!("bmap {name} {logical}"));
                    let want = said.trim().parse::<u64>().unwrap_or(0);
                    let range = logical * block..logical * block + 1;
                    let found = ext.wait(&device, &inode, range).unwrap().unwrap_or(0);
                    assert_eq!(found, want * block, "{kind} {block} {name} {logical}: {said}");
                }
            }
            assert!(ext.inode(&device, 0).unwrap().is_none());
            assert!(ext.inode(&device, 2).unwrap().is_some_and(|i| !i.is_plain), "the root");
            assert!(ext.inode(&device, u32::MAX).unwrap().is_none());
        }
    }

    #[test]
    fn any_changed_superblock_inode_or_node_gives_no_panic() {
        let mut dice = Dice::new(5);
        let mut random = || dice.draw() as u8;
        let empty = File::open("/dev/null").unwrap();
        for _ in 0..20_000 {
            let mut superblock = [0; SUPERBLOCK.1];
            superblock.iter_mut().for_each(|b| *b = random());
            superblock[0x38..0x3A].copy_from_slice(&MAGIC.to_le_bytes());
            superblock[0x18..0x1C].copy_from_slice(&u32::from(random() % 9).to_le_bytes());
            superblock[0x58..0x5A].copy_from_slice(&256u16.to_le_bytes());
            superblock[0x60] &= !0x90;
            let mut bytes = [0; 128];
            bytes.iter_mut().for_each(|b| *b = random());
            bytes[0x28..0x2A].copy_from_slice(&EXTENT_MAGIC.to_le_bytes());
            let (Some(ext), Some(inode)) = (Ext::parse(&superblock), Inode::parse(&bytes)) else {
                continue;
            };
            // The device has no such bytes: an error, or no address.
            let _ = ext.inode(&empty, u32::from(random()) + 1);
            let _ = ext.wait(&empty, &inode, 0..u64::from(random()) << 20);
        }
    }
}
