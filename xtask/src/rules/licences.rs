//! Whatever is built into seekless comes under a permissive licence.

use crate::repo::{Finding, Repo};
use crate::spdx;

/// SPDX identifiers of the licences that may come in. MPL-2.0 binds only its own files; bzip2-1.0.6
/// is a BSD licence in other words.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];
const FILES: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found: Vec<Finding> = FILES
        .iter()
        .filter(|f| !repo.tracks(f))
        .map(|f| Finding::new(f, "is missing or not tracked; the manifests promise it"))
        .collect();
    for package in &repo.packages {
        let text = match &package.licence {
            None => "names no licence".to_owned(),
            Some(expression) => match spdx::allows(expression, ALLOWED) {
                Ok(true) => continue,
                Ok(false) => {
                    format!("`{expression}` is not among the allowed: {}", ALLOWED.join(", "))
                }
                Err(error) => error,
            },
        };
        found.push(Finding::new(&package.name, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Package;

    #[test]
    fn a_licence_that_binds_or_is_absent_is_found() {
        let mut repo = Repo::of(&[(FILES[0], ""), (FILES[1], "")]);
        for (licence, findings) in [
            (Some("MIT OR Apache-2.0"), 0),
            (Some("GPL-2.0-only"), 1),
            (Some("MIT AND"), 1),
            (None, 1),
        ] {
            repo.packages =
                vec![Package { licence: licence.map(str::to_owned), ..Package::default() }];
            assert_eq!(check(&repo).len(), findings, "{licence:?}");
        }
        assert_eq!(check(&Repo::of(&[(FILES[0], "")])).len(), 1);
    }
}
