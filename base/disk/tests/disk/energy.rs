//! The drive's energy and times against sums by hand; the times add up.

use proptest::prelude::*;
use seekless_block::{Duration, Energy, Extent, Op, Power, SimTime};
use seekless_disk::{
    Command, Completion, Device, Disk, DiskSpec, Drive, EnergyByState, Scheduler, SpinDown,
    SpinDownError, TimeByState, Usage, catalogue,
};

use crate::toy::{TOY, toy};

/// The toy disk (14 W seeking, 8 W rotating, 5 W idle) with 1 W in standby, 2 s and 3 J to stop, 4
/// s and 40 J to start.
fn standby() -> Disk {
    toy_with(
        "standby_w = 1.0\nspin_down_s = 2.0\nspin_down_j = 3.0\nspin_up_s = 4.0\nspin_up_j = 40.0\n",
    )
}

fn toy_with(power: &str) -> Disk {
    let text = TOY.replace("idle_w = 5.0\n", &format!("idle_w = 5.0\n{power}"));
    Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
}

fn seconds(s: f64) -> SimTime {
    SimTime((s * 1e9) as u64)
}

fn read(drive: &mut Drive, at: SimTime, start: u64) -> Completion {
    drive.submit(at, Command::new(0, Op::Read, Extent::new(start, 1))).unwrap();
    let end = drive.next_event().unwrap();
    drive.poll(end).unwrap()
}

fn joules(j: f64) -> Energy {
    Energy((j * 1e12) as u128)
}

/// Sector 30 is at angle 7 ms on cylinder 1, head 1. The arm starts on cylinder 0 and takes 2 ms.
/// From time 0 that is 2 ms of seek, 5 of waiting, 1 of transfer.
const FIRST: Duration = Duration::from_millis(8);

#[test]
fn half_a_minute_by_hand() {
    let mut drive = Drive::new(standby(), Scheduler::Fcfs);
    drive.set_spin_down(SpinDown::After(Duration::from_millis(10_000))).unwrap();
    let c = read(&mut drive, SimTime(0), 30);
    assert_eq!(c.finished.since(SimTime(0)), FIRST);
    // Stops at 10.008 s, in standby from 12.008 s. A read at 20.008 s (a whole revolution after the
    // first ended) waits 4 s.
    let c = read(&mut drive, seconds(20.008), 30);
    assert_eq!(c.access.spin_up, Duration::from_millis(4_000));
    // The platter is at angle 8 ms after spinning up: 9 ms to wait.
    assert_eq!((c.access.seek, c.access.rotation), (Duration(0), Duration::from_millis(9)));
    assert_eq!(c.started, seconds(20.008));
    assert_eq!(c.finished, seconds(24.018));
    let usage = drive.usage(c.finished);
    let ms = Duration::from_millis;
    let time = TimeByState {
        seek: ms(2),
        rotation_transfer: ms(6 + 10),
        idle: ms(10_000),
        spin_down: ms(2_000),
        standby: ms(8_000),
        spin_up: ms(4_000),
        ..TimeByState::default()
    };
    assert_eq!(usage.time, time);
    let energy = EnergyByState {
        seek: joules(0.002 * 14.0),
        rotation_transfer: joules(0.016 * 8.0),
        idle: joules(50.0),
        spin_down: joules(3.0),
        standby: joules(8.0),
        spin_up: joules(40.0),
        ..EnergyByState::default()
    };
    assert_eq!(usage.energy, energy);
    assert_eq!(usage.spin_downs, 1);
    // During the spin-up: a quarter of it.
    let at = drive.usage(seconds(21.008));
    assert_eq!((at.time.spin_up, at.energy.spin_up), (ms(1_000), joules(10.0)));
    assert_eq!(at.time.rotation_transfer, ms(6));
}

#[test]
fn a_command_during_the_spin_down_waits_for_its_end_too() {
    let mut drive = Drive::new(standby(), Scheduler::Fcfs);
    drive.set_spin_down(SpinDown::After(Duration::from_millis(10_000))).unwrap();
    let c = read(&mut drive, seconds(10.5), 30);
    assert_eq!(c.access.spin_up, Duration::from_millis(1_500 + 4_000));
    let usage = drive.usage(c.finished);
    assert_eq!(usage.time.spin_down, Duration::from_millis(2_000));
    assert_eq!(usage.energy.spin_down, joules(3.0));
    assert_eq!(usage.time.standby, Duration::ZERO);
    // A transition without duration still costs energy.
    let at_once =
        toy_with("standby_w = 1.0\nspin_down_j = 3.0\nspin_up_s = 0.0\nspin_up_j = 40.0\n");
    let mut drive = Drive::new(at_once, Scheduler::Fcfs);
    drive.set_spin_down(SpinDown::After(Duration::from_millis(10_000))).unwrap();
    let c = read(&mut drive, seconds(20.0), 30);
    assert_eq!(c.access.spin_up, Duration::ZERO);
    let usage = drive.usage(c.finished);
    assert_eq!((usage.energy.spin_down, usage.energy.spin_up), (joules(3.0), joules(40.0)));
    // One nanosecond before the timeout nothing happens.
    let mut drive = Drive::new(standby(), Scheduler::Fcfs);
    drive.set_spin_down(SpinDown::After(Duration::from_millis(10_000))).unwrap();
    assert_eq!(read(&mut drive, SimTime(9_999_999_999), 30).access.spin_up, Duration::ZERO);
    // A flush and a discard do not end the standby.
    let mut drive = Drive::new(standby(), Scheduler::Fcfs);
    drive.set_spin_down(SpinDown::After(Duration::from_millis(10_000))).unwrap();
    drive.submit(seconds(15.0), Command::new(0, Op::Flush, Extent::default())).unwrap();
    drive.submit(seconds(15.0), Command::new(0, Op::Discard, Extent::new(0, 9))).unwrap();
    assert_eq!(drive.usage(seconds(20.0)).time.standby, Duration::from_millis(8_000));
}

#[test]
fn lower_idle_levels_by_hand() {
    let levels = "[[power.idle_level]]\nafter_s = 1.0\nw = 3.0\nrecovery_ms = 20.0\n\
                  [[power.idle_level]]\nafter_s = 5.0\nw = 2.0\nrecovery_ms = 300.0\n";
    let text = TOY.replace("[geometry]\n", &format!("{levels}[geometry]\n"));
    let disk = Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap();
    let mut drive = Drive::new(disk, Scheduler::Fcfs);
    let ms = Duration::from_millis;
    for (at, spin_up) in [(0.5, 0), (2.0, 20), (9.0, 300)] {
        assert_eq!(read(&mut drive, seconds(at), 30).access.spin_up, ms(spin_up), "{at}");
    }
    // Ready after 0.508, 2.028 and 9.308 s. Idle for 0.5, 1 and 1 s; 0.492 and 4 s at 3 W, 1.972 s
    // at 2 W.
    let usage = drive.usage(seconds(9.308));
    assert_eq!(usage.time.spin_up, ms(320));
    assert_eq!(usage.energy.spin_up, joules(1.6));
    assert_eq!(usage.time.idle, ms(2_500));
    assert_eq!(usage.time.low_idle, ms(6_464));
    assert_eq!(usage.energy.low_idle, joules(13.476) + joules(3.944));
    assert_eq!(usage.time.total(), ms(9_308));
}

#[test]
fn coasting_and_writing_use_their_own_power() {
    let disk = toy_with("coast_after_ms = 2.5\ncoast_w = 6.0\nread_w = 9.0\nwrite_w = 10.0\n");
    let power = *disk.power();
    // 4 ms of seek: 2.5 at 14 W, 1.5 at 6 W, in nanojoules.
    assert_eq!(power.seeking(Duration::from_millis(4)), Energy(44_000_000_000));
    assert_eq!(power.seeking(Duration::from_millis(2)), Energy(28_000_000_000));
    assert_eq!((power.transfer(false), power.transfer(true)), (Power(9_000), Power(10_000)));
    for (op, mw) in [(Op::Read, 9_000), (Op::Write, 10_000)] {
        let mut drive = Drive::new(disk.clone(), Scheduler::Fcfs);
        drive.submit(SimTime(3), Command::new(0, op, Extent::new(12, 3))).unwrap();
        let c = drive.poll(SimTime(1 << 40)).unwrap();
        let waiting = c.access.rotation.0 * 8_000 + c.access.transfer.0 * mw;
        assert_eq!(drive.usage(c.finished).energy.rotation_transfer, Energy(waiting.into()));
    }
}

#[test]
fn break_even_is_where_both_cost_the_same() {
    // Idle 5 W against 3 J + 40 J + 1 W x (T - 6 s): T = 37 / 4 = 9.25 s.
    assert_eq!(standby().power().break_even(), Some(Duration::from_millis(9_250)));
    // Cheap transitions: not shorter than their duration.
    let cheap = toy_with("standby_w = 1.0\nspin_up_s = 4.0\nspin_up_w = 1.0\n");
    assert_eq!(cheap.power().break_even(), Some(Duration::from_millis(4_000)));
    // No gain, or values not known.
    let no_gain = toy_with("standby_w = 5.0\nspin_up_s = 4.0\nspin_up_w = 1.0\n");
    assert_eq!(no_gain.power().break_even(), None);
    assert_eq!(toy().power().break_even(), None);
    let refusal = |disk, policy| Drive::new(disk, Scheduler::Fcfs).set_spin_down(policy);
    assert_eq!(refusal(no_gain.clone(), SpinDown::Adaptive), Err(SpinDownError::NoGain));
    assert_eq!(refusal(no_gain, SpinDown::After(Duration::from_millis(1_000))), Ok(()));
    assert_eq!(refusal(toy(), SpinDown::Adaptive), Err(SpinDownError::NoStandby));
    assert_eq!(refusal(toy(), SpinDown::None), Ok(()));
    let two = Device::new(&catalogue::device("exos-2x18").unwrap()).unwrap();
    let mut two = Drive::new(two, Scheduler::Fcfs);
    assert_eq!(two.set_spin_down(SpinDown::Adaptive), Err(SpinDownError::Never));
    assert_eq!(two.set_spin_down(SpinDown::None), Ok(()));
}

#[test]
fn the_adaptive_timeout_doubles_after_a_long_wait_and_halves_otherwise() {
    let mut drive = Drive::new(standby(), Scheduler::Fcfs);
    drive.set_spin_down(SpinDown::Adaptive).unwrap();
    let script = [
        // It starts at 9.25 s. 4 s of waiting exceed 5% of 30 s of idling: 18.5 s, then 37 s, then
        // 74 s.
        vec![(30.0, 4.0), (18.4, 0.0), (30.0, 4.0), (36.9, 0.0), (60.0, 4.0), (73.9, 0.0)],
        // While stopping. 74 s is eight times the start value: no further.
        vec![(75.0, 5.0), (73.9, 0.0)],
        // 4 s are less than 5% of 81 s: 37 s, 18.5 s, 9.25 s ... down to an eighth, 1.15625 s.
        vec![(81.0, 4.0); 7],
        vec![(1.1, 0.0), (1.15725, 5.999)],
    ];
    let mut end = SimTime(0);
    for (idle, waits) in script.concat() {
        let c = read(&mut drive, end + Duration((idle * 1e9) as u64), 30);
        assert_eq!(c.access.spin_up.as_secs_f64(), waits, "after {idle} s at {end:?}");
        end = c.finished;
    }
}

#[test]
fn faults_in_the_power_section_name_their_field() {
    let level = |after, w, ms| {
        format!("[[power.idle_level]]\nafter_s = {after}\nw = {w}\nrecovery_ms = {ms}\n")
    };
    for (power, field, allowed) in [
        ("read_w = -1.0\n".to_owned(), "power.read_w", "0 to 1000 W"),
        ("write_w = nan\n".to_owned(), "power.write_w", "0 to 1000 W"),
        ("standby_w = 1001.0\n".to_owned(), "power.standby_w", "0 to 1000 W"),
        ("spin_up_s = 601.0\n".to_owned(), "power.spin_up_s", "0 to 600 s"),
        ("spin_down_s = -0.1\n".to_owned(), "power.spin_down_s", "0 to 600 s"),
        ("spin_down_j = inf\n".to_owned(), "power.spin_down_j", "0 to 100000 J"),
        ("spin_up_j = -3.0\n".to_owned(), "power.spin_up_j", "0 to 100000 J"),
        ("spin_up_j = 3.0\nspin_up_w = 3.0\n".to_owned(), "power.spin_up_j", "not with it"),
        ("coast_after_ms = 2.0\n".to_owned(), "power.coast_after_ms", "with power.coast_w"),
        ("coast_w = 2.0\n".to_owned(), "power.coast_w", "with power.coast_after_ms"),
        ("coast_w = 2.0\ncoast_after_ms = 1e9\n".to_owned(), "power.coast_after_ms", "2000 ms"),
        (level(1.0, 5.5, 0.0), "power.idle_level[0].w", "0 to 5 W"),
        (level(-1.0, 4.0, 0.0), "power.idle_level[0].after_s", "0 to 86400 s"),
        (level(2.0, 4.0, 0.0) + &level(1.0, 3.0, 0.0), "power.idle_level[1].after_s", "2 to 86400"),
        (level(2.0, 4.0, 0.0) + &level(3.0, 4.5, 0.0), "power.idle_level[1].w", "0 to 4 W"),
        (level(1.0, 4.0, 1e6), "power.idle_level[0].recovery_ms", "0 to 60000 ms"),
        (level(1.0, 4.0, 0.0).repeat(5), "power.idle_level", "at most 4"),
    ] {
        let text = TOY.replace("[geometry]\n", &format!("{power}[geometry]\n"));
        let error = DiskSpec::parse("toy.toml", &text).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(error.what.contains(allowed), "{error}");
        // Inside the inserted lines, directly after [power].
        let from = TOY.lines().position(|l| l == "[geometry]").unwrap();
        assert!((from..=from + power.lines().count()).contains(&error.line), "{error}");
    }
}

#[test]
fn policies_read_back() {
    for text in ["none", "adaptive", "0.1", "2.5", "86400"] {
        assert_eq!(text.parse::<SpinDown>().unwrap().to_string(), text);
    }
    for text in ["", "never", "0", "-1", "nan", "inf", "86401", "5s"] {
        let error = text.parse::<SpinDown>().unwrap_err().to_string();
        assert!(error.contains("0.1 to 86400"), "{error}");
    }
}

/// (idle before in microseconds, first sector, length, reads, background).
type EnergyTestStep = (u64, u64, u64, bool, bool);

fn steps() -> impl Strategy<Value = Vec<EnergyTestStep>> {
    let gap = prop_oneof![Just(0u64), 0u64..40_000, 0u64..40_000_000];
    let step = (gap, 0u64..60, 1u64..9, any::<bool>(), any::<bool>());
    proptest::collection::vec(step, 1..30)
}

/// Serves the steps and queries the usage at every event and in between. Returns the completions.
fn walk(
    mut drive: Drive,
    steps: &[EnergyTestStep],
    asks: u64,
) -> (Drive, Vec<(Completion, bool)>, SimTime) {
    let mut served = Vec::new();
    let mut at = SimTime(0);
    let mut before = Usage::default();
    let mut look = |drive: &Drive, at: SimTime| {
        let usage = drive.usage(at);
        assert_eq!(
            usage.time.total(),
            at.since(SimTime(0)),
            "the times of the states add up to the total time"
        );
        // Recorded values never decrease: `since` panics if a difference is negative.
        let _ = usage.since(&before);
        before = usage;
    };
    let mut background = Vec::new();
    for &(gap, start, len, reads, behind) in steps {
        let to = at + Duration::from_micros(gap);
        let step = (to.since(at).0 / asks).max(1);
        while at < to {
            at = SimTime((at.0 + step).min(to.0));
            while let Some(c) = drive.poll(at) {
                served.push((c, background[c.tag as usize]));
            }
            look(&drive, at);
        }
        let op = if reads { Op::Read } else { Op::Write };
        let extent = Extent::new(start, len.min(60 - start));
        let command = Command::new(background.len() as u64, op, extent);
        background.push(behind);
        drive.submit(at, Command { background: behind, ..command }).unwrap();
    }
    while let Some(end) = drive.next_event() {
        look(&drive, SimTime(at.0 + end.since(at).0 / 2));
        at = end.max(at);
        while let Some(c) = drive.poll(at) {
            served.push((c, background[c.tag as usize]));
        }
    }
    look(&drive, at);
    (drive, served, at)
}

proptest! {
    #[test]
    fn the_states_add_up_and_accesses_cost_fs2s_formula(steps in steps(), policy in 0usize..3, asks in 1u64..9) {
        let policy = [SpinDown::None, SpinDown::After(Duration::from_millis(1_500)), SpinDown::Adaptive][policy];
        let mut drive = Drive::new(standby(), Scheduler::CLook);
        drive.set_spin_down(policy).unwrap();
        let (drive, served, end) = walk(drive, &steps, asks);
        prop_assert_eq!(served.len(), steps.len());
        let usage = drive.usage(end);
        let disk = standby();
        let power = disk.power();
        let all: EnergyByState = served.iter().map(|(c, _)| power.of(&c.access)).sum();
        prop_assert_eq!(usage.energy.seek, all.seek);
        prop_assert_eq!(usage.energy.rotation_transfer, all.rotation_transfer);
        let behind: EnergyByState =
            served.iter().filter(|s| s.1).map(|(c, _)| power.of(&c.access)).sum();
        prop_assert_eq!(usage.background.seek, behind.seek);
        prop_assert_eq!(usage.background.rotation_transfer, behind.rotation_transfer);
        let seek: Duration = served.iter().map(|(c, _)| c.access.seek).sum();
        prop_assert_eq!(usage.time.seek, seek);
        // Idling and standby cost their power; each stop and start its energy.
        prop_assert_eq!(usage.energy.idle, Power(5_000) * usage.time.idle);
        prop_assert_eq!(usage.energy.standby, Power(1_000) * usage.time.standby);
        let ups = served.iter().filter(|(c, _)| c.access.spin_up > Duration::ZERO).count();
        prop_assert_eq!(usage.energy.spin_up, Energy(joules(40.0).0 * ups as u128));
        prop_assert_eq!(usage.spin_downs, ups as u64);
        if policy == SpinDown::None {
            prop_assert_eq!(ups, 0);
        }
    }

    #[test]
    fn the_states_add_up_with_the_drives_own_work(steps in steps(), spins in any::<bool>()) {
        let mut drive = Drive::new(crate::buffer::disk_with_own_work(), Scheduler::Sptf);
        if spins {
            drive.set_spin_down(SpinDown::After(Duration::from_millis(100))).unwrap();
        }
        let (drive, served, _) = walk(drive, &steps, 3);
        // After everything is written back, all work has its time, or is part of other time.
        let usage = drive.usage(SimTime(1 << 50));
        let all: Duration = served.iter().map(|(c, _)| c.access.seek + c.access.behind_seek).sum();
        prop_assert!(usage.time.seek <= all);
    }
}

#[test]
fn every_entry_with_standby_values_can_spin_down() {
    for name in catalogue::disks() {
        let disk = Disk::new(&catalogue::get(name).unwrap()).unwrap();
        let even = disk.power().break_even();
        let takes = Drive::new(disk, Scheduler::Fcfs).set_spin_down(SpinDown::Adaptive);
        assert_eq!(takes.is_ok(), even.is_some(), "{name}");
        let small = ["toshiba-pccard", "travelstar-5k320"].contains(&name);
        assert!(!small || even.is_some_and(|t| (1.0..60.0).contains(&t.as_secs_f64())), "{name}");
    }
}
