//! Block events as printed by tracefs: `command-pid [cpu] flags seconds: event: ...`, and the lines
//! of the `blk` tracer, which have `major,minor action` instead of the event. Other events and
//! comments are skipped. Notes about lost events are counted.
//!
//! `block_bio_queue`, `block_rq_issue` and `block_rq_complete` are Q, D and C. `block_bio_complete`
//! is skipped: the requests that contain the same bytes complete too.

use super::blkparse::{device, event_of, request, request_of};
use super::rwbs;
use crate::Event;
use crate::reader_context::{Process, RawRequest, ReaderContext};
use crate::text_lines::{Fields, ParsedLine, decimal, number, number32, trim};

pub(super) const EXPECTED: &str =
    "command-pid [cpu] flags seconds: event: major,minor rwbs sector + sectors";

/// Maximum length of `[cpu]`: the digits of 64 bits, and the brackets.
const CPU_LEN_MAX: usize = 22;

/// `CPU:3 [LOST 15 EVENTS]`: the recorder was too slow. Returns the number of lost events, 1 if the
/// line has no number.
fn lost_events(text: &[u8]) -> Option<u64> {
    let mut f = Fields(text.strip_prefix(b"CPU:")?);
    number(f.word())?;
    let inside = f.rest().strip_prefix(b"[LOST ")?.strip_suffix(b"EVENTS]")?;
    Some(number(trim(inside)).unwrap_or(1))
}

pub(super) fn parse<'a>(line: &'a [u8], cx: &mut ReaderContext) -> Option<ParsedLine<'a>> {
    let line = trim(line);
    if line.starts_with(b"#") {
        return Some(ParsedLine::Nothing);
    }
    if let Some(lost) = lost_events(line) {
        cx.skipped.lost_events = cx.skipped.lost_events.saturating_add(lost);
        return Some(ParsedLine::Nothing);
    }
    let (who, mut f) = split_cpu(line)?;
    let pid = pid(who)?;
    let mut word = f.word();
    if word.last() != Some(&b':') {
        word = f.word();
    }
    let stamp = word.strip_suffix(b":")?;
    memchr::memchr(b'.', stamp)?;
    let time = decimal(stamp, 9)?;
    let process = Process { pid, name: &[] };
    let first = f.word();
    let (said, device) = if let Some(device) = device(first) {
        let action = f.word();
        let Some(event) = event_of(action)? else { return Some(ParsedLine::Other) };
        (request(f, event, process, cx)?, device)
    } else {
        let event = match first.strip_suffix(b":")? {
            b"block_bio_queue" => Event::Queue,
            b"block_rq_issue" => Event::Issue,
            b"block_rq_complete" => Event::Complete,
            _ => return Some(ParsedLine::Other),
        };
        let device = device(f.word())?;
        (event_request(f, event, process, cx)?, device)
    };
    Some(said.map(|raw| RawRequest { time: Some(time), device, ..raw }))
}

/// Parses `rwbs [bytes (command)] sector + sectors [priority] [process or error]`.
fn event_request<'a>(
    mut f: Fields<'a>,
    event: Event,
    process: Process<'a>,
    cx: &mut ReaderContext,
) -> Option<ParsedLine<'a>> {
    let kind = rwbs::parse(f.word())?;
    if event != Event::Queue {
        let open = memchr::memchr(b'(', f.0)?;
        let close = open + memchr::memchr(b')', &f.0[open..])?;
        f = Fields(&f.0[close + 1..]);
    }
    request_of(kind, f, event, process, cx)
}

/// The text before ` [cpu]`, and the text after it. Commands can contain brackets.
fn split_cpu(line: &[u8]) -> Option<(&[u8], Fields<'_>)> {
    memchr::memchr_iter(b'[', line).find_map(|open| {
        // The number is short: a line of many brackets is not searched to its end for each.
        let near = &line[open..line.len().min(open + CPU_LEN_MAX)];
        let close = open + memchr::memchr(b']', near)?;
        let digits = &line[open + 1..close];
        (digits.len() >= 3 && number(digits).is_some() && open > 0 && line[open - 1] == b' ')
            .then(|| (trim(&line[..open]), Fields(&line[close + 1..])))
    })
}

/// The pid in `command-pid`. A thread group in parentheses can follow.
fn pid(who: &[u8]) -> Option<u32> {
    let who = match (who.last(), memchr::memrchr(b'(', who)) {
        (Some(b')'), Some(open)) => trim(&who[..open]),
        _ => who,
    };
    number32(&who[memchr::memrchr(b'-', who)? + 1..])
}
