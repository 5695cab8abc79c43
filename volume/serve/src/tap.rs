//! Passes requests and I/Os of a volume to a watcher, through rings at which the volume's thread
//! never waits. Overflow is counted and dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use seekless_block::{Duration, Extent, Flags, Op, Request, SimTime};
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
    /// A drive that writes back serves a write with FUA as any other drive.
    pub flags: Flags,
    /// True for moving data, false for clients.
    pub background: bool,
    /// Time from submission to end, of a read for which a real device was asked. `None` for writes,
    /// for reads that the host's page cache answered, and with an emulated disk.
    pub took: Option<Duration>,
}

/// The volume's end.
pub(crate) struct Tap {
    requests: Producer<Request>,
    ios: Producer<IoSample>,
    missed: Arc<AtomicU64>,
    /// Submission of the latest I/O.
    latest: SimTime,
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
    (Tap { requests, ios, missed, latest: SimTime::ZERO }, end)
}

impl Tap {
    #[inline]
    pub(crate) fn request(&mut self, request: &Request) {
        if self.requests.push(*request).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The time of submission of an I/O, later than the time of each I/O before. The samples come
    /// in the order in which I/Os end, so these times also give the order of submission.
    #[inline]
    pub(crate) fn submitted(&mut self, now: SimTime) -> SimTime {
        self.latest = now.max(SimTime(self.latest.0.saturating_add(1)));
        self.latest
    }

    #[inline]
    pub(crate) fn io(&mut self, at: SimTime, io: &Io, took: Option<Duration>) {
        let Io { target, op, extent, flags, class, .. } = *io;
        let background = class.is_background();
        let sample = IoSample { at, target, op, extent, flags, background, took };
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
    fn no_two_ios_are_submitted_at_one_time() {
        let mut tap = tap().0;
        let times = [7, 7, 7, 9].map(|ns| tap.submitted(SimTime(ns)).0);
        assert_eq!(times, [7, 8, 9, 10]);
    }

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
