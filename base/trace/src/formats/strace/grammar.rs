//! The grammar of strace's lines: process and time, a call with its arguments, and its result. The
//! meaning of calls is elsewhere.

use std::borrow::Cow;

use crate::text_lines::{Fields, decimal, is_space, number, number32, trim};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// `-ttt`: nanoseconds since 1970.
    Epoch(u64),
    /// `-t`, `-tt`: nanoseconds since midnight.
    TimeOfDay(u64),
    /// `-r`: nanoseconds since the call before.
    Since(u64),
}

/// The text before a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefix {
    /// 0 if the line has no process number.
    pub(super) pid: u32,
    pub(super) stamp: Option<Stamp>,
}

/// Parses process and time. Returns them and the rest of the line.
pub(super) fn prefix(line: &[u8]) -> (Prefix, &[u8]) {
    let mut prefix = Prefix::default();
    let mut rest = trim(line);
    if let Some(inside) = rest.strip_prefix(b"[pid")
        && let Some(close) = memchr::memchr(b']', inside)
        && let Some(pid) = number32(trim(&inside[..close]))
    {
        (prefix.pid, rest) = (pid, trim(&inside[close + 1..]));
    } else {
        let mut f = Fields(rest);
        if let Some(pid) = number32(f.word())
            && f.0.first().copied().is_some_and(is_space)
        {
            (prefix.pid, rest) = (pid, f.rest());
        }
    }
    let mut f = Fields(rest);
    if let Some(stamp) = stamp(f.word()) {
        (prefix.stamp, rest) = (Some(stamp), f.rest());
        // `-r` together with `-t` adds `(+ 0.000123)`.
        if let Some(inside) = rest.strip_prefix(b"(+")
            && let Some(close) = memchr::memchr(b')', inside)
        {
            rest = trim(&inside[close + 1..]);
        }
    }
    (prefix, rest)
}

fn stamp(word: &[u8]) -> Option<Stamp> {
    if memchr::memchr(b':', word).is_some() {
        return time_of_day(word).map(Stamp::TimeOfDay);
    }
    let dot = memchr::memchr(b'.', word)?;
    let ns = decimal(word, 9)?;
    // More than three years after the call before cannot be a time of `-r`.
    Some(if dot >= 9 { Stamp::Epoch(ns) } else { Stamp::Since(ns) })
}

/// Parses `hours:minutes:seconds[.fraction]` as nanoseconds.
pub(in crate::formats) fn time_of_day(word: &[u8]) -> Option<u64> {
    let mut parts = word.splitn(3, |&b| b == b':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds = decimal(parts.next()?, 9)?;
    if hours > 23 || minutes > 59 || seconds >= 61_000_000_000 {
        return None;
    }
    Some((hours * 60 + minutes) * 60_000_000_000 + seconds)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    args: [&'a [u8]; ARGUMENTS],
    /// Its result, if the result is a number and not an error.
    pub(super) value: Option<u64>,
    /// The path that `-y` adds to the returned descriptor.
    pub(super) path: Option<&'a [u8]>,
    /// `-T`: duration in nanoseconds.
    pub(super) latency: Option<u64>,
}

const ARGUMENTS: usize = 8;

/// The name before the first parenthesis, and the text after it.
pub(super) fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = memchr::memchr(b'(', text)?;
    let name = &text[..open];
    let letter = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'?');
    (!name.is_empty() && name.iter().all(letter)).then(|| (name, &text[open + 1..]))
}

impl<'a> Call<'a> {
    /// Parses the text after the opening parenthesis.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let mut args: [&[u8]; ARGUMENTS] = [&[]; ARGUMENTS];
        let (mut count, mut from, mut depth, mut i) = (0, 0, 0u32, 0);
        let mut end = None;
        while i < text.len() {
            match text[i] {
                b'"' => i = string_end(text, i)?,
                b'<' if opens_path(text, from, i) => i = path_end(text, i)?,
                b'(' | b'[' | b'{' => depth += 1,
                b')' if depth == 0 => {
                    end = Some(i);
                    break;
                }
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => {
                    if count < ARGUMENTS {
                        args[count] = trim(&text[from..i]);
                    }
                    (count, from) = (count + 1, i + 1);
                }
                _ => {}
            }
            i += 1;
        }
        let end = end?;
        if count < ARGUMENTS {
            args[count] = trim(&text[from..end]);
        }
        let mut answer = trim(trim(&text[end + 1..]).strip_prefix(b"=")?);
        let mut latency = None;
        if let Some(body) = answer.strip_suffix(b">")
            && let Some(open) = memchr::memrchr(b'<', body)
            && let Some(ns) = decimal(&body[open + 1..], 9)
        {
            (latency, answer) = (Some(ns), trim(&body[..open]));
        }
        let digits = answer.iter().take_while(|b| b.is_ascii_digit()).count();
        let value = number(&answer[..digits]);
        if value.is_none() && !matches!(answer.first(), Some(b'-' | b'?')) {
            return None;
        }
        Some(Self { args, value, path: annotation(&answer[digits..]), latency })
    }

    pub(super) const fn arg(&self, n: usize) -> &'a [u8] {
        self.args[n]
    }
}

/// The end of the string that begins at `at`: the position of its closing quote.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut i = at + 1;
    loop {
        i += memchr::memchr2(b'"', b'\\', text.get(i..)?)?;
        if text[i] == b'"' {
            return Some(i);
        }
        i += 2;
    }
}

/// Whether the `<` at `i` begins the path that `-y` adds to the descriptor before it.
fn opens_path(text: &[u8], from: usize, i: usize) -> bool {
    // From the end: a line of blanks and `<` would be read from its start at every `<`.
    let blanks = |part: &[u8]| part.iter().rev().take_while(|b| is_space(**b)).count();
    let before = &text[from..i];
    let before = &before[..before.len() - blanks(before)];
    let names_folder =
        before.strip_suffix(b"AT_FDCWD").is_some_and(|rest| blanks(rest) == rest.len());
    names_folder
        || (before.last().is_some_and(u8::is_ascii_digit) && text.get(i + 1) != Some(&b'<'))
}

/// The end of the text that begins with the `<` at `at`: the position of its `>`. `-yy` nests them,
/// and has arrows.
fn path_end(text: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0;
    for (i, &b) in text.iter().enumerate().skip(at) {
        match b {
            b'<' => depth += 1,
            b'>' if text[i - 1] == b'-' => {}
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text in `<...>` at the front, without the kind of device that `-yy` adds.
fn annotation(text: &[u8]) -> Option<&[u8]> {
    if text.first() != Some(&b'<') {
        return None;
    }
    let inside = &text[1..path_end(text, 0)?];
    Some(&inside[..memchr::memchr(b'<', inside).unwrap_or(inside.len())])
}

/// A descriptor, and the path that `-y` adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor<'a> {
    /// `None` for `AT_FDCWD`.
    pub(super) number: Option<u32>,
    pub(super) path: Option<&'a [u8]>,
    pub(super) deleted: bool,
}

impl<'a> Descriptor<'a> {
    pub(super) fn parse(arg: &'a [u8]) -> Option<Self> {
        let deleted = arg.ends_with(b"(deleted)");
        if let Some(rest) = arg.strip_prefix(b"AT_FDCWD") {
            return Some(Self { number: None, path: annotation(rest), deleted });
        }
        let digits = arg.iter().take_while(|b| b.is_ascii_digit()).count();
        let number = Some(number32(&arg[..digits])?);
        Some(Self { number, path: annotation(&arg[digits..]), deleted })
    }
}

pub(super) fn string(arg: &[u8]) -> Option<Cow<'_, [u8]>> {
    if arg.first() != Some(&b'"') {
        return None;
    }
    Some(unescape(&arg[1..string_end(arg, 0)?]))
}

/// Replaces escapes as in C: letters, octal and hexadecimal.
pub(super) fn unescape(s: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', s).is_none() {
        return Cow::Borrowed(s);
    }
    let mut out = Vec::with_capacity(s.len());
    let mut i = 0;
    while i < s.len() {
        let b = s[i];
        i += 1;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let escape = s.get(i).copied().unwrap_or(b'\\');
        let (radix, most) = match escape {
            b'0'..=b'7' => (8, 3),
            b'x' => (16, 2),
            _ => {
                out.push(match escape {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0B,
                    b'f' => 0x0C,
                    other => other,
                });
                i += 1;
                continue;
            }
        };
        i += usize::from(radix == 16);
        let digits = s[i..].iter().take(most).map_while(|b| char::from(*b).to_digit(radix));
        let (count, value) = digits.fold((0, 0u32), |(n, v), d| (n + 1, v * radix + d));
        out.push(value as u8);
        i += count;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_and_time_in_every_form() {
        let at = |line: &'static str| prefix(line.as_bytes());
        let (epoch, rest) = at("24322 1795213376.415084 read(3) = 0");
        assert_eq!(epoch.pid, 24322);
        assert_eq!(epoch.stamp, Some(Stamp::Epoch(1_795_213_376_415_084_000)));
        assert_eq!(rest, b"read(3) = 0");
        let day = (22 * 60 + 22) * 60_000_000_000 + 56_533_077_000;
        let expected = Prefix { pid: 7, stamp: Some(Stamp::TimeOfDay(day)) };
        assert_eq!(at("[pid     7] 22:22:56.533077 x()").0, expected);
        let since = Some(Stamp::Since(271_000));
        assert_eq!(at("24360      0.000271 x()").0, Prefix { pid: 24360, stamp: since });
        assert_eq!(at("     0.000271 x()").0, Prefix { pid: 0, stamp: since });
        assert_eq!(at("close(3) = 0"), (Prefix::default(), &b"close(3) = 0"[..]));
        let both = at("1 22:22:56 (+     0.000100) x()");
        assert_eq!(both.1, b"x()");
        assert_eq!(at("25:00:00 x()").0.stamp, None);
    }

    #[test]
    fn arguments_are_split_correctly() {
        let text =
            br#"3</a, b<char 1:3>>, "x\", )\\", {a=[1, 2], b=(3)}, TCP:[1->2]) = 4</c d> <0.5>"#;
        let call = Call::parse(text).unwrap();
        assert_eq!(call.arg(0), b"3</a, b<char 1:3>>");
        assert_eq!(call.arg(1), br#""x\", )\\""#);
        assert_eq!(call.arg(2), b"{a=[1, 2], b=(3)}");
        assert_eq!((call.value, call.path), (Some(4), Some(&b"/c d"[..])));
        assert_eq!(call.latency, Some(500_000_000));
        let failed = Call::parse(b"1) = -1 ENOENT (No such file) <0.000001>").unwrap();
        assert_eq!((failed.value, failed.latency), (None, Some(1_000)));
        for bad in ["1", "1)", "\"1) = 0", "3</a) = 0", "1) = x"] {
            assert!(Call::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn escapes() {
        let text = string(br#""a\"\\\n\303\251\x41\0z"..."#).unwrap();
        assert_eq!(&text[..], b"a\"\\\n\xC3\xA9A\0z");
        assert_eq!(unescape(br"\76\7").as_ref(), b">\x07");
        assert_eq!(unescape(br"\").as_ref(), b"\\");
        assert!(string(b"NULL").is_none() && string(b"\"open").is_none());
    }
}
