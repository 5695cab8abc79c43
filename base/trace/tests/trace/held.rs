//! Traces in memory: they give the records of their source, and can be stopped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seekless_block::{Flags, Op};
use seekless_trace::{OpenOptions, Row, Source, TableTrace, TraceError};

use crate::sources::records;
use crate::support::{FIXTURES, fixture};

#[test]
fn a_held_trace_is_the_trace() {
    for (name, format) in FIXTURES {
        let source = Source::from_bytes(name, &fixture(name)).unwrap().named(Some(format));
        let held = source.hold(&OpenOptions::default(), &mut |_| ()).unwrap();
        let expected = records(&source);
        for _ in 0..2 {
            assert_eq!(records(&held), expected, "{name}");
        }
        let mut readers = [&source, &held].map(|s| s.open(&OpenOptions::default()).unwrap());
        for reader in &mut readers {
            while reader.next_record().unwrap().is_some() {}
        }
        let [a, b] = &readers;
        assert_eq!(a.info(), b.info(), "{name}");
        assert_eq!(a.streams(), b.streams(), "{name}");
        assert_eq!(a.devices(), b.devices(), "{name}");
        assert_eq!(a.skipped(), b.skipped(), "{name}");
    }
}

#[test]
fn a_stopped_trace_ends_with_an_error() {
    let stop = Arc::new(AtomicBool::new(false));
    let source = Source::from_bytes("t", &fixture("blkparse.txt")).unwrap();
    let source = source.stopped_by(Arc::clone(&stop));
    let held = source.hold(&OpenOptions::default(), &mut |_| ()).unwrap();
    for source in [&source, &held] {
        stop.store(false, Ordering::Relaxed);
        let mut reader = source.open(&OpenOptions::default()).unwrap();
        reader.next_record().unwrap().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(reader.next_record(), Err(TraceError::Stopped { .. })));
    }
}

fn row(time: u64, sector: u64, sectors: u64) -> Row<'static> {
    let (op, flags) = (Op::Read, Flags::NONE);
    let (pid, process, device, day, service) = (7, "cp", "sda", None, None);
    Row { time: Some(time), op, flags, sector, sectors, pid, process, device, day, service }
}

#[test]
fn rows_of_a_table_become_records_and_wrong_rows_are_named() {
    let new = || TableTrace::new(Path::new("table"), true, false, false);
    let mut table = new();
    table.push(&row(1000, 8, 16)).unwrap();
    table.push(&row(1000, 8, 0)).unwrap(); // no sectors: skipped
    table.push(&row(1500, 24, 8)).unwrap();
    let error = table.push(&row(1400, 0, 8)).unwrap_err().to_string();
    assert!(error.contains("table: row 3: not in order of time: 100 ns older"), "{error}");
    let error = table.push(&row(2000, u64::MAX, 8)).unwrap_err().to_string();
    assert!(error.contains("row 3") && error.contains("2^55"), "{error}");
    let source = table.source();
    let records = records(&source);
    assert_eq!(records.len(), 2);
    assert_eq!((records[1].request.arrival.0, records[1].request.extent.start.0), (500, 24));
    let reader = source.open(&OpenOptions::default()).unwrap();
    assert!(reader.info().has_processes);
    assert_eq!((reader.streams()[1].pid, reader.streams()[1].name.as_str()), (7, "cp"));
    assert_eq!(reader.devices()[0].name, "sda");
}
