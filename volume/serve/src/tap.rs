//! Passes requests and I/Os of a volume to a watcher, through rings at which the volume's thread
//! never waits. Overflow is counted and dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use seekless_block::{Extent, Op, Request, SimTime};
use seekless_engine::{Io, Target};

/// Entries of each ring: a quarter of a second at 250,000 a second.
const RING: usize = 1 << 16;

/// One I/O of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoSample {
    /// Time of submission; with an emulated disk, time of its end.
    pub at: SimTime,
    /// The device.
    pub target: Target,
    /// The operation.
    pub op: Op,
    /// The sectors on the target.
    pub extent: Extent,
    /// True for moving data, false for clients.
    pub background: bool,
}

/// The volume's end.
pub(crate) struct Tap {
    requests: Producer<Request>,
    ios: Producer<IoSample>,
    missed: Arc<AtomicU64>,
}

/// The watcher's end.
pub(crate) struct TapEnd {
    pub(crate) requests: Consumer<Request>,
    pub(crate) ios: Consumer<IoSample>,
    missed: Arc<AtomicU64>,
}

pub(crate) fn tap() -> (Tap, TapEnd) {
    let (requests, requests_end) = RingBuffer::new(RING);
    let (ios, ios_end) = RingBuffer::new(RING);
    let missed = Arc::new(AtomicU64::new(0));
    let end = TapEnd { requests: requests_end, ios: ios_end, missed: Arc::clone(&missed) };
    (Tap { requests, ios, missed }, end)
}

impl Tap {
    #[inline]
    pub(crate) fn request(&mut self, request: &Request) {
        if self.requests.push(*request).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn io(&mut self, at: SimTime, io: &Io) {
        let Io { target, op, extent, class, .. } = *io;
        let sample = IoSample { at, target, op, extent, background: class.is_background() };
        if self.ios.push(sample).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl TapEnd {
    /// Requests and I/Os dropped by full rings.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_counts_and_never_waits() {
        let (mut tap, mut end) = tap();
        let request = Request::new(SimTime(1), Op::Read, Extent::new(8, 8));
        for _ in 0..RING + 5 {
            tap.request(&request);
        }
        assert_eq!(end.missed(), 5);
        assert_eq!(end.requests.slots(), RING);
        assert_eq!(end.requests.pop(), Ok(request));
        tap.request(&request);
        assert_eq!(end.missed(), 5);
    }
}
