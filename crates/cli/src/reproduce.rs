//! `seekless reproduce`: papers' tables and figures from our models, with the printed numbers beside ours.

mod borg;
mod eefs;
mod fs2_disk;

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Borg(borg::Args),
    Eefs(eefs::Args),
    /// FS2 (SOSP 2005): what a disk access is made of (Figure 2), access time over seek distance (Figure 8)
    Fs2Disk(Out),
}

/// Where results go.
#[derive(Debug, clap::Args)]
pub(crate) struct Out {
    /// Write a report as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write every figure of the report into this folder, as SVG, PNG and CSV
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Write the numbers as JSON (schema seekless.reproduce/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Borg(args) => borg::run(args),
        Args::Eefs(args) => eefs::run(args),
        Args::Fs2Disk(out) => fs2_disk::run(out),
    }
}
