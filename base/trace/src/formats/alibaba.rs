//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`; offset and length in bytes,
//! opcode R or W, microseconds. A thousand volumes in one file: each is a device. Layout as its authors
//! publish it (github.com/alibaba/block-traces); a header line, which some copies have, is passed over.

use seekless_block::Op;

use crate::context::{Context, Dev, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, number, sectors_of_bytes};

const EXPECTED: &str = "device, R or W, offset (bytes), length (bytes), microseconds";

#[derive(Debug)]
pub(super) struct Alibaba;

impl LineFormat for Alibaba {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut Context) -> Result<Said<'a>, Bad> {
        parse(line).ok_or(Bad::new(EXPECTED))
    }
}

fn parse(line: &[u8]) -> Option<Said<'_>> {
    let mut f = Fields(line);
    let device = f.comma();
    if device == b"device_id" {
        return Some(Said::Nothing);
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
    let mut raw = Raw::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(device);
    Some(Said::Request(raw))
}
