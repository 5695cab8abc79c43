//! What the adaptive policy costs a request beside vanilla: the engine alone, without a disk.
//!
//!     adaptive_cost vanilla|adaptive TRACE [REQUESTS] [--event-d]
//!
//! Replays the first requests of a trace, one at a time. A disk of fixed speed answers each I/O: 8 ms
//! unless it goes on where the last one ended, and 0.07 ms a page. Prints nanoseconds of the processor for a request that RAM answers and for one
//! that it does not, the number of each, and candidates weighed. All work counts where it is done:
//! reading along, appends to the trail, learning. To count instructions, run it under a counter with
//! two numbers of requests, or as vanilla and as adaptive: `benches/engine/adaptive.sh`.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::disallowed_types, reason = "it measures; the engine is told the time")]
#![allow(clippy::disallowed_methods, reason = "it measures; the engine is told the time")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Lba, Op, PAGE_SECTORS, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Io, Output, PageSum, RequestId, Target};
use seekless_trace::{Event, OpenOptions, Source};

/// Sums of pages without bytes: all are equal.
static SUMS: [PageSum; 4096] = [0; 4096];

#[derive(Default)]
struct Spent {
    requests: u64,
    time: Duration,
}

struct World {
    engine: Engine,
    queue: VecDeque<Io>,
    /// Where the last I/O ended.
    head: (Target, Lba),
    now: SimTime,
}

impl World {
    fn feed(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Submit(io) => self.queue.push_back(io),
                Output::Sum(sum) => {
                    self.engine.summed(SUMS.get(..sum.pages as usize).unwrap_or_default());
                }
                Output::Move(_)
                | Output::Put { .. }
                | Output::Zero { .. }
                | Output::Complete { .. } => {}
            }
        }
    }

    /// One request, and all work that follows from it.
    fn serve(&mut self, id: u64, request: Request) {
        self.feed(Input::Request { id: RequestId(id), request });
        while let Some(io) = self.queue.pop_front() {
            let place = (io.target, io.extent.start);
            self.now.0 += if place == self.head { 0 } else { 8_000_000 };
            self.now.0 += io.extent.len.0.div_ceil(PAGE_SECTORS) * 70_000;
            self.head = (io.target, io.extent.end());
            self.feed(Input::Done { io: io.id, result: Ok(()) });
        }
    }
}

fn requests(
    path: &str,
    most: usize,
    event: Event,
) -> Result<Vec<Request>, Box<dyn std::error::Error>> {
    let mut reader = Source::new(path).open(&OpenOptions { event, ..OpenOptions::default() })?;
    let mut requests = Vec::new();
    while let Some(record) = reader.next_record()? {
        let Request { op, extent, .. } = record.request;
        let moves = matches!(op, Op::Read | Op::Write) && !extent.is_empty();
        if moves && requests.len() < most {
            requests.push(Request::new(SimTime::ZERO, op, extent));
        }
    }
    Ok(requests)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (event, args): (Vec<_>, Vec<_>) = args.into_iter().partition(|arg| arg == "--event-d");
    let [_, policy, trace, most @ ..] = args.as_slice() else {
        return Err("usage: adaptive_cost vanilla|adaptive TRACE [REQUESTS] [--event-d]".into());
    };
    let event = if event.is_empty() { Event::Queue } else { Event::Issue };
    let most = most.first().map_or(Ok(usize::MAX), |n| n.parse())?;
    let requests = requests(trace, most, event)?;
    let end = requests.iter().map(|r| r.extent.end().0).max().unwrap_or(0);
    let adaptive = policy == "adaptive";
    let config = Config {
        area: if adaptive { Sectors(4 << 20) } else { Sectors(0) },
        cache_bytes: Bytes(16 << 20),
        read_ahead: Bytes(64 << 10),
        cluster: Bytes(64 << 10),
        adaptive,
        ..Config::new(Sectors(end))
    };
    let engine = Engine::new(config);
    let queue = VecDeque::with_capacity(1024);
    let (head, now) = ((Target::Home, Lba(0)), SimTime::ZERO);
    let mut world = World { engine, queue, head, now };
    let (mut hits, mut misses) = (Spent::default(), Spent::default());
    for (id, request) in (0..).zip(requests) {
        let before = world.engine.stats().cache_hits;
        let began = Instant::now();
        world.serve(id, request);
        let took = began.elapsed();
        let hit = world.engine.stats().cache_hits > before;
        if request.op == Op::Read {
            let spent = if hit { &mut hits } else { &mut misses };
            spent.requests += 1;
            spent.time += took;
        }
    }
    let each = |spent: &Spent| spent.time.as_nanos() as f64 / spent.requests.max(1) as f64;
    let weighed = world.engine.prefetched().map_or(0, |counts| counts.weighed);
    println!(
        "{policy}: {} hits, {:.0} ns each; {} misses, {:.0} ns each, {:.1} candidates each",
        hits.requests,
        each(&hits),
        misses.requests,
        each(&misses),
        weighed as f64 / misses.requests.max(1) as f64
    );
    Ok(())
}
