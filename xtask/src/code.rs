//! Rust source without its comments and literals, so that a rule about code is not misled by prose.
//!
//! A scanner, not a parser: it knows line and block comments, strings, raw strings and characters.

/// The source with every comment, string and character literal blanked; lines stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let s: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut i = 0;
    while i < s.len() {
        let end = literal_end(&s, i);
        if end == i {
            out.push(s[i]);
            i += 1;
        } else {
            out.extend(s[i..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            i = end;
        }
    }
    out
}

/// Whether a word of code can contain this character.
pub(crate) fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `text` alone, not as part of a longer word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

/// Where the comment or literal that begins at `i` ends; `i` where none begins.
fn literal_end(s: &[char], i: usize) -> usize {
    let at = |k: usize| s.get(k).copied().unwrap_or('\0');
    match (s[i], at(i + 1)) {
        ('/', '/') => (i..s.len()).find(|&k| s[k] == '\n').unwrap_or(s.len()),
        ('/', '*') => block_comment_end(s, i),
        ('"', _) => quoted_end(s, i + 1, '"'),
        // A lifetime is a quote without its closing one.
        ('\'', '\\') => quoted_end(s, i + 1, '\''),
        ('\'', _) if at(i + 2) == '\'' => i + 3,
        ('r', '"' | '#') if i == 0 || !is_part(s[i - 1]) || raw_prefix(s, i) => raw_end(s, i),
        _ => i,
    }
}

/// Whether the `r` at `i` follows the `b` or `c` of `br"` or `cr"`.
fn raw_prefix(s: &[char], i: usize) -> bool {
    matches!(s[i - 1], 'b' | 'c') && (i < 2 || !is_part(s[i - 2]))
}

fn block_comment_end(s: &[char], i: usize) -> usize {
    let (mut depth, mut k) = (0_usize, i);
    while k < s.len() {
        match (s[k], s.get(k + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                k += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                k += 2;
                if depth == 0 {
                    return k;
                }
            }
            _ => k += 1,
        }
    }
    k
}

fn quoted_end(s: &[char], mut k: usize, quote: char) -> usize {
    while k < s.len() {
        match s[k] {
            '\\' => k += 2,
            c if c == quote => return k + 1,
            _ => k += 1,
        }
    }
    s.len()
}

fn raw_end(s: &[char], i: usize) -> usize {
    let hashes = s[i + 1..].iter().take_while(|&&c| c == '#').count();
    let mut k = i + 1 + hashes;
    if s.get(k) != Some(&'"') {
        return i; // a raw identifier
    }
    k += 1;
    while k < s.len() {
        if s[k] == '"' && s[k + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes {
            return k + 1 + hashes;
        }
        k += 1;
    }
    s.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_goes_and_code_stays() {
        for (source, left) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y") + 'q'"#, "f(      ) +    "),
            ("r#\"a\"b\"# c", "         c"),
            ("br\"z\" k", "b     k"),
            ("&'a str; '\\'' x", "&'a str;      x"),
            ("r#type", "r#type"),
            ("bar\"q\"", "bar   "),
            ("\"open", "     "),
            ("/* open", "       "),
            ("'\\", "  "),
        ] {
            assert_eq!(code_only(source), left, "{source:?}");
        }
    }

    #[test]
    fn a_word_stands_alone() {
        assert!(
            has_word("a word b", "word") && has_word("word", "word") && has_word("(word)", "word")
        );
        assert!(
            !has_word("words", "word") && !has_word("a_word", "word") && !has_word("sword", "word")
        );
    }
}
