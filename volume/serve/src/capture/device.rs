//! Finds a block device, its disk, and the disks below a file, from stat and /sys. Opens no device.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use seekless_block::Extent;
use seekless_host::blocks::{folder, numbers_of, whole_disk};
use seekless_host::mounts::numbers;

use super::CaptureError;

/// A block device and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its path as given.
    pub path: PathBuf,
    /// Major and minor number of the whole disk, as in the kernel's block events.
    pub disk: (u32, u32),
    /// Kernel name of the whole disk.
    pub disk_name: String,
    /// Its sectors of the disk, if it is a partition.
    pub partition: Option<Extent>,
    /// Sectors of the device.
    pub sectors: u64,
    /// Sectors of the whole disk.
    pub disk_sectors: u64,
    /// The kernel's sequence number of the attached disk, unique until reboot; 0 before Linux 5.15.
    pub(crate) sequence: u64,
    /// True if this device queues requests for a driver; false if this device maps requests to
    /// other devices.
    pub(super) has_queue: bool,
}

impl BlockDevice {
    /// Finds the device at `path`.
    pub fn find(path: &Path) -> Result<Self, CaptureError> {
        let no = |what: String| CaptureError::NotABlockDevice { path: path.to_owned(), what };
        let meta = path.metadata().map_err(|e| no(e.to_string()))?;
        let kind = meta.file_type();
        if !kind.is_block_device() {
            let what = if kind.is_dir() { "a folder" } else { "no block device" };
            return Err(no(what.to_owned()));
        }
        let number = numbers_of(meta.rdev());
        Self::known(path, &folder(number)).map_err(|e| no(format!("/sys does not know it ({e})")))
    }

    /// Finds the device of this number, as stat has it.
    pub(crate) fn of_number(device: u64) -> io::Result<Self> {
        Self::known(Path::new(""), &folder(numbers_of(device)))
    }

    /// The disk as it is now, independent of the path; `None` if it is gone.
    pub(crate) fn again(&self) -> Option<Self> {
        Self::known(&self.path, &folder(self.disk)).ok()
    }

    fn known(path: &Path, sys: &Path) -> io::Result<Self> {
        let place = fs::canonicalize(sys)?;
        let sectors = number(&place.join("size"))?;
        let partition = if place.join("partition").exists() {
            Some(Extent::new(number(&place.join("start"))?, sectors))
        } else {
            None
        };
        let whole = whole_disk(place);
        let dev = fs::read_to_string(whole.join("dev"))?;
        Ok(Self {
            path: path.to_owned(),
            disk: numbers(&dev)
                .ok_or_else(|| io::Error::other(format!("its number is '{}'", dev.trim())))?,
            disk_name: whole.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            partition,
            sectors,
            disk_sectors: number(&whole.join("size"))?,
            sequence: number(&whole.join("diskseq")).unwrap_or(0),
            has_queue: whole.join("mq").exists(),
        })
    }

    /// The kernel's device number in block events, which differs from stat's.
    pub(super) const fn kernel_number(&self) -> u64 {
        (self.disk.0 as u64) << 20 | self.disk.1 as u64
    }
}

/// Numbers of the whole disks that `path` is or lies on, also through partitions, device mapper and
/// loop devices. Empty if unknown (network, memory, file systems of several devices).
pub fn disks_below(path: &Path) -> BTreeSet<(u32, u32)> {
    let mut found = BTreeSet::new();
    if let Ok(meta) = path.metadata() {
        below(under(&meta), &mut found, 0);
    }
    found
}

/// The device of a file, or the file itself if it is a device.
fn under(meta: &fs::Metadata) -> (u32, u32) {
    numbers_of(if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() })
}

/// Limit for stacked devices, against loops.
const STOREYS: u32 = 16;

fn below(number: (u32, u32), found: &mut BTreeSet<(u32, u32)>, storey: u32) {
    let Ok(device) = BlockDevice::known(Path::new(""), &folder(number)) else { return };
    if storey > STOREYS || !found.insert(device.disk) {
        return;
    }
    let whole = folder(device.disk);
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

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim()
        .parse()
        .map_err(|_| io::Error::other(format!("{} holds '{}'", path.display(), text.trim())))
}
