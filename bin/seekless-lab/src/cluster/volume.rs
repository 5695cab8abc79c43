//! The mounted file system: what it is, whether its blocks may be exchanged, and opening files below it and nowhere else.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// f_type of ext2, ext3 and ext4.
const EXT: u64 = 0xEF53;

/// A file system, where it is mounted.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) root: File,
    pub(crate) path: PathBuf,
    /// Device number of its files.
    pub(crate) device: u64,
    /// Bytes of a block, and how many there are and are free for anybody.
    pub(crate) block: u64,
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    /// Why no blocks may be exchanged here; none where they may.
    refusal: Option<String>,
}

impl Volume {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let whole =
            path.canonicalize().with_context(|| format!("cannot open {}", path.display()))?;
        let root = File::open(&whole).with_context(|| format!("cannot open {}", path.display()))?;
        let meta = root.metadata()?;
        if !meta.is_dir() {
            bail!("{} is no directory: name a mount point", path.display());
        }
        if let Some(above) = whole.parent()
            && above.metadata()?.dev() == meta.dev()
        {
            let mut top = above;
            while let Some(next) =
                top.parent().filter(|n| n.metadata().is_ok_and(|m| m.dev() == meta.dev()))
            {
                top = next;
            }
            bail!("{} is no mount point; it lies on {}", path.display(), top.display());
        }
        let kind = rustix::fs::fstatfs(&root)?.f_type as u64;
        let stat = rustix::fs::fstatvfs(&root)?;
        let refusal = if kind != EXT {
            Some("only ext4 has a call that moves data safely; for this file system the list is all there is".to_owned())
        } else if stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            Some("it is mounted read-only".to_owned())
        } else {
            unsafe_mode(meta.dev())
        };
        Ok(Self {
            root,
            path: whole,
            device: meta.dev(),
            block: stat.f_frsize.max(512),
            blocks: stat.f_blocks,
            free: stat.f_bavail,
            refusal,
        })
    }

    /// Why nothing may be moved here.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Opens a file below the mount point: no symbolic link is followed, no other file system entered. `write` opens for
    /// both.
    pub(crate) fn file(&self, path: &str, write: bool) -> io::Result<File> {
        let how = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        // The time of last access stays as it is, where we may ask for that.
        let opened = openat2(&self.root, path, flags | OFlags::NOATIME, Mode::empty(), resolve)
            .or_else(|_| openat2(&self.root, path, flags, Mode::empty(), resolve));
        Ok(opened?.into())
    }
}

/// ext4 flushes a file's data before it commits where the data now lies only when mounted with data=ordered, its default, and
/// with a journal: else a crash could leave a file with blocks that were never written.
fn unsafe_mode(device: u64) -> Option<String> {
    let name = std::fs::read_link(format!(
        "/sys/dev/block/{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    ));
    let name = name.ok().and_then(|p| Some(p.file_name()?.to_str()?.to_owned()));
    let options =
        name.and_then(|n| std::fs::read_to_string(format!("/proc/fs/ext4/{n}/options")).ok());
    match options {
        None => Some("the kernel does not say how it keeps this file system safe (/proc/fs/ext4)".to_owned()),
        Some(text) if text.lines().any(|l| l.trim() == "data=ordered") => None,
        Some(_) => Some("it is not mounted with a journal and data=ordered, so a crash while data moves could harm files".to_owned()),
    }
}
