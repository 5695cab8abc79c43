//! The engine with the adaptive policy takes no memory while it serves: hits, misses, windows, writes,
//! appends to the trail and reads of it. Only the log's rounds take some: one prepares the next 64
//! segments of the trail. And a miss weighs a bounded number of candidates.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use allocation_counter::measure;
use seekless_block::{Bytes, Dice, Extent, Op, PAGE_SECTORS, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Io, Memory, Output, PageSum, RequestId, Target};

/// Pages of the device, and of RAM.
const PAGES: u64 = 1 << 16;
const RAM: u64 = 1024;
/// Pages of a working set that clients read again and again, in the same order: no RAM holds it.
const SET: u64 = 3000;
static SUMS: [PageSum; 4096] = [0; 4096];

/// A disk that takes 8 ms for an access and 0.1 ms for a page, one I/O after another.
struct World {
    engine: Engine,
    queue: VecDeque<Io>,
    now: SimTime,
    asked: u64,
    answered: u64,
    dice: Dice,
    /// What was taken beside rounds of the log, and in them.
    taken: [u64; 2],
}

/// A flush, or a record of the log.
fn of_log(io: &Io) -> bool {
    let record = io.target == Target::Area && io.op == Op::Write;
    io.op == Op::Flush || record && !matches!(io.memory, Some(Memory::Stage { .. }))
}

impl World {
    fn new() -> Self {
        let config = Config {
            area: Sectors(PAGES * PAGE_SECTORS),
            cache_bytes: Bytes(RAM * 4096),
            adaptive: true,
            ..Config::new(Sectors(PAGES * PAGE_SECTORS))
        };
        let (queue, now) = (VecDeque::with_capacity(1024), SimTime::ZERO);
        let (asked, answered, dice, taken) = (0, 0, Dice::new(7), [0; 2]);
        Self { engine: Engine::new(config), queue, now, asked, answered, dice, taken }
    }

    /// Feeds an input, and counts what is taken. `of_round` says that it ends an I/O of the log.
    fn feed(&mut self, input: Input, of_round: bool) {
        let rounds = |queue: &VecDeque<Io>| queue.iter().any(of_log);
        let before = of_round || rounds(&self.queue);
        let taken = measure(|| self.serve(input)).count_total;
        self.taken[usize::from(before || rounds(&self.queue))] += taken;
    }

    fn serve(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Submit(io) => self.queue.push_back(io),
                Output::Sum(sum) => self.engine.summed(&SUMS[..sum.pages as usize]),
                Output::Complete { result, .. } => {
                    result.unwrap();
                    self.answered += 1;
                }
                Output::Move(_) | Output::Put { .. } | Output::Zero { .. } => {}
            }
        }
    }

    fn step(&mut self) -> bool {
        let Some(io) = self.queue.pop_front() else { return false };
        self.now.0 += 8_000_000 + io.extent.len.0 / PAGE_SECTORS * 100_000;
        self.feed(Input::Done { io: io.id, result: Ok(()) }, of_log(&io));
        true
    }

    /// A client asks, waits for the answer, and thinks.
    fn ask(&mut self, op: Op, page: u64, pages: u64, think: u64) {
        let extent = Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS);
        let request = Request::new(self.now, op, extent);
        self.asked += 1;
        self.feed(Input::Request { id: RequestId(self.asked), request }, false);
        while self.answered < self.asked {
            assert!(self.step(), "a request waits for nothing");
        }
        let until = self.now.0 + think;
        while self.now.0 < until && self.step() {}
        self.now.0 = self.now.0.max(until);
        self.feed(Input::Tick, false);
    }

    /// Rounds over the working set, with reads that follow each other, of pages at random, of pages
    /// in RAM, and writes.
    fn live(&mut self, rounds: u64, think: u64) {
        for round in 0..rounds {
            for i in 0..SET {
                // An odd factor visits each page once.
                let page = i * 40_503 % PAGES;
                self.ask(Op::Read, page, 1 + i % 3, think);
                match i % 16 {
                    0 => self.ask(Op::Read, page, 1, think),
                    4 => {
                        let random = self.dice.below(PAGES - 64);
                        self.ask(Op::Read, random, 1, think);
                        self.ask(Op::Read, random + 1, 8, think);
                    }
                    8 => {
                        let random = self.dice.below(PAGES);
                        self.ask(Op::Write, random, 1, think);
                    }
                    12 => self.ask(Op::Read, (round * SET + i) % (PAGES - 8), 8, think),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn serving_takes_no_memory_after_the_first_rounds() {
    for think in [0, 30_000_000] {
        let mut world = World::new();
        world.live(12, think);
        let (stats, asked) = (world.engine.stats(), world.asked);
        let weighed = world.engine.prefetched().unwrap().weighed;
        world.taken = [0; 2];
        world.live(6, think);
        let (done, [taken, in_rounds]) = (world.engine.stats() - stats, world.taken);
        let weighed = world.engine.prefetched().unwrap().weighed - weighed;
        let misses = done.home_reads + done.copy_reads;
        let requests = world.asked - asked;
        eprintln!(
            "think {think} ns: {requests} requests, {misses} misses, {weighed} candidates, {done:?}"
        );
        assert!(done.cache_hits > 1000 && done.home_reads > 1000, "{done:?}");
        assert!(done.copy_reads > 500 && done.prefetch_used > 1000, "{done:?}");
        assert!(done.moved_bytes > 16 << 20, "{done:?}");
        assert_eq!(taken, 0, "think {think}: {in_rounds} more in rounds");
        let rounds = done.moved_bytes / (64 << 20) + 1;
        assert!(in_rounds <= 12 * rounds, "think {think}: {in_rounds} in {rounds} rounds");
        assert!(weighed < 64 * misses, "{weighed} candidates at {misses} misses");
    }
}

/// A policy that stands aside learns of misses of any length.
#[test]
fn standing_aside_takes_no_memory() {
    let mut world = World::new();
    world.live(2, 0);
    world.feed(Input::Bypass(true), false);
    world.live(1, 0);
    world.taken = [0; 2];
    for _ in 0..8 {
        let page = world.dice.below(PAGES - 8192);
        world.ask(Op::Read, page, 8192, 0);
    }
    world.live(1, 0);
    assert_eq!(world.taken[0], 0);
}
