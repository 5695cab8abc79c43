//! The grid of a disk's file systems, from its partition table. Only reads.

use seekless_block::{Device, DeviceError, Extent, SECTOR_BYTES};

/// The start of the first partition within a page of 8 sectors; 0 without partitions, or if one
/// starts on a page.
pub(crate) fn partition_grid(disk: &mut dyn Device) -> Result<u64, DeviceError> {
    if disk.capacity().0 < 64 {
        return Ok(0);
    }
    let mut bytes = vec![0; 64 * SECTOR_BYTES as usize];
    disk.read(Extent::new(0, 64), &mut bytes)?;
    let u32_at = |at: usize| {
        bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    if bytes.get(510..512) != Some(&[0x55, 0xaa]) {
        return Ok(0);
    }
    if bytes.get(512..520) == Some(b"EFI PART") {
        // Entries follow at sector 2 on nearly every disk; the first LBA is at byte 32 of each.
        let size = u32_at(512 + 84) as usize;
        let entry = |i: usize| 1024 + i * size.clamp(128, 4096);
        let first = (0..4).map(entry).find(|at| u32_at(*at) != 0);
        return Ok(first.map_or(0, |at| u64::from(u32_at(at + 32)) % 8));
    }
    // A file system's boot sector ends like a partition table, but its entries make no sense.
    let entries = (0..4).map(|i| 446 + 16 * i);
    let starts: Vec<u32> = entries
        .filter(|at| bytes.get(*at).is_some_and(|b| b & 0x7f == 0) && bytes[at + 4] != 0)
        .map(|at| u32_at(at + 8))
        .filter(|start| *start > 0 && u64::from(*start) < disk.capacity().0)
        .collect();
    Ok(starts.first().map_or(0, |start| u64::from(*start) % 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_block::{MemDevice, Sectors};

    fn with(at: u64, mark: &[u8]) -> MemDevice {
        let mut disk = MemDevice::new(Sectors(8192));
        let mut sector = [0; 512];
        sector[(at % 512) as usize..][..mark.len()].copy_from_slice(mark);
        disk.write(Extent::new(at / 512, 1), &sector).unwrap();
        disk
    }

    #[test]
    fn the_grid_is_the_first_partitions() {
        let mut table = [0; 512];
        table[446 + 4] = 0x83;
        table[446 + 8] = 63;
        table[510..].copy_from_slice(b"\x55\xaa");
        assert_eq!(partition_grid(&mut with(0, &table)).unwrap(), 7);
        table[446 + 8..][..4].copy_from_slice(&2048u32.to_le_bytes());
        assert_eq!(partition_grid(&mut with(0, &table)).unwrap(), 0);
        assert_eq!(partition_grid(&mut with(1080, b"\x53\xef")).unwrap(), 0);
    }
}
