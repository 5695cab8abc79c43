//! The documents of the on-disk formats say what the code does: they are what the code writes of
//! itself, behind text written by hand if there is any.

use crate::repo::{Finding, Repo};

/// Between text written by hand and what the code writes.
const MARK: &str = "<!-- From here on written by `cargo xtask format-doc`. -->\n";

/// The part of a document that is written by hand.
pub(crate) fn by_hand(text: &str) -> &str {
    text.find(MARK).map_or("", |at| &text[..at + MARK.len()])
}

/// Where they stand, and what they must say behind the part by hand.
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
    let expected = [by_hand(text), expected].concat();
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
        assert_eq!(of(&format!("# By hand\n\n{MARK}{expected}")), []);
        assert_eq!(of(&format!("# By hand\n\n{MARK}# One\n"))[0].line, Some(5));
        assert_eq!(of(&format!("# By hand\n\n{expected}"))[0].line, Some(1));
        assert_eq!(against(&Repo::of(&[]), DOCUMENT, expected).len(), 1);
    }
}
