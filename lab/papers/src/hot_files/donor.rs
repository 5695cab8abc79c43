//! The destination of hot files: a nameless file gets free space and then exchanges that space,
//! block by block. When the nameless file is closed, on purpose or by a crash, the kernel frees the
//! blocks that it holds by then.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, ResolveFlags, fallocate, openat, openat2};
use seekless_serve::extents::{self, Run};

use super::mounted::Mounted;

/// Folders that are tried: ext4 looks for space near the folder of a new file.
const FOLDERS: usize = 12;

/// A nameless file and the location of its space.
#[derive(Debug)]
pub(super) struct Donor {
    pub(super) file: File,
    runs: Vec<Run>,
}

impl Donor {
    /// The pieces that hold its bytes `from..from + len`: first byte on the device, and length.
    pub(super) fn pieces(&self, from: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().filter_map(move |r| {
            let (start, end) = (r.logical.max(from), (r.logical + r.len).min(from + len));
            (start < end).then(|| (r.physical + (start - r.logical), end - start))
        })
    }
}

/// Allocates `bytes` for a nameless file in several folders in turn, and keeps the file with the
/// least `cost`.
pub(super) fn best<'a>(
    mounted: &Mounted,
    bytes: u64,
    paths: impl Iterator<Item = &'a str>,
    cost: impl Fn(&Donor) -> f64,
) -> io::Result<Donor> {
    let mut folders: BTreeSet<&Path> = BTreeSet::from([Path::new("")]);
    for path in paths {
        folders.extend(Path::new(path).parent());
        if folders.len() >= FOLDERS {
            break;
        }
    }
    let mut best: Option<(f64, Donor)> = None;
    let mut last = None;
    for folder in folders {
        match allocate(mounted, folder, bytes) {
            Ok(donor) => {
                let cost = cost(&donor);
                if best.as_ref().is_none_or(|b| cost < b.0) {
                    best = Some((cost, donor));
                }
            }
            Err(error) => last = Some(error),
        }
    }
    match (best, last) {
        (Some((_, donor)), _) => Ok(donor),
        (None, error) => Err(error.unwrap_or_else(|| io::ErrorKind::NotFound.into())),
    }
}

fn allocate(mounted: &Mounted, folder: &Path, bytes: u64) -> io::Result<Donor> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = openat2(mounted.root(), folder, flags, Mode::empty(), resolve)?;
    let file = openat(
        &folder,
        ".",
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )?;
    let file = File::from(file);
    fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    let runs = extents::map(&file, true)?;
    Ok(Donor { file, runs })
}
