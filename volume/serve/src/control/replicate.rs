//! Replicas on request (FS2-static): the pages that get one, and the places of a file's blocks on a
//! volume.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use seekless_block::{Bytes, Extent, Lba, PAGE_SECTORS, SECTOR_BYTES};
use seekless_host::{HostError, cannot_at};
use seekless_learn::side_by_side;
use serde::{Deserialize, Serialize};

use crate::capture::BlockDevice;
use crate::{Injector, extents};

/// The answer to a command to replicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Sectors of the whole pages asked for.
    pub asked_sectors: u64,
    /// Sectors that get a replica.
    pub placed_sectors: u64,
}

/// Places replicas of every page of `homes` without one side by side in free space, close to
/// `near`.
pub(super) fn replicate(
    volume: &Injector,
    near: Extent,
    homes: &[Extent],
) -> Result<Placed, String> {
    let room = volume.room().map_err(|e| e.to_string())?;
    let room = room.ok_or("its area was not made for replicas")?;
    if room.state.suspended {
        return Err(
            "less than 10% of the volume is discarded and spare: replication waits for 15%"
                .to_owned(),
        );
    }
    let mut wanted: Vec<Extent> = Vec::new();
    let (mut asked, mut left) = (0, room.state.room.0);
    for home in homes {
        let home = room.pages.touched(*home);
        asked += home.len.0;
        for page in (home.start.0..home.end().0).step_by(PAGE_SECTORS as usize) {
            if left < PAGE_SECTORS || room.has_replica(Lba(page)) {
                continue;
            }
            left -= PAGE_SECTORS;
            match wanted.last_mut() {
                Some(last) if last.end().0 == page => last.len.0 += PAGE_SECTORS,
                _ => wanted.push(Extent::new(page, PAGE_SECTORS)),
            }
        }
    }
    let list = side_by_side(&wanted, room.free.iter().copied(), near);
    let placed = list.iter().flat_map(|r| &r.homes).map(|e| e.len.0).sum();
    volume.replicate(list).map_err(|e| e.to_string())?;
    Ok(Placed { asked_sectors: asked, placed_sectors: placed })
}

/// The extents of a file on a volume of `volume` bytes. The file system must be on the volume's
/// device or on a partition of it.
pub fn extents_of_file(path: &Path, volume: u64) -> Result<Vec<Extent>, HostError> {
    let refused = |why: String| HostError::Refused { path: path.to_owned(), why };
    let file = File::open(path).map_err(cannot_at(path, "open it"))?;
    let meta = file.metadata().map_err(cannot_at(path, "look at it"))?;
    if !meta.is_file() {
        return Err(refused("is no regular file".to_owned()));
    }
    let from = partition_start(meta.dev(), volume)
        .map_err(|why| refused(format!("not on this volume: {why}")))?;
    let runs = extents::map(&file, true)
        .map_err(|e| refused(format!("the kernel does not name its blocks: {e}")))?;
    let own = runs.iter().filter(|r| !r.unwritten && !r.odd && r.len > 0);
    Ok(own
        .map(|r| {
            let first = from + r.physical / SECTOR_BYTES;
            Extent::span(first, from + (r.physical + r.len).div_ceil(SECTOR_BYTES))
        })
        .collect())
}

/// The sector of the volume at which this device of the kernel begins.
fn partition_start(device: u64, volume: u64) -> Result<u64, String> {
    let device = BlockDevice::of_number(device)
        .map_err(|_| "its file system is not on one block device".to_owned())?;
    let (name, found) = (&device.disk_name, device.disk_sectors.saturating_mul(SECTOR_BYTES));
    if found == volume {
        return Ok(device.partition.map_or(0, |p| p.start.0));
    }
    Err(format!("its device, {name}, has {}, and the volume has {}", Bytes(found), Bytes(volume)))
}
