//! The repository as the rules see it: paths, texts, and what cargo says of the packages. Rules
//! never touch the disk; tests make a [`Repo`] of strings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One broken rule in one place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Where: a path, or a package's name.
    pub(crate) path: String,
    /// Line, counted from 1.
    pub(crate) line: Option<usize>,
    /// What is wrong and what to do.
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn new(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, text: text.into() }
    }

    pub(crate) fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}

/// A package that the lock file brings in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// Name and version.
    pub(crate) name: String,
    /// SPDX expression.
    pub(crate) licence: Option<String>,
    /// Whether it is one of ours.
    pub(crate) ours: bool,
    /// Names of the packages that its manifest asks for, of every kind.
    pub(crate) dependencies: Vec<String>,
}

/// Everything the rules may look at.
#[derive(Debug, Default)]
pub(crate) struct Repo {
    /// Path from the root, with `/`, to text; binary files have `None`.
    files: BTreeMap<String, Option<String>>,
    /// The paths that git tracks; the others are new and not ignored.
    tracked: BTreeSet<String>,
    pub(crate) packages: Vec<Package>,
}

impl Repo {
    /// The files alone: what cargo says of the packages is left out.
    pub(crate) fn files_of(root: &Path) -> Result<Self> {
        let mut repo = Self::default();
        for (path, tracked) in listed(root)? {
            // A file that git still lists but the folder no longer holds is not there.
            let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
            if tracked {
                repo.tracked.insert(path.clone());
            }
            repo.files.insert(path, String::from_utf8(bytes).ok());
        }
        Ok(repo)
    }

    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut repo = Self::files_of(root)?;
        // Only what a Linux build brings in: cargo would fetch the rest merely to name it.
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let args =
            "metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu";
        let args: Vec<&str> = args.split(' ').collect();
        repo.packages = packages(&run(root, &cargo, &args)?)?;
        Ok(repo)
    }

    /// A repository for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut repo = Self::default();
        for (path, text) in files {
            repo.files.insert((*path).to_owned(), Some((*text).to_owned()));
            repo.tracked.insert((*path).to_owned());
        }
        repo
    }

    /// Forgets that git tracks a file, for tests.
    #[cfg(test)]
    pub(crate) fn untrack(mut self, path: &str) -> Self {
        self.tracked.remove(path);
        self
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(p, t)| Some((p.as_str(), t.as_deref()?)))
    }

    /// Path and text of every file whose name ends so.
    pub(crate) fn ending<'a>(
        &'a self,
        suffix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(move |(p, _)| p.ends_with(suffix))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    pub(crate) fn tracks(&self, path: &str) -> bool {
        self.tracked.contains(path)
    }

    /// Whether there is such a file or folder.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }
}

/// Every path that git tracks (true) or would offer to add (false).
fn listed(root: &Path) -> Result<Vec<(String, bool)>> {
    let mut all = Vec::new();
    for (flags, tracked) in [
        (&["ls-files", "-z"][..], true),
        (&["ls-files", "-z", "--others", "--exclude-standard"], false),
    ] {
        let out = run(root, "git", flags)?;
        all.extend(out.split('\0').filter(|p| !p.is_empty()).map(|p| (p.to_owned(), tracked)));
    }
    Ok(all)
}

fn run(root: &Path, program: &str, args: &[&str]) -> Result<String> {
    let what = format!("{program} {}", args.join(" "));
    let out = Command::new(program)
        .args(args)
        .current_dir(root)
        .output()
        .with_context(|| format!("could not run `{what}`"))?;
    if !out.status.success() {
        bail!("`{what}` failed: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("`{what}` printed something not UTF-8"))
}

/// Reads what `cargo metadata` says.
fn packages(metadata: &str) -> Result<Vec<Package>> {
    let root: Value = serde_json::from_str(metadata).context("cargo metadata is not JSON")?;
    let text = |v: &Value, key: &str| v[key].as_str().map(str::to_owned);
    let list = root["packages"].as_array().context("cargo metadata has no `packages`")?;
    list.iter()
        .map(|p| {
            let name = text(p, "name").context("a package without a name")?;
            let dependencies = p["dependencies"]
                .as_array()
                .with_context(|| format!("package {name} has no `dependencies`"))?;
            Ok(Package {
                licence: text(p, "license"),
                ours: p["source"].is_null(),
                dependencies: dependencies.iter().filter_map(|d| text(d, "name")).collect(),
                name,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_the_files_in_it() {
        let repo = Repo::of(&[("a/b/c.rs", ""), ("a-x", "")]);
        assert!(
            repo.holds("a") && repo.holds("a/b") && repo.holds("a/b/c.rs") && repo.holds("a-x")
        );
        assert!(!repo.holds("a/c") && !repo.holds("b") && !repo.holds("a/b/c"));
    }

    #[test]
    fn metadata_is_read_and_refused_when_it_is_something_else() {
        let one = r#"{"packages":[{"name":"x","version":"1.0.0","license":"MIT","source":null,
            "dependencies":[{"name":"y","kind":"dev"}]}]}"#;
        let read = packages(one).unwrap();
        assert_eq!(read[0].dependencies, ["y"]);
        assert!(read[0].ours);
        assert!(packages("{}").is_err());
        assert!(packages("no").is_err());
    }
}
