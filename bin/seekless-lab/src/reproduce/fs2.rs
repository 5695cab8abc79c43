//! `seekless-lab reproduce fs2`.

use std::path::PathBuf;

use seekless_cli::args::{Out, command_line, number};
use seekless_cli::figures::head_moves;
use seekless_cli::output::with_bar;
use seekless_papers::fs2::reproduce;

/// Scale of `--quick`.
const QUICK: f64 = 0.2;

/// FS2 (SOSP 2005): Tables 2 to 5, Figures 9 to 15, from made-up loads on an aged file system and a
/// modelled disk
///
/// Each load runs seven times on the disk of FS2's testbed. During the runs, the policy writes
/// replicas into free space. The tables compare the seventh run with the seventh run without
/// replicas, and show the numbers of the paper's text and tables beside ours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce fs2 --quick
  seekless-lab reproduce fs2 --report fs2.html --json fs2.json

  # A real update: git, ext4, the kernel's block events (as root; benches/reproduce/update.sh lists its steps)
  benches/reproduce/update.sh /usr/share update/
  seekless-lab reproduce fs2 --real update/")]
pub(crate) struct Args {
    /// A fifth of the loads: the same tables in less time
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Size of the loads, as a multiple of the paper's: 0.01 to 4
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = number::<f64>("a multiple", 0.01..=4.0, 0.5))]
    scale: f64,
    /// Seed of the made-up loads
    #[arg(long, value_name = "N", default_value_t = seekless_papers::synth::Synthetic::SEED, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// Also show a real update, recorded by benches/reproduce/update.sh: a folder with
    /// free.parquet, whose discards show the free space, and run1.parquet and so on, one a run
    #[arg(long, value_name = "DIR")]
    real: Option<PathBuf>,
    #[command(flatten)]
    out: Out,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.out.ensure_apart_from([])?;
    let scale = if args.quick { QUICK } else { args.scale };
    let (real, command) = (args.real.as_deref(), command_line());
    let results = with_bar(|p| reproduce(scale, args.seed, real, &command, head_moves, p))?;
    super::show(&args.out, results, "")
}
