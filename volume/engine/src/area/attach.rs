//! Formatting an area, and attaching one: the engine recovers the area's contents from checkpoint
//! and log. Nothing here guesses. Pages that contradict each other are an error that says what to
//! do; the area then stays unchanged.

use seekless_block::{Device, DeviceError, Lba, PAGE_BYTES, PAGE_SECTORS, Sectors};

use crate::area::checkpoint_pages::CheckpointPages;
use crate::area::proof::{HomeGuard, Proof, needs_guard};
use crate::area::recover::{Recovered, recover};
use crate::core::page_map::{CopyState, slots};
use crate::format::{
    AreaFlags, AreaId, CheckpointHeader, Contents, FormatError, Geometry, GeometryError, Label,
    Page, Position, Superblock, SuperblockError, page_extent, page_sum,
};
use crate::write_buffer::ring::{Ring, Segment};
use crate::{Config, Engine, Mode};

/// The parameters of a new area.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Drawn at random. No default: two areas with one id would pass for each other.
    pub uuid: [u8; 16],
    /// Size of the device that clients see.
    pub capacity: Sectors,
    /// The first sector of an area that is a part of home's own device; else `None`.
    pub inside: Option<Lba>,
    /// First sector of the first home page, 0 to 7.
    pub grid: Sectors,
    /// Where writes go.
    pub mode: Mode,
    /// Pages of a segment.
    pub segment_pages: u32,
    /// Share of the write buffer in percent, if copies stand in the area.
    pub write_buffer_percent: u8,
    /// How much of home's free pages replicas may take; the write buffer then takes the rest of the
    /// area. Zero: copies stand in the area.
    pub replicas: Sectors,
    /// Home's name, for people.
    pub label: String,
}

impl FormatOptions {
    /// The division of an area of this size.
    ///
    /// # Errors
    /// If the area is too small or too large.
    pub fn geometry(&self, area: Sectors) -> Result<Geometry, GeometryError> {
        let contents = Contents::new(self.write_buffer_percent, self.replicas);
        Geometry::lasting(area, self.segment_pages, contents)
    }
}

/// Why an area cannot be made or attached.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AttachError {
    #[error("the area cannot be formatted")]
    Geometry(#[from] GeometryError),
    #[error("the device of the area failed")]
    Device(#[from] DeviceError),
    #[error("no usable superblock")]
    Superblock(#[from] SuperblockError),
    #[error(
        "{what} (page {page} of the area) is damaged: nothing was changed; run `seekless volume check`, then `seekless volume repair`"
    )]
    Damaged {
        what: &'static str,
        page: u64,
        #[source]
        error: FormatError,
    },
    #[error(
        "{what} (page {page} of the area) does not belong to the superblock: nothing was changed; run `seekless volume check`, then `seekless volume repair`"
    )]
    Stranger { what: &'static str, page: u64 },
    #[error(
        "the log of the area ends at page {page} (record {sequence}), but record {later} says that more was on stable storage: a page in between is damaged; nothing was changed; run `seekless volume check`, then `seekless volume repair`"
    )]
    BrokenLog { page: u64, sequence: u64, later: u64 },
    #[error(
        "{what} (page {page} of the area) cannot be read: nothing was changed; run `seekless volume check`, then `seekless volume repair`"
    )]
    Unreadable { what: &'static str, page: u64 },
    #[error(
        "{stained} of discarded pages may hold bytes of replicas, and only the area knows where: nothing was changed; run `seekless volume detach` first"
    )]
    HasReplicas { stained: Sectors },
    #[error(
        "the area is not drained and detached: it may hold the only copy of some data; nothing was changed"
    )]
    NotDrained,
    #[error(
        "the area may hold the only copy of some data, and has no space for the guard that keeps the bare disk from being mounted; nothing was changed"
    )]
    NoGuard,
    #[error(
        "this area is an older copy: its generation is {area}, and that of the disk is {guard}. Later writes are only in the newest copy. Nothing was changed: name the newest copy"
    )]
    Older { area: u64, guard: u64 },
    #[error(
        "the area was made for a device of {expected}, and this one has {found}: if it is the right one and was resized, run `seekless volume resize`"
    )]
    Capacity { expected: Sectors, found: Sectors },
    #[error(
        "the area has {expected}, but its device only {found}: the device shrank; make it as large as before"
    )]
    Shrunken { expected: Sectors, found: Sectors },
}

/// The state of an area at its attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachReport {
    /// The area was detached in order.
    pub clean: bool,
    /// Copies are used at once: nobody wrote home meanwhile.
    pub trusted: bool,
    /// Records of the log that were read.
    pub records: u64,
    /// Pages whose only valid copy stands in the area.
    pub dirty: u64,
    /// Copies equal to home.
    pub copies: u64,
    /// Copies in doubt.
    pub suspects: u64,
    /// Pages whose newest bytes stood in the log's last records, and are not complete: lost if a
    /// flush covered them.
    pub incomplete: u64,
    /// A record of the log is missing although a later one exists: both are lost if a flush covered
    /// them.
    pub missing: bool,
    /// The generation of the area from now on. The guard must name it before the first request.
    pub generation: u64,
    /// Home alone may not hold all that clients read: a write that was acknowledged and not flushed
    /// may be lost if the last server died.
    pub may_be_newer: bool,
    /// The guard must be up before the first request, for the same reason. An area inside its disk
    /// needs none.
    pub needs_guard: bool,
}

/// The superblock's constants, and the values that only checkpoints change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) uuid: AreaId,
    pub(crate) inside: Option<Lba>,
    pub(crate) label: String,
    pub(crate) area_size: Sectors,
    pub(crate) generation: u64,
    pub(crate) checkpoint_slot: u8,
    pub(crate) checkpoint_generation: u64,
    /// The plan in the plan region; 0 for none.
    pub(crate) plan: u64,
}

/// The checkpoint's account of its moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) dirty: bool,
    /// At a detach in order: the driver's proof about home.
    pub(crate) stamp: Option<[u8; 32]>,
    pub(crate) mode: Mode,
    pub(crate) checkpoint_slot: u8,
    pub(crate) checkpoint_generation: u64,
    /// Segment of the log and page, sequence, checksum of the header before.
    pub(crate) position: (Segment, u32, u64, u32),
    pub(crate) tail: Segment,
    /// The plan in force; 0 for none.
    pub(crate) plan: u64,
    /// At a detach in order: where the trail goes on, and bytes of the learned state.
    pub(crate) trail_head: u32,
    pub(crate) learned: u32,
    /// Read segments may hold newest data.
    pub(crate) in_place: bool,
}

impl Identity {
    /// For an area that nobody attaches again.
    pub(crate) fn fresh(config: &Config) -> Self {
        Self { area_size: config.area, generation: 1, ..Self::default() }
    }

    /// For an attached area; `has_plan` if its plan could be read.
    fn of(s: &Superblock, has_plan: bool) -> Self {
        Self {
            uuid: s.uuid,
            inside: s.inside.then_some(s.area_at),
            label: s.label.as_str().to_owned(),
            area_size: s.area_size,
            generation: s.generation,
            checkpoint_slot: s.checkpoint_slot,
            checkpoint_generation: s.checkpoint_generation,
            plan: if has_plan { s.plan_generation } else { 0 },
        }
    }

    pub(crate) fn superblock(&self, config: &Config, geo: &Geometry, at: &Moment) -> Superblock {
        let (segment, page, next_sequence, previous) = at.position;
        let mut flags = AreaFlags::NONE;
        if at.dirty {
            flags = flags.union(AreaFlags::DIRTY);
        }
        if at.stamp.is_some() {
            flags = flags.union(AreaFlags::CLEAN);
        }
        if at.in_place {
            flags = flags.union(AreaFlags::IN_PLACE);
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
            plan_generation: at.plan,
            plan_slots: if at.plan == 0 { 0 } else { geo.read_slots().into() },
            position: Position { segment: geo.number_of(segment), page },
            segment_pages: geo.segment_pages,
            read_segments: geo.read_segments,
            log_segments: geo.log_segments,
            free_map_pages: geo.free_map_pages(),
            previous,
            tail: geo.number_of(at.tail),
            grid: config.grid.0 as u8,
            mode: at.mode,
            flags,
            inside: self.inside.is_some(),
            checkpoint_slot: at.checkpoint_slot,
            stamp: at.stamp.unwrap_or_default(),
            label: Label::new(&self.label),
            spread: geo.is_spread(),
            trail_head: at.trail_head,
            learned_generation: if at.learned == 0 { 0 } else { at.checkpoint_generation },
            learned_bytes: at.learned,
        }
    }

    pub(crate) fn checkpoint(&self, geo: &Geometry, at: &Moment) -> CheckpointHeader {
        let (segment, page, next_sequence, previous) = at.position;
        CheckpointHeader {
            uuid: self.uuid,
            generation: at.checkpoint_generation,
            entries: geo.slots().into(),
            next_sequence,
            position: Position { segment: geo.number_of(segment), page },
            previous,
            tail: geo.number_of(at.tail),
        }
    }
}

/// Bytes of a checkpoint that an attach writes at a time.
const WRITE_BYTES: usize = 1 << 20;

pub(crate) fn write_page(
    area: &mut dyn Device,
    at: u64,
    encode: impl FnOnce(&mut Page),
) -> Result<(), DeviceError> {
    let mut page = [0; PAGE_BYTES as usize];
    encode(&mut page);
    area.write(page_extent(at, 1), &page)
}

/// Formats all of `area`, without copies. The former contents are lost; home stays as it is.
///
/// # Errors
/// If the area is too small, or the device fails.
pub fn format_area(
    area: &mut dyn Device,
    options: &FormatOptions,
) -> Result<Geometry, AttachError> {
    make(area, options, None)
}

/// The superblock of an area that may be divided again: home is complete.
#[derive(Clone, Debug)]
pub struct Resizable(Superblock);

/// Whether an area may be divided again; `before` is its superblock, and `area` has its former size.
///
/// # Errors
/// If the area was not drained and detached in order, if replicas' bytes may stand at home, or if
/// seekless did not write the superblock.
pub fn resizable(area: &mut dyn Device, before: &Superblock) -> Result<Resizable, AttachError> {
    let [page, ..] = before.places();
    let damaged = |error| AttachError::Damaged { what: "the superblock", page, error };
    before.check_counts().map_err(damaged)?;
    if before.flags.contains(AreaFlags::DIRTY) || !before.flags.contains(AreaFlags::CLEAN) {
        return Err(AttachError::NotDrained);
    }
    if before.free_map_pages > 0 {
        let stained = Sectors(recover(area)?.stained.pages() * PAGE_SECTORS);
        if stained.0 > 0 {
            return Err(AttachError::HasReplicas { stained });
        }
    }
    Ok(Resizable(before.clone()))
}

/// Divides all of `area` again, for its size now. The copies are dropped; home is complete, and
/// stays as it is. After a crash the area is as before or divided again, or there is none. Inside
/// its disk there always is one: without it, nobody knows where the parts of home stand.
///
/// # Errors
/// As [`format_area`].
pub fn resize_area(
    area: &mut dyn Device,
    options: &FormatOptions,
    before: &Resizable,
) -> Result<Geometry, AttachError> {
    make(area, options, Some(&before.0))
}

fn make(
    area: &mut dyn Device,
    options: &FormatOptions,
    before: Option<&Superblock>,
) -> Result<Geometry, AttachError> {
    // The area keeps its name, and old records still stand in it. None of them may count as one of
    // the new log, and no old superblock as a newer one.
    let records = |s: &Superblock| u64::from(s.log_segments) * u64::from(s.segment_pages);
    let sequence = before.map_or(1, |s| s.next_sequence.saturating_add(records(s)));
    let geo = options.geometry(area.capacity())?;
    let identity = Identity {
        uuid: AreaId(options.uuid),
        inside: options.inside,
        label: options.label.clone(),
        area_size: area.capacity(),
        generation: before.map_or(1, |s| s.generation + 1),
        ..Identity::default()
    };
    let mut config = Config::new(options.capacity);
    config.grid = options.grid;
    let moment = Moment {
        stamp: Some([0; 32]),
        mode: options.mode,
        position: (Segment(0), 0, sequence, 0),
        ..Moment::default()
    };
    let superblock = identity.superblock(&config, &geo, &moment);
    let places = superblock.places();
    let former = before.map_or([0, 1, 1], Superblock::places);
    let end = area.capacity().0 / PAGE_SECTORS;
    let replaces = options.inside.is_some() && before.is_some();
    let erase = |area: &mut dyn Device, some: &[u64]| {
        for page in some.iter().filter(|page| **page < end) {
            area.write_zeroes(page_extent(*page, 1))?;
        }
        area.flush()
    };
    if replaces {
        // One after the other: the copy with the highest generation counts.
        write_superblock(area, &superblock, places[0], true)?;
        let old: Vec<u64> = former.into_iter().filter(|page| !places.contains(page)).collect();
        erase(area, &old)?;
    } else {
        // No half-made area may count as a whole one, nor as the former one.
        erase(area, &[former, places].concat())?;
        write_superblock(area, &superblock, places[0], false)?;
    }
    Ok(geo)
}

/// Writes all copies of the superblock, the valid one last.
pub(crate) fn write_superblock(
    area: &mut dyn Device,
    superblock: &Superblock,
    valid: u64,
    durably: bool,
) -> Result<(), DeviceError> {
    let write = |area: &mut dyn Device, page| {
        write_page(area, page, |bytes| {
            superblock.encode(bytes);
        })
    };
    for place in superblock.places().into_iter().filter(|place| *place != valid) {
        write(area, place)?;
    }
    if durably {
        area.flush()?;
    }
    write(area, valid)?;
    area.flush()
}

/// Attaches an area that [`format_area`] made: recovers its contents, and marks the area as in use.
/// The server and the crash enumerator both call this function. The area itself decides its size,
/// grid, mode and division; `config` decides the rest. Without a proof, copies are in doubt: each
/// is compared with home before its first use. Without a proof, free pages count as used, except
/// those that may hold bytes of replicas.
///
/// # Errors
/// If there is no area, or the area is of a newer version, damaged or of another device, or needs a
/// guard without space for one. Nothing was changed then.
pub fn attach(
    area: &mut dyn Device,
    config: Config,
    proof: &Proof,
) -> Result<(Engine, AttachReport), AttachError> {
    let mut recovered = recover(area)?;
    recovered.doubt_free(proof);
    let s = &recovered.superblock;
    if s.home_capacity != config.capacity {
        return Err(AttachError::Capacity { expected: s.home_capacity, found: config.capacity });
    }
    proof.fits(s)?;
    let needs_guard = needs_guard(s, proof);
    if needs_guard && proof.guard == HomeGuard::Missing && !proof.to_drain {
        return Err(AttachError::NoGuard);
    }
    let (engine, report) = resume(area, recovered, config, proof)?;
    let may_be_newer = needs_guard || report.dirty > 0;
    let needs_guard = may_be_newer && proof.guard != HomeGuard::SameDevice;
    Ok((engine, AttachReport { may_be_newer, needs_guard, ..report }))
}

/// An engine that goes on with the recovered area, now marked as in use.
pub(crate) fn resume(
    area: &mut dyn Device,
    r: Recovered,
    config: Config,
    proof: &Proof,
) -> Result<(Engine, AttachReport), AttachError> {
    let s = &r.superblock;
    let identity = Identity::of(s, r.plan.is_some());
    let plan_generation = s.plan_generation;
    let (clean, trusted) = (r.is_clean(), r.is_trusted(proof));
    let mut engine = Engine::with(divided_like(config, s, &r.geo), r.geo, identity, r.map);
    // After a stop in order somebody else may have written to discarded pages.
    if trusted || !clean || proof.keeps_home() {
        let most = engine.geo.segment_pages - 1;
        let places = r.places.into_iter();
        let places = places.map(|(segment, first, pages)| (segment, first, pages.min(most)));
        engine.free.resume((r.free, r.stained), places);
    } else {
        engine.forget_replicas();
    }
    engine.doubt_copies(clean, trusted);
    let ring = Ring { tail_durable: r.ring.tail, replay: r.ring.head, ..r.ring };
    // The next sequence numbers skip those that lost records may have. If the new log repeated a
    // lost record byte for byte, the old record behind it would count too.
    let sequence = r.sequence + engine.log.pages();
    engine.log.resume(ring, r.page, sequence, r.previous);
    engine.sync.home_dirty = true;
    engine.sync.log_dirty = true;
    engine.log.holds_pages = engine.copies.any_open()
        || slots(engine.geo.log_slots()).any(|slot| engine.copies.state(slot) != CopyState::Free);
    engine.find_suspects();
    engine.go_on_draining();
    // A trail takes the place of a plan.
    if let Some(wants) = r.plan
        && !engine.has_trail()
    {
        let (end, in_place) = (engine.geo.read_segments, engine.config.in_place);
        engine.background.todo.resume(wants, plan_generation, end, in_place);
    }
    if clean {
        engine.go_on_learning(s.trail_head, r.learned.as_deref());
    }
    // Background work may be due before the first request.
    engine.background.wakeup = Some(seekless_block::SimTime::ZERO);
    engine.save(area, r.valid)?;
    let report = AttachReport {
        clean,
        trusted,
        records: r.records,
        dirty: engine.copies.count(CopyState::Dirty),
        copies: engine.copies.count(CopyState::Clean),
        suspects: engine.copies.count(CopyState::Suspect),
        incomplete: r.incomplete.iter().map(|i| i.homes.len() as u64).sum(),
        missing: r.incomplete.iter().any(|i| i.homes.is_empty()),
        generation: engine.identity.generation,
        may_be_newer: false,
        needs_guard: false,
    };
    Ok((engine, report))
}

/// The configuration after an attach: the superblock decides these values, not the driver.
pub fn divided_like(config: Config, s: &Superblock, geo: &Geometry) -> Config {
    let (write_buffer_percent, replicas) = geo.contents(s.area_size).parts();
    Config {
        area: s.area_size,
        grid: Sectors(s.grid.into()),
        segment_pages: s.segment_pages,
        mode: s.mode,
        write_buffer_percent,
        replicas,
        ..config
    }
}

impl Engine {
    /// Which of the found copies this attach trusts.
    fn doubt_copies(&mut self, clean: bool, trusted: bool) {
        for slot in slots(0..self.geo.slots()) {
            match (self.copies.state(slot), self.copies.is_log(slot)) {
                (CopyState::Free, _) => {}
                // Of the log's copies only dirty ones are kept: a copy that is at home could count
                // as newer after a crash.
                (CopyState::Clean | CopyState::Suspect, true) if clean => self.copies.clear(slot),
                (_, true) => self.copies.set_state(slot, CopyState::Dirty),
                // Newer than home, or not known to be older.
                (CopyState::Dirty, false) => self.open_at_once(slot),
                (_, false) if trusted => {}
                (_, false) => self.copies.set_state(slot, CopyState::Suspect),
            }
        }
    }

    /// The moment of a checkpoint that begins now: the other place, the next generation.
    pub(crate) fn moment(&self, mode: Mode, stamp: Option<[u8; 32]>) -> Moment {
        Moment {
            dirty: self.may_be_dirty(mode),
            stamp,
            mode,
            checkpoint_slot: 1 - self.identity.checkpoint_slot,
            checkpoint_generation: self.identity.checkpoint_generation + 1,
            position: self.log.position(),
            tail: self.log.ring.tail_durable,
            plan: self.background.todo.plan(),
            trail_head: 0,
            learned: 0,
            in_place: self.config.in_place && mode == Mode::WriteBack || self.copies.any_open(),
        }
    }

    /// Whether an attach may find data that home lacks.
    pub(crate) fn may_be_dirty(&self, mode: Mode) -> bool {
        mode == Mode::WriteBack || self.copies.count(CopyState::Dirty) > 0 || self.copies.any_open()
    }

    /// Writes a checkpoint at once, and a superblock that marks the area as in use. The copy in page
    /// `valid` is written last.
    fn save(&mut self, area: &mut dyn Device, valid: u64) -> Result<(), AttachError> {
        // The superblock that was found may be in a cache alone, if a server died. The one before it
        // names the checkpoint that is overwritten here.
        area.flush()?;
        let free = self.free_now(std::iter::empty());
        let moment = Moment { plan: self.identity.plan, ..self.moment(self.state.mode(), None) };
        let mut pages = CheckpointPages::new(moment, free);
        let mut buffer: Vec<u8> = Vec::new();
        self.background.scrub.forget_writes();
        while let Some(start) = pages.place(self) {
            loop {
                let mut page: Page = [0; PAGE_BYTES as usize];
                pages.encode(self, &mut page);
                if start < self.geo.plan_at() {
                    let at = start + buffer.len() as u64 / PAGE_BYTES;
                    self.background.scrub.writes(at, page_sum(&page));
                }
                buffer.extend_from_slice(&page);
                if pages.begins_region() || buffer.len() >= WRITE_BYTES {
                    break;
                }
            }
            area.write(page_extent(start, buffer.len() as u64 / PAGE_BYTES), &buffer)?;
            buffer.clear();
        }
        let moment = pages.moment;
        area.flush()?;
        self.identity.generation += 1;
        let superblock = self.identity.superblock(&self.config, &self.geo, &moment);
        write_superblock(area, &superblock, valid, true)?;
        let mut page: Page = [0; PAGE_BYTES as usize];
        superblock.encode(&mut page);
        let sum = page_sum(&page);
        superblock.places().into_iter().for_each(|at| self.background.scrub.writes(at, sum));
        self.background.scrub.metadata_is_saved();
        self.identity.checkpoint_slot = moment.checkpoint_slot;
        self.identity.checkpoint_generation = moment.checkpoint_generation;
        Ok(())
    }
}
