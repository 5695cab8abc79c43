//! Controller and buffer on the toy disk, computed by hand.
//!
//! The toy's sectors pass in 1 ms (outer zone) and 2 ms (inner zone). Here the interface takes 0.5
//! ms per sector, a hit costs 0.1 ms (0.2 after a write), a miss 0.3 (0.4), an accepted write 0.6
//! (0.7), and a write to the platter 0.8 (0.9).

use proptest::prelude::*;
use seekless_block::{Duration, Extent, Flags, Op, SimTime};
use seekless_disk::{Access, Command, Disk, DiskSpec, Drive, Scheduler};

use crate::toy::TOY;
use crate::volume::drain;

/// What the overheads of every disk here are.
const TIMES: &str = "bus_sector_ms = [0.5, 0.5]\nread_hit_ms = [0.1, 0.2]\n\
    read_miss_ms = [0.3, 0.4]\nwrite_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]";

/// The toy with this controller, and after another change to its description.
fn built(controller: &str, (from, to): (&str, &str)) -> Disk {
    let text = TOY
        .replace("[geometry]\n", &format!("[controller]\n{controller}\n[geometry]\n"))
        .replace("\"geometry\"]", "\"geometry\", \"controller\"]")
        .replace(from, to);
    Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
}

fn disk(more: &str) -> Disk {
    built(&format!("{TIMES}\n{more}"), ("", ""))
}

/// A disk whose requests of this kind start with the first of their sectors that passes the head.
fn zero_latency(kind: &str, more: &str) -> Disk {
    let rpm = format!("rpm = 6000\nzero_latency = \"{kind}\"");
    built(&format!("{TIMES}\n{more}"), ("rpm = 6000", &rpm))
}

/// A disk that writes back, reads ahead, and can spin down.
pub(crate) fn disk_with_own_work() -> Disk {
    let own = "segments = 3\nsegment_sectors = 8\nread_ahead = \"segment\"\n\
               read_ahead_sectors = 4\nwrite_back = \"all\"\nwrite_segments = 2";
    let standby = "idle_w = 5.0\nstandby_w = 1.0\nspin_up_s = 0.5\nspin_up_w = 20.0\n";
    built(&format!("{TIMES}\n{own}"), ("idle_w = 5.0\n", standby))
}

fn read(disk: &mut Disk, ms: f64, start: u64, len: u64) -> Access {
    disk.access(at(ms), Op::Read, Extent::new(start, len)).unwrap()
}

fn write(disk: &mut Disk, ms: f64, start: u64, len: u64) -> Access {
    disk.access(at(ms), Op::Write, Extent::new(start, len)).unwrap()
}

const SEGMENTS: &str = "segments = 2\nsegment_sectors = 8";
const AHEAD: &str =
    "segments = 2\nsegment_sectors = 8\nread_ahead = \"segment\"\nread_ahead_sectors = 4";

fn at(ms: f64) -> SimTime {
    SimTime((ms * 1e6) as u64)
}

/// Overhead, seek, rotation, transfer and total in microseconds.
fn us(a: Access) -> [u64; 5] {
    [a.overhead, a.seek, a.rotation, a.transfer, a.total()].map(|d| d.0 / 1_000)
}

#[test]
fn a_miss_takes_overhead_platter_and_interface_time() {
    let mut d = disk(SEGMENTS);
    // At 0: overhead 0.3; sector 4 reaches the head at 4 ms: wait 3.7. The last of its 3 sectors
    // has passed at 7 and needs 0.5 more to leave: 7.5 in total, of which 0.8 are neither arm nor
    // platter.
    assert_eq!(us(read(&mut d, 0.0, 4, 3)), [800, 0, 3_700, 3_000, 7_500]);
    // The same read again: 0.1 + 3 x 0.5.
    assert_eq!(us(read(&mut d, 20.0, 4, 3)), [1_600, 0, 0, 0, 1_600]);
    // 5 to 8: 5 and 6 are in the buffer. Overhead 0.3 for the rest: at 30.3; sector 7 arrives at
    // 37: wait 6.7; 9 has passed at 39. Then 0.5 more: 39.5.
    assert_eq!(us(read(&mut d, 30.0, 5, 4)), [800, 0, 6_700, 2_000, 9_500]);
}

#[test]
fn a_slow_interface_streams_behind_the_platter() {
    // 2 ms per sector over the interface: the first of 3 has passed at 5 ms, the last leaves 6 ms
    // later.
    let slow = "bus_sector_ms = [2.0, 2.0]\nread_hit_ms = [0, 0]\nread_miss_ms = [0, 0]\n\
                write_hit_ms = [0, 0]\nwrite_miss_ms = [0, 0]\nsegments = 0\nsegment_sectors = 1\n\
                read_end_ms = 0.25";
    let mut d = built(slow, ("", ""));
    let a = read(&mut d, 0.0, 4, 3);
    assert_eq!(us(a), [4_250, 0, 4_000, 3_000, 11_250]);
    // A write must not be faster than the interface: sector 4 has arrived at 22 ms and is written
    // from 24; sector 5 arrives at 24 and is written from 25; 6 has arrived at 26, in time; 7
    // arrives at 28 but would pass at 27: it waits until 37.
    let a = write(&mut d, 20.0, 4, 4);
    assert_eq!(us(a), [0, 0, 4_000, 14_000, 18_000]);
}

#[test]
fn read_ahead_advances_with_time() {
    let mut d = disk(AHEAD);
    // Overhead 0.3: sector 0 has passed by then, and returns at 10 ms. Then 1 to 4 pass by 15 ms.
    read(&mut d, 0.0, 0, 1);
    // At 13.5 sectors 1 and 2 have passed completely: a hit.
    let mut early = d.clone();
    assert_eq!(us(read(&mut early, 13.5, 1, 2)), [1_100, 0, 0, 0, 1_100]);
    // At 12.5 half of sector 2 has passed: it arrives at 13 and leaves by 13.5; the interface alone
    // would take until 13.6.
    let mut within = d.clone();
    let a = read(&mut within, 12.5, 1, 2);
    assert_eq!(us(a), [600, 0, 0, 500, 1_100]);
    // At 50 it has stopped after 4 sectors; 5 is a miss.
    assert_eq!(us(read(&mut d, 50.0, 1, 4))[4], 2_100);
    let a = read(&mut d, 60.0, 5, 1);
    assert_eq!(us(a)[2..4], [4_700, 1_000]);
    assert_eq!(a.behind_rotation_transfer, Duration::ZERO);
}

#[test]
fn a_read_that_continues_at_the_head_loses_no_revolution() {
    let mut d = disk(AHEAD);
    // 4 and 5 have passed at 6 ms and left at 6.5. The next read is already in the queue, and the
    // head is inside sector 6 then; 6 and 7 have passed at 8 and left at 8.5.
    assert_eq!(read(&mut d, 0.0, 4, 2).total().0, 6_500_000);
    assert_eq!(read(&mut d, 6.5, 6, 2).total().0, 2_000_000);
}

#[test]
fn read_ahead_to_the_end_of_a_track_passes_through_a_shorter_segment() {
    let ahead = |over: bool, segment: u32| {
        disk(&format!(
            "segments = 2\nsegment_sectors = {segment}\nread_ahead = \"track_or_next\"\nread_ahead_sectors = 4\n\
             read_ahead_over_requested = {over}"
        ))
    };
    // Sector 0 passes from 10 to 11 ms; by 20 the other nine have passed, and the segment holds the
    // last four: 6 to 9.
    for over in [false, true] {
        let mut d = ahead(over, 4);
        read(&mut d, 0.0, 0, 1);
        let hit = us(read(&mut d.clone(), 30.0, 6, 4));
        assert_eq!(hit, [2_100, 0, 0, 0, 2_100]);
        // The sectors directly after the request are gone: at 30.3, 0.7 to sector 1, which leaves
        // at 32.5.
        let miss = us(read(&mut d, 30.0, 1, 1));
        assert_eq!(miss, [800, 0, 700, 1_000, 2_500]);
    }
    // A read over the end of a track reads the next as far as the segment has space, and no
    // further: sectors 8 to 15.
    let mut d = ahead(false, 8);
    read(&mut d, 0.0, 8, 4);
    let all = read(&mut d.clone(), 60.0, 12, 4);
    assert_eq!(us(all), [2_100, 0, 0, 0, 2_100]);
}

#[test]
fn a_new_command_stops_read_ahead_at_the_end_of_a_sector() {
    let mut d = disk(AHEAD);
    read(&mut d, 0.0, 0, 1);
    // At 12.2 + 0.3 the head is inside sector 2 until 13.0; then 2 ms to cylinder 1 and on to
    // sector 23 (angle 8).
    let a = read(&mut d, 12.2, 23, 1);
    assert_eq!(us(a), [1_300, 2_000, 3_000, 1_000, 7_300]);
    // The drive read 1 and 2 by itself: 11 to 13.
    assert_eq!(a.behind_rotation_transfer, Duration::from_micros(2_000));
    // Both segments are in use: the older one, sectors 0 to 2, is reused for the next miss.
    assert_eq!(us(read(&mut d, 40.0, 0, 3))[4], 1_600);
    read(&mut d, 60.0, 50, 1);
    assert!(read(&mut d, 100.0, 23, 1).transfer > Duration::ZERO);
}

#[test]
fn a_disk_can_settle_again_for_each_command() {
    let mut d = disk(&format!("{SEGMENTS}\nsettle_ms = 2.0"));
    // On its own track the arm is ready only at 2 ms: sector 2 is reached, sector 1 would not be.
    assert_eq!(us(read(&mut d, 0.0, 2, 1)), [2_500, 0, 0, 1_000, 3_500]);
    assert_eq!(us(read(&mut d, 20.0, 1, 1))[4], 12_500);
    // A seek of 3 ms to cylinder 2 takes longer anyway: overhead 0.3, arrival at 43.3.
    assert_eq!(us(read(&mut d, 40.0, 40, 1)), [800, 3_000, 6_700, 2_000, 12_500]);
}

#[test]
fn reads_on_arrival_take_the_whole_track() {
    let spec = |kind| zero_latency(kind, "segments = 2\nsegment_sectors = 10");
    let mut d = spec("reads");
    // At 4.3 the head is inside sectors 2 to 8: from the edge of 5 one revolution, to 15.0.
    let a = read(&mut d, 4.0, 2, 7);
    assert_eq!(us(a)[2..4], [700, 10_000]);
    // The revolution has read the rest of the track: sector 0 is in the buffer.
    assert_eq!(us(read(&mut d, 30.0, 0, 2)), [1_100, 0, 0, 0, 1_100]);
    // A write waits for its first sector, unless writes can start anywhere too.
    let a = write(&mut d, 44.0, 2, 7);
    assert_eq!(us(a)[2..4], [7_200, 7_000]);
    let a = spec("all").access(at(44.0), Op::Write, Extent::new(2, 7)).unwrap();
    assert_eq!(a.transfer, Duration::from_micros(10_000));
}

const BACK: &str =
    "segments = 2\nsegment_sectors = 8\nwrite_back = \"all\"\nreads_hit_writes = true";

#[test]
fn an_accepted_write_ends_early_and_keeps_the_arm_busy() {
    let mut d = disk(BACK);
    // 0.6 + 2 x 0.5; the platter follows: sector 5 arrives at 5, 7 has passed at 7.
    let a = write(&mut d, 0.0, 5, 2);
    assert_eq!(us(a), [1_600, 0, 0, 0, 1_600]);
    assert_eq!(
        (a.behind_seek, a.behind_rotation_transfer),
        (Duration::ZERO, Duration::from_micros(6_400))
    );
    let e = d.energy(&a);
    assert_eq!(e.rotation_transfer.0, 8_000 * (1_600_000 + 6_400_000));
    // Written data is read from the buffer, after a write: 0.2 + 0.5.
    assert_eq!(us(read(&mut d.clone(), 2.0, 6, 1))[4], 700);
    // Another read waits for the arm until 7.
    let a = read(&mut d.clone(), 2.0, 8, 1);
    assert_eq!(us(a), [5_500, 0, 1_000, 1_000, 7_500]);
    // So does a flush. A second write has no free segment and is accepted at 7.
    assert_eq!(us(d.clone().access(at(2.0), Op::Flush, Extent::new(0, 0)).unwrap())[4], 5_000);
    assert_eq!(us(d.clone().access(at(9.0), Op::Flush, Extent::new(0, 0)).unwrap())[4], 0);
    assert_eq!(us(write(&mut d.clone(), 2.0, 30, 1))[4], 5_500);
    // With FUA a write ends on the platter: 0.9 after the one before; its data has arrived by 21.4,
    // the sector at 22.
    let a = d.access_with(at(20.0), Op::Write, Extent::new(2, 1), Flags::FUA).unwrap();
    assert_eq!(us(a), [900, 0, 1_100, 1_000, 3_000]);
}

#[test]
fn consecutive_writes_share_a_segment() {
    let one = BACK.replace("all", "one_stream");
    let mut d = disk(&one);
    write(&mut d, 0.0, 5, 2);
    // It continues at the end of the waiting write: accepted at once, and the head loses no
    // revolution (7 to 8 ms).
    let a = write(&mut d.clone(), 2.0, 7, 1);
    assert_eq!(us(a)[4], 1_200);
    assert_eq!(a.behind_rotation_transfer, Duration::from_micros(1_000));
    // Elsewhere it ends on the platter: 0.9, the arm at 7, one head over and settled at 8.5, sector
    // 17 (angle 9).
    let a = write(&mut d, 2.0, 17, 1);
    assert_eq!(us(a), [5_000, 1_500, 500, 1_000, 8_000]);
}

#[test]
fn a_flush_in_the_queue_waits_for_accepted_writes() {
    let mut drive = Drive::new(disk(BACK), Scheduler::Sptf);
    let command = |tag, op, start, len| Command::new(tag, op, Extent::new(start, len));
    drive.submit(at(0.0), command(1, Op::Write, 5, 2)).unwrap();
    drive.submit(at(0.0), command(2, Op::Flush, 0, 0)).unwrap();
    drive.submit(at(0.0), command(3, Op::Discard, 0, 9)).unwrap();
    let ends: Vec<_> = drain(&mut drive).iter().map(|c| (c.tag, c.finished)).collect();
    assert_eq!(ends, [(3, at(0.0)), (1, at(1.6)), (2, at(7.0))]);
}

#[test]
fn a_write_invalidates_older_copies_in_the_buffer() {
    let mut d = disk(SEGMENTS);
    read(&mut d, 0.0, 4, 3);
    write(&mut d, 20.0, 6, 1);
    let a = read(&mut d, 40.0, 4, 1);
    assert!(a.transfer > Duration::ZERO);
}

/// A toy disk with a buffer of any kind.
fn any_disk() -> impl Strategy<Value = Disk> {
    let ahead = ["none", "track", "cylinder", "segment", "track_or_next"];
    let back = ["none", "one_stream", "all"];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0u32..4, 1u32..30, 0usize..5, 0u32..70, 0usize..3, 1u32..4, 0u32..40, 0u32..5, flags).prop_map(
        move |(segments, size, a, most, b, writes, bus, mark, f)| {
            let bus = f64::from(bus) / 10.0;
            let text = format!(
                "bus_sector_ms = [{bus}, {bus}]\nread_hit_ms = [0.1, 0.2]\nread_miss_ms = [0.3, 0.4]\n\
                 write_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]\nsettle_ms = {}\nread_watermark = {}\n\
                 write_seek_ms = {bus}\nwrite_gather_sectors = [{most}, 9]\n\
                 write_elsewhere = {{ miss_ms = {bus}, data_ms = 1.5, end_ms = 0.1 }}\n\
                 segments = {segments}\nsegment_sectors = {size}\nread_ahead = \"{}\"\nread_ahead_sectors = {most}\n\
                 write_back = \"{}\"\nwrite_segments = {writes}\nown_write_segment = {}\nread_ahead_over_requested = {}\n\
                 read_ahead_on_hit = {}\nread_ahead_stops_in_sector = {}\nreads_hit_writes = {}",
                bus / 2.0, f64::from(mark) / 4.0, ahead[a], back[b], f.0, f.1, f.2, f.3, f.4
            );
            let zero = ["none", "reads", "all"][(segments as usize + a) % 3];
            let rpm = format!("rpm = 6000\nzero_latency = \"{zero}\"");
            built(&text, ("rpm = 6000", &rpm))
        },
    )
}

proptest! {
    #[test]
    fn with_any_buffer_phases_add_up_and_no_sector_is_early(
        mut disk in any_disk(),
        steps in proptest::collection::vec((0u64..40_000_000, 0u64..60, 1u64..20, 0u8..5), 1..60),
    ) {
        let mut now = SimTime(0);
        let bare = crate::toy::toy();
        for (think, start, len, kind) in steps {
            let extent = Extent::new(start, len.min(60 - start));
            let (op, flags) = match kind {
                0 | 1 => (Op::Read, Flags::NONE),
                2 => (Op::Write, Flags::NONE),
                3 => (Op::Write, Flags::FUA),
                _ => (Op::Flush, Flags::NONE),
            };
            let again = disk.clone().access_with(now, op, extent, flags).unwrap();
            let a = disk.access_with(now, op, extent, flags).unwrap();
            prop_assert_eq!(a, again);
            prop_assert_eq!(a.total(), a.overhead + a.seek + a.rotation + a.transfer);
            // Nothing takes longer than arm, settling, and one revolution for each sector and track
            // of all outstanding work.
            prop_assert!(a.total() < Duration::from_millis(3_000), "{a:?}");
            if op == Op::Write && flags == Flags::FUA {
                // All its sectors have passed the head.
                prop_assert!(a.transfer >= bare.clone().access(SimTime(0), Op::Read, Extent::new(start, 1)).unwrap().transfer);
            }
            now = now + a.total() + Duration(think);
            // After a flush nothing is left to wait for.
            if op == Op::Flush {
                prop_assert_eq!(disk.access(now, Op::Flush, extent).unwrap().total(), Duration::ZERO);
            }
        }
    }
}

#[test]
fn the_data_of_a_write_can_arrive_after_the_arm_starts() {
    let mut d = disk("segments = 0\nsegment_sectors = 1\nwrite_data_ms = 2.2\nwrite_end_ms = 0.25");
    // The arm is on its track at once. The data of sector 2 has arrived at 3.5, after the head has
    // passed it: next at 12.
    let a = write(&mut d, 0.0, 2, 2);
    assert_eq!(us(a), [1_050, 0, 11_200, 2_000, 14_250]);
}

#[test]
fn a_write_starts_when_enough_of_it_has_arrived() {
    let gather = |n: u32| {
        disk(&format!("segments = 0\nsegment_sectors = 1\nwrite_gather_sectors = [{n}, 0]"))
    };
    let first = |n, len| write(&mut gather(n), 0.0, 2, len);
    // Two sectors have arrived at 1.8, before sector 2 passes at 2; three at 2.3: next at 12.
    assert_eq!(us(first(2, 4)), [800, 0, 1_200, 4_000, 6_000]);
    assert_eq!(us(first(3, 4)), [800, 0, 11_200, 4_000, 16_000]);
    // At most as many as there are.
    assert_eq!(us(first(3, 1)), [800, 0, 1_200, 1_000, 3_000]);
}

#[test]
fn a_writes_first_movement_has_a_minimum_time() {
    let mut d = disk("segments = 0\nsegment_sectors = 1\nwrite_seek_ms = 1.5");
    // On the track at 0.8 + 1.5, when sector 2 has passed.
    let a = write(&mut d, 0.0, 2, 1);
    assert_eq!(us(a), [2_300, 0, 9_700, 1_000, 13_000]);
    // A longer movement is not extended.
    let mut far = disk("segments = 0\nsegment_sectors = 1\nwrite_seek_ms = 0.01");
    let mut free = disk("segments = 0\nsegment_sectors = 1");
    let last = Extent::new(50, 1);
    assert_eq!(far.access(at(0.0), Op::Write, last), free.access(at(0.0), Op::Write, last));
    // A read has no minimum.
    let a = read(&mut d, 20.0, 2, 1);
    assert_eq!(us(a), [900, 0, 1_600, 1_000, 3_500]);
}

#[test]
fn a_write_elsewhere_after_a_write_has_its_own_overheads() {
    let mut d = disk(
        "segments = 0\nsegment_sectors = 1\nwrite_end_ms = 0.25\n\
         write_elsewhere = { miss_ms = 0.2, data_ms = 2.5, end_ms = 0.75 }",
    );
    let mut total =
        |ms: f64, op, start| d.access(at(ms), op, Extent::new(start, 1)).unwrap().total().0 / 1_000;
    assert_eq!(total(0.0, Op::Write, 0), 11_250);
    // Continues: data at 20.9 + 0.5, too late for sector 1 at 21.
    assert_eq!(total(20.0, Op::Write, 1), 12_250);
    // Elsewhere: data at 40.2 + 2.5 + 0.5, too late for sector 3 at 43.
    assert_eq!(total(40.0, Op::Write, 3), 14_750);
    // After a read the normal values apply.
    assert_eq!(total(60.0, Op::Read, 5), 6_500);
    assert_eq!(total(70.0, Op::Write, 7), 8_250);
}

#[test]
fn sectors_read_out_of_order_leave_in_order() {
    let mut d = zero_latency("reads", "segments = 0\nsegment_sectors = 1");
    // From 3.3 on inside sector 3 of 2 to 5: 4 and 5 pass at 4 to 6, 2 and 3 at 12 to 14. Sector 3
    // leaves at 14, then 4, 5.
    let a = read(&mut d, 3.0, 2, 4);
    assert_eq!(us(a), [1_800, 0, 700, 10_000, 12_500]);
}
