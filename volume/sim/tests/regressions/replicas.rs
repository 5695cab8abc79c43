//! Histories with replicas in discarded pages.

use super::*;

/// A record sent during a checkpoint names an older tail than the superblock. Entries before the
/// newer tail do not come back.
#[test]
fn an_older_tail_in_the_log_brings_nothing_back() {
    let steps = vec![
        put(220, 16),
        put(110, 2),
        put(188, 56),
        HistoryStep::Ask { op: Op::Write, start: 4, len: 8, fua: true },
        HistoryStep::Ask { op: Op::Discard, start: 108, len: 32, fua: false },
        HistoryStep::Settle(11_296_791_047_197_221_015),
        HistoryStep::Repeat(3),
        HistoryStep::Settle(6_968_010_622_243_367_218),
        HistoryStep::Crash { choice: 10_462_587_185_068_127_645, again: vec![11] },
        put(28, 24),
        HistoryStep::Replicate(vec![(14, vec![(4, 3)]), (16, vec![(27, 1)])]),
        HistoryStep::Ask { op: Op::Read, start: 29, len: 2, fua: false },
        HistoryStep::Execute(4),
        put(23, 4),
        put(23, 4),
        FLUSH,
        HistoryStep::Repeat(3),
        put(12, 80),
        HistoryStep::Settle(2_339_556_393_551_815_742),
        put(36, 12),
        HistoryStep::Execute(56),
        FLUSH,
        HistoryStep::Execute(28),
    ];
    let history = History { steps, ..History::with_replicas(37) };
    held(&history, &[5_376_942_182_401_617_089]);
}

/// A page is written and absorbed while a round is about to call it free. No record behind a
/// checkpoint calls it free.
#[test]
fn a_page_that_is_written_is_not_called_free_any_more() {
    let steps = vec![
        HistoryStep::Ask { op: Op::Discard, start: 101, len: 23, fua: true },
        HistoryStep::Ask { op: Op::Read, start: 73, len: 22, fua: false },
        HistoryStep::Replicate(vec![(0, vec![(2, 3), (26, 1), (4, 3)])]),
        HistoryStep::Execute(3),
        HistoryStep::Ask { op: Op::Write, start: 142, len: 64, fua: true },
        HistoryStep::Replicate(vec![(0, vec![(21, 3), (6, 2), (10, 2)]), (0, vec![(5, 3)])]),
        HistoryStep::Execute(60),
        HistoryStep::Replicate(vec![(9, vec![(20, 1), (1, 2), (7, 2)]), (0, vec![(1, 2), (0, 2)])]),
        HistoryStep::Ask { op: Op::Discard, start: 78, len: 8, fua: false },
        HistoryStep::Replicate(vec![(0, vec![(26, 1), (7, 2)]), (0, vec![(20, 1)])]),
        HistoryStep::Install(vec![
            (110, 16, 0),
            (190, 16, 0),
            (110, 8, 16),
            (94, 24, 0),
            (110, 24, 8),
            (30, 24, 16),
            (110, 24, 8),
            (110, 8, 0),
        ]),
        HistoryStep::Execute(12),
        HistoryStep::Ask { op: Op::Write, start: 107, len: 12, fua: true },
        HistoryStep::Ask { op: Op::Discard, start: 102, len: 32, fua: false },
        HistoryStep::Ask { op: Op::Discard, start: 86, len: 128, fua: false },
        HistoryStep::Ask { op: Op::Write, start: 110, len: 8, fua: false },
        HistoryStep::Execute(26),
        HistoryStep::Ask { op: Op::Discard, start: 182, len: 40, fua: false },
        HistoryStep::Execute(34),
        HistoryStep::Replicate(vec![(25, vec![(8, 1)]), (22, vec![(16, 2), (17, 1), (9, 1)])]),
        HistoryStep::Ask { op: Op::Discard, start: 78, len: 56, fua: false },
        HistoryStep::Ask { op: Op::Read, start: 90, len: 38, fua: false },
        HistoryStep::Ask { op: Op::Discard, start: 101, len: 5, fua: false },
        HistoryStep::Ask { op: Op::Read, start: 111, len: 37, fua: false },
        HistoryStep::Ask { op: Op::Write, start: 78, len: 32, fua: false },
        HistoryStep::Ask { op: Op::Discard, start: 119, len: 2, fua: true },
        HistoryStep::Repeat(0),
        HistoryStep::Ask { op: Op::Discard, start: 70, len: 24, fua: false },
        HistoryStep::Replicate(vec![
            (20, vec![(3, 3), (8, 1), (20, 3)]),
            (23, vec![(7, 1), (23, 1)]),
        ]),
        HistoryStep::Repeat(2),
        HistoryStep::Settle(566409539458823013),
    ];
    let history = History { steps, ..History::with_replicas(85_000_035) };
    held(&history, &[1]);
}

/// A page is written while a round is about to call it stained. It is not absorbed before the area
/// knows that it is used. Otherwise the record that calls it stained would come after its data:
/// after a crash reads would find the log's data, and zeroes after its destage.
#[test]
fn a_page_that_is_about_to_be_called_stained_is_not_absorbed() {
    let steps = vec![
        HistoryStep::Ask { op: Op::Discard, start: 52, len: 136, fua: false },
        HistoryStep::Ask { op: Op::Discard, start: 84, len: 104, fua: true },
        HistoryStep::Replicate(vec![
            (19, vec![(17, 3), (35, 3)]),
            (16, vec![(19, 1), (6, 2), (0, 2)]),
        ]),
        HistoryStep::Execute(15),
        write(52, 24),
        HistoryStep::Execute(24),
        write(76, 56),
        write(60, 40),
        HistoryStep::Replicate(vec![(8, vec![(32, 1)])]),
        HistoryStep::Ask { op: Op::Discard, start: 159, len: 17, fua: false },
        HistoryStep::Replicate(vec![(6, vec![(37, 2)]), (18, vec![(21, 1), (13, 3), (10, 3)])]),
        HistoryStep::Settle(5_648_348_424_458_152_421),
    ];
    let history = History { steps, ..History::with_replicas(209_000_048) };
    held(&history, &[10_232_971_874_912_810_759]);
}

/// A write waits for its region to be open. Meanwhile the stained page beside it is cleaned once,
/// not all the time.
#[test]
fn a_page_that_a_waiting_write_takes_is_cleaned_once() {
    let steps = vec![
        HistoryStep::Ask { op: Op::Discard, start: 76, len: 160, fua: false },
        HistoryStep::Execute(14),
        HistoryStep::Replicate(vec![(12, vec![(35, 3), (32, 2), (27, 3)]), (27, vec![(31, 3)])]),
        HistoryStep::Ask { op: Op::Discard, start: 308, len: 16, fua: true },
        HistoryStep::Replicate(vec![(1, vec![(37, 1), (36, 3), (15, 2)])]),
        HistoryStep::Slow(Some(Slow::Writes(Target::Area))),
        HistoryStep::Ask { op: Op::Discard, start: 4, len: 64, fua: false },
        HistoryStep::Settle(15_734_564_667_299_840_665),
        HistoryStep::Ask { op: Op::Write, start: 20, len: 16, fua: true },
        HistoryStep::Withdraw,
        HistoryStep::Restart(None),
    ];
    let history = History { steps, ..History::with_replicas(210_000_017) };
    held(&history, &[]);
}

/// A write waits for zeroes beside it. Meanwhile no page of the write buffer is written over it.
#[test]
fn a_page_does_not_come_home_over_a_write_that_waits_for_zeroes() {
    let steps = vec![
        discard(320, 112),
        HistoryStep::Ask { op: Op::Discard, start: 0, len: 112, fua: true },
        put(264, 24),
        put(170, 11),
        discard(160, 128),
        discard(32, 96),
        HistoryStep::Settle(9_548_198_960_265_090_940),
        HistoryStep::Replicate(vec![(12, vec![(12, 3), (48, 3)]), (14, vec![(34, 2), (8, 2)])]),
        put(128, 24),
        HistoryStep::Settle(1_491_235_560_334_588_173),
    ];
    let history = History { steps, ..History::with_replicas(2_126_000_084) };
    held(&history, &[864_099_757_172_742_244]);
}

/// Replicas are withdrawn once no page is stained, and no discard in flight can make a page stained
/// again.
#[test]
fn a_discard_under_way_does_not_outlast_a_withdrawal() {
    let steps = vec![
        discard(0, 64),
        HistoryStep::Settle(10_724_723_992_646_800_253),
        HistoryStep::Replicate(vec![(3, vec![(15, 1)])]),
        put(8, 24),
        HistoryStep::Withdraw,
        HistoryStep::Drain,
        HistoryStep::Mode(Mode::WriteThrough),
        put(32, 72),
        HistoryStep::Settle(13_584_425_468_748_455_160),
        discard(0, 88),
        HistoryStep::Restart(Some((32, 20))),
    ];
    held(&History { steps, ..History::with_replicas(2_003_000_059) }, &[]);
}

/// A page that never held a replica is not stained, whatever the client does while the area learns
/// that the page is free. After a withdrawal nobody would clean it.
#[test]
fn a_page_that_is_written_and_discarded_while_it_is_called_free_is_not_stained() {
    let fua = |op, start, len| HistoryStep::Ask { op, start, len, fua: true };
    let steps = vec![
        discard(213, 22),
        put(240, 16),
        discard(216, 32),
        put(210, 11),
        discard(240, 56),
        HistoryStep::Install(vec![
            (224, 24, 0),
            (208, 24, 0),
            (144, 24, 0),
            (224, 16, 0),
            (200, 16, 8),
            (264, 8, 0),
            (24, 24, 16),
        ]),
        discard(249, 1),
        fua(Op::Discard, 241, 11),
        fua(Op::Write, 240, 16),
        HistoryStep::Execute(34),
        discard(208, 104),
        discard(208, 96),
        HistoryStep::Execute(30),
        HistoryStep::Execute(24),
        HistoryStep::Mode(Mode::WriteBack),
        discard(208, 104),
        HistoryStep::Restart(Some((242, 10))),
    ];
    held(&History { steps, ..History::with_replicas(9_602_000_046) }, &[]);
}

/// Replicas that the area cannot record make way for the checkpoint that repairs its log.
#[test]
fn a_log_that_failed_under_replicas_goes_on() {
    let broken = |op, left| HistoryStep::Break(Fault { target: Target::Area, op, left });
    let steps = vec![
        discard(23, 120),
        HistoryStep::Execute(9),
        broken(Op::Write, Some(7)),
        HistoryStep::Pass,
        HistoryStep::Replicate(vec![(7, vec![(17, 3)])]),
        broken(Op::Read, None),
        HistoryStep::Heal,
    ];
    held(&History { steps, ..History::with_faults(2_105_000_015, true) }, &[]);
}

/// A region that one round could not open is opened by the next. A write that waits meanwhile goes
/// on then, or fails.
#[test]
fn who_waits_for_a_region_goes_on_whichever_round_tells_of_it() {
    let steps = vec![
        HistoryStep::Ask { op: Op::Write, start: 191, len: 8, fua: true },
        HistoryStep::Restart(Some((166, 20))),
        discard(191, 8),
        HistoryStep::Execute(62),
        HistoryStep::Repeat(0),
        FLUSH,
        HistoryStep::Break(Fault { target: Target::Area, op: Op::Flush, left: None }),
        HistoryStep::Execute(49),
        HistoryStep::Execute(7),
        HistoryStep::Execute(60),
        put(185, 15),
        HistoryStep::Heal,
    ];
    held(&History { steps, ..History::with_faults(2_420_000_062, true) }, &[]);
}

/// A page that the area may call free does not count as stained, even if a record of its cleaning
/// was on the way.
#[test]
fn what_the_area_may_take_for_clean_does_not_count_as_stained() {
    let steps = vec![
        HistoryStep::Drain,
        HistoryStep::Replicate(vec![(22, vec![(14, 3), (9, 2)])]),
        discard(124, 80),
        HistoryStep::Heal,
        HistoryStep::Withdraw,
        HistoryStep::Break(Fault { target: Target::Area, op: Op::Write, left: None }),
        HistoryStep::Settle(5_441_029_808_904_492_466),
        put(202, 5),
        HistoryStep::Execute(0),
    ];
    let history = History { steps, ..History::with_faults(2_660_000_237, true) };
    held(&history, &[47_584_624_101_050_292]);
}

/// No write waits for ever if the area cannot record that zeroes replaced replicas. This is for a
/// closed region. For an open one see the unit test
/// `a_write_fails_where_the_area_cannot_be_told_of_zeroes` of the free map.
#[test]
fn nobody_waits_for_what_the_area_cannot_be_told_of_zeroes() {
    let sides = vec![(18, vec![(17, 1), (17, 3), (15, 3)]), (1, vec![(20, 2), (19, 1), (15, 3)])];
    let steps = vec![
        discard(191, 8),
        discard(151, 40),
        HistoryStep::Execute(16),
        HistoryStep::Execute(26),
        HistoryStep::Replicate(sides),
        HistoryStep::Break(Fault { target: Target::Area, op: Op::Flush, left: None }),
        HistoryStep::Withdraw,
        put(191, 8),
        HistoryStep::Settle(3_178_339_877_995_524_214),
        put(159, 8),
        HistoryStep::Heal,
    ];
    held(&History { steps, ..History::with_faults(2_420_000_062, true) }, &[]);
}

/// Replicas stay if home takes no zeroes, and the engine names its trouble.
#[test]
fn a_withdrawal_that_home_keeps_says_so() {
    let steps = vec![
        HistoryStep::Ask { op: Op::Discard, start: 144, len: 104, fua: true },
        HistoryStep::Execute(43),
        HistoryStep::Break(Fault { target: Target::Home, op: Op::Write, left: None }),
        HistoryStep::Replicate(vec![(20, vec![(22, 1), (0, 3), (19, 3)])]),
        HistoryStep::Execute(52),
        HistoryStep::Withdraw,
        HistoryStep::Heal,
    ];
    held(&History { steps, ..History::with_faults(2_400_000_018, true) }, &[]);
}

/// No request waits for a full log if the checkpoint that would make space fails.
#[test]
fn nobody_waits_for_a_full_log_that_cannot_go_on() {
    let broken = |op| HistoryStep::Break(Fault { target: Target::Area, op, left: None });
    let steps = vec![
        discard(80, 128),
        put(56, 112),
        HistoryStep::Execute(9),
        broken(Op::Flush),
        HistoryStep::Withdraw,
        HistoryStep::Restart(None),
        put(176, 24),
        broken(Op::Write),
        HistoryStep::Heal,
    ];
    held(&History { steps, ..History::with_faults(2_201_000_051, true) }, &[]);
}

/// A write to a discarded page failed. Its remains are what a read returns: before a crash, after
/// it, and from bare home.
#[test]
fn a_discarded_page_whose_write_failed_is_read_as_home_has_it() {
    let steps = vec![
        discard(23, 72),
        HistoryStep::Execute(14),
        HistoryStep::Break(Fault { target: Target::Home, op: Op::Write, left: None }),
        put(23, 104),
        HistoryStep::Heal,
    ];
    let history = History { steps, ..History::with_faults(2_101_000_020, true) };
    held(&history, &[6_679_661_146_299_608_871]);
}

/// A page whose staining the area could not record is written only once the area knows that its
/// region is open.
#[test]
fn what_the_area_was_not_told_is_stained_does_not_count_as_such() {
    let steps = vec![
        discard(8, 152),
        put(32, 16),
        HistoryStep::Settle(15_888_833_837_764_859_463),
        HistoryStep::Replicate(vec![(8, vec![(35, 3), (24, 3)])]),
        HistoryStep::Break(Fault { target: Target::Area, op: Op::Flush, left: None }),
        put(57, 17),
        put(93, 4),
        HistoryStep::Settle(7_113_830_946_236_746_201),
    ];
    held(&History { steps, ..History::with_faults(2_109_000_065, true) }, &[0, 1, 2]);
}

/// A record that the device failed proves nothing: damage before it is not reported.
#[test]
fn a_write_that_failed_vouches_for_nothing() {
    let steps = vec![
        put(336, 16),
        put(328, 8),
        HistoryStep::Restart(Some((333, 11))),
        put(360, 8),
        HistoryStep::Heal,
        put(96, 16),
        HistoryStep::Ask { op: Op::Read, start: 299, len: 33, fua: false },
        put(320, 16),
        put(360, 8),
        HistoryStep::Execute(40),
        put(344, 8),
        HistoryStep::Execute(15),
        fua(360, 16),
        HistoryStep::Execute(28),
        fua(320, 8),
        HistoryStep::Execute(33),
        HistoryStep::Execute(13),
        HistoryStep::Break(Fault { target: Target::Area, op: Op::Write, left: Some(7) }),
        HistoryStep::Settle(8_913_831_110_263_397_677),
    ];
    let history = History { steps, ..History::with_faults(73, false) };
    held(&history, &[15_199_769_146_976_240_467]);
}

/// A guard that protects replicas goes down only when no round in progress, nor the next, can call
/// a page stained: else the area would overwrite with zeroes what somebody then writes at home.
#[test]
fn a_guard_stays_up_while_a_round_may_still_stain_a_page() {
    let never_written = vec![
        put(152, 24),
        HistoryStep::Ask { op: Op::Write, start: 160, len: 2, fua: true },
        HistoryStep::Heal,
        discard(24, 136),
        HistoryStep::Execute(30),
        HistoryStep::Repeat(1),
        HistoryStep::Break(Fault { target: Target::Home, op: Op::Write, left: None }),
        HistoryStep::Replicate(vec![(1, vec![(2, 2)]), (4, vec![(40, 2), (33, 1)])]),
        HistoryStep::Withdraw,
        HistoryStep::Heal,
    ];
    let drained = vec![
        discard(24, 104),
        HistoryStep::Settle(16_702_177_184_284_327_840),
        HistoryStep::Replicate(vec![(6, vec![(8, 1), (19, 2), (30, 1)])]),
        HistoryStep::Drain,
        HistoryStep::Settle(17_391_329_641_164_499_827),
        discard(14, 10),
        HistoryStep::Settle(18_225_158_993_968_542_283),
    ];
    for (seed, steps) in [(5_001_534, never_written), (5_001_732, drained)] {
        let mut history = History { steps, ..History::with_faults(seed, true) };
        (history.setup.unused, history.setup.area_forgets) = ((0, 0), false);
        looked(&history, &Looks::These(vec![0]));
    }
}

/// A write waits for a read of the replica in its place. The checksum of that read is the last
/// event: the write then asks for a round, and the round begins at once.
#[test]
fn a_write_that_waits_for_a_reader_begins_its_round() {
    let (home, area, segment_pages) = (404, 1280, 8);
    let setup = Setup {
        home,
        area,
        segment_pages,
        write_buffer_percent: 40,
        replicas: 168,
        placement: Placement::Elsewhere,
        read_ahead: 8192,
        cluster: 8192,
        stage_bytes: 1 << 18,
        background_rate: 1_024_000_000_000,
        at_once: true,
        ends: 8,
        append_pages: 3,
        ..Setup::plain()
    };
    let plan = vec![(80, 16, 16), (72, 16, 0), (96, 8, 16), (72, 16, 0)];
    let zeroes = |start, len| HistoryStep::Ask { op: Op::WriteZeroes, start, len, fua: false };
    let execute = |which: &[usize]| which.iter().map(|&w| HistoryStep::Execute(w)).collect();
    let parts: [Vec<HistoryStep>; 12] = [
        vec![HistoryStep::Pass, put(76, 2), zeroes(200, 16)],
        vec![HistoryStep::Replicate(vec![(25, vec![(7, 2), (12, 3), (48, 2)])])],
        execute(&[21]),
        vec![HistoryStep::Replicate(vec![(17, vec![(20, 3), (33, 3)])]), discard(100, 15), FLUSH],
        vec![HistoryStep::Install(plan)],
        execute(&[0, 0, 40, 21]),
        vec![
            discard(80, 160),
            discard(288, 8),
            HistoryStep::Settle(15_690_015_523_191_989_523),
            zeroes(290, 6),
            discard(218, 6),
            put(392, 8),
            put(396, 4),
            HistoryStep::Replicate(vec![(20, vec![(4, 2), (49, 1)])]),
        ],
        execute(&[34, 35, 2]),
        vec![zeroes(96, 16)],
        execute(&[54, 10, 15, 49, 37]),
        vec![HistoryStep::Replicate(vec![(18, vec![(43, 2), (15, 1), (18, 3)])]), put(226, 2)],
        vec![HistoryStep::Execute(10), HistoryStep::Scrub],
    ];
    let mut steps = parts.concat();
    steps.extend([6, 19, 49, 62].map(HistoryStep::Execute));
    steps.push(HistoryStep::Ask { op: Op::Discard, start: 32, len: 8, fua: true });
    steps.extend([discard(88, 104), discard(376, 5)]);
    let looks = Looks::These(vec![11_781_224_906_031_810_219]);
    looked(&History { seed: 0, setup, steps }, &looks);
}
