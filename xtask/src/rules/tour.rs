//! docs/tour.md names functions, types and files that exist. The tour and the README stay short.

use crate::markdown::code_spans;
use crate::names::Code;
use crate::repo::{Finding, Repo};

const TOUR: &str = "docs/tour.md";
/// The most words that these files may have, code included.
const WORDS: &[(&str, usize)] = &[(TOUR, 900), ("README.md", 700)];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for &(path, most) in WORDS {
        let Some(text) = repo.text(path) else {
            found.push(Finding::new(path, "is missing"));
            continue;
        };
        let words = text.split_whitespace().count();
        if words > most {
            found.push(Finding::new(path, format!("{words} words; {most} is the most")));
        }
    }
    let Some(tour) = repo.text(TOUR) else { return found };
    let code = Code::of(repo);
    for (n, line) in tour.lines().enumerate() {
        for span in code_spans(line) {
            if !is_there(repo, &code, span) {
                found.push(Finding::at(TOUR, n + 1, format!("`{span}` is not in the code")));
            }
        }
    }
    found
}

/// Whether a span of code that names a file, a function or a type names one that exists. Others,
/// such as options, are passed over.
fn is_there(repo: &Repo, code: &Code, span: &str) -> bool {
    let name = span.split('(').next().unwrap_or_default().trim_end_matches("::...");
    let is_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
    if name.contains('/') && !name.contains(' ') && !name.starts_with(['-', '/']) {
        return repo.holds(name.trim_end_matches('/'));
    }
    let called = span.len() > name.len() || name.contains("::");
    !(called && !name.is_empty() && name.chars().all(is_path)) || code.has_path(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(tour: &str, readme: &str) -> usize {
        let found = check(&Repo::of(&[
            (TOUR, tour),
            ("README.md", readme),
            ("a/Cargo.toml", ""),
            (
                "a/src/lib.rs",
                "struct Engine;\nimpl Engine { fn handle() {} }\nfn alone() {}\nenum Out {\n  Move,\n}",
            ),
        ]));
        found.len()
    }

    #[test]
    fn a_tour_of_what_is_not_there_is_found() {
        for (span, expected) in [
            ("Engine::handle", 0),
            ("Engine::handle(now)", 0),
            ("a::Engine::...", 0),
            ("alone()", 0),
            ("Out::Move", 0),
            ("a/src/lib.rs", 0),
            ("--disk rz55", 0),
            ("plain", 0),
            ("Engine::handles", 1),
            ("alone_too()", 1),
            ("Motor::handle", 1),
            ("a/src/gone.rs", 1),
        ] {
            assert_eq!(findings(&format!("A `{span}` b.\n"), "short"), expected, "{span}");
        }
    }

    #[test]
    fn what_is_too_long_or_missing_is_found() {
        assert_eq!(findings(&"a ".repeat(900), &"a ".repeat(700)), 0);
        assert_eq!(findings(&"a ".repeat(901), &"a ".repeat(701)), 2);
        assert_eq!(check(&Repo::of(&[])).len(), 2);
    }
}
