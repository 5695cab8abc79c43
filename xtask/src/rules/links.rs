//! Links in Markdown to files of the repository lead somewhere.

use crate::markdown::text_lines;
use crate::repo::{Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in repo.ending(".md") {
        let lines = text.lines().zip(text_lines(text)).enumerate();
        for (n, (line, _)) in lines.filter(|(_, (_, is_text))| *is_text) {
            for target in targets(line) {
                if !resolve(path, target).is_some_and(|to| repo.holds(&to)) {
                    let text = format!("the link to `{target}` leads nowhere");
                    found.push(Finding::at(path, n + 1, text));
                }
            }
        }
    }
    found
}

/// Targets of the line's links that point into the repository, anchors and titles aside.
fn targets(line: &str) -> Vec<&str> {
    // What stands between backquotes is quoted, not linked.
    let prose = line.split('`').step_by(2);
    prose
        .flat_map(|part| part.split("](").skip(1))
        .chain(line.starts_with('[').then(|| line.split_once("]: ")).flatten().map(|(_, t)| t))
        .filter_map(|rest| rest.split([')', ' ', '#']).next())
        .filter(|t| !t.is_empty() && !t.contains("://") && !t.starts_with("mailto:"))
        .collect()
}

/// The path from the root that a link in `from` means; nothing where it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        for (line, findings) in [
            (
                "see [a](b.md) and [c](../README.md#top), [d](img/x.svg \"t\"), [e](img/), [f](#here)",
                0,
            ),
            (
                "see [a](https://example.org/none.md), <https://example.org>, [m](mailto:a@example.org)",
                0,
            ),
            ("see [a](none.md)", 1),
            ("see [a](../../README.md)", 1),
            ("[a]: none.md", 1),
            ("[a]: b.md", 0),
            ("`[a](none.md)` is how a link looks; `code` then [a](none.md)", 1),
            ("[![b](none.svg)](b.md)", 1),
            ("```\n[a](none.md)\n```", 0),
        ] {
            let repo = Repo::of(&[
                ("docs/a.md", line),
                ("docs/b.md", ""),
                ("README.md", ""),
                ("docs/img/x.svg", ""),
            ]);
            assert_eq!(check(&repo).len(), findings, "{line}");
        }
    }
}
