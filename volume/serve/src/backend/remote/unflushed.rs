//! Changes that a server may lose: acknowledged ones that no flush has covered since, and those that
//! it has not answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use seekless_block::{Flags, Op};

/// A change of a home.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) at: u64,
    pub(super) len: u64,
    /// The data of a write that may be sent again; else empty.
    pub(super) bytes: Vec<u8>,
}

/// Memory of a change without its data, of the pointer to it, and of its places while changes are
/// sent again.
const CHANGE_BYTES: usize = size_of::<Change>() + 19 * size_of::<usize>();

/// Failures of a change that is sent again before all other requests.
const FAILURES_MOST: u32 = 3;

impl Change {
    /// A server that has acknowledged it does not lose it.
    pub(super) const fn is_durable(&self) -> bool {
        self.flags.contains(Flags::FUA)
    }

    /// The same in a part of its place.
    fn part(&self, at: u64, end: u64) -> Self {
        let bytes = self.bytes.get((at - self.at) as usize..(end - self.at) as usize);
        let bytes = bytes.unwrap_or_default().to_vec();
        Self { op: self.op, flags: self.flags, at, len: end - at, bytes }
    }

    const fn end(&self) -> u64 {
        self.at + self.len
    }

    const fn overlaps(&self, other: &Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// Places that do not touch: the end of each by its start, in bytes.
#[derive(Default)]
struct Places(BTreeMap<u64, u64>);

impl Places {
    /// Adds a place. Returns the parts of it that were not there.
    fn add(&mut self, at: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.0.range(..at).next_back().filter(|(_, past)| **past >= at);
        let first = before.map_or(at, |(start, _)| *start);
        let touched: Vec<_> =
            self.0.range(first..=end).map(|(start, past)| (*start, *past)).collect();
        let (mut from, mut to, mut seen, mut fresh) = (at, end, at, Vec::new());
        for (start, past) in touched {
            self.0.remove(&start);
            (from, to) = (from.min(start), to.max(past));
            if seen < start {
                fresh.push((seen, start));
            }
            seen = seen.max(past);
        }
        if seen < end {
            fresh.push((seen, end));
        }
        self.0.insert(from, to);
        fresh
    }
}

#[derive(Debug)]
struct Unanswered {
    change: Arc<Change>,
    /// How often it could not be sent again; at [`FAILURES_MOST`], it is not sent first any more.
    failures: u32,
    /// It has ended without an answer.
    is_lost: Arc<AtomicBool>,
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
    /// The changes without an answer that a change must wait for: whether each is lost. If both were
    /// sent, nobody would know which of them the other server did last.
    pub(super) fn ahead_of(&self, change: &Change) -> Vec<Arc<AtomicBool>> {
        let ahead = self.unanswered.values().filter(|it| it.change.overlaps(change));
        ahead.map(|it| Arc::clone(&it.is_lost)).collect()
    }

    /// Before a change is sent. Returns its number for [`Self::ended`].
    pub(super) fn begun(&mut self, change: &Arc<Change>) -> u64 {
        self.last += 1;
        let (change, is_lost) = (Arc::clone(change), Arc::default());
        self.unanswered.insert(self.last, Unanswered { change, failures: 0, is_lost });
        self.last
    }

    /// The change has its answer, or `is_lost`.
    pub(super) fn ended(&mut self, number: u64, is_lost: bool) {
        if let Some(it) = self.unanswered.remove(&number) {
            it.is_lost.store(is_lost, SeqCst);
        }
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

    /// An acknowledged change. Of a durable one, only its place counts: no older bytes may be sent
    /// over it.
    pub(super) fn push(&mut self, change: Arc<Change>) {
        if !change.is_durable() {
            self.bytes += change.bytes.len() as u64;
            self.changes.push_back(change);
        } else if !self.changes.is_empty() {
            let Change { op, flags, at, len, .. } = *change;
            self.changes.push_back(Arc::new(Change { op, flags, at, len, bytes: Vec::new() }));
        }
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

    /// What is sent again of the acknowledged ones, in their order: not the places of later ones. A
    /// server may discard a part of what it was asked, so only discards give way to a discard. It may
    /// discard whole blocks alone, so a discard gives way only to discards and durable changes.
    pub(super) fn again(&self) -> impl Iterator<Item = Change> {
        let (mut written, mut uncut) = (Places::default(), Places::default());
        let mut parts = Vec::new();
        for change in self.changes.iter().rev() {
            let mut fresh = Vec::new();
            if change.op == Op::Discard || change.is_durable() {
                fresh = uncut.add(change.at, change.end());
            }
            if change.op != Op::Discard {
                fresh = written.add(change.at, change.end());
            }
            if !change.is_durable() {
                parts.extend(fresh.into_iter().map(|(at, end)| (change, at, end)));
            }
        }
        parts.into_iter().rev().map(|(change, at, end)| change.part(at, end))
    }

    /// Those without an answer, with their numbers.
    pub(super) fn unanswered(&self) -> Vec<(u64, Arc<Change>)> {
        let some = self.unanswered.iter().filter(|(_, it)| it.failures < FAILURES_MOST);
        some.map(|(number, it)| (*number, Arc::clone(&it.change))).collect()
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::Dice;

    use super::*;

    const SIZE: u64 = 64;

    /// Against all changes one after the other. Of the server's disk, a crash has left the durable
    /// changes alone. The numbers of changes are their bytes.
    #[test]
    fn what_is_sent_again_is_never_older_than_durable_bytes() {
        for seed in 0..500 {
            println!("seed {seed}");
            let (mut random, mut unflushed) = (Dice::new(seed), Unflushed::default());
            let [mut model, mut disk] = [[0; SIZE as usize]; 2];
            // The number of the change that made them durable.
            let mut durable = [0; SIZE as usize];
            for number in 1..=40 {
                let at = random.below(SIZE);
                let len = 1 + random.below((SIZE - at).min(16));
                let range = at as usize..(at + len) as usize;
                let (mut op, mut flags, mut with) = (Op::Write, Flags::NONE, number);
                match random.below(6) {
                    0 => (op, with) = (Op::WriteZeroes, 0),
                    1 => (op, with) = (Op::Discard, 0),
                    2 | 3 => flags = Flags::FUA,
                    _ => {}
                }
                if flags == Flags::FUA {
                    disk[range.clone()].fill(with);
                    durable[range.clone()].fill(with);
                }
                let bytes = if op == Op::Write { vec![with; len as usize] } else { Vec::new() };
                model[range].fill(with);
                unflushed.push(Arc::new(Change { op, flags, at, len, bytes }));
            }
            let again: Vec<_> = unflushed.again().collect();
            assert!(again.len() <= 3 * 40, "{}", again.len());
            for change in again {
                let range = change.at as usize..change.end() as usize;
                if change.op == Op::Write {
                    assert!(durable[range.clone()].iter().all(|number| *number < change.bytes[0]));
                    disk[range].copy_from_slice(&change.bytes);
                } else {
                    disk[range].fill(0);
                }
            }
            assert_eq!(disk, model);
        }
    }

    /// The older change is sent as two.
    #[test]
    fn a_durable_change_cuts_an_older_one() {
        let change = |flags, at, len: u64| {
            Arc::new(Change { op: Op::Write, flags, at, len, bytes: (0..len as u8).collect() })
        };
        let mut unflushed = Unflushed::default();
        unflushed.push(change(Flags::FUA, 0, 8));
        assert_eq!(unflushed.bytes(), 0, "nothing is older");
        unflushed.push(change(Flags::NONE, 0, 8));
        unflushed.push(change(Flags::FUA, 2, 3));
        let mut again: Vec<_> = unflushed.again().map(|it| (it.at, it.len, it.bytes)).collect();
        again.sort();
        assert_eq!(again, [(0, 2, vec![0, 1]), (5, 3, vec![5, 6, 7])]);
        unflushed.flushed(unflushed.next());
        assert_eq!((unflushed.bytes(), unflushed.again().count()), (0, 0));
    }

    /// A server may discard whole blocks alone: then a part of a discard would bring older bytes back.
    #[test]
    fn a_write_that_is_not_durable_leaves_an_older_discard_whole() {
        let mut unflushed = Unflushed::default();
        let discard = Change { op: Op::Discard, flags: Flags::NONE, at: 0, len: 8, bytes: vec![] };
        let write =
            Change { op: Op::Write, flags: Flags::NONE, at: 2, len: 3, bytes: vec![1, 2, 3] };
        unflushed.push(Arc::new(discard));
        unflushed.push(Arc::new(write));
        let again: Vec<_> = unflushed.again().map(|it| (it.op, it.at, it.len)).collect();
        assert_eq!(again, [(Op::Discard, 0, 8), (Op::Write, 2, 3)]);
    }
}
