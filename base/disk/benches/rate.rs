//! Requests per second that the model computes on one core: the best of ten runs.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a bench has a clock
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program")]

use std::hint::black_box;
use std::time::Instant;

use seekless_block::{Dice, Extent, Op, SimTime};
use seekless_disk::{Command, Disk, DiskSpec, Drive, Scheduler, catalogue};

/// Addresses of `n` random 4 KiB requests.
fn addresses(n: usize, capacity: u64) -> Vec<Extent> {
    let mut dice = Dice::new(1);
    (0..n).map(|_| Extent::new(dice.below(capacity / 8) * 8, 8)).collect()
}

/// Serves all `requests`, with `depth` of them in the drive at a time.
fn replay(disk: &Disk, scheduler: Scheduler, depth: usize, requests: &[Extent]) -> SimTime {
    let mut drive = Drive::new(disk.clone(), scheduler);
    let mut rest = requests.iter().enumerate();
    let mut now = SimTime(0);
    let mut submit = |drive: &mut Drive, now| {
        if let Some((tag, &extent)) = rest.next() {
            let command = Command::new(tag as u64, Op::Read, extent);
            drive.submit(now, command).expect("inside");
        }
    };
    for _ in 0..depth {
        submit(&mut drive, now);
    }
    while let Some(at) = drive.next_event() {
        now = at;
        while let Some(c) = drive.poll(now) {
            black_box(c);
            submit(&mut drive, now);
        }
    }
    now
}

/// A controller as in DiskSim's drives: ten segments with read-ahead. The times are round numbers.
const BUFFER: &str = "
[controller]
bus_sector_ms = [0.01, 0.01]
read_hit_ms = [0.1, 0.1]
read_miss_ms = [0.2, 0.2]
write_hit_ms = [0.1, 0.1]
write_miss_ms = [0.2, 0.2]
segments = 10
segment_sectors = 1000
read_ahead = \"segment\"
read_ahead_sectors = 1000

[[source]]
fields = [\"controller\"]
kind = \"derived\"
from = \"round numbers\"
";

fn main() {
    let of = |name: &str| catalogue::get(name).expect("sound");
    let buffered = of("atlas10k").to_toml().expect("TOML") + BUFFER;
    let buffered = DiskSpec::parse("buffered", &buffered).expect("sound");
    let disks = [
        ("wd800jb", of("wd800jb")),
        ("exos-x20", of("exos-x20")),
        ("atlas10k", of("atlas10k")),
        ("atlas10k-buffered", buffered),
    ];
    for (name, spec) in disks {
        let disk = Disk::new(&spec).expect("sound");
        for (scheduler, depth, n) in [
            (Scheduler::Fcfs, 1, 1_000_000),
            (Scheduler::Fcfs, 16, 1_000_000),
            (Scheduler::CLook, 32, 1_000_000),
            (Scheduler::Sptf, 128, 100_000),
        ] {
            let requests = addresses(n, disk.capacity().get());
            let seconds = (0..10).map(|_| {
                let began = Instant::now();
                black_box(replay(&disk, scheduler, depth, &requests));
                began.elapsed().as_secs_f64()
            });
            let rate = n as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6;
            println!("{name}, {scheduler}, {depth} deep: {rate:.2} million requests a second");
        }
    }
}
