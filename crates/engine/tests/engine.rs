//! The engine against a flat array of bytes: random requests, random order of device I/O, faults, and
//! plans installed at any moment. Every read must be linearizable, sector by sector.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_block::{
    Bytes, Device, Extent, Flags, Lba, MemDevice, Op, Request, Sectors, SimTime, StreamId,
};
use seekless_engine::{
    Class, Config, Engine, Fault, Input, Io, IoFailed, Memory, Output, RequestId, Target,
};
use seekless_layout::{Copy, Plan};

const CAPACITY: u64 = 256;
const AREA: u64 = 128;
const SECTOR: usize = 512;

/// A driver with real memory, whose device I/Os take effect one at a time in an order chosen by the test.
struct World {
    engine: Engine,
    home: MemDevice,
    area: MemDevice,
    clients: BTreeMap<u64, Client>,
    buffers: Vec<Vec<u8>>,
    slots: Vec<u8>,
    stage: Vec<u8>,
    waiting: Vec<Io>,
    /// By the engine's name of an I/O: the request issued last when it was sent.
    writers: BTreeMap<u32, u64>,
    /// For each home sector, its values in order and the step each became current.
    history: Vec<Vec<(u64, u64)>>,
    /// For each home sector, the step of the newest write that a client was told of, and that of the newest
    /// one on stable storage: home has a volatile cache.
    told: Vec<u64>,
    durable: Vec<u64>,
    step: u64,
    now: u64,
    next: u64,
    completed: u64,
    fail_area_reads: bool,
    fail_background: bool,
}

struct Client {
    request: Request,
    buffer: Vec<u8>,
    issued: u64,
    /// Of a flush: what clients had been told of when it was asked.
    told: Vec<u64>,
    /// Of a write: when it took effect.
    effective: u64,
}

fn value_of(sector: &[u8]) -> u64 {
    let v = u64::from_le_bytes(sector[..8].try_into().unwrap());
    // A sector is wholly one write's: its value repeats to the end.
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
        // Whatever stood in the area before is not the client's.
        fill(&mut sector, u64::MAX);
        for s in 0..config.area.0 {
            area.write(Extent::new(s, 1), &sector).unwrap();
        }
        Self {
            engine: Engine::new(config),
            home,
            area,
            clients: BTreeMap::new(),
            buffers: Vec::new(),
            slots: vec![0; config.cache_bytes.0 as usize],
            stage: vec![0; config.stage_bytes.0 as usize],
            waiting: Vec::new(),
            writers: BTreeMap::new(),
            history: (0..config.capacity.0).map(|s| vec![(0, s + 1)]).collect(),
            told: vec![0; config.capacity.0 as usize],
            durable: vec![0; config.capacity.0 as usize],
            step: 0,
            now: 0,
            next: 0,
            completed: 0,
            fail_area_reads: false,
            fail_background: false,
        }
    }

    fn issue(&mut self, op: Op, extent: Extent) -> u64 {
        self.issue_with(op, extent, Flags::NONE)
    }

    fn issue_with(&mut self, op: Op, extent: Extent, flags: Flags) -> u64 {
        self.next += 1;
        let id = self.next;
        let mut buffer =
            vec![0; if op == Op::Read || op == Op::Write { extent.bytes().0 as usize } else { 0 }];
        if op == Op::Write {
            fill(&mut buffer, (id << 32) | 7);
        }
        let request = Request { flags, ..Request::new(SimTime(self.now), op, extent) };
        let told = if op == Op::Flush { self.told.clone() } else { Vec::new() };
        let client = Client { request, buffer, issued: self.step, told, effective: 0 };
        self.clients.insert(id, client);
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
                Output::Submit(io) => {
                    // A write is sent the moment it is asked.
                    self.writers.insert(io.id.0, self.next);
                    self.waiting.push(io);
                }
                Output::Move(m) => {
                    let data = self.memory(m.from, m.len).to_vec();
                    self.memory(m.to, m.len).copy_from_slice(&data);
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
                    self.buffers.push(vec![0; 1 << 16]);
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
        let failed = self.fail_area_reads && io.target == Target::Area && io.op == Op::Read
            || self.fail_background && io.class == Class::Background;
        if failed {
            self.handle(Input::Done { io: io.id, result: Err(IoFailed) });
            return;
        }
        if io.target == Target::Home && io.class == Class::Background {
            assert_eq!(io.op, Op::Read, "background work never writes home");
        }
        if io.target == Target::Home && io.op.is_write_like() {
            let writer = self.writers[&io.id.0];
            self.clients.get_mut(&writer).expect("a live request").effective = self.step;
            if io.flags.contains(Flags::FUA) {
                let range = io.extent.start.0 as usize..io.extent.end().0 as usize;
                self.durable[range].fill(self.step);
            }
        }
        match (io.op, io.memory) {
            (Op::Read, Some(to)) => {
                let mut data = vec![0; io.extent.bytes().0 as usize];
                let device =
                    if io.target == Target::Home { &mut self.home } else { &mut self.area };
                device.read(io.extent, &mut data).unwrap();
                self.memory(to, io.extent.len).copy_from_slice(&data);
            }
            (Op::Write, Some(from)) => {
                let data = self.memory(from, io.extent.len).to_vec();
                if io.target == Target::Home {
                    for (i, sector) in data.chunks(SECTOR).enumerate() {
                        let at = io.extent.start.0 as usize + i;
                        self.history[at].push((self.step, value_of(sector)));
                    }
                    self.home.write(io.extent, &data).unwrap();
                } else {
                    self.area.write(io.extent, &data).unwrap();
                }
            }
            (Op::WriteZeroes | Op::Discard, None) => {
                assert_eq!(io.target, Target::Home);
                for s in io.extent.start.0..io.extent.end().0 {
                    self.history[s as usize].push((self.step, 0));
                }
                self.home.write_zeroes(io.extent).unwrap();
            }
            (Op::Flush, None) => {
                for (durable, history) in self.durable.iter_mut().zip(&self.history) {
                    *durable = history.last().map_or(0, |h| h.0);
                }
            }
            other => panic!("an I/O that makes no sense: {other:?}"),
        }
        self.handle(Input::Done { io: io.id, result: Ok(()) });
    }

    fn complete(&mut self, id: u64, result: Result<(), Fault>) {
        let client = self.clients.remove(&id).expect("completed once, and only if asked");
        self.completed += 1;
        let extent = client.request.extent;
        if extent.end().0 > CAPACITY {
            assert!(matches!(result, Err(Fault::OutOfRange { .. })));
            return;
        }
        assert_eq!(result, Ok(()));
        let range = extent.start.0 as usize..extent.end().0 as usize;
        match client.request.op {
            Op::Flush => {
                let kept = self.durable.iter().zip(&client.told).all(|(d, told)| d >= told);
                assert!(kept, "a flush ended, and a write that had ended before it is not durable");
                return;
            }
            Op::Read => {}
            _ => {
                assert!(client.effective > 0, "a write is done only when it has taken effect");
                if client.request.flags.contains(Flags::FUA) {
                    let durable =
                        self.durable[range.clone()].iter().all(|&d| d >= client.effective);
                    assert!(durable, "a write with FUA ended, and is not durable");
                }
                for told in &mut self.told[range] {
                    *told = (*told).max(client.effective);
                }
                return;
            }
        }
        // Linearizable: each sector shows a value that was current at some moment between issue and now.
        for (i, sector) in client.buffer.chunks(SECTOR).enumerate() {
            let value = value_of(sector);
            let history = &self.history[extent.start.0 as usize + i];
            let admissible = history.iter().enumerate().any(|(at, &(_, v))| {
                let until = history.get(at + 1).map_or(u64::MAX, |next| next.0);
                v == value && until > client.issued
            });
            assert!(
                admissible,
                "sector {} read as {value:#x}; issued at step {}, history {history:x?}",
                extent.start.0 + i as u64,
                client.issued
            );
        }
    }

    fn settle(&mut self) {
        while !self.waiting.is_empty() {
            self.execute(0);
        }
        assert!(self.clients.is_empty(), "every request completes");
        assert_eq!(self.engine.progress(), None, "background work converges");
    }

    /// Every usable copy equals its home, as the clients see it and on the medium.
    fn read_all(&mut self) {
        for start in (0..CAPACITY).step_by(8) {
            self.issue(Op::Read, Extent::new(start, 8));
            self.settle();
        }
    }
}

fn config(cache_pages: u64) -> Config {
    Config {
        area: Sectors(AREA),
        cache_bytes: Bytes(cache_pages * 4096),
        read_ahead: Bytes(8192),
        cluster: Bytes(8192),
        buffer_bytes: Bytes(1 << 16),
        stage_bytes: Bytes(16 * 512),
        ..Config::new(Sectors(CAPACITY))
    }
}

/// A valid plan out of random pieces.
fn plan_of(pieces: &[(u64, u64, u64)]) -> Plan {
    let mut used = [false; CAPACITY as usize];
    let mut place = 0;
    let mut copies = Vec::new();
    for &(start, len, gap) in pieces {
        let range = start as usize..((start + len) as usize).min(CAPACITY as usize);
        let len = range.len() as u64;
        if used[range.clone()].iter().any(|&u| u) || place + gap + len > AREA {
            continue;
        }
        used[range].fill(true);
        copies.push(Copy { home: Extent::new(start, len), place: Lba(place + gap) });
        place += gap + len;
    }
    Plan { copies }
}

#[derive(Clone, Debug)]
enum Step {
    Issue(Op, u64, u64, bool),
    Execute(usize),
    Install(Vec<(u64, u64, u64)>),
    Fail { area_reads: bool, background: bool },
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
        10 => (op(), 0..CAPACITY, 1u64..20, any::<bool>())
            .prop_map(|(op, at, len, fua)| Step::Issue(op, at, len, fua)),
        12 => any::<usize>().prop_map(Step::Execute),
        1 => prop::collection::vec((0..CAPACITY, 1u64..40, 0u64..3), 0..8).prop_map(Step::Install),
        1 => any::<(bool, bool)>().prop_map(|(area_reads, background)| Step::Fail { area_reads, background }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn reads_are_linearizable_whatever_happens(
        cache in prop_oneof![Just(0u64), Just(3), Just(64)],
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let mut world = World::new(config(cache));
        for step in steps {
            match step {
                Step::Issue(op, at, len, fua) => {
                    let len = if op == Op::Flush { 0 } else { len };
                    let flags = if fua { Flags::FUA } else { Flags::NONE };
                    world.issue_with(op, Extent::new(at, len), flags);
                }
                Step::Execute(which) => world.execute(which),
                Step::Install(pieces) => world.handle(Input::Install(plan_of(&pieces))),
                Step::Fail { area_reads, background } => {
                    world.fail_area_reads = area_reads;
                    world.fail_background = background;
                }
            }
        }
        world.settle();
        world.fail_area_reads = false;
        world.fail_background = false;
        world.read_all();
    }
}

#[test]
fn a_learned_layout_is_served_from_the_area_and_a_write_sends_reads_home() {
    let mut world = World::new(config(0));
    world.handle(Input::Install(plan_of(&[(200, 16, 0), (40, 8, 0)])));
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(24));
    assert_eq!(world.engine.stats().moved_bytes, 24 * 512);
    world.issue(Op::Read, Extent::new(204, 4));
    let io = world.waiting[0];
    assert_eq!((io.target, io.extent), (Target::Area, Extent::new(4, 4)));
    world.settle();
    // Partly copied: all of it comes from home (BORG 4.5).
    world.issue(Op::Read, Extent::new(36, 8));
    assert_eq!(world.waiting[0].target, Target::Home);
    world.settle();
    world.issue(Op::Write, Extent::new(205, 1));
    world.issue(Op::Read, Extent::new(204, 4));
    assert!(world.waiting.iter().all(|io| io.target == Target::Home));
    world.settle();
    world.issue(Op::Read, Extent::new(208, 8));
    assert_eq!(world.waiting[0].target, Target::Area, "the rest of the copy is still good");
    world.settle();
}

#[test]
fn the_same_plan_again_moves_nothing() {
    let mut world = World::new(config(0));
    let plan = plan_of(&[(200, 16, 0), (40, 8, 1), (100, 30, 0)]);
    world.handle(Input::Install(plan.clone()));
    world.settle();
    let moved = world.engine.stats().moved_bytes;
    world.handle(Input::Install(plan));
    assert!(world.waiting.is_empty(), "no plan change, no motion");
    assert_eq!(world.engine.stats().moved_bytes, moved);
    assert_eq!(world.engine.copied(), Sectors(54));
}

#[test]
fn plans_in_quick_succession_do_not_stop_each_other() {
    let mut world = World::new(config(0));
    let plan = plan_of(&[(0, 16, 0), (100, 16, 0), (200, 16, 0)]);
    // Each plan comes while a stage of the one before is on its way.
    for round in 0..200 {
        if world.engine.progress().is_none() && round > 0 {
            break;
        }
        world.handle(Input::Install(plan.clone()));
        world.execute(0);
        world.execute(0);
    }
    assert_eq!(world.engine.copied(), Sectors(48));
}

#[test]
fn read_ahead_and_clusters_fill_the_same_ram() {
    let mut world = World::new(config(64));
    world.issue(Op::Read, Extent::new(8, 8));
    assert_eq!(world.waiting[0].extent, Extent::new(8, 16), "8 KiB of read-ahead");
    world.settle();
    world.issue(Op::Read, Extent::new(16, 8));
    assert!(world.waiting.is_empty(), "it was read ahead");
    assert_eq!(world.engine.stats().cache_hits, 1);
    world.issue(Op::Read, Extent::new(20, 12));
    assert_eq!(world.waiting[0].extent, Extent::new(24, 16), "the front was in RAM");
    world.settle();
    world.handle(Input::Install(plan_of(&[(240, 8, 0), (100, 4, 0), (180, 12, 0)])));
    world.settle();
    world.issue(Op::Read, Extent::new(100, 4));
    assert_eq!(world.waiting[0].extent, Extent::new(0, 16), "the whole cluster of 16 sectors");
    world.settle();
    world.issue(Op::Read, Extent::new(240, 8));
    world.issue(Op::Read, Extent::new(180, 4));
    assert!(world.waiting.is_empty(), "its neighbours in the layout came with it");
    assert_eq!(world.engine.stats().cache_hits, 3);
}

#[test]
fn what_is_on_its_way_to_ram_is_waited_for_and_not_read_twice() {
    let mut world = World::new(config(64));
    world.issue(Op::Read, Extent::new(8, 4));
    world.issue(Op::Read, Extent::new(12, 8));
    world.issue(Op::Read, Extent::new(20, 8));
    let extents: Vec<Extent> = world.waiting.iter().map(|io| io.extent).collect();
    assert_eq!(extents, vec![Extent::new(8, 16)]);
    world.execute(0);
    assert_eq!(world.completed, 2, "20..28 ends past it");
    assert_eq!(world.waiting[0].extent, Extent::new(24, 16), "only what is missing");
    world.settle();
    // A write overtakes: what waited reads for itself, and what failed is read by each.
    world.issue(Op::Read, Extent::new(100, 8));
    world.issue(Op::Read, Extent::new(108, 4));
    world.issue(Op::Write, Extent::new(108, 4));
    let read = world.waiting.remove(0);
    world.waiting.push(read);
    world.settle();
    world.issue(Op::Read, Extent::new(200, 4));
    world.issue(Op::Read, Extent::new(204, 4));
    let io = world.waiting.remove(0);
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
    assert_eq!(world.waiting.len(), 2);
    world.settle();
}

#[test]
fn a_cluster_overtaken_by_a_write_or_a_plan_leaves_no_old_bytes_in_ram() {
    // Neighbours in the area: 100..104 at 0 and 180..184 at 4.
    let mut world = World::new(config(64));
    world.handle(Input::Install(plan_of(&[(100, 4, 0), (180, 4, 0)])));
    world.settle();
    world.issue(Op::Read, Extent::new(100, 4));
    assert_eq!(world.waiting[0].extent, Extent::new(0, 8));
    world.issue(Op::Write, Extent::new(180, 4));
    world.execute(1);
    world.execute(0);
    world.issue(Op::Read, Extent::new(180, 4));
    world.settle(); // checks what was read
    // A new plan puts another extent's name on the place while a cluster read is on its way.
    let mut world = World::new(config(64));
    world.handle(Input::Install(plan_of(&[(100, 4, 0), (180, 4, 0)])));
    world.settle();
    world.issue(Op::Read, Extent::new(100, 4));
    world.handle(Input::Install(plan_of(&[(220, 4, 4), (100, 4, 0)])));
    world.execute(0);
    world.settle();
    world.read_all();
}

#[test]
fn a_plan_that_does_not_fit_is_refused_and_nothing_changes() {
    let mut world = World::new(config(0));
    for bad in [
        Plan { copies: vec![Copy { home: Extent::new(CAPACITY - 2, 4), place: Lba(0) }] },
        Plan { copies: vec![Copy { home: Extent::new(0, 4), place: Lba(AREA - 2) }] },
        Plan { copies: vec![Copy { home: Extent::new(0, 4), place: Lba(u64::MAX - 1) }] },
        plan_twice(0, 2),
        plan_twice(2, 2),
    ] {
        world.handle(Input::Install(bad));
        assert!(world.waiting.is_empty());
    }
    assert_eq!(world.engine.stats().plans_refused, 5);
    assert_eq!(world.engine.progress(), None);
}

/// Two copies of four sectors whose homes start at 0 and `home`, and whose places start at 0 and `place`.
fn plan_twice(home: u64, place: u64) -> Plan {
    let copy = |h, p| Copy { home: Extent::new(h, 4), place: Lba(p) };
    if home == 0 {
        Plan { copies: vec![copy(0, 0), copy(0, place + 4)] }
    } else {
        Plan { copies: vec![copy(0, 0), copy(8, place)] }
    }
}

#[test]
fn background_work_keeps_its_budget() {
    let rate = 512 * 1000; // a sector a millisecond
    let mut world = World::new(Config { background_rate: Bytes(rate), ..config(0) });
    world.handle(Input::Install(plan_of(&[(0, 8, 0), (100, 8, 0)])));
    let mut moved = 0;
    let mut rounds = 0;
    while world.engine.progress().is_some() {
        rounds += 1;
        assert!(rounds < 100, "it must end");
        while !world.waiting.is_empty() {
            moved += world.waiting[0].extent.len.0;
            world.execute(0);
        }
        if let Some(at) = world.engine.wakeup() {
            assert!(at.0 > world.now, "it is woken only when there is something to do");
            world.now = at.0;
            // What was moved by now never passes the rate by more than one I/O in flight each way.
            assert!(moved <= at.0 / 1_000_000 + 16, "{moved} sectors by {at:?}");
            world.handle(Input::Tick);
        }
    }
    assert_eq!(moved, 32, "16 sectors read and written");
    assert_eq!(world.engine.copied(), Sectors(16));
}

#[test]
fn a_fault_in_read_ahead_is_not_the_clients() {
    let mut world = World::new(config(64));
    world.issue(Op::Read, Extent::new(8, 4));
    let io = world.waiting.pop().unwrap();
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
    assert_eq!(world.waiting[0].extent, Extent::new(8, 4), "only what was asked");
    world.settle();
    world.engine.handle(
        SimTime(1 << 40),
        Input::Request {
            id: RequestId(99),
            request: Request {
                flags: Flags::FUA,
                ..Request::new(SimTime(0), Op::Write, Extent::new(0, 1))
            },
        },
    );
    match world.engine.poll() {
        Some(Output::Submit(io)) => assert!(io.flags.contains(Flags::FUA), "FUA is passed on"),
        other => panic!("{other:?}"),
    }
}

/// A disk that waits for a reader to come back must know whose each I/O is.
#[test]
fn what_is_sent_for_a_request_is_of_its_stream() {
    let stream = StreamId(7);
    let request =
        |op, start| Request { stream, ..Request::new(SimTime(0), op, Extent::new(start, 4)) };
    for (op, cache) in [(Op::Read, 0), (Op::Read, 64), (Op::Write, 64), (Op::Flush, 64)] {
        let mut engine = Engine::new(config(cache));
        let sent = |engine: &mut Engine| {
            std::iter::from_fn(|| engine.poll())
                .filter_map(|o| if let Output::Submit(io) = o { Some(io) } else { None })
                .collect::<Vec<_>>()
        };
        engine.handle(SimTime(0), Input::Request { id: RequestId(1), request: request(op, 8) });
        // The second read waits for what the first brings, where there is RAM.
        engine.handle(SimTime(0), Input::Request { id: RequestId(2), request: request(op, 9) });
        let mut all = sent(&mut engine);
        // And once more where that goes wrong.
        engine.handle(SimTime(1), Input::Done { io: all[0].id, result: Err(IoFailed) });
        all.extend(sent(&mut engine));
        assert!(all.len() >= 2 && all.iter().all(|io| io.stream == stream), "{op:?}: {all:?}");
    }
}
