//! What blkparse prints by default: `maj,min cpu seq seconds pid action rwbs sector + sectors [command]`.
//! Lines of other actions, messages and the summaries at the end are passed over. The kernel's own
//! classic form of the `blk` tracer, which lacks the sequence number, is read too. A write that asks for
//! a flush before it is one write.

use seekless_block::Op;

use super::rwbs;
use crate::Event;
use crate::context::{Context, Dev, Process, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, decimal, number, number32, trim};

const EXPECTED: &str =
    "major,minor cpu sequence seconds pid action rwbs sector + sectors [command]";

#[derive(Debug, Default)]
pub(super) struct Blkparse {
    /// Past the first line of a summary: whatever is no event belongs to it.
    summary: bool,
}

impl LineFormat for Blkparse {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut Context) -> Result<Said<'a>, Bad> {
        let mut f = Fields(line);
        let Some(device) = device(f.word()) else {
            const TITLES: [&[u8]; 6] =
                [b"CPU", b"Total", b"Throughput", b"Events", b"Skips", b"Input file"];
            self.summary |= TITLES.iter().any(|t| trim(line).starts_with(t));
            return if self.summary { Ok(Said::Nothing) } else { Err(Bad::new(EXPECTED)) };
        };
        self.summary = false;
        parse(f, device, cx).ok_or(Bad::new(EXPECTED))
    }
}

fn parse<'a>(mut f: Fields<'a>, device: Dev<'static>, cx: &mut Context) -> Option<Said<'a>> {
    number(f.word())?;
    let mut seconds = f.word();
    if memchr::memchr(b'.', seconds).is_none() {
        number(seconds)?;
        seconds = f.word();
    }
    let time = decimal(seconds, 9)?;
    let pid = number32(f.word())?;
    let action = f.word();
    let Some(event) = event_of(action)? else { return Some(Said::Nothing) };
    request(f, event, Process { pid, name: &[] }, cx).map(|said| match said {
        Said::Request(raw) => Said::Request(Raw { time: Some(time), device, ..raw }),
        Said::Nothing => Said::Nothing,
    })
}

/// `major,minor`.
pub(super) fn device(word: &[u8]) -> Option<Dev<'static>> {
    let comma = memchr::memchr(b',', word)?;
    Some(Dev::MajorMinor(number32(&word[..comma])?, number32(&word[comma + 1..])?))
}

/// The event an action letter stands for: `Some(None)` for one that is no request, `None` for no action.
pub(super) const fn event_of(action: &[u8]) -> Option<Option<Event>> {
    match action {
        b"Q" => Some(Some(Event::Queue)),
        b"D" => Some(Some(Event::Issue)),
        b"C" => Some(Some(Event::Complete)),
        [b'A'..=b'Z' | b'm'] | [b'U', b'T'] => Some(None),
        _ => None,
    }
}

/// What follows the action: `rwbs sector + sectors [command]`, or `rwbs [command]` of an empty flush.
pub(super) fn request<'a>(
    mut f: Fields<'a>,
    event: Event,
    process: Process<'a>,
    cx: &mut Context,
) -> Option<Said<'a>> {
    let kind = rwbs::parse(f.word())?;
    let Some(op) = kind.op else { return Some(Said::Nothing) };
    let mut rest = Fields(f.rest());
    // A command sent by a driver: `len (hexadecimal bytes)`; not a request of the block layer.
    let (start, len) = if matches!(rest.0, [] | [b'[', ..]) {
        (0, 0)
    } else {
        let start = number(rest.word())?;
        match rest.word() {
            b"+" => (start, number(rest.word())?),
            [b'(' | b'[', ..] => return Some(Said::Nothing),
            _ => return None,
        }
    };
    let op = if len == 0 && kind.flush_before { Op::Flush } else { op };
    if !cx.wants(event) {
        return Some(Said::Nothing);
    }
    let mut raw = Raw::new(op, start, len);
    raw.flags = kind.flags;
    raw.process = process;
    if event != Event::Complete
        && let Some(open) = memchr::memchr(b'[', rest.0)
        && let [b'[', name @ .., b']'] = trim(&rest.0[open..])
    {
        raw.process.name = name;
    }
    Some(Said::Request(raw))
}
