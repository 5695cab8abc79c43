//! What the adaptive policy costs a request beside vanilla, in instructions: hits in RAM, misses at
//! random with all that follows them, writes of 4 KiB, and reads and writes of 1 MiB. Valgrind counts
//! them: it runs this program again. The promise is 1 us more at a hit, and 15 us more at a miss of a
//! short read. A processor of 3 GHz does some 3,000 and 45,000 instructions in that time. A request of
//! 1 MiB may cost 65,000 more. A build with little optimization may take twice as many.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "it runs valgrind")]

use std::collections::VecDeque;
use std::process::Command;

use seekless_block::{Bytes, Dice, Extent, Op, PAGE_SECTORS, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Io, Output, PageSum, RequestId};

const PAGES: u64 = 1 << 20;
/// Pages of RAM.
const RAM: u64 = 2048;
static SUMS: [PageSum; 4096] = [0; 4096];

struct World {
    engine: Engine,
    queue: VecDeque<Io>,
    now: SimTime,
    asked: u64,
    dice: Dice,
}

impl World {
    fn new(adaptive: bool) -> Self {
        let config = Config {
            area: Sectors(if adaptive { (PAGES / 8) * PAGE_SECTORS } else { 0 }),
            cache_bytes: Bytes(RAM * 4096),
            read_ahead: Bytes(64 << 10),
            adaptive,
            ..Config::new(Sectors(PAGES * PAGE_SECTORS))
        };
        let (queue, now) = (VecDeque::new(), SimTime::ZERO);
        Self { engine: Engine::new(config), queue, now, asked: 0, dice: Dice::new(7) }
    }

    fn feed(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Submit(io) => self.queue.push_back(io),
                Output::Sum(sum) => self.engine.summed(&SUMS[..sum.pages as usize]),
                Output::Complete { result, .. } => result.unwrap(),
                Output::Move(_) | Output::Put { .. } | Output::Zero { .. } => {}
            }
        }
    }

    fn ask(&mut self, op: Op, page: u64, pages: u64) {
        let request =
            Request::new(self.now, op, Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS));
        self.asked += 1;
        self.feed(Input::Request { id: RequestId(self.asked), request });
        while let Some(io) = self.queue.pop_front() {
            self.now.0 += 8_000_000 + io.extent.len.0 / PAGE_SECTORS * 100_000;
            self.feed(Input::Done { io: io.id, result: Ok(()) });
        }
    }

    fn requests(&mut self, load: &str, count: u64) {
        for i in 0..count {
            let page = self.dice.below(PAGES - 256);
            match load {
                "hit" => self.ask(Op::Read, i % 64 * 16, 1),
                "miss" => self.ask(Op::Read, page, 1),
                "write" => self.ask(Op::Write, page, 1),
                "long read" => self.ask(Op::Read, page, 256),
                _ => self.ask(Op::Write, page, 256),
            }
        }
    }
}

/// The counter runs inside this function alone.
#[inline(never)]
fn counted_requests(world: &mut World, load: &str, count: u64) {
    world.requests(load, count);
}

/// Does the work if the counter asks for it; else there is nothing to do.
#[test]
fn work_that_is_counted() {
    let Ok(what) = std::env::var("SEEKLESS_COUNTED") else { return };
    let (policy, load) = what.split_once(' ').unwrap();
    let mut world = World::new(policy == "adaptive");
    world.requests("miss", 600);
    world.requests(load, 200);
    let count = if load.starts_with("long") { 100 } else { 500 };
    counted_requests(&mut world, load, count);
}

/// Instructions a request; `None` without valgrind.
fn instructions(policy: &str, load: &str) -> Option<u64> {
    let count = if load.starts_with("long") { 100 } else { 500 };
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_requests*")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "work_that_is_counted", "--test-threads", "1"])
        .env("SEEKLESS_COUNTED", format!("{policy} {load}"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let found = text.lines().find_map(|line| line.split_once("Collected : "));
    let found = found.unwrap_or_else(|| panic!("valgrind says:\n{text}")).1;
    Some(found.trim().parse::<u64>().unwrap() / count)
}

#[test]
fn a_request_costs_a_bounded_number_of_instructions_more() {
    const BOUNDS: [(&str, u64); 5] = [
        ("hit", 1500),
        ("miss", 45_000),
        ("write", 3500),
        ("long read", 65_000),
        ("long write", 65_000),
    ];
    let mut costs = Vec::new();
    for (load, most) in BOUNDS {
        let (Some(vanilla), Some(adaptive)) =
            (instructions("vanilla", load), instructions("adaptive", load))
        else {
            eprintln!("SKIPPED: no valgrind");
            return;
        };
        let more = adaptive.saturating_sub(vanilla);
        eprintln!("{load}: vanilla {vanilla}, adaptive {adaptive}: {more} instructions more");
        costs.push((load, more, if cfg!(debug_assertions) { 2 * most } else { most }));
    }
    for (load, more, most) in costs {
        assert!(more <= most, "{load}: {more} instructions more than vanilla's, {most} allowed");
    }
}
