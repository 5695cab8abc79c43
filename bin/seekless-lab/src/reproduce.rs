//! `seekless-lab reproduce`: a paper's tables and figures from our models, beside the printed
//! numbers.

mod borg;
mod clustering;
mod eefs;
mod fast10;
mod fs2;

pub(crate) use clustering::account;

use clap::Subcommand;
use seekless_cli::args::{Out, command_line};
use seekless_cli::{figures, output};
use seekless_papers::Reproduction;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Borg(borg::Args),
    Clustering(clustering::Args),
    Eefs(eefs::Args),
    Fast10(fast10::Args),
    Fs2(fs2::Args),
    /// FS2 (SOSP 2005): the parts of a disk access (Figure 2), access time over seek distance
    /// (Figure 8)
    Fs2Disk(Out),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Borg(args) => borg::run(args),
        Args::Clustering(args) => clustering::run(args),
        Args::Eefs(args) => eefs::run(args),
        Args::Fast10(args) => fast10::run(args),
        Args::Fs2(args) => fs2::run(args),
        Args::Fs2Disk(out) => {
            out.ensure_apart_from([])?;
            let disk =
                seekless_papers::fs2::disk::reproduce(&command_line(), figures::access_figure)?;
            show(out, disk, "")
        }
    }
}

/// Writes and prints an experiment's results. `between` follows each table but the last.
fn show(out: &Out, results: Reproduction, between: &str) -> anyhow::Result<()> {
    let Reproduction { opening, tables, closing, document, report } = results;
    if !out.write(&document, |_| report)? {
        return Ok(());
    }
    if !opening.is_empty() {
        output::print(&opening)?;
    }
    let last = tables.len().saturating_sub(1);
    for (i, table) in tables.iter().enumerate() {
        output::tables([table])?;
        if i < last && !between.is_empty() {
            output::print(between)?;
        }
    }
    if closing.is_empty() { Ok(()) } else { output::print(&closing) }
}
