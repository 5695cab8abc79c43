//! `seekless-lab reproduce`: papers' tables and figures from our models, with the printed numbers beside ours.

mod borg;
mod clustering;
mod eefs;
mod fs2;
mod fs2_disk;

pub(crate) use clustering::Account;

use clap::Subcommand;

use seekless_cli::args::Out;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Borg(borg::Args),
    Clustering(clustering::Args),
    Eefs(eefs::Args),
    Fs2(fs2::Args),
    /// FS2 (SOSP 2005): what a disk access is made of (Figure 2), access time over seek distance (Figure 8)
    Fs2Disk(Out),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Borg(args) => borg::run(args),
        Args::Clustering(args) => clustering::run(args),
        Args::Eefs(args) => eefs::run(args),
        Args::Fs2(args) => fs2::run(args),
        Args::Fs2Disk(out) => fs2_disk::run(out),
    }
}
