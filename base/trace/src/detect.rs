//! Which format a stream of bytes is in, judged by its beginning. Knows magic numbers; for lines it asks
//! each format's own parser.

use crate::Format;
use crate::files::FileTable;
use crate::formats::{self, Scale};
use crate::text::Said;

/// How much of a file's beginning is looked at.
pub(crate) const SAMPLE: usize = 64 << 10;

/// Formats of lines. Those that no content can tell from another here (`disksim-rw0`, `mqsim-rw0`,
/// `heimdall`) must be named.
const LINE_FORMATS: &[Format] = &[
    Format::Blkparse,
    Format::Tracefs,
    Format::Msr,
    Format::Spc,
    Format::DiskSim,
    Format::Lis,
    Format::Alibaba,
    Format::Tencent,
    Format::Systor,
    Format::Fiu,
    Format::Etw,
    Format::Biosnoop,
    Format::BioTracer,
    Format::Csv,
    Format::Strace,
    Format::Procmon,
];

/// The formats that fit best what begins with `head`, which is the whole file where it is shorter than
/// [`SAMPLE`]: one as a rule, none, or several that fit equally well.
pub(crate) fn detect(head: &[u8]) -> Vec<Format> {
    if let Some(format) = by_magic(head) {
        return vec![format];
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
    let (mut best, mut score_best) = (Vec::new(), 1);
    for &format in LINE_FORMATS {
        let score = score(format, &lines);
        if score > score_best {
            best.clear();
            score_best = score;
        }
        if score == score_best {
            best.push(format);
        }
    }
    if let Some(disksim) = best.iter_mut().find(|f| **f == Format::DiskSim)
        && formats::scale_of(&lines) == Scale::Nanoseconds
    {
        *disksim = Format::MqSim;
    }
    best
}

fn by_magic(head: &[u8]) -> Option<Format> {
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
    formats::is_oracle(head).then_some(Format::Oracle)
}

/// How many of `lines` are entries of the format; none where far more of them are nothing the format knows.
fn score(format: Format, lines: &[&[u8]]) -> u64 {
    let mut cx = formats::trial(format);
    if let Some(mut parser) = formats::line_format(format) {
        return count(lines, |line| {
            let said = parser.line(line, &mut cx).ok()?;
            Some(!matches!(said, Said::Nothing))
        });
    }
    let Some(mut parser) = formats::file_format(format) else { return 0 };
    let mut files = FileTable::default();
    count(lines, |line| {
        let entry = parser.line(line, &mut files, &mut cx).ok();
        files.events.clear();
        entry
    })
}

/// `entry` says whether a line is an entry of the format, or only allowed in it; `None` where it is neither.
fn count(lines: &[&[u8]], mut entry: impl FnMut(&[u8]) -> Option<bool>) -> u64 {
    let (mut good, mut bad) = (0, 0);
    for line in lines {
        match entry(line) {
            Some(true) => good += 1,
            Some(false) => {}
            None => bad += 1,
        }
    }
    if bad > 2 * good { 0 } else { good }
}
