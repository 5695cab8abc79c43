//! The default output of blkparse: `maj,min cpu seq seconds pid action rwbs sector + sectors
//! [command]`. Lines of other actions, messages and the summaries at the end are skipped. The
//! classic form of the kernel's `blk` tracer, without the sequence number, is accepted too. A write
//! that requests a flush before it is one write.

use seekless_block::Op;

use super::rwbs::{self, Kind};
use crate::Event;
use crate::error::{BadRecord, Parsed};
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{Fields, LineFormat, ParsedLine, decimal, number, number32, trim};

const EXPECTED: &str =
    "major,minor cpu sequence seconds pid action rwbs sector + sectors [command]";

#[derive(Debug, Default)]
pub(super) struct Blkparse {
    /// After the first line of a summary, every line that is not an event belongs to the summary.
    summary: bool,
}

impl LineFormat for Blkparse {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        let mut f = Fields(line);
        let Some(device) = device(f.word()) else {
            const TITLES: [&[u8]; 6] =
                [b"CPU", b"Total", b"Throughput", b"Events", b"Skips", b"Input file"];
            self.summary |= TITLES.iter().any(|t| trim(line).starts_with(t));
            return if self.summary {
                Ok(ParsedLine::Nothing)
            } else {
                Err(BadRecord::new(EXPECTED))
            };
        };
        self.summary = false;
        parse(f, device, cx).ok_or(BadRecord::new(EXPECTED))
    }
}

fn parse<'a>(
    mut f: Fields<'a>,
    device: Dev<'static>,
    cx: &mut ReaderContext,
) -> Option<ParsedLine<'a>> {
    number(f.word())?;
    let mut seconds = f.word();
    if memchr::memchr(b'.', seconds).is_none() {
        number(seconds)?;
        seconds = f.word();
    }
    let time = decimal(seconds, 9)?;
    let pid = number32(f.word())?;
    let action = f.word();
    let Some(event) = event_of(action)? else { return Some(ParsedLine::Other) };
    let said = request(f, event, Process { pid, name: &[] }, cx)?;
    Some(said.map(|raw| RawRequest { time: Some(time), device, ..raw }))
}

pub(super) fn device(word: &[u8]) -> Option<Dev<'static>> {
    let comma = memchr::memchr(b',', word)?;
    Some(Dev::MajorMinor(number32(&word[..comma])?, number32(&word[comma + 1..])?))
}

/// The event of an action letter: `Some(None)` for an action that is not a request, `None` for an
/// unknown action.
pub(super) const fn event_of(action: &[u8]) -> Option<Option<Event>> {
    match action {
        b"Q" => Some(Some(Event::Queue)),
        b"D" => Some(Some(Event::Issue)),
        b"C" => Some(Some(Event::Complete)),
        // `ZA`, `ZP`, `ZU`: what a zoned device did with a zone.
        [b'A'..=b'Z' | b'm'] | [b'U', b'T'] | [b'Z', b'A'..=b'Z'] => Some(None),
        _ => None,
    }
}

/// Parses the text after the action: `rwbs sector + sectors [command]`, `rwbs [command]` for an
/// empty flush, or `rwbs sector [error]` for the completion of a request without sectors.
pub(super) fn request<'a>(
    mut f: Fields<'a>,
    event: Event,
    process: Process<'a>,
    cx: &mut ReaderContext,
) -> Option<ParsedLine<'a>> {
    let kind = rwbs::parse(f.word())?;
    request_of(kind, f, event, process, cx)
}

pub(super) fn request_of<'a>(
    kind: Kind,
    f: Fields<'a>,
    event: Event,
    process: Process<'a>,
    cx: &mut ReaderContext,
) -> Option<ParsedLine<'a>> {
    let Some(op) = kind.op else { return Some(ParsedLine::Other) };
    let mut rest = Fields(f.rest());
    let Some((start, len)) = sectors(&mut rest, event, kind.flush_before)? else {
        return Some(ParsedLine::Other);
    };
    let op = if len == 0 && kind.flush_before { Op::Flush } else { op };
    if !cx.wants(event) {
        return Some(ParsedLine::Other);
    }
    let mut raw = RawRequest::new(op, start, len);
    raw.flags = kind.flags;
    // The process that runs at the completion of a request is not its sender.
    if event != Event::Complete {
        raw.process = process;
        if let Some(open) = memchr::memchr(b'[', rest.0)
            && let [b'[', name @ .., b']'] = trim(&rest.0[open..])
            && name != b"(null)"
        {
            raw.process.name = name;
        }
    }
    Some(ParsedLine::Request(raw))
}

/// Parses the first sector and the number of sectors; no sectors for an empty flush. With `blkparse
/// -t`, the time since the event before follows in parentheses. Leaves the text after the sectors.
/// `Some(None)` for a driver's own command.
fn sectors(rest: &mut Fields<'_>, event: Event, flush: bool) -> Option<Option<(u64, u64)>> {
    match rest.0 {
        // A driver's own command ends: `[error]`, or `(hexadecimal command) [error]`. Every other
        // completion names its sector.
        [b'[' | b'(', ..] if event == Event::Complete && !flush => return Some(None),
        [] | [b'[' | b'(', ..] => return Some(Some((0, 0))),
        _ => {}
    }
    let start = number(rest.word())?;
    let mut more = *rest;
    match more.word() {
        b"+" => {
            let len = number(more.word())?;
            *rest = more;
            Some(Some((start, len)))
        }
        // A request without sectors ends: `sector [error]`, or `sector (time) [error]`.
        [b'[' | b'(', ..] if event == Event::Complete => Some(Some((start, 0))),
        // A driver's own command: `bytes [command]`, or `bytes (hexadecimal command) [command]`.
        [b'[' | b'(', ..] => Some(None),
        _ => None,
    }
}
