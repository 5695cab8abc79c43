//! Making a store, finding one again after whatever happened, and looking it over. Everything is read; a store that
//! cannot be trusted is refused, and nothing is changed.

use std::fmt;

use seekless_block::{Bytes, Device, DeviceError, PAGE_BYTES, Sectors};

use crate::api::{Config, FileNumber};
use crate::commit::Log;
use crate::format::{
    Change, CheckpointHeader, FormatError, Geometry, GeometryError, Page, RecordPage, Role,
    Superblock, crc32c, records,
};
use crate::group_store::GroupStore;
use crate::tables::{TableError, Tables};

/// Pages of the log that are read at once.
const SCAN_PAGES: u64 = 64;

/// Why a store is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The device failed.
    #[error("the group store's device failed")]
    Device(#[from] DeviceError),
    /// It cannot be divided.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Neither superblock is whole.
    #[error("no group store: page 0: {first}; page 1: {second}")]
    Superblock {
        /// What is wrong with the first.
        first: FormatError,
        /// And with the second.
        second: FormatError,
    },
    /// They are of two stores.
    #[error("the two superblocks are of different stores: a copy was begun and not ended")]
    Twins,
    /// Larger than what it stands on.
    #[error("the store takes {needed}, and the device has {found}: it was cut off")]
    Cut {
        /// By the superblock.
        needed: Sectors,
        /// Of the device.
        found: Sectors,
    },
    /// No checkpoint is whole, or the one that counts is not.
    #[error(
        "the newest checkpoint is damaged, and an older one with the log does not make up for it: {0}"
    )]
    Checkpoint(String),
    /// Later batches are there, one between is not.
    #[error(
        "the log is damaged: batch {missing} cannot be read, and batch {found} was written after it"
    )]
    Log {
        /// The first that is not there.
        missing: u64,
        /// One that is.
        found: u64,
    },
    /// Records that do not make a table.
    #[error("the tables contradict each other")]
    Table(#[from] TableError),
    /// A record that is none, on a page that is whole.
    #[error("page {page} is whole and holds what is no record")]
    Record {
        /// Which page of the store.
        page: u64,
        /// What is wrong.
        #[source]
        source: FormatError,
    },
}

fn read_page(device: &mut dyn Device, page: u64) -> Result<Page, DeviceError> {
    let mut bytes = [0; PAGE_BYTES as usize];
    device.read(Geometry::pages(page, 1), &mut bytes)?;
    Ok(bytes)
}

/// Makes an empty store on a device, whatever stood there before. `uuid` must be drawn at random.
///
/// # Errors
/// Where the device is too small, or fails.
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

/// What a device says it is.
///
/// # Errors
/// Where neither superblock is whole, or they contradict each other or the device.
pub fn superblock(device: &mut dyn Device) -> Result<(Superblock, Geometry), AttachError> {
    let first = Superblock::decode(&read_page(device, 0)?);
    let second = Superblock::decode(&read_page(device, 1)?);
    let found = match (first, second) {
        (Ok(a), Ok(b)) if a != b => return Err(AttachError::Twins),
        (Ok(a), _) | (_, Ok(a)) => a,
        (Err(first), Err(second)) => return Err(AttachError::Superblock { first, second }),
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

/// The newest that any page of the log says.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    sequence: u64,
    checkpoint: u64,
}

struct Reader<'a> {
    device: &'a mut dyn Device,
    geometry: Geometry,
    uuid: [u8; 16],
}

impl Reader<'_> {
    fn newest(&mut self) -> Result<Newest, AttachError> {
        let mut newest = Newest::default();
        let all = u64::from(self.geometry.log_pages);
        let mut bytes = Vec::new();
        for from in (0..all).step_by(SCAN_PAGES as usize) {
            let pages = SCAN_PAGES.min(all - from);
            bytes.resize((pages * PAGE_BYTES) as usize, 0);
            self.device.read(Geometry::pages(self.geometry.log_at() + from, pages), &mut bytes)?;
            for page in bytes.as_chunks().0 {
                if let Ok(read) = RecordPage::decode(page)
                    && read.uuid == self.uuid
                    && read.role == Role::Log
                {
                    newest.sequence = newest.sequence.max(read.number);
                    newest.checkpoint = newest.checkpoint.max(read.checkpoint);
                }
            }
        }
        Ok(newest)
    }

    /// The header in one of the two places.
    fn header(&mut self, place: u64) -> Result<Result<CheckpointHeader, String>, AttachError> {
        let at = self.geometry.checkpoint_at(place);
        let read = CheckpointHeader::decode(&read_page(self.device, at)?, &self.geometry);
        Ok(match read {
            Ok(h) if h.uuid != self.uuid => Err(format!("page {at} is of another store")),
            Ok(h) if h.generation & 1 != place => Err(format!("page {at} belongs elsewhere")),
            Ok(h) => Ok(h),
            Err(error) => Err(format!("page {at}: {error}")),
        })
    }

    /// The records of a checkpoint, a page at a time; why not, where a page is damaged.
    fn tables(
        &mut self,
        header: &CheckpointHeader,
    ) -> Result<Result<Vec<Change>, String>, AttachError> {
        let at = self.geometry.checkpoint_at(header.generation) + 1;
        let mut changes = Vec::new();
        let mut bytes = Vec::new();
        for from in (0..u64::from(header.pages)).step_by(SCAN_PAGES as usize) {
            let pages = SCAN_PAGES.min(u64::from(header.pages) - from);
            bytes.resize((pages * PAGE_BYTES) as usize, 0);
            self.device.read(Geometry::pages(at + from, pages), &mut bytes)?;
            for (i, page) in (from..).zip(bytes.as_chunks().0) {
                let read = match RecordPage::decode(page) {
                    Ok(read) => read,
                    Err(error) => return Ok(Err(format!("page {}: {error}", at + i))),
                };
                let own = (read.uuid, read.role, read.number, u64::from(read.index));
                if own != (self.uuid, Role::Checkpoint, header.generation, i) {
                    return Ok(Err(format!("page {} is not of this checkpoint", at + i)));
                }
                let read = records(&read.body)
                    .map_err(|source| AttachError::Record { page: at + i, source })?;
                changes.extend(read);
            }
        }
        Ok(Ok(changes))
    }

    /// The batch with this sequence number, if it stands at this page of the log, and its pages.
    fn batch(
        &mut self,
        page: u32,
        sequence: u64,
    ) -> Result<Option<(Vec<Change>, u32)>, AttachError> {
        let at = self.geometry.log_at() + u64::from(page);
        let mut one = |i: u32| -> Result<Option<RecordPage>, AttachError> {
            let read = RecordPage::decode(&read_page(self.device, at + u64::from(i))?).ok();
            let own = |r: &RecordPage| {
                (r.uuid, r.role, r.number, r.index) == (self.uuid, Role::Log, sequence, i)
            };
            Ok(read.filter(own))
        };
        if page >= self.geometry.log_pages {
            return Ok(None);
        }
        let Some(first) = one(0)? else { return Ok(None) };
        let pages = first.pages;
        if pages == 0 || pages > self.geometry.log_pages - page {
            return Ok(None);
        }
        let mut bodies = vec![first.body];
        for i in 1..pages {
            let Some(next) = one(i)? else { return Ok(None) };
            if (next.pages, next.batch_sum) != (pages, first.batch_sum) {
                return Ok(None);
            }
            bodies.push(next.body);
        }
        if crc32c(bodies.iter().map(|body| &body[..])) != first.batch_sum {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for (i, body) in (0..).zip(&bodies) {
            let read =
                records(body).map_err(|source| AttachError::Record { page: at + i, source })?;
            changes.extend(read);
        }
        Ok(Some((changes, pages)))
    }
}

impl GroupStore {
    /// Finds a store again: the newest checkpoint, and over it the log (EEFS, "Crash Recovery"). Afterwards the driver
    /// must decide about [`GroupStore::unsettled`] files.
    ///
    /// # Errors
    /// Where it is no store, is damaged where it matters, or the device fails. Nothing was changed then.
    pub fn attach(device: &mut dyn Device, config: Config) -> Result<Self, AttachError> {
        let (superblock, geometry) = superblock(device)?;
        let uuid = superblock.uuid;
        // What a process that was killed had written may be in the host's cache alone.
        device.flush()?;
        let mut reader = Reader { device, geometry, uuid };
        let newest = reader.newest()?;
        let mut found = Vec::new();
        let mut why = Vec::new();
        for place in 0..2 {
            match reader.header(place)? {
                Ok(header) => found.push(header),
                Err(reason) => why.push(reason),
            }
        }
        found.sort_unstable_by_key(|h| std::cmp::Reverse(h.generation));
        let mut start = None;
        for header in found {
            match reader.tables(&header)? {
                Ok(changes) => {
                    start = Some((header, changes));
                    break;
                }
                Err(reason) => why.push(reason),
            }
        }
        let start = start.filter(|(header, _)| header.generation >= newest.checkpoint);
        let Some((header, changes)) = start else {
            return Err(AttachError::Checkpoint(why.join("; ")));
        };
        let mut table = Tables::new();
        // Which clusters a checkpoint takes is known when all of it is.
        table.apply(
            &changes,
            &geometry,
            &mut crate::cluster_map::ClusterMap::new(geometry.clusters),
        )?;
        drop(changes);
        let mut space = table.verify(&geometry)?;
        table.next_count = table.next_count.max(header.next_count);
        table.next_group = table.next_group.max(header.next_group);
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
            log = Log {
                head: at + pages,
                used: log.used + skipped + pages,
                sequence: log.sequence + 1,
            };
            table.apply(&changes, &geometry, &mut space)?;
        }
        // Each batch was begun when the one before it was on stable storage: the first that is missing may have been
        // torn, and none after it can be there.
        if newest.sequence > log.sequence {
            return Err(AttachError::Log { missing: log.sequence, found: newest.sequence });
        }
        let taken = table.verify(&geometry)?;
        debug_assert!(taken.free() == space.free() + space.deleted());
        table.recovered();
        space.pointer = header.pointer;
        Ok(Self::new(config, geometry, uuid, table, space, log, header.generation))
    }
}

/// What was found on a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Files.
    pub files: u32,
    /// Groups.
    pub groups: u32,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of files that are gone and still stand in groups.
    pub dead_bytes: u64,
    /// Clusters: all, and those free.
    pub clusters: (u32, u32),
    /// Files on their way here or back.
    pub unsettled: u32,
    /// Groups that do not match their checksum, with their files.
    pub damaged: Vec<(u32, Vec<FileNumber>)>,
}

impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files in {} groups, {} unsettled, {} groups damaged",
            self.files,
            self.groups,
            self.unsettled,
            self.damaged.len()
        )
    }
}

/// Attaches a store, reads all groups and holds them against their checksums. Nothing is changed.
///
/// # Errors
/// As [`GroupStore::attach`], and where a group cannot be read.
pub fn examine(device: &mut dyn Device) -> Result<Examined, AttachError> {
    let gfs = GroupStore::attach(device, Config::default())?;
    let mut found = Examined {
        files: gfs.table.files(),
        groups: gfs.table.groups(),
        clusters: (gfs.geometry.clusters, gfs.space.free() + gfs.space.deleted()),
        unsettled: gfs.unsettled().len() as u32,
        ..Examined::default()
    };
    let mut bytes = Vec::new();
    for number in gfs.table.group_numbers() {
        let Some(group) = gfs.table.group(number) else { continue };
        let extent = gfs.geometry.group_extent(group.cluster, group.bytes);
        bytes.resize(extent.bytes().0 as usize, 0);
        device.read(extent, &mut bytes)?;
        let mut live = Vec::new();
        for slot in &group.slots {
            if gfs.table.file(slot.number).is_some_and(|f| f.group == number) {
                found.bytes += u64::from(slot.bytes);
                live.push(slot.number);
            } else {
                found.dead_bytes += u64::from(slot.bytes);
            }
        }
        let whole = bytes.get(..group.bytes as usize).map(crc_fast::crc32_iscsi);
        if whole != Some(group.sum) {
            found.damaged.push((number, live));
        }
    }
    Ok(found)
}
