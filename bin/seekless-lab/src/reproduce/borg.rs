//! BORG's evaluation (FAST'09, 6): Tables 1 and 4 and Figures 6 to 12, the paper's numbers beside ours. The paper's
//! traces are not to be had: ours are made up to match Table 1, and its disks are modelled.

mod claims;
mod paper;
mod run;
mod show;
mod started;

use std::path::PathBuf;

use seekless_cli::args::Out;

/// Scale of `--quick`.
const QUICK: f64 = 0.05;

/// BORG (FAST 2009): Tables 1 and 4, Figures 6 to 12, from made-up traces that match Table 1 and modelled disks
///
/// What stands in the paper's text and tables is printed beside ours; bars that only its figures have are left
/// empty. Takes minutes in full size.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce borg --quick
  seekless-lab reproduce borg --report borg.html --json borg.json
  seekless-lab reproduce borg --started benches/startup/runs/programs.json")]
pub(crate) struct Args {
    /// A twentieth of the traces, file systems and areas: numbers of the same kind, sooner
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Size of traces, file systems and areas, as a multiple of the paper's: 0.001 to 16
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Seed of all that is made up
    #[arg(long, value_name = "N", default_value_t = seekless_papers::synth::Synthetic::SEED)]
    seed: u64,
    /// Real starts of programs, archived by benches/startup, to be shown with Table 4; may be given again
    #[arg(long, value_name = "FILE")]
    started: Vec<PathBuf>,
    #[command(flatten)]
    out: Out,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let scale = if args.quick { QUICK } else { args.scale };
    let archived = args.started.iter().map(|p| started::read(p)).collect::<Result<Vec<_>, _>>()?;
    let results = run::run(scale, args.seed)?;
    let shown = show::Shown::new(&results, &archived)?;
    let more = args.out.write(&shown.document(), |_| shown.report())?;
    if more {
        shown.print()?;
    }
    Ok(())
}
