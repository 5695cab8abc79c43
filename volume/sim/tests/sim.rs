//! The simulation compared with calculations by hand, and with the laws of every run.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rand::{Rng as _, SeedableRng as _};
use seekless_block::{Bytes, Dice, Duration, Extent, Lba, Op, Request, Sectors, SimTime};
use seekless_disk::clustering::{Access, Arm};
use seekless_disk::{Device, DeviceSpec, Disk, DiskSpec, Scheduler, SpinDown, catalogue};
use seekless_engine::{Class, Config, Mode, Target};
use seekless_learn::{Copy, Plan};
use seekless_sim::{Guarded, Kind, Measured, Replay, SimConfig, SimError, Simulation};

const TOY: &str = include_str!("../../../base/disk/tests/fixtures/toy.toml");

fn toy() -> Disk {
    let text = TOY.replace("[geometry]", "spin_up_w = 20.0\n[geometry]");
    Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
}

fn config(replay: Replay, scheduler: Scheduler) -> SimConfig {
    SimConfig {
        engine: Config::new(Sectors(90_000)),
        area_at: Lba(90_000),
        scheduler,
        spin_down: SpinDown::None,
        replay,
    }
}

fn run(config: SimConfig, requests: &[Request]) -> Measured {
    let mut sim = Simulation::new(toy(), config).unwrap();
    for r in requests {
        sim.offer(r).unwrap();
    }
    sim.finish().unwrap()
}

fn read(at_ms: u64, start: u64, len: u64) -> Request {
    Request::new(SimTime(at_ms * 1_000_000), Op::Read, Extent::new(start, len))
}

const CLOSED: Replay = Replay::Closed { depth: 1 };

/// Two requests that follow each other on the track. The second comes 5 ms after the answer to the
/// first, at 5.8 ms: its sectors pass at 10.8 ms.
#[test]
fn a_client_thinks_between_its_requests() {
    let think = Replay::Think { time: Duration::from_millis(5) };
    let m = run(config(think, Scheduler::Fcfs), &[read(0, 0, 8), read(0, 8, 8)]);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-3;
    assert!(near(m.span.as_secs_f64() * 1e3, 11.6), "{:?}", m.span);
    assert!(near(m.response.mean_ms(), (0.8 + 5.8) / 2.0), "{}", m.response.mean_ms());
}

/// Twenty requests, first come first served, each asked when the one before it ended. In units of
/// 0.1 ms: the head leaves cylinder c at time t; the seek over d cylinders ends at t + 20 + d/10;
/// sector s of a track begins to pass at every time = s (mod 100); the transfer takes as many units
/// as sectors.
#[test]
fn twenty_requests_worked_out_on_paper() {
    #[rustfmt::skip]
    let paper: [(u64, u64, f64, f64, f64); 20] = [
        // start, sectors, seek, wait, transfer        time after
        (     0,  8,  0.0,  0.0,  8.0), //                8.0
        (     8,  8,  0.0,  0.0,  8.0), //               16.0  sequential: nothing to wait for
        (     0,  8,  0.0, 84.0,  8.0), //              108.0  back to the start: the rest of the turn
        ( 10000,  8, 30.0, 62.0,  8.0), // cyl 100      208.0  138 -> 200
        ( 10020, 10,  0.0, 12.0, 10.0), //              230.0  208 -> 220
        (  9950, 10, 20.1, 99.9, 10.0), // cyl 99       360.0  250.1 -> 350
        ( 50050,  1, 60.1, 29.9,  1.0), // cyl 500      451.0  420.1 -> 450
        ( 50051,  1,  0.0,  0.0,  1.0), //              452.0
        ( 50099,  1,  0.0, 47.0,  1.0), //              500.0
        ( 50100,  1, 20.1, 79.9,  1.0), // cyl 501      601.0  520.1 -> 600
        ( 50000,  1, 20.1, 78.9,  1.0), // cyl 500      701.0  621.1 -> 700
        ( 89999,  1, 59.9, 38.1,  1.0), // cyl 899      800.0  760.9 -> 799
        ( 89990, 10,  0.0, 90.0, 10.0), //              900.0
        (   130, 20,109.8, 20.2, 20.0), // cyl 1       1050.0  1009.8 -> 1030
        (   150, 50,  0.0,  0.0, 50.0), //             1100.0
        (   200,  4, 20.1, 79.9,  4.0), // cyl 2       1204.0  1120.1 -> 1200
        (   202,  4,  0.0, 98.0,  4.0), //             1306.0
        (   301,  2, 20.1, 74.9,  2.0), // cyl 3       1403.0  1326.1 -> 1401
        (   399,  1,  0.0, 96.0,  1.0), //             1500.0
        (   300,  1,  0.0,  0.0,  1.0), //             1501.0
    ];
    let requests: Vec<Request> = paper.iter().map(|p| read(0, p.0, p.1)).collect();
    let m = run(config(CLOSED, Scheduler::Fcfs), &requests);
    let ms = |units: f64| Duration::from_millis_f64(units / 10.0);
    let sum = |f: fn(&(u64, u64, f64, f64, f64)) -> f64| ms(paper.iter().map(f).sum());
    let (seek, rotation, transfer) = (sum(|p| p.2), sum(|p| p.3), sum(|p| p.4));
    let near = |a: Duration, b: Duration| a.0.abs_diff(b.0) < 100; // rounding, 20 times
    assert!(near(m.foreground.seek, seek), "{:?} {seek:?}", m.foreground.seek);
    assert!(near(m.foreground.rotation, rotation), "{:?} {rotation:?}", m.foreground.rotation);
    assert!(near(m.foreground.transfer, transfer), "{:?} {transfer:?}", m.foreground.transfer);
    assert!(near(m.span, Duration::from_micros(150_100)), "{:?}", m.span);
    assert_eq!((m.requests, m.device_ios), (20, 20));
    assert_eq!(m.nonsequential, 14, "6 start where the one before ended, the first among them");
    // Distances from the end of the one before: 0 0 16 9992 12 80 40090 0 47 0 101 39998 10 89870
    // ...
    let mut end = 0u64;
    let distance: u64 = paper
        .iter()
        .map(|p| {
            let d = p.0.abs_diff(end);
            end = p.0 + p.1;
            d
        })
        .sum();
    assert_eq!(m.seek_distance_sectors, u128::from(distance));
    // 10 W while the arm moves, 5 W else; never idle in a closed loop.
    let joules = m.energy.seek.as_joules_f64();
    assert!((joules - seek.as_secs_f64() * 10.0).abs() < 1e-5);
    let joules = m.energy.rotation_transfer.as_joules_f64();
    assert!((joules - (rotation.as_secs_f64() + transfer.as_secs_f64()) * 5.0).abs() < 1e-5);
    assert_eq!(m.energy.idle.as_joules_f64(), 0.0);
    assert!((m.response.mean_ms() - 150.1 / 20.0).abs() < 1e-4);
    assert!((m.response.max_ms() - 15.0).abs() < 1e-4, "{}", m.response.max_ms());
}

#[test]
fn open_loop_waits_for_arrivals_and_counts_queueing_and_idleness() {
    // 0.8 ms of work at 0; then 5.0 to 9.2 idle; two at once at 100 ms: the second waits for the
    // first.
    let requests = [read(7, 0, 8), read(107, 0, 8), read(107, 8, 8)];
    let m = run(config(Replay::Open, Scheduler::Fcfs), &requests);
    assert_eq!(m.span, Duration::from_micros(101_600));
    let idle = 0.1016 - m.foreground.busy().as_secs_f64();
    assert!((m.energy.idle.as_joules_f64() - 3.0 * idle).abs() < 1e-9);
    assert!((m.response.max_ms() - 1.6).abs() < 1e-9, "{}", m.response.max_ms());
    assert_eq!(m.nonsequential, 1, "back from sector 8 to 0");
}

/// At 1000 ms the first sector of a track passes, at 1000.8 ms sector 8.
#[test]
fn the_pause_before_a_lap_on_time_is_a_part_of_it() {
    let laps = |on_time: bool| {
        let mut sim = Simulation::new(toy(), config(OPEN, Scheduler::Fcfs)).unwrap();
        [read(7, 0, 8), read(1007, 8, 8)].map(|request| {
            sim.offer(&request).unwrap();
            let lap = if on_time { sim.lap_on_time() } else { sim.lap() };
            lap.unwrap()
        })
    };
    let [first, second] = laps(true);
    assert_eq!(first.span, Duration::from_micros(800));
    assert_eq!(second.span, Duration::from_micros(1_000_800));
    assert!((second.energy.idle.as_joules_f64() - 3.0 * 0.9992).abs() < 1e-9);
    let [first, second] = laps(false);
    assert_eq!((first.span, second.span), (Duration::from_micros(800), Duration::from_micros(800)));
    assert_eq!(second.energy.idle.as_joules_f64(), 0.0);
}

#[test]
fn a_deep_queue_lets_the_scheduler_choose() {
    let requests: Vec<Request> =
        (0..200u64).map(|i| read(0, i * 7919 % 890 * 100 + i % 90, 1)).collect();
    let deep = Replay::Closed { depth: 32 };
    let fcfs = run(config(deep, Scheduler::Fcfs), &requests).foreground.busy();
    let clook = run(config(deep, Scheduler::CLook), &requests).foreground.busy();
    let sptf = run(config(deep, Scheduler::Sptf), &requests).foreground.busy();
    assert!(clook < fcfs && sptf < clook, "{fcfs:?} {clook:?} {sptf:?}");
    let one = run(config(CLOSED, Scheduler::Sptf), &requests).foreground.busy();
    assert_eq!(one, run(config(CLOSED, Scheduler::Fcfs), &requests).foreground.busy());
}

#[test]
fn copies_side_by_side_are_read_without_seeks_and_moving_them_is_background() {
    let homes: Vec<u64> = (0..50).map(|i| (i * 37 % 50) * 1704).collect();
    let requests: Vec<Request> = homes.iter().map(|&h| read(0, h, 8)).collect();
    let mut place = 0;
    let copies = homes
        .iter()
        .map(|&h| {
            place += 8;
            Copy { home: Extent::new(h, 8), place: Lba(place - 8) }
        })
        .collect();
    let mut settings = config(CLOSED, Scheduler::Fcfs);
    settings.engine.area = Sectors(1700);
    settings.engine.segment_pages = 64;
    let vanilla = run(settings, &requests);
    let mut sim = Simulation::new(toy(), settings).unwrap();
    sim.install(Plan { copies }).unwrap();
    for r in &requests {
        sim.offer(r).unwrap();
    }
    let borg = sim.finish().unwrap();
    assert_eq!(borg.engine.copy_reads, 50);
    assert_eq!(borg.engine.moved_bytes, 400 * 512);
    assert!(borg.background.seek > Duration::ZERO && borg.background_energy.0 > 0);
    assert_eq!(vanilla.background.busy(), Duration::ZERO);
    // One way in, then in order.
    assert_eq!(borg.nonsequential, 1);
    assert!(borg.foreground.busy().0 * 5 < vanilla.foreground.busy().0);
    assert_eq!(borg.span, borg.foreground.busy(), "moving came before, and is no part of the span");
    assert!(borg.path.points().iter().any(|p| p.kind == Kind::Background && p.lba.0 >= 90_000));
}

#[test]
fn an_area_in_the_middle_shifts_what_lies_behind_it_and_splits_what_crosses() {
    let mut settings = config(CLOSED, Scheduler::Fcfs);
    settings.engine.area = Sectors(1000);
    settings.area_at = Lba(5000);
    // 4996..5004 crosses the border: 4 sectors before the area, 4 behind it.
    let m = run(settings, &[read(0, 4996, 8), read(0, 5004, 8), read(0, 100, 8)]);
    let lbas: Vec<u64> = m.path.points().iter().map(|p| p.lba.0).collect();
    assert_eq!(lbas, vec![4996, 6000, 6004, 100]);
    assert_eq!((m.requests, m.device_ios, m.response.count()), (3, 4, 3));
}

#[test]
fn what_does_not_fit_is_an_error_and_never_wraps() {
    let mut settings = config(CLOSED, Scheduler::Fcfs);
    settings.engine.area = Sectors(10_001);
    assert!(matches!(Simulation::new(toy(), settings), Err(SimError::DoesNotFit { .. })));
    settings.engine.area = Sectors(0);
    let mut sim = Simulation::new(toy(), settings).unwrap();
    sim.offer(&read(0, 0, 8)).unwrap();
    let refused = sim.offer(&read(0, 89_999, 2));
    assert!(matches!(refused, Err(SimError::Request { index: 1, .. })), "{refused:?}");
}

#[test]
fn a_time_beyond_all_clocks_is_an_error_and_never_wraps() {
    // 2^64 nanoseconds are 213,503 days.
    let think = Replay::Think { time: Duration::from_millis(110_000 * 86_400_000) };
    let mut sim = Simulation::new(toy(), config(think, Scheduler::Fcfs)).unwrap();
    sim.offer(&read(0, 0, 8)).unwrap();
    assert_eq!(sim.offer(&read(0, 8, 8)), Err(SimError::TooLate));
    assert_eq!(sim.offer(&read(0, 16, 8)), Err(SimError::TooLate));

    let mut sim = Simulation::new(toy(), config(Replay::Open, Scheduler::Fcfs)).unwrap();
    sim.offer(&read(0, 0, 8)).unwrap();
    let late = Request { arrival: SimTime(u64::MAX), ..read(0, 16, 8) };
    assert_eq!(sim.offer(&late), Err(SimError::TooLate));
}

proptest! {
    #[test]
    fn every_run_keeps_the_laws(
        raw in prop::collection::vec((0u64..89_000, 1u64..300, 0u8..5, 0u64..40), 1..80),
        cache in prop_oneof![Just(0u64), Just(1 << 16)],
        depth in prop_oneof![Just(None), (1u32..9).prop_map(Some)],
        scheduler in prop_oneof![Just(Scheduler::Fcfs), Just(Scheduler::CLook), Just(Scheduler::Sptf)],
    ) {
        let mut at = 0;
        let requests: Vec<Request> = raw.iter().map(|&(start, len, kind, gap)| {
            at += gap * 1_000_000;
            let op = [Op::Read, Op::Read, Op::Write, Op::Flush, Op::Discard][kind as usize];
            let extent = if op == Op::Flush { Extent::default() } else { Extent::new(start, len) };
            Request::new(SimTime(at), op, extent)
        }).collect();
        let mut settings = config(depth.map_or(Replay::Open, |depth| Replay::Closed { depth }), scheduler);
        settings.engine.cache_bytes = Bytes(cache);
        settings.engine.read_ahead = Bytes(8192);
        let m = run(settings, &requests);
        prop_assert_eq!(m.requests, requests.len() as u64);
        prop_assert_eq!(m.response.count(), m.requests, "every request is answered");
        prop_assert!(m.foreground.busy() <= m.span, "one arm does one thing at a time");
        if depth == Some(1) && cache == 0 {
            prop_assert_eq!(m.foreground.busy(), m.span);
        }
        // The same run again is the same run.
        let again = run(settings, &requests);
        prop_assert_eq!(again.foreground, m.foreground);
        prop_assert_eq!(again.span, m.span);
    }
}

#[test]
fn the_catalogue_disk_runs_too() {
    let disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
    let settings = SimConfig {
        engine: Config::new(Sectors(150_000_000)),
        area_at: Lba(150_000_000),
        ..config(CLOSED, Scheduler::Fcfs)
    };
    let mut sim = Simulation::new(disk, settings).unwrap();
    for i in 0..2000u64 {
        sim.offer(&read(0, i * 7_919_317 % 149_000_000, 8)).unwrap();
    }
    let m = sim.finish().unwrap();
    // Rotation of independent random accesses: half a turn of 8.33 ms on the mean.
    let mean = m.foreground.rotation.as_millis_f64() / 2000.0;
    assert!((mean - 4.17).abs() < 0.25, "{mean}");
}

#[test]
fn bypassed_copies_are_kept_and_kept_equal_to_their_homes() {
    let mut config = config(CLOSED, Scheduler::Fcfs);
    config.engine.area = Sectors(1700);
    config.engine.segment_pages = 64;
    let mut sim = Simulation::new(toy(), config).unwrap();
    let copy = |home, place| Copy { home: Extent::new(home, 8), place: Lba(place) };
    let plan = Plan { copies: vec![copy(104, 0), copy(50_000, 8)] };
    sim.install(plan.clone()).unwrap();
    assert_eq!(sim.engine().standing(), plan);
    sim.bypass(true);
    sim.offer(&read(0, 104, 8)).unwrap();
    let write = Request::new(SimTime(0), Op::Write, Extent::new(50_000, 4));
    sim.offer(&write).unwrap();
    sim.bypass(false);
    sim.offer(&read(0, 104, 8)).unwrap();
    sim.offer(&read(0, 50_000, 8)).unwrap();
    let m = sim.lap().unwrap();
    assert_eq!((m.engine.home_reads, m.engine.copy_reads), (2, 1));
    assert_eq!(sim.engine().standing(), Plan { copies: vec![copy(104, 0)] });
}

/// Places of 4 KiB, scattered over 20 GB.
fn scattered(dice: &mut Dice, n: usize) -> Vec<u64> {
    (0..n).map(|_| dice.below(5_000_000) * 8).collect()
}

/// A disk, and a volume of 20 GB on it with a small RAM and an area for the adaptive policy.
fn adaptive(area: Sectors, replay: Replay) -> (Device, SimConfig) {
    let disk = Device::new(&DeviceSpec::Disk(catalogue::get("wd800jb").unwrap())).unwrap();
    let capacity = Sectors(40_000_008);
    let engine = Config {
        area,
        adaptive: true,
        cache_bytes: Bytes(1 << 20),
        read_ahead: Bytes(64 << 10),
        ..Config::new(capacity)
    };
    let area_at = Lba(capacity.0);
    (disk, SimConfig { engine, area_at, ..config(replay, Scheduler::Fcfs) })
}

/// Disk time of days of reads, one every 50 ms: vanilla's, and that of the adaptive policy.
fn guarded(days: &[Vec<u64>], replay: Replay) -> (Duration, Duration) {
    let (disk, sim) = adaptive(Sectors(64 << 11), replay);
    let busy = |engine: Config| {
        let mut guarded = Guarded::new(&disk, &SimConfig { engine, ..sim }, None).unwrap();
        let mut at_ms = 0;
        for (starts, day) in days.iter().zip(0..) {
            for &start in starts {
                at_ms += 50;
                guarded.offer(day, &read(at_ms, start, 8)).unwrap();
            }
        }
        let m = guarded.lap().unwrap();
        m.foreground.busy() + m.background.busy()
    };
    (busy(Config { area: Sectors(0), adaptive: false, ..sim.engine }), busy(sim.engine))
}

/// Sectors that the disk read at home for clients.
fn read_at_home(m: &Measured) -> u64 {
    m.costs.of(Class::Foreground, Target::Home, false).sectors
}

/// Reads that follow each other. At the last answer the disk may still read a window, for which no
/// client waits.
#[test]
fn what_the_disk_has_begun_at_the_last_answer_counts() {
    let mut most = 0;
    for requests in 1..40 {
        let (disk, config) = adaptive(Sectors(64 << 11), CLOSED);
        let mut sim = Simulation::new(disk.clone(), config).unwrap();
        let mut measured = Guarded::new(&disk, &config, None).unwrap();
        let mut trained = Guarded::new(&disk, &config, None).unwrap();
        for i in 0..requests {
            let request = read(0, 80_000 + 8 * i, 8);
            sim.offer(&request).unwrap();
            measured.offer(0, &request).unwrap();
            trained.offer(0, &request).unwrap();
        }
        sim.settle_below(1).unwrap();
        let answered = read_at_home(sim.so_far());
        sim.end_ios().unwrap();
        let ended = read_at_home(sim.so_far());
        most = most.max(ended - answered);
        measured.drain().unwrap();
        assert_eq!(read_at_home(&measured.lap().unwrap()), ended, "{requests} requests");
        // What follows on this work begins after the training.
        sim.end_ios().unwrap();
        let further = read_at_home(sim.so_far()) - ended;
        trained.end_training().unwrap();
        trained.drain().unwrap();
        assert_eq!(read_at_home(&trained.lap().unwrap()), further, "{requests} requests");
    }
    assert!(most > 0, "no window was in flight at any of these answers");
}

/// A second command reads the window. It is a part of the I/O in front of it, as the read-ahead of
/// vanilla is.
#[test]
fn a_window_behind_a_read_is_no_io_of_its_own() {
    let (disk, config) = adaptive(Sectors(0), CLOSED);
    let mut sim = Simulation::new(disk, config).unwrap();
    for start in scattered(&mut Dice::new(33), 100) {
        for page in 0..40 {
            sim.offer(&read(0, start + 8 * page, 8)).unwrap();
        }
    }
    let m = sim.finish().unwrap();
    let commands = m.costs.of(Class::Foreground, Target::Home, false).ios;
    assert!(commands > m.engine.home_reads, "no window was read: {:?}", m.engine);
    assert_eq!(m.device_ios, m.engine.home_reads);
}

/// A copy of 512 MiB into a write buffer of 64 MiB: most of it goes home by way of the log. That is no
/// work of the policy.
#[test]
fn a_write_buffer_that_works_is_no_fault_of_the_policy() {
    let (disk, mut sim) = adaptive(Sectors(256 << 11), OPEN);
    sim.engine = sim.engine.with_write_buffer(25, Duration::ZERO);
    let mut guarded = Guarded::new(&disk, &sim, None).unwrap();
    for i in 0..4_096 {
        let at = SimTime(i * 40_000_000);
        let write = Request::new(at, Op::Write, Extent::new(i * 256, 256));
        guarded.offer(0, &write).unwrap();
    }
    guarded.lap().unwrap();
    let guard = guarded.guard();
    assert!(guarded.actual().stats().destaged_bytes > 256 << 20, "{:?}", guarded.actual().stats());
    assert!(guard.worst_excess() < Duration::from_millis(1_500), "{guard:?}");
}

/// 300 writes before, one after: at the end one page goes home.
#[test]
fn the_measured_part_does_not_pay_for_what_the_training_left_in_the_write_buffer() {
    let (disk, mut sim) = adaptive(Sectors(256 << 11), CLOSED);
    sim.engine = sim.engine.with_write_buffer(25, Duration::ZERO);
    let mut guarded = Guarded::new(&disk, &sim, None).unwrap();
    let write = |start| Request::new(SimTime(0), Op::Write, Extent::new(start, 8));
    for start in scattered(&mut Dice::new(34), 300) {
        guarded.offer(0, &write(start)).unwrap();
    }
    let trained = guarded.end_training().unwrap();
    // Even in order of address each page takes 2 ms.
    assert!(trained > Duration::from_millis(600), "{trained:?}");
    guarded.offer(1, &write(800)).unwrap();
    guarded.drain().unwrap();
    let m = guarded.lap().unwrap();
    assert_eq!((m.engine.absorbed, m.engine.destaged_bytes), (1, 4096), "{:?}", m.engine);
}

const OPEN: Replay = Replay::Open;

#[test]
fn what_comes_again_every_day_pays() {
    for replay in [CLOSED, OPEN] {
        let day = scattered(&mut Dice::new(31), 400).repeat(6);
        let (vanilla, actual) = guarded(&vec![day; 8], replay);
        assert!(actual.0 * 4 < vanilla.0, "{actual:?} of {vanilla:?}, {replay:?}");
    }
}

/// Four requests wait at any time. RAM is small: most pages leave it before many others are used.
#[test]
fn a_busy_volume_writes_its_trail_too() {
    let (disk, mut busy) = adaptive(Sectors(64 << 11), Replay::Closed { depth: 4 });
    busy.engine.read_ahead = Bytes(0);
    let mut sim = Simulation::new(disk, busy).unwrap();
    for start in scattered(&mut Dice::new(32), 4000) {
        sim.offer(&read(0, start, 8)).unwrap();
    }
    let pages = sim.stats().moved_bytes / 4096;
    assert!(pages > 3000, "{pages} of 4000 pages");
}

#[test]
fn the_analysis_of_clustered_data_is_what_the_simulation_finds() {
    // Independent accesses of one block at a time, drawn cylinder by cylinder; no RAM, no
    // read-ahead.
    const REQUESTS: u64 = 60_000;
    let disk = Disk::new(&catalogue::get("rz55").unwrap()).unwrap();
    let arm = Arm::of(&disk);
    let n = arm.cylinders();
    let perfect = Access::perfect(n);
    let layouts = [
        ("random", Access::random(n)),
        ("perfect", perfect.clone()),
        ("normal", Access::normal(n, 0.1)),
        ("concentrated", Access::concentrated(n, 0.5)),
        ("drift", perfect.drifted(0.2)),
        ("buckets with drift", perfect.in_buckets(6).drifted(0.2)),
        ("lazy with drift", perfect.lazily(0.08).drifted(0.2)),
    ];
    for (name, access) in layouts {
        let mut dice = rand_pcg::Pcg64::seed_from_u64(1990);
        let mut sums: Vec<f64> = Vec::new();
        for share in access.shares() {
            sums.push(sums.last().unwrap_or(&0.0) + share);
        }
        let config = SimConfig {
            engine: Config::new(disk.capacity()),
            area_at: Lba(disk.capacity().0),
            ..config(CLOSED, Scheduler::Fcfs)
        };
        let mut sim = Simulation::new(disk.clone(), config).unwrap();
        for _ in 0..REQUESTS {
            let at = dice.random::<f64>() * sums[sums.len() - 1];
            let cylinder = sums.partition_point(|s| *s <= at);
            // A block of 2 KiB anywhere on its tracks, starting at any sector.
            let sector = dice.random_range(0..15u64) * 36 + dice.random_range(0..33u64);
            let start = cylinder.min(sums.len() - 1) as u64 * 540 + sector;
            sim.offer(&Request::new(SimTime(0), Op::Read, Extent::new(start, 4))).unwrap();
        }
        let m = sim.finish().unwrap();
        let light = arm.light(&access, 4);
        let seek = m.foreground.seek.as_millis_f64() / REQUESTS as f64;
        let used = m.foreground.transfer.as_millis_f64() / m.foreground.busy().as_millis_f64();
        assert_eq!(m.device_ios, REQUESTS);
        assert!((seek / light.seek_ms - 1.0).abs() < 0.01, "{name}: {seek} ms, {light:?}");
        assert!((used / light.utilization - 1.0).abs() < 0.01, "{name}: {used}, {light:?}");
    }
}

/// Clients keep the disk busy at every moment, and the write buffer is full. A write of a page that
/// is dirty there waits until this page is home: a disk that first serves all other requests would
/// never take it home. I/Os that were sent before the client waited may age for 10 s.
#[test]
fn no_write_or_flush_waits_for_a_moment_without_clients() {
    let (disk, mut sim) = adaptive(Sectors(8192), Replay::Closed { depth: 32 });
    sim.engine.adaptive = false;
    sim.engine.write_buffer_percent = 100;
    sim.engine.mode = Mode::WriteBack;
    let mut sim = Simulation::new(disk, sim).unwrap();
    let mut dice = Dice::new(5);
    for _ in 0..40_000 {
        let op = if dice.below(5) == 0 { Op::Write } else { Op::Read };
        let extent = Extent::new(dice.below(10_000) * 8, 16);
        sim.offer(&Request::new(SimTime(0), op, extent)).unwrap();
        if dice.below(50) == 0 {
            sim.offer(&Request::new(SimTime(0), Op::Flush, Extent::default())).unwrap();
        }
    }
    let m = sim.finish().unwrap();
    assert!(m.engine.absorbed > 50, "{:?}", m.engine);
    assert!(m.response.max_ms() < 12_000.0, "{} ms", m.response.max_ms());
}
