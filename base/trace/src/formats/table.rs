//! The table that `seekless convert` writes as CSV, one request a line:
//! `time_s,device,rwbs,sector,sectors,pid,process,day,service_s`. The letters are the kernel's, as blkparse
//! prints them. Whatever is not known is empty. Names may stand in quotes; within them no quote can stand.

use super::rwbs;
use crate::context::{Context, Dev, Process, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, decimal, number, number32};

/// The first line.
pub(crate) const HEADER: &str = "time_s,device,rwbs,sector,sectors,pid,process,day,service_s";
const EXPECTED: &str =
    "seconds, device, rwbs, sector, sectors, pid, process, day, service (seconds)";
const TITLE: &str =
    "'time_s,device,rwbs,sector,sectors,pid,process,day,service_s' on the first line";

/// Which columns of the lines in `head` hold something.
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
    fn line<'a>(&mut self, line: &'a [u8], _: &mut Context) -> Result<Said<'a>, Bad> {
        if line == HEADER.as_bytes() {
            self.titled = true;
            return Ok(Said::Nothing);
        }
        if !self.titled {
            return Err(Bad::new(TITLE));
        }
        parse(line).ok_or(Bad::new(EXPECTED))
    }
}

fn parse(line: &[u8]) -> Option<Said<'_>> {
    let mut f = Fields(line);
    let time = optional(f.comma(), |s| decimal(s, 9))?;
    let device = f.quoted()?;
    let kind = rwbs::parse(f.comma())?;
    let (start, len) = (number(f.comma())?, number(f.comma())?);
    let pid = optional(f.comma(), number32)?.unwrap_or(0);
    let name = f.quoted()?;
    let day = optional(f.comma(), number32)?;
    let service = optional(f.comma(), |s| decimal(s, 9))?;
    if !f.rest().is_empty() {
        return None;
    }
    let mut raw = Raw::new(kind.op?, start, len);
    raw.time = time;
    raw.flags = kind.flags;
    raw.process = Process { pid, name };
    raw.device = Dev::Name(device);
    raw.day = day;
    raw.service = service;
    Some(Said::Request(raw))
}

/// `Some(None)` for nothing, `None` for what is no such value.
fn optional<T>(s: &[u8], parse: impl Fn(&[u8]) -> Option<T>) -> Option<Option<T>> {
    if s.is_empty() { Some(None) } else { parse(s).map(Some) }
}
