//! Known answers on real traces, if they are beside the repository.

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
