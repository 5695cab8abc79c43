//! Traces of files: the bytes and the file of each call, computed by hand; and the same traces read
//! as a disk.

use seekless_block::Op::{Flush, Read, Write};
use seekless_block::{Duration, SimTime, StreamId};
use seekless_trace::{FileEvent, FileOp, FileReader, OpenOptions, Source, TraceError};

use crate::fixtures::names;
use crate::support::{With, fixture, read, rec};

fn open_files(bytes: &[u8]) -> FileReader {
    let source = Source::from_bytes("a trace", bytes).unwrap();
    source.open_files(&OpenOptions::default()).unwrap()
}

fn events(bytes: &[u8]) -> (FileReader, Vec<FileEvent>) {
    let mut reader = open_files(bytes);
    let events = reader.by_ref().map(Result::unwrap).collect();
    (reader, events)
}

/// Time and duration in microseconds, stream, file, operation, offset, length.
fn event(us: u64, took: u64, who: u32, file: u32, op: FileOp, offset: u64, len: u64) -> FileEvent {
    let latency = Some(Duration(took * 1000));
    let (time, stream) = (SimTime(us * 1000), StreamId(who));
    FileEvent { time, stream, file, op, offset, len, latency }
}

fn files(reader: &FileReader) -> Vec<(&str, u64)> {
    reader.files().iter().map(|f| (f.path.as_str(), f.end)).collect()
}

#[test]
fn a_trace_with_very_many_forks_at_once_is_refused() {
    let forks = |n: u32| {
        let fork = |i: u32| format!("{} 1700000009.000000 fork( <unfinished ...>\n", 1000 + i);
        let text: String = (0..n).map(fork).collect();
        open_files(&[fixture("strace.txt"), text.into_bytes()].concat()).find_map(Result::err)
    };
    assert!(forks(4096).is_none());
    let error = forks(4097).unwrap().to_string();
    assert!(error.contains("at most 4,096 forks"), "{error}");
}

#[test]
fn strace_follows_descriptors_through_fork_dup_rename_and_unlink() {
    use FileOp as F;
    let (reader, events) = events(&fixture("strace.txt"));
    let expected = [
        event(0, 10, 1, 0, F::Create, 0, 0),
        event(100, 20, 1, 0, F::Write, 0, 5000),
        event(700, 5, 1, 0, F::Read, 4096, 100),
        // Begun before, ended after: parent and child share the position, which the child set
        // to 0.
        event(600, 200, 2, 0, F::Read, 0, 4096),
        event(900, 1, 1, 0, F::Read, 4096, 904),
        event(1200, 2000, 2, 0, F::Sync, 0, 0),
        event(1700, 10, 1, 0, F::Rename, 0, 0),
        event(1800, 2, 1, 1, F::Open, 0, 0),
        // Appended to the size from fstat.
        event(2000, 2, 1, 1, F::Write, 10_000, 1),
        event(2100, 1, 1, 1, F::Close, 0, 0),
        event(2200, 10, 1, 0, F::Unlink, 0, 0),
        event(2300, 1, 1, 0, F::Close, 0, 0),
    ];
    assert_eq!(events, expected);
    assert_eq!(files(&reader), [("/data/b.txt", 5000), ("/data/log", 10_001)]);
    let streams: Vec<_> = reader.streams().iter().map(|s| (s.pid, s.name.as_str())).collect();
    assert_eq!(streams, [(0, ""), (100, "sh"), (101, "cat")]);
    assert_eq!(reader.skipped().unknown_files, 0);
    let info = reader.info();
    assert!(info.has_times && info.has_processes && !info.has_service);
}

#[test]
fn files_are_placed_one_after_another_on_the_disk() {
    let (reader, records) = read("strace.txt");
    let expected = [
        rec(0, Write, 0, 10).stream(1),
        rec(500_000, Read, 0, 8).stream(2),
        rec(600_000, Read, 8, 1).stream(1),
        rec(800_000, Read, 8, 2).stream(1),
        rec(1_100_000, Flush, 0, 0).stream(2),
        // The first file takes two pages; byte 10,000 of the second is in its sector 19.
        rec(1_900_000, Write, 16 + 19, 1).stream(1),
    ];
    assert_eq!(records, expected);
    assert_eq!(names(&reader), [(0, ""), (100, "sh"), (101, "cat")]);
    assert!(reader.info().format.caveat().unwrap().contains("one after another"));
}

#[test]
fn strace_on_a_terminal_names_processes_late_and_splits_lines() {
    let (reader, events) = events(&fixture("strace-tty.txt"));
    let seen: Vec<_> =
        events.iter().map(|e| (e.time.0 / 1000, e.op, e.offset, e.latency)).collect();
    // One position for all three reads, although the trace names the parent nothing, 200, and
    // nothing again.
    let expected = [
        (0, FileOp::Open, 0, None),
        (200, FileOp::Read, 0, None),
        (400, FileOp::Read, 512, None),
        (700, FileOp::Read, 1024, None),
        (800, FileOp::Close, 0, None),
    ];
    assert_eq!(seen, expected);
    assert_eq!(files(&reader), [("/data/data", 1536)]);
    assert_eq!(reader.skipped().unknown_files, 1, "descriptor 7 was never opened");
}

#[test]
fn every_call_that_moves_data_or_positions() {
    let text = br#"openat(AT_FDCWD, "/d/a", O_RDWR|O_CREAT, 0600) = 3
openat(AT_FDCWD, "/d", O_RDONLY|O_DIRECTORY) = 4
writev(3, [{iov_base="ab", iov_len=2}, {iov_base="c", iov_len=1}], 2) = 3
dup(3)                                  = 5
lseek(5, 100, SEEK_SET)                 = 100
read(3, "", 10)                         = 10
_llseek(3, 0, [4096], SEEK_SET)         = 0
pwritev2(3, [{iov_base="ab", iov_len=2}], 1, 8192, 0) = 2
preadv2(3, [{iov_base="ab", iov_len=2}], 1, -1, 0) = 2
creat("/d/b", 0600)                     = 6
sendfile(6, 3, [0] => [50], 50)         = 50
copy_file_range(3, NULL, 6, NULL, 7, 0) = 7
ftruncate(6, 20)                        = 0
fdatasync(6)                            = 0
close_range(5, 9, 0)                    = 0
read(5, "", 10)                         = -1 EBADF (Bad file descriptor)
renameat2(AT_FDCWD, "/d/b", AT_FDCWD, "/d/a", RENAME_NOREPLACE) = 0
unlinkat(AT_FDCWD, "/d", AT_REMOVEDIR)  = 0
open("/proc/self/maps", O_RDONLY)       = 7
read(7, "", 10)                         = 10
read(0, "", 10)                         = 10
"#;
    let (reader, events) = events(text);
    let seen: Vec<_> = events.iter().map(|e| (e.op, e.file, e.offset, e.len)).collect();
    use FileOp as F;
    let expected = [
        (F::Create, 0, 0, 0),
        (F::Write, 0, 0, 3),
        (F::Read, 0, 100, 10),
        (F::Write, 0, 8192, 2),
        (F::Read, 0, 4096, 2),
        (F::Create, 2, 0, 0),
        (F::Read, 0, 0, 50),
        (F::Write, 2, 0, 50),
        (F::Read, 0, 4098, 7),
        (F::Write, 2, 50, 7),
        (F::Truncate, 2, 0, 20),
        (F::Sync, 2, 0, 0),
        (F::Close, 0, 0, 0),
        (F::Close, 2, 0, 0),
        (F::Rename, 2, 0, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(files(&reader), [("/d/a", 8194), ("/d", 0), ("/d/a", 57)]);
    assert!(!reader.info().has_times && !reader.info().has_processes);
    // /proc is not a disk file, so its descriptor is unknown.
    assert_eq!(reader.skipped().unknown_files, 1);
}

#[test]
fn a_file_opened_before_the_trace_is_known_from_the_option_y() {
    let text = b"9 read(3</a b\\74c>, \"\"..., 10) = 10\n9 read(3</a b\\74c>, \"\"..., 10) = 10\n9 read(3</other>, \"\", 5) = 5\n9 read(4<socket:[1]>, \"\", 5) = 5\n9 read(5</dev/pts/0<char 136:0>>, \"\", 5) = 5\n";
    let (reader, events) = events(text);
    let seen: Vec<_> = events.iter().map(|e| (e.file, e.offset, e.len)).collect();
    assert_eq!(seen, [(0, 0, 10), (0, 10, 10), (1, 0, 5)]);
    assert_eq!(files(&reader), [("/a b<c", 20), ("/other", 5)]);
    assert_eq!(reader.skipped().unknown_files, 0);
}

#[test]
fn times_of_day_after_midnight_and_differences_add_up() {
    let times =
        |text: &str| -> Vec<u64> { events(text.as_bytes()).1.iter().map(|e| e.time.0).collect() };
    let day = "23:59:59 open(\"/a\", 0) = 3\n00:00:01 read(3, \"\", 1) = 1\n23:00:00 read(3, \"\", 1) = 1\n00:00:01 read(3, \"\", 1) = 1\n";
    let hours = 3600 * 1_000_000_000;
    let expected = [0, 2_000_000_000, 23 * hours + 1_000_000_000, 24 * hours + 2_000_000_000];
    assert_eq!(times(day), expected);
    let since = "     0.000000 open(\"/a\", 0) = 3\n     0.000500 read(3, \"\", 1) = 1\n     1.000000 close(3) = 0\n";
    assert_eq!(times(since), [0, 500_000, 1_000_500_000]);
}

#[test]
fn procmon() {
    use FileOp as F;
    let (reader, events) = events(&fixture("procmon.csv"));
    let expected = [
        event(0, 10, 1, 0, F::Open, 0, 0),
        event(50, 4000, 1, 0, F::Read, 5_242_880, 1_048_576),
        // After midnight.
        event(160, 10, 2, 1, F::Create, 0, 0),
        event(170, 10, 2, 1, F::Write, 0, 513),
        event(171, 10, 2, 1, F::Write, 513, 7),
        event(180, 10_000, 2, 1, F::Sync, 0, 0),
        event(200, 10, 2, 1, F::Rename, 0, 0),
        event(210, 1, 2, 1, F::Close, 0, 0),
        event(220, 1, 2, 1, F::Unlink, 0, 0),
    ];
    assert_eq!(events, expected);
    assert_eq!(files(&reader), [(r"c:\data\big.bin", 6_291_456), (r"c:\tmp\old.doc", 520)]);
    let streams: Vec<_> = reader.streams().iter().map(|s| (s.pid, s.name.as_str())).collect();
    assert_eq!(streams, [(0, ""), (2900, "Explorer.EXE"), (31, "word, the.exe")]);

    let (_, records) = read("procmon.csv");
    let expected = [
        rec(0, Read, 10_240, 2048).stream(1),
        rec(120_000, Write, 12_288, 2).stream(2),
        rec(121_000, Write, 12_289, 1).stream(2),
        rec(130_000, Flush, 0, 0).stream(2),
    ];
    assert_eq!(records, expected);
}

#[test]
fn a_trace_of_a_disk_has_no_files() {
    let source = Source::from_bytes("x", &fixture("msr.csv")).unwrap();
    let error = source.open_files(&OpenOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::NotOfFiles { .. }), "{error:?}");
    assert!(error.to_string().contains("strace"), "{error}");
}

#[test]
fn an_invalid_line_is_an_error_or_is_counted() {
    let mut text = fixture("strace.txt");
    text.extend(b"100 1700000001.0 read(3</data/a.txt>, \"cut sh");
    let mut reader = open_files(&text);
    let error = reader.find_map(Result::err).unwrap().to_string();
    assert!(error.contains("a trace: line 26:") && error.contains("cut sh"), "{error}");
    assert!(reader.next().is_none(), "no event follows an error");
    let lenient = OpenOptions { lenient: true, ..OpenOptions::default() };
    let source = Source::from_bytes("a trace", &text).unwrap();
    let mut reader = source.open_files(&lenient).unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 12);
    assert_eq!(reader.skipped().malformed, 1);
    let mut disk = source.open(&lenient).unwrap();
    assert_eq!((disk.by_ref().count(), disk.skipped().malformed), (6, 1));
}

/// Runs strace on a small program, if strace is installed and allowed.
#[test]
fn straces_output_is_read_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let script = "head -c 10000 /dev/zero > a; dd if=a of=b bs=1000 count=9 2>/dev/null; mv b c; cat c a > d; rm a";
    for options in ["-ttt -T -y", "-tt -yy", "-t", "-r", "", "-ttt -e trace=file,desc,process"] {
        let log = directory.path().join("log");
        let mut strace = std::process::Command::new("strace");
        strace.arg("-f").args(options.split_whitespace()).arg("-o").arg(&log);
        let ran = strace.args(["sh", "-c", script]).current_dir(directory.path()).output();
        if !ran.is_ok_and(|r| r.status.success()) {
            println!("SKIPPED straces_output_is_read_in_every_form: no strace, or not allowed");
            return;
        }
        let source = Source::from_path(&log, None);
        let mut reader = source.open_files(&OpenOptions::default()).unwrap();
        let mut moved = std::collections::HashMap::<(u32, FileOp), u64>::new();
        for event in reader.by_ref().map(Result::unwrap) {
            *moved.entry((event.file, event.op)).or_default() += event.len;
        }
        let bytes = |path: &str, op| -> u64 {
            let named = reader.files().iter().enumerate().filter(|(_, f)| {
                f.path == path || f.path == format!("{}/{path}", directory.path().display())
            });
            named.map(|(i, _)| moved.get(&(i as u32, op)).copied().unwrap_or(0)).sum()
        };
        let seen = ["a", "c", "d"].map(|p| (bytes(p, FileOp::Read), bytes(p, FileOp::Write)));
        assert_eq!(seen, [(19_000, 10_000), (9000, 9000), (0, 19_000)], "strace -f {options}");
    }
}
