//! `seekless-lab reproduce clustering`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use seekless_cli::args::{Out, command_line, number};
use seekless_cli::output::with_bar;
use seekless_papers::clustering::{Effort, Start, reproduce};

/// The clustering paper (CS-TR-283-90): Figures 3 to 12, and the paper's claims beside ours
///
/// The hot data are in the middle of the disk. The command computes the places of accesses, the
/// travel of the arm, the rotational delay (counted exactly), and the effect of a queue. It reads
/// no trace. Figures 7 to 12 show a loaded disk, whose requests are drawn from --seed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce clustering
  seekless-lab reproduce clustering --account arrival --figures out/
  seekless-lab reproduce clustering --runs 30 --json - | jq '.results[] | select(.holds.ours == false)'")]
pub(crate) struct Args {
    /// Runs of the loaded disk for each point; the paper has at least ten
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<u32>("runs", 1..=1000, 10))]
    runs: u32,
    /// Seed of all draws
    #[arg(long, value_name = "N", default_value_t = 1990, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// How to count the delay before the first block: half a revolution, as the paper does, or from
    /// the head's arrival
    #[arg(long, value_parser = account(), default_value = "paper")]
    account: Start,
    #[command(flatten)]
    out: Out,
}

/// Reads a [`Start`] of the command line.
pub(crate) fn account() -> impl TypedValueParser<Value = Start> {
    PossibleValuesParser::new(["paper", "arrival"])
        .map(|word| if word == "paper" { Start::Paper } else { Start::Arrival })
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.out.ensure_apart_from([])?;
    let effort = Effort { runs: args.runs, seed: args.seed, start: args.account };
    let command = command_line();
    super::show(&args.out, with_bar(|p| reproduce(effort, &command, p))?, "\n")
}
