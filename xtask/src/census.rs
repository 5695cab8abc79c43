//! `cargo xtask census`: how much there is to read, by folder, so that before and after can be compared. It knows nothing of
//! how the folders lie, and so counts older trees too. It measures; it refuses nothing.

mod source;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::repo::Repo;
use source::Source;

/// Longer files and functions are counted.
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 60;

/// What is counted of a package, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    files: usize,
    /// Lines that are no test.
    lines: usize,
    /// Of these, those with code.
    code: usize,
    test_lines: usize,
    long_files: usize,
    long_functions: usize,
    public: usize,
    /// Public items whose names stand in no other package.
    unused: usize,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.lines += other.lines;
        self.code += other.code;
        self.test_lines += other.test_lines;
        self.long_files += other.long_files;
        self.long_functions += other.long_functions;
        self.public += other.public;
        self.unused += other.unused;
    }
}

/// Prints the census of the repository at `root`, and the verbs and flags of these programs. With `list`, what is long and
/// what nobody else uses by name.
pub(crate) fn print(root: &Path, programs: &[&str], list: bool) -> Result<()> {
    let repo = Repo::files_of(root)?;
    let sources = sources(&repo);
    let unused = unused(&sources);
    let mut packages: BTreeMap<&str, Sums> = BTreeMap::new();
    for source in &sources {
        packages.entry(source.package).or_default().add(&sums(source));
    }
    for (package, names) in &unused {
        packages.entry(package).or_default().unused = names.len();
    }
    println!(
        "{:<22}{:>6}{:>8}{:>8}{:>8}{:>11}{:>10}{:>8}{:>8}",
        "folder", "files", "lines", "code", "tests", "files>600", "fns>60", "public", "unused"
    );
    let mut all = Sums::default();
    for (package, s) in &packages {
        row(package, s);
        all.add(s);
    }
    row("all", &all);
    println!(
        "\nlines: source without tests; code: of these, neither empty nor a comment; tests: lines of tests and benches.\n\
         files>600 and fns>60: of the source without tests. unused: public items whose name stands in no other package."
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

fn row(name: &str, s: &Sums) {
    println!(
        "{name:<22}{:>6}{:>8}{:>8}{:>8}{:>11}{:>10}{:>8}{:>8}",
        s.files, s.lines, s.code, s.test_lines, s.long_files, s.long_functions, s.public, s.unused
    );
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

fn sums(source: &Source<'_>) -> Sums {
    Sums {
        files: 1,
        lines: source.lines,
        code: source.code_lines,
        test_lines: source.test_lines,
        long_files: usize::from(source.lines > FILE_LINES),
        long_functions: source.functions.iter().filter(|f| f.2 > FUNCTION_LINES).count(),
        public: source.public.len(),
        unused: 0,
    }
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
        sources.iter().filter(|s| s.package == "crates/a").for_each(|s| a.add(&sums(s)));
        let expected =
            Sums { files: 2, lines: 6, code: 4, test_lines: 6, public: 2, ..Sums::default() };
        assert_eq!(a, expected);
        let unused = unused(&sources);
        assert_eq!(unused.len(), 1);
        assert_eq!(unused["crates/a"].iter().collect::<Vec<_>>(), ["alone"]);
    }
}
