//! Every row of ARCHITECTURE.md's table of safety rules names files that are there, by their whole
//! paths, and test functions that stand in one of these files or folders.

use crate::markdown::code_spans;
use crate::names::Code;
use crate::repo::{Finding, Repo};

const FILE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Safety rules";

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
        assert_eq!(check(&Repo::of(&[])).len(), 1);
    }
}
