//! FIU's traces (SRCMap, FAST'10; I/O Deduplication, FAST'10): `nanoseconds pid process sector
//! sectors R|W major minor [hash]`, separated by blanks. The hash of the content is ignored. The
//! layout is described in SNIA's IOTTA repository (set 390); it was not checked against the data.

use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, direction, number, number32, trim};

pub(super) const EXPECTED: &str =
    "nanoseconds, pid, process, sector, sectors, R or W, major, minor, hash";

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let time = number(f.word())?;
    let pid = number32(f.word())?;
    // A process name can have two words, so the rest is parsed from the end.
    let mut rest = trim(f.0);
    let mut last = last_word(&mut rest);
    if last.len() >= 16 && last.iter().all(u8::is_ascii_hexdigit) {
        last = last_word(&mut rest);
    }
    let minor = number32(last)?;
    let major = number32(last_word(&mut rest))?;
    let op = direction(last_word(&mut rest), b"R", b"W")?;
    let len = number(last_word(&mut rest))?;
    let start = number(last_word(&mut rest))?;
    if rest.is_empty() {
        return None;
    }
    let mut raw = RawRequest::new(op, start, len);
    raw.time = Some(time);
    raw.process = Process { pid, name: rest };
    raw.device = Dev::MajorMinor(major, minor);
    Some(ParsedLine::Request(raw))
}

/// Takes the last word from `rest`.
pub(super) fn last_word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let all = trim(rest);
    let at = all.iter().rposition(|b| matches!(b, b' ' | b'\t')).map_or(0, |i| i + 1);
    *rest = trim(&all[..at]);
    &all[at..]
}
