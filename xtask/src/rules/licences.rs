//! Whatever is built into seekless comes under a permissive licence.

use spdx::{Expression, ParseMode};

use crate::repo::{Finding, Repo};

/// Its `licenses.allow` lists the licences that may come in.
const DENY: &str = "deny.toml";
const FILES: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found: Vec<Finding> = FILES
        .iter()
        .filter(|f| !repo.tracks(f))
        .map(|f| Finding::new(f, "is missing or not tracked; the manifests promise it"))
        .collect();
    let allowed = allowed(repo);
    // An exception (`WITH`) only adds rights, so the licence before it decides.
    let is_met = |parsed: &Expression| {
        parsed
            .evaluate(|req| req.license.id().is_some_and(|id| allowed.iter().any(|a| a == id.name)))
    };
    for package in &repo.packages {
        let text = match &package.licence {
            None => "names no licence".to_owned(),
            Some(expression) => match Expression::parse_mode(expression, ParseMode::LAX) {
                Ok(parsed) if is_met(&parsed) => continue,
                Ok(_) => format!("`{expression}` is not among the allowed: {}", allowed.join(", ")),
                Err(error) => format!("`{expression}` is no licence: {}", error.reason),
            },
        };
        found.push(Finding::new(&package.name, text));
    }
    found
}

/// Without the file, nothing is allowed.
fn allowed(repo: &Repo) -> Vec<String> {
    let deny: Option<toml::Table> = repo.text(DENY).and_then(|text| toml::from_str(text).ok());
    let list = deny.and_then(|deny| deny.get("licenses")?.get("allow")?.clone().try_into().ok());
    list.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Package;

    #[test]
    fn a_licence_that_binds_or_is_absent_is_found() {
        let deny = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Unicode-3.0\"]\n";
        let mut repo = Repo::of(&[(FILES[0], ""), (FILES[1], ""), (DENY, deny)]);
        for (licence, findings) in [
            (Some("MIT OR GPL-3.0-only"), 0),
            (Some("MIT AND GPL-3.0-only"), 1),
            (Some("(MIT OR GPL-2.0-only) AND Unicode-3.0"), 0),
            (Some("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"), 0),
            (Some("MIT/Apache-2.0"), 0),
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
