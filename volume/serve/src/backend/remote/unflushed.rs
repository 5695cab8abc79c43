//! Changes that a server may lose: acknowledged ones that no flush has covered since, and those that
//! it has not answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

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

/// Memory of a change without its data, and of the pointer to it.
const CHANGE_BYTES: usize = size_of::<Change>() + 3 * size_of::<usize>();

/// Failures of a change that is sent again before all other requests.
const FAILURES_MOST: u32 = 3;

impl Change {
    /// In the place of one that need not be sent again.
    fn nothing() -> Arc<Self> {
        Arc::new(Self { op: Op::Read, flags: Flags::NONE, at: 0, len: 0, bytes: Vec::new() })
    }

    const fn end(&self) -> u64 {
        self.at + self.len
    }

    const fn overlaps(&self, other: &Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

#[derive(Debug)]
struct Unanswered {
    change: Arc<Change>,
    /// How often it could not be sent again; at [`FAILURES_MOST`], it is not sent first any more.
    failures: u32,
}

/// The changes of one home.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// In the order of their acknowledgements. An overlapping change that came later stands later.
    changes: VecDeque<Arc<Change>>,
    /// Bytes of all writes.
    bytes: u64,
    /// Number of the first one.
    first: u64,
    /// Sent, and not answered, by number. None of them overlaps another one.
    unanswered: BTreeMap<u64, Unanswered>,
    /// The last of these numbers.
    last: u64,
}

impl Unflushed {
    /// Whether a change must wait for one without an answer. If both were sent, nobody would know
    /// which of them the other server did last.
    pub(super) fn must_wait(&self, change: &Change) -> bool {
        self.unanswered.values().any(|it| it.change.overlaps(change))
    }

    /// Before a change is sent. Returns its number for [`Self::ended`].
    pub(super) fn begun(&mut self, change: &Arc<Change>) -> u64 {
        self.last += 1;
        let change = Arc::clone(change);
        self.unanswered.insert(self.last, Unanswered { change, failures: 0 });
        self.last
    }

    /// The change has its answer, or fails.
    pub(super) fn ended(&mut self, number: u64) {
        self.unanswered.remove(&number);
    }

    /// It was sent again, and the connection failed. A server that dies again and again may do so for
    /// this change: only the thread that waits for it tries on. If the server is silent, this holds
    /// for later changes too: one after the other, they would take as long as requests wait.
    pub(super) fn failed(&mut self, number: u64, is_silent: bool) {
        if is_silent {
            self.unanswered.range_mut(number..).for_each(|(_, it)| it.failures = FAILURES_MOST);
        } else if let Some(it) = self.unanswered.get_mut(&number) {
            it.failures += 1;
        }
    }

    /// An acknowledged change.
    pub(super) fn push(&mut self, change: Arc<Change>) {
        self.bytes += change.bytes.len() as u64;
        self.changes.push_back(change);
    }

    /// Before a durable change is added: its place has no older bytes from now on, so that none of
    /// them replaces durable bytes. False if that needs a flush.
    pub(super) fn supersede(&mut self, durable: &Change) -> bool {
        let mut is_done = true;
        for old in &mut self.changes {
            if !old.overlaps(durable) {
                continue;
            }
            if durable.at <= old.at && old.end() <= durable.end() {
                self.bytes -= old.bytes.len() as u64;
                *old = Change::nothing();
            } else {
                is_done = false;
            }
        }
        is_done
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

    /// Memory that the acknowledged ones take, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + (self.changes.len() * CHANGE_BYTES) as u64
    }

    /// The acknowledged ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().map(|change| &**change).filter(|change| change.len > 0)
    }

    /// Those without an answer, with their numbers.
    pub(super) fn unanswered(&self) -> Vec<(u64, Arc<Change>)> {
        let some = self.unanswered.iter().filter(|(_, it)| it.failures < FAILURES_MOST);
        some.map(|(number, it)| (*number, Arc::clone(&it.change))).collect()
    }
}
