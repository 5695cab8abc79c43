//! DiskSim ASCII (`arrival device sector sectors flags`) and its variant in MQSim. DiskSim has
//! arrival times in milliseconds with a fraction and hexadecimal flags; bit 0 means a read. MQSim
//! has nanoseconds and a decimal type; 1 means a read. Many repositories invert the bit, and some
//! have bytes instead of sectors (the parts of MSR's traces that come with Heimdall). Each variant
//! is a format with its own name.

use seekless_block::Op;

use crate::error::{BadRecord, Parsed};
use crate::reader_context::{Dev, RawRequest, ReaderContext};
use crate::text_lines::{
    Fields, LineFormat, ParsedLine, decimal, hexadecimal, number, sectors_of_bytes,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Milliseconds,
    Nanoseconds,
}

#[derive(Debug)]
pub(super) struct DiskSim {
    scale: Scale,
    /// Value of bit 0 of the flags for a read.
    read: u64,
    bytes: bool,
}

impl DiskSim {
    pub(super) const fn new(scale: Scale, read: u64) -> Self {
        Self { scale, read, bytes: false }
    }

    pub(super) const fn in_bytes() -> Self {
        Self { scale: Scale::Milliseconds, read: 1, bytes: true }
    }

    fn parse<'a>(&self, line: &'a [u8]) -> Option<ParsedLine<'a>> {
        let mut f = Fields(line);
        let digits = if self.scale == Scale::Milliseconds { 6 } else { 0 };
        let time = decimal(f.word(), digits)?;
        let device = number(f.word())?;
        let (start, len) = (number(f.word())?, number(f.word())?);
        let (start, len) = if self.bytes { sectors_of_bytes(start, len)? } else { (start, len) };
        let flags = f.word();
        let flags = hexadecimal(flags.strip_prefix(b"0x").unwrap_or(flags))?;
        f.end()?;
        let op = if flags & 1 == self.read { Op::Read } else { Op::Write };
        let mut raw = RawRequest::new(op, start, len);
        raw.time = Some(time);
        raw.device = Dev::Number(device);
        Some(ParsedLine::Request(raw))
    }
}

impl LineFormat for DiskSim {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        self.parse(line).ok_or(BadRecord::new(match self.scale {
            _ if self.bytes => "arrival (ms), device, offset (bytes), bytes, 1 (read) or 0",
            Scale::Milliseconds => {
                "arrival (ms), device, sector, sectors, flags (hexadecimal, bit 0 the direction)"
            }
            Scale::Nanoseconds => {
                "arrival (ns), device, sector, sectors, type (bit 0 the direction)"
            }
        }))
    }
}

/// Decides between milliseconds and nanoseconds. A fraction or an exponent means milliseconds.
/// Whole numbers mean nanoseconds if one of them exceeds a million (1 ms as nanoseconds, 17 minutes
/// as milliseconds).
pub(crate) fn scale_of(lines: &[&[u8]]) -> Scale {
    let first = lines.iter().map(|l| Fields(l).word());
    if first.clone().any(|t| number(t).is_none() && decimal(t, 0).is_some()) {
        return Scale::Milliseconds;
    }
    let whole = first.filter_map(number).any(|t| t >= 1_000_000);
    if whole { Scale::Nanoseconds } else { Scale::Milliseconds }
}
