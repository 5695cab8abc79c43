//! The common part of all text formats: the loop over lines, and numbers parsed from bytes with
//! checked arithmetic.

use seekless_block::Op;

use crate::error::{BadRecord, Parsed};
use crate::input::{Input, Line};
use crate::reader::{Parse, read_error};
use crate::reader_context::{RawRequest, ReaderContext};
use crate::{Record, TracePosition, Traced};

#[derive(Debug)]
pub(crate) enum ParsedLine<'a> {
    Request(RawRequest<'a>),
    /// An entry of this format and of no other, but not a request of the requested kind.
    Other,
    /// A line that the format allows: a title, a comment, a line of a summary.
    Nothing,
}

impl<'a> ParsedLine<'a> {
    /// The same meaning with a changed request.
    pub(crate) fn map(self, f: impl FnOnce(RawRequest<'a>) -> RawRequest<'a>) -> Self {
        match self {
            Self::Request(raw) => Self::Request(f(raw)),
            other => other,
        }
    }
}

pub(crate) trait LineFormat: Send {
    /// Parses `line`. It has no line end and is not blank.
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Parsed<ParsedLine<'a>>;
}

/// A text format whose lines do not depend on each other: its parser, and its columns for errors.
pub(crate) struct Stateless<F>(pub(crate) F, pub(crate) &'static str);

impl<F> LineFormat for Stateless<F>
where
    F: for<'a> Fn(&'a [u8], &mut ReaderContext) -> Option<ParsedLine<'a>> + Send,
{
    fn line<'a>(&mut self, line: &'a [u8], cx: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        (self.0)(line, cx).ok_or(BadRecord::new(self.1))
    }
}

#[derive(Debug)]
pub(crate) struct Lines<F> {
    input: Input,
    format: F,
}

impl<F> Lines<F> {
    pub(crate) const fn new(input: Input, format: F) -> Self {
        Self { input, format }
    }
}

impl<F: LineFormat> Parse for Lines<F> {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        loop {
            let number = self.input.line_number() + 1;
            let place = TracePosition::Line(number);
            let line = match self.input.line().map_err(|e| read_error(cx, place, e))? {
                None => return Ok(None),
                Some(Line::TooLong) => {
                    let found = "a longer one".to_owned();
                    cx.bad(place, BadRecord::found("a line shorter than 256 KiB", found), &[])?;
                    continue;
                }
                Some(Line::Whole(line)) => line,
            };
            if is_blank(line) {
                continue;
            }
            let done = match self.format.line(line, cx) {
                Ok(ParsedLine::Other | ParsedLine::Nothing) => continue,
                Ok(ParsedLine::Request(raw)) => cx.finish(&raw, place),
                Err(bad) => Err(bad),
            };
            match done {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(bad) => cx.bad(place, bad, line)?,
            }
        }
    }
}

pub(crate) const fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|&b| is_space(b))
}

/// Removes blanks at both ends.
pub(crate) fn trim(mut s: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = s
        && is_space(*first)
    {
        s = rest;
    }
    while let [rest @ .., last] = s
        && is_space(*last)
    {
        s = rest;
    }
    s
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next word (bytes without blanks); empty at the end.
    #[inline]
    pub(crate) fn word(&mut self) -> &'a [u8] {
        let s = self.0;
        let mut i = 0;
        while i < s.len() && is_space(s[i]) {
            i += 1;
        }
        let from = i;
        while i < s.len() && !is_space(s[i]) {
            i += 1;
        }
        self.0 = &s[i..];
        &s[from..i]
    }

    /// The bytes up to the next comma, without blanks at their ends; empty after the last field.
    #[inline]
    pub(crate) fn comma(&mut self) -> &'a [u8] {
        let s = self.0;
        let i = memchr::memchr(b',', s).unwrap_or(s.len());
        self.0 = s.get(i + 1..).unwrap_or(&[]);
        trim(&s[..i])
    }

    /// The bytes up to the next comma, or between quotes if the field begins with a quote; empty
    /// after the last field. A quote ends the field only before a comma or at the end of the line.
    /// Doubled quotes stay doubled. `None` if a quote does not end.
    pub(crate) fn quoted(&mut self) -> Option<&'a [u8]> {
        let Some(inside) = self.0.strip_prefix(b"\"") else { return Some(self.comma()) };
        let ends = |&i: &usize| matches!(inside.get(i + 1), None | Some(b','));
        let end = memchr::memchr_iter(b'"', inside).find(ends)?;
        self.0 = inside.get(end + 2..).unwrap_or(&[]);
        Some(&inside[..end])
    }

    /// `None` if the line has more fields.
    pub(crate) fn end(self) -> Option<()> {
        self.rest().is_empty().then_some(())
    }

    /// The rest, without blanks at both ends.
    pub(crate) fn rest(self) -> &'a [u8] {
        trim(self.0)
    }
}

/// Parses a decimal number, digits only.
#[inline]
pub(crate) fn number(s: &[u8]) -> Option<u64> {
    if s.is_empty() {
        return None;
    }
    let mut n: u64 = 0;
    // Nineteen digits cannot overflow; only longer numbers need a check.
    if s.len() <= 19 {
        for &b in s {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                return None;
            }
            n = n * 10 + u64::from(d);
        }
        return Some(n);
    }
    for &b in s {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(n)
}

/// Parses a decimal number that fits 32 bits.
#[inline]
pub(crate) fn number32(s: &[u8]) -> Option<u32> {
    u32::try_from(number(s)?).ok()
}

/// Parses a hexadecimal number of up to 16 digits.
pub(crate) fn hexadecimal(s: &[u8]) -> Option<u64> {
    if s.is_empty() || s.len() > 16 {
        return None;
    }
    s.iter().try_fold(0u64, |n, &b| Some(n << 4 | u64::from((b as char).to_digit(16)?)))
}

/// Parses a decimal number with an optional fraction, and multiplies it by 10^`digits`. Further
/// digits are dropped. A number with an exponent (`1.2e+06`, awk's form of large numbers) is parsed
/// as a float.
#[inline]
pub(crate) fn decimal(s: &[u8], digits: u32) -> Option<u64> {
    let Some(dot) = s.iter().position(|&b| !b.is_ascii_digit()) else {
        return number(s)?.checked_mul(10u64.checked_pow(digits)?);
    };
    if s[dot] != b'.' || s[dot + 1..].iter().any(|b| !b.is_ascii_digit()) {
        return exponent(s, digits);
    }
    let fraction = &s[dot + 1..];
    if dot == 0 && fraction.is_empty() {
        return None;
    }
    let whole = if dot == 0 { 0 } else { number(&s[..dot])? };
    let mut n = whole;
    for i in 0..digits as usize {
        let d = fraction.get(i).map_or(0, |b| b - b'0');
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(n)
}

#[cold]
fn exponent(s: &[u8], digits: u32) -> Option<u64> {
    if !s.first()?.is_ascii_digit() || !s.iter().any(|b| matches!(b, b'e' | b'E')) {
        return None;
    }
    let x: f64 = std::str::from_utf8(s).ok()?.parse().ok()?;
    let y = (x * 10f64.powi(digits as i32)).round();
    (0.0..9e18).contains(&y).then_some(y as u64)
}

/// The operation that one of two words stands for.
#[inline]
pub(crate) fn direction(word: &[u8], read: &[u8], write: &[u8]) -> Option<Op> {
    (word == read).then_some(Op::Read).or_else(|| (word == write).then_some(Op::Write))
}

/// Sectors that contain `len` bytes at byte `offset`: start and length, rounded outward.
pub(crate) fn sectors_of_bytes(offset: u64, len: u64) -> Option<(u64, u64)> {
    let end = offset.checked_add(len)?.div_ceil(512);
    let start = offset / 512;
    Some((start, if len == 0 { 0 } else { end - start }))
}
