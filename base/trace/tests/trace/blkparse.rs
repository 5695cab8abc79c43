//! What blkparse prints beside plain reads and writes: flushes and their ends, drivers' own
//! commands, times of `-t`, zones. The forms are those of `process_default` in `blkparse_fmt.c`.

use seekless_block::Flags;
use seekless_block::Op::{Flush, Read, Write};
use seekless_trace::{Event, OpenOptions, Record};

use crate::fixtures::names;
use crate::support::{With, open, read, read_event, rec};

/// The records of `text`, strictly read.
fn records(text: &str, event: Event) -> Vec<Record> {
    let options = OpenOptions { event, ..OpenOptions::default() };
    open(text.as_bytes(), &options).unwrap().map(Result::unwrap).collect()
}

/// A line of each text after the process, behind a read that every event has.
fn lines(texts: &[&str]) -> String {
    let plain = ["Q   R 8 + 8 [cat]", "D   R 8 + 8 [cat]", "C   R 8 + 8 [0]"];
    let all = plain.iter().chain(texts).zip(1..);
    all.map(|(text, n)| format!("  8,0    1 {n:8}     0.000000000 34004  {text}\n")).collect()
}

/// The requests of these lines, without the plain ones.
fn requests(texts: &[&str], event: Event) -> Vec<Record> {
    let mut records = records(&lines(texts), event);
    assert_eq!(records.remove(0).request.extent.start.0, 8);
    records
}

const EVENTS: [Event; 3] = [Event::Queue, Event::Issue, Event::Complete];

#[test]
fn ends_of_flushes_are_read_and_do_not_end_the_trace() {
    let (sync, fua) = ([Flags::SYNC], [Flags::FUA, Flags::SYNC]);
    let (reader, queued) = read("blkparse-flushes.txt");
    let journal = rec(2_000_000, Write, 575_480_512, 8).flags(&fua);
    let expected = [
        rec(0, Read, 2048, 8).stream(1),
        rec(1_000_000, Flush, 0, 0).flags(&sync).stream(2),
        journal.stream(3),
    ];
    assert_eq!(queued, expected);
    assert_eq!(names(&reader), [(0, ""), (34004, "cat"), (34005, "sync"), (411, "jbd2/sda1-8")]);
    assert_eq!(reader.skipped().other_events, [0, 3, 6]);

    let (reader, issued) = read_event("blkparse-flushes.txt", Event::Issue);
    let flush = rec(1_001_000, Flush, 0, 0).stream(2);
    assert_eq!(issued, [rec(0, Read, 2048, 8).stream(1), flush, journal.stream(3)]);
    assert_eq!(names(&reader)[2], (211, "kworker/1:1H"));

    let (reader, completed) = read_event("blkparse-flushes.txt", Event::Complete);
    let expected = [
        rec(0, Read, 2048, 8),
        rec(968_945, Flush, 0, 0),
        journal,
        rec(2_900_000, Flush, 0, 0).flags(&sync),
    ];
    assert_eq!(completed, expected);
    // The two writes whose data and flush end apart.
    assert_eq!(reader.skipped().zero_length, 2);
}

#[test]
fn each_form_of_an_end_without_sectors_is_read() {
    for (text, flushes) in [
        ("C  FN 0 [0]", 1),
        ("C FWS 0 [0]", 1),
        ("C FWS 0 [-5]", 1),
        ("C  WS 0 [0]", 0),
        ("C WFS 575480512 [0]", 0),
    ] {
        let ends = requests(&[text], Event::Complete);
        assert_eq!(ends.len(), flushes, "{text}");
        assert!(ends.iter().all(|r| r.request.op == Flush), "{text}");
        assert_eq!(requests(&[text], Event::Queue), [], "{text}");
    }
}

#[test]
fn times_of_blkparse_t_change_nothing() {
    let (reader, queued) = read("blkparse-t.txt");
    let flush = rec(1_000_000, Flush, 0, 0).flags(&[Flags::SYNC]).stream(2);
    let last = rec(2_000_000, Read, 4096, 8).stream(1);
    assert_eq!(queued, [rec(0, Read, 2048, 8).stream(1), flush, last]);
    assert_eq!(names(&reader), [(0, ""), (34004, "cat"), (34005, "sync")]);

    let (reader, issued) = read_event("blkparse-t.txt", Event::Issue);
    let flush = rec(1_001_000, Flush, 0, 0).stream(2);
    assert_eq!(issued, [rec(0, Read, 2048, 8).stream(1), flush]);
    assert_eq!(names(&reader), [(0, ""), (34004, "cat"), (211, "kworker/1:1H")]);

    let (reader, completed) = read_event("blkparse-t.txt", Event::Complete);
    assert_eq!(completed, [rec(0, Read, 2048, 8), rec(967_000, Flush, 0, 0)]);
    assert_eq!(reader.skipped().zero_length, 1);
}

#[test]
fn drivers_own_commands_are_no_requests() {
    for text in [
        "D   R 36 [smartctl]",
        "D   R 36 (12 00 00 00 24 00) [smartctl]",
        "C   R [0]",
        "C   R (12 00 00 00 24 00) [0]",
        "D   W 512 [smartctl]",
        "D   N 0 [hdparm]",
        "C   N [0]",
    ] {
        for event in EVENTS {
            assert_eq!(requests(&[text], event), [], "{text}");
            let options = OpenOptions { event, ..OpenOptions::default() };
            let mut reader = open(lines(&[text]).as_bytes(), &options).unwrap();
            assert_eq!(reader.by_ref().count(), 1, "{text}");
            assert_eq!(reader.skipped().zero_length, 0, "{text}");
        }
    }
}

#[test]
fn actions_of_zoned_devices_are_no_requests() {
    let zones = ["ZP  WS [fio]", "ZU  WS 524288 + 2 [fio]", "ZA  ZA 524288 + 8 [0]"];
    for event in EVENTS {
        assert_eq!(requests(&zones, event), [], "{event:?}");
    }
}

#[test]
fn a_line_that_is_cut_is_malformed_still() {
    for text in ["C  WS 0", "Q   R 8", "Q   R 8 +", "Q   R 8 + x [cat]", "C   R x [0]"] {
        let text = lines(&[text]);
        let all = open(text.as_bytes(), &OpenOptions::default()).unwrap();
        assert_eq!(all.filter(Result::is_err).count(), 1, "{text}");
    }
}

#[test]
fn the_blk_tracer_prints_ends_of_flushes_alike() {
    let text = "          cat-34004   [001] d..1   200.000010:   8,0    Q   R 2048 + 8 [cat]
          cat-34004   [001] d..1   200.000020:   8,0    C   R 2048 + 8 [0]
       <idle>-0       [001] d.h1   200.000030:   8,0    C  FN 0 [0]
       <idle>-0       [001] d.h1   200.000040:   8,0    C  WS 0 [0]
";
    assert_eq!(records(text, Event::Queue), [rec(0, Read, 2048, 8).stream(1)]);
    let ends = [rec(0, Read, 2048, 8), rec(10_000, Flush, 0, 0)];
    assert_eq!(records(text, Event::Complete), ends);
}

#[test]
fn a_request_without_sectors_can_name_any_sector() {
    // Kernels before 4.14 complete an empty flush as a write at the last sector that there is.
    assert_eq!(requests(&["C  WS 18446744073709551615 [0]"], Event::Complete), []);
    let text = "  <idle>-0  [000] d.h1.   100.000010: block_rq_complete: 8,0 R () 8 + 8 [0]
  <idle>-0  [000] d.h1.   100.000020: block_rq_complete: 8,0 WS () 18446744073709551615 + 0 [0]
";
    let options = OpenOptions { event: Event::Complete, ..OpenOptions::default() };
    let mut reader = open(text.as_bytes(), &options).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    assert_eq!(reader.skipped().zero_length, 1);
}
