//! What the engine itself costs a request, with no device behind it:
//! `cost vanilla|area|map|free|replicas|hit read|write REQUESTS` answers every I/O at once; prints nanoseconds per request.
//! `area` has an area with nothing in it; `map` has a copy of whatever is asked for. `free` may have replicas and has none;
//! `replicas` has as many as `map` has copies, of other pages than are asked for, and `hit` of those that are. Run under an
//! instruction counter with two numbers of requests, the difference is the requests' alone.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::disallowed_types, reason = "it measures; the engine is told the time")]

use std::time::Instant;

use seekless_block::{Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Output, RequestId};
use seekless_layout::{Copy, Plan, Replica};

/// Sectors of the device (8 GiB), of all copies (256 MiB), of a request and a copy (4 KiB).
const SPAN: u64 = 1 << 24;
const COPIED: u64 = 1 << 19;
const RUN: u64 = 8;
/// Sectors from one home of a copy to the next.
const STRIDE: u64 = SPAN / (COPIED / RUN);
/// Checksums of pages that hold no bytes: all are alike.
const SUMS: [u32; 4096] = [0; 4096];

/// Carries out what the engine says, every I/O at once.
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
fn full_map() -> Plan {
    let copies = (0..COPIED / RUN)
        .map(|i| Copy { home: Extent::new(i * STRIDE, RUN), place: Lba(i * RUN) })
        .collect();
    Plan { copies }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, map, op, requests] = args.as_slice() else {
        return Err("usage: cost vanilla|area|map|free|replicas|hit read|write REQUESTS".into());
    };
    let op = match op.as_str() {
        "read" => Op::Read,
        "write" => Op::Write,
        _ => return Err("the second argument is read or write".into()),
    };
    let (area, stride, replicas) = match map.as_str() {
        "vanilla" => (Sectors(0), RUN, Sectors(0)),
        "area" | "map" => (Sectors(COPIED * 5 / 4), STRIDE, Sectors(0)),
        "free" | "replicas" | "hit" => (Sectors(1 << 17), STRIDE, Sectors(COPIED * 5 / 4)),
        _ => return Err("the first argument is one of those".into()),
    };
    // Free is the other half of the device.
    let home = if replicas > Sectors(0) { 2 * SPAN } else { SPAN };
    let mut engine = Engine::new(Config { area, replicas, ..Config::new(Sectors(home)) });
    if replicas > Sectors(0) {
        engine.seed_free([Extent::new(SPAN, SPAN)]);
    }
    if map == "replicas" || map == "hit" {
        let beside = if map == "hit" { 0 } else { RUN };
        let homes: Vec<Extent> =
            (0..COPIED / RUN).map(|i| Extent::new(i * STRIDE + beside, RUN)).collect();
        engine.handle(SimTime(0), Input::Replicate(vec![Replica { place: Lba(SPAN), homes }]));
        drain(&mut engine, SimTime(0));
        if engine.copied() != Sectors(COPIED) {
            return Err(
                format!("only {} of {COPIED} sectors were copied", engine.copied().0).into()
            );
        }
    } else if map == "map" {
        engine.handle(SimTime(0), Input::Install(full_map()));
        drain(&mut engine, SimTime(0));
        if engine.copied() != Sectors(COPIED) {
            return Err(
                format!("only {} of {COPIED} sectors were copied", engine.copied().0).into()
            );
        }
    }
    let requests: u64 = requests.parse()?;
    let mut x = 1u64;
    let began = Instant::now();
    for i in 0..requests {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let request =
            Request::new(SimTime(i), op, Extent::new((x >> 33) % (SPAN / stride) * stride, RUN));
        engine.handle(SimTime(i), Input::Request { id: RequestId(i), request });
        drain(&mut engine, SimTime(i));
    }
    if map == "hit" && op == Op::Read && engine.stats().copy_reads * 10 < requests * 9 {
        return Err(format!("only {} reads of replicas", engine.stats().copy_reads).into());
    }
    println!("{:.1}", began.elapsed().as_nanos() as f64 / requests.max(1) as f64);
    Ok(())
}
