//! A volume as bytes: reads and changes of any byte range, as requests of whole sectors. A partial
//! sector at the end of a change is read, changed and written back; meanwhile no other change of
//! this front end may touch the sector. Nothing waits: every call ends in a callback.
//!
//! Writes of other front ends to that sector may be lost: two writers of one sector must
//! coordinate, as on any disk.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use seekless_block::{Extent, Flags, Op, SECTOR_BYTES};
use seekless_nbd::Errno;

use super::gate::{Gate, Span, Ticket};
use crate::handle::Injector;
use crate::server::Job;

/// Called at the end of a request. It must not wait.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T, Errno>) + Send>;

#[derive(Clone)]
pub(crate) struct ByteDisk(Arc<Shared>);

struct Shared {
    injector: Injector,
    size: u64,
    gate: Mutex<Gate<Change>>,
}

/// New contents for a range of bytes.
struct Change {
    /// The first byte.
    at: u64,
    /// The new bytes; `None` writes zeroes.
    data: Option<Vec<u8>>,
    flags: Flags,
    /// Remaining ranges.
    pieces: VecDeque<Range<u64>>,
    done: Done<()>,
}

impl ByteDisk {
    pub(crate) fn new(injector: Injector, size: u64) -> Self {
        Self(Arc::new(Shared { injector, size, gate: Mutex::new(Gate::new()) }))
    }

    pub(crate) fn size(&self) -> u64 {
        self.0.size
    }

    /// Reads up to `len` bytes: fewer at the end of the disk, none past it.
    pub(crate) fn read(
        &self,
        at: u64,
        len: u64,
        done: impl FnOnce(Result<&[u8], Errno>) + Send + 'static,
    ) {
        let range = self.within(at, len);
        if range.is_empty() {
            return done(Ok(&[]));
        }
        let extent = sectors(&range);
        let from = (range.start % SECTOR_BYTES) as usize;
        let len = (range.end - range.start) as usize;
        let reply = move |result: Result<Vec<u8>, Errno>| match &result {
            Ok(data) => done(data.get(from..from + len).ok_or(Errno::Io)),
            Err(e) => done(Err(*e)),
        };
        self.submit(Op::Read, extent, Flags::NONE, vec![0; extent.bytes().0 as usize], reply);
    }

    /// Writes as much of `data` as fits, and returns that length; a write past the end is
    /// [`Errno::NoSpc`].
    pub(crate) fn write(&self, at: u64, data: &[u8], fua: bool, done: Done<u64>) {
        let range = self.within(at, data.len() as u64);
        let len = range.end - range.start;
        let Some(data) = data.get(..len as usize).filter(|d| !d.is_empty()) else {
            return done(if data.is_empty() { Ok(0) } else { Err(Errno::NoSpc) });
        };
        let flags = if fua { Flags::FUA } else { Flags::NONE };
        let done = Box::new(move |result: Result<(), Errno>| done(result.map(|()| len)));
        self.change(range, Some(data.to_vec()), flags, done);
    }

    /// Writes zeroes, at most up to the end of the disk.
    pub(crate) fn zero(&self, at: u64, len: u64, flags: Flags, done: Done<()>) {
        let range = self.within(at, len);
        if range.is_empty() { done(Ok(())) } else { self.change(range, None, flags, done) }
    }

    /// Makes durable what has been written.
    pub(crate) fn flush(&self, done: Done<()>) {
        let reply = |result: Result<Vec<u8>, Errno>| done(result.map(|_| ()));
        self.submit(Op::Flush, Extent::default(), Flags::NONE, Vec::new(), reply);
    }

    fn within(&self, at: u64, len: u64) -> Range<u64> {
        let at = at.min(self.0.size);
        at..at.saturating_add(len).min(self.0.size)
    }

    fn change(&self, range: Range<u64>, data: Option<Vec<u8>>, flags: Flags, done: Done<()>) {
        let pieces = pieces(&range);
        let alone = pieces.iter().any(|p| !is_whole(p));
        let span = Span { extent: sectors(&range), alone };
        let change = Change { at: range.start, data, flags, pieces, done };
        let admitted = self.gate(|g| g.enter(span, change));
        if let Some((ticket, change)) = admitted {
            self.step(ticket, change);
        }
    }

    /// Does the next piece of a change.
    fn step(&self, ticket: Ticket, mut change: Change) {
        let Some(piece) = change.pieces.pop_front() else {
            return self.end(ticket, change.done, Ok(()));
        };
        let extent = sectors(&piece);
        if is_whole(&piece) {
            let all = change.pieces.is_empty() && piece.start == change.at;
            let (op, data) = match &mut change.data {
                None => (Op::WriteZeroes, Vec::new()),
                Some(data) if all => (Op::Write, std::mem::take(data)),
                Some(data) => (Op::Write, of(change.at, data, &piece).to_vec()),
            };
            return self.put(op, extent, data, ticket, change);
        }
        let disk = self.clone();
        let mend = move |result: Result<Vec<u8>, Errno>| match result {
            Err(e) => disk.end(ticket, change.done, Err(e)),
            Ok(mut sector) => {
                let from = (piece.start - extent.start.0 * SECTOR_BYTES) as usize;
                let to = from + (piece.end - piece.start) as usize;
                if let Some(part) = sector.get_mut(from..to) {
                    match &change.data {
                        None => part.fill(0),
                        Some(data) => part.copy_from_slice(of(change.at, data, &piece)),
                    }
                }
                disk.put(Op::Write, extent, sector, ticket, change);
            }
        };
        self.submit(Op::Read, extent, Flags::NONE, vec![0; SECTOR_BYTES as usize], mend);
    }

    /// Writes one piece, and goes on with the next.
    fn put(&self, op: Op, extent: Extent, data: Vec<u8>, ticket: Ticket, change: Change) {
        // Flags for zeroing do not apply to zeroes written as data.
        let flags =
            if op == Op::Write && change.data.is_none() { Flags::NONE } else { change.flags };
        let disk = self.clone();
        self.submit(op, extent, flags, data, move |result| match result {
            Ok(_) => disk.step(ticket, change),
            Err(e) => disk.end(ticket, change.done, Err(e)),
        });
    }

    fn end(&self, ticket: Ticket, done: Done<()>, result: Result<(), Errno>) {
        done(result);
        for (ticket, change) in self.gate(|g| g.leave(ticket)) {
            self.step(ticket, change);
        }
    }

    fn gate<R>(&self, act: impl FnOnce(&mut Gate<Change>) -> R) -> R {
        // Held only for a look at a short list, by the front end's thread and the volume's thread.
        act(&mut self.0.gate.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn submit(
        &self,
        op: Op,
        extent: Extent,
        flags: Flags,
        data: Vec<u8>,
        reply: impl FnOnce(Result<Vec<u8>, Errno>) + Send + 'static,
    ) {
        // A stopped server drops the reply without a call: the front end answers with an error of
        // its own.
        let _ = self.0.injector.submit(Job { op, extent, flags, data, reply: Box::new(reply) });
    }
}

/// The sectors that hold a range of bytes.
const fn sectors(range: &Range<u64>) -> Extent {
    Extent::span(range.start / SECTOR_BYTES, range.end.div_ceil(SECTOR_BYTES))
}

const fn is_whole(range: &Range<u64>) -> bool {
    range.start.is_multiple_of(SECTOR_BYTES) && range.end.is_multiple_of(SECTOR_BYTES)
}

/// Divides a range into whole sectors and partial sectors at its ends.
fn pieces(range: &Range<u64>) -> VecDeque<Range<u64>> {
    let head = range.start.next_multiple_of(SECTOR_BYTES).min(range.end);
    let tail = (range.end / SECTOR_BYTES * SECTOR_BYTES).max(head);
    [range.start..head, head..tail, tail..range.end].into_iter().filter(|r| !r.is_empty()).collect()
}

/// The bytes of `piece` in data that begins at byte `at` of the disk.
fn of<'a>(at: u64, data: &'a [u8], piece: &Range<u64>) -> &'a [u8] {
    data.get((piece.start - at) as usize..(piece.end - at) as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests;
