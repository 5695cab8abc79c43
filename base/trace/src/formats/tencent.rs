//! Tencent's cloud block storage traces: `time,offset,size,type,volume`; whole seconds, offset and size in
//! sectors, type 0 for a read and 1 for a write. Thousands of volumes in one file: each is a device.
//! Layout as SNIA's IOTTA repository tells it, checked against a sample. Lines are not in order of time.

use seekless_block::Op;

use crate::context::{Context, Dev, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, number};

const EXPECTED: &str = "seconds, sector, sectors, 0 (read) or 1 (write), volume";

#[derive(Debug)]
pub(super) struct Tencent;

impl LineFormat for Tencent {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut Context) -> Result<Said<'a>, Bad> {
        parse(line).ok_or(Bad::new(EXPECTED))
    }
}

fn parse(line: &[u8]) -> Option<Said<'_>> {
    let mut f = Fields(line);
    let time = number(f.comma())?.checked_mul(1_000_000_000)?;
    let (start, len) = (number(f.comma())?, number(f.comma())?);
    let op = match f.comma() {
        b"0" => Op::Read,
        b"1" => Op::Write,
        _ => return None,
    };
    let volume = number(f.comma())?;
    if !f.rest().is_empty() {
        return None;
    }
    let mut raw = Raw::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(volume);
    Some(Said::Request(raw))
}
