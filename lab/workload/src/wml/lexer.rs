//! The lexer of Filebench's language: its words, with their positions.

use crate::config_text::{ConfigText, Parsed};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, name or value without quotes.
    Plain(String),
    Quoted(String),
    /// `$name`.
    Variable(String),
    /// One of `= , { } ( ) : ;`.
    Sign(char),
    End,
}

/// A word and its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) kind: Kind,
    pub(super) at: usize,
}

/// Splits a text into words.
pub(super) fn words(source: ConfigText<'_>) -> Parsed<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = source.text.char_indices().peekable();
    let plain = |c: char| !c.is_whitespace() && !"=,{}():;\"#$".contains(c);
    while let Some((i, c)) = rest.next() {
        let kind = match c {
            '\n' => Kind::End,
            c if c.is_whitespace() => continue,
            '#' => {
                while rest.peek().is_some_and(|n| n.1 != '\n') {
                    rest.next();
                }
                continue;
            }
            '=' | ',' | '{' | '}' | '(' | ')' | ':' | ';' => Kind::Sign(c),
            '"' => {
                let mut quoted = String::new();
                loop {
                    match rest.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => quoted.extend(rest.next().map(|n| n.1)),
                        Some((_, c)) if c != '\n' => quoted.push(c),
                        _ => {
                            let what = "the text that begins here has no closing '\"'";
                            return source.refuse(i, what);
                        }
                    }
                }
                Kind::Quoted(quoted)
            }
            _ => {
                let mut word = String::new();
                if c != '$' {
                    word.push(c);
                }
                while let Some((_, c)) = rest.next_if(|n| plain(n.1)) {
                    word.push(c);
                }
                match c {
                    '$' if word.is_empty() => {
                        return source.refuse(i, "a variable's name follows '$'");
                    }
                    '$' => Kind::Variable(word.trim_matches(['{', '}']).to_owned()),
                    _ => Kind::Plain(word),
                }
            }
        };
        words.push(Word { kind, at: i });
    }
    words.push(Word { kind: Kind::End, at: source.text.len() });
    Ok(words)
}
