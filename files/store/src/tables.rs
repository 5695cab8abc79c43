//! The file table and the group table as the log and the checkpoints hold them: the state after a
//! crash. The number of a file contains its index in the table, so that no search is needed. The
//! tables know no I/O and no contents.

use rustc_hash::FxHashMap;

use crate::cluster_map::ClusterMap;
use crate::file_name::Name;
use crate::format::{
    Change, FileRecord, Geometry, GroupRecord, SlotRecord, file_bytes, group_bytes,
};
use crate::{Attributes, FileNumber, FileState};

/// An entry of the file table (EEFS: file lookup table).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Size in bytes.
    pub size: u32,
    /// The number of its group.
    pub group: u32,
    /// Owner, permissions and times.
    pub attributes: Attributes,
    /// How far the file is on its way into the store or out of it.
    pub state: FileState,
    /// The driver's name, which leads back to the marker. The store looks up nothing by name.
    pub name: Name,
}

impl FileEntry {
    pub(crate) fn record(&self, number: FileNumber) -> Change {
        let a = self.attributes;
        let record = FileRecord {
            number: number.0,
            group: self.group,
            size: self.size,
            mode: a.mode,
            uid: a.uid,
            gid: a.gid,
            accessed: a.accessed,
            modified: a.modified,
            changed: a.changed,
            state: self.state as u8,
            name_bytes: self.name.len() as u16,
        };
        Change::File(record, (*self.name).into())
    }

    fn of(r: &FileRecord, name: &[u8]) -> Self {
        Self {
            size: r.size,
            group: r.group,
            attributes: Attributes {
                mode: r.mode,
                uid: r.uid,
                gid: r.gid,
                accessed: r.accessed,
                modified: r.modified,
                changed: r.changed,
            },
            state: match r.state {
                0 => FileState::Settled,
                1 => FileState::Arriving,
                _ => FileState::Leaving,
            },
            name: Name::from(name),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    pub(crate) cluster: u32,
    pub(crate) clusters: u32,
    /// Length in bytes.
    pub(crate) bytes: u32,
    /// CRC-32C of these bytes.
    pub(crate) sum: u32,
    /// Its files in the order in which they were written, dead ones included.
    pub(crate) slots: Box<[SlotRecord]>,
    /// Number of files whose entry names this group.
    pub(crate) live: u32,
}

// There is one for each file, so that size matters: see docs/believing/groups.md.
const _: () = assert!(size_of::<Option<FileEntry>>() == 64);

/// Why records make no valid table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TableError {
    #[error(
        "group {group} has {bytes} bytes in clusters {cluster} to {end}; the store has {clusters} clusters"
    )]
    Group { group: u32, cluster: u32, end: u64, clusters: u32, bytes: u32 },
    #[error("file number {0:#x} is too large for this store")]
    Number(u64),
    #[error("cluster {cluster} belongs to group {group} and to another group")]
    Overlap { cluster: u32, group: u32 },
    #[error("file {number:#x} of {size} bytes is missing in group {group}")]
    Lost { number: u64, group: u32, size: u32 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    entries: Vec<Option<FileEntry>>,
    /// The count of the latest file at each index.
    counts: Vec<u32>,
    /// Free indices; the last is used first.
    empty: Vec<u32>,
    groups: FxHashMap<u32, GroupEntry>,
    files: u32,
    /// Bytes of the records of both tables.
    bytes: u64,
    pub(crate) next_count: u32,
    pub(crate) next_group: u32,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self { next_count: 1, next_group: 1, ..Self::default() }
    }

    pub(crate) fn file(&self, number: FileNumber) -> Option<&FileEntry> {
        let count = *self.counts.get(number.index())?;
        self.entries.get(number.index())?.as_ref().filter(|_| count == number.count())
    }

    pub(crate) fn group(&self, group: u32) -> Option<&GroupEntry> {
        self.groups.get(&group)
    }

    pub(crate) const fn files(&self) -> u32 {
        self.files
    }

    pub(crate) fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    pub(crate) fn group_numbers(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.groups.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Bytes of records in a checkpoint of both tables.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files in the order of the table, from an index on.
    pub(crate) fn files_from(&self, from: usize) -> impl Iterator<Item = (FileNumber, &FileEntry)> {
        let from = from.min(self.entries.len());
        let entries = self.entries[from..].iter().zip(&self.counts[from..]);
        (from..)
            .zip(entries)
            .filter_map(|(i, (p, &n))| p.as_ref().map(|f| (FileNumber::new(i as u32, n), f)))
    }

    /// The number of a new file. The caller owns the index from now on.
    pub(crate) fn new_number(&mut self) -> FileNumber {
        let index = self.empty.pop().unwrap_or_else(|| {
            self.grow(self.entries.len() + 1);
            self.entries.len() as u32 - 1
        });
        let number = FileNumber::new(index, self.next_count);
        self.next_count += 1;
        number
    }

    /// Finds the free indices after records were read back.
    pub(crate) fn find_free_indices(&mut self) {
        let all = (0..self.entries.len() as u32).rev();
        self.empty = all.filter(|&i| self.entries[i as usize].is_none()).collect();
    }

    fn grow(&mut self, len: usize) {
        if len > self.entries.capacity() {
            // Grows by an eighth, so that a million files do not take the memory of two million.
            let more = len - self.entries.len() + self.entries.len() / 8 + 64;
            self.entries.reserve_exact(more);
            self.counts.reserve_exact(more);
        }
        self.entries.resize(len, None);
        self.counts.resize(len, 0);
    }

    /// Applies the changes of a batch. The clusters of a group without files become `deleted`.
    ///
    /// # Errors
    /// The first change that is impossible. The tables cannot be used then.
    pub(crate) fn apply(
        &mut self,
        changes: &[Change],
        geometry: &Geometry,
        clusters: &mut ClusterMap,
    ) -> Result<(), TableError> {
        let mut touched = Vec::new();
        for change in changes {
            match change {
                Change::File(record, name) => {
                    self.put_file(record, name, geometry, &mut touched)?;
                }
                Change::Gone(number) => {
                    let number = FileNumber(*number);
                    self.remove_file(number, &mut touched);
                    // A file that was removed before its first commit has had its index since it
                    // arrived.
                    if number.index() < self.entries.len() {
                        self.empty.push(number.index() as u32);
                    }
                    self.next_count = self.next_count.max(number.count().saturating_add(1));
                }
                Change::Group(record, slots) => {
                    self.put_group(record, slots, geometry, clusters)?;
                    touched.push(record.group);
                }
            }
        }
        for number in touched {
            if self.groups.get(&number).is_some_and(|g| g.live == 0)
                && let Some(group) = self.groups.remove(&number)
            {
                self.bytes -= group_bytes(group.slots.len()) as u64;
                clusters.delete(group.cluster, group.clusters);
            }
        }
        Ok(())
    }

    /// Takes the clusters of a batch's groups, which were free when the batch was written.
    ///
    /// # Errors
    /// The first cluster that is not free.
    pub(crate) fn claim(changes: &[Change], clusters: &mut ClusterMap) -> Result<(), TableError> {
        for change in changes {
            let Change::Group(record, _) = change else { continue };
            let GroupRecord { group, cluster, clusters: count, .. } = *record;
            if let Err(cluster) = clusters.claim(cluster, count.into()) {
                return Err(TableError::Overlap { cluster, group });
            }
        }
        Ok(())
    }

    fn put_file(
        &mut self,
        record: &FileRecord,
        name: &[u8],
        geometry: &Geometry,
        touched: &mut Vec<u32>,
    ) -> Result<(), TableError> {
        let number = FileNumber(record.number);
        // No table of this store has more files: each has a record, and a place in its group's.
        let least = file_bytes(0) + SlotRecord::BYTES;
        if number.index() as u64 > geometry.table_bytes_max() / least as u64 {
            return Err(TableError::Number(record.number));
        }
        self.remove_file(number, touched);
        if self.entries.len() <= number.index() {
            self.grow(number.index() + 1);
        }
        let file = FileEntry::of(record, name);
        let Some(group) = self.groups.get_mut(&file.group) else {
            let (number, group, size) = (record.number, file.group, file.size);
            return Err(TableError::Lost { number, group, size });
        };
        group.live += 1;
        touched.push(file.group);
        self.bytes += file_bytes(name.len()) as u64;
        self.files += 1;
        self.next_count = self.next_count.max(number.count().saturating_add(1));
        self.entries[number.index()] = Some(file);
        self.counts[number.index()] = number.count();
        Ok(())
    }

    fn put_group(
        &mut self,
        record: &GroupRecord,
        slots: &[SlotRecord],
        geometry: &Geometry,
        clusters: &mut ClusterMap,
    ) -> Result<(), TableError> {
        let GroupRecord { group, cluster, clusters: count, bytes, sum, .. } = *record;
        let end = u64::from(cluster) + u64::from(count);
        if end > geometry.clusters.into() || geometry.clusters_for(bytes) > count.into() {
            let clusters = geometry.clusters;
            return Err(TableError::Group { group, cluster, end, clusters, bytes });
        }
        self.bytes += group_bytes(slots.len()) as u64;
        self.next_group = self.next_group.max(group.saturating_add(1));
        let count = count.into();
        let slots = slots.into();
        let mut now = GroupEntry { cluster, clusters: count, bytes, sum, slots, live: 0 };
        clusters.take(cluster, count);
        let old = self.groups.remove(&group);
        if let Some(old) = old {
            now.live = old.live;
            self.bytes -= group_bytes(old.slots.len()) as u64;
            clusters.delete(old.cluster, old.clusters);
        }
        self.groups.insert(group, now);
        Ok(())
    }

    fn remove_file(&mut self, number: FileNumber, touched: &mut Vec<u32>) {
        if self.counts.get(number.index()) != Some(&number.count()) {
            return;
        }
        let Some(file) = self.entries[number.index()].take() else { return };
        if let Some(group) = self.groups.get_mut(&file.group) {
            group.live -= 1;
        }
        touched.push(file.group);
        self.files -= 1;
        self.bytes -= file_bytes(file.name.len()) as u64;
    }

    /// Checks that the tables agree with each other. Returns the clusters that are taken.
    ///
    /// # Errors
    /// The first contradiction.
    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<ClusterMap, TableError> {
        let mut taken = ClusterMap::new(geometry.clusters);
        for number in self.group_numbers() {
            let Some(group) = self.groups.get(&number) else { continue };
            for cluster in group.cluster..group.cluster + group.clusters {
                if !taken.is_free(cluster) {
                    return Err(TableError::Overlap { cluster, group: number });
                }
                taken.take(cluster, 1);
            }
        }
        for (number, file) in self.files_from(0) {
            let group = self.groups.get(&file.group);
            let slot = group.and_then(|g| g.slots.iter().find(|s| s.number == number));
            if slot.is_none_or(|s| s.bytes != file.size) {
                let (group, size) = (file.group, file.size);
                return Err(TableError::Lost { number: number.0, group, size });
            }
        }
        Ok(taken)
    }
}
