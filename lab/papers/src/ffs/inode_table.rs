//! Inodes in memory: the least recently used one leaves.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Files whose inodes are in memory.
#[derive(Clone, Debug)]
pub(super) struct InodeTable {
    most: usize,
    uses: u64,
    used: FxHashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

impl InodeTable {
    /// An empty table of at most this number of inodes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, uses: 0, used: FxHashMap::default(), by_use: BTreeMap::new() }
    }

    /// Enters a file's inode; true if it was there before.
    pub(super) fn enter(&mut self, file: u64) -> bool {
        let before = self.remove(file);
        self.uses += 1;
        self.used.insert(file, self.uses);
        self.by_use.insert(self.uses, file);
        while self.by_use.len() > self.most {
            if let Some((_, oldest)) = self.by_use.pop_first() {
                self.used.remove(&oldest);
            }
        }
        before
    }

    /// Removes a file's inode; true if it was there.
    pub(super) fn remove(&mut self, file: u64) -> bool {
        let used = self.used.remove(&file);
        used.is_some_and(|used| self.by_use.remove(&used).is_some())
    }
}
