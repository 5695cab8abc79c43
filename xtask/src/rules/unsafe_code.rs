//! The list of all unsafe code, with the reason why each piece is sound: what the source says of
//! itself.

use super::pure::UNSAFE;
use crate::code::{code_only, has_word, is_part};
use crate::repo::{Finding, Repo};

pub(crate) const DOCUMENT: &str = "docs/believing/unsafe-code.md";
const SAFETY: &str = "// SAFETY: ";
/// A reason stands at most this many lines above its code.
const ABOVE: usize = 8;

const HEAD: &str = "\
# Unsafe code, and why it is sound

Rust checks memory safety, except in code that says `unsafe`. This page lists all unsafe code of the
repository. `cargo xtask format-doc` writes the page from the source. `cargo xtask tidy` fails if
page and source differ, if a reason is missing, or if another file has unsafe code.

- **purpose**: all unsafe code here calls the kernel or the C library, because no safe wrapper
  exists.
- **none**: the engine, the learner, the formats and the protocol forbid unsafe code.
- **not listed**: unsafe code in crates of other people.
- **input**: no bytes of a client, a trace or an area are passed to these calls. The group store
  passes the file handles that it keeps; the kernel checks these handles.

| file | function | why it is sound |
|:--|:--|:--|
";

/// A piece of unsafe code: its line, counted from 1, its function and its reason.
struct Piece<'a> {
    line: usize,
    function: &'a str,
    reason: String,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let code = code_only(text);
    let holds = code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    holds
        .map(|(at, _)| {
            let above = lines[..at].iter().rev();
            let function = above.clone().find_map(|line| name_of_function(line)).unwrap_or("-");
            let near = above.take(ABOVE).take_while(|line| name_of_function(line).is_none());
            let first = near.clone().position(|line| line.trim().starts_with(SAFETY));
            let reason = first.map_or_else(String::new, |up| reason_at(&lines[at - 1 - up..]));
            Piece { line: at + 1, function, reason }
        })
        .collect()
}

/// The comment that begins in the first of these lines, as one line.
fn reason_at(lines: &[&str]) -> String {
    let words = lines.iter().map(|line| line.trim()).take_while(|line| line.starts_with("//"));
    let words: Vec<&str> =
        words.map(|line| line.strip_prefix(SAFETY).unwrap_or(&line[2..]).trim()).collect();
    words.join(" ")
}

/// The name of the function that begins in this line.
fn name_of_function(line: &str) -> Option<&str> {
    let line = line.trim();
    let starts = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn "];
    let rest = starts.iter().find_map(|start| line.strip_prefix(start))?;
    rest.split(|c| !is_part(c)).next()
}

/// What the page must say.
pub(crate) fn document(repo: &Repo) -> String {
    let mut text = HEAD.to_owned();
    for path in UNSAFE {
        for piece in pieces(repo.text(path).unwrap_or_default()) {
            text += &format!("| {path} | `{}` | {} |\n", piece.function, piece.reason);
        }
    }
    text
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in UNSAFE {
        for piece in pieces(repo.text(path).unwrap_or_default()) {
            if piece.reason.is_empty() {
                let text = format!("unsafe code without a reason: write `{SAFETY}...` above it");
                found.push(Finding::at(path, piece.line, text));
            }
        }
    }
    if repo.text(DOCUMENT) != Some(&document(repo)) {
        let text = "is not what the source says; run `cargo xtask format-doc`";
        found.push(Finding::new(DOCUMENT, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
pub fn first() {
    // SAFETY: it takes no memory,
    // and leaves none.
    let x = 1;
    unsafe { call(x) }
}

fn second() {
    // unsafe in prose
    unsafe { other(\"unsafe\") }
}
";

    #[test]
    fn a_reason_and_its_function_are_found_and_a_missing_one_is_named() {
        let repo = |code: &str, page: &str| Repo::of(&[(UNSAFE[0], code), (DOCUMENT, page)]);
        let page = document(&repo(CODE, ""));
        assert!(page.contains("| `first` | it takes no memory, and leaves none. |"), "{page}");
        // The reason of `first` is within reach of `second`'s code: it is not taken twice.
        let found = check(&repo(CODE, &page));
        assert_eq!((found.len(), found[0].line), (1, Some(10)), "{found:?}");
        let whole = CODE.replace("// unsafe in prose", "// SAFETY: it is a test.");
        let page = document(&repo(&whole, ""));
        assert_eq!(check(&repo(&whole, &page)), []);
        assert_eq!(check(&repo(&whole, "another page")).len(), 1);
    }
}
