//! Every crate takes its lints, edition, licence and version of Rust from the workspace, and what
//! was resolved is written down.

use crate::repo::{Finding, Repo};

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    if !repo.tracks("Cargo.lock") {
        let text = "is missing or not tracked; builds must be the same everywhere";
        found.push(Finding::new("Cargo.lock", text));
    }
    let members =
        repo.ending("Cargo.toml").filter(|(p, _)| !p.starts_with("fuzz/") && p.contains('/'));
    for (path, text) in members {
        for key in INHERITED {
            if !has_line(text, "[package]", &format!("{key}.workspace=true")) {
                let text = format!("[package] must say `{key}.workspace = true`");
                found.push(Finding::new(path, text));
            }
        }
        if !has_line(text, "[lints]", "workspace=true") {
            found.push(Finding::new(path, "must say `workspace = true` under [lints]"));
        }
    }
    found
}

/// Whether a line, spaces aside, stands in a section of a TOML file.
fn has_line(text: &str, section: &str, line: &str) -> bool {
    let mut inside = false;
    text.lines().map(|l| l.split('#').next().unwrap_or("").replace(' ', "")).any(|l| {
        if l.starts_with('[') {
            inside = l == section;
        }
        inside && l == line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                        license.workspace=true # ours\npublish.workspace = true\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_crate_that_goes_its_own_way_is_found() {
        let of =
            |text: &str| check(&Repo::of(&[("Cargo.lock", ""), ("base/a/Cargo.toml", text)])).len();
        assert_eq!(of(GOOD), 0);
        assert_eq!(of(&GOOD.replace("edition.workspace = true", "edition = \"2021\"")), 1);
        assert_eq!(of(&GOOD.replace("[lints]", "[lints.rust]")), 1);
        assert_eq!(of(&GOOD.replace("\n[lints]\n", "\n[features]\n")), 1);
        assert_eq!(
            of(&GOOD.replace("version.workspace = true\ned", "# version.workspace = true\ned")),
            1
        );
        assert_eq!(of(""), INHERITED.len() + 1);
    }

    #[test]
    fn a_lock_file_that_git_does_not_track_is_found() {
        let repo = Repo::of(&[("Cargo.lock", "")]);
        assert_eq!(check(&repo).len(), 0);
        assert_eq!(check(&repo.untrack("Cargo.lock")).len(), 1);
    }
}
