//! Where hot files are moved to: a nameless file that is given free space and then exchanges it, block by block. When it is
//! closed, however that comes about, what it holds by then is free.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, ResolveFlags, fallocate, openat, openat2};
use seekless_serve::extents::{self, Run};

use super::volume::Volume;

/// Folders that are tried: ext4 looks for space near the folder a file is made in.
const FOLDERS: usize = 12;

/// A nameless file and where its space lies.
#[derive(Debug)]
pub(super) struct Donor {
    pub(super) file: File,
    runs: Vec<Run>,
}

impl Donor {
    /// Bytes `from..from + len` of it, as they lie: first byte on the volume and length of each piece.
    pub(super) fn pieces(&self, from: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().filter_map(move |r| {
            let (start, end) = (r.logical.max(from), (r.logical + r.len).min(from + len));
            (start < end).then(|| (r.physical + (start - r.logical), end - start))
        })
    }
}

/// Gives `bytes` of free space to a nameless file in each of some folders in turn, and keeps that whose space `cost`
/// finds cheapest.
pub(super) fn best<'a>(
    volume: &Volume,
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
        match given(volume, folder, bytes) {
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

fn given(volume: &Volume, folder: &Path, bytes: u64) -> io::Result<Donor> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = openat2(&volume.root, folder, flags, Mode::empty(), resolve)?;
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
