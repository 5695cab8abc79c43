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
