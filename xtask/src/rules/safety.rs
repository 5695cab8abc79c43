//! Every row of ARCHITECTURE.md's table of safety rules names files that are there, by their whole
//! paths, and test functions that stand in one of these files or folders. The pages about promises
//! name test functions that are somewhere in the code.

use crate::markdown::code_spans;
use crate::names::Code;
use crate::repo::{Finding, Repo};

const FILE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Safety rules";
/// Folders of pages that name tests.
const PAGES: &[&str] = &["docs/believing/", "benches/engine/runs/"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let Some(text) = repo.text(FILE) else { return vec![Finding::new(FILE, "is missing")] };
    let code = Code::of(repo);
    let mut found = Vec::new();
    let mut rows = 0;
    let lines = text.lines().enumerate().skip_while(|(_, l)| !l.starts_with(HEADING)).skip(1);
    for (n, line) in lines.take_while(|(_, l)| !l.starts_with("## ")) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").collect();
        // The heading of the table, and the line below it.
        if !line.starts_with('|') || line.starts_with("|:--") || line.starts_with("| rule") {
            continue;
        }
        rows += 1;
        let mut finding = |text: String| found.push(Finding::at(FILE, n + 1, text));
        let [_, tests @ ..] = &cells[..] else { continue };
        let tests = tests.join(" ");
        let (mut paths, mut bare) = (Vec::new(), Vec::new());
        for word in
            tests.split([' ', ',', ';', '(', ')', '`']).map(|w| w.trim_end_matches(['.', ':']))
        {
            if word.contains('/') {
                paths.push(word);
            } else if word.ends_with(".rs") {
                bare.push(word);
            }
        }
        for name in bare {
            finding(format!("`{name}`: give the whole path of the file"));
        }
        for path in &paths {
            if !repo.holds(path.trim_end_matches('/')) {
                finding(format!("`{path}` is not there"));
            }
        }
        if paths.is_empty() {
            finding("the rule names no file in which it is tested".into());
        }
        for name in code_spans(&tests).filter(|s| is_name(s)) {
            if !paths.iter().any(|p| code.has_fn_in(p, name)) {
                finding(format!("no function `{name}` in {}", paths.join(", ")));
            }
        }
    }
    if rows == 0 {
        found.push(Finding::new(FILE, format!("has no table below a heading `{HEADING}...`")));
    }
    found.extend(unknown_tests(repo, &code));
    found
}

/// Names of five words or more are names of tests: keys of JSON and of settings are shorter.
fn unknown_tests(repo: &Repo, code: &Code) -> Vec<Finding> {
    let functions = code.functions();
    let mut found = Vec::new();
    for (path, text) in repo.ending(".md").filter(|(p, _)| PAGES.iter().any(|f| p.starts_with(f))) {
        for (n, line) in text.lines().enumerate() {
            let tests = code_spans(line).filter(|s| is_name(s) && s.matches('_').count() >= 4);
            for name in tests.filter(|name| !functions.contains(name)) {
                found.push(Finding::at(path, n + 1, format!("no function `{name}` in the code")));
            }
        }
    }
    found
}

/// Whether this is the name of a function.
fn is_name(span: &str) -> bool {
    span.starts_with(|c: char| c.is_ascii_lowercase())
        && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_names_what_is_not_there_is_found() {
        for (cell, findings) in [
            ("a/tests/t.rs `it_holds`", 0),
            ("`it_holds` in a/tests/", 0),
            ("a/tests/t.rs; `cargo run --release`", 0),
            ("a/tests, a/src/lib.rs `other`, `it_holds`", 0),
            ("a/tests/t.rs `other`", 1),
            ("a/tests/t.rs `it_held`", 1),
            ("a/tests/gone.rs", 1),
            ("a/tests/t.rs, gone.rs", 1),
            ("`it_holds` in t.rs", 3),
            ("nowhere", 1),
        ] {
            let text = format!(
                "# A\n## Safety rules, and tests\n\n| rule | tests |\n|:--|:--|\n| It. | {cell} |\n## B\n| x | y |\n"
            );
            let repo = Repo::of(&[
                (FILE, &text),
                ("a/tests/t.rs", "fn it_holds() {}"),
                ("a/src/lib.rs", "fn other() {}"),
            ]);
            assert_eq!(check(&repo).len(), findings, "{cell}: {:?}", check(&repo));
        }
        assert_eq!(check(&Repo::of(&[(FILE, "# A\n")])).len(), 1);
        for (page, name, findings) in [
            ("docs/believing/a.md", "what_was_written_is_read", 0),
            ("docs/believing/a.md", "what_was_written_is_red", 1),
            ("docs/believing/a.md", "spin_up_s", 0),
            ("docs/using/a.md", "what_was_written_is_red", 0),
        ] {
            let text = format!("Tested: `{name}`.\n");
            let test = ("a/tests/t.rs", "fn what_was_written_is_read() {}");
            let repo = Repo::of(&[(page, &text), test]);
            assert_eq!(unknown_tests(&repo, &Code::of(&repo)).len(), findings, "{page} {name}");
        }
        assert_eq!(check(&Repo::of(&[])).len(), 1);
    }
}
