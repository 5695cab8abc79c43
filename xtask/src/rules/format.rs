//! The document of the on-disk format says what the code does: it is what the code writes of itself.

use crate::repo::{Finding, Repo};

/// Where the document stands.
pub(crate) const DOCUMENT: &str = "docs/on-disk-format.md";

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    against(repo, &seekless_engine::format::document())
}

fn against(repo: &Repo, expected: &str) -> Vec<Finding> {
    let advice = "run `cargo xtask format-doc`";
    let Some(text) = repo.text(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, format!("is missing; {advice}"))];
    };
    if text == expected {
        return Vec::new();
    }
    let same = text.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    vec![Finding::at(DOCUMENT, same + 1, format!("is not what the code says; {advice}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_out_of_step_is_found() {
        let expected = "# One\n\ntwo\nthree\n";
        let of = |text: &str| against(&Repo::of(&[(DOCUMENT, text)]), expected);
        assert_eq!(of(expected), []);
        assert_eq!(of("# One\n\ntwo\n3\n")[0].line, Some(4));
        assert_eq!(of("# One\n\ntwo\n")[0].line, Some(4));
        assert_eq!(of("# One\n\ntwo\nthree\nfour\n")[0].line, Some(5));
        assert_eq!(against(&Repo::of(&[]), expected).len(), 1);
    }
}
