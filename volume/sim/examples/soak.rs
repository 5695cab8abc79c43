//! A long soak of the engine over an emulated fast disk: reads, writes, discards and flushes in
//! write-back, with the adaptive policy and its trail. It prints the memory that the process has,
//! and fails if that memory grows after the first tenth.
//!
//!     cargo run --release -p seekless-sim --example soak -- 100000000
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

use std::process::ExitCode;

use seekless_block::{Bytes, Dice, Extent, Lba, Op, PAGE_SECTORS, Request, Sectors, SimTime};
use seekless_disk::{Device, Scheduler, SpinDown, catalogue};
use seekless_engine::{Config, Mode};
use seekless_sim::{Replay, SimConfig, Simulation};

/// Pages of the volume: 1 GiB.
const PAGES: u64 = 1 << 18;
/// Memory may grow by this much after the first tenth.
const GROWTH_KIB: u64 = 4 << 10;

fn volume() -> Result<Simulation, Box<dyn std::error::Error>> {
    let engine = Config {
        area: Sectors(PAGES / 4 * PAGE_SECTORS),
        cache_bytes: Bytes(16 << 20),
        write_buffer_percent: 20,
        mode: Mode::WriteBack,
        adaptive: true,
        ..Config::new(Sectors(PAGES * PAGE_SECTORS))
    };
    let config = SimConfig {
        engine,
        area_at: Lba(engine.capacity.0),
        scheduler: Scheduler::Fcfs,
        spin_down: SpinDown::None,
        replay: Replay::Closed { depth: 4 },
    };
    Ok(Simulation::new(Device::new(&catalogue::device("sata-ssd")?)?, config)?)
}

/// Half of the requests follow a path that repeats, the others go anywhere.
fn request(i: u64, dice: &mut Dice) -> Request {
    let any = dice.draw() >> 16;
    let page = match any % 2 {
        0 => i % 20_000 * 40_503 % (PAGES - 16),
        _ => (any >> 8) % (PAGES - 16),
    };
    let (op, pages) = match any >> 1 & 63 {
        0 => (Op::Flush, 0),
        1 => (Op::Discard, 16),
        2..16 => (Op::Write, 1 + (any >> 40 & 3)),
        _ => (Op::Read, 1 + (any >> 40 & 7)),
    };
    Request::new(SimTime(i), op, Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS))
}

/// Memory of the process, now and at most, in KiB.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn soak(all: u64) -> Result<bool, Box<dyn std::error::Error>> {
    let mut simulation = volume()?;
    let (mut dice, mut early) = (Dice::new(7), 0);
    for i in 1..=all {
        simulation.offer(&request(i, &mut dice))?;
        if i % (all / 20).max(1) == 0 {
            // The statistics of requests begin again.
            simulation.lap()?;
            let (now, most) = memory();
            let s = simulation.stats();
            println!(
                "{i} requests: {now} KiB, at most {most}; {} absorbed, {} destaged, {} moved, {} read from copies",
                s.absorbed,
                Bytes(s.destaged_bytes),
                Bytes(s.moved_bytes),
                s.copy_reads
            );
            early = if i <= all / 10 { now } else { early };
        }
    }
    let (now, _) = memory();
    println!("{early} KiB after a tenth, {now} KiB at the end");
    Ok(now <= early + GROWTH_KIB)
}

fn main() -> ExitCode {
    let all = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    match soak(all) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("the memory grows");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
