//! Small random traces of every kind, compared with the twin.

use proptest::prelude::*;
use seekless_block::{Bytes, Duration, Extent, Op, Request, SimTime, StreamId};
use seekless_trace::stats::{StatOptions, Stats, Summary};
use seekless_trace::{Device, Format, Info, Record, Skipped, Stream};

use crate::twin;

const NAMES: [&str; 5] = ["", "cc1", "git", "cc1", "pid 44"];
const DAY: u64 = 3_000_000_000;

pub(crate) fn info(has_times: bool, has_days: bool, has_processes: bool) -> Info {
    Info { format: Format::Native, has_times, has_days, has_processes, has_service: true }
}

pub(crate) fn summary(records: &[Record], info: Info, options: &StatOptions) -> Summary {
    let mut stats = Stats::new(options, info);
    records.iter().for_each(|r| stats.add(r));
    let stream = |(i, name): (usize, &&str)| match name.strip_prefix("pid ") {
        Some(pid) => Stream { pid: pid.parse().unwrap(), name: String::new() },
        None => Stream { pid: i as u32, name: (*name).to_owned() },
    };
    let streams: Vec<Stream> = NAMES.iter().enumerate().map(stream).collect();
    let devices: Vec<Device> = (0..12).map(|i| Device { name: format!("dev{i}") }).collect();
    stats.finish(info, &streams, &devices, &Skipped::default())
}

prop_compose! {
    fn record()(
        op in prop_oneof![4 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Discard),
                          1 => Just(Op::WriteZeroes), 1 => Just(Op::Flush)],
        start in prop_oneof![3 => 0u64..120, 1 => (0u64..20).prop_map(|p| p * 8), 1 => 0u64..9_000_000],
        len in prop_oneof![2 => 1u64..30, 2 => (1u64..4).prop_map(|p| p * 8), 1 => Just(3000u64)],
        stream in 0u32..5,
        device in prop_oneof![5 => 0u32..2, 1 => 0u32..12],
        step in prop_oneof![2 => 0i64..900_000_000, 1 => -400_000_000i64..0, 1 => Just(0)],
        day in 0u32..3,
        service in prop::option::of(1u64..3_000_000),
        follow in prop::bool::weighted(0.3),
    ) -> (Record, i64, bool) {
        let extent = if op == Op::Flush { Extent::new(0, 0) } else { Extent::new(start, len) };
        let request = Request {
            stream: StreamId(stream),
            ..Request::new(SimTime(0), op, extent)
        };
        (Record { request, device, day: Some(day), service: service.map(Duration) }, step, follow)
    }
}

fn made(list: Vec<(Record, i64, bool)>, days: bool) -> Vec<Record> {
    let (mut at, mut day, mut end) = (5_000_000_000i64, 7, None);
    let each = |(mut r, step, follow): (Record, i64, bool)| {
        at = (at + step).max(0);
        r.request.arrival = SimTime(at as u64);
        day += u32::from(r.day == Some(0));
        r.day = days.then_some(day);
        if r.request.op != Op::Flush {
            if let (true, Some(end)) = (follow, end) {
                r.request.extent.start = end;
            }
            end = Some(r.request.extent.end());
        }
        r
    };
    list.into_iter().map(each).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn all_statistics_agree_with_a_slow_computation(
        list in prop::collection::vec(record(), 0..80),
        times in any::<bool>(),
        days in any::<bool>(),
        processes in any::<bool>(),
    ) {
        let mut records = made(list, days);
        if !times {
            records.iter_mut().for_each(|r| r.request.arrival = SimTime(0));
        }
        let options = StatOptions {
            memory: Bytes(16 << 20),
            day: Duration(DAY),
            size: Some(Bytes(1 << 20)),
            seed: 3,
        };
        let summary = summary(&records, info(times, days, processes), &options);
        twin::check(&records, &summary, &NAMES, DAY);
    }
}

/// A trace small enough for computations by hand.
#[test]
fn nine_requests_by_hand() {
    let at = |ms: u64, op, start, len| Record {
        request: Request::new(SimTime(ms * 1_000_000), op, Extent::new(start, len)),
        device: 0,
        day: None,
        service: None,
    };
    use Op::{Discard, Read, Write};
    let records = [
        at(0, Read, 0, 8),       // page 0
        at(10, Read, 8, 8),      // page 1, sequential
        at(20, Read, 80, 16),    // pages 10 and 11: jump from 8 to 80
        at(30, Write, 4, 8),     // half of pages 0 and 1: jump from 80 to 4
        at(1000, Read, 8, 8),    // page 1: jump from 4 to 8
        at(1010, Read, 80, 16),  // pages 10 and 11: the jump from 8 to 80 again
        at(1020, Discard, 0, 8), // moves nothing
        at(1030, Write, 4, 4),   // half of page 0: the jump from 80 to 4 again
        at(2000, Discard, 0, 8), // begins a third second
    ];
    let s = summary(&records, info(true, false, false), &StatOptions::default());
    assert_eq!((s.table1.reads, s.table1.writes), (5, 2));
    assert_eq!((s.table1.read_bytes, s.table1.written_bytes), (56 * 512, 12 * 512));
    assert_eq!(s.table1.unique_read_bytes.value, 32.0 * 512.0);
    assert_eq!(s.table1.unique_written_bytes.value, 8.0 * 512.0);
    assert_eq!(s.table1.unique_bytes.value, 32.0 * 512.0);
    assert_eq!(s.table1.unique_both_bytes.value, 8.0 * 512.0);
    // Accesses: pages 0 1 10 11 0 1 1 10 11 0: counts 3 3 2 2; a fifth of four pages is 0.8 of a
    // page.
    assert_eq!((s.table1.page_accesses, s.table1.pages.value), (10, 4.0));
    assert!((s.table1.top20_share.value - 0.24).abs() < 1e-12);
    // Five jumps; those from 8 to 80 and from 80 to 4 occur twice.
    let d = &s.table1.determinism;
    assert_eq!((d.non_sequential, d.pairs.value), (5, 3.0));
    assert!((d.share.value - 0.8).abs() < 1e-12);
    // Distances: 0 1 10 11 are new; 0 after three others, 1 after three, 1 at once, 10 after three
    // others (11 0 1), 11 after three, 0 after three (1 10 11).
    let miss = |pages| s.reuse.curve.iter().find(|p| p.pages == pages).unwrap().miss_ratio.value;
    assert!((miss(1) - 0.9).abs() < 1e-12 && (miss(3) - 0.9).abs() < 1e-12);
    assert!((miss(4) - 0.4).abs() < 1e-12);
    assert!((s.shape.sequential_share - 1.0 / 7.0).abs() < 1e-12);
    assert!((s.shape.aligned_start_share - 5.0 / 7.0).abs() < 1e-12);
    // Whole windows of a second: four requests and four.
    let second = s.time.as_ref().unwrap().bursts.iter().find(|b| b.window_s == 1.0).unwrap();
    assert_eq!((second.windows, second.peak), (2, 4));
    assert!(second.dispersion.abs() < 1e-12 && (second.peak_to_mean - 1.0).abs() < 1e-12);
}

#[test]
fn an_unaligned_partition_is_found() {
    let request = |i: u64| Record {
        request: Request::new(SimTime(i), Op::Write, Extent::new(63 + (i * 7919 % 1000) * 8, 8)),
        device: 0,
        day: None,
        service: None,
    };
    let records: Vec<Record> = (0..500).map(request).collect();
    let s = summary(&records, info(true, false, false), &StatOptions::default());
    assert_eq!(s.devices[0].offset_sectors, Some(7));
    assert_eq!(s.shape.aligned_start_share, 0.0);
    assert_eq!(s.shape.aligned_length_share, 1.0);
}

#[test]
fn many_devices_are_kept_apart() {
    // The same two jumps on 1,000 devices: nothing repeats, and no page belongs to two devices.
    let jump = |i: u32| Record {
        request: Request::new(SimTime(0), Op::Read, Extent::new(u64::from(i % 3) * 800, 8)),
        device: i / 3,
        day: None,
        service: None,
    };
    let records: Vec<Record> = (0..3000).map(jump).collect();
    let s = summary(&records, info(true, false, false), &StatOptions::default());
    assert_eq!(s.table1.determinism.non_sequential, 2000);
    assert_eq!((s.table1.determinism.pairs.value, s.table1.determinism.share.value), (2000.0, 0.0));
    assert_eq!((s.table1.pages.value, s.devices.len()), (3000.0, 1000));
}

#[test]
fn the_largest_addresses_lengths_and_times_are_accepted() {
    let most = 1u64 << 55;
    let record = |start, len, at, device, day| Record {
        request: Request::new(SimTime(at), Op::Read, Extent::new(start, len)),
        device,
        day: Some(day),
        service: Some(Duration(u64::MAX)),
    };
    let records = [
        record(0, most, 0, 0, u32::MAX),
        record(most - 1, 1, u64::MAX, 65_535, 0),
        record(0, 1, 0, 9, 5),
        record(most - 8, 8, u64::MAX, 0, 1),
    ];
    for times in [true, false] {
        let s = summary(&records, info(times, true, true), &StatOptions::default());
        assert_eq!(s.trace.requests, 4);
        assert!(s.notes.iter().any(|n| n.contains("longer than 256 MiB")), "{:?}", s.notes);
        assert_eq!(s.days.unwrap().active, 1);
    }
}
