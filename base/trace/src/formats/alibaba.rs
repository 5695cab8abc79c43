//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`. Offset and length
//! are in bytes, the opcode is R or W, times are in microseconds. A file has a thousand volumes;
//! each is a device. The layout is the one published by its authors
//! (github.com/alibaba/block-traces). Some copies have a header line, which is skipped.

use seekless_block::Op;

use crate::error::BadRecord;
use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{Fields, LineFormat, ParsedLine, number, sectors_of_bytes};

const EXPECTED: &str = "device, R or W, offset (bytes), length (bytes), microseconds";

#[derive(Debug)]
pub(super) struct Alibaba;

impl LineFormat for Alibaba {
    fn line<'a>(
        &mut self,
        line: &'a [u8],
        _: &mut ReaderContext,
    ) -> Result<ParsedLine<'a>, BadRecord> {
        parse(line).ok_or(BadRecord::new(EXPECTED))
    }
}

fn parse(line: &[u8]) -> Option<ParsedLine<'_>> {
    let mut f = Fields(line);
    let device = f.comma();
    if device == b"device_id" {
        return Some(ParsedLine::Nothing);
    }
    let device = number(device)?;
    let op = match f.comma() {
        b"R" => Op::Read,
        b"W" => Op::Write,
        _ => return None,
    };
    let (start, len) = sectors_of_bytes(number(f.comma())?, number(f.comma())?)?;
    let time = number(f.comma())?.checked_mul(1_000)?;
    if !f.rest().is_empty() {
        return None;
    }
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(device);
    Some(ParsedLine::Request(raw))
}
