//! The mounted file system: its kind, whether its blocks may be exchanged, and the opening of files
//! below the mount point and nowhere else.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::error::HotFilesError;

/// f_type of ext2, ext3 and ext4.
const EXT: u64 = 0xEF53;

/// A mounted file system.
#[derive(Debug)]
pub struct Mounted {
    root: File,
    path: PathBuf,
    device: u64,
    block: u64,
    blocks: u64,
    free: u64,
    refusal: Option<String>,
}

impl Mounted {
    /// The file system that is mounted at `path`.
    ///
    /// # Errors
    /// If `path` is no mount point, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, HotFilesError> {
        let cannot = |source| HotFilesError::Io { what: "open", path: path.to_owned(), source };
        let whole = path.canonicalize().map_err(cannot)?;
        let root = File::open(&whole).map_err(cannot)?;
        let meta = root.metadata()?;
        if !meta.is_dir() {
            let path = path.display();
            let why = format!("{path} is not a directory: name a mount point");
            return Err(HotFilesError::Refused(why));
        }
        if let Some(top) = mount_point_above(&whole, meta.dev())? {
            let (path, top) = (path.display(), top.display());
            return Err(HotFilesError::Refused(format!(
                "{path} is not a mount point; the mount point of its file system is {top}"
            )));
        }
        let kind = rustix::fs::fstatfs(&root)?.f_type as u64;
        let stat = rustix::fs::fstatvfs(&root)?;
        let refusal = if kind != EXT {
            Some("only ext4 has a call that moves data safely; for this file system the command can only make the list".to_owned())
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

    /// The directory of the mount point.
    pub(super) const fn root(&self) -> &File {
        &self.root
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn device(&self) -> u64 {
        self.device
    }

    pub(super) const fn block(&self) -> u64 {
        self.block
    }

    /// Bytes of the file system.
    pub(super) const fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block)
    }

    /// Free bytes for programs without privileges.
    pub(super) const fn free_bytes(&self) -> u64 {
        self.free.saturating_mul(self.block)
    }

    /// Why no blocks may be exchanged here; `None` if they may.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Opens a file below the mount point, for reading or also for writing. Follows no symbolic
    /// link, enters no other file system.
    pub(super) fn file(&self, path: &str, write: bool) -> io::Result<File> {
        let how = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        // The time of last access stays unchanged where the kernel lets us ask for that.
        let opened = openat2(&self.root, path, flags | OFlags::NOATIME, Mode::empty(), resolve)
            .or_else(|_| openat2(&self.root, path, flags, Mode::empty(), resolve));
        Ok(opened?.into())
    }
}

/// The mount point above a path of this device; `None` if the path is the mount point.
fn mount_point_above(path: &Path, device: u64) -> io::Result<Option<&Path>> {
    let Some(above) = path.parent() else { return Ok(None) };
    if above.metadata()?.dev() != device {
        return Ok(None);
    }
    let on_device = |p: &&Path| p.metadata().is_ok_and(|m| m.dev() == device);
    Ok(above.ancestors().take_while(on_device).last())
}

/// ext4 flushes the data of a file before it commits the data's new location only with
/// data=ordered, the default, and with a journal: otherwise a crash could leave a file with blocks
/// that were never written.
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
