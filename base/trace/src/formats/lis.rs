//! ARC `.lis`: `start_block blocks day request`, blocks of 512 bytes, reads only, no time of day. The
//! third column is documented as "ignore", but in the workstation traces it is a day number that never
//! decreases; where it does decrease it is taken for no day at all.

use seekless_block::Op;

use crate::context::{Context, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, number, number32};

const EXPECTED: &str = "four numbers: start block, blocks, day, request number";

#[derive(Debug, Default)]
pub(super) struct Lis {
    day: u32,
    begun: bool,
}

impl LineFormat for Lis {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut Context) -> Result<Said<'a>, Bad> {
        let mut f = Fields(line);
        let (Some(start), Some(len), Some(day), Some(_)) =
            (number(f.word()), number(f.word()), number32(f.word()), number(f.word()))
        else {
            return Err(Bad::new(EXPECTED));
        };
        if !f.rest().is_empty() {
            return Err(Bad::new(EXPECTED));
        }
        if self.begun && day < self.day {
            cx.days = false;
        }
        (self.day, self.begun) = (day, true);
        let mut raw = Raw::new(Op::Read, start, len);
        raw.day = cx.days.then_some(day);
        Ok(Said::Request(raw))
    }
}
