//! Free space of an ext2, ext3 or ext4 file system that was unmounted cleanly, from its block
//! bitmaps. The bytes are untrusted: free space will be written, so this code refuses inconsistent,
//! mounted or unknown file systems. Writes nothing.
//!
//! The layout is that of the kernel's `Documentation/filesystems/ext4` and `fs/ext4/ext4.h`.

use seekless_block::{Device, DeviceError, Extent, SECTOR_BYTES, Sectors};

/// Free space is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ExtError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No file system, or one that cannot be trusted.
    #[error("{0}")]
    Refused(String),
}

const MAGIC: u64 = 0xEF53;
const COMPAT_SPARSE_SUPER2: u64 = 0x200;
const INCOMPAT_RECOVER: u64 = 0x4;
const INCOMPAT_META_BG: u64 = 0x10;
const INCOMPAT_64BIT: u64 = 0x80;
const INCOMPAT_MMP: u64 = 0x100;
const INCOMPAT_CSUM_SEED: u64 = 0x2000;
/// FILETYPE, META_BG, EXTENTS, 64BIT, FLEX_BG, EA_INODE, CSUM_SEED, LARGEDIR, INLINE_DATA, ENCRYPT,
/// CASEFOLD.
const INCOMPAT_KNOWN: u64 = 0x2 | 0x10 | 0x40 | 0x80 | 0x200 | 0x400 | 0x3E000;
const RO_SPARSE_SUPER: u64 = 0x1;
const RO_GDT_CSUM: u64 = 0x10;
const RO_BIGALLOC: u64 = 0x200;
const RO_METADATA_CSUM: u64 = 0x400;
const RO_ORPHAN_PRESENT: u64 = 0x10000;
/// These and LARGE_FILE, BTREE_DIR, HUGE_FILE, DIR_NLINK, EXTRA_ISIZE, QUOTA, READONLY, PROJECT,
/// VERITY.
const RO_KNOWN: u64 = 0x7F | 0x100 | 0x200 | 0x400 | 0x1000 | 0x2000 | 0x8000;
/// The group's bitmap was never written: everything except metadata is free.
const BLOCK_UNINIT: u64 = 0x2;

fn refuse<T>(why: impl Into<String>) -> Result<T, ExtError> {
    Err(ExtError::Refused(why.into()))
}

/// A little-endian number of up to 8 bytes; 0 past the end.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let part = bytes.get(at..at + len).unwrap_or_default();
    part.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// CRC-32C of ext4: from this state on, not inverted at the end.
fn crc32c(seed: u32, parts: &[&[u8]]) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    let mut digest = crc_fast::Digest::new_with_init_state(algorithm, seed.into());
    parts.iter().for_each(|part| digest.update(part));
    !(digest.finalize() as u32)
}

/// CRC-16 of ext4's uninit_bg (polynomial 0x8005, reflected): from this state on, not inverted at
/// the end.
fn crc16(seed: u16, parts: &[&[u8]]) -> u16 {
    let step = |crc: u16, _| if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 };
    let byte = |crc: u16, &b: &u8| (0..8).fold(crc ^ u16::from(b), step);
    parts.iter().copied().flatten().fold(seed, byte)
}

/// Numbers of the superblock.
struct Shape {
    block: u64,
    blocks: u64,
    first: u64,
    per_group: u64,
    /// Blocks per bit of a bitmap.
    cluster: u64,
    groups: u64,
    descriptor: u64,
    first_meta_bg: u64,
    reserved_gdt: u64,
    /// Blocks of one inode table.
    inode_table: u64,
    compat: u64,
    incompat: u64,
    ro: u64,
    backups: [u64; 2],
    /// Start value of CRC-32C checksums, if there are any.
    seed: Option<u32>,
    /// Start value of uninit_bg's checksums, which only descriptors have.
    seed16: Option<u16>,
    free: u64,
}

/// Numbers of a group's descriptor.
struct Group {
    bitmap: u64,
    inode_bitmap: u64,
    inode_table: u64,
    free: u64,
    uninit: bool,
    sum: u64,
    /// Stored bits of the bitmap's checksum.
    sum_bits: u32,
}

/// Free extents, in order, of the file system that fills `device` from its start.
///
/// # Errors
/// There is no file system, it was not unmounted cleanly, has an unknown feature, or is
/// inconsistent; the device fails.
pub fn free(device: &mut dyn Device) -> Result<Vec<Extent>, ExtError> {
    if device.capacity().bytes().0 < 4096 {
        return refuse("too small for ext2, ext3 or ext4");
    }
    let mut sb = [0; 1024];
    device.read(Extent::new(2, 2), &mut sb)?;
    let shape = Shape::new(&sb, device.capacity())?;
    let mut free = Free { runs: Vec::new(), shape };
    let total = free.read(device)?;
    if total != free.shape.free {
        return refuse(format!(
            "the superblock counts {} free blocks, its bitmaps {total}: run e2fsck -f",
            free.shape.free
        ));
    }
    free.without_metadata(device)?;
    let sectors = free.shape.block / SECTOR_BYTES;
    Ok(free.runs.iter().map(|r| Extent::span(r.0 * sectors, r.1 * sectors)).collect())
}

/// The sets of features compat, incompat and ro_compat, of a sound superblock without unknown ones.
fn features(sb: &[u8; 1024]) -> Result<(u64, u64, u64), ExtError> {
    let n = |at, len| number(sb, at, len);
    if n(0x38, 2) != MAGIC {
        return refuse("no ext2, ext3 or ext4 file system begins here");
    }
    let (compat, incompat, ro) = match n(0x4C, 4) {
        0 => (0, 0, 0),
        1 => (n(0x5C, 4), n(0x60, 4), n(0x64, 4)),
        v => return refuse(format!("revision {v} of ext2 is not known")),
    };
    if n(0x3A, 2) != 1 || incompat & INCOMPAT_RECOVER != 0 || ro & RO_ORPHAN_PRESENT != 0 {
        return refuse(
            "it is mounted, was not unmounted cleanly, or has errors: unmount it, or run e2fsck",
        );
    }
    if incompat & INCOMPAT_MMP != 0 {
        return refuse(
            "it is protected against use by several hosts (mmp), and another host may use it",
        );
    }
    let unknown = (incompat & !INCOMPAT_KNOWN, ro & !RO_KNOWN);
    if unknown != (0, 0) {
        return refuse(format!(
            "it has features that are not known here: incompat {:#x}, ro_compat {:#x}",
            unknown.0, unknown.1
        ));
    }
    if ro & RO_METADATA_CSUM != 0
        && u64::from(crc32c(u32::MAX, &[sb.get(..0x3FC).unwrap_or_default()])) != n(0x3FC, 4)
    {
        return refuse("the superblock does not match its checksum");
    }
    Ok((compat, incompat, ro))
}

/// Start values of the checksums: of CRC-32C, and of uninit_bg's CRC-16.
fn seeds(sb: &[u8; 1024], incompat: u64, ro: u64) -> (Option<u32>, Option<u16>) {
    let n = |at, len| number(sb, at, len);
    let uuid: &[u8] = sb.get(0x68..0x78).unwrap_or_default();
    let plain = ro & (RO_GDT_CSUM | RO_METADATA_CSUM) == RO_GDT_CSUM;
    let seed16 = plain.then(|| crc16(u16::MAX, &[uuid]));
    let seed = match (ro & RO_METADATA_CSUM != 0, incompat & INCOMPAT_CSUM_SEED != 0) {
        (false, _) => None,
        (true, true) => Some(n(0x270, 4) as u32),
        (true, false) => Some(crc32c(u32::MAX, &[uuid])),
    };
    (seed, seed16)
}

impl Shape {
    fn new(sb: &[u8; 1024], capacity: Sectors) -> Result<Self, ExtError> {
        let n = |at, len| number(sb, at, len);
        let (compat, incompat, ro) = features(sb)?;
        let wide = incompat & INCOMPAT_64BIT != 0;
        let wide = |low: u64, high: usize| low | if wide { n(high, 4) << 32 } else { 0 };
        let (log_block, log_cluster) = (n(0x18, 4), n(0x1C, 4));
        let bigalloc = ro & RO_BIGALLOC != 0;
        if log_block > 6 || bigalloc && !(log_block..=20).contains(&log_cluster) {
            return refuse(format!("blocks of 2^{log_block} KiB in clusters of 2^{log_cluster}"));
        }
        let block = 1024 << log_block;
        let cluster = if bigalloc { 1 << (log_cluster - log_block) } else { 1 };
        let (blocks, first) = (wide(n(0x04, 4), 0x150), n(0x14, 4));
        let (per_group, inodes, inode) = (n(0x20, 4), n(0x28, 4), n(0x58, 2));
        let inode = if n(0x4C, 4) == 0 { 128 } else { inode };
        let descriptor = if incompat & INCOMPAT_64BIT != 0 { n(0xFE, 2) } else { 32 };
        let fits = blocks.checked_mul(block).is_some_and(|bytes| bytes <= capacity.bytes().0);
        let bits = per_group / cluster;
        let sound = fits
            && first < 2
            && first < blocks
            && (256..=block * 8).contains(&bits)
            && bits.is_multiple_of(8)
            && per_group.is_multiple_of(cluster)
            && (1..=block * 8).contains(&inodes)
            && (128..=block).contains(&inode)
            && inode.is_power_of_two()
            && (32..=1024).contains(&descriptor)
            && descriptor.is_power_of_two();
        if !sound {
            return refuse(format!(
                "its superblock contradicts itself: {blocks} blocks of {block} bytes, the first {first}, {per_group} a group, {inodes} inodes of {inode} bytes a group, descriptors of {descriptor} bytes, on a device of {}",
                capacity.bytes()
            ));
        }
        let (seed, seed16) = seeds(sb, incompat, ro);
        Ok(Self {
            block,
            blocks,
            first,
            per_group,
            cluster,
            groups: (blocks - first).div_ceil(per_group),
            descriptor,
            first_meta_bg: n(0x104, 4),
            reserved_gdt: n(0xCE, 2),
            inode_table: (inodes * inode).div_ceil(block),
            compat,
            incompat,
            ro,
            backups: [n(0x24C, 4), n(0x250, 4)],
            seed,
            seed16,
            free: wide(n(0x0C, 4), 0x158),
        })
    }

    fn start_of(&self, group: u64) -> u64 {
        self.first + group * self.per_group
    }

    fn end_of(&self, group: u64) -> u64 {
        (self.start_of(group) + self.per_group).min(self.blocks)
    }

    /// True if a group begins with a copy of the superblock.
    fn has_super(&self, group: u64) -> bool {
        let power = |of: u64| {
            let mut n = of;
            while n < group {
                n *= of;
            }
            n == group
        };
        if group == 0 {
            true
        } else if self.compat & COMPAT_SPARSE_SUPER2 != 0 {
            self.backups.contains(&group)
        } else {
            group == 1 || self.ro & RO_SPARSE_SUPER == 0 || power(3) || power(5) || power(7)
        }
    }

    fn descriptors_per_block(&self) -> u64 {
        self.block / self.descriptor
    }

    /// True if this block of descriptors is in the groups that it describes.
    fn is_meta(&self, number: u64) -> bool {
        self.incompat & INCOMPAT_META_BG != 0 && number >= self.first_meta_bg
    }

    /// Place of a block of descriptors.
    fn descriptors_at(&self, number: u64) -> u64 {
        let of_superblock = u64::from(self.block == 1024);
        if !self.is_meta(number) {
            return of_superblock + 1 + number;
        }
        let group = number * self.descriptors_per_block();
        // With blocks of 1 KiB, the superblock of group 0 is in its second block.
        let shifted = u64::from(self.block == 1024 && number == 0 && self.first == 0);
        self.start_of(group) + u64::from(self.has_super(group)) + shifted
    }

    /// Number of blocks at the start of a group that copies of superblock and descriptors may take.
    fn base(&self, group: u64) -> u64 {
        let superblock = u64::from(self.has_super(group));
        let shifted = u64::from(self.block == 1024 && self.first == 0 && group == 0);
        let per = self.descriptors_per_block();
        let table = if self.is_meta(group / per) {
            // The first, second and last group of a block of descriptors have a copy of it.
            u64::from([0, 1, per - 1].contains(&(group % per)))
        } else {
            let plain = match self.incompat & INCOMPAT_META_BG {
                0 => self.groups.div_ceil(per),
                _ => self.groups.div_ceil(per).min(self.first_meta_bg),
            };
            superblock * (plain + self.reserved_gdt)
        };
        self.whole(self.start_of(group), superblock + shifted + table).1 - self.start_of(group)
    }

    /// `len` blocks from `from` on, extended to whole clusters.
    const fn whole(&self, from: u64, len: u64) -> (u64, u64) {
        let start = (from - self.first) / self.cluster * self.cluster;
        (
            self.first + start,
            self.first + (from + len - self.first).div_ceil(self.cluster) * self.cluster,
        )
    }

    fn group(&self, number: u64, d: &[u8]) -> Result<Group, ExtError> {
        let wide = self.descriptor >= 64;
        let n = |low: usize, len: usize, high: usize| {
            let high = if wide { self::number(d, high, len) } else { 0 };
            self::number(d, low, len) | high << (8 * len)
        };
        let at = (number as u32).to_le_bytes();
        let (head, tail) = (d.get(..0x1E).unwrap_or_default(), d.get(0x20..).unwrap_or_default());
        // CRC-32C counts its own field as zeroes, CRC-16 skips the field.
        let crc32c = self.seed.map(|seed| crc32c(seed, &[&at, head, &[0; 2], tail]) & 0xFFFF);
        let sum = crc32c.or(self.seed16.map(|seed| crc16(seed, &[&at, head, tail]).into()));
        if sum.is_some_and(|sum| u64::from(sum) != self::number(d, 0x1E, 2)) {
            return refuse(format!("the descriptor of group {number} is damaged: run e2fsck"));
        }
        let has_flags = self.ro & (RO_GDT_CSUM | RO_METADATA_CSUM) != 0;
        let group = Group {
            bitmap: n(0x00, 4, 0x20),
            inode_bitmap: n(0x04, 4, 0x24),
            inode_table: n(0x08, 4, 0x28),
            free: n(0x0C, 2, 0x2C),
            uninit: has_flags && self::number(d, 0x12, 2) & BLOCK_UNINIT != 0,
            sum: n(0x18, 2, 0x38),
            sum_bits: if wide { 32 } else { 16 },
        };
        let within = |at: u64, len: u64| {
            at > self.first && at.checked_add(len).is_some_and(|end| end <= self.blocks)
        };
        let sound = within(group.bitmap, 1)
            && within(group.inode_bitmap, 1)
            && within(group.inode_table, self.inode_table);
        if !sound {
            return refuse(format!(
                "the descriptor of group {number} names blocks past the file system: run e2fsck"
            ));
        }
        Ok(group)
    }
}

/// Free runs found so far: first block, and end.
struct Free {
    runs: Vec<(u64, u64)>,
    shape: Shape,
}

impl Free {
    fn add(&mut self, from: u64, to: u64) {
        match self.runs.last_mut() {
            _ if from >= to => {}
            Some(last) if last.1 == from => last.1 = to,
            _ => self.runs.push((from, to)),
        }
    }

    fn block(&self, device: &mut dyn Device, at: u64, into: &mut [u8]) -> Result<(), ExtError> {
        let sectors = self.shape.block / SECTOR_BYTES;
        if at >= self.shape.blocks {
            return refuse(format!("block {at} lies past the file system: run e2fsck"));
        }
        Ok(device.read(Extent::new(at * sectors, sectors), into)?)
    }

    /// Calls `f` for each group, in order.
    fn each(
        &mut self,
        device: &mut dyn Device,
        mut f: impl FnMut(&mut Self, &mut dyn Device, u64, &Group) -> Result<(), ExtError>,
    ) -> Result<(), ExtError> {
        let (per, size) = (self.shape.descriptors_per_block(), self.shape.descriptor as usize);
        let mut page = vec![0; self.shape.block as usize];
        for number in 0..self.shape.groups.div_ceil(per) {
            self.block(device, self.shape.descriptors_at(number), &mut page)?;
            for (group, bytes) in (number * per..self.shape.groups).zip(page.chunks_exact(size)) {
                let described = self.shape.group(group, bytes)?;
                f(self, device, group, &described)?;
            }
        }
        Ok(())
    }

    /// Reads all bitmaps. Returns the number of free blocks by the descriptors.
    fn read(&mut self, device: &mut dyn Device) -> Result<u64, ExtError> {
        let mut bitmap = vec![0; self.shape.block as usize];
        let mut total = 0u64;
        self.each(device, |this, device, number, group| {
            let (start, end, cluster) =
                (this.shape.start_of(number), this.shape.end_of(number), this.shape.cluster);
            total = total.saturating_add(group.free * cluster);
            if group.uninit {
                // The count includes metadata of other groups, which is removed later.
                this.add((start + this.shape.base(number)).min(end), end);
                return Ok(());
            }
            this.block(device, group.bitmap, &mut bitmap)?;
            let bits = this.shape.per_group / cluster;
            if let Some(seed) = this.shape.seed {
                let all = bitmap.get(..bits as usize / 8).unwrap_or_default();
                let mask = u64::MAX >> (64 - group.sum_bits);
                if u64::from(crc32c(seed, &[all])) & mask != group.sum {
                    return refuse(format!("the block bitmap of group {number} is damaged"));
                }
            }
            let mut free = 0;
            for bit in 0..bits {
                let from = start + bit * cluster;
                if from >= end {
                    break;
                }
                let byte = bitmap.get(bit as usize / 8).copied().unwrap_or(0xFF);
                if byte >> (bit % 8) & 1 == 0 {
                    free += 1;
                    this.add(from, (from + cluster).min(end));
                }
            }
            if free != group.free {
                return refuse(format!(
                    "group {number} counts {} free blocks or clusters, its bitmap {free}: run e2fsck -f",
                    group.free
                ));
            }
            Ok(())
        })?;
        Ok(total)
    }

    /// Removes metadata of any group, wherever it is: a group without a bitmap does not show it.
    fn without_metadata(&mut self, device: &mut dyn Device) -> Result<(), ExtError> {
        let mut used: Vec<(u64, u64)> = Vec::new();
        let table = self.shape.inode_table;
        self.each(device, |this, _, _, group| {
            let of = [(group.bitmap, 1), (group.inode_bitmap, 1), (group.inode_table, table)];
            used.extend(of.map(|(from, len)| this.shape.whole(from, len)));
            Ok(())
        })?;
        used.sort_unstable();
        let mut used = used.into_iter().peekable();
        for (mut from, to) in std::mem::take(&mut self.runs) {
            while let Some(&(first, end)) = used.peek()
                && first < to
            {
                self.add(from, first.min(to));
                from = from.max(end);
                if end > to {
                    break;
                }
                used.next();
            }
            self.add(from, to);
        }
        Ok(())
    }
}

/// The body of the fuzz target: any bytes as a disk.
///
/// # Panics
/// The free extents pass the end, or are out of order.
pub fn fuzz(data: &[u8]) {
    let mut device = seekless_block::MemDevice::new(Sectors(data.len() as u64 / SECTOR_BYTES));
    let whole = data.len() as u64 / SECTOR_BYTES;
    let bytes = data.get(..(whole * SECTOR_BYTES) as usize).unwrap_or_default();
    if whole == 0 || device.write(Extent::new(0, whole), bytes).is_err() {
        return;
    }
    if let Ok(free) = free(&mut device) {
        let mut at = 0;
        for extent in free {
            assert!(extent.start.0 >= at && extent.len.0 > 0 && extent.end().0 <= whole);
            at = extent.end().0;
        }
    }
}
