//! Block traces of mobile applications (Technion's MobileBlockIOTraces, recorded on a Pixel 6a):
//! `proces,device,rw_flag,sector,size,timestamp`, with the first word as published. Process is the
//! command, a hyphen and the thread's number; a command may hold commas. The device is the kernel's
//! number, place and size are sectors of 512 bytes, times are seconds.

use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{ParsedLine, decimal, number, number32, trim};

use super::rwbs;

pub(super) const EXPECTED: &str =
    "command-thread, device (number), R or W, sector, sectors, time (seconds)";
const TITLES: [&[u8]; 2] = [
    b"proces,device,rw_flag,sector,size,timestamp",
    b"process,device,rw_flag,sector,size,timestamp",
];

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    if TITLES.contains(&line) {
        return Some(ParsedLine::Nothing);
    }
    // From the right: only the first field may hold commas.
    let mut fields = line.rsplitn(6, |&b| b == b',').map(trim);
    let time = decimal(fields.next()?, 9)?;
    let (len, start) = (number(fields.next()?)?, number(fields.next()?)?);
    let kind = rwbs::parse(fields.next()?)?;
    let device = number32(fields.next()?)?;
    let process = fields.next()?;
    let dash = memchr::memrchr(b'-', process)?;
    let pid = number32(&process[dash + 1..])?;
    let Some(op) = kind.op else { return Some(ParsedLine::Other) };
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.flags = kind.flags;
    raw.device = Dev::MajorMinor(device >> 20, device & 0xF_FFFF);
    raw.process = Process { pid, name: &process[..dash] };
    Some(ParsedLine::Request(raw))
}
