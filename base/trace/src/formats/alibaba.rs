//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`. Offset and length
//! are in bytes, the opcode is R or W, times are in microseconds. A file has a thousand volumes;
//! each is a device. The layout is the one published by its authors
//! (github.com/alibaba/block-traces). Some copies have a header line, which is skipped.

use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, direction, number, sectors_of_bytes};

pub(super) const EXPECTED: &str = "device, R or W, offset (bytes), length (bytes), microseconds";

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let device = f.comma();
    if device == b"device_id" {
        return Some(ParsedLine::Nothing);
    }
    let device = number(device)?;
    let op = direction(f.comma(), b"R", b"W")?;
    let (start, len) = sectors_of_bytes(number(f.comma())?, number(f.comma())?)?;
    let time = number(f.comma())?.checked_mul(1_000)?;
    f.end()?;
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(device);
    Some(ParsedLine::Request(raw))
}
