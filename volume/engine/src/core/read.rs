//! Reads: from RAM where all is there; else from the copy if it is complete and contiguous; else from home; and
//! in pieces where the newest bytes stand in the write buffer. BORG (FAST'09) 4.5: full maps go to the area,
//! partly mapped clean reads go home: one access at home is cheaper than several in the area.
//! What a read in flight will bring to RAM is waited for, not read again. What comes from the area is used only
//! after its checksum was found right.

use seekless_block::{
    Extent, Flags, Lba, Op, PAGE_BYTES, PAGE_SECTORS, Request, SECTOR_BYTES, Sectors, SimTime,
    StreamId,
};

use crate::core::page_map::State;
use crate::core::ram_cache::pieces;
use crate::core::write_order::Mark;
use crate::format::PageSum;
use crate::{
    Asked, Engine, Fault, IoId, Memory, Move, Output, Pending, RequestId, Sum, SumFor, Target,
};

/// A read that found nothing of what it waited for so often reads for itself: RAM is too small to wait.
pub(crate) const WAITS: u8 = 4;
/// Belongs to no join.
const ALONE: u32 = u32::MAX;

/// A client's read, or a piece of one, in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    id: RequestId,
    /// The part of the client's extent that this I/O is for.
    wanted: Extent,
    /// Where it starts in the client's buffer.
    offset: Sectors,
    /// The join it is a piece of, or [`ALONE`].
    join: u32,
    target: Target,
    /// The slot in which it begins, of a read of a copy.
    from: Option<u32>,
    /// What is read, in the target's addresses.
    io: Extent,
    /// Where `wanted` starts within `io`.
    skip: Sectors,
    /// The buffer it lands in; none where it goes to the client directly.
    buffer: Option<u32>,
    /// Of a read from home whose pages are to prove copies in doubt: the first whole page and how many.
    proves: (u64, u32),
    /// A page that came along is damaged, and its copy is the only one: nothing of this goes to RAM.
    spoiled: bool,
    mark: Mark,
    stream: StreamId,
}

/// A part of a client's read.
#[derive(Clone, Copy, Debug)]
struct Part {
    id: RequestId,
    wanted: Extent,
    offset: Sectors,
    join: u32,
}

/// A client's read in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Join {
    id: RequestId,
    left: u32,
    fault: Option<Fault>,
}

/// A client's read of what is on its way to RAM already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    fill: IoId,
    id: RequestId,
    extent: Extent,
    asked: Asked,
    /// How often it may wait again.
    waits: u8,
}

/// Where the newest bytes of an extent stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Home,
    /// All of it, from this slot on.
    Copy(u32),
    /// Nowhere: the client has discarded all of it.
    Zeroes,
    Pieces,
}

/// Where a piece of a read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Home,
    /// A slot, and those behind it.
    Copy(u32),
    Zeroes,
}

impl Read {
    /// How it is asked for once more.
    const fn again(&self) -> Asked {
        Asked { flags: Flags::NONE, stream: self.stream }
    }

    /// Whether it reads any of these sectors of the target.
    pub(crate) fn reads(&self, target: Target, extent: Extent) -> bool {
        self.target == target && self.io.overlaps(extent)
    }

    /// Whether it reads a replica in any of these sectors of home.
    pub(crate) fn reads_replica(&self, home: Extent) -> bool {
        self.from.is_some() && self.reads(Target::Home, home)
    }

    const fn part(&self) -> Part {
        Part { id: self.id, wanted: self.wanted, offset: self.offset, join: self.join }
    }
}

impl Engine {
    pub(crate) fn read(&mut self, id: RequestId, extent: Extent, asked: Asked, waits: u8) {
        let mut wanted = extent;
        if !self.cache.is_off() {
            let front = self.cache.prefix(extent);
            self.serve_from_ram(id, extent, Extent { start: extent.start, len: front });
            if front == extent.len {
                self.stats.cache_hits += 1;
                self.out.push_back(Output::Complete { id, result: Ok(()) });
                return;
            }
            wanted = Extent::span(extent.start.0 + front.0, extent.end().0);
            let back = self.cache.suffix(wanted);
            let tail = Extent::span(wanted.end().0 - back.0, wanted.end().0);
            self.serve_from_ram(id, extent, tail);
            wanted.len -= back;
        }
        let Asked { flags, stream } = asked;
        let request = Request { flags, stream, ..Request::new(SimTime::ZERO, Op::Read, extent) };
        if self.waits_for_log(id, wanted, request) {
            return;
        }
        let found = self.locate(wanted);
        if waits > 0
            && let Some(fill) = self.on_its_way(wanted.start, found)
        {
            self.waiting.push(Waiting { fill, id, extent, asked, waits: waits - 1 });
            return;
        }
        let part = Part { id, wanted, offset: wanted.start - extent.start, join: ALONE };
        self.read_part(part, found, asked);
    }

    fn read_part(&mut self, part: Part, found: Found, asked: Asked) {
        match found {
            Found::Copy(slot) => self.read_copy(part, slot, asked),
            Found::Home => self.read_home(part, asked),
            Found::Zeroes => self.read_zeroes(part),
            Found::Pieces => self.read_pieces(part, asked),
        }
    }

    fn locate(&self, wanted: Extent) -> Found {
        let pages = self.pages_of(wanted);
        if self.free.overlaps(pages.clone()) {
            let all = self.free.covers(pages.clone())
                && self.home_of(pages.start, pages.end - pages.start).contains(wanted);
            return if all { Found::Zeroes } else { Found::Pieces };
        }
        if self.map.len() == 0 || pages.is_empty() {
            return Found::Home;
        }
        let before_grid = wanted.start < Lba(0) + self.config.grid;
        let copy = if before_grid {
            None
        } else {
            // Of several the nearest.
            let runs = self.map.runs(pages.start, (pages.end - pages.start) as u32);
            runs.min_by_key(|&slot| self.way_to(slot))
        };
        // What the log has of pages that are at home too lies in no order of reading; and a replica pays only where it is nearer.
        let copy = copy.filter(|&slot| {
            !self.bypass && !self.is_log(slot) && self.is_worth_reading(slot, wanted.start)
        });
        if let Some(slot) = copy {
            return Found::Copy(slot);
        }
        let dirty = self.map.count(State::Dirty) > 0
            && pages.into_iter().any(|page| self.state_of(page) == Some(State::Dirty));
        match copy {
            Some(slot) if dirty => Found::Copy(slot),
            _ if dirty => Found::Pieces,
            _ => Found::Home,
        }
    }

    pub(crate) fn state_of(&self, page: u64) -> Option<State> {
        self.map.find(page).map(|slot| self.map.state(slot))
    }

    /// A read in flight that will bring this sector to RAM, unless it is overtaken by a write.
    fn on_its_way(&self, sector: Lba, found: Found) -> Option<IoId> {
        let holds = |io: Extent, at: Lba| io.start <= at && at < io.end();
        let slot = match found {
            Found::Copy(slot) => Some(slot),
            Found::Home | Found::Pieces | Found::Zeroes => None,
        };
        let reads = |f: &Read, slot: u32| {
            f.from.is_some_and(|first| {
                first <= slot && u64::from(slot - first) < f.io.len.0 / PAGE_SECTORS
            })
        };
        self.fills.iter().copied().find(|io| match self.pending[io.0 as usize] {
            Some(Pending::Read(f)) if f.from.is_none() => {
                !matches!(found, Found::Pieces | Found::Zeroes) && holds(f.io, sector)
            }
            Some(Pending::Read(f)) => slot.is_some_and(|slot| reads(&f, slot)),
            _ => false,
        })
    }

    fn serve_from_ram(&mut self, id: RequestId, extent: Extent, part: Extent) {
        let mut offset = part.start - extent.start;
        for piece in pieces(part) {
            let Some(index) = self.cache.find(piece) else { continue };
            self.cache.touch(index);
            let len = Sectors(piece.len);
            self.out.push_back(Output::Move(Move {
                from: Memory::Slot { index, offset: Sectors(piece.offset) },
                to: Memory::Client { id, offset },
                len,
            }));
            offset += len;
        }
    }

    fn read_home(&mut self, part: Part, asked: Asked) {
        self.stats.home_reads += 1;
        let ahead = self.config.read_ahead.0 / SECTOR_BYTES;
        let mut end = (part.wanted.start.0.saturating_add(ahead)).min(self.config.capacity.0);
        if end > part.wanted.end().0 {
            // What is discarded is not what home holds.
            let behind = self.pages_of(part.wanted).end;
            if let Some(page) = self.free.next(behind) {
                end = end.min(self.home_of(page, 1).start.0);
            }
        }
        let io = Extent::span(part.wanted.start.0, end.max(part.wanted.end().0));
        self.submit_read(Self::new_read(part, (Target::Home, io), None, Sectors(0)), asked);
    }

    /// All of it was discarded by the client: home is not asked.
    fn read_zeroes(&mut self, part: Part) {
        self.stats.zero_reads += 1;
        let to = Memory::Client { id: part.id, offset: part.offset };
        self.out.push_back(Output::Zero { to, len: part.wanted.len });
        let Part { id, wanted, offset, join } = part;
        self.finish_read(&Read { id, wanted, offset, join, ..Read::default() }, Ok(()));
    }

    fn new_read(
        part: Part,
        (target, io): (Target, Extent),
        from: Option<u32>,
        skip: Sectors,
    ) -> Read {
        let Part { id, wanted, offset, join } = part;
        Read { id, wanted, offset, join, target, from, io, skip, ..Read::default() }
    }

    /// Reads whole pages, as checksums are a page's, and with RAM to put them the whole aligned cluster.
    fn read_copy(&mut self, part: Part, slot: u32, asked: Asked) {
        let pages = self.pages_of(part.wanted);
        let (mut from, mut to) = (slot, slot + (pages.end - pages.start) as u32);
        let cluster = (self.config.cluster.0 / PAGE_BYTES) as u32;
        if cluster > 0 && !self.cache.is_off() {
            // Only pages that stand there now: one that comes while the read is in flight may have been read before
            // it was written.
            let usable = |s: u32| matches!(self.map.state(s), State::Clean | State::Dirty);
            while from > slot / cluster * cluster && usable(from - 1) {
                from -= 1;
            }
            let end = (to.div_ceil(cluster) * cluster).min(self.geo.slots());
            while to < end && usable(to) {
                to += 1;
            }
        }
        self.note_read(slot, pages.clone());
        let stand = self.stand(from, u64::from(to - from));
        let skip = Sectors(u64::from(slot - from) * PAGE_SECTORS)
            + (part.wanted.start - self.home_of(pages.start, 1).start);
        let whole = self.whole_pages_of(part.wanted) == pages;
        if !whole && stand.1.bytes() > self.config.buffer_bytes {
            self.read_pieces(part, asked);
        } else {
            self.stats.copy_reads += 1;
            self.free.was_read(slot);
            self.submit_read(Self::new_read(part, stand, Some(from), skip), asked);
        }
    }

    /// Pages are read from this slot on: the log is no place to read from.
    fn note_read(&mut self, slot: u32, pages: std::ops::Range<u64>) {
        if self.is_log(slot) {
            pages.for_each(|page| self.background.was_read(page));
        }
    }

    /// Each run of pages from where its newest bytes stand; a page that is asked for in part by itself.
    fn read_pieces(&mut self, part: Part, asked: Asked) {
        let mut runs: Vec<(Extent, Piece)> = Vec::new();
        let wanted = part.wanted;
        let whole = self.whole_pages_of(wanted);
        let mut at = wanted.start;
        for page in self.pages_of(wanted) {
            let home = self.home_of(page, 1);
            if at < home.start {
                runs.push((Extent::span(at.0, home.start.0), Piece::Home));
            }
            let Some(this) = home.intersection(wanted) else { continue };
            at = this.end();
            // A clean copy is passed by: home is as good, and what stands beside it there comes along.
            let slot = self.map.find(page).filter(|&s| self.map.state(s) == State::Dirty);
            let from = match slot {
                Some(slot) => Piece::Copy(slot),
                None if self.free.overlaps(page..page + 1) => Piece::Zeroes,
                None => Piece::Home,
            };
            match (runs.last_mut(), from) {
                (Some((run, Piece::Home)), Piece::Home)
                | (Some((run, Piece::Zeroes)), Piece::Zeroes) => run.len += this.len,
                (Some((run, Piece::Copy(first))), Piece::Copy(slot))
                    if whole.contains(&page)
                        && whole.contains(&(page - 1))
                        && u64::from(slot) == u64::from(*first) + run.len.0 / PAGE_SECTORS
                        && run.bytes() < self.config.buffer_bytes =>
                {
                    run.len += this.len;
                }
                _ => runs.push((this, from)),
            }
        }
        let join = match part.join {
            ALONE => self.joins.put(Join { id: part.id, left: runs.len() as u32, fault: None }),
            join => {
                self.joins.get(join).left += runs.len() as u32 - 1;
                join
            }
        };
        for (run, from) in runs {
            let piece = Part {
                wanted: run,
                offset: part.offset + (run.start - wanted.start),
                join,
                ..part
            };
            match from {
                Piece::Copy(slot) => {
                    self.stats.copy_reads += 1;
                    let pages = self.pages_of(run);
                    self.note_read(slot, pages.clone());
                    let stand = self.stand(slot, pages.end - pages.start);
                    let skip = run.start - self.home_of(pages.start, 1).start;
                    let read = Self::new_read(piece, stand, Some(slot), skip);
                    self.submit_read(read, asked);
                }
                Piece::Zeroes => self.read_zeroes(piece),
                Piece::Home => {
                    self.stats.home_reads += 1;
                    let at = (Target::Home, run);
                    self.submit_read(Self::new_read(piece, at, None, Sectors(0)), asked);
                }
            }
        }
    }

    /// Sends a read through a buffer, so that RAM can keep what it brings; past RAM, and then only what is
    /// wanted, where RAM is off or the buffer too short. Pages of the area asked for in part need the buffer.
    fn submit_read(&mut self, mut read: Read, asked: Asked) {
        let fits = read.io.bytes() <= self.config.buffer_bytes;
        let in_part = read.from.is_some() && read.io.len != read.wanted.len;
        let memory = if fits && (!self.cache.is_off() || in_part) {
            let index = self.take_buffer();
            read.buffer = Some(index);
            Memory::Buffer { index, offset: Sectors(0) }
        } else {
            read.io = Extent { start: read.io.start + read.skip, len: read.wanted.len };
            read.from = read.from.map(|slot| slot + (read.skip.0 / PAGE_SECTORS) as u32);
            read.skip = Sectors(0);
            Memory::Client { id: read.id, offset: read.offset }
        };
        read.mark = self.writes.mark(self.writes_open);
        read.stream = asked.stream;
        if let Some(slot) = read.from {
            let segment = self.segment_of(slot);
            self.readers[segment] += 1;
        }
        let name = self.start(Pending::Read(read));
        if read.buffer.is_some() && !self.cache.is_off() {
            self.fills.push(name);
        }
        self.submit(name, read.target, Op::Read, read.io, asked, Some(memory));
    }

    /// A read ended at the device. True where its checksums are awaited now, and its name is still in use.
    pub(crate) fn read_done(&mut self, io: IoId, mut read: Read, ok: bool) -> bool {
        if ok {
            let (offset, pages) = match read.from {
                Some(_) => (Sectors(0), (read.io.len.0 / PAGE_SECTORS) as u32),
                None => {
                    let (first, pages) = self.provable(read.io);
                    read.proves = (first, pages);
                    let start = self.home_of(first, 1).start;
                    (Sectors(start.0.saturating_sub(read.io.start.0)), pages)
                }
            };
            if pages > 0 {
                let from = match read.buffer {
                    Some(index) => Memory::Buffer { index, offset },
                    None => Memory::Client { id: read.id, offset: read.offset + offset },
                };
                self.sums.push_back(SumFor::Read(io));
                self.out.push_back(Output::Sum(Sum { from, pages }));
                self.pending[io.0 as usize] = Some(Pending::Summing(read));
                return true;
            }
        }
        self.read_ended(io, &read, ok);
        false
    }

    /// The whole pages of a run read from home, where any of them has a copy in doubt.
    fn provable(&self, io: Extent) -> (u64, u32) {
        if self.map.count(State::Suspect) == 0 {
            return (0, 0);
        }
        let pages = self.whole_pages_of(io);
        let any = pages.clone().any(|page| self.state_of(page) == Some(State::Suspect));
        if any { (pages.start, (pages.end - pages.start) as u32) } else { (0, 0) }
    }

    pub(crate) fn read_summed(&mut self, io: IoId, sums: &[PageSum]) {
        let Some(Pending::Summing(mut read)) = self.pending[io.0 as usize].take() else {
            unreachable!("only a read that waits for its sums is named")
        };
        match read.from {
            Some(slot) => {
                let wanted = Extent::new(read.io.start.0 + read.skip.0, read.wanted.len.0);
                let mut fault = false;
                let mut again = false;
                for ((slot, &sum), at) in (slot..).zip(sums).zip(0..) {
                    if sum != self.map.sum(slot) {
                        let lost = self.damaged(slot);
                        let page = Extent::new(read.io.start.0 + at * PAGE_SECTORS, PAGE_SECTORS);
                        let asked_for = page.overlaps(wanted);
                        fault |= lost && asked_for;
                        read.spoiled |= lost;
                        again |= asked_for;
                    }
                }
                if again {
                    self.release(&read);
                    if fault {
                        self.finish_read(&read, Err(Fault::Damaged(read.wanted)));
                    } else {
                        let found = self.locate(read.wanted);
                        self.read_part(read.part(), found, read.again());
                    }
                    self.wake(io, &read);
                    self.pending_free.push(io.0);
                    return;
                }
            }
            None => {
                let (first, _) = read.proves;
                for (page, &sum) in (first..).zip(sums) {
                    self.judge(page, sum, read.mark);
                }
            }
        }
        self.read_ended(io, &read, true);
        self.pending_free.push(io.0);
    }

    /// A slot's bytes do not match their checksum. True where they were the only copy.
    pub(crate) fn damaged(&mut self, slot: u32) -> bool {
        self.stats.damaged += 1;
        match self.map.state(slot) {
            State::Dirty => true,
            _ => {
                self.drop_copy(slot);
                false
            }
        }
    }

    /// A page of home was read whole since `mark`: its copy, if in doubt, is proven or dropped.
    pub(crate) fn judge(&mut self, page: u64, sum: PageSum, mark: Mark) {
        let suspect = |engine: &Self| {
            engine.map.find_all(page).find(|&slot| engine.map.state(slot) == State::Suspect)
        };
        if suspect(self).is_none() || self.writes.touched(mark, self.home_of(page, 1), None) {
            return;
        }
        while let Some(slot) = suspect(self) {
            if self.map.sum(slot) == sum {
                self.map.set_state(slot, State::Clean);
                self.stats.proven += 1;
            } else {
                self.drop_copy(slot);
            }
        }
    }

    /// The read no longer holds its part of the area, nor its buffer.
    fn release(&mut self, read: &Read) {
        if let Some(slot) = read.from {
            let segment = self.segment_of(slot);
            self.readers[segment] -= 1;
            self.place_was_read();
        }
        if let Some(index) = read.buffer {
            self.buffers_free.push(index);
        }
    }

    fn read_ended(&mut self, io: IoId, read: &Read, ok: bool) {
        self.release(read);
        if ok {
            if let Some(index) = read.buffer {
                self.out.push_back(Output::Move(Move {
                    from: Memory::Buffer { index, offset: read.skip },
                    to: Memory::Client { id: read.id, offset: read.offset },
                    len: read.wanted.len,
                }));
            }
            self.finish_read(read, Ok(()));
            if let Some(index) = read.buffer
                && !self.cache.is_off()
                && !read.spoiled
            {
                self.fill_from(read, index);
            }
        } else {
            self.read_failed(read);
        }
        self.wake(io, read);
    }

    fn read_failed(&mut self, read: &Read) {
        let asked = read.again();
        match read.from {
            None if read.io.len > read.wanted.len => {
                // The fault may lie in what nobody asked for: again, without read-ahead and past RAM.
                let mut exact = *read;
                (exact.io, exact.skip, exact.buffer) = (read.wanted, Sectors(0), None);
                exact.mark = self.writes.mark(self.writes_open);
                let name = self.start(Pending::Read(exact));
                let memory = Memory::Client { id: read.id, offset: read.offset };
                self.submit(name, Target::Home, Op::Read, exact.io, asked, Some(memory));
            }
            None => self.finish_read(read, Err(Fault::Device(read.wanted))),
            Some(slot) => {
                let first = slot + (read.skip.0 / PAGE_SECTORS) as u32;
                let pages = self.pages_of(read.wanted);
                let count = pages.end - pages.start;
                let exact = read.io.len.0 == count * PAGE_SECTORS;
                let (mut lost, mut spare) = (false, !exact);
                for slot in first..first + count as u32 {
                    if self.map.state(slot) == State::Dirty {
                        lost = true;
                    } else {
                        // Home is still whole.
                        self.drop_copy(slot);
                        spare = true;
                    }
                }
                if !lost {
                    let found = self.locate(read.wanted);
                    self.read_part(read.part(), found, asked);
                } else if spare {
                    self.read_pieces(read.part(), asked);
                } else {
                    self.finish_read(read, Err(Fault::Device(read.wanted)));
                }
            }
        }
    }

    fn finish_read(&mut self, read: &Read, result: Result<(), Fault>) {
        if read.join == ALONE {
            self.out.push_back(Output::Complete { id: read.id, result });
            return;
        }
        let join = self.joins.get(read.join);
        join.left -= 1;
        join.fault = join.fault.or(result.err());
        if join.left == 0 {
            let Join { id, fault, .. } = *join;
            self.out.push_back(Output::Complete { id, result: fault.map_or(Ok(()), Err) });
            self.joins.give(read.join);
        }
    }

    /// Puts what a buffer brought into RAM, but for what was written since the read began, and but for what home
    /// no longer has the newest bytes of.
    fn fill_from(&mut self, read: &Read, index: u32) {
        match read.from {
            None => self.fill(read.io, index, Sectors(0), read.mark),
            Some(first) => {
                let pages = (read.io.len.0 / PAGE_SECTORS) as u32;
                for i in 0..pages {
                    let slot = first + i;
                    if !matches!(self.map.state(slot), State::Clean | State::Dirty) {
                        continue;
                    }
                    let Some(page) = self.map.home(slot) else { continue };
                    let home = self.home_of(page, 1);
                    let mut from = Sectors(u64::from(i) * PAGE_SECTORS);
                    for piece in pieces(home) {
                        let part = Extent::new(piece.page * PAGE_SECTORS + piece.offset, piece.len);
                        self.fill_piece(part, index, from, read.mark);
                        from += part.len;
                    }
                }
            }
        }
    }

    fn fill(&mut self, home: Extent, buffer: u32, from: Sectors, mark: Mark) {
        let logged = self.map.count(State::Dirty) > 0;
        for piece in pieces(home) {
            let part = Extent::new(piece.page * PAGE_SECTORS + piece.offset, piece.len);
            let stale =
                logged && self.pages_of(part).any(|p| self.state_of(p) == Some(State::Dirty));
            if !stale {
                self.fill_piece(part, buffer, from + (part.start - home.start), mark);
            }
        }
    }

    /// Puts a part of a RAM page that stands in a buffer into RAM, unless it was overtaken by a write since `mark`.
    fn fill_piece(&mut self, part: Extent, buffer: u32, offset: Sectors, mark: Mark) {
        if self.writes.touched(mark, part, None) {
            return;
        }
        for piece in pieces(part) {
            let index = self.cache.insert(piece);
            self.out.push_back(Output::Move(Move {
                from: Memory::Buffer { index: buffer, offset },
                to: Memory::Slot { index, offset: Sectors(piece.offset) },
                len: part.len,
            }));
        }
    }

    /// Serves the reads that waited for a fill: from RAM, or, where a write or a fault came between, by
    /// themselves.
    fn wake(&mut self, fill: IoId, read: &Read) {
        if read.buffer.is_none() {
            return;
        }
        self.fills.retain(|&f| f != fill);
        let mut at = 0;
        while let Some(&Waiting { fill: waits_for, id, extent, asked, waits }) =
            self.waiting.get(at)
        {
            if waits_for == fill {
                self.waiting.remove(at);
                self.read(id, extent, asked, waits);
            } else {
                at += 1;
            }
        }
    }
}
