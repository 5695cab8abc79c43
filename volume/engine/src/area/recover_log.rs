//! The log, from its beginning to its end: reading its records, telling a torn end from damage, and what they say of the map.

use std::collections::{BTreeMap, BTreeSet};

use seekless_block::{Device, PAGE_BYTES};

use crate::area::attach::AttachError;
use crate::area::recover::Recovered;
use crate::core::page_map::{Slot, State, pages, slots};
use crate::format::{Content, Entry, Header, Position, Run, RunKind, page_extent, page_sum};

/// Pages of the log, 256 MiB, that a crash may have lost behind a record while it kept one that was written after them: more
/// than disks hold in their caches. On a disk each MiB that is looked at beyond takes most of a turn of the platter.
const LOST_PAGES: u32 = 64 << 10;

/// A record found in the log.
pub(super) struct Found {
    pub(super) slot: u32,
    pub(super) header: Header,
    /// Its data match their checksums.
    whole: bool,
    checksum: u32,
}

/// The log from its beginning to its end.
pub(super) struct LogFound {
    pub(super) records: Vec<Found>,
    /// What a record behind the end says was on stable storage, and its own sequence.
    known: Option<(u64, u64)>,
    /// Pages that cannot be read, and of which nobody can say that they are not what comes next.
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
        let mut records: Vec<Found> = Vec::new();
        let (mut segment, mut page) = (self.ring.head, self.page);
        let (mut sequence, mut previous) = (self.sequence, self.previous);
        let mut before = segment;
        self.read_segment(area, segment, &mut buffer);
        // Where the next record was looked for, and is not.
        let mut looked: Vec<u64> = Vec::new();
        loop {
            let record = self.record_in(&buffer, segment, page, sequence, previous);
            if let Some(record) = record {
                page = record.slot % per + 1 + data_pages(&record.header);
                sequence += 1;
                previous = record.checksum;
                looked.clear();
                records.push(record);
            } else {
                looked.push(self.page_of(self.log_slot(segment) + page));
                // The writer may have gone on in the next segment; round the whole log there is no more.
                if looked.len() > 1 || self.ring.segments == 1 {
                    break;
                }
                before = segment;
                segment = (segment + 1) % self.ring.segments;
                page = 0;
                self.read_segment(area, segment, &mut buffer);
            }
        }
        let durable = records.iter().map(|r| r.header.durable).max().unwrap_or(0);
        let known = self.evidence(area, sequence, [before, segment]);
        // A torn record is the end, unless someone knows that it was whole once: then its pages are damaged, and
        // whoever reads them is told.
        let end = records
            .iter()
            .position(|r| !r.whole && r.header.sequence > durable.max(known.map_or(0, |(d, _)| d)))
            .unwrap_or(records.len());
        if let Some(torn) = records.get(end) {
            let first = self.page_of(torn.slot);
            looked = (first..=first + u64::from(data_pages(&torn.header))).collect();
        }
        looked.retain(|page| self.unreadable.contains(page));
        records.truncate(end);
        if let Some(last) = records.last() {
            self.sequence = last.header.sequence + 1;
            self.previous = last.checksum;
        }
        LogFound { records, known, unreadable: looked }
    }

    /// Whether the log breaks off before its end.
    pub(super) fn broken(&self, log: &LogFound) -> Option<AttachError> {
        let per = self.geo.segment_pages;
        let (_, later) = log.known.filter(|&(durable, _)| durable >= self.sequence)?;
        let at = log.records.last().map_or(self.superblock.position, |r| Position {
            segment: r.slot / per,
            page: r.slot % per + 1 + data_pages(&r.header),
        });
        let page = self.page_of(at.segment * per + at.page);
        Some(AttachError::BrokenLog { page, sequence: self.sequence, later })
    }

    /// The records before the checkpoint's position that may still matter, where the checkpoint itself is lost: back from
    /// the one that the superblock names, each by the checksum that the next one has of it, to the begin of the tail.
    /// True where it was reached.
    pub(super) fn log_before(&mut self, area: &mut dyn Device) -> (Vec<Found>, bool) {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut all: BTreeMap<u32, Found> = BTreeMap::new();
        let (tail, head) = (self.ring.tail, self.ring.head);
        for i in 0..=self.ring.distance(tail, head) {
            let segment = (tail + i) % self.ring.segments;
            self.read_segment(area, segment, &mut buffer);
            for page in 0..if segment == head { self.page } else { per } {
                let at = page as usize * PAGE_BYTES as usize;
                let header = Header::decode(&buffer[at..at + PAGE_BYTES as usize]).ok();
                // Bytes of a client may look like one, but nobody has their checksum.
                all.extend(
                    header
                        .and_then(|h| {
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
        let begins = (self.log_slot(tail), self.log_slot(head) + self.page);
        let complete = records.first().map_or(begins.1, |f| f.slot) == begins.0;
        (records, complete)
    }

    /// The record that belongs at a page of a segment.
    pub(super) fn record_in(
        &self,
        segment_bytes: &[u8],
        segment: u32,
        page: u32,
        sequence: u64,
        previous: u32,
    ) -> Option<Found> {
        let per = self.geo.segment_pages;
        let bytes = |page: u32| {
            let at = page as usize * PAGE_BYTES as usize;
            segment_bytes.get(at..at + PAGE_BYTES as usize)
        };
        let header = Header::decode(bytes(page)?).ok()?;
        let position = Position { segment: self.geo.read_segments + segment, page };
        let log = self.geo.read_segments..self.geo.read_segments + self.geo.log_segments;
        if header.uuid != self.superblock.uuid
            || header.position != position
            || header.sequence != sequence
            || header.previous != previous
            || matches!(header.content, Content::ReadMap(_))
            || !log.contains(&header.tail)
            || page + 1 + data_pages(&header) > per
        {
            return None;
        }
        let sum = |page: u32| bytes(page).map(page_sum);
        let whole = match &header.content {
            Content::Data(entries) => {
                entries.iter().zip(page + 1..).all(|(e, page)| sum(page) == Some(e.sum))
            }
            _ => true,
        };
        let checksum = crate::format::checksum(bytes(page)?.try_into().ok()?);
        let slot = self.log_slot(segment) + page;
        Some(Found { slot, header, whole, checksum })
    }

    /// Whether behind the log's end, which was found in one of two segments, stands a record of this area that comes after
    /// `sequence` and knows of it: the highest sequence that it says was on stable storage, and its own.
    pub(super) fn evidence(
        &mut self,
        area: &mut dyn Device,
        sequence: u64,
        expected_in: [u32; 2],
    ) -> Option<(u64, u64)> {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut best: Option<(u64, u64)> = None;
        let mut before = false;
        // Segments in a row that hold nothing of this turn.
        let mut silent = 0;
        let passed = self.ring.distance(self.ring.head, expected_in[0]);
        for i in passed..self.ring.segments {
            if silent * per >= LOST_PAGES {
                break;
            }
            let segment = (self.ring.head + i) % self.ring.segments;
            let at = self.page_of(self.log_slot(segment));
            let mut first = [0; PAGE_BYTES as usize];
            // Where records of this turn stand, all of its pages may hold one.
            let newer = area.read(page_extent(at, 1), &mut first).is_err()
                || Header::decode(&first).is_ok_and(|h| {
                    h.uuid == self.superblock.uuid && h.sequence + u64::from(per) >= self.sequence
                });
            // Where the record should be that was not found, the first page may be what is damaged.
            let here = newer || expected_in.contains(&segment);
            silent = if here { 0 } else { silent + 1 };
            // And behind such a segment it may not have been written when those after it were.
            if here || before {
                self.read_segment(area, segment, &mut buffer);
                for (bytes, page) in buffer.chunks_exact(PAGE_BYTES as usize).zip(0..) {
                    let position = Position { segment: self.geo.read_segments + segment, page };
                    // A client may have written what looks like a header, but not where it says it stands.
                    let later = Header::decode(bytes).ok().filter(|h| {
                        h.uuid == self.superblock.uuid
                            && h.position == position
                            && !matches!(h.content, Content::ReadMap(_))
                            && h.sequence >= sequence
                    });
                    best = best.max(later.map(|h| (h.durable, h.sequence)));
                }
            }
            before = here;
        }
        best
    }

    pub(super) fn apply(
        &mut self,
        area: &mut dyn Device,
        records: Vec<Found>,
    ) -> Result<(), AttachError> {
        let per = self.geo.segment_pages;
        let mut committed = BTreeSet::new();
        self.use_logged();
        self.records = records.len() as u64;
        for record in records {
            let segment = record.slot / per - self.geo.read_segments;
            if segment != self.ring.head {
                self.clear_segment(self.geo.read_segments + segment);
                self.ring.head = segment;
            }
            self.page = record.slot % per + 1 + data_pages(&record.header);
            // A record that was on its way with a checkpoint may name a tail that the superblock has passed.
            let tail = record.header.tail - self.geo.read_segments;
            if self.ring.distance(self.ring.tail, tail)
                <= self.ring.distance(self.ring.tail, self.ring.head)
            {
                self.ring.tail = tail;
            }
            let slot = record.slot;
            self.take_content(slot, record.header.content, &mut committed)?;
        }
        for segment in committed {
            if segment < self.geo.read_segments {
                self.load_read_segment(area, segment);
            }
        }
        // Behind its end, where the checkpoint may know of records that are lost, the log goes on.
        let (head, page) = (self.log_slot(self.ring.head), self.page.min(per));
        slots(head + page..head + per).for_each(|slot| self.map.clear(slot));
        // What the tail has passed is at home; what it has not is newer than home, as far as anyone knows.
        for segment in 0..self.ring.segments {
            let live = self.ring.distance(self.ring.tail, segment)
                <= self.ring.distance(self.ring.tail, self.ring.head);
            if !live {
                self.clear_segment(self.geo.read_segments + segment);
            }
        }
        Ok(())
    }

    /// What one record, whose header stands in this slot, says of the map.
    fn take_content(
        &mut self,
        slot: u32,
        content: Content,
        committed: &mut BTreeSet<u32>,
    ) -> Result<(), AttachError> {
        match content {
            Content::Data(entries) => {
                for (place, entry) in (slot + 1..).zip(entries) {
                    self.take_run(Run { first: entry.home, pages: 1, kind: RunKind::Used });
                    if !self.take(Slot(place), Entry { state: State::Dirty, ..entry }) {
                        let page = self.page_of(slot);
                        return Err(AttachError::Stranger { what: "a record of the log", page });
                    }
                }
            }
            Content::Tombstones(runs) => {
                for run in runs {
                    let void = run.first..run.first + u64::from(run.pages);
                    // Walk whichever is shorter.
                    if run.pages > self.geo.slots() {
                        for slot in slots(0..self.geo.slots()) {
                            if self.map.home(slot).is_some_and(|home| void.contains(&home.0)) {
                                self.map.clear(slot);
                            }
                        }
                    } else {
                        for slot in
                            pages(void).flat_map(|home| self.map.find_all(home)).collect::<Vec<_>>()
                        {
                            self.map.clear(slot);
                        }
                    }
                }
            }
            Content::Invalid(segments) => {
                for segment in segments {
                    committed.remove(&segment);
                    if segment < self.geo.read_segments {
                        self.clear_segment(segment);
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
            Content::ReadMap(_) => {}
        }
        Ok(())
    }
}

fn data_pages(header: &Header) -> u32 {
    match &header.content {
        Content::Data(entries) => entries.len() as u32,
        _ => 0,
    }
}
