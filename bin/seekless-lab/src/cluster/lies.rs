//! Where a file lies, and whether it may be moved: the reasons to leave a file alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::IFlags;
use seekless_serve::extents::{self, Run};

use super::list::Hot;
use super::volume::Volume;

/// A file that may be moved.
#[derive(Debug)]
pub(crate) struct Movable {
    pub(crate) file: File,
    /// What is written, in order of its bytes; whole blocks.
    pub(crate) runs: Vec<Run>,
}

impl Movable {
    /// Bytes that would be moved.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.len).sum()
    }
}

/// Opens a file of the list for reading and looks at it. The error is why it is left alone.
pub(crate) fn look(volume: &Volume, hot: &Hot) -> Result<Movable, &'static str> {
    let file = volume.file(&hot.path, false).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "no longer there",
        _ => "cannot be opened, or reached only over a link or another file system",
    })?;
    let meta = file.metadata().map_err(|_| "cannot be looked at")?;
    if !meta.is_file() || meta.dev() != volume.device {
        return Err("no plain file of this file system");
    }
    if meta.ino() != hot.inode {
        return Err("another file has its name now");
    }
    let runs = extents::map(&file, true).map_err(|_| "where it lies is not told")?;
    if runs.iter().any(|r| r.odd) {
        return Err("its data lies in its inode, or not in blocks of its own");
    }
    let written: Vec<Run> = runs.into_iter().filter(|r| !r.unwritten && r.len > 0).collect();
    let whole =
        |r: &Run| [r.logical, r.physical, r.len].iter().all(|n| n.is_multiple_of(volume.block));
    match &written[..] {
        [] => Err("nothing is written in it"),
        some if !some.iter().all(whole) => Err("not in whole blocks"),
        _ => Ok(Movable { file, runs: written }),
    }
}

/// Whether ext4 may exchange its blocks now. The error is why it is left alone.
pub(crate) fn allowed(movable: &Movable) -> Result<(), &'static str> {
    // FS_EXTENT_FL, FS_ENCRYPT_FL, FS_VERITY_FL and FS_JOURNAL_DATA_FL of linux/fs.h.
    const EXTENTS: u32 = 0x0008_0000;
    const KEPT: u32 = 0x0000_0800 | 0x0010_0000 | 0x0000_4000;
    let flags =
        rustix::fs::ioctl_getflags(&movable.file).map_err(|_| "its attributes are not told")?;
    if flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND) {
        return Err("immutable, or may only be appended to");
    }
    if flags.bits() & EXTENTS == 0 {
        return Err("not in extents: made by ext2 or ext3");
    }
    if flags.bits() & KEPT != 0 {
        return Err("encrypted, sealed, or journalled with its data");
    }
    match extents::nobody_writes(&movable.file) {
        Ok(true) => Ok(()),
        Ok(false) => Err("somebody has it open for writing"),
        Err(_) => Err("whether somebody writes it is not told"),
    }
}

/// Inode numbers of files that are swapped to.
pub(crate) fn swaps(volume: &Volume) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|l| l.split_whitespace().next());
    // The table has blanks of names in octal.
    let meta = paths.filter_map(|p| std::fs::metadata(p.replace("\\040", " ")).ok());
    meta.filter(|m| m.dev() == volume.device).map(|m| m.ino()).collect()
}
