//! The write path. In write-through, each write goes home. In write-back, whole pages go to the
//! write buffer while the buffer has space (BORG, FAST'09, 4.5). An unaligned write, and a write
//! that is too large, go home. A write waits only for a write in flight to the same sectors, for a
//! destage of its pages, and for memory of the log's records.

use seekless_block::{Duration, Extent, Flags, Op, PAGE_SECTORS, Request, Sectors};

use crate::background::stage;
use crate::core::page_map::{CopyState, HomePage};
use crate::core::read::WAITS;
use crate::core::write_order::{Mark, Since};
use crate::write_buffer::durability::Waiter;
use crate::{
    Engine, Fault, Memory, MemoryMove, Mode, Output, Pending, RequestId, RequestOrigin, Target,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct HomeWrite {
    id: RequestId,
    extent: Extent,
    mark: Mark,
    since: Since,
    /// RAM keeps the written bytes.
    keep: bool,
    fua: bool,
    /// The client gives the pages back.
    frees: bool,
    /// The write voids entries of the log.
    voids: bool,
}

/// A write on its way into the write buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absorbed {
    pub(super) id: RequestId,
    pub(super) extent: Extent,
    pub(super) mark: Mark,
    since: Since,
    pub(super) fua: bool,
    /// The write is already acknowledged.
    told: bool,
    /// The records with a part of this write, and other parts of it, that have not ended.
    left: u32,
    failed: bool,
    /// The area refused a write in place.
    pub(super) repeats: bool,
    /// No client's: the engine moves the pages.
    moves: bool,
}

impl Absorbed {
    /// A write that is acknowledged at its end, without parts yet.
    pub(super) const fn new(
        id: RequestId,
        extent: Extent,
        (mark, since): (Mark, Since),
        fua: bool,
    ) -> Self {
        let (told, left, failed, repeats, moves) = (false, 0, false, false, false);
        Self { id, extent, mark, since, fua, told, left, failed, repeats, moves }
    }

    /// Whether more than one part has not ended.
    pub(crate) const fn is_on_its_way(&self) -> bool {
        self.left > 1
    }

    /// Whether the engine moves the pages, and no client wrote them.
    pub(crate) const fn is_move(&self) -> bool {
        self.moves
    }

    pub(super) const fn add_part(&mut self) {
        self.left += 1;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocked {
    id: RequestId,
    request: Request,
}

impl Blocked {
    pub(super) const fn new(id: RequestId, request: &Request) -> Self {
        Self { id, request: *request }
    }

    pub(crate) const fn id(&self) -> RequestId {
        self.id
    }

    pub(crate) const fn extent(&self) -> Extent {
        self.request.extent
    }

    pub(crate) fn is_read(&self) -> bool {
        self.request.op == Op::Read
    }
}

/// Whether the client frees pages: by a discard, or by zeroes without reserved space. A loop device
/// makes a hole in its file for both, so this code cannot distinguish them. Home gets zeroes in
/// both cases.
const fn frees(request: &Request) -> bool {
    match request.op {
        Op::Discard => true,
        Op::WriteZeroes => !request.flags.contains(Flags::NO_HOLE),
        _ => false,
    }
}

impl Engine {
    pub(crate) fn write(&mut self, id: RequestId, request: &Request) {
        let on_free = self.touches_free(request.extent);
        if self.must_wait_for_free(request.extent, on_free)
            || on_free && !frees(request) && self.must_open(request.extent)
        {
            return self.blocked.push_back(Blocked::new(id, request));
        }
        if self.rewrite(id, request) {
            return;
        }
        // Without a write buffer in use, the device orders writes to the same sectors, as on a bare
        // disk.
        let in_place = self.goes_in_place(request);
        if self.log_in_use() && self.must_wait(request.extent, in_place) {
            return self.blocked.push_back(Blocked::new(id, request));
        }
        if in_place {
            return self.write_in_place(id, request);
        }
        let extent = request.extent;
        let pages = self.whole_pages_of(extent);
        let aligned = (pages.end - pages.start) * PAGE_SECTORS == extent.len.0;
        if self.state.mode() == Mode::WriteBack
            && request.op == Op::Write
            && aligned
            && !self.sync.is_void(&pages)
            && !on_free
            && !self.free.is_uncertain(pages.clone())
            && self.log_has_room(pages.end - pages.start)
            && self.records_hold(pages.end - pages.start)
        {
            if self.records_are_full(pages.end - pages.start) {
                return self.blocked.push_back(Blocked::new(id, request));
            }
            self.absorb(id, request);
        } else if frees(request) || !on_free || !self.zero_edges(id, request) {
            self.write_home(id, request);
        }
    }

    /// Whether a write must wait: for another write to its sectors, for a destage of its pages, or
    /// for the destage of a dirty page that the write covers in part, unless it goes `in_place`.
    fn must_wait(&mut self, extent: Extent, in_place: bool) -> bool {
        if self.writes.open_overlaps(extent) || self.background.locks(self.pages_of(extent)) {
            self.log.hurry = true;
            return true;
        }
        if self.copies.count(CopyState::Dirty) == 0 {
            return false;
        }
        let (touched, whole) = (self.pages_of(extent), self.whole_pages_of(extent));
        let mut wait = false;
        for page in [touched.start, touched.end.saturating_sub(1)] {
            if touched.contains(&page)
                && !whole.contains(&page)
                && self.copies.is_dirty(HomePage(page))
                && !(in_place && self.writable(page).is_some())
            {
                self.background.urgent(HomePage(page));
                wait = true;
            }
        }
        wait
    }

    /// Tries the waiting requests again, in order.
    pub(crate) fn retry_blocked(&mut self) {
        self.retry_blocked = false;
        for _ in 0..self.blocked.len() {
            match self.blocked.pop_front() {
                Some(Blocked { id, request }) if request.op == Op::Read => {
                    let asked = RequestOrigin { flags: request.flags, stream: request.stream };
                    self.read(id, request.extent, asked, WAITS);
                }
                Some(Blocked { id, request }) => self.write(id, &request),
                None => {}
            }
        }
    }

    /// A page of the write buffer cannot go home. Writes of a part of this page wait for its
    /// destage: these writes fail.
    pub(crate) fn fail_blocked(&mut self, page: HomePage, fault: fn(Extent) -> Fault) {
        let blocked = std::mem::take(&mut self.blocked);
        for waits in blocked {
            let extent = waits.request.extent;
            let in_part = !waits.is_read()
                && self.pages_of(extent).contains(&page.0)
                && !self.whole_pages_of(extent).contains(&page.0);
            if in_part {
                self.out.push_back(Output::Complete { id: waits.id, result: Err(fault(extent)) });
            } else {
                self.blocked.push_back(waits);
            }
        }
    }

    pub(crate) fn write_home(&mut self, id: RequestId, request: &Request) {
        let extent = request.extent;
        let voids = self.drop_clean_copies(extent);
        self.note_write(extent);
        self.background.overtake(self.pages_of(extent));
        let payload = request.op == Op::Write;
        let keep = payload && !self.cache.is_off();
        let frees = frees(request);
        let since = self.writes.since();
        let mark = self.writes.begin(extent);
        let fua = request.flags.contains(Flags::FUA);
        let write = HomeWrite { id, extent, mark, since, keep, fua, frees, voids };
        let io = self.start(Pending::HomeWrite(write));
        let memory = payload.then_some(Memory::Client { id, offset: Sectors(0) });
        let asked = RequestOrigin { flags: request.flags, stream: request.stream };
        self.submit(io, Target::Home, request.op, extent, asked, memory);
    }

    /// A write home begins: from now on no read may use a clean copy of these pages, or their bytes
    /// in RAM. Dirty copies stay: if the write fails, they hold the newest bytes. True if the write
    /// voids entries of the log.
    pub(super) fn drop_clean_copies(&mut self, extent: Extent) -> bool {
        let mut voids = false;
        if self.copies.count(CopyState::Clean)
            + self.copies.count(CopyState::Suspect)
            + self.copies.count(CopyState::Dirty)
            > 0
        {
            let slots = self.copies_of(extent);
            for &slot in &slots {
                if self.copies.state(slot) == CopyState::Dirty {
                    voids = true;
                } else {
                    voids |= self.is_live(slot);
                    self.drop_copy(slot);
                }
            }
            self.scratch = slots;
        }
        voids
    }

    pub(crate) fn home_write_done(&mut self, write: HomeWrite, ok: bool) {
        let HomeWrite { id, extent, mark, since, keep, fua, frees, voids } = write;
        self.writes.end(mark);
        self.retry_blocked |= !self.blocked.is_empty();
        self.sync.wrote_home();
        if fua && !ok {
            // The host reports the failure of any earlier write once: to this write, or to a flush.
            self.home_flush_failed();
        }
        let ok = ok && !self.is_forgotten(extent, mark);
        if ok && voids {
            // No other write to these pages could start meanwhile: the log's copies are older.
            self.drop_copies(extent, |_| true);
        }
        if ok && keep {
            self.keep_written(id, extent, Some((mark, since)));
        }
        if !ok && !frees {
            self.free_write_failed(extent);
        }
        let uncertain = ok && self.free_written(frees, extent, mark, since);
        let void = voids || self.sync.is_void(&self.pages_of(extent));
        if ok && fua && (uncertain || void || self.log.failed && self.area_counts()) {
            // The FUA covers tombstones of earlier writes too, and the records that failed.
            self.sync.wait(Waiter::Write(id, extent));
        } else {
            self.complete(id, extent, ok);
        }
    }

    /// Into the write buffer, which has space.
    fn absorb(&mut self, id: RequestId, request: &Request) {
        let extent = request.extent;
        self.stats.absorbed += 1;
        self.note_write(extent);
        self.background.overtake(self.pages_of(extent));
        let since = self.writes.since();
        let mark = self.writes.begin(extent);
        let fua = request.flags.contains(Flags::FUA);
        let told = self.config.gather > Duration::ZERO && !fua;
        let absorbed = Absorbed { told, ..Absorbed::new(id, extent, (mark, since), fua) };
        let write = self.absorbs.insert(absorbed) as u32;
        let pages = self.whole_pages_of(extent);
        let mut page = pages.start;
        while page < pages.end {
            let offset = Sectors((page - pages.start) * PAGE_SECTORS);
            let taken =
                self.log_append(write, page, pages.end - page, Memory::Client { id, offset });
            self.absorbs[write as usize].left += 1;
            page += taken;
        }
        if told {
            // No other write to these sectors is in flight: the log has their order.
            self.keep(id, extent);
            self.complete(id, extent, true);
        } else {
            self.log.hurry = true;
        }
    }

    /// Pages of the staging memory, from this one on, go to the log, which has space. They are no
    /// newer than what clients read. The caller ends the write: until then, writes of clients to
    /// these pages wait.
    pub(crate) fn absorb_staged(&mut self, extent: Extent, at: u32) -> u32 {
        let since = self.writes.since();
        let mark = self.writes.begin(extent);
        let absorbed = Absorbed::new(RequestId(0), extent, (mark, since), false);
        let write = self.absorbs.insert(Absorbed { moves: true, left: 1, ..absorbed }) as u32;
        let pages = self.whole_pages_of(extent);
        let mut page = pages.start;
        while page < pages.end {
            let from = stage(at + (page - pages.start) as u32);
            let taken = self.log_append(write, page, pages.end - page, from);
            self.absorbs[write as usize].left += 1;
            page += taken;
        }
        write
    }

    /// If all pages of a write stand in the open record, the new bytes replace the old ones there.
    fn rewrite(&mut self, id: RequestId, request: &Request) -> bool {
        let extent = request.extent;
        let pages = self.whole_pages_of(extent);
        let aligned = (pages.end - pages.start) * PAGE_SECTORS == extent.len.0;
        let held = self.config.gather > Duration::ZERO
            && request.op == Op::Write
            && aligned
            && !request.flags.contains(Flags::FUA)
            && self.log.gathers(&pages);
        if held {
            self.stats.absorbed += 1;
            self.note_write(extent);
            self.background.overtake(pages.clone());
            for page in pages.clone() {
                let offset = Sectors((page - pages.start) * PAGE_SECTORS);
                self.log_replace(page, Memory::Client { id, offset });
            }
            self.keep(id, extent);
            self.complete(id, extent, true);
        }
        held
    }

    /// A read waits if some of its sectors are acknowledged and on their way to the log.
    pub(crate) fn waits_for_log(
        &mut self,
        id: RequestId,
        wanted: Extent,
        request: Request,
    ) -> bool {
        let waits = self.config.gather > Duration::ZERO && self.writes.open_overlaps(wanted);
        if waits {
            self.log.hurry = true;
            self.blocked.push_back(Blocked { id, request });
        }
        waits
    }

    /// A record with a part of an absorbed write has ended.
    pub(crate) fn absorbed_done(&mut self, write: u32, ok: bool) {
        let a = &mut self.absorbs[write as usize];
        a.left -= 1;
        a.failed |= !ok;
        if a.left > 0 {
            return;
        }
        let ended = *a;
        let Absorbed { id, extent, mark, since, fua, told, failed, .. } = ended;
        self.absorbs.remove(write as usize);
        self.writes.end(mark);
        self.retry_blocked |= !self.blocked.is_empty();
        if ended.moves {
            return;
        }
        if ended.repeats && self.repeat(&ended) {
            self.retry_blocked = true;
            return;
        }
        let doubt = self.sync.is_record_in_doubt(mark);
        if told {
            if failed {
                self.cache.invalidate(extent, |_| {});
                self.sync.lost = true;
            }
            return;
        }
        if !failed && !self.cache.is_off() {
            self.keep_written(id, extent, Some((mark, since)));
        }
        if fua && !failed && !doubt {
            self.sync.wait(Waiter::Write(id, extent));
        } else {
            self.complete(id, extent, !(failed || fua && doubt));
        }
    }

    /// RAM keeps the written bytes, which are the newest: the log has the order of writes.
    fn keep(&mut self, id: RequestId, extent: Extent) {
        if !self.cache.is_off() {
            self.keep_written(id, extent, None);
        }
    }

    /// RAM keeps the bytes of a completed write, unless another write to the same page was in
    /// flight at the same time: only the device knows the order of the two writes. With `None`, the
    /// order is known.
    fn keep_written(&mut self, id: RequestId, extent: Extent, when: Option<(Mark, Since)>) {
        if extent.bytes() > self.config.buffer_bytes {
            return;
        }
        self.note_kept(extent);
        let mut offset = Sectors(0);
        let unsure = |engine: &Self, part: Extent| {
            when.is_some_and(|(mark, since)| engine.writes.touched(since, part, Some(mark)))
        };
        let alone = !unsure(self, extent);
        for piece in self.cache.grid.pieces(extent) {
            let part = Extent { start: extent.start + offset, len: Sectors(piece.len) };
            if alone || !unsure(self, part) {
                let inserted = self.cache.insert(piece);
                self.note_insert(inserted, piece.page, None);
                let index = inserted.slot;
                self.out.push_back(Output::Move(MemoryMove {
                    from: Memory::Client { id, offset },
                    to: Memory::Slot { index, offset: Sectors(piece.offset) },
                    len: part.len,
                }));
            }
            offset += part.len;
        }
    }
}
