//! BIOTracer's traces of a Nexus 5 (Zhou et al., IISWC'15): `sector sectors bytes flags generated started
//! submitted finished`, words between blanks, times in seconds. Flag bit 0 is set for a write. The length
//! is the third column, in bytes: the second does not always agree. Arrival is when the request was
//! generated, service from submission to the end. Lines are not in order of time, and the clock of some
//! traces jumps by years when the phone learns the date: such a jump is kept as it is.

use seekless_block::Op;

use crate::context::{Context, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, decimal, number};

const EXPECTED: &str =
    "sector, sectors, bytes, flags (bit 0 write), four times in seconds: generated to finished";

#[derive(Debug)]
pub(super) struct BioTracer;

impl LineFormat for BioTracer {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut Context) -> Result<Said<'a>, Bad> {
        parse(line).ok_or(Bad::new(EXPECTED))
    }
}

fn parse(line: &[u8]) -> Option<Said<'_>> {
    let mut f = Fields(line);
    let start = number(f.word())?;
    number(f.word())?;
    let bytes = number(f.word())?;
    let flags = number(f.word())?;
    let generated = decimal(f.word(), 9)?;
    decimal(f.word(), 9)?;
    let submitted = decimal(f.word(), 9)?;
    let finished = decimal(f.word(), 9)?;
    if !f.rest().is_empty() {
        return None;
    }
    let op = if flags & 1 == 1 { Op::Write } else { Op::Read };
    let mut raw = Raw::new(op, start, bytes.div_ceil(512));
    raw.time = Some(generated);
    raw.service = finished.checked_sub(submitted);
    Some(Said::Request(raw))
}
