//! The project's own checks. `cargo xtask` lists the commands.
//!
//! A rule is a pure function of the repository's text ([`repo::Repo`]) and returns findings. This
//! crate knows nothing of the product, except the documents of its on-disk formats.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod census;
mod code;
mod markdown;
mod names;
mod repo;
mod rules;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["census", ref options @ ..] => census(options),
        ["tidy"] => root().and_then(|root| tidy(&root)),
        ["tidy", "--root", root] => tidy(Path::new(root)),
        ["format-doc"] => format_doc(),
        ["arrows"] => {
            print!("{}", rules::arrows::table());
            Ok(true)
        }
        _ => return usage(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error:#}", args[0]);
            ExitCode::from(2)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: cargo xtask tidy [--root DIR]   check the rules of the house\n       \
         cargo xtask arrows              print which room may use which\n       \
         cargo xtask census [--root DIR] [--program PATH]... [--list]\n       \
         {:<32}count lines, long files and functions, public items, verbs and flags\n       \
         cargo xtask format-doc          write {}",
        "",
        rules::format::documents()
            .map(|d| d.0)
            .into_iter()
            .chain([rules::unsafe_code::DOCUMENT])
            .collect::<Vec<_>>()
            .join(" and ")
    );
    ExitCode::from(2)
}

fn census(options: &[&str]) -> Result<bool> {
    let (mut at, mut programs, mut list) = (root()?, Vec::new(), false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--root" => at = options.next().context("--root needs a folder")?.into(),
            "--program" => programs.push(*options.next().context("--program needs a path")?),
            "--list" => list = true,
            other => bail!("{other} is not an option; see `cargo xtask`"),
        }
    }
    census::print(&at, &programs, list)?;
    Ok(true)
}

/// The repository's folder.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask`")?;
    Ok(PathBuf::from(manifest).parent().context("xtask has no parent folder")?.to_owned())
}

fn format_doc() -> Result<bool> {
    let root = root()?;
    let list = rules::unsafe_code::document(&repo::Repo::files_of(&root)?);
    let list = [(rules::unsafe_code::DOCUMENT, list)];
    for (name, text) in rules::format::documents().into_iter().chain(list) {
        let path = root.join(name);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, [rules::format::by_hand(&old), &text].concat())
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(true)
}

fn tidy(root: &Path) -> Result<bool> {
    let repo = repo::Repo::load(root)?;
    let mut broken = 0;
    for (name, rule) in rules::ALL {
        for finding in rule(&repo) {
            println!("{name}: {finding}");
            broken += 1;
        }
    }
    for (path, lines) in rules::size::long(&repo) {
        println!("note: {path} has {lines} lines: ask why");
    }
    println!("tidy: {} files, {} rules, {broken} findings", repo.paths().count(), rules::ALL.len());
    Ok(broken == 0)
}
