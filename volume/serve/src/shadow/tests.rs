//! A shadow of a disk that is known, against times and counts worked out by hand.

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use seekless_block::{Extent, Flags, Op};
use seekless_disk::Disk;

use super::*;

const CAPACITY: Sectors = Sectors(16 << 21);

/// An I/O of a client at home, whose time is unknown.
fn io(at: SimTime, op: Op, extent: Extent) -> IoSample {
    let (target, flags) = (Target::Home, Flags::NONE);
    IoSample { at, target, op, extent, flags, background: false, took: None }
}

/// A served disk of the catalogue, and random places on it.
fn on(name: &str, config: Config) -> (Box<dyn Shadow>, impl FnMut() -> Extent) {
    let disk = Device::new(&catalogue::device(name).unwrap()).unwrap();
    let make = disk_shadow(disk, Scheduler::Fcfs, SpinDown::None, false);
    (make(&config).unwrap(), places())
}

fn places() -> impl FnMut() -> Extent {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[27; 32]);
    move || Extent::new(random.next_u64() % (CAPACITY.0 / 8 - 1) * 8, 8)
}

/// A volume of 16 GiB without RAM reads at random from a disk of the catalogue whose times are
/// multiplied, and writes after some of the reads. Of the second half: the measured seconds, and
/// those that the guard compares.
fn served(real: &str, factor: impl Fn(u64) -> f64, writes: impl Fn(u64) -> u64) -> (f64, Compared) {
    let capacity = CAPACITY;
    let mut place = places();
    let mut shadow = StandIn::Rotating.shadow()(&Config::new(capacity)).unwrap();
    let mut disk = Disk::new(&catalogue::get(real).unwrap()).unwrap();
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[26; 32]);
    let (mut at, mut measured_s, mut half) = (SimTime::ZERO, 0.0, Compared::default());
    for i in 0..8_000 {
        let start = random.next_u64() % (capacity.0 - 1_024);
        let extent = Extent::new(start, 8 + random.next_u64() % 4 * 256);
        let access = disk.access(at, Op::Read, extent).unwrap();
        let took = Duration((access.total().0 as f64 * factor(i)) as u64);
        if i == 4_000 {
            (measured_s, half) = (0.0, shadow.compared().unwrap());
        }
        shadow.request(&Request::new(at, Op::Read, extent));
        shadow.io(&IoSample { took: Some(took), ..io(at, Op::Read, extent) });
        at += took;
        for _ in 0..writes(i) {
            let extent = place();
            shadow.request(&Request::new(at, Op::Write, extent));
            shadow.io(&io(at, Op::Write, extent));
            at += disk.access(at, Op::Write, extent).unwrap().total();
        }
        shadow.quiet();
        shadow.look();
        measured_s += took.as_secs_f64();
    }
    let end = shadow.compared().unwrap();
    let (vanilla_s, actual_s) = (end.vanilla_s - half.vanilla_s, end.actual_s - half.actual_s);
    (measured_s, Compared { vanilla_s, actual_s, ..end })
}

fn is_close(one: f64, other: f64, share: f64) -> bool {
    (one - other).abs() < share * other
}

#[test]
fn a_stand_in_takes_on_the_times_of_the_real_disk() {
    for real in ["wd800jb", "travelstar-5k320", "cheetah15k5"] {
        let (measured_s, compared) = served(real, |_| 1.0, |_| 0);
        assert!(!compared.measured, "{real}: {compared:?}");
        assert!(is_close(compared.actual_s, measured_s, 0.05), "{real}: {compared:?}");
        assert!(is_close(compared.vanilla_s, measured_s, 0.05), "{real}: {compared:?}");
    }
}

#[test]
fn where_the_model_does_not_fit_measured_times_count() {
    let factor = |i: u64| if (i / 300).is_multiple_of(2) { 0.2 } else { 3.0 };
    let (measured_s, compared) = served("wd800jb", factor, |_| 0);
    assert!(compared.measured && compared.model_error > Some(0.1), "{compared:?}");
    assert!(is_close(compared.actual_s, measured_s, 0.01), "{measured_s} {compared:?}");
    assert!(is_close(compared.vanilla_s, measured_s, 0.25), "{measured_s} {compared:?}");
}

/// Reads among writes take twice as long. Nobody measures the writes.
#[test]
fn writes_count_alike_for_both_systems_where_the_model_does_not_fit() {
    let slow = |i: u64| (i / 1_200).is_multiple_of(2);
    let factor = |i| if slow(i) { 2.0 } else { 1.0 };
    let compared = served("wd800jb", factor, |i| if slow(i) { 3 } else { 0 }).1;
    assert!(is_close(compared.actual_s, compared.vanilla_s, 0.03), "{compared:?}");
}

/// Eight reads in flight, which the disk serves in the order of their addresses.
#[test]
fn a_disk_that_sorts_its_queue_sorts_it_for_both_systems() {
    let (mut shadow, mut place) = on("wd800jb", Config::new(CAPACITY));
    let mut disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
    let mut now = SimTime(0);
    for _ in 0..500 {
        let mut ios: Vec<_> = (0..8).map(|i| io(now + Duration(i), Op::Read, place())).collect();
        for io in &ios {
            shadow.request(&Request::new(io.at, Op::Read, io.extent));
        }
        ios.sort_by_key(|io| io.extent.start);
        for io in &ios {
            now += disk.access(now, Op::Read, io.extent).unwrap().total();
            shadow.io(&IoSample { took: Some(now.since(io.at)), ..*io });
        }
        shadow.look();
    }
    shadow.quiet();
    shadow.look();
    let compared = shadow.compared().unwrap();
    assert!(is_close(compared.actual_s, compared.vanilla_s, 0.05), "{compared:?}");
}

#[test]
fn flushes_and_forced_writes_cost_both_systems_the_same() {
    let (mut shadow, mut place) = on("maxtor-6l020", Config::new(CAPACITY));
    let mut now = SimTime(0);
    for i in 0..1_000 {
        let forced = if i % 3 == 0 { Flags::FUA } else { Flags::NONE };
        for (op, flags, extent) in
            [(Op::Write, forced, place()), (Op::Flush, Flags::NONE, Extent::default())]
        {
            shadow.request(&Request { flags, ..Request::new(now, op, extent) });
            shadow.io(&IoSample { flags, ..io(now, op, extent) });
            now += Duration::from_millis(if op == Op::Flush { 50 } else { 1 });
        }
        shadow.look();
    }
    shadow.quiet();
    shadow.look();
    let compared = shadow.compared().unwrap();
    assert!(compared.vanilla_s > 2.0, "{compared:?}");
    assert!(is_close(compared.actual_s, compared.vanilla_s, 0.01), "{compared:?}");
}

/// As many reads of a fast device as of the disk: they are measured, and fit no disk to
/// themselves.
#[test]
fn an_area_elsewhere_counts_its_measured_reads() {
    let config = Config { area: Sectors(1 << 11), ..Config::new(CAPACITY) };
    let (mut shadow, mut place) = on("wd800jb", config);
    assert!(shadow.area_elsewhere());
    let mut disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
    let (mut now, fast) = (SimTime(0), Duration::from_millis(1));
    for _ in 0..2_000 {
        let extent = place();
        shadow.request(&Request::new(now, Op::Read, extent));
        let took = disk.access(now, Op::Read, extent).unwrap().total();
        shadow.io(&IoSample { took: Some(took), ..io(now, Op::Read, extent) });
        now += took;
        let area = io(now, Op::Read, Extent::new(0, 8));
        shadow.io(&IoSample { target: Target::Area, took: Some(fast), ..area });
        now += fast;
        shadow.quiet();
        shadow.look();
    }
    let compared = shadow.compared().unwrap();
    let more_s = compared.actual_s - compared.vanilla_s;
    assert!(is_close(more_s, 2.0, 0.01), "{compared:?}");
    let measured_s = now.since(SimTime(0)).as_secs_f64() - 2.0;
    assert!(is_close(compared.vanilla_s, measured_s, 0.02), "{measured_s} {compared:?}");
}

/// The adaptive policy adds nothing to a write buffer, and takes nothing from it.
#[test]
fn the_vanilla_system_has_the_write_buffer_of_the_volume() {
    let config = Config { area: Sectors(64 << 11), adaptive: true, ..Config::new(CAPACITY) };
    let config = Config {
        cache_bytes: seekless_block::Bytes(1 << 20),
        toll: Toll { area: true, ..Toll::default() },
        ..config.with_write_buffer(50, Duration::ZERO)
    };
    let (mut shadow, mut place) = on("wd800jb", config);
    assert!(!shadow.area_elsewhere());
    let mut now = SimTime(0);
    let mut seconds = |shadow: &mut Box<dyn Shadow>| {
        let before = shadow.vanilla().unwrap().total_s();
        for _ in 0..1_000 {
            shadow.request(&Request::new(now, Op::Write, place()));
            now += Duration::from_millis(20);
        }
        shadow.quiet();
        shadow.vanilla().unwrap().total_s() - before
    };
    let buffered = seconds(&mut shadow);
    shadow.mode(Mode::WriteThrough);
    seconds(&mut shadow);
    let through = seconds(&mut shadow);
    shadow.mode(Mode::WriteBack);
    let again = seconds(&mut shadow);
    let less = 0.8 * through;
    assert!(buffered < less && again < less, "{buffered}, {through}, {again} s");
}

/// Ten times, a read takes 20 seconds.
#[test]
fn a_stall_counts_for_nobody() {
    let stalls = |i: u64| if i > 4_000 && i.is_multiple_of(400) { 2_000.0 } else { 1.0 };
    let (measured_s, compared) = served("wd800jb", stalls, |_| 0);
    assert!(measured_s > 150.0 && !compared.measured, "{measured_s} {compared:?}");
    let behind_s = compared.actual_s - compared.vanilla_s;
    assert!(behind_s.abs() < 1.0, "{compared:?}");
    assert!(compared.actual_s < 100.0, "{compared:?}");
}

/// Reads of a volume that an object store holds; every second I/O goes to an area here.
#[test]
fn a_provider_counts_what_reaches_it() {
    let spec = catalogue::device("object-store").unwrap();
    let disk = Device::new(&spec).unwrap();
    let toll = Toll { area: false, ..spec.toll() };
    let config = Config { toll, area: Sectors(1 << 11), ..Config::new(Sectors(16 << 21)) };
    let make = disk_shadow(disk, Scheduler::Fcfs, SpinDown::None, false);
    let mut shadow = make(&config).unwrap();
    for i in 0..10 {
        let at = SimTime(i * 1_000_000_000);
        let extent = Extent::new(i * 32_768, 8);
        shadow.request(&Request::new(at, Op::Read, extent));
        let target = if i % 2 == 0 { Target::Home } else { Target::Area };
        let extent = if i % 2 == 0 { extent } else { Extent::new(0, 8) };
        shadow.io(&IoSample { target, ..io(at, Op::Read, extent) });
    }
    shadow.quiet();
    shadow.look();
    let counted = shadow.operations().unwrap();
    assert_eq!((counted.now.reads, counted.vanilla.reads), (5, 10));
    // $0.4 a million reads; the volume is held for $0.023 a GiB and month of 730 hours.
    let a_read_s = 0.4e-6 / (0.023 * 1024.0 / (730.0 * 3600.0));
    let price = counted.toll.price(5, 0).as_secs_f64();
    assert!((price - 5.0 * a_read_s).abs() < 1e-6, "{price}");
    let disk = StandIn::Rotating.shadow()(&config).unwrap();
    assert_eq!(disk.operations(), None, "a disk sends no bill");
}

#[test]
fn a_stand_in_is_as_large_as_its_volume() {
    for bytes in [1 << 20, 250_000_000_000, 36_000_000_000_000, 200_000_000_000_000] {
        let config = Config::new(Sectors(bytes / 512));
        for stand_in in [StandIn::Rotating, StandIn::Flash] {
            let shadow = stand_in.shadow()(&config);
            assert!(shadow.is_ok(), "{stand_in:?} of {bytes}: {:?}", shadow.err());
        }
    }
}
