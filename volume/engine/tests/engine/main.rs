//! The engine against the histories of its sectors: random requests, random order of device I/O,
//! faults, plans, modes and drains at any moment. Every read must be linearizable, sector by
//! sector.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_block::{
    Bytes, Device, DeviceError, Duration, Extent, Flags, Lba, MemDevice, Op, Request, Sectors,
    SimTime, StreamId, Toll,
};
use seekless_engine::format::{
    AreaId, CheckpointPage, Content, CopyState, Entry, Header, Position, Tombstone, UNSUMMED,
    checksum, page_extent,
};
use seekless_engine::{
    AttachError, Class, Command, Config, Engine, Fault, FormatOptions, HomeGuard, Input, Io,
    IoFailed, Memory, Mode, Output, Proof, Repair, RequestId, Target, attach, examine, format_area,
    page_sum, repair,
};
use seekless_learn::{Copy, Plan};

mod area;
mod batches;
mod crafted;
mod device;
mod discarded;
mod home_flushes;
mod in_place;
mod layouts;
mod log;
mod replicas;
mod rules;
mod salvaged;
mod scrub;
mod trail;

/// 64 pages, a few sectors before the grid and a part of a page at the end.
const CAPACITY: u64 = 3 + 64 * 8 + 5;
const GRID: u64 = 3;
/// Enough for the metadata, 4 segments to read from and some of log, of 8 pages each.
const AREA: u64 = 8 * (4 + 2 * 2 + 2 + 8 * 8);
const SECTOR: usize = 512;

/// A driver with real memory, whose device I/Os take effect one at a time in an order chosen by the
/// test.
struct World {
    engine: Engine,
    home: MemDevice,
    area: MemDevice,
    clients: BTreeMap<u64, Client>,
    buffers: Vec<Vec<u8>>,
    slots: Vec<u8>,
    stage: Vec<u8>,
    waiting: Vec<Io>,
    /// By home sector: its writes.
    history: Vec<Vec<Written>>,
    step: u64,
    now: u64,
    next: u64,
    completed: u64,
    /// Requests that ended with a fault of a device.
    failed: u64,
    fail_area_reads: bool,
    fail_background: bool,
    /// When an I/O failed last.
    failed_at: u64,
    /// How long a read of home takes.
    home_nanos: u64,
}

struct Client {
    request: Request,
    buffer: Vec<u8>,
    issued: u64,
}

/// A value and its life: from when it may be read, and from when on no new read may return it.
#[derive(Clone, Copy, Debug)]
struct Written {
    value: u64,
    by: u64,
    issued: u64,
    ended: u64,
    dead: u64,
}

const NEVER: u64 = u64::MAX;

fn value_of(sector: &[u8]) -> u64 {
    let v = u64::from_le_bytes(sector[..8].try_into().unwrap());
    // A sector has the bytes of one write: its value repeats to the end.
    assert!(sector.chunks(8).all(|c| c == &sector[..8]), "a torn sector");
    v
}

fn fill(buffer: &mut [u8], value: u64) {
    buffer.chunks_mut(8).for_each(|c| c.copy_from_slice(&value.to_le_bytes()));
}

impl World {
    fn new(config: Config) -> Self {
        let mut home = MemDevice::new(config.capacity);
        let mut sector = [0; SECTOR];
        for s in 0..config.capacity.0 {
            fill(&mut sector, s + 1);
            home.write(Extent::new(s, 1), &sector).unwrap();
        }
        let mut area = MemDevice::new(config.area);
        // Former contents of the area are not the client's.
        fill(&mut sector, u64::MAX);
        for s in 0..config.area.0 {
            area.write(Extent::new(s, 1), &sector).unwrap();
        }
        format_area(&mut area, &options_of(&config)).unwrap();
        let (engine, _) = attach(&mut area, config, &kept([0; 32])).unwrap();
        let config = *engine.config();
        let first = |s| Written { value: s + 1, by: 0, issued: 0, ended: 0, dead: NEVER };
        Self {
            engine,
            home,
            area,
            clients: BTreeMap::new(),
            buffers: Vec::new(),
            slots: vec![0; config.cache_bytes.0 as usize],
            stage: vec![0; config.stage_bytes.0 as usize],
            waiting: Vec::new(),
            history: (0..config.capacity.0).map(|s| vec![first(s)]).collect(),
            step: 0,
            now: 0,
            next: 0,
            completed: 0,
            failed: 0,
            fail_area_reads: false,
            fail_background: false,
            failed_at: 0,
            home_nanos: 0,
        }
    }

    fn issue(&mut self, op: Op, extent: Extent) -> u64 {
        self.issue_with(op, extent, Flags::NONE)
    }

    /// A client's request, and all that follows.
    fn issue_settled(&mut self, op: Op, extent: Extent) {
        self.issue(op, extent);
        self.settle();
    }

    /// A client's request, and everything in flight, while no time passes.
    fn issue_at_once(&mut self, op: Op, extent: Extent) {
        self.issue(op, extent);
        log::execute_all(self);
    }

    /// An input, and all that follows.
    fn handle_settled(&mut self, input: Input) {
        self.handle(input);
        self.settle();
    }

    fn issue_with(&mut self, op: Op, extent: Extent, flags: Flags) -> u64 {
        self.next += 1;
        self.step += 1;
        let id = self.next;
        let mut buffer =
            vec![0; if op == Op::Read || op == Op::Write { extent.bytes().0 as usize } else { 0 }];
        let value = if op == Op::Write { (id << 32) | 7 } else { 0 };
        if op == Op::Write {
            fill(&mut buffer, value);
        }
        if op.is_write_like() && extent.end().0 <= CAPACITY {
            for s in extent.start.0..extent.end().0 {
                let written =
                    Written { value, by: id, issued: self.step, ended: NEVER, dead: NEVER };
                self.history[s as usize].push(written);
            }
        }
        let request = Request { flags, ..Request::new(SimTime(self.now), op, extent) };
        self.clients.insert(id, Client { request, buffer, issued: self.step });
        self.handle(Input::Request { id: RequestId(id), request });
        id
    }

    fn handle(&mut self, input: Input) {
        self.now += 1;
        self.engine.handle(SimTime(self.now), input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Submit(io) => self.waiting.push(io),
                Output::Move(m) => {
                    let data = self.memory(m.from, m.len).to_vec();
                    self.memory(m.to, m.len).copy_from_slice(&data);
                }
                Output::Put { page, to } => {
                    let bytes = *self.engine.page(page);
                    self.memory(to, Sectors(8)).copy_from_slice(&bytes);
                }
                Output::Zero { to, len } => self.memory(to, len).fill(0),
                Output::Sum(sum) => {
                    let bytes = self.memory(sum.from, Sectors(u64::from(sum.pages) * 8));
                    let sums: Vec<_> = bytes.chunks(4096).map(page_sum).collect();
                    self.engine.summed(&sums);
                }
                Output::Complete { id, result } => self.complete(id.0, result),
            }
        }
    }

    fn memory(&mut self, at: Memory, len: Sectors) -> &mut [u8] {
        let (bytes, offset) = match at {
            Memory::Client { id, offset } => {
                (&mut self.clients.get_mut(&id.0).expect("a live request").buffer, offset)
            }
            Memory::Buffer { index, offset } => {
                while self.buffers.len() <= index as usize {
                    self.buffers.push(vec![0; 1 << 18]);
                }
                (&mut self.buffers[index as usize], offset)
            }
            Memory::Slot { index, offset } => {
                (&mut self.slots, Sectors(u64::from(index) * 8 + offset.0))
            }
            Memory::Stage { offset } => (&mut self.stage, offset),
        };
        &mut bytes[offset.0 as usize * SECTOR..(offset + len).0 as usize * SECTOR]
    }

    /// Lets one waiting device I/O take effect.
    fn execute(&mut self, which: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let which = which % self.waiting.len();
        let io = self.waiting.swap_remove(which);
        self.step += 1;
        if (io.target, io.op) == (Target::Home, Op::Read) {
            self.now += self.home_nanos;
        }
        let failed = self.fail_area_reads && io.target == Target::Area && io.op == Op::Read
            || self.fail_background
                && io.class.is_background()
                // A log that cannot be written stops for good, and reports that: see area.rs.
                && matches!(io.memory, Some(Memory::Stage { .. }));
        if failed {
            self.failed_at = self.step;
            self.handle(Input::Done { io: io.id, result: Err(IoFailed) });
            return;
        }
        let device = if io.target == Target::Home { &mut self.home } else { &mut self.area };
        match (io.op, io.memory) {
            (Op::Read, Some(to)) => {
                let mut data = vec![0; io.extent.bytes().0 as usize];
                device.read(io.extent, &mut data).unwrap();
                self.memory(to, io.extent.len).copy_from_slice(&data);
            }
            (Op::Write, Some(from)) => {
                let data = self.memory(from, io.extent.len).to_vec();
                let device =
                    if io.target == Target::Home { &mut self.home } else { &mut self.area };
                device.write(io.extent, &data).unwrap();
            }
            (Op::WriteZeroes | Op::Discard, None) => {
                assert_eq!(io.target, Target::Home);
                self.home.write_zeroes(io.extent).unwrap();
            }
            (Op::Flush, None) => {}
            other => panic!("an I/O that makes no sense: {other:?}"),
        }
        self.handle(Input::Done { io: io.id, result: Ok(()) });
    }

    /// Writes that ended before another write began are dead for later reads. So are writes that
    /// ended before the request of a read that returned another value, `by`.
    fn bury(history: &mut [Written], before: u64, now: u64, by: u64) {
        for old in history.iter_mut().filter(|w| w.ended < before && w.by != by) {
            old.dead = old.dead.min(now);
        }
    }

    fn complete(&mut self, id: u64, result: Result<(), Fault>) {
        let client = self.clients.remove(&id).expect("completed once, and only if asked");
        self.completed += 1;
        self.step += 1;
        let extent = client.request.extent;
        if extent.end().0 > CAPACITY {
            assert!(matches!(result, Err(Fault::OutOfRange { .. })));
            return;
        }
        // A write may wait for a page whose destage has already failed.
        let lately = self.failed_at > 0 && self.failed_at + 100 >= client.issued;
        if lately && matches!(result, Err(Fault::Device(_))) {
            self.failed += 1;
            return; // what stands in the write buffer alone cannot be read
        }
        assert_eq!(result, Ok(()));
        let range = extent.start.0 as usize..extent.end().0 as usize;
        if client.request.op.is_write_like() {
            for history in &mut self.history[range] {
                if let Some(w) = history.iter_mut().find(|w| w.by == id) {
                    w.ended = self.step;
                }
                Self::bury(history, client.issued, self.step, id);
                history.retain(|w| w.dead == NEVER || w.dead + 10_000 > self.step);
            }
        } else if client.request.op == Op::Read {
            for (i, sector) in client.buffer.chunks(SECTOR).enumerate() {
                let value = value_of(sector);
                let history = &mut self.history[extent.start.0 as usize + i];
                // Zeroes may come from several writes: take the latest possible one.
                let seen = history
                    .iter()
                    .rev()
                    .find(|w| w.value == value && w.dead >= client.issued)
                    .copied();
                let Some(seen) = seen else {
                    panic!(
                        "sector {} read as {value:#x} from step {} to {}; {history:x?}",
                        extent.start.0 + i as u64,
                        client.issued,
                        self.step
                    )
                };
                let alone = history.iter().filter(|w| w.value == value).count() == 1;
                if alone {
                    // It came after all writes that had ended before this read.
                    let before = seen.issued.max(client.issued);
                    Self::bury(history, before, self.step, seen.by);
                }
            }
        }
    }

    fn settle(&mut self) {
        let mut rounds = 0;
        loop {
            while !self.waiting.is_empty() {
                self.execute(0);
            }
            let Some(at) = self.engine.wakeup() else { break };
            rounds += 1;
            if rounds > 10_000 {
                panic!("it must come to rest: {:?}", self.engine);
            }
            self.now = self.now.max(at.0);
            self.handle(Input::Tick);
        }
        assert!(self.clients.is_empty(), "every request completes: {:?}", self.engine);
        assert_eq!(self.engine.progress(), None, "background work converges: {:?}", self.engine);
    }

    /// The time until the engine's next wake-up passes. False if there is none.
    fn wake(&mut self) -> bool {
        let Some(at) = self.engine.wakeup() else { return false };
        self.now = self.now.max(at.0);
        self.handle(Input::Tick);
        true
    }

    /// Every usable copy equals the last write.
    fn read_all(&mut self) {
        for start in (0..CAPACITY).step_by(8) {
            self.issue_settled(Op::Read, Extent::new(start, 8.min(CAPACITY - start)));
        }
    }

    /// All that follows, and then every read.
    fn settle_and_read(&mut self) {
        self.settle();
        self.read_all();
    }

    /// Attaches the devices as they are, and then every read.
    fn crash_and_read(&mut self, stamp: [u8; 32]) {
        self.crash(stamp);
        self.read_all();
    }

    /// Home alone holds the last writes.
    fn home_is_complete(&mut self) {
        let stained: Vec<Extent> = self.engine.stained().collect();
        for s in (0..CAPACITY).filter(|&s| !stained.iter().any(|e| e.contains(Extent::new(s, 1)))) {
            let mut sector = [0; SECTOR];
            self.home.read(Extent::new(s, 1), &mut sector).unwrap();
            let (value, history) = (value_of(&sector), &self.history[s as usize]);
            assert!(
                history.iter().any(|w| w.value == value && w.dead == NEVER),
                "sector {s} of home is {value:#x}; {history:x?}"
            );
        }
    }

    /// Detaches in order and attaches again, as a new process would.
    fn restart(&mut self, stamp: [u8; 32]) {
        self.settle();
        self.handle_settled(Input::Detach { stamp });
        assert!(self.engine.is_detached(), "{:?}", self.engine);
        self.crash(stamp);
    }

    /// Attaches the devices as they are.
    fn crash(&mut self, stamp: [u8; 32]) {
        self.crash_with(&kept(stamp));
    }

    fn crash_with(&mut self, proof: &Proof) {
        self.waiting.clear();
        self.clients.clear();
        let config = *self.engine.config();
        let (engine, _) = attach(&mut self.area, config, proof).unwrap();
        self.engine = engine;
    }
}

/// Home is guarded, and nobody else can have written there.
const fn kept(stamp: [u8; 32]) -> Proof {
    Proof { stamp, guard: HomeGuard::Up(0), to_drain: false }
}

/// Somebody else may have written home, unless the stamp proves otherwise.
const fn open(stamp: [u8; 32]) -> Proof {
    Proof { guard: HomeGuard::Down, ..kept(stamp) }
}

fn config(cache_pages: u64) -> Config {
    Config {
        area: Sectors(AREA),
        write_buffer_percent: 50,
        grid: Sectors(GRID),
        segment_pages: 8,
        cache_bytes: Bytes(cache_pages * 4096),
        read_ahead: Bytes(8192),
        cluster: Bytes(8192),
        buffer_bytes: Bytes(1 << 16),
        stage_bytes: Bytes(16 * 4096),
        sweep_bytes: Bytes(0),
        records: u32::MAX,
        ..Config::new(Sectors(CAPACITY))
    }
}

/// The options of an area for this engine.
fn options_of(config: &Config) -> FormatOptions {
    FormatOptions {
        uuid: [7; 16],
        capacity: config.capacity,
        inside: None,
        grid: config.grid,
        mode: config.mode,
        segment_pages: config.segment_pages,
        write_buffer_percent: config.write_buffer_percent,
        replicas: config.replicas,
        label: "a test".to_owned(),
    }
}

/// A copy of home pages at a page of the room.
fn copy(page: u64, pages: u64, place: u64) -> Copy {
    Copy { home: Extent::new(GRID + page * 8, pages * 8), place: Lba(place * 8) }
}

/// Sectors of home pages.
fn home(page: u64, pages: u64) -> Extent {
    Extent::new(GRID + page * 8, pages * 8)
}

/// A valid plan out of random pieces: `(page, pages, gap)`.
fn plan_of(pieces: &[(u64, u64, u64)]) -> Plan {
    let mut used = [false; 64];
    let mut place = 0;
    let mut copies = Vec::new();
    for &(start, len, gap) in pieces {
        let range = start as usize..((start + len) as usize).min(64);
        let len = range.len() as u64;
        if used[range.clone()].iter().any(|&u| u) || place + gap + len > 4 * 7 {
            continue;
        }
        used[range].fill(true);
        copies.push(copy(start, len, place + gap));
        place += gap + len;
    }
    Plan { copies }
}

#[derive(Clone, Debug)]
enum Step {
    Issue(Op, u64, u64, bool),
    /// A write of whole pages.
    Page(u64, u64, bool),
    Execute(usize),
    Install(Vec<(u64, u64, u64)>),
    Mode(Mode),
    Bypass(bool),
    Drain,
    Tick,
    Fail {
        area_reads: bool,
        background: bool,
    },
}

fn flags(fua: bool) -> Flags {
    if fua { Flags::FUA } else { Flags::NONE }
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Issue(op, at, len, fua) => {
                let len = if op == Op::Flush { 0 } else { len };
                self.issue_with(op, Extent::new(at, len), flags(fua));
            }
            Step::Page(at, n, fua) => {
                self.issue_with(Op::Write, home(at, n.min(64 - at)), flags(fua));
            }
            Step::Execute(which) => self.execute(which),
            Step::Install(pieces) => self.handle(Input::Install(plan_of(&pieces))),
            Step::Mode(mode) => self.handle(Input::Command(Command::SetMode(mode))),
            Step::Bypass(on) => self.handle(Input::Bypass(on)),
            Step::Drain => self.handle(Input::Command(Command::Drain)),
            Step::Tick => {
                self.now += 300_000_000;
                self.handle(Input::Tick);
            }
            Step::Fail { area_reads, background } => {
                self.fail_area_reads = area_reads;
                self.fail_background = background;
            }
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Read),
        3 => Just(Op::Write),
        1 => Just(Op::WriteZeroes),
        1 => Just(Op::Discard),
        1 => Just(Op::Flush),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (op(), 0..CAPACITY, 1u64..40, any::<bool>())
            .prop_map(|(op, at, len, fua)| Step::Issue(op, at, len, fua)),
        8 => (0u64..62, 1u64..8, any::<bool>()).prop_map(|(at, n, fua)| Step::Page(at, n, fua)),
        20 => any::<usize>().prop_map(Step::Execute),
        1 => prop::collection::vec((0u64..64, 1u64..12, 0u64..3), 0..8).prop_map(Step::Install),
        1 => prop_oneof![Just(Mode::WriteBack), Just(Mode::WriteThrough)].prop_map(Step::Mode),
        1 => any::<bool>().prop_map(Step::Bypass),
        1 => Just(Step::Drain),
        2 => Just(Step::Tick),
        1 => any::<(bool, bool)>().prop_map(|(area_reads, background)| Step::Fail { area_reads, background }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn reads_are_linearizable_whatever_happens(
        cache in prop_oneof![Just(0u64), Just(3), Just(12), Just(64)],
        mode in prop_oneof![Just(Mode::WriteBack), Just(Mode::WriteThrough)],
        gather in prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(700))],
        adaptive in any::<bool>(),
        in_place in any::<bool>(),
        append_pages in 1u32..5,
        home_nanos in prop_oneof![Just(0), Just(30_000_000)],
        steps in prop::collection::vec(step(), 1..160),
    ) {
        // Reads with a window are one read or two.
        let price = Duration(u64::from(append_pages % 2) * 5_000_000);
        let toll = Toll { read: price, ..Toll::default() };
        let (adaptive, config) = (adaptive && !in_place, config(cache));
        let options = Config { mode, gather, adaptive, in_place, append_pages, toll, ..config };
        let mut world = World::new(options);
        world.home_nanos = home_nanos;
        for step in steps {
            world.take(step);
        }
        world.fail_area_reads = false;
        world.fail_background = false;
        world.settle_and_read();
        world.restart([1; 32]);
        world.read_all();
        world.handle_settled(Input::Command(Command::Drain));
        prop_assert!(world.engine.is_drained());
        prop_assert_eq!(world.engine.dirty(), Sectors(0));
        world.home_is_complete();
        world.read_all();
    }
}
