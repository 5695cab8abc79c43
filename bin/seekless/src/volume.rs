//! `seekless volume`: a volume and its area in the hands of its administrator. Arguments in,
//! `seekless_serve::control` and `seekless_serve::area` called, words out.

mod control;
mod format;
mod offline;
mod replicate;
mod rescue;

use std::path::PathBuf;

use clap::Subcommand;

/// What is to be done to a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Format(format::FormatArgs),
    Status(control::StatusArgs),
    Replan(control::ReplanArgs),
    Mode(control::ModeArgs),
    Drain(control::DrainArgs),
    Detach(control::DetachArgs),
    Check(offline::CheckArgs),
    Repair(offline::RepairArgs),
    Dump(offline::DumpArgs),
    Resize(offline::ResizeArgs),
    Rescue(rescue::Args),
    Replicate(replicate::ReplicateArgs),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Format(args) => format::format(args),
        Args::Status(args) => control::status(args),
        Args::Replan(args) => control::replan(args),
        Args::Mode(args) => control::mode(args),
        Args::Drain(args) => control::drain(args),
        Args::Detach(args) => control::detach(args),
        Args::Check(args) => offline::check(args),
        Args::Repair(args) => offline::repair(args),
        Args::Dump(args) => offline::dump(args),
        Args::Resize(args) => offline::resize(args),
        Args::Rescue(args) => rescue::run(args),
        Args::Replicate(args) => replicate::replicate(args),
    }
}

/// A volume.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VolumeArgs {
    /// The file or block device that is served
    pub(crate) backing: PathBuf,
    /// Its area, where that is not within the backing
    #[arg(long, value_name = "FILE-or-DEVICE")]
    pub(crate) area: Option<PathBuf>,
}
