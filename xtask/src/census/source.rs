//! One Rust file, measured: its lines with and without tests, its functions, its public items, its
//! words.

use std::collections::BTreeSet;

use crate::code::{code_only, is_part};
use crate::names::KEYWORDS;

#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) package: &'a str,
    pub(super) path: &'a str,
    /// Lines that are no test; of these, those with code.
    pub(super) lines: usize,
    pub(super) code_lines: usize,
    pub(super) test_lines: usize,
    /// Functions that are no tests: name, first line, lines.
    pub(super) functions: Vec<(String, usize, usize)>,
    /// Public items of a library.
    pub(super) public: BTreeSet<String>,
    pub(super) words: BTreeSet<String>,
}

impl<'a> Source<'a> {
    pub(super) fn read(package: &'a str, path: &'a str, text: &str, library: bool) -> Self {
        let code = code_only(text);
        let lines: Vec<&str> = code.lines().collect();
        let inside = path.strip_prefix(package).unwrap_or(path);
        let test = ["/tests/", "/benches/", "/examples/"].iter().any(|f| inside.contains(f))
            || inside.ends_with("/tests.rs");
        let of_tests = if test { vec![true; lines.len()] } else { tests(&lines) };
        let source = |n: &usize| !of_tests[*n];
        let kept: Vec<usize> = (0..lines.len()).filter(source).collect();
        let functions =
            functions(&lines).into_iter().filter(|f| !of_tests[f.1 - 1]).collect::<Vec<_>>();
        Self {
            package,
            path,
            lines: kept.len(),
            code_lines: kept.iter().filter(|n| !lines[**n].trim().is_empty()).count(),
            test_lines: lines.len() - kept.len(),
            functions,
            public: if library && !test {
                kept.iter().filter_map(|n| public(lines[*n])).collect()
            } else {
                BTreeSet::new()
            },
            words: code
                .split(|c| !is_part(c))
                .filter(|w| !w.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// Which lines belong to an item behind `#[cfg(test)]`.
fn tests(lines: &[&str]) -> Vec<bool> {
    let mut all = vec![false; lines.len()];
    let mut n = 0;
    while n < lines.len() {
        if lines[n].trim_start().starts_with("#[cfg(test)]") {
            let (end, _) = item_end(lines, n + 1);
            all[n..=end].fill(true);
            n = end;
        }
        n += 1;
    }
    all
}

/// The line in which the item ends that begins in this line, and whether it has a body: it ends
/// with the closing brace, or with a semicolon before any. A semicolon within brackets, as of an
/// array's type, ends nothing.
fn item_end(lines: &[&str], from: usize) -> (usize, bool) {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (n, line) in lines.iter().enumerate().skip(from) {
        for c in line.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '{' => braces += 1,
                '}' if braces <= 1 => return (n, true),
                '}' => braces -= 1,
                ';' if braces == 0 && brackets == 0 => return (n, false),
                _ => {}
            }
        }
    }
    (lines.len().saturating_sub(1), false)
}

/// Every function with a body.
fn functions(lines: &[&str]) -> Vec<(String, usize, usize)> {
    let mut all = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let mut words = line.split_whitespace().skip_while(|w| *w != "fn").skip(1);
        let Some(name) = words.next().and_then(identifier) else { continue };
        if let (end, true) = item_end(lines, n) {
            all.push((name, n + 1, end - n + 1));
        }
    }
    all
}

/// The identifier at the front of a word.
fn identifier(word: &str) -> Option<String> {
    let name: String = word.chars().take_while(|c| is_part(*c)).collect();
    (!name.is_empty()).then_some(name)
}

/// The name of the public item that begins in this line.
fn public(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let is_keyword = |w: &&str| KEYWORDS.contains(w) || matches!(*w, "unsafe" | "async");
    rest.split_whitespace().next().filter(is_keyword)?;
    identifier(rest.split_whitespace().find(|w| !is_keyword(w))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source<'_> {
        Source::read("a", "a/src/lib.rs", text, true)
    }

    #[test]
    fn functions_are_measured_from_head_to_closing_brace() {
        let text = "fn a(x: [u8; 4]) {\n  if x { \"}\" }\n}\ntrait T {\n  fn none(&self);\n  fn b(\n    &self,\n  ) -> u8 {\n    1\n  }\n}\n";
        let of: Vec<_> = read(text).functions;
        assert_eq!(of, [("a".into(), 1, 3), ("b".into(), 6, 5)]);
    }

    #[test]
    fn tests_are_no_source() {
        let s = read(
            "fn a() {}\n#[cfg(test)]\nmod tests;\n// why\n#[cfg(test)]\nimpl A {\n  fn b() {}\n}\n\nfn c() {}\n",
        );
        assert_eq!((s.lines, s.code_lines, s.test_lines), (4, 2, 6));
        assert_eq!(s.functions.len(), 2);
        let t = Source::read("a", "a/tests/b.rs", "pub fn a() {}\n", true);
        assert_eq!((t.lines, t.test_lines, t.functions.len(), t.public.len()), (0, 1, 0, 0));
    }

    #[test]
    fn public_items_are_those_of_a_library() {
        let text = "pub const fn a() {}\npub struct B {\n  pub field: u8,\n}\npub(crate) fn c() {}\npub use d::E;\npub const F: u8 = 1;\n";
        assert_eq!(read(text).public.into_iter().collect::<Vec<_>>(), ["B", "F", "a"]);
        assert_eq!(Source::read("a", "a/src/main.rs", text, false).public.len(), 0);
    }
}
