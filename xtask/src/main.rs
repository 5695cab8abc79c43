//! The project's own checks: `cargo xtask tidy` fails where a rule of the house is broken, and
//! `cargo xtask arrows` prints the table of rooms as ARCHITECTURE.md carries it; `cargo xtask format-doc` writes
//! docs/changing/on-disk-format.md and docs/changing/group-store-format.md; `cargo xtask census` counts what there is to read.
//!
//! A rule is a pure function of the repository's text ([`repo::Repo`]) and returns findings. This crate knows
//! nothing of what the product does, but for the documents of its on-disk formats, which engine and group store write.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod census;
mod code;
mod markdown;
mod names;
mod repo;
mod rules;
mod spdx;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["census", ref options @ ..] => match census(options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => usage(),
            Err(error) => failed("census", &error),
        },
        ["tidy"] => match root().and_then(|root| tidy(&root)) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed("tidy", &error),
        },
        ["tidy", "--root", root] => match tidy(Path::new(root)) {
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
        _ => usage(),
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
        rules::format::documents().map(|d| d.0).join(" and ")
    );
    ExitCode::from(2)
}

/// False where the options are none.
fn census(options: &[&str]) -> Result<bool> {
    let (mut at, mut programs, mut list) = (root()?, Vec::new(), false);
    let mut rest = options;
    loop {
        rest = match rest {
            ["--root", dir, rest @ ..] => {
                at = PathBuf::from(dir);
                rest
            }
            ["--program", program, rest @ ..] => {
                programs.push(*program);
                rest
            }
            ["--list", rest @ ..] => {
                list = true;
                rest
            }
            [] => break,
            _ => return Ok(false),
        };
    }
    census::print(&at, &programs, list)?;
    Ok(true)
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

fn format_doc() -> Result<()> {
    for (name, text) in rules::format::documents() {
        let path = root()?.join(name);
        std::fs::write(&path, text)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
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
