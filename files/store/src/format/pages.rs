//! The superblock, a checkpoint's header, and the pages of records of the log and of checkpoints.

use seekless_block::Sectors;

use super::field::layout;
use super::{Change, FRAME_BYTES, FormatError, Geometry, Page, check, open, seal, value};

layout! {
    /// Describes the store. Kind 1. The first two pages hold a copy each. It never changes.
    pub Superblock "superblock" {
        /// Identifies the store: a random number, drawn when the store is made.
        uuid: [u8; 16],
        /// Size of the store.
        capacity: Sectors,
        /// Size of a cluster: 64 or 128 KiB.
        cluster: Sectors,
        /// Number of clusters.
        clusters: u32,
        /// Pages of each of the two checkpoints, the header included.
        checkpoint_pages: u32,
        /// Pages of the log.
        log_pages: u32,
        /// A name for people, UTF-8, filled up with zeroes.
        label: [u8; 64],
    }
}

layout! {
    /// The first page of a checkpoint, written after its other pages are on stable storage. Kind 2.
    /// The checkpoint with the higher generation is valid.
    pub CheckpointHeader "checkpoint" {
        /// The uuid of the store.
        uuid: [u8; 16],
        /// Number of the checkpoint, from 1.
        generation: u64,
        /// Sequence number of the first batch of the log after the checkpoint.
        sequence: u64,
        /// Page of the log where this batch begins.
        log_page: u32,
        /// Pages of records that follow.
        pages: u32,
        /// Number of files in these pages.
        files: u32,
        /// Number of groups in these pages.
        groups: u32,
        /// The count in the number of the next new file.
        next_count: u32,
        /// The number of the next new group.
        next_group: u32,
        /// The cluster behind the last written cluster: EEFS's cluster pointer.
        pointer: u32,
    }
}

layout! {
    /// The first fields of a page of records. Kind 3.
    RecordHead "page of records" {
        /// The uuid of the store.
        uuid: [u8; 16],
        /// 1 in a checkpoint, 2 in the log.
        role: u8,
        /// In a checkpoint its generation; in the log the batch's sequence number, from 1.
        number: u64,
        /// Number of the page in the checkpoint or batch, from 0.
        index: u32,
        /// Number of pages of the batch; 0 in a checkpoint.
        pages: u32,
        /// CRC-32C of the records of all pages of the batch: pages of two attempts at one batch
        /// never count as one batch. 0 in a checkpoint.
        batch_sum: u32,
        /// In the log: generation of the newest checkpoint at the time of writing. In a checkpoint
        /// 0.
        checkpoint: u64,
        /// Bytes of records that follow. The rest of the page is zero.
        used: u16,
    }
}

/// Bytes of records in one page, at most.
pub(crate) const BODY_BYTES: usize = size_of::<Page>() - FRAME_BYTES - RecordHead::BYTES;

const KIND_SUPERBLOCK: u16 = 1;
const KIND_CHECKPOINT: u16 = 2;
const KIND_RECORDS: u16 = 3;

/// The place of a page of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In a checkpoint.
    Checkpoint,
    /// In the log.
    Log,
}

/// Refuses bytes after the last field: the next write would lose them.
fn nothing_behind(rest: &[u8], what: &'static str) -> Result<(), FormatError> {
    let byte = rest.iter().copied().find(|b| *b != 0).unwrap_or(0);
    check(byte == 0, what, byte, "zero behind the last field")
}

impl Superblock {
    /// As a page.
    pub fn encode(&self) -> Page {
        let mut fields = Vec::with_capacity(Self::BYTES);
        self.put(&mut fields);
        seal(KIND_SUPERBLOCK, &fields)
    }

    /// From a page.
    ///
    /// # Errors
    /// The page is of another kind, is damaged, or its fields contradict each other.
    pub fn decode(page: &Page) -> Result<Self, FormatError> {
        let mut bytes = open(page, KIND_SUPERBLOCK)?;
        let read = Self::take(&mut bytes).ok_or(FormatError::Short { what: "the superblock" })?;
        nothing_behind(bytes, "superblock")?;
        Geometry::of(&read)?;
        Ok(read)
    }
}

impl CheckpointHeader {
    /// As a page.
    pub fn encode(&self) -> Page {
        let mut fields = Vec::with_capacity(Self::BYTES);
        self.put(&mut fields);
        seal(KIND_CHECKPOINT, &fields)
    }

    /// From a page.
    ///
    /// # Errors
    /// The page is of another kind, is damaged, or does not fit the store.
    pub fn decode(page: &Page, geometry: &Geometry) -> Result<Self, FormatError> {
        let mut bytes = open(page, KIND_CHECKPOINT)?;
        let read = Self::take(&mut bytes).ok_or(FormatError::Short { what: "the checkpoint" })?;
        nothing_behind(bytes, "checkpoint")?;
        let Self { generation, sequence, pages, log_page, pointer, .. } = read;
        check(generation > 0, "checkpoint.generation", generation, "1 or more")?;
        check(sequence > 0, "checkpoint.sequence", sequence, "1 or more")?;
        let fits = pages < geometry.checkpoint_pages;
        check(fits, "checkpoint.pages", pages, "fewer than its place has")?;
        let inside = log_page <= geometry.log_pages;
        check(inside, "checkpoint.log_page", log_page, "no more than the log has")?;
        let inside = pointer <= geometry.clusters;
        check(inside, "checkpoint.pointer", pointer, "no more than the number of clusters")?;
        Ok(read)
    }
}

/// A page of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPage {
    /// The uuid of the store.
    pub uuid: [u8; 16],
    /// Its place.
    pub role: Role,
    /// The checkpoint's generation, or the batch's sequence number.
    pub number: u64,
    /// Number of the page in the checkpoint or batch.
    pub index: u32,
    /// Pages of the batch.
    pub pages: u32,
    /// Checksum of the batch's records.
    pub batch_sum: u32,
    /// The newest checkpoint at the time of writing.
    pub checkpoint: u64,
    /// Records as bytes; at most [`BODY_BYTES`].
    pub body: Vec<u8>,
}

impl RecordPage {
    pub(super) const LAYOUT: super::field::Layout = RecordHead::LAYOUT;

    /// As a page.
    ///
    /// # Panics
    /// The body is longer than [`BODY_BYTES`]: a bug.
    pub fn encode(&self) -> Page {
        assert!(self.body.len() <= BODY_BYTES, "{} bytes of records", self.body.len());
        let head = RecordHead {
            uuid: self.uuid,
            role: match self.role {
                Role::Checkpoint => 1,
                Role::Log => 2,
            },
            number: self.number,
            index: self.index,
            pages: self.pages,
            batch_sum: self.batch_sum,
            checkpoint: self.checkpoint,
            used: self.body.len() as u16,
        };
        let mut fields = Vec::with_capacity(RecordHead::BYTES + self.body.len());
        head.put(&mut fields);
        fields.extend_from_slice(&self.body);
        seal(KIND_RECORDS, &fields)
    }

    /// From a page. [`super::records`] decodes its records.
    ///
    /// # Errors
    /// The page is of another kind, or damaged.
    pub fn decode(page: &Page) -> Result<Self, FormatError> {
        let mut bytes = open(page, KIND_RECORDS)?;
        let head =
            RecordHead::take(&mut bytes).ok_or(FormatError::Short { what: "a page of records" })?;
        let role = match head.role {
            1 => Role::Checkpoint,
            2 => Role::Log,
            other => return Err(value("page of records.role", other, "1 or 2")),
        };
        let used = usize::from(head.used);
        let (body, rest) = bytes
            .split_at_checked(used)
            .ok_or_else(|| value("page of records.used", head.used, "no more than a page holds"))?;
        nothing_behind(rest, "page of records")?;
        Ok(Self {
            uuid: head.uuid,
            role,
            number: head.number,
            index: head.index,
            pages: head.pages,
            batch_sum: head.batch_sum,
            checkpoint: head.checkpoint,
            body: body.to_vec(),
        })
    }
}

/// Packs records in their order into as few bodies of pages as possible. No record crosses a page.
pub(crate) fn pack(changes: &[Change]) -> Vec<Vec<u8>> {
    let (mut bodies, mut body, mut record) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        record.clear();
        change.put(&mut record);
        if body.len() + record.len() > BODY_BYTES {
            bodies.push(std::mem::take(&mut body));
        }
        body.extend_from_slice(&record);
    }
    if !body.is_empty() {
        bodies.push(body);
    }
    bodies
}
