//! The log's memory: the records between their beginning and their end, and where the next one goes.

use std::collections::VecDeque;

use seekless_block::{Extent, SimTime};

use super::ring::Ring;
use crate::Memory;
use crate::core::page_map::{Slot, slots};
use crate::core::shape::Shape;
use crate::format::{Content, Entry};

/// Records on their way at a time; what comes meanwhile gathers in the next one.
const DEPTH: u32 = 2;

/// A record from its beginning to its end.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) content: Content,
    /// Slot of its header.
    pub(super) slot: Slot,
    /// The absorbed writes that it holds parts of.
    pub(super) writes: Vec<u32>,
    /// Who waits for it, where it is no data.
    pub(super) waiter: bool,
    pub(super) buffer: u32,
    pub(super) page: u32,
    /// No more is added.
    pub(super) sealed: bool,
    /// Its checksums are known.
    pub(super) summed: bool,
    pub(super) ended: bool,
    /// Pieces of it on their way home, where the area did not take it; and whether those that ended, ended well.
    pub(super) homeward: Option<u32>,
    pub(super) saved: bool,
    pub(super) tries: u8,
    pub(super) sequence: u64,
    pub(super) previous: u32,
    /// Of its header.
    pub(super) checksum: u32,
    /// The tail that its header names.
    pub(super) tail: u32,
}

/// A piece of a record that the area did not take, on its way home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homeward {
    pub(super) extent: Extent,
    pub(super) from: Memory,
    pub(super) tries: u8,
}

impl Record {
    /// Which of its pages holds this page of home. Runs that grew last are looked at first.
    pub(super) fn position(&self, page: u64) -> Option<u64> {
        let Content::Data(entries) = &self.content else { return None };
        entries.iter().rposition(|e| e.home == page).map(|at| at as u64)
    }
}

/// The log's memory.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) first_slot: Slot,
    pub(super) segment_pages: u32,
    pub(crate) ring: Ring,
    /// Where the next record's header goes, within the ring's head.
    pub(super) head_page: u32,
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    /// Highest sequence known to be on stable storage.
    pub(crate) durable: u64,
    pub(super) records: VecDeque<Record>,
    /// Number of the front record.
    pub(super) base: u64,
    /// Number of the first record that has not been sent.
    pub(super) unsent: u64,
    pub(crate) in_flight: u32,
    pub(super) controls: VecDeque<(Content, bool)>,
    pub(super) spare: Vec<(Vec<Entry>, Vec<u32>)>,
    /// Sequence and tail of the last record that ended.
    pub(crate) ended: (u64, u32),
    /// The checksum of its header.
    pub(super) ended_checksum: u32,
    /// Pages written since the last checkpoint.
    pub(crate) since_checkpoint: u64,
    /// The highest `durable` that stands in a header or that a checkpoint knows.
    pub(super) told: u64,
    /// A record could not be written: nothing is appended until a checkpoint has left it behind.
    pub(crate) failed: bool,
    /// A record waits for a segment that is not free.
    pub(crate) starved: bool,
    /// Somebody waits for what is being gathered.
    pub(crate) hurry: bool,
    /// When the record that is being gathered was begun.
    pub(super) gathered_since: SimTime,
}

impl Log {
    pub(crate) fn new(geo: &Shape) -> Self {
        Self {
            first_slot: Slot(geo.read_slots()),
            segment_pages: geo.segment_pages,
            ring: Ring::new(geo.log_segments),
            head_page: 0,
            sequence: 1,
            previous: 0,
            durable: 0,
            records: VecDeque::new(),
            base: 0,
            unsent: 0,
            in_flight: 0,
            controls: VecDeque::new(),
            spare: Vec::new(),
            ended: (0, 0),
            ended_checksum: 0,
            since_checkpoint: 0,
            told: 0,
            failed: false,
            starved: false,
            hurry: false,
            gathered_since: SimTime::ZERO,
        }
    }

    /// Whether all of these pages stand in the record that is being gathered, and nobody waits for it: whose write is
    /// there and has not ended must find its own bytes, once it does.
    pub(crate) fn gathers(&self, pages: &std::ops::Range<u64>) -> bool {
        let open = self.records.back().filter(|r| !r.sealed && !self.hurry);
        !pages.is_empty()
            && open.is_some_and(|r| pages.clone().all(|page| r.position(page).is_some()))
    }

    /// Whether another record may be sent.
    pub(crate) const fn may_send(&self) -> bool {
        self.in_flight < DEPTH
    }

    /// The number that the next record will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    /// Whether all records before this number have ended.
    pub(crate) const fn has_ended(&self, number: u64) -> bool {
        self.base >= number
    }

    /// Where recovery would have to begin to see everything that is not in the map yet: segment and page of the
    /// ring, the sequence expected there and the checksum of the header before it.
    pub(crate) fn position(&self) -> (u32, u32, u64, u32) {
        match self.records.front() {
            Some(r) => {
                let at = r.slot - self.first_slot;
                let (sequence, previous) = if self.base < self.unsent {
                    (r.sequence, r.previous)
                } else {
                    (self.sequence, self.previous)
                };
                (at / self.segment_pages, at % self.segment_pages, sequence, previous)
            }
            None => (self.ring.head, self.head_page, self.sequence, self.previous),
        }
    }

    /// After recovery: the log goes on at this page of the ring's head.
    pub(crate) fn resume(&mut self, ring: Ring, page: u32, sequence: u64, previous: u32) {
        self.ring = ring;
        self.head_page = page;
        (self.sequence, self.previous) = (sequence, previous);
        self.durable = sequence - 1;
        self.told = sequence - 1;
        self.ended = (sequence - 1, ring.tail);
        self.ended_checksum = previous;
    }

    /// All of them.
    pub(crate) fn pages(&self) -> u64 {
        u64::from(self.ring.segments) * u64::from(self.segment_pages)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty() && self.controls.is_empty()
    }

    /// Queues a record without data. Whoever waits for it is told through [`Engine::control_done`].
    pub(crate) fn control(&mut self, content: Content, waiter: bool) {
        self.controls.push_back((content, waiter));
    }

    /// After a record that could not be written, with the log idle: it goes on behind it, under numbers that no record
    /// has which may have reached the area all the same. They are out of recovery's sight once a checkpoint says so.
    pub(crate) fn leave_behind(&mut self) {
        self.sequence += self.pages();
        self.previous = self.ended_checksum;
    }

    /// A checkpoint stands that recovery begins with: all before that sequence is known to be on stable storage.
    pub(crate) fn begins_at(&mut self, segment: u32, sequence: u64) {
        self.ring.replay = segment;
        self.told = self.told.max(sequence - 1);
        self.since_checkpoint = 0;
        self.starved = false;
    }

    /// Whether the last record that was flushed has nobody behind it that knows, and there is a page for one who does.
    pub(crate) fn wants_mark(&self) -> bool {
        self.durable > self.told
            && self.is_idle()
            && !self.failed
            && self.head_page < self.segment_pages
    }

    /// Whether its next record is the first of a segment.
    pub(crate) const fn begins_segment(&self) -> bool {
        self.head_page == 0
    }

    pub(crate) fn slots_of(&self, segment: u32) -> impl Iterator<Item = Slot> + use<> {
        let first = self.first_of(segment).0;
        slots(first..first + self.segment_pages)
    }

    /// The first slot of a segment.
    pub(super) fn first_of(&self, segment: u32) -> Slot {
        self.first_slot + segment * self.segment_pages
    }

    pub(super) fn record(&mut self, number: u64) -> &mut Record {
        &mut self.records[(number - self.base) as usize]
    }
}
