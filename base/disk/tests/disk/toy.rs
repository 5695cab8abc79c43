//! A toy disk with round numbers, small enough for computations by hand.
//!
//! 6000 rpm: a revolution is 10 ms. Two heads, switch 1 ms. The arm takes 2, 3, 4 ms for 1, 2, 3
//! cylinders; a write that moves anything settles 0.5 ms more. Two zones:
//!
//! | sectors | cylinders | per track | per sector | angle of first sectors (ms) |
//! |---|---|---|---|---|
//! | 0..40 | 0, 1 | 10 sectors | 1 ms | c0 h0: 0, c0 h1: 2, c1 h0: 5, c1 h1: 7 (skews 2 and 3) |
//! | 40..60 | 2, 3 | 5 sectors | 2 ms | c2 h0: 0, c2 h1: 2, c3 h0: 4, c3 h1: 6 (skews 1 and 1) |

use seekless_block::{Duration, Extent, Op, SimTime};
use seekless_disk::{Disk, DiskError, DiskSpec};

/// The toy disk as a specification.
pub(crate) const TOY: &str = r#"
name = "toy"
title = "Two zones, two heads, round numbers"
capacity_sectors = 60

[mechanics]
rpm = 6000
head_switch_ms = 1.0
write_settle_ms = 0.5

[seek]
kind = "table"
points = [[1, 2.0], [2, 3.0], [3, 4.0]]

[power]
seek_w = 14.0
rotation_transfer_w = 8.0
idle_w = 5.0

[geometry]
heads = 2

[[geometry.zone]]
first_cylinder = 0
cylinders = 2
sectors_per_track = 10
track_skew = 2
cylinder_skew = 3

[[geometry.zone]]
first_cylinder = 2
cylinders = 2
sectors_per_track = 5
track_skew = 1
cylinder_skew = 1

[[source]]
fields = ["capacity_sectors", "mechanics", "seek", "power", "geometry"]
kind = "derived"
from = "made up"
"#;

pub(crate) fn toy() -> Disk {
    Disk::new(&DiskSpec::parse("toy.toml", TOY).unwrap()).unwrap()
}

/// Start (ns), operation, first sector, sectors; then seek, rotation and transfer in microseconds.
type Line = (u64, Op, u64, u64, u64, u64, u64);

#[test]
fn twenty_requests_take_what_they_take_on_paper() {
    const R: Op = Op::Read;
    const W: Op = Op::Write;
    #[rustfmt::skip]
    let lines: [Line; 20] = [
        // 1. at 0: c0 h0 angle 0; arm 0, then platter 0: wait 0; 1x1; ends 1 on c0 h0.
        (0, R, 0, 1, 0, 0, 1000),
        // 2. at 1: c0 h0 angle 1; arm 0, then platter 1: wait 0; 2x1; ends 3 on c0 h0.
        (1000000, R, 1, 2, 0, 0, 2000),
        // 3. at 3: c0 h0 angle 0; arm 0, then platter 3: wait 7; 1x1; ends 11 on c0 h0.
        (3000000, R, 0, 1, 0, 7000, 1000),
        // 4. at 11: c0 h1 angle 2; arm 1, then platter 2: wait 0; 3x1; ends 15 on c0 h1.
        (11000000, R, 10, 3, 1000, 0, 3000),
        // 5. at 15: c0 h0 angle 8; arm 1, then platter 6: wait 2; 2x1, switch 1 wait 1, 2x1; ends
        // 24 on c0 h1.
        (15000000, R, 8, 4, 1000, 2000, 6000),
        // 6. at 24: c0 h1 angle 7; arm 0, then platter 4: wait 3; 1x1; ends 28 on c0 h1.
        (24000000, W, 15, 1, 0, 3000, 1000),
        // 7. at 28: c1 h0 angle 5; arm 2, then platter 0: wait 5; 10x1; ends 45 on c1 h0.
        (28000000, R, 20, 10, 2000, 5000, 10000),
        // 8. at 45: c1 h1 angle 5; arm 1, then platter 6: wait 9; 2x1, switch 2 wait 1, 2x2; ends
        // 64 on c2 h0.
        (45000000, R, 38, 4, 1000, 9000, 9000),
        // 9. at 64: c2 h0 angle 0; arm 0, then platter 4: wait 6; 5x2; ends 80 on c2 h0.
        (64000000, W, 40, 5, 0, 6000, 10000),
        // 10. at 80: c3 h1 angle 4; arm 2, then platter 2: wait 2; 1x2; ends 86 on c3 h1.
        (80000000, R, 59, 1, 2000, 2000, 2000),
        // 11. at 87.25: c0 h0 angle 0; arm 4.5, then platter 1.75: wait 8.25; 2x1; ends 102 on c0
        // h0.
        (87250000, W, 0, 2, 4500, 8250, 2000),
        // 12. at 102: c1 h0 angle 4; arm 2, then platter 4: wait 0; 1x1, switch 1 wait 1, 2x1; ends
        // 109 on c1 h1.
        (102000000, R, 29, 3, 2000, 0, 5000),
        // 13. at 109: c1 h0 angle 4; arm 1.5, then platter 0.5: wait 3.5; 1x1, switch 1.5 wait 0.5,
        // 2x1; ends 119 on c1 h1.
        (109000000, W, 29, 3, 1500, 3500, 5000),
        // 14. at 119: c3 h1 angle 2; arm 3, then platter 2: wait 0; 2x2; ends 126 on c3 h1.
        (119000000, R, 58, 2, 3000, 0, 4000),
        // 15. at 126: c0 h1 angle 0; arm 4.5, then platter 0.5: wait 9.5; 2x1, switch 2.5 wait 0.5,
        // 2x1; ends 147 on c1 h0.
        (126000000, W, 18, 4, 4500, 9500, 7000),
        // 16. at 152.5: c1 h0 angle 7; arm 0, then platter 2.5: wait 4.5; 1x1; ends 158 on c1 h0.
        (152500000, R, 22, 1, 0, 4500, 1000),
        // 17. at 158: c1 h0 angle 8; arm 0, then platter 8: wait 0; 7x1, switch 1 wait 1, 10x1;
        // ends 177 on c1 h1.
        (158000000, R, 23, 17, 0, 0, 19000),
        // 18. at 177: c2 h1 angle 2; arm 2.5, then platter 9.5: wait 2.5; 5x2, switch 2.5 wait 9.5,
        // 5x2, switch 1.5 wait 0.5, 5x2; ends 226 on c3 h1.
        (177000000, W, 45, 15, 2500, 2500, 44000),
        // 19. at 226: c0 h0 angle 0; arm 4, then platter 0: wait 0; 10x1, switch 1 wait 1, 10x1,
        // switch 2 wait 1, 10x1, switch 1 wait 1, 10x1, switch 2 wait 1, 5x2, switch 1 wait 1, 5x2,
        // switch 2 wait 0, 5x2, switch 1 wait 1, 5x2; ends 326 on c3 h1.
        (226000000, R, 0, 60, 4000, 0, 96000),
        // 20. at 329.75: c1 h1 angle 0; arm 3.5, then platter 3.25: wait 6.75; 7x1; ends 347 on c1
        // h1.
        (329750000, W, 33, 7, 3500, 6750, 7000),
    ];
    let mut disk = toy();
    for (i, (at, op, start, len, seek, rotation, transfer)) in lines.into_iter().enumerate() {
        let extent = Extent::new(start, len);
        let expected = [seek, rotation, transfer].map(Duration::from_micros);
        let predicted = disk.positioning(SimTime(at), op, extent).unwrap();
        let a = disk.access(SimTime(at), op, extent).unwrap();
        assert_eq!([a.seek, a.rotation, a.transfer], expected, "request {}", i + 1);
        assert_eq!(predicted, a.seek + a.rotation, "request {}", i + 1);
        assert_eq!(disk.next_sequential(), extent.end());
    }
}

#[test]
fn an_access_after_the_end_is_an_error_and_moves_nothing() {
    let mut disk = toy();
    disk.access(SimTime(0), Op::Read, Extent::new(50, 2)).unwrap();
    let before = (disk.arm(), disk.next_sequential());
    for extent in
        [Extent::new(60, 1), Extent::new(59, 2), Extent::new(0, 61), Extent::new(u64::MAX, 1)]
    {
        let error = disk.access(SimTime(7), Op::Write, extent).unwrap_err();
        assert_eq!(error, DiskError::PastEnd { extent, capacity: disk.capacity() });
        assert!(error.to_string().contains("60 sectors"), "{error}");
        assert!(disk.positioning(SimTime(7), Op::Read, extent).is_err());
        assert_eq!((disk.arm(), disk.next_sequential()), before);
    }
    assert!(disk.access(SimTime(7), Op::Read, Extent::new(59, 1)).is_ok());
}

#[test]
fn discard_and_flush_take_no_time_and_zeroes_are_written() {
    let mut disk = toy();
    let at = SimTime(1_234_567);
    for (op, extent) in [
        (Op::Discard, Extent::new(40, 9)),
        (Op::Flush, Extent::new(0, 0)),
        (Op::Read, Extent::new(60, 0)),
    ] {
        assert_eq!(disk.access(at, op, extent).unwrap().total(), Duration::ZERO);
        assert_eq!(disk.arm(), (0, 0));
    }
    let written = disk.clone().access(at, Op::Write, Extent::new(41, 12)).unwrap();
    let zeroed = disk.access(at, Op::WriteZeroes, Extent::new(41, 12)).unwrap();
    assert_eq!(written, zeroed);
}

#[test]
fn energy_is_fs2s_formula_to_the_picojoule() {
    let mut disk = toy();
    let mut sum = 0;
    for (at, start, len) in [(3u64, 55u64, 3u64), (90_000_000, 0, 40), (700_000_001, 31, 1)] {
        let a = disk.access(SimTime(at), Op::Read, Extent::new(start, len)).unwrap();
        let e = disk.energy(&a);
        // E_A = T_s P_s + (T_r + T_t) P_i, in milliwatts and nanoseconds.
        let by_hand =
            u128::from(a.seek.0) * 14_000 + u128::from(a.rotation.0 + a.transfer.0) * 8_000;
        assert_eq!(e.total().0, by_hand);
        assert_eq!(e.seek.0, u128::from(a.seek.0) * 14_000);
        assert_eq!(e.idle.0, 0);
        sum += by_hand;
    }
    assert!(sum > 0);
}
