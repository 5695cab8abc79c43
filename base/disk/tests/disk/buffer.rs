//! Controller and buffer on the toy disk, computed by hand.
//!
//! The toy's sectors pass in 1 ms (outer zone) and 2 ms (inner zone). Here the interface takes 0.5
//! ms per sector, a hit costs 0.1 ms (0.2 after a write), a miss 0.3 (0.4), an accepted write 0.6
//! (0.7), and a write to the platter 0.8 (0.9).

use proptest::prelude::*;
use seekless_block::{Duration, Extent, Flags, Op, SimTime};
use seekless_disk::{Access, Command, Disk, DiskSpec, Drive, Scheduler};

use crate::toy::TOY;

fn disk(more: &str) -> Disk {
    disk_at(more, "rpm = 6000")
}

fn disk_at(more: &str, rpm: &str) -> Disk {
    let controller = format!(
        "[controller]\nbus_sector_ms = [0.5, 0.5]\nread_hit_ms = [0.1, 0.2]\nread_miss_ms = [0.3, 0.4]\n\
         write_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]\n{more}\n[geometry]\n"
    );
    let text = TOY
        .replace("[geometry]\n", &controller)
        .replace("rpm = 6000", rpm)
        .replace("\"geometry\"]", "\"geometry\", \"controller\"]");
    Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
}

/// A disk that writes back, reads ahead, and can spin down.
pub(crate) fn disk_with_own_work() -> Disk {
    let controller = "[controller]\nbus_sector_ms = [0.5, 0.5]\nread_hit_ms = [0.1, 0.2]\nread_miss_ms = [0.3, 0.4]\n\
         write_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]\nsegments = 3\nsegment_sectors = 8\n\
         read_ahead = \"segment\"\nread_ahead_sectors = 4\nwrite_back = \"all\"\nwrite_segments = 2\n\
         [geometry]\n";
    let text = TOY
        .replace("[geometry]\n", controller)
        .replace(
            "idle_w = 5.0\n",
            "idle_w = 5.0\nstandby_w = 1.0\nspin_up_s = 0.5\nspin_up_w = 20.0\n",
        )
        .replace("\"geometry\"]", "\"geometry\", \"controller\"]");
    Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
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
    assert_eq!(
        us(d.access(at(0.0), Op::Read, Extent::new(4, 3)).unwrap()),
        [800, 0, 3_700, 3_000, 7_500]
    );
    // The same read again: 0.1 + 3 x 0.5.
    assert_eq!(
        us(d.access(at(20.0), Op::Read, Extent::new(4, 3)).unwrap()),
        [1_600, 0, 0, 0, 1_600]
    );
    // 5 to 8: 5 and 6 are in the buffer. Overhead 0.3 for the rest: at 30.3; sector 7 arrives at
    // 37: wait 6.7; 9 has passed at 39. Then 0.5 more: 39.5.
    assert_eq!(
        us(d.access(at(30.0), Op::Read, Extent::new(5, 4)).unwrap()),
        [800, 0, 6_700, 2_000, 9_500]
    );
}

#[test]
fn a_slow_interface_streams_behind_the_platter() {
    // 2 ms per sector over the interface: the first of 3 has passed at 5 ms, the last leaves 6 ms
    // later.
    let mut d = disk(&format!("{SEGMENTS}\nread_end_ms = 0.25"));
    d = {
        drop(d);
        let text = TOY.replace(
            "[geometry]\n",
            "[controller]\nbus_sector_ms = [2.0, 2.0]\nread_hit_ms = [0, 0]\nread_miss_ms = [0, 0]\nwrite_hit_ms = [0, 0]\n\
             write_miss_ms = [0, 0]\nsegments = 0\nsegment_sectors = 1\nread_end_ms = 0.25\n[geometry]\n",
        );
        let text = text.replace("\"geometry\"]", "\"geometry\", \"controller\"]");
        Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
    };
    let a = d.access(at(0.0), Op::Read, Extent::new(4, 3)).unwrap();
    assert_eq!(us(a), [4_250, 0, 4_000, 3_000, 11_250]);
    // A write must not be faster than the interface: sector 4 has arrived at 22 ms and is written
    // from 24; sector 5 arrives at 24 and is written from 25; 6 has arrived at 26, in time; 7
    // arrives at 28 but would pass at 27: it waits until 37.
    let a = d.access(at(20.0), Op::Write, Extent::new(4, 4)).unwrap();
    assert_eq!(us(a), [0, 0, 4_000, 14_000, 18_000]);
}

#[test]
fn read_ahead_advances_with_time() {
    let mut d = disk(AHEAD);
    // Overhead 0.3: sector 0 has passed by then, and returns at 10 ms. Then 1 to 4 pass by 15 ms.
    d.access(at(0.0), Op::Read, Extent::new(0, 1)).unwrap();
    // At 13.5 sectors 1 and 2 have passed completely: a hit.
    let mut early = d.clone();
    assert_eq!(
        us(early.access(at(13.5), Op::Read, Extent::new(1, 2)).unwrap()),
        [1_100, 0, 0, 0, 1_100]
    );
    // At 12.5 half of sector 2 has passed: it arrives at 13 and leaves by 13.5; the interface alone
    // would take until 13.6.
    let mut within = d.clone();
    let a = within.access(at(12.5), Op::Read, Extent::new(1, 2)).unwrap();
    assert_eq!(us(a), [600, 0, 0, 500, 1_100]);
    // At 50 it has stopped after 4 sectors; 5 is a miss.
    assert_eq!(us(d.access(at(50.0), Op::Read, Extent::new(1, 4)).unwrap())[4], 2_100);
    let a = d.access(at(60.0), Op::Read, Extent::new(5, 1)).unwrap();
    assert_eq!(
        (a.rotation, a.transfer),
        (Duration::from_micros(4_700), Duration::from_micros(1_000))
    );
    assert_eq!(a.behind_rotation_transfer, Duration::ZERO);
}

#[test]
fn a_read_that_continues_at_the_head_loses_no_revolution() {
    let mut d = disk(AHEAD);
    // 4 and 5 have passed at 6 ms and left at 6.5. The next read is already in the queue, and the
    // head is inside sector 6 then; 6 and 7 have passed at 8 and left at 8.5.
    assert_eq!(d.access(at(0.0), Op::Read, Extent::new(4, 2)).unwrap().total().0, 6_500_000);
    assert_eq!(d.access(at(6.5), Op::Read, Extent::new(6, 2)).unwrap().total().0, 2_000_000);
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
        d.access(at(0.0), Op::Read, Extent::new(0, 1)).unwrap();
        let hit = us(d.clone().access(at(30.0), Op::Read, Extent::new(6, 4)).unwrap());
        assert_eq!(hit, [2_100, 0, 0, 0, 2_100]);
        // The sectors directly after the request are gone: at 30.3, 0.7 to sector 1, which leaves
        // at 32.5.
        let miss = us(d.access(at(30.0), Op::Read, Extent::new(1, 1)).unwrap());
        assert_eq!(miss, [800, 0, 700, 1_000, 2_500]);
    }
    // A read over the end of a track reads the next as far as the segment has space, and no
    // further: sectors 8 to 15.
    let mut d = ahead(false, 8);
    d.access(at(0.0), Op::Read, Extent::new(8, 4)).unwrap();
    let all = d.clone().access(at(60.0), Op::Read, Extent::new(12, 4)).unwrap();
    assert_eq!(us(all), [2_100, 0, 0, 0, 2_100]);
}

#[test]
fn a_new_command_stops_read_ahead_at_the_end_of_a_sector() {
    let mut d = disk(AHEAD);
    d.access(at(0.0), Op::Read, Extent::new(0, 1)).unwrap();
    // At 12.2 + 0.3 the head is inside sector 2 until 13.0; then 2 ms to cylinder 1 and on to
    // sector 23 (angle 8).
    let a = d.access(at(12.2), Op::Read, Extent::new(23, 1)).unwrap();
    assert_eq!(us(a), [1_300, 2_000, 3_000, 1_000, 7_300]);
    // The drive read 1 and 2 by itself: 11 to 13.
    assert_eq!(a.behind_rotation_transfer, Duration::from_micros(2_000));
    // Both segments are in use: the older one, sectors 0 to 2, is reused for the next miss.
    assert_eq!(us(d.access(at(40.0), Op::Read, Extent::new(0, 3)).unwrap())[4], 1_600);
    d.access(at(60.0), Op::Read, Extent::new(50, 1)).unwrap();
    assert!(d.access(at(100.0), Op::Read, Extent::new(23, 1)).unwrap().transfer > Duration::ZERO);
}

#[test]
fn a_disk_can_settle_again_for_each_command() {
    let mut d = disk(&format!("{SEGMENTS}\nsettle_ms = 2.0"));
    // On its own track the arm is ready only at 2 ms: sector 2 is reached, sector 1 would not be.
    assert_eq!(
        us(d.access(at(0.0), Op::Read, Extent::new(2, 1)).unwrap()),
        [2_500, 0, 0, 1_000, 3_500]
    );
    assert_eq!(us(d.access(at(20.0), Op::Read, Extent::new(1, 1)).unwrap())[4], 12_500);
    // A seek of 3 ms to cylinder 2 takes longer anyway: overhead 0.3, arrival at 43.3.
    assert_eq!(
        us(d.access(at(40.0), Op::Read, Extent::new(40, 1)).unwrap()),
        [800, 3_000, 6_700, 2_000, 12_500]
    );
}

#[test]
fn reads_on_arrival_take_the_whole_track() {
    let text = "segments = 2\nsegment_sectors = 10";
    let spec = |zero: &str| {
        let d = disk(text);
        drop(d);
        let controller = format!(
            "[controller]\nbus_sector_ms = [0.5, 0.5]\nread_hit_ms = [0.1, 0.2]\nread_miss_ms = [0.3, 0.4]\n\
             write_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]\n{text}\n[geometry]\n"
        );
        let text = TOY
            .replace("[geometry]\n", &controller)
            .replace("\"geometry\"]", "\"geometry\", \"controller\"]")
            .replace("rpm = 6000", &format!("rpm = 6000\nzero_latency = \"{zero}\""));
        Disk::new(&DiskSpec::parse("toy.toml", &text).unwrap()).unwrap()
    };
    let mut d = spec("reads");
    // At 4.3 the head is inside sectors 2 to 8: from the edge of 5 one revolution, to 15.0.
    let a = d.access(at(4.0), Op::Read, Extent::new(2, 7)).unwrap();
    assert_eq!(
        (a.rotation, a.transfer),
        (Duration::from_micros(700), Duration::from_micros(10_000))
    );
    // The revolution has read the rest of the track: sector 0 is in the buffer.
    assert_eq!(
        us(d.access(at(30.0), Op::Read, Extent::new(0, 2)).unwrap()),
        [1_100, 0, 0, 0, 1_100]
    );
    // A write waits for its first sector, unless writes can start anywhere too.
    let a = d.access(at(44.0), Op::Write, Extent::new(2, 7)).unwrap();
    assert_eq!(
        (a.rotation, a.transfer),
        (Duration::from_micros(7_200), Duration::from_micros(7_000))
    );
    let a = spec("all").access(at(44.0), Op::Write, Extent::new(2, 7)).unwrap();
    assert_eq!(a.transfer, Duration::from_micros(10_000));
}

const BACK: &str =
    "segments = 2\nsegment_sectors = 8\nwrite_back = \"all\"\nreads_hit_writes = true";

#[test]
fn an_accepted_write_ends_early_and_keeps_the_arm_busy() {
    let mut d = disk(BACK);
    // 0.6 + 2 x 0.5; the platter follows: sector 5 arrives at 5, 7 has passed at 7.
    let a = d.access(at(0.0), Op::Write, Extent::new(5, 2)).unwrap();
    assert_eq!(us(a), [1_600, 0, 0, 0, 1_600]);
    assert_eq!(
        (a.behind_seek, a.behind_rotation_transfer),
        (Duration::ZERO, Duration::from_micros(6_400))
    );
    let e = d.energy(&a);
    assert_eq!(e.rotation_transfer.0, 8_000 * (1_600_000 + 6_400_000));
    // Written data is read from the buffer, after a write: 0.2 + 0.5.
    assert_eq!(us(d.clone().access(at(2.0), Op::Read, Extent::new(6, 1)).unwrap())[4], 700);
    // Another read waits for the arm until 7.
    let a = d.clone().access(at(2.0), Op::Read, Extent::new(8, 1)).unwrap();
    assert_eq!(us(a), [5_500, 0, 1_000, 1_000, 7_500]);
    // So does a flush. A second write has no free segment and is accepted at 7.
    assert_eq!(us(d.clone().access(at(2.0), Op::Flush, Extent::new(0, 0)).unwrap())[4], 5_000);
    assert_eq!(us(d.clone().access(at(9.0), Op::Flush, Extent::new(0, 0)).unwrap())[4], 0);
    assert_eq!(us(d.clone().access(at(2.0), Op::Write, Extent::new(30, 1)).unwrap())[4], 5_500);
    // With FUA a write ends on the platter: 0.9 after the one before; its data has arrived by 21.4,
    // the sector at 22.
    let a = d.access_with(at(20.0), Op::Write, Extent::new(2, 1), Flags::FUA).unwrap();
    assert_eq!(us(a), [900, 0, 1_100, 1_000, 3_000]);
}

#[test]
fn consecutive_writes_share_a_segment() {
    let one = BACK.replace("all", "one_stream");
    let mut d = disk(&one);
    d.access(at(0.0), Op::Write, Extent::new(5, 2)).unwrap();
    // It continues at the end of the waiting write: accepted at once, and the head loses no
    // revolution (7 to 8 ms).
    let a = d.clone().access(at(2.0), Op::Write, Extent::new(7, 1)).unwrap();
    assert_eq!(us(a)[4], 1_200);
    assert_eq!(a.behind_rotation_transfer, Duration::from_micros(1_000));
    // Elsewhere it ends on the platter: 0.9, the arm at 7, one head over and settled at 8.5, sector
    // 17 (angle 9).
    let a = d.access(at(2.0), Op::Write, Extent::new(17, 1)).unwrap();
    assert_eq!(us(a), [5_000, 1_500, 500, 1_000, 8_000]);
}

#[test]
fn a_flush_in_the_queue_waits_for_accepted_writes() {
    let mut drive = Drive::new(disk(BACK), Scheduler::Sptf);
    let command = |tag, op, start, len| Command::new(tag, op, Extent::new(start, len));
    drive.submit(at(0.0), command(1, Op::Write, 5, 2)).unwrap();
    drive.submit(at(0.0), command(2, Op::Flush, 0, 0)).unwrap();
    drive.submit(at(0.0), command(3, Op::Discard, 0, 9)).unwrap();
    let mut ends = Vec::new();
    while let Some(t) = drive.next_event() {
        ends.extend(drive.poll(t).map(|c| (c.tag, c.finished)));
    }
    assert_eq!(ends, [(3, at(0.0)), (1, at(1.6)), (2, at(7.0))]);
}

#[test]
fn a_write_invalidates_older_copies_in_the_buffer() {
    let mut d = disk(SEGMENTS);
    d.access(at(0.0), Op::Read, Extent::new(4, 3)).unwrap();
    d.access(at(20.0), Op::Write, Extent::new(6, 1)).unwrap();
    let a = d.access(at(40.0), Op::Read, Extent::new(4, 1)).unwrap();
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
                "[controller]\nbus_sector_ms = [{bus}, {bus}]\nread_hit_ms = [0.1, 0.2]\nread_miss_ms = [0.3, 0.4]\n\
                 write_hit_ms = [0.6, 0.7]\nwrite_miss_ms = [0.8, 0.9]\nsettle_ms = {}\nread_watermark = {}\n\
                 write_seek_ms = {bus}\nwrite_gather_sectors = [{most}, 9]\n\
                 write_elsewhere = {{ miss_ms = {bus}, data_ms = 1.5, end_ms = 0.1 }}\n\
                 segments = {segments}\nsegment_sectors = {size}\nread_ahead = \"{}\"\nread_ahead_sectors = {most}\n\
                 write_back = \"{}\"\nwrite_segments = {writes}\nown_write_segment = {}\nread_ahead_over_requested = {}\n\
                 read_ahead_on_hit = {}\nread_ahead_stops_in_sector = {}\nreads_hit_writes = {}\n[geometry]\n",
                bus / 2.0, f64::from(mark) / 4.0, ahead[a], back[b], f.0, f.1, f.2, f.3, f.4
            );
            let zero = ["none", "reads", "all"][(segments as usize + a) % 3];
            let text = TOY
                .replace("[geometry]\n", &text)
                .replace("\"geometry\"]", "\"geometry\", \"controller\"]")
                .replace("rpm = 6000", &format!("rpm = 6000\nzero_latency = \"{zero}\""));
            Disk::new(&DiskSpec::parse("any.toml", &text).unwrap()).unwrap()
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
    let a = d.access(at(0.0), Op::Write, Extent::new(2, 2)).unwrap();
    assert_eq!(us(a), [1_050, 0, 11_200, 2_000, 14_250]);
}

#[test]
fn a_write_starts_when_enough_of_it_has_arrived() {
    let gather = |n: u32| {
        disk(&format!("segments = 0\nsegment_sectors = 1\nwrite_gather_sectors = [{n}, 0]"))
    };
    let write = |n, len| gather(n).access(at(0.0), Op::Write, Extent::new(2, len)).unwrap();
    // Two sectors have arrived at 1.8, before sector 2 passes at 2; three at 2.3: next at 12.
    assert_eq!(us(write(2, 4)), [800, 0, 1_200, 4_000, 6_000]);
    assert_eq!(us(write(3, 4)), [800, 0, 11_200, 4_000, 16_000]);
    // At most as many as there are.
    assert_eq!(us(write(3, 1)), [800, 0, 1_200, 1_000, 3_000]);
}

#[test]
fn a_writes_first_movement_has_a_minimum_time() {
    let mut d = disk("segments = 0\nsegment_sectors = 1\nwrite_seek_ms = 1.5");
    // On the track at 0.8 + 1.5, when sector 2 has passed.
    let a = d.access(at(0.0), Op::Write, Extent::new(2, 1)).unwrap();
    assert_eq!(us(a), [2_300, 0, 9_700, 1_000, 13_000]);
    // A longer movement is not extended.
    let mut far = disk("segments = 0\nsegment_sectors = 1\nwrite_seek_ms = 0.01");
    let mut free = disk("segments = 0\nsegment_sectors = 1");
    let last = Extent::new(50, 1);
    assert_eq!(far.access(at(0.0), Op::Write, last), free.access(at(0.0), Op::Write, last));
    // A read has no minimum.
    let a = d.access(at(20.0), Op::Read, Extent::new(2, 1)).unwrap();
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
    let mut d =
        disk_at("segments = 0\nsegment_sectors = 1", "rpm = 6000\nzero_latency = \"reads\"");
    // From 3.3 on inside sector 3 of 2 to 5: 4 and 5 pass at 4 to 6, 2 and 3 at 12 to 14. Sector 3
    // leaves at 14, then 4, 5.
    let a = d.access(at(3.0), Op::Read, Extent::new(2, 4)).unwrap();
    assert_eq!(us(a), [1_800, 0, 700, 10_000, 12_500]);
}
