//! Tencent's cloud block storage traces: `time,offset,size,type,volume`, with whole seconds, offset
//! and size in sectors, and type 0 for a read and 1 for a write. A file has thousands of volumes;
//! each is a device. The layout is described in SNIA's IOTTA repository and was checked against a
//! sample. Lines are not in order of time.

use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, direction, number};

pub(super) const EXPECTED: &str = "seconds, sector, sectors, 0 (read) or 1 (write), volume";

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let time = number(f.comma())?.checked_mul(1_000_000_000)?;
    let (start, len) = (number(f.comma())?, number(f.comma())?);
    let op = direction(f.comma(), b"0", b"1")?;
    let volume = number(f.comma())?;
    f.end()?;
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(volume);
    Some(ParsedLine::Request(raw))
}
