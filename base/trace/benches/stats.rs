//! Characterizes made-up requests: how many a second, and in how much memory. Hot and cold pages
//! after Zipf's law, sequential runs and processes, from a seed; synthetic, and fit for nothing but
//! this.
//!
//!     cargo bench -p seekless-trace --bench stats -- 100000000 1024     requests, MiB of memory
//!     cargo bench -p seekless-trace --bench stats -- 100000000 FILE     writes a native store
#![allow(clippy::expect_used, reason = "a bench that cannot run should say so and stop")]
#![allow(clippy::print_stdout, reason = "its result")]

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use seekless_block::{Bytes, Dice, Extent, Op, Request, SimTime, StreamId};
use seekless_trace::stats::{StatOptions, Stats};
use seekless_trace::{Device, Format, Info, Record, Skipped, StoreWriter, Stream};

const SEED: u64 = 1;
/// Pages that are ever asked for: 512 GiB.
const PAGES: u64 = 1 << 27;
/// Exponent of Zipf's law.
const ZIPF: f64 = 0.9;
const PROCESSES: u64 = 200;

struct Made {
    dice: Dice,
    at: u64,
    next: [u64; PROCESSES as usize],
}

impl Made {
    /// A page after Zipf's law, by the inverse of its continuous form; ranks are scattered over the
    /// addresses.
    fn page(&mut self) -> u64 {
        let top = (PAGES as f64).powf(1.0 - ZIPF) - 1.0;
        let rank = (top * self.dice.unit() + 1.0).powf(1.0 / (1.0 - ZIPF)) as u64;
        rank.wrapping_mul(0x9E37_79B1) % PAGES
    }

    fn record(&mut self) -> Record {
        // 20,000 requests a second: 100 million take 83 minutes.
        self.at += self.dice.draw() % 100_000;
        let process = (self.dice.draw() % PROCESSES) as usize;
        let start =
            if self.dice.draw().is_multiple_of(3) { self.next[process] } else { self.page() * 8 };
        let len = 8 << (self.dice.draw() % 4);
        self.next[process] = start + len;
        let op = if self.dice.draw().is_multiple_of(4) { Op::Write } else { Op::Read };
        let mut request = Request::new(SimTime(self.at), op, Extent::new(start, len));
        request.stream = StreamId(process as u32 + 1);
        Record { request, device: 0, day: None, service: None }
    }
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let requests: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let second = args.next().unwrap_or_else(|| "1024".to_owned());
    let mut made = Made { dice: Dice::new(SEED), at: 0, next: [0; PROCESSES as usize] };
    let info = Info {
        format: Format::Native,
        has_times: true,
        has_days: false,
        has_processes: true,
        has_service: false,
    };
    let streams: Vec<Stream> = (0..=PROCESSES)
        .map(|i| Stream { pid: i as u32 + 100, name: format!("made{}", i % 20) })
        .collect();
    let devices = [Device { name: "8,0".to_owned() }];
    let Ok(mib) = second.parse::<u64>() else {
        let path = Path::new(&second);
        let file = BufWriter::new(File::create(path).expect("a file to write"));
        let mut store = StoreWriter::new(file, path, Path::new("made up"), info).expect("a store");
        for _ in 0..requests {
            store.write(&made.record(), &streams, &devices).expect("room for the store");
        }
        store.finish(false).expect("room for the store");
        return;
    };
    let options = StatOptions { memory: Bytes(mib << 20), ..StatOptions::default() };
    let mut stats = Stats::new(&options, info);
    let clock = Instant::now();
    for _ in 0..requests {
        stats.add(&made.record());
    }
    let summary = stats.finish(info, &streams, &devices, &Skipped::default());
    let took = clock.elapsed().as_secs_f64();
    println!(
        "{requests} requests, {} page accesses, in {took:.1} s ({:.2} million a second, making them included), {mib} \
         MiB allowed, peak {:.0} MiB of RAM",
        summary.table1.page_accesses,
        requests as f64 / took / 1e6,
        peak_mib()
    );
    println!(
        "pages {:?}, top 20% {:?}, determinism {:?}, first accesses {:?}",
        summary.table1.pages,
        summary.table1.top20_share,
        summary.table1.determinism.share,
        summary.reuse.first_share
    );
}
