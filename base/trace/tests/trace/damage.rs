//! Damaged traces: cut at every byte, one wrong byte, and all inputs that fuzzing has kept.

use std::path::Path;

use proptest::prelude::*;
use seekless_trace::{Format, OpenOptions, StoreWriter, TraceError};

use crate::harness;
use crate::support::{FIXTURES, fixture, open, read};

/// The fixtures, and the native store of one of them.
fn all() -> Vec<(&'static str, Format, Vec<u8>)> {
    let mut all: Vec<_> = FIXTURES.iter().map(|&(n, f)| (n, f, fixture(n))).collect();
    let (reader, records) = read("blkparse.txt");
    let mut store =
        StoreWriter::new(Vec::new(), Path::new("store"), Path::new("fixture"), reader.info())
            .unwrap();
    for r in &records {
        store.write(r, reader.streams(), reader.devices()).unwrap();
    }
    all.push(("store", Format::Native, store.finish(false).unwrap()));
    all
}

#[test]
fn cut_at_every_byte_nothing_panics() {
    for (_, format, bytes) in all() {
        for n in 0..bytes.len() {
            harness::read(None, &bytes[..n]);
            harness::read(Some(format), &bytes[..n]);
        }
    }
}

#[test]
fn with_any_byte_wrong_nothing_panics() {
    for (_, format, bytes) in all() {
        for n in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[n] ^= [0x01, 0x80, 0xFF][n % 3];
            harness::read(Some(format), &damaged);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// More than one wrong byte: pieces of a trace moved, doubled and dropped, and bytes inserted
    /// anywhere.
    #[test]
    fn pieces_in_any_order_never_panic(
        which in any::<prop::sample::Index>(),
        pieces in prop::collection::vec((any::<prop::sample::Index>(), 1usize..200), 1..12),
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let (name, format) = *which.get(&FIXTURES);
        let whole = fixture(name);
        // The head stays; otherwise most formats refuse the trace at once.
        let mut damaged = whole[..whole.len().min(400)].to_vec();
        for (at, len) in pieces {
            let at = at.index(whole.len());
            damaged.extend(&whole[at..whole.len().min(at + len)]);
        }
        for (at, byte) in bytes {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        harness::read(Some(format), &damaged);
    }
}

#[test]
fn the_error_of_a_cut_binary_trace_names_the_byte() {
    for (name, cut, place) in [
        ("blktrace.hex", 200, "byte 176"),
        ("blktrace.hex", 60, "byte 0"),
        ("vscsi.hex", 40, "byte 32"),
    ] {
        let bytes = fixture(name);
        let error = open(&bytes[..cut], &OpenOptions::default()).unwrap().find_map(Result::err);
        let error = error.unwrap_or_else(|| panic!("{name} cut at {cut} reads whole"));
        assert!(error.to_string().contains(&format!("a trace: {place}:")), "{error}");
    }
}

#[test]
fn lenient_reading_finds_the_next_record_of_a_damaged_binary_trace() {
    let mut bytes = fixture("blktrace.hex");
    // The magic of the second record, a remap.
    bytes[64] = 0;
    let lenient = OpenOptions { lenient: true, ..OpenOptions::default() };
    let mut reader = open(&bytes, &lenient).unwrap();
    let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(records, read("blktrace.hex").1);
    assert_eq!(reader.skipped().malformed, 1);
    assert_eq!(reader.skipped().malformed_first.as_ref().unwrap().place.to_string(), "byte 64");
    let strict = open(&bytes, &OpenOptions::default()).unwrap().find_map(Result::err).unwrap();
    assert!(matches!(strict, TraceError::Malformed(_)), "{strict:?}");
}

#[test]
fn a_long_line_of_brackets_costs_no_square_of_its_length() {
    let blanks = " ".repeat(120_000);
    let long = format!("1 1700000000.000200 read({blanks}{}", "<".repeat(120_000));
    let sound = "1 1700000000.000100 open(\"/a\", O_RDONLY) = 3\n";
    let strace = format!("{sound}{long}\n");
    let tracefs = format!("git-1 {}\n", " [".repeat(120_000));
    let start = std::time::Instant::now();
    for (text, format) in [(strace, Format::Strace), (tracefs, Format::Tracefs)] {
        harness::read(Some(format), text.as_bytes());
    }
    // Ten readings of each take milliseconds; with the square of the length it is minutes.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn the_fuzzing_corpus_breaks_nothing() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    let mut replayed = 0;
    for target in std::fs::read_dir(corpus).unwrap() {
        let target = target.unwrap();
        let name = target.file_name().into_string().unwrap();
        let format = Format::from_name(&name);
        assert!(format.is_some() || name == "any" || name == "store", "no target is called {name}");
        for file in std::fs::read_dir(target.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            match &name[..] {
                "store" => harness::damaged_store(&bytes),
                "columns" => harness::table(&bytes),
                _ => harness::read(format, &bytes),
            }
            replayed += 1;
        }
    }
    assert!(replayed >= FIXTURES.len());
}
