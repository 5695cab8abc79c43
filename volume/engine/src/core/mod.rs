//! The small core, to be read first: the RAM cache, the read path, the write path and the map of
//! copies. A request enters by [`Engine::handle`]; the engine's orders leave by [`Engine::poll`].
//!
//! - [`read`]: from RAM, from a copy, or from home.
//! - [`write`]: home, or into the write buffer.
//! - [`in_place`]: of a page with a copy of a plan, to that copy.
//! - [`ram_cache`]: which page stands in RAM.
//! - [`read_ahead`]: how far a miss reads on.
//! - [`copies`]: the copies, their places and their readers. [`page_map`] is their table.
//! - [`write_order`]: which writes are in flight, and which ended since a read began.

pub(crate) mod copies;
pub(crate) mod engine_state;
pub(crate) mod in_place;
pub(crate) mod pace;
pub(crate) mod page_map;
mod ram_and_trail;
pub(crate) mod ram_cache;
mod ram_index;
pub(crate) mod read;
mod read_ahead;
mod read_end;
pub(crate) mod shape;
mod status;
mod vanilla_ram;
pub(crate) mod write;
pub(crate) mod write_order;

use std::collections::VecDeque;

use seekless_block::{
    Extent, Flags, Op, PAGE_BYTES, PAGE_SECTORS, Request, Sectors, SimTime, StreamId,
};
use slab::Slab;

use crate::area::attach::Identity;
use crate::background::{Background, BackgroundIo};
use crate::format::Geometry;
use crate::free_space::FreeSpace;
use crate::write_buffer::durability::{HomeFlush, Sync};
use crate::write_buffer::log::{Homeward, Log};
use crate::{
    Class, Config, Fault, Input, Io, IoId, Memory, Mode, Output, PageSum, RequestId, Stats, Target,
};
use copies::Copies;
use engine_state::EngineState;
use in_place::Part;
use page_map::{PageMap, Slot};
use ram_cache::{PageGrid, RamCache};
use read::{JoinedRead, Read, WaitingRead};
use read_ahead::Ahead;
use write::{Absorbed, Blocked, HomeWrite};
use write_order::WriteLog;

/// The engine of one volume.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) geo: Geometry,
    pub(crate) identity: Identity,
    pub(crate) cache: RamCache,
    /// The adaptive policy, where it is in use.
    pub(crate) ahead: Option<Box<Ahead>>,
    pub(crate) copies: Copies,
    pub(crate) writes: WriteLog,
    pub(crate) state: EngineState,
    pub(crate) pending: Vec<Option<Pending>>,
    pub(crate) pending_free: Vec<u32>,
    pub(crate) buffers_free: Vec<u32>,
    pub(crate) buffers_made: u32,
    pub(crate) pages: Vec<Box<[u8; PAGE_BYTES as usize]>>,
    pub(crate) pages_free: Vec<u32>,
    /// The uses of the requested sums, in order.
    pub(crate) sums: VecDeque<SumFor>,
    /// Reads in flight that will fill RAM.
    pub(crate) fills: Vec<IoId>,
    /// Reads that wait for one of them.
    pub(crate) waiting: Vec<WaitingRead>,
    pub(crate) joins: Slab<JoinedRead>,
    pub(crate) absorbs: Slab<Absorbed>,
    /// Writes that wait for another to end, or for a page without I/O.
    pub(crate) blocked: VecDeque<Blocked>,
    pub(crate) retry_blocked: bool,
    /// Reads go home although clean copies stand.
    pub(crate) bypass: bool,
    /// The area failed, so writes go home.
    pub(crate) fell_back: bool,
    /// The area could not read an only copy, and could not be written, since it last worked.
    pub(crate) area_reads_fail: bool,
    pub(crate) area_writes_fail: bool,
    pub(crate) log: Log,
    pub(crate) sync: Sync,
    pub(crate) background: Background,
    pub(crate) free: FreeSpace,
    pub(crate) out: VecDeque<Output>,
    pub(crate) stats: Stats,
    pub(crate) scratch: Vec<Slot>,
    pub(crate) now: SimTime,
}

/// An I/O that has been submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Read(Read),
    /// It is read; its checksums are being computed.
    Summing(Read),
    HomeWrite(HomeWrite),
    /// A part of a write of pages with copies.
    Part(Part),
    /// Zeroes beside a write of a part of a free page.
    Edge(u32),
    Flush {
        id: RequestId,
        /// Clients' writes at home that it covers.
        flush: HomeFlush,
    },
    /// A record of the log, by its number.
    Record(u64),
    /// A piece of a record that the area did not take.
    Homeward(Homeward),
    SyncHome,
    SyncArea,
    Background(BackgroundIo),
}

/// The use of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SumFor {
    /// The read with this name.
    Read(IoId),
    /// The record with this number.
    Record(u64),
    /// The job in the background: pages of the staging memory from this one.
    Stage { page: u32 },
}

/// How an I/O is asked for, and by whom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestOrigin {
    pub(crate) flags: Flags,
    pub(crate) stream: StreamId,
}

/// The pages of RAM that an extent touches, where home's pages begin at this sector.
pub fn ram_pages(grid: Sectors, extent: Extent) -> std::ops::Range<u64> {
    PageGrid::new(grid).pages(extent)
}

impl Engine {
    /// An engine whose area has just been formatted: no copies, an empty log. The pages that
    /// [`format_area`] writes count as written.
    pub fn new(config: Config) -> Self {
        let geo = Geometry::of(&config);
        Self::with(config, geo, Identity::fresh(&config), PageMap::new(geo.slots()))
    }

    /// The map is that of the area: memory never holds a second one, an empty one, beside it.
    pub(crate) fn with(
        mut config: Config,
        geo: Geometry,
        identity: Identity,
        map: PageMap,
    ) -> Self {
        let pages = u32::try_from(config.cache_bytes.0 / PAGE_BYTES).unwrap_or(u32::MAX - 1);
        if geo.log_segments == 0 {
            config.mode = Mode::WriteThrough;
        }
        config.buffer_bytes.0 =
            config.buffer_bytes.0.max(u64::from(geo.segment_pages) * PAGE_BYTES);
        config.stage_bytes.0 =
            config.stage_bytes.0.max(2 * u64::from(geo.segment_pages) * PAGE_BYTES);
        if config.mode == Mode::WriteBack {
            config.stage_bytes = config.stage_bytes.max(config.sweep_bytes);
        }
        config.append_pages = config.append_pages.min(64);
        config.records = config.records.max(2);
        let free = FreeSpace::new(&geo, &config);
        let keeps_trail = config.keeps_trail() && free.takes_plans();
        let ahead = (config.adaptive && pages > 0)
            .then(|| Box::new(Ahead::new(&geo, pages, keeps_trail, &config)));
        Self {
            cache: RamCache::new(pages, PageGrid::new(config.grid)),
            copies: Copies::new(&geo, map),
            writes: WriteLog::new(),
            state: EngineState::new(config.mode),
            pending: Vec::with_capacity(256),
            pending_free: Vec::with_capacity(256),
            buffers_free: Vec::with_capacity(256),
            buffers_made: 0,
            pages: Vec::new(),
            pages_free: Vec::new(),
            sums: VecDeque::with_capacity(64),
            fills: Vec::with_capacity(256),
            waiting: Vec::with_capacity(256),
            joins: Slab::new(),
            absorbs: Slab::new(),
            blocked: VecDeque::new(),
            retry_blocked: false,
            bypass: false,
            fell_back: false,
            area_reads_fail: false,
            area_writes_fail: false,
            log: Log::new(&geo),
            sync: Sync::default(),
            background: Background::default(),
            free,
            ahead,
            out: VecDeque::with_capacity(1024),
            stats: Stats::default(),
            scratch: Vec::with_capacity(64),
            now: SimTime::ZERO,
            identity,
            geo,
            config,
        }
    }

    /// Takes one input at time `now`, which never runs backwards. Afterwards call [`Self::poll`] until
    /// it returns nothing. An I/O may be answered with [`Input::Done`] between two polls.
    ///
    /// # Panics
    /// If `Done` names an I/O that is not in flight: a bug of the driver.
    pub fn handle(&mut self, now: SimTime, input: Input) {
        self.now = now;
        let clients = self.clients_to_spare();
        self.background.interference.pass(now, clients);
        match input {
            Input::Request { id, request } => {
                self.background.foreground_at = now;
                self.background.interference.asked(clients);
                self.note_asked();
                self.request(id, &request);
            }
            Input::Done { io, result } => self.done(io, result.is_ok()),
            Input::Install(_) if self.has_trail() => self.stats.plans_refused += 1,
            Input::Install(plan) if self.geo.log_segments > 0 && self.free.takes_plans() => {
                self.background.ask(plan);
            }
            Input::Replicate(replicas) => self.ask_for_replicas(&replicas, false),
            Input::ReplicateSoon(replicas) => self.ask_for_replicas(&replicas, true),
            Input::Withdraw => self.withdraw(),
            Input::Install(plan) => self.stats.plans_refused += u64::from(!plan.copies.is_empty()),
            Input::Bypass(on) => self.bypass = on,
            Input::Command(crate::Command::SetMode(mode)) => self.set_mode(mode),
            Input::Command(crate::Command::Drain) => self.drain(),
            Input::Scrub => self.begin_pass(),
            Input::Detach { stamp } => self.state.detach(stamp),
            Input::Tick => {}
        }
        self.note_pace();
        self.go_on();
        debug_assert!(
            self.pending.len() > self.pending_free.len()
                || self.fills.is_empty() && self.waiting.is_empty(),
            "a read waits for nothing"
        );
    }

    /// Tries waiting requests again, sends records, begins rounds, and runs background jobs.
    /// Repeats this until no step makes another step possible.
    fn go_on(&mut self) {
        loop {
            if self.retry_blocked {
                self.retry_blocked();
            }
            self.yield_space();
            if self.geo.log_segments > 0 {
                if !self.is_at_rest(self.now) {
                    self.pump_log();
                    self.pump_sync();
                    self.run_background(self.now);
                } else if cfg!(debug_assertions) {
                    self.find_nothing(self.now);
                }
            }
            if !self.made_way() {
                break;
            }
        }
    }

    /// The checksums that the [`Output::Sum`] just polled asked for, one a page.
    ///
    /// # Panics
    /// If none was asked for: a bug of the driver.
    pub fn summed(&mut self, sums: &[PageSum]) {
        match self.sums.pop_front() {
            Some(SumFor::Read(io)) => {
                self.read_summed(io, sums);
                self.after_a_reader();
            }
            Some(SumFor::Record(number)) => self.record_summed(number, sums),
            Some(SumFor::Stage { page }) => {
                self.background.summed(page, sums);
                self.run_background(self.background.now);
                self.after_a_reader();
            }
            None => panic!("sums that nobody asked for"),
        }
        self.note_pace();
    }

    /// A segment that someone may want to write has no reader now.
    fn after_a_reader(&mut self) {
        if self.retry_blocked || self.log.starved || self.background.awaits_readers {
            self.go_on();
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// A page of metadata that [`Output::Put`] names. It stands until the next [`Self::handle`].
    pub fn page(&self, page: u32) -> &[u8; PAGE_BYTES as usize] {
        &self.pages[page as usize]
    }

    pub(crate) fn request(&mut self, id: RequestId, request: &Request) {
        self.stats.requests += 1;
        let extent = request.extent;
        let asked = RequestOrigin { flags: request.flags, stream: request.stream };
        if request.op == Op::Flush {
            self.flush(id, asked);
        } else if extent.end().0 > self.config.capacity.0 {
            let fault = Fault::OutOfRange { extent, capacity: self.config.capacity };
            self.out.push_back(Output::Complete { id, result: Err(fault) });
        } else if extent.is_empty() {
            self.out.push_back(Output::Complete { id, result: Ok(()) });
        } else if request.op != Op::Read && self.is_area_gone() {
            self.complete(id, extent, false);
        } else if request.op == Op::Read {
            self.note_read_request(extent);
            self.read(id, extent, asked, read::WAITS);
        } else {
            self.write(id, request);
        }
    }

    pub(crate) fn done(&mut self, io: IoId, ok: bool) {
        let pending = self.pending[io.0 as usize].take();
        if let Some(ended) = &pending {
            self.note_end(ended);
            self.note_work(ended);
        }
        match pending {
            Some(Pending::Read(read)) => {
                if self.read_done(io, read, ok) {
                    return; // its name is still in use
                }
            }
            Some(Pending::HomeWrite(write)) => self.home_write_done(write, ok),
            Some(Pending::Part(part)) => self.part_done(part, ok),
            Some(Pending::Edge(edges)) => self.edge_done(edges, ok),
            Some(Pending::Flush { id, flush }) => self.flush_done(id, flush, ok),
            Some(Pending::Record(number)) => self.record_done(number, ok),
            Some(Pending::Homeward(piece)) => self.piece_home_done(piece, ok),
            Some(Pending::SyncHome) => self.sync_home_done(ok),
            Some(Pending::SyncArea) => self.sync_area_done(ok),
            Some(Pending::Background(what)) => self.background_done(what, ok),
            Some(Pending::Summing(_)) | None => {
                panic!("I/O {} was answered, but is not in flight", io.0)
            }
        }
        self.pending_free.push(io.0);
    }

    /// I/Os of clients in flight: neither background I/Os nor, in write-through, records and flushes.
    pub(crate) fn clients_io(&self) -> u32 {
        let all = (self.pending.len() - self.pending_free.len()) as u32;
        let told = match self.state.mode() {
            Mode::WriteThrough => self.log.in_flight + self.sync.in_flight(),
            Mode::WriteBack => 0,
        };
        all.saturating_sub(self.background.in_flight + told)
    }

    /// An I/O has ended that a client asked for, or nobody.
    pub(crate) fn note_end(&mut self, ended: &Pending) {
        if self.free.takes_plans() {
            return;
        }
        let background = match ended {
            Pending::Background(_) => true,
            Pending::Record(_) | Pending::SyncHome | Pending::SyncArea => {
                self.state.mode() == Mode::WriteThrough
            }
            _ => false,
        };
        let clients = self.clients_to_spare().saturating_sub(u32::from(!background));
        self.background.interference.ended(background, clients);
    }

    pub(crate) fn complete(&mut self, id: RequestId, extent: Extent, ok: bool) {
        let result = if ok { Ok(()) } else { Err(Fault::Device(extent)) };
        self.out.push_back(Output::Complete { id, result });
    }

    pub(crate) fn start(&mut self, pending: Pending) -> IoId {
        if self.pending.len() == self.pending_free.len() {
            self.note_begin();
        }
        if let Some(at) = self.pending_free.pop() {
            self.pending[at as usize] = Some(pending);
            IoId(at)
        } else {
            self.pending.push(Some(pending));
            IoId(self.pending.len() as u32 - 1)
        }
    }

    pub(crate) fn submit(
        &mut self,
        id: IoId,
        target: Target,
        op: Op,
        extent: Extent,
        origin: RequestOrigin,
        memory: Option<Memory>,
    ) {
        self.submit_as(Class::Foreground, id, target, op, extent, origin, memory);
    }

    #[expect(clippy::too_many_arguments, reason = "an I/O has that many parts")]
    pub(crate) fn submit_as(
        &mut self,
        class: Class,
        id: IoId,
        target: Target,
        op: Op,
        extent: Extent,
        RequestOrigin { flags, stream }: RequestOrigin,
        memory: Option<Memory>,
    ) {
        if target == Target::Home && op != Op::Flush {
            self.free.replicas.head = extent.end();
        }
        self.send(Io { id, target, op, extent, flags, class, stream, memory });
    }

    pub(crate) fn send(&mut self, io: Io) {
        self.note_submit((io.target, io.op, io.extent), io.class);
        self.out.push_back(Output::Submit(io));
    }

    /// The buffers without data after all outputs were polled: the driver may free their memory.
    pub fn idle_buffers(&self) -> &[u32] {
        &self.buffers_free
    }

    pub(crate) fn take_buffer(&mut self) -> u32 {
        self.buffers_free.pop().unwrap_or_else(|| {
            self.buffers_made += 1;
            self.buffers_made - 1
        })
    }

    /// The home pages that an extent touches. Sectors before the grid belong to no page.
    pub(crate) fn pages_of(&self, extent: Extent) -> std::ops::Range<u64> {
        let grid = self.config.grid.0;
        let first = extent.start.0.saturating_sub(grid) / PAGE_SECTORS;
        let end = extent.end().0.saturating_sub(grid).div_ceil(PAGE_SECTORS);
        first..end.max(first)
    }

    /// The home pages that an extent covers wholly.
    pub(crate) fn whole_pages_of(&self, extent: Extent) -> std::ops::Range<u64> {
        let grid = self.config.grid.0;
        let first = extent.start.0.max(grid).saturating_sub(grid).div_ceil(PAGE_SECTORS);
        let end = extent.end().0.saturating_sub(grid) / PAGE_SECTORS;
        first..end.max(first)
    }

    /// The sectors of home pages.
    pub(crate) fn home_of(&self, first: impl Into<u64>, pages: u64) -> Extent {
        Extent::new(self.config.grid.0 + first.into() * PAGE_SECTORS, pages * PAGE_SECTORS)
    }
}
