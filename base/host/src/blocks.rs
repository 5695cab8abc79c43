//! Block devices in /sys.

use std::path::PathBuf;

/// Major and minor number in a device number of stat.
pub fn numbers_of(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The folder of a block device.
pub fn folder((major, minor): (u32, u32)) -> PathBuf {
    format!("/sys/dev/block/{major}:{minor}").into()
}

/// The folder of the whole disk. `place`: the canonical folder of the disk or of its partition.
pub fn whole_disk(place: PathBuf) -> PathBuf {
    match place.parent() {
        Some(disk) if place.join("partition").exists() => disk.to_owned(),
        _ => place,
    }
}
