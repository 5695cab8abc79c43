//! SPC: `ASU,LBA,Size,Opcode,Timestamp`. The LBA is in sectors, the size in bytes, the opcode r or
//! w in upper or lower case, the time in seconds with a fraction. Columns after the fifth are
//! optional and ignored. A size that is not a whole number of sectors is rounded up.

use seekless_block::Op;

use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, decimal, number};

pub(super) const EXPECTED: &str = "unit, sector, size in bytes, r or w, seconds";

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let unit = number(f.comma())?;
    let start = number(f.comma())?;
    let len = number(f.comma())?.div_ceil(512);
    let op = match f.comma() {
        b"r" | b"R" => Op::Read,
        b"w" | b"W" => Op::Write,
        _ => return None,
    };
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(decimal(f.comma(), 9)?);
    raw.device = Dev::Number(unit);
    Some(ParsedLine::Request(raw))
}
