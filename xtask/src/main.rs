//! The project's own checks: `cargo xtask tidy` fails where a rule of the house is broken, and
//! `cargo xtask arrows` prints the table of rooms as ARCHITECTURE.md carries it; `cargo xtask format-doc` writes
//! docs/changing/on-disk-format.md and docs/changing/group-store-format.md.
//!
//! A rule is a pure function of the repository's text ([`repo::Repo`]) and returns findings. This crate knows
//! nothing of what the product does, but for the documents of its on-disk formats, which engine and group store write.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod code;
mod repo;
mod rules;
mod spdx;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => match tidy() {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed("tidy", &error),
        },
        ["format-doc"] => match format_doc() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed("format-doc", &error),
        },
        ["arrows"] => {
            print!("{}", rules::arrows::table());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: cargo xtask tidy         check the rules of the house\n       \
                 cargo xtask arrows       print which room may use which\n       \
                 cargo xtask format-doc   write {}",
                rules::format::documents().map(|d| d.0).join(" and ")
            );
            ExitCode::from(2)
        }
    }
}

fn failed(what: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("{what}: {error:#}");
    ExitCode::from(2)
}

/// The repository's folder.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask`")?;
    Ok(PathBuf::from(manifest).parent().context("xtask has no parent folder")?.to_owned())
}

/// Writes the documents of the on-disk formats.
fn format_doc() -> Result<()> {
    for (name, text) in rules::format::documents() {
        let path = root()?.join(name);
        std::fs::write(&path, text)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
}

/// Whether every rule holds.
fn tidy() -> Result<bool> {
    let root = root()?;
    let repo = repo::Repo::load(&root)?;
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
