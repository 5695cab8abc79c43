//! The write buffer: a circular log of records, each a header page with its own map and the data pages after it,
//! put down in one sequential write. BORG (FAST'09) 5.1, done as log-structured stores do: nothing is written in
//! place, so nothing that was flushed can be torn; the header carries the checksums of the data and of the header
//! before it, so that recovery finds the end by itself.
//!
//! Records end in their order, whatever the order of their I/Os. What one holds that the area does not take, and what
//! those after it hold, is written home instead, out of the memory that they were to be written from: only where home does
//! not take it either is it lost.

pub(crate) mod destage;
pub(crate) mod durability;

use std::collections::VecDeque;

use seekless_block::{Duration, Extent, Op, Sectors, SimTime};

use crate::core::page_map::State;
use crate::core::shape::Shape;
use crate::format::{Content, Entry, Header, PageSum, Position};
use crate::{Asked, Class, Engine, Memory, Mode, Move, Output, Pending, Sum, SumFor, Target};

/// Records on their way at a time; what comes meanwhile gathers in the next one.
const DEPTH: u32 = 2;
/// A record that could not be written is tried so often.
const TRIES: u8 = 3;

/// A record from its beginning to its end.
#[derive(Debug)]
struct Record {
    content: Content,
    /// Slot of its header.
    slot: u32,
    /// The absorbed writes that it holds parts of.
    writes: Vec<u32>,
    /// Who waits for it, where it is no data.
    waiter: bool,
    buffer: u32,
    page: u32,
    /// No more is added.
    sealed: bool,
    /// Its checksums are known.
    summed: bool,
    ended: bool,
    /// Pieces of it on their way home, where the area did not take it; and whether those that ended, ended well.
    homeward: Option<u32>,
    saved: bool,
    tries: u8,
    sequence: u64,
    previous: u32,
    /// Of its header.
    checksum: u32,
    /// The tail that its header names.
    tail: u32,
}

/// A piece of a record that the area did not take, on its way home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homeward {
    extent: Extent,
    from: Memory,
    tries: u8,
}

impl Record {
    /// Which of its pages holds this page of home. Runs that grew last are looked at first.
    fn position(&self, page: u64) -> Option<u64> {
        let Content::Data(entries) = &self.content else { return None };
        entries.iter().rposition(|e| e.home == page).map(|at| at as u64)
    }
}

/// Which of the log's segments hold what, in the order of the circle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    pub(crate) segments: u32,
    /// Being written.
    pub(crate) head: u32,
    /// Everything in the segments before it is at home.
    pub(crate) tail: u32,
    /// As recovery would find it.
    pub(crate) tail_durable: u32,
    /// Where recovery would begin.
    pub(crate) replay: u32,
}

impl Ring {
    const fn new(segments: u32) -> Self {
        Self { segments, head: 0, tail: 0, tail_durable: 0, replay: 0 }
    }

    /// Segments from `from` on to `to`.
    pub(crate) const fn distance(&self, from: u32, to: u32) -> u32 {
        (to + self.segments - from) % self.segments
    }

    pub(crate) const fn ahead(&self, by: u32) -> u32 {
        (self.head + by) % self.segments
    }

    pub(crate) const fn is_live(&self, segment: u32) -> bool {
        self.distance(self.tail_durable, segment) <= self.distance(self.tail_durable, self.head)
    }

    /// The tail was seen at `tail` by what is on stable storage now. It may have been seen further on before.
    pub(crate) const fn tail_is_durable(&mut self, tail: u32) {
        if self.distance(self.tail_durable, tail) <= self.distance(self.tail_durable, self.tail) {
            self.tail_durable = tail;
        }
    }

    /// Segments that may be written next.
    pub(crate) fn free(&self) -> u32 {
        let used =
            self.distance(self.tail_durable, self.head).max(self.distance(self.replay, self.head));
        self.segments - 1 - used
    }

    /// Segments that hold something that is not known to be at home.
    pub(crate) const fn used(&self) -> u32 {
        self.distance(self.tail, self.head) + 1
    }
}

/// The log's memory.
#[derive(Debug)]
pub(crate) struct Log {
    first_slot: u32,
    segment_pages: u32,
    pub(crate) ring: Ring,
    /// Where the next record's header goes, within the ring's head.
    head_page: u32,
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    /// Highest sequence known to be on stable storage.
    pub(crate) durable: u64,
    records: VecDeque<Record>,
    /// Number of the front record.
    base: u64,
    /// Number of the first record that has not been sent.
    unsent: u64,
    pub(crate) in_flight: u32,
    controls: VecDeque<(Content, bool)>,
    spare: Vec<(Vec<Entry>, Vec<u32>)>,
    /// Sequence and tail of the last record that ended.
    pub(crate) ended: (u64, u32),
    /// The checksum of its header.
    ended_checksum: u32,
    /// Pages written since the last checkpoint.
    pub(crate) since_checkpoint: u64,
    /// The highest `durable` that stands in a header or that a checkpoint knows.
    told: u64,
    /// A record could not be written: nothing is appended until a checkpoint has left it behind.
    pub(crate) failed: bool,
    /// A record waits for a segment that is not free.
    pub(crate) starved: bool,
    /// Somebody waits for what is being gathered.
    pub(crate) hurry: bool,
    /// When the record that is being gathered was begun.
    gathered_since: SimTime,
}

impl Log {
    pub(crate) fn new(geo: &Shape) -> Self {
        Self {
            first_slot: geo.read_segments * geo.segment_pages,
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

    pub(crate) fn slots_of(&self, segment: u32) -> std::ops::Range<u32> {
        let first = self.first_slot + segment * self.segment_pages;
        first..first + self.segment_pages
    }

    fn record(&mut self, number: u64) -> &mut Record {
        &mut self.records[(number - self.base) as usize]
    }
}

impl Engine {
    /// Whether anything may be in the log that home does not have, now or soon.
    pub(crate) fn log_in_use(&self) -> bool {
        self.state.mode() == Mode::WriteBack
            || self.map.count(State::Dirty) > 0
            || !self.log.records.is_empty()
    }

    /// Whether recovery could bring back what stands in the slot.
    pub(crate) fn is_live(&self, slot: u32) -> bool {
        self.is_log(slot)
            && self.log.ring.is_live((slot - self.log.first_slot) / self.geo.segment_pages)
    }

    fn segment_is_at_rest(&self, segment: u32) -> bool {
        self.readers[(self.geo.read_segments + segment) as usize] == 0
    }

    /// Whether so many pages of data can be absorbed at once, and room be left for records without data.
    pub(crate) fn log_has_room(&self, pages: u64) -> bool {
        let log = &self.log;
        if log.failed {
            return false;
        }
        let left = u64::from(log.segment_pages - log.head_page);
        let here = if self.open_record() { left } else { left.saturating_sub(1) };
        let more = pages.saturating_sub(here).div_ceil(u64::from(log.segment_pages) - 1);
        // One for records without data, where the log is tiny; two where not.
        let reserve = if log.ring.segments > 8 { 2 } else { 1 };
        more + reserve <= u64::from(log.ring.free())
            && (1..=more as u32).all(|i| self.segment_is_at_rest(log.ring.ahead(i)))
    }

    fn open_record(&self) -> bool {
        self.log.records.back().is_some_and(|r| !r.sealed)
            && self.log.head_page < self.log.segment_pages
    }

    /// Where the tail may go, past the segments that hold nothing dirty, once all that has ended by now is on stable
    /// storage: what was written home, and the records that hold something newer.
    pub(crate) fn next_tail(&self) -> u32 {
        let (mut tail, stop) = (self.log.ring.tail, self.log.position().0);
        while tail != stop
            && self.log.slots_of(tail).all(|slot| self.map.state(slot) != State::Dirty)
        {
            tail = (tail + 1) % self.log.ring.segments;
        }
        tail
    }

    /// The records without data that wait for room will not have any.
    pub(crate) fn fail_controls(&mut self) {
        while let Some((_, waiter)) = self.log.controls.pop_front() {
            if waiter {
                self.control_done(false);
            }
        }
        self.flush_records();
    }

    /// Moves the head to the next segment, if that is free and nobody reads it.
    pub(crate) fn next_segment(&mut self) -> bool {
        let next = self.log.ring.ahead(1);
        self.log.starved = self.log.ring.free() == 0 || !self.segment_is_at_rest(next);
        if self.log.starved {
            return false;
        }
        // All of it is at home, and durably known to be.
        for slot in self.log.slots_of(next) {
            self.map.clear(slot);
        }
        self.log.ring.head = next;
        self.log.head_page = 0;
        true
    }

    /// Begins a record; false where there is no room for it now.
    fn begin_record(&mut self, least: u32) -> bool {
        if self.log.segment_pages - self.log.head_page < least && !self.next_segment() {
            return false;
        }
        let buffer = self.take_buffer();
        let log = &mut self.log;
        let slot = log.slots_of(log.ring.head).start + log.head_page;
        log.head_page += 1;
        log.gathered_since = self.now;
        let (entries, writes) = log.spare.pop().unwrap_or_default();
        log.records.push_back(Record {
            content: Content::Data(entries),
            slot,
            writes,
            waiter: false,
            buffer,
            page: u32::MAX,
            sealed: false,
            summed: false,
            ended: false,
            homeward: None,
            saved: false,
            tries: 0,
            sequence: 0,
            previous: 0,
            checksum: 0,
            tail: 0,
        });
        true
    }

    /// Adds pages of a write to the open record, or to a new one; says how many. There is room.
    pub(crate) fn log_append(&mut self, write: u32, page: u64, pages: u64, from: Memory) -> u64 {
        if !self.open_record() {
            self.seal();
            let begun = self.begin_record(2);
            debug_assert!(begun, "there was room");
        }
        let log = &mut self.log;
        let taken = pages.min(u64::from(log.segment_pages - log.head_page));
        log.head_page += taken as u32;
        let Some(record) = log.records.back_mut() else { unreachable!("one was just begun") };
        let Content::Data(entries) = &mut record.content else {
            unreachable!("an open record is of data")
        };
        let at = 1 + entries.len() as u64;
        entries.extend((page..page + taken).map(|home| Entry {
            home,
            state: State::Dirty,
            sum: 0,
        }));
        record.writes.push(write);
        let to = Memory::Buffer {
            index: record.buffer,
            offset: Sectors(at * seekless_block::PAGE_SECTORS),
        };
        let len = Sectors(taken * seekless_block::PAGE_SECTORS);
        self.out.push_back(Output::Move(Move { from, to, len }));
        taken
    }

    /// Puts other bytes in the place of a page of the record that is being gathered.
    pub(crate) fn log_replace(&mut self, page: u64, from: Memory) {
        let Some(record) = self.log.records.back() else { return };
        let Some(at) = record.position(page) else { return };
        let offset = Sectors((1 + at) * seekless_block::PAGE_SECTORS);
        let to = Memory::Buffer { index: record.buffer, offset };
        let len = Sectors(seekless_block::PAGE_SECTORS);
        self.out.push_back(Output::Move(Move { from, to, len }));
    }

    /// When the record that is being gathered goes down though nobody waits for it; `None` where there is none.
    pub(crate) fn gathers_until(&self) -> Option<SimTime> {
        let open = self.log.records.back().is_some_and(|r| !r.sealed);
        let until = self.log.gathered_since.0.saturating_add(self.config.gather.0);
        (open && self.config.gather > Duration::ZERO).then_some(SimTime(until))
    }

    /// Nothing more is added to the open record.
    fn seal(&mut self) {
        let number = (self.log.base + self.log.records.len() as u64).saturating_sub(1);
        if let Some(record) = self.log.records.back_mut()
            && !record.sealed
        {
            record.sealed = true;
            self.log.hurry = false;
            let offset = Sectors(seekless_block::PAGE_SECTORS);
            let from = Memory::Buffer { index: record.buffer, offset };
            let pages = record.content.len() as u32;
            self.sums.push_back(SumFor::Record(number));
            self.out.push_back(Output::Sum(Sum { from, pages }));
        }
    }

    /// Sends what can be sent: records without data at once, the open one when few are on their way.
    pub(crate) fn pump_log(&mut self) {
        if self.log.failed {
            self.fail_controls();
        }
        let goes = self.config.gather == Duration::ZERO
            || self.log.hurry
            || !self.open_record()
            || self.state.mode() == Mode::WriteThrough
            || self.state.is_leaving()
            || self.gathers_until().is_none_or(|until| self.now >= until);
        let open = self.log.records.back().is_some_and(|r| !r.sealed);
        self.log.hurry &= open;
        if goes && open && self.log.may_send() {
            self.seal();
        }
        while !self.log.controls.is_empty() {
            self.seal();
            if !self.begin_record(1) {
                break;
            }
            if let (Some(record), Some((content, waiter))) =
                (self.log.records.back_mut(), self.log.controls.pop_front())
            {
                record.content = content;
                record.waiter = waiter;
                record.sealed = true;
                record.summed = true;
            }
        }
        self.send_records();
    }

    pub(crate) fn record_summed(&mut self, number: u64, sums: &[PageSum]) {
        let record = self.log.record(number);
        if let Content::Data(entries) = &mut record.content {
            for (entry, &sum) in entries.iter_mut().zip(sums) {
                entry.sum = sum;
            }
        }
        record.summed = true;
        self.send_records();
    }

    /// Writes the headers of the records that are ready, in order, and sends them.
    fn send_records(&mut self) {
        while let Some(at) = usize::try_from(self.log.unsent - self.log.base).ok()
            && self.log.records.get(at).is_some_and(|r| r.summed)
        {
            let page = self.take_page();
            let number = self.log.unsent;
            let log = &mut self.log;
            let record = &mut log.records[at];
            record.page = page;
            record.sequence = log.sequence;
            record.previous = log.previous;
            record.tail = log.ring.tail;
            let header = Header {
                uuid: self.identity.uuid,
                sequence: log.sequence,
                durable: log.durable,
                plan_generation: self.background.plan_generation(),
                position: Position {
                    segment: record.slot / log.segment_pages,
                    page: record.slot % log.segment_pages,
                },
                previous: log.previous,
                tail: self.geo.read_segments + record.tail,
                content: std::mem::replace(&mut record.content, Content::Data(Vec::new())),
            };
            log.told = log.durable;
            log.previous = header.encode(&mut self.pages[page as usize]);
            record.checksum = log.previous;
            record.content = header.content;
            log.sequence += 1;
            log.unsent += 1;
            log.in_flight += 1;
            let to = Memory::Buffer { index: record.buffer, offset: Sectors(0) };
            self.out.push_back(Output::Put { page, to });
            self.send_record(number);
        }
    }

    fn send_record(&mut self, number: u64) {
        let io = self.start(Pending::Record(number));
        let record = self.log.record(number);
        let data =
            if let Content::Data(entries) = &record.content { entries.len() as u64 } else { 0 };
        // A client waits for its data, and for what may not come back.
        let client = data > 0 || matches!(record.content, Content::Tombstones(_));
        let (slot, index) = (record.slot, record.buffer);
        let extent: Extent = self.place_of(slot, 1 + data);
        self.stats.metadata_bytes += seekless_block::PAGE_BYTES;
        self.log.since_checkpoint += 1 + data;
        let memory = Some(Memory::Buffer { index, offset: Sectors(0) });
        let class = if client { Class::Foreground } else { Class::Background };
        self.submit_as(class, io, Target::Area, Op::Write, extent, Asked::default(), memory);
    }

    pub(crate) fn record_done(&mut self, number: u64, ok: bool) {
        let failed = self.log.failed;
        let record = self.log.record(number);
        if !ok && record.tries < TRIES && !failed {
            record.tries += 1;
            self.send_record(number);
            return;
        }
        record.ended = true;
        let page = record.page;
        self.pages_free.push(page);
        self.log.failed |= !ok;
        self.log.in_flight -= 1;
        self.end_records();
    }

    /// Ends the records at the front that may end.
    fn end_records(&mut self) {
        while let Some(record) = self.log.records.front().filter(|r| r.ended) {
            let has_data = matches!(&record.content, Content::Data(entries) if !entries.is_empty());
            if self.log.failed && has_data && record.homeward.is_none() {
                self.send_home();
                break;
            }
            if let Some(record) = self.log.records.pop_front() {
                self.log.base += 1;
                self.buffers_free.push(record.buffer);
                self.end_record(record);
            }
        }
        self.flush_records();
    }

    /// The area did not take the front record: what it holds goes home.
    fn send_home(&mut self) {
        let Some(record) = self.log.records.front() else { return };
        let Content::Data(entries) = &record.content else { return };
        let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
        for (entry, at) in entries.iter().zip(1..) {
            match pieces.last_mut() {
                Some((first, pages, _)) if *first + *pages == entry.home => *pages += 1,
                _ => pieces.push((entry.home, 1, at)),
            }
        }
        let index = record.buffer;
        if let Some(record) = self.log.records.front_mut() {
            (record.ended, record.homeward, record.saved) =
                (false, Some(pieces.len() as u32), true);
        }
        for (page, pages, at) in pieces {
            let extent = self.home_of(page, pages);
            let offset = Sectors(at * seekless_block::PAGE_SECTORS);
            // As with any write home: from here on no copy may be used but what is left should it fail.
            self.drop_copies(extent, |state| state != State::Dirty);
            self.background.overtake(page..page + pages);
            let from = Memory::Buffer { index, offset };
            self.send_piece_home(Homeward { extent, from, tries: 0 });
        }
    }

    fn send_piece_home(&mut self, piece: Homeward) {
        let io = self.start(Pending::Homeward(piece));
        let (extent, from) = (piece.extent, Some(piece.from));
        self.submit(io, Target::Home, Op::Write, extent, Asked::default(), from);
    }

    /// A piece of the front record has come home, or not.
    pub(crate) fn piece_home_done(&mut self, piece: Homeward, ok: bool) {
        self.sync.home_dirty = true;
        if !ok && piece.tries < TRIES {
            self.send_piece_home(Homeward { tries: piece.tries + 1, ..piece });
            return;
        }
        if ok {
            // No other write to these pages was let through meanwhile: what stands there is older.
            self.drop_copies(piece.extent, |_| true);
        }
        let Some(record) = self.log.records.front_mut() else { return };
        record.saved &= ok;
        record.homeward = record.homeward.map(|left| left - 1);
        record.ended = record.homeward == Some(0);
        self.end_records();
    }

    /// All records before it have ended, and so has it.
    fn end_record(&mut self, mut record: Record) {
        let ok = !self.log.failed;
        if ok {
            self.log.ended = (record.sequence, record.tail);
            self.log.ended_checksum = record.checksum;
            self.sync.log_dirty = true;
        }
        let mut entries = match std::mem::replace(&mut record.content, Content::Data(Vec::new())) {
            Content::Data(entries) => entries,
            _ => Vec::new(),
        };
        if ok {
            for (slot, entry) in (record.slot + 1..).zip(&entries) {
                self.map.set(slot, entry.home, State::Dirty, entry.sum);
            }
        }
        let mut writes = std::mem::take(&mut record.writes);
        for write in writes.drain(..) {
            self.absorbed_done(write, ok || record.saved);
        }
        if record.waiter {
            self.control_done(ok);
        }
        self.flush_what_ended();
        entries.clear();
        self.log.spare.push((entries, writes));
    }

    /// Room for one page of metadata.
    pub(crate) fn take_page(&mut self) -> u32 {
        self.pages_free.pop().unwrap_or_else(|| {
            self.pages.push(Box::new([0; seekless_block::PAGE_BYTES as usize]));
            self.pages.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment is written anew once recovery neither begins there nor has anything to bring back from it.
    #[test]
    fn a_segment_is_free_when_that_is_durably_known() {
        let ring =
            |tail, tail_durable, replay| Ring { segments: 8, head: 2, tail, tail_durable, replay };
        assert_eq!(ring(2, 2, 2).free(), 7);
        assert_eq!(ring(2, 6, 2).free(), 3, "the tail has passed, and the area does not know");
        assert_eq!(ring(2, 2, 7).free(), 4, "the checkpoint begins there");
        assert_eq!(ring(7, 6, 0).free(), 3);
        let mut told = ring(1, 6, 2);
        told.tail_is_durable(0);
        assert_eq!((told.tail_durable, told.free()), (0, 5));
        told.tail_is_durable(7);
        assert_eq!(told.tail_durable, 0, "it does not go back");
        assert!(told.is_live(1) && !told.is_live(7));
    }
}
