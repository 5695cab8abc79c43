//! `seekless-lab reproduce fast10`.

use std::path::PathBuf;

use anyhow::Context as _;
use seekless_cli::args::Out;
use seekless_papers::fast10::reproduce;
use seekless_workload::study::{Stored, StudyReport};

/// The archived results, from the repository's folder.
const ARCHIVED: &str = "studies/runs/fast10-shared-vm";

/// The study of file systems (FAST 2010): its Table 2 beside archived results of ours
///
/// Nothing is measured here: `seekless-lab study run studies/fast10.toml` measures. The repository
/// has its results.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce fast10
  seekless-lab reproduce fast10 --study fast10-run --json -")]
pub(crate) struct Args {
    /// Folder with the results of a study
    #[arg(long, value_name = "DIR", default_value = ARCHIVED)]
    study: PathBuf,
    #[command(flatten)]
    out: Out,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let stored = Stored::read(&args.study).with_context(|| {
        let dir = args.study.display();
        format!(
            "{dir}: no results of a study; run in the folder of the repository, or give --study DIR"
        )
    })?;
    let results = reproduce(&StudyReport::new(&stored).json(), &super::command())?;
    super::show(&args.out, results, "")
}
