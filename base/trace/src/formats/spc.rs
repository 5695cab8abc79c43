//! SPC: `ASU,LBA,Size,Opcode,Timestamp`; LBA in sectors, size in bytes, opcode r or w in either case,
//! seconds with a fraction. Columns after the fifth are optional in the format and passed over. A size
//! that is no whole number of sectors is rounded up.

use seekless_block::Op;

use crate::context::{Context, Dev, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, decimal, number};

const EXPECTED: &str = "unit, sector, size in bytes, r or w, seconds";

#[derive(Debug)]
pub(super) struct Spc;

impl LineFormat for Spc {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut Context) -> Result<Said<'a>, Bad> {
        parse(line).ok_or(Bad::new(EXPECTED))
    }
}

fn parse(line: &[u8]) -> Option<Said<'_>> {
    let mut f = Fields(line);
    let unit = number(f.comma())?;
    let start = number(f.comma())?;
    let len = number(f.comma())?.div_ceil(512);
    let op = match f.comma() {
        b"r" | b"R" => Op::Read,
        b"w" | b"W" => Op::Write,
        _ => return None,
    };
    let mut raw = Raw::new(op, start, len);
    raw.time = Some(decimal(f.comma(), 9)?);
    raw.device = Dev::Number(unit);
    Some(Said::Request(raw))
}
