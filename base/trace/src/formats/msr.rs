//! MSR Cambridge CSV: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Times are in
//! units of 100 ns (since 1601), offset and size in bytes. Some copies have a header line, which is
//! skipped. Sizes that are not whole sectors are rounded outward.

use seekless_block::Op;

use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, number, sectors_of_bytes};

pub(super) const EXPECTED: &str =
    "timestamp (100 ns), host, disk number, Read or Write, offset, size, response time (100 ns)";

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let time = f.comma();
    if time.eq_ignore_ascii_case(b"timestamp") {
        return Some(ParsedLine::Nothing);
    }
    let time = number(time)?.checked_mul(100)?;
    let named = f.0;
    let host = f.comma();
    number(f.comma())?;
    if host.is_empty() {
        return None;
    }
    // The device's name is `host,disk` as in the line.
    let device = &named[..named.len() - f.0.len() - 1];
    let op = match f.comma() {
        t if t.eq_ignore_ascii_case(b"read") => Op::Read,
        t if t.eq_ignore_ascii_case(b"write") => Op::Write,
        _ => return None,
    };
    let (start, len) = sectors_of_bytes(number(f.comma())?, number(f.comma())?)?;
    let service = number(f.comma())?.checked_mul(100)?;
    f.end()?;
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Name(device);
    raw.service = Some(service);
    Some(ParsedLine::Request(raw))
}
