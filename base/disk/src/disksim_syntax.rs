//! The syntax of DiskSim's parameter files: blocks of `name = value`, lists, and `source FILE`.
//!
//! The meaning of the names is in [`crate::disksim_import`].

/// A value of a parameter file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// One or more words, as in the text.
    Words(String),
    /// `[ a, b, c ]`.
    List(Vec<Value>),
    /// `type name { ... }`.
    Block(Block),
}

/// `type name { key = value, ... }`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// First word before the brace.
    pub(crate) kind: String,
    /// The words after the first; can be empty.
    pub(crate) name: String,
    /// Line of the opening brace, from 1.
    pub(crate) line: usize,
    /// Parameters in order, with the line of each key.
    pub(crate) entries: Vec<(String, usize, Value)>,
}

impl Block {
    /// Finds a parameter by name. Returns its value and its line.
    pub(crate) fn get(&self, key: &str) -> Option<(&Value, usize)> {
        self.entries.iter().find(|e| e.0 == key).map(|e| (&e.2, e.1))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) line: usize,
    pub(crate) what: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Mark(char),
    Word(&'a str),
}

const DEPTH_MAX: usize = 64;

struct Parser<'a> {
    tokens: Vec<(Token<'a>, usize)>,
    at: usize,
    depth: usize,
}

/// Parses the top-level blocks of a file. Other top-level statements (`instantiate`, `topology`,
/// `source`) are returned as words.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>, SyntaxError> {
    let mut p = Parser { tokens: tokens(text), at: 0, depth: 0 };
    let mut out = Vec::new();
    while p.at < p.tokens.len() {
        match p.peek() {
            Some(Token::Mark('[')) => out.push(p.value()?),
            Some(Token::Mark(c)) => return Err(p.unexpected(*c, "a block")),
            // These keywords have one argument. The next word starts another statement.
            Some(Token::Word("source" | "as")) => {
                let words: Vec<&str> = (0..2).map_while(|_| p.word()).collect();
                out.push(Value::Words(words.join(" ")));
            }
            _ => out.push(p.value()?),
        }
    }
    Ok(out)
}

fn tokens(text: &str) -> Vec<(Token<'_>, usize)> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let mut rest = line.split('#').next().unwrap_or("");
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            rest = &rest[start..];
            let end = rest.find(|c: char| c.is_whitespace() || "{}[]=,".contains(c));
            let (token, length) = match end.unwrap_or(rest.len()) {
                0 => {
                    let mark = rest.chars().next().unwrap_or(' ');
                    (Token::Mark(mark), mark.len_utf8())
                }
                n => (Token::Word(&rest[..n]), n),
            };
            out.push((token, i + 1));
            rest = &rest[length..];
        }
    }
    out
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at).map(|t| &t.0)
    }

    fn line(&self) -> usize {
        let i = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(i).map_or(1, |t| t.1)
    }

    fn unexpected(&self, found: char, wanted: &str) -> SyntaxError {
        SyntaxError { line: self.line(), what: format!("expected {wanted}, found '{found}'") }
    }

    fn word(&mut self) -> Option<&'a str> {
        let Some(&Token::Word(w)) = self.peek() else { return None };
        self.at += 1;
        Some(w)
    }

    fn words(&mut self) -> Vec<&'a str> {
        std::iter::from_fn(|| self.word()).collect()
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        if self.depth == DEPTH_MAX {
            return Err(SyntaxError {
                line: self.line(),
                what: format!("nested deeper than {DEPTH_MAX}"),
            });
        }
        self.depth += 1;
        let value = self.value_inside();
        self.depth -= 1;
        value
    }

    fn value_inside(&mut self) -> Result<Value, SyntaxError> {
        if self.peek() == Some(&Token::Mark('[')) {
            self.at += 1;
            return self.list();
        }
        let words = self.words();
        if self.peek() == Some(&Token::Mark('{')) {
            let line = self.line();
            self.at += 1;
            let kind = words.first().copied().unwrap_or("").to_owned();
            let name = words.get(1..).unwrap_or(&[]).join(" ");
            return Ok(Value::Block(Block { kind, name, line, entries: self.entries()? }));
        }
        match (words.is_empty(), self.peek()) {
            (false, _) => Ok(Value::Words(words.join(" "))),
            (true, Some(&Token::Mark(c))) => Err(self.unexpected(c, "a value")),
            (true, _) => Err(self.ended("a value")),
        }
    }

    fn ended(&self, wanted: &str) -> SyntaxError {
        SyntaxError { line: self.line(), what: format!("the file ends, but {wanted} was expected") }
    }

    fn list(&mut self) -> Result<Value, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Mark(']')) => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                Some(Token::Mark(',')) => self.at += 1,
                Some(_) => items.push(self.value()?),
                None => return Err(self.ended("']'")),
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<(String, usize, Value)>, SyntaxError> {
        let mut entries = Vec::new();
        loop {
            let line = self.line();
            let key = self.words().join(" ");
            match self.peek() {
                Some(Token::Mark('}')) if key.is_empty() => {
                    self.at += 1;
                    return Ok(entries);
                }
                Some(Token::Mark(',')) if key.is_empty() => self.at += 1,
                Some(Token::Mark('=')) if !key.is_empty() => {
                    self.at += 1;
                    entries.push((key, line, self.value()?));
                }
                Some(&Token::Mark(c)) => return Err(self.unexpected(c, "'name = value'")),
                Some(Token::Word(_)) | None => return Err(self.ended("'}'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\ndisk_kind A B {\n  Read hit over. after read = 0.1, # why\n  Model = source x.model,\n  \
                        L = [ 1, 2, [ 3 ] ],\n  Inner = kind {\n a = 1\n }\n}\ninstantiate [ d ] as A\n";

    #[test]
    fn blocks_lists_and_words() {
        let all = parse(TEXT).unwrap();
        let Value::Block(b) = &all[0] else { panic!("{all:?}") };
        assert_eq!((b.kind.as_str(), b.name.as_str(), b.line), ("disk_kind", "A B", 2));
        let words = |s: &str| Value::Words(s.to_owned());
        assert_eq!(b.get("Read hit over. after read"), Some((&words("0.1"), 3)));
        assert_eq!(b.get("Model"), Some((&words("source x.model"), 4)));
        let list = Value::List(vec![words("1"), words("2"), Value::List(vec![words("3")])]);
        assert_eq!(b.get("L"), Some((&list, 5)));
        let Some((Value::Block(inner), 6)) = b.get("Inner") else { panic!() };
        assert_eq!(inner.get("a"), Some((&words("1"), 7)));
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn errors_name_their_line_and_never_panic() {
        assert_eq!(parse("a {\n b = }").unwrap_err().line, 2);
        assert_eq!(parse("a {\n\n b 1\n}").unwrap_err().line, 4);
        assert!(parse(&"[".repeat(100_000)).unwrap_err().what.contains("nested"));
        for end in 0..TEXT.len() {
            let _ = parse(&TEXT[..end]);
        }
    }
}
