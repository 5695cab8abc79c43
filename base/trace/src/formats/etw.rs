//! Windows' disk events as printed by `xperf -a dumper`, also used by Microsoft's production
//! traces: `DiskRead|DiskWrite, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset,
//! IOSize, ElapsedTime, DiskNum, IrpFlags, DiskSvcTime, ...` and `DiskFlush`. A header names the
//! columns of each event. Times are in microseconds. An event has the time of its completion; the
//! arrival is that time minus the elapsed time. All other events are skipped. Layout: the header
//! itself, and SNIA's IOTTA set 158.

use seekless_block::Op;

use crate::error::{BadRecord, Parsed};
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{
    Fields, LineFormat, ParsedLine, hexadecimal, number, number32, sectors_of_bytes, trim,
};

const EXPECTED: &str = "DiskRead or DiskWrite with time, process, offset, size, elapsed time and disk in the header's columns, or another event";

const COLUMNS: usize = 24;

/// The columns of an event; 0 for a column that the event does not have.
#[derive(Clone, Copy, Debug)]
struct Layout {
    time: usize,
    process: usize,
    offset: usize,
    size: usize,
    elapsed: usize,
    disk: usize,
    service: usize,
}

const TRANSFER: Layout =
    Layout { time: 1, process: 2, offset: 5, size: 6, elapsed: 7, disk: 8, service: 10 };
const FLUSH: Layout =
    Layout { time: 1, process: 2, offset: 0, size: 0, elapsed: 5, disk: 6, service: 8 };

#[derive(Debug)]
pub(super) struct Etw {
    in_header: bool,
    transfer: Layout,
    flush: Layout,
}

impl Default for Etw {
    fn default() -> Self {
        Self { in_header: false, transfer: TRANSFER, flush: FLUSH }
    }
}

impl LineFormat for Etw {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        self.parse(trim(line), cx).ok_or(BadRecord::new(EXPECTED))
    }
}

impl Etw {
    fn parse<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Option<ParsedLine<'a>> {
        match line {
            b"BeginHeader" => self.in_header = true,
            b"EndHeader" => self.in_header = false,
            _ if line.starts_with(b"OS Version") => {
                if let Some(lost) = value_of(line, b"Events Lost:") {
                    cx.skipped.lost_events = cx.skipped.lost_events.saturating_add(lost);
                }
            }
            _ => return self.event(line),
        }
        Some(ParsedLine::Nothing)
    }

    fn event<'a>(&mut self, line: &'a [u8]) -> Option<ParsedLine<'a>> {
        let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        let mut f = Fields(line);
        for column in &mut columns {
            *column = f.comma();
        }
        let op = match columns[0] {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            b"DiskFlush" => Op::Flush,
            name => {
                let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-/".contains(b);
                let known = !name.is_empty()
                    && name.iter().all(plain)
                    && (self.in_header || number(columns[1]).is_some());
                return known.then_some(ParsedLine::Nothing);
            }
        };
        let layout = if op == Op::Flush { &mut self.flush } else { &mut self.transfer };
        if self.in_header {
            let at = |name: &[u8]| columns.iter().position(|c| *c == name).unwrap_or(0);
            *layout = Layout {
                time: at(b"TimeStamp"),
                process: at(b"Process Name ( PID)"),
                offset: at(b"ByteOffset"),
                size: at(b"IOSize"),
                elapsed: at(b"ElapsedTime"),
                disk: at(b"DiskNum"),
                service: at(b"DiskSvcTime"),
            };
            return Some(ParsedLine::Nothing);
        }
        let micros = |at: usize| number(columns[at])?.checked_mul(1_000);
        let (start, len) = if op == Op::Flush {
            (0, 0)
        } else {
            sectors_of_bytes(
                hexadecimal(columns[layout.offset].strip_prefix(b"0x")?)?,
                hexadecimal(columns[layout.size].strip_prefix(b"0x")?)?,
            )?
        };
        let mut raw = RawRequest::new(op, start, len);
        raw.time = Some(micros(layout.time)?.saturating_sub(micros(layout.elapsed)?));
        raw.process = process(columns[layout.process]);
        raw.device = Dev::Number(number(columns[layout.disk])?);
        raw.service = micros(layout.service);
        Some(ParsedLine::Request(raw))
    }
}

/// Parses `name ( pid)`. The number of Windows' idle process and of unknown processes is not
/// useful.
fn process(text: &[u8]) -> Process<'_> {
    let Some(open) = memchr::memrchr(b'(', text) else { return Process::default() };
    let digits = text[open + 1..].strip_suffix(b")").unwrap_or(&[]);
    match number32(trim(digits)) {
        Some(pid) => Process { pid, name: trim(&text[..open]) },
        None => Process::default(),
    }
}

/// The number after `key` in `Key: 1, Other key: 2`.
fn value_of(line: &[u8], key: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(line, key)? + key.len();
    number(Fields(&line[at..]).comma())
}
