//! The CSV table that `seekless convert` writes, one request per line:
//! `time_s,device,rwbs,sector,sectors,pid,process,day,service_s`. The letters are the kernel's, as
//! blkparse prints them. Unknown values are empty. Names can be quoted; a quoted name cannot
//! contain a quote.

use super::rwbs;
use crate::error::{BadRecord, Parsed};
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{Fields, LineFormat, ParsedLine, decimal, number, number32};

pub(crate) const HEADER: &str = "time_s,device,rwbs,sector,sectors,pid,process,day,service_s";
const EXPECTED: &str =
    "seconds, device, rwbs, sector, sectors, pid, process, day, service (seconds)";
const TITLE: &str =
    "'time_s,device,rwbs,sector,sectors,pid,process,day,service_s' on the first line";

/// The columns with content in the lines of `head`.
pub(super) fn filled(head: &[u8]) -> [bool; 9] {
    let mut filled = [false; 9];
    for line in head.split(|&b| b == b'\n').skip(1) {
        let mut f = Fields(line.strip_suffix(b"\r").unwrap_or(line));
        for column in &mut filled {
            *column |= f.quoted().is_some_and(|v| !v.is_empty());
        }
    }
    filled
}

#[derive(Debug, Default)]
pub(super) struct Table {
    titled: bool,
}

impl LineFormat for Table {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        if line == HEADER.as_bytes() {
            self.titled = true;
            return Ok(ParsedLine::Nothing);
        }
        if !self.titled {
            return Err(BadRecord::new(TITLE));
        }
        let raw = parse(line).ok_or(BadRecord::new(EXPECTED))?;
        // As for the trace that it was: all records have a day, or none.
        cx.days &= raw.day.is_some();
        Ok(ParsedLine::Request(raw))
    }
}

fn parse(line: &[u8]) -> Option<RawRequest<'_>> {
    let mut f = Fields(line);
    let time = optional(f.comma(), |s| decimal(s, 9))?;
    let device = f.quoted()?;
    let kind = rwbs::parse(f.comma())?;
    let (start, len) = (number(f.comma())?, number(f.comma())?);
    let pid = optional(f.comma(), number32)?.unwrap_or(0);
    let name = f.quoted()?;
    let day = optional(f.comma(), number32)?;
    let service = optional(f.comma(), |s| decimal(s, 9))?;
    f.end()?;
    let mut raw = RawRequest::new(kind.op?, start, len);
    raw.time = time;
    raw.flags = kind.flags;
    raw.process = Process { pid, name };
    raw.device = Dev::Name(device);
    raw.day = day;
    raw.service = service;
    Some(raw)
}

/// `Some(None)` for an empty field, `None` for an invalid value.
fn optional<T>(s: &[u8], parse: impl Fn(&[u8]) -> Option<T>) -> Option<Option<T>> {
    if s.is_empty() { Some(None) } else { parse(s).map(Some) }
}
