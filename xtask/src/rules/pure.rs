//! Pure rooms are held pure: the same clippy.toml, and no unsafe code. Elsewhere unsafe code lives
//! in few named files.

use super::arrows::ROOMS;
use crate::code::{code_only, has_word};
use crate::repo::{Finding, Repo};

/// The clippy.toml that the others are links to.
const PATTERN: &str = "base/block/clippy.toml";
const FORBID: &str = "#![forbid(unsafe_code)]";
/// The only files that may hold unsafe code, each behind a safe interface of its own.
pub(super) const UNSAFE: &[&str] = &[
    "base/host/src/sys.rs",
    "volume/serve/src/extents/sys.rs",
    "volume/serve/src/ublk/sys.rs",
    "bin/seekless/tests/posix/sys.rs",
];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    let pattern = repo.text(PATTERN);
    if pattern.is_none() {
        found.push(Finding::new(PATTERN, "is missing; the pure rooms link to it"));
    }
    for room in ROOMS.iter().filter(|r| r.pure) {
        let folder = room.folder();
        if !repo.holds(&folder) {
            continue;
        }
        let clippy = format!("{folder}/clippy.toml");
        if repo.text(&clippy) != pattern {
            found.push(Finding::new(&clippy, format!("must be the same as {PATTERN}")));
        }
        let lib = format!("{folder}/src/lib.rs");
        if !repo.text(&lib).is_some_and(|t| code_only(t).lines().any(|l| l.trim() == FORBID)) {
            found.push(Finding::new(&lib, format!("must say `{FORBID}`")));
        }
    }
    for (path, text) in repo.ending(".rs").filter(|(p, _)| !UNSAFE.contains(p)) {
        for (n, line) in code_only(text).lines().enumerate() {
            if has_word(line, "unsafe") {
                let text = format!("unsafe code belongs in {} alone", UNSAFE.join(" or "));
                found.push(Finding::at(path, n + 1, text));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! Prose of unsafe things.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn a_pure_room_out_of_line_is_found() {
        let good = [
            (PATTERN, "a"),
            ("base/block/src/lib.rs", LIB),
            ("base/disk/clippy.toml", "a"),
            ("base/disk/src/lib.rs", LIB),
        ];
        assert_eq!(check(&Repo::of(&good)), []);
        for (path, broken) in [
            ("base/disk/clippy.toml", "b"),
            ("base/disk/src/lib.rs", "// #![forbid(unsafe_code)]"),
            ("base/disk/src/lib.rs", "#![deny(unsafe_code)]"),
        ] {
            let files = good.map(|(p, t)| if p == path { (p, broken) } else { (p, t) });
            assert_eq!(
                check(&Repo::of(&files)).iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
                [path]
            );
        }
        assert_eq!(check(&Repo::of(&good[..3])).len(), 1, "no lib.rs");
        assert_eq!(check(&Repo::of(&good[1..])).len(), 2, "no pattern");
    }

    #[test]
    fn unsafe_code_is_found_outside_its_files() {
        let code = "fn f() {\n    // unsafe\n    unsafe { g(\"unsafe\") }\n}";
        let base = [(PATTERN, "a"), ("base/block/src/lib.rs", LIB)];
        for (path, findings) in
            [(UNSAFE[0], 0), ("volume/serve/src/lib.rs", 1), ("volume/serve/tests/x.rs", 1)]
        {
            let found = check(&Repo::of(&[base[0], base[1], (path, code)]));
            assert_eq!(found.len(), findings, "{path}");
            assert!(found.iter().all(|f| f.line == Some(3)));
        }
    }
}
