//! SYSTOR'17 (Lee et al., virtual desktops): `Timestamp,Response,IOType,LUN,Offset,Size`, with
//! seconds and fraction, R or W, and bytes. The type is blank if no response was seen; such a
//! request is counted and left out. The layout is described in SNIA's IOTTA repository (set 4964)
//! and was checked against a sample. Lines are in order of completion; times are those of the
//! issue.

use seekless_block::Op;

use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, decimal, number, sectors_of_bytes};

pub(super) const EXPECTED: &str =
    "seconds, response (seconds), R or W, LUN, offset (bytes), size (bytes)";

pub(super) fn parse<'a>(line: &'a [u8], cx: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let time = f.comma();
    if time == b"Timestamp" {
        return (f.rest() == b"Response,IOType,LUN,Offset,Size").then_some(ParsedLine::Nothing);
    }
    let time = decimal(time, 9)?;
    let response = f.comma();
    let op = match f.comma() {
        b"R" => Some(Op::Read),
        b"W" => Some(Op::Write),
        b"" => None,
        _ => return None,
    };
    let lun = number(f.comma())?;
    let (start, len) = sectors_of_bytes(number(f.comma())?, number(f.comma())?)?;
    f.end()?;
    let Some(op) = op else {
        cx.skipped.without_op += 1;
        return Some(ParsedLine::Other);
    };
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(lun);
    raw.service = if response.is_empty() { None } else { Some(decimal(response, 9)?) };
    Some(ParsedLine::Request(raw))
}
