//! From bytes to an engine: formatting an area, and recovering what one holds, from its checkpoint and the log behind
//! it. Nothing here guesses: what does not fit together is an error that says what to do, and nothing was changed.

use seekless_block::{Device, DeviceError, Extent, Lba, PAGE_BYTES, PAGE_SECTORS, Sectors};

use crate::format::{
    AreaFlags, AreaId, CheckpointHeader, CheckpointPage, Content, ENTRIES_PER_PAGE, Entry,
    FormatError, Geometry, GeometryError, Header, Label, Mode as FormatMode, Page, Position,
    Superblock, SuperblockError, Which, read_superblock,
};
use crate::log::Ring;
use crate::pagemap::{PageMap, State};
use crate::shape::Shape;
use crate::{Config, Engine, Mode};

/// What an area is made with.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Drawn at random.
    pub uuid: [u8; 16],
    /// Size of the device that clients see.
    pub capacity: Sectors,
    /// Where the area begins, where it is a part of the device that holds home.
    pub inside: Option<Lba>,
    /// First sector of the first home page, 0 to 7.
    pub grid: Sectors,
    /// Where writes are to go.
    pub mode: Mode,
    /// Pages of a segment.
    pub segment_pages: u32,
    /// Share of the write buffer in percent.
    pub write_buffer_percent: u8,
    /// Home's name, for people.
    pub label: String,
}

/// Why an area cannot be made or attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It cannot be divided.
    #[error("the area cannot be formatted")]
    Geometry(#[from] GeometryError),
    /// The device failed.
    #[error("the device of the area failed")]
    Device(#[from] DeviceError),
    /// No superblock that counts.
    #[error("no usable superblock")]
    Superblock(#[from] SuperblockError),
    /// A page is damaged, or none of ours.
    #[error(
        "{what} (page {page} of the area) is damaged: nothing was changed; run `seekless check`, then `seekless repair`"
    )]
    Damaged {
        /// Which kind of page.
        what: &'static str,
        /// Where, from the start of the area.
        page: u64,
        /// How.
        #[source]
        error: FormatError,
    },
    /// Two pages do not belong together.
    #[error(
        "{what} (page {page} of the area) does not belong to the superblock: nothing was changed; run `seekless check`, then `seekless repair`"
    )]
    Stranger {
        /// Which kind of page.
        what: &'static str,
        /// Where.
        page: u64,
    },
    /// The log breaks off before its end.
    #[error(
        "the log of the area breaks off at page {page} (record {sequence}), but record {later} says that it was on stable storage: something in between is damaged; nothing was changed; run `seekless check`, then `seekless repair`"
    )]
    BrokenLog {
        /// Where the record should stand.
        page: u64,
        /// Which record.
        sequence: u64,
        /// Which one knows.
        later: u64,
    },
    /// Home is not what it was.
    #[error(
        "the area was made for a device of {expected}, and this one has {found}: if it is the right one and was resized, run `seekless resize`"
    )]
    Capacity {
        /// When it was made.
        expected: Sectors,
        /// Now.
        found: Sectors,
    },
    /// The area's device shrank.
    #[error("the area has {expected}, but its device only {found}: it was cut short; grow it back")]
    Shrunken {
        /// What the superblock says.
        expected: Sectors,
        /// What there is.
        found: Sectors,
    },
}

/// What was found at attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachReport {
    /// It had been detached in order.
    pub clean: bool,
    /// Copies are used at once: nobody wrote home meanwhile.
    pub trusted: bool,
    /// Records of the log that were read.
    pub records: u64,
    /// Pages whose only valid copy stands in the area.
    pub dirty: u64,
    /// Copies equal to home.
    pub copies: u64,
    /// Copies yet to be proven.
    pub suspects: u64,
}

/// What the superblock says that does not change while the engine runs, and what only checkpoints change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) uuid: AreaId,
    pub(crate) inside: Option<Lba>,
    pub(crate) label: String,
    pub(crate) area_size: Sectors,
    pub(crate) generation: u64,
    pub(crate) checkpoint_slot: u8,
    pub(crate) checkpoint_generation: u64,
}

/// What a checkpoint says of its moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) dirty: bool,
    /// At a detach in order: what the driver can prove.
    pub(crate) stamp: Option<[u8; 32]>,
    pub(crate) mode: Mode,
    pub(crate) checkpoint_slot: u8,
    pub(crate) checkpoint_generation: u64,
    /// Segment of the log and page, sequence, checksum of the header before.
    pub(crate) position: (u32, u32, u64, u32),
    pub(crate) tail: u32,
}

impl Identity {
    pub(crate) fn superblock(&self, config: &Config, geo: &Shape, at: &Moment) -> Superblock {
        let (segment, page, next_sequence, previous) = at.position;
        let mut flags = AreaFlags::NONE;
        if at.dirty {
            flags = flags.union(AreaFlags::DIRTY);
        }
        if at.stamp.is_some() {
            flags = flags.union(AreaFlags::CLEAN);
        }
        let none = at.checkpoint_generation == 0;
        Superblock {
            uuid: self.uuid,
            generation: self.generation,
            home_capacity: config.capacity,
            area_size: self.area_size,
            area_at: self.inside.unwrap_or_default(),
            checkpoint_generation: at.checkpoint_generation,
            checkpoint_entries: if none { 0 } else { geo.slots().into() },
            next_sequence,
            plan_generation: 0,
            plan_slots: 0,
            position: Position { segment: geo.read_segments + segment, page },
            segment_pages: geo.segment_pages,
            read_segments: geo.read_segments,
            log_segments: geo.log_segments,
            previous,
            tail: geo.read_segments + at.tail,
            grid: config.grid.0 as u8,
            mode: match at.mode {
                Mode::WriteThrough => FormatMode::Writethrough,
                Mode::WriteBack => FormatMode::Writeback,
            },
            flags,
            inside: self.inside.is_some(),
            checkpoint_slot: at.checkpoint_slot,
            stamp: at.stamp.unwrap_or_default(),
            label: Label::new(&self.label),
        }
    }

    pub(crate) fn checkpoint(&self, geo: &Shape, at: &Moment) -> CheckpointHeader {
        let (segment, page, next_sequence, previous) = at.position;
        CheckpointHeader {
            uuid: self.uuid,
            generation: at.checkpoint_generation,
            entries: geo.slots().into(),
            next_sequence,
            position: Position { segment: geo.read_segments + segment, page },
            previous,
            tail: geo.read_segments + at.tail,
        }
    }
}

fn page_at(page: u64, pages: u64) -> Extent {
    Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS)
}

fn write_page(
    area: &mut dyn Device,
    at: u64,
    encode: impl FnOnce(&mut Page),
) -> Result<(), DeviceError> {
    let mut page = [0; PAGE_BYTES as usize];
    encode(&mut page);
    area.write(page_at(at, 1), &page)
}

/// Makes `area`, all of it, an area without copies. What it held is lost; home is not touched.
///
/// # Errors
/// Where it is too small, or fails.
pub fn format_area(
    area: &mut dyn Device,
    options: &FormatOptions,
) -> Result<Geometry, AttachError> {
    let geometry =
        Geometry::fit(area.capacity(), options.segment_pages, options.write_buffer_percent)?;
    let geo = Shape::new(geometry);
    let identity = Identity {
        uuid: AreaId(options.uuid),
        inside: options.inside,
        label: options.label.clone(),
        area_size: area.capacity(),
        generation: 1,
        ..Identity::default()
    };
    let mut config = Config::new(options.capacity);
    config.grid = options.grid;
    let moment = Moment {
        dirty: false,
        stamp: Some([0; 32]),
        mode: options.mode,
        checkpoint_slot: 0,
        checkpoint_generation: 0,
        position: (0, 0, 1, 0),
        tail: 0,
    };
    // No half-made area can be taken for a whole one, nor for the one that was here.
    area.write_zeroes(page_at(0, 2))?;
    area.flush()?;
    for copy in [1, 0] {
        let superblock = identity.superblock(&config, &geo, &moment);
        write_page(area, copy, |page| {
            superblock.encode(page);
        })?;
    }
    area.flush()?;
    Ok(geometry)
}

/// What an area holds.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) superblock: Superblock,
    /// The copy of the superblock that counts.
    pub(crate) which: Which,
    pub(crate) geo: Shape,
    pub(crate) map: PageMap,
    pub(crate) ring: Ring,
    /// Where the log goes on, within the ring's head.
    pub(crate) page: u32,
    pub(crate) sequence: u64,
    pub(crate) previous: u32,
    pub(crate) records: u64,
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
        which: found.which,
        geo,
        superblock,
    };
    r.ring.segments = r.geo.log_segments;
    r.ring.head = r.superblock.position.segment - r.geo.read_segments;
    r.ring.tail = r.superblock.tail - r.geo.read_segments;
    if r.superblock.checkpoint_generation > 0 {
        r.load_checkpoint(area)?;
    }
    r.roll_forward(area)?;
    Ok(r)
}

impl Recovered {
    fn home_pages(&self) -> u64 {
        self.superblock.home_capacity.0.saturating_sub(self.superblock.grid.into()) / PAGE_SECTORS
    }

    fn load_checkpoint(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let start = self.geo.checkpoint_at(self.superblock.checkpoint_slot);
        let mut page: Page = [0; PAGE_BYTES as usize];
        let damaged = |what, page| move |error| AttachError::Damaged { what, page, error };
        area.read(page_at(start, 1), &mut page)?;
        let what = "the checkpoint's header";
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
        let mut buffer = vec![0; 256 * PAGE_BYTES as usize];
        let pages = u64::from(slots.div_ceil(ENTRIES_PER_PAGE));
        let mut at = 0;
        while at < pages {
            let count = (pages - at).min(256);
            let bytes = (count * PAGE_BYTES) as usize;
            area.read(page_at(start + 1 + at, count), &mut buffer[..bytes])?;
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

    /// Takes an entry into the map. False where no such home page exists.
    fn take(&mut self, slot: u32, entry: Entry) -> bool {
        if entry.state != State::Free {
            if entry.home >= self.home_pages() {
                return false;
            }
            self.map.set(slot, entry.home, entry.state, entry.sum);
        }
        true
    }

    fn log_slot(&self, segment: u32) -> u32 {
        (self.geo.read_segments + segment) * self.geo.segment_pages
    }

    fn clear_segment(&mut self, segment: u32) {
        let first = segment * self.geo.segment_pages;
        (first..first + self.geo.segment_pages).for_each(|slot| self.map.clear(slot));
    }

    fn read_segment(
        &self,
        area: &mut dyn Device,
        segment: u32,
        buffer: &mut [u8],
    ) -> Result<(), AttachError> {
        let at = self.geo.data_at + u64::from(self.log_slot(segment));
        Ok(area.read(page_at(at, self.geo.segment_pages.into()), buffer)?)
    }

    fn roll_forward(&mut self, area: &mut dyn Device) -> Result<(), AttachError> {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut records: Vec<Found> = Vec::new();
        let (mut segment, mut page) = (self.ring.head, self.page);
        let (mut sequence, mut previous) = (self.sequence, self.previous);
        self.read_segment(area, segment, &mut buffer)?;
        let mut looked = 0;
        loop {
            let record = self.record_in(&buffer, segment, page, sequence, previous);
            if let Some(record) = record {
                page = record.slot % per + 1 + data_pages(&record.header);
                sequence += 1;
                previous = record.checksum;
                looked = 0;
                records.push(record);
            } else {
                // The writer may have gone on in the next segment; round the whole log there is no more.
                looked += 1;
                if looked > 1 || self.ring.segments == 1 {
                    break;
                }
                segment = (segment + 1) % self.ring.segments;
                page = 0;
                self.read_segment(area, segment, &mut buffer)?;
            }
        }
        let durable = records.iter().map(|r| r.header.durable).max().unwrap_or(0);
        let known = self.evidence(area, sequence)?;
        // A torn record is the end, unless someone knows that it was whole once: then its pages are damaged, and
        // whoever reads them is told.
        let end = records
            .iter()
            .position(|r| !r.whole && r.header.sequence > durable.max(known.map_or(0, |(d, _)| d)))
            .unwrap_or(records.len());
        records.truncate(end);
        if let Some(last) = records.last() {
            self.sequence = last.header.sequence + 1;
            self.previous = last.checksum;
        }
        if let Some((durable, later)) = known
            && durable >= self.sequence
        {
            let at = records.last().map_or(self.superblock.position, |r| Position {
                segment: r.slot / per,
                page: r.slot % per + 1 + data_pages(&r.header),
            });
            let page = self.geo.data_at + u64::from(at.segment * per + at.page);
            return Err(AttachError::BrokenLog { page, sequence: self.sequence, later });
        }
        self.apply(area, records)
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
        let sum = |page: u32| bytes(page).map(crc32c::crc32c);
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

    /// Whether anywhere in the log stands a record of this area that comes after `sequence` and knows of it: the
    /// highest sequence that it says was on stable storage, and its own.
    fn evidence(
        &self,
        area: &mut dyn Device,
        sequence: u64,
    ) -> Result<Option<(u64, u64)>, AttachError> {
        let per = self.geo.segment_pages;
        let mut buffer = vec![0; per as usize * PAGE_BYTES as usize];
        let mut best: Option<(u64, u64)> = None;
        let mut look = |bytes: &[u8]| {
            let Ok(header) = Header::decode(bytes) else { return };
            let ours = header.uuid == self.superblock.uuid
                && !matches!(header.content, Content::ReadMap(_));
            if ours && header.sequence >= sequence {
                best = best.max(Some((header.durable, header.sequence)));
            }
        };
        for i in 0..self.ring.segments {
            let segment = (self.ring.head + i) % self.ring.segments;
            let at = self.geo.data_at + u64::from(self.log_slot(segment));
            let mut first = [0; PAGE_BYTES as usize];
            area.read(page_at(at, 1), &mut first)?;
            // Where records of this turn stand, all of its pages may hold one.
            let newer = Header::decode(&first).is_ok_and(|h| {
                h.uuid == self.superblock.uuid && h.sequence + u64::from(per) >= self.sequence
            });
            if newer || i == 0 {
                self.read_segment(area, segment, &mut buffer)?;
                buffer.chunks_exact(PAGE_BYTES as usize).for_each(&mut look);
            }
        }
        Ok(best)
    }

    fn apply(&mut self, area: &mut dyn Device, records: Vec<Found>) -> Result<(), AttachError> {
        let per = self.geo.segment_pages;
        let mut committed = std::collections::BTreeSet::new();
        self.records = records.len() as u64;
        for record in records {
            let segment = record.slot / per - self.geo.read_segments;
            if segment != self.ring.head {
                self.clear_segment(self.geo.read_segments + segment);
                self.ring.head = segment;
            }
            self.page = record.slot % per + 1 + data_pages(&record.header);
            self.ring.tail = record.header.tail - self.geo.read_segments;
            match record.header.content {
                Content::Data(entries) => {
                    for (slot, entry) in (record.slot + 1..).zip(entries) {
                        if !self.take(slot, Entry { state: State::Dirty, ..entry }) {
                            let page = self.geo.data_at + u64::from(record.slot);
                            return Err(AttachError::Stranger {
                                what: "a record of the log",
                                page,
                            });
                        }
                    }
                }
                Content::Tombstones(runs) => {
                    for run in runs {
                        for home in run.first..run.first + u64::from(run.pages) {
                            if let Some(slot) = self.map.find(home) {
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
                Content::ReadMap(_) => {}
            }
        }
        for segment in committed {
            if segment < self.geo.read_segments {
                self.load_read_segment(area, segment)?;
            }
        }
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
    fn load_read_segment(
        &mut self,
        area: &mut dyn Device,
        segment: u32,
    ) -> Result<(), AttachError> {
        let first = segment * self.geo.segment_pages;
        let mut page: Page = [0; PAGE_BYTES as usize];
        area.read(page_at(self.geo.data_at + u64::from(first), 1), &mut page)?;
        let Ok(header) = Header::decode(&page) else { return Ok(()) };
        let ours =
            header.uuid == self.superblock.uuid && header.position == Position { segment, page: 0 };
        if let (Content::ReadMap(entries), true) = (header.content, ours) {
            for (slot, entry) in (first + 1..first + self.geo.segment_pages).zip(entries) {
                let free = entry.state != State::Free && self.map.find(entry.home).is_none();
                if free {
                    self.take(slot, entry);
                }
            }
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

impl Engine {
    /// Attaches an area that [`format_area`] has made: recovers what it holds, and marks it as in use. Of `config`,
    /// the area's size, grid, mode and division are taken from the area itself. `stamp` is what the driver can
    /// prove about home now; copies are used at once only where it equals that of the detach.
    ///
    /// # Errors
    /// Where the area is none, or of a newer version, or damaged, or of another device. Nothing was changed then.
    pub fn attach(
        area: &mut dyn Device,
        mut config: Config,
        stamp: [u8; 32],
    ) -> Result<(Self, AttachReport), AttachError> {
        let r = recover(area)?;
        let s = &r.superblock;
        if s.home_capacity != config.capacity {
            return Err(AttachError::Capacity {
                expected: s.home_capacity,
                found: config.capacity,
            });
        }
        config.area = s.area_size;
        config.grid = Sectors(s.grid.into());
        config.segment_pages = s.segment_pages;
        config.mode = match s.mode {
            FormatMode::Writethrough => Mode::WriteThrough,
            FormatMode::Writeback => Mode::WriteBack,
        };
        let identity = Identity {
            uuid: s.uuid,
            inside: s.inside.then_some(s.area_at),
            label: s.label.as_str().to_owned(),
            area_size: s.area_size,
            generation: s.generation,
            checkpoint_slot: s.checkpoint_slot,
            checkpoint_generation: s.checkpoint_generation,
        };
        let clean = s.flags.contains(AreaFlags::CLEAN) && r.records == 0;
        let trusted = clean && stamp != [0; 32] && stamp == s.stamp;
        let mut engine = Self::with(config, r.geo, identity);
        engine.map = r.map;
        for slot in 0..engine.geo.slots() {
            match (engine.map.state(slot), engine.is_log(slot)) {
                (State::Free, _) => {}
                // Of the log, only what is needed is kept: what is at home could be taken for newer after a crash.
                (State::Clean | State::Suspect, true) if clean => engine.map.clear(slot),
                (_, true) => engine.map.set_state(slot, State::Dirty),
                (_, false) if trusted => {}
                (_, false) => engine.map.set_state(slot, State::Suspect),
            }
        }
        let ring = Ring { tail_durable: r.ring.tail, replay: r.ring.head, ..r.ring };
        engine.log.resume(ring, r.page, r.sequence, r.previous);
        engine.sync.home_dirty = true;
        engine.sync.log_dirty = true;
        let mut suspects: Vec<(u64, u32)> = (0..engine.geo.slots())
            .filter(|&slot| engine.map.state(slot) == State::Suspect)
            .filter_map(|slot| engine.map.home(slot).map(|home| (home, slot)))
            .collect();
        suspects.sort_unstable();
        engine.background.suspects = suspects.into_iter().map(|(_, slot)| slot).collect();
        engine.put_down(area, r.which)?;
        let report = AttachReport {
            clean,
            trusted,
            records: r.records,
            dirty: engine.map.count(State::Dirty),
            copies: engine.map.count(State::Clean),
            suspects: engine.map.count(State::Suspect),
        };
        Ok((engine, report))
    }

    /// A checkpoint, at once, and a superblock that says that the area is in use: the copy that counts is written
    /// last.
    fn put_down(&mut self, area: &mut dyn Device, which: Which) -> Result<(), AttachError> {
        let moment = Moment {
            dirty: self.mode == Mode::WriteBack || self.map.count(State::Dirty) > 0,
            stamp: None,
            mode: self.mode,
            checkpoint_slot: 1 - self.identity.checkpoint_slot,
            checkpoint_generation: self.identity.checkpoint_generation + 1,
            position: self.log.position(),
            tail: self.log.ring.tail_durable,
        };
        let start = self.geo.checkpoint_at(moment.checkpoint_slot);
        let header = self.identity.checkpoint(&self.geo, &moment);
        write_page(area, start, |page| {
            header.encode(page);
        })?;
        let slots = self.geo.slots();
        let mut buffer: Vec<u8> = Vec::with_capacity(256 * PAGE_BYTES as usize);
        let mut at = start + 1;
        let mut first = 0;
        while first < slots {
            let entry = |i: usize| {
                let slot = first + i as u32;
                if slot < slots { self.entry(slot) } else { Entry::FREE }
            };
            let (uuid, generation) = (self.identity.uuid, moment.checkpoint_generation);
            let put =
                CheckpointPage { uuid, generation, first, entries: std::array::from_fn(entry) };
            let mut page: Page = [0; PAGE_BYTES as usize];
            put.encode(&mut page);
            buffer.extend_from_slice(&page);
            first = first.saturating_add(ENTRIES_PER_PAGE);
            if buffer.len() == buffer.capacity() || first >= slots {
                let pages = (buffer.len() / PAGE_BYTES as usize) as u64;
                area.write(page_at(at, pages), &buffer)?;
                at += pages;
                buffer.clear();
            }
        }
        area.flush()?;
        self.identity.generation += 1;
        let superblock = self.identity.superblock(&self.config, &self.geo, &moment);
        for copy in [1 - which as u64, which as u64] {
            write_page(area, copy, |page| {
                superblock.encode(page);
            })?;
            area.flush()?;
        }
        self.identity.checkpoint_slot = moment.checkpoint_slot;
        self.identity.checkpoint_generation = moment.checkpoint_generation;
        Ok(())
    }
}
