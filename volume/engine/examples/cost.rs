//! The engine's own cost of a request, without a device: every I/O is answered at once.
//!
//!     cost vanilla|area|map|free|replicas|hit read|write|take|anew|memory REQUESTS [PAGES]
//!
//! It prints nanoseconds per request. To count instructions, run it twice under a counter with two
//! numbers of requests: the difference is the cost of the requests alone.
//!
//! - `area`: an area without copies; `map`: a copy of every requested page.
//! - `free`: replicas are allowed, none exist. `replicas`: as many replicas as `map` has copies, of
//!   pages that are not requested; `hit`: of requested pages. 65,536, or PAGES.
//! - `take`: writes into the places of replicas. `anew`: one more replica at a time, while a
//!   quarter more fits, then in the place of the coldest.
//! - `memory`: bytes of RAM per page of replicas.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::disallowed_types, reason = "it measures; the engine is told the time")]
#![allow(clippy::disallowed_methods, reason = "it asks the host how much memory it has")]

use std::time::Instant;

use seekless_block::{Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Output, RequestId};
use seekless_learn::{Copy, Plan, Replica};

/// Default number of copies. Sectors of a copy and of a request (4 KiB), and from one copy's home
/// to the next.
const PAGES: u64 = 1 << 16;
const RUN: u64 = 8;
const STRIDE: u64 = 256;
/// Replicas requested at a time.
const SOME: u64 = 1 << 16;
/// Sums of pages without bytes: all are equal.
static SUMS: [seekless_engine::PageSum; 4096] = [0; 4096];

/// Carries out the engine's outputs, every I/O at once.
fn drain(engine: &mut Engine, now: SimTime) {
    while let Some(output) = engine.poll() {
        match output {
            Output::Submit(io) => engine.handle(now, Input::Done { io: io.id, result: Ok(()) }),
            Output::Sum(sum) => {
                engine.summed(SUMS.get(..sum.pages as usize).unwrap_or_default());
            }
            Output::Move(_)
            | Output::Put { .. }
            | Output::Zero { .. }
            | Output::Complete { .. } => {}
        }
    }
}

/// Copies spread evenly over the device.
fn full_map(pages: u64) -> Plan {
    let copies = (0..pages)
        .map(|i| Copy { home: Extent::new(i * STRIDE, RUN), place: Lba(i * RUN) })
        .collect();
    Plan { copies }
}

/// RAM of this process, in bytes; 0 if unknown.
fn memory() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    told.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn copied(engine: &Engine, pages: u64) -> Result<(), String> {
    let (is, should) = (engine.copied().0, pages * RUN);
    if is == should { Ok(()) } else { Err(format!("only {is} of {should} sectors were copied")) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, map, what, requests, more @ ..] = args.as_slice() else {
        return Err("usage: cost vanilla|area|map|free|replicas|hit read|write|take|anew|memory REQUESTS [PAGES]".into());
    };
    let pages: u64 = more.first().map_or(Ok(PAGES), |n| n.parse())?;
    let room = Sectors(pages * RUN * 5 / 4);
    let (area, stride, replicas) = match map.as_str() {
        "vanilla" => (Sectors(0), RUN, Sectors(0)),
        "area" | "map" => (room, STRIDE, Sectors(0)),
        "free" | "replicas" | "hit" => (Sectors((1 << 17) + room.0 / 40), STRIDE, room),
        _ => return Err("the first argument is one of those".into()),
    };
    let span = pages * STRIDE;
    // The other half of the device is free.
    let home = if replicas > Sectors(0) { 2 * span } else { span };
    let before = memory();
    let mut engine = Engine::new(Config { area, replicas, ..Config::new(Sectors(home)) });
    if replicas > Sectors(0) {
        engine.seed_free([Extent::new(span, span)]);
    }
    if map == "replicas" || map == "hit" {
        let beside = if map == "hit" { 0 } else { RUN };
        for first in (0..pages).step_by(SOME as usize) {
            let homes = (first..pages.min(first + SOME))
                .map(|i| Extent::new(i * STRIDE + beside, RUN))
                .collect();
            let place = Lba(span + first * RUN);
            engine.handle(SimTime(0), Input::Replicate(vec![Replica { place, homes }]));
            drain(&mut engine, SimTime(0));
        }
        copied(&engine, pages)?;
    } else if map == "map" {
        engine.handle(SimTime(0), Input::Install(full_map(pages)));
        drain(&mut engine, SimTime(0));
        copied(&engine, pages)?;
    }
    if what == "memory" {
        println!("{:.2}", memory().saturating_sub(before) as f64 / pages as f64);
        return Ok(());
    }
    let requests: u64 = requests.parse()?;
    let refused = engine.stats().replicas_refused;
    let mut x = 1u64;
    let began = Instant::now();
    for i in 0..requests {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let extent = Extent::new((x >> 33) % (span / stride) * stride, RUN);
        let (op, extent) = match what.as_str() {
            "read" => (Op::Read, extent),
            "write" => (Op::Write, extent),
            "take" => (Op::Write, Extent::new(span + (x >> 33) % pages * RUN, RUN)),
            "anew" => {
                let homes = vec![Extent::new(i * STRIDE + 2 * RUN, RUN)];
                // A place without a replica.
                let place = Lba(span + (pages + i) * RUN);
                engine.handle(SimTime(0), Input::Replicate(vec![Replica { place, homes }]));
                drain(&mut engine, SimTime(0));
                continue;
            }
            _ => return Err("the second argument is one of those".into()),
        };
        let request = Request::new(SimTime(i), op, extent);
        engine.handle(SimTime(i), Input::Request { id: RequestId(i), request });
        drain(&mut engine, SimTime(i));
    }
    let took = began.elapsed();
    let stats = engine.stats();
    if map == "hit" && what == "read" && stats.copy_reads * 10 < requests * 9 {
        return Err(format!("only {} reads of replicas", stats.copy_reads).into());
    }
    if what == "anew" && stats.replicas_refused > refused {
        return Err(format!("{} replicas were refused", stats.replicas_refused - refused).into());
    }
    println!("{:.1}", took.as_nanos() as f64 / requests.max(1) as f64);
    Ok(())
}
