//! BORG (FAST 2009): its evaluation reproduced, Tables 1 and 4 and Figures 6 to 12. The paper's
//! traces cannot be obtained: ours are made up to match Table 1. The paper's disks are modelled.

mod archive;
mod claims;
mod experiments;
mod phases;
mod plans;
mod printed;
mod replay;
mod report;
mod start_up;

use std::path::PathBuf;

use crate::{PaperError, Progress, Reproduction};

/// The experiments of section 6 at `scale`, from `seed`. `started` are archives of real starts,
/// shown with Table 4.
///
/// # Errors
/// If an archive cannot be read, or a replay fails.
pub fn reproduce(
    scale: f64,
    seed: u64,
    started: &[PathBuf],
    command: &str,
    progress: &Progress<'_>,
) -> Result<Reproduction, PaperError> {
    let archived = started.iter().map(|p| archive::read(p)).collect::<Result<Vec<_>, _>>()?;
    let results = experiments::run(scale, seed, progress)?;
    report::Shown::new(&results, &archived)?.reproduction(command)
}
