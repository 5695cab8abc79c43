//! One small trace in every format, with its contents computed by hand.

use seekless_block::Flags;
use seekless_block::Op::{Discard, Flush, Read, Write};
use seekless_trace::{Event, Format, OpenOptions, Reader, Stream, TraceError};

use crate::support::{FIXTURES, With, fixture, open, read, read_event, rec};

pub(crate) fn names(reader: &Reader) -> Vec<(u32, &str)> {
    reader.streams().iter().map(|s: &Stream| (s.pid, s.name.as_str())).collect()
}

pub(crate) fn devices(reader: &Reader) -> Vec<&str> {
    reader.devices().iter().map(|d| d.name.as_str()).collect()
}

#[test]
fn every_fixture_is_detected_by_content_and_read_by_name() {
    for (name, format) in FIXTURES {
        let (reader, records) = read(name);
        assert_eq!(reader.info().format, format, "{name}");
        assert!(!records.is_empty(), "{name}");
        assert_eq!(Format::from_name(format.name()), Some(format));
        assert_eq!(reader.skipped().malformed, 0);
    }
}

#[test]
fn blkparse() {
    let (reader, records) = read("blkparse.txt");
    let fua = [Flags::FUA, Flags::SYNC, Flags::META];
    let expected = [
        rec(0, Read, 2048, 8).stream(1),
        rec(500_400, Write, 90_112, 16).flags(&[Flags::SYNC]).stream(2).device(1),
        rec(5_000_000, Write, 700_000, 8).flags(&fua).stream(3),
        rec(6_000_000, Flush, 0, 0).stream(3),
        rec(7_000_000, Discard, 4096, 2048).flags(&[Flags::SYNC]).stream(4),
        rec(8_000_000, Read, 2056, 120).flags(&[Flags::AHEAD]).stream(1),
    ];
    assert_eq!(records, expected);
    let streams =
        [(0, ""), (1021, "git"), (2077, "Web Content"), (411, "jbd2/sda1-8"), (530, "fstrim")];
    assert_eq!(names(&reader), streams);
    assert_eq!(devices(&reader), ["8,0", "8,16"]);
    assert_eq!(reader.skipped().other_events, [0, 1, 2]);

    let (_, issued) = read_event("blkparse.txt", Event::Issue);
    assert_eq!(issued, [rec(0, Read, 2048, 8).stream(1)]);
    let (reader, completed) = read_event("blkparse.txt", Event::Complete);
    let second = rec(4_400_000, Write, 90_112, 16).flags(&[Flags::SYNC]).device(1);
    assert_eq!(completed, [rec(0, Read, 2048, 8), second]);
    assert!(!reader.info().has_processes);
}

#[test]
fn blkparse_without_the_sequence_number_is_the_kernel_s_classic_form() {
    let text = b"  8,0    3     1.500000000  1021  Q   R 2048 + 8 [git]\n  8,0    3     1.500000100  1021  Q   R 9 + 1 [git]\n";
    let records: Vec<_> =
        open(text, &OpenOptions::default()).unwrap().map(Result::unwrap).collect();
    assert_eq!(records, [rec(0, Read, 2048, 8).stream(1), rec(100, Read, 9, 1).stream(1)]);
}

#[test]
fn tracefs_events() {
    let (reader, records) = read("tracefs.txt");
    let fua = [Flags::FUA, Flags::SYNC, Flags::META];
    let expected = [
        rec(0, Read, 2048, 8).stream(1),
        rec(500_000, Write, 90_112, 16).flags(&[Flags::SYNC]).stream(2).device(1),
        rec(5_000_000, Write, 700_000, 8).flags(&fua).stream(3),
    ];
    assert_eq!(records, expected);
    let streams = [(0, ""), (1021, "git"), (2077, "Web Content"), (411, "jbd2/sda-1-8")];
    assert_eq!(names(&reader), streams);
    assert_eq!(reader.skipped().lost_events, 15);

    let (reader, issued) = read_event("tracefs.txt", Event::Issue);
    let expected = [
        rec(0, Read, 2048, 8).stream(1),
        rec(5_995_000, Flush, 0, 0).flags(&[Flags::FUA]).stream(2),
    ];
    assert_eq!(issued, expected);
    assert_eq!(names(&reader)[1], (1021, "git"));
    let (_, completed) = read_event("tracefs.txt", Event::Complete);
    assert_eq!(completed, [rec(0, Read, 2048, 8)]);
}

#[test]
fn the_blk_tracer() {
    let (reader, records) = read("blk-tracer.txt");
    let second = rec(500_000, Write, 90_112, 16).flags(&[Flags::SYNC]).stream(2).device(1);
    assert_eq!(records, [rec(0, Read, 2048, 8).stream(1), second]);
    assert_eq!(names(&reader), [(0, ""), (1021, "git"), (2077, "Web Content")]);
}

#[test]
fn fio_version_2() {
    let (reader, records) = read("fio2.log");
    let expected = [
        rec(0, Read, 8, 16),
        // Bytes 512..1512 are in sectors 1 and 2.
        rec(1_500_000, Write, 1, 2).device(1),
        rec(1_500_000, Flush, 0, 0),
        rec(1_500_000, Discard, 2048, 128),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["/dev/a", "/dev/b"]);
    assert_eq!(reader.skipped().zero_length, 1);
    assert!(reader.info().has_times);

    let still = open(b"fio version 2 iolog\na add\na read 0 512\n", &OpenOptions::default());
    assert!(!still.unwrap().info().has_times, "without wait there are no times");
}

#[test]
fn fio_version_3() {
    let (_, records) = read("fio3.log");
    let expected = [rec(0, Write, 0, 8), rec(1_000_000, Flush, 0, 0), rec(2_000_000, Read, 3, 1)];
    assert_eq!(records, expected);
}

#[test]
fn msr() {
    let (reader, records) = read("msr.csv");
    let expected = [
        rec(0, Read, 13_700_410, 48).service(4_128_600),
        rec(1_332_052_600, Write, 4_917_376, 8).service(70_304_100),
        // Bytes 1000..2000 are in sectors 1, 2 and 3.
        rec(2_332_061_600, Write, 1, 3).device(1).service(400),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["web,0", "web,1"]);
    let skipped = reader.skipped();
    assert_eq!(skipped.zero_length, 1);
    assert_eq!(skipped.zero_length_first.as_ref().unwrap().place.to_string(), "line 4");
}

#[test]
fn spc() {
    let (reader, records) = read("spc.csv");
    let expected = [
        rec(0, Write, 20_941_264, 16),
        rec(2_335_000, Write, 20_939_840, 16),
        rec(460_026_001, Read, 3_436_288, 31).device(1),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["0", "1"]);
}

#[test]
fn disksim_and_its_variants() {
    let (_, records) = read("disksim.txt");
    let expected = [
        rec(0, Read, 1000, 8),
        rec(12_345_678, Write, 2000, 16),
        rec(12_500_000, Read, 3000, 1).device(1),
        rec(1_500_000_000, Write, 4000, 2).device(1),
    ];
    assert_eq!(records, expected);
    let (_, records) = read("mqsim.txt");
    assert_eq!(
        records,
        [rec(0, Write, 264_719_034, 16), rec(315_000, Read, 197_570_570, 16).device(1)]
    );

    let as_named = |format, bytes: &[u8]| -> Vec<_> {
        let from = std::io::Cursor::new(bytes.to_vec());
        let path = std::path::Path::new("x");
        let reader = Reader::from_read(from, path, Some(format), &OpenOptions::default());
        reader.unwrap().map(Result::unwrap).collect()
    };
    let turned = as_named(Format::DiskSimRw0, &fixture("disksim.txt"));
    assert_eq!(turned[0], rec(0, Write, 1000, 8));
    assert_eq!(turned[3], rec(1_500_000_000, Read, 4000, 2).device(1));
    // With a format name, the name decides the unit of time, not the numbers.
    assert_eq!(as_named(Format::DiskSim, b"1 0 8 8 1\n3 0 8 8 1\n")[1], rec(2_000_000, Read, 8, 8));
    assert_eq!(as_named(Format::MqSimRw0, b"1 0 8 8 1\n3 0 8 8 1\n")[1], rec(2, Write, 8, 8));
}

#[test]
fn lis() {
    let (reader, records) = read("arc.lis");
    let expected = [
        rec(0, Read, 230_027, 8).day(0),
        rec(0, Read, 1_842_745, 64).day(0),
        rec(0, Read, 216_082, 8).day(3),
        rec(0, Read, 216_090, 8).day(5),
    ];
    assert_eq!(records, expected);
    assert!(reader.info().has_days && !reader.info().has_times);

    let mut wild = open(b"1 8 7 0\n2 8 3 1\n3 8 9 2\n", &OpenOptions::default()).unwrap();
    let days: Vec<_> = wild.by_ref().map(|r| r.unwrap().day).collect();
    assert_eq!(days, [Some(7), None, None], "a third column that decreases is not a day");
    assert!(!wild.info().has_days);
}

#[test]
fn blktrace() {
    let (reader, records) = read("blktrace.hex");
    let fua = [Flags::FUA, Flags::SYNC, Flags::META];
    let expected = [
        rec(0, Read, 2048, 8).stream(1),
        rec(900, Write, 700_000, 8).flags(&fua).stream(2),
        rec(1000, Flush, 0, 0).stream(2),
        rec(1100, Discard, 4096, 2048).stream(3).device(1),
    ];
    assert_eq!(records, expected);
    assert_eq!(names(&reader), [(0, ""), (1021, "git"), (411, ""), (530, "")]);
    assert_eq!(devices(&reader), ["8,0", "259,3"]);
    assert_eq!(reader.skipped().other_events, [0, 1, 1]);
    assert_eq!(read_event("blktrace.hex", Event::Issue).1, [rec(0, Read, 2048, 8).stream(1)]);
    assert_eq!(read_event("blktrace.hex", Event::Complete).1, [rec(0, Read, 2048, 8)]);
}

/// The same records as written by a machine with the other byte order.
pub(crate) fn big_endian(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let record = &bytes[at..at + 48];
        let mut field = 0;
        for width in [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2] {
            out.extend(record[field..field + width].iter().rev());
            field += width;
        }
        let payload = usize::from(u16::from_le_bytes([record[46], record[47]]));
        out.extend(&bytes[at + 48..at + 48 + payload]);
        at += 48 + payload;
    }
    out
}

#[test]
fn blktrace_of_either_byte_order_gives_the_same_records() {
    let (little, records) = read("blktrace.hex");
    let bytes = big_endian(&fixture("blktrace.hex"));
    let mut big = open(&bytes, &OpenOptions::default()).unwrap();
    assert_eq!(big.by_ref().map(Result::unwrap).collect::<Vec<_>>(), records);
    assert_eq!(big.streams(), little.streams());
    assert_eq!(big.devices(), little.devices());
}

#[test]
fn vscsi() {
    let (_, records) = read("vscsi.hex");
    let expected = [
        rec(0, Read, 2048, 8),
        rec(10_000, Write, 0x1_FFFF_FFFF, 1),
        rec(20_000, Flush, 0, 0),
        // Older than the first record: it keeps its position, at time 0.
        rec(0, Read, 0x2_0000_0000, 64),
    ];
    assert_eq!(records, expected);
}

#[test]
fn srt_with_sectors_of_256_and_512_bytes() {
    let (reader, records) = read("srt");
    let expected = [
        rec(0, Read, 0x410 / 2, 8).flags(&[Flags::SYNC]).service(950_000),
        // Sectors 3 and 4 of 256 bytes are bytes 768..1280: sectors 1 and 2.
        rec(999_000_000, Write, 1, 2).service(290_000),
        rec(1_999_000_000, Write, 9, 2).device(1).service(100_000),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["1", "0"]);
}

#[test]
fn the_error_for_a_missing_event_lists_the_events_of_the_trace() {
    let text = b"  8,0 3 1 0.5 1021  D   R 2048 + 8 [git]\n  8,0 3 1 0.6 0  C   R 2048 + 8 [0]\n";
    let mut reader = open(text, &OpenOptions::default()).unwrap();
    match reader.next_record() {
        Err(TraceError::NoSuchEvent { queue: 0, issue: 1, complete: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_name_file_line_expected_and_found() {
    let text = b"0,1,512,r,0.5\n0,1,512,r,0.6\n0,2,512,x,0.7\n0,3,512,w,0.8\n";
    let mut reader = open(text, &OpenOptions::default()).unwrap();
    let error = reader.find_map(Result::err).unwrap().to_string();
    for part in ["a trace", "line 3", "SPC", "r or w", "'0,2,512,x,0.7'"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(reader.next().is_none(), "no record follows an error");

    let lenient = OpenOptions { lenient: true, ..OpenOptions::default() };
    let mut reader = open(text, &lenient).unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 3);
    assert_eq!(reader.skipped().malformed, 1);
    let first = reader.skipped().malformed_first.clone().unwrap();
    assert_eq!(first.place.to_string(), "line 3");
}

#[test]
fn sectors_above_2_to_the_55_are_refused() {
    for (text, good) in [
        ("36028797018963960 8 0 0\n", true),
        ("36028797018963961 8 0 0\n", false),
        ("18446744073709551615 8 0 0\n", false),
        ("99999999999999999999999 8 0 0\n", false),
    ] {
        let text = format!("1 8 0 0\n{text}");
        let last = open(text.as_bytes(), &OpenOptions::default()).unwrap().last().unwrap();
        assert_eq!(last.is_ok(), good, "{text}");
    }
}

#[test]
fn text_of_an_unknown_format_is_refused_with_advice() {
    for bytes in [b"Dear diary,\ntoday 8 0 0\n".as_slice(), b"\0\x01\x02\x03", b"\n\n\n"] {
        let error = open(bytes, &OpenOptions::default()).unwrap_err();
        assert!(matches!(error, TraceError::UnknownFormat { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("blkparse") && text.contains("FORMAT:a trace"), "{text}");
    }
    assert!(matches!(open(b"", &OpenOptions::default()), Err(TraceError::Empty { .. })));
}

#[test]
fn a_line_longer_than_the_window_is_one_bad_line() {
    let mut text = b"1 8 0 0\n".to_vec();
    text.extend(std::iter::repeat_n(b'7', 600_000));
    text.extend(b"\n2 8 0 1\r\n\n3 8 0 2");
    let lenient = OpenOptions { lenient: true, ..OpenOptions::default() };
    let mut reader = open(&text, &lenient).unwrap();
    let starts: Vec<_> = reader.by_ref().map(|r| r.unwrap().request.extent.start.0).collect();
    assert_eq!(starts, [1, 2, 3]);
    assert_eq!(reader.skipped().malformed, 1);
    let error = open(&text, &OpenOptions::default()).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn a_trace_that_begins_with_other_entries_is_recognized() {
    let mut text = b"  8,0 0 0 0.1 0  m   N served\n  8,0 0 1 0.2 7  P   N [git]\n".repeat(300);
    text.extend(b"  8,0 3 1 0.5 1021  Q   R 2048 + 8 [git]\n");
    let reader = open(&text, &OpenOptions::default()).unwrap();
    assert_eq!(reader.info().format, Format::Blkparse);
    assert_eq!(reader.count(), 1);
}

#[test]
fn a_process_that_runs_another_program_takes_its_name() {
    let text = b"  8,0 3 1 0.5 1021  Q   R 8 + 8 [bash]\n  8,0 3 1 0.6 1021  Q   R 64 + 8 [git]\n";
    let mut reader = open(text, &OpenOptions::default()).unwrap();
    assert_eq!(reader.by_ref().count(), 2);
    assert_eq!(names(&reader), [(0, ""), (1021, "git")]);
}
