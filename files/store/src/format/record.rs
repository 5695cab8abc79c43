//! A change of the file lookup table or the group table. The log is made of them, and so is a checkpoint: the changes
//! that make the tables out of nothing.

use super::field::{Layout, layout};
use super::{FormatError, value};
use crate::{FILE_BYTES_MAX, GROUP_FILES_MAX, NAME_BYTES_MAX};

layout! {
    /// An entry of the file lookup table, behind the tag 1; its name follows.
    pub FileRecord "file" {
        /// The file's number: place in the table, and above it, from bit 32 on, a count that no two files share.
        number: u64,
        /// Its group.
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
        /// 0 here for good; 1 on its way here: the other module decides; 2 on its way back there.
        state: u8,
        /// Bytes of the name.
        name_bytes: u16,
    }
}

layout! {
    /// An entry of the group table, behind the tag 3; its files follow, in the order in which they stand.
    pub GroupRecord "group" {
        /// The group's number, from 1.
        group: u32,
        /// Its first cluster.
        cluster: u32,
        /// How many clusters, contiguous.
        clusters: u16,
        /// Bytes of it that were written.
        bytes: u32,
        /// CRC-32C of these bytes.
        sum: u32,
        /// How many files follow.
        files: u16,
    }
}

layout! {
    /// A file's place within its group. One whose entry names another group by now, or that is gone, is dead.
    pub SlotRecord "place" {
        /// The file's number.
        number: u64,
        /// First byte, counted from the group's.
        offset: u32,
        /// How many bytes.
        bytes: u32,
    }
}

const TAG_FILE: u8 = 1;
const TAG_GONE: u8 = 2;
const TAG_GROUP: u8 = 3;

/// A record of the log or of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file is now this, whether it was there or not.
    File(FileRecord, Box<[u8]>),
    /// The file is gone.
    Gone(u64),
    /// The group stands here now.
    Group(GroupRecord, Box<[SlotRecord]>),
}

/// Longest record: a page holds at least one.
pub const RECORD_BYTES_MAX: usize = 1 + if FileRecord::BYTES + NAME_BYTES_MAX
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

    /// Writes it.
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
        let (&tag, rest) = bytes.split_first().ok_or(FormatError::Short { what: "a record" })?;
        *bytes = rest;
        match tag {
            TAG_FILE => {
                let record = FileRecord::take(bytes)
                    .ok_or(FormatError::Short { what: "a file's record" })?;
                number_is_sound(record.number)?;
                if record.group == 0 {
                    return Err(value("file.group", 0u32, "1 or more"));
                }
                if record.size > FILE_BYTES_MAX {
                    return Err(value("file.size", record.size, "at most 65536"));
                }
                if record.state > 2 {
                    return Err(value("file.state", record.state, "0, 1 or 2"));
                }
                let len = usize::from(record.name_bytes);
                if len > NAME_BYTES_MAX {
                    return Err(value("file.name_bytes", record.name_bytes, "at most 1023"));
                }
                let (name, rest) = bytes
                    .split_at_checked(len)
                    .ok_or(FormatError::Short { what: "a file's name" })?;
                *bytes = rest;
                Ok(Self::File(record, name.into()))
            }
            TAG_GONE => {
                let (number, rest) = bytes
                    .split_first_chunk()
                    .ok_or(FormatError::Short { what: "a file's number" })?;
                *bytes = rest;
                let number = u64::from_le_bytes(*number);
                number_is_sound(number)?;
                Ok(Self::Gone(number))
            }
            TAG_GROUP => {
                let record = GroupRecord::take(bytes)
                    .ok_or(FormatError::Short { what: "a group's record" })?;
                if record.group == 0 {
                    return Err(value("group.group", 0u32, "1 or more"));
                }
                if record.clusters == 0 {
                    return Err(value("group.clusters", 0u32, "1 or more"));
                }
                if !(1..=GROUP_FILES_MAX).contains(&usize::from(record.files)) {
                    return Err(value("group.files", record.files, "1 to 64"));
                }
                let mut slots = Vec::with_capacity(record.files.into());
                let mut end = 0u64;
                for _ in 0..record.files {
                    let slot = SlotRecord::take(bytes)
                        .ok_or(FormatError::Short { what: "a group's files" })?;
                    number_is_sound(slot.number)?;
                    if u64::from(slot.offset) < end {
                        return Err(value(
                            "place.offset",
                            slot.offset,
                            "behind the file before it",
                        ));
                    }
                    end = u64::from(slot.offset) + u64::from(slot.bytes);
                    slots.push(slot);
                }
                if end > u64::from(record.bytes) {
                    return Err(value("group.bytes", record.bytes, "no less than its files"));
                }
                Ok(Self::Group(record, slots.into()))
            }
            _ => Err(value("the tag of a record", tag, "1, 2 or 3")),
        }
    }
}

fn number_is_sound(number: u64) -> Result<(), FormatError> {
    if number >> 32 == 0 { Err(value("a file's number", number, "2^32 or more")) } else { Ok(()) }
}

/// The records in `bytes`, one behind the other.
///
/// # Errors
/// Where one of them is none.
pub fn records(mut bytes: &[u8]) -> Result<Vec<Change>, FormatError> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(Change::take(&mut bytes)?);
    }
    Ok(found)
}
