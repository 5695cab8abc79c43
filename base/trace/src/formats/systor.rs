//! SYSTOR'17 (Lee et al., virtual desktops): `Timestamp,Response,IOType,LUN,Offset,Size`; seconds with a
//! fraction, R or W, bytes. The type is blank where no response was seen: such a request is counted and
//! left out. Layout as SNIA's IOTTA repository tells it (set 4964), checked against a sample. Lines stand in
//! order of completion, times are those of issue.

use seekless_block::Op;

use crate::context::{Context, Dev, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, decimal, number, sectors_of_bytes};

const EXPECTED: &str = "seconds, response (seconds), R or W, LUN, offset (bytes), size (bytes)";

#[derive(Debug)]
pub(super) struct Systor;

impl LineFormat for Systor {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut Context) -> Result<Said<'a>, Bad> {
        parse(line, cx).ok_or(Bad::new(EXPECTED))
    }
}

fn parse<'a>(line: &'a [u8], cx: &mut Context) -> Option<Said<'a>> {
    let mut f = Fields(line);
    let time = f.comma();
    if time == b"Timestamp" {
        return (f.rest() == b"Response,IOType,LUN,Offset,Size").then_some(Said::Nothing);
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
    if !f.rest().is_empty() {
        return None;
    }
    let Some(op) = op else {
        cx.skipped.without_op += 1;
        return Some(Said::Other);
    };
    let mut raw = Raw::new(op, start, len);
    raw.time = Some(time);
    raw.device = Dev::Number(lun);
    raw.service = if response.is_empty() { None } else { Some(decimal(response, 9)?) };
    Some(Said::Request(raw))
}
