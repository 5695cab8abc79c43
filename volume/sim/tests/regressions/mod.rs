//! Histories that once broke a promise, and histories made by hand for one rule. Each is a text, of
//! which a word is a step:
//!
//! - `r8+16`, `w8+16`, `d8+16`, `z8+16`: a client reads, writes, discards or zeroes 16 sectors from
//!   sector 8. With a capital letter: with FUA. `flush`: a client flushes. `repeat2`: a client
//!   repeats its write of two writes ago.
//! - `x5`: I/O 5 of those in flight takes effect; `settle1`: all of them, in the order of a number.
//! - `install8+16+24,...`: a plan of pieces; `replicate3:15+1,17+2/...`: replicas by their places.
//! - `break-area-write7`: the next seven writes to the area fail; without a number, all of them.
//! - `crash7:5,9` and `restart8+16`: a number that chooses the losses, and the writes at which the
//!   power fails again; sectors that somebody else writes meanwhile.

mod replicas;

use crate::enumerator::{
    Fault, History, HistoryStep, Looks, Placement, Setup, Slow, Tally, explore,
};
use seekless_block::Op;
use seekless_engine::{Engine, Mode, Target};

fn steps(text: &str) -> Vec<HistoryStep> {
    text.split_whitespace().map(step).collect()
}

fn step(word: &str) -> HistoryStep {
    let (name, n) = (word.split(|c: char| c.is_ascii_digit()).next().unwrap(), numbers(word));
    match name {
        "flush" => HistoryStep::Ask { op: Op::Flush, start: 0, len: 0, fua: false },
        "repeat" => HistoryStep::Repeat(n[0] as usize),
        "x" => HistoryStep::Execute(n[0] as usize),
        "settle" => HistoryStep::Settle(n[0]),
        "install" => HistoryStep::Install(n.chunks(3).map(|p| (p[0], p[1], p[2])).collect()),
        "replicate" => HistoryStep::Replicate(word.split('/').map(side).collect()),
        "withdraw" => HistoryStep::Withdraw,
        "write-back" => HistoryStep::Mode(Mode::WriteBack),
        "write-through" => HistoryStep::Mode(Mode::WriteThrough),
        "drain" => HistoryStep::Drain,
        "scrub" => HistoryStep::Scrub,
        "pass" => HistoryStep::Pass,
        "slow-area-writes" => HistoryStep::Slow(Some(Slow::Writes(Target::Area))),
        "heal" => HistoryStep::Heal,
        "crash" => HistoryStep::Crash { choice: n[0], again: n[1..].to_vec() },
        "restart" => HistoryStep::Restart(n.first().map(|&start| (start, n[1]))),
        _ => match name.strip_prefix("break-") {
            Some(what) => HistoryStep::Break(fault(what, &n)),
            None => ask(name, &n),
        },
    }
}

fn numbers(word: &str) -> Vec<u64> {
    let digits = word.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    digits.map(|n| n.parse().unwrap()).collect()
}

fn side(text: &str) -> (u64, Vec<(u64, u64)>) {
    let n = numbers(text);
    (n[0], n[1..].chunks(2).map(|run| (run[0], run[1])).collect())
}

fn fault(what: &str, n: &[u64]) -> Fault {
    let (target, op) = match what {
        "home-write" => (Target::Home, Op::Write),
        "home-flush" => (Target::Home, Op::Flush),
        "area-read" => (Target::Area, Op::Read),
        "area-write" => (Target::Area, Op::Write),
        "area-flush" => (Target::Area, Op::Flush),
        _ => panic!("no fault {what}"),
    };
    Fault { target, op, left: n.first().map(|&left| left as u32) }
}

fn ask(letter: &str, n: &[u64]) -> HistoryStep {
    let op = match letter {
        "r" => Op::Read,
        "w" | "W" => Op::Write,
        "d" | "D" => Op::Discard,
        "z" | "Z" => Op::WriteZeroes,
        _ => panic!("no step {letter}"),
    };
    HistoryStep::Ask { op, start: n[0], len: n[1], fua: letter.starts_with(char::is_uppercase) }
}

fn looked(history: &History, looks: &Looks) {
    if let Err(failure) = explore::<Engine>(history, looks, &mut Tally::default()) {
        panic!("{failure}");
    }
}

/// A history made by hand, with 40 states at each of its moments.
fn holds(setup: Setup, text: &str) {
    looked(&History { seed: 0, setup, steps: steps(text) }, &Looks::Each(40));
}

/// A history that once broke a promise, with the states that showed it.
fn held(history: History, text: &str, choices: &[u64]) {
    // Its options at the time.
    let setup = Setup {
        degree: 2,
        placement: Placement::SameDevice,
        adaptive: false,
        toggles: false,
        unused: (0, 0),
        forgets: false,
        area_forgets: false,
        ..history.setup
    };
    let history = History { seed: history.seed, setup, steps: steps(text) };
    looked(&history, &Looks::These(choices.to_vec()));
}

/// A write home without FUA voids an entry of the log. The entry must not come back after a later
/// write with FUA has ended.
#[test]
fn a_write_with_fua_outlives_the_log_whoever_made_it_void() {
    holds(Setup::plain(), "w32+8 flush settle1 z32+8 settle1 Z32+8 settle1");
}

/// The older copy of a flushed page is needed until the newer one is on stable storage: here a
/// checkpoint is in progress when the newer one ends.
#[test]
fn the_logs_tail_does_not_pass_what_a_record_in_the_cache_made_old() {
    let text = "w248+8 w232+8 w248+8 D248+6 settle5807804807935814913 w240+16 w8+16 w8+8 x5 \
                w112+16 flush x40 w32+24 x44 repeat0 x21 x31 x0 x7 x32 repeat3 w232+8 x35 x31 x58";
    holds(Setup { home: 263, stage_bytes: 1 << 17, ..Setup::plain() }, text);
}

/// A write home voids the log's copy, and another one goes into the log meanwhile: reads and
/// flushes see the later one.
#[test]
fn writes_to_the_same_sectors_wait_for_each_other() {
    let text = "w32+8 flush settle1 z32+8 w32+8 x0 x0 r32+8 x0 x0 flush settle1";
    holds(Setup::plain(), text);
}

/// A segment of a small log is overwritten only once the area durably knows that all of it is at
/// home. A torn record there would leave map entries without data.
#[test]
fn the_log_goes_round_only_as_fast_as_its_tail_is_durable() {
    let text = "W234+24 w290+96 x53 flush x35 x36 w298+16 x4 w26+24 w122+88 x44 x53 x9 x29 x11 \
                crash10330180736643164423:5,9 W266+64 x34 x15 x55 x18 x42 x47 x59 x12 x53 x54 x33 \
                w58+56";
    held(History::of(5286), text, &[8_302_879_367_852_347_465, 0, 1, 2]);
}

/// A lost record that is written again, byte for byte, is not followed by its former successor.
#[test]
fn what_was_lost_stays_lost_when_the_record_before_it_is_written_again() {
    for choice in 0..40 {
        let text = format!("w32+8 w64+8 crash{choice} r0+160 settle1 repeat1 settle1");
        let history = History { seed: choice, setup: Setup::plain(), steps: steps(&text) };
        looked(&history, &Looks::Each(2));
    }
}

/// A repair that cuts the log lets it go on elsewhere. If that place is unreadable, it is written
/// again as well.
#[test]
fn where_a_repaired_log_goes_on_can_be_read() {
    held(History::of(605_000_020), "w118+40 pass w158+16", &[14_065_995_842_203_270_172]);
}

/// The log does not overwrite the position where recovery begins. Only a checkpoint moves this
/// position.
#[test]
fn the_log_is_not_written_over_where_recovery_begins() {
    let text = "W168+40 w144+128 x51 w144+16 x5 x10 x50 repeat2 w336+8 x9 x4 w408+16 w112+24 flush \
                x41 w352+8 x1 x54 w24+16 x42 x10 w343+12 settle16770097098839622845 W352+24 \
                w368+64 settle2668202333849757652 w336+16 w368+16";
    held(History::of(113), text, &[12_722_707_210_714_587_045, 0, 1, 2]);
}

/// After a destage, too, the tail passes an older copy only once the newer record is on stable
/// storage. A crash tears that record, and a record behind it names the tail.
#[test]
fn the_logs_tail_does_not_pass_what_a_torn_record_made_old() {
    let text = "w272+88 w240+24 x47 w232+24 w248+16 w248+16 w232+16 W240+8 x62 w248+32 w272+8 \
                w248+64 w136+16 settle8964681918469379051 drain x11 x12 \
                crash3185526333017341489:6,7,7 w240+24 w240+112 x3 x48 \
                crash16734089725108405309:8,11 w232+96 flush settle10711422102534539373 w248+24 \
                settle5395946847427974696 w256+24 x28 drain x54 w256+32 x60 x30 x31 W312+24 \
                W240+16 x56 x42 W24+104";
    held(History::of(31_060), text, &[10_112_057_670_839_211_120, 0, 1, 2]);
}

/// A flush of home fails, and the host forgets what went home before. The next flush succeeds, and the
/// log's tail moves: all pages have gone home once more.
#[test]
fn pages_that_a_failed_flush_has_lost_go_home_again() {
    let text = "w32+8 w72+24 flush settle1 break-home-flush1 drain settle1 pass settle1";
    for at_once in [false, true] {
        holds(Setup { forgets: true, at_once, ..Setup::plain() }, text);
    }
}

/// A page is flushed in the log. A client writes a part of it at home, or zeroes the whole page. A
/// flush of home fails, and the host forgets the page: the bytes of the log count again. The next
/// flush succeeds, and a crash brings back nothing older than these bytes. In the last history, the
/// page went home for the client's write, and the flush fails while this write is in flight.
#[test]
fn a_page_of_the_log_comes_back_if_a_failed_flush_has_lost_a_write_over_it() {
    for (over, fails) in
        [("w34+3 settle1", "settle1"), ("z32+8 settle1", "settle1"), ("w34+3 x0 x0", "x1")]
    {
        let text = format!(
            "w32+8 settle1 flush settle1 {over} break-home-flush1 flush {fails} r24+24 settle1 \
             r24+24 flush settle1 drain settle1 pass settle1"
        );
        holds(Setup { forgets: true, ..Setup::plain() }, &text);
    }
}

/// A flush of home is in flight when a write with FUA voids an entry of the log, and fails. The bytes
/// of the log come back: the write, which waits for the log to learn of it, fails.
#[test]
fn a_write_with_fua_does_not_end_well_if_a_failed_flush_brings_older_bytes_back() {
    let text = "w32+8 settle1 flush settle1 z72+8 settle1 flush Z32+8 x2 break-home-flush1 x0 \
                settle1 r32+8 settle1";
    for forgets in [false, true] {
        holds(Setup { forgets, ..Setup::plain() }, text);
    }
}

/// A drain has emptied the log but could not record that. The next try leaves no second segment
/// out: recovery looks for the next record in only two.
#[test]
fn a_drain_that_is_asked_again_before_it_is_noted_down_leaves_no_second_segment_out() {
    let text = "drain break-area-write2 install120+24+0,104+16+0,120+24+0,168+16+8,384+16+0 drain \
                settle260113740458041961";
    held(History::of(20_000_000_377), text, &[75_653_300_196_569_665]);
}

/// A write in RAM replaces a write with FUA that has not ended.
#[test]
fn a_write_with_fua_does_not_outlast_what_is_written_over_it() {
    let text = "w32+8 W32+24 flush W24+8 w32+24 w24+16 x6 w8+24 r17+36 w0+16 \
                settle2439701296257376660";
    held(History::of(1_304_000_147), text, &[11_262_792_678_358_048_332]);
}

/// A flush of the area fails, and the host forgets a record whose write has ended. The next flush
/// succeeds. After a crash, all that it covers is there, though that record is missing.
#[test]
fn what_is_flushed_behind_a_record_that_the_area_forgot_is_found() {
    let mut tally = Tally::default();
    for order in 1..=crate::seeds(8) {
        // The order chooses the sectors that are forgotten, too.
        let text = format!(
            "w32+8 settle1 flush settle1 w72+8 settle1 break-area-flush1 flush settle{order} \
             z32+8 settle1 flush settle1 r24+64 settle1"
        );
        let setup = Setup { area_forgets: true, ..Setup::plain() };
        let history = History { seed: order, setup, steps: steps(&text) };
        if let Err(failure) = explore::<Engine>(&history, &Looks::Each(4), &mut tally) {
            panic!("{failure}");
        }
    }
    assert!(tally.forgot > crate::least(50), "{tally:?}");
}
