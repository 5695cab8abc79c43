//! `seekless volume`: administration of a volume and its area. This module parses arguments, calls
//! `seekless_serve::control` and `seekless_serve::area`, and prints.

mod control;
mod format;
mod offline;
mod replicate;
mod rescue;

use std::path::PathBuf;

use clap::Subcommand;

pub(crate) use format::share;

/// A verb for a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Format(format::FormatArgs),
    Status(control::StatusArgs),
    Replan(control::ReplanArgs),
    Mode(control::ModeArgs),
    Drain(control::DrainArgs),
    Prove(control::ProveArgs),
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
        Args::Prove(args) => control::prove(args),
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
    /// The served file or block device
    pub(crate) backing: PathBuf,
    /// The area of the volume, if the area is not within the backing
    #[arg(long, value_name = "FILE-or-DEVICE")]
    pub(crate) area: Option<PathBuf>,
}
