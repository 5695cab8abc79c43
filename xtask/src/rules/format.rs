//! The documents of the on-disk formats say what the code does: they are what the code writes of
//! itself.

use crate::repo::{Finding, Repo};

/// Where they stand, and what they must say.
pub(crate) fn documents() -> [(&'static str, String); 2] {
    [
        ("docs/changing/on-disk-format.md", seekless_engine::format::document()),
        ("docs/changing/group-store-format.md", seekless_store::format::document()),
    ]
}

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    documents().iter().flat_map(|(name, text)| against(repo, name, text)).collect()
}

fn against(repo: &Repo, name: &str, expected: &str) -> Vec<Finding> {
    let advice = "run `cargo xtask format-doc`";
    let Some(text) = repo.text(name) else {
        return vec![Finding::new(name, format!("is missing; {advice}"))];
    };
    if text == expected {
        return Vec::new();
    }
    let same = text.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    vec![Finding::at(name, same + 1, format!("is not what the code says; {advice}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_out_of_step_is_found() {
        let expected = "# One\n\ntwo\nthree\n";
        const DOCUMENT: &str = "docs/format.md";
        let of = |text: &str| against(&Repo::of(&[(DOCUMENT, text)]), DOCUMENT, expected);
        assert_eq!(of(expected), []);
        assert_eq!(of("# One\n\ntwo\n3\n")[0].line, Some(4));
        assert_eq!(of("# One\n\ntwo\n")[0].line, Some(4));
        assert_eq!(of("# One\n\ntwo\nthree\nfour\n")[0].line, Some(5));
        assert_eq!(against(&Repo::of(&[]), DOCUMENT, expected).len(), 1);
    }
}
