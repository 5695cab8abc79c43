//! Where a file lies, and whether its blocks may be moved: the reasons to leave a file alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::IFlags;
use seekless_serve::extents::{self, Run};

use super::list::HotFile;
use super::mounted::Mounted;

/// A file whose blocks may be moved.
#[derive(Debug)]
pub(super) struct Movable {
    pub(super) file: File,
    /// The written parts, in order of the file's bytes; whole blocks.
    pub(super) runs: Vec<Run>,
}

impl Movable {
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|r| r.len).sum()
    }
}

/// Opens a file of the list for reading and finds its blocks.
pub(super) fn locate(mounted: &Mounted, hot: &HotFile) -> Result<Movable, &'static str> {
    let file = mounted.file(&hot.path, false).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "no longer there",
        _ => "cannot be opened, or reached only over a link or another file system",
    })?;
    let meta = file.metadata().map_err(|_| "its metadata cannot be read")?;
    if !meta.is_file() || meta.dev() != mounted.device() {
        return Err("no plain file of this file system");
    }
    if meta.ino() != hot.inode {
        return Err("another file has its name now");
    }
    let runs = extents::map(&file, true).map_err(|_| "the kernel does not report its blocks")?;
    if runs.iter().any(|r| r.odd) {
        return Err("its data are in its inode, or in blocks of another file");
    }
    let written: Vec<Run> = runs.into_iter().filter(|r| !r.unwritten && r.len > 0).collect();
    let whole =
        |r: &Run| [r.logical, r.physical, r.len].iter().all(|n| n.is_multiple_of(mounted.block()));
    match &written[..] {
        [] => Err("nothing is written in it"),
        some if !some.iter().all(whole) => Err("not in whole blocks"),
        _ => Ok(Movable { file, runs: written }),
    }
}

/// Whether ext4 may exchange the blocks of this file now.
pub(super) fn check_exchangeable(movable: &Movable) -> Result<(), &'static str> {
    // FS_EXTENT_FL, FS_ENCRYPT_FL, FS_VERITY_FL and FS_JOURNAL_DATA_FL of linux/fs.h.
    const EXTENTS: u32 = 0x0008_0000;
    const KEPT: u32 = 0x0000_0800 | 0x0010_0000 | 0x0000_4000;
    let flags = rustix::fs::ioctl_getflags(&movable.file)
        .map_err(|_| "the kernel does not report its attributes")?;
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
        Err(_) => Err("the kernel does not report whether a program writes it"),
    }
}

pub(super) fn swap_files(mounted: &Mounted) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|l| l.split_whitespace().next());
    // The table has blanks of names in octal.
    let meta = paths.filter_map(|p| std::fs::metadata(p.replace("\\040", " ")).ok());
    meta.filter(|m| m.dev() == mounted.device()).map(|m| m.ino()).collect()
}
