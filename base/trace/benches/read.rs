//! Records per second from the page cache, for the formats of large traces.
#![allow(missing_docs, reason = "criterion's macros")]
#![allow(clippy::expect_used, reason = "a bench that cannot run should say so and stop")]

use std::fmt::Write as _;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use seekless_trace::{OpenOptions, Source, convert};

const RECORDS: u64 = 200_000;

/// A pseudo-random number, always the same for `i`.
fn mixed(i: u64) -> u64 {
    (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34
}

fn lis() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..RECORDS {
        let _ = writeln!(text, "{} {} {} {i}", mixed(i), 8 + i % 120, i / 7000);
    }
    text.into_bytes()
}

fn blkparse() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..RECORDS {
        let (s, ns, pid) = (i / 20_000, i % 20_000 * 50_000 + 17, 1000 + i % 37);
        let _ = writeln!(
            text,
            "  8,0    {:1} {i:8} {s:5}.{ns:09} {pid:5}  Q  RA {} + {} [worker {}]",
            i % 4,
            mixed(i),
            8 + i % 120,
            pid % 10
        );
    }
    text.into_bytes()
}

fn blktrace() -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..RECORDS {
        bytes.extend(0x6561_7407u32.to_le_bytes());
        bytes.extend((i as u32).to_le_bytes());
        bytes.extend((i * 50_000).to_le_bytes());
        bytes.extend(mixed(i).to_le_bytes());
        bytes.extend(((8 + i as u32 % 120) * 512).to_le_bytes());
        bytes.extend(0x0011_0001u32.to_le_bytes());
        bytes.extend((1000 + i as u32 % 37).to_le_bytes());
        bytes.extend((8u32 << 20).to_le_bytes());
        bytes.extend([0; 8]);
    }
    bytes
}

fn msr() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..RECORDS {
        let (time, offset) = (128_166_372_003_061_629 + i * 500, mixed(i) * 512);
        let _ = writeln!(text, "{time},web,{},Read,{offset},{},4128", i % 3, 4096 + i % 9 * 512);
    }
    text.into_bytes()
}

fn alibaba() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..RECORDS {
        let (time, offset) = (1_577_808_144_360_767 + i * 50, mixed(i) * 4096);
        let op = if i % 3 == 0 { 'R' } else { 'W' };
        let _ = writeln!(text, "{},{op},{offset},{},{time}", i % 5, 4096 + i % 9 * 512);
    }
    text.into_bytes()
}

/// Out of order by a few lines, as in the real traces.
fn tencent() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..RECORDS {
        let time = 1_538_323_200 + (i ^ 3) / 2000;
        let _ = writeln!(text, "{time},{},{},{},{}", mixed(i), 8 + i % 120, i % 2, 1000 + i % 7);
    }
    text.into_bytes()
}

fn strace() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..RECORDS {
        let (s, us, fd) = (1_700_000_000 + i / 20_000, i % 20_000 * 50, 3 + i % 5);
        let _ = writeln!(
            text,
            "{} {s}.{us:06} pread64({fd}</var/lib/data/{fd}>, \"\\0\\1abc\"..., 4096, {}) = 4096 <0.000009>",
            1000 + i % 3,
            mixed(i) * 4096
        );
    }
    text.into_bytes()
}

fn read(c: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Elements(RECORDS));
    let mut one = |name: &str, path: &std::path::Path| {
        let source = Source::from_path(path, None);
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut reader = source.open(&OpenOptions::default()).expect("a trace");
                let mut sum = 0;
                while let Some(r) = reader.next_record().expect("a sound trace") {
                    sum += r.request.extent.start.0 + u64::from(r.request.stream.0);
                }
                sum
            });
        });
    };
    let traces = [
        ("lis", lis()),
        ("blkparse", blkparse()),
        ("blktrace", blktrace()),
        ("msr", msr()),
        ("alibaba", alibaba()),
        ("tencent", tencent()),
        ("strace", strace()),
    ];
    for (name, bytes) in traces {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).expect("space for a trace");
        one(name, &path);
        if name == "blkparse" {
            let out = directory.path().join("parquet");
            let source = Source::from_path(&path, None);
            convert(&source, &OpenOptions::default(), &out, &mut |_| {}).expect("a store");
            one("parquet", &out);
        }
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
