//! The superblock, a checkpoint's header, and pages of records, which stand in the log and in checkpoints.

use seekless_block::Sectors;

use super::field::layout;
use super::{Change, FRAME_BYTES, FormatError, Geometry, Page, open, seal, value};

layout! {
    /// What a store is. Kind 1. It stands twice, in the first two pages, and never changes.
    pub Superblock "superblock" {
        /// Tells this store from every other one: drawn at random when it was made.
        uuid: [u8; 16],
        /// Size of the store.
        capacity: Sectors,
        /// Size of a cluster: 64 or 128 KiB.
        cluster: Sectors,
        /// How many there are.
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
    /// What a checkpoint is: the first page of its place, written once its pages are on stable storage. Kind 2. The one
    /// with the higher generation counts.
    pub CheckpointHeader "checkpoint" {
        /// Of the store.
        uuid: [u8; 16],
        /// Counts the checkpoints, from 1.
        generation: u64,
        /// Sequence number of the first batch of the log that it has not seen.
        sequence: u64,
        /// Page of the log where that one would stand.
        log_page: u32,
        /// Pages of records that follow.
        pages: u32,
        /// Files in them.
        files: u32,
        /// Groups in them.
        groups: u32,
        /// The count that the next file's number will carry.
        next_count: u32,
        /// The number of the next new group.
        next_group: u32,
        /// The cluster behind the one written last: EEFS's cluster pointer.
        pointer: u32,
    }
}

layout! {
    /// What a page of records begins with. Kind 3.
    RecordHead "page of records" {
        /// Of the store.
        uuid: [u8; 16],
        /// 1 in a checkpoint, 2 in the log.
        role: u8,
        /// In a checkpoint its generation; in the log the batch's sequence number, from 1.
        number: u64,
        /// Which page of the checkpoint or batch, from 0.
        index: u32,
        /// How many pages the batch has; 0 in a checkpoint.
        pages: u32,
        /// CRC-32C of the records of all pages of the batch, so that pages of two attempts at the same batch are never
        /// taken for one; 0 in a checkpoint.
        batch_sum: u32,
        /// In the log: the generation of the checkpoint that stood when it was written. In a checkpoint 0.
        checkpoint: u64,
        /// Bytes of records that follow. The rest of the page is zero.
        used: u16,
    }
}

/// Bytes of records in one page, at most.
pub const BODY_BYTES: usize = size_of::<Page>() - FRAME_BYTES - RecordHead::BYTES;

const KIND_SUPERBLOCK: u16 = 1;
const KIND_CHECKPOINT: u16 = 2;
const KIND_RECORDS: u16 = 3;

/// Where a page of records stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In a checkpoint.
    Checkpoint,
    /// In the log.
    Log,
}

/// Behind the fields nothing stands: it would be lost at the next write.
fn nothing_behind(rest: &[u8], what: &'static str) -> Result<(), FormatError> {
    match rest.iter().find(|b| **b != 0) {
        None => Ok(()),
        Some(&byte) => Err(value(what, byte, "zero behind the last field")),
    }
}

impl Superblock {
    /// As a page.
    #[must_use]
    pub fn encode(&self) -> Page {
        let mut fields = Vec::with_capacity(Self::BYTES);
        self.put(&mut fields);
        seal(KIND_SUPERBLOCK, &fields)
    }

    /// From a page.
    ///
    /// # Errors
    /// Where it is none, is damaged, or its fields contradict each other.
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
    #[must_use]
    pub fn encode(&self) -> Page {
        let mut fields = Vec::with_capacity(Self::BYTES);
        self.put(&mut fields);
        seal(KIND_CHECKPOINT, &fields)
    }

    /// From a page.
    ///
    /// # Errors
    /// Where it is none, is damaged, or does not fit the store.
    pub fn decode(page: &Page, geometry: &Geometry) -> Result<Self, FormatError> {
        let mut bytes = open(page, KIND_CHECKPOINT)?;
        let read = Self::take(&mut bytes).ok_or(FormatError::Short { what: "the checkpoint" })?;
        nothing_behind(bytes, "checkpoint")?;
        if read.generation == 0 {
            return Err(value("checkpoint.generation", 0u32, "1 or more"));
        }
        if read.sequence == 0 {
            return Err(value("checkpoint.sequence", 0u32, "1 or more"));
        }
        if read.pages >= geometry.checkpoint_pages {
            return Err(value("checkpoint.pages", read.pages, "fewer than its place has"));
        }
        if read.log_page > geometry.log_pages {
            return Err(value("checkpoint.log_page", read.log_page, "no more than the log has"));
        }
        if read.pointer > geometry.clusters {
            return Err(value(
                "checkpoint.pointer",
                read.pointer,
                "no more than there are clusters",
            ));
        }
        Ok(read)
    }
}

/// A page of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPage {
    /// Of the store.
    pub uuid: [u8; 16],
    /// Where it stands.
    pub role: Role,
    /// The checkpoint's generation, or the batch's sequence number.
    pub number: u64,
    /// Which page of it.
    pub index: u32,
    /// Pages of the batch.
    pub pages: u32,
    /// Checksum of the batch's records.
    pub batch_sum: u32,
    /// The checkpoint that stood when it was written.
    pub checkpoint: u64,
    /// Records as bytes; at most [`BODY_BYTES`].
    pub body: Vec<u8>,
}

impl RecordPage {
    pub(super) const LAYOUT: super::field::Layout = RecordHead::LAYOUT;

    /// As a page.
    ///
    /// # Panics
    /// Where the body is longer than [`BODY_BYTES`]: a bug.
    #[must_use]
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

    /// From a page. Its records are not looked at: see [`super::records`].
    ///
    /// # Errors
    /// Where it is none, or is damaged.
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

/// Records laid into as few bodies of pages as their order allows; none crosses a page.
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
