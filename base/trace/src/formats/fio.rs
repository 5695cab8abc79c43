//! fio's I/O log: a title line `fio version 2 iolog` (or 3), then `file action [offset length]`. In
//! version 3 a time in microseconds comes before (written by fio 3.33). Offsets and lengths are in
//! bytes and are rounded outward to sectors. Each file is a device. In version 2 `wait` advances
//! the clock by microseconds; a log without `wait` has no times.

use seekless_block::Op;

use crate::error::{BadRecord, Parsed};
use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, LineFormat, ParsedLine, number, sectors_of_bytes};

const EXPECTED: &str = "file, add, open, close, read, write, trim, sync, datasync or wait, offset, length (version 3: microseconds before)";
const TITLE: &str = "'fio version 2 iolog' or 'fio version 3 iolog' on the first line";

pub(super) fn has_times(head: &[u8]) -> bool {
    !head.starts_with(b"fio version 2") || memchr::memmem::find(head, b" wait ").is_some()
}

#[derive(Debug, Default)]
pub(super) struct Fio {
    /// 2 or 3, after the title.
    version: u64,
    /// Sum of the waits in microseconds (version 2).
    clock: u64,
}

impl LineFormat for Fio {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        if let Some(rest) = line.strip_prefix(b"fio version ") {
            let mut f = Fields(rest);
            return match (number(f.word()), f.rest()) {
                (Some(version @ (2 | 3)), b"iolog") => {
                    *self = Self { version, clock: 0 };
                    Ok(ParsedLine::Nothing)
                }
                _ => Err(BadRecord::new(TITLE)),
            };
        }
        if self.version == 0 {
            return Err(BadRecord::new(TITLE));
        }
        self.parse(line).ok_or(BadRecord::new(EXPECTED))
    }
}

impl Fio {
    fn parse<'a>(&mut self, line: &'a [u8]) -> Option<ParsedLine<'a>> {
        let mut f = Fields(line);
        let stamp = if self.version == 3 { number(f.word())? } else { 0 };
        let device = f.word();
        let op = match f.word() {
            b"add" | b"open" | b"close" => return Some(ParsedLine::Nothing),
            b"wait" => {
                self.clock = self.clock.checked_add(number(f.word())?)?;
                return Some(ParsedLine::Nothing);
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => Op::Flush,
            _ => return None,
        };
        let (start, len) = if op == Op::Flush {
            (0, 0)
        } else {
            sectors_of_bytes(number(f.word())?, number(f.word())?)?
        };
        let mut raw = RawRequest::new(op, start, len);
        let micros = if self.version == 3 { stamp } else { self.clock };
        raw.time = Some(micros.checked_mul(1_000)?);
        raw.device = Dev::Name(device);
        Some(ParsedLine::Request(raw))
    }
}
