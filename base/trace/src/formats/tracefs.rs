//! Block events as tracefs prints them: `command-pid [cpu] flags seconds: event: ...`, and the `blk`
//! tracer's lines, where `major,minor action` stands instead of the event. Other events, comments and
//! notes of lost events are passed over, the latter counted.
//!
//! `block_bio_queue`, `block_rq_issue` and `block_rq_complete` are Q, D and C. `block_bio_complete` is
//! not: the requests that carry the same bytes complete too.

use super::blkparse::{device, event_of, request, request_of};
use super::rwbs;
use crate::Event;
use crate::context::{Context, Process, Raw};
use crate::error::Bad;
use crate::text::{Fields, LineFormat, Said, decimal, number, number32, trim};

const EXPECTED: &str = "command-pid [cpu] flags seconds: event: major,minor rwbs sector + sectors";

#[derive(Debug)]
pub(super) struct Tracefs;

impl LineFormat for Tracefs {
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut Context) -> Result<Said<'a>, Bad> {
        let text = trim(line);
        if text.starts_with(b"#") {
            return Ok(Said::Nothing);
        }
        if let Some(lost) = lost_events(text) {
            cx.skipped.lost_events = cx.skipped.lost_events.saturating_add(lost);
            return Ok(Said::Nothing);
        }
        parse(text, cx).ok_or(Bad::new(EXPECTED))
    }
}

/// `CPU:3 [LOST 15 EVENTS]`: the recorder was too slow; how many were lost (1 where it does not say).
fn lost_events(text: &[u8]) -> Option<u64> {
    let mut f = Fields(text.strip_prefix(b"CPU:")?);
    number(f.word())?;
    let inside = f.rest().strip_prefix(b"[LOST ")?.strip_suffix(b"EVENTS]")?;
    Some(number(trim(inside)).unwrap_or(1))
}

fn parse<'a>(line: &'a [u8], cx: &mut Context) -> Option<Said<'a>> {
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
        let Some(event) = event_of(action)? else { return Some(Said::Other) };
        (request(f, event, process, cx)?, device)
    } else {
        let event = match first.strip_suffix(b":")? {
            b"block_bio_queue" => Event::Queue,
            b"block_rq_issue" => Event::Issue,
            b"block_rq_complete" => Event::Complete,
            _ => return Some(Said::Other),
        };
        let device = device(f.word())?;
        (event_request(f, event, process, cx)?, device)
    };
    Some(said.map(|raw| Raw { time: Some(time), device, ..raw }))
}

/// `rwbs [bytes (command)] sector + sectors [priority] [process or error]`.
fn event_request<'a>(
    mut f: Fields<'a>,
    event: Event,
    process: Process<'a>,
    cx: &mut Context,
) -> Option<Said<'a>> {
    let kind = rwbs::parse(f.word())?;
    if event != Event::Queue {
        let open = memchr::memchr(b'(', f.0)?;
        let close = open + memchr::memchr(b')', &f.0[open..])?;
        f = Fields(&f.0[close + 1..]);
    }
    request_of(kind, f, event, process, cx)
}

/// What stands before ` [cpu]`, and what stands after. Commands may hold brackets of their own.
fn split_cpu(line: &[u8]) -> Option<(&[u8], Fields<'_>)> {
    memchr::memchr_iter(b'[', line).find_map(|open| {
        let close = open + memchr::memchr(b']', &line[open..])?;
        let digits = &line[open + 1..close];
        (digits.len() >= 3 && number(digits).is_some() && open > 0 && line[open - 1] == b' ')
            .then(|| (trim(&line[..open]), Fields(&line[close + 1..])))
    })
}

/// The pid of `command-pid`, which a thread group in parentheses may follow.
fn pid(who: &[u8]) -> Option<u32> {
    let who = match (who.last(), memchr::memrchr(b'(', who)) {
        (Some(b')'), Some(open)) => trim(&who[..open]),
        _ => who,
    };
    number32(&who[memchr::memrchr(b'-', who)? + 1..])
}
