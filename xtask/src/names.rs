//! Names that the repository's Rust code defines, found without parsing: a keyword, then the name.

use std::collections::BTreeSet;

use crate::code::{code_only, has_word, is_part};
use crate::repo::Repo;

/// What introduces a name.
pub(crate) const KEYWORDS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "mod", "union", "const", "static", "macro_rules!"];

/// Whether this code (comments and literals blanked) defines this name with this keyword.
fn defines(code: &str, keyword: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].trim_end_matches(' ');
        before.len() < at
            && before.strip_suffix(keyword).is_some_and(|b| !b.ends_with(is_part))
            && !code[at + name.len()..].starts_with(is_part)
    })
}

/// The code of every Rust file, with the path.
pub(crate) struct Code {
    files: Vec<(String, String)>,
    /// Names of packages and of their folders, as paths in code call them.
    crates: BTreeSet<String>,
}

impl Code {
    pub(crate) fn of(repo: &Repo) -> Self {
        let files = repo.ending(".rs").map(|(p, t)| (p.to_owned(), code_only(t))).collect();
        let mut crates = BTreeSet::new();
        for (path, _) in repo.ending("Cargo.toml") {
            let folder = path.rsplit('/').nth(1).unwrap_or_default();
            crates.extend([folder.to_owned(), format!("seekless_{folder}")]);
        }
        Self { files, crates }
    }

    /// The names of all functions.
    pub(crate) fn functions(&self) -> BTreeSet<&str> {
        let behind = self.files.iter().flat_map(|(_, code)| code.split("fn ").skip(1));
        behind.map(|rest| &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]).collect()
    }

    /// Whether a file below this path, or of this path, defines the function.
    pub(crate) fn has_fn_in(&self, path: &str, name: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below =
            |p: &str| p.strip_prefix(path).is_some_and(|r| r.is_empty() || r.starts_with('/'));
        self.files.iter().any(|(p, code)| below(p) && defines(code, "fn", name))
    }

    /// Whether there is what `a::b::c` or `c` names: the last part is defined in a file in which
    /// the one before it stands, as a type, module, crate or variant.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split("::").collect();
        let Some((name, owners)) = parts.split_last() else { return false };
        let owners_are = owners.iter().all(|o| self.crates.contains(*o) || self.defined(o, None));
        let owner = owners.last().filter(|o| !self.crates.contains(**o));
        owners_are
            && (self.defined(name, owner.copied())
                || owners.is_empty() && self.crates.contains(*name))
    }

    fn defined(&self, name: &str, owner: Option<&str>) -> bool {
        self.files.iter().any(|(path, code)| {
            let of = |o: &str| has_word(code, o) || path.contains(&format!("/{o}"));
            owner.is_none_or(of)
                && (KEYWORDS.iter().any(|k| defines(code, k, name)) || is_variant(code, name))
                || owner.is_none() && path.ends_with(&format!("/{name}.rs"))
        })
    }
}

/// Whether a line begins with this name as a variant of an enum does.
fn is_variant(code: &str, name: &str) -> bool {
    name.starts_with(char::is_uppercase)
        && code.lines().any(|l| {
            l.trim_start().strip_prefix(name).is_some_and(|rest| {
                matches!(rest.trim_start().chars().next(), None | Some(',' | '(' | '{' | '='))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are_defined() {
        let repo = Repo::of(&[
            ("a/engine/Cargo.toml", ""),
            (
                "a/engine/src/lib.rs",
                "//! fn told\npub struct Engine;\nimpl Engine {\n pub fn handle(&self) {}\n}\nenum Output {\n    Submit(Io),\n}",
            ),
            ("a/engine/tests/t.rs", "fn it_holds() {}\n// fn it_was()"),
        ]);
        let code = Code::of(&repo);
        for there in [
            "Engine",
            "Engine::handle",
            "engine::Engine::handle",
            "Output::Submit",
            "seekless_engine::Engine",
            "handle",
        ] {
            assert!(code.has_path(there), "{there}");
        }
        for absent in [
            "Engin",
            "Engine::handles",
            "Motor::handle",
            "Output::Handle",
            "told",
            "sim::Engine",
            "it_was",
        ] {
            assert!(!code.has_path(absent), "{absent}");
        }
        assert!(code.has_fn_in("a/engine/tests", "it_holds"));
        assert!(code.has_fn_in("a/engine/tests/t.rs", "it_holds"));
        assert!(
            !code.has_fn_in("a/engine/src", "it_holds") && !code.has_fn_in("a/eng", "it_holds")
        );
    }
}
