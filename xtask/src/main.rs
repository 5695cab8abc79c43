//! The project's own checks: `cargo xtask tidy` fails where a rule of the house is broken, and
//! `cargo xtask arrows` prints the table of rooms as ARCHITECTURE.md carries it.
//!
//! A rule is a pure function of the repository's text ([`repo::Repo`]) and returns findings. This crate knows
//! nothing of what the product does.
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
            Err(error) => {
                eprintln!("tidy: {error:#}");
                ExitCode::from(2)
            }
        },
        ["arrows"] => {
            print!("{}", rules::arrows::table());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: cargo xtask tidy     check the rules of the house\n       \
                 cargo xtask arrows   print which room may use which"
            );
            ExitCode::from(2)
        }
    }
}

/// Whether every rule holds.
fn tidy() -> Result<bool> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask tidy`")?;
    let root = PathBuf::from(manifest).parent().context("xtask has no parent folder")?.to_owned();
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
