//! Which block device a path names, what disk it is part of, and which disks a file lies on: what stat and
//! /sys say. It opens no device.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use seekless_block::Extent;

use super::CaptureError;

/// A block device, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// As it was named.
    pub path: PathBuf,
    /// Major and minor number of the whole disk: what the kernel's block events carry.
    pub disk: (u32, u32),
    /// The kernel's name of the whole disk.
    pub disk_name: String,
    /// The sectors of the disk that the device is, where it is a partition.
    pub partition: Option<Extent>,
    /// How many sectors the device has.
    pub sectors: u64,
    /// How many sectors the whole disk has.
    pub disk_sectors: u64,
    /// The kernel's number of what is attached there, of which no two are alike as long as it runs; 0 where it
    /// numbers none (Linux before 5.15).
    pub(crate) sequence: u64,
    /// Whether requests are queued and issued to a driver, rather than remapped to other devices.
    pub(super) has_queue: bool,
}

impl BlockDevice {
    /// What is known of the device at `path`.
    ///
    /// # Errors
    /// Where it is no block device.
    pub fn find(path: &Path) -> Result<Self, CaptureError> {
        let no = |what: String| CaptureError::NotABlockDevice { path: path.to_owned(), what };
        let meta = path.metadata().map_err(|e| no(e.to_string()))?;
        let kind = meta.file_type();
        if !kind.is_block_device() {
            let what = if kind.is_dir() { "a folder" } else { "no block device" };
            return Err(no(what.to_owned()));
        }
        let number = numbers(meta.rdev());
        Self::known(path, &sys(number)).map_err(|e| no(format!("/sys does not know it ({e})")))
    }

    /// The disk as it is now, whatever has come of the path; `None` where it is no more.
    pub(crate) fn again(&self) -> Option<Self> {
        Self::known(&self.path, &sys(self.disk)).ok()
    }

    fn known(path: &Path, sys: &Path) -> io::Result<Self> {
        let place = fs::canonicalize(sys)?;
        let sectors = number(&place.join("size"))?;
        let is_part = place.join("partition").exists();
        let (whole, partition) = if is_part {
            let whole = place.parent().unwrap_or(&place).to_owned();
            (whole, Some(Extent::new(number(&place.join("start"))?, sectors)))
        } else {
            (place, None)
        };
        let dev = fs::read_to_string(whole.join("dev"))?;
        let disk =
            dev.trim().split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        Ok(Self {
            path: path.to_owned(),
            disk: disk
                .ok_or_else(|| io::Error::other(format!("its number is '{}'", dev.trim())))?,
            disk_name: whole.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            partition,
            sectors,
            disk_sectors: number(&whole.join("size"))?,
            sequence: number(&whole.join("diskseq")).unwrap_or(0),
            has_queue: whole.join("mq").exists(),
        })
    }

    /// The number that block events carry: the kernel's own, not stat's.
    pub(super) const fn kernel_number(&self) -> u64 {
        (self.disk.0 as u64) << 20 | self.disk.1 as u64
    }
}

/// Numbers of the whole disks that `path` is or lies on, also through partitions, device mapper and loop
/// devices. Empty where that is not known (a network, memory, file systems of several devices).
#[must_use]
pub fn disks_below(path: &Path) -> BTreeSet<(u32, u32)> {
    let mut found = BTreeSet::new();
    if let Ok(meta) = path.metadata() {
        below(under(&meta), &mut found, 0);
    }
    found
}

/// The device that a file lies on, or is.
fn under(meta: &fs::Metadata) -> (u32, u32) {
    numbers(if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() })
}

/// Stacks of devices are a few storeys high; a loop in them would be the kernel's fault.
const STOREYS: u32 = 16;

fn below(number: (u32, u32), found: &mut BTreeSet<(u32, u32)>, storey: u32) {
    let Ok(device) = BlockDevice::known(Path::new(""), &sys(number)) else { return };
    if storey > STOREYS || !found.insert(device.disk) {
        return;
    }
    let whole = sys(device.disk);
    if let Ok(file) = fs::read_to_string(whole.join("loop/backing_file"))
        && let Ok(meta) = Path::new(file.trim_end()).metadata()
    {
        below(under(&meta), found, storey + 1);
    }
    for slave in fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten() {
        if let Ok(device) = BlockDevice::known(Path::new(""), &slave.path()) {
            below(device.disk, found, storey + 1);
        }
    }
}

fn sys((major, minor): (u32, u32)) -> PathBuf {
    format!("/sys/dev/block/{major}:{minor}").into()
}

fn numbers(dev: u64) -> (u32, u32) {
    (rustix::fs::major(dev), rustix::fs::minor(dev))
}

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::other(format!("{} holds '{}'", path.display(), text.trim())))
}
