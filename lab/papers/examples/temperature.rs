//! Temperatures of ten million requests, exact and sketched: `cargo run --release -p
//! seekless-papers --example temperature`. The requests are made up: four extents in ten thousand
//! take a third of them. Prints the time and the memory.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use seekless_block::Duration;
use seekless_disk::clustering::{curve_of, fit_mixture};
use seekless_learn::Temperature;

const REQUESTS: u64 = 10_000_000;
const EXTENTS: u64 = 4_000_000;

fn main() {
    for room in [usize::MAX, 1 << 16] {
        let started = Instant::now();
        let day = Duration(86_400_000_000_000);
        let mut extents: Temperature<u64> = Temperature::new(day, room);
        let mut files: Temperature<u32> = Temperature::new(day, room);
        let mut cylinders: Temperature<u32> = Temperature::new(day, room);
        let mut state = 1990u64;
        for i in 0..REQUESTS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            // The fourth power is skewed.
            let extent = (unit.powi(4) * EXTENTS as f64) as u64;
            // A week.
            let at = i * 60_480_000;
            extents.moved(extent, 65_536, at);
            files.moved((extent / 16) as u32, 65_536, at);
            cylinders.moved((extent / 128) as u32, 65_536, at);
        }
        let hottest = extents.hottest(|_| Some(1 << 20));
        let curve = curve_of(hottest.iter().map(|h| (h.moved as f64, h.stored as f64)), 200);
        let fit = fit_mixture(&curve);
        let _ = (files.hottest(|_| Some(1 << 24)), cylinders.hottest(|_| Some(1 << 27)));
        let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = peak.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("").to_owned();
        println!(
            "{REQUESTS} requests, {} extents kept, off by at most {} bytes: {:.1} s; {peak}; mixture off by {:.3}",
            hottest.len(),
            extents.off(),
            started.elapsed().as_secs_f64(),
            fit.map_or(f64::NAN, |f| f.off_most)
        );
    }
}
