//! Signatures of file systems, partition tables and other formats at the beginning and the end of a
//! disk.

use seekless_block::{Device, DeviceError, Extent, SECTOR_BYTES};

/// Bytes read at the beginning, and at the end.
const LOOK_BYTES: u64 = 1 << 20;

/// Signatures: offset in bytes, bytes, name of the format.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"SEEKLESS", "an area or a locator of seekless"),
    (0, b"SEEKGRPS", "a group store of seekless"),
    (0, b"XFSB", "an XFS file system"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (0, b"hsqs", "a squashfs"),
    (0, b"\xfc\x4e\x2b\xa9", "a RAID member (md 1.1)"),
    (0, b"QFI\xfb", "a qcow2 image"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (512, b"EFI PART", "a GPT partition table"),
    (512, b"LABELONE", "an LVM physical volume"),
    (1080, b"\x53\xef", "an ext2/3/4 file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4086, b"SWAP-SPACE", "swap space"),
    (4096, b"\xfc\x4e\x2b\xa9", "a RAID member (md 1.2)"),
    (4096, b"bcachefs", "a bcachefs file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0x10040, b"_BHRfS_M", "a Btrfs file system"),
    (510, b"\x55\xaa", "a partition table or boot sector"),
];

/// The format on a disk, in words; `None` if the beginning and the end of the disk are all zeroes.
pub fn found(disk: &mut dyn Device) -> Result<Option<String>, DeviceError> {
    let sectors = disk.capacity().0;
    let look = sectors.min(LOOK_BYTES / SECTOR_BYTES);
    let mut bytes = vec![0; (look * SECTOR_BYTES) as usize];
    disk.read(Extent::new(0, look), &mut bytes)?;
    if let Some(name) = marks(&bytes) {
        return Ok(Some(name.to_owned()));
    }
    if let Some(at) = bytes.iter().position(|b| *b != 0) {
        return Ok(Some(format!("something unknown (byte {at} is not zero)")));
    }
    disk.read(Extent::new(sectors - look, look), &mut bytes)?;
    if bytes.ends_with(&[0; 512]) && bytes.iter().all(|b| *b == 0) {
        return Ok(None);
    }
    let last = bytes.len() - 512;
    if bytes[last..].starts_with(b"EFI PART") {
        return Ok(Some("a GPT partition table's spare copy at its end".to_owned()));
    }
    Ok(Some("something in its last MiB, such as a RAID member's mark".to_owned()))
}

/// The mark of a RAID member of Linux (md).
const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// The kind of a disk that the system puts together with others when it starts, in words. A file
/// system that was there before may have left its own mark too.
pub fn member(disk: &mut dyn Device) -> Result<Option<&'static str>, DeviceError> {
    let sectors = disk.capacity().0;
    // LVM looks at the first four sectors. The sectors of md: formats 1.1 and 1.2 at the beginning, 1.0
    // and 0.90 near the end, on a boundary of 4 KiB and of 64 KiB.
    let lvm = (0..4).map(|at| (at, &b"LABELONE"[..], "an LVM physical volume"));
    let near_end = sectors.checked_sub(16).map(|n| n / 8 * 8);
    let nearer = (sectors / 128).checked_sub(1).map(|n| n * 128);
    let raid = [Some(0), Some(8), near_end, nearer].into_iter().flatten();
    let raid = raid.map(|at| (at, RAID, "a RAID member (md)"));
    let mut sector = [0; SECTOR_BYTES as usize];
    for (at, mark, name) in lvm.chain(raid).filter(|&(at, ..)| at < sectors) {
        disk.read(Extent::new(at, 1), &mut sector)?;
        if sector.starts_with(mark) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The format of a disk that begins with these bytes.
pub fn marks(bytes: &[u8]) -> Option<&'static str> {
    let is = |&&(at, mark, _): &&(usize, &[u8], &str)| {
        bytes.get(at..at + mark.len()).is_some_and(|b| b == mark)
    };
    MARKS.iter().find(is).map(|(.., name)| *name)
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
    fn members_are_found_wherever_their_mark_is() {
        let (lvm, ext): (&[u8], &[u8]) = (b"LABELONE", b"\x53\xef");
        let (volume, raid) = ("an LVM physical volume", "a RAID member (md)");
        for (at, mark, name) in [
            (0, lvm, volume),
            (3 * 512, lvm, volume),
            (0, RAID, raid),
            (4096, RAID, raid),
            // Formats 1.0 and 0.90, by hand for 8,192 sectors.
            (8176 * 512, RAID, raid),
            (8064 * 512, RAID, raid),
        ] {
            let mut disk = with(at, mark);
            assert_eq!(member(&mut disk).unwrap(), Some(name), "{at}");
            // The mark of the file system that was there before counts less.
            let mut sector = [0; 512];
            sector[56..58].copy_from_slice(ext);
            disk.write(Extent::new(2, 1), &sector).unwrap();
            assert_eq!(member(&mut disk).unwrap(), Some(name), "{at}");
        }
        for (at, mark) in [(4 * 512, lvm), (512, RAID), (1080, ext)] {
            assert_eq!(member(&mut with(at, mark)).unwrap(), None, "{at}");
        }
        for sectors in [1, 8, 15, 16, 127, 128] {
            assert_eq!(member(&mut MemDevice::new(Sectors(sectors))).unwrap(), None);
        }
    }

    #[test]
    fn formats_are_named_and_zeroes_are_free() {
        let said = |at, mark: &[u8]| found(&mut with(at, mark)).unwrap().unwrap_or_default();
        assert_eq!(found(&mut MemDevice::new(Sectors(8192))).unwrap(), None);
        assert_eq!(found(&mut MemDevice::new(Sectors(1))).unwrap(), None);
        assert_eq!(said(1080, b"\x53\xef"), "an ext2/3/4 file system");
        assert_eq!(said(0, b"XFSB"), "an XFS file system");
        assert_eq!(said(0x10040, b"_BHRfS_M"), "a Btrfs file system");
        assert_eq!(said(510, b"\x55\xaa"), "a partition table or boot sector");
        assert_eq!(said(777_777, b"x"), "something unknown (byte 777777 is not zero)");
        assert_eq!(said(8191 * 512, b"EFI PART"), "a GPT partition table's spare copy at its end");
        assert!(said(8000 * 512, b"x").contains("last MiB"));
        // The middle is not read.
        assert_eq!(found(&mut with(4096 * 512, b"x")).unwrap(), None);
    }
}
