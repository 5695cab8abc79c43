//! Escapes text from outside for its destination: XML, a terminal or CSV.

use std::fmt::Write as _;

/// Whether a character is harmless. XML does not allow control characters, and they control a
/// terminal. Direction overrides make a name look like another.
fn harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FFFE}' | '\u{FFFF}')
}

/// The text on one line: white space becomes a space, and a harmful character becomes U+FFFD.
pub(crate) fn plain(text: &str) -> String {
    let one = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if harmless(c) => c,
        _ => '\u{FFFD}',
    };
    text.chars().map(one).collect()
}

/// The text for a terminal: its lines and tabs stay, and a harmful character becomes U+FFFD.
pub fn visible(text: &str) -> String {
    let one = |c: char| if harmless(c) || matches!(c, '\n' | '\t') { c } else { '\u{FFFD}' };
    text.chars().map(one).collect()
}

/// Escapes text for an XML or HTML text node or a quoted attribute.
pub(crate) fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if harmless(c) => out.push(c),
            _ => out.push('\u{FFFD}'),
        }
    }
    out
}

/// One CSV field (RFC 4180), always on one line: quoted if it contains a comma or a quote.
pub(crate) fn csv_field(text: &str) -> String {
    let text = plain(text);
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A number as a CSV field with all its digits; empty if it is not finite.
pub(crate) fn csv_number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

pub(crate) fn csv_line<S: AsRef<str>>(out: &mut String, fields: impl IntoIterator<Item = S>) {
    for (i, field) in fields.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&csv_field(field.as_ref()));
    }
    out.push('\n');
}

/// Escapes text as the payload of a `data:` address.
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~,:;/".contains(&b) {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
    out
}

/// A file name or an id from a title: lower-case words joined by `-`.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
        if out.len() >= 60 {
            break;
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "figure".to_owned() } else { out.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_can_open_a_tag_or_close_a_quote() {
        assert_eq!(
            esc("<script>alert(\"1\")</script>&'"),
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;"
        );
        assert_eq!(esc("a\u{0}b\u{1b}[2Jc\u{202e}d"), "a\u{fffd}b\u{fffd}[2Jc\u{fffd}d");
    }

    #[test]
    fn a_terminal_never_gets_a_control_character() {
        assert_eq!(plain("x\u{1b}]0;owned\u{7}\r\ny"), "x\u{fffd}]0;owned\u{fffd}  y");
        assert_eq!(visible("x\u{1b}[2J\r\n\ty"), "x\u{fffd}[2J\u{fffd}\n\ty");
    }

    #[test]
    fn csv_quotes_only_where_needed() {
        let mut out = String::new();
        csv_line(&mut out, ["a", "b,c", "say \"hi\"", "two\nlines\u{1b}"]);
        assert_eq!(out, "a,\"b,c\",\"say \"\"hi\"\"\",two lines\u{fffd}\n");
        assert_eq!(csv_number(f64::NAN), "");
        assert_eq!(csv_number(0.25), "0.25");
    }

    #[test]
    fn slugs_are_short_and_never_empty() {
        assert_eq!(slug("Head's path: before & after"), "head-s-path-before-after");
        assert_eq!(slug("<<<>>>"), "figure");
    }
}
