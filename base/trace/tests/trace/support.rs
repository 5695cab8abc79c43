//! Shared by the tests: finds fixtures, and reads a trace from bytes.

use std::io::Cursor;
use std::path::Path;

use seekless_block::{Duration, Extent, Flags, Op, Request, SimTime, StreamId};
use seekless_trace::{Event, Format, OpenOptions, Reader, Record, TraceError};

/// The bytes of a fixture. `.hex` files are hexadecimal with comments; `srt` is a header and such a
/// file.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).join(name);
    if name == "srt" {
        let mut bytes = std::fs::read(path.with_file_name("srt.header")).unwrap();
        bytes.push(0x0C);
        bytes.extend(fixture("srt.hex"));
        return bytes;
    }
    let bytes = std::fs::read(&path).unwrap();
    if !name.ends_with(".hex") {
        return bytes;
    }
    let text = String::from_utf8(bytes).unwrap();
    let digits: Vec<u8> = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .flat_map(|l| l.bytes().filter(|b| !b.is_ascii_whitespace()))
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Every fixture, and the format that must be detected.
pub(crate) const FIXTURES: [(&str, Format); 31] = [
    ("blkparse.txt", Format::Blkparse),
    ("blkparse-flushes.txt", Format::Blkparse),
    ("blkparse-t.txt", Format::Blkparse),
    ("tracefs.txt", Format::Tracefs),
    ("blk-tracer.txt", Format::Tracefs),
    ("fio2.log", Format::Fio),
    ("fio3.log", Format::Fio),
    ("msr.csv", Format::Msr),
    ("spc.csv", Format::Spc),
    ("disksim.txt", Format::DiskSim),
    ("mqsim.txt", Format::MqSim),
    ("arc.lis", Format::Lis),
    ("blktrace.hex", Format::Blktrace),
    ("vscsi.hex", Format::Vscsi),
    ("srt", Format::Srt),
    ("vscsi2.hex", Format::Vscsi),
    ("alibaba.csv", Format::Alibaba),
    ("tencent.csv", Format::Tencent),
    ("systor.csv", Format::Systor),
    ("fiu.txt", Format::Fiu),
    ("biotracer.txt", Format::BioTracer),
    ("biosnoop.txt", Format::Biosnoop),
    ("biosnoop-q.txt", Format::Biosnoop),
    ("etw.csv", Format::Etw),
    ("etw-cpu.csv", Format::Etw),
    ("mobile.csv", Format::Mobile),
    ("table.csv", Format::Csv),
    ("oracle.hex", Format::Oracle),
    ("strace.txt", Format::Strace),
    ("strace-tty.txt", Format::Strace),
    ("procmon.csv", Format::Procmon),
];

pub(crate) fn open(bytes: &[u8], options: &OpenOptions) -> Result<Reader, TraceError> {
    Reader::from_read(Cursor::new(bytes.to_vec()), Path::new("a trace"), None, options)
}

pub(crate) fn read_event(name: &str, event: Event) -> (Reader, Vec<Record>) {
    let options = OpenOptions { event, ..OpenOptions::default() };
    let mut reader = open(&fixture(name), &options).unwrap();
    let records = reader.by_ref().map(Result::unwrap).collect();
    (reader, records)
}

pub(crate) fn read(name: &str) -> (Reader, Vec<Record>) {
    read_event(name, Event::Queue)
}

/// A short form for a record.
pub(crate) fn rec(ns: u64, op: Op, start: u64, len: u64) -> Record {
    let request = Request::new(SimTime(ns), op, Extent::new(start, len));
    Record { request, device: 0, day: None, service: None }
}

pub(crate) trait With: Sized {
    fn flags(self, flags: &[Flags]) -> Self;
    fn stream(self, stream: u32) -> Self;
    fn device(self, device: u32) -> Self;
    fn day(self, day: u32) -> Self;
    fn service(self, ns: u64) -> Self;
}

impl With for Record {
    fn flags(mut self, flags: &[Flags]) -> Self {
        self.request.flags = flags.iter().fold(Flags::NONE, |a, b| a.union(*b));
        self
    }
    fn stream(mut self, stream: u32) -> Self {
        self.request.stream = StreamId(stream);
        self
    }
    fn device(mut self, device: u32) -> Self {
        self.device = device;
        self
    }
    fn day(mut self, day: u32) -> Self {
        self.day = Some(day);
        self
    }
    fn service(mut self, ns: u64) -> Self {
        self.service = Some(Duration(ns));
        self
    }
}
