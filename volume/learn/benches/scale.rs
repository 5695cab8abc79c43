//! Ten million synthetic requests analyzed and planned: how long it takes and how much memory, for
//! each strategy, and for revising the plan. `cargo bench -p seekless-learn [REQUESTS]`. Linux: the
//! peak is the kernel's `VmHWM`.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a bench has a clock
#![allow(clippy::print_stdout, reason = "a program")]

use std::time::Instant;

use seekless_block::{Bytes, Extent, Op, Request, Sectors, SimTime, StreamId};
use seekless_learn::{
    AccessGraph, Pages, Plan, PlanConfig, Planning, Reach, Strategy, plan, revise,
};

/// Of the device: 4 TiB.
const CAPACITY: Sectors = Sectors(1 << 33);
/// Files, each of 1 to 64 pages, at every 2 MiB.
const FILES: u64 = 1 << 21;
/// Files that are read together, in this order.
const GROUP: u64 = 16;
const STREAMS: u64 = 8;
/// Edges that the graph keeps, as the studies do.
const EDGES: usize = 1 << 24;

/// Requests as of several processes that read groups of files in order, some groups far more often
/// than others, but never quite alike; one request in ten writes. Synthetic. The generator is a
/// 64-bit linear congruential one (Knuth's MMIX), seed 1.
struct Load {
    state: u64,
    /// File and page of each stream.
    at: [(u64, u64); STREAMS as usize],
}

impl Load {
    fn draw(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.state >> 32
    }

    fn next(&mut self) -> Request {
        let stream = self.draw() % STREAMS;
        let (mut file, mut page) = self.at[stream as usize];
        let size = file.wrapping_mul(2_654_435_761) % 64 + 1;
        if page >= size {
            file += 1;
            if file.is_multiple_of(GROUP) {
                // The fourth power of an even draw: half of all draws fall on a sixteenth of the
                // files.
                let even = self.draw() as f64 / f64::from(u32::MAX);
                file = ((even.powi(4) * FILES as f64) as u64).min(FILES - 1) / GROUP * GROUP;
            }
            page = 0;
        }
        let len = [1, 2, 4, 16][(self.draw() % 4) as usize];
        self.at[stream as usize] = (file, page + len);
        let op = if self.draw().is_multiple_of(10) { Op::Write } else { Op::Read };
        let extent = Extent::new((file * 512 + page) * 8, len * 8);
        let stream = StreamId(stream as u32);
        Request { stream, ..Request::new(SimTime(0), op, extent) }
    }
}

/// The most memory this process has held so far, in bytes.
fn peak() -> Bytes {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok());
    Bytes(kib.unwrap_or(0_u64) * 1024)
}

/// Processor time of this process so far, in seconds: what it takes on a machine with nothing else
/// to do.
fn computed() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = schedstat.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    ns.unwrap_or(0) as f64 / 1e9
}

fn main() {
    let requests: u64 = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(10_000_000);
    let began = Instant::now();
    let say = |what: &str| {
        let (wall, peak) = (began.elapsed().as_secs_f64(), peak().to_string());
        println!("{wall:6.1} s, {:6.1} s of it computing, peak {peak:>9}: {what}", computed());
    };
    let pages = Pages::new(Sectors(0), CAPACITY);
    let mut graph = AccessGraph::new(pages, Bytes(1 << 24), EDGES);
    let mut load = Load { state: 1, at: [(FILES - 1, 64); STREAMS as usize] };
    for _ in 0..requests {
        graph.observe(&load.next());
    }
    let (vertices, edges) = (graph.vertex_count(), graph.edge_count());
    say(&format!("analyzed {requests} synthetic requests: {vertices} vertices, {edges} edges"));
    for strategy in Strategy::ALL {
        let config = PlanConfig {
            area: Sectors(1 << 24),
            min_weight: 0,
            strategy,
            planning: Planning::Anew,
            reach: Reach::new(Bytes(1 << 16), Bytes(1 << 16)),
        };
        let anew = plan(&graph, &config);
        say(&format!(
            "planned, {strategy}: {} copies, {}",
            anew.copies.len(),
            anew.sectors().bytes()
        ));
        let revised = revise(&Plan::default(), &graph, &config);
        say(&format!("revised: {} copies, {}", revised.copies.len(), revised.sectors().bytes()));
    }
}
