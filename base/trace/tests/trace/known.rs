//! Known answers on real traces, if they are beside the repository.

use std::collections::BTreeSet;

use seekless_block::{Op, SimTime};
use seekless_trace::{Format, OpenOptions, Record, Source};

use crate::beside::shared;

fn all(path: &str) -> (Format, Vec<Record>) {
    let source = Source::new(path);
    let mut reader = source.open(&OpenOptions::default()).unwrap();
    let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.skipped().malformed, 0);
    (reader.info().format, records)
}

/// Number of bytes accessed: the union of all extents.
fn footprint(records: &[Record]) -> u64 {
    let mut extents: Vec<_> = records.iter().map(|r| r.request.extent).collect();
    extents.sort();
    let (mut sum, mut end) = (0, 0);
    for e in extents {
        sum += e.end().0.saturating_sub(end.max(e.start.0));
        end = end.max(e.end().0);
    }
    sum * 512
}

#[test]
fn a_workstation_of_34_days() {
    let Some(dir) = shared("a_workstation_of_34_days", "traces") else { return };
    let (format, records) = all(&format!("{}/P3.lis.zst", dir.display()));
    assert_eq!((format, records.len()), (Format::Lis, 238_578));
    let days: BTreeSet<u32> = records.iter().filter_map(|r| r.day).collect();
    assert_eq!((days.len(), days.first(), days.last()), (34, Some(&0), Some(&50)));
    assert_eq!(footprint(&records), 390_422_016);
}

#[test]
fn servers_in_nanoseconds() {
    let Some(dir) = shared("servers_in_nanoseconds", "traces") else { return };
    for (name, lines, first) in [("tpcc", 6_999, 938_513_000u64), ("wsrch", 24_783, 11_413_000)] {
        let (format, records) = all(&format!("{}/{name}-small.trace.zst", dir.display()));
        assert_eq!((format, records.len()), (Format::MqSim, lines), "{name}");
        assert_eq!(records[0].request.arrival, SimTime(0));
        if name == "tpcc" {
            assert_eq!(records[1].request.arrival, SimTime(938_828_000 - first));
            assert_eq!(records[0].request.op, Op::Write);
        }
    }
}

#[test]
fn a_server_s_csv() {
    let Some(dir) = shared("a_server_s_csv", "traces") else { return };
    let (format, records) = all(&format!("{}/msr-cambridge1-sample.csv", dir.display()));
    assert_eq!(format, Format::Msr);
    let r = records[1];
    assert_eq!(r.request.arrival, SimTime(215 * 100));
    assert_eq!((r.request.extent.start.0, r.request.extent.len.0), (11_855_351_808 / 512, 1));
    assert_eq!(r.service.unwrap().0, 261_700);
}

#[test]
fn two_disks_of_256_byte_sectors() {
    let Some(dir) = shared("two_disks_of_256_byte_sectors", "traces") else { return };
    let source = Source::new(format!("{}/ajw.1week.srt.xz", dir.display()));
    let mut reader = source.open(&OpenOptions::default()).unwrap();
    let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!((reader.info().format, records.len()), (Format::Srt, 44_519));
    let reads = records.iter().filter(|r| r.request.op == Op::Read).count();
    assert_eq!(reads * 100 / records.len(), 29, "{reads} reads");
    assert_eq!(reader.devices().len(), 2);
    assert!(records.iter().all(|r| r.service.is_some()));
}

#[test]
fn one_cpu_of_blktrace() {
    let Some(dir) = shared("one_cpu_of_blktrace", "traces") else { return };
    let (format, records) = all(&format!("{}/takeoverjp.blktrace.0", dir.display()));
    assert_eq!((format, records.len()), (Format::Blktrace, 963));
    // blkparse's own output for the same file: seconds since the first record, which is not a
    // request.
    let first = records[0].request;
    assert_eq!((first.extent.start.0, first.extent.len.0), (2_348_060_440, 8));
    assert_eq!(first.flags, seekless_block::Flags::AHEAD);
    assert_eq!(records[1].request.arrival, SimTime(67_765 - 184));
}
