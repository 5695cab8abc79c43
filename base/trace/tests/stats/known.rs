//! Known answers on real traces, if they are beside the repository.

use std::path::PathBuf;

use seekless_trace::stats::{StatOptions, Summary, characterize};
use seekless_trace::{OpenOptions, Source};

use crate::beside::shared;

fn of(path: PathBuf) -> Summary {
    let mut reader = Source::new(path).open(&OpenOptions::default()).unwrap();
    characterize(&mut reader, &StatOptions::default(), None, &mut |_| {}).unwrap()
}

#[test]
fn a_workstation_of_one_week() {
    let Some(dir) = shared("a_workstation_of_one_week", "traces") else { return };
    let s = of(dir.join("ajw.1week.srt.xz"));
    assert_eq!((s.trace.format.as_str(), s.trace.requests), ("srt", 44_519));
    assert_eq!(s.table1.reads * 100 / s.trace.requests, 29);
    assert_eq!(s.table1.reads + s.table1.writes, 44_519);
    assert_eq!(s.devices.len(), 2);
    let service = s.service.unwrap();
    assert_eq!(service.read_s.count + service.write_s.count, 44_519);
    // A week of 24 hours, each with requests.
    assert_eq!(s.days.unwrap().active, 7);
    assert!(s.trace.span_s.is_some_and(|s| (6.0..=7.1).contains(&(s / 86_400.0))));
}

#[test]
fn a_workstation_of_34_days() {
    let Some(dir) = shared("a_workstation_of_34_days", "traces") else { return };
    let s = of(dir.join("P3.lis.zst"));
    assert_eq!((s.trace.requests, s.table1.reads), (238_578, 238_578));
    assert_eq!(s.table1.unique_bytes.value, 390_422_016.0);
    assert_eq!(s.table1.unique_written_bytes.value, 0.0);
    let days = s.days.unwrap();
    assert_eq!((days.active, days.rows.len(), days.day_s), (34, 34, None));
    assert_eq!((days.rows[0].day, days.rows[33].day), (0, 50));
    assert_eq!(s.trace.format, "lis");
    assert_eq!(days.rows.iter().map(|r| r.requests).sum::<u64>(), 238_578);
    assert!(s.time.is_none() && s.trace.span_s.is_none());
}

#[test]
fn the_sample_trace() {
    // Its README has these numbers, computed by a separate Python script.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/desktop.trace.zst");
    let s = of(path.into());
    assert_eq!(
        (s.trace.requests - s.mix[4].requests, s.table1.reads, s.table1.writes),
        (89_217, 82_418, 6_799)
    );
    let total = s.table1.read_bytes + s.table1.written_bytes;
    assert_eq!((total + (1 << 19)) >> 20, 1138);
    assert_eq!((s.table1.unique_bytes.value / 1_048_576.0).round(), 216.0);
    // 712 processes sent requests; each counts under its last name.
    assert_eq!(s.processes.iter().map(|p| p.processes).sum::<u64>(), 712);
    assert_eq!(s.processes.iter().map(|p| p.requests).sum::<u64>(), s.trace.requests);
    assert_eq!(s.processes[0].name, "git");
}
