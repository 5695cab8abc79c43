//! The log, from its beginning to its end: reads its records, tells a torn end from damage, and
//! applies the records to the map.

use std::collections::{BTreeMap, BTreeSet};

use seekless_block::{Device, PAGE_BYTES};

use crate::area::attach::AttachError;
use crate::area::recover::Recovered;
use crate::core::page_map::{CopyState, HomePage, Slot, UNSUMMED, pages, slots};
use crate::format::{
    Content, Entry, Header, Position, RECORDED_MAX, Run, RunKind, page_extent, page_sum,
};
use crate::write_buffer::ring::Segment;

/// Pages of the log, 256 MiB, that a crash may lose behind a record while a later record survives:
/// more than the caches of disks hold. On a disk each further MiB of the search takes most of a
/// turn.
const LOST_PAGES: u32 = 64 << 10;

/// A record found in the log.
pub(super) struct FoundRecord {
    pub(super) slot: Slot,
    pub(super) header: Header,
    /// The pages of data that do not match their checksums, counted from 0.
    bad: Vec<usize>,
    checksum: u32,
}

/// Pages of a record that no crash may have completed, and that are not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incomplete {
    pub(crate) sequence: u64,
    /// Home pages whose newest bytes are not there.
    pub(crate) homes: Vec<u64>,
}

pub(super) struct LogFound {
    pub(super) records: Vec<FoundRecord>,
    /// The `durable` of a record behind the end, and its own sequence.
    known: Option<(u64, u64)>,
    /// Unreadable pages that may hold the next record.
    pub(super) unreadable: Vec<u64>,
}

impl LogFound {
    pub(super) fn unreadable(&self) -> Option<AttachError> {
        let what = "what may be the log's next record";
        self.unreadable.first().map(|&page| AttachError::Unreadable { what, page })
    }
}

impl Recovered {
    /// The records from the checkpoint's position to the end of the log.
    pub(super) fn read_log(&mut self, area: &mut dyn Device) -> LogFound {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut records: Vec<FoundRecord> = Vec::new();
        let (mut segment, mut page) = (self.ring.head, self.page);
        let (mut sequence, mut previous) = (self.sequence, self.previous);
        let mut before = segment;
        self.read_segment(area, segment, &mut buffer);
        // Where the next record was searched in vain.
        let mut looked: Vec<u64> = Vec::new();
        loop {
            let record = self.record_in(&buffer, segment, page, sequence, previous);
            if let Some(record) = record {
                page = self.geo.position_of(record.slot).page + 1 + data_pages(&record.header);
                sequence += 1;
                previous = record.checksum;
                looked.clear();
                records.push(record);
            } else {
                looked.push(self.page_of(self.geo.first_of(segment) + page));
                // The writer may have gone on in the next segment; after one round of the log there
                // is no more.
                if looked.len() > 1 || self.ring.segments == 1 {
                    break;
                }
                before = segment;
                segment = self.ring.after(segment, 1);
                page = 0;
                self.read_segment(area, segment, &mut buffer);
            }
        }
        let durable = records.iter().map(|r| r.header.durable).max().unwrap_or(0);
        let known = self.evidence(area, sequence, [before, segment]);
        // Of a torn record, the whole pages count. If a later record knows that it was durable, its
        // other pages are damaged, and reads of them report that.
        let known_durable = durable.max(known.map_or(0, |(d, _)| d));
        for torn in records.iter_mut().filter(|r| r.header.sequence > known_durable) {
            let first = self.page_of(torn.slot);
            looked.extend(torn.bad.iter().map(|at| first + 1 + *at as u64));
            self.incomplete.extend(torn.give_up_bad());
        }
        looked.retain(|page| self.unreadable.contains(page));
        if let Some(last) = records.last() {
            self.sequence = last.header.sequence + 1;
            self.previous = last.checksum;
        }
        if known.is_some() {
            // The next record is missing, and a later one is there.
            self.incomplete.push(Incomplete { sequence: self.sequence, homes: Vec::new() });
        }
        LogFound { records, known, unreadable: looked }
    }

    /// Whether a record is missing in the middle of the log.
    pub(super) fn broken(&self, log: &LogFound) -> Option<AttachError> {
        let (_, later) = log.known.filter(|&(durable, _)| durable >= self.sequence)?;
        let Position { segment, page } = self.superblock.position;
        let begin = self.geo.first_of(self.geo.segment(segment)) + page;
        let end = log.records.last().map_or(begin, |r| r.slot + 1 + data_pages(&r.header));
        let page = self.page_of(end);
        Some(AttachError::BrokenLog { page, sequence: self.sequence, later })
    }

    /// The records before the checkpoint's position that may still matter, if the checkpoint is
    /// lost. The search goes back from the record that the superblock names to the tail; each
    /// record has the checksum of the one before. True if the search reached the tail.
    pub(super) fn log_before(&mut self, area: &mut dyn Device) -> (Vec<FoundRecord>, bool) {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut all: BTreeMap<u32, FoundRecord> = BTreeMap::new();
        let (tail, head) = (self.ring.tail, self.ring.head);
        for segment in self.ring.in_use() {
            self.read_segment(area, segment, &mut buffer);
            for page in 0..if segment == head { self.page } else { per } {
                let at = page as usize * PAGE_BYTES as usize;
                let headers = Header::all_in(&buffer[at..at + PAGE_BYTES as usize]).into_iter();
                // Bytes of a client may look like a record, but no record has their checksum.
                all.extend(
                    headers
                        .filter_map(|(h, _)| {
                            self.record_in(&buffer, segment, page, h.sequence, h.previous)
                        })
                        .filter(|f| f.header.sequence < self.sequence)
                        .map(|f| (f.checksum, f)),
                );
            }
        }
        let mut records = Vec::new();
        let (mut previous, mut sequence) = (self.previous, self.sequence);
        while let Some(found) = all.remove(&previous).filter(|f| f.header.sequence < sequence) {
            (previous, sequence) = (found.header.previous, found.header.sequence);
            records.push(found);
        }
        records.reverse();
        let begins = (self.geo.first_of(tail), self.geo.first_of(head) + self.page);
        let complete = records.first().map_or(begins.1, |f| f.slot) == begins.0;
        (records, complete)
    }

    /// The record at a page of a segment.
    pub(super) fn record_in(
        &self,
        segment_bytes: &[u8],
        segment: Segment,
        page: u32,
        sequence: u64,
        previous: u32,
    ) -> Option<FoundRecord> {
        let per = self.geo.segment_pages;
        let bytes = |page: u32| {
            let at = page as usize * PAGE_BYTES as usize;
            segment_bytes.get(at..at + PAGE_BYTES as usize)
        };
        let slot = self.geo.first_of(segment) + page;
        let is_next = |(header, _): &(Header, u32)| {
            header.uuid == self.superblock.uuid
                && header.position == self.geo.position_of(slot)
                && header.sequence == sequence
                && header.previous == previous
                && !matches!(header.content, Content::ReadMap(_))
                && self.geo.log_segment_numbers().contains(&header.tail)
                && page + 1 + data_pages(header) <= per
        };
        let (header, checksum) = Header::all_in(bytes(page)?).into_iter().find(is_next)?;
        let sum = |page: u32| bytes(page).map(page_sum);
        let bad = match &header.content {
            Content::Data(entries) => {
                let pages = entries.iter().zip(page + 1..).enumerate();
                pages.filter(|(_, (e, page))| sum(*page) != Some(e.sum)).map(|(at, _)| at).collect()
            }
            _ => Vec::new(),
        };
        Some(FoundRecord { slot, header, bad, checksum })
    }

    /// A record of this area that stands behind the log's end, comes after `sequence`, and proves
    /// that a record is missing. Returns its `durable` and its sequence. The end was found in one
    /// of two segments.
    pub(super) fn evidence(
        &mut self,
        area: &mut dyn Device,
        sequence: u64,
        expected_in: [Segment; 2],
    ) -> Option<(u64, u64)> {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut best: Option<(u64, u64)> = None;
        let mut before = false;
        // Segments in a row without records of this turn.
        let mut silent = 0;
        let passed = self.ring.distance(self.ring.head, expected_in[0]);
        for i in passed..self.ring.segments {
            if silent * per >= LOST_PAGES {
                break;
            }
            let segment = self.ring.ahead(i);
            let at = self.page_of(self.geo.first_of(segment));
            let mut first = [0; PAGE_BYTES as usize];
            // In a segment with records of this turn, every page may hold one.
            let newer = area.read(page_extent(at, 1), &mut first).is_err()
                || Header::all_in(&first).iter().any(|(h, _)| {
                    h.uuid == self.superblock.uuid && h.sequence + u64::from(per) >= self.sequence
                });
            // In the segments where the missing record should be, the first page may be damaged.
            let here = newer || expected_in.contains(&segment);
            silent = if here { 0 } else { silent + 1 };
            // Behind such a segment, later segments may be written before this one.
            if here || before {
                self.read_segment(area, segment, &mut buffer);
                let pages = buffer.chunks_exact(PAGE_BYTES as usize);
                for (bytes, slot) in pages.zip(self.geo.slots_of(segment)) {
                    // A client may have written bytes like a header, but not with this position.
                    let is_later = |h: &Header| {
                        h.uuid == self.superblock.uuid
                            && h.position == self.geo.position_of(slot)
                            && !matches!(h.content, Content::ReadMap(_))
                            && h.sequence >= sequence
                            // A repair could not count on behind it.
                            && h.sequence <= RECORDED_MAX
                    };
                    let headers = Header::all_in(bytes).into_iter().map(|(h, _)| h);
                    let later = headers.filter(is_later).map(|h| (h.durable, h.sequence));
                    best = best.max(later.max());
                }
            }
            before = here;
        }
        best
    }

    pub(super) fn apply(
        &mut self,
        area: &mut dyn Device,
        records: Vec<FoundRecord>,
    ) -> Result<(), AttachError> {
        let mut committed = BTreeSet::new();
        self.use_logged();
        self.records = records.len() as u64;
        for record in records {
            let segment = self.geo.segment_of(record.slot);
            if segment != self.ring.head {
                self.clear_log(segment);
                self.ring.head = segment;
            }
            self.page = self.geo.position_of(record.slot).page + 1 + data_pages(&record.header);
            // A record sent during a checkpoint may name a tail that the superblock has passed.
            let tail = self.geo.segment(record.header.tail);
            if self.ring.is_between(self.ring.tail, tail, self.ring.head) {
                self.ring.tail = tail;
            }
            self.take_content(record.slot, record.header.content, &mut committed)?;
        }
        for segment in committed {
            if segment < self.geo.read_segments {
                self.load_read_segment(area, segment);
            }
        }
        // If the checkpoint knows of lost records, the log goes on behind them.
        let rest = self.geo.slots_of(self.ring.head).skip(self.page as usize);
        rest.for_each(|slot| self.map.clear(slot));
        // Pages before the tail are at home. Pages behind the tail count as newer than home.
        for segment in (0..self.ring.segments).map(Segment) {
            if !self.ring.is_between(self.ring.tail, segment, self.ring.head) {
                self.clear_log(segment);
            }
        }
        Ok(())
    }

    fn clear_log(&mut self, segment: Segment) {
        self.geo.slots_of(segment).for_each(|slot| self.map.clear(slot));
    }

    /// Applies one record, whose header stands in this slot, to the map.
    fn take_content(
        &mut self,
        slot: Slot,
        content: Content,
        committed: &mut BTreeSet<u32>,
    ) -> Result<(), AttachError> {
        match content {
            Content::Data(entries) => {
                let pages = slots(slot.0 + 1..u32::MAX).zip(entries);
                for (place, entry) in pages.filter(|(_, e)| e.state != CopyState::Free) {
                    self.take_run(Run { first: entry.home, pages: 1, kind: RunKind::Used });
                    if !self.take(place, Entry { state: CopyState::Dirty, ..entry }) {
                        let page = self.page_of(slot);
                        return Err(AttachError::Stranger { what: "a record of the log", page });
                    }
                }
            }
            Content::Tombstones(runs) => {
                for run in runs {
                    self.clear_copies_of(run.first..run.first + u64::from(run.pages));
                }
            }
            Content::Invalid(segments) => {
                for segment in segments {
                    committed.remove(&segment);
                    if segment < self.geo.read_segments {
                        self.clear(self.read_slots_of(segment));
                    }
                }
            }
            Content::Committed(segments) => committed.extend(segments),
            Content::FreeMap(runs) => {
                for run in runs {
                    if !self.take_run(run) {
                        let (what, page) = ("a record of the log", self.page_of(slot));
                        return Err(AttachError::Stranger { what, page });
                    }
                }
            }
            Content::Opened(entries) => {
                for entry in entries {
                    if !self.take_opened(entry) {
                        let page = self.page_of(slot);
                        return Err(AttachError::Stranger { what: "a record of the log", page });
                    }
                }
            }
            Content::ReadMap(_) => {}
        }
        Ok(())
    }

    /// No copy of these pages of home is in use any more.
    fn clear_copies_of(&mut self, homes: std::ops::Range<u64>) {
        let all = self.geo.slots();
        // Walk the shorter one.
        let void: Vec<Slot> = if homes.end - homes.start > u64::from(all) {
            let is_void =
                |slot: &Slot| self.map.home(*slot).is_some_and(|home| homes.contains(&home.0));
            slots(0..all).filter(is_void).collect()
        } else {
            pages(homes).flat_map(|home| self.map.find_all(home)).collect()
        };
        void.into_iter().for_each(|slot| self.map.clear(slot));
    }

    /// A copy that may be written in place is newer than home. False if its place or its page cannot
    /// be.
    fn take_opened(&mut self, entry: Entry) -> bool {
        let place = Slot(u32::try_from(entry.sum).unwrap_or(u32::MAX));
        let known = place.0 < self.geo.read_slots()
            && !place.0.is_multiple_of(self.geo.segment_pages)
            && entry.home < self.home_pages();
        if known {
            // No other copy was in use when the record was written, except one in the log with the
            // same bytes.
            self.map.set(place, HomePage(entry.home), CopyState::Dirty, UNSUMMED);
        }
        known
    }
}

impl FoundRecord {
    /// Pages without their bytes: their entries become those of no page.
    fn give_up_bad(&mut self) -> Option<Incomplete> {
        let Content::Data(entries) = &mut self.header.content else { return None };
        let mut homes = Vec::new();
        for at in std::mem::take(&mut self.bad) {
            if let Some(entry) = entries.get_mut(at) {
                homes.push(entry.home);
                *entry = Entry::FREE;
            }
        }
        let sequence = self.header.sequence;
        (!homes.is_empty()).then_some(Incomplete { sequence, homes })
    }
}

fn data_pages(header: &Header) -> u32 {
    match &header.content {
        Content::Data(entries) => entries.len() as u32,
        _ => 0,
    }
}
