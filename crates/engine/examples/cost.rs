//! What the engine itself costs a request, with no device behind it: `cost vanilla|map read|write REQUESTS`
//! answers every I/O at once; prints nanoseconds per request. Run under an instruction counter with two
//! numbers of requests, the difference is the requests' alone.
#![allow(clippy::print_stdout, reason = "a program")]

use std::time::Instant;

use seekless_block::{Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Output, RequestId};
use seekless_layout::{Copy, Plan};

/// Sectors of the device (8 GiB), of the optimized area (256 MiB), of a request and a copy (4 KiB).
const SPAN: u64 = 1 << 24;
const AREA: u64 = 1 << 19;
const RUN: u64 = 8;

/// Carries out what the engine says, every I/O at once.
fn drain(engine: &mut Engine, now: SimTime) {
    while let Some(output) = engine.poll() {
        if let Output::Submit(io) = output {
            engine.handle(now, Input::Done { io: io.id, result: Ok(()) });
        }
    }
}

/// As many copies as the area holds, spread evenly over the device.
fn full_map() -> Plan {
    let copies = AREA / RUN;
    let home = |i: u64| Extent::new(i * (SPAN / copies), RUN);
    Plan { copies: (0..copies).map(|i| Copy { home: home(i), place: Lba(i * RUN) }).collect() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, map, op, requests] = args.as_slice() else {
        return Err("usage: cost vanilla|map read|write REQUESTS".into());
    };
    let op = match op.as_str() {
        "read" => Op::Read,
        "write" => Op::Write,
        _ => return Err("the second argument is read or write".into()),
    };
    let mut engine = Engine::new(Config { area: Sectors(AREA), ..Config::new(Sectors(SPAN)) });
    // Where there is a map, every request is for something it has a copy of.
    let stride = match map.as_str() {
        "vanilla" => RUN,
        "map" => {
            engine.handle(SimTime(0), Input::Install(full_map()));
            drain(&mut engine, SimTime(0));
            SPAN / (AREA / RUN)
        }
        _ => return Err("the first argument is vanilla or map".into()),
    };
    let requests: u64 = requests.parse()?;
    let mut x = 1u64;
    let began = Instant::now();
    for i in 0..requests {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let request = Request::new(SimTime(i), op, Extent::new((x >> 33) % (SPAN / stride) * stride, RUN));
        engine.handle(SimTime(i), Input::Request { id: RequestId(i), request });
        drain(&mut engine, SimTime(i));
    }
    println!("{:.1}", began.elapsed().as_nanos() as f64 / requests.max(1) as f64);
    Ok(())
}
