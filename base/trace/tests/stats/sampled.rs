//! Estimates with little memory, compared with exact values, on several seeds.

use seekless_block::{Bytes, Dice, Extent, Op, Request, SimTime, StreamId};
use seekless_trace::Record;
use seekless_trace::stats::{Estimate, StatOptions, Summary};

use crate::random::{info, summary};

/// A trace of hot and cold pages, sequential runs and repeated jumps.
fn made(seed: u64, requests: u64) -> Vec<Record> {
    let mut dice = Dice::new(seed);
    let mut at = 0;
    let mut next = 0;
    let each = |i: u64| {
        at += dice.draw() % 2_000_000;
        let u = dice.unit();
        let start = match dice.draw() % 4 {
            0 => next,
            _ => ((u.powi(3) * 150_000.0) as u64).wrapping_mul(7_919) % (1 << 24) * 8,
        };
        let len = 8 * (1 + dice.draw() % 4) + dice.draw() % 2;
        next = start + len;
        let op = if dice.draw().is_multiple_of(3) { Op::Write } else { Op::Read };
        let mut request = Request::new(SimTime(at), op, Extent::new(start, len));
        request.stream = StreamId((i / 1000 % 5) as u32);
        Record { request, device: (start % 3 == 0).into(), day: None, service: None }
    };
    (0..requests).map(each).collect()
}

/// Compares every estimate of a sampled summary with the exact one by `within(exact, sampled,
/// name)`.
fn compare(exact: &Summary, sampled: &Summary, within: &mut impl FnMut(Estimate, Estimate, &str)) {
    let (a, b) = (&exact.table1, &sampled.table1);
    assert_eq!((a.reads, a.read_bytes, a.page_accesses), (b.reads, b.read_bytes, b.page_accesses));
    within(a.unique_read_bytes, b.unique_read_bytes, "unique read");
    within(a.unique_written_bytes, b.unique_written_bytes, "unique written");
    within(a.unique_bytes, b.unique_bytes, "unique");
    within(a.unique_both_bytes, b.unique_both_bytes, "both");
    within(a.pages, b.pages, "pages");
    within(a.top20_share, b.top20_share, "top 20%");
    within(a.determinism.share, b.determinism.share, "determinism");
    within(a.determinism.pairs, b.determinism.pairs, "pairs");
    within(exact.reuse.first_share, sampled.reuse.first_share, "first accesses");
    for (a, b) in exact.temperature.iter().zip(&sampled.temperature) {
        if a.space < 1.0 {
            within(a.accesses, b.accesses, "temperature");
        }
    }
    for b in &sampled.reuse.curve {
        if let Some(a) = exact.reuse.curve.iter().find(|a| a.pages == b.pages) {
            within(a.miss_ratio, b.miss_ratio, "miss ratio");
        }
    }
    for (a, b) in exact.devices.iter().zip(&sampled.devices) {
        assert_eq!((&a.name, a.requests), (&b.name, b.requests));
        within(a.unique_bytes, b.unique_bytes, "unique of a device");
    }
    for (a, b) in exact.processes.iter().zip(&sampled.processes) {
        assert_eq!((&a.name, a.requests), (&b.name, b.requests));
        within(a.pages, b.pages, "pages of a process");
    }
    let rows = |s: &Summary| s.days.clone().unwrap().rows;
    for (a, b) in rows(exact).iter().zip(&rows(sampled)) {
        within(a.pages, b.pages, "pages of a day");
    }
}

#[test]
fn estimates_are_inside_the_stated_error() {
    for seed in 0..6u64 {
        let records = made(seed, 250_000);
        let with = |memory| {
            let options = StatOptions {
                memory: Bytes(memory),
                day: seekless_block::Duration(60_000_000_000),
                seed,
                ..StatOptions::default()
            };
            summary(&records, info(true, false, true), &options)
        };
        let (exact, sampled) = (with(1 << 30), with(1 << 20));
        let mut checked = 0;
        let mut within = |a: Estimate, b: Estimate, what: &str| {
            assert!(a.is_exact(), "{what}: {a:?}");
            assert!(!b.is_exact(), "{what}: {b:?}");
            let off = (a.value - b.value).abs();
            assert!(off <= b.error, "seed {seed}, {what}: exact {}, estimated {b:?}", a.value);
            checked += 1;
        };
        compare(&exact, &sampled, &mut within);
        let (a, b) = (&exact.table1, &sampled.table1);
        // Statistics without sampling do not depend on memory.
        assert_eq!(exact.shape, sampled.shape);
        assert_eq!(exact.time, sampled.time);
        assert_eq!(exact.heat, sampled.heat);
        // The stated errors are small enough to be useful.
        assert!(b.pages.error / b.pages.value < 0.1, "{:?}", b.pages);
        assert!(b.top20_share.error < 0.1, "{:?}", b.top20_share);
        println!(
            "seed {seed}: {checked} estimates, top 20% {:?} {:?}",
            a.top20_share, b.top20_share
        );
    }
}

const CHILD: &str = "SEEKLESS_STATS_CHILD";

/// Runs in its own process, so that the memory of other tests does not count.
#[test]
fn memory_stays_inside_the_limit() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sampled::memory_stays_inside_the_limit", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    println!("{said}");
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("peak"), "the child ran no test");
}

fn child() {
    const ALLOWED: u64 = 64 << 20;
    // Histograms, heat maps and the code of the test.
    const FIXED: u64 = 24 << 20;
    let info = info(true, false, true);
    let options = StatOptions { memory: Bytes(ALLOWED), ..StatOptions::default() };
    let mut stats = seekless_trace::stats::Stats::new(&options, info);
    for i in 0..2_000_000u64 {
        // Every page is new and far from the last one, so that every table grows.
        let at = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 14;
        let mut request = Request::new(SimTime(i * 1000), Op::Read, Extent::new(at, 8));
        request.stream = StreamId((i % 5) as u32);
        stats.add(&Record { request, device: 0, day: None, service: None });
    }
    let summary = stats.finish(info, &[], &[], &seekless_trace::Skipped::default());
    assert!(!summary.table1.pages.is_exact());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let peak: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    println!("peak {peak} KiB");
    assert!(peak << 10 < ALLOWED + FIXED, "{peak} KiB");
}
