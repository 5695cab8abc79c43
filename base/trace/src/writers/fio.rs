//! Writes fio's I/O log, for a replay with `fio --read_iolog`: version 3, which has times in
//! microseconds from the start, or version 2 if the trace has no times. Each device becomes a file
//! of fio with the device's name, without its folder: a replay never finds the recorded disk.
//! `--replay_redirect` sends all requests to one device. Write zeroes
//! becomes a write, because fio has no such operation. Flags and processes are lost. A time that
//! decreases becomes the latest time so far.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use seekless_block::Op;

use super::{Sink, Writer, error};
use crate::{Device, Record, Stream, TraceError, Traced};

pub(super) struct Fio {
    to: Sink,
    path: PathBuf,
    has_times: bool,
    /// Time of the line before, in microseconds.
    clock: u64,
    /// fio's name of each device.
    names: Vec<Option<String>>,
}

impl Fio {
    pub(super) fn new(mut to: Sink, path: &Path, has_times: bool) -> io::Result<Self> {
        writeln!(to, "fio version {} iolog", if has_times { 3 } else { 2 })?;
        Ok(Self { to, path: path.to_owned(), has_times, clock: 0, names: Vec::new() })
    }

    fn line(&mut self, record: &Record, devices: &[Device]) -> io::Result<()> {
        let request = &record.request;
        self.clock = self.clock.max(request.arrival.0 / 1_000);
        let at = record.device as usize;
        if self.names.len() <= at {
            self.names.resize(at + 1, None);
        }
        let name = match self.names[at].take() {
            Some(name) => name,
            None => {
                let name = self.name(at, devices.get(at).map_or("", |d| &d.name));
                for action in ["add", "open"] {
                    self.stamp()?;
                    writeln!(self.to, "{name} {action}")?;
                }
                name
            }
        };
        let action = match request.op {
            Op::Read => "read",
            Op::Write | Op::WriteZeroes => "write",
            Op::Discard => "trim",
            Op::Flush => "sync",
        };
        let (offset, len) = (request.extent.start.0 * 512, request.extent.len.0 * 512);
        self.stamp()?;
        writeln!(self.to, "{name} {action} {offset} {len}")?;
        self.names[at] = Some(name);
        Ok(())
    }

    fn stamp(&mut self) -> io::Result<()> {
        if self.has_times { write!(self.to, "{} ", self.clock) } else { Ok(()) }
    }

    /// A name of one word and without a folder, that no other device has.
    fn name(&self, at: usize, device: &str) -> String {
        let file = device.rsplit('/').next().unwrap_or_default();
        let word: String = file
            .chars()
            .map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c })
            .collect();
        let word = if word.is_empty() { "disk".to_owned() } else { word };
        let taken = |name: &str| self.names.iter().flatten().any(|n| n == name);
        let mut numbered = (at..).map(|n| format!("{word}_{n}"));
        if taken(&word) { numbered.find(|name| !taken(name)).unwrap_or(word) } else { word }
    }

    fn end(mut self) -> io::Result<()> {
        for name in std::mem::take(&mut self.names).into_iter().flatten() {
            self.stamp()?;
            writeln!(self.to, "{name} close")?;
        }
        self.to.finish()
    }
}

impl Writer for Fio {
    fn write(&mut self, record: &Record, _: &[Stream], devices: &[Device]) -> Traced<bool> {
        let end = record.request.extent.end().0;
        if end > u64::MAX / 512 {
            let what = format!("sector {end} is at or above byte 2^64, which fio cannot represent");
            return Err(TraceError::Write { path: self.path.clone(), what });
        }
        self.line(record, devices).map_err(|e| error(&self.path, e))?;
        Ok(true)
    }

    fn finish(self: Box<Self>, _: bool, _: u64) -> Traced<()> {
        let path = self.path.clone();
        self.end().map_err(|e| error(&path, e))
    }
}
