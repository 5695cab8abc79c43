//! BIOTracer's traces of a Nexus 5 (Zhou et al., IISWC'15): `sector sectors bytes flags generated
//! started submitted finished`, separated by blanks, times in seconds. Flag bit 0 means a write.
//! The length is the third column, in bytes; the second does not always agree. The arrival is the
//! time of generation, and the service time is from submission to the end. Lines are not in order
//! of time. In some traces the clock jumps by years when the phone receives the date; such a jump
//! stays as it is.

use seekless_block::Op;

use crate::reader_context::{RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, decimal, number};

pub(super) const EXPECTED: &str =
    "sector, sectors, bytes, flags (bit 0 write), four times in seconds: generated to finished";

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let start = number(f.word())?;
    number(f.word())?;
    let bytes = number(f.word())?;
    let flags = number(f.word())?;
    let generated = decimal(f.word(), 9)?;
    decimal(f.word(), 9)?;
    let submitted = decimal(f.word(), 9)?;
    let finished = decimal(f.word(), 9)?;
    f.end()?;
    let op = if flags & 1 == 1 { Op::Write } else { Op::Read };
    let mut raw = RawRequest::new(op, start, bytes.div_ceil(512));
    raw.time = Some(generated);
    raw.service = finished.checked_sub(submitted);
    Some(ParsedLine::Request(raw))
}
