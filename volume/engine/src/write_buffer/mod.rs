//! The write buffer: a circular log of records (BORG, FAST'09, 5.1). A record is one sequential
//! write: a header page with its own map, then the data pages. Nothing is overwritten in place, so
//! no flushed page can be torn. The header carries the checksums of its data and of the header
//! before it, so recovery finds the end of the log.
//!
//! Records end in order, whatever the order of their I/Os. If the area refuses a record, the data
//! of this record and of all later ones go home from RAM. Data is lost only if home refuses it too.

pub(crate) mod destage;
pub(crate) mod durability;
mod homeward;
pub(crate) mod log;
pub(crate) mod park;
pub(crate) mod ring;

use seekless_block::{Duration, Extent, Op, Sectors, SimTime};

use crate::core::page_map::{CopyState, HomePage, Slot};
use crate::format::{Content, Entry, Header, PageSum};
use crate::{
    Class, Engine, Memory, MemoryMove, Mode, Output, Pending, RequestOrigin, Sum, SumFor, Target,
};
use log::Record;
use ring::Segment;

/// How often a failed record is written again.
const TRIES: u8 = 3;

/// Pages of data that fit into `pages` pages of the log, with a header for each record.
fn data_room(pages: u64) -> u64 {
    let record = 1 + Content::Data(Vec::new()).items_max() as u64;
    pages - pages.div_ceil(record)
}

impl Engine {
    /// Whether the log may hold data that home lacks, now or soon.
    pub(crate) fn log_in_use(&self) -> bool {
        self.state.mode() == Mode::WriteBack
            || self.copies.count(CopyState::Dirty) > 0
            || !self.log.records.is_empty()
    }

    /// Whether recovery could bring back the slot's page.
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        if self.copies.is_log(slot) {
            self.log.ring.is_live(self.geo.segment_of(slot))
        } else {
            self.copies.is_open(slot)
        }
    }

    /// Whether an attach after a crash may take bytes from the area for newer than home, or a page
    /// for free. If not, a flush needs home alone: the copies are then compared with home.
    pub(crate) fn area_counts(&self) -> bool {
        self.state.mode() == Mode::WriteBack || self.log.holds_pages || !self.free.takes_plans()
    }

    /// Whether a checkpoint that begins now knows of no page in the log, and of no open copy.
    pub(crate) fn is_log_empty(&self) -> bool {
        self.state.mode() == Mode::WriteThrough
            && self.copies.count(CopyState::Dirty) == 0
            && !self.copies.any_open()
            && self.log.is_idle()
            && !self.sync.has_voids()
            && self
                .geo
                .slots_of(self.log.ring.head)
                .all(|s| self.copies.state(s) == CopyState::Free)
    }

    fn is_read(&self, segment: Segment) -> bool {
        self.copies.is_read(self.geo.number_of(segment))
    }

    /// Whether the log can absorb this many pages at once, with space left for records without
    /// data.
    pub(crate) fn log_has_room(&self, pages: u64) -> bool {
        let log = &self.log;
        // Records without data that wait come first: they may open copies of these pages.
        if log.failed || self.config.in_place && !log.controls.is_empty() {
            return false;
        }
        let per = u64::from(log.geo.segment_pages);
        let open = self.open_room();
        let here = open + data_room(per - u64::from(log.head_page) - open);
        let more = pages.saturating_sub(here).div_ceil(data_room(per));
        // One segment for records without data in a tiny log, else two.
        let reserve = if log.ring.segments > 8 { 2 } else { 1 };
        more + reserve <= u64::from(log.ring.free())
            && (1..=more as u32).all(|i| !self.is_read(log.ring.ahead(i)))
    }

    /// Whether this many records without data begin as soon as they are logged. The space that is left
    /// for such records counts.
    pub(crate) fn controls_begin_at_once(&self, records: u64) -> bool {
        let log = &self.log;
        let per = u64::from(log.geo.segment_pages);
        let here = per - u64::from(log.head_page);
        let goes_on = log.ring.free() > 0 && !self.is_read(log.ring.ahead(1));
        let all = here + if goes_on { per } else { 0 };
        !log.failed && log.controls.is_empty() && records <= all
    }

    /// Whether the records that may be in RAM hold this many pages.
    pub(crate) fn records_hold(&self, pages: u64) -> bool {
        let per = data_room(u64::from(self.log.geo.segment_pages));
        pages <= u64::from(self.config.records).saturating_mul(per)
    }

    /// Whether this many pages need another record, and no more may be in RAM. A record before the
    /// open one is on its way to the area, and ends.
    pub(crate) fn records_are_full(&self, pages: u64) -> bool {
        self.log.records.len() >= self.config.records as usize && pages > self.open_room()
    }

    /// How many pages the open record still takes; 0 without one.
    fn open_room(&self) -> u64 {
        let open = self.log.records.back().filter(|r| !r.sealed);
        let items = open.map_or(0, |r| r.content.items_max() - r.content.len()) as u64;
        items.min(u64::from(self.geo.segment_pages - self.log.head_page))
    }

    /// Where the tail may go once everything that has ended is on stable storage: past all segments
    /// without dirty pages.
    pub(crate) fn next_tail(&self) -> Segment {
        let (mut tail, stop) = (self.log.ring.tail, self.log.position().0);
        while tail != stop
            && self.geo.slots_of(tail).all(|slot| self.copies.state(slot) != CopyState::Dirty)
        {
            tail = self.log.ring.after(tail, 1);
        }
        tail
    }

    /// Fails the records without data that wait for space.
    pub(crate) fn fail_controls(&mut self) {
        while let Some((content, waiter)) = self.log.controls.pop_front() {
            if let Content::Opened(entries) = &content {
                self.opened_copies(entries, false);
            }
            if waiter {
                self.control_done(false);
            }
        }
        self.flush_records();
    }

    /// Moves the head to the next segment, if that segment is free and nobody reads it.
    pub(crate) fn next_segment(&mut self) -> bool {
        let next = self.log.ring.ahead(1);
        self.log.starved = self.log.ring.free() == 0 || self.is_read(next);
        if self.log.starved {
            return false;
        }
        // All of it is at home, and durably known to be.
        for slot in self.geo.slots_of(next) {
            self.copies.clear(slot);
        }
        let first = self.geo.first_of(next).0;
        self.sync.reuses(&(first..first + self.geo.segment_pages));
        self.log.ring.head = next;
        self.log.head_page = 0;
        true
    }

    /// Begins a record; false without space for it now.
    fn begin_record(&mut self, least: u32) -> bool {
        if self.geo.segment_pages - self.log.head_page < least && !self.next_segment() {
            return false;
        }
        let buffer = self.take_buffer();
        let log = &mut self.log;
        let slot = self.geo.first_of(log.ring.head) + log.head_page;
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
            tail: Segment(0),
        });
        true
    }

    /// Adds pages of a write to the open record, or to a new one; returns their number. The log has
    /// space.
    pub(crate) fn log_append(&mut self, write: u32, page: u64, pages: u64, from: Memory) -> u64 {
        let mut room = self.open_room();
        if room == 0 {
            self.seal();
            let begun = self.begin_record(2);
            debug_assert!(begun, "there was room");
            room = self.open_room();
        }
        let log = &mut self.log;
        (log.holds_pages, log.emptied) = (true, false);
        let taken = pages.min(room);
        log.head_page += taken as u32;
        let Some(record) = log.records.back_mut() else { unreachable!("one was just begun") };
        let Content::Data(entries) = &mut record.content else {
            unreachable!("an open record is of data")
        };
        let at = 1 + entries.len() as u64;
        entries.extend((page..page + taken).map(|home| Entry {
            home,
            state: CopyState::Dirty,
            sum: 0,
        }));
        record.writes.push(write);
        let to = Memory::Buffer {
            index: record.buffer,
            offset: Sectors(at * seekless_block::PAGE_SECTORS),
        };
        let len = Sectors(taken * seekless_block::PAGE_SECTORS);
        self.out.push_back(Output::Move(MemoryMove { from, to, len }));
        taken
    }

    /// Replaces a page of the open record.
    pub(crate) fn log_replace(&mut self, page: u64, from: Memory) {
        let Some(record) = self.log.records.back() else { return };
        let Some(at) = record.position(page) else { return };
        let offset = Sectors((1 + at) * seekless_block::PAGE_SECTORS);
        let to = Memory::Buffer { index: record.buffer, offset };
        let len = Sectors(seekless_block::PAGE_SECTORS);
        self.out.push_back(Output::Move(MemoryMove { from, to, len }));
    }

    /// When the open record is sent without a waiter; `None` without one.
    pub(crate) fn gathers_until(&self) -> Option<SimTime> {
        let open = self.log.records.back().is_some_and(|r| !r.sealed);
        let until = self.log.gathered_since.0.saturating_add(self.config.gather.0);
        (open && self.config.gather > Duration::ZERO).then_some(SimTime(until))
    }

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

    /// Sends records: those without data at once, the open one if few are in flight.
    pub(crate) fn pump_log(&mut self) {
        if self.log.failed {
            self.fail_controls();
        }
        let goes = self.config.gather == Duration::ZERO
            || self.log.hurry
            || self.open_room() == 0
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

    /// Writes the headers of all ready records, in order, and sends these records.
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
                position: self.geo.position_of(record.slot),
                previous: log.previous,
                tail: self.geo.number_of(record.tail),
                content: std::mem::replace(&mut record.content, Content::Data(Vec::new())),
            };
            log.told = log.durable;
            log.previous = header.put(&mut self.pages[page as usize]);
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
        // A client waits for its data, and for tombstones.
        let client = data > 0 || matches!(record.content, Content::Tombstones(_));
        // Clients' writes may wait for pages that make way for a plan, so the record takes its turn.
        let moves = data > 0 && record.writes.iter().all(|&w| self.absorbs[w as usize].is_move());
        let (slot, index) = (record.slot, record.buffer);
        let extent: Extent = self.place_of(slot, 1 + data);
        self.stats.metadata_bytes += seekless_block::PAGE_BYTES;
        self.log.since_checkpoint += 1 + data;
        let memory = Some(Memory::Buffer { index, offset: Sectors(0) });
        let class = match (moves, client) {
            (true, _) => Class::InTurn,
            (_, true) => Class::Foreground,
            _ => self.class_of_records(),
        };
        let origin = RequestOrigin::default();
        self.submit_as(class, io, Target::Area, Op::Write, extent, origin, memory);
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
        if !ok {
            self.area_writes_fail = true;
            self.area_fails();
        }
    }

    /// Ends the records at the front that may end.
    pub(super) fn end_records(&mut self) {
        while let Some(record) = self.log.records.front().filter(|r| r.ended) {
            let has_data = matches!(&record.content, Content::Data(entries) if !entries.is_empty());
            if self.log.failed && has_data && record.homeward.is_none() {
                self.send_home();
                break;
            }
            if let Some(record) = self.log.records.pop_front() {
                self.log.base += 1;
                self.buffers_free.push(record.buffer);
                self.retry_blocked |= !self.blocked.is_empty();
                self.end_record(record);
            }
        }
        self.flush_records();
    }

    /// The record and all before it have ended.
    fn end_record(&mut self, mut record: Record) {
        let ok = !self.log.failed;
        if ok {
            self.log.ended = (record.sequence, record.tail);
            self.log.ended_checksum = record.checksum;
            self.sync.log_dirty = true;
        }
        let mut entries = match std::mem::replace(&mut record.content, Content::Data(Vec::new())) {
            Content::Data(entries) => entries,
            Content::Opened(opened) => {
                self.opened_copies(&opened, ok);
                Vec::new()
            }
            _ => Vec::new(),
        };
        if ok {
            for (slot, entry) in (record.slot.0 + 1..).zip(&entries) {
                self.copies.set(Slot(slot), HomePage(entry.home), CopyState::Dirty, entry.sum);
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

    /// A free page of metadata.
    pub(crate) fn take_page(&mut self) -> u32 {
        self.pages_free.pop().unwrap_or_else(|| {
            self.pages.push(Box::new([0; seekless_block::PAGE_BYTES as usize]));
            self.pages.len() as u32 - 1
        })
    }
}
