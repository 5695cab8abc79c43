//! The output of biosnoop (bcc and libbpf-tools): `TIME(s) COMM PID DISK T SECTOR BYTES [P]
//! [QUE(ms)] LAT(ms)`; the queue time is there with `-Q`. T is R or W in bcc, and the kernel's
//! letters in libbpf-tools. A line is printed at the completion of its request. The arrival is that
//! time minus latency and queue time, with two or three decimals of a millisecond. Layout: the
//! source code of both tools.

use seekless_block::Op;

use super::fiu::last_word;
use super::rwbs;
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, decimal, number, number32, trim};

pub(super) const EXPECTED: &str =
    "seconds, command, pid, disk, R or W, sector, bytes, queued and latency (ms)";

/// Added to every time: the first completion is at second 0, and its request arrived before.
const ORIGIN: u64 = 1 << 50;

pub(super) fn parse<'a>(line: &'a [u8], _: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let mut f = Fields(line);
    let stamp = f.word();
    if stamp == b"TIME(s)" && f.word() == b"COMM" {
        return Some(ParsedLine::Nothing);
    }
    memchr::memchr(b'.', stamp)?;
    let completed = decimal(stamp, 9)?.checked_add(ORIGIN)?;
    // A command can contain blanks, so the rest is parsed from the end.
    let mut rest = trim(f.0);
    let latency = milliseconds(last_word(&mut rest))?;
    let mut word = last_word(&mut rest);
    let mut queued = 0;
    if memchr::memchr(b'.', word).is_some() {
        // A request that never waited in a queue has -1.
        queued = if word.starts_with(b"-") { 0 } else { milliseconds(word)? };
        word = last_word(&mut rest);
    }
    // The column of `-P`: random or sequential.
    if matches!(word, b"R" | b"S" | b"?") {
        word = last_word(&mut rest);
    }
    let bytes = number(word)?;
    let sector = last_word(&mut rest);
    let kind = rwbs::parse(last_word(&mut rest))?;
    let disk = last_word(&mut rest);
    let pid = number32(last_word(&mut rest))?;
    if disk.is_empty() || rest.is_empty() {
        return None;
    }
    let Some(op) = kind.op else { return Some(ParsedLine::Other) };
    let op = if bytes == 0 && kind.flush_before { Op::Flush } else { op };
    // A flush has sector -1.
    let start = if op == Op::Flush { 0 } else { number(sector)? };
    let mut raw = RawRequest::new(op, start, bytes.div_ceil(512));
    raw.time = Some(completed.saturating_sub(latency.saturating_add(queued)));
    raw.flags = kind.flags;
    raw.process = Process { pid, name: if rest == b"?" { &[] } else { rest } };
    raw.device = Dev::Name(disk);
    raw.service = Some(latency);
    Some(ParsedLine::Request(raw))
}

/// Parses milliseconds with a fraction as nanoseconds.
fn milliseconds(word: &[u8]) -> Option<u64> {
    memchr::memchr(b'.', word)?;
    decimal(word, 6)
}
