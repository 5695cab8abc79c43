//! The native store: reading returns what was written.

use std::path::Path;

use proptest::prelude::*;
use seekless_block::{Duration, Extent, Flags, Op, Request, SimTime, StreamId};
use seekless_trace::{
    Device, Format, Info, OpenOptions, Record, Source, StoreWriter, Stream, TraceError, convert,
};

use crate::beside::shared;
use crate::support::{FIXTURES, fixture, open, read};

/// Converts `source` and reads the store: records, streams, devices and information are the same.
fn round_trip(source: &Source) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out.parquet");
    let done = convert(source, &OpenOptions::default(), &out, &mut |_| {}).unwrap();
    let mut before = source.open(&OpenOptions::default()).unwrap();
    let store = Source::from_path(&out, None);
    let mut after = store.open(&OpenOptions::default()).unwrap();
    let mut n = 0;
    loop {
        let (a, b) = (before.next_record().unwrap(), after.next_record().unwrap());
        assert_eq!(a, b, "record {n}");
        if a.is_none() {
            break;
        }
        n += 1;
    }
    assert_eq!(n, done.records);
    assert_eq!(before.streams(), after.streams());
    assert_eq!(before.devices(), after.devices());
    // What is invented stays invented.
    let format = Some(before.info().format).filter(|f| f.caveat().is_some());
    let format = format.unwrap_or(Format::Native);
    assert_eq!(Info { format, ..before.info() }, after.info());
    assert_eq!(before.skipped().lost_events, after.skipped().lost_events);
    let progress = after.progress();
    assert!(progress.read > 0 && progress.total == out.metadata().unwrap().len());
    assert_eq!(directory.path().read_dir().unwrap().count(), 1, "no temporary file is left");
    n
}

#[test]
fn every_fixture_survives() {
    for (name, _) in FIXTURES {
        let source = Source::from_bytes(name, &fixture(name)).unwrap();
        assert_eq!(round_trip(&source), read(name).1.len() as u64, "{name}");
    }
}

#[test]
fn real_traces_survive() {
    let Some(dir) = shared("real_traces_survive", "traces") else { return };
    for (name, records) in
        [("P3.lis.zst", 238_578), ("ajw.1week.srt.xz", 44_519), ("takeoverjp.blktrace.0", 963)]
    {
        assert_eq!(round_trip(&Source::new(dir.join(name))), records, "{name}");
    }
}

#[test]
fn a_compressed_store_is_read_too() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("s.parquet");
    let source = Source::from_bytes("x", &fixture("blkparse.txt")).unwrap();
    convert(&source, &OpenOptions::default(), &out, &mut |_| {}).unwrap();
    let packed = zstd::encode_all(&std::fs::read(&out).unwrap()[..], 1).unwrap();
    let reader = open(&packed, &OpenOptions::default()).unwrap();
    assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), read("blkparse.txt").1);
}

#[test]
fn a_failed_conversion_keeps_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("s.parquet");
    std::fs::write(&out, "precious").unwrap();
    let source = Source::from_bytes("x", b"1 8 0 0\n1 8 0 0\noops\n").unwrap();
    let error = convert(&source, &OpenOptions::default(), &out, &mut |_| {}).unwrap_err();
    assert!(matches!(error, TraceError::Malformed(_)), "{error:?}");
    assert_eq!(std::fs::read(&out).unwrap(), b"precious");
    assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    let nowhere = directory.path().join("no/such/s.parquet");
    let good = Source::from_bytes("x", b"1 8 0 0\n").unwrap();
    let error = convert(&good, &OpenOptions::default(), &nowhere, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("no/such/s.parquet"), "{error}");
}

fn record() -> impl Strategy<Value = Record> {
    let op =
        prop::sample::select(vec![Op::Read, Op::Write, Op::Discard, Op::WriteZeroes, Op::Flush]);
    let rest = (any::<Option<u32>>(), prop::option::of(0..i64::MAX as u64), 0u32..4, 0u32..3);
    (op, 0u64..1 << 54, 1u64..1 << 54, 0..1u64 << 62, 0u8..16, rest).prop_map(
        |(op, start, len, ns, flags, (day, service, stream, device))| {
            let extent = if op == Op::Flush { Extent::new(0, 0) } else { Extent::new(start, len) };
            let (arrival, stream) = (SimTime(ns), StreamId(stream));
            let request = Request { arrival, op, extent, flags: Flags(flags), stream };
            Record { request, device, day, service: service.map(Duration) }
        },
    )
}

/// Numbers streams and devices in order of first appearance, and times from the first record, as
/// readers do.
fn as_read(records: &[Record]) -> Vec<Record> {
    let (mut streams, mut devices) = (vec![0], Vec::new());
    let index = |table: &mut Vec<u32>, key| match table.iter().position(|&k| k == key) {
        Some(i) => i as u32,
        None => {
            table.push(key);
            table.len() as u32 - 1
        }
    };
    let mut out = records.to_vec();
    for r in &mut out {
        r.request.stream = StreamId(index(&mut streams, r.request.stream.0));
        r.device = index(&mut devices, r.device);
        r.request.arrival =
            SimTime(r.request.arrival.0.saturating_sub(records[0].request.arrival.0));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_records_survive(records in prop::collection::vec(record(), 1..200)) {
        let info = Info { format: Format::Lis, has_times: true, has_days: true, has_processes: true, has_service: true };
        let mut store = StoreWriter::new(Vec::new(), Path::new("s"), Path::new("x"), info).unwrap();
        let streams: Vec<_> = (0..4).map(|i| Stream { pid: i * 100, name: format!("p{i}") }).collect();
        let devices: Vec<_> = (0..3).map(|i| Device { name: format!("8,{i}") }).collect();
        for r in &records {
            store.write(r, &streams, &devices).unwrap();
        }
        let bytes = store.finish(true).unwrap();
        let back: Vec<_> = open(&bytes, &OpenOptions::default()).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(back, as_read(&records));
    }
}

#[test]
fn more_rows_than_a_row_group_are_read_in_order() {
    let info = Info {
        format: Format::Lis,
        has_times: false,
        has_days: false,
        has_processes: false,
        has_service: false,
    };
    let mut store = StoreWriter::new(Vec::new(), Path::new("s"), Path::new("x"), info).unwrap();
    let one = |i: u64| Record {
        request: Request::new(SimTime(0), Op::Read, Extent::new(i * 7 % 100_000, 1 + i % 9)),
        device: 0,
        day: None,
        service: None,
    };
    let n = 300_000;
    for i in 0..n {
        store.write(&one(i), &[], &[]).unwrap();
    }
    let bytes = store.finish(false).unwrap();
    let mut reader = open(&bytes, &OpenOptions::default()).unwrap();
    assert!(!reader.info().has_times);
    for i in 0..n {
        assert_eq!(reader.next_record().unwrap(), Some(one(i)));
    }
    assert_eq!(reader.next_record().unwrap(), None);
}
