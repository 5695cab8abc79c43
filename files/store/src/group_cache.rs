//! The group cache: files of whole groups in memory, forgotten by the group that was not used for longest. A group that
//! is newer here than on the store stays. It knows no device.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::FileNumber;

/// A group in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cached {
    pub(crate) files: BTreeMap<FileNumber, Vec<u8>>,
    bytes: u64,
    used: u64,
    /// Newer than on the store, or on its way there.
    pub(crate) held: bool,
}

/// Groups in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    groups: FxHashMap<u32, Cached>,
    by_use: BTreeMap<u64, u32>,
    bytes: u64,
    clock: u64,
}

/// What a group costs beside its bytes.
const OVERHEAD: u64 = 128;

impl Cache {
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn contains(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    /// A group as it is, without counting as a use.
    pub(crate) fn peek(&self, group: u32) -> Option<&Cached> {
        self.groups.get(&group)
    }

    /// A group to be used.
    pub(crate) fn get(&mut self, group: u32) -> Option<&Cached> {
        self.clock += 1;
        let cached = self.groups.get_mut(&group)?;
        self.by_use.remove(&cached.used);
        cached.used = self.clock;
        self.by_use.insert(self.clock, group);
        Some(cached)
    }

    /// Puts a group in, or what was changed of it.
    pub(crate) fn put(&mut self, group: u32, files: BTreeMap<FileNumber, Vec<u8>>) {
        self.edit(group, |old| *old = files);
    }

    /// Changes the files of a group; makes the group where there is none.
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

    /// From now on it must stay, or need not.
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

    /// The group that need not stay and was not used for longest, and its use.
    pub(crate) fn oldest(&self) -> Option<(u64, u32)> {
        let mut all = self.by_use.iter().map(|(used, group)| (*used, *group));
        all.find(|(_, group)| self.groups.get(group).is_some_and(|c| !c.held))
    }

    /// Forgets groups that need not stay until at most `bytes` are left, but never the one used last.
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
