//! The file lookup table and the group table, as the log and the checkpoints have them: what a crash would leave. A
//! file's number is its place in the table, so that it is found without a search. It knows no I/O and no data.

use rustc_hash::FxHashMap;

use crate::cluster_map::ClusterMap;
use crate::file_name::Name;
use crate::format::{
    Change, FileRecord, Geometry, GroupRecord, SlotRecord, file_bytes, group_bytes,
};
use crate::{Attributes, FileNumber, FileState};

/// An entry of the file lookup table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Size in bytes.
    pub size: u32,
    /// Its group.
    pub group: u32,
    /// Owner, permissions, times.
    pub attributes: Attributes,
    /// Whether the file is here for good.
    pub state: FileState,
    /// What the driver calls it; it stands here to find a file's marker again, and nothing is looked up by it.
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

/// A file's place within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which file.
    pub number: FileNumber,
    /// First byte.
    pub offset: u32,
    /// How many.
    pub bytes: u32,
}

/// An entry of the group table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// First cluster.
    pub cluster: u32,
    /// How many, contiguous.
    pub clusters: u32,
    /// Bytes written.
    pub bytes: u32,
    /// Their CRC-32C.
    pub sum: u32,
    /// Its files as they were written, in order; the dead among them too.
    pub slots: Box<[Slot]>,
    /// Files whose entry names this group.
    pub live: u32,
}

// One for each file, and it must be little: see docs/believing/groups.md.
const _: () = assert!(size_of::<Option<FileEntry>>() == 64);

/// Why records do not make a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A number outside of the store.
    #[error(
        "group {group} stands at clusters {cluster} to {end}, of {clusters} there are, with {bytes} bytes written"
    )]
    Group {
        /// Which.
        group: u32,
        /// From.
        cluster: u32,
        /// Behind the last.
        end: u64,
        /// All.
        clusters: u32,
        /// Written.
        bytes: u32,
    },
    /// More files than a table has.
    #[error("a file's number, {0:#x}, is beyond what this store has room for")]
    Number(u64),
    /// Two groups at one place.
    #[error("cluster {cluster} belongs to group {group} and to another one")]
    Overlap {
        /// Where.
        cluster: u32,
        /// One of them.
        group: u32,
    },
    /// A file that no group holds.
    #[error("file {number:#x} should stand in group {group} with {size} bytes, and does not")]
    Lost {
        /// Which.
        number: u64,
        /// Where it should stand.
        group: u32,
        /// Its size.
        size: u32,
    },
}

/// Both tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// Of each place, what it holds.
    places: Vec<Option<FileEntry>>,
    /// And the count of the last that stood there.
    counts: Vec<u32>,
    /// Empty places, the last to be filled first.
    empty: Vec<u32>,
    groups: FxHashMap<u32, GroupEntry>,
    files: u32,
    /// Bytes of records that both take.
    bytes: u64,
    pub(crate) next_count: u32,
    pub(crate) next_group: u32,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self { next_count: 1, next_group: 1, ..Self::default() }
    }

    pub(crate) fn file(&self, number: FileNumber) -> Option<&FileEntry> {
        let count = *self.counts.get(number.place())?;
        self.places.get(number.place())?.as_ref().filter(|_| count == number.count())
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

    /// Bytes of records that a checkpoint of it takes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files in order of place, from a place on, with the place to go on from.
    pub(crate) fn files_from(&self, from: usize) -> impl Iterator<Item = (FileNumber, &FileEntry)> {
        let from = from.min(self.places.len());
        let places = self.places[from..].iter().zip(&self.counts[from..]);
        (from..)
            .zip(places)
            .filter_map(|(i, (p, &n))| p.as_ref().map(|f| (FileNumber::new(i as u32, n), f)))
    }

    /// A place for a new file, and its number. It is the caller's from now on.
    pub(crate) fn number(&mut self) -> FileNumber {
        let place = self.empty.pop().unwrap_or_else(|| {
            self.grow(self.places.len() + 1);
            self.places.len() as u32 - 1
        });
        let number = FileNumber::new(place, self.next_count);
        self.next_count += 1;
        number
    }

    /// After records were read back: which places are empty.
    pub(crate) fn recovered(&mut self) {
        let all = (0..self.places.len() as u32).rev();
        self.empty = all.filter(|&i| self.places[i as usize].is_none()).collect();
    }

    fn grow(&mut self, len: usize) {
        if len > self.places.capacity() {
            // By an eighth: a million files must not take the memory of two.
            let more = len - self.places.len() + self.places.len() / 8 + 64;
            self.places.reserve_exact(more);
            self.counts.reserve_exact(more);
        }
        self.places.resize(len, None);
        self.counts.resize(len, 0);
    }

    /// Carries out a batch's changes. Clusters that no group stands in any more become `deleted`.
    ///
    /// # Errors
    /// The first change that cannot be; the tables are of no use then.
    pub(crate) fn apply(
        &mut self,
        changes: &[Change],
        geometry: &Geometry,
        space: &mut ClusterMap,
    ) -> Result<(), TableError> {
        let mut touched = Vec::new();
        for change in changes {
            match change {
                Change::File(record, name) => {
                    let number = FileNumber(record.number);
                    // No more files than the tables' records can tell of.
                    if number.place() as u64 > geometry.table_bytes_max() / 32 {
                        return Err(TableError::Number(record.number));
                    }
                    self.remove(number, &mut touched);
                    if self.places.len() <= number.place() {
                        self.grow(number.place() + 1);
                    }
                    let file = FileEntry::of(record, name);
                    if let Some(group) = self.groups.get_mut(&file.group) {
                        group.live += 1;
                    }
                    touched.push(file.group);
                    self.bytes += file_bytes(name.len()) as u64;
                    self.files += 1;
                    self.next_count = self.next_count.max(number.count().saturating_add(1));
                    self.places[number.place()] = Some(file);
                    self.counts[number.place()] = number.count();
                }
                Change::Gone(number) => {
                    let number = FileNumber(*number);
                    self.remove(number, &mut touched);
                    // One that was removed before it ever stood here has had its place since it came.
                    if number.place() < self.places.len() {
                        self.empty.push(number.place() as u32);
                    }
                    self.next_count = self.next_count.max(number.count().saturating_add(1));
                }
                Change::Group(record, slots) => {
                    self.stand(record, slots, geometry, space)?;
                    touched.push(record.group);
                }
            }
        }
        for number in touched {
            if self.groups.get(&number).is_some_and(|g| g.live == 0)
                && let Some(group) = self.groups.remove(&number)
            {
                self.bytes -= group_bytes(group.slots.len()) as u64;
                space.delete(group.cluster, group.clusters);
            }
        }
        Ok(())
    }

    fn stand(
        &mut self,
        record: &GroupRecord,
        slots: &[SlotRecord],
        geometry: &Geometry,
        space: &mut ClusterMap,
    ) -> Result<(), TableError> {
        let GroupRecord { group, cluster, clusters, bytes, sum, .. } = *record;
        let end = u64::from(cluster) + u64::from(clusters);
        if end > geometry.clusters.into() || geometry.clusters_for(bytes) > clusters.into() {
            let clusters = geometry.clusters;
            return Err(TableError::Group { group, cluster, end, clusters, bytes });
        }
        let slots: Box<[Slot]> = slots
            .iter()
            .map(|s| Slot { number: FileNumber(s.number), offset: s.offset, bytes: s.bytes })
            .collect();
        self.bytes += group_bytes(slots.len()) as u64;
        self.next_group = self.next_group.max(group.saturating_add(1));
        let clusters = clusters.into();
        let mut now = GroupEntry { cluster, clusters, bytes, sum, slots, live: 0 };
        space.take(cluster, clusters);
        let old = self.groups.remove(&group);
        if let Some(old) = old {
            now.live = old.live;
            self.bytes -= group_bytes(old.slots.len()) as u64;
            if old.cluster != cluster {
                space.delete(old.cluster, old.clusters);
            }
        }
        self.groups.insert(group, now);
        Ok(())
    }

    fn remove(&mut self, number: FileNumber, touched: &mut Vec<u32>) -> bool {
        if self.counts.get(number.place()) != Some(&number.count()) {
            return false;
        }
        let Some(file) = self.places[number.place()].take() else { return false };
        if let Some(group) = self.groups.get_mut(&file.group) {
            group.live -= 1;
        }
        touched.push(file.group);
        self.files -= 1;
        self.bytes -= file_bytes(file.name.len()) as u64;
        true
    }

    /// Whether the tables agree with each other, and which clusters are taken.
    ///
    /// # Errors
    /// Where they do not.
    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<ClusterMap, TableError> {
        let mut space = ClusterMap::new(geometry.clusters);
        for number in self.group_numbers() {
            let Some(group) = self.groups.get(&number) else { continue };
            for cluster in group.cluster..group.cluster + group.clusters {
                if !space.is_free(cluster) {
                    return Err(TableError::Overlap { cluster, group: number });
                }
                space.take(cluster, 1);
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
        Ok(space)
    }
}
