//! ARC `.lis`: `start_block blocks day request`, with blocks of 512 bytes, reads only, no time of
//! day. The third column is documented as "ignore", but in the workstation traces it is a day
//! number that never decreases. If it decreases, the trace has no days.

use seekless_block::Op;

use crate::error::{BadRecord, Parsed};
use crate::reader_context::{RawRequest, ReaderContext};
use crate::text_lines::{Fields, LineFormat, ParsedLine, number, number32};

const EXPECTED: &str = "four numbers: start block, blocks, day, request number";

#[derive(Debug, Default)]
pub(super) struct Lis {
    day: u32,
    begun: bool,
}

impl LineFormat for Lis {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        let mut f = Fields(line);
        let (Some(start), Some(len), Some(day), Some(_)) =
            (number(f.word()), number(f.word()), number32(f.word()), number(f.word()))
        else {
            return Err(BadRecord::new(EXPECTED));
        };
        if !f.rest().is_empty() {
            return Err(BadRecord::new(EXPECTED));
        }
        if self.begun && day < self.day {
            cx.days = false;
        }
        (self.day, self.begun) = (day, true);
        let mut raw = RawRequest::new(Op::Read, start, len);
        raw.day = cx.days.then_some(day);
        Ok(ParsedLine::Request(raw))
    }
}
