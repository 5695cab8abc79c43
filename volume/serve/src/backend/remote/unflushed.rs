//! Changes that a server has acknowledged, and that no flush has covered since.

use std::collections::VecDeque;

use seekless_block::{Flags, Op};

/// A change of a home.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) at: u64,
    pub(super) len: u64,
    /// The data of a write; else empty.
    pub(super) bytes: Vec<u8>,
}

/// In the order of their acknowledgements. An overlapping change that came later stands later.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    changes: VecDeque<Change>,
    /// Bytes of all writes.
    bytes: u64,
    /// Number of the first one.
    first: u64,
}

impl Unflushed {
    pub(super) fn push(&mut self, change: Change) {
        self.bytes += change.bytes.len() as u64;
        self.changes.push_back(change);
    }

    pub(super) fn next(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// All changes before this number are durable.
    pub(super) fn flushed(&mut self, next: u64) {
        while self.first < next
            && let Some(change) = self.changes.pop_front()
        {
            self.bytes -= change.bytes.len() as u64;
            self.first += 1;
        }
    }

    /// Memory that they take, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + (self.changes.len() * size_of::<Change>()) as u64
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }
}
