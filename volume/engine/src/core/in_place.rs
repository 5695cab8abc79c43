//! Writes in place (BORG, FAST'09, 4.5). In write-back, a write of pages with a copy of the plan
//! goes to these copies. If a write also has pages without a copy, the engine splits the write.
//! Dirty pages go home when a new plan drops them, or in a drain.
//!
//! The paper writes in place at once. After a crash, the paper treats every copy as newer than home
//! (5.1). The rules here are:
//!
//! 1. A copy is *open* if recovery may treat the copy as newer than home. A window of a move opens
//!    its copies in three steps: flush their bytes, write their names into the log
//!    (`Content::Opened`), and flush again. After the last flush the copies are *writable*: the
//!    mark is durable before the first write in place.
//! 2. A write in place makes the copy dirty, and its sum void ([`UNSUMMED`]), before the write is
//!    sent. A power cut may leave old and new bytes, and these match no sum. A destage gives the
//!    copy a sum again, if no client wrote the copy since the destage began to read.
//! 3. Recovery treats an open copy as dirty and without a sum, in any state. Each sector that no
//!    flush covered has its old or its new bytes, as on a bare disk.
//! 4. A copy is *closed* before its place gets another copy, unless its page goes to the log (6).
//!    The engine writes the bytes home, flushes home, writes a tombstone, and flushes the area.
//!    Only then the place is void. Until then, a write home of an open page counts as a write of a
//!    page in the log: see [`Engine::is_live`]. A flush reaches the area as long as recovery may
//!    find an open copy there, also in a drain: see [`Engine::area_counts`].
//! 5. A record of the log that holds a page supersedes an open copy of this page. A record that
//!    opens a copy supersedes the page's entry in the log before it.
//! 6. A dirty page that stays in the plan never has its newest bytes only where a window writes. If
//!    a window is in its way, the page goes to the log, durably ([`crate::write_buffer::park`]). A
//!    window that takes a dirty page out of the log writes the copy and flushes it. Then a record
//!    opens the copy, and the log's entry of the page is no longer used. Recovery finds the one or
//!    the other, with the same bytes. While the log is full, such pages go home.
//!
//! As on a bare disk, damage in a copy without a sum is not noticed.

use seekless_block::{Extent, Flags, Op, PAGE_BYTES, PAGE_SECTORS, Request, Sectors, SimTime};

use crate::background::Job;
use crate::background::move_plan::Moving;
use crate::core::page_map::{CopyState, HomePage, Slot, UNSUMMED, slots};
use crate::core::write::{Absorbed, Blocked};
use crate::core::write_order::Since;
use crate::format::{Content, Entry};
use crate::write_buffer::destage::DestagePages;
use crate::{Engine, Memory, Mode, Pending, RequestId, RequestOrigin, Target};

/// A part of a write that is split, in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    write: u32,
    extent: Extent,
    target: Target,
    /// The part voids entries of the log.
    voids: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteDestination {
    /// To this slot, and those behind it.
    Copy(Slot),
    Log,
    Home,
}

impl Engine {
    /// Whether copies of plans may be written in place.
    pub(crate) fn may_open(&self) -> bool {
        self.config.in_place
            && self.state.mode() == Mode::WriteBack
            && self.free.takes_plans()
            && !self.has_trail()
            && !self.log.failed
    }

    /// At an attach, before its checkpoint: the checkpoint says so.
    pub(crate) fn open_at_once(&mut self, slot: Slot) {
        self.copies.open(slot);
        self.copies.make_writable(slot);
    }

    /// Whether a write goes to copies, or a part of it.
    pub(super) fn goes_in_place(&self, request: &Request) -> bool {
        request.op == Op::Write
            && self.copies.any_open()
            && self.may_open()
            && self.pages_of(request.extent).any(|page| self.writable(page).is_some())
    }

    /// The copy of a home page that may be written in place.
    pub(super) fn writable(&self, page: u64) -> Option<Slot> {
        self.copies.find_all(HomePage(page)).find(|&slot| self.copies.is_writable(slot))
    }

    /// Whether a copy may have been written in place after `since`. If so, bytes that were read
    /// then prove nothing about the copy.
    pub(crate) fn was_written(&self, slot: Slot, since: Since) -> bool {
        !self.copies.is_log(slot)
            && (self.config.in_place || self.copies.any_open())
            && self
                .copies
                .home(slot)
                .is_some_and(|page| self.writes.touched(since, self.home_of(page, 1), None))
    }

    /// Dirty copies of plans, with their home pages.
    pub(crate) fn written_in_place(&self) -> impl Iterator<Item = (HomePage, Slot)> + '_ {
        slots(0..self.geo.read_slots()).filter_map(|slot| {
            let dirty = self.copies.state(slot) == CopyState::Dirty;
            self.copies.home(slot).filter(|_| dirty).map(|page| (page, slot))
        })
    }

    /// Writes pages with a writable copy to this copy. Other whole pages go to the log while the
    /// log has space. The rest goes home.
    pub(super) fn write_in_place(&mut self, id: RequestId, request: &Request) {
        let extent = request.extent;
        let unmapped = |engine: &Self, page: &u64| engine.writable(*page).is_none();
        let whole: Vec<u64> =
            self.whole_pages_of(extent).filter(|page| unmapped(self, page)).collect();
        let count = whole.len() as u64;
        let absorbs = count > 0
            && !whole.iter().any(|&page| self.sync.is_void(&(page..page + 1)))
            && self.log_has_room(count)
            && self.records_hold(count);
        if absorbs && self.records_are_full(count) {
            self.blocked.push_back(Blocked::new(id, request));
            return;
        }
        let parts = self.parts_of(extent, absorbs);
        self.stats.in_place += 1;
        self.stats.absorbed += u64::from(absorbs);
        self.note_write(extent);
        self.background.overtake(self.pages_of(extent));
        let since = self.writes.since();
        let mark = self.writes.begin(extent);
        let fua = request.flags.contains(Flags::FUA);
        let absorbed = Absorbed::new(id, extent, (mark, since), fua);
        let write = self.absorbs.insert(absorbed) as u32;
        // The write has not ended before all parts are counted.
        self.absorbs[write as usize].add_part();
        for (part, goes) in parts {
            self.send_part(write, (id, extent), part, goes, request);
        }
        self.log.hurry |= absorbs;
        self.absorbed_done(write, true);
    }

    /// The runs of a write by where they go.
    fn parts_of(&self, extent: Extent, absorbs: bool) -> Vec<(Extent, WriteDestination)> {
        let mut parts: Vec<(Extent, WriteDestination)> = Vec::new();
        let whole = self.whole_pages_of(extent);
        let mut at = extent.start;
        for page in self.pages_of(extent) {
            let home = self.home_of(page, 1);
            if at < home.start {
                parts.push((Extent::span(at.0, home.start.0), WriteDestination::Home));
            }
            let Some(this) = home.intersection(extent) else { continue };
            at = this.end();
            let goes = match self.writable(page) {
                Some(slot) => WriteDestination::Copy(slot),
                None if absorbs && whole.contains(&page) => WriteDestination::Log,
                None => WriteDestination::Home,
            };
            match (parts.last_mut(), goes) {
                (Some((run, WriteDestination::Home)), WriteDestination::Home)
                | (Some((run, WriteDestination::Log)), WriteDestination::Log) => {
                    run.len += this.len;
                }
                // The run began anywhere in its first page.
                (Some((run, WriteDestination::Copy(first))), WriteDestination::Copy(slot))
                    if u64::from(slot.0)
                        == u64::from(first.0) + page - self.pages_of(*run).start
                        && self.copies.segment_of(*first) == self.copies.segment_of(slot) =>
                {
                    run.len += this.len;
                }
                _ => parts.push((this, goes)),
            }
        }
        parts
    }

    fn send_part(
        &mut self,
        write: u32,
        (id, all): (RequestId, Extent),
        extent: Extent,
        goes: WriteDestination,
        request: &Request,
    ) {
        let offset = extent.start - all.start;
        let memory = |offset| Memory::Client { id, offset };
        let pages = self.pages_of(extent);
        let (target, at, voids) = match goes {
            WriteDestination::Log => {
                let mut page = pages.start;
                while page < pages.end {
                    let from = memory(offset + Sectors((page - pages.start) * PAGE_SECTORS));
                    let taken = self.log_append(write, page, pages.end - page, from);
                    self.absorbs[write as usize].add_part();
                    page += taken;
                }
                return;
            }
            WriteDestination::Copy(first) => {
                let count = (pages.end - pages.start) as u32;
                for slot in slots(first.0..first.0 + count) {
                    self.copies.set_state(slot, CopyState::Dirty);
                    self.copies.set_sum(slot, UNSUMMED);
                }
                let place = self.place_of(first, count.into());
                let skip = extent.start - self.home_of(pages.start, 1).start;
                let start = place.start + skip;
                (Target::Area, Extent { start, len: extent.len }, false)
            }
            WriteDestination::Home => (Target::Home, extent, self.drop_clean_copies(extent)),
        };
        self.absorbs[write as usize].add_part();
        let io = self.start(Pending::Part(Part { write, extent, target, voids }));
        let asked = RequestOrigin { flags: Flags::NONE, stream: request.stream };
        self.submit(io, target, Op::Write, at, asked, Some(memory(offset)));
    }

    pub(super) fn part_done(&mut self, part: Part, ok: bool) {
        let (target, mark) = (part.target, self.absorbs[part.write as usize].mark);
        let ok = ok && (target != Target::Home || !self.is_forgotten(part.extent, mark));
        if target == Target::Home {
            self.sync.wrote_home();
            if ok && part.voids {
                // No other write to these pages was let through meanwhile.
                self.drop_copies(part.extent, |_| true);
            }
        } else {
            self.sync.log_dirty = true;
            if !ok {
                self.absorbs[part.write as usize].repeats = true;
                self.area_writes_fail = true;
                self.area_fails();
            }
        }
        self.absorbed_done(part.write, ok);
    }

    /// A write whose part the area refused goes home. False if that would not change anything.
    pub(super) fn repeat(&mut self, a: &Absorbed) -> bool {
        let other = self.state.mode() == Mode::WriteThrough;
        if other {
            let flags = if a.fua { Flags::FUA } else { Flags::NONE };
            let request = Request { flags, ..Request::new(SimTime::ZERO, Op::Write, a.extent) };
            self.blocked.push_back(Blocked::new(a.id, &request));
        }
        other
    }

    /// Closes these copies, if home has the bytes of all of them: a tombstone must be in the log
    /// before another copy uses their places. Otherwise returns the home pages that prevent this.
    /// These are pages whose bytes are not at home, and pages whose newer bytes are on their way to
    /// the log: a tombstone behind these bytes would void them.
    pub(crate) fn close_copies(&mut self, some: &[Slot]) -> Vec<HomePage> {
        let mut dirty = Vec::new();
        for &slot in some {
            self.copies.stop_writes(slot);
            let waits = |page: &HomePage| {
                self.copies.state(slot) == CopyState::Dirty || self.log.takes(page.0)
            };
            dirty.extend(self.copies.home(slot).filter(waits));
        }
        for &slot in some.iter().filter(|_| dirty.is_empty()) {
            if let Some(page) = self.copies.home(slot).filter(|_| self.copies.is_open(slot)) {
                self.void(page, slot);
                self.copies.close(slot);
            }
        }
        dirty
    }

    /// Makes way for a window. Pages that the plan keeps go to the log if it has space. The others
    /// go home, before them.
    pub(crate) fn make_way(&mut self, dirty: &[HomePage]) -> Moving {
        let keeps = |page: &HomePage| self.background.todo.keeps(*page);
        let (mut kept, dropped): (Vec<HomePage>, Vec<HomePage>) =
            dirty.iter().copied().partition(keeps);
        // A copy may be in the way of its own page, and of another one.
        kept.sort_unstable();
        kept.dedup();
        let count = kept.len().min(self.destage_most()) as u64;
        if !dropped.is_empty() {
            self.send_out(&dropped)
        } else if !self.may_open() || !self.log_has_room(count) {
            self.send_out(&kept)
        } else {
            match self.send_out(&kept) {
                Moving::Job(Job::Destage(job)) => Moving::Job(Job::Destage(job.into_log())),
                other => other,
            }
        }
    }

    /// Brings pages home whose copies must be closed.
    pub(crate) fn send_out(&mut self, dirty: &[HomePage]) -> Moving {
        let at = self.background.destage_not_before;
        if self.background.now < at {
            self.background.wake_at(at);
            return Moving::Waits;
        }
        let writes = |page: &HomePage| self.writes.open_overlaps(self.home_of(*page, 1));
        let quiet: Vec<HomePage> = dirty.iter().copied().filter(|page| !writes(page)).collect();
        let job = self.begin_destage(DestagePages::These(&quiet)).map(Job::Destage);
        job.map_or(Moving::Waits, Moving::Job)
    }

    /// Closes all copies, or returns the home pages of those that are not at home.
    pub(crate) fn close_all(&mut self) -> Vec<HomePage> {
        if !self.copies.any_open() {
            return Vec::new();
        }
        let all: Vec<Slot> =
            slots(0..self.geo.read_slots()).filter(|&slot| self.copies.is_open(slot)).collect();
        self.close_copies(&all)
    }

    /// A trail replaces a plan. Pages whose copies another engine opened go home, and the log gets
    /// tombstones for these copies, before the trail uses a place again. Returns
    /// [`Moving::Nothing`] when this is done.
    pub(crate) fn close_for_trail(&mut self) -> Moving {
        if !self.copies.were_opened() {
            return Moving::Nothing;
        }
        let dirty = self.close_all();
        if !dirty.is_empty() {
            return self.send_out(&dirty);
        }
        if self.awaits_round() {
            return Moving::Waits;
        }
        self.copies.forget_opened();
        Moving::Nothing
    }

    /// The records that open copies of dirty pages of the log: page, slot in the log, new slot. The
    /// copies are on the area. Beside them, `others` records are about to be logged. Without space
    /// for all of them at once there are none: while a record waits for space, the window would wait
    /// for the record, and the job that makes space for the window.
    pub(crate) fn records_that_relocate(
        &mut self,
        some: &[(HomePage, Slot, Slot)],
        others: usize,
    ) -> Vec<Content> {
        let newest = |&&(page, from, _): &&(HomePage, Slot, Slot)| {
            self.copies.find(page) == Some(from)
                && self.copies.state(from) == CopyState::Dirty
                && !self.log.takes(page.0)
                && !self.sync.is_void(&(page.0..page.0 + 1))
                && !self.writes.open_overlaps(self.home_of(page.0, 1))
        };
        let mut some: Vec<(HomePage, Slot, Slot)> = some.iter().filter(newest).copied().collect();
        // No plan of ours wants a page twice. Of an area that does, one copy is opened.
        some.sort_unstable();
        some.dedup_by_key(|&mut (page, ..)| page);
        let entries: Vec<Entry> = some
            .iter()
            .map(|&(page, _, to)| Entry { home: page.0, state: CopyState::Dirty, sum: to.0.into() })
            .collect();
        let records: Vec<Content> = Content::pieces(&entries, Content::Opened).collect();
        let count = (records.len() + others) as u64;
        if records.is_empty() || !self.controls_begin_at_once(count) {
            return Vec::new();
        }
        for &(_, from, to) in &some {
            self.background.relocating.insert(to, from);
            self.copies.open(to);
        }
        (self.log.holds_pages, self.log.emptied) = (true, false);
        records
    }

    /// A record that opens copies has ended, or is dropped. From now on recovery may find the copy
    /// that it opens for a page of the log. That copy is the newest, unless a client wrote the page
    /// meanwhile: then a later record says so.
    pub(crate) fn opened_copies(&mut self, entries: &[Entry], ok: bool) {
        for entry in entries {
            let (page, to) = (HomePage(entry.home), Slot(entry.sum as u32));
            let Some(from) = self.background.relocating.remove(&to) else { continue };
            let newest = self.copies.find(page) == Some(from);
            if ok && newest {
                let (state, sum) = (self.copies.state(from), self.copies.sum(from));
                self.copies.set(to, page, state, sum);
                self.copies.open(to);
                self.background.left_log = true;
                self.stats.moved_bytes += PAGE_BYTES;
                self.stats.relocated_bytes += PAGE_BYTES;
                continue;
            }
            self.copies.clear(to);
            if ok {
                self.sync.moves_void(page.0, from, to);
            }
        }
    }

    /// The records that open copies. The caller knows that the bytes of these copies are on the
    /// area. Otherwise, after a crash, the sum of a copy could equal home's although the bytes
    /// never reached the area.
    pub(crate) fn records_that_open(&mut self, some: &[Slot]) -> Vec<Content> {
        let mut entries: Vec<Entry> = Vec::new();
        for &slot in some {
            let Some(HomePage(home)) = self.copies.home(slot) else { continue };
            let settled = self.copies.state(slot) == CopyState::Clean
                && !self.sync.is_void(&(home..home + 1))
                && !self.writes.open_overlaps(self.home_of(home, 1));
            if settled {
                self.copies.open(slot);
                entries.push(Entry { home, state: CopyState::Dirty, sum: slot.0.into() });
            }
        }
        if !entries.is_empty() {
            // Recovery calls them open until a checkpoint, or a record that is durable, says more.
            (self.log.holds_pages, self.log.emptied) = (true, false);
        }
        Content::pieces(&entries, Content::Opened).collect()
    }
}
