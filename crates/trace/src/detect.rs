//! Which format a stream of bytes is in, judged by its beginning. Knows magic numbers; for lines it asks
//! each format's own parser.

use crate::Format;
use crate::formats::{self, Scale};
use crate::text::Said;

/// How much of a file's beginning is looked at.
pub(crate) const SAMPLE: usize = 64 << 10;

/// Formats of lines, in order of preference where a line fits several.
const LINE_FORMATS: [Format; 6] =
    [Format::Blkparse, Format::Tracefs, Format::Msr, Format::Spc, Format::DiskSim, Format::Lis];

/// The format of what begins with `head`, which is the whole file where it is shorter than [`SAMPLE`].
pub(crate) fn detect(head: &[u8]) -> Option<Format> {
    if head.starts_with(b"PAR1") {
        return Some(Format::Native);
    }
    if head.starts_with(b"$$TR_IOREC") {
        return Some(Format::Srt);
    }
    if head.starts_with(b"fio version ") {
        return Some(Format::Fio);
    }
    if formats::is_blktrace(head) {
        return Some(Format::Blktrace);
    }
    if formats::is_vscsi(head) {
        return Some(Format::Vscsi);
    }
    let whole = match memchr::memrchr(b'\n', head) {
        Some(end) if head.len() >= SAMPLE => &head[..end],
        _ => head,
    };
    let lines: Vec<&[u8]> = whole
        .split(|&b| b == b'\n')
        .map(|l| l.strip_suffix(b"\r").unwrap_or(l))
        .filter(|l| !l.iter().all(u8::is_ascii_whitespace))
        .collect();
    let (mut best, mut score_best) = (None, 0);
    for format in LINE_FORMATS {
        let score = score(format, &lines);
        if score > score_best {
            (best, score_best) = (Some(format), score);
        }
    }
    if best == Some(Format::DiskSim) && formats::scale_of(&lines) == Scale::Nanoseconds {
        best = Some(Format::MqSim);
    }
    best
}

/// How many of `lines` are entries of the format; none where far more of them are nothing the format knows.
fn score(format: Format, lines: &[&[u8]]) -> u64 {
    let Some(mut parser) = formats::line_format(format) else { return 0 };
    let mut cx = formats::trial(format);
    let (mut good, mut bad) = (0, 0);
    for line in lines {
        match parser.line(line, &mut cx) {
            Ok(Said::Request(_) | Said::Other) => good += 1,
            Ok(Said::Nothing) => {}
            Err(_) => bad += 1,
        }
    }
    if bad > 2 * good { 0 } else { good }
}
