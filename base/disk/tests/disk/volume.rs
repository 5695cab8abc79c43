//! Volumes: counted operations, limits, lanes, objects and prices, computed by hand.

use seekless_block::{Duration, Extent, Op, SimTime};
use seekless_disk::{
    Command, Completion, Device, DeviceSpec, Drive, OperationSpec, Operations, RateSpec, Scheduler,
    SpinDown, SpinDownError, VolumeSpec,
};

/// 4 KiB take 8 us in a lane: 2^12 bytes at 512 MB/s.
const TOY: &str = r#"
kind = "cloud_hdd"
name = "toy"
title = "Round numbers"
capacity_sectors = 1048576

[service]
lanes = 4
read_ms = 2.0
write_ms = 3.0
continued_ms = 1.0
lane_read_mb_s = 512.0
lane_write_mb_s = 512.0

[operations]
rule = "merged"
kib = 1024
window_ms = 5.0
streams = 2

[[source]]
fields = ["capacity_sectors", "service", "operations"]
kind = "derived"
from = "made up"
"#;

const MS: u64 = 1_000_000;

fn toy() -> VolumeSpec {
    match DeviceSpec::parse("toy.toml", TOY).unwrap() {
        DeviceSpec::Volume(spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn drive(spec: VolumeSpec) -> Drive {
    Drive::new(Device::new(&DeviceSpec::Volume(spec)).unwrap(), Scheduler::Fcfs)
}

pub(crate) fn command(tag: u64, op: Op, start: u64, len: u64) -> Command {
    Command::new(tag, op, Extent::new(start, len))
}

/// Runs a drive until it is idle.
pub(crate) fn drain(drive: &mut Drive) -> Vec<Completion> {
    let mut all = Vec::new();
    while let Some(at) = drive.next_event() {
        all.extend(std::iter::from_fn(|| drive.poll(at)));
    }
    assert!(drive.is_idle());
    all
}

/// Sends reads one after another, each at the end of the one before. Returns the end of the last.
fn read_in_turn(drive: &mut Drive, mut at: u64, starts: impl Iterator<Item = u64>) -> u64 {
    for start in starts {
        drive.submit(SimTime(at), command(0, Op::Read, start, 8)).unwrap();
        at = drain(drive)[0].finished.0;
    }
    at
}

fn reads(drive: &Drive) -> u64 {
    drive.operations().unwrap().reads
}

#[test]
fn a_hundred_small_reads_in_sequence_are_one_operation() {
    let mut d = drive(toy());
    let end = read_in_turn(&mut d, 0, (0..100).map(|i| i * 8));
    assert_eq!(d.operations(), Some(Operations { reads: 1, ..Operations::default() }));
    // The first waits 2 ms for its first byte, the others 1 ms; each transfers for 8 us.
    assert_eq!(end, 2 * MS + 99 * MS + 100 * 8_000);
    // 256 reads fill the operation; the 257th begins another, still in sequence.
    let end = read_in_turn(&mut d, end, (100..256).map(|i| i * 8));
    assert_eq!(reads(&d), 1);
    let end = read_in_turn(&mut d, end, [256 * 8].into_iter());
    assert_eq!((reads(&d), end), (2, 2 * MS + 256 * MS + 257 * 8_000));
    // After a pause of 5 ms the run continues; one nanosecond more starts another run.
    let end = read_in_turn(&mut d, end + 5 * MS, [257 * 8].into_iter());
    assert_eq!(reads(&d), 2);
    read_in_turn(&mut d, end + 5 * MS + 1, [258 * 8].into_iter());
    assert_eq!(reads(&d), 3);
}

#[test]
fn reads_at_random_are_one_operation_each() {
    let mut d = drive(toy());
    let end = read_in_turn(&mut d, 0, (0..100).map(|i| (i * 7_919 % 1_000) * 1_000));
    assert_eq!((reads(&d), end), (100, 100 * (2 * MS + 8_000)));
}

#[test]
fn two_runs_are_followed_at_once_and_a_third_replaces_the_oldest() {
    let mut d = drive(toy());
    let bases = [0, 100_000];
    read_in_turn(&mut d, 0, (0..40).map(|i| bases[i as usize % 2] + i / 2 * 8));
    assert_eq!(reads(&d), 2);
    let mut d = drive(toy());
    let bases = [0, 100_000, 200_000];
    read_in_turn(&mut d, 0, (0..30).map(|i| bases[i as usize % 3] + i / 3 * 8));
    assert_eq!(reads(&d), 30);
    // A write at the end of a read does not belong to its run.
    let mut d = drive(toy());
    d.submit(SimTime(0), command(0, Op::Read, 0, 8)).unwrap();
    d.submit(SimTime(0), command(1, Op::Write, 8, 8)).unwrap();
    drain(&mut d);
    assert_eq!(d.operations(), Some(Operations { reads: 1, writes: 1, background: 0 }));
}

#[test]
fn large_commands_are_split_and_served_in_parallel() {
    let mut d = drive(toy());
    // 3.5 MiB: four operations in four lanes. Each continues the run of the one before.
    d.submit(SimTime(0), command(0, Op::Read, 0, 7_168)).unwrap();
    let done = drain(&mut d)[0];
    assert_eq!(reads(&d), 4);
    let whole = 256 * 8_000;
    assert_eq!(done.finished, SimTime(2 * MS + whole));
    assert_eq!((done.access.transfer, done.access.overhead), (Duration(whole), Duration(2 * MS)));
    // Half of the last operation is free: the next half megabyte adds none.
    d.submit(done.finished, command(1, Op::Read, 7_168, 1_024)).unwrap();
    drain(&mut d);
    assert_eq!(reads(&d), 4);
}

#[test]
fn lanes_serve_in_order_of_arrival() {
    let mut d = drive(VolumeSpec { operations: OperationSpec::Commands { kib: 64 }, ..no_run() });
    for i in 0..6 {
        d.submit(SimTime(i), command(i, Op::Read, 50_000 * i, 8)).unwrap();
    }
    let all: Vec<_> = drain(&mut d).iter().map(|c| (c.tag, c.started.0, c.finished.0)).collect();
    let t = 2 * MS + 8_000;
    let expected = [
        (0, 0, t),
        (1, 1, t + 1),
        (2, 2, t + 2),
        (3, 3, t + 3),
        (4, t, 2 * t),
        (5, t + 1, 2 * t + 1),
    ];
    assert_eq!(all, expected);
}

/// The toy without runs.
fn no_run() -> VolumeSpec {
    let mut spec = toy();
    spec.service.continued_ms = None;
    spec.operations = OperationSpec::Commands { kib: 1_024 };
    spec
}

#[test]
fn a_burst_spends_its_credits_and_then_the_rate_applies() {
    let mut spec = no_run();
    spec.service.lanes = 64;
    let rate = RateSpec { per_s: 100.0, credits: 10.0, burst_per_s: Some(1_000.0) };
    spec.limits.operations = Some(rate);
    let mut d = drive(spec);
    for i in 0..14 {
        d.submit(SimTime(0), command(i, Op::Read, 50_000 * i, 8)).unwrap();
    }
    // One per millisecond; before the n-th the bucket holds 10 + 0.1 n - n, which is 1 for n = 10:
    // eleven start. Then one every 10 ms.
    let service = 2 * MS + 8_000;
    let starts: Vec<_> = drain(&mut d).iter().map(|c| (c.finished.0 - service) / MS).collect();
    assert_eq!(starts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40]);
    // A second later it is full again: ten start at the burst rate.
    d.submit(SimTime(1_040 * MS), command(0, Op::Read, 0, 8)).unwrap();
    assert_eq!(drain(&mut d)[0].finished.0, 1_040 * MS + service);
}

#[test]
fn bytes_are_limited_too_and_the_wait_is_overhead() {
    let mut spec = no_run();
    spec.limits.megabytes = Some(RateSpec { per_s: 1.024, credits: 0.0, burst_per_s: None });
    let mut d = drive(spec);
    // 4 KiB at 1.024 MB/s: 4 ms apart.
    for i in 0..3 {
        d.submit(SimTime(0), command(i, Op::Read, 50_000 * i, 8)).unwrap();
    }
    for (i, c) in drain(&mut d).iter().enumerate() {
        assert_eq!(c.finished.0, i as u64 * 4 * MS + 2 * MS + 8_000);
        assert_eq!(c.started + c.access.total(), c.finished);
    }
}

#[test]
fn objects_are_read_in_part_and_written_whole() {
    let mut spec = no_run();
    spec.operations = OperationSpec::Objects { kib: 1_024 };
    let whole = 256 * 8_000;
    let object = 2_048;
    for (op, start, len, operations, takes) in [
        (Op::Read, 100, 8, (1, 0), 2 * MS + 8_000),
        // Across a boundary: one object each, in parallel.
        (Op::Read, object - 8, 16, (2, 0), 2 * MS + 8_000),
        (Op::Write, object, object, (0, 1), 3 * MS + whole),
        // Part of one: the whole object is fetched and put, in one lane.
        (Op::Write, 5 * object + 1, 1, (1, 1), 5 * MS + 2 * whole),
        (Op::Write, 5 * object, object + 1, (1, 2), 5 * MS + 2 * whole),
        (Op::Discard, 0, 64, (0, 0), 0),
        (Op::Flush, 0, 0, (0, 0), 0),
    ] {
        let mut d = drive(spec.clone());
        d.submit(SimTime(7), command(0, op, start, len)).unwrap();
        let done = drain(&mut d)[0];
        let found = d.operations().unwrap();
        assert_eq!((found.reads, found.writes), operations, "{op:?} {start} {len}");
        assert_eq!(done.finished.0 - 7, takes, "{op:?} {start} {len}");
    }
}

#[test]
fn background_begins_only_when_no_foreground_waits() {
    let mut spec = no_run();
    spec.service.lanes = 1;
    let mut d = drive(spec);
    let t = 2 * MS + 8_000;
    d.submit(SimTime(0), command(0, Op::Read, 0, 8)).unwrap();
    d.submit(SimTime(1), Command { background: true, ..command(1, Op::Read, 999, 8) }).unwrap();
    d.submit(SimTime(2), command(2, Op::Read, 5_000, 8)).unwrap();
    d.submit(SimTime(2 * t - 1), command(3, Op::Read, 7_000, 8)).unwrap();
    let ends: Vec<_> = drain(&mut d).iter().map(|c| (c.tag, c.finished.0)).collect();
    assert_eq!(ends, [(0, t), (2, 2 * t), (3, 3 * t), (1, 4 * t)]);
    assert_eq!(d.operations(), Some(Operations { reads: 4, writes: 0, background: 1 }));
}

#[test]
fn what_it_costs() {
    let text = TOY.replace(
        "[[source]]",
        "[limits.operations]\nper_s = 5000.0\n[limits.megabytes]\nper_s = 200.0\n\n[price]\nusd_per_gib_month = 0.25\nusd_per_million_reads = 0.4\nusd_per_million_writes = 5.0\nusd_per_operation_per_s_month = 0.005\nincluded_operations_per_s = 3000.0\nusd_per_mb_per_s_month = 0.04\nincluded_mb_per_s = 125.0\n\n[[source]]\nfields = [\"price\", \"limits\"]\nkind = \"derived\"\nfrom = \"made up\"\n\n[[source]]",
    );
    let Ok(DeviceSpec::Volume(spec)) = DeviceSpec::parse("toy", &text) else { panic!("{text}") };
    // Half a GiB for 12.5 cents, 2,000 operations a second for 10 dollars, 75 MB/s for 3.
    let month = 730.0 * 3_600.0;
    assert!((spec.holding_usd(month) - 13.125).abs() < 1e-9);
    assert!((spec.holding_usd(month / 1_000.0) - 0.013_125).abs() < 1e-12);
    let counted = Operations { reads: 3_000_000, writes: 500_000, background: 0 };
    assert!((spec.operations_usd(&counted) - 3.7).abs() < 1e-9);
    assert!((toy().holding_usd(1e9)).abs() < f64::EPSILON);
}

#[test]
fn power_is_drawn_while_any_lane_serves() {
    let text = TOY.replace(
        "[[source]]",
        "[power]\nread_w = 3.0\nwrite_w = 4.0\nidle_w = 0.5\n\n[[source]]\nfields = [\"power\"]\nkind = \"derived\"\nfrom = \"made up\"\n\n[[source]]",
    );
    let Ok(DeviceSpec::Volume(spec)) = DeviceSpec::parse("toy", &text) else { panic!("{text}") };
    let mut d = drive(spec);
    // A read from 0 to 2.008 ms and a write from 1 to 4.008 ms, in two lanes: the write adds the
    // last 2 ms.
    d.submit(SimTime(0), command(0, Op::Read, 0, 8)).unwrap();
    let write = Command { background: true, ..command(1, Op::Write, 50_000, 8) };
    d.submit(SimTime(MS), write).unwrap();
    let read_pj = u128::from(2 * MS + 8_000) * 3_000;
    // During the write, then long after: milliwatts times nanoseconds are picojoules.
    let now = SimTime(3_008_000);
    d.poll(now).unwrap();
    let usage = d.usage(now);
    assert_eq!(usage.time.rotation_transfer, Duration(3_008_000));
    assert_eq!(usage.energy.rotation_transfer.0, read_pj + u128::from(MS) * 4_000);
    drain(&mut d);
    let usage = d.usage(SimTime(10 * MS));
    assert_eq!(usage.time.total(), Duration(10 * MS));
    assert_eq!(usage.energy.rotation_transfer.0, read_pj + u128::from(2 * MS) * 4_000);
    assert_eq!(usage.background.rotation_transfer.0, u128::from(2 * MS) * 4_000);
    assert_eq!(usage.energy.idle.0, u128::from(10 * MS - 4_008_000) * 500);
    // There are no platters to stop.
    assert_eq!(d.set_spin_down(SpinDown::Adaptive), Err(SpinDownError::Never));
    assert!(d.set_spin_down(SpinDown::None).is_ok());
}

#[test]
fn a_command_after_the_end_is_refused() {
    let mut d = drive(toy());
    for (start, len) in [(1_048_576, 1), (1_048_575, 2), (u64::MAX, 1), (0, u64::MAX)] {
        assert!(d.submit(SimTime(0), command(0, Op::Read, start, len)).is_err(), "{start}+{len}");
    }
    assert!(d.is_idle());
}

#[test]
fn errors_name_file_line_field_and_range() {
    for (from, to, field, allowed) in [
        ("lanes = 4", "lanes = 0", "service.lanes", "1 to 4096"),
        ("read_ms = 2.0", "read_ms = -1.0", "service.read_ms", "0 to 2000 ms"),
        ("kib = 1024", "kib = 3", "operations.kib", "4 to 1048576"),
        ("window_ms = 5.0", "window_ms = nan", "operations.window_ms", "0 to 60000 ms"),
        ("streams = 2", "streams = 0", "operations.streams", "1 to 256"),
        ("lane_read_mb_s = 512.0", "lane_read_mb_s = 0.0", "service.lane_read_mb_s", "0.001 to"),
        ("kind = \"cloud_hdd\"", "kind = \"tape\"", "kind", "object_store"),
        ("capacity_sectors = 1048576", "capacity_sectors = 0", "capacity_sectors", "1 to"),
        ("name = \"toy\"", "name = \"toy\"\nrpm = 7200", "rpm", "unknown field"),
    ] {
        let text = TOY.replacen(from, to, 1);
        let line =
            1 + TOY[..TOY.find(from).unwrap()].matches('\n').count() + to.matches('\n').count();
        let e = DeviceSpec::parse("toy.toml", &text).unwrap_err();
        assert_eq!((e.line, e.field.as_str()), (line, field), "{e}");
        assert!(e.what.contains(allowed), "{e}");
    }
    let e = DeviceSpec::parse("t", &TOY.replace("streams = 2", "stream = 2")).unwrap_err();
    assert_eq!((e.line, e.field.as_str()), (15, "operations"), "{e}");
    let e = DeviceSpec::parse("t", &TOY.replace("\"service\", ", "")).unwrap_err();
    assert!(e.field.starts_with("service.") && e.what.contains("no source"), "{e}");
}
