//! `seekless-lab reproduce fast10`.

use std::path::PathBuf;

use anyhow::Context as _;
use seekless_cli::args::{Out, command_line};
use seekless_papers::fast10::reproduce;
use seekless_workload::study::{Stored, StudyReport};

/// The archived results, from the repository's folder.
const ARCHIVED: &str = "studies/runs/fast10-shared-vm";

/// The study of file systems (FAST 2010): its Table 2 beside archived results of ours
///
/// This command measures nothing: `seekless-lab study run` measures `studies/fast10.toml` and
/// `studies/micro.toml`. The repository has results of `studies/fast10.toml`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce fast10
  seekless-lab reproduce fast10 --study fast10-run --json -")]
pub(crate) struct Args {
    /// Folder with the results of a study; may be repeated
    #[arg(long, value_name = "DIR", default_value = ARCHIVED)]
    study: Vec<PathBuf>,
    #[command(flatten)]
    out: Out,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.out.ensure_apart_from([])?;
    let studies = args.study.iter().map(|dir| {
        let stored = Stored::read(dir).with_context(|| {
            let dir = dir.display();
            format!(
                "{dir}: no results of a study; run in the folder of the repository, or give --study DIR"
            )
        })?;
        Ok(StudyReport::new(&stored).json())
    });
    let studies = studies.collect::<anyhow::Result<Vec<_>>>()?;
    super::show(&args.out, reproduce(&studies, &command_line())?, "")
}
