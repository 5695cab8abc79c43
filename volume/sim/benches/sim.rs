//! Requests a second through engine and drive, FCFS, one core: 4 KiB reads at random addresses.
#![allow(missing_docs, clippy::expect_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seekless_block::{Bytes, Dice, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_disk::{Disk, Scheduler, SpinDown, catalogue};
use seekless_engine::Config;
use seekless_sim::{Replay, SimConfig, Simulation};

const REQUESTS: u64 = 1_000_000;

fn bench(c: &mut Criterion) {
    let spec = catalogue::get("wd800jb").expect("an embedded entry");
    let capacity = 100_000_000;
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10).throughput(Throughput::Elements(REQUESTS));
    for (name, cache, ahead, depth) in [
        ("vanilla, no RAM, depth 1", 0, 0, 1),
        ("vanilla, no RAM, depth 16", 0, 0, 16),
        ("vanilla, 16 MiB, 64 KiB ahead", 16 << 20, 64 << 10, 1),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let config = SimConfig {
                    engine: Config {
                        cache_bytes: Bytes(cache),
                        read_ahead: Bytes(ahead),
                        ..Config::new(Sectors(capacity))
                    },
                    area_at: Lba(capacity),
                    scheduler: Scheduler::Fcfs,
                    spin_down: SpinDown::None,
                    replay: Replay::Closed { depth },
                };
                let disk = Disk::new(&spec).expect("a valid entry");
                let mut sim = Simulation::new(disk, config).expect("it fits");
                let mut dice = Dice::new(1);
                for _ in 0..REQUESTS {
                    let extent = Extent::new(dice.below(capacity / 8) * 8, 8);
                    sim.offer(&Request::new(SimTime(0), Op::Read, extent)).expect("in range");
                }
                sim.finish().expect("in range").requests
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
