//! Two arms and shingled bands, computed by hand, and invariants of every kind of device.

use proptest::prelude::*;
use seekless_block::{Dice, Duration, Extent, Op, SimTime};
use seekless_disk::{
    Access, Command, Completion, Device, DeviceSpec, Disk, DiskSpec, Drive, Kind, Scheduler,
    ShingledSpec, catalogue,
};

use crate::toy::{TOY, toy};
use crate::volume::{command, drain};

fn dual() -> DeviceSpec {
    DeviceSpec::parse("dual", &format!("kind = \"dual_actuator\"\n{TOY}")).unwrap()
}

fn drive(spec: &DeviceSpec, scheduler: Scheduler) -> Drive {
    Drive::new(Device::new(spec).unwrap(), scheduler)
}

#[test]
fn two_arms_move_at_the_same_time() {
    // Each half has one head: sectors 0..10 on cylinder 0 at angle 0, 1 ms each. Sector 30 is the
    // second arm's first.
    let mut d = drive(&dual(), Scheduler::Fcfs);
    for (tag, start) in [(0, 2), (1, 33), (2, 5)] {
        d.submit(SimTime(0), command(tag, Op::Read, start, 1)).unwrap();
    }
    let ends: Vec<_> = drain(&mut d).iter().map(|c| (c.tag, c.started.0, c.finished.0)).collect();
    let ms = 1_000_000;
    assert_eq!(ends, [(0, 0, 3 * ms), (1, 0, 4 * ms), (2, 3 * ms, 6 * ms)]);
}

#[test]
fn a_command_across_the_middle_ends_with_its_later_half() {
    // The first half's last sectors: cylinder 3 of one head, 5 sectors of 2 ms. On one arm alone:
    let DeviceSpec::Disk(spec) = dual() else { panic!() };
    let half = DiskSpec { kind: Kind::Disk, capacity_sectors: 30, ..spec };
    let half =
        DiskSpec { geometry: seekless_disk::GeometrySpec { heads: 1, ..half.geometry }, ..half };
    let mut alone = Disk::new(&half).unwrap();
    let before = alone.access(SimTime(0), Op::Read, Extent::new(28, 2)).unwrap();
    let mut d = drive(&dual(), Scheduler::Fcfs);
    d.submit(SimTime(0), command(7, Op::Read, 28, 5)).unwrap();
    let all = drain(&mut d);
    assert_eq!(all.len(), 1);
    let whole = all[0];
    assert_eq!((whole.tag, whole.extent), (7, Extent::new(28, 5)));
    // The second half reads sectors 0 to 2 in 3 ms; the first has to move.
    assert!(before.total() > Duration::from_millis(3));
    assert_eq!(whole.finished.0, before.total().0);
    assert_eq!(whole.started + whole.access.total(), whole.finished);
}

/// Reads one second of random 4 KiB at a depth, within the first `share` of the addresses.
fn random_rate(spec: &DeviceSpec, depth: u64, share: (u64, u64)) -> f64 {
    scheduled_rate(spec, Scheduler::Fcfs, depth, share)
}

fn scheduled_rate(spec: &DeviceSpec, scheduler: Scheduler, depth: u64, share: (u64, u64)) -> f64 {
    let mut d = drive(spec, scheduler);
    let sectors = spec.capacity().0 / share.1 * share.0;
    let mut dice = Dice::new(12_345);
    let mut next = |d: &mut Drive, at| {
        let start = dice.below(sectors / 8) * 8;
        d.submit(at, command(0, Op::Read, start, 8)).unwrap();
    };
    (0..depth).for_each(|_| next(&mut d, SimTime(0)));
    let mut done = 0;
    loop {
        let at = d.next_event().unwrap();
        while d.poll(at).is_some() {
            done += 1;
            if done == 4_000 {
                return f64::from(done) / at.as_secs_f64();
            }
            next(&mut d, at);
        }
    }
}

#[test]
fn two_arms_double_random_reads_over_all_of_the_disk_and_not_over_half() {
    let spec = catalogue::device("exos-2x18").unwrap();
    let (one, both) = (random_rate(&spec, 16, (1, 2)), random_rate(&spec, 16, (1, 1)));
    println!("exos-2x18, 16 deep: {one:.0} reads/s on one half, {both:.0} on both");
    let sorted = scheduled_rate(&spec, Scheduler::Sptf, 16, (1, 1));
    println!("with shortest positioning first: {sorted:.0} on both; published: 304");
    // No value in the entry was fitted to that figure.
    assert!((sorted / 304.0 - 1.0).abs() < 0.05, "{sorted}");
    assert!((1.85..2.0).contains(&(both / one)), "{one} {both}");
    // At depth 1 two arms gain nothing: over half, or over all.
    let (half, all) = (random_rate(&spec, 1, (1, 2)), random_rate(&spec, 1, (1, 1)));
    assert!((all / half - 1.0).abs() < 0.1, "{half} {all}");
    assert!((one / half - 1.0).abs() < 0.01, "{one} {half}");
}

#[test]
fn two_arms_share_the_power() {
    // 5 W idle, 14 W seeking, 8 W otherwise, for both arms. For 10 ms only the first arm works and
    // reads sector 2: 3 ms at half of 8 W.
    let mut d = drive(&dual(), Scheduler::Fcfs);
    d.submit(SimTime(0), command(0, Op::Read, 2, 1)).unwrap();
    drain(&mut d);
    let ms = 1_000_000;
    let usage = d.usage(SimTime(10 * ms));
    assert_eq!(usage.energy.rotation_transfer.0, u128::from(3 * ms) * 4_000);
    assert_eq!(usage.energy.idle.0, u128::from(17 * ms) * 2_500);
    assert_eq!(usage.time.total(), Duration(20 * ms));
}

#[test]
fn the_shape_of_two_arms_is_checked() {
    for (from, to, field) in [
        ("heads = 2", "heads = 3", "geometry.heads"),
        ("capacity_sectors = 60", "capacity_sectors = 59", "capacity_sectors"),
        ("idle_w = 5.0", "idle_w = 5.0\nstandby_w = 1.0", "power.standby_w"),
    ] {
        let text = format!("kind = \"dual_actuator\"\n{TOY}").replace(from, to);
        let e = DeviceSpec::parse("t", &text).unwrap_err();
        assert_eq!(e.field, field, "{e}");
    }
    let DeviceSpec::Disk(spec) = dual() else { panic!() };
    assert_eq!(Disk::new(&spec).unwrap_err().field, "kind");
}

/// The toy with a media cache in its first 20 sectors (cylinder 0) and bands of 10: sectors 20..,
/// 30.., 40.., 50...
const SHINGLED: &str = "[shingled]\nband_sectors = 10\ncache_sectors = 20\ncache_entries = 4\nsequential_sectors = 4\n";

fn shingled(more: &str) -> DiskSpec {
    let text = TOY
        .replace("capacity_sectors = 60", "capacity_sectors = 40")
        .replace("[geometry]", &format!("{SHINGLED}{more}[geometry]"))
        .replace("\"seek\", ", "\"seek\", \"shingled\", ");
    DiskSpec::parse("s", &format!("kind = \"shingled\"\n{text}")).unwrap()
}

/// The same accesses on the underlying disk, without a break, in sectors of the disk.
fn twin(disk: &mut Disk, at: SimTime, accesses: &[(Op, u64, u64)]) -> SimTime {
    accesses.iter().fold(at, |at, &(op, start, len)| {
        at + disk.access(at, op, Extent::new(start, len)).unwrap().total()
    })
}

#[test]
fn random_writes_are_fast_until_the_media_cache_is_full() {
    use Op::{Read, Write};
    let mut disk = Disk::new(&shingled("")).unwrap();
    let mut below = toy();
    let mut at = SimTime(0);
    // Four writes anywhere go to consecutive positions in the log, on the track of the arm. The
    // first waits for nothing, and the next sector is under the head when the write before it ends.
    for (i, lba) in [35, 3, 22, 14].into_iter().enumerate() {
        let a = disk.access(at, Write, Extent::new(lba, 1)).unwrap();
        assert_eq!(a.total(), Duration::from_millis(1), "{lba}");
        at += a.total();
        assert_eq!(twin(&mut below, SimTime(at.0 - 1_000_000), &[(Write, i as u64, 1)]), at);
    }
    // The fifth finds no free entry: the band of the oldest, 35 (30..40, sectors 50..60 of the
    // disk), is read, merged with sector 0 of the cache and written. Then the write goes to
    // position 4.
    let clean = [(Read, 50, 10), (Read, 0, 1), (Write, 50, 10), (Write, 4, 1)];
    let end = twin(&mut below, at, &clean);
    let a = disk.access(at, Write, Extent::new(8, 1)).unwrap();
    assert_eq!(at + a.total(), end);
    assert!(a.total() > Duration::from_millis(40), "{a:?}");
    assert!(a.overhead > Duration::from_millis(30), "{a:?}");
    at = end;
    // Cleaned data and data that was not in the cache are read at home; 22 is at position 2.
    for (lba, place) in [(35, 55), (22, 2), (8, 4), (23, 43)] {
        let end = twin(&mut below, at, &[(Read, place, 1)]);
        assert_eq!(at + disk.access(at, Read, Extent::new(lba, 1)).unwrap().total(), end, "{lba}");
        at = end;
    }
    // A read across both is in pieces: 21 at home, 22 in the cache, 23 at home.
    let end = twin(&mut below, at, &[(Read, 41, 1), (Read, 2, 1), (Read, 43, 1)]);
    assert_eq!(at + disk.access(at, Read, Extent::new(21, 3)).unwrap().total(), end);
}

#[test]
fn idle_time_cleans_and_a_started_band_is_completed() {
    use Op::{Read, Write};
    let mut disk = Disk::new(&shingled("idle_ms = 100.0\n")).unwrap();
    let mut below = toy();
    disk.access(SimTime(0), Write, Extent::new(35, 1)).unwrap();
    disk.access(SimTime(1_000_000), Write, Extent::new(3, 1)).unwrap();
    twin(&mut below, SimTime(0), &[(Write, 0, 1), (Write, 1, 1)]);
    // From 102 ms on the band of 35 is cleaned, then that of 3.
    let first =
        twin(&mut below, SimTime(102_000_000), &[(Read, 50, 10), (Read, 0, 1), (Write, 50, 10)]);
    let second = twin(&mut below, first, &[(Read, 20, 10), (Read, 1, 1), (Write, 20, 10)]);
    // A read during the second waits for it.
    let came = SimTime(first.0 + 1);
    let a = disk.access(came, Read, Extent::new(3, 1)).unwrap();
    let end = twin(&mut below, second, &[(Read, 23, 1)]);
    assert_eq!(came + a.total(), end);
    assert_eq!(a.overhead, second.since(came));
    // Work before its arrival is counted as work behind it.
    assert_eq!(a.behind_seek + a.behind_rotation_transfer, Duration(came.0 - 102_000_000));
    // Nothing is left to clean: a day later a read starts at once.
    let later = SimTime(86_400_000_000_000);
    let a = disk.access(later, Read, Extent::new(35, 1)).unwrap();
    assert_eq!(later + a.total(), twin(&mut below, later, &[(Read, 55, 1)]));
}

#[test]
fn long_runs_go_to_their_bands_and_a_half_written_band_is_completed() {
    use Op::Write;
    let mut disk = Disk::new(&shingled("")).unwrap();
    let mut below = toy();
    let mut at = SimTime(0);
    let mut write = |start, len, accesses: &[(Op, u64, u64)]| {
        let end = twin(&mut below, at, accesses);
        let a = disk.access(at, Write, Extent::new(start, len)).unwrap();
        assert_eq!(at + a.total(), end, "{start}+{len}");
        at = end;
    };
    // A whole band is written at home at once.
    write(10, 10, &[(Write, 30, 10)]);
    // The first four of a run go to the cache, the rest to the band.
    write(0, 4, &[(Write, 0, 4)]);
    write(4, 2, &[(Write, 24, 2)]);
    // Elsewhere: sectors 26 to 29 of the disk are read and written again first.
    write(35, 1, &[(Op::Read, 26, 4), (Write, 26, 4), (Write, 4, 1)]);
    // Over the end of a band, from inside it: a run of five that began in the middle is cached. It
    // continues in the next band directly, since it is long enough there.
    write(5, 5, &[(Write, 5, 5)]);
    write(10, 3, &[(Write, 30, 3)]);
    write(13, 7, &[(Write, 33, 7)]);
    // The band is complete: nothing to repair.
    write(35, 1, &[(Write, 10, 1)]);
}

#[test]
fn the_shape_of_shingled_disks_is_checked() {
    let spec = shingled("");
    let with = |f: &dyn Fn(&mut DiskSpec)| {
        let mut spec = spec.clone();
        f(&mut spec);
        spec.validate().unwrap_err().field
    };
    let s = |f: fn(&mut ShingledSpec)| with(&move |d| f(d.shingled.as_mut().unwrap()));
    assert_eq!(s(|s| s.band_sectors = 0), "shingled.band_sectors");
    assert_eq!(s(|s| s.cache_sectors = 9), "shingled.cache_sectors");
    assert_eq!(s(|s| s.cache_sectors = 21), "capacity_sectors");
    assert_eq!(s(|s| s.cache_entries = 0), "shingled.cache_entries");
    assert_eq!(s(|s| s.sequential_sectors = 0), "shingled.sequential_sectors");
    assert_eq!(s(|s| s.idle_ms = Some(-1.0)), "shingled.idle_ms");
    assert_eq!(with(&|d| d.shingled = None), "shingled");
    assert_eq!(with(&|d| d.kind = Kind::Disk), "kind");
    assert_eq!(with(&|d| d.power.standby_w = Some(1.0)), "power.standby_w");
}

/// One device of every kind, small enough to be filled.
fn kinds() -> Vec<DeviceSpec> {
    let mut all: Vec<DeviceSpec> =
        ["sata-ssd", "cloud-hdd", "cloud-ssd", "cloud-hdd-metered", "object-store"]
            .map(|name| catalogue::device(name).unwrap())
            .into();
    for spec in &mut all {
        let DeviceSpec::Volume(v) = spec else { panic!() };
        v.capacity_sectors = 40_000;
    }
    all.push(dual());
    all.push(DeviceSpec::Disk(shingled("")));
    all.push(DeviceSpec::Disk(shingled("idle_ms = 20.0\n")));
    all
}

proptest! {
    #[test]
    fn every_command_ends_once_and_in_order_of_time(
        which in 0usize..8,
        steps in proptest::collection::vec((0u64..40_000_000, any::<u64>(), 1u64..30, 0u8..10), 1..120),
        scheduler in 0usize..Scheduler::ALL.len(),
    ) {
        let spec = &kinds()[which];
        let capacity = spec.capacity().0;
        let mut prompt = drive(spec, Scheduler::ALL[scheduler]);
        let mut late = prompt.clone();
        let (mut at, mut ends, mut last) = (0, Vec::new(), SimTime(0));
        for (tag, (gap, start, len, sort)) in steps.iter().enumerate() {
            at += if gap % 3 == 0 { *gap } else { 0 };
            while let Some(t) = prompt.next_event().filter(|t| t.0 <= at) {
                prop_assert!(t >= last, "events run backwards");
                last = t;
                ends.extend(std::iter::from_fn(|| prompt.poll(t)));
            }
            let start = start % capacity;
            let op = match sort { 0..4 => Op::Read, 4..8 => Op::Write, 8 => Op::Flush, _ => Op::Discard };
            let background = gap % 5 == 0;
            let extent = Extent::new(start, (*len).min(capacity - start));
            let c = Command { background, ..Command::new(tag as u64, op, extent) };
            prompt.submit(SimTime(at), c).unwrap();
            late.submit(SimTime(at), c).unwrap();
        }
        let mut steps_left = 10_000;
        while let Some(t) = prompt.next_event() {
            ends.extend(std::iter::from_fn(|| prompt.poll(t)));
            steps_left -= 1;
            prop_assert!(steps_left > 0, "events without end");
        }
        prop_assert!(prompt.is_idle());
        let end = SimTime(last.0.max(ends.last().map_or(0, |c| c.finished.0)) + 7);
        let both = if spec.kind() == Kind::DualActuator { 2 } else { 1 };
        prop_assert_eq!(prompt.usage(end).time.total().0, both * end.0);
        prop_assert!(ends.is_sorted_by_key(|c| c.finished));
        for c in &ends {
            prop_assert!(c.submitted <= c.started && c.started <= c.finished);
            let merges = Scheduler::ALL[scheduler] == Scheduler::Elevator;
            let merged = merges && c.sequential && c.access == Access::default();
            prop_assert!(merged || c.started + c.access.total() == c.finished, "{:?}", c);
        }
        let mut tags: Vec<_> = ends.iter().map(|c| c.tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..steps.len() as u64).collect::<Vec<_>>());
        // A late call gives the same result.
        let far = SimTime(1 << 60);
        let theirs: Vec<_> = std::iter::from_fn(|| late.poll(far)).collect();
        prop_assert_eq!(ends.len(), theirs.len());
        let key = |c: &Completion| (c.tag, c.started, c.finished);
        let (mut a, mut b): (Vec<_>, Vec<_>) = (ends.iter().map(key).collect(), theirs.iter().map(key).collect());
        a.sort_unstable();
        b.sort_unstable();
        prop_assert_eq!(a, b);
    }
}
