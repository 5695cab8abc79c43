//! A change of the file lookup table or the group table. The log and the checkpoints are lists of
//! changes. The changes of a checkpoint build the tables from nothing.

use super::field::{Field as _, Layout, layout};
use super::{FormatError, check, value};
use crate::{FILE_BYTES_MAX, FileNumber, GROUP_FILES_MAX, NAME_BYTES_MAX};

layout! {
    /// An entry of the file lookup table, after tag 1. The file's name follows.
    pub FileRecord "file" {
        /// The file's number. Bits 0 to 31: its place in the table; bits 32 to 63: a count that is
        /// different for every file.
        number: u64,
        /// The file's group.
        group: u32,
        /// Size in bytes, at most 64 KiB.
        size: u32,
        /// Type and permissions, as `st_mode` has them.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group of the owner.
        gid: u32,
        /// Last read, nanoseconds since 1970.
        accessed: i64,
        /// Last written.
        modified: i64,
        /// Last changed, attributes included.
        changed: i64,
        /// 0: in the store. 1: on its way in; the other module decides. 2: on its way back.
        state: u8,
        /// Bytes of the name.
        name_bytes: u16,
    }
}

layout! {
    /// An entry of the group table, after tag 3. The places of its files follow, in their order.
    pub GroupRecord "group" {
        /// The group's number, from 1.
        group: u32,
        /// Its first cluster.
        cluster: u32,
        /// Number of contiguous clusters.
        clusters: u16,
        /// Number of bytes written to the group.
        bytes: u32,
        /// CRC-32C of these bytes.
        sum: u32,
        /// Number of files that follow.
        files: u16,
    }
}

layout! {
    /// A file's place within its group. The place is dead if the file is removed, or if its entry
    /// names another group.
    pub SlotRecord "place" {
        /// The file's number.
        number: FileNumber,
        /// First byte, from the beginning of the group.
        offset: u32,
        /// Number of bytes.
        bytes: u32,
    }
}

/// Bytes of the largest group.
const GROUP_BYTES_MAX: u32 = GROUP_FILES_MAX as u32 * FILE_BYTES_MAX;

const TAG_FILE: u8 = 1;
const TAG_GONE: u8 = 2;
const TAG_GROUP: u8 = 3;

/// A record of the log or of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file is new, or replaces its older entry.
    File(FileRecord, Box<[u8]>),
    /// The file is removed.
    Gone(u64),
    /// The group is written at this place.
    Group(GroupRecord, Box<[SlotRecord]>),
}

/// Longest record: a page holds at least one.
pub(crate) const RECORD_BYTES_MAX: usize = 1 + if FileRecord::BYTES + NAME_BYTES_MAX
    > GroupRecord::BYTES + GROUP_FILES_MAX * SlotRecord::BYTES
{
    FileRecord::BYTES + NAME_BYTES_MAX
} else {
    GroupRecord::BYTES + GROUP_FILES_MAX * SlotRecord::BYTES
};

/// Bytes of a file's record.
pub(crate) const fn file_bytes(name: usize) -> usize {
    1 + FileRecord::BYTES + name
}

/// Bytes of a group's record.
pub(crate) const fn group_bytes(files: usize) -> usize {
    1 + GroupRecord::BYTES + files * SlotRecord::BYTES
}

// EEFS: an entry of the lookup table takes less than 80 bytes, without its name.
const _: () = assert!(file_bytes(0) < 80);

impl Change {
    pub(super) const LAYOUTS: [Layout; 3] =
        [FileRecord::LAYOUT, GroupRecord::LAYOUT, SlotRecord::LAYOUT];

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::File(record, name) => {
                out.push(TAG_FILE);
                record.put(out);
                out.extend_from_slice(name);
            }
            Self::Gone(number) => {
                out.push(TAG_GONE);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Group(record, slots) => {
                out.push(TAG_GROUP);
                record.put(out);
                slots.iter().for_each(|s| s.put(out));
            }
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, FormatError> {
        match u8::take(bytes).ok_or(FormatError::Short { what: "a record" })? {
            TAG_FILE => Self::take_file(bytes),
            TAG_GONE => {
                let number = u64::take(bytes);
                let number = number.ok_or(FormatError::Short { what: "a file's number" })?;
                number_is_sound(number)?;
                Ok(Self::Gone(number))
            }
            TAG_GROUP => Self::take_group(bytes),
            tag => Err(value("the tag of a record", tag, "1, 2 or 3")),
        }
    }

    fn take_file(bytes: &mut &[u8]) -> Result<Self, FormatError> {
        let record = FileRecord::take(bytes);
        let record = record.ok_or(FormatError::Short { what: "a file's record" })?;
        let FileRecord { number, group, size, state, name_bytes, .. } = record;
        number_is_sound(number)?;
        check(group > 0, "file.group", group, "1 or more")?;
        check(size <= FILE_BYTES_MAX, "file.size", size, "at most 65536")?;
        check(state <= 2, "file.state", state, "0, 1 or 2")?;
        let len = usize::from(name_bytes);
        check(len <= NAME_BYTES_MAX, "file.name_bytes", name_bytes, "at most 1023")?;
        let parts = bytes.split_at_checked(len);
        let (name, rest) = parts.ok_or(FormatError::Short { what: "a file's name" })?;
        *bytes = rest;
        Ok(Self::File(record, name.into()))
    }

    fn take_group(bytes: &mut &[u8]) -> Result<Self, FormatError> {
        let record = GroupRecord::take(bytes);
        let record = record.ok_or(FormatError::Short { what: "a group's record" })?;
        let GroupRecord { group, clusters, bytes: size, files, .. } = record;
        check(group > 0, "group.group", group, "1 or more")?;
        check(clusters > 0, "group.clusters", clusters, "1 or more")?;
        // A read takes memory for the whole group.
        check(size <= GROUP_BYTES_MAX, "group.bytes", size, "at most 4 MiB")?;
        let count = (1..=GROUP_FILES_MAX).contains(&usize::from(files));
        check(count, "group.files", files, "1 to 64")?;
        let mut slots = Vec::with_capacity(files.into());
        let mut end = 0;
        for _ in 0..files {
            let slot = SlotRecord::take(bytes);
            let slot = slot.ok_or(FormatError::Short { what: "a group's files" })?;
            number_is_sound(slot.number.0)?;
            let offset = u64::from(slot.offset);
            check(offset >= end, "place.offset", offset, "behind the file before it")?;
            end = offset + u64::from(slot.bytes);
            slots.push(slot);
        }
        check(end <= u64::from(size), "group.bytes", size, "no less than its files")?;
        Ok(Self::Group(record, slots.into()))
    }
}

fn number_is_sound(number: u64) -> Result<(), FormatError> {
    check(number >> 32 != 0, "a file's number", number, "2^32 or more")
}

/// The records in `bytes`, one after the other.
///
/// # Errors
/// The first bytes that are no record.
pub fn records(mut bytes: &[u8]) -> Result<Vec<Change>, FormatError> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(Change::take(&mut bytes)?);
    }
    Ok(found)
}
