//! `seekless-lab reproduce borg`.

use std::path::PathBuf;

use seekless_cli::args::{Out, command_line, number};
use seekless_cli::output::with_bar;
use seekless_papers::borg::reproduce;

/// Scale of `--quick`.
const QUICK: f64 = 0.05;

/// BORG (FAST 2009): Tables 1 and 4, Figures 6 to 12, from made-up traces that match Table 1 and
/// modelled disks
///
/// The tables show the numbers of the paper's text and tables beside ours. A number that the paper
/// shows only as a bar of a figure is left empty. At full size the command takes minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce borg --quick
  seekless-lab reproduce borg --report borg.html --json borg.json
  seekless-lab reproduce borg --started benches/startup/runs/programs.json")]
pub(crate) struct Args {
    /// A twentieth of the traces, file systems and areas: the same tables in less time
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Size of traces, file systems and areas, as a multiple of the paper's: 0.001 to 16
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = number::<f64>("a multiple", 0.001..=16.0, 0.1))]
    scale: f64,
    /// Seed of the made-up traces
    #[arg(long, value_name = "N", default_value_t = seekless_papers::synth::Synthetic::SEED, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// Show real starts of programs, archived by benches/startup, with Table 4; may be given
    /// several times
    #[arg(long, value_name = "FILE")]
    started: Vec<PathBuf>,
    #[command(flatten)]
    out: Out,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.out.ensure_apart_from(args.started.iter().map(PathBuf::as_path))?;
    let scale = if args.quick { QUICK } else { args.scale };
    let command = command_line();
    let results = with_bar(|p| reproduce(scale, args.seed, &args.started, &command, p))?;
    super::show(&args.out, results, "")
}
