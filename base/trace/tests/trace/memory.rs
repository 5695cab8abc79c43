//! A long trace is read with the memory of a short one. The test runs in its own process, so that
//! the memory of other tests does not count. `SEEKLESS_MEMORY_MB` sets the length of the traces; 64
//! MB are enough.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use seekless_trace::{Format, OpenOptions, Reader, StoreWriter};

use crate::support::fixture;

const CHILD: &str = "SEEKLESS_MEMORY_CHILD";
/// More than a window, a row group and the code of the test need; far less than any trace here.
const PEAK_KIB_MAX: u64 = 48 << 10;

/// The same block of bytes, repeated without end.
struct Endless {
    block: Vec<u8>,
    at: usize,
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = buf.len().min(self.left).min(self.block.len() - self.at);
        buf[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at = (self.at + n) % self.block.len();
        self.left -= n;
        Ok(n)
    }
}

fn endless(name: &str) -> Endless {
    let mb: usize = std::env::var("SEEKLESS_MEMORY_MB").map_or(64, |v| v.parse().unwrap());
    let block = fixture(name).repeat(100);
    let left = (mb << 20) / block.len() * block.len();
    Endless { block, at: 0, left }
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::memory_does_not_grow_with_the_trace", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    println!("{said}");
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("peak"), "the child ran no test");
}

fn child() {
    let mut records = 0u64;
    for (name, format) in [("blkparse.txt", Format::Blkparse), ("blktrace.hex", Format::Blktrace)] {
        let options = OpenOptions::default();
        let reader = Reader::from_read(endless(name), Path::new(name), Some(format), &options);
        let mut reader = reader.unwrap();
        // The binary trace is also written as a native store, to nowhere.
        let mut store = (format == Format::Blktrace).then(|| {
            StoreWriter::new(std::io::sink(), Path::new("sink"), Path::new(name), reader.info())
                .unwrap()
        });
        while let Some(record) = reader.next_record().unwrap() {
            records += 1;
            if let Some(store) = &mut store {
                store.write(&record, reader.streams(), reader.devices()).unwrap();
            }
        }
        if let Some(store) = store {
            store.finish(false).unwrap();
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let peak: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    println!("{records} records, peak {peak} KiB");
    assert!(peak < PEAK_KIB_MAX, "{peak} KiB");
}
