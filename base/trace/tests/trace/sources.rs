//! Sources of traces: names, compression, several files, pipes.

use std::io::Write;
use std::path::Path;

use flate2::write::GzEncoder;
use seekless_trace::{Format, OpenOptions, Record, Source, TraceError};

use crate::fixtures::big_endian;
use crate::support::{fixture, open, read};

pub(crate) fn records(source: &Source) -> Vec<Record> {
    source.open(&OpenOptions::default()).unwrap().map(Result::unwrap).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut e = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut e = liblzma::write::XzEncoder::new(Vec::new(), 1);
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut e = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(&str, Pack); 4] = [("gz", gzip), ("zst", zstd), ("xz", xz), ("bz2", bzip2)];

#[test]
fn compressed_traces_are_decompressed_and_several_members_joined() {
    let text = fixture("blkparse.txt");
    let expected = read("blkparse.txt").1;
    for (name, pack) in PACKERS {
        let mut packed = pack(&text[..500]);
        packed.extend(pack(&text[500..]));
        let source = Source::from_bytes(name, &packed).unwrap();
        // A source can be opened many times, and two readers do not disturb each other.
        let mut other = source.open(&OpenOptions::default()).unwrap();
        other.next_record().unwrap();
        assert_eq!(records(&source), expected, "{name}");
        assert_eq!(other.count(), expected.len() - 1, "{name}");
    }
}

#[test]
fn a_compressed_trace_cut_short_is_an_error_not_a_shorter_trace() {
    let text = fixture("blkparse.txt");
    for (name, pack) in PACKERS {
        let packed = pack(&text);
        for cut in 1..packed.len() {
            let whole = match open(&packed[..cut], &OpenOptions::default()) {
                Err(_) => false,
                Ok(mut reader) => reader.all(|r| r.is_ok()),
            };
            assert!(!whole, "{name}, cut at {cut} of {}", packed.len());
        }
    }
}

#[test]
fn names_are_formats_and_paths() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t");
    std::fs::write(&path, b"1 0 8 8 1\n3 0 8 8 1\n").unwrap();
    let read = |format: &str| {
        let source = Source::new(format!("{format}{}", path.display()));
        let reader = source.open(&OpenOptions::default()).unwrap();
        (reader.info().format, reader.map(|r| r.unwrap().request.arrival.0).max())
    };
    assert_eq!(read(""), (Format::DiskSim, Some(2_000_000)));
    assert_eq!(read("mqsim:"), (Format::MqSim, Some(2)));
    let error = Source::new("disksin:t").open(&OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("not the name of a format"), "{error}");
    assert!(matches!(error, TraceError::Open { .. }));
    // Reading in the wrong format is an error at the first line, not an empty trace.
    let wrong = Source::new(format!("msr:{}", path.display()));
    let error = wrong.open(&OpenOptions::default()).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("line 1"), "{error}");
}

/// A blktrace record: Q read of one sector by `pid` at `time`.
fn q(time: u64, sector: u64, pid: u32) -> Vec<u8> {
    let mut r = Vec::new();
    r.extend(0x6561_7407u32.to_le_bytes());
    r.extend(0u32.to_le_bytes());
    r.extend(time.to_le_bytes());
    r.extend(sector.to_le_bytes());
    r.extend(512u32.to_le_bytes());
    r.extend(0x0011_0001u32.to_le_bytes());
    r.extend(pid.to_le_bytes());
    r.extend((8u32 << 20).to_le_bytes());
    r.extend([0; 8]);
    r
}

#[test]
fn the_files_of_all_cpus_are_merged_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let file = |records: &[(u64, u64)]| -> Vec<u8> {
        records.iter().flat_map(|&(t, s)| q(t, s, 7)).collect()
    };
    std::fs::write(at("sda.blktrace.0"), file(&[(100, 1), (400, 4), (500, 5)])).unwrap();
    std::fs::write(at("sda.blktrace.1"), []).unwrap();
    std::fs::write(at("sda.blktrace.10"), gzip(&file(&[(200, 2)]))).unwrap();
    // Equal times keep the order of the CPUs.
    std::fs::write(at("sda.blktrace.2"), big_endian(&file(&[(300, 3), (500, 6), (600, 7)])))
        .unwrap();
    std::fs::write(at("sdb.blktrace.0"), file(&[(1, 99)])).unwrap();
    std::fs::write(at("notes.txt"), "nothing").unwrap();
    let sectors = |name: &Path| -> Vec<u64> {
        records(&Source::from_path(name, None)).iter().map(|r| r.request.extent.start.0).collect()
    };
    assert_eq!(sectors(&at("sda")), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(sectors(&at("sda.blktrace")), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(sectors(&at("sda.blktrace.0")), [1, 4, 5]);
    assert_eq!(sectors(directory.path()), [99, 1, 2, 3, 4, 5, 6, 7]);
    assert!(matches!(
        Source::from_path(at("sdc"), None).open(&OpenOptions::default()),
        Err(TraceError::Open { .. })
    ));

    // The error names the bad file among several.
    std::fs::write(at("sda.blktrace.1"), &q(50, 1, 1)[..40]).unwrap();
    let source = Source::from_path(at("sda"), None);
    let error = source.open(&OpenOptions::default()).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("sda.blktrace.1: byte 0"), "{error}");
    let lenient = OpenOptions { lenient: true, ..OpenOptions::default() };
    assert_eq!(source.open(&lenient).unwrap().filter(Result::is_ok).count(), 7);
}

#[test]
fn a_directory_without_blktrace_files_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = Source::new(directory.path()).open(&OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("without blktrace files"), "{error}");
}

/// A pipe cannot be read twice: its contents are stored, and its source can be opened many times.
#[test]
fn a_pipe_is_read_as_often_as_a_file() {
    let (reading, mut writing) = std::io::pipe().unwrap();
    let text = fixture("arc.lis");
    let writer = std::thread::spawn(move || writing.write_all(&text).unwrap());
    let fd = std::os::fd::AsRawFd::as_raw_fd(&reading);
    let source = Source::new(format!("lis:/dev/fd/{fd}"));
    let first = records(&source);
    writer.join().unwrap();
    assert_eq!(first, read("arc.lis").1);
    assert_eq!(records(&source), first);
}

#[test]
fn progress_counts_the_bytes_of_the_file() {
    let packed = zstd(&fixture("arc.lis").repeat(20_000));
    let source = Source::from_bytes("x", &packed).unwrap();
    let mut reader = source.open(&OpenOptions::default()).unwrap();
    let total = packed.len() as u64;
    assert_eq!(reader.progress().total, total);
    while reader.next_record().unwrap().is_some() {
        assert!(reader.progress().read <= total);
    }
    assert_eq!(reader.progress().read, total);
}
