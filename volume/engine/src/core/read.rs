//! The read path. A read is served from RAM if RAM has all of it; else from a copy that is complete
//! and contiguous; else from home. If the write buffer holds some of the newest bytes, the read is
//! served in pieces. BORG (FAST'09) 4.5: a read that is only partly copied goes home, because one
//! access at home is cheaper than several in the area. If a read in flight will bring the same page
//! to RAM, a second read waits for the first. Bytes from the area are used only after their
//! checksum matched.

use seekless_block::{
    Extent, Flags, Lba, Op, PAGE_BYTES, PAGE_SECTORS, Request, Sectors, SimTime, StreamId,
};
use seekless_learn::WindowId;

use crate::core::page_map::{CopyState, HomePage, Slot};
use crate::core::read_ahead::Chosen;
use crate::core::write_order::Since;
use crate::{
    Engine, Fault, IoId, Memory, MemoryMove, Output, Pending, RequestId, RequestOrigin, Target,
};

/// Maximum number of times that a read waits for other reads. After that RAM is too small, and the
/// read goes to the device.
pub(crate) const WAITS: u8 = 4;
/// Shortest rest of a window that is a read of its own.
const ALONG_MIN: Sectors = Sectors(5 * PAGE_SECTORS);
/// Belongs to no join.
pub(super) const ALONE: u32 = u32::MAX;
/// Brings pages to RAM only. A client's read may wait for them.
pub(super) const FILLS: u32 = u32::MAX - 1;

/// A client's read, or a piece of one, in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    pub(super) id: RequestId,
    /// The part of the client's extent that this I/O is for.
    pub(super) wanted: Extent,
    /// Where it starts in the client's buffer.
    pub(super) offset: Sectors,
    /// The join it is a piece of, or [`ALONE`].
    pub(super) join: u32,
    pub(super) target: Target,
    /// The first slot of a read of copies.
    pub(super) from: Option<Slot>,
    /// The read sectors, in the target's addresses.
    pub(super) io: Extent,
    /// Where `wanted` starts within `io`.
    pub(super) skip: Sectors,
    /// The buffer it lands in; none where it goes to the client directly.
    pub(super) buffer: Option<u32>,
    /// A read from home may prove copies in doubt: its first whole page, and the number of pages.
    pub(super) proves: (u64, u32),
    /// A page of the read-ahead is damaged, and has no other copy: RAM keeps no page of this read.
    pub(super) spoiled: bool,
    /// When it began.
    pub(super) since: Since,
    pub(super) stream: StreamId,
    /// The data of learned read-ahead about it.
    pub(super) window: WindowId,
    /// Number of its first page in the window.
    pub(super) window_at: u32,
    /// Sectors of the window that may be read behind it.
    pub(super) more: Sectors,
}

/// A part of a client's read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadPart {
    id: RequestId,
    wanted: Extent,
    offset: Sectors,
    join: u32,
}

/// A client's read in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinedRead {
    pub(super) id: RequestId,
    pub(super) left: u32,
    pub(super) fault: Option<Fault>,
}

/// A client's read of what is on its way to RAM already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingRead {
    pub(super) fill: IoId,
    pub(super) id: RequestId,
    pub(super) extent: Extent,
    pub(super) asked: RequestOrigin,
    /// How often it may wait again.
    pub(super) waits: u8,
}

/// Where the newest bytes of an extent stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewestAt {
    Home,
    /// All of it, from this slot on.
    Copy(Slot),
    /// Nowhere: the client has discarded all of it.
    Zeroes,
    Pieces,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceSource {
    Home,
    /// A slot, and those behind it.
    Copy(Slot),
    Zeroes,
}

impl Read {
    /// How it is asked for once more.
    pub(super) const fn again(&self) -> RequestOrigin {
        RequestOrigin { flags: Flags::NONE, stream: self.stream }
    }

    /// Whether it reads any of these sectors of the target.
    pub(crate) fn reads(&self, target: Target, extent: Extent) -> bool {
        self.target == target && self.io.overlaps(extent)
    }

    /// Whether it reads a replica in any of these sectors of home.
    pub(crate) fn reads_replica(&self, home: Extent) -> bool {
        self.from.is_some() && self.reads(Target::Home, home)
    }

    pub(super) const fn part(&self) -> ReadPart {
        ReadPart { id: self.id, wanted: self.wanted, offset: self.offset, join: self.join }
    }
}

impl Engine {
    pub(crate) fn read(&mut self, id: RequestId, extent: Extent, asked: RequestOrigin, waits: u8) {
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
        let RequestOrigin { flags, stream } = asked;
        let request = Request { flags, stream, ..Request::new(SimTime::ZERO, Op::Read, extent) };
        if self.waits_for_log(id, wanted, request) {
            return;
        }
        let found = self.locate(wanted);
        if waits > 0
            && let Some(fill) = self.on_its_way(wanted.start, found)
        {
            self.waiting.push(WaitingRead { fill, id, extent, asked, waits: waits - 1 });
            return;
        }
        let found = if waits > 0 { self.weigh(found, wanted) } else { found };
        if let Some(chosen) = self.chosen_scattered() {
            let fill = self.read_scattered(wanted, chosen, asked);
            self.waiting.push(WaitingRead { fill, id, extent, asked, waits: waits - 1 });
            return;
        }
        let part = ReadPart { id, wanted, offset: wanted.start - extent.start, join: ALONE };
        self.read_part(part, found, asked);
    }

    pub(super) fn read_part(&mut self, part: ReadPart, found: NewestAt, asked: RequestOrigin) {
        match found {
            NewestAt::Copy(slot) => self.read_copy(part, slot, asked),
            NewestAt::Home => self.read_home(part, asked),
            NewestAt::Zeroes => self.read_zeroes(part),
            NewestAt::Pieces => self.read_pieces(part, asked),
        }
    }

    pub(super) fn locate(&self, wanted: Extent) -> NewestAt {
        let pages = self.pages_of(wanted);
        if self.free.overlaps(pages.clone()) {
            let all = self.free.covers(pages.clone())
                && self.home_of(pages.start, pages.end - pages.start).contains(wanted);
            return if all { NewestAt::Zeroes } else { NewestAt::Pieces };
        }
        if self.copies.len() == 0 || pages.is_empty() {
            return NewestAt::Home;
        }
        let before_grid = wanted.start < Lba(0) + self.config.grid;
        let copy = if before_grid {
            None
        } else {
            // Of several the nearest.
            let runs = self.copies.runs(HomePage(pages.start), (pages.end - pages.start) as u32);
            runs.min_by_key(|&slot| self.way_to(slot))
        };
        // The order of the log is not an order of reads, and home also has the clean pages of the
        // log. A replica saves time only if the replica is nearer than home.
        let copy = copy.filter(|&slot| {
            !self.bypass && !self.copies.is_log(slot) && self.is_worth_reading(slot, wanted.start)
        });
        if let Some(slot) = copy {
            return NewestAt::Copy(slot);
        }
        let dirty = pages.into_iter().any(|page| self.copies.is_dirty(HomePage(page)));
        match copy {
            Some(slot) if dirty => NewestAt::Copy(slot),
            _ if dirty => NewestAt::Pieces,
            _ => NewestAt::Home,
        }
    }

    /// A read in flight that will bring this sector to RAM, unless it is overtaken by a write.
    fn on_its_way(&self, sector: Lba, found: NewestAt) -> Option<IoId> {
        let holds = |io: Extent, at: Lba| io.start <= at && at < io.end();
        let page = HomePage(self.pages_of(Extent::new(sector.0, 1)).start);
        let reads = |f: &Read, slot: Slot| {
            f.from.is_some_and(|first| {
                first <= slot && u64::from(slot - first) < f.io.len.0 / PAGE_SECTORS
            })
        };
        self.fills.iter().copied().find(|io| match self.pending[io.0 as usize] {
            Some(Pending::Read(f)) if f.from.is_none() => {
                !matches!(found, NewestAt::Pieces | NewestAt::Zeroes) && holds(f.io, sector)
            }
            Some(Pending::Read(f)) => match found {
                NewestAt::Copy(slot) if self.ahead.is_none() => reads(&f, slot),
                // Another copy may be on its way than the one that was found.
                NewestAt::Copy(_) | NewestAt::Home if self.ahead.is_some() => {
                    self.copies.find_all(page).any(|slot| reads(&f, slot))
                }
                _ => false,
            },
            _ => false,
        })
    }

    fn serve_from_ram(&mut self, id: RequestId, extent: Extent, part: Extent) {
        let mut offset = part.start - extent.start;
        for piece in self.cache.grid.pieces(part) {
            let Some(index) = self.cache.find(piece) else { continue };
            self.cache.touch(index);
            self.note_hit(index, piece.page);
            let len = Sectors(piece.len);
            self.out.push_back(Output::Move(MemoryMove {
                from: Memory::Slot { index, offset: Sectors(piece.offset) },
                to: Memory::Client { id, offset },
                len,
            }));
            offset += len;
        }
    }

    fn read_home(&mut self, part: ReadPart, asked: RequestOrigin) {
        self.stats.home_reads += 1;
        let (io, window) = self.home_window(part.wanted);
        let skip = part.wanted.start - io.start;
        let read = Read { window, ..Self::new_read(part, (Target::Home, io), None, skip) };
        let demanded = self.cache.grid.extent(self.cache.grid.pages(part.wanted));
        let first = (demanded.end() - io.start).min(io.len);
        self.submit_in_two(read, first, asked);
    }

    /// Sends a read with a window as two reads. The client waits for the first one alone, which holds
    /// all demanded pages.
    fn submit_in_two(&mut self, read: Read, first: Sectors, asked: RequestOrigin) -> IoId {
        let whole = read.io.len < first + ALONG_MIN || self.reads_as_one(read.target);
        if read.window == WindowId::default() || whole {
            return self.submit_read(read, asked);
        }
        self.share_window(read.window);
        let (start, pages) = (read.io.start + first, first.0.div_ceil(PAGE_SECTORS) as u32);
        let rest = Extent::span(start.0, read.io.end().0);
        let window_at = match read.from {
            None => self.cache.grid.pages(rest).start - self.cache.grid.pages(read.io).start,
            Some(_) => pages.into(),
        };
        let (len, more) = self.piece_of(rest.len);
        let along = Read {
            wanted: Extent::new(read.wanted.start.0, 0),
            join: FILLS,
            from: read.from.map(|slot| slot + pages),
            io: Extent { len, ..rest },
            more,
            skip: Sectors(0),
            window_at: window_at as u32,
            ..read
        };
        let io = Extent { start: read.io.start, len: first };
        let name = self.submit_read(Read { io, ..read }, asked);
        self.submit_read(along, asked);
        name
    }

    /// All of it was discarded by the client: home is not asked.
    fn read_zeroes(&mut self, part: ReadPart) {
        self.stats.zero_reads += 1;
        let to = Memory::Client { id: part.id, offset: part.offset };
        self.out.push_back(Output::Zero { to, len: part.wanted.len });
        let ReadPart { id, wanted, offset, join } = part;
        self.finish_read(&Read { id, wanted, offset, join, ..Read::default() }, Ok(()));
    }

    fn new_read(
        part: ReadPart,
        (target, io): (Target, Extent),
        from: Option<Slot>,
        skip: Sectors,
    ) -> Read {
        let ReadPart { id, wanted, offset, join } = part;
        Read { id, wanted, offset, join, target, from, io, skip, ..Read::default() }
    }

    /// Reads whole pages, as each page has one checksum. With RAM, reads the whole aligned cluster.
    fn read_copy(&mut self, part: ReadPart, slot: Slot, asked: RequestOrigin) {
        let pages = self.pages_of(part.wanted);
        let (mut from, mut to) = (slot.0, slot.0 + (pages.end - pages.start) as u32);
        let cluster = (self.config.cluster.0 / PAGE_BYTES) as u32;
        let chosen = self.ahead.as_mut().and_then(|ahead| ahead.chosen.take());
        let chosen = chosen.filter(|chosen| chosen.slot == slot);
        if let Some(chosen) = chosen {
            to = slot.0 + chosen.slots;
        } else if cluster > 0 && !self.cache.is_off() {
            // Only pages that are in these slots now: the read may get the old bytes of a page that
            // is written during the read.
            let usable =
                |s: u32| matches!(self.copies.state(Slot(s)), CopyState::Clean | CopyState::Dirty);
            while from > slot.0 / cluster * cluster && usable(from - 1) {
                from -= 1;
            }
            let end = (to.div_ceil(cluster) * cluster).min(self.geo.slots());
            while to < end && usable(to) {
                to += 1;
            }
        }
        self.note_read(slot, pages.clone());
        let stand = self.stand(Slot(from), u64::from(to - from));
        let skip = Sectors(u64::from(slot.0 - from) * PAGE_SECTORS)
            + (part.wanted.start - self.home_of(pages.start, 1).start);
        let whole = self.whole_pages_of(part.wanted) == pages;
        if !whole && stand.1.bytes() > self.config.buffer_bytes {
            self.read_pieces(part, asked);
        } else {
            self.stats.copy_reads += 1;
            self.free.replicas.touch(slot);
            let window = chosen.map(|chosen| self.goes_along(part.wanted, chosen));
            let window = window.unwrap_or_default();
            let read = Self::new_read(part, stand, Some(Slot(from)), skip);
            let first = Sectors((pages.end - pages.start) * PAGE_SECTORS);
            self.submit_in_two(Read { window, ..read }, first, asked);
        }
    }

    /// Brings copies to RAM that stand in another order than the demanded one.
    fn read_scattered(&mut self, wanted: Extent, chosen: Chosen, asked: RequestOrigin) -> IoId {
        self.stats.copy_reads += 1;
        let window = self.goes_along(wanted, chosen);
        let (target, io) = self.stand(chosen.slot, chosen.slots.into());
        let (from, join) = (Some(chosen.slot), FILLS);
        let read = Read { wanted, join, target, from, io, window, ..Read::default() };
        self.submit_in_two(read, Sectors(u64::from(chosen.must) * PAGE_SECTORS), asked)
    }

    /// Pages are read from this slot on: the log is no place to read from.
    fn note_read(&mut self, slot: Slot, pages: std::ops::Range<u64>) {
        if self.copies.is_log(slot) {
            pages.for_each(|page| self.background.was_read(HomePage(page)));
        }
    }

    /// The runs of pages of an extent by the place of their newest bytes. A page that is requested in
    /// part is a run of its own.
    fn pieces_of(&self, wanted: Extent) -> Vec<(Extent, PieceSource)> {
        let mut runs: Vec<(Extent, PieceSource)> = Vec::new();
        let whole = self.whole_pages_of(wanted);
        let mut at = wanted.start;
        for page in self.pages_of(wanted) {
            let home = self.home_of(page, 1);
            if at < home.start {
                runs.push((Extent::span(at.0, home.start.0), PieceSource::Home));
            }
            let Some(this) = home.intersection(wanted) else { continue };
            at = this.end();
            // A clean copy is not used: home has the same bytes, and the pages beside it.
            let slot = self
                .copies
                .find(HomePage(page))
                .filter(|&s| self.copies.state(s) == CopyState::Dirty);
            let from = match slot {
                Some(slot) => PieceSource::Copy(slot),
                None if self.free.overlaps(page..page + 1) => PieceSource::Zeroes,
                None => PieceSource::Home,
            };
            match (runs.last_mut(), from) {
                (Some((run, PieceSource::Home)), PieceSource::Home)
                | (Some((run, PieceSource::Zeroes)), PieceSource::Zeroes) => run.len += this.len,
                (Some((run, PieceSource::Copy(first))), PieceSource::Copy(slot))
                    if whole.contains(&page)
                        && whole.contains(&(page - 1))
                        && u64::from(slot.0) == u64::from(first.0) + run.len.0 / PAGE_SECTORS
                        && run.bytes() < self.config.buffer_bytes =>
                {
                    run.len += this.len;
                }
                _ => runs.push((this, from)),
            }
        }
        runs
    }

    /// Reads each run of pages from the place of its newest bytes.
    pub(super) fn read_pieces(&mut self, part: ReadPart, asked: RequestOrigin) {
        let wanted = part.wanted;
        let runs = self.pieces_of(wanted);
        let join = match part.join {
            ALONE => {
                let join = JoinedRead { id: part.id, left: runs.len() as u32, fault: None };
                self.joins.insert(join) as u32
            }
            join => {
                self.joins[join as usize].left += runs.len() as u32 - 1;
                join
            }
        };
        for (run, from) in runs {
            let piece = ReadPart {
                wanted: run,
                offset: part.offset + (run.start - wanted.start),
                join,
                ..part
            };
            match from {
                PieceSource::Copy(slot) => {
                    self.stats.copy_reads += 1;
                    let pages = self.pages_of(run);
                    self.note_read(slot, pages.clone());
                    let stand = self.stand(slot, pages.end - pages.start);
                    let skip = run.start - self.home_of(pages.start, 1).start;
                    let read = Self::new_read(piece, stand, Some(slot), skip);
                    self.submit_read(read, asked);
                }
                PieceSource::Zeroes => self.read_zeroes(piece),
                PieceSource::Home => {
                    self.stats.home_reads += 1;
                    let at = (Target::Home, run);
                    self.submit_read(Self::new_read(piece, at, None, Sectors(0)), asked);
                }
            }
        }
    }

    /// Sends a read through a buffer, so that RAM can keep its pages. If RAM is off or the buffer too
    /// short, only the demanded sectors are read, past RAM. Pages of the area that are requested in
    /// part need the buffer.
    pub(super) fn submit_read(&mut self, mut read: Read, asked: RequestOrigin) -> IoId {
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
        read.since = self.writes.since();
        read.stream = asked.stream;
        if let Some(slot) = read.from {
            self.copies.begin_read(slot, (read.io.len.0 / PAGE_SECTORS) as u32);
        }
        self.note_sent(&read);
        let name = self.start(Pending::Read(read));
        if read.buffer.is_some() && !self.cache.is_off() {
            self.fills.push(name);
        }
        self.submit(name, read.target, Op::Read, read.io, asked, Some(memory));
        name
    }
}
