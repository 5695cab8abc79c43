//! What must not be left lying about: unfinished work, tests that do not run, and names of the
//! place where something was written or fetched. The needles are put together from pieces, so that
//! this file holds none.

use crate::code::{code_only, has_word};
use crate::repo::{Finding, Repo};

/// Words of unfinished work, in any text.
const WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// In Rust code, comments and strings aside.
const CODE: &[(&str, &str)] = &[
    (concat!("to", "do!("), "finish it"),
    (concat!("unimpl", "emented!("), "finish it"),
    (concat!("db", "g!("), "remove it"),
    (concat!("#[ign", "ore"), "a test runs or is not there"),
];
/// Folders of one machine, where they begin a path.
const PLACES: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/tmp/bash", "_jobs"), concat!("/ro", "ot/.")];
/// Hosts that a package manager is configured with elsewhere.
const HOSTS: &[&str] = &[
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("deb.", "debian.org"),
    concat!("security.", "debian.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("py", "pi.org"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("pkg", ".dev/"),
];
const LOCK: &str = "Cargo.lock";
/// The only source that the lock file may name.
const LOCK_SOURCE: &str =
    concat!("source = \"registry+https://github.com/rust-lang/", "crates.io-index\"");

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in repo.texts() {
        if path.ends_with(LOCK) {
            let foreign = |l: &&str| l.starts_with("source = ") && *l != LOCK_SOURCE;
            found.extend(
                text.lines()
                    .filter(foreign)
                    .map(|l| Finding::new(path, format!("{l}: another registry or a git source"))),
            );
            continue;
        }
        let code = if path.ends_with(".rs") { code_only(text) } else { String::new() };
        let mut code = code.lines();
        for (n, line) in text.lines().enumerate() {
            let mut at = |what: &str, advice: &str| {
                found.push(Finding::at(path, n + 1, format!("`{what}`: {advice}")));
            };
            for word in WORDS.iter().filter(|w| has_word(line, w)) {
                at(word, "finish it, or open an issue");
            }
            for place in PLACES.iter().filter(|p| begins_path(line, p)) {
                at(place, "a path of one machine");
            }
            for host in HOSTS.iter().filter(|h| line.contains(**h)) {
                at(host, "package managers are configured outside the repository");
            }
            let code = code.next().unwrap_or("");
            for (mark, advice) in CODE.iter().filter(|(m, _)| code.contains(m)) {
                at(mark, advice);
            }
        }
    }
    found
}

/// Whether the absolute path begins in the line, rather than being the inner part of a longer one.
fn begins_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || "._-}~/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Repo::of(&[(path, text)])).len()
    }

    #[test]
    fn every_mark_is_found() {
        for word in WORDS {
            assert_eq!(findings("a.md", &format!("a\n{word}: b")), 1);
            assert_eq!(findings("a.rs", &format!("// {word} b")), 1);
            assert_eq!(findings("a.sh", &format!("mktemp a.{word}{word}")), 0);
        }
        for (mark, _) in CODE {
            assert_eq!(findings("a.rs", &format!("  {mark}x)]")), 1, "{mark}");
            assert_eq!(
                findings("a.rs", &format!("// {mark}x)]\nlet a = \"{mark}\";")),
                0,
                "{mark}"
            );
            assert_eq!(findings("a.md", mark), 0, "{mark}");
        }
        for place in PLACES {
            for line in [format!("{place}a"), format!("see \"{place}a\""), format!("a={place}b")] {
                assert_eq!(findings("a.sh", &line), 1, "{line}");
            }
            for line in
                [format!("https://a.b{place}c"), format!("$HOME/x{place}c"), format!("..{place}")]
            {
                assert_eq!(findings("a.sh", &line), 0, "{line}");
            }
        }
        for host in HOSTS {
            assert_eq!(findings("a.toml", &format!("url = \"https://{host}/x\"")), 1);
        }
    }

    #[test]
    fn the_lock_file_names_one_registry() {
        assert_eq!(findings(LOCK, &format!("name = \"a\"\n{LOCK_SOURCE}\n")), 0);
        assert_eq!(findings(LOCK, "source = \"registry+https://mirror.example/index\"\n"), 1);
        assert_eq!(findings("fuzz/Cargo.lock", "source = \"git+https://example.org/a\"\n"), 1);
    }
}
