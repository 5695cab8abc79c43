//! From bytes to a map: what an area holds, from its checkpoint and the log behind it. Nothing here guesses, and
//! nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use seekless_block::{Device, Lba, PAGE_BYTES, PAGE_SECTORS};

use crate::area::attach::AttachError;
use crate::area::proof::Proof;
use crate::core::page_map::{PageMap, State};
use crate::core::shape::Shape;
use crate::format::{
    AreaFlags, CheckpointHeader, CheckpointPage, Content, ENTRIES_PER_PAGE, Entry, FreeMapPage,
    Header, PLAN_PER_PAGE, Page, PlanHeader, PlanPage, Position, Problem, RUNS_PER_PAGE, Run,
    RunKind, Superblock, Which, page_extent, page_sum, read_superblock,
};
use crate::free_space::extents::Extents;
use crate::write_buffer::Ring;

/// Pages of the log, 256 MiB, that a crash may have lost behind a record while it kept one that was written after them: more
/// than disks hold in their caches. On a disk each MiB that is looked at beyond takes most of a turn of the platter.
const LOST_PAGES: u32 = 64 << 10;

/// What an area holds.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) superblock: Superblock,
    /// The copy of the superblock that counts.
    pub(crate) which: Which,
    /// What is wrong with the other one.
    pub(crate) other: Option<Problem>,
    pub(crate) geo: Shape,
    pub(crate) map: PageMap,
    pub(crate) ring: Ring,
    /// Where the log goes on, within the ring's head.
    pub(crate) page: u32,
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    pub(crate) records: u64,
    /// Runs that the plan at hand wants, as `(slot, home page, pages)`; `None` where there is none that can be read.
    pub(crate) plan: Option<Vec<(u32, u64, u32)>>,
    /// What the client has discarded and not written since; of it, what may hold bytes of replicas; and what is open.
    pub(crate) free: Extents,
    pub(crate) stained: Extents,
    open: Extents,
    /// By segment, the first home page of its replicas, and how many there were.
    pub(crate) places: Vec<(u32, u64, u32)>,
    /// Pages of the log that the device could not read.
    unreadable: BTreeSet<u64>,
}

/// A record found in the log.
struct Found {
    slot: u32,
    header: Header,
    /// Its data match their checksums.
    whole: bool,
    checksum: u32,
}

/// Reads what an area holds, and changes nothing.
pub(crate) fn recover(area: &mut dyn Device) -> Result<Recovered, AttachError> {
    let mut r = begin(area)?;
    if r.superblock.checkpoint_generation > 0 {
        r.load_checkpoint(area)?;
        r.load_free_map(area)?;
    }
    let log = r.read_log(area);
    if let Some(broken) = r.broken(&log).or_else(|| log.unreadable()) {
        return Err(broken);
    }
    r.apply(area, log.records)?;
    r.find_places(area)?;
    if r.superblock.plan_generation > 0 {
        r.plan = r.load_plan(area);
    }
    Ok(r)
}

/// The same from an area whose log is broken or whose checkpoint is damaged: as much as can be had. What is lost of
/// the log is said by how its records are numbered.
pub(crate) fn salvage(area: &mut dyn Device) -> Result<(Recovered, Salvage), AttachError> {
    let mut r = begin(area)?;
    let mut salvage = Salvage::default();
    let checkpoint = match r.superblock.checkpoint_generation {
        0 => Ok(()),
        _ => r.load_checkpoint(area).and_then(|()| r.load_free_map(area)),
    };
    let log = match checkpoint {
        Ok(()) => {
            let log = r.read_log(area);
            let broken = r.broken(&log).or_else(|| log.unreadable());
            if let Some(broken) = broken.filter(|_| r.geo.free_map_pages() > 0) {
                return Err(AttachError::ReplicasUnknown(Box::new(broken)));
            }
            salvage.cut(&mut r, &log);
            log
        }
        // Nothing else tells where replicas may stand in discarded pages: they would be served as what the client wrote.
        Err(error) if r.geo.free_map_pages() > 0 => {
            return Err(AttachError::ReplicasUnknown(Box::new(error)));
        }
        Err(error) => {
            salvage.rebuilt = Some(error.to_string());
            r = begin(area)?;
            for segment in 0..r.geo.read_segments {
                r.load_read_segment(area, segment);
            }
            let (before, complete) = r.log_before(area);
            let log = r.read_log(area);
            let at = (r.ring.head, r.page);
            salvage.incomplete = !complete;
            if let Some(first) = before.first() {
                r.ring.head = first.slot / r.geo.segment_pages - r.geo.read_segments;
                r.apply(area, before)?;
            }
            (r.ring.head, r.page) = at;
            salvage.doubtful =
                (r.log_slot(0)..r.geo.slots()).filter_map(|slot| r.map.home(slot)).collect();
            salvage.cut(&mut r, &log);
            log
        }
    };
    r.apply(area, log.records)?;
    r.find_places(area)?;
    Ok((r, salvage))
}

/// What [`salvage`] had to do without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Salvage {
    /// The first record that is missing, and one that knows of it.
    pub(crate) lost_records: Option<(u64, u64)>,
    /// Why the map was rebuilt from the segments.
    pub(crate) rebuilt: Option<String>,
    /// Then: home pages that the log before the lost checkpoint holds; the checkpoint may have known of newer ones at home.
    pub(crate) doubtful: Vec<u64>,
    /// And whether the log before it breaks off.
    pub(crate) incomplete: bool,
    /// Pages at which the log may go on, which cannot be read.
    pub(crate) unreadable: Vec<u64>,
}

impl Salvage {
    /// The log ends where it ends, and not where it should.
    fn cut(&mut self, r: &mut Recovered, log: &LogFound) {
        self.unreadable.clone_from(&log.unreadable);
        if let Some(AttachError::BrokenLog { sequence, later, .. }) = r.broken(log) {
            self.lost_records = Some((sequence, later));
            // What stands behind the cut must never be taken for what comes after it.
            r.sequence = later + 1;
        }
    }
}

/// The log from its beginning to its end.
struct LogFound {
    records: Vec<Found>,
    /// What a record behind the end says was on stable storage, and its own sequence.
    known: Option<(u64, u64)>,
    /// Pages that cannot be read, and of which nobody can say that they are not what comes next.
    unreadable: Vec<u64>,
}

impl LogFound {
    fn unreadable(&self) -> Option<AttachError> {
        let what = "what may be the log's next record";
        self.unreadable.first().map(|&page| AttachError::Unreadable { what, page })
    }
}

fn begin(area: &mut dyn Device) -> Result<Recovered, AttachError> {
    let found = read_superblock(area, Lba(0))?;
    let superblock = found.superblock;
    if superblock.area_size > area.capacity() {
        return Err(AttachError::Shrunken {
            expected: superblock.area_size,
            found: area.capacity(),
        });
    }
    let geometry = superblock.geometry().map_err(|error| AttachError::Damaged {
        what: "the superblock",
        page: found.which as u64,
        error,
    })?;
    let geo = Shape::new(geometry);
    let mut r = Recovered {
        map: PageMap::new(geo.slots()),
        ring: Ring::default(),
        page: superblock.position.page,
        sequence: superblock.next_sequence,
        previous: superblock.previous,
        records: 0,
        plan: None,
        free: Extents::default(),
        stained: Extents::default(),
        open: Extents::default(),
        places: Vec::new(),
        unreadable: BTreeSet::new(),
        which: found.which,
        other: found.other,
        geo,
        superblock,
    };
    r.ring.segments = r.geo.log_segments;
    r.ring.head = r.superblock.position.segment - r.geo.read_segments;
    r.ring.tail = r.superblock.tail - r.geo.read_segments;
    Ok(r)
}

impl Recovered {
    fn home_pages(&self) -> u64 {
        self.superblock.home_capacity.0.saturating_sub(self.superblock.grid.into()) / PAGE_SECTORS
    }

    /// It was detached in order, and nothing was written since.
    pub(crate) fn is_clean(&self) -> bool {
        self.superblock.flags.contains(AreaFlags::CLEAN) && self.records == 0
    }

    /// And home is as it was then.
    pub(crate) fn is_trusted(&self, proof: &Proof) -> bool {
        self.is_clean() && proof.stamp != [0; 32] && proof.stamp == self.superblock.stamp
    }

    /// Where somebody else may have written home, only what may hold bytes of replicas counts as free.
    pub(crate) fn doubt_free(&mut self, proof: &Proof) {
        if !proof.keeps_home() && !self.is_trusted(proof) {
            self.free = self.stained.clone();
        }
    }

    fn load_checkpoint(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let start = self.geo.checkpoint_at(self.superblock.checkpoint_slot);
        let mut page: Page = [0; PAGE_BYTES as usize];
        let damaged = |what, page| move |error| AttachError::Damaged { what, page, error };
        let what = "the checkpoint's header";
        readable(area, start, &mut page, what)?;
        let header = CheckpointHeader::decode(&page).map_err(damaged(what, start))?;
        let s = &self.superblock;
        if header.uuid != s.uuid
            || header.generation != s.checkpoint_generation
            || header.next_sequence != s.next_sequence
            || header.position != s.position
            || header.previous != s.previous
        {
            return Err(AttachError::Stranger { what, page: start });
        }
        let what = "a page of the checkpoint";
        let slots = self.geo.slots();
        let pages = u64::from(slots.div_ceil(ENTRIES_PER_PAGE));
        let mut buffer = vec![0; (pages.min(256) * PAGE_BYTES) as usize];
        let mut at = 0;
        while at < pages {
            let count = (pages - at).min(256);
            let bytes = (count * PAGE_BYTES) as usize;
            readable(area, start + 1 + at, &mut buffer[..bytes], "the checkpoint from there on")?;
            for (i, bytes) in buffer[..bytes].chunks_exact(PAGE_BYTES as usize).enumerate() {
                let number = start + 1 + at + i as u64;
                let page = CheckpointPage::decode(bytes).map_err(damaged(what, number))?;
                let first = (at as u32 + i as u32) * ENTRIES_PER_PAGE;
                if page.uuid != header.uuid
                    || page.generation != header.generation
                    || page.first != first
                {
                    return Err(AttachError::Stranger { what, page: number });
                }
                for (slot, entry) in (first..slots).zip(&page.entries) {
                    if !self.take(slot, *entry) {
                        return Err(AttachError::Stranger { what, page: number });
                    }
                }
            }
            at += count;
        }
        Ok(())
    }

    /// What was free at the moment of the checkpoint.
    fn load_free_map(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let start = self.geo.free_map_at(self.superblock.checkpoint_slot);
        let what = "a page of the free map";
        let (uuid, generation) = (self.superblock.uuid, self.superblock.checkpoint_generation);
        let mut page: Page = [0; PAGE_BYTES as usize];
        for number in 0..self.geo.free_map_pages() {
            let at = start + u64::from(number);
            readable(area, at, &mut page, what)?;
            let read = FreeMapPage::decode(&page).map_err(|error| AttachError::Damaged {
                what,
                page: at,
                error,
            })?;
            let first = number * RUNS_PER_PAGE;
            if (read.uuid, read.generation, read.first) != (uuid, generation, first) {
                return Err(AttachError::Stranger { what, page: at });
            }
            for run in read.runs {
                if run == Run::NONE {
                    return Ok(());
                }
                if !self.take_run(run) {
                    return Err(AttachError::Stranger { what, page: at });
                }
            }
        }
        Ok(())
    }

    /// A page that stands in the log was written after it was discarded: a discard makes void what stands there.
    fn use_logged(&mut self) {
        if self.geo.free_map_pages() > 0 {
            for slot in self.geo.read_slots()..self.geo.slots() {
                if let Some(first) = self.map.home(slot) {
                    self.take_run(Run { first, pages: 1, kind: RunKind::Used });
                }
            }
        }
    }

    /// Takes what is known of home pages. False where there are no such pages.
    fn take_run(&mut self, run: Run) -> bool {
        let pages = run.first..run.first + u64::from(run.pages);
        if pages.end > self.home_pages() {
            return false;
        }
        match run.kind {
            RunKind::Used => {
                self.free.remove(pages.clone());
                self.stained.remove(pages);
            }
            RunKind::Free => {
                self.free.insert(pages.clone());
                self.stained.remove(pages);
            }
            RunKind::Stained => {
                self.free.insert(pages.clone());
                self.stained.insert(pages);
            }
            RunKind::Open => self.open.insert(pages),
        }
        true
    }

    /// Where replicas stand that the map tells of, and what is free after all.
    fn find_places(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let open: Vec<_> = self.open.iter().collect();
        open.into_iter().for_each(|part| self.free.remove(part));
        self.free.extend(self.stained.iter());
        if self.geo.free_map_pages() == 0 {
            return Ok(());
        }
        let per = self.geo.segment_pages;
        let mut page: Page = [0; PAGE_BYTES as usize];
        for segment in 0..self.geo.read_segments {
            let first = segment * per;
            if (first..first + per).all(|slot| self.map.state(slot) == State::Free) {
                continue;
            }
            // Where it cannot be read, or is damaged, its copies are lost, no more.
            let read = area.read(page_extent(self.page_of(first), 1), &mut page);
            let header = read.ok().and_then(|()| Header::decode(&page).ok()).filter(|h| {
                h.uuid == self.superblock.uuid && h.position == Position { segment, page: 0 }
            });
            let Some(Header { durable: place, content: Content::ReadMap(entries), .. }) = header
            else {
                self.clear_segment(segment);
                continue;
            };
            for slot in first..first + per {
                let at = u64::from(slot - first).wrapping_sub(1);
                let stands = place.wrapping_add(at);
                let named = entries.get(at as usize).map(|e| e.home);
                let good = self.map.home(slot).is_some_and(|home| {
                    named == Some(home)
                        && self.stained.contains(stands)
                        && !self.free.contains(home)
                });
                if !good {
                    self.map.clear(slot);
                }
            }
            self.places.push((segment, place, entries.len() as u32));
        }
        Ok(())
    }

    /// What the plan at hand wants. A damaged plan costs its copies, no more.
    fn load_plan(&self, area: &mut dyn Device) -> Option<Vec<(u32, u64, u32)>> {
        let (start, slots) = (self.geo.plan_at(), self.geo.read_slots());
        let (uuid, generation) = (self.superblock.uuid, self.superblock.plan_generation);
        let mut page: Page = [0; PAGE_BYTES as usize];
        area.read(page_extent(start, 1), &mut page).ok()?;
        let header = PlanHeader::decode(&page).ok()?;
        if (header.uuid, header.generation, header.slots) != (uuid, generation, slots.into()) {
            return None;
        }
        let mut wants: Vec<(u32, u64, u32)> = Vec::new();
        let mut first = 0;
        while first < slots {
            area.read(page_extent(start + 1 + u64::from(first / PLAN_PER_PAGE), 1), &mut page)
                .ok()?;
            let read = PlanPage::decode(&page).ok()?;
            if (read.uuid, read.generation, read.first) != (uuid, generation, first) {
                return None;
            }
            for (slot, home) in (first..slots).zip(read.wanted) {
                let Some(home) = home else { continue };
                if home >= self.home_pages() || slot.is_multiple_of(self.geo.segment_pages) {
                    return None;
                }
                match wants.last_mut() {
                    Some((s, p, n)) if *s + *n == slot && *p + u64::from(*n) == home => *n += 1,
                    _ => wants.push((slot, home, 1)),
                }
            }
            first = first.saturating_add(PLAN_PER_PAGE);
        }
        Some(wants)
    }

    /// Takes an entry into the map. False where no such home page exists.
    fn take(&mut self, slot: u32, entry: Entry) -> bool {
        if entry.state != State::Free {
            if entry.home >= self.home_pages() {
                return false;
            }
            // Replicas stand beside each other; what is in the log stands alone.
            let log = slot >= self.geo.read_segments * self.geo.segment_pages;
            if log || self.geo.free_map_pages() == 0 {
                self.map.set(slot, entry.home, entry.state, entry.sum);
            } else {
                self.map.add(slot, entry.home, entry.state, entry.sum);
            }
        }
        true
    }

    /// The page of the area that a slot of the log or of a map is.
    fn page_of(&self, slot: u32) -> u64 {
        self.geo.page_of(slot).unwrap_or_default()
    }

    fn log_slot(&self, segment: u32) -> u32 {
        (self.geo.read_segments + segment) * self.geo.segment_pages
    }

    fn clear_segment(&mut self, segment: u32) {
        let first = segment * self.geo.segment_pages;
        (first..first + self.geo.segment_pages).for_each(|slot| self.map.clear(slot));
    }

    /// A segment of the log. Pages that the device cannot read are zeroes, and noted down: neither a header nor, but where
    /// that is what stood there, data.
    fn read_segment(&mut self, area: &mut dyn Device, segment: u32, buffer: &mut [u8]) {
        let at = self.page_of(self.log_slot(segment));
        if area.read(page_extent(at, self.geo.segment_pages.into()), buffer).is_ok() {
            return;
        }
        for (page, bytes) in (at..).zip(buffer.chunks_exact_mut(PAGE_BYTES as usize)) {
            if area.read(page_extent(page, 1), bytes).is_err() {
                bytes.fill(0);
                self.unreadable.insert(page);
            }
        }
    }

    /// The records from the checkpoint's position to the end of the log.
    fn read_log(&mut self, area: &mut dyn Device) -> LogFound {
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
    fn broken(&self, log: &LogFound) -> Option<AttachError> {
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
    fn log_before(&mut self, area: &mut dyn Device) -> (Vec<Found>, bool) {
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
    fn record_in(
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
    fn evidence(
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

    fn apply(&mut self, area: &mut dyn Device, records: Vec<Found>) -> Result<(), AttachError> {
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
            match record.header.content {
                Content::Data(entries) => {
                    for (slot, entry) in (record.slot + 1..).zip(entries) {
                        self.take_run(Run { first: entry.home, pages: 1, kind: RunKind::Used });
                        if !self.take(slot, Entry { state: State::Dirty, ..entry }) {
                            let page = self.page_of(record.slot);
                            return Err(AttachError::Stranger {
                                what: "a record of the log",
                                page,
                            });
                        }
                    }
                }
                Content::Tombstones(runs) => {
                    for run in runs {
                        let pages = run.first..run.first + u64::from(run.pages);
                        // Walk whichever is shorter.
                        if run.pages > self.geo.slots() {
                            for slot in 0..self.geo.slots() {
                                if self.map.home(slot).is_some_and(|home| pages.contains(&home)) {
                                    self.map.clear(slot);
                                }
                            }
                        } else {
                            for slot in
                                pages.flat_map(|home| self.map.find_all(home)).collect::<Vec<_>>()
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
                            let (what, page) = ("a record of the log", self.page_of(record.slot));
                            return Err(AttachError::Stranger { what, page });
                        }
                    }
                }
                Content::ReadMap(_) => {}
            }
        }
        for segment in committed {
            if segment < self.geo.read_segments {
                self.load_read_segment(area, segment);
            }
        }
        // Behind its end, where the checkpoint may know of records that are lost, the log goes on.
        let (head, page) = (self.log_slot(self.ring.head), self.page.min(per));
        (head + page..head + per).for_each(|slot| self.map.clear(slot));
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

    /// The map of a read segment that was written after the checkpoint. A damaged one costs its copies, no more.
    fn load_read_segment(&mut self, area: &mut dyn Device, segment: u32) {
        let first = segment * self.geo.segment_pages;
        let mut page: Page = [0; PAGE_BYTES as usize];
        let read = area.read(page_extent(self.page_of(first), 1), &mut page);
        let Some(header) = read.ok().and_then(|()| Header::decode(&page).ok()) else { return };
        let ours =
            header.uuid == self.superblock.uuid && header.position == Position { segment, page: 0 };
        if let (Content::ReadMap(entries), true) = (header.content, ours) {
            for (slot, entry) in (first + 1..first + self.geo.segment_pages).zip(entries) {
                let most = if self.geo.free_map_pages() > 0 { u32::MAX } else { 0 };
                let log = self.geo.read_segments * self.geo.segment_pages;
                let free = entry.state != State::Free
                    && self.map.find_all(entry.home).zip(0..).all(|(s, n)| s < log && n < most);
                if free {
                    self.take(slot, entry);
                }
            }
        }
    }
}

/// Reads pages that there is no doing without.
fn readable(
    area: &mut dyn Device,
    page: u64,
    bytes: &mut [u8],
    what: &'static str,
) -> Result<(), AttachError> {
    let pages = bytes.len() as u64 / PAGE_BYTES;
    area.read(page_extent(page, pages), bytes).map_err(|_| AttachError::Unreadable { what, page })
}

fn data_pages(header: &Header) -> u32 {
    match &header.content {
        Content::Data(entries) => entries.len() as u32,
        _ => 0,
    }
}
