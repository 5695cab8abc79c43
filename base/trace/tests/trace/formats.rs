//! The formats of clouds, phones, Windows and cache simulators, and our own table: the contents of
//! each fixture, computed by hand; sorting; and detection of formats.

use seekless_block::Flags;
use seekless_block::Op::{Discard, Flush, Read, Write, WriteZeroes};
use seekless_trace::{Format, OpenOptions, Reader, Source};

use crate::beside::shared;
use crate::fixtures::{devices, names};
use crate::support::{FIXTURES, With, fixture, open, read, rec};

fn named(format: Format, bytes: &[u8]) -> Reader {
    let from = std::io::Cursor::new(bytes.to_vec());
    let path = std::path::Path::new("x");
    Reader::from_read(from, path, Some(format), &OpenOptions::default()).unwrap()
}

#[test]
fn alibaba() {
    let (reader, records) = read("alibaba.csv");
    let expected = [
        rec(0, Write, 16, 8),
        rec(2_007_000, Read, 701_551_200, 32).device(1),
        // Bytes 1000..2000 are in sectors 1, 2 and 3.
        rec(2_008_000, Read, 1, 3),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["419", "725"]);
    assert_eq!(reader.skipped().zero_length, 1);
}

#[test]
fn tencent_is_sorted_by_its_whole_seconds() {
    let (reader, records) = read("tencent.csv");
    let expected = [
        rec(0, Read, 13_896_880, 128),
        rec(1_000_000_000, Write, 4_247_200, 128).device(1),
        rec(1_000_000_000, Read, 49_413_280, 16),
        rec(2_000_000_000, Write, 8, 1024).device(1),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["1063", "1058"], "numbered in order of output");
}

#[test]
fn mobile_commands_may_hold_commas() {
    let (reader, records) = read("mobile.csv");
    let expected = [
        rec(0, Write, 128, 8).stream(1),
        rec(99_999_999, Read, 8, 1).stream(2).device(1),
        rec(150_000_001, Read, 136, 16).stream(3),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["8,0", "8,16"]);
    let processes = [(0, ""), (1204, "binder:a,b"), (9, "kworker/u16:1-H"), (77, "com.pubg")];
    assert_eq!(names(&reader), processes);
}

#[test]
fn systor_17() {
    let (reader, records) = read("systor.csv");
    let expected = [
        rec(0, Write, 8_312_597_631, 240).service(8_044_000),
        rec(1_114_000, Read, 1, 3).device(1).service(1000),
        rec(6_791_000, Read, 1_755_968_989, 256).device(1).service(806_000),
    ];
    assert_eq!(records, expected);
    assert_eq!(devices(&reader), ["3", "0"]);
    assert_eq!(reader.skipped().without_op, 1);
}

#[test]
fn fiu() {
    let (reader, records) = read("fiu.txt");
    let expected = [
        rec(0, Write, 904_265_560, 8).stream(1),
        rec(33_237, Write, 12_508_488, 8).stream(2),
        rec(33_240, Read, 512, 16).stream(3).device(1),
    ];
    assert_eq!(records, expected);
    let streams = [(0, ""), (4892, "syslogd"), (2522, "kjournald"), (301, "Web Content")];
    assert_eq!(names(&reader), streams);
    assert_eq!(devices(&reader), ["6,0", "8,1"]);
    assert!(reader.info().has_processes);
}

#[test]
fn biotracer() {
    let (_, records) = read("biotracer.txt");
    let expected = [
        // The third column counts, not the second.
        rec(0, Read, 8192, 32).service(1_000_000),
        rec(250_000_000, Write, 4096, 8).service(2_000_000),
        // Finished before it was submitted: no service time.
        rec(500_000_000, Write, 100, 4),
    ];
    assert_eq!(records, expected);
}

#[test]
fn biosnoop_of_bcc() {
    let (reader, records) = read("biosnoop.txt");
    let expected = [
        rec(0, Write, 13_092_432, 8).stream(1).service(2_000_000),
        rec(1_086_000, Write, 13_092_560, 8).stream(1).service(740_000),
        rec(3_051_000, Read, 13_092_440, 2).stream(2).device(1).service(1_240_000),
    ];
    assert_eq!(records, expected);
    assert_eq!(names(&reader), [(0, ""), (1950, "supervise"), (1956, "Web Content")]);
    assert_eq!(devices(&reader), ["xvda1", "xvdb"]);
}

#[test]
fn biosnoop_of_libbpf_tools_with_queues() {
    let (reader, records) = read("biosnoop-q.txt");
    let expected = [
        rec(0, Write, 1_142_400, 8).flags(&[Flags::SYNC]).stream(1).service(550_000),
        rec(861_000, Flush, 0, 0).flags(&[Flags::FUA]).stream(2).service(470_000),
        rec(880_000, Read, 41_963_894, 6).flags(&[Flags::AHEAD]).stream(3).service(470_000),
        rec(1_460_000, Discard, 2048, 2048).flags(&[Flags::SYNC]).stream(4).service(1000),
    ];
    assert_eq!(records, expected);
    assert_eq!(names(&reader)[4], (22179, "blkdiscard"));
}

#[test]
fn etw() {
    let (reader, records) = read("etw.csv");
    let expected = [
        rec(0, Write, 1, 1).service(90_000),
        rec(772_000, Read, 0x6C80_556E00 / 512, 128).stream(1).device(1).service(180_000),
        rec(1_450_000, Flush, 0, 0).stream(2).service(50_000),
    ];
    assert_eq!(records, expected);
    assert_eq!(names(&reader), [(0, ""), (980, "p1"), (1234, "store.exe")]);
    assert_eq!(devices(&reader), ["0", "3"]);
    assert_eq!(reader.skipped().lost_events, 3);
    // One column more, as in newer dumpers; the header gives the positions.
    let (reader, records) = read("etw-cpu.csv");
    assert_eq!(records, [rec(0, Write, 8, 8).stream(1).service(60_000)]);
    assert_eq!((names(&reader)[1], devices(&reader)), ((4, "System"), vec!["2"]));
}

#[test]
fn our_own_table() {
    let (reader, records) = read("table.csv");
    let fua = [Flags::FUA, Flags::SYNC, Flags::META];
    let expected = [
        rec(0, Read, 2048, 8).stream(1).service(4_000_000),
        rec(500_400, Write, 90_112, 16).flags(&[Flags::SYNC]).stream(2).device(1),
        rec(5_000_000, Write, 700_000, 8).flags(&fua).stream(3),
        rec(6_000_000, Flush, 0, 0).stream(3),
        rec(7_000_000, WriteZeroes, 4096, 2048).stream(4),
    ];
    assert_eq!(records, expected);
    let streams =
        [(0, ""), (1021, "git"), (2077, "Web Content"), (411, "jbd2/sda1-8"), (0, "fstrim")];
    assert_eq!(names(&reader), streams);
    assert_eq!(devices(&reader), ["8,0", "8,16"]);
    let info = reader.info();
    assert!(info.has_times && info.has_processes && info.has_service && !info.has_days);
}

#[test]
fn oracle_general_of_one_size_is_pages_and_of_several_is_sectors() {
    let (_, records) = read("oracle.hex");
    let expected = [
        rec(0, Read, 40, 8),
        rec(0, Read, 48, 8),
        rec(1_000_000_000, Read, 40, 8),
        rec(2_000_000_000, Read, 56, 8),
    ];
    assert_eq!(records, expected);
    let mut bytes = fixture("oracle.hex");
    bytes[24 + 12..24 + 14].copy_from_slice(&700u16.to_le_bytes());
    let records: Vec<_> = named(Format::Oracle, &bytes).map(Result::unwrap).collect();
    assert_eq!(records[0].request.extent, seekless_block::Extent::new(5, 8));
    assert_eq!(records[1].request.extent, seekless_block::Extent::new(6, 2));
    // A hash is not an address.
    bytes[4..12].copy_from_slice(&0xDEAD_BEEF_0BAD_F00Du64.to_le_bytes());
    assert!(named(Format::Oracle, &bytes).next().unwrap().is_err());
}

#[test]
fn vscsi_version_2() {
    let (_, records) = read("vscsi2.hex");
    let expected =
        [rec(0, Read, 2048, 8), rec(10_000, Write, 0x1_FFFF_FFFF, 1), rec(20_000, Flush, 0, 0)];
    assert_eq!(records, expected);
}

#[test]
fn disksim_in_bytes_must_be_named() {
    let text = b"0.000000 0 4096 8192 1\n12.500000 0 1000 1000 0\n";
    let records: Vec<_> = named(Format::Heimdall, text).map(Result::unwrap).collect();
    assert_eq!(records, [rec(0, Read, 8, 16), rec(12_500_000, Write, 1, 3)]);
    assert_eq!(open(text, &OpenOptions::default()).unwrap().info().format, Format::DiskSim);
}

#[test]
fn no_fixture_can_be_read_as_another_format() {
    for (name, format) in FIXTURES {
        let bytes = fixture(name);
        for &other in Format::ALL {
            let relatives = [Format::DiskSim, Format::DiskSimRw0, Format::MqSim, Format::MqSimRw0];
            let related = |f: Format| relatives.contains(&f) || f == Format::Heimdall;
            let same = other == format
                || related(format) && related(other)
                // The classic form of the tracer lacks one number of blkparse's form.
                || (format, other) == (Format::Tracefs, Format::Blkparse)
                // The format has no mark of its own: by name, any bytes are records of it.
                || other == Format::Oracle;
            if same {
                continue;
            }
            let from = std::io::Cursor::new(bytes.clone());
            let path = std::path::Path::new("x");
            let read = Reader::from_read(from, path, Some(other), &OpenOptions::default());
            let requests = read.map_or(0, |r| r.take_while(Result::is_ok).count());
            assert_eq!(requests, 0, "{name} read as {}", other.name());
        }
    }
}

#[test]
fn a_trace_that_fits_two_formats_must_be_named() {
    // As many lines of one format as of the other.
    let text = b"419,W,8192,4096,1577808144360767\n1538323200,4247200,128,1,1058\n";
    let error = open(text, &OpenOptions::default()).unwrap_err().to_string();
    for word in ["alibaba", "tencent", "FORMAT:a trace"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn records_out_of_order_are_sorted_inside_the_window() {
    // Reversed pairs, equal times in order, and one record that is far too late.
    let line = |t: u64, sector: u64| format!("{t},{sector},8,0,1\n");
    let mut text = String::new();
    for i in 0..100_000u64 {
        text += &line(1_000_000 + (i ^ 1) / 4, i ^ 1);
    }
    text += &line(1_000_001, 777_777);
    let mut reader = open(text.as_bytes(), &OpenOptions::default()).unwrap();
    let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(records.len(), 100_001);
    let late = records.iter().position(|r| r.request.extent.start.0 == 777_777).unwrap();
    let rest: Vec<_> = records.iter().enumerate().filter(|(i, _)| *i != late).collect();
    assert!(rest.windows(2).all(|w| w[0].1.request.arrival <= w[1].1.request.arrival));
    // A record can be moved by 32,768 positions.
    assert!(late < 100_000 - 32_000, "{late}");
    assert_eq!(reader.skipped().late, 1);
    assert_eq!(records[0].request.arrival.0, 0);
    // Records with equal times keep their order.
    let first: Vec<_> = records[..4].iter().map(|r| r.request.extent.start.0).collect();
    assert_eq!(first, [1, 0, 3, 2]);
}

#[test]
fn an_error_comes_after_the_records_before_it() {
    let text = b"9,1,8,0,1\n8,2,8,0,1\n7,3,8,0,1\n9,x,8,0,1\n";
    let mut reader = open(text, &OpenOptions::default()).unwrap();
    let sectors: Vec<_> =
        (0..3).map(|_| reader.next().unwrap().unwrap().request.extent.start.0).collect();
    assert_eq!(sectors, [3, 2, 1]);
    assert!(reader.next().unwrap().unwrap_err().to_string().contains("line 4"));
    assert!(reader.next().is_none());
}

#[test]
fn samples_of_real_traces() {
    let Some(dir) = shared("samples_of_real_traces", "traces") else { return };
    for (name, format, requests, without_op) in [
        ("tencent-cbs-sample.csv.bz2", Format::Tencent, 50_000, 0),
        ("systor17-traces-sample.csv.gz", Format::Systor, 999, 0),
    ] {
        let source = Source::new(dir.join(name));
        let mut reader = source.open(&OpenOptions::default()).unwrap();
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(reader.info().format, format);
        assert_eq!(records.len() as u64, requests, "{name}");
        assert_eq!(reader.skipped().without_op, without_op);
        let sorted = records.windows(2).all(|w| w[0].request.arrival <= w[1].request.arrival);
        assert!(sorted && reader.skipped().late == 0, "{name}");
    }
}

#[test]
fn the_document_names_every_format() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/using/trace-formats.md");
    let document = std::fs::read_to_string(path).unwrap();
    let read = document.split("## Written").next().unwrap();
    for format in Format::ALL {
        let row = read
            .lines()
            .find(|l| l.starts_with('|') && l.contains(&format!("`{}`", format.name())));
        assert!(row.is_some(), "docs/using/trace-formats.md lacks {}", format.name());
    }
}
