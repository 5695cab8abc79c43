//! `cargo xtask census`: the amount of code by package, to compare two trees. The folders can have
//! any names. The census refuses nothing.

mod source;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

use anyhow::Result;

use crate::repo::Repo;
use source::Source;

/// Longer files and functions are counted.
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 60;

/// The columns and their widths.
const COLUMNS: [(&str, usize); 8] = [
    ("files", 6),
    ("lines", 8),
    ("code", 8),
    ("tests", 8),
    ("files>600", 11),
    ("fns>60", 10),
    ("public", 8),
    ("unused", 8),
];
/// A number for each column.
type Sums = [usize; COLUMNS.len()];

/// Prints the census of the repository at `root`, and the verbs and flags of these programs. With
/// `list`, also the long files and functions, and the unused public items.
pub(crate) fn print(root: &Path, programs: &[&str], list: bool) -> Result<()> {
    let repo = Repo::files_of(root)?;
    let sources = sources(&repo);
    let unused = unused(&sources);
    let mut packages: BTreeMap<&str, Sums> = BTreeMap::new();
    for source in &sources {
        add(packages.entry(source.package).or_default(), sums(source));
    }
    for (package, names) in &unused {
        packages.entry(package).or_default()[COLUMNS.len() - 1] = names.len();
    }
    row("folder", COLUMNS.map(|c| c.0));
    let mut all = Sums::default();
    for (package, sums) in &packages {
        row(package, *sums);
        add(&mut all, *sums);
    }
    row("all", all);
    println!(
        "\nlines: source without tests; code: of these, neither empty nor a comment; \
         tests: lines of tests and benches.\n\
         files>600 and fns>60: of the source without tests. \
         unused: public items whose name stands in no other package."
    );
    let tests = |s: &&Source<'_>| s.test_lines > FILE_LINES && s.lines == 0;
    println!("files of tests over {FILE_LINES} lines: {}", sources.iter().filter(tests).count());
    for program in programs {
        println!("\n{}", verbs::count(program)?);
    }
    if list {
        details(&sources, &unused);
    }
    Ok(())
}

fn row<T: Display>(name: &str, cells: [T; COLUMNS.len()]) {
    let cells = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:>width$}"));
    println!("{name:<22}{}", cells.collect::<String>());
}

fn add(to: &mut Sums, sums: Sums) {
    to.iter_mut().zip(sums).for_each(|(to, n)| *to += n);
}

fn details(sources: &[Source<'_>], unused: &BTreeMap<&str, BTreeSet<String>>) {
    println!("\nfiles over {FILE_LINES} lines");
    for s in sources.iter().filter(|s| s.lines > FILE_LINES) {
        println!("  {} {}", s.path, s.lines);
    }
    println!("\nfunctions over {FUNCTION_LINES} lines");
    for s in sources {
        for (name, line, lines) in s.functions.iter().filter(|f| f.2 > FUNCTION_LINES) {
            println!("  {}:{line} {name} {lines}", s.path);
        }
    }
    println!("\npublic, and in no other package");
    for (package, names) in unused {
        println!("  {package}: {}", names.iter().cloned().collect::<Vec<_>>().join(" "));
    }
}

fn sums(s: &Source<'_>) -> Sums {
    let long = s.functions.iter().filter(|f| f.2 > FUNCTION_LINES).count();
    let long_file = usize::from(s.lines > FILE_LINES);
    [1, s.lines, s.code_lines, s.test_lines, long_file, long, s.public.len(), 0]
}

/// Every Rust file below a package.
fn sources(repo: &Repo) -> Vec<Source<'_>> {
    let packages: BTreeSet<&str> =
        repo.ending("Cargo.toml").filter_map(|(p, _)| p.strip_suffix("/Cargo.toml")).collect();
    repo.ending(".rs")
        .filter_map(|(path, text)| {
            let mut folders = path.match_indices('/').map(|(at, _)| &path[..at]);
            let package = folders.rfind(|f| packages.contains(f))?;
            let library = repo.text(&format!("{package}/src/lib.rs")).is_some();
            Some(Source::read(package, path, text, library))
        })
        .collect()
}

/// Names of public items that stand in no other package, by package.
fn unused<'a>(sources: &[Source<'a>]) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        for word in &source.words {
            users.entry(word).or_default().insert(source.package);
        }
    }
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        for name in &source.public {
            if users.get(name.as_str()).is_none_or(|p| p.len() < 2) {
                found.entry(source.package).or_default().insert(name.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_counted_wherever_they_lie() {
        let lib = "//! Lib.\npub fn used() {}\npub fn alone() {\n}\npub(crate) fn inner() {}\n\n#[cfg(test)]\nmod tests {\n  fn t() {}\n}\n";
        let repo = Repo::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", lib),
            ("crates/a/tests/t.rs", "//! T.\nfn t() {}\n"),
            ("deep/er/b/Cargo.toml", ""),
            (
                "deep/er/b/src/main.rs",
                "//! Main.\nfn main() { a::used() }\npub fn of_a_program() {}\n",
            ),
            ("loose.rs", "fn x() {}"),
        ]);
        let sources = sources(&repo);
        let mut a = Sums::default();
        sources.iter().filter(|s| s.package == "crates/a").for_each(|s| add(&mut a, sums(s)));
        assert_eq!(a, [2, 6, 4, 6, 0, 0, 2, 0]);
        let unused = unused(&sources);
        assert_eq!(unused.len(), 1);
        assert_eq!(unused["crates/a"].iter().collect::<Vec<_>>(), ["alone"]);
    }
}
