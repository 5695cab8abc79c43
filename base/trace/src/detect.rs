//! Detects the format of a stream from its beginning: by magic numbers, and for text formats by
//! trying each format's own parser on the lines.

use crate::Format;
use crate::files::FileTable;
use crate::formats::{self, Scale};
use crate::text_lines::ParsedLine;

/// Number of bytes at the beginning of a file used for detection.
pub(crate) const SAMPLE: usize = 64 << 10;

/// Text formats. The formats `disksim-rw0`, `mqsim-rw0` and `heimdall` cannot be distinguished from
/// another format by their content, so the user must name them.
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
    Format::Mobile,
    Format::Csv,
    Format::Strace,
    Format::Procmon,
];

/// The formats that fit best a file that begins with `head` (the whole file, if it is shorter than
/// [`SAMPLE`]). Usually one; or none, or several that fit equally well.
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

/// Number of `lines` that are entries of the format; `None` if far more lines do not belong to the
/// format.
fn score(format: Format, lines: &[&[u8]]) -> u64 {
    let mut cx = formats::trial(format);
    if let Some(mut parser) = formats::line_format(format) {
        return count(lines, |line| {
            let said = parser.line(line, &mut cx).ok()?;
            Some(!matches!(said, ParsedLine::Nothing))
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

/// `entry` returns true if a line is an entry of the format, false if the format only allows the
/// line, and `None` otherwise.
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
