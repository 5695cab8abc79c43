//! Histories that once broke a promise, and histories made by hand for one rule.

mod replicas;

use crate::enumerator::{
    Fault, History, HistoryStep, Looks, Placement, Setup, Slow, Tally, explore,
};
use seekless_block::Op;
use seekless_engine::{Engine, Mode, Target};

const fn ask(op: Op, page: u64, pages: u64, fua: bool) -> HistoryStep {
    HistoryStep::Ask { op, start: page * 8, len: pages * 8, fua }
}

const fn write(page: u64, pages: u64) -> HistoryStep {
    ask(Op::Write, page, pages, false)
}

const FLUSH: HistoryStep = ask(Op::Flush, 0, 0, false);
const SETTLE: HistoryStep = HistoryStep::Settle(1);

fn looked(history: &History, looks: &Looks) {
    if let Err(failure) = explore::<Engine>(history, looks, &mut Tally::default()) {
        panic!("{failure}");
    }
}

/// A history made by hand, with 40 states at each of its moments.
fn holds(setup: Setup, steps: Vec<HistoryStep>) {
    looked(&History { seed: 0, setup, steps }, &Looks::Each(40));
}

/// A history that once broke a promise, with the states that showed it.
fn held(history: &History, choices: &[u64]) {
    // Its options at the time.
    let (degree, placement, adaptive) = (2, Placement::SameDevice, false);
    let (toggles, unused, forgets, area_forgets) = (false, (0, 0), false, false);
    let setup = Setup {
        degree,
        placement,
        adaptive,
        toggles,
        unused,
        forgets,
        area_forgets,
        ..history.setup.clone()
    };
    looked(&History { setup, ..history.clone() }, &Looks::These(choices.to_vec()));
}

/// A write home without FUA voids an entry of the log. The entry must not come back after a later
/// write with FUA has ended.
#[test]
fn a_write_with_fua_outlives_the_log_whoever_made_it_void() {
    let zeroes = |fua| ask(Op::WriteZeroes, 4, 1, fua);
    holds(
        Setup::plain(),
        vec![write(4, 1), FLUSH, SETTLE, zeroes(false), SETTLE, zeroes(true), SETTLE],
    );
}

/// The older copy of a flushed page is needed until the newer one is on stable storage: here a
/// checkpoint is in progress when the newer one ends.
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
    holds(Setup { home: 263, stage_bytes: 1 << 17, ..Setup::plain() }, steps);
}

/// A write home voids the log's copy, and another one goes into the log meanwhile: reads and
/// flushes see the later one.
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
    holds(Setup::plain(), steps);
}

/// A segment of a small log is overwritten only once the area durably knows that all of it is at
/// home. A torn record there would leave map entries without data.
#[test]
fn the_log_goes_round_only_as_fast_as_its_tail_is_durable() {
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

/// A lost record that is written again, byte for byte, is not followed by its former successor.
#[test]
fn what_was_lost_stays_lost_when_the_record_before_it_is_written_again() {
    for choice in 0..40 {
        let crash = HistoryStep::Crash { choice, again: Vec::new() };
        let history = History {
            seed: choice,
            setup: Setup::plain(),
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
        looked(&history, &Looks::Each(2));
    }
}

/// A repair that cuts the log lets it go on elsewhere. If that place is unreadable, it is written
/// again as well.
#[test]
fn where_a_repaired_log_goes_on_can_be_read() {
    let steps = vec![put(118, 40), HistoryStep::Pass, put(158, 16)];
    let history = History { steps, ..History::of(605_000_020) };
    held(&history, &[14_065_995_842_203_270_172]);
}

const fn discard(start: u64, len: u64) -> HistoryStep {
    HistoryStep::Ask { op: Op::Discard, start, len, fua: false }
}

const fn put(start: u64, len: u64) -> HistoryStep {
    HistoryStep::Ask { op: Op::Write, start, len, fua: false }
}

const fn fua(start: u64, len: u64) -> HistoryStep {
    HistoryStep::Ask { op: Op::Write, start, len, fua: true }
}

/// The log does not overwrite the position where recovery begins. Only a checkpoint moves this
/// position.
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

/// After a destage, too, the tail passes an older copy only once the newer record is on stable
/// storage. A crash tears that record, and a record behind it names the tail.
#[test]
fn the_logs_tail_does_not_pass_what_a_torn_record_made_old() {
    let run = HistoryStep::Execute;
    let steps = vec![
        put(272, 88),
        put(240, 24),
        run(47),
        put(232, 24),
        put(248, 16),
        put(248, 16),
        put(232, 16),
        fua(240, 8),
        run(62),
        put(248, 32),
        put(272, 8),
        put(248, 64),
        put(136, 16),
        HistoryStep::Settle(8_964_681_918_469_379_051),
        HistoryStep::Drain,
        run(11),
        run(12),
        HistoryStep::Crash { choice: 3_185_526_333_017_341_489, again: vec![6, 7, 7] },
        put(240, 24),
        put(240, 112),
        run(3),
        run(48),
        HistoryStep::Crash { choice: 16_734_089_725_108_405_309, again: vec![8, 11] },
        put(232, 96),
        FLUSH,
        HistoryStep::Settle(10_711_422_102_534_539_373),
        put(248, 24),
        HistoryStep::Settle(5_395_946_847_427_974_696),
        put(256, 24),
        run(28),
        HistoryStep::Drain,
        run(54),
        put(256, 32),
        run(60),
        run(30),
        run(31),
        fua(312, 24),
        fua(240, 16),
        run(56),
        run(42),
        fua(24, 104),
    ];
    held(&History { steps, ..History::of(31_060) }, &[10_112_057_670_839_211_120, 0, 1, 2]);
}

/// A flush of home fails, and the host forgets what went home before. The next flush succeeds, and the
/// log's tail moves: all pages have gone home once more.
#[test]
fn pages_that_a_failed_flush_has_lost_go_home_again() {
    for at_once in [false, true] {
        let fault = Fault { target: Target::Home, op: Op::Flush, left: Some(1) };
        let steps = vec![
            write(4, 1),
            write(9, 3),
            FLUSH,
            SETTLE,
            HistoryStep::Break(fault),
            HistoryStep::Drain,
            SETTLE,
            HistoryStep::Pass,
            SETTLE,
        ];
        holds(Setup { forgets: true, at_once, ..Setup::plain() }, steps);
    }
}

/// A page is flushed in the log. A client writes a part of it at home, or zeroes the whole page. A
/// flush of home fails, and the host forgets the page: the bytes of the log count again. The next
/// flush succeeds, and a crash brings back nothing older than these bytes. `in_flight`: the page went
/// home for the client's write, and the flush fails while this write is in flight.
#[test]
fn a_page_of_the_log_comes_back_if_a_failed_flush_has_lost_a_write_over_it() {
    let part = HistoryStep::Ask { op: Op::Write, start: 4 * 8 + 2, len: 3, fua: false };
    let (at_home, in_flight) = (vec![SETTLE], vec![HistoryStep::Execute(0); 2]);
    let zeroes = ask(Op::WriteZeroes, 4, 1, false);
    for (over, until, fails) in [
        (part.clone(), at_home.clone(), SETTLE),
        (zeroes, at_home, SETTLE),
        (part, in_flight, HistoryStep::Execute(1)),
    ] {
        let fault = Fault { target: Target::Home, op: Op::Flush, left: Some(1) };
        let read = ask(Op::Read, 3, 3, false);
        let mut steps = vec![write(4, 1), SETTLE, FLUSH, SETTLE, over];
        steps.extend(until);
        steps.extend([HistoryStep::Break(fault), FLUSH, fails, read.clone(), SETTLE, read]);
        steps.extend([FLUSH, SETTLE, HistoryStep::Drain, SETTLE, HistoryStep::Pass, SETTLE]);
        holds(Setup { forgets: true, ..Setup::plain() }, steps);
    }
}

/// A flush of home is in flight when a write with FUA voids an entry of the log, and fails. The bytes
/// of the log come back: the write, which waits for the log to learn of it, fails.
#[test]
fn a_write_with_fua_does_not_end_well_if_a_failed_flush_brings_older_bytes_back() {
    let steps = vec![
        write(4, 1),
        SETTLE,
        FLUSH,
        SETTLE,
        ask(Op::WriteZeroes, 9, 1, false),
        SETTLE,
        FLUSH,
        ask(Op::WriteZeroes, 4, 1, true),
        HistoryStep::Execute(2),
        HistoryStep::Break(Fault { target: Target::Home, op: Op::Flush, left: Some(1) }),
        HistoryStep::Execute(0),
        SETTLE,
        ask(Op::Read, 4, 1, false),
        SETTLE,
    ];
    for forgets in [false, true] {
        holds(Setup { forgets, ..Setup::plain() }, steps.clone());
    }
}

/// A drain has emptied the log but could not record that. The next try leaves no second segment
/// out: recovery looks for the next record in only two.
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

/// A write in RAM replaces a write with FUA that has not ended.
#[test]
fn a_write_with_fua_does_not_outlast_what_is_written_over_it() {
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

/// A flush of the area fails, and the host forgets a record whose write has ended. The next flush
/// succeeds. After a crash, all that it covers is there, though that record is missing.
#[test]
fn what_is_flushed_behind_a_record_that_the_area_forgot_is_found() {
    let fault = Fault { target: Target::Area, op: Op::Flush, left: Some(1) };
    let mut tally = Tally::default();
    for order in 1..9 {
        let steps = vec![
            write(4, 1),
            SETTLE,
            FLUSH,
            SETTLE,
            write(9, 1),
            SETTLE,
            HistoryStep::Break(fault),
            FLUSH,
            // The order chooses the sectors that are forgotten, too.
            HistoryStep::Settle(order),
            ask(Op::WriteZeroes, 4, 1, false),
            SETTLE,
            FLUSH,
            SETTLE,
            ask(Op::Read, 3, 8, false),
            SETTLE,
        ];
        let setup = Setup { area_forgets: true, ..Setup::plain() };
        let history = History { seed: order, setup, steps };
        if let Err(failure) = explore::<Engine>(&history, &Looks::Each(4), &mut tally) {
            panic!("{failure}");
        }
    }
    assert!(tally.forgot > 50, "{tally:?}");
}
