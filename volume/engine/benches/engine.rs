//! The engine's cost of a request, without a device: every I/O is answered at once. And the cost of
//! a search in the map of pages, full of single pages in no order.

#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seekless_block::{Bytes, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_engine::{Config, Engine, Input, Output, RequestId};
use seekless_learn::{Copy, Plan};

#[path = "../src/core/page_map.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of the crate, seen from outside")]
mod pagemap;

use pagemap::{CopyState, HOME_PAGES_MAX, HomePage, PageMap, Slot};

const REQUESTS: u64 = 100_000;
const SPAN: u64 = 1 << 24;

fn run(engine: &mut Engine, op: Op) {
    let mut x = 1u64;
    for i in 0..REQUESTS {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let request = Request::new(SimTime(i), op, Extent::new((x >> 33) % (SPAN / 8) * 8, 8));
        engine.handle(SimTime(i), Input::Request { id: RequestId(i), request });
        drain(engine, i);
    }
}

fn drain(engine: &mut Engine, now: u64) {
    while let Some(output) = engine.poll() {
        if let Output::Submit(io) = output {
            engine.handle(SimTime(now), Input::Done { io: io.id, result: Ok(()) });
        }
    }
}

fn full_map(area: u64) -> Plan {
    let copies = (0..area / 8)
        .map(|i| Copy { home: Extent::new(i * SPAN / area * 8 / 8 * 8, 8), place: Lba(i * 8) });
    Plan { copies: copies.collect() }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(REQUESTS));
    let area = 1 << 19; // 256 MiB, 65,536 copies of 4 KiB
    for (name, cache, plan) in
        [("vanilla", 0, false), ("vanilla 16 MiB", 16 << 20, false), ("full map", 0, true)]
    {
        for op in [Op::Read, Op::Write] {
            group.bench_function(format!("{name} {op:?}"), |b| {
                let mut engine = Engine::new(Config {
                    area: Sectors(area),
                    cache_bytes: Bytes(cache),
                    ..Config::new(Sectors(SPAN))
                });
                if plan {
                    engine.handle(SimTime(0), Input::Install(full_map(area)));
                    drain(&mut engine, 0);
                    assert_eq!(engine.copied(), Sectors(area));
                }
                b.iter(|| run(&mut engine, op));
            });
        }
    }
    group.finish();
}

/// A home page in no order: multiples of an odd factor, modulo a power of two, are all different.
fn scattered(i: u64) -> HomePage {
    HomePage(i.wrapping_mul(6_364_136_223_846_793_005) % HOME_PAGES_MAX)
}

fn bench_map(c: &mut Criterion) {
    const SLOTS: u32 = 1_000_000;
    let mut group = c.benchmark_group("page map, 1M slots");
    let mut map = PageMap::new(SLOTS);
    for slot in 0..SLOTS {
        map.set(Slot(slot), scattered(u64::from(slot)), CopyState::Clean, slot.into());
    }
    let mut i = 0u64;
    group.bench_function("find, held", |b| {
        b.iter(|| {
            i = (i + 377_777) % u64::from(SLOTS);
            map.find(scattered(i))
        });
    });
    group.bench_function("find, not held", |b| {
        b.iter(|| {
            i += 1;
            map.find(scattered(u64::from(SLOTS) + i))
        });
    });
    // Every slot is reused in turn: each call removes an old page and adds a new one.
    let mut next = u64::from(SLOTS);
    group.bench_function("set", |b| {
        b.iter(|| {
            let slot = Slot((next * 377_777 % u64::from(SLOTS)) as u32);
            map.set(slot, scattered(next), CopyState::Clean, 0);
            next += 1;
        });
    });
    group.finish();
}

criterion_group!(benches, bench, bench_map);
criterion_main!(benches);
