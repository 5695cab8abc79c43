//! FS2 (SOSP 2005): its evaluation reproduced, Tables 2 to 5 and Figures 2, 3 and 8 to 15. The
//! paper's traces cannot be obtained: ours are made up, except for a version-control update that
//! anyone can record. The disks are modelled.

mod claims;
pub mod disk;
mod distances;
mod experiments;
mod figures;
mod further;
mod printed;
mod replay;
mod report;
mod tables;

use std::path::Path;

use crate::{HeadMoves, PaperError, Progress, Reproduction};

/// The experiments of section 4 at `scale`, from `seed`. `real` is a folder with a recorded update;
/// `head_moves` makes the points of a figure of a head's path.
///
/// # Errors
/// If the recorded update cannot be read, or a replay fails.
pub fn reproduce(
    scale: f64,
    seed: u64,
    real: Option<&Path>,
    command: &str,
    head_moves: HeadMoves,
    progress: &Progress<'_>,
) -> Result<Reproduction, PaperError> {
    let results = experiments::run(scale, seed, real, progress)?;
    Ok(report::Shown::new(&results, head_moves)?.reproduction(command))
}
