//! Which dirty groups the next commit carries.

use crate::FileNumber;
use crate::format::{Geometry, file_bytes, group_bytes};
use crate::group_store::GroupStore;

/// Bytes of groups in one commit, at most, unless a single group has more.
const COMMIT_BYTES: u64 = 16 << 20;
/// Removed files in one commit, at most.
pub(super) const REMOVALS_MAX: usize = 256;

/// The groups of a commit.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) groups: Vec<u32>,
    /// Clusters needed in the worst case.
    pub(super) clusters: u32,
    /// Bytes of records in the worst case.
    pub(super) record_bytes: usize,
    data_bytes: u64,
}

impl GroupStore {
    /// The groups to commit next, oldest first, as far as one batch has space. `all`: also groups
    /// that no ask waits for.
    pub(super) fn choose_groups(&self, all: bool) -> Chosen {
        let wanted = |g: u32| all || self.waiters.iter().any(|w| w.scope.has(g));
        let mut order: Vec<(u64, u32)> =
            self.dirty.iter().filter(|(g, _)| wanted(**g)).map(|(g, d)| (d.since, *g)).collect();
        order.sort_unstable();
        let space = (self.geometry.log_pages / 4) as usize * Geometry::page_holds();
        let many_removed = self.dirty.get(&0).is_some_and(|d| d.files.len() > REMOVALS_MAX);
        let mut chosen = Chosen::default();
        for (_, group) in order {
            let first = self.needed_first(group);
            // The group itself follows in the same batch, or in a later one.
            let itself = Some(group).filter(|_| !(many_removed && first.contains(&0)));
            for group in first.into_iter().chain(itself) {
                if chosen.groups.contains(&group) {
                    continue;
                }
                let (records, data, clusters) = self.worst_size(group);
                let full = chosen.record_bytes + records > space
                    || chosen.data_bytes + data > COMMIT_BYTES;
                if !chosen.groups.is_empty() && full {
                    return chosen;
                }
                chosen.record_bytes += records;
                chosen.data_bytes += data;
                chosen.clusters += clusters;
                chosen.groups.push(group);
            }
        }
        chosen
    }

    /// Groups that must be committed before this group is written again. Files have moved from it to
    /// them, or were removed (group 0), and the tables still name this group: after a crash in
    /// between, the files would be in no group. Files move only to new groups, so that the groups
    /// returned need no others first.
    fn needed_first(&self, group: u32) -> Vec<u32> {
        let Some(entry) = self.tables.group(group) else { return Vec::new() };
        if !self.dirty.get(&group).is_some_and(|d| d.data) {
            return Vec::new();
        }
        let mut first = Vec::new();
        for slot in &entry.slots {
            if self.tables.file(slot.number).is_some_and(|f| f.group == group) {
                let now = self.file(slot.number).map_or(0, |f| f.group);
                if now != group && !first.contains(&now) {
                    first.push(now);
                }
            }
        }
        first
    }

    /// Bytes of records and of contents, and clusters, of a group in the worst case.
    fn worst_size(&self, group: u32) -> (usize, u64, u32) {
        let Some(dirty) = self.dirty.get(&group) else { return (0, 0, 0) };
        let entry = |n: &FileNumber| file_bytes(self.file(*n).map_or(0, |f| f.name.len()));
        if !dirty.data {
            return (dirty.files.iter().take(REMOVALS_MAX).map(entry).sum(), 0, 0);
        }
        // In the worst case each file becomes a group of its own, with a record.
        let files = self.cache.peek(group).into_iter().flat_map(|c| c.files.iter());
        let (mut records, mut data) = (group_bytes(1), 0);
        for (n, b) in files {
            records += group_bytes(1) + entry(n);
            data += b.len() as u64;
        }
        (records, data, dirty.bins)
    }
}
