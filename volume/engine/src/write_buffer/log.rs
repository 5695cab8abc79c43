//! The log's memory: the records in flight, and the position of the next one.

use std::collections::VecDeque;

use seekless_block::{Extent, SimTime};

use super::ring::{Ring, Segment};
use crate::Memory;
use crate::core::page_map::Slot;
use crate::format::{Content, Entry, Geometry};

/// Most records in flight. Later writes gather in the next record.
const DEPTH: u32 = 2;

/// A record from its beginning to its end.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) content: Content,
    pub(super) slot: Slot,
    /// The absorbed writes that it holds parts of.
    pub(super) writes: Vec<u32>,
    /// A round waits for this record, which has no data.
    pub(super) waiter: bool,
    pub(super) buffer: u32,
    pub(super) page: u32,
    /// The record takes no more pages.
    pub(super) sealed: bool,
    /// The checksums are known.
    pub(super) summed: bool,
    pub(super) ended: bool,
    /// The writes home in flight, of a record that the area refused.
    pub(super) homeward: Option<u32>,
    pub(super) saved: bool,
    pub(super) tries: u8,
    pub(super) sequence: u64,
    pub(super) previous: u32,
    pub(super) checksum: u32,
    /// The tail that its header names.
    pub(super) tail: Segment,
}

/// A piece of a record that the area refused, on its way home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homeward {
    pub(super) extent: Extent,
    pub(super) from: Memory,
    pub(super) tries: u8,
    /// How many flushes of home had failed when it was sent.
    pub(super) failures: u64,
}

impl Record {
    /// Which page of the record holds this home page. The search begins with the newest runs.
    pub(super) fn position(&self, page: u64) -> Option<u64> {
        let Content::Data(entries) = &self.content else { return None };
        entries.iter().rposition(|e| e.home == page).map(|at| at as u64)
    }
}

/// The log's memory.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(super) geo: Geometry,
    pub(crate) ring: Ring,
    /// The page of the next record's header, within the head segment.
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
    pub(crate) ended: (u64, Segment),
    pub(super) ended_checksum: u32,
    /// Pages written since the last checkpoint.
    pub(crate) since_checkpoint: u64,
    /// The highest `durable` in a header or a checkpoint.
    pub(super) told: u64,
    /// A record failed: the log takes nothing until a checkpoint has left that record behind.
    pub(crate) failed: bool,
    /// Recovery may find pages of clients in the log, or names of open copies.
    pub(crate) holds_pages: bool,
    /// None was appended since a checkpoint began that knew of none.
    pub(crate) emptied: bool,
    /// A record waits for a free segment.
    pub(crate) starved: bool,
    /// Somebody waits for the open record.
    pub(crate) hurry: bool,
    /// When the open record began.
    pub(super) gathered_since: SimTime,
}

impl Log {
    pub(crate) fn new(geo: &Geometry) -> Self {
        Self {
            geo: *geo,
            ring: Ring { segments: geo.log_segments, ..Ring::default() },
            sequence: 1,
            ..Self::default()
        }
    }

    /// Whether all of these pages stand in the open record, and nobody waits for that record. A
    /// write that waits must find its own bytes when it ends.
    pub(crate) fn gathers(&self, pages: &std::ops::Range<u64>) -> bool {
        let open = self.records.back().filter(|r| !r.sealed && !self.hurry);
        !pages.is_empty()
            && open.is_some_and(|r| pages.clone().all(|page| r.position(page).is_some()))
    }

    /// Whether a page is on its way to the log: in a record that has not ended, and that the area
    /// has not refused.
    pub(crate) fn takes(&self, page: u64) -> bool {
        let mut under_way = self.records.iter().filter(|r| r.homeward.is_none());
        under_way.any(|r| r.position(page).is_some())
    }

    /// Whether another record may be sent.
    pub(crate) const fn may_send(&self) -> bool {
        self.in_flight < DEPTH
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    /// Whether all records before this number have ended.
    pub(crate) const fn has_ended(&self, number: u64) -> bool {
        self.base >= number
    }

    /// Where recovery must begin to see every change that the map lacks: segment and page of the
    /// ring, the expected sequence, and the checksum of the header before.
    pub(crate) fn position(&self) -> (Segment, u32, u64, u32) {
        match self.records.front() {
            Some(r) => {
                let (sequence, previous) = if self.base < self.unsent {
                    (r.sequence, r.previous)
                } else {
                    (self.sequence, self.previous)
                };
                let (segment, page) =
                    (self.geo.segment_of(r.slot), self.geo.position_of(r.slot).page);
                (segment, page, sequence, previous)
            }
            None => (self.ring.head, self.head_page, self.sequence, self.previous),
        }
    }

    /// After recovery: the log goes on at this page of the head segment.
    pub(crate) fn resume(&mut self, ring: Ring, page: u32, sequence: u64, previous: u32) {
        self.ring = ring;
        self.head_page = page;
        (self.sequence, self.previous) = (sequence, previous);
        self.durable = sequence - 1;
        self.told = sequence - 1;
        self.ended = (sequence - 1, ring.tail);
        self.ended_checksum = previous;
    }

    pub(crate) fn pages(&self) -> u64 {
        u64::from(self.ring.segments) * u64::from(self.geo.segment_pages)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty() && self.controls.is_empty()
    }

    /// Queues a record without data. [`Engine::control_done`] learns its end if `waiter` is true.
    pub(crate) fn control(&mut self, content: Content, waiter: bool) {
        self.controls.push_back((content, waiter));
    }

    /// Goes on behind a failed record, with the log idle. A failed record may be on the area all
    /// the same: the next sequence numbers are higher than its own. A checkpoint puts such records
    /// out of recovery's sight.
    pub(crate) fn leave_behind(&mut self) {
        self.sequence += self.pages();
        self.previous = self.ended_checksum;
    }

    /// A checkpoint is valid: all records before that sequence are on stable storage.
    pub(crate) fn begins_at(&mut self, segment: Segment, sequence: u64) {
        self.ring.replay = segment;
        self.told = self.told.max(sequence - 1);
        self.since_checkpoint = 0;
        self.starved = false;
    }

    /// Whether no later record tells that the last one was flushed, and the log has a page for a
    /// mark.
    pub(crate) fn wants_mark(&self) -> bool {
        self.durable > self.told
            && self.is_idle()
            && !self.failed
            && (self.head_page < self.geo.segment_pages || self.ring.free() > 0)
    }

    /// Whether the next record is the first of a segment.
    pub(crate) const fn begins_segment(&self) -> bool {
        self.head_page == 0
    }

    pub(super) fn record(&mut self, number: u64) -> &mut Record {
        &mut self.records[(number - self.base) as usize]
    }
}
