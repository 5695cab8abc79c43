//! Histories that once broke a promise, and those made by hand for one rule.

use seekless_block::Op;
use seekless_engine::{Engine, Mode, Target};
use seekless_sim::crash::{
    Fault, History, HistoryStep, Looks, Placement, Setup, Slow, Tally, explore,
};

/// Write-back, no RAM, two caches.
fn setup() -> Setup {
    Setup {
        home: 320,
        area: 1280,
        grid: 0,
        segment_pages: 8,
        write_buffer_percent: 60,
        replicas: 0,
        soon: false,
        degree: 2,
        placement: Placement::SameDevice,
        write_back: true,
        cache_pages: 0,
        read_ahead: 0,
        cluster: 0,
        buffer_bytes: 1 << 16,
        stage_bytes: 1 << 16,
        background_pause: 0,
        background_rate: 0,
        at_once: false,
        gather: 0,
        shared: false,
    }
}

const fn ask(op: Op, page: u64, pages: u64, fua: bool) -> HistoryStep {
    HistoryStep::Ask { op, start: page * 8, len: pages * 8, fua }
}

const fn write(page: u64, pages: u64) -> HistoryStep {
    ask(Op::Write, page, pages, false)
}

const FLUSH: HistoryStep = ask(Op::Flush, 0, 0, false);
const SETTLE: HistoryStep = HistoryStep::Settle(1);

/// A history made by hand, with 40 states at each of its moments.
fn holds(setup: Setup, steps: Vec<HistoryStep>) {
    let history = History { seed: 0, setup, steps };
    if let Err(failure) = explore::<Engine>(&history, &Looks::Each(40), &mut Tally::default()) {
        panic!("{failure}");
    }
}

/// A history that once broke a promise, with the states that showed it.
fn held(history: &History, choices: &[u64]) {
    let looks = Looks::These(choices.to_vec());
    // As it was drawn then.
    let setup = Setup { degree: 2, placement: Placement::SameDevice, ..history.setup.clone() };
    let history = &History { setup, ..history.clone() };
    if let Err(failure) = explore::<Engine>(history, &looks, &mut Tally::default()) {
        panic!("{failure}");
    }
}

/// What a home write without FUA made void must not come back once a later one with FUA has ended.
#[test]
fn a_write_with_fua_outlives_the_log_whoever_made_it_void() {
    let zeroes = |fua| ask(Op::WriteZeroes, 4, 1, fua);
    holds(setup(), vec![write(4, 1), FLUSH, SETTLE, zeroes(false), SETTLE, zeroes(true), SETTLE]);
}

/// The older copy of a page that a flush covered is needed until the newer one is on stable
/// storage: a checkpoint is on its way when the newer one ends.
#[test]
fn the_logs_tail_does_not_pass_what_a_record_in_the_cache_made_old() {
    let steps = vec![
        write(31, 1),
        write(29, 1),
        write(31, 1),
        HistoryStep::Ask { op: Op::Discard, start: 248, len: 6, fua: true },
        HistoryStep::Settle(5_807_804_807_935_814_913),
        write(30, 2),
        write(1, 2),
        write(1, 1),
        HistoryStep::Execute(5),
        write(14, 2),
        FLUSH,
        HistoryStep::Execute(40),
        write(4, 3),
        HistoryStep::Execute(44),
        HistoryStep::Repeat(0),
        HistoryStep::Execute(21),
        HistoryStep::Execute(31),
        HistoryStep::Execute(0),
        HistoryStep::Execute(7),
        HistoryStep::Execute(32),
        HistoryStep::Repeat(3),
        write(29, 1),
        HistoryStep::Execute(35),
        HistoryStep::Execute(31),
        HistoryStep::Execute(58),
    ];
    holds(Setup { home: 263, stage_bytes: 1 << 17, ..setup() }, steps);
}

/// A write home that makes the log's copy void, and one into the log while it is on its way: what
/// comes last is what was seen, and what a flush promised.
#[test]
fn writes_to_the_same_sectors_wait_for_each_other() {
    let page = |op| ask(op, 4, 1, false);
    let first = HistoryStep::Execute(0);
    let steps = vec![
        write(4, 1),
        FLUSH,
        SETTLE,
        page(Op::WriteZeroes),
        page(Op::Write),
        first.clone(),
        first.clone(),
        page(Op::Read),
        first.clone(),
        first,
        FLUSH,
        SETTLE,
    ];
    holds(setup(), steps);
}

/// A segment of a small log is written anew only once it is durably known that all of it is at
/// home: a record that is torn there would leave the map with pages of which nothing is left.
#[test]
fn the_log_goes_round_only_as_fast_as_its_tail_is_durable() {
    let fua = |start, len| HistoryStep::Ask { op: Op::Write, start, len, fua: true };
    let mut steps = vec![fua(234, 24), put(290, 96), HistoryStep::Execute(53), FLUSH];
    steps.extend([35, 36].map(HistoryStep::Execute));
    steps.extend([put(298, 16), HistoryStep::Execute(4), put(26, 24), put(122, 88)]);
    steps.extend([44, 53, 9, 29, 11].map(HistoryStep::Execute));
    steps.push(HistoryStep::Crash { choice: 10_330_180_736_643_164_423, again: vec![5, 9] });
    steps.push(fua(266, 64));
    steps.extend([34, 15, 55, 18, 42, 47, 59, 12, 53, 54, 33].map(HistoryStep::Execute));
    steps.push(put(58, 56));
    let history = History { steps, ..History::of(5286) };
    held(&history, &[8_302_879_367_852_347_465, 0, 1, 2]);
}

/// A record that was lost and is written once more, byte for byte, is not followed by what once
/// followed it.
#[test]
fn what_was_lost_stays_lost_when_the_record_before_it_is_written_again() {
    for choice in 0..40 {
        let crash = HistoryStep::Crash { choice, again: Vec::new() };
        let history = History {
            seed: choice,
            setup: setup(),
            steps: vec![
                write(4, 1),
                write(8, 1),
                crash,
                ask(Op::Read, 0, 20, false),
                SETTLE,
                HistoryStep::Repeat(1),
                SETTLE,
            ],
        };
        if let Err(failure) = explore::<Engine>(&history, &Looks::Each(2), &mut Tally::default()) {
            panic!("{failure}");
        }
    }
}

/// A record that was sent while a checkpoint was on its way names an older tail than the superblock
/// does: what the tail has passed does not come back.
#[test]
fn an_older_tail_in_the_log_brings_nothing_back() {
    let write = |start, len| HistoryStep::Ask { op: Op::Write, start, len, fua: false };
    let steps = vec![
        write(220, 16),
        write(110, 2),
        write(188, 56),
        HistoryStep::Ask { op: Op::Write, start: 4, len: 8, fua: true },
        HistoryStep::Ask { op: Op::Discard, start: 108, len: 32, fua: false },
        HistoryStep::Settle(11_296_791_047_197_221_015),
        HistoryStep::Repeat(3),
        HistoryStep::Settle(6_968_010_622_243_367_218),
        HistoryStep::Crash { choice: 10_462_587_185_068_127_645, again: vec![11] },
        write(28, 24),
        HistoryStep::Replicate(vec![(14, vec![(4, 3)]), (16, vec![(27, 1)])]),
        HistoryStep::Ask { op: Op::Read, start: 29, len: 2, fua: false },
        HistoryStep::Execute(4),
        write(23, 4),
        write(23, 4),
        FLUSH,
        HistoryStep::Repeat(3),
        write(12, 80),
        HistoryStep::Settle(2_339_556_393_551_815_742),
        write(36, 12),
        HistoryStep::Execute(56),
        FLUSH,
        HistoryStep::Execute(28),
    ];
    let history = History { steps, ..History::with_replicas(37) };
    held(&history, &[5_376_942_182_401_617_089]);
}

/// A page that is written while a round is about to say that it is free, and absorbed again: no
/// record that comes after a checkpoint calls it free.
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

/// A page that is written while a round is about to say that it is stained is not absorbed before
/// the area knows that it is used: the record that calls it stained would come after its data, and
/// after a crash the page would be read as written from the log, and as zeroes once that was
/// brought home.
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

/// While a write waits for its region to be open, the stained page beside is not cleaned over and
/// over: that kept home busy for as long as the area took.
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

/// A repair that cuts the log has it go on elsewhere: where that cannot be read either, it is
/// written anew as well.
#[test]
fn where_a_repaired_log_goes_on_can_be_read() {
    let write = |start, len| HistoryStep::Ask { op: Op::Write, start, len, fua: false };
    let steps = vec![write(118, 40), HistoryStep::Pass, write(158, 16)];
    let history = History { steps, ..History::of(605_000_020) };
    held(&history, &[14_065_995_842_203_270_172]);
}

const fn discard(start: u64, len: u64) -> HistoryStep {
    HistoryStep::Ask { op: Op::Discard, start, len, fua: false }
}

const fn put(start: u64, len: u64) -> HistoryStep {
    HistoryStep::Ask { op: Op::Write, start, len, fua: false }
}

/// The log is not written over where recovery begins, which only a checkpoint moves on.
#[test]
fn the_log_is_not_written_over_where_recovery_begins() {
    let steps = vec![
        HistoryStep::Ask { op: Op::Write, start: 168, len: 40, fua: true },
        put(144, 128),
        HistoryStep::Execute(51),
        put(144, 16),
        HistoryStep::Execute(5),
        HistoryStep::Execute(10),
        HistoryStep::Execute(50),
        HistoryStep::Repeat(2),
        put(336, 8),
        HistoryStep::Execute(9),
        HistoryStep::Execute(4),
        put(408, 16),
        put(112, 24),
        FLUSH,
        HistoryStep::Execute(41),
        put(352, 8),
        HistoryStep::Execute(1),
        HistoryStep::Execute(54),
        put(24, 16),
        HistoryStep::Execute(42),
        HistoryStep::Execute(10),
        put(343, 12),
        HistoryStep::Settle(16_770_097_098_839_622_845),
        HistoryStep::Ask { op: Op::Write, start: 352, len: 24, fua: true },
        put(368, 64),
        HistoryStep::Settle(2_668_202_333_849_757_652),
        put(336, 16),
        put(368, 16),
    ];
    let history = History { steps, ..History::of(113) };
    held(&history, &[12_722_707_210_714_587_045, 0, 1, 2]);
}

/// A write that has zeroes written beside itself first: no page of the write buffer comes home
/// under it meanwhile.
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

/// Replicas are withdrawn once nothing is stained, nor can be by a discard of what the area still
/// takes for stained.
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

/// What was never a replica's is not stained, whatever the client does while the area is told that
/// it is free: nobody would clean it once replicas are withdrawn.
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

/// A drain that has begun the log anew and could not note that down does not leave another segment
/// out: recovery looks for the log's next record in two.
#[test]
fn a_drain_that_is_asked_again_before_it_is_noted_down_leaves_no_second_segment_out() {
    let steps = vec![
        HistoryStep::Drain,
        HistoryStep::Break(Fault { target: Target::Area, op: Op::Write, left: Some(2) }),
        HistoryStep::Install(vec![
            (120, 24, 0),
            (104, 16, 0),
            (120, 24, 0),
            (168, 16, 8),
            (384, 16, 0),
        ]),
        HistoryStep::Drain,
        HistoryStep::Settle(260_113_740_458_041_961),
    ];
    held(&History { steps, ..History::of(20_000_000_377) }, &[75_653_300_196_569_665]);
}

/// Replicas that the area cannot be told of make way for the checkpoint that has its log go on.
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

/// A region that one round could not tell of is told of by the next: whoever came to wait meanwhile
/// goes on with it, or fails.
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

/// No page counts as stained that the area may take for free, because it was to be told that zeroes
/// stand there.
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

/// Nobody waits for ever where the area cannot be told that zeroes stand where replicas did. Where
/// the region is closed; where it is open, see the unit test
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

/// Replicas stay where home takes no zeroes, and it is said why.
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

/// Nobody waits for a log that is full, where the checkpoint that would make room fails.
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

/// What a write that failed left in a discarded page is what is read there, before a crash, after
/// it, and without us.
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

/// A page that the area could not be told is stained is written only once it knows of the region.
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

/// A write in RAM that takes the place of one with FUA, which has yet to end there.
#[test]
fn a_write_with_fua_does_not_outlast_what_is_written_over_it() {
    let fua = |start, len| HistoryStep::Ask { op: Op::Write, start, len, fua: true };
    let steps = vec![
        put(32, 8),
        fua(32, 24),
        FLUSH,
        fua(24, 8),
        put(32, 24),
        put(24, 16),
        HistoryStep::Execute(6),
        put(8, 24),
        HistoryStep::Ask { op: Op::Read, start: 17, len: 36, fua: false },
        put(0, 16),
        HistoryStep::Settle(2_439_701_296_257_376_660),
    ];
    held(&History { steps, ..History::of(1_304_000_147) }, &[11_262_792_678_358_048_332]);
}

/// A record that was to vouch for another, and that the device failed, vouches for nothing: damage
/// before it is not told.
#[test]
fn a_write_that_failed_vouches_for_nothing() {
    let fua = |start, len| HistoryStep::Ask { op: Op::Write, start, len, fua: true };
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
