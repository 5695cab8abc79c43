//! The deterministic block engine. Time and I/O results are arguments, I/O requests are outputs; the
//! live server and the simulator are two loops around this one machine. With no plan installed it is the
//! vanilla system: the same RAM, the same read-ahead, no copies.
//!
//! It knows no clock, no thread, no file and no byte of data.
#![forbid(unsafe_code)]

mod api;
mod cache;
mod map;
mod reconfigure;
mod writes;

use std::collections::VecDeque;

pub use api::{
    Class, Config, Fault, Input, Io, IoFailed, IoId, Memory, Move, Output, RequestId, Stats, Target,
};
use cache::{RamCache, pieces};
use map::Map;
pub use reconfigure::Progress;
use reconfigure::Reconfigurer;
use seekless_block::{
    Extent, Flags, Lba, Op, PAGE_BYTES, Request, SECTOR_BYTES, Sectors, SimTime, StreamId,
};
use seekless_layout::Plan;
use writes::{Mark, WriteLog};

/// A read that found nothing of what it waited for so often reads for itself: RAM is too small to wait.
const WAITS: u8 = 4;

/// The engine of one volume.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    cache: RamCache,
    map: Map,
    /// Counts installed plans: a read of the area knows whose copies it reads.
    plan: u64,
    /// Reads of the area that an earlier plan sent and that have not ended: nothing may be overwritten.
    readers_before_plan: u32,
    area_readers: u32,
    writes: WriteLog,
    writes_open: usize,
    pending: Vec<Option<Pending>>,
    pending_free: Vec<u32>,
    buffers_free: Vec<u32>,
    buffers_made: u32,
    /// Reads in flight that will fill RAM.
    fills: Vec<IoId>,
    /// Reads that wait for one of them.
    waiting: Vec<Waiting>,
    reconfigurer: Reconfigurer,
    /// Reads go home although copies stand.
    bypass: bool,
    out: VecDeque<Output>,
    stats: Stats,
}

/// An I/O that has been submitted.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Read(Read),
    Write { id: RequestId, extent: Extent, mark: Mark, since: Mark, payload: bool },
    Flush { id: RequestId },
    StageRead { placed: Extent },
    StageWrite { placed: Extent },
}

/// A client's read in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    id: RequestId,
    /// The part of the client's extent that was not in RAM.
    wanted: Extent,
    /// Where it starts in the client's buffer.
    offset: Sectors,
    target: Target,
    /// What is read, in the target's addresses.
    io: Extent,
    /// Where `wanted` starts within `io`.
    skip: Sectors,
    /// The buffer it lands in; none where it goes to the client directly.
    buffer: Option<u32>,
    mark: Mark,
    plan: u64,
    stream: StreamId,
}

/// How an I/O is asked for, and by whom.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    flags: Flags,
    stream: StreamId,
}

impl Read {
    /// How it is asked for once more.
    const fn again(&self) -> Asked {
        Asked { flags: Flags::NONE, stream: self.stream }
    }
}

/// A client's read of what is on its way to RAM already.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    fill: IoId,
    id: RequestId,
    extent: Extent,
    asked: Asked,
    /// How often it may wait again.
    waits: u8,
}

impl Engine {
    /// An engine with no copies.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let pages = u32::try_from(config.cache_bytes.0 / PAGE_BYTES).unwrap_or(u32::MAX - 1);
        Self {
            cache: RamCache::new(pages),
            map: Map::empty(config.area),
            plan: 0,
            readers_before_plan: 0,
            area_readers: 0,
            writes: WriteLog::new(),
            writes_open: 0,
            pending: Vec::with_capacity(256),
            pending_free: Vec::with_capacity(256),
            buffers_free: Vec::with_capacity(256),
            buffers_made: 0,
            fills: Vec::with_capacity(256),
            waiting: Vec::with_capacity(256),
            reconfigurer: Reconfigurer::default(),
            bypass: false,
            out: VecDeque::with_capacity(1024),
            stats: Stats::default(),
            config,
        }
    }

    /// Takes one input at time `now`, which never runs backwards. Afterwards call [`Self::poll`] until it
    /// is empty; an I/O may be answered with [`Input::Done`] between two polls.
    ///
    /// # Panics
    /// If `Done` names an I/O that is not in flight: a bug of the driver.
    pub fn handle(&mut self, now: SimTime, input: Input) {
        match input {
            Input::Request { id, request } => self.request(id, &request),
            Input::Done { io, result } => self.done(io, result.is_ok()),
            Input::Install(plan) => self.reconfigurer.ask(plan),
            Input::Bypass(on) => self.bypass = on,
            Input::Tick => {}
        }
        if self.reconfigurer.is_active() {
            self.reconfigure(now);
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When to call [`Self::handle`] with [`Input::Tick`], if ever: background work waits for its budget.
    #[must_use]
    pub fn wakeup(&self) -> Option<SimTime> {
        self.reconfigurer.wakeup()
    }

    /// How far the move to the installed plan has come; `None` when there is nothing to move.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.reconfigurer.progress()
    }

    /// What has been done so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Sectors that have a copy that may be used.
    #[must_use]
    pub const fn copied(&self) -> Sectors {
        Sectors(self.map.valid.count())
    }

    /// The copies that may be used, in order of place: what is left of the plans that were installed.
    #[must_use]
    pub fn standing(&self) -> Plan {
        self.map.standing()
    }

    fn request(&mut self, id: RequestId, request: &Request) {
        self.stats.requests += 1;
        let extent = request.extent;
        let asked = Asked { flags: request.flags, stream: request.stream };
        if request.op == Op::Flush {
            let io = self.start(Pending::Flush { id });
            self.submit(io, Target::Home, Op::Flush, Extent::default(), asked, None);
        } else if extent.end().0 > self.config.capacity.0 {
            let fault = Fault::OutOfRange { extent, capacity: self.config.capacity };
            self.out.push_back(Output::Complete { id, result: Err(fault) });
        } else if extent.is_empty() {
            self.out.push_back(Output::Complete { id, result: Ok(()) });
        } else if request.op == Op::Read {
            self.read(id, extent, asked, WAITS);
        } else {
            self.write(id, request, asked);
        }
    }

    /// Reads come from RAM where all is there; else from the copy if it is complete, contiguous and valid;
    /// else from home. BORG (FAST'09) 4.5, with the page-wise rule made sector-wise and a copy in pieces
    /// left alone: one access at home is cheaper than several in the area.
    /// What a read in flight will bring to RAM is waited for, not read again.
    fn read(&mut self, id: RequestId, extent: Extent, asked: Asked, waits: u8) {
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
        let offset = wanted.start - extent.start;
        let place = if self.bypass { None } else { self.map.find(wanted) };
        if waits > 0
            && let Some(fill) = self.on_its_way(wanted.start, place)
        {
            self.waiting.push(Waiting { fill, id, extent, asked, waits: waits - 1 });
            return;
        }
        match place {
            Some(place) => self.read_copy(id, wanted, offset, place, asked),
            None => self.read_home(id, wanted, offset, asked),
        }
    }

    /// A read in flight that will bring this sector to RAM, unless it is overtaken by a write. `place` is
    /// where the sector's copy stands.
    fn on_its_way(&self, sector: Lba, place: Option<Lba>) -> Option<IoId> {
        let holds = |io: Extent, at: Lba| io.start <= at && at < io.end();
        self.fills.iter().copied().find(|io| match self.pending[io.0 as usize] {
            Some(Pending::Read(f)) if f.target == Target::Home => holds(f.io, sector),
            Some(Pending::Read(f)) => f.plan == self.plan && place.is_some_and(|p| holds(f.io, p)),
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

    fn read_home(&mut self, id: RequestId, wanted: Extent, offset: Sectors, asked: Asked) {
        self.stats.home_reads += 1;
        let ahead = self.config.read_ahead.0 / SECTOR_BYTES;
        let end = (wanted.start.0.saturating_add(ahead)).min(self.config.capacity.0);
        let io = Extent::span(wanted.start.0, end.max(wanted.end().0));
        let target = Target::Home;
        let read = Read { id, wanted, offset, target, io, ..Read::default() };
        self.submit_read(read, asked);
    }

    fn read_copy(
        &mut self,
        id: RequestId,
        wanted: Extent,
        offset: Sectors,
        place: Lba,
        asked: Asked,
    ) {
        self.stats.copy_reads += 1;
        let placed = Extent { start: place, len: wanted.len };
        let cluster = self.config.cluster.0 / SECTOR_BYTES;
        let mut io = placed;
        if cluster > 0 && !self.cache.is_off() {
            let start = place.0 / cluster * cluster;
            let end = placed.end().0.next_multiple_of(cluster).min(self.config.area.0);
            // Only sectors that are valid now: one that becomes valid while the read is in flight may
            // have been read before its copy was written.
            for (run, valid) in self.map.valid.runs(Extent::span(start, end)) {
                if valid && run.contains(placed) {
                    io = run;
                }
            }
        }
        let (target, skip) = (Target::Area, place - io.start);
        self.submit_read(Read { id, wanted, offset, target, io, skip, ..Read::default() }, asked);
    }

    /// Sends a read through a buffer, so that RAM can keep what it brings; past RAM, and then only what is
    /// wanted, where RAM is off or the buffer too short.
    fn submit_read(&mut self, mut read: Read, asked: Asked) {
        let memory = if !self.cache.is_off() && read.io.bytes() <= self.config.buffer_bytes {
            let index = self.take_buffer();
            read.buffer = Some(index);
            read.mark = self.writes.mark(self.writes_open);
            Memory::Buffer { index, offset: Sectors(0) }
        } else {
            read.io = Extent { start: read.io.start + read.skip, len: read.wanted.len };
            read.skip = Sectors(0);
            Memory::Client { id: read.id, offset: read.offset }
        };
        read.plan = self.plan;
        read.stream = asked.stream;
        self.area_readers += u32::from(read.target == Target::Area);
        let name = self.start(Pending::Read(read));
        if read.buffer.is_some() {
            self.fills.push(name);
        }
        self.submit(name, read.target, Op::Read, read.io, asked, Some(memory));
    }

    fn write(&mut self, id: RequestId, request: &Request, asked: Asked) {
        let extent = request.extent;
        // Before anything later can look: no copy and no page in RAM may be used from here on.
        self.map.written(extent);
        self.cache.invalidate(extent);
        let payload = request.op == Op::Write;
        let keep = payload && !self.cache.is_off();
        let since = if keep { self.writes.mark(self.writes_open) } else { Mark::default() };
        let mark = self.writes.begin(extent);
        self.writes_open += 1;
        let io = self.start(Pending::Write { id, extent, mark, since, payload: keep });
        let memory = payload.then_some(Memory::Client { id, offset: Sectors(0) });
        self.submit(io, Target::Home, request.op, extent, asked, memory);
    }

    fn done(&mut self, io: IoId, ok: bool) {
        let pending = self.pending[io.0 as usize].take();
        match pending {
            Some(Pending::Read(read)) => {
                self.read_done(read, ok);
                if read.buffer.is_some() {
                    self.fills.retain(|&fill| fill != io);
                    self.wake(io);
                }
            }
            Some(Pending::Write { id, extent, mark, since, payload }) => {
                self.writes.end(mark);
                self.writes_open -= 1;
                if ok && payload {
                    self.keep_written(id, extent, mark, since);
                }
                self.complete(id, extent, ok);
            }
            Some(Pending::Flush { id }) => self.complete(id, Extent::default(), ok),
            Some(Pending::StageRead { placed }) => self.stage_read_done(placed, ok),
            Some(Pending::StageWrite { placed }) => self.stage_write_done(placed, ok),
            None => panic!("I/O {} was answered, but is not in flight", io.0),
        }
        self.pending_free.push(io.0);
    }

    fn read_done(&mut self, read: Read, ok: bool) {
        if read.target == Target::Area {
            self.area_readers -= 1;
            self.readers_before_plan -= u32::from(read.plan != self.plan);
        }
        if let Some(index) = read.buffer {
            self.buffers_free.push(index);
        }
        if !ok {
            if read.target == Target::Area {
                // The copy cannot be read: home is still whole.
                self.map.written(read.wanted);
                self.read_home(read.id, read.wanted, read.offset, read.again());
            } else if read.io.len > read.wanted.len {
                // The fault may lie in what nobody asked for.
                self.read_exactly(&read);
            } else {
                self.complete(read.id, read.wanted, false);
            }
            return;
        }
        if let Some(index) = read.buffer {
            self.out.push_back(Output::Move(Move {
                from: Memory::Buffer { index, offset: read.skip },
                to: Memory::Client { id: read.id, offset: read.offset },
                len: read.wanted.len,
            }));
        }
        self.complete(read.id, read.wanted, true);
        let Some(index) = read.buffer else { return };
        match read.target {
            Target::Home => {
                self.fill(read.io, index, Sectors(0), Some(read.mark));
            }
            // All of it was valid when the read began. What is valid still was not written since; and
            // while this read was in flight no place it covers was given to another home.
            Target::Area => {
                let map = std::mem::take(&mut self.map);
                for (home, place) in map.placed_within(read.io) {
                    let placed = Extent { start: place, len: home.len };
                    for (run, still) in map.valid.runs(placed) {
                        if still {
                            let part =
                                Extent { start: home.start + (run.start - place), len: run.len };
                            self.fill(part, index, run.start - read.io.start, None);
                        }
                    }
                }
                self.map = map;
            }
        }
    }

    /// Serves the reads that waited for a fill: from RAM, or, where a write or a fault came between, by
    /// themselves.
    fn wake(&mut self, fill: IoId) {
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

    /// Again, without read-ahead and past RAM.
    fn read_exactly(&mut self, failed: &Read) {
        let read = Read { io: failed.wanted, skip: Sectors(0), buffer: None, ..*failed };
        let name = self.start(Pending::Read(read));
        let memory = Memory::Client { id: read.id, offset: read.offset };
        self.submit(name, Target::Home, Op::Read, read.io, read.again(), Some(memory));
    }

    /// Puts a run of home sectors that stands in a buffer into RAM; pages overtaken by a write since
    /// `mark` are left out.
    fn fill(&mut self, home: Extent, buffer: u32, from: Sectors, mark: Option<Mark>) {
        let mut offset = from;
        for piece in pieces(home) {
            let part = Extent { start: home.start + (offset - from), len: Sectors(piece.len) };
            if mark.is_none_or(|m| !self.writes.touched(m, part, None)) {
                let index = self.cache.insert(piece);
                self.out.push_back(Output::Move(Move {
                    from: Memory::Buffer { index: buffer, offset },
                    to: Memory::Slot { index, offset: Sectors(piece.offset) },
                    len: part.len,
                }));
            }
            offset += part.len;
        }
    }

    /// A completed write stays in RAM, unless another write to the same page was in flight with it: the
    /// device alone knows which came last.
    fn keep_written(&mut self, id: RequestId, extent: Extent, mark: Mark, since: Mark) {
        if extent.bytes() > self.config.buffer_bytes {
            return;
        }
        let mut offset = Sectors(0);
        for piece in pieces(extent) {
            let part = Extent { start: extent.start + offset, len: Sectors(piece.len) };
            if !self.writes.touched(since, part, Some(mark)) {
                let index = self.cache.insert(piece);
                self.out.push_back(Output::Move(Move {
                    from: Memory::Client { id, offset },
                    to: Memory::Slot { index, offset: Sectors(piece.offset) },
                    len: part.len,
                }));
            }
            offset += part.len;
        }
    }

    fn complete(&mut self, id: RequestId, extent: Extent, ok: bool) {
        let result = if ok { Ok(()) } else { Err(Fault::Device(extent)) };
        self.out.push_back(Output::Complete { id, result });
    }

    fn start(&mut self, pending: Pending) -> IoId {
        if let Some(at) = self.pending_free.pop() {
            self.pending[at as usize] = Some(pending);
            IoId(at)
        } else {
            self.pending.push(Some(pending));
            IoId(self.pending.len() as u32 - 1)
        }
    }

    fn submit(
        &mut self,
        id: IoId,
        target: Target,
        op: Op,
        extent: Extent,
        Asked { flags, stream }: Asked,
        memory: Option<Memory>,
    ) {
        let class = Class::Foreground;
        self.out.push_back(Output::Submit(Io {
            id,
            target,
            op,
            extent,
            flags,
            class,
            stream,
            memory,
        }));
    }

    fn take_buffer(&mut self) -> u32 {
        self.buffers_free.pop().unwrap_or_else(|| {
            self.buffers_made += 1;
            self.buffers_made - 1
        })
    }
}
