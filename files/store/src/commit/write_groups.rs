//! Writing the groups of a commit to free clusters.

use std::collections::BTreeSet;

use seekless_block::{Extent, Op, SECTOR_BYTES};

use super::Commit;
use super::choose::REMOVALS_MAX;
use crate::FileNumber;
use crate::api::IoPurpose;
use crate::format::{Change, GroupRecord, SlotRecord};
use crate::group_store::{Changed, Dirty, Flight, GroupStore, worst_clusters};

/// Bytes of groups that one I/O writes, at most, unless a single group has more.
const WRITE_BYTES: u64 = 1 << 20;

impl GroupStore {
    /// Puts a group and the entries of its files into a commit.
    pub(super) fn add_to_commit(&mut self, group: u32, commit: &mut Commit) {
        let Some(mut dirty) = self.dirty.remove(&group) else { return };
        commit.records += dirty.records;
        if group == 0 {
            if let Some(&first) = dirty.files.iter().nth(REMOVALS_MAX) {
                let files = dirty.files.split_off(&first);
                self.dirty.insert(0, Dirty { files, ..dirty.clone() });
            }
            commit.changes.extend(dirty.files.iter().map(|n| Change::Gone(n.0)));
            commit.open += 1;
            commit.syncs_other = true;
            self.sync_other();
        } else if dirty.data {
            self.write_group(group, &mut dirty.files, commit);
        }
        for number in dirty.files {
            let Some(changed) = self.changed.get(&number) else { continue };
            commit.versions.push((number, changed.version));
            commit.changes.extend(changed.file.as_ref().map(|f| f.record(number)));
        }
        if group != 0 {
            commit.groups.push(group);
        }
    }

    /// Writes a group behind the cluster pointer; in parts where no run of clusters is long enough.
    fn write_group(&mut self, group: u32, entries: &mut BTreeSet<FileNumber>, commit: &mut Commit) {
        let sizes: Vec<(FileNumber, u32)> = self
            .cache
            .peek(group)
            .into_iter()
            .flat_map(|c| c.files.iter().map(|(n, b)| (*n, b.len() as u32)))
            .collect();
        let bytes: u32 = sizes.iter().map(|(_, b)| b).sum();
        let whole = self.geometry.clusters_for(bytes);
        if let Some(at) = self.clusters.allocate(whole) {
            return self.write_run(group, at, whole, commit);
        }
        let cluster = self.geometry.cluster_bytes();
        debug_assert!(worst_clusters(sizes.iter().map(|s| s.1), cluster) > 1);
        self.stats.split += 1;
        for part in self.split_group(group, sizes, entries) {
            // The clusters were reserved before the change was made.
            let Some(at) = self.clusters.allocate(1) else {
                unreachable!("no cluster for a part of group {group}")
            };
            self.write_run(part, at, 1, commit);
            if part != group {
                commit.groups.push(part);
            }
        }
    }

    /// Splits a group into groups of one cluster each; the first keeps its number. Entries that
    /// change are added to `entries`.
    fn split_group(
        &mut self,
        group: u32,
        sizes: Vec<(FileNumber, u32)>,
        entries: &mut BTreeSet<FileNumber>,
    ) -> Vec<u32> {
        let cluster = self.geometry.cluster_bytes();
        let (mut part, mut space) = (group, cluster);
        let mut parts = vec![group];
        for (number, size) in sizes {
            if size > space {
                part = self.tables.next_group;
                self.tables.next_group += 1;
                parts.push(part);
                space = cluster;
            }
            space -= size;
            if part == group {
                continue;
            }
            let data = self.cache.edit(group, |files| files.remove(&number).unwrap_or_default());
            self.cache.edit(part, |files| files.insert(number, data));
            self.cache.hold(part, true);
            if let Some(mut file) = self.file(number).cloned() {
                file.group = part;
                self.clock += 1;
                let version = self.clock;
                self.changed.insert(number, Changed { file: Some(file), version });
                entries.insert(number);
            }
        }
        parts
    }

    /// Writes a group to one contiguous run of clusters.
    fn write_run(&mut self, group: u32, cluster: u32, clusters: u32, commit: &mut Commit) {
        let (mut image, mut slots) = (Vec::new(), Vec::new());
        for (number, data) in self.cache.peek(group).into_iter().flat_map(|c| c.files.iter()) {
            let (offset, bytes) = (image.len() as u32, data.len() as u32);
            slots.push(SlotRecord { number: *number, offset, bytes });
            image.extend_from_slice(data);
        }
        let bytes = image.len() as u32;
        let record = GroupRecord {
            group,
            cluster,
            clusters: clusters as u16,
            bytes,
            sum: crc_fast::crc32_iscsi(&image),
            files: slots.len() as u16,
        };
        commit.changes.push(Change::Group(record, slots.into()));
        let extent = self.geometry.group_extent(cluster, bytes);
        image.resize(extent.bytes().0 as usize, 0);
        self.stats.groups_written += 1;
        commit.images.push((extent, image));
    }

    /// Starts the writes. Adjacent groups share one write: the gap between them is the unused end
    /// of a cluster.
    pub(super) fn write_images(&mut self, commit: &mut Commit) {
        let cluster = u64::from(self.geometry.cluster_bytes()) / SECTOR_BYTES;
        let mut runs: Vec<(Extent, Vec<u8>)> = Vec::new();
        for (extent, image) in std::mem::take(&mut commit.images) {
            if let Some((run, bytes)) = runs.last_mut()
                && extent.start >= run.end()
                && (extent.start - run.end()).0 < cluster
                && (extent.end() - run.start).bytes().0 <= WRITE_BYTES
            {
                run.len = extent.end() - run.start;
                let padded = run.len.bytes().0 as usize - image.len();
                bytes.resize(padded, 0);
                bytes.extend_from_slice(&image);
            } else {
                runs.push((extent, image));
            }
        }
        for (extent, bytes) in runs {
            (commit.open, commit.wrote) = (commit.open + 1, true);
            self.submit(Flight::Job, Op::Write, extent, bytes, IoPurpose::Group);
        }
    }
}
