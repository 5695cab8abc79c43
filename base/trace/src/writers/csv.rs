//! Writes the table that `formats/seekless_csv.rs` reads.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use seekless_block::{Flags, Op};

use super::{Sink, Writer, error};
use crate::formats::CSV_HEADER;
use crate::{Device, Record, Stream, Traced};

pub(super) struct Csv {
    to: Sink,
    path: PathBuf,
    has_times: bool,
}

impl Csv {
    pub(super) fn new(mut to: Sink, path: &Path, has_times: bool) -> io::Result<Self> {
        writeln!(to, "{CSV_HEADER}")?;
        Ok(Self { to, path: path.to_owned(), has_times })
    }

    fn line(&mut self, record: &Record, who: Option<&Stream>, device: &str) -> io::Result<()> {
        let to = &mut self.to;
        let request = &record.request;
        if self.has_times {
            seconds(to, request.arrival.0)?;
        }
        to.write_all(b",")?;
        name(to, device)?;
        let (mut letters, mut n) = ([0u8; 8], 0);
        let operation: &[u8] = match request.op {
            Op::Read => b"R",
            Op::Write => b"W",
            Op::Discard => b"D",
            Op::WriteZeroes => b"WZ",
            Op::Flush => b"F",
        };
        let flags =
            [(Flags::FUA, b'F'), (Flags::AHEAD, b'A'), (Flags::SYNC, b'S'), (Flags::META, b'M')];
        let set = flags.iter().filter(|(flag, _)| request.flags.contains(*flag));
        for &letter in operation.iter().chain(set.map(|(_, letter)| letter)) {
            (letters[n], n) = (letter, n + 1);
        }
        to.write_all(b",")?;
        to.write_all(&letters[..n])?;
        write!(to, ",{},{},", request.extent.start.0, request.extent.len.0)?;
        if let Some(pid) = who.map(|s| s.pid).filter(|&pid| pid != 0) {
            write!(to, "{pid}")?;
        }
        to.write_all(b",")?;
        name(to, who.map_or("", |s| &s.name))?;
        to.write_all(b",")?;
        if let Some(day) = record.day {
            write!(to, "{day}")?;
        }
        to.write_all(b",")?;
        if let Some(service) = record.service {
            seconds(to, service.0)?;
        }
        to.write_all(b"\n")
    }
}

impl Writer for Csv {
    fn write(&mut self, record: &Record, streams: &[Stream], devices: &[Device]) -> Traced<bool> {
        let who = streams.get(record.request.stream.0 as usize);
        let device = devices.get(record.device as usize).map_or("", |d| &d.name);
        self.line(record, who, device).map_err(|e| error(&self.path, e))?;
        Ok(true)
    }

    fn finish(self: Box<Self>, _: bool, _: u64) -> Traced<()> {
        self.to.finish().map_err(|e| error(&self.path, e))
    }
}

fn seconds(to: &mut Sink, ns: u64) -> io::Result<()> {
    write!(to, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Writes a name, in quotes if it contains a comma or has blanks at its ends. A quote in the name
/// becomes `'`, and an invisible character becomes a blank, so one line stays one line.
fn name(to: &mut Sink, text: &str) -> io::Result<()> {
    let plain = |b: u8| b != b',' && b != b'"' && b > b' ' && b != 0x7F;
    if text.bytes().all(plain) {
        return to.write_all(text.as_bytes());
    }
    let safe = |c: char| match c {
        '"' => '\'',
        c if c.is_control() => ' ',
        c => c,
    };
    write!(to, "\"{}\"", text.chars().map(safe).collect::<String>())
}
