//! Looking over a whole store: every group is read and its checksum verified.

use std::fmt;

use seekless_block::Device;

use crate::api::{Config, FileNumber};
use crate::attach::AttachError;
use crate::group_store::GroupStore;

/// The contents of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Number of files.
    pub files: u32,
    /// Number of groups.
    pub groups: u32,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files that are arriving or leaving.
    pub unsettled: u32,
    /// Groups that cannot be read, or have a wrong checksum, and their files.
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

/// Attaches a store, reads all groups and compares their checksums. Nothing is changed.
///
/// # Errors
/// See [`GroupStore::attach`].
pub fn examine(device: &mut dyn Device) -> Result<Examined, AttachError> {
    let group_store = GroupStore::attach(device, Config::default())?;
    let mut found = Examined {
        files: group_store.tables.files(),
        groups: group_store.tables.groups(),
        unsettled: group_store.unsettled().len() as u32,
        ..Examined::default()
    };
    let mut bytes = Vec::new();
    for number in group_store.tables.group_numbers() {
        let Some(group) = group_store.tables.group(number) else { continue };
        let extent = group_store.geometry.group_extent(group.cluster, group.bytes);
        bytes.resize(extent.bytes().0 as usize, 0);
        let read = device.read(extent, &mut bytes).is_ok();
        let mut live = Vec::new();
        for slot in &group.slots {
            if group_store.tables.file(slot.number).is_some_and(|f| f.group == number) {
                found.bytes += u64::from(slot.bytes);
                live.push(slot.number);
            }
        }
        let whole = bytes.get(..group.bytes as usize).filter(|_| read);
        let whole = whole.map(crc_fast::crc32_iscsi);
        if whole != Some(group.sum) {
            found.damaged.push((number, live));
        }
    }
    Ok(found)
}
