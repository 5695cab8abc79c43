//! Reading a written trace returns the original, as far as the format can represent it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use seekless_block::{Extent, Flags, Op};
use seekless_trace::{Converted, Format, OpenOptions, Record, Source, Target, TraceError, convert};

use crate::support::{FIXTURES, fixture, read, rec};

fn written(source: &Source, out: &Path, target: &str) -> Converted {
    let target = Target::new(&format!("{target}:{}", out.display())).unwrap();
    convert(source, &OpenOptions::default(), target, &mut |_| {}).unwrap()
}

fn records(path: &Path) -> Vec<Record> {
    let source = Source::from_path(path, None);
    source.open(&OpenOptions::default()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn csv_keeps_all_information() {
    let directory = tempfile::tempdir().unwrap();
    for (name, _) in FIXTURES {
        let source = Source::from_bytes(name, &fixture(name)).unwrap();
        let out = directory.path().join("out.csv");
        let done = written(&source, &out, "csv");
        let (before, expected) = read(name);
        assert_eq!((done.records, done.left_out), (expected.len() as u64, 0), "{name}");
        let mut after = Source::new(&out).open(&OpenOptions::default()).unwrap();
        let found: Vec<_> = after.by_ref().map(Result::unwrap).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(after.streams(), before.streams(), "{name}");
        assert_eq!(after.devices(), before.devices(), "{name}");
        assert_eq!(after.info().format, Format::Csv);
        assert_eq!(after.info().has_times, before.info().has_times, "{name}");
        assert_eq!(after.info().has_days, before.info().has_days, "{name}");
    }
}

#[test]
fn csv_has_one_line_per_request_for_any_names() {
    let directory = tempfile::tempdir().unwrap();
    let text = " 8,0 3 1 0.5 7  Q   R 8 + 8 [a \"b\", c\tä]\n 8,0 3 1 0.6 7  Q   R 8 + 8 [a \"b\", c\tä]\n";
    let source = Source::from_bytes("x", text.as_bytes()).unwrap();
    let out = directory.path().join("x.csv");
    written(&source, &out, "csv");
    let mut reader = Source::new(&out).open(&OpenOptions::default()).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 2);
    assert_eq!(reader.streams()[1].name, "a 'b', c ä");
}

/// A record as far as fio's log can represent it: microseconds and four operations.
fn as_fio(r: &Record, latest: &mut u64) -> Record {
    *latest = (*latest).max(r.request.arrival.0 / 1000 * 1000);
    let op = if r.request.op == Op::WriteZeroes { Op::Write } else { r.request.op };
    let e = r.request.extent;
    let mut out = rec(*latest, op, e.start.0, e.len.0);
    out.device = r.device;
    out
}

#[test]
fn fio_iolog_keeps_order_address_and_microseconds() {
    let directory = tempfile::tempdir().unwrap();
    for (name, _) in FIXTURES {
        let source = Source::from_bytes(name, &fixture(name)).unwrap();
        let out = directory.path().join("out.fio");
        written(&source, &out, "fio");
        let (before, trace) = read(name);
        let mut latest = 0;
        let expected: Vec<_> = trace.iter().map(|r| as_fio(r, &mut latest)).collect();
        assert_eq!(records(&out), expected, "{name}");
        let text = std::fs::read_to_string(&out).unwrap();
        let version = if before.info().has_times { 3 } else { 2 };
        assert!(text.starts_with(&format!("fio version {version} iolog\n")), "{name}");
    }
    let source = Source::from_bytes("x", &fixture("msr.csv")).unwrap();
    let out = directory.path().join("msr.fio");
    written(&source, &out, "fio");
    assert_eq!(
        std::fs::read_to_string(&out).unwrap(),
        "fio version 3 iolog\n\
         0 web,0 add\n0 web,0 open\n0 web,0 read 7014609920 24576\n\
         1332052 web,0 write 2517696512 4096\n\
         2332061 web,1 add\n2332061 web,1 open\n2332061 web,1 write 512 1536\n\
         2332061 web,0 close\n2332061 web,1 close\n"
    );
}

/// A replay must not write to the recorded disk.
#[test]
fn a_fio_iolog_names_no_path_and_each_device_once() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out.fio");
    let names = ["/dev/sda", "/dev/mapper/sda", "/", "x_y_5", "x_y", "x y"];
    let lines = names.map(|name| format!("0.0,{name},W,8,8,,,,\n")).concat();
    let text = format!("time_s,device,rwbs,sector,sectors,pid,process,day,service_s\n{lines}");
    let source = Source::from_bytes("x", text.as_bytes()).unwrap();
    assert_eq!(written(&source, &out, "fio").records, 6);
    let log = std::fs::read_to_string(&out).unwrap();
    let opened = log.lines().filter_map(|l| l.strip_prefix("0 ")?.strip_suffix(" open"));
    assert_eq!(
        opened.collect::<Vec<_>>(),
        ["sda", "sda_1", "disk", "x_y_5", "x_y", "x_y_6"],
        "{log}"
    );
}

/// fio replays a written log: it moves the bytes of the trace, and takes the same time.
#[test]
fn fio_replays_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log.fio");
    let text = "0.0 0 0 8 1\n1.0 0 16 8 0\n300.0 0 1024 64 1\n301.0 1 8 8 1\n";
    let source = Source::from_bytes("x", text.as_bytes()).unwrap();
    written(&source, &log, "fio");
    let file = directory.path().join("file");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let mut fio = Command::new("fio");
    fio.args(["--name=r", "--ioengine=psync", "--output-format=json"])
        .arg(format!("--read_iolog={}", log.display()))
        .arg(format!("--replay_redirect={}", file.display()))
        .current_dir(directory.path());
    let Ok(ran) = fio.output() else {
        println!("SKIPPED fio_replays_the_log: no fio");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let number = |section: &str, key: &str| -> u64 {
        let at = said.find(&format!("\"{section}\" :")).unwrap();
        let rest = &said[at..];
        let rest = &rest[rest.find(&format!("\"{key}\" :")).unwrap() + key.len() + 4..];
        let rest = rest.trim_start();
        rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
    };
    assert_eq!(number("read", "io_bytes"), (8 + 64 + 8) * 512, "{said}");
    assert_eq!(number("write", "io_bytes"), 8 * 512, "{said}");
    assert_eq!((number("read", "total_ios"), number("write", "total_ios")), (3, 1), "{said}");
    let took = number("read", "runtime");
    assert!((250..5000).contains(&took), "301 ms took {took} ms: not microseconds\n{said}");
}

#[test]
fn oracle_general_has_the_next_access_of_each_page() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("t.oracleGeneral");
    // Pages 1 and 2; page 2 written; a discard and a flush; page 0 of another device; page 1 again.
    let text = "fio version 3 iolog\n0 a add\n0 a read 4608 8192\n1500000 a write 8192 512\n1600000 a trim 0 4096\n1600000 a sync 0 0\n2000000 b read 0 4096\n2000000 a read 4096 4096\n";
    let source = Source::from_bytes("x", text.as_bytes()).unwrap();
    let done = written(&source, &out, "oraclegeneral");
    assert_eq!((done.records, done.left_out), (4, 2));
    let bytes = std::fs::read(&out).unwrap();
    let all: Vec<(u32, u64, u32, i64)> = bytes
        .chunks(24)
        .map(|r| {
            let int = |at: usize| u32::from_le_bytes(r[at..at + 4].try_into().unwrap());
            let long = |at: usize| u64::from_le_bytes(r[at..at + 8].try_into().unwrap());
            (int(0), long(4), int(12), long(16) as i64)
        })
        .collect();
    let other = 1 << 40;
    let expected = [
        // Bytes 4608..12800 are in pages 1, 2 and 3.
        (0, 1, 4096, 6),
        (0, 2, 4096, 4),
        (0, 3, 4096, -1),
        (1, 2, 4096, -1),
        (2, other, 4096, -1),
        (2, 1, 4096, -1),
    ];
    assert_eq!(all, expected);
    let source = Source::from_bytes("x", &fixture("msr.csv")).unwrap();
    written(&source, &out, "oraclegeneral");
    let pages: Vec<_> = records(&out).iter().map(|r| r.request.extent).collect();
    // 48 sectors from 13,700,410 are in seven pages from 1,712,551.
    let expected: Vec<_> = (0..7).map(|i| Extent::new((1_712_551 + i) * 8, 8)).collect();
    assert_eq!(pages[..7], expected);
    assert!(
        records(&out).iter().all(|r| r.request.op == Op::Read && r.request.flags == Flags::NONE)
    );
}

#[test]
fn a_request_too_long_for_pages_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for line in ["0.0 0 0 8388609 1\n", "0.0 0 8796093022200 16 1\n"] {
        let source = Source::from_bytes("x", line.as_bytes()).unwrap();
        let out = directory.path().join("out");
        let target = Target::new(&format!("oraclegeneral:{}", out.display())).unwrap();
        let error = convert(&source, &OpenOptions::default(), target, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("4 GiB"), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn a_name_chooses_the_compression() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::from_bytes("x", &fixture("msr.csv")).unwrap();
    for name in ["a.csv.gz", "a.csv.zst", "a.fio.zst"] {
        let out = directory.path().join(name);
        let target = Target::new(out.to_str().unwrap()).unwrap();
        convert(&source, &OpenOptions::default(), target, &mut |_| {}).unwrap();
        assert_eq!(records(&out).len(), 3, "{name}");
        assert!(!std::fs::read(&out).unwrap().starts_with(b"time_s"), "{name} is packed");
    }
}

#[test]
fn a_trace_without_valid_days_has_none_in_other_formats() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::from_bytes("x.lis", b"0 8 1 0\n8 8 2 1\n16 8 1 2\n24 8 3 3\n").unwrap();
    for format in ["csv", "parquet"] {
        let out = directory.path().join(format);
        assert_eq!(written(&source, &out, format).records, 4);
        let mut reader = Source::new(&out).open(&OpenOptions::default()).unwrap();
        let days: Vec<_> = reader.by_ref().map(|r| r.unwrap().day).collect();
        assert!(!reader.info().has_days && days[2..] == [None, None], "{format}: {days:?}");
        assert!(format == "csv" || days == [None; 4], "{days:?}");
    }
}

/// Another user chose it, in a folder where everybody may write.
#[test]
fn a_conversion_replaces_no_file_behind_a_link_of_another_user() {
    let directory = tempfile::tempdir().unwrap();
    let (mine, link) = (directory.path().join("mine"), directory.path().join("link.csv"));
    std::fs::write(&mine, "old").unwrap();
    std::os::unix::fs::symlink("mine", &link).unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    if std::os::unix::fs::lchown(&link, Some(65_534), None).is_err() {
        return println!("SKIPPED links of another user: not root");
    }
    let source = Source::from_bytes("x", &fixture("fio3.log")).unwrap();
    let target = Target::new(link.to_str().unwrap()).unwrap();
    let error = convert(&source, &OpenOptions::default(), target, &mut |_| {}).unwrap_err();
    let refused = |e: &std::io::Error| e.to_string().contains("a link of another user");
    assert!(
        matches!(&error, TraceError::WriteFailed { source, .. } if refused(source)),
        "{error:?}"
    );
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "old");
}

#[test]
fn one_device_of_several() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("one.csv");
    let source = Source::from_bytes("x", &fixture("alibaba.csv")).unwrap();
    let mut target = Target::new(out.to_str().unwrap()).unwrap();
    target.device = Some("725".to_owned());
    let done = convert(&source, &OpenOptions::default(), target.clone(), &mut |_| {}).unwrap();
    assert_eq!((done.records, records(&out)[0].request.extent.start.0), (1, 701_551_200));
    target.device = Some("8".to_owned());
    let error = convert(&source, &OpenOptions::default(), target, &mut |_| {}).unwrap_err();
    assert!(matches!(error, TraceError::NoSuchDevice { .. }), "{error:?}");
    assert!(error.to_string().contains("it has '419', '725'"), "{error}");
}
