//! Making writes durable, one round at a time. A round serves all requests that arrived since the
//! last round began. The round flushes home, writes records (tombstones, free pages, the log's
//! tail), and flushes the area.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use seekless_block::{Duration, Extent, Op};

use crate::core::page_map::{CopyState, HomePage, Slot, slots};
use crate::core::write_order::Mark;
use crate::format::{Content, PageSum, Tombstone};
use crate::write_buffer::ring::{Ring, Segment};
use crate::{Class, Engine, IoId, Mode, Pending, RequestId, RequestOrigin, Target};

/// Void pages from which on the log learns of them without a client's flush.
const VOIDS_MOST: usize = 1 << 16;

/// A request that waits for a round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    /// A client's flush.
    Flush(RequestId),
    /// A client's write with FUA.
    Write(RequestId, Extent),
    /// A window of a move, by its number.
    Move(u64),
    /// No client: the log's tail has moved, and the area must know.
    Tail,
    /// Writes that wait until their regions are open: see `free_space`.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundPhase {
    Home,
    Records { left: u32 },
    Area,
}

/// Home pages whose entries in the log are void, though the log does not durably know.
type Voids = FxHashMap<u64, Void>;

/// The void entry of a page. Its bytes stand in the area until the tail of the log passes them.
#[derive(Clone, Copy, Debug)]
struct Void {
    /// The slot with these bytes, and their sum; `None` once the slot is used again.
    copy: Option<(Slot, PageSum)>,
    /// A flush of home that covers this change has home's bytes on stable storage.
    change: u64,
}

#[derive(Debug)]
struct Round {
    waiters: Vec<Waiter>,
    voids: Voids,
    phase: RoundPhase,
    flushes: u32,
    ok: bool,
    home: HomeFlush,
    /// Flushes of the area that had failed when the round began.
    area_failures: u64,
    /// Sequence and tail that the flush of the area makes durable.
    covers: (u64, Segment),
}

/// A flush of home, from its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HomeFlush {
    /// The changes at home that it covers.
    changes: u64,
    /// Flushes that had failed then.
    failures: u64,
}

/// Which changes at home a flush has covered. After a failed flush, Linux forgets pages that it could
/// not write, and the next flush succeeds without them.
#[derive(Debug, Default)]
pub(crate) struct HomeFlushes {
    /// The changes so far: writes of clients that have ended at home, and pages of which home now
    /// counts instead of the log.
    changes: u64,
    /// Of these, changes that a flush has covered.
    covered: u64,
    /// How many flushes failed.
    pub(crate) failures: u64,
    /// When the last one failed. A write that was in flight then may be forgotten too.
    pub(crate) failed_at: Mark,
    /// A flush failed that no client waited for: the next flush of a client fails.
    untold: bool,
}

impl HomeFlushes {
    pub(crate) const fn begin(&self) -> HomeFlush {
        HomeFlush { changes: self.changes, failures: self.failures }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sync {
    waiting: Vec<Waiter>,
    /// Flushes that wait until all records before this number have ended: their writes are
    /// acknowledged.
    behind: VecDeque<(u64, RequestId)>,
    /// An acknowledged write was lost: every flush fails.
    pub(crate) lost: bool,
    pub(crate) home: HomeFlushes,
    round: Option<Round>,
    voids: Voids,
    pub(crate) home_dirty: bool,
    pub(crate) log_dirty: bool,
    /// How many flushes of the area failed.
    pub(crate) area_failures: u64,
    /// The same, while the area might have newer bytes than home.
    pub(crate) area_client_failures: u64,
    /// A flush of the area failed that no client waited for: the next flush of a client fails.
    area_untold: bool,
    /// When the last one failed. The record of a write that was in flight then may be lost.
    area_failed_at: Mark,
}

impl Sync {
    /// A client's write has ended at home.
    pub(crate) const fn wrote_home(&mut self) {
        self.home_dirty = true;
        self.home.changes += 1;
    }

    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.waiting.push(waiter);
    }

    /// Writes wait until their regions are open. Each of their tries asks for this, and one waiter is
    /// enough for all of them.
    pub(crate) fn wait_for_open(&mut self) {
        // The waiters between two of these are requests and jobs, whose number is bounded.
        if !matches!(self.waiting.last(), Some(Waiter::Open)) {
            self.wait(Waiter::Open);
        }
    }

    #[cfg(test)]
    pub(crate) const fn waiters(&self) -> usize {
        self.waiting.len()
    }

    /// Whether clients wait for the round that runs, or for the next one.
    pub(crate) fn has_clients(&self) -> bool {
        let is_client =
            |w: &Waiter| matches!(w, Waiter::Flush(_) | Waiter::Write(..) | Waiter::Open);
        let mut all = self.round.iter().flat_map(|r| &r.waiters).chain(&self.waiting);
        !self.behind.is_empty() || all.any(is_client)
    }

    /// Whether a flush failed that no client knows of; now one does.
    fn take_untold(&mut self) -> bool {
        std::mem::take(&mut self.home.untold) | std::mem::take(&mut self.area_untold)
    }

    /// Whether the record of a write that ends now may be lost. Then the next flush of a client fails.
    pub(crate) fn is_record_in_doubt(&mut self, mark: Mark) -> bool {
        let doubt = mark < self.area_failed_at;
        self.area_untold |= doubt;
        doubt
    }

    fn all_voids(&mut self) -> impl Iterator<Item = &mut Voids> {
        self.round.iter_mut().map(|round| &mut round.voids).chain([&mut self.voids])
    }

    /// These slots of the log are used again.
    pub(crate) fn reuses(&mut self, slots: &std::ops::Range<u32>) {
        for void in self.all_voids().flat_map(|voids| voids.values_mut()) {
            void.copy = void.copy.filter(|(slot, _)| !slots.contains(&slot.0));
        }
    }

    /// The bytes of a void page stand in another slot too, and recovery finds them there.
    pub(crate) fn moves_void(&mut self, page: u64, from: Slot, to: Slot) {
        for void in self.all_voids().filter_map(|voids| voids.get_mut(&page)) {
            void.copy = void.copy.map(|(slot, sum)| (if slot == from { to } else { slot }, sum));
        }
    }

    /// A flush of home failed: takes out the void pages that home may lack, with their bytes in the
    /// area.
    fn take_lost(&mut self) -> Vec<(HomePage, Slot, PageSum)> {
        let covered = self.home.covered;
        let mut lost = Vec::new();
        for voids in self.all_voids() {
            voids.retain(|&page, void| {
                let copy = void.copy.filter(|_| void.change > covered);
                lost.extend(copy.map(|(slot, sum)| (HomePage(page), slot, sum)));
                copy.is_none()
            });
        }
        lost.sort_unstable();
        lost
    }

    /// Whether one of these pages is void, and the log does not durably know. An entry absorbed now
    /// could count as void as well.
    pub(crate) fn is_void(&self, pages: &std::ops::Range<u64>) -> bool {
        let round = self.round.as_ref().map(|round| &round.voids);
        [Some(&self.voids), round].into_iter().flatten().any(|voids| {
            // A discard may span the whole device: walk the shorter one.
            if pages.end.saturating_sub(pages.start) > voids.len() as u64 {
                voids.keys().any(|page| pages.contains(page))
            } else {
                pages.clone().any(|page| voids.contains_key(&page))
            }
        })
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.round.as_ref().map_or(0, |round| round.flushes)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.round.is_none() && self.waiting.is_empty() && self.behind.is_empty()
    }

    /// Whether the log has yet to learn of a void page.
    pub(crate) fn has_voids(&self) -> bool {
        !self.voids.is_empty() || self.round.is_some()
    }
}

impl Engine {
    pub(crate) fn flush(&mut self, id: RequestId, asked: RequestOrigin) {
        let log = self.area_counts()
            && (self.log_in_use()
                || self.sync.log_dirty
                || self.sync.has_voids()
                || !self.sync.is_idle()
                || self.free.map.is_pending()
                || self.log.failed);
        if log && self.config.gather > Duration::ZERO {
            self.log.hurry = true;
            self.sync.behind.push_back((self.log.next_number(), id));
            self.flush_what_ended();
        } else if log {
            self.sync.wait(Waiter::Flush(id));
        } else {
            // Only home has unflushed data.
            let io = self.start(Pending::Flush { id, flush: self.sync.home.begin() });
            self.submit(io, Target::Home, Op::Flush, Extent::default(), asked, None);
        }
    }

    /// Sends on the flushes whose records have ended.
    pub(crate) fn flush_what_ended(&mut self) {
        while let Some(&(number, id)) = self.sync.behind.front()
            && self.log.has_ended(number)
        {
            self.sync.behind.pop_front();
            self.sync.wait(Waiter::Flush(id));
        }
    }

    /// Begins a round if somebody waits. A failed record may still be found by recovery. Until a
    /// checkpoint leaves such a record behind, nothing newer can become durable: all wait for the
    /// checkpoint or its failure.
    pub(crate) fn pump_sync(&mut self) {
        if self.sync.round.is_some() || self.sync.waiting.is_empty() || self.log.failed {
            return;
        }
        let waiters = std::mem::take(&mut self.sync.waiting);
        let voids = std::mem::take(&mut self.sync.voids);
        let mark = waiters.iter().any(|w| matches!(w, Waiter::Move(_) | Waiter::Tail));
        let free = self.free.begin_round(!voids.is_empty() || mark);
        let records = free || !voids.is_empty() || mark;
        let home = self.sync.home_dirty || records;
        let mut round = Round {
            waiters,
            voids,
            phase: RoundPhase::Home,
            flushes: 0,
            ok: true,
            home: self.sync.home.begin(),
            area_failures: self.sync.area_failures,
            covers: self.log.ended,
        };
        self.sync.home_dirty &= !home;
        let area = !records && self.sync.log_dirty;
        if !records {
            round.phase = RoundPhase::Area;
        }
        round.flushes = u32::from(home) + u32::from(area);
        let nothing = round.flushes == 0;
        self.sync.round = Some(round);
        if home {
            let io = self.start(Pending::SyncHome);
            self.submit_sync(io, Target::Home);
        }
        if area {
            self.flush_area();
        }
        if nothing {
            self.end_round();
        }
    }

    fn flush_area(&mut self) {
        self.sync.log_dirty = false;
        let io = self.start(Pending::SyncArea);
        self.submit_sync(io, Target::Area);
    }

    fn submit_sync(&mut self, io: IoId, target: Target) {
        let mut waiters = self.sync.round.iter().flat_map(|r| &r.waiters);
        let client =
            waiters.any(|w| matches!(w, Waiter::Flush(_) | Waiter::Write(..) | Waiter::Open));
        let class = if client { Class::Foreground } else { self.class_of_records() };
        let (extent, origin) = (Extent::default(), RequestOrigin::default());
        self.submit_as(class, io, target, Op::Flush, extent, origin, None);
    }

    pub(crate) fn sync_home_done(&mut self, ok: bool) {
        let flush = self.sync.round.as_ref().map_or_else(HomeFlush::default, |round| round.home);
        let ok = self.home_flushed(flush, ok);
        self.sync.home_dirty |= !ok;
        let Some(round) = &mut self.sync.round else { return };
        round.flushes -= 1;
        round.ok &= ok;
        if round.phase == RoundPhase::Area {
            if round.flushes == 0 {
                self.end_round();
            }
            return;
        }
        if !round.ok {
            self.end_round();
            return;
        }
        let mut records: Vec<Content> =
            Content::pieces(&runs(&round.voids), Content::Tombstones).collect();
        records.extend(self.free.map.records());
        if records.is_empty() {
            records.push(Content::Data(Vec::new())); // a mark
        }
        round.phase = RoundPhase::Records { left: records.len() as u32 };
        for content in records {
            self.log.control(content, true);
        }
        self.pump_log();
    }

    /// A record without data, with a waiter, has ended.
    pub(crate) fn control_done(&mut self, ok: bool) {
        let Some(round) = &mut self.sync.round else { return };
        let RoundPhase::Records { left } = &mut round.phase else { return };
        *left -= 1;
        round.ok &= ok;
    }

    /// Flushes the area once all records of the round have ended. The flush covers the records that
    /// ended meanwhile, and a later header says so.
    pub(crate) fn flush_records(&mut self) {
        let Some(round) = &mut self.sync.round else { return };
        if round.phase != (RoundPhase::Records { left: 0 }) {
            return;
        }
        round.phase = RoundPhase::Area;
        round.flushes = 1;
        round.covers = self.log.ended;
        self.flush_area();
    }

    pub(crate) fn sync_area_done(&mut self, ok: bool) {
        if !ok {
            self.area_flush_failed();
        }
        let failures = self.sync.area_failures;
        let Some(round) = &mut self.sync.round else { return };
        // The host may report a failure to one of the flushes in flight alone.
        let ok = ok && round.area_failures == failures;
        round.flushes -= 1;
        round.ok &= ok;
        if ok {
            self.log.durable = self.log.durable.max(round.covers.0);
            self.log.ring.tail_is_durable(round.covers.1);
        }
        if round.flushes == 0 {
            self.end_round();
        }
    }

    /// Records and copies written since the last flush of the area may be missing there. The host
    /// reports this once, to the next flush.
    pub(crate) fn area_flush_failed(&mut self) {
        let counts = self.area_counts();
        self.sync.area_failures += 1;
        self.sync.area_client_failures += u64::from(counts);
        self.sync.log_dirty = true;
        self.sync.area_untold |= counts;
        // Recovery ends at a record that is missing: nothing behind it is durable before a checkpoint.
        self.log.failed = true;
        self.sync.area_failed_at = self.writes.now();
        self.unpark_all();
        self.fail_waiting_writes();
        self.area_writes_fail = true;
        self.area_fails();
    }

    fn end_round(&mut self) {
        let Some(round) = self.sync.round.take() else { return };
        if !round.ok {
            self.sync.voids.extend(round.voids);
        }
        // A round before could not open some regions. The writes that wait for this round are not
        // among its waiters.
        let opened = self.free.end_round(round.ok);
        self.tell(round.waiters, opened, round.ok);
        self.pump_sync();
    }

    fn tell(&mut self, waiters: Vec<Waiter>, mut opened: bool, ok: bool) {
        let flush = waiters.iter().any(|w| matches!(w, Waiter::Flush(_)));
        let fails = self.sync.lost || flush && self.sync.take_untold();
        for waiter in waiters {
            match waiter {
                Waiter::Flush(id) => self.complete(id, Extent::default(), ok && !fails),
                Waiter::Write(id, extent) => self.complete(id, extent, ok),
                Waiter::Move(number) => self.background.synced = Some((number, ok)),
                Waiter::Tail if !ok => self.background.tail_failed(),
                Waiter::Tail => {
                    self.background.tail_noted();
                    self.area_works();
                }
                Waiter::Open => opened = true,
            }
        }
        if opened {
            self.opened(ok);
        }
    }

    /// A client's flush has ended that needed home alone.
    pub(crate) fn flush_done(&mut self, id: RequestId, flush: HomeFlush, ok: bool) {
        let ok = self.home_flushed(flush, ok);
        let fails = self.sync.take_untold() || self.sync.lost;
        self.complete(id, Extent::default(), ok && !fails);
    }

    /// A flush of home has ended. True if all that it covers is on stable storage: the host may report
    /// a failure to one of the flushes in flight alone.
    pub(crate) fn home_flushed(&mut self, flush: HomeFlush, ok: bool) -> bool {
        if !ok {
            self.home_flush_failed();
            return false;
        }
        let home = &mut self.sync.home;
        let proves = flush.failures == home.failures;
        if proves {
            home.covered = home.covered.max(flush.changes);
        }
        proves
    }

    /// Pages that went home since the last flush may be missing there: copies of the log that recovery
    /// still finds count as newer than home again, and so do open copies. Of a page that a client has
    /// written at home since, the older bytes of the log come back: no flush has covered the client's
    /// write.
    pub(crate) fn home_flush_failed(&mut self) {
        let home = &mut self.sync.home;
        home.failures += 1;
        home.failed_at = self.writes.now();
        home.untold |= home.covered < home.changes || !self.writes.is_idle();
        let saved = self.state.wanted_mode() == Mode::WriteThrough
            && !self.state.is_draining()
            && !self.background.ends_drain;
        if saved {
            return; // a checkpoint says that all is at home
        }
        let log = self.log.ring.in_use().flat_map(|segment| self.geo.slots_of(segment));
        let open = slots(0..self.geo.read_slots()).filter(|&slot| self.copies.is_open(slot));
        let clean = |slot: &Slot| self.copies.state(*slot) == CopyState::Clean;
        let again: Vec<Slot> = log.chain(open).filter(clean).collect();
        for slot in again {
            self.copies.make_dirty(slot);
        }
        // A page that is void may be a free one since, where replicas stand.
        if self.free.takes_plans() {
            for (page, slot, sum) in self.sync.take_lost() {
                self.bring_back(page, slot, sum);
            }
        }
        // Writes with FUA over such pages have lost their places.
        self.fail_waiting_writes();
        if self.copies.count(CopyState::Dirty) > 0 {
            // A checkpoint in progress may say that the log is empty.
            (self.log.holds_pages, self.log.emptied) = (true, false);
            if self.background.ends_drain && self.state.wanted_mode() == Mode::WriteThrough {
                self.drain();
            }
        }
    }

    /// Writes with FUA that wait for a round get an error: their bytes may be lost.
    fn fail_waiting_writes(&mut self) {
        let waiting = std::mem::take(&mut self.sync.waiting).into_iter();
        let (writes, rest) = waiting.partition(|waiter| matches!(waiter, Waiter::Write(..)));
        self.sync.waiting = rest;
        self.tell(writes, false, false);
    }

    /// The log's entries of this page are void. The newest one stands in this slot.
    pub(crate) fn void(&mut self, page: HomePage, slot: Slot) {
        // A copy in doubt may be older than home.
        let known = matches!(self.copies.state(slot), CopyState::Clean | CopyState::Dirty);
        let copy = known.then(|| (slot, self.copies.sum(slot)));
        self.sync.home.changes += 1;
        let void = Void { copy, change: self.sync.home.changes };
        self.sync.voids.entry(page.0).or_insert(void);
        if self.sync.voids.len() > VOIDS_MOST && self.sync.is_idle() {
            self.sync.wait(Waiter::Tail);
        }
    }

    /// The bytes of this slot, which were void, are the newest ones that a flush has covered.
    fn bring_back(&mut self, page: HomePage, slot: Slot, sum: PageSum) {
        let is_log = self.copies.is_log(slot);
        let Ring { tail, head, .. } = self.log.ring;
        if is_log && !self.log.ring.is_between(tail, self.geo.segment_of(slot), head) {
            // Home has them: the tail has passed, though the area may not know yet.
            let void = Void { copy: None, change: self.sync.home.changes };
            self.sync.voids.insert(page.0, void);
            return;
        }
        let home = self.home_of(page, 1);
        // Reads in flight may bring bytes from home that are older than these.
        let mark = self.writes.begin(home);
        self.writes.end(mark);
        self.note_write(home);
        self.copies.set(slot, page, CopyState::Dirty, sum);
        if !is_log {
            self.copies.open(slot);
        }
    }

    /// Whether a write at home may be missing there: a flush failed while the write was in flight. If
    /// the log has older bytes of its pages, these stay, and the write fails.
    pub(crate) fn is_forgotten(&mut self, extent: Extent, mark: Mark) -> bool {
        if mark >= self.sync.home.failed_at || self.copies.count(CopyState::Dirty) == 0 {
            return false;
        }
        let slots = self.copies_of(extent);
        let forgotten = slots.iter().any(|&slot| self.copies.state(slot) == CopyState::Dirty);
        self.scratch = slots;
        forgotten
    }

    /// The log cannot go on: all waiters get an error.
    pub(crate) fn fail_waiters(&mut self) {
        let waiters = std::mem::take(&mut self.sync.waiting);
        self.tell(waiters, false, false);
    }
}

fn runs(pages: &Voids) -> Vec<Tombstone> {
    let mut sorted: Vec<u64> = pages.keys().copied().collect();
    sorted.sort_unstable();
    let mut runs: Vec<Tombstone> = Vec::new();
    for first in sorted {
        match runs.last_mut() {
            Some(run) if run.first + u64::from(run.pages) == first => run.pages += 1,
            _ => runs.push(Tombstone { first, pages: 1 }),
        }
    }
    runs
}
