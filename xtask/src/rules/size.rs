//! Files stay short, and each Rust file opens by saying what it is for.

use crate::repo::{Finding, Repo};

/// Longer files fail.
const LINES_MAX: usize = 1000;
/// Longer files are listed.
const LINES_ASK: usize = 600;
/// What people write and read; data, fixtures and lock files are none of it.
const WRITTEN: &[&str] = &[".rs", ".py", ".sh", ".md", ".html", ".css", ".js"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found: Vec<Finding> = written(repo)
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| {
            Finding::new(path, format!("{lines} lines; split it, {LINES_MAX} is the most"))
        })
        .collect();
    for (path, text) in repo.ending(".rs") {
        if !text.starts_with("//! ") {
            found.push(Finding::at(path, 1, "must open with `//!`: the purpose of the file"));
        }
    }
    found
}

/// Files that are not too long yet.
pub(crate) fn long(repo: &Repo) -> Vec<(&str, usize)> {
    written(repo).filter(|(_, lines)| (LINES_ASK + 1..=LINES_MAX).contains(lines)).collect()
}

fn written(repo: &Repo) -> impl Iterator<Item = (&str, usize)> {
    repo.texts()
        .filter(|(path, _)| WRITTEN.iter().any(|w| path.ends_with(w)))
        .map(|(path, text)| (path, text.lines().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_listed_then_found() {
        let of = |lines: usize| "//! x\n".repeat(lines);
        for (lines, findings, listed) in [(600, 0, 0), (601, 0, 1), (1000, 0, 1), (1001, 1, 0)] {
            let text = of(lines);
            let repo = Repo::of(&[("a.rs", &text), ("data.csv", &of(5000))]);
            assert_eq!(
                (check(&repo).len(), long(&repo).len()),
                (findings, listed),
                "{lines} lines"
            );
        }
    }

    #[test]
    fn a_file_without_its_opening_is_found() {
        for (text, findings) in [
            ("//! Why.\n", 0),
            ("", 1),
            ("// Why.\n", 1),
            ("#![no_main]\n//! Why.\n", 1),
            ("//!\n", 1),
        ] {
            assert_eq!(check(&Repo::of(&[("build.rs", text)])).len(), findings, "{text:?}");
        }
    }
}
