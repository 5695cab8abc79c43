//! Changes of entries, contents and groups in memory. A change reserves its clusters and its
//! records before it is made.

use std::collections::{BTreeMap, BTreeSet};

use super::{Changed, Dirty, GroupStore};
use crate::api::{
    Arrival, FILE_BYTES_MAX, Fault, FileNumber, FileState, GROUP_FILES_MAX, Member, NAME_BYTES_MAX,
};
use crate::commit::Job;
use crate::file_name::Name;
use crate::format::{file_bytes, group_bytes};
use crate::tables::FileEntry;

impl GroupStore {
    /// Changes the contents of a file. The file then reaches at least to `offset + len`; with `len`
    /// 0 it ends at `offset`.
    pub(super) fn edit(
        &mut self,
        file: FileNumber,
        time: i64,
        len: u64,
        offset: u64,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Fault> {
        let Some(f) = self.file(file) else { return Err(Fault::NoFile(file)) };
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX.into());
        let Some(end) = end else { return Err(Fault::TooLarge) };
        let (group, size) = (f.group, u64::from(f.size));
        let size = if len == 0 { end } else { size.max(end) };
        let sizes = self.cache.peek(group).into_iter().flat_map(|c| c.files.iter());
        let sizes = sizes.map(|(n, b)| if *n == file { size as u32 } else { b.len() as u32 });
        let bins = worst_clusters(sizes, self.geometry.cluster_bytes());
        self.reserve(group, bins, 0)?;
        self.cache.edit(group, |files| change(files.entry(file).or_default()));
        self.modify(file, |f| {
            f.size = size as u32;
            f.attributes.modified = time;
            f.attributes.changed = time;
        })?;
        self.mark_data_dirty(group, bins);
        Ok(())
    }

    /// Checks that clusters remain for a group that needs `bins` in the worst case, with `spare`
    /// clusters left over.
    fn reserve(&self, group: u32, bins: u32, spare: u32) -> Result<(), Fault> {
        let others = self.dirty.iter().filter(|(g, d)| **g != group && d.data).map(|(_, d)| d.bins);
        let wanted = u64::from(bins) + others.map(u64::from).sum::<u64>() + u64::from(spare);
        let available = u64::from(self.clusters.free()) + u64::from(self.clusters.deleted());
        if wanted <= available { Ok(()) } else { Err(Fault::NoSpace) }
    }

    pub(super) fn modify(
        &mut self,
        file: FileNumber,
        change: impl FnOnce(&mut FileEntry),
    ) -> Result<(), Fault> {
        let Some(mut f) = self.file(file).cloned() else { return Err(Fault::NoFile(file)) };
        change(&mut f);
        let group = f.group;
        self.clock += 1;
        self.changed.insert(file, Changed { file: Some(f), version: self.clock });
        self.mark_dirty(group).files.insert(file);
        Ok(())
    }

    fn mark_dirty(&mut self, group: u32) -> &mut Dirty {
        let (since, time) = (self.clock, self.now);
        self.dirty.entry(group).or_insert_with(|| Dirty {
            since,
            time,
            data: false,
            files: BTreeSet::new(),
            bins: 0,
            records: 0,
        })
    }

    fn mark_data_dirty(&mut self, group: u32, bins: u32) {
        let dirty = self.mark_dirty(group);
        (dirty.data, dirty.bins) = (true, bins);
        self.cache.hold(group, true);
    }

    /// Checks that the checkpoints have space for more records, with `spare` bytes left over. The
    /// records of groups that are not committed yet count, too.
    fn reserve_records(&self, bytes: u64, spare: u64) -> Result<(), Fault> {
        let dirty: u64 = self.dirty.values().map(|d| d.records).sum();
        let coming = dirty + self.job.as_ref().map_or(0, Job::records);
        let wanted = self.tables.bytes() + coming + bytes + spare;
        if wanted <= self.geometry.table_bytes_max() { Ok(()) } else { Err(Fault::TableFull) }
    }

    pub(super) fn remove(&mut self, file: FileNumber) -> Result<(), Fault> {
        let Some(group) = self.file(file).map(|f| f.group) else { return Err(Fault::NoFile(file)) };
        self.clock += 1;
        self.changed.insert(file, Changed { file: None, version: self.clock });
        // A sync of the file's earlier changes waits for the removal instead.
        let owed = self.dirty.get(&group).filter(|d| d.files.contains(&file)).map(|d| d.since);
        let removed = self.mark_dirty(0);
        removed.files.insert(file);
        if let Some(since) = owed {
            removed.since = removed.since.min(since);
            self.waiters.iter_mut().for_each(|w| w.scope.follow(group, 0));
        }
        self.drop_member(group, file);
        Ok(())
    }

    /// Takes a file out of its former group, and drops the group with its last file.
    fn drop_member(&mut self, group: u32, file: FileNumber) {
        if self.cache.contains(group) {
            let empty = self.cache.edit(group, |files| {
                files.remove(&file);
                files.is_empty()
            });
            if empty {
                self.dirty.remove(&group);
                self.cache.remove(group);
                return;
            }
        }
        if let Some(dirty) = self.dirty.get_mut(&group) {
            dirty.files.remove(&file);
            if dirty.files.is_empty() && !dirty.data {
                self.dirty.remove(&group);
            }
        }
    }

    /// Makes a group. The former groups of its members are in memory.
    pub(super) fn form(&mut self, members: &[Member]) -> Result<(u32, Vec<FileNumber>), Fault> {
        let (bins, records) = match self.reserve_group(members) {
            Ok(reserved) => reserved,
            Err(fault) => {
                self.release_members(members);
                return Err(fault);
            }
        };
        let group = self.tables.next_group;
        self.tables.next_group += 1;
        self.clock += 1;
        let mut files = BTreeMap::new();
        let mut numbers = Vec::with_capacity(members.len());
        // The new group takes over the changes for which a sync of a former group waits.
        let mut since = u64::MAX;
        for member in members {
            if let Member::Here(number) = member
                && let Some(old) = self.file(*number).map(|f| f.group)
                && let Some(dirty) = self.dirty.get(&old)
            {
                since = since.min(dirty.since);
                self.waiters.iter_mut().for_each(|w| w.scope.follow(old, group));
            }
            let (number, data) = match member {
                Member::New(arrival) => (self.add_arrival(group, arrival), arrival.data.clone()),
                Member::Here(number) => self.move_to(group, *number),
            };
            files.insert(number, data);
            numbers.push(number);
        }
        self.cache.put(group, files);
        let since = since.min(self.clock);
        let dirty = self.mark_dirty(group);
        (dirty.since, dirty.records) = (since, records);
        dirty.files.extend(numbers.iter().copied());
        self.mark_data_dirty(group, bins);
        Ok((group, numbers))
    }

    /// Checks the members of a new group, and that there is space for it. Returns the clusters
    /// needed in the worst case, and the bytes of records.
    fn reserve_group(&self, members: &[Member]) -> Result<(u32, u64), Fault> {
        self.check_members(members)?;
        // In the order of their numbers, as they are written.
        let mut sizes: Vec<(FileNumber, u32)> = members
            .iter()
            .map(|m| match m {
                Member::Here(n) => (*n, self.file(*n).map_or(0, |f| f.size)),
                Member::New(a) => (FileNumber(u64::MAX), a.data.len() as u32),
            })
            .collect();
        sizes.sort_by_key(|s| s.0);
        let bins = worst_clusters(sizes.into_iter().map(|s| s.1), self.geometry.cluster_bytes());
        // Files of the store need clusters to be written again; new files must leave some.
        let spare = 2 + self.geometry.clusters / 16;
        self.reserve(0, bins, spare)?;
        let names = members.iter().map(|m| match m {
            Member::Here(_) => 0,
            Member::New(a) => file_bytes(a.name.len()) as u64,
        });
        let bytes = names.sum::<u64>() + group_bytes(members.len()) as u64;
        self.reserve_records(bytes, self.geometry.table_bytes_max() / 16)?;
        Ok((bins, bytes))
    }

    fn check_members(&self, members: &[Member]) -> Result<(), Fault> {
        if !(1..=GROUP_FILES_MAX).contains(&members.len()) || self.tables.next_count == u32::MAX {
            return Err(Fault::NoGroup);
        }
        let mut seen = BTreeSet::new();
        for member in members {
            match member {
                Member::Here(n) if self.file(*n).is_none() => return Err(Fault::NoFile(*n)),
                Member::Here(n) if !seen.insert(*n) => return Err(Fault::NoGroup),
                Member::New(a) if a.name.len() > NAME_BYTES_MAX => return Err(Fault::NoGroup),
                Member::New(a) if a.data.len() > FILE_BYTES_MAX as usize => {
                    return Err(Fault::TooLarge);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_arrival(&mut self, group: u32, arrival: &Arrival) -> FileNumber {
        let number = self.tables.new_number();
        let file = FileEntry {
            size: arrival.data.len() as u32,
            group,
            attributes: arrival.attributes,
            state: FileState::Arriving,
            name: Name::from(&arrival.name[..]),
        };
        self.changed.insert(number, Changed { file: Some(file), version: self.clock });
        number
    }

    fn move_to(&mut self, group: u32, number: FileNumber) -> (FileNumber, Vec<u8>) {
        let Some(mut file) = self.file(number).cloned() else { return (number, Vec::new()) };
        let old = std::mem::replace(&mut file.group, group);
        self.changed.insert(number, Changed { file: Some(file), version: self.clock });
        let data = self.cache.edit(old, |files| files.remove(&number).unwrap_or_default());
        self.drop_member(old, number);
        self.update_hold(old);
        (number, data)
    }
}

/// Number of clusters if each file lies within one cluster, in the order given: this many are
/// enough however the free clusters are scattered. One contiguous run never needs more.
pub(crate) fn worst_clusters(sizes: impl Iterator<Item = u32>, cluster: u32) -> u32 {
    let (mut clusters, mut space) = (1, cluster);
    for size in sizes {
        if size > space {
            clusters += 1;
            space = cluster;
        }
        space -= size;
    }
    clusters
}
