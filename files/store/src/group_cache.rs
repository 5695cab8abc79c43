//! The group cache: whole groups in memory. The group that was unused for longest is evicted first.
//! A group that is newer than on the device stays.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::FileNumber;

#[derive(Clone, Debug, Default)]
pub(crate) struct Cached {
    pub(crate) files: BTreeMap<FileNumber, Vec<u8>>,
    bytes: u64,
    used: u64,
    /// Newer than on the device, or part of the current commit: must stay.
    pub(crate) held: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    groups: FxHashMap<u32, Cached>,
    by_use: BTreeMap<u64, u32>,
    bytes: u64,
    clock: u64,
}

/// Memory of a group beside its bytes.
const OVERHEAD: u64 = 128;

impl Cache {
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn contains(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    /// Looks at a group without a use.
    pub(crate) fn peek(&self, group: u32) -> Option<&Cached> {
        self.groups.get(&group)
    }

    pub(crate) fn get(&mut self, group: u32) -> Option<&Cached> {
        self.clock += 1;
        let cached = self.groups.get_mut(&group)?;
        self.by_use.remove(&cached.used);
        cached.used = self.clock;
        self.by_use.insert(self.clock, group);
        Some(cached)
    }

    /// Adds or replaces a group.
    pub(crate) fn put(&mut self, group: u32, files: BTreeMap<FileNumber, Vec<u8>>) {
        self.edit(group, |old| *old = files);
    }

    /// Changes the files of a group; adds the group if it is not cached.
    pub(crate) fn edit<T>(
        &mut self,
        group: u32,
        change: impl FnOnce(&mut BTreeMap<FileNumber, Vec<u8>>) -> T,
    ) -> T {
        self.clock += 1;
        let cached = self.groups.entry(group).or_default();
        self.by_use.remove(&cached.used);
        self.bytes -= cached.bytes;
        let result = change(&mut cached.files);
        cached.bytes = OVERHEAD + cached.files.values().map(|f| f.len() as u64).sum::<u64>();
        cached.used = self.clock;
        self.bytes += cached.bytes;
        self.by_use.insert(self.clock, group);
        result
    }

    /// Sets whether a group must stay.
    pub(crate) fn hold(&mut self, group: u32, held: bool) {
        if let Some(cached) = self.groups.get_mut(&group) {
            cached.held = held;
        }
    }

    pub(crate) fn remove(&mut self, group: u32) {
        if let Some(cached) = self.groups.remove(&group) {
            self.by_use.remove(&cached.used);
            self.bytes -= cached.bytes;
        }
    }

    pub(crate) const fn uses(&self) -> u64 {
        self.clock
    }

    pub(crate) const fn raise_uses(&mut self, uses: u64) {
        if uses > self.clock {
            self.clock = uses;
        }
    }

    /// The evictable group that was unused for longest, and the number of its use.
    pub(crate) fn oldest(&self) -> Option<(u64, u32)> {
        let mut all = self.by_use.iter().map(|(used, group)| (*used, *group));
        all.find(|(_, group)| self.groups.get(group).is_some_and(|c| !c.held))
    }

    /// Evicts groups until at most `bytes` are left, but never the group used last.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let mut passed = 0;
        while self.bytes > bytes {
            let mut oldest = self.by_use.range(passed..).map(|(&used, &group)| (used, group));
            let Some((used, group)) = oldest.next() else { return };
            if used == self.clock {
                return;
            }
            passed = used + 1;
            if self.groups.get(&group).is_some_and(|c| !c.held) {
                self.remove(group);
            }
        }
    }
}
