//! Markdown as the rules about prose see it: blocks of text with the line they begin at, and spans
//! of code. A scanner for what this repository writes, not a parser of all of Markdown.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A paragraph or an item of a list.
    Prose,
    Row,
    Heading,
}

/// A run of lines that are read as one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    pub(crate) kind: Kind,
    /// Number of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<&'a str>,
}

/// Whether each line stands outside of fenced and indented code and of comments, in order.
pub(crate) fn text_lines(markdown: &str) -> Vec<bool> {
    let (mut fence, mut comment, mut prose, mut list) = (None, false, false, false);
    let mut all = Vec::new();
    for line in markdown.lines() {
        let trimmed = line.trim_start();
        let is_fence = ["```", "~~~"].into_iter().find(|f| trimmed.starts_with(f));
        // Four spaces begin code, unless they go on with a paragraph or an item.
        let indented = line.starts_with("    ") && !prose;
        let mut text = false;
        match (fence, is_fence) {
            (None, Some(f)) => fence = Some(f),
            (Some(open), Some(f)) if open == f => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                comment |= trimmed.starts_with("<!--");
                text = !comment && !indented;
                comment &= !line.contains("-->");
            }
        }
        // An item of a list may have paragraphs behind empty lines; those are indented and no code.
        list =
            if trimmed.is_empty() { list } else { is_item(line) || list && line.starts_with(' ') };
        prose = text && !trimmed.is_empty() || list;
        all.push(text);
    }
    all
}

/// Whether an item of a list begins here.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|m| line.starts_with(m))
        || number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") "))
}

/// Every block, in order; code and comments are none.
pub(crate) fn blocks(markdown: &str) -> Vec<Block<'_>> {
    let mut all: Vec<Block<'_>> = Vec::new();
    let mut open = false;
    for (n, (line, text)) in markdown.lines().zip(text_lines(markdown)).enumerate() {
        let trimmed = line.trim();
        if !text || trimmed.is_empty() || trimmed.starts_with('<') && trimmed.ends_with('>') {
            open = false;
            continue;
        }
        let kind = match trimmed.as_bytes()[0] {
            b'|' => Kind::Row,
            b'#' => Kind::Heading,
            _ => Kind::Prose,
        };
        match all.last_mut() {
            Some(last) if open && kind == Kind::Prose && !is_item(line) => last.lines.push(trimmed),
            _ => all.push(Block { kind, line: n + 1, lines: vec![trimmed] }),
        }
        open = kind == Kind::Prose;
    }
    all
}

/// The parts of a text between single backquotes.
pub(crate) fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The text with each span of code as one word `x`, and links as their words alone.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split('`').enumerate() {
        out.push_str(if i % 2 == 0 { part } else { "x" });
    }
    while let Some(at) = out.find("](") {
        let end = out[at..].find(')').map_or(out.len(), |e| at + e + 1);
        out.replace_range(at..end, "]");
    }
    out.split_whitespace()
        .map(|w| if w.contains("://") { "x" } else { w })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Head\n\nOne two\nthree.\n- item\n  more\n- next\n\n    still an item\n\nA\n\n    code\n\n\
                        | a | b |\n|:--|\n```sh\nfenced\n\n    deep\n```\n<!-- a\nb -->\nend `c d` [e](f)\n";

    #[test]
    fn blocks_are_paragraphs_items_rows_and_headings() {
        let of: Vec<_> = blocks(TEXT).iter().map(|b| (b.kind, b.line, b.lines.join("/"))).collect();
        let expected = [
            (Kind::Heading, 1, "# Head"),
            (Kind::Prose, 3, "One two/three."),
            (Kind::Prose, 5, "- item/more"),
            (Kind::Prose, 7, "- next"),
            (Kind::Prose, 9, "still an item"),
            (Kind::Prose, 11, "A"),
            (Kind::Row, 15, "| a | b |"),
            (Kind::Row, 16, "|:--|"),
            (Kind::Prose, 24, "end `c d` [e](f)"),
        ];
        assert_eq!(of, expected.map(|(k, n, t)| (k, n, t.to_owned())));
    }

    #[test]
    fn code_is_one_word_and_links_are_their_words() {
        assert_eq!(plain("end `c d` [e g](f/h.md) at https://x.y/z"), "end x [e g] at x");
        assert_eq!(code_spans("a `b` c `d e`").collect::<Vec<_>>(), ["b", "d e"]);
    }
}
