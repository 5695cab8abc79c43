//! Making a store, and recovering it after a clean end or a crash. A store that cannot be trusted
//! is refused; nothing is written then.

mod reader;

use seekless_block::{Bytes, Device, DeviceError, PAGE_BYTES, Sectors};

use crate::api::Config;
use crate::cluster_map::ClusterMap;
use crate::commit::Log;
use crate::format::{
    Change, CheckpointHeader, FormatError, Geometry, GeometryError, Page, Superblock,
};
use crate::group_store::GroupStore;
use crate::tables::{TableError, Tables};
use reader::{Newest, Reader};

/// Why a store is not attached.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum AttachError {
    #[error("the group store's device failed")]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error("no group store: page 0: {first}; page 1: {second}")]
    Superblock { first: FormatError, second: FormatError },
    #[error("the two superblocks belong to different stores: a copy of the device was interrupted")]
    Twins,
    #[error(
        "the store needs {needed}, but the device has {found}: the end of the store is missing"
    )]
    Cut { needed: Sectors, found: Sectors },
    #[error(
        "the newest checkpoint is damaged, and the log does not reach back to the older one: {0}"
    )]
    Checkpoint(String),
    #[error(
        "page {page} of the log cannot be read, and may have the newest changes: try again; if the device goes on failing, zeroes in this page give them up (`dd if=/dev/zero of=STORE bs=4096 count=1 conv=notrunc seek={page}`)"
    )]
    LogPage {
        page: u64,
        #[source]
        source: DeviceError,
    },
    #[error("the log is damaged: batch {missing} cannot be read, but the later batch {found} can")]
    Log { missing: u64, found: u64 },
    #[error("the tables contradict each other")]
    Table(#[from] TableError),
    #[error("page {page} has a correct checksum but an invalid record")]
    Record {
        page: u64,
        #[source]
        source: FormatError,
    },
}

fn read_page(device: &mut dyn Device, page: u64) -> Result<Page, DeviceError> {
    let mut bytes = [0; PAGE_BYTES as usize];
    device.read(Geometry::pages(page, 1), &mut bytes)?;
    Ok(bytes)
}

/// Makes an empty store on a device and overwrites its former contents. `uuid` must be random. The
/// label is cut to 64 bytes.
///
/// # Errors
/// The device is too small, or fails.
pub fn format(
    device: &mut dyn Device,
    uuid: [u8; 16],
    cluster: Bytes,
    label: &str,
) -> Result<(), AttachError> {
    let geometry = Geometry::fit(device.capacity(), cluster.0)?;
    let end = (0..=label.len().min(64)).rev().find(|&i| label.is_char_boundary(i)).unwrap_or(0);
    let mut name = [0; 64];
    name[..end].copy_from_slice(&label.as_bytes()[..end]);
    let superblock = Superblock {
        uuid,
        capacity: device.capacity(),
        cluster: geometry.cluster,
        clusters: geometry.clusters,
        checkpoint_pages: geometry.checkpoint_pages,
        log_pages: geometry.log_pages,
        label: name,
    };
    let checkpoint = CheckpointHeader {
        uuid,
        generation: 1,
        sequence: 1,
        log_page: 0,
        pages: 0,
        files: 0,
        groups: 0,
        next_count: 1,
        next_group: 1,
        pointer: 0,
    };
    device.write_zeroes(Geometry::pages(0, 2))?;
    device.flush()?;
    device.write_zeroes(Geometry::pages(geometry.checkpoint_at(2), 1))?;
    device.write(Geometry::pages(geometry.checkpoint_at(1), 1), &checkpoint.encode())?;
    device.flush()?;
    let page = superblock.encode();
    device.write(Geometry::pages(0, 1), &page)?;
    device.write(Geometry::pages(1, 1), &page)?;
    device.flush()?;
    Ok(())
}

/// Reads the superblocks of a device.
///
/// # Errors
/// No superblock is whole, or the superblocks contradict each other or the size of the device.
/// One that cannot be read is replaced by the other, as a damaged one is.
pub fn superblock(device: &mut dyn Device) -> Result<(Superblock, Geometry), AttachError> {
    let [first, second] =
        [0, 1].map(|page| read_page(device, page).map(|page| Superblock::decode(&page)));
    let found = match (first, second) {
        (Ok(Ok(a)), Ok(Ok(b))) if a != b => return Err(AttachError::Twins),
        (Ok(Ok(a)), _) | (_, Ok(Ok(a))) => a,
        (Err(unreadable), _) | (_, Err(unreadable)) => return Err(unreadable.into()),
        (Ok(Err(first)), Ok(Err(second))) => return Err(AttachError::Superblock { first, second }),
    };
    let geometry = Geometry {
        cluster: found.cluster,
        clusters: found.clusters,
        checkpoint_pages: found.checkpoint_pages,
        log_pages: found.log_pages,
    };
    if geometry.end().0 > device.capacity().0 {
        return Err(AttachError::Cut { needed: geometry.end(), found: device.capacity() });
    }
    Ok((found, geometry))
}

impl GroupStore {
    /// Attaches a store: its newest whole checkpoint, and all batches of the log after it (EEFS,
    /// "Crash Recovery"). The driver must then decide about [`GroupStore::unsettled`] files.
    ///
    /// A page that cannot be read counts as a damaged page, except where the log may have a batch: the
    /// device may read that page later.
    ///
    /// # Errors
    /// The device holds no store, the store is damaged, or the device fails. Nothing was changed
    /// then.
    pub fn attach(device: &mut dyn Device, config: Config) -> Result<Self, AttachError> {
        // After a kill, the last writes may be only in the cache of the host. After a failed flush,
        // they are there and never reach the device: what is read must be what a power cut leaves.
        device.flush()?;
        device.forget_cached();
        let (superblock, geometry) = superblock(device)?;
        let mut reader = Reader { device, geometry, uuid: superblock.uuid };
        let newest = reader.newest();
        let (header, changes, lost_checkpoint) = newest_checkpoint(&mut reader, newest)?;
        let mut tables = Tables::new();
        // The clusters of a checkpoint are known only after all of its records.
        tables.apply(&changes, &geometry, &mut ClusterMap::new(geometry.clusters))?;
        drop(changes);
        let mut clusters = tables.verify(&geometry)?;
        tables.next_count = tables.next_count.max(header.next_count);
        tables.next_group = tables.next_group.max(header.next_group);
        let log = replay(&mut reader, &header, &mut tables, &mut clusters)?;
        // A batch begins only after the one before it is on stable storage. The last batch may be
        // torn, but no later one can exist.
        if newest.sequence > log.sequence {
            return Err(AttachError::Log { missing: log.sequence, found: newest.sequence });
        }
        let taken = tables.verify(&geometry)?;
        debug_assert!(taken.free() == clusters.free() + clusters.deleted());
        tables.find_free_indices();
        clusters.pointer = header.pointer;
        let (uuid, generation) = (superblock.uuid, header.generation);
        let mut store = Self::new(config, geometry, uuid, tables, clusters, log, generation);
        store.lost_checkpoint = lost_checkpoint;
        Ok(store)
    }
}

/// The newest checkpoint that is whole, its records, and whether the other one is not whole. The
/// log must reach back to the checkpoint.
fn newest_checkpoint(
    reader: &mut Reader<'_>,
    newest: Newest,
) -> Result<(CheckpointHeader, Vec<Change>, bool), AttachError> {
    let (mut found, mut reasons) = (Vec::new(), Vec::new());
    for slot in 0..2 {
        match reader.header(slot) {
            Ok(header) => found.push(header),
            Err(reason) => reasons.push(reason),
        }
    }
    found.sort_unstable_by_key(|h| std::cmp::Reverse(h.generation));
    for header in found {
        match reader.tables(&header)? {
            Ok(changes) if header.generation >= newest.checkpoint => {
                return Ok((header, changes, !reasons.is_empty()));
            }
            Ok(_) => break,
            Err(reason) => reasons.push(reason),
        }
    }
    Err(AttachError::Checkpoint(reasons.join("; ")))
}

/// Applies all batches of the log after a checkpoint.
fn replay(
    reader: &mut Reader<'_>,
    header: &CheckpointHeader,
    tables: &mut Tables,
    clusters: &mut ClusterMap,
) -> Result<Log, AttachError> {
    let geometry = reader.geometry;
    let mut log = Log { head: header.log_page, used: 0, sequence: header.sequence };
    loop {
        let (at, changes, pages) = match reader.batch(log.head, log.sequence)? {
            Some((changes, pages)) => (log.head, changes, pages),
            None if log.head == 0 => break,
            None => match reader.batch(0, log.sequence)? {
                Some((changes, pages)) => (0, changes, pages),
                None => break,
            },
        };
        let skipped = if at == log.head { 0 } else { geometry.log_pages - log.head };
        log =
            Log { head: at + pages, used: log.used + skipped + pages, sequence: log.sequence + 1 };
        Tables::claim(&changes, clusters)?;
        tables.apply(&changes, &geometry, clusters)?;
    }
    Ok(log)
}

#[cfg(test)]
mod tests;
