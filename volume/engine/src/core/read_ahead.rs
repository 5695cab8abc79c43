//! How far a miss reads on, and whether it goes home or to the trail. The adaptive policy chooses
//! both; without the policy, a miss reads a fixed length at home. The policy learns of all work of
//! the engine in this module.

use std::ops::Range;

use seekless_block::{
    Bytes, Duration, Extent, Op, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors, SimTime,
};
use seekless_learn::{Adaptive, Prefetched, View as _, WindowId, Work};

use super::pace::Pace;
use super::page_map::{HomePage, Slot, pages};
use super::ram_and_trail::RamAndTrail;
use super::ram_cache::{Inserted, PageGrid};
use super::read::{NewestAt, Read};
use super::vanilla_ram::VanillaRam;
use crate::area::attach::Moment;
use crate::background::Job;
use crate::format::Geometry;
use crate::{Class, Config, Engine, Pending, Target};

/// Most pages of the disk whose uses are remembered: about 18 MiB of memory.
const REMEMBERED: u64 = 1 << 20;
/// Most copies of a page in the trail: each search for one of them walks past the others.
const COPIES: usize = 16;
/// A read of the trail must save this much more than a read at home, ms.
const MARGIN: f32 = 1.0;
/// Longest read along of a window where clients leave time between their requests: 64 KiB.
const ALONG_PIECE: Sectors = Sectors(16 * PAGE_SECTORS);
/// Most transfer time of all pages that reads in flight take along, ms.
const ALONG_MOST: f32 = 1000.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) slot: Slot,
    /// Slots to read.
    pub(super) slots: u32,
    /// Of them, those that hold the demanded pages: the first ones.
    pub(super) must: u32,
    /// The read that it continues.
    pub(super) continues: Option<u32>,
    /// The pages stand in another order than the demanded one.
    pub(super) scattered: bool,
}

/// The adaptive policy at work.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) policy: Adaptive,
    vanilla: VanillaRam,
    /// The copy that was chosen for the read that is about to be sent.
    pub(super) chosen: Option<Chosen>,
    /// When the last I/O ended, or when work began after that.
    pub(super) works_since: SimTime,
    /// Sectors that reads in flight take along.
    along: Sectors,
    /// Reads in flight that no client waits for.
    alongs: u32,
    /// Operations of I/Os that are no reads for clients, and that have not been counted.
    others: (u64, u64),
    pub(crate) pace: Pace,
}

fn along(read: &Read) -> Sectors {
    let chosen = read.window != WindowId::default();
    Sectors(if chosen { read.io.len.0.saturating_sub(read.wanted.len.0) } else { 0 })
}

impl Ahead {
    pub(super) fn new(geo: &Geometry, pages: u32, keeps_trail: bool, config: &Config) -> Self {
        let Config { capacity, toll, .. } = config;
        let trail = if keeps_trail { geo.read_slots() } else { 0 };
        let remembered = REMEMBERED.min(4 * capacity.0.div_ceil(PAGE_SECTORS));
        let mut policy = Adaptive::new(pages, remembered, trail);
        if !toll.is_none() {
            // A longer read is more operations.
            let one = toll.counts(Duration::ZERO, 1, 0).as_millis_f64();
            let pages = toll.operation.0 as f64 / PAGE_SECTORS as f64;
            policy.count_pages(!toll.merges, if pages > 0.0 { (one / pages) as f32 } else { 0.0 });
        }
        let grid = PageGrid::new(config.grid);
        Self {
            policy,
            vanilla: VanillaRam::new(pages, grid, config.buffer_bytes),
            chosen: None,
            along: Sectors(0),
            alongs: 0,
            others: (0, 0),
            pace: Pace::default(),
            works_since: SimTime::ZERO,
        }
    }
}

impl Engine {
    /// Counts of prefetched pages.
    pub fn prefetched(&self) -> Option<Prefetched> {
        self.ahead.as_ref().map(|ahead| ahead.policy.counts())
    }

    /// Where the trail is written next, and its size; `None` without a trail.
    pub fn trail(&self) -> Option<(Bytes, Bytes)> {
        let keeps = self.ahead.is_some() && self.config.keeps_trail() && self.free.takes_plans();
        let bytes = |slots: u32| Bytes(u64::from(slots) * PAGE_BYTES);
        let size = bytes(self.geo.read_slots());
        (keeps && size.0 > 0).then(|| (bytes(self.background.trail.head()), size))
    }

    /// The adaptive policy, if it is in use: a caller may tell it the future.
    pub fn adaptive(&mut self) -> Option<&mut Adaptive> {
        self.ahead.as_mut().map(|ahead| &mut ahead.policy)
    }

    /// Whether the area's read segments are the trail's alone: no plan is installed there.
    pub(crate) fn has_trail(&self) -> bool {
        self.ahead.is_some() && self.free.takes_plans()
    }

    /// At a detach in order: writes the trail's head into `moment`, and returns the learned data.
    pub(crate) fn learned(&self, moment: &mut Moment) -> Vec<u8> {
        let Some(ahead) = self.ahead.as_ref().filter(|_| self.has_trail()) else {
            return Vec::new();
        };
        if moment.stamp.is_none() || moment.plan != 0 {
            return Vec::new();
        }
        moment.trail_head = self.background.trail.head();
        ahead.policy.learned(self.geo.learned_most() as usize)
    }

    /// After a detach in order: the trail continues, and the policy uses its learned data, or
    /// starts without data.
    pub(crate) fn go_on_learning(&mut self, head: u32, learned: Option<&[u8]>) {
        if self.has_trail() {
            self.background.trail.resume(head, self.geo.segment_pages);
            if let (Some(ahead), Some(bytes)) = (&mut self.ahead, learned) {
                ahead.policy.learn_again(bytes);
            }
        }
    }

    /// Empties RAM. The adaptive policy learns nothing from the pages that stood there.
    pub fn empty_ram(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            (0..self.cache.pages()).for_each(|slot| ahead.policy.dropped(slot));
            ahead.policy.ram_emptied();
            ahead.vanilla.forgets(Extent::new(0, self.config.capacity.0));
        }
        self.cache.invalidate(Extent::new(0, self.config.capacity.0), |_| {});
    }

    /// The policy and its view of RAM and trail.
    fn seen(&mut self) -> Option<(&mut Ahead, RamAndTrail<'_>)> {
        let ahead = self.ahead.as_deref_mut()?;
        let (head, slots) = (self.background.trail.head(), self.geo.read_slots());
        Some((ahead, RamAndTrail { cache: &self.cache, copies: &self.copies, head, slots }))
    }

    /// Whether the policy chooses the way and the length of this read.
    fn is_chosen(&self, wanted: Extent) -> bool {
        self.ahead.is_some()
            && !self.bypass
            && self.free.takes_plans()
            && wanted.bytes().0 + 2 * PAGE_BYTES <= self.config.buffer_bytes.0
            && !self.reads_much_along()
    }

    /// Whether reads in flight prefetch more pages than may be in flight without a known outcome.
    fn reads_much_along(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| {
            let pages = ahead.along.0 / PAGE_SECTORS;
            ahead.policy.transfer_ms() * pages as f32 > ALONG_MOST
        })
    }

    /// Pages that a read at home may take along: up to the nearest pages that other reads bring.
    fn limits(&self, demanded: &Range<u64>) -> Range<u64> {
        let end = self.cache.grid.pages(Extent::new(0, self.config.capacity.0)).end;
        let mut limits = 0..end;
        for io in &self.fills {
            if let Some(Pending::Read(read)) = self.pending[io.0 as usize]
                && read.from.is_none()
            {
                let pages = self.cache.grid.pages(read.io);
                if pages.start >= demanded.end {
                    limits.end = limits.end.min(pages.start);
                } else if pages.end <= demanded.start {
                    limits.start = limits.start.max(pages.end);
                }
            }
        }
        limits
    }

    /// First slots of reads of the trail in flight, of eight at most.
    fn trail_reads(&self) -> [u32; 8] {
        let mut slots = [0; 8];
        let reads = self.fills.iter().filter_map(|io| match self.pending[io.0 as usize] {
            Some(Pending::Read(read)) => read.from,
            _ => None,
        });
        slots.iter_mut().zip(reads).for_each(|(to, slot)| *to = slot.0);
        slots
    }

    /// The trail gets a copy of this page: of [`COPIES`] copies, the oldest one goes. Copies before
    /// this `head` of the ring are new.
    pub(crate) fn make_way_for_copy(&mut self, page: HomePage, head: u32) {
        let slots = self.geo.read_slots();
        loop {
            let seen = RamAndTrail { cache: &self.cache, copies: &self.copies, head, slots };
            // An open copy may be newer than home: only a durable record closes it.
            let goes = |slot: &Slot| seen.is_copy(*slot) && !self.copies.is_open(*slot);
            let copies = || self.copies.find_all(page).filter(goes);
            let oldest = copies().max_by_key(|slot| seen.behind_head(slot.0));
            let Some(oldest) = oldest.filter(|_| copies().count() >= COPIES) else { return };
            self.copies.clear(oldest);
        }
    }

    /// Compares a read at home with a read of the trail.
    pub(super) fn weigh(&mut self, found: NewestAt, wanted: Extent) -> NewestAt {
        let homes = self.pages_of(wanted);
        let on_grid = self.home_of(homes.start, homes.end - homes.start).contains(wanted);
        let is_weighed = match found {
            NewestAt::Copy(slot) => {
                let dirty = |page| self.copies.is_dirty(HomePage(page));
                let home_is_older = self.copies.any_open() && homes.clone().any(dirty);
                !home_is_older && !self.copies.is_log(slot)
            }
            NewestAt::Home => on_grid && self.copies.len() > 0,
            NewestAt::Zeroes | NewestAt::Pieces => false,
        };
        if !is_weighed {
            return found;
        }
        if !self.is_chosen(wanted) {
            // Home has the bytes of the trail too.
            return if self.has_trail() { NewestAt::Home } else { found };
        }
        let demanded = self.cache.grid.pages(wanted);
        let (limits, most) = (self.limits(&demanded), self.config.buffer_bytes.0 / PAGE_BYTES);
        let in_flight = self.trail_reads();
        let Some((ahead, seen)) = self.seen() else { return found };
        seen.copies.warm(pages(homes.clone()));
        let copies = seen.copies.find_all(HomePage(homes.start));
        let copies = copies.filter(|&slot| seen.is_copy(slot)).map(|slot| slot.0).take(COPIES);
        let Some(choice) = ahead.policy.choose_copy(copies, &seen) else { return NewestAt::Home };
        let (slot, _, continues) = choice;
        // The slots behind the head are overwritten next.
        let end = if slot < seen.head { seen.head } else { seen.slots };
        let others = in_flight.into_iter().filter(|&first| first > slot);
        let end = others.fold(end.min(slot + most as u32), u32::min);
        let Some((must, scattered)) = seen.reach(slot, homes, end) else { return NewestAt::Home };
        let slots = (must, end - slot);
        let (along, reach) = ahead.policy.weigh_trail(&demanded, choice, slots, &seen);
        if continues.is_none() {
            let home = ahead.policy.weigh_home(&demanded, limits, most, &seen);
            if home > along - MARGIN - ahead.policy.way_to_trail() {
                return NewestAt::Home;
            }
        }
        let slot = Slot(slot);
        ahead.chosen = Some(Chosen { slot, slots: reach, must, continues, scattered });
        NewestAt::Copy(slot)
    }

    /// The chosen copies, if they must come to RAM before the client gets them.
    pub(super) fn chosen_scattered(&mut self) -> Option<Chosen> {
        let chosen = &mut self.ahead.as_mut()?.chosen;
        if chosen.is_some_and(|chosen| chosen.scattered) { chosen.take() } else { None }
    }

    /// A read of the trail is sent, of these slots.
    pub(super) fn goes_along(&mut self, wanted: Extent, chosen: Chosen) -> WindowId {
        let demanded = self.cache.grid.pages(wanted);
        let end = chosen.slot.0 + chosen.slots;
        self.ahead.as_mut().map_or_else(WindowId::default, |ahead| {
            ahead.policy.go_along(&demanded, end, chosen.continues)
        })
    }

    /// The sectors that a miss reads at home: the demanded sectors and the read-ahead.
    pub(super) fn home_window(&mut self, wanted: Extent) -> (Extent, WindowId) {
        if self.is_chosen(wanted) {
            return self.learned_window(wanted);
        }
        let aside = self.bypass || self.reads_much_along();
        let mut window = self.fixed_window(wanted);
        if aside {
            self.note_aside(wanted);
        }
        if let Some(ahead) = self.ahead.as_ref().filter(|_| self.bypass) {
            let rest = Extent::span(wanted.end().0, window.end().0);
            window.len = wanted.len + ahead.vanilla.prefix(rest);
        }
        (window, WindowId::default())
    }

    /// A miss for which the policy chooses nothing.
    fn note_aside(&mut self, wanted: Extent) {
        let demanded = self.cache.grid.pages(wanted);
        let (limits, most) = (self.limits(&demanded), self.config.buffer_bytes.0 / PAGE_BYTES);
        let bypass = self.bypass;
        if let Some((ahead, seen)) = self.seen() {
            ahead.policy.stood_aside(&demanded, limits, most, &seen);
            if bypass {
                ahead.policy.append_nothing();
            }
        }
    }

    /// The sectors that the vanilla system reads for a miss.
    fn fixed_window(&self, wanted: Extent) -> Extent {
        let ahead = self.config.read_ahead.0 / SECTOR_BYTES;
        let mut end = (wanted.start.0.saturating_add(ahead)).min(self.config.capacity.0);
        if end > wanted.end().0 {
            // A discarded page reads as zeroes, and home may hold other bytes.
            let behind = self.pages_of(wanted).end;
            if let Some(page) = self.free.next(behind) {
                end = end.min(self.home_of(page, 1).start.0);
            }
        }
        Extent::span(wanted.start.0, end.max(wanted.end().0))
    }

    /// A client reads: the vanilla system would serve the read too.
    pub(super) fn note_read_request(&mut self, extent: Extent) {
        let Some(ahead) = &self.ahead else { return };
        let miss = ahead.vanilla.miss(extent);
        let window = self.fixed_window(miss);
        if let Some(ahead) = &mut self.ahead {
            ahead.vanilla.reads(extent, miss, window);
        }
    }

    /// RAM keeps a write: the vanilla system's RAM would keep it too.
    pub(super) fn note_kept(&mut self, extent: Extent) {
        if let Some(ahead) = &mut self.ahead {
            ahead.vanilla.keeps(extent);
        }
    }

    fn learned_window(&mut self, wanted: Extent) -> (Extent, WindowId) {
        let capacity = self.config.capacity.0;
        let demanded = self.cache.grid.pages(wanted);
        let (limits, most) = (self.limits(&demanded), self.config.buffer_bytes.0 / PAGE_BYTES);
        let Some((ahead, seen)) = self.seen() else { return (wanted, WindowId::default()) };
        if !ahead.policy.has_weighed_home(&demanded) {
            ahead.policy.weigh_home(&demanded, limits, most, &seen);
        }
        let (pages, window) = ahead.policy.go_home(&demanded);
        let whole = self.cache.grid.extent(pages);
        (Extent::span(whole.start.0, whole.end().0.min(capacity)), window)
    }

    /// Another read brings a part of the window.
    pub(super) fn share_window(&mut self, window: WindowId) {
        if let Some(ahead) = &mut self.ahead {
            ahead.policy.share(window);
        }
    }

    pub(super) fn note_hit(&mut self, slot: u32, page: u64) {
        if let Some((ahead, seen)) = self.seen() {
            ahead.policy.hit(slot, page, seen.cache.oldest(), &seen);
        }
    }

    /// RAM got a page: the page of this number of a window, or a demanded page.
    pub(super) fn note_insert(
        &mut self,
        inserted: Inserted,
        page: u64,
        from: Option<(WindowId, u32)>,
    ) {
        let Some(ahead) = &mut self.ahead else { return };
        if let Some(evicted) = inserted.evicted {
            ahead.policy.evicted(inserted.slot, evicted);
        }
        if inserted.is_new {
            ahead.policy.fill(inserted.slot, page, from, inserted.evicted.is_some());
        }
    }

    /// Whether the ledger counts the uses of a read, and so its time: not for pages of the write
    /// buffer, and not for a read that goes past RAM.
    fn counts_uses(&self, read: &Read) -> bool {
        let from_log = read.from.is_some_and(|slot| self.copies.is_log(slot));
        !read.wanted.is_empty() && read.buffer.is_some() && !from_log
    }

    /// The pages that a client waited for came to RAM. A policy that stands aside counts them too:
    /// the ledger compares the time of reads at home with their number.
    pub(super) fn note_came(&mut self, read: &Read) {
        let counts = self.counts_uses(read);
        let Some(ahead) = self.ahead.as_mut().filter(|_| counts) else { return };
        ahead.policy.came(self.cache.grid.pages(read.wanted), read.from.is_some());
        if self.bypass {
            ahead.policy.append_nothing();
        }
    }

    /// A client writes: RAM forgets the former bytes.
    pub(crate) fn note_write(&mut self, extent: Extent) {
        let (cache, ahead) = (&mut self.cache, &mut self.ahead);
        let Some(ahead) = ahead else { return cache.invalidate(extent, |_| {}) };
        let Range { start, end } = cache.grid.pages(extent);
        // A discard may span the whole device.
        ahead.policy.wrote(start..end.min(start.saturating_add(u64::from(cache.pages()))));
        cache.invalidate(extent, |slot| ahead.policy.dropped(slot));
        ahead.vanilla.forgets(extent);
    }

    /// Whether I/Os in flight are clients': not only pages that are read along.
    fn clients_have_io(&self) -> bool {
        let alongs = self.ahead.as_ref().map_or(0, |ahead| ahead.alongs);
        self.clients_io() > alongs
    }

    /// Whether clients ask without a pause.
    pub(crate) fn presses(&self) -> bool {
        self.ahead.as_ref().is_none_or(|ahead| ahead.pace.presses())
    }

    pub(super) fn note_asked(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.pace.asked(self.now);
        }
    }

    /// Notes whether a client waits for an I/O.
    pub(super) fn note_pace(&mut self) {
        let (now, waits) = (self.now, self.clients_have_io() || !self.waiting.is_empty());
        if let Some(ahead) = &mut self.ahead {
            ahead.pace.look(now, waits);
        }
    }

    /// The part of a window to read next, and the part that may follow. If clients send requests
    /// without pause, the whole window is one read, because read-ahead saves these clients more
    /// time than it costs. Otherwise the next read is a short piece: a new request then waits for
    /// this piece at most.
    pub(super) fn piece_of(&self, rest: Sectors) -> (Sectors, Sectors) {
        let first = if self.presses() { rest } else { rest.min(ALONG_PIECE) };
        (first, rest - first)
    }

    /// A piece of a window was read along. The next one follows unless a client waits.
    pub(super) fn read_on(&mut self, read: &Read) {
        if read.more == Sectors(0) || self.clients_have_io() {
            return;
        }
        let (len, more) = self.piece_of(read.more);
        let pages = |io: Extent| self.cache.grid.pages(io).start;
        let io = Extent { start: read.io.end(), len };
        let from = read.from.map(|slot| slot + (read.io.len.0 / PAGE_SECTORS) as u32);
        let on = match from {
            Some(_) => (read.io.len.0 / PAGE_SECTORS) as u32,
            None => (pages(io) - pages(read.io)) as u32,
        };
        let window_at = read.window_at + on;
        self.share_window(read.window);
        self.submit_read(Read { io, more, from, window_at, ..*read }, read.again());
    }

    pub(super) fn note_sent(&mut self, read: &Read) {
        if let Some(ahead) = &mut self.ahead {
            ahead.along += along(read);
            ahead.alongs += u32::from(read.wanted.is_empty());
        }
    }

    /// A read has ended, and with it perhaps a window.
    pub(super) fn end_window(&mut self, read: &Read) {
        if let Some(ahead) = &mut self.ahead {
            ahead.along -= along(read);
            ahead.alongs -= u32::from(read.wanted.is_empty());
            ahead.policy.end(read.window);
        }
    }

    /// An I/O is sent. Reads for clients are counted when they end.
    pub(crate) fn note_submit(&mut self, (target, op, extent): (Target, Op, Extent), class: Class) {
        let counts = self.counts_operations(target);
        if let Some(ahead) = self.ahead.as_mut().filter(|_| counts) {
            let toll = &self.config.toll;
            let operations = toll.operations(extent.len);
            match op {
                Op::Read if class.is_background() => ahead.others.0 += operations,
                Op::Write | Op::WriteZeroes => {
                    ahead.others.0 += if toll.rewrites { operations } else { 0 };
                    ahead.others.1 += operations;
                }
                Op::Read | Op::Discard | Op::Flush => {}
            }
        }
    }

    /// Whether operations there cost more than their time.
    fn counts_operations(&self, target: Target) -> bool {
        let toll = &self.config.toll;
        !toll.is_none() && (toll.area || target == Target::Home)
    }

    /// Whether one read gets the demanded pages and the read-ahead. Here two reads would cost twice
    /// as much.
    pub(super) fn reads_as_one(&self, target: Target) -> bool {
        self.counts_operations(target) && !self.config.toll.merges
    }

    /// An I/O begins, and no other one is in flight.
    pub(super) fn note_begin(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.works_since = self.now;
        }
    }

    /// An I/O ended: the disk worked since the one before it ended, or since this one began.
    pub(super) fn note_work(&mut self, ended: &Pending) {
        let writes_trail = matches!(self.background.job, Job::Trail(_));
        let counts = matches!(ended, Pending::Read(read) if self.counts_uses(read));
        let toll = self.config.toll;
        let Some(ahead) = &mut self.ahead else { return };
        let took = self.now.since(ahead.works_since);
        ahead.works_since = self.now;
        let (reads, writes) = match ended {
            Pending::Read(read) if toll.area || read.target == Target::Home => {
                let goes_on = toll.merges && read.wanted.is_empty();
                (toll.operations(read.io.len) - u64::from(goes_on), 0)
            }
            Pending::Read(_) => (0, 0),
            _ => std::mem::take(&mut ahead.others),
        };
        let took = toll.counts(took, reads, writes).as_millis_f64();
        let work = match ended {
            Pending::Read(read) => {
                let pages = read.io.len.0.div_ceil(PAGE_SECTORS);
                match (read.target, read.wanted.is_empty()) {
                    (Target::Home, true) => Work::HomeAlong { pages },
                    (Target::Area, true) => Work::TrailAlong,
                    (Target::Home, false) if !counts => Work::HomeOther,
                    _ if !counts => Work::Other,
                    (Target::Home, false) => Work::HomeRead { pages },
                    (Target::Area, false) => Work::TrailRead { pages },
                }
            }
            Pending::Background(_) | Pending::SyncArea | Pending::Record(_) if writes_trail => {
                Work::TrailWrite
            }
            Pending::HomeWrite(_) | Pending::Part(_) | Pending::Edge(_) | Pending::Homeward(_) => {
                Work::HomeOther
            }
            _ => Work::Other,
        };
        ahead.policy.worked(work, took);
    }
}
